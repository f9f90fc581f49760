/* world.c: time, and what ranks share.
 * SPDX-License-Identifier: MIT
 *
 * At one moment first flows end, then latencies, then lanes go on; whatever starts or ends at that
 * moment is taken into account once, before time moves on.  So a result does not depend on the
 * order of ranks, and ranks that do the same at the same time get the same.
 *
 * A collective begins on a rank when its communicator's stream comes to it: from then on it takes
 * its SMs.  When the last member has come, its latency passes, and then it is a flow.  A copy
 * waits for the GPU's copy engine of its direction (one each), then is latency and flow too.
 */
#include "config.h"

#include "sim/run/world.h"

#include <string.h>

enum { TIMER_COLLECTIVE, TIMER_LANE };

static uint64_t
tag_of (uint32_t what, uint32_t index, uint32_t lane)
{
  return (uint64_t) what << 56 | (uint64_t) lane << 48 | index;
}

/* ---- ops ---- */

enum { OP_COLLECTIVE = 1, OP_COPY, OP_TASK, OP_NVME };

static void
grow_ops (OpTable *ops)
{
  OpTable old = *ops;

  ops->mask = old.table == NULL ? 63 : old.mask * 2 + 1;
  ops->table = g_new0 (Op, ops->mask + 1);
  for (uint32_t o = 0; old.table != NULL && o <= old.mask; o++)
    if (old.table[o].key != 0) {
      uint32_t at = (uint32_t) ((uint64_t) old.table[o].key_bytes * 0x9e3779b97f4a7c15u >> 40)
                    + old.table[o].key;

      while (ops->table[at & ops->mask].key != 0)
        at++;
      ops->table[at & ops->mask] = old.table[o];
    }
  g_free (old.table);
}

/* Where the op of KEY and BYTES is, or is to be. */
static Op *
find_op (OpTable *ops, uint32_t key, int64_t bytes)
{
  if (ops->table == NULL || ops->n * 2 > ops->mask)
    grow_ops (ops);
  uint32_t at = (uint32_t) ((uint64_t) bytes * 0x9e3779b97f4a7c15u >> 40) + key;

  for (;; at++) {
    Op *op = &ops->table[at & ops->mask];

    if (op->key == 0 || (op->key == key && op->key_bytes == bytes))
      return op;
  }
}

static int
by_resource (const void *a, const void *b)
{
  return ((const ZsShare *) a)->resource - ((const ZsShare *) b)->resource;
}

/* Note the machine's answer in TRANSFER, whose shares are those of all that the op stands for. */
static void
note_op (Run *run, Op *op, const ZsTransfer *transfer)
{
  GArray *shares = transfer->shares;
  guint n = 0;

  if (shares->len > 0)
    qsort (shares->data, shares->len, sizeof (ZsShare), by_resource);
  for (guint i = 0; i < shares->len; i++) {
    ZsShare share = g_array_index (shares, ZsShare, i);

    if (share.weight <= 0)
      continue;
    if (n > 0 && g_array_index (shares, ZsShare, n - 1).resource == share.resource)
      g_array_index (shares, ZsShare, n - 1).weight += share.weight;
    else
      g_array_index (shares, ZsShare, n++) = share;
  }
  op->route = zs_flow_set_route (run->flows, (const ZsShare *) shares->data, (int32_t) n);
  op->latency = transfer->latency;
  op->transfer = transfer->transfer;
  op->bytes = transfer->bytes;
  op->limit = 1;
  if (op->transfer > 0) {
    __int128 rate = (__int128) MAX (transfer->bytes, 1) * ZS_SECOND / op->transfer;

    op->limit = rate < 1 ? 1 : rate > INT64_MAX / ZS_SHARE_ONE ? INT64_MAX / ZS_SHARE_ONE
                                                               : (ZsRate) rate;
  }
  op->sms = transfer->sms;
  op->memory_share = 0;
  if (run->machine->gpu_memory_rate > 0)
    op->memory_share = (int32_t) MIN (1000.0, transfer->gpu_memory_rate * 1000.0
                                                / (double) run->machine->gpu_memory_rate);
}

static const Op *
lane_op (Rank *rank, int l, const Item *item)
{
  Run *run = rank->run;
  const ZsMachine *machine = run->machine;
  bool pinned = (item->flags & ZS_FLAG_PINNED) != 0;
  uint32_t key = (uint32_t) (item->kind == ITEM_COPY ? OP_COPY : l == LANE_CPU ? OP_TASK : OP_NVME)
                   << 16
                 | (uint32_t) item->what << 1 | (pinned ? 1 : 0);
  Op *op = find_op (&rank->ops, key, item->value);

  if (G_LIKELY (op->key != 0))
    return op;
  ZsTransfer first = { .latency = 0 };

  g_array_set_size (run->shares, 0);
  for (int32_t m = 0; m < rank->n_members; m++) {
    ZsTransfer transfer = { .shares = run->shares, .first_node = run->one_node };
    int64_t member = rank->members[m];

    if (item->kind == ITEM_COPY)
      machine->copy (machine->self, member, item->what, item->value, pinned, &transfer);
    else if (l == LANE_CPU)
      machine->cpu_task (machine->self, member, item->what, item->value, &transfer);
    else
      machine->nvme (machine->self, member, item->what, item->value, &transfer);
    if (m == 0)
      first = transfer;
  }
  op->key = key;
  op->key_bytes = item->value;
  rank->ops.n++;
  note_op (run, op, &first);
  return op;
}

