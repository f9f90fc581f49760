/* account.c: where the compute stream's time went.
 * SPDX-License-Identifier: MIT
 *
 * Every picosecond of the compute stream is one of: a kernel or copy of its own ran; its head
 * waited for another lane, and the cause is what that lane was doing; or its queue was empty, and
 * the cause is what the host was doing: it worked (host-bound), took pages for offload, or waited
 * itself for a lane, and again the cause is what that lane was doing.  Waits are cut where their cause changes, and
 * added up at once, so that the parts of any stretch of the stream sum to its length.
 */
#include "config.h"

#include "sim/run/world.h"

/* A copy of less is a number or a flag that Python reads: its cost is latency, and counts as the
 * host's. */
#define SMALL_COPY INT64_C (65536)

/* What lane L is doing now. */
uint8_t
zs_account_cause (const Rank *rank, int l)
{
  for (int depth = 0; depth < N_LANES; depth++) {
    const Lane *lane = &rank->lanes[l];

    if (lane->done == lane->pushed)
      return ZS_WAIT_HOST;
    const Item *item = &lane->ring[lane->done & lane->mask];

    switch ((ItemKind) item->kind) {
    case ITEM_KERNEL:
      return lane->start > rank->run->now ? ZS_WAIT_HOST : rank->kernel_cause[item->id];
    case ITEM_COLLECTIVE:
      return ZS_WAIT_COMMUNICATION;
    case ITEM_COPY:
      return item->value < SMALL_COPY ? ZS_WAIT_HOST : ZS_WAIT_OFFLOAD;
    case ITEM_TASK:
      return l == LANE_CPU && (item->what == ZS_CPU_ADAM || item->what == ZS_CPU_ADAM_TORCH)
               ? ZS_WAIT_OPTIMIZER : ZS_WAIT_OFFLOAD;
    case ITEM_WAIT:
      l = item->lane;
      break;
    case ITEM_MARK:
      return ZS_WAIT_HOST;
    }
  }
  return ZS_WAIT_HOST;
}

static void
add_blocked (Rank *rank, ZsTime start, ZsTime end, uint8_t cause)
{
  if (rank->blocked->len > rank->blocked_head) {
    Blocked *last = &g_array_index (rank->blocked, Blocked, rank->blocked->len - 1);

    if (last->end == start && last->cause == cause) {
      last->end = end;
      return;
    }
  } else {
    g_array_set_size (rank->blocked, 0);
    rank->blocked_head = 0;
  }
  Blocked blocked = { .start = start, .end = end, .cause = cause };

  g_array_append_val (rank->blocked, blocked);
}

void
zs_account_wait (Rank *rank, ZsTime start, ZsTime end, uint8_t cause)
{
  rank->wait[cause] += end - start;
  if (G_UNLIKELY (rank->spans != NULL) && end > start)
    zs_gather_wait (rank, start, end, cause);
}

void
zs_account_waits (Rank *rank)
{
  ZsTime now = rank->run->now;

  if (rank->compute_since >= 0 && now > rank->compute_since) {
    zs_account_wait (rank, rank->compute_since, now, zs_account_cause (rank, LANE_COMPUTE));
    rank->compute_since = now;
  }
  if (rank->state < HOST_WAITS_LANE || rank->state == HOST_DONE || now <= rank->wait_since)
    return;
  /* of interest only while the compute stream has nothing to do */
  if (rank->lanes[LANE_COMPUTE].done == rank->lanes[LANE_COMPUTE].pushed) {
    int l = rank->wait_lane;

    if (rank->state == HOST_WAITS_DEVICE) {
      uint32_t busy = rank->busy & ((1u << N_GPU_LANES) - 1);

      l = busy != 0 ? 31 - __builtin_clz (busy) : LANE_COMPUTE;
    }
    uint8_t cause = zs_account_cause (rank, l);

    if (cause != ZS_WAIT_HOST)
      add_blocked (rank, rank->wait_since, now, cause);
  }
  rank->wait_since = now;
}

/* Pages that the host takes for buffers of offload: the GPU waits for offload, not for Python. */
void
zs_account_host_pages (Rank *rank, ZsTime start)
{
  if (rank->host > start)
    add_blocked (rank, start, rank->host, ZS_WAIT_OFFLOAD);
}

void
zs_account_idle (Rank *rank, ZsTime start, ZsTime end)
{
  ZsTime at = start;

  while (rank->blocked_head < rank->blocked->len) {
    const Blocked *blocked = &g_array_index (rank->blocked, Blocked, rank->blocked_head);
    ZsTime from = MAX (blocked->start, start), to = MIN (blocked->end, end);

    if (blocked->start >= end)
      break;
    if (to > from) {
      zs_account_wait (rank, at, from, ZS_WAIT_HOST);
      zs_account_wait (rank, from, to, blocked->cause);
      at = to;
    }
    if (blocked->end > end)
      break;
    rank->blocked_head++;
  }
  zs_account_wait (rank, at, end, ZS_WAIT_HOST);
}
