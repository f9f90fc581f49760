/* step.c: what happens next on a rank, in the order of time.
 * SPDX-License-Identifier: MIT
 *
 * The ends of kernels that follow one another on the compute stream are passed in a loop of their own: by
 * far the most of what happens.
 */
#include "config.h"

#include "sim/run/world.h"

static inline int
first_lane (const Rank *rank, ZsTime *ret_when)
{
  ZsTime least = ZS_TIME_MAX;
  int first = -1;

  for (uint32_t lanes = rank->active; lanes != 0; lanes &= lanes - 1) {
    int l = __builtin_ctz (lanes);

    if (rank->next[l] < least) {
      least = rank->next[l];
      first = l;
    }
  }
  *ret_when = least;
  return first;
}

void
zs_rank_update (Rank *rank)
{
  ZsTime when;

  first_lane (rank, &when);
  zs_earliest_set (&rank->run->earliest, rank->index, when);
}

/* The earliest of the active lanes but LANE_COMPUTE. */
static inline ZsTime
next_beside_compute (const Rank *rank)
{
  ZsTime least = ZS_TIME_MAX;

  for (uint32_t lanes = rank->active & ~(1u << LANE_COMPUTE); lanes != 0; lanes &= lanes - 1)
    least = MIN (least, rank->next[__builtin_ctz (lanes)]);
  return least;
}

/* Up to which position of the compute stream nobody waits for it. */
static inline uint64_t
unwatched_position (const Rank *rank)
{
  const Lane *lane = &rank->lanes[LANE_COMPUTE];
  uint64_t position = lane->pushed;

  for (uint32_t waiters = lane->waiters; waiters != 0; waiters &= waiters - 1) {
    const Lane *waiter = &rank->lanes[__builtin_ctz (waiters)];

    position = MIN (position, (uint64_t) waiter->ring[waiter->done & waiter->mask].value);
  }
  if (rank->state == HOST_WAITS_LANE && rank->wait_lane == LANE_COMPUTE)
    position = MIN (position, rank->wait_position);
  return position;
}

/* The kernels at the head of the compute stream that end by LIMIT and that nobody waits for, but for
 * the last: as many times round the loop of zs_rank_step (), in registers. */
static void
pass_kernels (Rank *rank, ZsTime limit)
{
  Lane *lane = &rank->lanes[LANE_COMPUTE];
  const ZsTime *alone = rank->slowdowns[0].time;
  Slowdown *slowdown = &rank->slowdowns[rank->slowdown];
  uint64_t last = unwatched_position (rank) - 1, done = lane->done, first = done;
  ZsTime when = rank->next[LANE_COMPUTE], start = lane->start;
  int64_t work = lane->work_done;

  while (done < last && when <= limit) {
    const Item *item = &lane->ring[done & lane->mask], *next = &lane->ring[(done + 1) & lane->mask];

    if (next->kind != ITEM_KERNEL)
      break;
    rank->wait[rank->kernel_cause[item->id]] += when - start;
    work += alone[item->id];
    done++;
    lane->time = start = when;
    if (next->issue > start) {
      zs_account_idle (rank, start, next->issue);
      start = next->issue;
    }
    ZsTime time = slowdown->time[next->id];

    when = start + (G_LIKELY (time != 0) ? time : zs_rank_kernel_time (rank, slowdown, next->id));
  }
  if (done == first)
    return;
  lane->done = done;
  lane->work_done = work;
  lane->start = start;
  rank->next[LANE_COMPUTE] = when;
  rank->run->n_events += (int64_t) (done - first);
  rank->run->now = lane->time;
  if (rank->state >= HOST_WAITS_LANE && rank->state != HOST_DONE)
    rank->wait_since = MAX (rank->wait_since, lane->time);
}

/* Does a kernel of the compute stream run at WHEN? */
static bool
is_full (const Rank *rank, ZsTime when)
{
  const Lane *lane = &rank->lanes[LANE_COMPUTE];

  return (rank->active & 1u << LANE_COMPUTE) != 0 && lane->start < when
         && lane->ring[lane->done & lane->mask].kind == ITEM_KERNEL;
}

/* The GPU has room WHEN a kernel of the compute stream ends. */
static void
let_in (Rank *rank, ZsTime when)
{
  for (uint32_t lanes = rank->behind; lanes != 0; lanes &= lanes - 1) {
    int l = __builtin_ctz (lanes);

    rank->lanes[l].start = rank->next[l] = when;
  }
  rank->active |= rank->behind;
  rank->behind = 0;
}

/* After the kernel at the head of lane L a step of rank 0 begins, and the use of links is counted anew:
 * for that the world must have come there. */
static bool
starts_step (const Rank *rank, int l)
{
  const Lane *lane = &rank->lanes[l];
  const Item *next = &lane->ring[(lane->done + 1) & lane->mask];

  return rank->index == 0 && lane->done + 1 < lane->pushed && next->kind == ITEM_MARK
         && next->flags != 0;
}

void
zs_rank_step (Rank *rank, ZsTime limit, ZsTime kernel_limit)
{
  Run *run = rank->run;
  ZsTime when, began = run->now;
  int l;

  for (;;) {
    l = first_lane (rank, &when);
    if (l < 0 || when > kernel_limit)
      break;
    Lane *lane = &rank->lanes[l];
    const Item *item = &lane->ring[lane->done & lane->mask];

    if (item->kind != ITEM_KERNEL) {
      if (when > limit)
        break;
      run->now = when;
      run->n_events++;
      rank->active &= ~(1u << l);
      if (item->kind == ITEM_COLLECTIVE && is_full (rank, when)) {
        rank->behind |= 1u << l;
        continue;
      }
      zs_account_waits (rank);
      lane->begun = true;
      rank->n_begun++;
      zs_world_start (rank, l);
      zs_rank_update (rank);
      return;
    }
    if (l == LANE_COMPUTE && rank->compute_since < 0 && rank->spans == NULL && rank->behind == 0) {
      pass_kernels (rank, MIN (kernel_limit, next_beside_compute (rank)));
      if (first_lane (rank, &when) != l || when > kernel_limit)
        continue;
      item = &lane->ring[lane->done & lane->mask];
    }
    if (when > limit && (starts_step (rank, l) || (l == LANE_COMPUTE && rank->behind != 0)))
      break;
    run->now = when;
    run->n_events++;
    if (l != LANE_COMPUTE && !lane->begun) {
      zs_rank_start_beside (rank, l);
      continue;
    }
    if (rank->compute_since >= 0 || rank->state >= HOST_WAITS_LANE)
      zs_account_waits (rank);
    if (l == LANE_COMPUTE)
      rank->wait[rank->kernel_cause[item->id]] += when - lane->start;
    if (G_UNLIKELY (rank->spans != NULL))
      zs_gather_span (rank, ZS_TRACK_STREAM + l, ZS_OP_LAUNCH, lane->start, when,
                   rank->plan->kernels[item->id].name, item->label, 0)
        ->cause = rank->kernel_cause[item->id];
    lane->work_done += rank->slowdowns[0].time[item->id];
    if (l != LANE_COMPUTE) {
      rank->active &= ~(1u << l);   /* it runs no more */
      zs_rank_beside (rank, item->id, -1);
    }
    lane->time = when;
    lane->done++;
    if (l == LANE_COMPUTE && rank->behind != 0)
      let_in (rank, when);
    zs_lane_begin (rank, l, true);
    if (run->n_released > 0)
      break;
  }
  if (run->now > limit)   /* only this rank has come so far */
    run->now = MAX (began, limit);
  zs_rank_update (rank);
}
