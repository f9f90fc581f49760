/* kernel-internal.h: what the files of kernel times share.  SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>
#include <stdbool.h>

#include "sim/hardware/gpu.h"
#include "sim/plan/kernel.h"

/* The reference: one H200 SXM (specification 989 TFLOP/s dense bf16, 4.8 TB/s). */
#define REFERENCE_PEAK      989.4e12
#define REFERENCE_BANDWIDTH 4.8e12
#define REFERENCE_MATMUL_EFFICIENCY 0.80   /* largest measured: 794 of 989 */
#define REFERENCE_MEMORY_EFFICIENCY 0.90   /* copies of 1 GiB: 4.27 of 4.8 TB/s */

/* fp32 lanes of an SM: 64 on Pascal's GP100, Volta, Turing and GA100, else 128 (CUDA C programming guide) */
static inline int
lanes (const ZsGpu *gpu)
{
  return gpu->compute_capability > 0 && gpu->compute_capability <= 80 ? 64 : 128;
}

static inline bool
on_tensor_cores (const ZsGpu *gpu, const ZsKernel *kernel)
{
  return kernel->element_bytes != 4 || (kernel->tf32 && gpu->tf32_flops > 0);
}

static inline double
dense_peak (const ZsGpu *gpu, const ZsKernel *kernel)
{
  double peak;

  if (kernel->element_bytes == 4)
    peak = on_tensor_cores (gpu, kernel) ? gpu->tf32_flops : gpu->fp32_flops;
  else
    peak = gpu->bf16_flops > 0 ? gpu->bf16_flops : gpu->fp16_flops;
  return peak > 0 ? peak : MAX (gpu->fp32_flops, 1e12);
}

static inline double
matmul_scale (const ZsGpu *gpu)
{
  return gpu->matmul_efficiency > 0 ? gpu->matmul_efficiency / REFERENCE_MATMUL_EFFICIENCY : 1.0;
}

static inline double
memory_scale (const ZsGpu *gpu)
{
  return gpu->memory_efficiency > 0 ? gpu->memory_efficiency / REFERENCE_MEMORY_EFFICIENCY : 1.0;
}

/* kernel-product.c: seconds of a product; SLOWER is how much longer what the clock bounds takes.  *RET_BLOCKS: the
 * thread blocks of its tile; 0 if memory bounds it. */
double kernel_product_seconds (const ZsGpu *gpu, const ZsKernel *kernel, bool at_full_clock, double slower,
                               double *ret_blocks);
/* kernel-memory.c: seconds of a kernel that memory or instructions bound. */
double kernel_traffic_seconds (const ZsGpu *gpu, const ZsKernel *kernel, double slower);
