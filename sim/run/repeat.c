/* repeat.c: steps and micro-steps that repeat an earlier one exactly are not run again.
 * SPDX-License-Identifier: MIT
 *
 * Between two micro-steps, and between two steps, a number is made of everything that the rest of the
 * run depends on: the allocators' blocks, what lies on the streams, collectives and flows under way,
 * the clocks, the state of the planners; times as seen from rank 0's clock, positions of lanes as seen
 * from where the lane is.  Everything is whole numbers, so a run from equal states does the same, only
 * later.  If the state is that of an earlier boundary, what happened between the two (the period) will
 * happen again as long as the planners make the same phases: up to the last micro-step, which ends
 * the step, or to the end of the job.
 *
 * Then clocks move on by whole periods, and what was noted during the period is noted again: phases,
 * points of the memory timeline, parts of the time, use of links, FLOPs (added in the same order, as
 * they are floating point).  The result is that of the long way, to the picosecond and the byte;
 * tests/run holds the two against each other.
 *
 * Spans, allocations and changes of links' rates are noted again too; but a run that keeps them counts
 * what it copies as run, since it takes as much room.
 */
#include "config.h"

#include "sim/run/repeat.h"

#include <sys/mman.h>

static void
clear_boundary (gpointer data)
{
  Boundary *boundary = data;

  g_free (boundary->use);
  g_free (boundary->ranks);
}

void
zs_repeat_init (Run *run)
{
  const ZsRunOptions *options = run->options;

  run->looks_for_repeats = !options->no_repeats;
  for (int kind = 0; kind < ZS_N_REPEATS; kind++) {
    run->boundaries[kind] = g_array_new (FALSE, FALSE, sizeof (Boundary));
    g_array_set_clear_func (run->boundaries[kind], clear_boundary);
  }
}

void
zs_repeat_clear (Run *run)
{
  for (int kind = 0; kind < ZS_N_REPEATS; kind++)
    g_array_unref (run->boundaries[kind]);
}

/* ---- moving on ---- */

static void
repeat_phases (Rank *rank, const RankPast *past, int64_t times, ZsTime period,
               const ZsPlannerPlace *advance)
{
  guint n = rank->phases->len, of_period = n - past->n_phases, pending = n;
  guint after = n + (guint) times * of_period;
  Lane *lane = &rank->lanes[LANE_COMPUTE];

  /* marks that the GPU has not reached are those of the last time */
  for (uint64_t at = lane->pushed; at-- > lane->done;) {
    Item *item = &lane->ring[at & lane->mask];

    if (item->kind != ITEM_MARK)
      continue;
    pending = item->id;
    item->id += after - n;
  }
  g_array_set_size (rank->phases, after);
  g_array_set_size (rank->marks, after);
  ZsPhaseResult *phases = &g_array_index (rank->phases, ZsPhaseResult, 0);
  Mark *marks = &g_array_index (rank->marks, Mark, 0);

  for (guint p = n - 1; p < after; p++) {
    ZsPhaseResult phase = phases[p - of_period];

    if (p == n - 1) {      /* it ended as its like did */
      phase.step = phases[p].step;
      phase.micro_step = phases[p].micro_step;
      phase.start_allocated_bytes = phases[p].start_allocated_bytes;
    } else {
      phase.step += advance->step;
      phase.micro_step += advance->micro_step;
    }
    phases[p] = phase;
  }
  for (guint p = pending; p < after; p++) {
    marks[p].when = marks[p - of_period].when + period;
    for (int w = 0; w < ZS_N_WAITS; w++)
      marks[p].wait[w] = marks[p - of_period].wait[w] + rank->wait[w] - past->wait[w];
  }
}

static void
repeat_points (Rank *rank, const RankPast *past, int64_t times, ZsTime period)
{
  PointRepeat repeat = { .first = past->n_points, .end = rank->memory_points.n, .times = times,
                         .period = period };

  if (rank->memory_points.array == NULL || repeat.end == repeat.first)
    return;
  if (rank->point_repeats == NULL)
    rank->point_repeats = g_array_new (FALSE, FALSE, sizeof (PointRepeat));
  g_array_append_val (rank->point_repeats, repeat);
}

