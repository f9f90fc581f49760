/* benchmark.c: see benchmark.h.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/benchmark.h"

#include "sim/scenario/simulate.h"

/* Turns of the shorter of two works, so that both run for long. */
#define MOST_TURNS 200
#define LEAST_TURNS 8

typedef struct {
  const ZsScenario *machine;
  const ZsMeasuredCollective *row;     /* NULL: copies */
  const ZsMeasuredCopy *copies;
  int collectives, besides;            /* turns of each */
} Script;

static uint32_t
kernel_of (const Script *script, ZsPlan *plan)
{
  const ZsMeasuredCollective *row = script->row;
  const ZsClusterSettings *cluster = &script->machine->cluster;
  ZsKernel kernel = { .launch = ZS_LAUNCH_NO_GRAD, .element_bytes = 2, .m = row->m, .n = row->n, .k = row->k,
                      .name = "beside" };
  double work = (double) row->m * (double) row->n * (double) row->k;

  switch (row->beside) {
  case ZS_BESIDE_MATMUL:
    kernel.kind = ZS_KERNEL_MATMUL;
    kernel.flops = 2 * work;
    kernel.bytes = 2 * (row->m * row->k + row->k * row->n + row->m * row->n);
    break;
  case ZS_BESIDE_ATTENTION:            /* causal, one sequence */
    kernel.kind = ZS_KERNEL_ATTENTION_FORWARD;
    kernel.form = (uint8_t) zs_attention_of_sdpa (cluster->gpu.compute_capability,
                                                  cluster->versions.of[ZS_SOFTWARE_TORCH], ZS_DTYPE_BF16,
                                                  row->k, false, false);
    kernel.heads = kernel.kv_heads = (int32_t) row->m;
    kernel.m = 1;
    kernel.flops = 2 * work * (double) row->n;
    kernel.bytes = 4 * 2 * row->m * row->n * row->k;
    break;
  default:
    kernel.kind = ZS_KERNEL_ELEMENTWISE;
    kernel.bytes = row->beside_bytes;
    kernel.m = kernel.k = 0;
    kernel.n = row->beside_bytes / 4;
  }
  return zs_plan_kernel (plan, &kernel);
}

static void
issue_beside (const Script *script, ZsPlan *plan, uint32_t kernel)
{
  const ZsMeasuredCollective *row = script->row;

  if (row->beside == ZS_BESIDE_COPY_IN || row->beside == ZS_BESIDE_COPY_OUT) {
    zs_plan_set_stream (plan, ZS_STREAM_COPY);
    zs_plan_copy (plan, row->beside == ZS_BESIDE_COPY_IN ? ZS_COPY_HOST_TO_GPU : ZS_COPY_GPU_TO_HOST,
                  row->beside_bytes, ZS_FLAG_PINNED);
  } else {
    zs_plan_set_stream (plan, ZS_STREAM_COMPUTE);
    zs_plan_launch (plan, kernel);
  }
}

static void
issue_copies (const Script *script, ZsPlan *plan)
{
  const ZsMeasuredCopy *row = script->copies;
  unsigned int flags = row->pinned ? ZS_FLAG_PINNED : 0;

  for (int i = 0; i < script->besides; i++) {
    if (row->in) {
      zs_plan_set_stream (plan, ZS_STREAM_COPY);
      zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, row->bytes, flags);
    }
    if (row->out) {
      zs_plan_set_stream (plan, ZS_STREAM_OTHER);
      zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, row->bytes, flags);
    }
  }
}

static bool
takes_part (const Script *script, int64_t rank)
{
  return script->copies == NULL || (rank < 64 && (script->copies->gpus >> rank & 1) != 0);
}

