/* test-repeat.c: micro-steps and steps that are not run again give what running them gives.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/run/jobs.h"
#include "tests/testing.h"

#include <stdio.h>

#define EQUAL(member) CU_ASSERT_TRUE (a->member == b->member)

static void
check_phases (const ZsResult *x, const ZsResult *y)
{
  CU_ASSERT_EQUAL_FATAL (x->phases->len, y->phases->len);
  for (guint p = 0; p < x->phases->len; p++) {
    const ZsPhaseResult *a = &g_array_index (x->phases, ZsPhaseResult, p);
    const ZsPhaseResult *b = &g_array_index (y->phases, ZsPhaseResult, p);

    EQUAL (phase);
    EQUAL (step);
    EQUAL (micro_step);
    EQUAL (start);
    EQUAL (time);
    EQUAL (peak_allocated_bytes);
    EQUAL (peak_reserved_bytes);
    EQUAL (start_allocated_bytes);
    EQUAL (end_allocated_bytes);
    EQUAL (end_reserved_bytes);
  }
}

static void
check_links (const ZsResult *x, const ZsResult *y)
{
  CU_ASSERT_EQUAL_FATAL (x->links->len, y->links->len);
  for (guint l = 0; l < x->links->len; l++) {
    const ZsLinkUse *a = &g_array_index (x->links, ZsLinkUse, l);
    const ZsLinkUse *b = &g_array_index (y->links, ZsLinkUse, l);

    EQUAL (bytes);
    EQUAL (busy);
  }
}

static void
check_points (const ZsResult *x, const ZsResult *y)
{
  CU_ASSERT_EQUAL_FATAL (x->memory_points->len, y->memory_points->len);
  bool equal = true;

  for (guint p = 0; p < x->memory_points->len; p++) {
    const ZsMemoryPoint *a = &g_array_index (x->memory_points, ZsMemoryPoint, p);
    const ZsMemoryPoint *b = &g_array_index (y->memory_points, ZsMemoryPoint, p);

    equal &= a->when == b->when && a->allocated_bytes == b->allocated_bytes
             && a->reserved_bytes == b->reserved_bytes;
  }
  CU_ASSERT_TRUE (equal);
}

static void
check_equal (const ZsResult *a, const ZsResult *b)
{
  EQUAL (outcome);
  EQUAL (reported_rank);
  EQUAL (step_time_ps);
  for (int w = 0; w < ZS_N_WAITS; w++)
    EQUAL (wait_ps[w]);
  EQUAL (tokens_per_second_per_gpu);
  EQUAL (tflops_per_gpu);
  EQUAL (mfu);
  EQUAL (hfu);
  EQUAL (peak_allocated_bytes);
  EQUAL (peak_reserved_bytes);
  EQUAL (peak_device_bytes);
  EQUAL (peak_step);
  EQUAL (peak_micro_step);
  EQUAL (peak_phase);
  EQUAL (host_pinned_peak_bytes);
  EQUAL (host_pageable_peak_bytes);
  EQUAL (nvme_bytes);
  EQUAL (alloc_retries);
  EQUAL (n_instructions);
  EQUAL (n_events);
  EQUAL (live->len);
  check_phases (a, b);
  check_links (a, b);
  check_points (a, b);
}

/* Returns how many instructions were not run. */
static int64_t
compare (Job *job, const ZsRunOptions *options)
{
  ZsRunOptions o = *options;

  o.want_memory_points = o.want_links = true;
  g_autoptr (ZsResult) repeated = job_run (job, &o);

  o.no_repeats = true;
  g_autoptr (ZsResult) run = job_run (job, &o);

  check_equal (repeated, run);
  CU_ASSERT_EQUAL (run->n_repeated, 0);
  return repeated->n_repeated;
}

static const char *const FABRICS[] = { "nvswitch-h100", "pcie4-x16-two-sockets",
                                       "pcie4-x16-host-bridge" };

