/* bench-run.c: what a run costs us: time per run and per instruction, memory, folded and not.
 * SPDX-License-Identifier: MIT
 *
 * The plan is synthetic, of the size and the habits of LLaMA-7B under ZeRO-3 with checkpointing on 8
 * GPUs: gathers ahead on one stream, record_stream on every release, a reduction per gradient, host
 * waits that hold the host three gathers ahead.
 * Usage: bench-run [REPEATS [MODE]]. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "tests/run/fixture.h"

enum { LAYERS = 32, WEIGHTS = 7, STEPS = 3, AHEAD = 3 };

static const int64_t WEIGHT_BYTES[WEIGHTS] = { 33554432, 33554432, 33554432, 33554432,
                                               90177536, 90177536, 90177536 };

typedef struct {
  ZsPlan  *plan;
  int64_t  world;
  ZsTensor weights[LAYERS][WEIGHTS];
  ZsEvent  gathered[AHEAD];
  int      n_gathers;
} Bench;

static void
gather (Bench *b, int layer, int weight)
{
  ZsPlan *plan = b->plan;
  ZsEvent done = zs_plan_event_new (plan);

  zs_plan_set_stream (plan, ZS_STREAM_ALL_GATHER);
  zs_plan_host_wait_event (plan, b->gathered[b->n_gathers % AHEAD]);
  b->weights[layer][weight] = zs_plan_alloc (plan, WEIGHT_BYTES[weight], ZS_CATEGORY_GATHERED);
  zs_plan_collective (plan, ZS_COLLECTIVE_ALL_GATHER, 0, WEIGHT_BYTES[weight], done);
  zs_plan_stream_wait_event (plan, ZS_STREAM_ALL_GATHER, done);
  zs_plan_event_record (plan, b->gathered[b->n_gathers++ % AHEAD], ZS_STREAM_ALL_GATHER);
  zs_plan_stream_wait_stream (plan, ZS_STREAM_COMPUTE, ZS_STREAM_ALL_GATHER);
  zs_plan_event_free (plan, done);
  zs_plan_set_stream (plan, ZS_STREAM_COMPUTE);
}

static void
release (Bench *b, int layer, int weight)
{
  zs_plan_record_stream (b->plan, b->weights[layer][weight], ZS_STREAM_COMPUTE);
  zs_plan_unref (b->plan, b->weights[layer][weight]);
}

static void
work (ZsPlan *plan, int n, uint32_t *random)
{
  for (int i = 0; i < n; i++) {
    *random = *random * 1664525u + 1013904223u;
    uint32_t r = *random >> 8;
    ZsTensor out = zs_plan_alloc (plan, 1 + (r % 8 + 1) * 4194304, ZS_CATEGORY_TEMPORARY);

    zs_plan_launch (plan, kernel_of (plan, (5 + (int64_t) (r % 64)) * US));
    if (i % 3 == 0)
      zs_plan_launch (plan, kernel_of (plan, 9 * US));
    zs_plan_unref (plan, out);
  }
}

static void
layer_forward (Bench *b, int layer, uint32_t *random, bool fetch)
{
  for (int w = 0; w < WEIGHTS; w++) {
    if (fetch)
      gather (b, layer, w);
    zs_plan_host (b->plan, ZS_HOST_FETCH, 1);
    zs_plan_host (b->plan, ZS_HOST_HOOK, 1);
    work (b->plan, 4, random);
    zs_plan_host (b->plan, ZS_HOST_RELEASE, 1);
  }
}

static void
bench_plan (ZsPlan *plan, int64_t rank G_GNUC_UNUSED, const void *data G_GNUC_UNUSED)
{
  Bench b = { .plan = plan };
  uint32_t random = 1;
  ZsTensor checkpoints[LAYERS];

  for (int i = 0; i < AHEAD; i++)
    b.gathered[i] = zs_plan_event_new (plan);
  for (int step = 1; step <= STEPS; step++) {
    zs_plan_phase (plan, ZS_PHASE_FORWARD, step, 0, true);
    for (int layer = 0; layer < LAYERS; layer++) {
      checkpoints[layer] = zs_plan_alloc (plan, 16777216, ZS_CATEGORY_CHECKPOINTS);
      layer_forward (&b, layer, &random, true);
      for (int w = 0; w < WEIGHTS; w++)
        release (&b, layer, w);
    }
    zs_plan_phase (plan, ZS_PHASE_BACKWARD, step, 0, true);
    for (int layer = LAYERS - 1; layer >= 0; layer--) {
      layer_forward (&b, layer, &random, true);
      for (int w = WEIGHTS - 1; w >= 0; w--) {
        work (plan, 8, &random);
        ZsTensor gradient = zs_plan_alloc (plan, WEIGHT_BYTES[w], ZS_CATEGORY_GRADIENTS);

        zs_plan_launch (plan, kernel_of (plan, 200 * US));
        zs_plan_stream_wait_stream (plan, ZS_STREAM_REDUCE, ZS_STREAM_COMPUTE);
        zs_plan_set_stream (plan, ZS_STREAM_REDUCE);
        zs_plan_launch (plan, kernel_of (plan, 20 * US));
        zs_plan_record_stream (plan, gradient, ZS_STREAM_REDUCE);
        zs_plan_unref (plan, gradient);
        zs_plan_collective (plan, ZS_COLLECTIVE_REDUCE_SCATTER, 1, WEIGHT_BYTES[w], ZS_NO_EVENT);
        zs_plan_set_stream (plan, ZS_STREAM_COMPUTE);
        release (&b, layer, w);
      }
      zs_plan_unref (plan, checkpoints[layer]);
    }
    zs_plan_phase (plan, ZS_PHASE_OPTIMIZER, step, 0, true);
    work (plan, 100, &random);
  }
}

/* ---- one plan for all runs: its making is not measured ---- */

