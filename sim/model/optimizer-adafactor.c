/* optimizer-adafactor.c: transformers' Adafactor.  SPDX-License-Identifier: MIT
 *
 * Source: transformers/optimization.py (5.17): scale_parameter, relative_step and first moment off, as in
 * `adafactor` of TrainingArguments.  Everything is computed in fp32 copies; of a matrix's second moment
 * the sums of rows and columns are kept.  Python's names hold the gradient, the update and the parameter
 * in fp32 until the next tensor's are there. */
#include "config.h"

#include "sim/model/emit.h"
#include "sim/model/optimizer-internal.h"

/* Of last[]. */
enum { GRADIENT, PARAMETER, UPDATE };
/* A sum over all elements: blocks of 512 threads with 16 values each, 4 blocks a multiprocessor
 * (ATen/native/cuda/Reduce.cuh). */
enum { VALUES_PER_BLOCK = 8192, BLOCKS_PER_SM = 4 };

static void
drop (ZsTorchOptimizer *optimizer, ZsTensor *slot, ZsTensor next)
{
  zs_plan_unref (optimizer->plan, *slot);
  *slot = next;
}

static void
pass (ZsTorchOptimizer *optimizer, int i, int operands, const char *name)
{
  int64_t elements = optimizer->tensors[i].elements;

  optimizer_launch (optimizer, ZS_KERNEL_ELEMENTWISE, elements, elements * FP32 * operands, FP32, name);
}

/* tensor.norm (2) / numel ** 0.5. */
static ZsTensor
root_mean_square (ZsTorchOptimizer *optimizer, int i)
{
  int64_t elements = optimizer->tensors[i].elements;
  int64_t blocks = MIN (optimizer->sm_count * BLOCKS_PER_SM, (elements + VALUES_PER_BLOCK - 1) / VALUES_PER_BLOCK);
  ZsTensor norm = optimizer_scratch (optimizer, FP32);
  ZsTensor buffer = optimizer_scratch (optimizer, blocks > 1 ? blocks * FP32 : 0);
  ZsTensor semaphore = optimizer_scratch (optimizer, blocks > 1 ? FP32 : 0);

  optimizer_launch (optimizer, ZS_KERNEL_NORM, elements, elements * FP32, FP32, "norm");
  zs_plan_unref (optimizer->plan, semaphore);
  zs_plan_unref (optimizer->plan, buffer);
  ZsTensor mean = optimizer_scratch (optimizer, FP32);
  zs_plan_unref (optimizer->plan, norm);
  return mean;
}

/* An fp32 copy of tensor I, or the tensor itself. */
static ZsTensor
widen (ZsTorchOptimizer *optimizer, int i)
{
  if (optimizer->tensors[i].dtype == ZS_DTYPE_FP32)
    return ZS_NO_TENSOR;
  pass (optimizer, i, 1, "to fp32");
  return optimizer_scratch (optimizer, optimizer->tensors[i].elements * FP32);
}

/* The means of rows and columns, and the update from them. */
static void
update_factored (ZsTorchOptimizer *optimizer, int i, ZsTensor last[3])
{
  const ZsOptimizerTensor *tensor = &optimizer->tensors[i];
  int64_t rows = tensor->elements / tensor->columns, semaphores, bytes = tensor->elements * FP32;
  int64_t buffer_bytes = zs_column_sum_buffer (rows, tensor->columns, FP32, optimizer->sm_count, &semaphores);

  zs_plan_unref (optimizer->plan, optimizer_scratch (optimizer, rows * FP32));
  optimizer_launch (optimizer, ZS_KERNEL_NORM, tensor->elements, bytes, FP32, "mean of rows");
  ZsTensor columns = optimizer_scratch (optimizer, tensor->columns * FP32);
  ZsTensor buffer = optimizer_scratch (optimizer, buffer_bytes);
  ZsTensor semaphore = optimizer_scratch (optimizer, semaphores);
  optimizer_launch (optimizer, ZS_KERNEL_REDUCE_COLUMNS, tensor->elements, bytes, FP32, "mean of columns");
  zs_plan_unref (optimizer->plan, semaphore);
  zs_plan_unref (optimizer->plan, buffer);
  zs_plan_unref (optimizer->plan, columns);
  ZsTensor mean = optimizer_scratch (optimizer, FP32);
  ZsTensor r_factor = optimizer_scratch (optimizer, rows * FP32);
  zs_plan_unref (optimizer->plan, mean);
  ZsTensor c_factor = optimizer_scratch (optimizer, tensor->columns * FP32);
  ZsTensor update = optimizer_scratch (optimizer, bytes);
  pass (optimizer, i, 1, "r_factor * c_factor");
  zs_plan_unref (optimizer->plan, r_factor);
  zs_plan_unref (optimizer->plan, c_factor);
  drop (optimizer, &last[UPDATE], update);
}

void
optimizer_adafactor_step (ZsTorchOptimizer *optimizer, int group, ZsTensor last[3])
{
  for (int i = 0; i < optimizer->n; i++) {
    const ZsOptimizerTensor *tensor = &optimizer->tensors[i];
    int64_t bytes = tensor->elements * FP32;
    bool factored = tensor->columns > 1;

    if (tensor->group != group)
      continue;
    drop (optimizer, &last[GRADIENT], ZS_NO_TENSOR);
    last[GRADIENT] = widen (optimizer, i);
    if (!optimizer->started && factored) {
      optimizer->first[i] = optimizer_state (optimizer, tensor->elements / tensor->columns * FP32, FP32);
      optimizer->second[i] = optimizer_state (optimizer, tensor->columns * FP32, FP32);
    } else if (!optimizer->started) {
      optimizer->first[i] = optimizer_state (optimizer, bytes, FP32);
    }
    drop (optimizer, &last[PARAMETER], ZS_NO_TENSOR);
    last[PARAMETER] = widen (optimizer, i);
    drop (optimizer, &optimizer->steps[i], root_mean_square (optimizer, i));   /* state["RMS"] */
    ZsTensor square = optimizer_scratch (optimizer, bytes);
    pass (optimizer, i, 2, "square");
    ZsTensor update = optimizer_scratch (optimizer, bytes);
    pass (optimizer, i, 2, "add");
    zs_plan_unref (optimizer->plan, square);
    drop (optimizer, &last[UPDATE], update);
    if (factored) {
      update_factored (optimizer, i, last);
    } else {   /* exp_avg_sq.rsqrt () */
      pass (optimizer, i, 3, "exp_avg_sq");
      update = optimizer_scratch (optimizer, bytes);
      pass (optimizer, i, 2, "rsqrt");
      drop (optimizer, &last[UPDATE], update);
    }
    pass (optimizer, i, 3, "mul_");
    ZsTensor mean = root_mean_square (optimizer, i);
    ZsTensor ratio = optimizer_scratch (optimizer, FP32);
    zs_plan_unref (optimizer->plan, mean);
    pass (optimizer, i, 4, "div_, mul_");
    zs_plan_unref (optimizer->plan, ratio);
    ZsTensor negative = optimizer_scratch (optimizer, bytes);
    pass (optimizer, i, 2, "neg");
    pass (optimizer, i, 3, "add_");
    zs_plan_unref (optimizer->plan, negative);
    if (tensor->dtype != ZS_DTYPE_FP32)
      pass (optimizer, i, 1, "copy_");
  }
}
