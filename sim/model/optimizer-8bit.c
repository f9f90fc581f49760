/* optimizer-8bit.c: AdamW of bitsandbytes.  SPDX-License-Identifier: MIT
 *
 * Written from bitsandbytes/optim/optimizer.py (Optimizer2State, 0.45 and later), not recorded.  A state
 * of 8 bits is a byte per element and an fp32 scale per block of 256; tensors of less than 4096 elements
 * and, as transformers' Trainer has it, embeddings have states of 32 bits.  Two tables of 256 fp32 serve
 * all.  Paged states lie in managed memory, which the allocator does not see, from 100,000 elements on. */
#include "config.h"

#include "sim/model/optimizer-internal.h"

enum { BLOCK = 256, MIN_8BIT = 4096, MIN_PAGED = 100000, TABLE = 256 * FP32 };

static ZsTensor
paged_or (ZsTorchOptimizer *optimizer, int i, int64_t bytes, int64_t element)
{
  if (optimizer->kind != ZS_OPTIMIZER_ADAMW_8BIT && optimizer->tensors[i].elements >= MIN_PAGED)
    return zs_plan_host_alloc (optimizer->plan, bytes, ZS_CATEGORY_OPTIMIZER, 0);
  return optimizer_state (optimizer, bytes, element);
}

void
optimizer_bitsandbytes_start (ZsTorchOptimizer *optimizer, int i)
{
  const ZsOptimizerTensor *tensor = &optimizer->tensors[i];
  bool wide = optimizer->kind == ZS_OPTIMIZER_PAGED_ADAMW_32BIT || tensor->elements < MIN_8BIT
              || tensor->embedding;
  int64_t element = wide ? FP32 : 1;

  if (i == 0 && optimizer->kind != ZS_OPTIMIZER_PAGED_ADAMW_32BIT)
    for (int j = 0; j < 2; j++)   /* they stay */
      zs_plan_alloc (optimizer->plan, TABLE, ZS_CATEGORY_OPTIMIZER);
  optimizer->first[i] = paged_or (optimizer, i, tensor->elements * element, element);
  optimizer->second[i] = paged_or (optimizer, i, tensor->elements * element, element);
  for (int j = 0; j < 2 && !wide; j++)   /* absmax1 and absmax2 stay too */
    optimizer_state (optimizer, (tensor->elements + BLOCK - 1) / BLOCK * FP32, FP32);
}

/* A kernel per tensor; nothing is allocated. */
void
optimizer_bitsandbytes_step (ZsTorchOptimizer *optimizer, int group)
{
  for (int i = 0; i < optimizer->n; i++) {
    const ZsOptimizerTensor *tensor = &optimizer->tensors[i];
    int64_t state = optimizer->kind == ZS_OPTIMIZER_PAGED_ADAMW_32BIT ? 4 * FP32 : 4;

    if (tensor->group == group)
      optimizer_launch (optimizer, ZS_KERNEL_ELEMENTWISE, tensor->elements,
                        3 * optimizer_bytes (optimizer, i) + state * tensor->elements,
                        zs_dtype_bytes (tensor->dtype), "bitsandbytes AdamW");
  }
}
