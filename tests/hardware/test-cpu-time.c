/* test-cpu-time.c: passes over large buffers and page faults, against tests/data/offload.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <math.h>
#include <stdio.h>

#include <glib.h>

#include "sim/hardware/kernel-time.h"
#include "tests/testing.h"

static const ZsHost HOST = { .speed = 1.0, .memory_rate = INT64_C (125000000000), .cores = 16 };

/* Calls WORK with the cells of each line of tests/data/offload/NAME but the first. */
static void
each_row (const char *name, int n_cells, void (*work) (char **cells, void *data), void *data)
{
  g_autofree char *relative = g_strconcat ("tests/data/offload/", name, NULL);
  g_autofree char *path = testing_source_path (relative), *text = NULL;

  if (!g_file_get_contents (path, &text, NULL, NULL)) {
    CU_FAIL ("missing data");
    return;
  }
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  for (int i = 1; lines[i] != NULL && lines[i][0] != '\0'; i++) {
    g_auto (GStrv) cells = g_strsplit (lines[i], "\t", -1);

    CU_ASSERT_EQUAL_FATAL ((int) g_strv_length (cells), n_cells);
    work (cells, data);
  }
}

static double
task_us (ZsCpuTask task, int64_t elements, int threads)
{
  int64_t traffic;

  return (double) zs_cpu_task_time (&HOST, task, elements, threads, &traffic) / ZS_MICROSECOND;
}

/* Is PREDICTED within a factor of 1 + BELOW below and 1 + ABOVE above MEASURED? */
static bool
close_to (const char *what, double predicted, double measured, double below, double above)
{
  bool good = predicted * (1 + below) >= measured && predicted <= measured * (1 + above);

  if (!good)
    printf ("# %s: %.1f predicted, %.1f measured\n", what, predicted, measured);
  return good;
}

typedef struct {
  int    n;
  double product, adam, cast;   /* ms of one update, as its lines come */
} Update;

static void
update_row (char **cells, void *data)
{
  Update *update = data;
  int64_t elements = g_ascii_strtoll (cells[4], NULL, 10);
  double ms = g_ascii_strtod (cells[6], NULL);

  if (!g_str_equal (cells[3], "z3 all on the host") || g_str_equal (cells[1], "0"))
    return;
  if (g_str_equal (cells[5], "mul"))
    update->product = ms;
  else if (g_str_equal (cells[5], "adam"))
    update->adam = ms;
  else if (g_str_equal (cells[5], "cast")) {
    double product = task_us (ZS_CPU_SCALE, elements, 16) / 1e3, adam = task_us (ZS_CPU_ADAM, elements, 16) / 1e3;
    double cast = task_us (ZS_CPU_CAST, elements, 16) / 1e3;

    CU_ASSERT_TRUE (close_to ("product", product, update->product, 0.1, 0.3));
    CU_ASSERT_TRUE (close_to ("Adam", adam, update->adam, 0.1, 0.35));
    CU_ASSERT_TRUE (close_to ("cast", cast, ms, 0.15, 0.3));
    CU_ASSERT_TRUE (close_to ("update", product + adam + cast, update->product + update->adam + ms, 0.05, 0.2));
    update->n++;
  }
}

static void
updates_take_what_they_took (void)
{
  Update update = { 0 };

  each_row ("passes.tsv", 8, update_row, &update);
  CU_ASSERT_TRUE (update.n >= 10);
}

static void
pass_row (char **cells, void *data)
{
  static const struct { const char *what; ZsCpuTask task; } PASSES[] = {
    { "mul_ fp32 pinned", ZS_CPU_SCALE }, { "mul_ fp32 pageable", ZS_CPU_SCALE },
    { "cast fp32->bf16 touched", ZS_CPU_CAST }, { "cast bf16->fp32 pageable", ZS_CPU_CAST },
    { "add_ fp32 pinned += pageable", ZS_CPU_ADD }, { "norm fp32 pinned", ZS_CPU_NORM },
  };
  int64_t elements = g_ascii_strtoll (cells[2], NULL, 10);

  if (elements < 100000000)
    return;
  for (size_t i = 0; i < G_N_ELEMENTS (PASSES); i++)
    if (g_str_equal (cells[1], PASSES[i].what)) {
      CU_ASSERT_TRUE (close_to (cells[1], task_us (PASSES[i].task, elements, atoi (cells[0])),
                                g_ascii_strtod (cells[3], NULL), 0.15, 0.35));
      ++*(int *) data;
    }
}

