/* test-run.c: one rank or a few, in closed form.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/run/fixture.h"
#include "tests/testing.h"

#include <stdio.h>

#define MB INT64_C (1000000)   /* 100 us at 10 GB/s */

/* Rates are whole bytes per second, rounded down: a third of 10 GB/s ends a picosecond late. */
static void
expect_time (ZsTime found, ZsTime expected)
{
  if (ABS (found - expected) > 1)
    printf ("# %" G_GINT64_FORMAT " ps, expected %" G_GINT64_FORMAT "\n", found, expected);
  CU_ASSERT_TRUE (ABS (found - expected) <= 1);
}

static void
expect (Fixture *fixture, Script script, ZsTime step, ZsTime compute, ZsTime communication,
        ZsTime offload, ZsTime optimizer, ZsTime host)
{
  g_autoptr (ZsResult) result = fixture_result (fixture, script, NULL);

  expect_time (result->step_time_ps, step);
  expect_time (result->wait_ps[ZS_WAIT_COMPUTE], compute);
  expect_time (result->wait_ps[ZS_WAIT_COMMUNICATION], communication);
  expect_time (result->wait_ps[ZS_WAIT_OFFLOAD], offload);
  expect_time (result->wait_ps[ZS_WAIT_OPTIMIZER], optimizer);
  expect_time (result->wait_ps[ZS_WAIT_HOST], host);
}

static void
finish (ZsPlan *plan)
{
  zs_plan_host_wait_device (plan);
}

static void
long_kernels (ZsPlan *plan, int64_t rank G_GNUC_UNUSED, const void *data G_GNUC_UNUSED)
{
  begin_step (plan, 1);
  for (int i = 0; i < 10; i++)
    launch (plan, 100 * US);
  finish (plan);
}

static void
short_kernels (ZsPlan *plan, int64_t rank G_GNUC_UNUSED, const void *data G_GNUC_UNUSED)
{
  begin_step (plan, 1);
  for (int i = 0; i < 10; i++)
    launch (plan, US / 4);
  finish (plan);
}

static void
kernels_hide_launches_or_wait_for_them (void)
{
  Fixture fixture;

  fixture_init (&fixture, 1, 1);
  expect (&fixture, long_kernels, 1001 * US, 1000 * US, 0, 0, 0, US);
  expect (&fixture, short_kernels, 10 * US + US / 4, 10 * US / 4, 0, 0, 0, 10 * US - 9 * US / 4);
}

static void
collective_alone (ZsPlan *plan, int64_t rank G_GNUC_UNUSED, const void *data G_GNUC_UNUSED)
{
  begin_step (plan, 1);
  ZsEvent done = zs_plan_event_new (plan);

  zs_plan_collective (plan, ZS_COLLECTIVE_ALL_GATHER, ZS_COMMUNICATOR_WORLD, 4 * MB, done);
  zs_plan_stream_wait_event (plan, ZS_STREAM_COMPUTE, done);
  launch (plan, 7 * US);
  finish (plan);
}

static void
a_collective_alone_takes_latency_and_transfer (void)
{
  Fixture fixture;

  fixture_init (&fixture, 4, 4);
  /* 4 MB x 3/4 at 10 GB/s = 300 us, after 10 us; the launch hides behind it */
  expect (&fixture, collective_alone, 317 * US, 7 * US, 310 * US, 0, 0, 0);
}

static void
hidden_collective (ZsPlan *plan, int64_t rank G_GNUC_UNUSED, const void *data)
{
  ZsTime compute = data != NULL ? *(const ZsTime *) data : 200 * US;

  begin_step (plan, 1);
  ZsEvent done = zs_plan_event_new (plan);

  zs_plan_collective (plan, ZS_COLLECTIVE_ALL_GATHER, ZS_COMMUNICATOR_WORLD, 2 * MB, done);
  launch (plan, compute);
  zs_plan_stream_wait_event (plan, ZS_STREAM_COMPUTE, done);
  launch (plan, 50 * US);
  finish (plan);
}

static void
the_longer_of_compute_and_communication_counts (void)
{
  Fixture fixture;

  fixture_init (&fixture, 2, 2);
  /* the collective takes 110 us */
  expect (&fixture, hidden_collective, 251 * US, 250 * US, 0, 0, 0, US);
  ZsTime compute = 60 * US;
  g_autoptr (ZsResult) result = fixture_result (&fixture, hidden_collective, &compute);

  CU_ASSERT_EQUAL (result->step_time_ps, 160 * US);
  CU_ASSERT_EQUAL (result->wait_ps[ZS_WAIT_COMMUNICATION], 49 * US);
  CU_ASSERT_EQUAL (result->wait_ps[ZS_WAIT_COMPUTE], 110 * US);
}

