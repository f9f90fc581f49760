/* host-cost.c: what the host spends on Python, launches and the driver's memory.  SPDX-License-Identifier: MIT
 *
 * Reference host (speed 1): 16-core Xeon virtual machine, Python 3.12, torch 2.11, transformers 5.17.
 * Its threads are in one of two states for seconds at a time, each in its own: a loop of Python takes 101
 * or 185 ms, a plain forward of 16 layers 14 or 26 ms, its backward 21 or 36 (tests/data/host-speed), as cores
 * do whose other hyperthread works for somebody else.  So the same DeepSpeed stage-3 forward took 72 to 131 ms
 * on three machines.  The table lies between: plain layers at 1.4 to 1.75 times the fast state (0.8 ms per layer
 * forward, 41 launches, 13 modules; 1.3 backward, 76 launches), stage 3 at 1.28 times the fastest run known,
 * where the error is least both ways, FSDP2 at 1.2.  A host-bound time can be off by a factor of 1.6.
 * The proportions of its rows come from one machine (operators called in a loop, pieces of a layer, whole
 * steps at 2, 8 and 16 layers) and from differences between plain, ZeRO-2, ZeRO-3 and FSDP2 steps of equal
 * shape (16 and 32 layers).
 */
#include "config.h"

#include "sim/hardware/kernel-time.h"

/* Called in a loop: without autograd 7.4-10.2 us, with 8.4-13.5, F.linear 15.7-21; in backward a node
 * of one kernel 11-22 us, one of two products 44; whole steps need 19 to 30 per launch in
 * backward.  Triton kernels in autograd functions of Python, on a machine 1.3 times as fast as this table
 * (tests/data/liger): norm, rotary embedding and SwiGLU 42, 45 and 31 us, without autograd 39, 33 and 30, in
 * backward 107, 183 and 107 in a loop; in steps half as much again, as others. */
static const ZsTime LAUNCH_COSTS[ZS_N_LAUNCHES] = {
  [ZS_LAUNCH_EAGER]    = 11 * ZS_MICROSECOND,
  [ZS_LAUNCH_NO_GRAD]  = 17 * ZS_MICROSECOND / 2,
  [ZS_LAUNCH_LINEAR]   = 17 * ZS_MICROSECOND,
  [ZS_LAUNCH_AUTOGRAD] = 24 * ZS_MICROSECOND,
  [ZS_LAUNCH_FUNCTION] = 51 * ZS_MICROSECOND,
  [ZS_LAUNCH_FUNCTION_NO_GRAD] = 44 * ZS_MICROSECOND,
  [ZS_LAUNCH_FUNCTION_BACK] = 160 * ZS_MICROSECOND,
  [ZS_LAUNCH_INNER]    = 5 * ZS_MICROSECOND,
};

/* Bodies: what is left of a layer's forward when its 41 launches and 13 calls are taken away.  Pieces
 * called in a loop on one machine: norm 118 us, MLP 157, attention 650, layer 1420; nn.Identity 1.3,
 * nn.Linear 3.5 above F.linear.
 *
 * Stage 3, by differences to plain steps: 335 us per module call in forward (16 and 32 layers), 280
 * in backward besides 150 per gradient; divided by what each part does: a hook enters Python and makes
 * autograd functions of its module's inputs or outputs; fetch and release walk sets of parameters; each
 * gathered parameter is split, allocated and handed to a collective.
 * DeepSpeed's step: 1.3 ms fixed (ZeRO-2 steps whose kernels take 0.2 to 3.3 ms took 2.1 to 5).
 * Stage 2: 75 per gradient hook besides its launches (host-bound steps of 4 and 22 layers).
 * FSDP2: 1.35 ms per unit forward (16, 32 layers; 2, 8, 16 on one machine), 1.9 backward, of which the
 * reduction takes the gradients one by one; in the fast state 1.15 and 1.4 with 1 to 32 layers alike.
 * Steps less their kernels, on a machine 1.2 times as fast as this table (h200-steps): fused AdamW 0.25 ms
 * + 8 us per tensor (21 to 338 of them), on DTensors 2 ms + 14 us; zero_grad 2 us per tensor.  Clipping in a loop, in the fast state: 0.13 ms + 3.8 us per tensor, of FSDP2's
 * 0.7 ms + 13 us; in a step, with cold caches, 2.5 ms for 146 tensors, 10 us for each further kernel of a list.
 * Forwards that the GPU bounds end 2.4 ms after the sum of their kernels, one of two layers is issued in
 * 4.1 ms: 1.5 ms pass before the layers; backwards end 1.4 ms after.
 * Checkpointing without reentrance adds 0.59 ms to a layer's forward in the fast state: some 45 saved
 * tensors pass a hook of Python, and the state of the random generators is kept; the recomputation 1.7 ms to
 * its backward; with reentrance 0.1 and 1.2 ms. */
