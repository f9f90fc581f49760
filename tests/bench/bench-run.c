/* bench-run.c: what a run costs us: time per run and per instruction, memory, folded and not.
 * SPDX-License-Identifier: MIT
 *
 * Times are CPU time of the whole run, with the memory timeline, best of REPEATS.  The synthetic
 * plan has the habits of ZeRO-3 and is made beforehand; jobs make their plans as they run: three
 * steps with checkpointing.
 * Usage: bench-run [REPEATS [s | j]]: only synthetic plans, or only jobs. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tests/run/fixture.h"
#include "tests/run/jobs.h"

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
} Ready;

static const ZsPlan *
next_chunk (void *self)
{
  Ready *ready = self;
  bool given = ready->given;

  ready->given = true;
  return given ? NULL : ready->plan;
}

static ZsPlanSource
open_source (void *self, int64_t rank G_GNUC_UNUSED)
{
  Ready *ready = g_new0 (Ready, 1);

  ready->plan = self;
  return (ZsPlanSource) { .self = ready, .next = next_chunk, .free = g_free };
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

/* Runs once and again; the best time is printed, with what ONCE says of the last result. */
typedef ZsResult *(*Once) (const void *self, const ZsRunOptions *options);

static void
measure (const char *name, Once once, const void *self, const ZsRunOptions *options, int repeats)
{
  double best = 1e9;
  struct rusage use;

  for (int i = 0; i < repeats; i++) {
    double start = cpu_seconds ();
    g_autoptr (ZsResult) result = once (self, options);

    best = MIN (best, cpu_seconds () - start);
    if (i + 1 < repeats)
      continue;
    getrusage (RUSAGE_SELF, &use);
    printf ("%-34s %7.2f ms/run %5.1f ns/instruction %5.1f M events/s %8" G_GINT64_FORMAT
            " instructions %7" G_GINT64_FORMAT " events %2" G_GINT64_FORMAT
            " plans  step %7.1f ms  %3ld MiB\n",
            name, best * 1e3, best * 1e9 / (double) result->n_instructions,
            (double) result->n_events / best / 1e6, result->n_instructions, result->n_events,
            result->n_distinct_plans, (double) result->step_time_ps / 1e9, use.ru_maxrss / 1024);
  }
}

typedef struct {
  ZsWork work;
  Fixture *fixture;
} Synthetic;

static ZsResult *
run_synthetic (const void *self, const ZsRunOptions *options)
{
  const Synthetic *synthetic = self;

  return zs_run_work (&synthetic->work, &synthetic->fixture->machine, options, NULL);
}

static ZsResult *
run_job (const void *self, const ZsRunOptions *options)
{
  return job_run ((Job *) self, options);
}

int
main (int argc, char **argv)
{
  int repeats = argc > 1 ? MAX (1, atoi (argv[1])) : 20, few = (repeats + 7) / 8;
  const char *only = argc > 2 ? argv[2] : "";
  g_autoptr (ZsPlan) plan = zs_plan_new ();
  Fixture fixture;
  ZsRunOptions options;

  zs_run_keep_memory ();
  zs_run_options_init (&options);
  options.want_memory_points = true;
  if (strchr (only, 'j') == NULL) {
    bench_plan (plan, 0, NULL);
    fixture_init (&fixture, 8, 8);
    for (size_t r = 0; r < G_N_ELEMENTS (fixture.capacities); r++)
      fixture.capacities[r] = INT64_C (300000000000);
    fixture.launch = 8 * US;
    fixture.sms = 20;
    fixture.machine.gpu_memory_bytes = INT64_C (80) << 30;
    Synthetic synthetic = { .fixture = &fixture };

    synthetic.work = (ZsWork) { .self = plan, .open = open_source, .plan_key = one_key };
    measure ("synthetic, folded", run_synthetic, &synthetic, &options, repeats);
    options.no_folding = true;
    measure ("synthetic, 8 ranks", run_synthetic, &synthetic, &options, few);
  }
  for (int stage = 3; stage >= 2 && strchr (only, 's') == NULL; stage--) {
    Job job;

    job_init (&job, MODEL_7B, stage, 8, "nvswitch-h100");
    job_ready (&job);
    options.no_folding = false;
    measure (stage == 3 ? "LLaMA-7B, ZeRO-3, 8 GPUs, folded" : "LLaMA-7B, ZeRO-2, 8 GPUs", run_job,
             &job, &options, stage == 3 ? repeats : few);
    if (stage == 3) {
      options.no_folding = true;
      measure ("LLaMA-7B, ZeRO-3, 8 ranks", run_job, &job, &options, few);
    }
    job_clear (&job);
  }
  return 0;
}