typedef struct {
  const ZsPlan *plan;
  bool given;
} Once;

static const ZsPlan *
next_chunk (void *self)
{
  Once *once = self;
  bool given = once->given;

  once->given = true;
  return given ? NULL : once->plan;
}

static ZsPlanSource
open_source (void *self, int64_t rank G_GNUC_UNUSED)
{
  Once *once = g_new0 (Once, 1);

  once->plan = self;
  return (ZsPlanSource) { .self = once, .next = next_chunk, .free = g_free };
}

static int64_t
one_key (void *self G_GNUC_UNUSED, int64_t rank G_GNUC_UNUSED)
{
  return 0;
}

static double
cpu_seconds (void)
{
  struct rusage use;

  getrusage (RUSAGE_SELF, &use);
  return (double) use.ru_utime.tv_sec + (double) use.ru_utime.tv_usec / 1e6
         + (double) use.ru_stime.tv_sec + (double) use.ru_stime.tv_usec / 1e6;
}

int
main (int argc, char **argv)
{
  int repeats = argc > 1 ? atoi (argv[1]) : 20;
  g_autoptr (ZsPlan) plan = zs_plan_new ();
  Fixture fixture;

  bench_plan (plan, 0, NULL);
  fixture_init (&fixture, 8, 8);
  for (size_t r = 0; r < G_N_ELEMENTS (fixture.capacities); r++)
    fixture.capacities[r] = INT64_C (300000000000);
  fixture.launch = 8 * US;
  fixture.sms = 20;
  fixture.machine.gpu_memory_bytes = INT64_C (80) << 30;
  int only = argc > 2 ? atoi (argv[2]) : -1;

  for (int mode = 0; mode < 3; mode++) {
    if (only >= 0 && mode != only)
      continue;
    ZsWork work = { .self = plan, .open = open_source, .plan_key = one_key };
    ZsRunOptions options;
    double best = 1e9;
    int n = mode == 2 ? MAX (1, repeats / 8) : repeats;
    struct rusage use;

    zs_run_options_init (&options);
    options.want_memory_points = mode > 0;
    options.no_folding = mode == 2;
    for (int i = 0; i < n; i++) {
      double start = cpu_seconds ();
      g_autoptr (ZsResult) result = zs_run_work (&work, &fixture.machine, &options, NULL);

      best = MIN (best, cpu_seconds () - start);
      if (i + 1 < n)
        continue;
      getrusage (RUSAGE_SELF, &use);
      printf ("%-28s %7.2f ms/run  %5.1f ns/instruction  %6.1f M events/s  %" G_GINT64_FORMAT
              " instructions  %" G_GINT64_FORMAT " events  step %.1f ms  %" G_GINT64_FORMAT
              " plans  %ld MiB resident\n",
              mode == 0 ? "folded" : mode == 1 ? "folded, memory timeline" : "8 ranks, timeline",
              best * 1e3, best * 1e9 / (double) result->n_instructions,
              (double) result->n_events / best / 1e6, result->n_instructions, result->n_events,
              (double) result->step_time_ps / 1e9, result->n_distinct_plans, use.ru_maxrss / 1024);
    }
  }
  return 0;
}