/* Tens of megabytes that are about to be filled: most of the time would go to page faults. */
static void
use_large_pages (void *data G_GNUC_UNUSED, gsize bytes G_GNUC_UNUSED)
{
#ifdef MADV_HUGEPAGE
  const guintptr large = (guintptr) 2 << 20;
  guintptr start = ((guintptr) data + large - 1) & -large, end = ((guintptr) data + bytes) & -large;

  if (end > start)
    madvise ((void *) start, end - start, MADV_HUGEPAGE);   /* a wish: its failure changes nothing */
#endif
}

/* Writes POINTS from FROM to TO, SHIFT later, with the repetitions FIRST to END that lie in there; returns
 * how many they are.  RET_POINTS NULL: only counts.  A repetition may have others in it (steps of
 * micro-steps): those were noted before it. */
static guint
expand_points (const GArray *repeats, guint first, guint end, const ZsMemoryPoint *points, guint from,
               guint to, ZsTime shift, ZsMemoryPoint *ret_points)
{
  guint n = 0;

  if (end > first) {
    const PointRepeat *last = &g_array_index (repeats, PointRepeat, end - 1);
    guint inner = end - 1;

    while (inner > first && g_array_index (repeats, PointRepeat, inner - 1).first >= last->first)
      inner--;
    n += expand_points (repeats, first, inner, points, from, last->first, shift, ret_points);
    for (int64_t t = 0; t <= last->times; t++)
      n += expand_points (repeats, inner, end - 1, points, last->first, last->end,
                          shift + t * last->period, ret_points != NULL ? ret_points + n : NULL);
    from = last->end;
  }
  for (guint p = from; p < to && ret_points != NULL; p++) {
    ret_points[n + p - from] = points[p];
    ret_points[n + p - from].when += shift;
  }
  return n + to - from;
}

GArray *
zs_repeat_points (Rank *rank)
{
  GArray *once = rank->memory_points.array, *repeats = rank->point_repeats, *all;

  rank->memory_points.array = NULL;
  if (once == NULL)
    return NULL;
  g_array_set_size (once, rank->memory_points.n);
  if (repeats == NULL)
    return once;
  const ZsMemoryPoint *points = &g_array_index (once, ZsMemoryPoint, 0);
  guint n = expand_points (repeats, 0, repeats->len, points, 0, once->len, 0, NULL);

  all = g_array_sized_new (FALSE, FALSE, sizeof (ZsMemoryPoint), n);
  g_array_set_size (all, n);
  use_large_pages (all->data, (gsize) n * sizeof (ZsMemoryPoint));
  expand_points (repeats, 0, repeats->len, points, 0, once->len, 0,
                 &g_array_index (all, ZsMemoryPoint, 0));
  g_array_unref (once);
  return all;
}

/* A wait that went on into the period goes on in each of its repetitions. */
static void
repeat_spans (Rank *rank, const RankPast *past, int64_t times, ZsTime period)
{
  guint end = rank->spans != NULL ? rank->spans->len : 0, last = rank->last_wait;

  if (rank->spans == NULL)
    return;
  ZsTime last_end = last > 0 ? g_array_index (rank->spans, ZsSpan, last - 1).end : 0;
  ZsTime longer = past->last_wait > 0 ? g_array_index (rank->spans, ZsSpan, past->last_wait - 1).end
                                          - past->last_wait_end : 0;

  g_array_set_size (rank->spans, end + (guint) times * (end - past->n_spans));
  ZsSpan *spans = &g_array_index (rank->spans, ZsSpan, 0), *to = spans + end;

  for (int64_t t = 1; t <= times; t++) {
    if (longer > 0)
      spans[rank->last_wait - 1].end += longer;
    for (guint s = past->n_spans; s < end; s++, to++) {
      *to = spans[s];
      if (s == last - 1)
        to->end = last_end;
      to->start += t * period;
      to->end += t * period;
    }
    if (last > past->n_spans)
      rank->last_wait += end - past->n_spans;
  }
}

static void
repeat_memory_events (Rank *rank, const RankPast *past, int64_t times, ZsTime period)
{
  GArray *all = rank->memory_events;

  if (all == NULL)
    return;
  guint end = all->len;

  g_array_set_size (all, end + (guint) times * (end - past->n_memory_events));
  const ZsMemoryEvent *events = &g_array_index (all, ZsMemoryEvent, 0);
  ZsMemoryEvent *to = &g_array_index (all, ZsMemoryEvent, end);

  for (int64_t t = 1; t <= times; t++)
    for (guint e = past->n_memory_events; e < end; e++, to++) {
      *to = events[e];
      to->when += t * period;
    }
}

