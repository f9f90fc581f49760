/* fsdp2-gather.c: parameters are gathered, and given up.  SPDX-License-Identifier: MIT
 *
 * A gather allocates, on the copy-in stream, the shards cast to the compute dtype and the flat result
 * of all ranks, runs the all-gather on its own stream, and is waited for by the compute stream, which
 * copies it out into one tensor per parameter.  In forward the flat result of one unit is kept until
 * the next one has been copied out, so that the gather streams need not wait for the compute stream;
 * in backward it goes at once. */
#include "config.h"

#include "sim/fsdp/fsdp2-internal.h"

/* split_with_sizes_copy: destination, source and size per tensor, sums of blocks, and a number per
 * block of threads.  A thread copies 16 bytes several times, so that a GPU that holds M blocks gets as
 * many waves of them as each has repetitions: sqrt (blocks of all ranks / M), rounded, and no more
 * than M blocks per rank.  The rule meets 80 recorded tables of torch 2.11 on one H200 (M = 132 x 32). */
static int64_t
copy_out_table (const FsdpUnits *units, const FsdpUnit *unit)
{
  int64_t blocks = 0, n = 0, element = units->compute_bytes;
  int64_t resident = (int64_t) units->shape.sm_count * 32;

  for (int32_t i = unit->first; i < unit->first + unit->n; i++, n++)
    blocks += fsdp_divide_up (units->parameters[i].shard_elements * element, FSDP2_BYTES_PER_BLOCK);
  int64_t repeat = MAX (fsdp_divide_up (blocks, resident), 1);

  while ((2 * repeat + 1) * (2 * repeat + 1) * resident <= 4 * blocks * units->ranks)
    repeat++;
  blocks = 0;
  for (int32_t i = unit->first; i < unit->first + unit->n; i++)
    blocks += fsdp_divide_up (units->parameters[i].shard_elements * element,
                              FSDP2_BYTES_PER_BLOCK * repeat);
  return (4 * n + 1 + blocks) * 8;
}

void
fsdp2_drop_held (Fsdp2 *fsdp, Fsdp2Held *held)
{
  zs_plan_unref (fsdp->units.plan, held->tensor);
  if (held->event != ZS_NO_EVENT)
    zs_plan_event_free (fsdp->units.plan, held->event);
  *held = FSDP2_NOTHING;
}

ZsEvent
fsdp2_record_event (Fsdp2 *fsdp, uint8_t stream)
{
  ZsEvent event = zs_plan_event_new (fsdp->units.plan);

  zs_plan_event_record (fsdp->units.plan, event, stream);
  return event;
}

static void
wait_all_gather_streams (Fsdp2 *fsdp, ZsEvent event)
{
  zs_plan_stream_wait_event (fsdp->units.plan, COPY_IN, event);
  zs_plan_stream_wait_event (fsdp->units.plan, GATHER, event);
}

/* _get_param_all_gather_inputs () with CPU offload: per parameter a copy to the GPU and a cast.
 * Returns how many of TENSORS it made. */
static int
fetch_from_host (FsdpUnits *units, const FsdpUnit *unit, ZsTensor *tensors)
{
  ZsPlan *plan = units->plan;
  int n = 0;

  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    int64_t elements = units->parameters[i].shard_elements;
    ZsTensor shard = zs_plan_alloc (plan, elements * units->parameter_bytes, ZS_CATEGORY_OFFLOAD);

    zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, elements * units->parameter_bytes, ZS_FLAG_PINNED);
    if (units->casts) {
      ZsTensor cast = zs_plan_alloc (plan, elements * units->compute_bytes, ZS_CATEGORY_BUCKETS);

      zs_plan_launch (plan, unit->cast);
      zs_plan_unref (plan, shard);
      shard = cast;
    }
    tensors[n++] = shard;
  }
  return n;
}

/* foreach_all_gather () */
void
fsdp2_unshard (Fsdp2 *fsdp, int32_t index)
{
  FsdpUnits *units = &fsdp->units;
  ZsPlan *plan = units->plan;
  const FsdpUnit *unit = &units->units[index];
  Fsdp2Unit *state = &fsdp->states[index];
  int64_t shard_bytes = unit->shard_elements * units->compute_bytes;

  if (state->gathered.tensor != ZS_NO_TENSOR || state->promised || state->full)
    return;
  if (fsdp->alone) {
    state->promised = true;
    return;
  }
  uint32_t label = zs_plan_set_label (plan, unit->label_gather);
  uint8_t stream = zs_plan_set_stream (plan, COPY_IN);
  g_autofree ZsTensor *inputs = g_new (ZsTensor, (gsize) unit->n + 1);
  int n_inputs = 0;

  if (units->config.cpu_offload)
    n_inputs = fetch_from_host (units, unit, inputs);
  else if (units->casts) {
    inputs[n_inputs++] = zs_plan_alloc (plan, shard_bytes, ZS_CATEGORY_BUCKETS);
    zs_plan_launch (plan, unit->cast);
  }
  ZsTensor flat = zs_plan_alloc (plan, shard_bytes * units->ranks, ZS_CATEGORY_BUCKETS);

  zs_plan_launch (plan, unit->copy_in);
  zs_plan_stream_wait_stream (plan, GATHER, COPY_IN);
  fsdp_collective (units, ZS_COLLECTIVE_ALL_GATHER, FSDP_SHARD_GROUP, shard_bytes * units->ranks,
                   GATHER);
  state->gathered = (Fsdp2Held) { flat, fsdp2_record_event (fsdp, GATHER) };
  for (int i = n_inputs - 1; i >= 0; i--)   /* a list is cleared from its end */
    zs_plan_unref (plan, inputs[i]);
  zs_plan_set_stream (plan, stream);
  zs_plan_set_label (plan, label);
}

