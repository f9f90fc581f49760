/* gather.c: from the end of a run to its result.
 * SPDX-License-Identifier: MIT
 *
 * A phase and a step begin where the compute stream reaches the mark that the host put there, and
 * no earlier than the host was there: with a device synchronisation around phases that is the
 * host's time, without one it is when the GPU begins.  The parts of a step are differences of
 * running sums taken at these marks, so they sum to the step exactly.
 *
 * FLOPs are the plan's own count, or that of its kernels.
 *
 * Host memory of a node is the sum of its ranks' peaks: ranks reach them in the same places.
 */
#include "config.h"

#include "sim/run/world.h"

#include <string.h>

ZsSpan *
zs_gather_span (Rank *rank, int track, uint8_t kind, ZsTime start, ZsTime end, const char *name,
                uint32_t label, int64_t bytes)
{
  const ZsLabel *what = &rank->plan->labels[label];
  ZsSpan span = { .rank = (int32_t) rank->rank, .track = (uint8_t) track, .kind = kind,
                  .start = start, .end = end, .layer = what->layer, .bytes = bytes,
                  .name = kind == ZS_OP_HOST && what->what[0] != '\0' ? what->what : name };

  g_array_append_val (rank->spans, span);
  return &g_array_index (rank->spans, ZsSpan, rank->spans->len - 1);
}

void
zs_gather_wait (Rank *rank, ZsTime start, ZsTime end, uint8_t cause)
{
  ZsSpan *last = rank->last_wait == 0 ? NULL
                 : &g_array_index (rank->spans, ZsSpan, rank->last_wait - 1);
  ZsSpan span = { .rank = (int32_t) rank->rank, .track = ZS_TRACK_WAIT,
                  .kind = ZS_OP_STREAM_WAIT_EVENT, .cause = cause, .start = start, .end = end,
                  .layer = -1, .name = zs_wait_name (cause) };

  if (last != NULL && last->end == start && last->cause == cause) {
    last->end = end;
    return;
  }
  g_array_append_val (rank->spans, span);
  rank->last_wait = rank->spans->len;
}

void
zs_gather_links (Run *run)
{
  for (int32_t s = 0; s < run->machine->n_resources; s++) {
    ZsLinkPoint point = { .when = run->now, .resource = s,
                          .rate = zs_flow_set_rate (run->flows, s) };

    if (point.rate == run->link_rates[s])
      continue;
    run->link_rates[s] = point.rate;
    g_array_append_val (run->link_points, point);
  }
}

/* ---- memory ---- */

static int
by_bytes (const void *a, const void *b)
{
  const ZsLiveTensor *x = a, *y = b;

  if (x->bytes != y->bytes)
    return x->bytes > y->bytes ? -1 : 1;
  if (x->category != y->category)
    return (int) x->category - (int) y->category;
  if (x->layer != y->layer)
    return x->layer < y->layer ? -1 : 1;
  return strcmp (x->what, y->what);
}

static int
by_holder (const void *a, const void *b)
{
  const ZsHolder *x = a, *y = b;

  if (x->bytes != y->bytes)
    return x->bytes > y->bytes ? -1 : 1;
  return (int) x->category - (int) y->category;
}