/* Everything waits for one long kernel, so that the host has issued all of it before the first turn. */
static void
issue_gate (ZsPlan *plan)
{
  static const uint8_t streams[] = { ZS_STREAM_COMPUTE, ZS_STREAM_REDUCE, ZS_STREAM_COPY, ZS_STREAM_OTHER };
  ZsKernel kernel = { .kind = ZS_KERNEL_ELEMENTWISE, .launch = ZS_LAUNCH_NO_GRAD, .element_bytes = 2,
                      .n = INT64_C (50000000000), .bytes = INT64_C (200000000000), .name = "gate" };
  ZsEvent open = zs_plan_event_new (plan);

  zs_plan_set_stream (plan, ZS_STREAM_ALL_GATHER);
  zs_plan_launch (plan, zs_plan_kernel (plan, &kernel));
  zs_plan_event_record (plan, open, ZS_STREAM_ALL_GATHER);
  for (size_t s = 0; s < G_N_ELEMENTS (streams); s++)
    zs_plan_stream_wait_event (plan, streams[s], open);
}

static ZsPlan *
make_plan (const Script *script, int64_t rank)
{
  ZsPlan *plan = zs_plan_new ();

  zs_plan_phase (plan, ZS_PHASE_FORWARD, 1, 0, true);
  issue_gate (plan);
  if (script->copies != NULL && takes_part (script, rank)) {
    issue_copies (script, plan);
  } else if (script->row != NULL) {
    int turns = MAX (script->collectives, script->besides), collectives = 0, besides = 0;
    uint32_t kernel = script->row->beside >= ZS_BESIDE_MATMUL ? kernel_of (script, plan) : 0;

    for (int turn = 0; turn < turns; turn++) {   /* interleaved, so that no queue runs dry */
      while (collectives < script->collectives
             && (int64_t) collectives * turns <= (int64_t) turn * script->collectives) {
        zs_plan_set_stream (plan, ZS_STREAM_REDUCE);
        zs_plan_collective (plan, script->row->kind, ZS_COMMUNICATOR_WORLD, script->row->bytes, ZS_NO_EVENT);
        collectives++;
      }
      while (besides < script->besides && (int64_t) besides * turns <= (int64_t) turn * script->besides) {
        issue_beside (script, plan, kernel);
        besides++;
      }
    }
  }
  zs_plan_set_stream (plan, ZS_STREAM_COMPUTE);
  zs_plan_phase (plan, ZS_PHASE_OPTIMIZER, 1, 0, true);
  return plan;
}

/* ---- running it ---- */

static ZsPlanSource
open_source (void *self, int64_t rank)
{
  return zs_plan_source_whole (make_plan (self, rank));
}

static int64_t
plan_key (void *self, int64_t rank)
{
  return takes_part (self, rank);
}

static ZsResult *
run_script (Script *script, const ZsCluster *cluster, int64_t rank, GError **error)
{
  ZsWork work = { .self = script, .open = open_source, .plan_key = plan_key, .samples_per_rank = 1,
                  .tokens_per_rank = 1 };
  ZsRunOptions options;

  zs_run_options_init (&options);
  options.want_spans = true;
  options.report_rank = rank;
  return zs_run_work (&work, zs_cluster_machine (cluster), &options, error);
}

/* Ends of the spans on TRACK, and the start of the first. */
static GArray *
marks_of (const ZsResult *result, int track)
{
  GArray *marks = g_array_new (FALSE, FALSE, sizeof (ZsTime));

  for (guint i = 0; i < result->spans->len; i++) {
    const ZsSpan *span = &g_array_index (result->spans, ZsSpan, i);

    if (span->rank != result->reported_rank || span->track != track)
      continue;
    if (marks->len == 0)
      g_array_append_val (marks, span->start);
    g_array_append_val (marks, span->end);
  }
  return marks;
}

static ZsTime
mark (const GArray *marks, guint i)
{
  return g_array_index (marks, ZsTime, i);
}