static void
a_collective_takes_sms_from_kernels (void)
{
  Fixture fixture;

  fixture_init (&fixture, 2, 2);
  fixture.sms = 20;
  /* 100 SMs, 20 taken, for 110 us.  As blocks are 0 (memory-bound) nothing changes ... */
  g_autoptr (ZsResult) result = fixture_result (&fixture, hidden_collective, NULL);

  CU_ASSERT_EQUAL (result->step_time_ps, 251 * US);
}

static void
waves (ZsPlan *plan, int64_t rank G_GNUC_UNUSED, const void *data)
{
  uint32_t kernel = zs_plan_kernel (plan, &(ZsKernel) { .kind = ZS_KERNEL_MATMUL, .n = 100 * US,
                                                        .m = *(const int64_t *) data,
                                                        .name = "matmul" });
  begin_step (plan, 1);
  zs_plan_collective (plan, ZS_COLLECTIVE_ALL_GATHER, ZS_COMMUNICATOR_WORLD, 2 * MB, ZS_NO_EVENT);
  zs_plan_launch (plan, kernel);
  zs_plan_launch (plan, kernel);
  finish (plan);
}

static void
waves_of_blocks_are_whole (void)
{
  Fixture fixture;

  fixture_init (&fixture, 2, 2);
  fixture.sms = 20;
  static const struct { int64_t blocks; ZsTime step; } cases[] = {
    /* one wave either way */
    { 80, 201 * US },
    /* two waves instead of one until 110 us: 109 us of progress at half speed, 145.5 us left */
    { 100, 110 * US + 145500 * (US / 1000) },
    /* ten waves instead of eight: progress 109 x 0.8 */
    { 800, 110 * US + 112800 * (US / 1000) },
  };

  for (size_t c = 0; c < G_N_ELEMENTS (cases); c++) {
    g_autoptr (ZsResult) result = fixture_result (&fixture, waves, &cases[c].blocks);

    CU_ASSERT_TRUE (ABS (result->step_time_ps - cases[c].step) <= 2);
  }
}

static void
late_rank (ZsPlan *plan, int64_t rank, const void *data G_GNUC_UNUSED)
{
  begin_step (plan, 1);
  ZsEvent done = zs_plan_event_new (plan);

  launch (plan, rank == 2 ? 400 * US : 100 * US);
  zs_plan_collective (plan, ZS_COLLECTIVE_ALL_REDUCE, ZS_COMMUNICATOR_WORLD, 2 * MB, done);
  zs_plan_stream_wait_event (plan, ZS_STREAM_COMPUTE, done);
  finish (plan);
}

static void
a_collective_starts_when_the_last_has_come (void)
{
  Fixture fixture;

  fixture_init (&fixture, 4, 4);
  for (int64_t r = 0; r < 4; r++) {
    ZsRunOptions options;

    zs_run_options_init (&options);
    options.report_rank = r;
    g_autoptr (ZsResult) result = fixture_run (&fixture, late_rank, NULL, &options, NULL);

    CU_ASSERT_PTR_NOT_NULL_FATAL (result);
    CU_ASSERT_EQUAL (result->reported_rank, r);
    CU_ASSERT_EQUAL (result->n_distinct_plans, 2);
    /* 1 + 400 us, then 10 + 150 us */
    CU_ASSERT_EQUAL (result->step_time_ps, 561 * US);
    CU_ASSERT_EQUAL (result->wait_ps[ZS_WAIT_COMMUNICATION], (r == 2 ? 160 : 460) * US);
  }
}

static void
blocking_copy (ZsPlan *plan, int64_t rank G_GNUC_UNUSED, const void *data)
{
  begin_step (plan, 1);
  launch (plan, 50 * US);
  zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, MB, *(const unsigned int *) data);
  zs_plan_host (plan, ZS_HOST_HOOK, 30);
  launch (plan, 10 * US);
  finish (plan);
}

