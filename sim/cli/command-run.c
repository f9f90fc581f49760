/* command-run.c: `zerosim run SCENARIO`.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <unistd.h>

#include "sim/base/units.h"
#include "sim/cli/command-list.h"
#include "sim/cli/load.h"
#include "sim/report/describe.h"
#include "sim/report/result-json.h"
#include "sim/report/snapshot.h"
#include "sim/report/summary.h"
#include "sim/report/trace.h"
#include "sim/scenario/simulate.h"
#include "sim/study/suggest.h"

static void
print_json (const ZsScenario *scenario, const ZsResult *result)
{
  int n_notes = zs_notes_count (scenario->notes);
  g_autofree ZsResultNote *notes = g_new0 (ZsResultNote, n_notes + 1);
  g_autoptr (ZsJsonWriter) writer = zs_json_writer_new_file (stdout, 2);

  for (int i = 0; i < n_notes; i++) {
    const ZsNote *note = zs_notes_get (scenario->notes, i);

    notes[i] = (ZsResultNote) { .code = note->code, .where = note->where, .text = note->text };
  }
  zs_json_begin_object (writer, NULL);
  zs_json_string (writer, "name", scenario->name);
  zs_result_write_json (result, notes, n_notes, writer);
  zs_json_end_object (writer);
}

static void
print_text (const ZsOptions *options, const char *path, ZsCatalogue *catalogue,
            const ZsScenario *scenario, const ZsResult *result)
{
  ZsScenarioFlags flags = zs_flags_of (options);
  g_auto (GStrv) sets = zs_sets_of (options);
  ZsScenarioSource source = { .path = path, .flags = &flags,
                              .sets = (const char *const *) sets, .catalogue = catalogue };
  g_autoptr (ZsSuggestions) suggestions
      = options->no_advice ? NULL : zs_suggest (&source, scenario, result);
  g_autofree char *title = zs_scenario_title (scenario);
  g_auto (GStrv) settings = zs_scenario_lines (scenario);
  g_auto (GStrv) assumed = zs_scenario_assumptions (scenario);
  ZsSummary summary = {
    .title = title, .settings = (const char *const *) settings, .result = result,
    .assumed = (const char *const *) assumed,
  };
  ZsText text = { .string = g_string_new (NULL), .width = 80,
                  .colour = zs_options_color (options, STDOUT_FILENO) };

  if (suggestions != NULL) {
    summary.changes = (const ZsChange *) suggestions->changes->data;
    summary.n_changes = (int) suggestions->changes->len;
    summary.changes_said = suggestions->said;
  }
  if (result->outcome == ZS_OUTCOME_OOM)
    summary.needed_bytes = zs_needed_bytes (&source);
  zs_summary_write (&summary, &text);
  fputs (text.string->str, stdout);
  g_string_free (text.string, TRUE);
}

int
zs_command_run (const ZsOptions *options, char **arguments)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (ZsScenario) scenario = zs_load_scenario (arguments[0], options, catalogue);
  g_autoptr (GError) error = NULL;
  ZsRunOptions run;

  if (scenario == NULL)
    return ZS_EXIT_INPUT;
  zs_scenario_run_options (scenario, &run);
  run.want_links = true;
  run.want_spans = run.want_memory_points = options->trace != NULL;
  run.want_memory_events = options->memory_snapshot != NULL;
  if (options->rank >= 0)
    run.report_rank = options->rank;
  if (options->rank >= scenario->training.world) {
    fprintf (stderr, "zerosim: --rank %" G_GINT64_FORMAT " is not below the %" G_GINT64_FORMAT
             " ranks of the job\n", options->rank, scenario->training.world);
    return ZS_EXIT_USAGE;
  }
  g_autoptr (ZsResult) result = zs_scenario_run (scenario, &run, &error);

  if (result == NULL)
    return zs_command_fail (error);
  if (options->trace != NULL && !zs_trace_write (result, options->trace, &error))
    return zs_command_fail (error);
  if (options->memory_snapshot != NULL
      && !zs_snapshot_write (result, scenario->alloc_conf_text, options->memory_snapshot, &error))
    return zs_command_fail (error);
  if (options->json)
    print_json (scenario, result);
  else
    print_text (options, arguments[0], catalogue, scenario, result);
  return ZS_EXIT_DONE;
}
