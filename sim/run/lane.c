/* lane.c: streams of work that run in order.
 * SPDX-License-Identifier: MIT
 *
 * What comes next on a rank is the least of next[], one time per lane: the end of the kernel at its
 * head, or the moment at which a collective, copy or task is reached.  A head that waits for
 * another lane has no time; it is looked at when that lane gets on.  So everything on a rank
 * happens in the order of time, and nothing is ever taken back.
 *
 * Compute beside collectives.  A collective's thread blocks occupy whole SMs (one each) from the
 * moment at which its kernel starts to spin until it ends, and its traffic takes a share of the
 * GPU's memory rate while bytes move.  How long a kernel takes on the rest is the machine's answer
 * (sim/hardware/kernel-beside.c).  A kernel that is running when this changes keeps the fraction
 * that it has done.
 *
 * Nor does a collective's kernel start before there are SMs for its blocks: a product or attention that
 * fills the GPU gives none away until it ends (one H200, 24 blocks shaped like NCCL's behind kernels of
 * LLaMA, streams of equal priority, which is NCCL's in PyTorch).  Then both start together.
 *
 * Kernels of two streams do not gain by running at once where each fills the GPU: only what fits between
 * the compute stream's kernels is free (GRACE).  So while a kernel of another stream runs the compute
 * stream's hardly gets on.
 */
#include "config.h"

#include "sim/run/world.h"

#include <string.h>

void
zs_lane_grow (Lane *lane)
{
  uint64_t room = lane->ring == NULL ? 64 : (lane->mask + 1) * 2;
  Item *ring = g_new (Item, room);

  for (uint64_t at = lane->done; at < lane->pushed; at++)
    ring[at & (room - 1)] = lane->ring[at & lane->mask];
  g_free (lane->ring);
  lane->ring = ring;
  lane->mask = room - 1;
}

/* What a kernel of another stream takes of the compute stream's time: all of its own time but this.  One H200,
 * eleven kernels of LLaMA, each many times beside copies and casts of 18, 65, 95, 128 and 254 us: 0.25, 0.78,
 * 0.82, 0.85 and 0.95 of the side's time were lost (medians; tests/published/h200-one/streams.csv). */
#define GRACE (13 * ZS_MICROSECOND)