static void
a_blocking_copy_stops_the_host (void)
{
  static const struct { unsigned int flags; ZsTime step, host; } cases[] = {
    /* kernel 1-51, copy to 161, host work to 191, launch 192 */
    { ZS_FLAG_PINNED | ZS_FLAG_BLOCKING, 202 * US, 32 * US },
    /* never asynchronous without pinned memory */
    { 0, 202 * US, 32 * US },
    /* the host goes on: all hidden */
    { ZS_FLAG_PINNED, 171 * US, 1 * US },
  };

  for (size_t c = 0; c < G_N_ELEMENTS (cases); c++) {
    Fixture fixture;

    fixture_init (&fixture, 1, 1);
    g_autoptr (ZsResult) result = fixture_result (&fixture, blocking_copy, &cases[c].flags);

    CU_ASSERT_EQUAL (result->step_time_ps, cases[c].step);
    CU_ASSERT_EQUAL (result->wait_ps[ZS_WAIT_HOST], cases[c].host);
    CU_ASSERT_EQUAL (result->wait_ps[ZS_WAIT_OFFLOAD], 110 * US);
    CU_ASSERT_EQUAL (result->wait_ps[ZS_WAIT_COMPUTE], 60 * US);
  }
}

static void
copy_beside_collective (ZsPlan *plan, int64_t rank G_GNUC_UNUSED, const void *data G_GNUC_UNUSED)
{
  begin_step (plan, 1);
  zs_plan_collective (plan, ZS_COLLECTIVE_ALL_GATHER, ZS_COMMUNICATOR_WORLD, 4 * MB, ZS_NO_EVENT);
  zs_plan_set_stream (plan, ZS_STREAM_COPY);
  zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, MB, ZS_FLAG_PINNED);
  zs_plan_set_stream (plan, ZS_STREAM_COMPUTE);
  finish (plan);
}

static void
a_copy_shares_its_link_with_a_collective (void)
{
  Fixture fixture;

  fixture_init (&fixture, 2, 2);
  /* 2 MB of the collective and 1 MB of the copy on one 10 GB/s link: 300 us, after 10 us */
  g_autoptr (ZsResult) result = fixture_result (&fixture, copy_beside_collective, NULL);

  CU_ASSERT_EQUAL (result->step_time_ps, 310 * US);
}

static void
one_copy (ZsPlan *plan, int64_t rank G_GNUC_UNUSED, const void *data G_GNUC_UNUSED)
{
  begin_step (plan, 1);
  zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, MB, ZS_FLAG_PINNED);
  finish (plan);
}

static void
copies_of_several_gpus_share_their_bridge (void)
{
  for (int64_t n = 1; n <= 4; n++) {
    Fixture fixture;

    fixture_init (&fixture, n, n);
    expect (&fixture, one_copy, 110 * US, 0, 0, 110 * US, 0, 0);
    fixture.bridge = true;
    expect (&fixture, one_copy, (10 + 100 * n) * US, 0, 0, (10 + 100 * n) * US, 0, 0);
  }
}

static void
cpu_adam (ZsPlan *plan, int64_t rank G_GNUC_UNUSED, const void *data G_GNUC_UNUSED)
{
  begin_step (plan, 1);
  launch (plan, 5 * US);
  zs_plan_host_wait_device (plan);
  zs_plan_cpu_task (plan, ZS_CPU_ADAM, 3 * MB);
  launch (plan, 5 * US);
  finish (plan);
}

static void
cpu_adam_is_optimizer_time_and_shares_memory (void)
{
  Fixture fixture;

  fixture_init (&fixture, 1, 1);
  expect (&fixture, cpu_adam, 312 * US, 10 * US, 0, 0, 300 * US, 2 * US);
  fixture_init (&fixture, 3, 3);
  expect (&fixture, cpu_adam, 912 * US, 10 * US, 0, 0, 900 * US, 2 * US);
}

/* A kernel on the compute stream and one beside it, issued first. */
static void
two_streams (ZsPlan *plan, int64_t rank G_GNUC_UNUSED, const void *data)
{
  const ZsTime *times = data;

  begin_step (plan, 1);
  if (times[1] > 0) {
    zs_plan_set_stream (plan, ZS_STREAM_ALL_GATHER);
    launch (plan, times[1]);
  }
  zs_plan_set_stream (plan, ZS_STREAM_COMPUTE);
  launch (plan, times[0]);
  finish (plan);
}

