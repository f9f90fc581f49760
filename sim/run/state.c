/* state.c: the state of a run as a number.  SPDX-License-Identifier: MIT
 *
 * The allocators' blocks, what lies on the streams, collectives and flows under way, the clocks, the
 * state of the planners; times as seen from rank 0's clock, positions of lanes as seen from where the
 * lane is.
 */
#include "config.h"

#include "sim/run/repeat.h"

#include "sim/base/digest.h"

/* How far lane L still has to go to POSITION. */
static uint64_t
distance (const Rank *rank, int l, uint64_t position)
{
  return position > rank->lanes[l].done ? position - rank->lanes[l].done : 0;
}

static uint64_t
event_distance (const void *self, int64_t event)
{
  return distance (self, (int) (event >> 56), (uint64_t) event & 0xffffffffffffff);
}

static uint64_t
add_time (uint64_t digest, ZsTime time, ZsTime now)
{
  return zs_digest_add (digest, (uint64_t) (time - now));
}

static uint64_t
add_lane (uint64_t digest, const Rank *rank, int l, ZsTime now)
{
  const Lane *lane = &rank->lanes[l];

  /* idle, its past does not matter, but for the compute stream, whose idle time is accounted for */
  if (lane->done == lane->pushed)
    return l == LANE_COMPUTE ? add_time (digest, lane->time, now) : zs_digest_add (digest, 0);
  digest = add_time (digest, lane->time, now);
  digest = add_time (digest, lane->start, now);
  digest = zs_digest_add (digest, (lane->pushed - lane->done) << 1 | lane->begun);
  digest = zs_digest_add (digest, lane->waiters);
  if ((rank->active >> l & 1) != 0)
    digest = add_time (digest, rank->next[l], now);
  for (uint64_t at = lane->done; at < lane->pushed; at++) {
    const Item *item = &lane->ring[at & lane->mask];

    digest = add_time (digest, item->issue, now);
    switch ((ItemKind) item->kind) {      /* only what its kind has filled in */
    case ITEM_KERNEL:
      digest = zs_digest_add (digest, (uint64_t) item->id << 8 | item->kind);
      break;
    case ITEM_WAIT:
      digest = zs_digest_add (digest, (uint64_t) item->lane << 8 | item->kind);
      digest = zs_digest_add (digest, distance (rank, item->lane, (uint64_t) item->value));
      break;
    case ITEM_MARK:
      digest = zs_digest_add (digest, (uint64_t) item->flags << 8 | item->kind);
      digest = zs_digest_add (digest, rank->marks->len - item->id);
      break;
    case ITEM_COLLECTIVE:
    case ITEM_COPY:
    case ITEM_TASK:
      digest = zs_digest_add (digest, (uint64_t) item->what << 16 | (uint64_t) item->flags << 8
                                        | item->kind);
      digest = zs_digest_add (digest, (uint64_t) item->value);
      break;
    }
  }
  return digest;
}

/* Is the GPU still to come to an event? */
static bool
has_events (const Rank *rank)
{
  for (uint32_t e = 0; e < rank->n_events; e++)
    if (distance (rank, rank->events[e].lane, rank->events[e].position) > 0)
      return true;
  return false;
}

static uint64_t
add_host (uint64_t digest, const Rank *rank, ZsTime now)
{
  digest = add_time (digest, rank->host, now);
  digest = zs_digest_add (digest, rank->state);
  digest = zs_digest_add (digest, (uint64_t) rank->after_wait);
  if (rank->state == HOST_WAITS_LANE)
    digest = zs_digest_add (digest, distance (rank, rank->wait_lane, rank->wait_position) << 8
                                      | rank->wait_lane);
  if (rank->state == HOST_WAITS_LANE || rank->state == HOST_WAITS_DEVICE)
    digest = add_time (digest, rank->wait_since, now);
  for (uint32_t e = 0; e < rank->n_events; e++) {
    uint64_t left = distance (rank, rank->events[e].lane, rank->events[e].position);

    if (left > 0)
      digest = zs_digest_add (zs_digest_add (digest, e), left << 8 | rank->events[e].lane);
  }
  /* what is left of the phase at hand; its step and micro-step are in the planner's place */
  if (rank->at != NULL) {
    const ZsInstruction *end = rank->plan->code + rank->plan->n_code, *at = rank->at;

    if (at < end && at->op == ZS_OP_PHASE) {
      digest = zs_digest_add (digest, (uint64_t) at->kind << 8 | at->flags);
      at++;
    }
    digest = zs_digest_items (digest, at, end - at);
  }
  return digest;
}

static uint64_t
add_slots (uint64_t digest, const Rank *rank)
{
  for (uint32_t s = 0; s < rank->n_slots; s++) {
    const Slot *slot = &rank->slots[s];

    if (slot->block == NULL && slot->host.bytes == 0)
      continue;
    digest = zs_digest_add (digest, (uint64_t) s << 32 | slot->label);
    digest = zs_digest_add (digest, slot->category);
    digest = zs_digest_add (digest, slot->block != NULL ? (uint64_t) zs_block_address (slot->block)
                                                        : 0);
    digest = zs_digest_add (digest, (uint64_t) slot->host.bytes);
  }
  return digest;
}