static void
gather_live (const Rank *rank, bool at_peak, ZsResult *result)
{
  g_autofree LogEntry *alive = g_new0 (LogEntry, rank->n_slots + 1);
  int64_t held[ZS_N_CATEGORIES] = { 0 };

  if (!at_peak) {
    for (uint32_t s = 0; s < rank->n_slots; s++)
      alive[s] = (LogEntry) { .units = (uint32_t) (rank->slots[s].bytes / LOG_UNIT),
                              .label = rank->slots[s].label,
                              .category = rank->slots[s].category };
  } else {
    const Notes *base = rank->peak_here ? &rank->base : &rank->peak_base;
    const Notes *log = rank->peak_here ? &rank->log : &rank->peak_log;

    for (guint i = 0; i < base->n; i++)
      alive[g_array_index (base->array, LogEntry, i).tensor]
        = g_array_index (base->array, LogEntry, i);
    for (guint i = 0; i < rank->peak_at && i < log->n; i++)
      alive[g_array_index (log->array, LogEntry, i).tensor]
        = g_array_index (log->array, LogEntry, i);
  }
  for (uint32_t s = 0; s < rank->n_slots; s++) {
    if (alive[s].units == 0)
      continue;
    const ZsLabel *label = &rank->plan->labels[alive[s].label];
    ZsLiveTensor live = { .category = alive[s].category, .layer = label->layer,
                          .what = label->what, .bytes = alive[s].units * LOG_UNIT, .count = 1 };

    held[live.category] += live.bytes;
    g_array_append_val (result->live, live);
  }
  for (int c = 0; c < ZS_N_CATEGORIES; c++)
    if (held[c] > 0) {
      ZsHolder holder = { .category = c, .bytes = held[c] };

      g_array_append_val (result->peak_holders, holder);
    }
  if (result->peak_holders->len > 0)
    qsort (result->peak_holders->data, result->peak_holders->len, sizeof (ZsHolder), by_holder);

  guint n = 0;
  GArray *live = result->live;

  if (live->len > 0)
    qsort (live->data, live->len, sizeof (ZsLiveTensor), by_bytes);
  for (guint i = 0; i < live->len; i++) {
    ZsLiveTensor *row = &g_array_index (live, ZsLiveTensor, i);

    if (n > 0 && by_bytes (row, &g_array_index (live, ZsLiveTensor, n - 1)) == 0)
      g_array_index (live, ZsLiveTensor, n - 1).count++;
    else
      g_array_index (live, ZsLiveTensor, n++) = *row;
  }
  g_array_set_size (live, n);
}

static void
gather_host_memory (const Run *run, const Rank *reported, ZsResult *result)
{
  const ZsMachine *machine = run->machine;
  int64_t node_ranks = machine->node_ranks > 0 ? machine->node_ranks : machine->n_ranks;
  int64_t n_nodes = (machine->n_ranks + node_ranks - 1) / node_ranks, most = 0;
  g_autofree int64_t *pinned = g_new0 (int64_t, n_nodes);
  g_autofree int64_t *pageable = g_new0 (int64_t, n_nodes);
  g_autofree int64_t *nvme = g_new0 (int64_t, n_nodes);
  const ZsHostCounters *counters = zs_host_allocator_counters (reported->host_memory);

  result->host_pinned_peak_bytes_per_rank = counters->pinned_peak;
  result->host_pageable_peak_bytes_per_rank = counters->pageable_peak;
  for (int32_t k = 0; k < run->n_ranks; k++) {
    const Rank *rank = &run->ranks[k];

    counters = zs_host_allocator_counters (rank->host_memory);
    for (int32_t m = 0; m < rank->n_members; m++) {
      int64_t node = rank->members[m] / node_ranks;

      pinned[node] += counters->pinned_peak;
      pageable[node] += counters->pageable_peak;
      nvme[node] += rank->nvme_bytes;
    }
  }
  for (int64_t node = 0; node < n_nodes; node++) {
    result->host_pinned_peak_bytes = MAX (result->host_pinned_peak_bytes, pinned[node]);
    result->host_pageable_peak_bytes = MAX (result->host_pageable_peak_bytes, pageable[node]);
    result->nvme_bytes = MAX (result->nvme_bytes, nvme[node]);
    most = MAX (most, pinned[node] + pageable[node]);
  }
  result->host_memory_bytes = machine->host_memory_bytes;
  if (result->outcome == ZS_OUTCOME_OK && machine->host_memory_bytes > 0
      && most > machine->host_memory_bytes)
    result->outcome = ZS_OUTCOME_HOST_OOM;
}

/* ---- time ---- */

/* Steps that are spoken of as one: the last, or all but the first if they differ. */
typedef struct {
  int  first, last;          /* their numbers */
  Mark begin, end;
  ZsTime last_begin;
} Steady;

/* STEADY of no steps: first > last. */
static Steady
gather_times (const Rank *rank, ZsResult *result)
{
  Steady steady = { .first = 1 };

  const Mark *marks = (const Mark *) (void *) rank->marks->data;
  guint n = rank->phases->len;

  /* after an OOM the last phase has no end */
  for (guint p = 0; p < n; p++) {
    ZsPhaseResult phase = g_array_index (rank->phases, ZsPhaseResult, p);

    phase.start = MAX (marks[p].when, 0);
    if (p + 1 < rank->marks->len && marks[p + 1].when >= 0)
      phase.time = marks[p + 1].when - marks[p].when;
    g_array_append_val (result->phases, phase);
  }
  for (guint p = 0; p < n;) {
    guint end = p + 1;
    const ZsPhaseResult *first = &g_array_index (rank->phases, ZsPhaseResult, p);

    while (end < n && g_array_index (rank->phases, ZsPhaseResult, end).step == first->step
           && g_array_index (rank->phases, ZsPhaseResult, end).phase != ZS_PHASE_SAVE)
      end++;
    if (first->step > 0 && first->phase != ZS_PHASE_SAVE && end < rank->marks->len
        && marks[end].when >= 0) {
      ZsStepResult step = { .step = first->step, .time = marks[end].when - marks[p].when };

      g_array_append_val (result->steps, step);
      steady.last_begin = marks[p].when;
      if (!result->steps_differ || result->steps->len <= 2) {
        steady.first = first->step;
        steady.begin = marks[p];
      }
      steady.last = first->step;
      steady.end = marks[end];
    }
    p = end;
  }
  return steady;
}

