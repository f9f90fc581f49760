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

/* Where the scenario came from, and what was found out about it. */
typedef struct {
  const ZsOptions  *options;
  const ZsScenario *scenario;
  const ZsResult   *result;
  ZsSuggestions    *suggestions;    /* NULL with --no-advice */
  int64_t           needed_bytes;   /* as in ZsSummary */
} Found;

static void
write_suggestion (const ZsChange *change, ZsJsonWriter *writer)
{
  zs_json_begin_object (writer, NULL);
  zs_json_begin_object (writer, "set");
  for (char **set = change->sets; *set != NULL; set++) {
    g_auto (GStrv) parts = g_strsplit (*set, "=", 2);

    zs_json_string (writer, parts[0], parts[1]);
  }
  zs_json_end_object (writer);
  zs_json_string (writer, "reason", change->reason);
  zs_json_int (writer, "peak_allocated_bytes", change->peak_allocated_bytes);
  zs_json_int (writer, "peak_reserved_bytes", change->peak_reserved_bytes);
  zs_json_int (writer, "peak_device_bytes", change->peak_device_bytes);
  zs_json_bool (writer, "thin", change->tight);
  zs_json_int (writer, "host_bytes", change->host_bytes);
  zs_json_int (writer, "step_time_ps", change->step_time);
  zs_json_number (writer, "tokens_per_second_per_gpu", change->tokens_per_second_per_gpu);
  zs_json_end_object (writer);
}

static void
print_json (const Found *found)
{
  const ZsNotes *list = found->scenario->notes;
  int n_notes = zs_notes_count (list);
  g_autofree ZsResultNote *notes = g_new0 (ZsResultNote, n_notes + 1);
  g_autoptr (ZsJsonWriter) writer = zs_json_writer_new_file (stdout, 2);

  for (int i = 0; i < n_notes; i++) {
    const ZsNote *note = zs_notes_get (list, i);

    notes[i] = (ZsResultNote) { .code = note->code, .where = note->where, .text = note->text };
  }
  zs_json_begin_object (writer, NULL);
  zs_json_string (writer, "name", found->scenario->name);
  zs_result_write_json (found->result, notes, n_notes, writer);
  if (found->needed_bytes > 0)
    zs_json_int (writer, "needed_bytes", found->needed_bytes);
  if (found->suggestions != NULL) {
    zs_json_begin_array (writer, "suggestions");
    for (guint i = 0; i < found->suggestions->changes->len; i++)
      write_suggestion (&g_array_index (found->suggestions->changes, ZsChange, i), writer);
    zs_json_end_array (writer);
  }
  zs_json_end_object (writer);
}

static void
print_text (const Found *found)
{
  g_autofree char *title = zs_scenario_title (found->scenario);
  g_auto (GStrv) settings = zs_scenario_lines (found->scenario);
  g_auto (GStrv) assumed = zs_scenario_assumptions (found->scenario);
  ZsSummary summary = {
    .title = title, .settings = (const char *const *) settings, .result = found->result,
    .needed_bytes = found->needed_bytes, .assumed = (const char *const *) assumed,
  };
  ZsText text = { .string = g_string_new (NULL), .width = 80,
                  .colour = zs_options_color (found->options, STDOUT_FILENO) };

  if (found->suggestions != NULL) {
    summary.changes = (const ZsChange *) found->suggestions->changes->data;
    summary.n_changes = (int) found->suggestions->changes->len;
    summary.changes_said = found->suggestions->said;
  }
  zs_summary_write (&summary, &text);
  fputs (text.string->str, stdout);
  g_string_free (text.string, TRUE);
}

static void
print_found (Found *found, const char *path, ZsCatalogue *catalogue)
{
  const ZsOptions *options = found->options;
  ZsScenarioFlags flags = zs_flags_of (options);
  g_auto (GStrv) sets = zs_sets_of (options);
  ZsScenarioSource source = { .path = path, .flags = &flags,
                              .sets = (const char *const *) sets, .catalogue = catalogue };
  g_autoptr (ZsSuggestions) suggestions
      = options->no_advice ? NULL : zs_suggest (&source, found->scenario, found->result);

  found->suggestions = suggestions;
  if (found->result->outcome == ZS_OUTCOME_OOM)
    found->needed_bytes = zs_needed_bytes (&source);
  if (options->json)
    print_json (found);
  else
    print_text (found);
}

/* Does FILE take standard output? */
static bool
is_output (const char *file)
{
  return g_strcmp0 (file, "-") == 0;
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
  if (!is_output (options->trace) && !is_output (options->memory_snapshot)) {
    Found found = { .options = options, .scenario = scenario, .result = result };

    print_found (&found, arguments[0], catalogue);
  }
  return ZS_EXIT_DONE;
}