static const Op *
collective_op (Run *run, Instance *instance, ZsCollectiveKind kind, int64_t bytes)
{
  const ZsMachine *machine = run->machine;
  uint32_t key = OP_COLLECTIVE << 16 | (uint32_t) kind;
  Op *op = find_op (&instance->ops, key, bytes);

  if (G_LIKELY (op->key != 0))
    return op;
  ZsTransfer first = { .latency = 0 };

  g_array_set_size (run->shares, 0);
  for (int32_t g = 0; g < instance->n_groups; g++) {
    ZsTransfer transfer = { .shares = run->shares, .first_node = run->one_node };

    machine->collective (machine->self, instance->communicator, instance->groups[g], kind, bytes,
                         &transfer);
    if (g == 0)
      first = transfer;
  }
  op->key = key;
  op->key_bytes = bytes;
  instance->ops.n++;
  note_op (run, op, &first);
  return op;
}

/* ---- collectives ---- */

static void
end_collective (Run *run, Instance *instance)
{
  for (int32_t r = 0; r < instance->gate.needed; r++) {
    Rank *rank = &run->ranks[instance->ranks[r]];

    zs_rank_take (rank, -instance->op.sms);
    zs_rank_moves (rank, instance->communicator, 0);
    zs_lane_end (rank, LANE_COMMUNICATOR + (int) instance->communicator);
    zs_rank_update (rank);
  }
}

static void
move_collective (Run *run, uint32_t index)
{
  Instance *instance = &run->instances[index];
  const Op *op = &instance->op;

  if (op->transfer == 0) {
    end_collective (run, instance);
    return;
  }
  for (int32_t r = 0; r < instance->gate.needed; r++)
    zs_rank_moves (&run->ranks[instance->ranks[r]], instance->communicator, op->memory_share);
  zs_flow_set_start (run->flows, run->now, op->route, op->limit, op->transfer, op->bytes,
                     tag_of (TIMER_COLLECTIVE, index, 0));
}

static void
start_collective (Rank *rank, int l, const Item *item)
{
  Run *run = rank->run;
  uint32_t index = (uint32_t) rank->instances[l - LANE_COMMUNICATOR];
  Instance *instance = &run->instances[index];

  if (instance->gate.arrived == 0) {
    instance->op = *collective_op (run, instance, item->what, item->value);
    instance->what = item->what;
    instance->bytes = item->value;
  } else if (instance->what != item->what || instance->bytes != item->value) {
    if (run->error == NULL)
      g_set_error (&run->error, ZS_RUN_ERROR, ZS_RUN_ERROR_PLAN,
                   "rank %" G_GINT64_FORMAT " issues a collective of kind %d and %" G_GINT64_FORMAT
                   " bytes where another member issued kind %d and %" G_GINT64_FORMAT " bytes",
                   rank->rank, item->what, item->value, instance->what, instance->bytes);
    run->stopped = true;
    return;
  }
  zs_rank_take (rank, instance->op.sms);
  if (!zs_gate_arrive (&instance->gate))
    return;
  if (instance->op.latency == 0)
    move_collective (run, index);
  else
    zs_event_queue_push (&run->queue, run->now + instance->op.latency, TIMER_COLLECTIVE, index, 0);
}

/* ---- copies and tasks ---- */

static void
move_lane (Rank *rank, int l)
{
  Run *run = rank->run;
  const Op *op = lane_op (rank, l, &rank->lanes[l].ring[rank->lanes[l].done & rank->lanes[l].mask]);

  zs_flow_set_start (run->flows, run->now, op->route, op->limit, MAX (op->transfer, 1), op->bytes,
                     tag_of (TIMER_LANE, (uint32_t) rank->index, (uint32_t) l));
}

static void
start_lane (Rank *rank, int l)
{
  Run *run = rank->run;
  const Op *op = lane_op (rank, l, &rank->lanes[l].ring[rank->lanes[l].done & rank->lanes[l].mask]);

  if (op->latency > 0)
    zs_event_queue_push (&run->queue, run->now + op->latency, TIMER_LANE, (uint32_t) rank->index,
                         (uint64_t) l);
  else
    move_lane (rank, l);
}

