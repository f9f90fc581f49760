/* stage3-step.c: the optimizer step of stage 3, sub-group by sub-group.
 * SPDX-License-Identifier: MIT
 *
 * deepspeed/runtime/zero/stage3.py: step (), get_grad_norm_direct (), _prepare_sub_group (),
 * unscale_and_clip_grads (), _optimizer_step (), _post_step ().
 */
#include "config.h"

#include "sim/base/time.h"
#include "sim/zero/adam.h"
#include "sim/zero/stage3-internal.h"

/* fp16: inf and nan anywhere in the gradient shards (has_overflow ()); the host reads the answer. */
static void
check_overflow (Zero3 *zero, ZsPlan *plan)
{
  int64_t n = zero->trainable_shard_elements;
  int64_t b = zs_dtype_bytes (zero->config.grad_accum_dtype);

  if (!zero3_optimizer_on_host (zero)) {
    /* torch.isinf makes |x|, then a mask; isnan a mask */
    ZsTensor absolute = zs_plan_alloc (plan, n * b, ZS_CATEGORY_STEP);

    zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_OPTIMIZER, n, (int) b, 2 * n * b,
                     "overflow.abs");
    ZsTensor mask = zs_plan_alloc (plan, n, ZS_CATEGORY_STEP);

    zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_OPTIMIZER, n, (int) b, n * (b + 1),
                     "overflow.isinf");
    zs_plan_unref (plan, absolute);
    ZsTensor any = zs_torch_reduce (plan, &zero->shape, n, 1, 1, "overflow.any");

    zs_plan_unref (plan, any);
    zs_plan_unref (plan, mask);
    mask = zs_plan_alloc (plan, n, ZS_CATEGORY_STEP);
    zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_OPTIMIZER, n, (int) b, n * (b + 1),
                     "overflow.isnan");
    any = zs_torch_reduce (plan, &zero->shape, n, 1, 1, "overflow.any");
    zs_plan_unref (plan, any);
    zs_plan_unref (plan, mask);
  } else {   /* the same on the flat buffer where it is, by the CPU */
    ZsTensor absolute = zs_plan_host_alloc (plan, n * b, ZS_CATEGORY_STEP, 0);
    ZsTensor mask = zs_plan_host_alloc (plan, n, ZS_CATEGORY_STEP, 0);

    zs_plan_unref (plan, absolute);
    zs_plan_unref (plan, mask);
    mask = zs_plan_host_alloc (plan, n, ZS_CATEGORY_STEP, 0);
    zs_plan_cpu_task (plan, ZS_CPU_CHECK, n);
    zs_plan_unref (plan, mask);
  }
  ZsTensor flag = zs_torch_scalar (plan, 1, ZS_NO_TENSOR);

  zs_torch_collective (plan, ZS_COLLECTIVE_ALL_REDUCE, zero3_reduce_communicator (zero), 1);
  zs_torch_item (plan, 1);
  zs_plan_unref (plan, flag);
}

/* What follows the sum of squares: all-reduce, root, and -1 in place of inf and nan.  BYTES: 8 from
 * norms on the GPU, 4 from the host's.  The root takes the name of NAMED (or NO_TENSOR), which goes;
 * so do the N norms at the end. */