static void
repeat_link_points (Run *run, guint first, int64_t times, ZsTime period)
{
  guint end = run->link_points != NULL ? run->link_points->len : 0;

  for (int64_t t = 1; t <= times; t++)
    for (guint p = first; p < end; p++) {
      ZsLinkPoint point = g_array_index (run->link_points, ZsLinkPoint, p);

      point.when += t * period;
      g_array_append_val (run->link_points, point);
    }
}

static bool
keeps_all (const Rank *rank)
{
  return rank->spans != NULL || rank->memory_events != NULL || rank->run->link_points != NULL;
}

static void
repeat_flops (Rank *rank, const RankPast *past, int64_t times)
{
  for (int64_t t = 0; t < times; t++)
    for (guint p = past->n_phases - 1; p + 1 < rank->phases->len; p++) {
      double flops = g_array_index (rank->phase_flops, double, p);

      rank->step_flops += flops;
      if (g_array_index (rank->phases, ZsPhaseResult, p).phase == ZS_PHASE_FORWARD)
        rank->forward_flops += flops;
    }
}

static void
shift_lanes (Rank *rank, ZsTime time)
{
  for (int l = 0; l < N_LANES; l++) {
    Lane *lane = &rank->lanes[l];

    lane->time += time;
    lane->start += time;
    rank->next[l] += time;
    for (uint64_t at = lane->done; at < lane->pushed; at++)
      lane->ring[at & lane->mask].issue += time;
  }
  if (rank->compute_since >= 0)
    rank->compute_since += time;
  for (guint b = rank->blocked_head; b < rank->blocked->len; b++) {
    g_array_index (rank->blocked, Blocked, b).start += time;
    g_array_index (rank->blocked, Blocked, b).end += time;
  }
}

static void
repeat_rank (Rank *rank, const RankPast *past, int64_t times, ZsTime period,
             const ZsPlannerPlace *advance)
{
  bool steps = advance->step > 0;
  guint n_phases = rank->phases->len;

  if (!steps) {
    repeat_flops (rank, past, times);
    rank->nvme_bytes += times * (rank->nvme_bytes - past->nvme_bytes);
  }
  /* a peak in the phase that is not over: it stays the first of its height */
  if (rank->peak_here)
    zs_memory_keep_peak (rank);
  repeat_phases (rank, past, times, period, advance);
  repeat_points (rank, past, times, period);
  repeat_spans (rank, past, times, period);
  repeat_memory_events (rank, past, times, period);
  g_array_set_size (rank->phase_flops, rank->phases->len - 1);
  for (guint p = n_phases - 1; p + 1 < rank->phases->len; p++)
    g_array_index (rank->phase_flops, double, p)
      = g_array_index (rank->phase_flops, double, p - (n_phases - past->n_phases));
  for (int w = 0; w < ZS_N_WAITS; w++)
    rank->wait[w] += times * (rank->wait[w] - past->wait[w]);
  int64_t n_repeated = times * (rank->n_instructions - past->n_instructions);

  if (!keeps_all (rank))
    rank->n_repeated += n_repeated;
  rank->n_instructions += n_repeated;
  rank->host += times * period;
  rank->wait_since += times * period;
  shift_lanes (rank, times * period);
  rank->step += (int) times * advance->step;
  rank->chunk_steps += (int) times * advance->step;
  rank->chunk_micro_steps += (int) times * advance->micro_step;
  rank->source.skip (rank->source.self, (int) times * advance->step,
                     (int) times * advance->micro_step);
}

/* How many more times the period from PAST to PLACE fits. */
static int64_t
times_left (const Run *run, const Boundary *past, const ZsPlannerPlace *advance)
{
  int64_t times = INT64_MAX;
  ZsTime period = run->ranks[0].host - past->when;

  for (int32_t k = 0; k < run->n_ranks; k++) {
    const Rank *rank = &run->ranks[k];
    ZsPlannerPlace place;

    rank->source.place (rank->source.self, &place);
    times = MIN (times, advance->step > 0 ? place.steps_left / advance->step
                                          : place.micro_steps_left / advance->micro_step);
  }
  /* far from the end of time and of what fits an array */
  if (period > 0)
    times = MIN (times, ZS_TIME_MAX / 4 / period);
  for (int32_t k = 0; k < run->n_ranks; k++) {
    const Rank *rank = &run->ranks[k];
    int64_t of_period = rank->n_instructions - past->ranks[k].n_instructions;

    if (keeps_all (rank) && of_period > 0)
      times = MIN (times, MAX (0, run->max_instructions - rank->n_instructions) / of_period);
  }
  return MIN (times, 1000000);
}

