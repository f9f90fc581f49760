/* command-report.c: `zerosim report SCENARIO...`.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>

#include "sim/cli/command-list.h"
#include "sim/cli/load.h"
#include "sim/io/file.h"
#include "sim/scenario/simulate.h"
#include "sim/study/suggest.h"
#include "sim/web/page.h"

#define MAX_SCENARIOS 8

typedef struct {
  ZsScenario    *scenarios[MAX_SCENARIOS];
  ZsResult      *results[MAX_SCENARIOS];
  ZsSuggestions *suggestions[MAX_SCENARIOS];
  ZsPageScenario pages[MAX_SCENARIOS];
} Report;

/* Load and run the scenario at PATH as number N. */
static int
add_scenario (Report *report, int n, const char *path, const ZsOptions *options,
              ZsCatalogue *catalogue)
{
  ZsScenario *scenario = report->scenarios[n] = zs_load_scenario (path, options, catalogue);
  g_autoptr (GError) error = NULL;
  ZsRunOptions run;

  if (scenario == NULL)
    return ZS_EXIT_INPUT;
  zs_scenario_run_options (scenario, &run);
  run.want_links = run.want_link_points = run.want_spans = run.want_memory_events = true;
  report->results[n] = zs_scenario_run (scenario, &run, &error);
  if (report->results[n] == NULL)
    return zs_command_fail (error);
  report->pages[n] = (ZsPageScenario) { .scenario = scenario, .result = report->results[n] };
  if (options->no_advice)
    return ZS_EXIT_DONE;

  ZsScenarioFlags flags = zs_flags_of (options);
  g_auto (GStrv) sets = zs_sets_of (options);
  ZsScenarioSource source = { .path = path, .flags = &flags, .sets = (const char *const *) sets,
                              .catalogue = catalogue };

  report->suggestions[n] = zs_suggest (&source, scenario, report->results[n]);
  report->pages[n].changes
      = (const ZsChange *) (const void *) report->suggestions[n]->changes->data;
  report->pages[n].n_changes = (int) report->suggestions[n]->changes->len;
  return ZS_EXIT_DONE;
}

int
zs_command_report (const ZsOptions *options, char **arguments)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  Report report = { .scenarios = { NULL } };
  int n = 0, status = ZS_EXIT_DONE;

  for (; arguments[n] != NULL && status == ZS_EXIT_DONE; n++)
    status = add_scenario (&report, n, arguments[n], options, catalogue);
  if (status == ZS_EXIT_DONE) {
    g_autoptr (GString) html = g_string_new (NULL);
    g_autoptr (GError) error = NULL;

    zs_page_write (report.pages, n, html);
    if (!zs_file_write (options->output != NULL ? options->output : "-", html->str,
                        (gssize) html->len, &error))
      status = zs_command_fail (error);
  }
  for (int s = 0; s < n; s++) {
    if (report.suggestions[s] != NULL)
      zs_suggestions_free (report.suggestions[s]);
    zs_result_free (report.results[s]);
    zs_scenario_free (report.scenarios[s]);
  }
  return status;
}
