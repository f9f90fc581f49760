/* compare-plan.c: a recorded allocator history against the plan of the same run.
 * SPDX-License-Identifier: MIT
 *
 *   compare-plan ID [--phase NAME] [--diff N] [--context N]
 *
 * ID is a run of tests/data/h200/trace_runs.jsonl ("t_z2_tl"), or "step:NAME" for a case of
 * tests/data/steps, or "steps" for all of them, or "more:NAME" for a run of tests/data/h200-more
 * ("more:FOLDER/NAME" of another folder).  Prints per phase how many entries there are and how far the
 * two agree, then the first N differences with the plan's labels. */
#include "config.h"

#include "tests/testing.h"
#include "tests/tools/history.h"
#include "tests/tools/more.h"
#include "tests/tools/training.h"

#include <stdio.h>
#include <string.h>

static char *only_phase;
static int n_diff, n_context = 2;

static json_t *
find_run (const char *id)
{
  g_autofree char *path = testing_source_path ("tests/data/h200/trace_runs.jsonl");
  g_autofree char *text = NULL;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return NULL;
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (char **line = lines; *line != NULL; line++) {
    json_t *run = json_loads (*line, 0, NULL);

    if (run != NULL && strcmp (json_string_value (json_object_get (run, "id")), id) == 0)
      return run;
    json_decref (run);
  }
  return NULL;
}

static void
print_event (const TestEvent *event, const ZsPlan *plan)
{
  if (event == NULL) {
    printf ("%-28s", "");
    return;
  }
  printf ("%c %14" G_GINT64_FORMAT " s%d", event->action == 'a' ? '+' : '-', event->bytes, event->stream);
  if (plan != NULL)
    printf ("   %d %s", plan->labels[event->label].layer, plan->labels[event->label].what);
  else
    printf ("%10s", "");
}

static void
print_diff (const TestPhase *recorded, const TestPhase *simulated, const ZsPlan *plan)
{
  g_autoptr (GArray) pairs = NULL;
  int shown = 0, last = -1;

  test_align (recorded->events, simulated->events, &pairs);
  for (int i = 0; i < (int) pairs->len && shown < n_diff; i++) {
    TestPair pair = g_array_index (pairs, TestPair, i);
    const TestEvent *a = pair.recorded < 0 ? NULL : &g_array_index (recorded->events, TestEvent, pair.recorded);
    const TestEvent *b = pair.simulated < 0 ? NULL : &g_array_index (simulated->events, TestEvent, pair.simulated);

    if (a != NULL && b != NULL && a->action == b->action && a->bytes == b->bytes && a->stream == b->stream)
      continue;
    if (last >= 0 && i - last > 2 * n_context + 1)
      printf ("      ...\n");
    for (int j = MAX (last + 1, i - n_context); j <= i; j++) {
      TestPair around = g_array_index (pairs, TestPair, j);

      printf ("  %c %5d %5d  ", j == i ? '!' : ' ', around.recorded, around.simulated);
      print_event (around.recorded < 0 ? NULL : &g_array_index (recorded->events, TestEvent, around.recorded),
                   NULL);
      printf (" | ");
      print_event (around.simulated < 0 ? NULL
                                        : &g_array_index (simulated->events, TestEvent, around.simulated),
                   plan);
      printf ("\n");
    }
    last = i;
    shown++;
  }
}

static int
compare (const char *title, const TestHistory *recorded, const ZsTraining *training)
{
  g_autoptr (ZsPlanner) planner = zs_planner_new (training, 0);
  /* the labels outlive the chunks; the plan is the planner's until it is freed */
  g_autoptr (TestHistory) simulated = NULL;
  const ZsPlan *plan = zs_planner_plan (planner);

  simulated = test_history_of_plan (planner);
  printf ("%s\n%-10s %9s %9s %9s %15s %15s %12s\n", title, "phase", "recorded", "simulated", "agreement",
          "recorded peak", "simulated peak", "difference");
  for (guint i = 0; i < recorded->phases->len; i++) {
    const TestPhase *a = g_ptr_array_index (recorded->phases, i);
    const TestPhase *b = test_history_phase (simulated, a->name);
    g_autofree char *alias = NULL;

    if (b == NULL && strlen (a->name) > 5 && strcmp (a->name + strlen (a->name) - 5, "_step") == 0) {
      alias = g_strdup_printf ("%.*s_step", (int) strcspn (a->name, "m"), a->name);
      b = test_history_phase (simulated, alias);
    }
    if (b == NULL || (only_phase != NULL && strcmp (only_phase, a->name) != 0))
      continue;
    printf ("%-10s %9u %9u %8.2f%% %15" G_GINT64_FORMAT " %15" G_GINT64_FORMAT " %12" G_GINT64_FORMAT "\n",
            a->name, a->events->len, b->events->len, 100 * test_agreement (a->events, b->events), a->peak,
            b->peak, b->peak - a->peak);
    if (n_diff > 0)
      print_diff (a, b, plan);
  }
  return 0;
}

static int
compare_more (const char *id)
{
  const char *slash = strrchr (id, '/');
  g_autofree char *folder = slash != NULL ? g_strndup (id, (gsize) (slash - id))
                                          : g_strdup ("tests/data/h200-more");
  g_autoptr (GPtrArray) runs = test_more_runs (folder);

  if (slash != NULL)
    id = slash + 1;

  for (guint i = 0; i < runs->len; i++) {
    const TestMoreRun *run = g_ptr_array_index (runs, i);

    if (strcmp (run->id, id) == 0) {
      g_autoptr (TestHistory) recorded = test_more_history (run);

      return compare (id, recorded, &run->training);
    }
  }
  fprintf (stderr, "compare-plan: no recorded run '%s'\n", id);
  return 1;
}

static int
compare_id (const char *id)
{
  if (g_str_has_prefix (id, "more:"))
    return compare_more (id + 5);

  ZsTraining training;
  g_autoptr (TestHistory) recorded = NULL;

  if (g_str_has_prefix (id, "step:")) {
    recorded = test_history_of_step (id + 5, &training);
  } else {
    json_t *run = find_run (id);

    if (run != NULL) {
      test_training_from_json (&training, run);
      recorded = test_history_of_trace (g_str_has_prefix (id, "trace_") ? id + 6 : id);
      json_decref (run);
    }
  }
  if (recorded == NULL) {
    fprintf (stderr, "compare-plan: no recorded run '%s'\n", id);
    return 1;
  }
  return compare (id, recorded, &training);
}

int
main (int argc, char **argv)
{
  GOptionEntry entries[] = {
    { "phase", 0, 0, G_OPTION_ARG_STRING, &only_phase, "Only this phase", "NAME" },
    { "diff", 0, 0, G_OPTION_ARG_INT, &n_diff, "Print the first N differences", "N" },
    { "context", 0, 0, G_OPTION_ARG_INT, &n_context, "Lines around each", "N" },
    { 0 },
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("ID…");
  g_autoptr (GError) error = NULL;
  int status = 0;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || argc < 2) {
    fprintf (stderr, "compare-plan: %s\n", error != NULL ? error->message : "which run?");
    return 2;
  }
  for (int i = 1; i < argc; i++) {
    if (strcmp (argv[i], "steps") != 0) {
      status |= compare_id (argv[i]);
      continue;
    }
    g_auto (GStrv) names = test_step_names ();
    for (char **name = names; *name != NULL; name++) {
      g_autofree char *id = g_strconcat ("step:", *name, NULL);
      status |= compare_id (id);
    }
  }
  return status;
}
