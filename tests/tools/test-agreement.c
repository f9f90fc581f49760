/* test-agreement.c: plans of recorded runs, entry by entry.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/testing.h"
#include "tests/tools/history.h"
#include "tests/tools/more.h"
#include "tests/tools/training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool
is_step_phase (const char *name)
{
  return name[0] == 's' && g_ascii_isdigit (name[1]);
}

/* The worst agreement over the phases of the steps of CASE. */
static double
worst_of (const TestHistory *recorded, const ZsTraining *training, int first_step)
{
  g_autoptr (ZsPlanner) planner = zs_planner_new (training, 0);
  g_autoptr (TestHistory) simulated = test_history_of_plan (planner);
  double worst = 1;

  for (guint i = 0; i < recorded->phases->len; i++) {
    const TestPhase *a = g_ptr_array_index (recorded->phases, i);
    const TestPhase *b = test_history_phase (simulated, a->name);

    /* under accumulation the recorded runs called step () after each micro-step */
    if (b == NULL || !is_step_phase (a->name) || a->name[1] - '0' < first_step || a->events->len == 0)
      continue;
    worst = MIN (worst, test_agreement (a->events, b->events));
  }
  return worst;
}

/* Known to differ, and by how much they agree at least; every other case agrees in every entry. */
static const struct { const char *name; double at_least; } DIFFERENT[] = {
  { "efficient", 0 },          /* no such kernel for grouped heads: the recorded run failed */
  { "autocast_nonre", 0.96 },  /* autocast drops its cache in the order of a hash of addresses */
  { "autocast_re", 0.96 },
  { "ddp", 0.99 },             /* NCCL's watchdog had not yet dropped the first buckets */
  { "ddp_view", 0.99 },        /* the same */
  { "ddp_gas", 0.9 },          /* recorded without no_sync () */
};

static double
expected_of (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (DIFFERENT); i++)
    if (strcmp (DIFFERENT[i].name, name) == 0)
      return DIFFERENT[i].at_least;
  return 1;
}

static void
recorded_steps_agree_in_every_entry (void)
{
  g_auto (GStrv) names = test_step_names ();

  CU_ASSERT_TRUE (g_strv_length (names) >= 50);
  for (char **name = names; *name != NULL; name++) {
    ZsTraining training;
    g_autoptr (TestHistory) recorded = test_history_of_step (*name, &training);
    double agreement = worst_of (recorded, &training, 2);

    if (agreement < expected_of (*name))
      printf ("# %s: %.2f %% < %.2f %%\n", *name, 100 * agreement, 100 * expected_of (*name));
    CU_ASSERT_TRUE (agreement >= expected_of (*name));
  }
}

/* The ten runs of tests/data/h200: every entry of the second step and the third. */
static void
recorded_traces_agree (void)
{
  g_autofree char *path = testing_source_path ("tests/data/h200/trace_runs.jsonl");
  g_autofree char *text = NULL;
  int n = 0;

  CU_ASSERT_TRUE_FATAL (g_file_get_contents (path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (char **line = lines; *line != NULL; line++) {
    json_t *run = json_loads (*line, 0, NULL);
    ZsTraining training;

    if (run == NULL)
      continue;
    const char *id = json_string_value (json_object_get (run, "id"));
    g_autoptr (TestHistory) recorded = test_history_of_trace (id);
    test_training_from_json (&training, run);
    double later = worst_of (recorded, &training, 2), first = worst_of (recorded, &training, 1);
    printf ("# %s: %.2f %% of the entries of steps 2 and 3, %.2f %% with step 1\n", id, 100 * later,
            100 * first);
    CU_ASSERT_EQUAL (later, 1.0);
    CU_ASSERT_TRUE (first >= 0.96);   /* ZeRO-3 records its trace in the first step */
    json_decref (run);
    n++;
  }
  CU_ASSERT_EQUAL (n, 10);
}

/* As DIFFERENT, for tests/data/h200-more; the last is by how much the peak of what was requested may be
 * off, which is otherwise met to the byte. */
static const struct { const char *name; double at_least, requested; } MORE[] = {
  { "autocast-ck", 0.97, 0 },         /* autocast's cache, a hash of addresses */
  { "ddp-w8-ck-autocast", 0.96, 0 },
  { "llama-8k-ck", 0.997, 0 },        /* cub's storage for sorting 8192 indices: 1 KiB more */
  { "fsdp1-w8-ck", 1, 25 },           /* PyTorch's counter of requested bytes went wrong in step 3 */
};

static void
more_recorded_runs_agree (void)
{
  g_autoptr (GPtrArray) runs = test_more_runs ("tests/data/h200-more");

  CU_ASSERT_EQUAL (runs->len, 53);
  for (guint i = 0; i < runs->len; i++) {
    const TestMoreRun *run = g_ptr_array_index (runs, i);
    TestMoreResult result = test_more_compare (run);
    double worst = MIN (MIN (result.agreement[0], result.agreement[1]), result.agreement[2]);
    double at_least = 1, requested = 0;

    for (gsize j = 0; j < G_N_ELEMENTS (MORE); j++)
      if (strcmp (MORE[j].name, run->id) == 0) {
        at_least = MORE[j].at_least;
        requested = MORE[j].requested;
      }
    if (worst < at_least || fabs (result.requested) > requested || fabs (result.allocated) > 0.4)
      printf ("# %s: %.2f %%, requested %+.4f %%, allocated %+.3f %%\n", run->id, 100 * worst,
              result.requested, result.allocated);
    CU_ASSERT_TRUE (worst >= at_least);
    CU_ASSERT_TRUE (result.agreement[3] >= 0.94);
    CU_ASSERT_TRUE (fabs (result.requested) <= requested);
    /* among free blocks of equal size PyTorch takes the lowest address, and CUDA gives addresses */
    CU_ASSERT_TRUE (fabs (result.allocated) <= 0.4);
    CU_ASSERT_TRUE (fabs (result.run_allocated) <= 0.21);
    CU_ASSERT_TRUE (fabs (result.run_reserved) <= 1.3);
  }
}

static void
alignment_counts_the_fewest_edits (void)
{
  g_autoptr (GArray) a = g_array_new (FALSE, FALSE, sizeof (TestEvent));
  g_autoptr (GArray) b = g_array_new (FALSE, FALSE, sizeof (TestEvent));
  g_autoptr (GArray) pairs = NULL;
  static const int64_t A[] = { 1, 2, 3, 4, 5 }, B[] = { 1, 3, 4, 9, 5 };

  for (gsize i = 0; i < G_N_ELEMENTS (A); i++) {
    TestEvent x = { .action = 'a', .bytes = A[i] }, y = { .action = 'a', .bytes = B[i] };
    g_array_append_val (a, x);
    g_array_append_val (b, y);
  }
  CU_ASSERT_EQUAL (test_align (a, b, &pairs), 2);
  CU_ASSERT_EQUAL (pairs->len, 6);
  CU_ASSERT_DOUBLE_EQUAL (test_agreement (a, b), 0.6, 1e-9);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "alignment counts the fewest edits", alignment_counts_the_fewest_edits },
    { "recorded steps agree in every entry", recorded_steps_agree_in_every_entry },
    { "recorded traces agree in every entry", recorded_traces_agree },
    { "more recorded runs agree in every entry and byte", more_recorded_runs_agree },
    CU_TEST_INFO_NULL
  };

  return testing_main ("agreement", tests);
}
