/* cpu-time.c: what CPU cores do to large buffers: the tasks of offload, and pages touched for the first time.
 * SPDX-License-Identifier: MIT
 *
 * Measured on hosts of H200s: virtual machines of 16 cores, 300 MiB of third-level cache, pages of 4 KiB
 * (transparent huge pages on request only), torch 2.11.  Buffers of 1e8 to 8e8 elements, which no cache holds;
 * those that fit into the cache take a third.  tests/data/offload has the rows of one such machine; another one,
 * whose cores were shared at that moment, took 1.4 times as long for casts and 2.2 times for products.
 * Updates of whole partitions (product, Adam, cast) of 1.5e8 to 2.8e8 elements, less Python, took 0.37 to 0.40 ns
 * per element on five machines; these rates make 0.395.  Product and Adam alone: 0.23 to 0.32 on six, here 0.31.
 *
 * What is multiplied matters where it underflows: on gradients of 3e-23 to 5e-19, whose squares are no normal
 * numbers, Adam takes 2.5 times as long if a quarter of them are such (tests/data/offload).  No healthy training
 * has them, so they are left out; DeepSpeed runs of a tied 1B with the other ranks' shards overwritten did.
 */
#include "config.h"

#include <math.h>

#include "sim/hardware/kernel-time.h"

/* Bytes of memory traffic per element, elements per second of one thread, and the fraction of the host's memory
 * rate (125 GB/s here, by CPU Adam) that any number of threads stays below.  In ns per element:
 *
 *   threads                     1      2      4      8         16
 *   DeepSpeedCPUAdam (a)        1.35   0.78   0.40   0.25      0.22, 0.235
 *   torch's foreach Adam                                       0.93
 *   fp32 x number, in place     0.49          0.148  0.095     0.14, 0.063
 *   fp32 += fp32                0.78                           0.112
 *   2-norm of fp32 (f)          0.35                           0.44
 *   fp32 -> bf16                0.79, 0.62 0.34  0.20-0.23  0.145  0.08, 0.117
 *   bf16 -> fp32, just copied                                  0.12-0.19 (b)
 *   isinf and isnan, any        4.9                            0.40-0.44 (c)
 *   memcpy, per byte            0.22   0.10   0.060  0.047     0.027
 *
 *   fill of fresh pages, byte   0.44 (e)                       0.048 (d)
 *
 * (a) csrc/includes/cpu_adam.h: reads p, g, m, v and writes p, m, v; torch's fused one is as fast; a pinned
 *     master makes no difference.
 * (b) 0.6e6 to 6e6 elements that the driver's thread has written to a pageable temporary: they lie in that
 *     core's cache, from where the others fetch them.  Touched by the same threads before it takes 0.02.
 * (c) of fp32, without the pages of their temporaries; taken for 16 bit too.
 * (d) of which the pages take 0.022, by 16 threads together (see below).
 * (e) of which the pages take 0.35.
 * (f) one thread however many there are (ATen/native/cpu/ReduceOpsKernel.cpp, a whole contiguous tensor).
 *
 * Both bounds act, as the root of the sum of squares: that meets the lower figure of each column within 20 %. */
typedef struct {
  double bytes;          /* per element */
  double thread_rate;    /* elements per second of one thread */
  double fraction;       /* of the memory rate */
} CpuTaskRate;

static const CpuTaskRate CPU_TASK_RATES[ZS_N_CPU_TASKS] = {
  [ZS_CPU_ADAM]       = { 28, 0.74e9, 1.0 },
  [ZS_CPU_ADAM_TORCH] = { 90, 0.18e9, 0.83 },
  [ZS_CPU_SCALE]      = { 8, 2.1e9, 1.0 },
  [ZS_CPU_ADD]        = { 12, 1.3e9, 1.0 },
  [ZS_CPU_NORM]       = { 4, 2.5e9, 1.0 },
  [ZS_CPU_CAST]       = { 6, 1.3e9, 0.68 },
  [ZS_CPU_WIDEN]      = { 6, 2.0e9, 0.26 },
  [ZS_CPU_CHECK]      = { 32, 0.2e9, 1.0 },
  [ZS_CPU_COPY]       = { 2, 4.6e9, 0.68 },
  [ZS_CPU_ZERO]       = { 1, 8.0e9, 0.34 },
};

/* at::parallel_for () gives a thread no less than this (ATen/Parallel.h, GRAIN_SIZE). */
#define GRAIN       32768
/* From the end of the copy to the conversion by threads that have fallen asleep meanwhile: blocking copies of
 * 0.13e6 to 3e6 elements in autograd's thread took 0.13 ms more than their length explains (tests/data/offload),
 * 0.25 with Python around them on another machine; those of 512 elements 0.04 and 0.1. */
#define TEAM_START  (130 * ZS_MICROSECOND)

ZsTime
zs_cpu_task_time (const ZsHost *host, ZsCpuTask task, int64_t elements, int threads,
                  int64_t *ret_traffic_bytes)
{
  const CpuTaskRate *rate = &CPU_TASK_RATES[task];
  int64_t n_threads = task == ZS_CPU_NORM ? 1 : CLAMP ((elements + GRAIN - 1) / GRAIN, 1, MAX (threads, 1));
  /* as much of the memory's time as this many bytes at full rate */
  double traffic = rate->bytes * (double) elements / rate->fraction;
  ZsRate sustained = host->pass_rate > 0 ? host->pass_rate : host->memory_rate;
  double compute = (double) elements / (rate->thread_rate * (double) n_threads);
  double memory = sustained > 0 ? traffic / (double) sustained : 0;

  *ret_traffic_bytes = (int64_t) traffic;
  return zs_time_from_seconds (sqrt (compute * compute + memory * memory))
         + (task == ZS_CPU_WIDEN && n_threads > 1 ? TEAM_START : 0);
}

/* glibc takes blocks above M_MMAP_THRESHOLD from the kernel each time, and their pages are cleared at the first
 * touch.  The threshold grows to the largest block freed so far, up to 32 MiB (mallopt (3)): smaller temporaries
 * keep their pages from their second turn on, as measured (tests/data/offload, page faults). */
#define MMAP_THRESHOLD (INT64_C (32) << 20)
/* ps per byte.  One thread of ours takes 1.4 us for a page of 4 KiB, 16 together 0.1 us; giving them back takes
 * 0.2 to 0.3 us a page, always one thread.  The driver's copy into fresh pages takes 2.2 us a page. */
#define TOUCH_COST  350.0
#define RETURN_COST 70.0
#define COPIED_COST 530.0

ZsTime
zs_host_fault_cost (int64_t bytes, int threads, bool copied)
{
  double cost = copied ? COPIED_COST : TOUCH_COST / MAX (threads, 1);

  return bytes < MMAP_THRESHOLD ? 0 : (ZsTime) ((double) bytes * cost);
}

ZsTime
zs_host_return_cost (int64_t bytes)
{
  return bytes < MMAP_THRESHOLD ? 0 : (ZsTime) ((double) bytes * RETURN_COST);
}