static int64_t
divide_up (int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

ZsTime
zs_rank_kernel_time (Rank *rank, Slowdown *slowdown, uint32_t kernel)
{
  ZsTime time = slowdown->time[kernel];

  if (G_LIKELY (time != 0))
    return time;
  const ZsMachine *machine = rank->run->machine;

  if (slowdown == &rank->slowdowns[0]) {
    time = MAX (1, machine->kernel_time (machine->self, &rank->plan->kernels[kernel],
                                         rank->run->options->pace));
    return slowdown->time[kernel] = time;
  }
  time = zs_rank_kernel_time (rank, &rank->slowdowns[0], kernel);
  if (machine->kernel_time_beside != NULL)
    time = MAX (time, machine->kernel_time_beside (machine->self, &rank->plan->kernels[kernel], time,
                                                   slowdown->sms, slowdown->memory_share / 1000.0));
  if (time < INT64_MAX >> N_HELD)
    time <<= slowdown->held;
  return slowdown->time[kernel] = time;
}

void
zs_rank_add_kernels (Rank *rank)
{
  uint32_t n = rank->plan->n_kernels;
  const ZsMachine *machine = rank->run->machine;

  if (n > rank->kernels_room) {
    rank->kernels_room = MAX (256, n * 2);
    rank->launch_cost = g_renew (ZsTime, rank->launch_cost, rank->kernels_room);
    rank->kernel_cause = g_renew (uint8_t, rank->kernel_cause, rank->kernels_room);
    rank->kernel_flops = g_renew (double, rank->kernel_flops, rank->kernels_room);
    for (int32_t s = 0; s < rank->n_slowdowns; s++) {
      rank->slowdowns[s].time = g_renew (ZsTime, rank->slowdowns[s].time, rank->kernels_room);
      memset (rank->slowdowns[s].time + rank->n_kernels, 0,
              (rank->kernels_room - rank->n_kernels) * sizeof (ZsTime));
    }
  }
  for (; rank->n_kernels < n; rank->n_kernels++) {
    const ZsKernel *kernel = &rank->plan->kernels[rank->n_kernels];

    rank->launch_cost[rank->n_kernels]
      = machine->launch_cost != NULL ? machine->launch_cost (machine->self, kernel->launch) : 0;
    rank->kernel_cause[rank->n_kernels]
      = kernel->phase_class == 1 ? ZS_WAIT_OPTIMIZER
        : kernel->phase_class == 2 ? ZS_WAIT_COMMUNICATION : ZS_WAIT_COMPUTE;
    rank->kernel_flops[rank->n_kernels] = kernel->flops;
  }
}

bool
zs_rank_is_idle (const Rank *rank)
{
  return (rank->busy & ((1u << N_GPU_LANES) - 1)) == 0;
}

void
zs_rank_release (Rank *rank, ZsTime when)
{
  /* The GPU may have been there before the host asked: then the host never slept. */
  if (when > rank->host) {
    if (G_UNLIKELY (rank->spans != NULL))
      zs_gather_span (rank, ZS_TRACK_HOST, ZS_OP_HOST_WAIT_EVENT, rank->host, when, "wait", 0, 0);
    rank->host = when + rank->run->machine->wake_cost;
  }
  rank->host += rank->after_wait;
  rank->after_wait = 0;
  rank->state = HOST_RUNS;
  rank->run->n_released++;
}

/* Something was finished on lane L: who has been waiting for it? */
static void
lane_passed (Rank *rank, int l)
{
  Lane *lane = &rank->lanes[l];
  uint32_t waiters = lane->waiters;

  /* what passes may pass this lane in its turn: those that it has woken are no waiters any more */
  while ((waiters &= lane->waiters) != 0) {
    int w = __builtin_ctz (waiters);
    Lane *waiter = &rank->lanes[w];
    const Item *item = &waiter->ring[waiter->done & waiter->mask];

    waiters &= waiters - 1;
    if (lane->done < (uint64_t) item->value)
      continue;
    lane->waiters &= ~(1u << w);
    waiter->time = MAX (waiter->start, rank->run->now);
    waiter->done++;
    if (w == LANE_COMPUTE)
      rank->compute_since = -1;
    zs_lane_begin (rank, w, true);
  }
  if (rank->state == HOST_WAITS_LANE) {
    if (rank->wait_lane == l && lane->done >= rank->wait_position)
      zs_rank_release (rank, lane->time);
  } else if (rank->state == HOST_WAITS_DEVICE && zs_rank_is_idle (rank)) {
    zs_rank_release (rank, lane->time);
  }
}

void
zs_lane_begin (Rank *rank, int l, bool passed)
{
  Lane *lane = &rank->lanes[l];
  uint32_t bit = 1u << l;

  rank->busy |= bit;
  for (;;) {
    if (lane->done == lane->pushed) {
      rank->busy &= ~bit;
      rank->active &= ~bit;
      break;
    }
    const Item *item = &lane->ring[lane->done & lane->mask];
    ZsTime start = lane->time;

    if (item->issue > start) {
      start = item->issue;
      if (l == LANE_COMPUTE)
        zs_account_idle (rank, lane->time, start);
    }
    lane->start = start;
    if (item->kind == ITEM_KERNEL) {
      lane->begun = false;
      rank->next[l] = start;
      if (l == LANE_COMPUTE)
        rank->next[l] += zs_rank_kernel_time (rank, &rank->slowdowns[rank->slowdown], item->id);
      rank->active |= bit;
      break;
    }
    if (item->kind == ITEM_WAIT) {
      Lane *other = &rank->lanes[item->lane];

      if (other->done < (uint64_t) item->value) {
        other->waiters |= bit;
        rank->active &= ~bit;
        if (l == LANE_COMPUTE)
          rank->compute_since = start;
        break;
      }
    } else if (item->kind == ITEM_MARK) {
      Mark *mark = &g_array_index (rank->marks, Mark, item->id);

      mark->when = start;
      memcpy (mark->wait, rank->wait, sizeof mark->wait);
      if (item->flags != 0 && rank->index == 0) {   /* use of links is that of the last step */
        zs_flow_set_reset_use (rank->run->flows, rank->run->now);
        rank->run->n_resets++;
      }
    } else {
      lane->begun = false;
      rank->next[l] = start;
      rank->active |= bit;
      break;
    }
    lane->time = start;
    lane->done++;
    passed = true;
  }
  if (passed && (lane->waiters != 0 || rank->state >= HOST_WAITS_LANE))
    lane_passed (rank, l);
}

void
zs_lane_end (Rank *rank, int l)
{
  Lane *lane = &rank->lanes[l];
  ZsTime now = rank->run->now;
  const Item *item = &lane->ring[lane->done & lane->mask];

  zs_account_waits (rank);
  if (l == LANE_COMPUTE)
    zs_account_wait (rank, lane->start, now, zs_account_cause (rank, l));
  if (G_UNLIKELY (rank->spans != NULL)) {
    static const char *const COLLECTIVES[] = { "all-reduce", "all-gather", "reduce-scatter",
                                               "broadcast", "reduce", "all-to-all", "send/recv" };
    static const char *const COPIES[] = { "copy to GPU", "copy to host", "copy on host" };

    if (item->kind == ITEM_COLLECTIVE)
      zs_gather_span (rank, ZS_TRACK_COLLECTIVE + l - LANE_COMMUNICATOR, ZS_OP_COLLECTIVE,
                      lane->start, now, COLLECTIVES[item->what], item->label, item->value);
    else if (item->kind == ITEM_COPY)
      zs_gather_span (rank,
                      item->what == ZS_COPY_HOST_TO_GPU ? ZS_TRACK_COPY_IN : ZS_TRACK_COPY_OUT,
                      ZS_OP_COPY, lane->start, now, COPIES[item->what], item->label, item->value);
    else
      zs_gather_span (rank, l == LANE_CPU ? ZS_TRACK_CPU : ZS_TRACK_NVME,
                   l == LANE_CPU ? ZS_OP_CPU_TASK : ZS_OP_NVME, lane->start, now,
                   l == LANE_CPU ? "CPU task" : l == LANE_NVME_READ ? "NVMe read" : "NVMe write",
                   item->label, item->value);
  }
  lane->begun = false;
  rank->n_begun--;
  lane->time = now;
  lane->done++;
  zs_lane_begin (rank, l, true);
}

/* ---- what collectives take of the GPU ---- */

static bool
is_slowdown (const Rank *rank, int32_t s, int32_t held)
{
  return rank->slowdowns[s].sms == rank->sms && rank->slowdowns[s].memory_share == rank->memory_share
         && rank->slowdowns[s].held == held;
}

static int32_t
find_slowdown (Rank *rank, int32_t before, int32_t held)
{
  if (is_slowdown (rank, before, held))
    return before;
  for (int32_t s = 0; s < rank->n_slowdowns; s++)
    if (is_slowdown (rank, s, held))
      return s;
  rank->slowdowns = g_renew (Slowdown, rank->slowdowns, rank->n_slowdowns + 1);
  rank->slowdowns[rank->n_slowdowns] = (Slowdown) {
    .sms = rank->sms, .memory_share = rank->memory_share, .held = held,
    .time = g_new0 (ZsTime, MAX (1, rank->kernels_room)),
  };
  return rank->n_slowdowns++;
}

void
zs_rank_take (Rank *rank, int32_t sms)
{
  rank->sms += sms;
  if (!rank->unsettled) {
    rank->unsettled = true;
    rank->run->n_unsettled++;
  }
}

void
zs_rank_moves (Rank *rank, ZsCommunicator communicator, int32_t memory_share)
{
  int32_t most = 0;

  rank->moving[communicator] = memory_share;
  for (int c = 0; c < ZS_N_COMMUNICATORS; c++)
    most = MAX (most, rank->moving[c]);
  rank->memory_share = most;
  zs_rank_take (rank, 0);
}

/* What the kernels of other streams hold up now. */
static int32_t
held_now (const Rank *rank)
{
  int32_t level = N_HELD - 1;

  while (level > 0 && rank->n_beside[level] == 0)
    level--;
  return level;
}

/* The times of what runs on RANK from now on. */
void
zs_rank_settle (Rank *rank)
{
  ZsTime now = rank->run->now;
  int32_t compute_before = rank->slowdown, others_before = rank->slowdown_beside;

  rank->unsettled = false;
  rank->run->n_unsettled--;
  rank->slowdown = find_slowdown (rank, compute_before, held_now (rank));
  rank->slowdown_beside = find_slowdown (rank, others_before, 0);
  if (rank->slowdown == compute_before && rank->slowdown_beside == others_before)
    return;
  for (uint32_t lanes = rank->active; lanes != 0; lanes &= lanes - 1) {
    int l = __builtin_ctz (lanes);
    Lane *lane = &rank->lanes[l];
    const Item *item = &lane->ring[lane->done & lane->mask];

    if (item->kind != ITEM_KERNEL || (l != LANE_COMPUTE && !lane->begun))
      continue;
    int32_t before = l == LANE_COMPUTE ? compute_before : others_before;
    int32_t after = l == LANE_COMPUTE ? rank->slowdown : rank->slowdown_beside;
    ZsTime old_time = zs_rank_kernel_time (rank, &rank->slowdowns[before], item->id);
    ZsTime new_time = zs_rank_kernel_time (rank, &rank->slowdowns[after], item->id);

    if (lane->start >= now) {
      rank->next[l] = lane->start + new_time;
    } else {
      int64_t left;

      if (G_LIKELY (!__builtin_mul_overflow (rank->next[l] - now, new_time, &left)
                    && left < INT64_MAX - old_time))
        rank->next[l] = now + divide_up (left, old_time);
      else
        rank->next[l] = now + (ZsTime) (((__int128) (rank->next[l] - now) * new_time + old_time - 1)
                                        / old_time);
    }
  }
}

void
zs_rank_beside (Rank *rank, uint32_t kernel, int32_t change)
{
  ZsTime time = zs_rank_kernel_time (rank, &rank->slowdowns[0], kernel);
  int32_t level = 0;

  /* the nearest of 1, 2, 4, ... to TIME / GRACE */
  for (ZsTime next = GRACE * 14 / 10; level < N_HELD - 1 && time >= next; next *= 2)
    level++;
  rank->n_beside[level] += change;
  zs_rank_take (rank, 0);
  zs_rank_settle (rank);
}

void
zs_rank_start_beside (Rank *rank, int l)
{
  Lane *lane = &rank->lanes[l];
  uint32_t kernel = lane->ring[lane->done & lane->mask].id;

  lane->begun = true;
  zs_rank_beside (rank, kernel, 1);
  rank->next[l] = lane->start + zs_rank_kernel_time (rank, &rank->slowdowns[rank->slowdown_beside], kernel);
}
