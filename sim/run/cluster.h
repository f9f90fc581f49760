/* cluster.h: a machine (machine.h) from GPUs, hosts and the links between them.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/network/nccl.h"
#include "sim/run/machine.h"

typedef struct ZsCluster ZsCluster;

typedef struct {
  const ZsGpu      *gpu;
  const ZsHost     *host;
  const ZsTopology *topology;        /* of a node, and how many nodes; all its GPUs are used */
  ZsNcclConfig      nccl;
  int64_t           n_ranks;         /* 0: all GPUs.  Ranks fill nodes one after another */
  int64_t           gpu_memory_bytes;   /* torch's total_memory; 0: the GPU's typical */
  int64_t           group_ranks;     /* of ZS_COMMUNICATOR_GROUP; 0: not used */
  bool              fp32;            /* training in fp32: whose peak MFU is a fraction of */
  bool              fp16;
  double            kernel_speed;    /* of this machine's kernels against the model; 0: 1 */
} ZsClusterSpec;

/* Borrows what SPEC points to.  Fails where a communicator cannot be made (NCCL's environment). */
ZsCluster *zs_cluster_new  (const ZsClusterSpec *spec, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void       zs_cluster_free (ZsCluster *cluster);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsCluster, zs_cluster_free)

/* Lives as long as the cluster; const: threads may share it. */
const ZsMachine *zs_cluster_machine (const ZsCluster *cluster);
/* The communicator of GROUP, to describe it; NULL: not used. */
const ZsComm    *zs_cluster_comm (const ZsCluster *cluster, ZsCommunicator communicator,
                                  int64_t group);
