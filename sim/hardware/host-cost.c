/* host-cost.c: what the host spends, and CPU tasks of offload.  SPDX-License-Identifier: MIT
 *
 * Reference host (speed 1): 16-core Xeon virtual machine, Python 3.12, torch 2.11, transformers 5.17.
 * Plain eager LLaMA steps bound by the host took 1.55-1.75 ms per decoder layer forward (41
 * launches, 13 modules) and 1.65 ms backward (98 launches) there; the operations alone, called in a
 * loop, 7.4 us (add in place, no autograd), 8.4 us (with allocation), 15.7 us (F.linear with
 * autograd).  What is left of a layer's forward is Python around its modules.
 * The same DeepSpeed stage-3 forward took 72 to 143 ms on several such machines: the spread of this
 * table is a factor of two.
 */
#include "config.h"

#include "sim/hardware/kernel-time.h"

static const ZsTime LAUNCH_COSTS[ZS_N_LAUNCHES] = {
  [ZS_LAUNCH_EAGER]    = 13 * ZS_MICROSECOND,
  [ZS_LAUNCH_NO_GRAD]  = 8 * ZS_MICROSECOND,
  [ZS_LAUNCH_LINEAR]   = 16 * ZS_MICROSECOND,
  [ZS_LAUNCH_AUTOGRAD] = 15 * ZS_MICROSECOND,
  [ZS_LAUNCH_INNER]    = 5 * ZS_MICROSECOND,
};

/* Differences between stage-3, stage-2 and plain steps of the same shape give 211 us per module call
 * of stage 3 in forward; here divided over hook, fetch and release. */
static const ZsTime HOST_WORK_COSTS[ZS_N_HOST_WORKS] = {
  [ZS_HOST_MODULE_CALL]       = 70 * ZS_MICROSECOND,
  [ZS_HOST_HOOK]              = 15 * ZS_MICROSECOND,
  [ZS_HOST_FETCH]             = 60 * ZS_MICROSECOND,
  [ZS_HOST_FETCH_PARAMETER]   = 60 * ZS_MICROSECOND,
  [ZS_HOST_RELEASE]           = 25 * ZS_MICROSECOND,
  [ZS_HOST_RELEASE_PARAMETER] = 15 * ZS_MICROSECOND,
  [ZS_HOST_RECORD_TRACE]      = 20 * ZS_MICROSECOND,
  [ZS_HOST_GRADIENT_HOOK]     = 20 * ZS_MICROSECOND,
  [ZS_HOST_BUCKET_FLUSH]      = 60 * ZS_MICROSECOND,
  [ZS_HOST_STEP_PARAMETER]    = 12 * ZS_MICROSECOND,
  [ZS_HOST_STEP_FIXED]        = 500 * ZS_MICROSECOND,
  [ZS_HOST_FSDP_HOOK]         = 150 * ZS_MICROSECOND,
  [ZS_HOST_AUTOGRAD_NODE]     = 2 * ZS_MICROSECOND,
  [ZS_HOST_MISC]              = 1,
};

static ZsTime
at_speed (const ZsHost *host, ZsTime cost)
{
  return host->speed > 0 && host->speed != 1.0 ? (ZsTime) ((double) cost / host->speed) : cost;
}

ZsTime
zs_launch_cost (const ZsHost *host, ZsLaunchKind launch)
{
  return at_speed (host, LAUNCH_COSTS[launch]);
}

ZsTime
zs_host_work_cost (const ZsHost *host, ZsHostWork work)
{
  return at_speed (host, HOST_WORK_COSTS[work]);
}

/* Bytes of memory traffic per element, and elements per second of one thread where that binds.
 * DeepSpeedCPUAdam reads p, g, m, v and writes p, m, v: 28 bytes (csrc/includes/cpu_adam.h); one
 * thread did 0.74e9 parameters per second, two 1.28e9, four 2.5e9, 16 4.46e9 on the reference host
 * (1e8 parameters; the first two at 3e7).  torch's foreach Adam makes some ten passes: 1.07e9 with
 * 16 threads.  Copies and casts: fp32 to bf16 1.0e9 elements per second and thread (6.45 GB/s copied),
 * 4.5-4.8 GB/s per thread for memcpy. */
typedef struct {
  double bytes;          /* per element */
  double thread_rate;    /* elements per second of one thread */
} CpuTaskRate;

static const CpuTaskRate CPU_TASK_RATES[ZS_N_CPU_TASKS] = {
  [ZS_CPU_ADAM]       = { 28, 0.74e9 },
  [ZS_CPU_ADAM_TORCH] = { 90, 0.12e9 },
  [ZS_CPU_SCALE]      = { 8, 2.0e9 },
  [ZS_CPU_CAST]       = { 6, 1.0e9 },
  [ZS_CPU_COPY]       = { 2, 4.6e9 },
  [ZS_CPU_ZERO]       = { 1, 8.0e9 },
};

ZsTime
zs_cpu_task_time (const ZsHost *host, ZsCpuTask task, int64_t elements, int threads,
                  int64_t *ret_traffic_bytes)
{
  const CpuTaskRate *rate = &CPU_TASK_RATES[task];
  double traffic = rate->bytes * (double) elements;
  /* threads scale a little less than linearly: 0.74, 1.28, 2.5 on 1, 2, 4 */
  double compute = (double) elements / (rate->thread_rate * MAX (threads, 1) * (threads > 1 ? 0.86 : 1));
  double memory = host->memory_rate > 0 ? traffic / (double) host->memory_rate : 0;

  *ret_traffic_bytes = (int64_t) traffic;
  return zs_time_from_seconds (MAX (compute, memory));
}

/* Medians on an idle H200, CUDA 13: 45 us up to 256 MiB and about 75 us per GiB beyond; free 42 us
 * and 390 us per GiB; mapping expandable segments 6.5 ms per GiB; pinning 0.43 s per GiB. */
#define GIB 1073741824.0

ZsTime
zs_gpu_malloc_cost (int64_t bytes)
{
  return 42 * ZS_MICROSECOND + (ZsTime) ((double) bytes / GIB * 75e6);
}

ZsTime
zs_gpu_free_cost (int64_t bytes)
{
  return 35 * ZS_MICROSECOND + (ZsTime) ((double) bytes / GIB * 390e6);
}

ZsTime
zs_gpu_map_cost (int64_t bytes)
{
  return 120 * ZS_MICROSECOND + (ZsTime) ((double) bytes / GIB * 6.5e9);
}

ZsTime
zs_host_pin_cost (int64_t bytes)
{
  return 500 * ZS_MICROSECOND + (ZsTime) ((double) bytes / GIB * 0.43e12);
}
