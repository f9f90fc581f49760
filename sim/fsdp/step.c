/* step.c: clip_grad_norm_ () and the optimizer's step on shards.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/fsdp/unit.h"

static void
tiny_kernel (FsdpUnits *units, int64_t elements, const char *name)
{
  ZsKernel value = { .kind = ZS_KERNEL_TINY, .launch = ZS_LAUNCH_NO_GRAD, .element_bytes = 4,
                     .phase_class = 1, .n = elements, .bytes = elements * 8, .name = name };

  zs_plan_launch (units->plan, zs_plan_kernel (units->plan, &value));
}

static ZsTensor
scratch (FsdpUnits *units, int64_t bytes)
{
  return zs_plan_alloc (units->plan, bytes, ZS_CATEGORY_STEP);
}

/* The one norm's factor: max_norm / (norm + 1e-6), at most 1; then the gradients are scaled. */
static ZsTensor
clip_factor (FsdpUnits *units, ZsTensor *ret_factor)
{
  ZsPlan *plan = units->plan;
  int64_t element = units->parameter_bytes, total = 0;
  ZsTensor shifted = scratch (units, element);

  for (int i = 0; i < units->optimizer->n; i++)
    total += units->optimizer->tensors[i].elements;
  tiny_kernel (units, 1, "add");
  ZsTensor inverse = scratch (units, element);
  tiny_kernel (units, 1, "reciprocal");
  *ret_factor = scratch (units, element);
  tiny_kernel (units, 1, "mul");
  zs_plan_unref (plan, inverse);
  zs_plan_unref (plan, shifted);
  ZsTensor clamped = scratch (units, element);
  tiny_kernel (units, 1, "clamp");
  ZsKernel scale = { .kind = ZS_KERNEL_ELEMENTWISE, .launch = ZS_LAUNCH_NO_GRAD,
                     .element_bytes = (uint8_t) element, .phase_class = 1, .n = total,
                     .bytes = 2 * total * element, .flops = (double) total,
                     .name = "scale gradients" };
  zs_plan_launch (plan, zs_plan_kernel (plan, &scale));
  return clamped;
}

/* Bytes of the buffer with which ATen's sum over all of N elements joins several blocks of 512
 * threads: a block for each 16 values per thread, as many as the GPU holds; none below 256 values per
 * thread.  Source: setReduceConfig () of ATen/native/cuda/Reduce.cuh. */
static int64_t
sum_buffer (const FsdpUnits *units, int64_t n)
{
  int64_t values = fsdp_divide_up (n, 512);

  return values < 256 ? 0 : 4 * MIN (fsdp_divide_up (values, 16), (int64_t) units->shape.sm_count * 4);
}

/* FullyShardedDataParallel.clip_grad_norm_ (): norm by norm, then the norm of these, its power summed
 * over the ranks. */
static void
clip_flat (FsdpUnits *units)
{
  ZsPlan *plan = units->plan;
  int64_t element = units->parameter_bytes;
  int n = units->optimizer->n;
  g_autofree ZsTensor *norms = g_new (ZsTensor, (gsize) MAX (n, 1));

  if (n == 0)
    return;
  zs_plan_set_label (plan, units->optimizer->label_clip);
  for (int i = 0; i < n; i++) {
    int64_t elements = units->optimizer->tensors[i].elements, buffer = sum_buffer (units, elements);
    ZsKernel kernel_of_norm = { .kind = ZS_KERNEL_NORM, .launch = ZS_LAUNCH_NO_GRAD,
                                .element_bytes = (uint8_t) element, .phase_class = 1,
                                .n = elements, .bytes = elements * element, .name = "norm" };

    norms[i] = scratch (units, element);
    ZsTensor joined = scratch (units, buffer), semaphores = scratch (units, buffer > 0 ? 4 : 0);
    zs_plan_launch (plan, zs_plan_kernel (plan, &kernel_of_norm));
    zs_plan_unref (plan, semaphores);
    zs_plan_unref (plan, joined);
  }
  ZsTensor stacked = scratch (units, n * element), factor;
  tiny_kernel (units, n, "stack");
  for (int i = n - 1; i >= 0; i--)
    zs_plan_unref (plan, norms[i]);
  ZsTensor local = scratch (units, element);
  tiny_kernel (units, n, "norm");
  zs_plan_unref (plan, stacked);
  ZsTensor power = scratch (units, element);
  tiny_kernel (units, 1, "pow");
  fsdp_collective (units, ZS_COLLECTIVE_ALL_REDUCE, FSDP_SHARD_GROUP, element, ZS_STREAM_COMPUTE);
  ZsTensor norm = scratch (units, element);
  tiny_kernel (units, 1, "pow");
  zs_plan_unref (plan, power);
  ZsTensor clamped = clip_factor (units, &factor);
  zs_plan_unref (plan, local);
  zs_plan_unref (plan, factor);
  zs_plan_unref (plan, clamped);
  zs_plan_unref (plan, norm);
}

