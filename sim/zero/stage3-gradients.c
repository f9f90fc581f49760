/* stage3-gradients.c: from a gradient to the own shard of its average.
 * SPDX-License-Identifier: MIT
 *
 * deepspeed/runtime/zero/stage3.py: reduce_independent_p_g_buckets_and_remove_grads (),
 * __reduce_and_partition_ipg_grads (), partition_grads ();
 * deepspeed/runtime/comm/coalesced_collectives.py: reduce_scatter_coalesced ().
 */
#include "config.h"

#include "sim/zero/stage3-internal.h"

#include <stdlib.h>

static int64_t
communication_bytes (const Zero3 *zero)
{
  return zs_dtype_bytes (zero->config.communication_dtype);
}

static int
compare_numbers (const void *a, const void *b)
{
  return *(const int32_t *) a - *(const int32_t *) b;
}

/* One all-reduce of the bucket, in place (reduce_scatter false). */
static void
reduce_in_place (Zero3 *zero, ZsPlan *plan)
{
  int64_t b = communication_bytes (zero);

  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, zero->bucket_elements,
                   (int) b, 2 * zero->bucket_elements * b, "reduce.divide");
  zs_torch_collective (plan, ZS_COLLECTIVE_ALL_REDUCE, zero3_reduce_communicator (zero),
                       zero->bucket_elements * b);
}

/* reduce_scatter_coalesced (): returns the buffer that was made for it, or NO_TENSOR if the only
 * tensor is reduced where it lies. */
static ZsTensor
reduce_scatter (Zero3 *zero, ZsPlan *plan)
{
  int64_t b = communication_bytes (zero), shards = 0, elements = 0;
  bool cast = b != zero->model_bytes && !zero->bucket_in_communication_dtype;
  int32_t n = zero->n_in_bucket;
  ZsTensor copies[n + 1], flat = ZS_NO_TENSOR;
  int64_t world = zero->world;

  copies[0] = ZS_NO_TENSOR;

  qsort (zero->in_bucket, (size_t) n, sizeof (int32_t), compare_numbers);
  for (int32_t i = 0; i < n; i++) {
    const Zero3Parameter *parameter = &zero->parameters[zero->in_bucket[i]];

    copies[i] = ZS_NO_TENSOR;
    if (cast) {
      copies[i] = zs_plan_alloc (plan, parameter->elements * b, ZS_CATEGORY_BUCKETS);
      zs_torch_copy (plan, ZS_WORK_COMMUNICATION, parameter->elements, (int) zero->model_bytes,
                     (int) b, "reduce.cast");
    }
    shards += parameter->shard;
    elements += parameter->elements;
  }
  if (n > 1 || elements % world != 0) {
    int64_t padding = shards * world - elements;
    ZsTensor pads[n];

    for (int32_t i = 0; i < n; i++) {   /* one piece of padding per tensor: the last shard's */
      const Zero3Parameter *parameter = &zero->parameters[zero->in_bucket[i]];
      int64_t pad = parameter->shard * world - parameter->elements;

      pads[i] = padding == 0 || pad == 0 ? ZS_NO_TENSOR
                : zs_plan_alloc (plan, pad * b, ZS_CATEGORY_BUCKETS);
    }
    flat = zs_plan_alloc (plan, shards * world * b, ZS_CATEGORY_BUCKETS);
    zs_torch_launch (plan, ZS_KERNEL_COPY, ZS_WORK_COMMUNICATION, shards * world, (int) b,
                     2 * shards * world * b, "reduce.interleave");
    for (int32_t i = n; i-- > 0;)
      zs_plan_unref (plan, pads[i]);
  }
  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, shards * world, (int) b,
                   2 * shards * world * b, "reduce.divide");
  zs_torch_collective (plan, ZS_COLLECTIVE_REDUCE_SCATTER, zero3_reduce_communicator (zero),
                       shards * world * b);
  if (cast && flat == ZS_NO_TENSOR) {   /* the cast copy is the buffer */
    flat = copies[0];
    copies[0] = ZS_NO_TENSOR;
  }
  for (int32_t i = n; i-- > 0;)
    zs_plan_unref (plan, copies[i]);
  return flat;
}

