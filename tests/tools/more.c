/* more.c: reading and comparing the runs of tests/data/h200-more.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/testing.h"
#include "tests/tools/more.h"
#include "tests/tools/plan-memory.h"
#include "tests/tools/training.h"

#include <math.h>
#include <string.h>

static void
clear_counters (gpointer data)
{
  g_free (((TestCounters *) data)->name);
}

static GArray *
counters_new (void)
{
  GArray *phases = g_array_new (FALSE, FALSE, sizeof (TestCounters));

  g_array_set_clear_func (phases, clear_counters);
  return phases;
}

static void
free_run (gpointer data)
{
  TestMoreRun *run = data;

  g_free (run->id);
  g_free (run->folder);
  g_array_unref (run->phases);
  g_free (run);
}

static int64_t
integer (json_t *object, const char *key)
{
  return json_integer_value (json_object_get (object, key));
}

static TestMoreRun *
make_run (json_t *line)
{
  TestMoreRun *run = g_new0 (TestMoreRun, 1);
  json_t *phase;
  gsize i;

  run->id = g_strdup (json_string_value (json_object_get (line, "id")));
  run->limit = (int64_t) (json_number_value (json_object_get (line, "cap")) * 1073741824.0);
  zs_alloc_conf_init (&run->conf);
  if (json_is_string (json_object_get (line, "conf")))
    zs_alloc_conf_parse (json_string_value (json_object_get (line, "conf")), &run->conf, NULL);
  run->oom = json_is_string (json_object_get (line, "oom"));
  run->phases = counters_new ();
  test_training_from_more (&run->training, line);
  json_array_foreach (json_object_get (line, "phases"), i, phase) {
    TestCounters counters = {
      .name = g_strdup (json_string_value (json_object_get (phase, "phase"))),
      .end_us = integer (phase, "end_us"),
      .allocated = integer (phase, "allocated"), .peak_allocated = integer (phase, "peak_allocated"),
      .requested = integer (phase, "requested"), .peak_requested = integer (phase, "peak_requested"),
      .reserved = integer (phase, "reserved"), .peak_reserved = integer (phase, "peak_reserved"),
    };
    g_array_append_val (run->phases, counters);
  }
  return run;
}

static char *
path_in (const char *folder, const char *name)
{
  g_autofree char *relative = g_strdup_printf ("%s/%s", folder, name);

  return g_path_is_absolute (folder) ? g_steal_pointer (&relative) : testing_source_path (relative);
}

GPtrArray *
test_more_runs (const char *folder)
{
  GPtrArray *runs = g_ptr_array_new_with_free_func (free_run);
  g_autofree char *path = path_in (folder, "runs.jsonl");
  g_autofree char *text = NULL;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return runs;
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (char **line = lines; *line != NULL; line++) {
    json_t *object = json_loads (*line, 0, NULL);

    if (object != NULL) {
      TestMoreRun *run = make_run (object);

      run->folder = g_strdup (folder);
      g_ptr_array_add (runs, run);
    }
    json_decref (object);
  }
  return runs;
}

TestHistory *
test_more_history (const TestMoreRun *run)
{
  g_autofree char *name = g_strdup_printf ("%s.csv.gz", run->id);
  g_autofree char *path = path_in (run->folder, name);
  g_autoptr (GArray) marks = test_marks_new ();

  for (guint i = 0; i < run->phases->len; i++) {
    const TestCounters *counters = &g_array_index (run->phases, TestCounters, i);
    TestMark mark = { g_strdup (counters->name), counters->end_us };

    g_array_append_val (marks, mark);
  }
  return test_history_read (path, marks);
}

GArray *
test_more_simulated (const TestMoreRun *run)
{
  const ZsPlan *plan;

  g_autoptr (TestPlanMemory) memory = test_plan_memory_new (&run->conf, run->limit);
  g_autoptr (ZsPlanner) planner = zs_planner_new (&run->training, 0);
  g_autoptr (GArray) phases = counters_new ();
  const ZsAllocatorCounters *now = zs_caching_allocator_counters (test_plan_memory_gpu (memory));

  /* AutoModelForCausalLM.from_config () under torch.device ("cuda") leaves a number of the default dtype */
  bool wide = run->training.framework == ZS_FRAMEWORK_FSDP1 || run->training.framework == ZS_FRAMEWORK_FSDP2
                ? run->training.fsdp.parameter_dtype == ZS_DTYPE_FP32
                : run->training.step.dtype == ZS_DTYPE_FP32;
  test_plan_memory_hold (memory, wide ? 4 : 2);
  while ((plan = zs_planner_next (planner)) != NULL) {
    if (!test_plan_memory_execute (memory, plan))
      return NULL;
    TestCounters counters = {
      .name = test_phase_name (&plan->code[0]),
      .allocated = now->allocated.now, .peak_allocated = now->allocated.peak,
      .requested = now->requested.now, .peak_requested = now->requested.peak,
      .reserved = now->reserved.now, .peak_reserved = now->reserved.peak,
    };
    g_array_append_val (phases, counters);
  }
  return g_steal_pointer (&phases);
}

