/* test-training.c: whole jobs on whole machines: what must hold whatever the constants are.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/run/jobs.h"
#include "tests/testing.h"

#include <stdio.h>

static void
check_parts (const ZsResult *result)
{
  ZsTime sum = 0;

  for (int w = 0; w < ZS_N_WAITS; w++) {
    CU_ASSERT_TRUE (result->wait_ps[w] >= 0);
    sum += result->wait_ps[w];
  }
  CU_ASSERT_EQUAL (sum, result->step_time_ps);
  CU_ASSERT_TRUE (result->step_time_ps > 0);
  int64_t held = 0;

  for (guint h = 0; h < result->peak_holders->len; h++)
    held += g_array_index (result->peak_holders, ZsHolder, h).bytes;
  CU_ASSERT_EQUAL (held, result->peak_allocated_bytes);
  /* phases follow one another and make up the steps */
  ZsTime steps = 0, phases = 0;

  for (guint p = 0; p < result->phases->len; p++) {
    const ZsPhaseResult *phase = &g_array_index (result->phases, ZsPhaseResult, p);

    CU_ASSERT_TRUE (phase->time >= 0);
    if (p > 0) {
      const ZsPhaseResult *before = phase - 1;

      CU_ASSERT_EQUAL (phase->start, before->start + before->time);
    }
    if (phase->step > 0)
      phases += phase->time;
    CU_ASSERT_TRUE (phase->peak_allocated_bytes <= phase->peak_reserved_bytes);
  }
  for (guint s = 0; s < result->steps->len; s++)
    steps += g_array_index (result->steps, ZsStepResult, s).time;
  CU_ASSERT_EQUAL (steps, phases);
}

static void
a_plain_step_adds_up (void)
{
  Job job;

  job_init (&job, MODEL_1B, -1, 1, "nvswitch-h100");
  g_autoptr (ZsResult) result = job_run (&job, NULL);

  check_parts (result);
  CU_ASSERT_EQUAL (result->outcome, ZS_OUTCOME_OK);
  CU_ASSERT_EQUAL (result->steps->len, 3);
  CU_ASSERT_EQUAL (result->wait_ps[ZS_WAIT_COMMUNICATION], 0);
  CU_ASSERT_EQUAL (result->wait_ps[ZS_WAIT_OFFLOAD], 0);
  CU_ASSERT_TRUE (result->wait_ps[ZS_WAIT_COMPUTE] > result->wait_ps[ZS_WAIT_OPTIMIZER]);
  CU_ASSERT_TRUE (result->mfu > 0.05 && result->mfu < 0.8 && result->hfu > result->mfu);
  CU_ASSERT_DOUBLE_EQUAL (result->tokens_per_second_per_gpu,
                          2048 / zs_time_to_seconds (result->step_time_ps), 1e-6);
  job_clear (&job);
}

static ZsTime
step_time (int stage, int64_t world, const char *fabric, bool offload)
{
  Job job;

  job_init (&job, MODEL_1B, stage, world, fabric);
  job.training.shape.n_layers = 4;
  if (offload) {
    job.training.zero.offload_optimizer = ZS_DEVICE_CPU;
    job.training.zero.optimizer = ZS_DS_OPTIMIZER_CPU_ADAM;
    job.training.zero.optimizer_pin = true;
  }
  g_autoptr (ZsResult) result = job_run (&job, NULL);

  check_parts (result);
  CU_ASSERT_TRUE (world == 1 || result->wait_ps[ZS_WAIT_COMMUNICATION] > 0
                  || g_str_equal (fabric, "ideal"));
  CU_ASSERT_EQUAL (offload, result->wait_ps[ZS_WAIT_OFFLOAD] > 0);
  job_clear (&job);
  return result->step_time_ps;
}