/* partition_grads (): the reduced shard of each parameter goes to its place. */
static void
keep_shards (Zero3 *zero, ZsPlan *plan)
{
  int from = (int) communication_bytes (zero);
  int to = (int) zs_dtype_bytes (zero->config.grad_accum_dtype);
  bool host = zero3_optimizer_on_host (zero);
  ZsTensor held = ZS_NO_TENSOR;
  ZsTensor narrowed[zero->n_in_bucket + 1];
  bool narrow = from != zero->model_bytes;

  for (int32_t i = 0; i < zero->n_in_bucket; i++) {   /* back to the model's dtype */
    const Zero3Parameter *parameter = &zero->parameters[zero->in_bucket[i]];

    narrowed[i] = ZS_NO_TENSOR;
    if (narrow) {
      narrowed[i] = zs_plan_alloc (plan, parameter->shard * zero->model_bytes, ZS_CATEGORY_BUCKETS);
      zs_torch_copy (plan, ZS_WORK_COMMUNICATION, parameter->shard, from, (int) zero->model_bytes,
                     "reduce.narrow");
    }
  }
  if (narrow)
    from = (int) zero->model_bytes;
  for (int32_t i = 0; i < zero->n_in_bucket; i++) {
    Zero3Parameter *parameter = &zero->parameters[zero->in_bucket[i]];
    int64_t n = parameter->shard;

    zs_plan_host (plan, ZS_HOST_GRADIENT_HOOK, 1);
    if (parameter->own_shard_is_empty) {
      /* nothing of it is ours */
    } else if (host)
      held = zero3_offload_gradient (zero, plan, zero->in_bucket[i], n, from, held);
    else if (zero->micro_step == 0)
      zs_torch_copy (plan, ZS_WORK_COMMUNICATION, n, from, to, "reduce.keep");
    else {
      ZsTensor wide = ZS_NO_TENSOR;

      if (to != from) {
        wide = zs_plan_alloc (plan, n * to, ZS_CATEGORY_BUCKETS);
        zs_torch_copy (plan, ZS_WORK_COMMUNICATION, n, from, to, "reduce.widen");
      }
      zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, n, to, 3 * n * to,
                       "reduce.accumulate");
      zs_plan_unref (plan, wide);
    }
    if (parameter->gradient != ZS_NO_TENSOR) {
      if (plan->stream != ZS_STREAM_COMPUTE)
        zs_plan_record_stream (plan, parameter->gradient, plan->stream);
      zs_plan_unref (plan, parameter->gradient);
      parameter->gradient = ZS_NO_TENSOR;
    }
  }
  zs_plan_unref (plan, held);
  for (guint i = 0; i < zero->held->len; i++)
    zs_plan_unref (plan, g_array_index (zero->held, ZsTensor, i));
  g_array_set_size (zero->held, 0);
  for (int32_t i = zero->n_in_bucket; i-- > 0;)
    zs_plan_unref (plan, narrowed[i]);
}

/* all_to_all_quant_reduce (): tensor by tensor; what cannot be quantized is reduce-scattered. */
static void
reduce_each (Zero3 *zero, ZsPlan *plan, ZsTensor *shards)
{
  int64_t b = communication_bytes (zero);

  qsort (zero->in_bucket, (size_t) zero->n_in_bucket, sizeof (int32_t), compare_numbers);
  for (int32_t i = 0; i < zero->n_in_bucket; i++) {
    const Zero3Parameter *parameter = &zero->parameters[zero->in_bucket[i]];
    int64_t padded = parameter->shard * zero->world;

    shards[i] = ZS_NO_TENSOR;
    if (zero3_reduce_quantized (zero, plan, zero->in_bucket[i], &shards[i]))
      continue;
    if (padded != parameter->elements) {
      shards[i] = zs_plan_alloc (plan, padded * b, ZS_CATEGORY_BUCKETS);
      zs_torch_launch (plan, ZS_KERNEL_COPY, ZS_WORK_COMMUNICATION, padded, (int) b, 2 * padded * b,
                       "reduce.interleave");
    }
    zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, padded, (int) b,
                     2 * padded * b, "reduce.divide");
    zs_torch_collective (plan, ZS_COLLECTIVE_REDUCE_SCATTER, zero3_reduce_communicator (zero),
                         padded * b);
  }
}

/* MiCS, at the boundary: the bucket's shards are summed over the replicas in one grouped call. */
static void
reduce_over_replicas (Zero3 *zero, ZsPlan *plan)
{
  int64_t elements = 0;

  for (int32_t i = 0; i < zero->n_in_bucket; i++)
    elements += zero->parameters[zero->in_bucket[i]].shard;
  zs_torch_collective (plan, ZS_COLLECTIVE_ALL_REDUCE, ZS_ZERO3_COMM_ACROSS,
                       elements * zs_dtype_bytes (zero->config.grad_accum_dtype));
}