/* Two kernels take about the sum of their times, whichever is longer, and neither is lost. */
static void
kernels_of_two_streams_share_the_gpu (void)
{
  static const ZsTime TIMES[][2] = { { 1000 * US, 300 * US }, { 300 * US, 1000 * US }, { 500 * US, 500 * US } };

  for (size_t i = 0; i < G_N_ELEMENTS (TIMES); i++) {
    const ZsTime alone[] = { TIMES[i][0], 0 }, sum = TIMES[i][0] + TIMES[i][1];
    Fixture fixture;

    fixture_init (&fixture, 1, 1);
    g_autoptr (ZsResult) one = fixture_result (&fixture, two_streams, alone);
    g_autoptr (ZsResult) both = fixture_result (&fixture, two_streams, TIMES[i]);

    CU_ASSERT_TRUE (one->step_time_ps >= TIMES[i][0] && one->step_time_ps < TIMES[i][0] + 20 * US);
    CU_ASSERT_TRUE (both->step_time_ps >= sum * 9 / 10 && both->step_time_ps < sum + 20 * US);
  }
}

/* A kernel, and a collective that is reached when it has run for a while. */
static void
late_collective (ZsPlan *plan, int64_t rank G_GNUC_UNUSED, const void *data)
{
  ZsEvent event = zs_plan_event_new (plan);

  begin_step (plan, 1);
  launch (plan, 1000 * US);
  zs_plan_set_stream (plan, ZS_STREAM_REDUCE);
  if (data != NULL)
    zs_plan_host (plan, ZS_HOST_MISC, 100 * US);
  zs_plan_collective (plan, ZS_COLLECTIVE_ALL_REDUCE, ZS_COMMUNICATOR_WORLD, 2000000, event);
  zs_plan_set_stream (plan, ZS_STREAM_COMPUTE);
  zs_plan_stream_wait_event (plan, ZS_STREAM_COMPUTE, event);
  finish (plan);
}

/* Nothing gives way to a collective that is reached while a kernel runs: 10 us and 100 us of it follow. */
static void
a_collective_waits_for_the_kernel_that_runs (void)
{
  const int late = 1;
  Fixture fixture;

  fixture_init (&fixture, 2, 2);
  fixture.sms = 10;
  g_autoptr (ZsResult) result = fixture_result (&fixture, late_collective, &late);

  CU_ASSERT_TRUE (result->step_time_ps >= 1110 * US && result->step_time_ps < 1125 * US);
}

static void
recorded (ZsPlan *plan, int64_t rank G_GNUC_UNUSED, const void *data)
{
  bool record = data != NULL;

  begin_step (plan, 1);
  zs_plan_set_stream (plan, ZS_STREAM_ALL_GATHER);
  ZsTensor tensor = zs_plan_alloc (plan, 32 << 20, ZS_CATEGORY_GATHERED);

  launch (plan, 1000 * US);       /* on the compute stream, which uses it */
  zs_plan_set_stream (plan, ZS_STREAM_COMPUTE);
  launch (plan, 1000 * US);
  if (record)
    zs_plan_record_stream (plan, tensor, ZS_STREAM_COMPUTE);
  zs_plan_unref (plan, tensor);
  if (record && *(const int *) data == 2)
    zs_plan_host (plan, ZS_HOST_MISC, 2000 * US);
  zs_plan_set_stream (plan, ZS_STREAM_ALL_GATHER);
  zs_plan_unref (plan, zs_plan_alloc (plan, 32 << 20, ZS_CATEGORY_GATHERED));
  zs_plan_set_stream (plan, ZS_STREAM_COMPUTE);
  finish (plan);
}

static void
record_stream_delays_reuse (void)
{
  Fixture fixture;
  const int at_once = 1, later = 2;

  fixture_init (&fixture, 1, 1);
  g_autoptr (ZsResult) plain = fixture_result (&fixture, recorded, NULL);
  g_autoptr (ZsResult) delayed = fixture_result (&fixture, recorded, &at_once);
  g_autoptr (ZsResult) waited = fixture_result (&fixture, recorded, &later);

  CU_ASSERT_EQUAL (plain->peak_reserved_bytes, 32 << 20);
  CU_ASSERT_EQUAL (delayed->peak_reserved_bytes, 64 << 20);
  CU_ASSERT_EQUAL (delayed->peak_allocated_bytes, 32 << 20);
  /* the host came 2002 us after the launch; both kernels share the GPU and are done by then */
  CU_ASSERT_EQUAL (waited->peak_reserved_bytes, 32 << 20);
}