static void
passes_take_what_they_took (void)
{
  int n = 0;

  each_row ("operations.tsv", 6, pass_row, &n);
  CU_ASSERT_TRUE (n >= 12);
}

/* A temporary of 16 bit per element pays for its pages from 32 MiB on, each time; smaller ones do not. */
static void
fault_row (char **cells, void *data)
{
  int64_t bytes = 2 * g_ascii_strtoll (cells[2], NULL, 10), n_faults = g_ascii_strtoll (cells[5], NULL, 10);
  int threads = atoi (cells[0]);

  if (!g_str_has_prefix (cells[1], "d2h bf16->fp32 pinned, blocking"))
    return;
  ++*(int *) data;
  CU_ASSERT_EQUAL (zs_host_fault_cost (bytes, threads, true) > 0, n_faults > 0);
  if (n_faults > 0)
    CU_ASSERT_TRUE (n_faults >= bytes / 4096);
}

/* isinf and isnan: without pages below 32 MiB of |x|; above, three temporaries of 4, 1 and 1 bytes take theirs. */
static void
check_row (char **cells, void *data)
{
  int64_t elements = g_ascii_strtoll (cells[2], NULL, 10);
  int threads = atoi (cells[0]);
  double pages = 0;

  if (!g_str_has_prefix (cells[1], "isinf and isnan") || elements < 2000000)
    return;
  for (int i = 0; i < 3; i++)
    {
      int64_t bytes = i == 0 ? 4 * elements : elements;

      pages += (double) (zs_host_fault_cost (bytes, threads, false) + zs_host_return_cost (bytes)) / ZS_MICROSECOND;
    }
  CU_ASSERT_TRUE (close_to (cells[1], task_us (ZS_CPU_CHECK, elements, threads) + pages,
                            g_ascii_strtod (cells[3], NULL), 0.3, 0.25));
  ++*(int *) data;
}

static void
overflow_checks_take_what_they_took (void)
{
  int n = 0;

  each_row ("operations.tsv", 6, check_row, &n);
  CU_ASSERT_EQUAL (n, 8);
}

static void
small_temporaries_keep_their_pages (void)
{
  int n = 0;

  each_row ("operations.tsv", 6, fault_row, &n);
  CU_ASSERT_TRUE (n >= 20);
  CU_ASSERT_EQUAL (zs_host_fault_cost ((32 << 20) - 1, 16, false), 0);
  CU_ASSERT_TRUE (zs_host_fault_cost (32 << 20, 16, false) < zs_host_fault_cost (32 << 20, 1, false));
  CU_ASSERT_TRUE (zs_host_fault_cost (32 << 20, 1, false) < zs_host_fault_cost (32 << 20, 1, true));
}

typedef struct {
  int64_t bytes;
  int     threads;
  double  touched, fresh;
} Pair;

static void
fresh_row (char **cells, void *data)
{
  Pair *pairs = data;
  int64_t elements = g_ascii_strtoll (cells[2], NULL, 10);
  int which = g_str_has_prefix (cells[1], "d2h bf16->bf16 pageable") ? 0
              : g_str_has_prefix (cells[1], "cast fp32->bf16") ? 1 : -1;

  if (which < 0 || elements != 154480640)
    return;
  Pair *pair = &pairs[2 * which + g_str_equal (cells[0], "1")];

  pair->bytes = 2 * elements;
  pair->threads = atoi (cells[0]);
  *(g_str_has_suffix (cells[1], "fresh") ? &pair->fresh : &pair->touched) = g_ascii_strtod (cells[3], NULL);
}

