/* host.c: a rank's host thread: its clock, and what each instruction does.
 * SPDX-License-Identifier: MIT
 *
 * An instruction first costs host time; what it gives to the GPU is issued at the end of that.  A
 * host that must wait stops here and is released by the world when the GPU has come so far.
 *
 * CUDA holds a host back that has about a thousand launches pending on a stream (the channel's
 * queue is full): launch_depth.
 */
#include "config.h"

#include "sim/run/world.h"

/* Until the world has come to the host's clock.  False: the host must stand and ask. */
static bool
ask (Rank *rank)
{
  Run *run = rank->run;

  if (run->now >= rank->host)
    return true;
  if (zs_rank_is_alone (rank)) {
    zs_rank_step (rank, -1, rank->host);
    if (zs_earliest_of (&run->earliest, rank->index) > rank->host)
      return true;
  }
  if (run->n_ranks == 1) {
    zs_rank_update (rank);
    zs_world_advance (run, rank->host);
    return true;
  }
  rank->state = HOST_ASKS;
  return false;
}

/* The host waits: if only the rank's own kernels are before it, they are passed at once. */
static void
wait_alone (Rank *rank)
{
  if (rank->state == HOST_DONE || !zs_rank_is_alone (rank))
    return;
  zs_rank_step (rank, -1, ZS_TIME_MAX);
  rank->run->n_released = 0;   /* the world need not be told */
}

/* False: the host waits. */
static bool
wait_for_lane (Rank *rank, int l, uint64_t position)
{
  if (rank->lanes[l].done >= position)
    return true;
  rank->wait_lane = (uint8_t) l;
  rank->wait_position = position;
  rank->wait_since = rank->host;
  rank->state = HOST_WAITS_LANE;
  return false;
}

static bool
wait_for_gpu (Rank *rank)
{
  if (zs_rank_is_idle (rank))
    return true;
  rank->wait_since = rank->host;
  rank->state = HOST_WAITS_DEVICE;
  return false;
}

/* False: too many launches are pending on lane L, and the host waits. */
static bool
may_launch (Rank *rank, int l)
{
  Lane *lane = &rank->lanes[l];
  uint64_t depth = rank->run->launch_depth;

  if (lane->pushed - lane->done < depth)
    return true;
  if (!ask (rank))
    return false;
  return wait_for_lane (rank, l, lane->pushed - depth + 1);
}

static bool
next_chunk (Rank *rank)
{
  const ZsPlan *plan = rank->source.next (rank->source.self);

  if (plan == NULL)
    return false;
  rank->plan = plan;
  rank->at = plan->code;
  rank->chunk_steps = rank->chunk_micro_steps = 0;
  zs_rank_add_kernels (rank);
  if (plan->n_events > rank->n_events) {
    rank->events = g_renew (EventPoint, rank->events, plan->n_events);
    for (; rank->n_events < plan->n_events; rank->n_events++)
      rank->events[rank->n_events] = (EventPoint) { .position = 0 };
  }
  if (plan->n_slots > rank->n_slots) {
    rank->slots = g_renew (Slot, rank->slots, plan->n_slots);
    for (; rank->n_slots < plan->n_slots; rank->n_slots++)
      rank->slots[rank->n_slots] = (Slot) { .bytes = 0 };
  }
  return true;
}

static void
push_wait (Rank *rank, int l, int other, uint64_t position)
{
  if (l == other || rank->lanes[other].done >= position)
    return;
  Item *item = zs_lane_add (rank, l, ITEM_WAIT);

  item->lane = (uint8_t) other;
  item->value = (int64_t) position;
  zs_lane_push (rank, l);
}

/* FIRST: a step begins. */
static void
push_mark (Rank *rank, bool first)
{
  Mark mark = { .when = -1 };

  g_array_append_val (rank->marks, mark);
  Item *item = zs_lane_add (rank, LANE_COMPUTE, ITEM_MARK);

  item->id = rank->marks->len - 1;
  item->flags = first;
  zs_lane_push (rank, LANE_COMPUTE);
}

/* Host memory to host memory: a task of the CPU. */
static int
copy_lane (const ZsInstruction *instruction)
{
  return instruction->kind == ZS_COPY_HOST_TO_HOST ? LANE_CPU : instruction->stream;
}

/* A collective, copy or task; its event, if it has one, completes with it. */
static void
push_work (Rank *rank, int l, ItemKind kind, uint8_t what, const ZsInstruction *instruction)
{
  Item *item = zs_lane_add (rank, l, kind);

  item->what = what;
  item->flags = instruction->flags;
  item->value = instruction->bytes;
  item->label = instruction->label;
  zs_lane_push (rank, l);
  if (kind != ITEM_COPY && instruction->op != ZS_OP_COPY && instruction->id != ZS_NO_EVENT)
    rank->events[instruction->id] = (EventPoint) { .lane = (uint8_t) l,
                                                   .position = rank->lanes[l].pushed };
}

