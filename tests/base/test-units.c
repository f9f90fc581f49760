/* test-units.c: numbers with units, words, errors.  SPDX-License-Identifier: MIT */
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/base/words.h"
#include "tests/testing.h"

typedef bool (*Parse) (const char *text, int64_t *ret, GError **error);

typedef struct {
  const char *text;
  int64_t value; /* -1: refused */
} Case;

static void
run_cases (Parse parse, const Case *cases, size_t n_cases)
{
  for (size_t i = 0; i < n_cases; i++) {
    g_autoptr (GError) error = NULL;
    int64_t value = -77;
    bool ok = parse (cases[i].text, &value, &error);

    if (ok != (cases[i].value >= 0) || (ok ? value != cases[i].value : value != -77))
      g_printerr ("# '%s': %d, %" G_GINT64_FORMAT "\n", cases[i].text, ok, value);
    CU_ASSERT_EQUAL (ok, cases[i].value >= 0);
    CU_ASSERT_EQUAL (value, ok ? cases[i].value : -77);
    CU_ASSERT_EQUAL (error == NULL, ok);
    CU_ASSERT_EQUAL (parse (cases[i].text, &value, NULL), ok);
  }
}

static void
bytes_are_read_with_their_unit (void)
{
  static const Case cases[] = {
    { "80 GB", INT64_C (80000000000) },
    { "80 GiB", INT64_C (85899345920) },
    { "80GiB", INT64_C (85899345920) },
    { "1.5 KiB", 1536 },
    { "39.39 GiB", INT64_C (42294690447) },
    { "9481 MiB", INT64_C (9481) << 20 },
    { "0.5 B", 0 }, /* ties to even */
    { "1.5 B", 2 },
    { "2.5 B", 2 },
    { "2.5000000000000000001 B", 3 },
    { "1e3 MB", 1000000000 },
    { "8 B", 8 },
    { " 2 TiB ", INT64_C (2) << 40 },
    { "0", 0 },
    { "9223372036854775807 B", INT64_MAX },
    { "9223372036854775808 B", -1 },
    { "8192 PiB", -1 },
    { "1e300 GiB", -1 },
    { "1e-300 GiB", 0 },
    { "1e99999999999 B", -1 },
    { "80", -1 },
    { "80 G", -1 },
    { "80 Gb", -1 },
    { "80 gib", -1 },
    { "-1 GB", -1 },
    { "GB", -1 },
    { "", -1 },
    { "1 GB/s", -1 },
    { "nan GB", -1 },
    { "0x10 GB", -1 },
    { "1..5 GB", -1 },
    { "1,5 GB", -1 },
  };

  run_cases (zs_bytes_parse, cases, G_N_ELEMENTS (cases));
}

static void
bits_are_not_bytes (void)
{
  static const Case cases[] = {
    { "25 GB/s", INT64_C (25000000000) },
    { "23 GiB/s", INT64_C (23) << 30 },
    { "400 Gb/s", INT64_C (50000000000) },
    { "100 Gbps", INT64_C (12500000000) },
    { "3 b/s", 0 },
    { "12 b/s", 2 },
    { "25 GT/s", -1 },
    { "25 GB", -1 },
    { "25", -1 },
  };

  run_cases (zs_rate_parse, cases, G_N_ELEMENTS (cases));
}

static void
times_and_counts_are_read (void)
{
  static const Case times[] = {
    { "5 us", 5 * ZS_MICROSECOND },
    { "5 µs", 5 * ZS_MICROSECOND },
    { "3 ms", 3 * ZS_MILLISECOND },
    { "2 s", 2 * ZS_SECOND },
    { "1.5 min", 90 * ZS_SECOND },
    { "0.4 ns", 400 },
    { "200 days", -1 },
    { "3000 h", -1 },
  };
  static const Case counts[] = {
    { "5e8", 500000000 }, { "2.0", 2 },   { "1E+9", 1000000000 }, { "0", 0 },   { "1.5", -1 },
    { "15e-1", -1 },      { "20e-1", 2 }, { "1 GB", -1 },         { "", -1 },   { "1e19", -1 },
    { "nan", -1 },        { "inf", -1 },  { "0x10", -1 },         { "1e", -1 },
  };
  static const Case messages[] = {
    { "8", 8 },          { "1M", 1 << 20 },      { "8G", INT64_C (8) << 30 },
    { "16m", 16 << 20 }, { "1 GB", 1000000000 }, { "-8", -1 },
    { "8Q", -1 },
  };

  run_cases (zs_time_parse, times, G_N_ELEMENTS (times));
  run_cases (zs_count_parse, counts, G_N_ELEMENTS (counts));
  run_cases (zs_message_size_parse, messages, G_N_ELEMENTS (messages));
}

