/* test-page.c: what the page holds is what the run said.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>
#include <zlib.h>

#include "sim/memory/caching-allocator.h"
#include "sim/report/explain.h"
#include "sim/scenario/simulate.h"
#include "sim/web/page.h"
#include "tests/testing.h"

/* ---- reading columns back ---- */

static uint64_t
read_unsigned (const guint8 **at)
{
  uint64_t value = 0;
  int shift = 0;

  for (; **at >= 0x80; shift += 7)
    value |= (uint64_t) (*(*at)++ & 0x7f) << shift;
  return value | (uint64_t) *(*at)++ << shift;
}

static void
columns_come_back (void)
{
  static const int64_t VALUES[] = { 0, 1, -1, 127, 128, -128, 300, INT32_MAX, INT64_MAX, INT64_MIN };
  GByteArray *columns[2] = { g_byte_array_new (), g_byte_array_new () };

  for (size_t i = 0; i < G_N_ELEMENTS (VALUES); i++) {
    zs_pack_signed (columns[0], VALUES[i]);
    zs_pack_unsigned (columns[1], (uint64_t) VALUES[i]);
  }
  for (int quick = 0; quick < 2; quick++) {
    g_autofree char *text = zs_pack_finish (columns, 2, quick);
    gsize length;
    g_autofree guint8 *packed = g_base64_decode (text, &length);
    guint8 plain[512];
    uLongf room = sizeof plain;

    CU_ASSERT_EQUAL_FATAL (uncompress (plain, &room, packed, length), Z_OK);
    const guint8 *at = plain;

    CU_ASSERT_EQUAL (read_unsigned (&at), columns[0]->len);
    for (size_t i = 0; i < G_N_ELEMENTS (VALUES); i++) {
      uint64_t value = read_unsigned (&at);

      CU_ASSERT_EQUAL ((int64_t) (value >> 1) ^ -(int64_t) (value & 1), VALUES[i]);
    }
    CU_ASSERT_EQUAL (read_unsigned (&at), columns[1]->len);
    for (size_t i = 0; i < G_N_ELEMENTS (VALUES); i++)
      CU_ASSERT_EQUAL (read_unsigned (&at), (uint64_t) VALUES[i]);
    CU_ASSERT_PTR_EQUAL (at, plain + room);
  }
  g_byte_array_unref (columns[0]);
  g_byte_array_unref (columns[1]);
}

/* ---- a run ---- */

typedef struct {
  ZsCatalogue *catalogue;
  ZsScenario  *scenario;
  ZsResult    *result;
} Case;

static void
case_init (Case *self, const char *file, const char *const *sets)
{
  g_autofree char *path = testing_source_path (file);
  g_autofree char *datadir = testing_source_path ("");
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  ZsRunOptions options;

  self->catalogue = zs_catalogue_new (datadir);
  self->scenario = zs_scenario_load (path, NULL, sets, self->catalogue, errors);
  if (self->scenario == NULL)
    zs_errors_print (errors, "# ", stdout);
  CU_ASSERT_PTR_NOT_NULL_FATAL (self->scenario);
  zs_scenario_run_options (self->scenario, &options);
  options.want_spans = options.want_links = options.want_link_points = options.want_memory_events
    = true;
  self->result = zs_scenario_run (self->scenario, &options, NULL);
  CU_ASSERT_PTR_NOT_NULL_FATAL (self->result);
}

static void
case_clear (Case *self)
{
  zs_result_free (self->result);
  zs_scenario_free (self->scenario);
  zs_catalogue_free (self->catalogue);
}

static void
the_page_needs_nothing_else (void)
{
  Case c;
  g_autoptr (GString) html = g_string_new (NULL);

  case_init (&c, "scenarios/consumer-cards.yaml", NULL);
  ZsPageScenario pages[2] = { { .scenario = c.scenario, .result = c.result },
                              { .scenario = c.scenario, .result = c.result } };

  zs_page_write (pages, 2, html);
  CU_ASSERT_TRUE (g_str_has_prefix (html->str, "<!DOCTYPE html>"));
  CU_ASSERT_PTR_NULL (strstr (html->str, "@@"));
  CU_ASSERT_PTR_NULL (strstr (html->str, "src="));
  CU_ASSERT_PTR_NULL (strstr (html->str, "@import"));
  /* one name space of SVG, and no other address */
  for (const char *at = html->str; (at = strstr (at, "http")) != NULL; at++)
    CU_ASSERT_TRUE (g_str_has_prefix (at, "http://www.w3.org/2000/svg"));
  CU_ASSERT_TRUE (html->len < 3000000);
  case_clear (&c);
}

