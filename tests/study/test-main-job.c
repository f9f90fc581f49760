/* test-main-job.c: a real ds_config.json in; verdict, peak and time out.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>

#include "sim/scenario/simulate.h"
#include "tests/testing.h"

/* Runs the ds_config of the first run, with FABRIC and SETS on top. */
static ZsResult *
run_job (const char *fabric, const char *const *sets, bool spans)
{
  static ZsCatalogue *catalogue;   /* read once */
  g_autofree char *path = testing_source_path ("scenarios/first-run/ds_config.json");
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  ZsScenarioFlags flags = {
    .model = "llama-7b", .gpus = "2xA100-80G", .fabric = fabric, .micro_batch = "1",
    .sequence = "2048", .checkpointing = "full",
  };
  ZsRunOptions options;

  if (catalogue == NULL)
    catalogue = zs_catalogue_new (NULL);
  g_autoptr (ZsScenario) scenario = zs_scenario_load (path, &flags, sets, catalogue, errors);

  if (scenario == NULL) {
    zs_errors_print (errors, "# ", stdout);
    CU_FAIL_FATAL ("the scenario loads");
  }
  zs_scenario_run_options (scenario, &options);
  options.want_spans = spans;
  ZsResult *result = zs_scenario_run (scenario, &options, NULL);

  CU_ASSERT_PTR_NOT_NULL_FATAL (result);
  return result;
}

static void
a_faster_link_changes_time_and_not_bytes (void)
{
  static const char *const stages[] = { "stage=2", "stage=3" };

  for (size_t i = 0; i < G_N_ELEMENTS (stages); i++) {
    const char *sets[] = { stages[i], "zero_optimization.offload_optimizer.device=cpu", NULL };
    g_autoptr (ZsResult) pcie = run_job ("pcie", sets, false);
    g_autoptr (ZsResult) nvlink = run_job ("nvlink", sets, false);

    CU_ASSERT_EQUAL (pcie->outcome, ZS_OUTCOME_OK);
    CU_ASSERT_EQUAL (pcie->peak_allocated_bytes, nvlink->peak_allocated_bytes);
    CU_ASSERT_EQUAL (pcie->host_pinned_peak_bytes, nvlink->host_pinned_peak_bytes);
    CU_ASSERT_TRUE (pcie->step_time_ps > nvlink->step_time_ps);
    CU_ASSERT_TRUE (pcie->wait_ps[ZS_WAIT_COMMUNICATION] > nvlink->wait_ps[ZS_WAIT_COMMUNICATION]);
  }
}

/* Of all collectives of the last step on rank 0: time in all, and while a kernel ran. */
static void
overlap (const ZsResult *result, ZsTime *ret_all, ZsTime *ret_hidden)
{
  ZsTime begin = ZS_TIME_MAX, all = 0, hidden = 0;

  for (guint i = 0; i < result->phases->len; i++) {
    const ZsPhaseResult *phase = &g_array_index (result->phases, ZsPhaseResult, i);

    if (phase->step == 3)
      begin = MIN (begin, phase->start);
  }
  for (guint i = 0; i < result->spans->len; i++) {
    const ZsSpan *c = &g_array_index (result->spans, ZsSpan, i);

    if (c->rank != result->reported_rank || c->start < begin || c->track < ZS_TRACK_COLLECTIVE
        || c->track >= ZS_TRACK_COPY_IN)
      continue;
    all += c->end - c->start;
    for (guint j = 0; j < result->spans->len; j++) {
      const ZsSpan *k = &g_array_index (result->spans, ZsSpan, j);

      if (k->rank == c->rank && k->track == ZS_TRACK_STREAM + ZS_STREAM_COMPUTE
          && k->start < c->end && k->end > c->start)
        hidden += MIN (k->end, c->end) - MAX (k->start, c->start);
    }
  }
  *ret_all = all;
  *ret_hidden = hidden;
}

static void
prefetch_hides_gathers_behind_compute (void)
{
  const char *small[] = { "model.layers=6", NULL };
  const char *off[] = { "model.layers=6", "zero_optimization.overlap_comm=false",
                        "zero_optimization.stage3_prefetch_bucket_size=0", NULL };
  g_autoptr (ZsResult) with = run_job ("nvlink", small, true);
  g_autoptr (ZsResult) without = run_job ("nvlink", off, true);
  ZsTime all, hidden, all_off, hidden_off;

  overlap (with, &all, &hidden);
  overlap (without, &all_off, &hidden_off);
  printf ("# with prefetch %.0f %% of collective time is hidden, without %.0f %%\n",
          100.0 * (double) hidden / (double) all, 100.0 * (double) hidden_off / (double) all_off);
  CU_ASSERT_TRUE (hidden > all / 2);
  CU_ASSERT_TRUE (hidden_off < all_off / 4);
  CU_ASSERT_TRUE (without->step_time_ps > with->step_time_ps);
}

static void
the_parts_of_a_step_sum_to_it (void)
{
  static const char *const variants[][3] = {
    { "stage=0", NULL }, { "stage=2", "zero_optimization.offload_optimizer.device=cpu", NULL },
    { "stage=3", NULL }, { "stage=3", "zero_optimization.offload_optimizer.device=cpu", NULL },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (variants); i++) {
    g_autoptr (ZsResult) result = run_job ("nvlink", variants[i], false);
    ZsTime sum = 0;

    if (result->outcome != ZS_OUTCOME_OK)
      continue;
    for (int wait = 0; wait < ZS_N_WAITS; wait++)
      sum += result->wait_ps[wait];
    CU_ASSERT_EQUAL (sum, result->step_time_ps);
  }
}

/* Mixed precision with Adam holds 16 bytes per parameter: 2 weights, 2 gradients, 4 master, 8 states;
 * ZeRO-3 on one rank keeps them all. */
static void
sixteen_bytes_per_parameter (void)
{
  const char *sets[] = { "stage=3", "model.layers=2", NULL };
  g_autoptr (ZsResult) result = run_job ("nvlink", sets, false);
  const int64_t n = 2 * INT64_C (202383360) + 2 * INT64_C (131072000) + 4096;   /* llama-7b, 2 layers */
  int64_t resident = 0;

  for (guint i = 0; i < result->phases->len; i++)
    resident = g_array_index (result->phases, ZsPhaseResult, i).end_allocated_bytes;
  /* two ranks share; besides: the bucket, persistent norms, cuBLAS workspaces, rounding */
  CU_ASSERT_TRUE (resident >= 16 * n / 2);
  CU_ASSERT_TRUE (resident < 16 * n / 2 + (INT64_C (120) << 20));
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "a faster link changes time and not bytes", a_faster_link_changes_time_and_not_bytes },
    { "prefetch hides gathers behind compute", prefetch_hides_gathers_behind_compute },
    { "the parts of a step sum to it", the_parts_of_a_step_sum_to_it },
    { "sixteen bytes per parameter", sixteen_bytes_per_parameter },
    CU_TEST_INFO_NULL
  };
  return testing_main ("main job", tests);
}
