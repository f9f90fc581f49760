/* adam.c: one Adam step, on the GPU or the CPU.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/zero/adam.h"

void
zs_adam_init (ZsPlan *plan, ZsDsOptimizer optimizer)
{
  if (optimizer == ZS_DS_OPTIMIZER_FUSED_ADAM)
    zs_plan_alloc (plan, 4, ZS_CATEGORY_STEP);
}

static ZsTensor
new_state (ZsPlan *plan, int64_t elements, int bytes)
{
  ZsTensor state = zs_plan_alloc (plan, elements * bytes, ZS_CATEGORY_OPTIMIZER);

  zs_torch_launch (plan, ZS_KERNEL_FILL, ZS_WORK_OPTIMIZER, elements, bytes, elements * bytes,
                   "adam.zeros");
  return state;
}

static void
foreach_pass (ZsPlan *plan, int64_t elements, int64_t bytes, const char *name)
{
  zs_torch_launch (plan, ZS_KERNEL_ADAM_FOREACH, ZS_WORK_OPTIMIZER, elements, 4, elements * bytes,
                   name);
}

/* torch/optim/adamw.py, _multi_tensor_adamw (): decay, lerp, mul, addcmul, sqrt, div, add, addcdiv. */
static void
separate_passes (ZsPlan *plan, int64_t elements, int parameter_bytes, int state_bytes,
                 int temporaries)
{
  int64_t p = parameter_bytes, s = state_bytes;
  ZsTensor extra[3] = { ZS_NO_TENSOR, ZS_NO_TENSOR, ZS_NO_TENSOR };

  foreach_pass (plan, elements, 2 * p, "adam.decay");
  foreach_pass (plan, elements, p + 2 * s, "adam.momentum");
  foreach_pass (plan, elements, 2 * s, "adam.variance.mul");
  foreach_pass (plan, elements, p + 2 * s, "adam.variance.add");
  for (int i = 0; i < temporaries; i++)
    extra[i] = zs_plan_alloc (plan, elements * state_bytes, ZS_CATEGORY_STEP);
  foreach_pass (plan, elements, 2 * s, "adam.sqrt");
  foreach_pass (plan, elements, 2 * s, "adam.div");
  foreach_pass (plan, elements, 2 * s, "adam.eps");
  foreach_pass (plan, elements, 2 * p + 2 * s, "adam.update");
  for (int i = temporaries; i-- > 0;)
    zs_plan_unref (plan, extra[i]);
}

void
zs_adam_step (ZsPlan *plan, ZsDsOptimizer optimizer, int64_t elements, int parameter_bytes,
              int state_bytes, ZsAdamStates states)
{
  if (*states.momentum == ZS_NO_TENSOR) {
    /* torch keeps the step of fused=True on the GPU; the others count on the host */
    if (optimizer == ZS_DS_OPTIMIZER_TORCH_FUSED)
      *states.step_count = zs_torch_scalar (plan, 4, ZS_NO_TENSOR);
    *states.momentum = new_state (plan, elements, state_bytes);
    *states.variance = new_state (plan, elements, state_bytes);
  }
  zs_plan_host (plan, ZS_HOST_STEP_PARAMETER, 1);
  switch (optimizer) {
  case ZS_DS_OPTIMIZER_TORCH_FOREACH:
    separate_passes (plan, elements, parameter_bytes, state_bytes, 1);
    break;
  case ZS_DS_OPTIMIZER_TORCH_FOR_LOOP:
    separate_passes (plan, elements, parameter_bytes, state_bytes, 3);
    break;
  default:
    /* reads p, g, m, v; writes p, m, v */
    zs_torch_launch (plan, ZS_KERNEL_ADAM_FUSED, ZS_WORK_OPTIMIZER, elements, parameter_bytes,
                     elements * (3 * parameter_bytes + 4 * state_bytes), "adam");
    break;
  }
}

void
zs_adam_on_cpu (ZsPlan *plan, ZsDsOptimizer optimizer, int64_t elements, int parameter_bytes,
                int state_bytes)
{
  if (optimizer == ZS_DS_OPTIMIZER_TORCH_FOREACH || optimizer == ZS_DS_OPTIMIZER_TORCH_FOR_LOOP) {
    ZsTensor denominator = zs_plan_host_alloc (plan, 4 * elements, ZS_CATEGORY_OFFLOAD, 0);

    zs_plan_cpu_task (plan, ZS_CPU_ADAM_TORCH, elements);
    zs_plan_unref (plan, denominator);
    return;
  }
  /* fp32 makes 28 bytes of traffic per element; 16-bit states, with AVX-512, less */
  zs_plan_cpu_task (plan, ZS_CPU_ADAM, elements * (3 * parameter_bytes + 4 * state_bytes) / 28);
}

void
zs_scale_on_cpu (ZsPlan *plan, int64_t elements, int bytes)
{
  if (bytes == 4)
    zs_plan_cpu_task (plan, ZS_CPU_SCALE, elements);
  else
    zs_plan_cpu_task (plan, ZS_CPU_COPY, elements * bytes);
}

void
zs_copy_on_cpu (ZsPlan *plan, int64_t elements, int from_bytes, int to_bytes)
{
  if (from_bytes == to_bytes)
    zs_plan_cpu_task (plan, ZS_CPU_COPY, elements * to_bytes);
  else
    zs_plan_cpu_task (plan, ZS_CPU_CAST, elements);
}
