/* run.c: one run, from its parts to its result.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/run/world.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

G_DEFINE_QUARK (zs-run-error-quark, zs_run_error)

void
zs_run_options_init (ZsRunOptions *options)
{
  *options = (ZsRunOptions) { 
    .report_rank = -1, .pace = { .tensor_share = -1 }, .torch = ZS_VERSION (2, 11, 0),
  };
  zs_alloc_conf_init (&options->alloc_conf);
}

static void
rank_init (Run *run, int32_t index)
{
  Rank *rank = &run->ranks[index];
  const ZsRunOptions *options = run->options;

  rank->run = run;
  rank->index = index;
  rank->step = -1;
  rank->compute_since = -1;
  rank->failed_at = -1;
  rank->blocked = g_array_new (FALSE, FALSE, sizeof (Blocked));
  rank->phases = g_array_new (FALSE, TRUE, sizeof (ZsPhaseResult));
  rank->marks = g_array_new (FALSE, TRUE, sizeof (Mark));
  rank->phase_flops = g_array_new (FALSE, TRUE, sizeof (double));
  if (options->want_spans)
    rank->spans = g_array_new (FALSE, FALSE, sizeof (ZsSpan));
  if (options->want_memory_points)
    rank->memory_points.array = g_array_new (FALSE, FALSE, sizeof (ZsMemoryPoint));
  if (options->want_memory_events)
    rank->memory_events = g_array_new (FALSE, FALSE, sizeof (ZsMemoryEvent));
  rank->slowdowns = g_new0 (Slowdown, 1);     /* nothing is taken */
  rank->n_slowdowns = 1;
  if (rank->source.next == NULL)
    rank->source = run->work->open (run->work->self, rank->rank);
  zs_memory_init (rank);
}

static void
free_array (GArray *array)
{
  if (array != NULL)
    g_array_unref (array);
}

static void
rank_clear (Rank *rank)
{
  zs_memory_clear (rank);
  if (rank->source.free != NULL)
    rank->source.free (rank->source.self);
  for (int l = 0; l < N_LANES; l++)
    g_free (rank->lanes[l].ring);
  for (int32_t s = 0; s < rank->n_slowdowns; s++)
    g_free (rank->slowdowns[s].time);
  g_free (rank->slowdowns);
  g_free (rank->ops.table);
  g_free (rank->members);
  g_free (rank->oom.message);
  g_free (rank->events);
  g_free (rank->launch_cost);
  g_free (rank->kernel_cause);
  g_free (rank->kernel_flops);
  free_array (rank->blocked);
  free_array (rank->phases);
  free_array (rank->marks);
  free_array (rank->phase_flops);
  free_array (rank->spans);
  free_array (rank->memory_points.array);
  free_array (rank->point_repeats);
  free_array (rank->memory_events);
}

static void
run_clear (Run *run)
{
  for (int32_t k = 0; k < run->n_ranks; k++)
    rank_clear (&run->ranks[k]);
  for (int32_t i = 0; i < run->n_instances; i++) {
    g_free (run->instances[i].groups);
    g_free (run->instances[i].ranks);
    g_free (run->instances[i].ops.table);
  }
  g_free (run->ranks);
  g_free (run->instances);
  zs_repeat_clear (run);
  zs_earliest_clear (&run->earliest);
  zs_event_queue_clear (&run->queue);
  zs_flow_set_free (run->flows);
  free_array (run->link_points);
  g_free (run->link_rates);
  g_array_unref (run->shares);
}

static void
fail_deadlock (Run *run)
{
  for (int32_t k = 0; k < run->n_ranks && run->error == NULL; k++) {
    const Rank *rank = &run->ranks[k];

    if (rank->state == HOST_WAITS_LANE)
      g_set_error (&run->error, ZS_RUN_ERROR, ZS_RUN_ERROR_DEADLOCK,
                   "rank %" G_GINT64_FORMAT " waits for ever for its stream %d", rank->rank,
                   rank->wait_lane);
    else if (rank->busy != 0)
      g_set_error (&run->error, ZS_RUN_ERROR, ZS_RUN_ERROR_DEADLOCK,
                   "stream %d of rank %" G_GINT64_FORMAT " waits for ever",
                   __builtin_ctz (rank->busy), rank->rank);
  }
}

