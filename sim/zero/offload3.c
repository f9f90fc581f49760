/* offload3.c: parameters, gradients and optimizer of stage 3 on the host.
 * SPDX-License-Identifier: MIT
 *
 * deepspeed/runtime/zero/stage3.py (partition_grads (), _optimizer_step ()) and PyTorch's rules for
 * copies that change the dtype (ATen/native/cuda/Copy.cu): a blocking copy converts on the CPU, through
 * a pageable temporary of the source's dtype on the way out and of the destination's on the way in; a
 * copy with non_blocking converts on the GPU.
 */
#include "config.h"

#include "sim/zero/adam.h"
#include "sim/zero/stage3-internal.h"

ZsTensor
zero3_shard_to_gpu (Zero3 *zero, ZsPlan *plan, int32_t index, int64_t elements)
{
  const Zero3Parameter *parameter = &zero->parameters[index];
  int64_t bytes = elements * parameter->bytes;

  if (!zero3_params_on_host (zero))
    return ZS_NO_TENSOR;
  zero3_read_shard (zero, plan, index);
  ZsTensor copy = zs_plan_alloc (plan, bytes,
                                 zero->world == 1 ? ZS_CATEGORY_GATHERED : ZS_CATEGORY_OFFLOAD);
  bool pinned = parameter->trainable || zero->config.param_pin;   /* the flat buffer always is */

  /* .to (device): the host waits for the copy and for what precedes it on the stream */
  zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, bytes,
                ZS_FLAG_BLOCKING | (pinned ? ZS_FLAG_PINNED : 0));
  return copy;
}

/* _constant_buffered_norm2 (): pieces of 2.5e8 elements, each as float64. */
static ZsTensor
shard_norm (Zero3 *zero, ZsPlan *plan, int64_t elements, int bytes)
{
  enum { PIECE = 250000000 };
  ZsTensor norm = ZS_NO_TENSOR;

  for (int64_t at = 0; at < elements; at += PIECE) {
    ZsTensor part = zs_torch_double_norm (plan, &zero->shape, MIN (PIECE, elements - at), bytes);

    part = zs_torch_scalar (plan, 8, part);   /* ** 2 */
    if (norm == ZS_NO_TENSOR)
      norm = part;
    else {
      zs_torch_launch (plan, ZS_KERNEL_TINY, ZS_WORK_OPTIMIZER, 1, 8, 24, "scalar");
      zs_plan_unref (plan, part);
    }
  }
  return zs_torch_scalar (plan, 8, norm);     /* ** 0.5 */
}

ZsTensor
zero3_offload_gradient (Zero3 *zero, ZsPlan *plan, int32_t index, int64_t n, int from,
                        ZsTensor previous)
{
  Zero3Parameter *parameter = &zero->parameters[index];
  Zero3SubGroup *group = &zero->sub_groups[parameter->sub_group];
  int to = (int) zs_dtype_bytes (zero->config.grad_accum_dtype);
  int master = zero3_master_bytes (zero);
  unsigned int pinned = zero->config.optimizer_pin ? ZS_FLAG_PINNED : 0;
  /* without pinned memory non_blocking copies block all the same */
  unsigned int flags = pinned != 0 ? ZS_FLAG_PINNED : ZS_FLAG_BLOCKING;
  ZsTensor copy;
  uint32_t label = zs_plan_set_label (plan, zero->label_offload);

  if (zero->micro_step == 0) {
    ZsTensor wide = ZS_NO_TENSOR;

    zs_plan_unref (plan, previous);   /* the name grad_buffer now means the host's */
    if (to != from) {
      wide = zs_plan_alloc (plan, n * to, ZS_CATEGORY_OFFLOAD);
      zs_torch_copy (plan, ZS_WORK_COMMUNICATION, n, from, to, "offload.widen");
    }
    zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, n * to, flags);
    zs_plan_unref (plan, wide);
    copy = zs_plan_alloc (plan, n * to, ZS_CATEGORY_OFFLOAD);
    zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, n * to, flags);
  } else {
    ZsTensor wide = ZS_NO_TENSOR;

    zs_plan_unref (plan, previous);
    copy = zs_plan_alloc (plan, n * to, ZS_CATEGORY_OFFLOAD);
    zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, n * to, flags);
    if (to != from) {
      wide = zs_plan_alloc (plan, n * to, ZS_CATEGORY_OFFLOAD);
      zs_torch_copy (plan, ZS_WORK_COMMUNICATION, n, from, to, "offload.widen");
    }
    zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, n, to, 3 * n * to,
                     "offload.accumulate");
    zs_plan_unref (plan, wide);
    zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, n * to, flags);
  }
  if (zero->boundary) {
    ZsTensor norm = shard_norm (zero, plan, n, to);

    zs_plan_unref (plan, parameter->norm);
    parameter->norm = norm;
    if (group->swapped)
      zero3_swap_gradient (zero, plan, index, n, to);
    else if (group->on_gpu)   /* Twin-Flow */
      zs_torch_copy (plan, ZS_WORK_COMMUNICATION, n, to, 4, "offload.to-gpu-group");
    else if (to == master)
      zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, to * n,
                    pinned | (zero->async_fp32_copy && pinned != 0 ? 0 : ZS_FLAG_BLOCKING));
    else if (zero->async_fp32_copy && pinned != 0) {
      ZsTensor wide = zs_plan_alloc (plan, master * n, ZS_CATEGORY_OFFLOAD);

      zs_torch_copy (plan, ZS_WORK_COMMUNICATION, n, to, master, "offload.widen");
      zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, master * n, pinned);
      zs_plan_unref (plan, wide);
    } else {
      ZsTensor half = zs_plan_host_alloc (plan, to * n, ZS_CATEGORY_OFFLOAD, ZS_FLAG_COPIED);

      zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, to * n, ZS_FLAG_BLOCKING);
      zs_plan_cpu_task (plan, ZS_CPU_WIDEN, n);
      zs_plan_unref (plan, half);
    }
  }
  zs_plan_set_label (plan, label);
  return copy;
}

void
zero3_offload_step (Zero3 *zero, ZsPlan *plan, int32_t number)
{
  Zero3SubGroup *group = &zero->sub_groups[number];
  int64_t n = group->elements;
  int64_t state = zero->config.bf16_optimizer_states ? 2 : 4;
  int master = zero3_master_bytes (zero);

  if (group->moment1 == ZS_NO_TENSOR && !group->swapped) {
    group->moment1 = zs_plan_host_alloc (plan, n * state, ZS_CATEGORY_OPTIMIZER, 0);
    group->moment2 = zs_plan_host_alloc (plan, n * state, ZS_CATEGORY_OPTIMIZER, 0);
    zs_plan_cpu_task (plan, ZS_CPU_ZERO, 2 * n);
  }
  zs_adam_on_cpu (plan, zero->config.optimizer, n, master, (int) state);

  if (zero3_params_on_host (zero)) {
    zs_copy_on_cpu (plan, n, master, (int) zero->model_bytes);
    if (group->shards_swapped)
      zero3_write_now (plan, n * zero->model_bytes);
    return;
  }
  ZsTensor half = ZS_NO_TENSOR;

  if (master != zero->model_bytes) {
    half = zs_plan_host_alloc (plan, n * zero->model_bytes, ZS_CATEGORY_OFFLOAD, 0);
    zs_plan_cpu_task (plan, ZS_CPU_CAST, n);
  }
  zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, n * zero->model_bytes, ZS_FLAG_BLOCKING);
  zs_plan_unref (plan, half);
}