static ZsTensor
finish_norm (Zero3 *zero, ZsPlan *plan, ZsTensor sum, ZsTensor named, int bytes, ZsTensor *norms,
             int32_t n)
{
  ZsTensor a, b;

  zs_torch_collective (plan, ZS_COLLECTIVE_ALL_REDUCE, zero3_reduce_communicator (zero), bytes);
  ZsTensor root = zs_torch_scalar (plan, bytes, named);
  ZsTensor absolute = zs_torch_scalar (plan, bytes, ZS_NO_TENSOR);
  ZsTensor infinite = zs_torch_scalar (plan, 1, absolute);
  ZsTensor nan = zs_torch_scalar (plan, 1, ZS_NO_TENSOR);
  ZsTensor either = zs_torch_scalar (plan, 1, ZS_NO_TENSOR);
  ZsTensor error = zs_torch_scalar_from_host (plan, 4);

  if (zero->old_backward) {   /* either * error + (not either) * root */
    a = zs_torch_scalar (plan, 4, ZS_NO_TENSOR);
    ZsTensor inverse = zs_torch_scalar (plan, 1, ZS_NO_TENSOR);

    b = zs_torch_scalar (plan, bytes, inverse);
  } else {                    /* torch.where () */
    a = zs_torch_scalar (plan, bytes, ZS_NO_TENSOR);
    b = ZS_NO_TENSOR;
  }
  ZsTensor total = zs_torch_scalar (plan, bytes, a);

  zs_plan_unref (plan, b);
  zs_plan_unref (plan, root);
  zs_plan_unref (plan, sum);
  for (int32_t i = n; i-- > 0;)
    zs_plan_unref (plan, norms[i]);
  zs_plan_unref (plan, infinite);
  zs_plan_unref (plan, nan);
  zs_plan_unref (plan, either);
  zs_plan_unref (plan, error);
  return total;
}

static ZsTensor
norm_on_gpu (Zero3 *zero, ZsPlan *plan, const Zero3SubGroup *group)
{
  int b = (int) zs_dtype_bytes (zero->config.grad_accum_dtype);
  ZsTensor norms[group->n];

  for (int32_t i = 0; i < group->n; i++) {
    const Zero3Parameter *parameter = &zero->parameters[zero->group_order[group->first + i]];

    zs_plan_host (plan, ZS_HOST_NORM_PARAMETER, 1);
    norms[i] = zs_torch_double_norm (plan, &zero->shape, parameter->shard, b);
  }
  ZsTensor sum = zs_torch_scalar (plan, 8 * (int64_t) group->n, ZS_NO_TENSOR);   /* stack */

  sum = zs_torch_scalar (plan, 8 * (int64_t) group->n, sum);                     /* square */
  sum = zs_torch_scalar (plan, 8, sum);
  return finish_norm (zero, plan, sum, ZS_NO_TENSOR, 8, norms, group->n);
}

/* complete_grad_norm_calculation_for_cpu_offload () */
static ZsTensor
norm_of_offloaded (Zero3 *zero, ZsPlan *plan, const Zero3SubGroup *group)
{
  ZsTensor total = ZS_NO_TENSOR;

  /* Python around two operators on a norm that backward left: a look-up, nothing of the gradient's norm */
  zs_plan_host (plan, ZS_HOST_MISC, group->n * 6 * ZS_MICROSECOND);
  for (int32_t i = 0; i < group->n; i++) {
    ZsTensor square = zs_torch_scalar (plan, 8, ZS_NO_TENSOR);

    if (total == ZS_NO_TENSOR)
      total = zs_torch_scalar (plan, 8, square);
    else {
      zs_torch_launch (plan, ZS_KERNEL_TINY, ZS_WORK_OPTIMIZER, 1, 8, 24, "scalar");
      zs_plan_unref (plan, square);
    }
  }
  zs_torch_item (plan, 8);
  return finish_norm (zero, plan, zs_torch_scalar_from_host (plan, 4), total, 4, NULL, 0);
}

/* The norm of all sub-groups, from theirs: get_global_norm () in Python, or a vector norm, of which
 * an unscaled copy stays until the next step's is there. */
static void
global_norm (Zero3 *zero, ZsPlan *plan, int32_t n, int bytes, ZsTensor *ret_scaled,
             ZsTensor *ret_unscaled)
{
  *ret_scaled = *ret_unscaled = ZS_NO_TENSOR;
  if (zero->old_backward) {
    ZsTensor total = ZS_NO_TENSOR;

    for (int32_t k = 0; k < n; k++) {
      ZsTensor square = zs_torch_scalar (plan, bytes, ZS_NO_TENSOR);
      ZsTensor sum = zs_torch_scalar (plan, bytes, square);

      zs_plan_unref (plan, total);
      total = sum;
    }
    zs_torch_item (plan, bytes);
    zs_plan_unref (plan, total);
    return;
  }
  ZsTensor stack = zs_torch_scalar (plan, bytes * (int64_t) n, ZS_NO_TENSOR);

  *ret_scaled = zs_torch_scalar (plan, bytes, stack);
  *ret_unscaled = zs_torch_scalar (plan, bytes, ZS_NO_TENSOR);
}