static void
too_much (ZsPlan *plan, int64_t rank G_GNUC_UNUSED, const void *data G_GNUC_UNUSED)
{
  begin_step (plan, 1);
  ZsTensor first = zs_plan_alloc (plan, 600 << 20, ZS_CATEGORY_ACTIVATIONS);

  zs_plan_set_label (plan, zs_plan_label (plan, 3, "q_proj"));
  ZsTensor second = zs_plan_alloc (plan, 500 << 20, ZS_CATEGORY_TEMPORARY);

  zs_plan_unref (plan, first);
  zs_plan_unref (plan, second);
}

static void
out_of_memory_is_a_result (void)
{
  Fixture fixture;

  fixture_init (&fixture, 2, 2);
  g_autoptr (ZsResult) result = fixture_result (&fixture, too_much, NULL);

  CU_ASSERT_EQUAL (result->outcome, ZS_OUTCOME_OOM);
  CU_ASSERT_EQUAL (result->oom.rank, 0);
  CU_ASSERT_EQUAL (result->oom.step, 1);
  CU_ASSERT_EQUAL (result->oom.phase, ZS_PHASE_FORWARD);
  CU_ASSERT_EQUAL (result->oom.layer, 3);
  CU_ASSERT_TRUE (result->peak_allocated_bytes >= result->oom.allocated_bytes);
  CU_ASSERT_TRUE (result->peak_reserved_bytes >= result->oom.reserved_bytes);
  CU_ASSERT_TRUE (result->peak_reserved_bytes >= result->peak_allocated_bytes);
  CU_ASSERT_STRING_EQUAL (result->oom.op, "q_proj");
  CU_ASSERT_EQUAL (result->oom.tried_bytes, 500 << 20);
  CU_ASSERT_EQUAL (result->oom.allocated_bytes, 600 << 20);
  CU_ASSERT_EQUAL (result->alloc_retries, 1);
  CU_ASSERT_TRUE (g_str_has_prefix (result->oom.message,
                                    "CUDA out of memory. Tried to allocate 500.00 MiB."));
  CU_ASSERT_EQUAL (result->live->len, 1);
}

static void
holders (ZsPlan *plan, int64_t rank G_GNUC_UNUSED, const void *data G_GNUC_UNUSED)
{
  zs_plan_phase (plan, ZS_PHASE_INIT, 0, 0, true);
  ZsTensor weights = zs_plan_alloc (plan, 100 << 20, ZS_CATEGORY_PARAMETERS);

  zs_plan_unref (plan, zs_plan_alloc (plan, 900 << 20, ZS_CATEGORY_TEMPORARY));   /* not counted */
  zs_plan_empty_cache (plan);
  for (int step = 1; step <= 2; step++) {
    ZsTensor saved[4];

    begin_step (plan, step);
    for (int i = 0; i < 4; i++)
      saved[i] = zs_plan_alloc (plan, 20 << 20, ZS_CATEGORY_ACTIVATIONS);
    zs_plan_phase (plan, ZS_PHASE_BACKWARD, step, 0, true);
    zs_plan_unref (plan, saved[0]);
    zs_plan_unref (plan, zs_plan_alloc (plan, 50 << 20, ZS_CATEGORY_TEMPORARY));
    for (int i = 1; i < 4; i++)
      zs_plan_unref (plan, saved[i]);
    zs_plan_unref (plan, zs_plan_alloc (plan, 8 << 20, ZS_CATEGORY_TEMPORARY));
  }
  zs_plan_unref (plan, weights);
}

static void
the_peak_names_its_holders (void)
{
  Fixture fixture;

  fixture_init (&fixture, 1, 1);
  g_autoptr (ZsResult) result = fixture_result (&fixture, holders, NULL);

  CU_ASSERT_EQUAL (result->peak_allocated_bytes, 210 << 20);
  CU_ASSERT_EQUAL (result->peak_step, 1);
  CU_ASSERT_EQUAL (result->peak_phase, ZS_PHASE_BACKWARD);
  CU_ASSERT_EQUAL_FATAL (result->peak_holders->len, 3);
  static const ZsHolder expected[] = { { ZS_CATEGORY_PARAMETERS, 100 << 20 },
                                       { ZS_CATEGORY_ACTIVATIONS, 60 << 20 },
                                       { ZS_CATEGORY_TEMPORARY, 50 << 20 } };

  for (guint h = 0; h < 3; h++) {
    CU_ASSERT_EQUAL (g_array_index (result->peak_holders, ZsHolder, h).category,
                     expected[h].category);
    CU_ASSERT_EQUAL (g_array_index (result->peak_holders, ZsHolder, h).bytes, expected[h].bytes);
  }
  CU_ASSERT_EQUAL_FATAL (result->live->len, 3);
  CU_ASSERT_EQUAL (g_array_index (result->live, ZsLiveTensor, 2).count, 3);
  CU_ASSERT_EQUAL (result->steps->len, 2);
  CU_ASSERT_EQUAL (result->phases->len, 5);
}