static void
flush (Zero3 *zero, ZsPlan *plan)
{
  if (zero->n_in_bucket == 0)
    return;
  uint32_t label = zs_plan_set_label (plan, zero->label_reduce);

  zs_plan_host (plan, ZS_HOST_BUCKET_FLUSH, 1);
  zero3_limiter_wait (&zero->reductions, plan);
  uint8_t stream = zs_plan_set_stream (plan, zero->reduce_stream);
  ZsTensor flat = ZS_NO_TENSOR, shards[zero->n_in_bucket];
  bool quantized = false;

  /* 0.19.5 with reduce_scatter false reserves to the byte what it does with true */
  if (zero->old_backward && !zero->config.reduce_scatter && zero->config.contiguous_gradients
      && zero->bucket_elements <= zero->config.reduce_bucket_size)
    reduce_in_place (zero, plan);
  else if (zero3_quantizes_gradients (zero)) {
    reduce_each (zero, plan, shards);
    quantized = true;
  } else
    flat = reduce_scatter (zero, plan);
  keep_shards (zero, plan);
  if (zero3_is_mics (zero) && zero->boundary && zero->config.world > zero->world)
    reduce_over_replicas (zero, plan);
  for (int32_t i = zero->n_in_bucket; quantized && i-- > 0;)
    zs_plan_unref (plan, shards[i]);
  zs_plan_unref (plan, flat);
  zero->n_in_bucket = 0;
  zero->bucket_elements = 0;
  zero3_limiter_record (&zero->reductions, plan, zero->reduce_stream);
  zs_plan_set_stream (plan, stream);
  zs_plan_set_label (plan, label);
}

static void
take_gradient (Zero3 *zero, ZsPlan *plan, int32_t index, ZsTensor gradient)
{
  Zero3Parameter *parameter = &zero->parameters[index];

  zs_plan_host (plan, ZS_HOST_GRADIENT_HOOK, 1);
  if (zero->bucket_elements > 0
      && zero->bucket_elements + parameter->elements > zero->config.reduce_bucket_size)
    flush (zero, plan);

  if (zero->reduce_stream != ZS_STREAM_COMPUTE)
    zs_plan_stream_wait_stream (plan, zero->reduce_stream, ZS_STREAM_COMPUTE);
  uint8_t stream = zs_plan_set_stream (plan, zero->reduce_stream);
  int to = zero->bucket_in_communication_dtype ? (int) communication_bytes (zero)
                                               : (int) zero->model_bytes;

  if (zero->config.contiguous_gradients
      && zero->bucket_elements + parameter->elements <= zero->config.reduce_bucket_size) {
    zs_torch_copy (plan, ZS_WORK_COMMUNICATION, parameter->elements, parameter->bytes, to,
                   "bucket.copy");
    if (plan->stream != ZS_STREAM_COMPUTE)
      zs_plan_record_stream (plan, gradient, plan->stream);
    zs_plan_unref (plan, gradient);
  } else if (to != parameter->bytes) {   /* too large for the bucket: cast on its own */
    parameter->gradient = zs_plan_alloc (plan, parameter->elements * to, ZS_CATEGORY_BUCKETS);
    zs_torch_copy (plan, ZS_WORK_COMMUNICATION, parameter->elements, parameter->bytes, to,
                   "reduce.cast");
    if (plan->stream != ZS_STREAM_COMPUTE)
      zs_plan_record_stream (plan, gradient, plan->stream);
    zs_plan_unref (plan, gradient);
  } else
    parameter->gradient = gradient;
  zs_plan_set_stream (plan, stream);
  zero->in_bucket[zero->n_in_bucket++] = index;
  zero->bucket_elements += parameter->elements;
}

void
zero3_gradient (void *self, ZsPlan *plan, int32_t index, ZsTensor gradient)
{
  Zero3 *zero = self;

  if (zero->parameters[index].leaf >= 0) {
    zero->parameters[index].gradient = gradient;   /* until the leaf module's backward ends */
    return;
  }
  take_gradient (zero, plan, index, gradient);
}

void
zero3_leaf_backward (Zero3 *zero, ZsPlan *plan, int32_t module)
{
  for (int32_t i = zero->first_member[module]; i < zero->first_member[module + 1]; i++) {
    int32_t index = zero->members[i];
    ZsTensor gradient = zero->parameters[index].gradient;

    if (gradient == ZS_NO_TENSOR)
      continue;
    zero->parameters[index].gradient = ZS_NO_TENSOR;
    take_gradient (zero, plan, index, gradient);
  }
}

/* independent_gradient_partition_epilogue () */
void
zero3_finish_backward (Zero3 *zero, ZsPlan *plan)
{
  flush (zero, plan);
  zs_plan_host_wait_stream (plan, zero->reduce_stream);
  zero->micro_step++;
}
