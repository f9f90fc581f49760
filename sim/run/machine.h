/* machine.h: what a run needs to know of the machine, as questions with numbers for answers.
 * SPDX-License-Identifier: MIT
 *
 * sim/run/cluster.h makes one from GPUs, hosts and a topology; tests make their own.  A machine is
 * const while runs use it, and many threads may ask it at once: `self` is not changed by asking.
 * Questions are asked once for each kind of thing (kernel, copy of one size, collective of one
 * size), never inside the loop.
 */
#pragma once

#include <stdbool.h>

#include "sim/engine/max-min.h"
#include "sim/hardware/gpu.h"
#include "sim/hardware/host.h"
#include "sim/hardware/kernel-time.h"
#include "sim/plan/instruction.h"
#include "sim/plan/kernel.h"

/* Something that moves bytes: how long it takes alone, and what it uses meanwhile.  Rates that are
 * shared are compared in bytes over its busiest resource: `bytes` counts those, and the weight of
 * that resource is ZS_SHARE_ONE. */
typedef struct {
  ZsTime  latency;       /* first: loads nothing */
  ZsTime  transfer;      /* then: alone */
  int64_t bytes;         /* over the busiest resource during `transfer` */
  GArray *shares;        /* ZsShare: added to by the answer, see zs_transfer_use () */
  int     sms;           /* collectives: SMs taken on each GPU, from its arrival to the end */
  double  gpu_memory_rate;   /* bytes/s of GPU memory traffic on each GPU during `transfer` */
  bool    first_node;        /* said by who asks: of the shares, only those of the first node matter */
} ZsTransfer;

static inline void
zs_transfer_use (ZsTransfer *transfer, int32_t resource, int32_t weight)
{
  ZsShare share = { .resource = resource, .weight = weight };

  g_array_append_val (transfer->shares, share);
}

typedef struct {
  const void *self;

  int64_t n_ranks, node_ranks;   /* node of a rank = rank / node_ranks */
  const ZsRate *capacities;      /* of the resources */
  int32_t n_resources;
  /* Not 0: all nodes are alike.  The resources of node N are this many from N x this on; what a rank
   * uses, one with the same place on another node uses there; collectives of all ranks, of groups
   * within nodes and across them load all nodes alike. */
  int32_t node_resources;
  void   (*resource_name) (const void *self, int32_t resource, char *ret_name, size_t room);

  /* ---- the GPU ---- */
  int      sm_count;
  int64_t  gpu_memory_bytes;     /* torch's total_memory */
  int64_t  context_bytes;        /* outside torch, without communicators */
  ZsRate   gpu_memory_rate;
  double   peak_flops;           /* dense, of the training dtype: for MFU; 0 unknown */
  ZsTime  (*kernel_time)   (const void *self, const ZsKernel *kernel, ZsPace pace);
  /* Of one that takes ALONE by itself, while collectives hold SMS of the SMs and MEMORY_SHARE (0 to 1) of the
   * memory rate; NULL: as alone. */
  ZsTime  (*kernel_time_beside) (const void *self, const ZsKernel *kernel, ZsTime alone, int sms,
                                 double memory_share);

  /* ---- the host ---- */
  int64_t  host_memory_bytes;    /* per node; 0 unknown */
  ZsTime  (*launch_cost) (const void *self, ZsLaunchKind launch);        /* NULL: 0 */
  ZsTime  (*host_cost)   (const void *self, ZsHostWork work);            /* NULL: 0 */
  double   host_speed;           /* of Python: divides ZS_HOST_MISC; 0: 1 */
  ZsTime   op_cost[ZS_N_OPS];    /* of an instruction itself, besides these */
  ZsTime   wake_cost;            /* from the GPU's reaching a point to the waiting host's going on
  */
  /* cudaMalloc, cudaFree, map and unmap (ACTION: ZsAllocatorAction); NULL: 0 */
  ZsTime  (*segment_cost) (const void *self, int action, int64_t bytes);
  ZsTime  (*pin_cost)     (const void *self, int64_t bytes);             /* NULL: 0 */
  /* pageable memory, COPIED: a copy from the GPU touches it first; NULL: 0 */
  ZsTime  (*fault_cost)   (const void *self, int64_t bytes, bool copied);
  ZsTime  (*return_cost)  (const void *self, int64_t bytes);             /* its free; NULL: 0 */
  int64_t  launch_depth;         /* launches that may be pending on a stream before the host is
                                    held back; 0: no bound */

  /* ---- what moves bytes.  GROUP numbers the groups of a communicator (rank / size of a group;
   * ACROSS: place in the group). ---- */
  void    (*collective) (const void *self, ZsCommunicator communicator, int64_t group,
                         ZsCollectiveKind kind, int64_t bytes, ZsTransfer *transfer);
  void    (*copy)       (const void *self, int64_t rank, ZsCopyKind kind, int64_t bytes,
                         bool pinned, ZsTransfer *transfer);
  void    (*cpu_task)   (const void *self, int64_t rank, ZsCpuTask task, int64_t elements,
                         ZsTransfer *transfer);
  void    (*nvme)       (const void *self, int64_t rank, ZsNvmeKind kind, int64_t bytes,
                         ZsTransfer *transfer);
  /* GPU memory of a communicator, outside torch, once the collectives in KINDS (bits) were used. */
  int64_t (*communicator_bytes) (const void *self, ZsCommunicator communicator, int64_t group,
                                 unsigned int kinds, bool first);        /* NULL: 0 */
} ZsMachine;