static void
different_collectives (ZsPlan *plan, int64_t rank, const void *data G_GNUC_UNUSED)
{
  zs_plan_collective (plan, ZS_COLLECTIVE_ALL_REDUCE, ZS_COMMUNICATOR_WORLD, rank == 0 ? 8 : 16,
                      ZS_NO_EVENT);
}

static void
one_missing (ZsPlan *plan, int64_t rank, const void *data G_GNUC_UNUSED)
{
  if (rank != 0)
    zs_plan_collective (plan, ZS_COLLECTIVE_ALL_REDUCE, ZS_COMMUNICATOR_WORLD, 8, ZS_NO_EVENT);
}

static void
plans_that_do_not_fit_together_are_errors (void)
{
  Fixture fixture;
  g_autoptr (GError) error = NULL;

  fixture_init (&fixture, 2, 2);
  CU_ASSERT_PTR_NULL (fixture_run (&fixture, different_collectives, NULL, NULL, &error));
  CU_ASSERT_TRUE (g_error_matches (error, ZS_RUN_ERROR, ZS_RUN_ERROR_PLAN));
  g_clear_error (&error);
  CU_ASSERT_PTR_NULL (fixture_run (&fixture, one_missing, NULL, NULL, &error));
  CU_ASSERT_TRUE (g_error_matches (error, ZS_RUN_ERROR, ZS_RUN_ERROR_DEADLOCK));
  g_clear_error (&error);

  ZsRunOptions options;

  zs_run_options_init (&options);
  options.max_instructions = 5;
  CU_ASSERT_PTR_NULL (fixture_run (&fixture, long_kernels, NULL, &options, &error));
  CU_ASSERT_TRUE (g_error_matches (error, ZS_RUN_ERROR, ZS_RUN_ERROR_LIMIT));
}

static void
a_host_far_ahead_is_held_back (void)
{
  Fixture fixture;

  fixture_init (&fixture, 1, 1);
  fixture.machine.launch_depth = 4;
  ZsRunOptions options;

  zs_run_options_init (&options);
  options.want_memory_points = true;
  /* kernels end at 101, 201 ...; the fifth launch begins at 101 */
  g_autoptr (ZsResult) result = fixture_run (&fixture, long_kernels, NULL, &options, NULL);

  CU_ASSERT_EQUAL (result->step_time_ps, 1001 * US);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "kernels hide launches or wait for them", kernels_hide_launches_or_wait_for_them },
    { "a collective alone takes latency and transfer",
      a_collective_alone_takes_latency_and_transfer },
    { "the longer of compute and communication counts",
      the_longer_of_compute_and_communication_counts },
    { "a collective takes SMs from kernels", a_collective_takes_sms_from_kernels },
    { "waves of blocks are whole", waves_of_blocks_are_whole },
    { "a collective starts when the last has come", a_collective_starts_when_the_last_has_come },
    { "a blocking copy stops the host", a_blocking_copy_stops_the_host },
    { "a copy shares its link with a collective", a_copy_shares_its_link_with_a_collective },
    { "copies of several GPUs share their bridge", copies_of_several_gpus_share_their_bridge },
    { "CPU Adam is optimizer time and shares memory",
      cpu_adam_is_optimizer_time_and_shares_memory },
    { "kernels of two streams share the GPU", kernels_of_two_streams_share_the_gpu },
    { "a collective waits for the kernel that runs", a_collective_waits_for_the_kernel_that_runs },
    { "record_stream delays reuse", record_stream_delays_reuse },
    { "out of memory is a result", out_of_memory_is_a_result },
    { "the peak names its holders", the_peak_names_its_holders },
    { "plans that do not fit together are errors", plans_that_do_not_fit_together_are_errors },
    { "a host far ahead is held back", a_host_far_ahead_is_held_back },
    CU_TEST_INFO_NULL
  };
  return testing_main ("run", tests);
}