/* ---- comparing ---- */

const TestCounters *
test_counters_find (const GArray *phases, const char *name)
{
  for (guint i = 0; i < phases->len; i++)
    if (strcmp (g_array_index (phases, TestCounters, i).name, name) == 0)
      return &g_array_index (phases, TestCounters, i);
  return NULL;
}

/* Keep in *WORST what is furthest from 0, in percent. */
static void
keep_worst (double *worst, int64_t predicted, int64_t measured)
{
  double error = measured == 0 ? 0 : 100.0 * (double) (predicted - measured) / (double) measured;

  if (fabs (error) > fabs (*worst))
    *worst = error;
}

static int
kind_of (const char *name)
{
  return g_str_has_suffix (name, "_fwd") ? 0 : g_str_has_suffix (name, "_bwd") ? 1 : 2;
}

static void
compare_sequences (const TestMoreRun *run, TestMoreResult *result)
{
  g_autoptr (TestHistory) recorded = test_more_history (run);
  g_autoptr (ZsPlanner) planner = zs_planner_new (&run->training, 0);
  g_autoptr (TestHistory) simulated = test_history_of_plan (planner);

  for (guint i = 0; recorded != NULL && i < recorded->phases->len; i++) {
    const TestPhase *a = g_ptr_array_index (recorded->phases, i);
    const TestPhase *b = test_history_phase (simulated, a->name);

    if (b == NULL || a->name[0] != 's' || !g_ascii_isdigit (a->name[1]))
      continue;
    double *worst = &result->agreement[a->name[1] == '1' ? 3 : kind_of (a->name)];
    *worst = MIN (*worst, test_agreement (a->events, b->events));
  }
}

TestMoreResult
test_more_compare (const TestMoreRun *run)
{
  TestMoreResult result = { .agreement = { 1, 1, 1, 1 } };
  g_autoptr (GArray) simulated = test_more_simulated (run);
  int64_t allocated[2] = { 0, 0 }, reserved[2] = { 0, 0 };

  compare_sequences (run, &result);
  for (guint i = 0; simulated != NULL && i < run->phases->len; i++) {
    const TestCounters *a = &g_array_index (run->phases, TestCounters, i);
    const TestCounters *b = test_counters_find (simulated, a->name);

    if (b == NULL || a->name[0] != 's')
      continue;
    allocated[0] = MAX (allocated[0], b->peak_allocated);
    allocated[1] = MAX (allocated[1], a->peak_allocated);
    reserved[0] = MAX (reserved[0], b->peak_reserved);
    reserved[1] = MAX (reserved[1], a->peak_reserved);
    if (a->name[1] == '1')
      continue;
    keep_worst (&result.requested, b->peak_requested, a->peak_requested);
    keep_worst (&result.allocated, b->peak_allocated, a->peak_allocated);
    keep_worst (&result.reserved, b->peak_reserved, a->peak_reserved);
  }
  keep_worst (&result.run_allocated, allocated[0], allocated[1]);
  keep_worst (&result.run_reserved, reserved[0], reserved[1]);
  return result;
}