/* Means, so rounded that the parts add up. */
static void
gather_means (const Steady *steady, ZsResult *result)
{
  ZsTime n = steady->last - steady->first + 1, sum = 0;

  for (int w = 0; w < ZS_N_WAITS && n > 0; w++) {
    ZsTime before = sum / n;

    sum += steady->end.wait[w] - steady->begin.wait[w];
    result->wait_ps[w] = sum / n - before;
  }
  if (n > 0)
    result->step_time_ps = (steady->end.when - steady->begin.when) / n;
}

static void
gather_rates (const Run *run, const Rank *rank, const Steady *steady, ZsResult *result)
{
  const ZsWork *work = run->work;
  int first = steady->first, last = steady->last;
  double n = last - first + 1, seconds = zs_time_to_seconds (steady->end.when - steady->begin.when);

  if (n <= 0 || seconds <= 0)
    return;
  int64_t tokens = work->tokens != NULL ? work->tokens (work->self, first, last, false)
                                        : work->tokens_per_rank;

  if (work->tokens != NULL)
    result->padding_share = 1 - (double) tokens / (double) work->tokens (work->self, first, last, true);
  result->tokens_per_second_per_gpu = (double) tokens / seconds;
  result->samples_per_second
    = n * (double) work->samples_per_rank * (double) run->machine->n_ranks / seconds;
  const ZsPlanSource *source = &rank->source;
  double model = source->model_flops != NULL ? source->model_flops (source->self, first, last)
                                             : 3 * rank->forward_flops;
  double hardware = source->hardware_flops != NULL ? source->hardware_flops (source->self, first, last)
                                                   : rank->step_flops;

  result->tflops_per_gpu = model / seconds / 1e12;
  if (run->machine->peak_flops > 0) {
    result->mfu = model / seconds / run->machine->peak_flops;
    result->hfu = hardware / seconds / run->machine->peak_flops;
  }
}

static void
gather_links (Run *run, ZsResult *result)
{
  const ZsMachine *machine = run->machine;

  result->links = g_array_new (FALSE, TRUE, sizeof (ZsLinkUse));
  for (int32_t s = 0; s < machine->n_resources; s++) {
    int32_t like = s % run->n_resources;   /* on the first node, where that is run for all */
    ZsLinkUse use = { .resource = s, .rate = machine->capacities[s],
                      .bytes = zs_flow_set_bytes (run->flows, like),
                      .busy = zs_flow_set_busy (run->flows, like, run->now) };

    if (use.bytes == 0)
      continue;
    if (machine->resource_name != NULL)
      machine->resource_name (machine->self, s, use.name, sizeof use.name);
    g_array_append_val (result->links, use);
  }
}

/* Does RANK stand for the one that is to be reported? */
static bool
is_wanted (const Run *run, const Rank *rank)
{
  int64_t wanted = run->options->report_rank;

  for (int32_t m = 0; m < rank->n_members && wanted >= 0 && wanted < run->machine->n_ranks; m++)
    if (rank->members[m] == (run->one_node ? wanted % run->folded_ranks : wanted))
      return true;
  return false;
}

/* The rank that ran out of memory first; NULL: none did. */
static Rank *
first_failed (Run *run)
{
  Rank *first = NULL;

  for (int32_t k = 0; k < run->n_ranks; k++) {
    Rank *rank = &run->ranks[k];

    if (rank->failed_at >= 0 && (first == NULL || rank->failed_at < first->failed_at))
      first = rank;
  }
  return first;
}

