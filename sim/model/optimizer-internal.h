/* optimizer-internal.h: what the files of the optimizers share.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/model/optimizer.h"

enum { FP32 = 4 };

static inline int64_t
optimizer_bytes (const ZsTorchOptimizer *optimizer, int i)
{
  return optimizer->tensors[i].elements * zs_dtype_bytes (optimizer->tensors[i].dtype);
}

static inline void
optimizer_launch (ZsTorchOptimizer *optimizer, ZsKernelKind kind, int64_t n, int64_t bytes, int64_t element,
                  const char *name)
{
  ZsKernel kernel = { .kind = (uint8_t) kind, .launch = ZS_LAUNCH_NO_GRAD,
                      .element_bytes = (uint8_t) element, .phase_class = 1, .n = n, .bytes = bytes,
                      .flops = (double) n, .name = name };

  zs_plan_launch (optimizer->plan, zs_plan_kernel (optimizer->plan, &kernel));
}

static inline ZsTensor
optimizer_scratch (ZsTorchOptimizer *optimizer, int64_t bytes)
{
  return zs_plan_alloc (optimizer->plan, bytes, ZS_CATEGORY_STEP);
}

/* BYTES of state, filled with zeros. */
static inline ZsTensor
optimizer_state (ZsTorchOptimizer *optimizer, int64_t bytes, int64_t element)
{
  ZsTensor state = zs_plan_alloc (optimizer->plan, bytes, ZS_CATEGORY_OPTIMIZER);

  optimizer_launch (optimizer, ZS_KERNEL_FILL, bytes / element, bytes, element, "zeros");
  return state;
}

/* optimizer-adafactor.c */
void optimizer_adafactor_step (ZsTorchOptimizer *optimizer, int group, ZsTensor last[3]);
/* optimizer-8bit.c */
void optimizer_bitsandbytes_start (ZsTorchOptimizer *optimizer, int i);
void optimizer_bitsandbytes_step  (ZsTorchOptimizer *optimizer, int group);
