/* kernel-beside.c: kernels on what others leave of a GPU.  SPDX-License-Identifier: MIT
 *
 * A collective's thread blocks hold an SM each from the start of its kernel to the end (NVIDIA/nccl issues
 * 689, 1424, 1656), and its traffic takes a share of the memory rate.  So a kernel runs as on a GPU with
 * fewer SMs and less memory rate.  Measured on one H200 (torch 2.11): 19 kernels of LLaMA beside 4 to 48
 * blocks shaped like NCCL's, that wait or move a channel's bytes (tests/measure, part `occupied`).
 * Attention, casts and large products lose the SMs' part, kernels bound by memory the bytes' part.
 *
 * Products that fill the GPU a few times only lose more: 1.7 to 1.9 times as long as soon as 4 SMs are
 * gone, however many (NVIDIA's forum, 337991, saw the same of 132 blocks on an H100).  cuBLAS's kernels for
 * Hopper (nvjet) give each block about two tiles, and the blocks that found no SM at the start run when all
 * others have ended.  Median error over the 19 kernels beside 8 and 24 blocks: 4 %, at most 18 %.
 */
#include "config.h"

#include "sim/hardware/kernel-time.h"

#include <math.h>

#define MOST_TAKEN      0.9     /* of the memory rate: something always gets through */
#define TILES_OF_BLOCK  2.0     /* of an nvjet kernel */
#define CLOCK_ALONE     1.12    /* a last wave on few SMs is not held back by power: 8192 x 11008 x 4096 beside
                                   24 and 48 idle blocks takes 1.096 and 1.41 times as long, not 1.22 and 1.57 */

static ZsGpu
rest_of (const ZsGpu *gpu, int sms, double memory_share)
{
  ZsGpu rest = *gpu;
  double kept;

  rest.sm_count = MAX (1, gpu->sm_count - sms);
  kept = (double) rest.sm_count / MAX (1, gpu->sm_count);
  rest.fp32_flops *= kept;
  rest.tf32_flops *= kept;
  rest.fp16_flops *= kept;
  rest.bf16_flops *= kept;
  rest.memory_rate = (ZsRate) ((double) gpu->memory_rate * (1 - CLAMP (memory_share, 0, MOST_TAKEN)));
  return rest;
}

/* KERNEL's time on the rest of the GPU against that on all of it. */
static double
slowdown (const ZsGpu *gpu, const ZsKernel *kernel, int sms, double memory_share)
{
  ZsGpu rest = rest_of (gpu, sms, memory_share);
  double factor = MAX (1, zs_time_to_seconds (zs_kernel_time (&rest, kernel))
                            / zs_time_to_seconds (zs_kernel_time (gpu, kernel)));

  if (kernel->kind != ZS_KERNEL_MATMUL || sms <= 0 || gpu->compute_capability < 90 || gpu->compute_capability >= 100)
    return factor;
  double waves = (double) zs_kernel_blocks (gpu, kernel) / MAX (1, gpu->sm_count);

  /* blocks come in pairs on neighbouring SMs (clusters of two), so that an SM that is taken spoils another: 1024 x 4096 x
   * 4096 in 128 blocks beside 4 takes 1.88 times as long */
  if (waves * gpu->sm_count <= gpu->sm_count - 2 * sms)   /* all found one, or memory holds it back */
    return factor;
  return MAX (factor, 1 + MIN (TILES_OF_BLOCK, ceil (waves)) / (waves * CLOCK_ALONE));
}

ZsTime
zs_kernel_time_beside (const ZsGpu *gpu, const ZsKernel *kernel, ZsTime alone, int sms, double memory_share)
{
  if (kernel->kind == ZS_KERNEL_TINY || (sms <= 0 && memory_share <= 0))
    return alone;
  return zs_time_from_seconds (zs_time_to_seconds (alone) * slowdown (gpu, kernel, sms, memory_share));
}