static void
check_text (char *text, const char *expected)
{
  if (strcmp (text, expected) != 0)
    g_printerr ("# '%s' is not '%s'\n", text, expected);
  CU_ASSERT_STRING_EQUAL (text, expected);
  g_free (text);
}

static void
numbers_are_printed_with_their_unit (void)
{
  check_text (zs_bytes_format (0), "0 B");
  check_text (zs_bytes_format (1023), "1023 B");
  check_text (zs_bytes_format (INT64_C (80) << 30), "80 GiB");
  check_text (zs_bytes_format (INT64_C (42294690447)), "39.39 GiB");
  check_text (zs_bytes_format ((INT64_C (1) << 30) - 1), "1 GiB");
  check_text (zs_bytes_format (-1536), "-1.5 KiB");
  check_text (zs_bytes_format (INT64_MAX), "8192 PiB");
  check_text (zs_rate_format (INT64_C (25000000000)), "25 GB/s");
  check_text (zs_time_format (1234567890123), "1.235 s");
  check_text (zs_time_format (12500000000), "12.5 ms");
  check_text (zs_time_format (999999), "1 us");
  check_text (zs_time_format (0), "0 ps");
  check_text (zs_count_format (INT64_C (6738415616)), "6,738,415,616");
  check_text (zs_count_format (-100), "-100");
}

/* What is printed reads back as nearly the same (seed printed on failure). */
static void
printed_sizes_read_back (void)
{
  guint32 seed = 20240611;
  GRand *random = g_rand_new_with_seed (seed);

  for (int i = 0; i < 2000; i++) {
    int64_t bytes = (int64_t)(((uint64_t)g_rand_int (random) << 32 | g_rand_int (random))
                              >> g_rand_int_range (random, 1, 63));
    g_autofree char *text = zs_bytes_format (bytes);
    g_autofree char *exact = g_strdup_printf ("%" G_GINT64_FORMAT " B", bytes);
    int64_t back = -1;

    if (bytes < INT64_MAX - (INT64_C (1) << 53)) {
      CU_ASSERT_TRUE (zs_bytes_parse (text, &back, NULL));
      if (llabs (back - bytes) > bytes / 190)
        g_printerr ("# seed %u: %s\n", seed, text);
      CU_ASSERT_TRUE (llabs (back - bytes) <= bytes / 190); /* 0.005 of at least 1 */
    }
    CU_ASSERT_TRUE (zs_bytes_parse (exact, &back, NULL));
    CU_ASSERT_EQUAL (back, bytes);
  }
  g_rand_free (random);
}

static void
nearest_words_are_near (void)
{
  static const char *const words[] = { "stage", "offload_param", "offload_optimizer",
                                       "overlap_comm", NULL };

  CU_ASSERT_STRING_EQUAL (zs_nearest_word ("stgae", words), "stage");
  CU_ASSERT_STRING_EQUAL (zs_nearest_word ("Stage", words), "stage");
  CU_ASSERT_STRING_EQUAL (zs_nearest_word ("ofload_optimiser", words), "offload_optimizer");
  CU_ASSERT_STRING_EQUAL (zs_nearest_word ("overlap", words), "overlap_comm");
  CU_ASSERT_PTR_NULL (zs_nearest_word ("micro_batch", words));
  CU_ASSERT_EQUAL (zs_word_distance ("ab", "ba"), 1);
  CU_ASSERT_EQUAL (zs_word_distance ("", "abc"), 3);
}

static void
ten_errors_are_kept_and_the_others_counted (void)
{
  g_autoptr (ZsErrors) errors = zs_errors_new ();

  for (int i = 0; i < 13; i++)
    CU_ASSERT_FALSE (zs_errors_add (errors, "error %d", i));
  CU_ASSERT_EQUAL (zs_errors_count (errors), 13);
  g_autofree char *text = zs_errors_text (errors);
  CU_ASSERT_PTR_NOT_NULL (strstr (text, "error 9\n3 more errors\n"));
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "bytes are read with their unit", bytes_are_read_with_their_unit },
    { "bits are not bytes", bits_are_not_bytes },
    { "times and counts are read", times_and_counts_are_read },
    { "numbers are printed with their unit", numbers_are_printed_with_their_unit },
    { "printed sizes read back", printed_sizes_read_back },
    { "nearest words are near", nearest_words_are_near },
    { "ten errors are kept and the others counted", ten_errors_are_kept_and_the_others_counted },
    CU_TEST_INFO_NULL
  };

  return testing_main ("units", tests);
}
