/* kernel-time.h: how long a kernel runs on a GPU, and what the host spends.
 * SPDX-License-Identifier: MIT
 *
 * All of these are calibrated numbers: each constant names its source and its error. */
#pragma once

#include "sim/hardware/gpu.h"
#include "sim/hardware/host.h"
#include "sim/plan/instruction.h"
#include "sim/plan/kernel.h"

/* Time of KERNEL alone on GPU, with all its SMs, called in a loop. */
ZsTime zs_kernel_time (const ZsGpu *gpu, const ZsKernel *kernel);
/* What a training step makes of the clock. */
typedef struct {
  double tensor_share;   /* how busy it keeps the tensor cores: the part of its kernels' time that their useful
                            operations take at the full clock's rate; below 0: not known, as in a loop */
  double slowest;        /* how much longer the slowest of its GPUs takes; 0: 1 */
} ZsPace;

/* The same inside such a step. */
ZsTime zs_kernel_time_in_step (const ZsGpu *gpu, const ZsKernel *kernel, ZsPace pace);
/* Seconds that the operations of KERNEL that tensor cores do take at the full clock's rate. */
double zs_kernel_busy_seconds (const ZsGpu *gpu, const ZsKernel *kernel);
/* Of N GPUs of one kind, for which all wait: ZsPace.slowest. */
double zs_slowest_of (int64_t n);
/* How many thread blocks KERNEL fills the SMs with; 0 for a kernel bound by memory. */
int64_t zs_kernel_blocks (const ZsGpu *gpu, const ZsKernel *kernel);
/* Time of KERNEL, which takes ALONE by itself, while others (collectives: a block a channel) hold SMS of the
 * GPU's SMs and take MEMORY_SHARE (0 to 1) of its memory rate. */
ZsTime zs_kernel_time_beside (const ZsGpu *gpu, const ZsKernel *kernel, ZsTime alone, int sms, double memory_share);
/* Host time of launching a kernel from LAUNCH, and of WORK done once, on HOST (its speed). */
ZsTime zs_launch_cost (const ZsHost *host, ZsLaunchKind launch);
ZsTime zs_host_work_cost (const ZsHost *host, ZsHostWork work);
/* Time of a CPU task on ELEMENTS with THREADS of HOST, and the host memory traffic that it makes
 * (bytes): the run shares memory between ranks. */
ZsTime zs_cpu_task_time (const ZsHost *host, ZsCpuTask task, int64_t elements, int threads,
                         int64_t *ret_traffic_bytes);
/* cudaMalloc, cudaFree, cudaMemMap of a segment of BYTES; cudaHostAlloc. */
ZsTime zs_gpu_malloc_cost (int64_t bytes);
ZsTime zs_gpu_free_cost (int64_t bytes);
ZsTime zs_gpu_map_cost (int64_t bytes);
ZsTime zs_host_pin_cost (int64_t bytes);
/* First touch, by THREADS or (COPIED) by a copy from the GPU, of pageable memory that the C library takes from
 * the kernel; its return. */
ZsTime zs_host_fault_cost  (int64_t bytes, int threads, bool copied);
ZsTime zs_host_return_cost (int64_t bytes);