/* Hosts run as far as they can; then the world comes up to the first that asks. */
static void
run_all (Run *run)
{
  while (!run->stopped) {
    ZsTime horizon = ZS_TIME_MAX;
    bool asked = false;

    run->n_released = 0;
    for (int32_t k = 0; k < run->n_ranks && !run->stopped; k++) {
      Rank *rank = &run->ranks[k];

      if (rank->state == HOST_RUNS)
        zs_host_run (rank);
      if (rank->state == HOST_ASKS)
        horizon = MIN (horizon, rank->host);
    }
    if (run->stopped)
      break;
    run->n_released = 0;
    horizon = MIN (horizon, run->stop_at);
    bool more = zs_world_advance (run, horizon);

    if (run->stopped || run->n_released > 0)
      continue;
    for (int32_t k = 0; k < run->n_ranks; k++)
      if (run->ranks[k].state == HOST_ASKS && run->ranks[k].host <= run->now) {
        run->ranks[k].state = HOST_RUNS;
        asked = true;
      }
    if (asked || (more && horizon == ZS_TIME_MAX))
      continue;
    for (int32_t k = 0; k < run->n_ranks && run->outcome != ZS_OUTCOME_OOM; k++)
      if (run->ranks[k].state != HOST_DONE || run->ranks[k].busy != 0)
        fail_deadlock (run);
    break;
  }
}

void
zs_run_keep_memory (void)
{
#ifdef __GLIBC__
  /* blocks up to the largest that M_MMAP_THRESHOLD may be (malloc.h: half of a heap) come from heaps
   * that only grow; a run of LLaMA-7B takes some 10 MiB */
  mallopt (M_MMAP_THRESHOLD, 32 << 20);
  mallopt (M_TRIM_THRESHOLD, 1 << 30);
  mallopt (M_TOP_PAD, 1 << 20);
#endif
}

ZsResult *
zs_run_work (const ZsWork *work, const ZsMachine *machine, const ZsRunOptions *options,
             GError **error)
{
  Run run = { .work = work, .machine = machine, .options = options };
  ZsResult *result = NULL;

  run.stop_at = ZS_TIME_MAX;
  run.max_events = options->max_events > 0 ? options->max_events : 2000000000;
  run.max_instructions = options->max_instructions > 0 ? options->max_instructions : 2000000000;
  run.launch_depth = machine->launch_depth > 0 ? (uint64_t) machine->launch_depth : UINT64_MAX;
  if (machine->host_cost != NULL)
    for (ZsHostWork w = 0; w < ZS_N_HOST_WORKS; w++)
      run.host_costs[w] = machine->host_cost (machine->self, w);
  run.shares = g_array_new (FALSE, FALSE, sizeof (ZsShare));
  zs_event_queue_init (&run.queue);
  zs_fold_init (&run);
  run.flows = zs_flow_set_new (machine->capacities, run.n_resources);
  if (options->want_link_points) {
    run.link_points = g_array_new (FALSE, FALSE, sizeof (ZsLinkPoint));
    run.link_rates = g_new0 (ZsRate, machine->n_resources + 1);
  }
  zs_repeat_init (&run);
  zs_fold_ranks (&run);
  zs_earliest_init (&run.earliest, run.n_ranks);
  if (run.n_ranks > 1 && work->one_plan && options->no_folding)
    zs_shared_open (&run);
  for (int32_t k = 0; k < run.n_ranks; k++)
    rank_init (&run, k);

  run_all (&run);
  if (run.error != NULL)
    g_propagate_error (error, run.error);
  else
    result = zs_gather_result (&run);
  run_clear (&run);
  return result;
}