static void
a_faster_fabric_is_never_slower (void)
{
  static const char *const FABRICS[] = { "ideal", "nvswitch-h100", "pcie5-x16-switch",
                                         "pcie4-x16-host-bridge", "pcie3-x16-host-bridge" };
  ZsTime before = 0;

  for (size_t f = 0; f < G_N_ELEMENTS (FABRICS); f++) {
    ZsTime now = step_time (2, 4, FABRICS[f], false);

    if (now < before)
      printf ("# %s is faster than the one before\n", FABRICS[f]);
    CU_ASSERT_TRUE (now >= before);
    before = now;
  }
}

static void
offload_costs_time (void)
{
  CU_ASSERT_TRUE (step_time (2, 2, "pcie4-x16-host-bridge", true)
                  > step_time (2, 2, "pcie4-x16-host-bridge", false));
}

static void
zero_2_folds_only_what_is_equal (void)
{
  Job job;
  ZsRunOptions options;

  zs_run_options_init (&options);
  job_init (&job, MODEL_TINY, 2, 3, "pcie4-x16-two-sockets");
  for (int64_t r = 0; r < 3; r++) {
    options.report_rank = r;
    options.no_folding = false;
    g_autoptr (ZsResult) folded = job_run (&job, &options);

    options.no_folding = true;
    g_autoptr (ZsResult) unfolded = job_run (&job, &options);

    check_parts (folded);
    CU_ASSERT_EQUAL (folded->n_distinct_plans, 3);
    CU_ASSERT_EQUAL (folded->step_time_ps, unfolded->step_time_ps);
    CU_ASSERT_EQUAL (folded->peak_allocated_bytes, unfolded->peak_allocated_bytes);
    CU_ASSERT_EQUAL (folded->peak_reserved_bytes, unfolded->peak_reserved_bytes);
  }
  job_clear (&job);
}

/* Ranks of STAGE fold, with everything the same as without. */
static void
folds (int stage, int64_t world, const char *fabric, bool offload)
{
  Job job;
  ZsRunOptions options;

  zs_run_options_init (&options);
  job_init (&job, MODEL_TINY, stage, world, fabric);
  if (offload) {
    job.training.zero.offload_optimizer = job.training.zero.offload_param = ZS_DEVICE_CPU;
    job.training.zero.optimizer = ZS_DS_OPTIMIZER_CPU_ADAM;
    job.training.zero.optimizer_pin = job.training.zero.param_pin = true;
  }
  job.training.gradient_accumulation = job.training.zero.gradient_accumulation = 2;
  g_autoptr (ZsResult) folded = job_run (&job, &options);

  options.no_folding = true;
  g_autoptr (ZsResult) unfolded = job_run (&job, &options);

  check_parts (folded);
  CU_ASSERT_EQUAL (folded->n_distinct_plans, 1);
  CU_ASSERT_TRUE (folded->n_instructions < unfolded->n_instructions);
  CU_ASSERT_EQUAL (folded->step_time_ps, unfolded->step_time_ps);
  for (int w = 0; w < ZS_N_WAITS; w++)
    CU_ASSERT_EQUAL (folded->wait_ps[w], unfolded->wait_ps[w]);
  CU_ASSERT_EQUAL (folded->peak_allocated_bytes, unfolded->peak_allocated_bytes);
  CU_ASSERT_EQUAL (folded->peak_reserved_bytes, unfolded->peak_reserved_bytes);
  CU_ASSERT_EQUAL (folded->host_pinned_peak_bytes, unfolded->host_pinned_peak_bytes);
  CU_ASSERT_EQUAL (folded->phases->len, 2 + 3 * 5);
  job_clear (&job);
}

static void
stage_3_folds (void)
{
  folds (3, 4, "nvswitch-h100", false);
  folds (3, 3, "pcie4-x16-host-bridge", false);
  folds (3, 4, "pcie4-x16-two-sockets", false);
  folds (3, 2, "pcie4-x16-host-bridge", true);
  folds (3, 4, "pcie3-x16-two-sockets", true);
}