static void
push_copy (Rank *rank, const ZsInstruction *instruction)
{
  if (instruction->kind == ZS_COPY_HOST_TO_HOST)
    push_work (rank, LANE_CPU, ITEM_TASK, ZS_CPU_COPY, instruction);
  else
    push_work (rank, instruction->stream, ITEM_COPY, instruction->kind, instruction);
}

static void
push_collective (Rank *rank, const ZsInstruction *instruction)
{
  int l = LANE_COMMUNICATOR + (int) instruction->other;

  g_assert (instruction->other < ZS_N_COMMUNICATORS);
  push_wait (rank, l, instruction->stream, rank->lanes[instruction->stream].pushed);
  push_work (rank, l, ITEM_COLLECTIVE, instruction->kind, instruction);
  zs_memory_collective (rank, instruction);
}

static bool
overflows (const Rank *rank)
{
  int64_t steps = rank->run->options->overflow_steps;

  return rank->step >= 0 && rank->step < 63 && (steps >> rank->step & 1) != 0;
}

void
zs_host_run (Rank *rank)
{
  Run *run = rank->run;
  const ZsTime *op_cost = run->machine->op_cost;
  Lane *lane;
  Item *item;
  ZsTime started;
  bool first;

  while (rank->host <= run->stop_at) {
    if (G_UNLIKELY (rank->state != HOST_RUNS)) {
      if (rank->state >= HOST_WAITS_LANE)
        wait_alone (rank);
      if (rank->state != HOST_RUNS)
        break;
    }
    const ZsInstruction *in = rank->at;

    if (G_UNLIKELY (in == NULL || in == rank->plan->code + rank->plan->n_code
                    || in->op == ZS_OP_END)) {
      if (rank->index == 0 && run->looks_for_repeats)
        zs_repeat_look (run);
      if (next_chunk (rank))
        continue;
      zs_memory_phase (rank, NULL);
      push_mark (rank, false);
      rank->state = HOST_DONE;
      break;
    }
    /* Instructions that may have to be held back come again from the start: they change nothing
     * before they know. */
    switch ((ZsOp) in->op) {
    case ZS_OP_LAUNCH:
      if (!may_launch (rank, in->stream))
        continue;
      rank->host += rank->launch_cost[in->id];
      lane = &rank->lanes[in->stream];
      lane->work_pushed += zs_rank_kernel_time (rank, &rank->slowdowns[0], in->id);
      rank->flops += rank->kernel_flops[in->id];
      item = zs_lane_add (rank, in->stream, ITEM_KERNEL);
      item->id = in->id;
      item->label = in->label;
      zs_lane_push (rank, in->stream);
      break;

    case ZS_OP_ALLOC:
      if (rank->deferred_lanes != 0 && !zs_memory_poll (rank)) {
        if (!ask (rank))
          continue;
        zs_memory_poll (rank);
      }
      rank->host += op_cost[ZS_OP_ALLOC];
      if (!zs_memory_alloc (rank, in))
        continue;
      if (G_UNLIKELY (rank->must_drain)) {   /* the driver waited for the GPU, then did its work */
        rank->must_drain = false;
        rank->at++;
        rank->n_instructions++;
        if (wait_for_gpu (rank))
          rank->host += rank->segment_time;
        else
          rank->after_wait = rank->segment_time;
        continue;
      }
      rank->host += rank->segment_time;
      break;

    case ZS_OP_FREE:
      rank->host += op_cost[ZS_OP_FREE];
      zs_memory_free (rank, in);
      break;

    case ZS_OP_RECORD_STREAM:
      rank->host += op_cost[ZS_OP_RECORD_STREAM];
      zs_memory_record_stream (rank, in);
      break;

    case ZS_OP_HOST:
      started = rank->host;
      if (in->kind == ZS_HOST_MISC)
        rank->host += run->machine->host_speed > 0
                        ? (ZsTime) ((double) in->bytes / run->machine->host_speed) : in->bytes;
      else
        rank->host += run->host_costs[in->kind] * in->bytes;
      if (G_UNLIKELY (rank->spans != NULL))
        zs_gather_span (rank, ZS_TRACK_HOST, ZS_OP_HOST, started, rank->host, "host", in->label, 0);
      break;

    case ZS_OP_EVENT_RECORD:
      rank->host += op_cost[ZS_OP_EVENT_RECORD];
      rank->events[in->id] = (EventPoint) { .lane = in->stream,
                                            .position = rank->lanes[in->stream].pushed };
      break;

    case ZS_OP_STREAM_WAIT_EVENT:
      rank->host += op_cost[ZS_OP_STREAM_WAIT_EVENT];
      push_wait (rank, in->stream, rank->events[in->id].lane, rank->events[in->id].position);
      break;

    case ZS_OP_STREAM_WAIT_STREAM:
      rank->host += op_cost[ZS_OP_STREAM_WAIT_STREAM];
      push_wait (rank, in->stream, in->kind, rank->lanes[in->kind].pushed);
      break;

    case ZS_OP_COLLECTIVE:
      rank->host += op_cost[ZS_OP_COLLECTIVE];
      push_collective (rank, in);
      break;

    case ZS_OP_COPY:
      rank->host += op_cost[ZS_OP_COPY];
      push_copy (rank, in);
      /* without pinned memory a copy is never asynchronous */
      if ((in->flags & ZS_FLAG_BLOCKING) != 0 || (in->flags & ZS_FLAG_PINNED) == 0
          || in->kind == ZS_COPY_HOST_TO_HOST) {
        int l = copy_lane (in);

        rank->at++;
        rank->n_instructions++;
        wait_for_lane (rank, l, rank->lanes[l].pushed);
        continue;
      }
      break;

    case ZS_OP_HOST_WAIT_EVENT:
    case ZS_OP_HOST_WAIT_STREAM: {
      int l = in->op == ZS_OP_HOST_WAIT_EVENT ? rank->events[in->id].lane : in->stream;
      uint64_t position = in->op == ZS_OP_HOST_WAIT_EVENT ? rank->events[in->id].position
                                                          : rank->lanes[l].pushed;

      rank->host += op_cost[in->op];
      rank->at++;
      rank->n_instructions++;
      wait_for_lane (rank, l, position);
      continue;
    }
    case ZS_OP_HOST_WAIT_DEVICE:
      rank->host += op_cost[ZS_OP_HOST_WAIT_DEVICE];
      rank->at++;
      rank->n_instructions++;
      wait_for_gpu (rank);
      continue;

    case ZS_OP_CPU_TASK:
      rank->host += op_cost[ZS_OP_CPU_TASK];
      push_work (rank, LANE_CPU, ITEM_TASK, in->kind, in);
      if ((in->flags & ZS_FLAG_ASYNC) == 0) {
        rank->at++;
        rank->n_instructions++;
        wait_for_lane (rank, LANE_CPU, rank->lanes[LANE_CPU].pushed);
        continue;
      }
      break;

    case ZS_OP_NVME:
      rank->host += op_cost[ZS_OP_NVME];
      rank->nvme_bytes += in->bytes;
      push_work (rank, in->kind == ZS_NVME_READ ? LANE_NVME_READ : LANE_NVME_WRITE, ITEM_TASK,
                 in->kind, in);
      break;

    case ZS_OP_PHASE:
      if ((in->flags & ZS_FLAG_SYNCHRONIZE) != 0 && !wait_for_gpu (rank))
        continue;
      first = rank->step != (int) in->id + rank->chunk_steps;
      zs_memory_phase (rank, in);
      push_mark (rank, first);
      break;

    case ZS_OP_HOST_ALLOC:
      zs_memory_host_alloc (rank, in);
      break;

    case ZS_OP_HOST_FREE:
      zs_memory_host_free (rank, in);
      break;

    case ZS_OP_EMPTY_CACHE:
      /* releasing memory waits for the GPU, also when nothing is released */
      if (!wait_for_gpu (rank))
        continue;
      rank->host += op_cost[ZS_OP_EMPTY_CACHE];
      zs_memory_empty_cache (rank);
      rank->must_drain = false;
      break;

    case ZS_OP_UNLESS_FREE:
      if (zs_memory_free_bytes (rank) >= in->bytes)
        rank->at += in->other;
      break;

    case ZS_OP_UNLESS_OVERFLOW:
      if (overflows (rank))
        rank->at += in->other;
      break;

    case ZS_OP_END:
    case ZS_N_OPS:
      g_assert_not_reached ();
    }
    rank->at++;
    rank->n_instructions++;
  }
  zs_rank_update (rank);
  if (rank->n_instructions - rank->n_repeated > run->max_instructions && run->error == NULL) {
    g_set_error (&run->error, ZS_RUN_ERROR, ZS_RUN_ERROR_LIMIT,
                 "the run is too large: stopped after %" G_GINT64_FORMAT " instructions of rank %"
                 G_GINT64_FORMAT "; fewer steps or micro-steps (gradient accumulation) make it "
                 "smaller, and micro-steps are alike",
                 run->max_instructions, rank->rank);
    run->stopped = true;
  }
}
