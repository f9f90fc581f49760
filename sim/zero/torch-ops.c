/* torch-ops.c: short runs of PyTorch operators.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/zero/torch-ops.h"

void
zs_torch_launch (ZsPlan *plan, ZsKernelKind kind, ZsWorkClass work, int64_t elements,
                 int element_bytes, int64_t bytes, const char *name)
{
  ZsKernel kernel = {
    .kind = (uint8_t) kind,
    .launch = ZS_LAUNCH_NO_GRAD,
    .element_bytes = (uint8_t) element_bytes,
    .phase_class = (uint8_t) work,
    .n = elements,
    .bytes = bytes,
    .name = name,
  };

  zs_plan_launch (plan, zs_plan_kernel (plan, &kernel));
}

void
zs_torch_copy (ZsPlan *plan, ZsWorkClass work, int64_t elements, int from_bytes, int to_bytes,
               const char *name)
{
  zs_torch_launch (plan, from_bytes == to_bytes ? ZS_KERNEL_COPY : ZS_KERNEL_CAST, work, elements,
                   from_bytes, elements * (from_bytes + to_bytes), name);
}

static int
threads_per_sm (int compute_capability)
{
  /* CUDA C programming guide, table of technical specifications per compute capability */
  switch (compute_capability) {
  case 75:
    return 1024;
  case 86: case 87: case 89: case 120: case 121:
    return 1536;
  default:
    return 2048;
  }
}

int64_t
zs_torch_reduction_blocks (const ZsStepShape *shape, int64_t elements)
{
  int64_t per_thread = (elements + 511) / 512;
  int64_t resident = shape->sm_count * (threads_per_sm (shape->compute_capability) / 512);

  if (per_thread < 16)
    return 1;
  return MAX (MIN (resident, (per_thread + 15) / 16), (per_thread + 255) / 256);
}

ZsTensor
zs_torch_reduce (ZsPlan *plan, const ZsStepShape *shape, int64_t elements, int element_bytes,
                 int result_bytes, const char *name)
{
  ZsTensor result = zs_plan_alloc (plan, result_bytes, ZS_CATEGORY_STEP);
  int64_t blocks = zs_torch_reduction_blocks (shape, elements);
  ZsTensor staging = ZS_NO_TENSOR, semaphores = ZS_NO_TENSOR;

  if (blocks > 1) {
    staging = zs_plan_alloc (plan, blocks * result_bytes, ZS_CATEGORY_WORKSPACE);
    semaphores = zs_plan_alloc (plan, 4, ZS_CATEGORY_WORKSPACE);
  }
  zs_torch_launch (plan, ZS_KERNEL_NORM, ZS_WORK_OPTIMIZER, elements, element_bytes,
                   elements * element_bytes, name);
  zs_plan_unref (plan, semaphores);
  zs_plan_unref (plan, staging);
  return result;
}

ZsTensor
zs_torch_double_norm (ZsPlan *plan, const ZsStepShape *shape, int64_t elements, int element_bytes)
{
  ZsTensor copy = zs_plan_alloc (plan, 8 * elements, ZS_CATEGORY_STEP);

  zs_torch_copy (plan, ZS_WORK_OPTIMIZER, elements, element_bytes, 8, "norm.double");
  ZsTensor norm = zs_torch_reduce (plan, shape, elements, 8, 8, "norm");

  zs_plan_unref (plan, copy);
  return norm;
}

ZsTensor
zs_torch_has_inf_or_nan (ZsPlan *plan, const ZsStepShape *shape, int64_t elements,
                         int element_bytes)
{
  int64_t n = elements;
  ZsTensor x = ZS_NO_TENSOR;

  if (element_bytes != 4) {
    x = zs_plan_alloc (plan, 4 * n, ZS_CATEGORY_STEP);
    zs_torch_copy (plan, ZS_WORK_OPTIMIZER, n, element_bytes, 4, "overflow.float");
  }
  ZsTensor nan = zs_plan_alloc (plan, n, ZS_CATEGORY_STEP);

  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_OPTIMIZER, n, 4, 5 * n, "overflow.isnan");
  ZsTensor absolute = zs_plan_alloc (plan, 4 * n, ZS_CATEGORY_STEP);

  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_OPTIMIZER, n, 4, 8 * n, "overflow.abs");
  ZsTensor infinite = zs_plan_alloc (plan, n, ZS_CATEGORY_STEP);

  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_OPTIMIZER, n, 4, 5 * n, "overflow.isinf");
  zs_plan_unref (plan, absolute);
  ZsTensor either = zs_plan_alloc (plan, n, ZS_CATEGORY_STEP);

  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_OPTIMIZER, n, 1, 3 * n, "overflow.or");
  ZsTensor as_float = zs_plan_alloc (plan, 4 * n, ZS_CATEGORY_STEP);

  zs_torch_launch (plan, ZS_KERNEL_CAST, ZS_WORK_OPTIMIZER, n, 1, 5 * n, "overflow.float");
  ZsTensor result = zs_torch_reduce (plan, shape, n, 4, 4, "overflow.max");

  zs_plan_unref (plan, as_float);
  zs_plan_unref (plan, x);
  zs_plan_unref (plan, nan);
  zs_plan_unref (plan, infinite);
  zs_plan_unref (plan, either);
  return result;
}

ZsTensor
zs_torch_scalar (ZsPlan *plan, int64_t bytes, ZsTensor operand)
{
  ZsTensor result = zs_plan_alloc (plan, bytes, ZS_CATEGORY_STEP);

  zs_torch_launch (plan, ZS_KERNEL_TINY, ZS_WORK_OPTIMIZER, 1, 4, 8, "scalar");
  zs_plan_unref (plan, operand);
  return result;
}

ZsTensor
zs_torch_scalar_from_host (ZsPlan *plan, int64_t bytes)
{
  ZsTensor result = zs_plan_alloc (plan, bytes, ZS_CATEGORY_STEP);

  zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, bytes, ZS_FLAG_BLOCKING);
  return result;
}

void
zs_torch_item (ZsPlan *plan, int64_t bytes)
{
  zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, bytes, ZS_FLAG_BLOCKING | ZS_FLAG_DATA_WAIT);
}

void
zs_torch_collective (ZsPlan *plan, ZsCollectiveKind kind, unsigned int communicator, int64_t bytes)
{
  ZsEvent done = zs_plan_event_new (plan);

  zs_plan_collective (plan, kind, communicator, bytes, done);
  zs_plan_stream_wait_event (plan, plan->stream, done);
  zs_plan_event_free (plan, done);
}