static void
first_touches_cost_what_they_cost (void)
{
  Pair pairs[4] = { 0 };

  each_row ("operations.tsv", 6, fresh_row, pairs);
  for (int i = 0; i < 4; i++) {
    bool copied = i < 2;
    /* the loops keep the last result beyond the clock: only the touching is in the rows of casts */
    double measured = pairs[i].fresh - pairs[i].touched;
    double predicted = (double) zs_host_fault_cost (pairs[i].bytes, pairs[i].threads, copied) / ZS_MICROSECOND;

    CU_ASSERT_TRUE (close_to (copied ? "copy" : "cast", predicted, measured, 0.25, 0.25));
  }
}

/* Shards of a shape in its last turn: copy, pages, conversion, against the sum. */
typedef struct {
  char   *shape;
  double  predicted, measured;
  int     n;
} Shards;

static void
end_shape (Shards *shards)
{
  if (shards->shape != NULL) {
    CU_ASSERT_TRUE (close_to (shards->shape, shards->predicted, shards->measured, 0.3, 0.15));
    printf ("# blocking copies of %s: %.1f ms predicted, %.1f measured\n", shards->shape, shards->predicted / 1e3,
            shards->measured / 1e3);
    shards->n++;
  }
  g_free (shards->shape);
  *shards = (Shards) { .n = shards->n };
}

static void
shard_row (char **cells, void *data)
{
  Shards *shards = data;
  int64_t elements = g_ascii_strtoll (cells[3], NULL, 10), n = g_ascii_strtoll (cells[4], NULL, 10);
  double copy = 22 + (double) elements * 2 / 16.5e3;   /* us: 16.5 GB/s from pageable memory, as the topology has it */
  double pages = (double) (zs_host_fault_cost (2 * elements, 16, true) + zs_host_return_cost (2 * elements))
                 / ZS_MICROSECOND;

  if (atoi (cells[1]) < (g_str_has_prefix (cells[0], "llama-7b") ? 1 : 3))
    return;
  if (shards->shape != NULL && !g_str_equal (shards->shape, cells[0]))
    end_shape (shards);
  if (shards->shape == NULL)
    shards->shape = g_strdup (cells[0]);
  shards->predicted += (double) n * (copy + pages + task_us (ZS_CPU_WIDEN, elements, 16));
  shards->measured += g_ascii_strtod (cells[6], NULL);
}

static void
blocking_copies_of_shards_take_what_they_took (void)
{
  Shards shards = { 0 };

  each_row ("shards.tsv", 8, shard_row, &shards);
  end_shape (&shards);
  CU_ASSERT_EQUAL (shards.n, 4);
}

static void
more_threads_never_take_longer (void)
{
  for (ZsCpuTask task = 0; task < ZS_N_CPU_TASKS; task++)
    for (int64_t elements = 1000; elements < 1000000000; elements *= 10) {
      double before = INFINITY;

      for (int threads = task == ZS_CPU_WIDEN ? 2 : 1; threads <= 128; threads *= 2) {
        int64_t traffic;
        ZsTime time = zs_cpu_task_time (&HOST, task, elements, threads, &traffic);

        CU_ASSERT_TRUE ((double) time <= before);
        /* never faster than the memory moves it */
        CU_ASSERT_TRUE (time >= zs_time_to_move (traffic, HOST.memory_rate) - 2);
        before = (double) time;
      }
    }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "updates of whole partitions take what they took", updates_take_what_they_took },
    { "passes of 1 and 16 threads take what they took", passes_take_what_they_took },
    { "overflow checks take what they took", overflow_checks_take_what_they_took },
    { "temporaries below 32 MiB keep their pages", small_temporaries_keep_their_pages },
    { "first touches cost what they cost", first_touches_cost_what_they_cost },
    { "blocking copies of shards take what they took", blocking_copies_of_shards_take_what_they_took },
    { "more threads never take longer", more_threads_never_take_longer },
    CU_TEST_INFO_NULL
  };
  return testing_main ("CPU times", tests);
}