static void
few_spans_are_asked_for_and_few_come (void)
{
  Case c;
  gsize size[2];

  case_init (&c, "scenarios/consumer-cards.yaml", NULL);
  for (int i = 0; i < 2; i++) {
    g_autoptr (GString) html = g_string_new (NULL);
    ZsPageScenario page = { .scenario = c.scenario, .result = c.result,
                            .max_spans = i == 0 ? 0 : 500 };

    zs_page_write (&page, 1, html);
    size[i] = html->len;
  }
  CU_ASSERT_TRUE (size[1] < size[0]);
  case_clear (&c);
}

/* ---- the story ---- */

static int
by_text (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

/* The {names} of TEXT, sorted. */
static char *
names_of (const char *text)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  GString *all = g_string_new (NULL);

  for (const char *at = strchr (text, '{'); at != NULL; at = strchr (at + 1, '{'))
    g_ptr_array_add (names, g_strndup (at, strcspn (at, "}")));
  g_ptr_array_sort (names, by_text);
  for (guint i = 0; i < names->len; i++)
    if (i == 0 || strcmp (names->pdata[i], names->pdata[i - 1]) != 0)
      g_string_append (all, names->pdata[i]);
  return g_string_free (all, FALSE);
}

static void
languages_say_the_same_numbers (void)
{
  for (int s = 0; s < zs_explain_n_sentences (); s++) {
    g_autofree char *first = names_of (zs_explain_template (s, 0));

    for (int language = 1; language < ZS_N_LANGUAGES; language++) {
      g_autofree char *other = names_of (zs_explain_template (s, language));

      CU_ASSERT_STRING_EQUAL (first, other);
      CU_ASSERT_TRUE (g_utf8_validate (zs_explain_template (s, language), -1, NULL));
    }
  }
}

static char *
story_text (const Case *c, ZsExplainLevel level, ZsLanguage language)
{
  ZsExplainInput input = { .scenario = c->scenario, .result = c->result };
  g_autoptr (GPtrArray) story = zs_explain (&input, level, language);
  GString *text = g_string_new (NULL);

  for (guint s = 0; s < story->len; s++) {
    const ZsStorySection *section = g_ptr_array_index (story, s);

    for (guint i = 0; i + 1 < section->sentences->len; i++)
      g_string_append_printf (text, "%s\n", (const char *) g_ptr_array_index (section->sentences, i));
  }
  return g_string_free (text, FALSE);
}

static void
the_story_is_that_of_the_run (void)
{
  static const char *const SCENARIOS[] = { "scenarios/zero3.yaml", "scenarios/nvswitch.yaml",
                                           "scenarios/lora.yaml", "scenarios/single-gpu.yaml" };

  for (size_t i = 0; i < G_N_ELEMENTS (SCENARIOS); i++) {
    Case c;

    case_init (&c, SCENARIOS[i], NULL);
    for (int level = 0; level < ZS_N_EXPLAIN_LEVELS; level++)
      for (int language = 0; language < ZS_N_LANGUAGES; language++) {
        g_autofree char *text = story_text (&c, level, language);
        g_autofree char *peak = g_strdup_printf (
          "%.4g GiB", (double) (c.result->outcome == ZS_OUTCOME_OOM ? c.result->oom.allocated_bytes
                                                      : c.result->peak_allocated_bytes) / (1 << 30));

        CU_ASSERT_PTR_NOT_NULL (strstr (text, peak));
        CU_ASSERT_PTR_NULL (strchr (text, '{'));
        CU_ASSERT_TRUE (strlen (text) > 400);
      }
    case_clear (&c);
  }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "columns come back", columns_come_back },
    { "the page needs nothing else", the_page_needs_nothing_else },
    { "few spans are asked for and few come", few_spans_are_asked_for_and_few_come },
    { "languages say the same numbers", languages_say_the_same_numbers },
    { "the story is that of the run", the_story_is_that_of_the_run },
    CU_TEST_INFO_NULL
  };

  return testing_main ("page", tests);
}