static const ZsTime HOST_WORK_COSTS[ZS_N_HOST_WORKS] = {
  [ZS_HOST_MODULE_CALL]       = 6 * ZS_MICROSECOND,
  [ZS_HOST_LAYER_BODY]        = 190 * ZS_MICROSECOND,
  [ZS_HOST_ATTENTION_BODY]    = 435 * ZS_MICROSECOND,
  [ZS_HOST_NORM_BODY]         = 30 * ZS_MICROSECOND,
  [ZS_HOST_LORA_BODY]         = 30 * ZS_MICROSECOND,
  [ZS_HOST_HOOK]              = 62 * ZS_MICROSECOND,
  [ZS_HOST_FETCH]             = 67 * ZS_MICROSECOND,
  [ZS_HOST_FETCH_PARAMETER]   = 107 * ZS_MICROSECOND,
  [ZS_HOST_RELEASE]           = 36 * ZS_MICROSECOND,
  [ZS_HOST_RELEASE_PARAMETER] = 22 * ZS_MICROSECOND,
  [ZS_HOST_RECORD_TRACE]      = 20 * ZS_MICROSECOND,
  [ZS_HOST_GRADIENT_HOOK]     = 75 * ZS_MICROSECOND,
  [ZS_HOST_BUCKET_FLUSH]      = 150 * ZS_MICROSECOND,
  [ZS_HOST_STEP_PARAMETER]    = 9 * ZS_MICROSECOND,
  [ZS_HOST_LIST_LAUNCH]       = 29 * ZS_MICROSECOND / 2,
  [ZS_HOST_STEP_FIXED]        = 300 * ZS_MICROSECOND,
  [ZS_HOST_ENGINE_STEP]       = 1300 * ZS_MICROSECOND,
  [ZS_HOST_NORM_PARAMETER]    = 35 * ZS_MICROSECOND,
  [ZS_HOST_CLIP_PARAMETER]    = 8 * ZS_MICROSECOND,
  [ZS_HOST_CLIP_FIXED]        = 200 * ZS_MICROSECOND,
  [ZS_HOST_SHARDED_CLIP_PARAMETER] = 11 * ZS_MICROSECOND,
  [ZS_HOST_SHARDED_CLIP_FIXED] = 800 * ZS_MICROSECOND,
  [ZS_HOST_DTENSOR]           = 8 * ZS_MICROSECOND,
  [ZS_HOST_DTENSOR_FIXED]     = 2000 * ZS_MICROSECOND,
  [ZS_HOST_FSDP_HOOK]         = 520 * ZS_MICROSECOND,
  [ZS_HOST_FSDP_GRADIENT]     = 60 * ZS_MICROSECOND,
  [ZS_HOST_CHECKPOINT]        = 150 * ZS_MICROSECOND,
  [ZS_HOST_SAVED_TENSOR]      = 15 * ZS_MICROSECOND,
  [ZS_HOST_AUTOGRAD_NODE]     = 2 * ZS_MICROSECOND,
  [ZS_HOST_MODEL_BODY]        = 1500 * ZS_MICROSECOND,
  [ZS_HOST_BACKWARD_START]    = 1000 * ZS_MICROSECOND,
  [ZS_HOST_ZERO_GRADIENT]     = 3 * ZS_MICROSECOND,
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