static void
set_accumulation (Job *job, int micro_steps)
{
  job->training.gradient_accumulation = micro_steps;
  job->training.zero.gradient_accumulation = micro_steps;
  job->training.fsdp.gradient_accumulation = micro_steps;
}

static void
compare_zero (int stage, int64_t world, int fabric, int micro_steps, bool offload, bool synchronize,
              bool fold)
{
  Job job;
  ZsRunOptions options;

  zs_run_options_init (&options);
  options.no_folding = !fold;
  job_init (&job, MODEL_TINY, stage, world, FABRICS[fabric]);
  set_accumulation (&job, micro_steps);
  job.training.synchronize_phases = synchronize;
  if (offload) {
    job.training.zero.offload_optimizer = ZS_DEVICE_CPU;
    job.training.zero.optimizer = ZS_DS_OPTIMIZER_CPU_ADAM;
    job.training.zero.optimizer_pin = true;
    if (stage == 3)
      job.training.zero.offload_param = ZS_DEVICE_CPU;
  }
  int64_t n_repeated = compare (&job, &options);

  printf ("# ZeRO-%d%s, %d ranks, %d micro-steps%s%s: %d instructions not run again\n", stage,
          offload ? " offload" : "", (int) world, micro_steps,
          synchronize ? "" : ", phases not synchronised", fold ? "" : ", unfolded",
          (int) n_repeated);
  CU_ASSERT_TRUE (!synchronize || world > 1 || n_repeated > 0);
  job_clear (&job);
}

static void
micro_steps_of_every_stage (void)
{
  for (int stage = 0; stage <= 3; stage++) {
    compare_zero (stage, 1, 0, 12, false, true, true);
    compare_zero (stage, 4, stage % 3, 12, false, true, true);
    compare_zero (stage, 2, 1, 15, false, false, true);
  }
  compare_zero (3, 3, 1, 9, false, true, false);
  compare_zero (2, 2, 2, 10, false, true, false);
}

static void
micro_steps_with_offload (void)
{
  for (int stage = 1; stage <= 3; stage++)
    for (int64_t world = 1; world <= 4; world += 3)
      compare_zero (stage, world, 2, 10, true, true, true);
}

static void
micro_steps_of_other_frameworks (void)
{
  static const struct { ZsFramework framework; int64_t world; bool offload; } cases[] = {
    { ZS_FRAMEWORK_SINGLE, 1, false }, { ZS_FRAMEWORK_DDP, 4, false },
    { ZS_FRAMEWORK_FSDP1, 4, false },  { ZS_FRAMEWORK_FSDP2, 4, false },
    { ZS_FRAMEWORK_FSDP2, 2, true },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    Job job;
    ZsRunOptions options;
    ZsTraining *training = &job.training;

    zs_run_options_init (&options);
    job_init (&job, MODEL_TINY, 0, cases[i].world, "nvswitch-h100");
    training->framework = cases[i].framework;
    training->fsdp = (ZsFsdpConfig) {
      .version = cases[i].framework == ZS_FRAMEWORK_FSDP1 ? 1 : 2, .world = cases[i].world,
      .node_ranks = cases[i].world, .reshard_after_forward = true,
      .parameter_dtype = ZS_DTYPE_FP32, .compute_dtype = ZS_DTYPE_BF16,
      .reduce_dtype = ZS_DTYPE_FP32, .cpu_offload = cases[i].offload, .limit_all_gathers = true,
      .backward_prefetch = true, .optimizer = ZS_OPTIMIZER_FUSED,
      .versions = training->zero.versions,
    };
    set_accumulation (&job, 12);
    int64_t n_repeated = compare (&job, &options);

    printf ("# framework %d, %d ranks%s: %d instructions not run again\n", (int) cases[i].framework,
            (int) cases[i].world, cases[i].offload ? ", offload" : "", (int) n_repeated);
    job_clear (&job);
  }
}