static void
stage_0_folds_on_any_machine (void)
{
  static const char *const FABRICS[] = { "nvswitch-h100", "pcie4-x16-host-bridge",
                                         "pcie4-x16-two-sockets" };

  for (size_t f = 0; f < G_N_ELEMENTS (FABRICS); f++) {
    Job job;
    ZsRunOptions options;

    zs_run_options_init (&options);
    job_init (&job, MODEL_TINY, 0, 4, FABRICS[f]);
    g_autoptr (ZsResult) folded = job_run (&job, &options);

    options.no_folding = true;
    g_autoptr (ZsResult) unfolded = job_run (&job, &options);

    CU_ASSERT_EQUAL (folded->n_distinct_plans, 1);
    CU_ASSERT_EQUAL (unfolded->n_distinct_plans, 4);
    CU_ASSERT_EQUAL (folded->n_instructions * 4, unfolded->n_instructions);
    CU_ASSERT_EQUAL (folded->step_time_ps, unfolded->step_time_ps);
    for (int w = 0; w < ZS_N_WAITS; w++)
      CU_ASSERT_EQUAL (folded->wait_ps[w], unfolded->wait_ps[w]);
    CU_ASSERT_EQUAL (folded->peak_reserved_bytes, unfolded->peak_reserved_bytes);
    job_clear (&job);
  }
}

/* More ranks than plans that may be run: those with the most and the least are among them. */
static void
many_zero_2_ranks_run_as_few (void)
{
  Job job;
  ZsRunOptions options;

  zs_run_options_init (&options);
  job_init (&job, MODEL_TINY, 2, 8, "nvswitch-h100");
  g_autoptr (ZsResult) all = job_run (&job, &options);

  options.max_plans = 4;
  g_autoptr (ZsResult) few = job_run (&job, &options);

  CU_ASSERT_EQUAL (all->n_distinct_plans, 8);
  CU_ASSERT_TRUE (few->n_distinct_plans <= 4 && few->n_distinct_plans >= 2);
  CU_ASSERT_EQUAL (few->peak_allocated_bytes, all->peak_allocated_bytes);
  CU_ASSERT_DOUBLE_EQUAL ((double) few->step_time_ps, (double) all->step_time_ps,
                          0.01 * (double) all->step_time_ps);
  job_clear (&job);
}

static void
too_little_host_memory_is_an_outcome (void)
{
  Job job;

  job_init (&job, MODEL_TINY, 2, 2, "pcie4-x16-host-bridge");
  job.training.zero.offload_optimizer = ZS_DEVICE_CPU;
  job.training.zero.optimizer = ZS_DS_OPTIMIZER_CPU_ADAM;
  job.host.memory_bytes = 1 << 20;
  g_autoptr (ZsResult) result = job_run (&job, NULL);

  CU_ASSERT_EQUAL (result->outcome, ZS_OUTCOME_HOST_OOM);
  CU_ASSERT_EQUAL (result->host_pageable_peak_bytes,
                   2 * result->host_pageable_peak_bytes_per_rank);
  job_clear (&job);
}

static void
a_small_limit_is_out_of_memory (void)
{
  Job job;
  ZsRunOptions options;

  zs_run_options_init (&options);
  options.memory_limit_bytes = INT64_C (4) << 30;
  job_init (&job, MODEL_1B, -1, 1, "nvswitch-h100");
  g_autoptr (ZsResult) result = job_run (&job, &options);

  CU_ASSERT_EQUAL (result->outcome, ZS_OUTCOME_OOM);
  CU_ASSERT_EQUAL (result->oom.step, 1);
  CU_ASSERT_PTR_NOT_NULL (result->oom.message);
  CU_ASSERT_TRUE (result->oom.reserved_bytes + result->oom.tried_bytes
                  > options.memory_limit_bytes);
  job_clear (&job);
}