/* The period since PAST happens TIMES more, each of which moves planners on by ADVANCE. */
static void
repeat (Run *run, const Boundary *past, int64_t times, const ZsPlannerPlace *advance)
{
  ZsTime period = run->ranks[0].host - past->when;
  bool steps = advance->step > 0;

  /* the use of links is that of the last step */
  zs_flow_set_repeat (run->flows, run->ranks[0].host, times * period, steps ? NULL : past->use,
                      times);
  zs_event_queue_shift (&run->queue, times * period);
  zs_earliest_shift (&run->earliest, times * period);
  run->now += times * period;
  repeat_link_points (run, past->n_link_points, times, period);
  run->n_repeated_events += times * (run->n_events - past->n_events);
  run->n_events += times * (run->n_events - past->n_events);
  for (int32_t k = 0; k < run->n_ranks; k++)
    repeat_rank (&run->ranks[k], &past->ranks[k], times, period, advance);
}

static void
add_boundary (Run *run, int kind, uint64_t digest, const ZsPlannerPlace *place)
{
  Boundary boundary = {
    .digest = digest, .place = *place, .when = run->ranks[0].host, .n_events = run->n_events,
    .n_resets = run->n_resets,
    .n_link_points = run->link_points != NULL ? run->link_points->len : 0,
    .use = zs_flow_set_use (run->flows, run->ranks[0].host),
    .ranks = g_new (RankPast, run->n_ranks),
  };

  for (int32_t k = 0; k < run->n_ranks; k++) {
    const Rank *rank = &run->ranks[k];

    boundary.ranks[k] = (RankPast) {
      .n_phases = rank->phases->len, .n_points = rank->memory_points.n,
      .n_instructions = rank->n_instructions, .nvme_bytes = rank->nvme_bytes,
    };
    memcpy (boundary.ranks[k].wait, rank->wait, sizeof rank->wait);
    if (rank->memory_events != NULL)
      boundary.ranks[k].n_memory_events = rank->memory_events->len;
    if (rank->spans == NULL)
      continue;
    boundary.ranks[k].n_spans = rank->spans->len;
    boundary.ranks[k].last_wait = rank->last_wait;
    if (rank->last_wait > 0)
      boundary.ranks[k].last_wait_end = g_array_index (rank->spans, ZsSpan, rank->last_wait - 1).end;
  }
  g_array_append_val (run->boundaries[kind], boundary);
}

void
zs_repeat_look (Run *run)
{
  const Rank *first = &run->ranks[0];
  ZsPlannerPlace place;

  if (first->step <= 0 || first->source.digest == NULL)
    return;
  first->source.place (first->source.self, &place);
  if (!place.forward)
    return;
  int kind = place.micro_step == 0 ? ZS_REPEAT_STEPS : ZS_REPEAT_MICRO_STEPS;
  int left = kind == ZS_REPEAT_STEPS ? place.steps_left : place.micro_steps_left;
  GArray *boundaries = run->boundaries[kind];

  if (kind == ZS_REPEAT_STEPS && run->options->overflow_steps != 0)
    return;
  if (kind == ZS_REPEAT_MICRO_STEPS && boundaries->len > 0
      && g_array_index (boundaries, Boundary, 0).place.step != place.step)
    g_array_set_size (boundaries, 0);
  /* is there anything to gain? */
  if (left < (boundaries->len > 0 ? 1 : 2))
    return;
  uint64_t digest = zs_state_digest (run, &place);

  if (digest == 0) {
    run->looks_for_repeats = false;
    return;
  }
  for (guint b = boundaries->len; b-- > 0;) {
    const Boundary *past = &g_array_index (boundaries, Boundary, b);
    const ZsPlannerPlace advance = { .step = place.step - past->place.step,
                                     .micro_step = place.micro_step - past->place.micro_step };

    if (past->digest != digest
        || (kind == ZS_REPEAT_MICRO_STEPS && past->n_resets != run->n_resets))
      continue;
    int64_t times = times_left (run, past, &advance);

    if (times > 0)
      repeat (run, past, times, &advance);
    return;
  }
  add_boundary (run, kind, digest, &place);
}
