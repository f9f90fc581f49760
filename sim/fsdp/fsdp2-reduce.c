/* fsdp2-reduce.c: gradients of a unit are reduced.  SPDX-License-Identifier: MIT
 *
 * A reduction casts and interleaves the unit's gradients into one buffer on the compute stream and
 * reduce-scatters it on a stream of its own into the buffer of which the shards' gradients are views;
 * the input is kept until the next reduction. */
#include "config.h"

#include "sim/fsdp/fsdp2-internal.h"

/* _chunk_cat: six numbers per tensor, two sums, and one per block of threads. */
static int64_t
chunk_cat_table (const FsdpUnits *units, const FsdpUnit *unit)
{
  int64_t blocks = 0, n = 0;

  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    if (units->parameters[i].gradient == ZS_NO_TENSOR)
      continue;
    blocks += fsdp_divide_up (units->parameters[i].shard_elements * units->reduce_bytes,
                              FSDP2_BYTES_PER_BLOCK);
    n++;
  }
  return (6 * n + 2 + blocks) * 8;
}

/* The reduced gradients become the shards' .grad, are added to them, or go to the host.  Borrows
 * REDUCED. */
static void
hand_out (Fsdp2 *fsdp, const FsdpUnit *unit, const int32_t *with_gradient, int n, ZsTensor reduced)
{
  FsdpUnits *units = &fsdp->units;
  ZsPlan *plan = units->plan;
  bool accumulate = units->parameters[with_gradient[0]].shard_gradient != ZS_NO_TENSOR;

  for (int i = 0; i < n; i++) {
    FsdpParameter *parameter = &units->parameters[with_gradient[i]];
    int64_t bytes = parameter->local_elements * units->parameter_bytes;

    if (units->config.cpu_offload) {
      /* pinned, and without waiting, unless it is added to what is there */
      ZsTensor host = zs_plan_host_alloc (plan, bytes, ZS_CATEGORY_GRADIENTS,
                                          accumulate ? 0 : ZS_FLAG_PINNED);

      zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, bytes,
                    accumulate ? ZS_FLAG_BLOCKING : ZS_FLAG_PINNED);
      if (accumulate) {
        zs_plan_cpu_task (plan, ZS_CPU_ADD, parameter->local_elements);
        zs_plan_unref (plan, host);
      } else
        parameter->shard_gradient = host;
    } else if (!accumulate)
      parameter->shard_gradient = zs_plan_ref (plan, reduced);
  }
  if (accumulate && !units->config.cpu_offload)
    zs_plan_launch (plan, unit->accumulate);
}

/* foreach_reduce () of the N gradients in WITH_GRADIENT */
static void
reduce (Fsdp2 *fsdp, const FsdpUnit *unit, const int32_t *with_gradient, int n)
{
  FsdpUnits *units = &fsdp->units;
  ZsPlan *plan = units->plan;
  int64_t elements = 0, table_bytes = chunk_cat_table (units, unit);

  for (int i = 0; i < n; i++)
    elements += units->parameters[with_gradient[i]].shard_elements;
  if (fsdp->reduce_scatter_state.tensor != ZS_NO_TENSOR) {
    zs_plan_stream_wait_event (plan, COMPUTE, fsdp->reduce_scatter_state.event);
    fsdp2_drop_held (fsdp, &fsdp->reduce_scatter_state);
  }
  ZsTensor input = zs_plan_alloc (plan, elements * units->ranks * units->reduce_bytes,
                                  ZS_CATEGORY_BUCKETS);
  ZsTensor table = zs_plan_alloc (plan, table_bytes, ZS_CATEGORY_TEMPORARY);

  zs_plan_launch (plan, unit->reduce_copy);
  zs_plan_unref (plan, table);
  /* list.clear () drops from the end; a loop's variable keeps the last one a little longer, but for one
   * rank there is no such loop. */
  for (int i = n - (fsdp->alone ? 1 : 2); i >= 0; i--) {
    zs_plan_unref (plan, units->parameters[with_gradient[i]].gradient);
    units->parameters[with_gradient[i]].gradient = ZS_NO_TENSOR;
  }
  zs_plan_stream_wait_stream (plan, REDUCE, COMPUTE);
  uint8_t stream = zs_plan_set_stream (plan, REDUCE);
  ZsTensor output = zs_plan_alloc (plan, elements * units->reduce_bytes, ZS_CATEGORY_GRADIENTS);

  if (fsdp->alone)
    zs_plan_launch (plan, fsdp_copy_kernel (units, ZS_KERNEL_COPY, elements, 2 * units->reduce_bytes,
                                            "fsdp.reduce copy"));
  else
    fsdp_collective (units, ZS_COLLECTIVE_REDUCE_SCATTER, FSDP_SHARD_GROUP,
                     elements * units->ranks * units->reduce_bytes, REDUCE);
  fsdp->reduce_scatter_state = (Fsdp2Held) { input, fsdp2_record_event (fsdp, REDUCE) };
  uint8_t last_stream = REDUCE;

  if (units->replicas > 1) {
    last_stream = ALL_REDUCE;
    zs_plan_stream_wait_stream (plan, ALL_REDUCE, REDUCE);
    fsdp_collective (units, ZS_COLLECTIVE_ALL_REDUCE, FSDP_REPLICATE_GROUP,
                     elements * units->reduce_bytes, ALL_REDUCE);
  }
  zs_plan_set_stream (plan, last_stream);
  if (units->config.reduce_dtype != units->config.parameter_dtype) {
    ZsTensor cast = zs_plan_alloc (plan, elements * units->parameter_bytes, ZS_CATEGORY_GRADIENTS);

    zs_plan_launch (plan, unit->reduce_cast);
    zs_plan_unref (plan, output);
    output = cast;
  }
  hand_out (fsdp, unit, with_gradient, n, output);
  if (fsdp->last_reduce != ZS_NO_EVENT)
    zs_plan_event_free (plan, fsdp->last_reduce);
  fsdp->last_reduce = fsdp2_record_event (fsdp, last_stream);
  zs_plan_set_stream (plan, stream);
  if (!fsdp->alone) {
    zs_plan_unref (plan, units->parameters[with_gradient[n - 1]].gradient);
    units->parameters[with_gradient[n - 1]].gradient = ZS_NO_TENSOR;
  }
  zs_plan_unref (plan, output);
}

