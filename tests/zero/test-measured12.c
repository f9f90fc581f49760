/* test-measured12.c: stages 0, 1 and 2 against runs of DeepSpeed 0.14.4 and 0.19.5 on one H200.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/testing.h"
#include "tests/tools/history.h"
#include "tests/tools/memory-table.h"
#include "tests/tools/training.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool
is_ours (const TestMemoryRow *row)
{
  return row->usable && row->training.framework == ZS_FRAMEWORK_DEEPSPEED
         && row->training.zero.stage <= 2;
}

static bool
close_to (const char *title, const char *what, int64_t found, int64_t measured, double tolerance)
{
  double error = measured == 0 ? 0 : fabs ((double) (found - measured)) / (double) measured;

  if (error > tolerance)
    printf ("# %s %s: %" PRId64 ", measured %" PRId64 " (%.2f %%)\n", title, what, found, measured,
            100 * error);
  return error <= tolerance;
}

/* Phases whose measured peak is not that of the phase: construction resets the counters in its
 * midst; with accumulation stage 1's micro-steps without a step count as step phases too, beside
 * their full gradients. */
static bool
is_comparable (const TestMemoryRow *row, const char *phase)
{
  if (phase[0] != 's')
    return false;
  return row->training.gradient_accumulation == 1 || strstr (phase, "_step") == NULL;
}

static void
test_peaks (void)
{
  g_autoptr (GPtrArray) rows = test_memory_rows ();
  int n = 0, n_exact = 0;

  for (guint i = 0; i < rows->len; i++) {
    const TestMemoryRow *row = g_ptr_array_index (rows, i);
    TestMemoryResult result;

    if (!is_ours (row))
      continue;
    CU_ASSERT_TRUE_FATAL (test_memory_run (row, &result));
    n++;
    n_exact += result.train_allocated == row->train_allocated;
    CU_ASSERT_TRUE (close_to (row->title, "peak", result.train_allocated, row->train_allocated,
                              0.001));
    /* 0.14.4 leaves an empty cache, and where blocks tie the driver's addresses decide */
    CU_ASSERT_TRUE (close_to (row->title, "reserved", result.train_reserved, row->train_reserved,
                              0.005));
    for (int p = 0; p < row->n_phases; p++)
      if (is_comparable (row, row->phases[p].name))
        CU_ASSERT_TRUE (close_to (row->title, row->phases[p].name, result.phases[p].allocated,
                                  row->phases[p].allocated, 0.005));
    CU_ASSERT_TRUE (llabs (result.pinned - row->pinned) < 65536);
    if (llabs (result.pinned - row->pinned) >= 65536)
      printf ("# %s pinned %" PRId64 ", measured %" PRId64 "\n", row->title, result.pinned,
              row->pinned);
  }
  printf ("# %d runs, the peak of %d exact to the byte\n", n, n_exact);
  CU_ASSERT_TRUE (n >= 140 && n_exact >= 110);
}

/* Runs under a limit: the allocation that fails and the flushes before it. */
static void
test_out_of_memory (void)
{
  g_autoptr (GPtrArray) rows = test_memory_rows ();
  int n = 0;

  for (guint i = 0; i < rows->len; i++) {
    const TestMemoryRow *row = g_ptr_array_index (rows, i);
    TestMemoryResult result;

    if (row->limit == 0 || row->training.framework != ZS_FRAMEWORK_DEEPSPEED
        || row->training.zero.stage > 2)
      continue;
    CU_ASSERT_FALSE (test_memory_run (row, &result));
    g_autofree char *text = g_strdup_printf ("Tried to allocate %.2f MiB",
                                             (double) result.tried / 1048576.0);

    if (strstr (row->oom, text) == NULL || result.retries != row->retries)
      printf ("# %s: %s after %" PRId64 " retries; measured %s, %" PRId64 "\n", row->title, text,
              result.retries, row->oom, row->retries);
    CU_ASSERT_PTR_NOT_NULL (strstr (row->oom, text));
    CU_ASSERT_EQUAL (result.retries, row->retries);
    n++;
  }
  CU_ASSERT_TRUE (n >= 7);
}

static bool
run_training (const char *id, ZsTraining *ret_training)
{
  g_autofree char *path = testing_source_path ("tests/data/h200/trace_runs.jsonl");
  g_autofree char *text = NULL;
  bool found = false;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return false;
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (char **line = lines; *line != NULL && !found; line++) {
    json_t *run = json_loads (*line, 0, NULL);

    if (run != NULL && strcmp (json_string_value (json_object_get (run, "id")), id) == 0) {
      test_training_from_json (ret_training, run);
      found = true;
    }
    json_decref (run);
  }
  return found;
}

/* From the first allocation on; the loss's scalars are in another order. */
static void
test_histories (void)
{
  static const char *const IDS[] = { "t_z2_tl", "t_z2_tl_w64", "ds0195_z2_tl" };

  for (gsize i = 0; i < G_N_ELEMENTS (IDS); i++) {
    ZsTraining training;

    CU_ASSERT_TRUE_FATAL (run_training (IDS[i], &training));
    g_autoptr (TestHistory) recorded = test_history_of_trace (IDS[i]);
    g_autoptr (ZsPlanner) planner = zs_planner_new (&training, 0);
    g_autoptr (TestHistory) simulated = test_history_of_plan (planner);

    for (guint p = 0; p < recorded->phases->len; p++) {
      const TestPhase *a = g_ptr_array_index (recorded->phases, p);
      const TestPhase *b = test_history_phase (simulated, a->name);

      if (b == NULL || a->events->len == 0)
        continue;
      double agreement = test_agreement (a->events, b->events);

      if (agreement < 0.998 || a->peak != b->peak)
        printf ("# %s %s: %.2f %%, peak %" PRId64 " for %" PRId64 "\n", IDS[i], a->name,
                100 * agreement, b->peak, a->peak);
      CU_ASSERT_TRUE (agreement >= 0.998);
      CU_ASSERT_EQUAL (a->peak, b->peak);
    }
  }
}

int
main (void)
{
  static const CU_TestInfo TESTS[] = {
    { "peaks of measured runs", test_peaks },
    { "runs that do not fit", test_out_of_memory },
    { "recorded histories", test_histories },
    CU_TEST_INFO_NULL,
  };

  return testing_main ("measured12", TESTS);
}