/* Spans of one lane do not overlap, and lie in time. */
static void
spans_are_in_order (void)
{
  Job job;
  ZsRunOptions options;
  ZsTime last[ZS_N_TRACKS] = { 0 }, critical = 0, wait[ZS_N_WAITS] = { 0 }, begin, end = 0;
  int n_critical = 0;

  zs_run_options_init (&options);
  options.want_spans = options.want_memory_points = options.want_memory_events = true;
  options.want_links = options.want_link_points = true;
  job_init (&job, MODEL_TINY, 2, 2, "pcie4-x16-host-bridge");
  g_autoptr (ZsResult) result = job_run (&job, &options);

  CU_ASSERT_TRUE (result->spans->len > 100 && result->memory_points->len > 100
                  && result->memory_events->len > 100 && result->links->len > 0);
  for (guint p = 0; p < result->phases->len; p++) {
    const ZsPhaseResult *phase = &g_array_index (result->phases, ZsPhaseResult, p);

    end = phase->start + phase->time;
  }
  begin = end - result->step_time_ps;
  for (guint s = 0; s < result->spans->len; s++) {
    const ZsSpan *span = &g_array_index (result->spans, ZsSpan, s);

    if (span->rank != 0)
      continue;
    if ((span->track == ZS_TRACK_WAIT || span->track == ZS_TRACK_STREAM + ZS_STREAM_COMPUTE)
        && span->start < end && span->end > begin)
      wait[span->cause] += MIN (span->end, end) - MAX (span->start, begin);
    CU_ASSERT_TRUE (span->track < ZS_N_TRACKS && span->end >= span->start);
    CU_ASSERT_TRUE (span->start >= last[span->track]);
    last[span->track] = span->end;
    n_critical += span->critical;
    critical += span->critical ? span->end - span->start : 0;
  }
  /* the path is one: its spans do not overlap, so they are no longer than the step */
  CU_ASSERT_TRUE (n_critical > 10 && critical <= result->step_time_ps
                  && critical > result->step_time_ps / 4);
  /* kernels and waits of the compute stream cover it, and are what the parts of the step say */
  for (int w = 0; w < ZS_N_WAITS; w++)
    CU_ASSERT_EQUAL (wait[w], result->wait_ps[w]);
  for (guint i = 0; i < result->link_points->len; i++) {
    const ZsLinkPoint *point = &g_array_index (result->link_points, ZsLinkPoint, i);

    CU_ASSERT_TRUE (i == 0 || point->when >= g_array_index (result->link_points, ZsLinkPoint,
                                                            i - 1).when);
  }
  for (guint l = 0; l < result->links->len; l++) {
    const ZsLinkUse *use = &g_array_index (result->links, ZsLinkUse, l);
    double bytes = 0, seconds = 0;
    ZsLinkPoint before = { .when = 0 };

    /* what the points add up to is what crossed the link in the last step */
    for (guint i = 0; i < result->link_points->len; i++) {
      const ZsLinkPoint *point = &g_array_index (result->link_points, ZsLinkPoint, i);

      if (point->resource != use->resource)
        continue;
      seconds = zs_time_to_seconds (MAX (point->when, begin) - MAX (before.when, begin));
      bytes += (double) before.rate * seconds;
      before = *point;
    }
    CU_ASSERT_DOUBLE_EQUAL (bytes, (double) use->bytes, 0.02 * (double) use->bytes + 4096);

    CU_ASSERT_TRUE (use->busy > 0 && use->busy <= result->step_time_ps);
    CU_ASSERT_TRUE ((double) use->bytes
                    <= (double) use->rate * zs_time_to_seconds (use->busy) * 1.001);
  }
  job_clear (&job);
}

static gpointer
run_in_thread (gpointer data)
{
  return job_run (data, NULL);
}

