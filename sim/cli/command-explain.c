/* command-explain.c: `zerosim explain SCENARIO`.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <unistd.h>

#include "sim/cli/command-list.h"
#include "sim/cli/load.h"
#include "sim/io/json-writer.h"
#include "sim/report/explain.h"
#include "sim/report/text.h"
#include "sim/scenario/simulate.h"
#include "sim/study/suggest.h"

static void
print_story (const GPtrArray *story, bool colour)
{
  ZsText text = { .string = g_string_new (NULL), .width = 80, .colour = colour };

  for (guint s = 0; s < story->len; s++) {
    const ZsStorySection *section = g_ptr_array_index (story, s);

    zs_text_styled (&text, ZS_STYLE_BOLD, "%s", section->title);
    zs_text_append (&text, "\n");
    for (guint i = 0; i + 1 < section->sentences->len; i++)
      zs_text_wrap (&text, "  - ", 4, g_ptr_array_index (section->sentences, i));
    if (s + 1 < story->len)
      zs_text_append (&text, "\n");
  }
  fputs (text.string->str, stdout);
  g_string_free (text.string, TRUE);
}

static void
print_json (const GPtrArray *story, const char *name)
{
  g_autoptr (ZsJsonWriter) writer = zs_json_writer_new_file (stdout, 2);

  zs_json_begin_object (writer, NULL);
  zs_json_string (writer, "name", name);
  zs_json_begin_array (writer, "sections");
  for (guint s = 0; s < story->len; s++) {
    const ZsStorySection *section = g_ptr_array_index (story, s);

    zs_json_begin_object (writer, NULL);
    zs_json_string (writer, "title", section->title);
    zs_json_begin_array (writer, "sentences");
    for (guint i = 0; i + 1 < section->sentences->len; i++)
      zs_json_string (writer, NULL, g_ptr_array_index (section->sentences, i));
    zs_json_end_array (writer);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
  zs_json_end_object (writer);
}

int
zs_command_explain (const ZsOptions *options, char **arguments)
{
  ZsExplainLevel level = ZS_EXPLAIN_BEGINNER;
  ZsLanguage language = ZS_LANGUAGE_EN;
  g_autoptr (GError) error = NULL;
  ZsRunOptions run;

  if (options->level != NULL && !zs_explain_level_find (options->level, &level)) {
    fprintf (stderr, "zerosim: --level must be beginner or expert, not '%s'\n", options->level);
    return ZS_EXIT_USAGE;
  }
  if (options->language != NULL && !zs_language_find (options->language, &language)) {
    fprintf (stderr, "zerosim: --lang must be en or zh, not '%s'\n", options->language);
    return ZS_EXIT_USAGE;
  }
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (ZsScenario) scenario = zs_load_scenario (arguments[0], options, catalogue);

  if (scenario == NULL)
    return ZS_EXIT_INPUT;
  zs_scenario_run_options (scenario, &run);
  run.want_links = run.want_spans = true;
  g_autoptr (ZsResult) result = zs_scenario_run (scenario, &run, &error);

  if (result == NULL)
    return zs_command_fail (error);
  ZsScenarioFlags flags = zs_flags_of (options);
  g_auto (GStrv) sets = zs_sets_of (options);
  ZsScenarioSource source = { .path = arguments[0], .flags = &flags,
                              .sets = (const char *const *) sets, .catalogue = catalogue };
  g_autoptr (ZsSuggestions) suggestions
      = options->no_advice ? NULL : zs_suggest (&source, scenario, result);
  ZsExplainInput input = { .scenario = scenario, .result = result };

  if (suggestions != NULL) {
    input.changes = (const ZsChange *) (const void *) suggestions->changes->data;
    input.n_changes = (int) suggestions->changes->len;
  }
  g_autoptr (GPtrArray) story = zs_explain (&input, level, language);

  if (options->json)
    print_json (story, scenario->name);
  else
    print_story (story, zs_options_color (options, STDOUT_FILENO));
  return ZS_EXIT_DONE;
}