static Rank *
choose_rank (Run *run, Rank *failed)
{
  Rank *worst = failed != NULL ? failed : &run->ranks[0];

  for (int32_t k = 0; k < run->n_ranks; k++) {
    Rank *rank = &run->ranks[k];

    if (is_wanted (run, rank))
      return rank;
    if (failed == NULL && (rank->peak_bytes > worst->peak_bytes
                           || (rank->peak_bytes == worst->peak_bytes
                               && rank->peak_reserved > worst->peak_reserved)))
      worst = rank;
  }
  return worst;
}

static GArray *
take_array (GArray **array)
{
  GArray *taken = *array;

  *array = NULL;
  return taken;
}

/* Out of memory: the phase ends here, and what was held counts for the peaks, also before training. */
static void
end_with_failure (Rank *rank)
{
  if (rank->phases->len > 0)
    zs_memory_phase (rank, NULL);
  rank->peak_bytes = MAX (rank->peak_bytes, rank->counters->allocated.peak);
  rank->peak_reserved = MAX (rank->peak_reserved, rank->counters->reserved.peak);
  if (rank->peak_phase < 0)
    rank->peak_phase = (int) rank->phases->len - 1;
}

/* All ranks' spans in one. */
static void
gather_spans (Run *run, ZsResult *result)
{
  result->spans = take_array (&run->ranks[0].spans);
  for (int32_t k = 1; k < run->n_ranks && result->spans != NULL; k++)
    g_array_append_vals (result->spans, run->ranks[k].spans->data, run->ranks[k].spans->len);
}

ZsResult *
zs_gather_result (Run *run)
{
  const ZsMachine *machine = run->machine;
  ZsResult *result = g_new0 (ZsResult, 1);
  Rank *failed = first_failed (run), *rank = choose_rank (run, failed);

  result->outcome = run->outcome;
  if (failed != NULL) {
    result->oom = failed->oom;
    failed->oom.message = NULL;
  }
  result->reported_rank = rank->rank;
  if (is_wanted (run, rank))
    result->reported_rank = run->options->report_rank;
  if (run->outcome == ZS_OUTCOME_OOM)
    end_with_failure (rank);
  result->n_ranks = machine->n_ranks;
  result->n_distinct_plans = run->n_plans;

  result->steps = g_array_new (FALSE, TRUE, sizeof (ZsStepResult));
  result->phases = g_array_new (FALSE, TRUE, sizeof (ZsPhaseResult));
  result->peak_holders = g_array_new (FALSE, TRUE, sizeof (ZsHolder));
  result->live = g_array_new (FALSE, TRUE, sizeof (ZsLiveTensor));
  result->steps_differ = run->work->tokens != NULL;
  Steady steady = gather_times (rank, result);

  gather_means (&steady, result);
  gather_rates (run, rank, &steady, result);

  result->peak_allocated_bytes = rank->peak_bytes;
  result->peak_reserved_bytes = rank->peak_reserved;
  result->context_bytes = machine->context_bytes;
  result->communicator_bytes = rank->communicator_bytes;
  result->peak_device_bytes = machine->context_bytes + rank->peak_device;
  result->gpu_memory_bytes = machine->gpu_memory_bytes;
  result->limit_bytes = run->options->memory_limit_bytes;
  result->alloc_retries = rank->counters->num_alloc_retries;
  int peak_phase = rank->peak_here ? (int) rank->phases->len - 1 : rank->peak_phase;

  if (peak_phase >= 0) {
    const ZsPhaseResult *phase = &g_array_index (rank->phases, ZsPhaseResult, peak_phase);

    result->peak_phase = phase->phase;
    result->peak_step = phase->step;
    result->peak_micro_step = phase->micro_step;
  }
  if (rank->plan != NULL)
    gather_live (rank, run->outcome != ZS_OUTCOME_OOM, result);
  gather_host_memory (run, rank, result);
  if (run->options->want_links)
    gather_links (run, result);
  gather_spans (run, result);
  if (result->spans != NULL && result->steps->len > 0)
    zs_critical_path (result->spans, (int32_t) rank->rank, steady.last_begin,
                      steady.last_begin + zs_result_last_step_time (result));
  result->memory_points = zs_repeat_points (rank);
  result->memory_events = take_array (&rank->memory_events);
  result->link_points = take_array (&run->link_points);
  for (int32_t k = 0; k < run->n_ranks; k++) {
    result->n_instructions += run->ranks[k].n_instructions;
    result->n_repeated += run->ranks[k].n_repeated;
  }
  result->n_events = run->n_events;
  return result;
}