/* unscale_and_clip_grads (): until 0.18.2 with numbers of Python, then with scalars on the GPU. */
static void
clip (Zero3 *zero, ZsPlan *plan, int64_t elements, int bytes, bool on_host)
{
  if (!zero->old_backward && zero->config.gradient_clipping > 0) {
    ZsTensor x = zs_torch_scalar (plan, 8, ZS_NO_TENSOR);

    x = zs_torch_scalar (plan, 8, x);
    x = zs_torch_scalar (plan, 8, x);
    x = zs_torch_scalar (plan, 8, x);
    ZsTensor scale = zs_torch_scalar (plan, 8, ZS_NO_TENSOR);
    ZsTensor factor = zs_torch_scalar (plan, 8, ZS_NO_TENSOR);

    factor = zs_torch_scalar (plan, 8, factor);
    if (!on_host)
      zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_OPTIMIZER, elements, bytes,
                       2 * elements * bytes, "unscale gradients");
    zs_plan_unref (plan, factor);
    zs_plan_unref (plan, scale);
    zs_plan_unref (plan, x);
  } else if (!on_host)
    zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_OPTIMIZER, elements, bytes,
                     2 * elements * bytes, "unscale gradients");
  if (on_host)
    zs_scale_on_cpu (plan, elements, bytes);
}

/* Adam on one flat fp32 tensor of N elements: what the implementations allocate beside the states
 * (FusedAdam and torch's fused nothing; torch's foreach one temporary at a time). */
static void
adam_on_gpu (Zero3 *zero, ZsPlan *plan, Zero3SubGroup *group, ZsDsOptimizer optimizer)
{
  int64_t n = group->elements;
  int64_t b = zero->config.bf16_master_weights_and_grads ? 2 : 4;
  int64_t state = zero->config.bf16_optimizer_states ? 2 : b;

  if (group->moment1 == ZS_NO_TENSOR) {
    group->moment1 = zs_plan_alloc (plan, n * state, ZS_CATEGORY_OPTIMIZER);
    zs_torch_launch (plan, ZS_KERNEL_FILL, ZS_WORK_OPTIMIZER, n, (int) state, n * state, "adam.zeros");
    group->moment2 = zs_plan_alloc (plan, n * state, ZS_CATEGORY_OPTIMIZER);
    zs_torch_launch (plan, ZS_KERNEL_FILL, ZS_WORK_OPTIMIZER, n, (int) state, n * state, "adam.zeros");
  }
  if (optimizer == ZS_DS_OPTIMIZER_FUSED_ADAM || optimizer == ZS_DS_OPTIMIZER_TORCH_FUSED
      || optimizer == ZS_DS_OPTIMIZER_CPU_ADAM) {
    zs_torch_launch (plan, ZS_KERNEL_ADAM_FUSED, ZS_WORK_OPTIMIZER, n, (int) b,
                     n * (3 * b + 4 * state), "adam");
    return;
  }
  ZsTensor temporary = zs_plan_alloc (plan, n * b, ZS_CATEGORY_STEP);

  zs_torch_launch (plan, ZS_KERNEL_ADAM_FOREACH, ZS_WORK_OPTIMIZER, n, (int) b,
                   n * (6 * b + 14 * state), "adam");
  zs_plan_unref (plan, temporary);
}