/* The mean turn of MARKS between FROM and TO; all of them if none lies within. */
static ZsTime
mean_turn (const GArray *marks, ZsTime from, ZsTime to)
{
  ZsTime sum = 0;
  int n = 0;

  for (guint i = 1; i < marks->len; i++)
    if (mark (marks, i - 1) >= from && mark (marks, i) <= to) {
      sum += mark (marks, i) - mark (marks, i - 1);
      n++;
    }
  if (n > 0)
    return sum / n;
  return marks->len > 1 ? (mark (marks, marks->len - 1) - mark (marks, 0)) / (ZsTime) (marks->len - 1) : 0;
}

static int
track_of (const ZsMeasuredCollective *row)
{
  return row->beside == ZS_BESIDE_COPY_IN ? ZS_TRACK_COPY_IN
         : row->beside == ZS_BESIDE_COPY_OUT ? ZS_TRACK_COPY_OUT : ZS_TRACK_STREAM + ZS_STREAM_COMPUTE;
}

/* Mean times of a collective and of what is beside it, where both run (a first turn of each is left out). */
static bool
read_times (Script *script, const ZsCluster *cluster, ZsTime *ret_collective, ZsTime *ret_beside, GError **error)
{
  g_autoptr (ZsResult) result = run_script (script, cluster, 0, error);

  if (result == NULL)
    return false;
  g_autoptr (GArray) ours = marks_of (result, ZS_TRACK_COLLECTIVE + ZS_COMMUNICATOR_WORLD);
  g_autoptr (GArray) others = marks_of (result, track_of (script->row));
  ZsTime from = 0, to = ZS_TIME_MAX;

  for (int k = 0; k < 2; k++) {
    const GArray *marks = k == 0 ? ours : others;

    if (marks->len > 2) {
      from = MAX (from, mark (marks, 1));
      to = MIN (to, mark (marks, marks->len - 1));
    }
  }
  *ret_collective = mean_turn (ours, from, to);
  *ret_beside = mean_turn (others, from, to);
  return true;
}

bool
zs_benchmark_beside (const ZsScenario *machine, const ZsMeasuredCollective *row, ZsBesideTimes *ret_times,
                     GError **error)
{
  g_autoptr (ZsCluster) cluster = zs_scenario_cluster (machine, error);
  Script script = { .machine = machine, .row = row, .collectives = LEAST_TURNS };
  ZsBesideTimes times = { 0, 0, 0, 0 };
  ZsTime none;

  if (cluster == NULL || !read_times (&script, cluster, &times.time, &none, error))
    return false;
  script.collectives = 0;
  script.besides = LEAST_TURNS;
  if (!read_times (&script, cluster, &none, &times.beside_time, error))
    return false;
  ZsTime span = LEAST_TURNS * MAX (times.time, times.beside_time);

  script.collectives = (int) CLAMP (span / MAX (times.time, 1), LEAST_TURNS, MOST_TURNS);
  script.besides = (int) CLAMP (span / MAX (times.beside_time, 1), LEAST_TURNS, MOST_TURNS);
  if (!read_times (&script, cluster, &times.time_with, &times.beside_time_with, error))
    return false;
  *ret_times = times;
  return true;
}

ZsTime
zs_benchmark_copies (const ZsScenario *machine, const ZsMeasuredCopy *row, GError **error)
{
  g_autoptr (ZsCluster) cluster = zs_scenario_cluster (machine, error);
  Script script = { .machine = machine, .copies = row, .besides = LEAST_TURNS };
  ZsTime slowest = 0;

  if (cluster == NULL)
    return -1;
  for (int64_t rank = 0; rank < zs_cluster_machine (cluster)->n_ranks && rank < 64; rank++) {
    if (!takes_part (&script, rank))
      continue;
    g_autoptr (ZsResult) result = run_script (&script, cluster, rank, error);

    if (result == NULL)
      return -1;
    for (int track = ZS_TRACK_COPY_IN; track <= ZS_TRACK_COPY_OUT; track++) {
      g_autoptr (GArray) marks = marks_of (result, track);

      if (marks->len > 2)
        slowest = MAX (slowest, mean_turn (marks, mark (marks, 1), mark (marks, marks->len - 2)));
    }
  }
  return slowest;
}