static int
engine_of (const Item *item)
{
  return item->what == ZS_COPY_GPU_TO_HOST;
}

static void
end_lane (Rank *rank, int l)
{
  const Item *item = &rank->lanes[l].ring[rank->lanes[l].done & rank->lanes[l].mask];

  if (item->kind == ITEM_COPY) {
    int e = engine_of (item);

    rank->engine_busy[e] = 0;
    if (rank->engine_waiting[e] > 0) {
      int next = rank->engine_queue[e][0];

      rank->engine_waiting[e]--;
      memmove (rank->engine_queue[e], rank->engine_queue[e] + 1, (size_t) rank->engine_waiting[e]);
      rank->engine_busy[e] = (uint32_t) next + 1;
      start_lane (rank, next);
    }
  }
  zs_lane_end (rank, l);
  zs_rank_update (rank);
}

void
zs_world_start (Rank *rank, int l)
{
  const Item *item = &rank->lanes[l].ring[rank->lanes[l].done & rank->lanes[l].mask];

  if (item->kind == ITEM_COLLECTIVE) {
    start_collective (rank, l, item);
    return;
  }
  if (item->kind == ITEM_COPY) {
    int e = engine_of (item);

    if (rank->engine_busy[e] != 0) {
      rank->engine_queue[e][rank->engine_waiting[e]++] = (uint8_t) l;
      return;
    }
    rank->engine_busy[e] = (uint32_t) l + 1;
  }
  start_lane (rank, l);
}

/* ---- time ---- */

static void
settle (Run *run)
{
  if (zs_flow_set_is_unsettled (run->flows))
    zs_flow_set_settle (run->flows, run->now);
  if (G_UNLIKELY (run->link_points != NULL))
    zs_gather_links (run);
  for (int32_t r = 0; run->n_unsettled > 0; r++)
    if (run->ranks[r].unsettled) {
      zs_rank_settle (&run->ranks[r]);
      zs_rank_update (&run->ranks[r]);
    }
}

static void
end_flow (Run *run, uint64_t tag)
{
  uint32_t index = (uint32_t) tag;

  if (tag >> 56 == TIMER_COLLECTIVE)
    end_collective (run, &run->instances[index]);
  else
    end_lane (&run->ranks[index], (int) (tag >> 48 & 0xff));
}

/* How far RANK's kernels may go when the world may go to LIMIT. */
static ZsTime
kernel_limit (const Rank *rank, ZsTime limit)
{
  if (!zs_rank_is_alone (rank))
    return limit;
  return rank->state < HOST_WAITS_LANE ? MAX (limit, rank->host) : ZS_TIME_MAX;
}

bool
zs_world_advance (Run *run, ZsTime horizon)
{
  while (run->n_released == 0 && !run->stopped) {
    ZsTime lanes = zs_earliest_time (&run->earliest);
    ZsTime flows = zs_flow_set_next (run->flows);
    ZsTime timers = zs_event_queue_next (&run->queue);
    ZsTime when = MIN (lanes, MIN (flows, timers));

    if (when > run->now && (run->n_unsettled > 0 || zs_flow_set_is_unsettled (run->flows))) {
      settle (run);
      continue;
    }
    if (when > horizon || when == ZS_TIME_MAX) {
      if (horizon != ZS_TIME_MAX)
        run->now = MAX (run->now, horizon);
      return when != ZS_TIME_MAX;
    }
    if (++run->n_events - run->n_repeated_events > run->max_events) {
      g_set_error (&run->error, ZS_RUN_ERROR, ZS_RUN_ERROR_LIMIT,
                   "stopped after %" G_GINT64_FORMAT " events", run->max_events);
      run->stopped = true;
      return false;
    }
    run->now = MAX (run->now, when);
    if (flows == when) {
      uint64_t tag;

      if (zs_flow_set_end (run->flows, run->now, &tag))
        end_flow (run, tag);
    } else if (timers == when) {
      ZsPending pending;

      zs_event_queue_pop (&run->queue, &pending);
      if (pending.what == TIMER_COLLECTIVE)
        move_collective (run, pending.id);
      else
        move_lane (&run->ranks[pending.id], (int) pending.stamp);
    } else {
      int32_t clock = zs_earliest_clock (&run->earliest);
      ZsTime limit = MIN (MIN (flows, timers), horizon);

      /* others at the same time come in their turn; what starts now is shared before time moves */
      if (run->n_ranks > 1)
        limit = MIN (limit, zs_earliest_rival (&run->earliest, clock));
      if (run->n_unsettled > 0 || zs_flow_set_is_unsettled (run->flows))
        limit = run->now;
      limit = MAX (limit, when);
      zs_rank_step (&run->ranks[clock], limit, kernel_limit (&run->ranks[clock], limit));
    }
  }
  return true;
}