/* A sub-group whose states are on the GPU; its gradient is made here, or came with backward. */
static void
step_on_gpu (Zero3 *zero, ZsPlan *plan, Zero3SubGroup *group)
{
  int64_t n = group->elements, b = zs_dtype_bytes (zero->config.grad_accum_dtype);
  int64_t master = zero->config.bf16_master_weights_and_grads ? 2 : 4;
  bool arrived = zero3_optimizer_on_host (zero);   /* Twin-Flow: the gradient is already there */

  if (!arrived) {
    ZsTensor flat = ZS_NO_TENSOR;

    if (group->n > 1) {
      flat = zs_plan_alloc (plan, n * b, ZS_CATEGORY_STEP);
      zs_torch_copy (plan, ZS_WORK_OPTIMIZER, n, (int) b, (int) b, "step.flatten");
    }
    if (b != master) {
      group->gradient = zs_plan_alloc (plan, n * master, ZS_CATEGORY_GRADIENTS);
      zs_torch_copy (plan, ZS_WORK_OPTIMIZER, n, (int) b, (int) master, "step.widen");
      zs_plan_unref (plan, flat);
    } else
      group->gradient = flat;
  }
  clip (zero, plan, n, (int) master, false);
  adam_on_gpu (zero, plan, group, arrived ? ZS_DS_OPTIMIZER_TORCH_FOREACH : zero->config.optimizer);
  if (zero3_params_on_host (zero)) {
    /* fp32 to the host, then a conversion there */
    ZsTensor half = zs_plan_host_alloc (plan, n * master, ZS_CATEGORY_OFFLOAD, ZS_FLAG_COPIED);

    zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, n * master, ZS_FLAG_BLOCKING);
    zs_plan_cpu_task (plan, ZS_CPU_CAST, n);
    zs_plan_unref (plan, half);
  } else
    zs_torch_copy (plan, ZS_WORK_OPTIMIZER, n, (int) master, (int) zero->model_bytes, "step.write");
  if (!arrived) {
    zs_plan_unref (plan, group->gradient);
    group->gradient = ZS_NO_TENSOR;
  }
}

void
zero3_step (void *self, ZsPlan *plan, int step)
{
  Zero3 *zero = self;
  uint32_t label = zs_plan_set_label (plan, zero->label_step);
  bool host = zero3_optimizer_on_host (zero);
  int bytes = host ? 4 : 8;
  ZsTensor norms[zero->n_sub_groups + 1], scaled, unscaled;

  (void) step;
  zero->plan = plan;
  zero->micro_step = 0;
  zs_plan_host (plan, ZS_HOST_ENGINE_STEP, 1);
  zs_coordinator_release_all (zero->coordinator);
  if (zero->config.dtype == ZS_DTYPE_FP16)
    check_overflow (zero, plan);

  for (int32_t k = 0; k < zero->n_sub_groups; k++) {
    norms[k] = host ? norm_of_offloaded (zero, plan, &zero->sub_groups[k])
                    : norm_on_gpu (zero, plan, &zero->sub_groups[k]);
  }
  zero3_swap_before_step (zero, plan);
  global_norm (zero, plan, zero->n_sub_groups, bytes, &scaled, &unscaled);

  for (int32_t k = 0; k < zero->n_sub_groups; k++) {
    Zero3SubGroup *group = &zero->sub_groups[k];

    if (group->on_gpu)
      step_on_gpu (zero, plan, group);
    else {
      if (group->swapped)
        zero3_swap_in (zero, plan, k);
      clip (zero, plan, group->elements, zero3_master_bytes (zero), true);
      zero3_offload_step (zero, plan, k);
      if (group->swapped)
        zero3_swap_out (zero, plan, k);
    }
  }
  zero->states_exist = true;
  for (int32_t i = 0; i < zero->n_trainable; i++) {   /* reset_cpu_buffers () */
    Zero3Parameter *parameter = &zero->parameters[zero->group_order[i]];

    zs_plan_unref (plan, parameter->norm);
    parameter->norm = ZS_NO_TENSOR;
  }
  zero3_gather_persistent (zero, plan);
  zero3_drop_secondaries (zero, plan);
  for (int32_t k = 0; k < zero->n_sub_groups; k++)
    zs_plan_unref (plan, norms[k]);
  zs_plan_unref (plan, scaled);
  zs_plan_unref (plan, zero->kept_norm);
  zero->kept_norm = unscaled;
  zs_loss_after_step (&zero->loss, plan);
  zs_plan_set_label (plan, label);
}