static uint64_t
add_memory (uint64_t digest, const Rank *rank)
{
  for (int l = 0; l < N_LANES; l++) {
    const DeferredQueue *queue = &rank->deferred[l];

    for (uint64_t at = queue->head; at < queue->tail; at++) {
      const Deferred *deferred = &queue->ring[at & queue->mask];

      if (deferred->position <= rank->lanes[l].done)
        continue;
      digest = zs_digest_add (digest, distance (rank, l, deferred->position) << 8 | (uint64_t) l);
      digest = zs_digest_add (digest, (uint64_t) (deferred->work - rank->lanes[l].work_done));
    }
  }
  digest = zs_digest_add (digest, zs_caching_allocator_digest (rank->allocator, event_distance));
  digest = zs_digest_add (digest, zs_host_allocator_digest (rank->host_memory));
  digest = zs_digest_add (digest, (uint64_t) rank->communicator_bytes);
  digest = zs_digest_items (digest, rank->collectives_used, ZS_N_COMMUNICATORS);
  return zs_digest_add (digest, (uint64_t) rank->must_drain << 1 | rank->logging);
}

static uint64_t
add_rank (uint64_t digest, const Rank *rank, ZsTime now)
{
  digest = add_host (digest, rank, now);
  for (int l = 0; l < N_LANES; l++)
    digest = add_lane (digest, rank, l, now);
  digest = zs_digest_add (digest, (uint64_t) rank->active << 32 | rank->busy);
  digest = zs_digest_add (digest, (uint64_t) rank->sms << 32 | (uint32_t) rank->memory_share);
  digest = zs_digest_add (digest, (uint64_t) rank->slowdown << 1 | rank->unsettled);
  digest = zs_digest_add (digest, (uint64_t) rank->slowdown_beside);
  for (int n = 0; n < N_HELD; n++)
    digest = zs_digest_add (digest, (uint64_t) rank->n_beside[n]);
  digest = zs_digest_add (digest, rank->behind);
  for (int e = 0; e < 2; e++) {
    digest = zs_digest_add (digest, rank->engine_busy[e]);
    digest = zs_digest_items (digest, rank->engine_queue[e], rank->engine_waiting[e]);
  }
  digest = rank->compute_since >= 0 ? add_time (digest, rank->compute_since, now)
                                    : zs_digest_add (digest, 1);
  for (guint b = rank->blocked_head; b < rank->blocked->len; b++) {
    const Blocked *blocked = &g_array_index (rank->blocked, Blocked, b);

    digest = add_time (digest, blocked->start, now);
    digest = add_time (digest, blocked->end, now);
    digest = zs_digest_add (digest, blocked->cause);
  }
  digest = zs_digest_add (digest, rank->phases->len - rank->marks->len);
  if (rank->last_wait > 0) {      /* may go on */
    const ZsSpan *wait = &g_array_index (rank->spans, ZsSpan, rank->last_wait - 1);

    digest = zs_digest_add (add_time (digest, wait->end, now), wait->cause);
  }
  digest = zs_digest_items (digest, &rank->flops, 1);
  return add_memory (add_slots (digest, rank), rank);
}

/* Up to its host's clock it is known what the idle compute stream was idle for: whenever its last
 * kernel ended, it goes on from there. */
static void
account_idle (Rank *rank)
{
  Lane *lane = &rank->lanes[LANE_COMPUTE];

  if (lane->done < lane->pushed || lane->time >= rank->host)
    return;
  zs_account_idle (rank, lane->time, rank->host);
  lane->time = rank->host;
}

/* What ranks share. */
static uint64_t
common_digest (const Run *run, ZsTime now)
{
  uint64_t digest = zs_digest_add (zs_flow_set_digest (run->flows, now),
                                   zs_event_queue_digest (&run->queue, now));

  digest = add_time (digest, run->now, now);
  for (int32_t i = 0; i < run->n_instances; i++) {
    const Instance *instance = &run->instances[i];

    digest = zs_digest_add (digest, (uint64_t) instance->gate.arrived << 8 | instance->what);
    digest = zs_digest_add (digest, (uint64_t) instance->bytes);
  }
  return digest;
}

uint64_t
zs_state_digest (Run *run, const ZsPlannerPlace *origin)
{
  ZsTime now = run->ranks[0].host;
  uint64_t digest = common_digest (run, now);

  for (int32_t k = 0; k < run->n_ranks; k++) {
    Rank *rank = &run->ranks[k];
    uint64_t planner = rank->source.digest (rank->source.self, has_events (rank));
    ZsPlannerPlace place;

    if (planner == 0)
      return 0;
    account_idle (rank);
    rank->source.place (rank->source.self, &place);
    digest = zs_digest_add (digest, planner);
    digest = zs_digest_add (digest, (uint64_t) (place.step - origin->step) << 32
                                      | (uint32_t) (place.micro_step - origin->micro_step));
    digest = zs_digest_add (digest, (uint64_t) (rank->step - origin->step));
    digest = add_rank (digest, rank, now);
  }
  return digest != 0 ? digest : 1;
}