static void
whole_steps (void)
{
  int64_t n_repeated = 0;

  for (int stage = -1; stage <= 3; stage++) {
    Job job;
    ZsRunOptions options;

    zs_run_options_init (&options);
    job_init (&job, MODEL_TINY, stage, stage < 0 ? 1 : 2, "nvswitch-h100");
    job.training.n_steps = 15;
    n_repeated += compare (&job, &options);
    options.report_rank = stage < 0 ? 0 : 1;
    set_accumulation (&job, 3);
    n_repeated += compare (&job, &options);
    job_clear (&job);
  }
  printf ("# %d instructions of whole steps not run again\n", (int) n_repeated);
  CU_ASSERT_TRUE (n_repeated > 0);
}

static void
out_of_memory_comes_when_it_comes (void)
{
  Job job;
  ZsRunOptions options;

  zs_run_options_init (&options);
  job_init (&job, MODEL_TINY, 3, 2, "nvswitch-h100");
  set_accumulation (&job, 8);
  for (int64_t limit = 96; limit <= 192; limit += 16) {
    options.memory_limit_bytes = limit << 20;
    compare (&job, &options);
  }
  job_clear (&job);
}

/* A list of lengths comes again and again; drawn lengths never do. */
static void
micro_batches_of_many_lengths (void)
{
  static const int64_t LIST[] = { 512, 2048, 100, 700 };

  for (int stage = -1; stage <= 3; stage++)
    for (int n = 2; n <= 4; n++) {
      Job job;
      ZsRunOptions options;

      zs_run_options_init (&options);
      job_init (&job, MODEL_TINY, stage, stage < 0 ? 1 : 2, "nvswitch-h100");
      job.training.n_steps = 24;
      job.training.step.new_inputs = true;
      job.training.step.open_attention = job.training.step.attention;
      set_accumulation (&job, 3);
      job.training.lengths = (ZsLengths) { .list = LIST, .n_list = n };
      int64_t n_repeated = compare (&job, &options);

      CU_ASSERT_TRUE (stage >= 0 || n_repeated > 0);
      set_accumulation (&job, 24);
      job.training.n_steps = 2;
      n_repeated += compare (&job, &options);
      CU_ASSERT_TRUE (n_repeated > 0);
      job.training.lengths = (ZsLengths) { .mean = 700, .deviation = 500, .seed = (uint64_t) n };
      CU_ASSERT_EQUAL (compare (&job, &options), 0);
      job_clear (&job);
    }
}

static void
equal_lengths_are_one_length (void)
{
  static const int64_t LIST[] = { 700, 700, 700 };

  for (int stage = -1; stage <= 3; stage++)
    for (int64_t batch = 1; batch <= 2; batch++) {
      Job job;
      ZsRunOptions options;

      zs_run_options_init (&options);
      options.want_memory_points = options.want_links = true;
      job_init (&job, MODEL_TINY, stage, stage < 0 ? 1 : 2, "nvswitch-h100");
      job.training.n_steps = 2;     /* the mean of all but the first is the last */
      job.training.step.micro_batch = batch;
      job.training.step.sequence = 700;
      job.training.step.new_inputs = true;
      job.training.step.attention_mask = batch > 1;
      job.training.step.open_attention = job.training.step.attention;
      set_accumulation (&job, 5);
      g_autoptr (ZsResult) one = job_run (&job, &options);

      job.training.step.sequence = 2048;
      job.training.lengths = (ZsLengths) { .list = LIST, .n_list = 3 };
      g_autoptr (ZsResult) list = job_run (&job, &options);

      check_equal (one, list);
      job_clear (&job);
    }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "micro-steps of every stage", micro_steps_of_every_stage },
    { "micro-steps with offload", micro_steps_with_offload },
    { "micro-steps of other frameworks", micro_steps_of_other_frameworks },
    { "whole steps", whole_steps },
    { "micro-batches of many lengths", micro_batches_of_many_lengths },
    { "equal lengths are one length", equal_lengths_are_one_length },
    { "out of memory comes when it comes", out_of_memory_comes_when_it_comes },
    CU_TEST_INFO_NULL
  };

  return testing_main ("repeat", tests);
}