/* accumulate_unsharded_grad_if_needed () */
static void
accumulate (FsdpUnits *units, const FsdpUnit *unit)
{
  bool any = false;

  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    FsdpParameter *parameter = &units->parameters[i];

    if (parameter->accumulated == ZS_NO_TENSOR || parameter->gradient == ZS_NO_TENSOR)
      continue;
    any = true;
    zs_plan_unref (units->plan, parameter->gradient);
    parameter->gradient = ZS_NO_TENSOR;
  }
  if (any)
    zs_plan_launch (units->plan, unit->accumulate_full);
}

/* to_accumulated_grad_if_needed () */
static void
keep_whole (FsdpUnits *units, const FsdpUnit *unit)
{
  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    FsdpParameter *parameter = &units->parameters[i];

    if (parameter->gradient == ZS_NO_TENSOR || units->reduce_bytes == units->compute_bytes)
      continue;
    parameter->accumulated = zs_plan_alloc (units->plan, parameter->elements * units->reduce_bytes,
                                            ZS_CATEGORY_GRADIENTS);
    zs_plan_unref (units->plan, parameter->gradient);
    parameter->gradient = ZS_NO_TENSOR;
  }
  zs_plan_launch (units->plan, unit->accumulate_full);
}

void
fsdp2_post_backward (Fsdp2 *fsdp, int32_t index)
{
  FsdpUnits *units = &fsdp->units;
  const FsdpUnit *unit = &units->units[index];
  g_autofree int32_t *with_gradient = g_new (int32_t, (gsize) unit->n + 1);
  int n = 0;

  fsdp->states[index].group_state = POST_BACKWARD;
  zs_plan_host (units->plan, ZS_HOST_FSDP_HOOK, 1);
  accumulate (units, unit);
  if (units->config.no_sync && !units->boundary) {
    fsdp2_reshard (fsdp, index);
    keep_whole (units, unit);
    return;
  }
  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    FsdpParameter *parameter = &units->parameters[i];

    if (parameter->accumulated != ZS_NO_TENSOR) {
      parameter->gradient = parameter->accumulated;
      parameter->accumulated = ZS_NO_TENSOR;
    }
    if (parameter->gradient != ZS_NO_TENSOR)
      with_gradient[n++] = i;
  }
  fsdp2_reshard (fsdp, index);
  if (n == 0)
    return;
  uint32_t label = zs_plan_set_label (units->plan, unit->label_reduce);

  zs_plan_host (units->plan, ZS_HOST_FSDP_GRADIENT, n);
  reduce (fsdp, unit, with_gradient, n);
  zs_plan_set_label (units->plan, label);
}
