/* zeropp.c: ZeRO++: quantized weights (qwZ), secondary shards (hpZ), quantized gradients (qgZ).
 * SPDX-License-Identifier: MIT
 *
 * deepspeed/runtime/zero/partition_parameters.py (CUDAQuantizer, _partition_param_sec ()) and
 * deepspeed/runtime/comm/coalesced_collectives.py (all_to_all_quant_reduce ()).  Up to 0.19.5 the bits
 * of bf16 weights are quantized without a cast.  No measured run: sizes follow the source.
 */
#include "config.h"

#include "sim/zero/stage3-internal.h"

/* CUDAQuantizer.quantize (): groups of at most about 8000 elements that divide the tensor. */
static int64_t
quantization_groups (int64_t elements)
{
  enum { TARGET_GROUP = 8000 };
  int64_t groups = (elements + TARGET_GROUP - 1) / TARGET_GROUP;

  while (groups < elements && elements % (8 * groups) != 0)
    groups++;
  return groups;
}

/* A shard of ELEMENTS goes out as int8 with one fp32 scale per group; OUT is the gathered buffer. */
void
zero3_gather_quantized (Zero3 *zero, ZsPlan *plan, int64_t elements, int64_t ranks,
                        unsigned int communicator, Zero3Handle *handle)
{
  int64_t groups = quantization_groups (elements);
  ZsTensor bytes = zs_plan_alloc (plan, elements, ZS_CATEGORY_GATHERED);
  ZsTensor scales = zs_plan_alloc (plan, 4 * groups, ZS_CATEGORY_GATHERED);

  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, elements,
                   (int) zero->model_bytes, elements * (zero->model_bytes + 1), "quantize");
  handle->done = zs_plan_event_new (plan);
  zs_plan_collective (plan, ZS_COLLECTIVE_ALL_GATHER, communicator, elements * ranks, handle->done);
  handle->scales = zs_plan_alloc (plan, 4 * groups * ranks, ZS_CATEGORY_GATHERED);
  handle->scales_done = zs_plan_event_new (plan);
  zs_plan_collective (plan, ZS_COLLECTIVE_ALL_GATHER, communicator, 4 * groups * ranks,
                      handle->scales_done);
  zs_plan_unref (plan, scales);
  zs_plan_unref (plan, bytes);
  handle->quantized = true;
}

/* The gathered int8 of ELEMENTS becomes 16 bit: a new tensor; PACKED and the scales go. */
ZsTensor
zero3_dequantize (Zero3 *zero, ZsPlan *plan, int64_t elements, ZsTensor packed, Zero3Handle *handle)
{
  zs_plan_stream_wait_event (plan, plan->stream, handle->scales_done);
  zs_plan_event_free (plan, handle->scales_done);
  handle->scales_done = ZS_NO_EVENT;
  ZsTensor wide = zs_plan_alloc (plan, elements * zero->model_bytes, ZS_CATEGORY_GATHERED);

  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, elements,
                   (int) zero->model_bytes, elements * (zero->model_bytes + 1), "dequantize");
  zs_plan_unref (plan, packed);
  zs_plan_unref (plan, handle->scales);
  handle->scales = ZS_NO_TENSOR;
  return wide;
}

/* ---- hpZ ---- */

int64_t
zero3_secondary_shard (const Zero3 *zero, const Zero3Parameter *parameter)
{
  return parameter->shard * zero->world / MAX (1, zero->config.hpz_partition_size);
}

/* _partition_param_sec (): from the whole parameter, whenever it is cut; the host waits. */
void
zero3_fill_secondary (Zero3 *zero, ZsPlan *plan, int32_t index)
{
  Zero3Parameter *parameter = &zero->parameters[index];
  int64_t n = zero3_secondary_shard (zero, parameter);
  bool host = zero3_params_on_host (zero);

  if (zero->config.hpz_partition_size <= 1)
    return;
  if (parameter->secondary == ZS_NO_TENSOR)
    parameter->secondary
      = host ? zs_plan_host_alloc (plan, n * parameter->bytes, ZS_CATEGORY_PARAMETERS,
                                   zero->config.param_pin ? ZS_FLAG_PINNED : 0)
             : zs_plan_alloc (plan, n * parameter->bytes, ZS_CATEGORY_PARAMETERS);
  if (host)
    zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, n * parameter->bytes,
                  ZS_FLAG_BLOCKING | (zero->config.param_pin ? ZS_FLAG_PINNED : 0));
  else
    zs_torch_copy (plan, ZS_WORK_COMMUNICATION, n, parameter->bytes, parameter->bytes, "secondary");
  zs_plan_host_wait_stream (plan, plan->stream);
}

