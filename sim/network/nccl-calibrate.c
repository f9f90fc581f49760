/* nccl-calibrate.c: from NCCL's own estimate to the time that machines take, by class of link.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/network/nccl-comm.h"

#include <math.h>

const char *
zs_nccl_class_name (ZsLinkClass class)
{
  static const char *const NAMES[] = {
    "ideal", "NVSwitch", "NVLink mesh", "NVLink bridge", "PCIe peer access", "PCIe peer access across sockets",
    "host memory", "host memory across sockets", "InfiniBand", "RoCE", "EFA", "TCP",
  };
  return NAMES[class];
}

ZsLinkClass
zs_nccl_class (const ZsComm *comm)
{
  const ZsNcclGraph *ring = &comm->graphs.ring;
  const ZsNcclSystem *system = comm->shapes[0].system;
  bool p2p = true, linked = ring->type_intra <= ZS_PATH_NVB;

  if (comm->n_nodes > 1) {
    static const ZsLinkClass CLASSES[] = { ZS_CLASS_INFINIBAND, ZS_CLASS_ROCE, ZS_CLASS_EFA, ZS_CLASS_TCP };

    return CLASSES[comm->topology->network.kind];
  }
  if (linked && system->nvs >= 0)
    return ZS_CLASS_NVSWITCH;
  if (linked)
    return system->n_gpus > 2 ? ZS_CLASS_NVLINK_MESH : ZS_CLASS_NVLINK_BRIDGE;
  for (int c = 0; c < ring->n_channels; c++)
    for (int i = 0; i < system->n_gpus; i++) {
      int a = ring->intra[c][i], b = ring->intra[c][(i + 1) % system->n_gpus];

      p2p &= system->p2p[a * system->n_gpus + b];
    }
  if (p2p)
    return ring->type_intra >= ZS_PATH_SYS ? ZS_CLASS_PCIE_P2P_SYS : ZS_CLASS_PCIE_P2P;
  return ring->type_intra >= ZS_PATH_SYS ? ZS_CLASS_SHM_SYS : ZS_CLASS_SHM;
}

void
zs_nccl_calibrate (const ZsComm *comm, ZsCollectiveKind kind, ZsAlgorithm algorithm, ZsProtocol protocol,
                   int64_t bytes, double *latency, double *transfer)
{
  (void) comm;
  (void) kind;
  (void) algorithm;
  (void) protocol;
  (void) bytes;
  (void) latency;
  (void) transfer;
}

double
zs_comm_expected_error (const ZsComm *comm)
{
  (void) comm;
  return 0.15;
}