/* foreach_all_gather_copy_out () */
static void
copy_out (Fsdp2 *fsdp, int32_t index)
{
  FsdpUnits *units = &fsdp->units;
  ZsPlan *plan = units->plan;
  const FsdpUnit *unit = &units->units[index];

  zs_plan_stream_wait_event (plan, COMPUTE, fsdp->states[index].gathered.event);
  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    FsdpParameter *parameter = &units->parameters[i];

    parameter->full = zs_plan_alloc (plan, parameter->shard_elements * units->ranks
                                             * units->compute_bytes,
                                     ZS_CATEGORY_GATHERED);
  }
  ZsTensor table = zs_plan_alloc (plan, copy_out_table (units, unit), ZS_CATEGORY_TEMPORARY);

  zs_plan_launch (plan, unit->copy_out);
  zs_plan_unref (plan, table);
}

/* Of one rank: each shard is cast, and copied to where it would have been gathered; a cast one lives
 * until the next has been made. */
static void
copy_shards (Fsdp2 *fsdp, int32_t index)
{
  FsdpUnits *units = &fsdp->units;
  ZsPlan *plan = units->plan;
  const FsdpUnit *unit = &units->units[index];
  uint32_t label = zs_plan_set_label (plan, unit->label_gather);
  ZsTensor before = ZS_NO_TENSOR;

  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    FsdpParameter *parameter = &units->parameters[i];
    int64_t bytes = parameter->shard_elements * units->compute_bytes;

    if (units->casts) {
      ZsTensor cast = zs_plan_alloc (plan, bytes, ZS_CATEGORY_BUCKETS);

      zs_plan_launch (plan, fsdp_copy_kernel (units, ZS_KERNEL_CAST, parameter->shard_elements,
                                              units->parameter_bytes + units->compute_bytes, "fsdp.cast"));
      zs_plan_unref (plan, before);
      before = cast;
    }
    parameter->full = zs_plan_alloc (plan, bytes, ZS_CATEGORY_GATHERED);
    zs_plan_launch (plan, fsdp_copy_kernel (units, ZS_KERNEL_COPY, parameter->shard_elements,
                                            2 * units->compute_bytes, "fsdp.copy_out"));
  }
  zs_plan_unref (plan, before);
  fsdp->states[index].promised = false;
  fsdp->states[index].full = true;
  zs_plan_set_label (plan, label);
}

void
fsdp2_wait_for_unshard (Fsdp2 *fsdp, int32_t index)
{
  Fsdp2Unit *state = &fsdp->states[index];
  ZsPlan *plan = fsdp->units.plan;
  Fsdp2Held before = FSDP2_NOTHING;

  if (state->promised) {
    copy_shards (fsdp, index);
    return;
  }
  if (state->gathered.tensor == ZS_NO_TENSOR)
    return;
  uint32_t label = zs_plan_set_label (plan, fsdp->units.units[index].label_gather);

  if (state->group_state == FORWARD && fsdp->all_gather_state.tensor != ZS_NO_TENSOR) {
    wait_all_gather_streams (fsdp, fsdp->all_gather_state.event);
    before = fsdp->all_gather_state;   /* a local variable there keeps it to the end */
    fsdp->all_gather_state = FSDP2_NOTHING;
  }
  copy_out (fsdp, index);
  state->full = true;
  ZsEvent copied = fsdp2_record_event (fsdp, COMPUTE);

  zs_plan_event_free (plan, state->gathered.event);
  state->gathered.event = copied;
  if (state->group_state == FORWARD)
    fsdp->all_gather_state = state->gathered;
  else {
    wait_all_gather_streams (fsdp, copied);
    fsdp2_drop_held (fsdp, &state->gathered);
  }
  state->gathered = FSDP2_NOTHING;
  fsdp2_drop_held (fsdp, &before);
  zs_plan_set_label (plan, label);
}

void
fsdp2_reshard (Fsdp2 *fsdp, int32_t index)
{
  FsdpUnits *units = &fsdp->units;
  const FsdpUnit *unit = &units->units[index];
  Fsdp2Unit *state = &fsdp->states[index];

  if (state->group_state == FORWARD
      && (!units->config.reshard_after_forward || (unit->root && units->config.keep_root)))
    return;
  if (!state->full)
    return;
  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    zs_plan_unref (units->plan, units->parameters[i].full);
    units->parameters[i].full = ZS_NO_TENSOR;
  }
  state->full = false;
}

void
fsdp2_free_all_gather_state (Fsdp2 *fsdp)
{
  if (fsdp->all_gather_state.tensor == ZS_NO_TENSOR)
    return;
  wait_all_gather_streams (fsdp, fsdp->all_gather_state.event);
  fsdp2_drop_held (fsdp, &fsdp->all_gather_state);
}