/* invalidate_secondary_tensor (), at the end of a step */
void
zero3_drop_secondaries (Zero3 *zero, ZsPlan *plan)
{
  for (int32_t p = 0; p < zero->n_parameters; p++) {
    if (!zero->parameters[p].trainable)
      continue;
    zs_plan_unref (plan, zero->parameters[p].secondary);
    zero->parameters[p].secondary = ZS_NO_TENSOR;
  }
}

/* ---- qgZ ---- */

/* Does qgZ reduce gradients at all?  Only with more than one node. */
bool
zero3_quantizes_gradients (const Zero3 *zero)
{
  return zero->config.quantized_gradients && zero->config.reduce_scatter
         && zero->config.node_ranks > 0 && zero->world / zero->config.node_ranks > 1;
}

static void
all_to_all (ZsPlan *plan, unsigned int communicator, int64_t bytes, int64_t scales)
{
  zs_torch_collective (plan, ZS_COLLECTIVE_ALL_TO_ALL, communicator, bytes);
  zs_torch_collective (plan, ZS_COLLECTIVE_ALL_TO_ALL, communicator, scales);
}

/* int4 within the node, reduced, int4 across nodes, averaged.  The own shard (returned) is in the
 * model's dtype.  false: the tensor cannot be cut so, and is reduce-scattered as ever. */
bool
zero3_reduce_quantized (Zero3 *zero, ZsPlan *plan, int32_t index, ZsTensor *ret_shard)
{
  const ZsParameter *shape = &zero->model->parameters[index];
  int64_t n = shape->elements, local = zero->config.node_ranks, nodes = zero->world / local;

  if (shape->columns == 1 || n % (2 * zero->world) != 0)
    return false;
  int64_t groups = MAX (MAX (shape->rows, shape->columns), zero->world), inner = groups / local;
  ZsTensor packed = zs_plan_alloc (plan, n / 2, ZS_CATEGORY_BUCKETS);
  ZsTensor scales = zs_plan_alloc (plan, 4 * groups, ZS_CATEGORY_BUCKETS);

  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, n, 2, 5 * n / 2, "quantize");
  ZsTensor local_packed = zs_plan_alloc (plan, n / 2, ZS_CATEGORY_BUCKETS);
  ZsTensor local_scales = zs_plan_alloc (plan, 4 * groups, ZS_CATEGORY_BUCKETS);

  all_to_all (plan, ZS_ZERO3_COMM_NODE, n / 2, 4 * groups);
  ZsTensor reduced = zs_plan_alloc (plan, n / 2 / local, ZS_CATEGORY_BUCKETS);
  ZsTensor reduced_scales = zs_plan_alloc (plan, 4 * inner, ZS_CATEGORY_BUCKETS);

  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, n, 2,
                   n / 2 + n / 2 / local, "reduce quantized");
  ZsTensor across = zs_plan_alloc (plan, n / 2 / local, ZS_CATEGORY_BUCKETS);
  ZsTensor across_scales = zs_plan_alloc (plan, 4 * inner, ZS_CATEGORY_BUCKETS);

  all_to_all (plan, ZS_ZERO3_COMM_ACROSS, n / 2 / local, 4 * inner);
  ZsTensor wide = zs_plan_alloc (plan, n / local * zero->model_bytes, ZS_CATEGORY_BUCKETS);

  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, n / local, 2, 5 * n / 2 / local,
                   "dequantize");
  *ret_shard = zs_plan_alloc (plan, n / zero->world * zero->model_bytes, ZS_CATEGORY_BUCKETS);
  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, n / local, 2,
                   2 * (n / local + n / local / nodes), "average");
  ZsTensor gone[] = { wide, across_scales, across, reduced_scales, reduced, local_scales, local_packed,
                      scales, packed };

  for (gsize i = 0; i < G_N_ELEMENTS (gone); i++)
    zs_plan_unref (plan, gone[i]);
  return true;
}