static void
threads_get_the_same (void)
{
  Job job;
  GThread *threads[4];
  ZsTime step = 0;

  job_init (&job, MODEL_TINY, 2, 4, "nvswitch-h100");
  job_ready (&job);
  for (int t = 0; t < 4; t++)
    threads[t] = g_thread_new ("run", run_in_thread, &job);
  for (int t = 0; t < 4; t++) {
    g_autoptr (ZsResult) result = g_thread_join (threads[t]);

    CU_ASSERT_TRUE (t == 0 || result->step_time_ps == step);
    step = result->step_time_ps;
  }
  job_clear (&job);
}

/* Many nodes that are alike: running the first for all gives what looking at all of them gives. */
static void
alike_nodes_are_run_once (void)
{
  static const struct { int stage; int64_t group; } cases[] = { { 3, 0 }, { 0, 0 }, { 3, 2 }, { 3, 4 } };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    Job job;
    ZsRunOptions options;
    const ZsNetwork network = { .name = "ib", .kind = ZS_NETWORK_INFINIBAND, .nics = 2,
                                .rate = INT64_C (25000000000), .latency = 5 * ZS_MICROSECOND,
                                .efficiency = 0.9, .gpu_direct = true };

    zs_run_options_init (&options);
    options.want_links = options.want_memory_points = true;
    options.report_rank = 9;
    job_init (&job, MODEL_TINY, cases[i].stage, 4, "pcie4-x16-two-sockets");
    CU_ASSERT_TRUE_FATAL (zs_topology_connect (job.topology, 3, &network, NULL));
    job.training.world = job.training.zero.world = 12;
    job.training.zero.hpz_partition_size = cases[i].group;
    job_ready (&job);
    g_autoptr (ZsResult) a = job_run (&job, &options);
    ZsMachine machine = *zs_cluster_machine (job.cluster);

    CU_ASSERT_TRUE (machine.node_resources > 0);
    machine.node_resources = 0;
    g_autoptr (ZsResult) b = zs_run (&job.training, &machine, &options, NULL);

    CU_ASSERT_EQUAL (a->step_time_ps, b->step_time_ps);
    CU_ASSERT_EQUAL (a->reported_rank, 9);
    CU_ASSERT_EQUAL (b->reported_rank, 9);
    CU_ASSERT_EQUAL (a->peak_reserved_bytes, b->peak_reserved_bytes);
    CU_ASSERT_EQUAL (a->peak_device_bytes, b->peak_device_bytes);
    CU_ASSERT_EQUAL (a->host_pageable_peak_bytes, b->host_pageable_peak_bytes);
    for (int w = 0; w < ZS_N_WAITS; w++)
      CU_ASSERT_EQUAL (a->wait_ps[w], b->wait_ps[w]);
    CU_ASSERT_EQUAL_FATAL (a->links->len, b->links->len);
    for (guint l = 0; l < a->links->len; l++) {
      const ZsLinkUse *x = &g_array_index (a->links, ZsLinkUse, l);
      const ZsLinkUse *y = &g_array_index (b->links, ZsLinkUse, l);

      CU_ASSERT_STRING_EQUAL (x->name, y->name);
      CU_ASSERT_EQUAL (x->bytes, y->bytes);
      CU_ASSERT_EQUAL (x->busy, y->busy);
    }
    job_clear (&job);
  }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "a plain step adds up", a_plain_step_adds_up },
    { "a faster fabric is never slower", a_faster_fabric_is_never_slower },
    { "offload costs time", offload_costs_time },
    { "ZeRO-2 folds only what is equal", zero_2_folds_only_what_is_equal },
    { "stage 3 folds", stage_3_folds },
    { "stage 0 folds on any machine", stage_0_folds_on_any_machine },
    { "many ZeRO-2 ranks run as few", many_zero_2_ranks_run_as_few },
    { "too little host memory is an outcome", too_little_host_memory_is_an_outcome },
    { "a small limit is out of memory", a_small_limit_is_out_of_memory },
    { "spans are in order", spans_are_in_order },
    { "threads get the same", threads_get_the_same },
    { "alike nodes are run once", alike_nodes_are_run_once },
    CU_TEST_INFO_NULL
  };
  return testing_main ("training", tests);
}