/* clip_grad_norm_ on DTensors: norms of the shards in one multi-tensor kernel (partial sums by
 * chunks of 65536 elements, ATen/native/cuda/MultiTensorApply.cuh), stacked; their powers summed
 * over the ranks by one all-reduce; one norm, one factor, all gradients scaled in place. */
static void
clip (FsdpUnits *units)
{
  enum { CHUNK = 65536, FP32 = 4 };
  ZsPlan *plan = units->plan;
  int64_t element = units->parameter_bytes, largest = 0, total = 0;
  int n = units->optimizer->n;
  g_autofree ZsTensor *norms = g_new (ZsTensor, (gsize) MAX (n, 1));

  if (n == 0)
    return;
  zs_plan_set_label (plan, units->optimizer->label_clip);
  for (int i = 0; i < n; i++) {
    largest = MAX (largest, units->optimizer->tensors[i].elements);
    total += units->optimizer->tensors[i].elements;
  }
  ZsTensor partial = scratch (units, n * fsdp_divide_up (largest, CHUNK) * FP32);
  for (int i = 0; i < n; i++)
    norms[i] = scratch (units, element);
  ZsKernel norm_kernel = { .kind = ZS_KERNEL_NORM, .launch = ZS_LAUNCH_NO_GRAD,
                           .element_bytes = (uint8_t) element, .phase_class = 1, .n = total,
                           .bytes = total * element, .name = "foreach norm" };
  zs_plan_launch (plan, zs_plan_kernel (plan, &norm_kernel));
  zs_plan_unref (plan, partial);
  ZsTensor stacked = scratch (units, n * element);
  tiny_kernel (units, n, "stack");
  ZsTensor squares = scratch (units, n * element);
  tiny_kernel (units, n, "pow");
  ZsTensor reduced = scratch (units, n * element);
  tiny_kernel (units, n, "clone");
  fsdp_collective (units, ZS_COLLECTIVE_ALL_REDUCE, FSDP_SHARD_GROUP, n * element,
                   ZS_STREAM_COMPUTE);
  ZsTensor roots = scratch (units, n * element);
  tiny_kernel (units, n, "pow");
  zs_plan_unref (plan, squares);
  zs_plan_unref (plan, reduced);
  ZsTensor norm = scratch (units, element);
  tiny_kernel (units, n, "norm");
  zs_plan_unref (plan, roots);
  zs_plan_unref (plan, stacked);
  for (int i = n - 1; i >= 0; i--)
    zs_plan_unref (plan, norms[i]);
  ZsTensor factor, clamped = clip_factor (units, &factor);
  zs_plan_unref (plan, factor);
  zs_plan_unref (plan, clamped);
  zs_plan_unref (plan, norm);
}

/* CPU offload: torch.optim on the host's shards; its states are ordinary memory. */
static void
step_on_cpu (FsdpUnits *units)
{
  ZsPlan *plan = units->plan;
  int64_t elements = 0;

  zs_plan_set_label (plan, units->label_step);
  for (int32_t i = 0; i < units->model->n_parameters; i++) {
    FsdpParameter *parameter = &units->parameters[units->slot_of_parameter[i]];
    ZsTensor *states = &units->host_states[2 * i];

    if (!parameter->trainable)
      continue;
    elements += parameter->local_elements;
    if (states[0] == states[1])   /* the first step: both are still 0 */
      for (int j = 0; j < 2; j++)
        states[j] = zs_plan_host_alloc (plan, parameter->local_elements * units->parameter_bytes,
                                        ZS_CATEGORY_OPTIMIZER, 0);
  }
  if (units->shape.clip) {
    zs_plan_cpu_task (plan, ZS_CPU_NORM, elements);
    zs_plan_cpu_task (plan, ZS_CPU_SCALE, elements);
  }
  /* torch's fused one is as fast as DeepSpeed's (0.77e9 elements per second of one thread) */
  zs_plan_cpu_task (plan, units->shape.optimizer == ZS_OPTIMIZER_FUSED ? ZS_CPU_ADAM : ZS_CPU_ADAM_TORCH,
                    elements);
}

void
fsdp_step (FsdpUnits *units)
{
  if (units->config.cpu_offload) {
    step_on_cpu (units);
    return;
  }
  if (units->shape.clip) {
    zs_plan_host (units->plan, ZS_HOST_CLIP_FIXED, 1);
    zs_plan_host (units->plan, ZS_HOST_CLIP_PARAMETER, units->optimizer->n);
    zs_plan_host (units->plan, ZS_HOST_SHARDED_CLIP_FIXED, 1);
    zs_plan_host (units->plan, ZS_HOST_SHARDED_CLIP_PARAMETER, units->optimizer->n);
    if (units->config.version == 1)
      clip_flat (units);
    else
      clip (units);
  }
  if (units->config.version == 2) {
    zs_plan_host (units->plan, ZS_HOST_DTENSOR_FIXED, 1);
    zs_plan_host (units->plan, ZS_HOST_DTENSOR, units->optimizer->n);
  }
  zs_torch_optimizer_step (units->optimizer);
  zs_torch_optimizer_zero_grad (units->optimizer);
}
