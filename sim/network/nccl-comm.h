/* nccl-comm.h: what a communicator is made of.  Private to sim/network.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/network/nccl-tune.h"

/* What carries the bytes between ranks: the calibration is by these. */
typedef enum {
  ZS_CLASS_IDEAL,
  ZS_CLASS_NVSWITCH,
  ZS_CLASS_NVLINK_MESH,
  ZS_CLASS_NVLINK_BRIDGE,
  ZS_CLASS_PCIE_P2P,        /* below one switch or host bridge */
  ZS_CLASS_PCIE_P2P_SYS,    /* peer access across sockets */
  ZS_CLASS_SHM,             /* host memory, one socket */
  ZS_CLASS_SHM_SYS,         /* host memory, several sockets */
  ZS_CLASS_INFINIBAND, ZS_CLASS_ROCE, ZS_CLASS_SLINGSHOT, ZS_CLASS_EFA, ZS_CLASS_TCP,
  ZS_N_CLASSES
} ZsLinkClass;

/* Ways in which a collective uses links. */
typedef enum { ZS_SHAPE_RING, ZS_SHAPE_TREE, ZS_SHAPE_NVLS, ZS_N_SHAPES } ZsLoadShape;

typedef struct {
  ZsLoad *loads;              /* of the first node where all have one shape, else of all */
  int     n;
  double  seconds_per_byte;   /* of the link that is busiest when alone */
} ZsLoadSet;

/* GPUs of one node: nodes with the same ones share their graphs. */
typedef struct {
  int           gpus[ZS_NCCL_MAX_GPUS], n_gpus;
  ZsNcclSystem *system;
  ZsNcclGraphs  graphs;
} ZsNodeShape;

struct ZsComm {
  const ZsTopology *topology;
  ZsNcclEnvironment environment;
  int           n_ranks, n_nodes;
  int          *nodes, *shape_of;      /* n_nodes: number of the node, and its shape */
  int           root;                  /* rank 0: place among the GPUs of the first node; -1: in another node */
  ZsNodeShape  *shapes;
  int           n_shapes;
  ZsNcclGraphs  graphs;                /* least of all shapes, as NCCL agrees */
  ZsNcclEnvironment timing_environment;
  ZsNcclTuneInput input, timing_input; /* timing: with the path's rate where NCCL found no ring */
  ZsNcclGraph   timing_ring, timing_tree;
  ZsNcclTuning  tuning[ZS_N_COLLECTIVES], timing[ZS_N_COLLECTIVES];
  bool          unserved[ZS_N_COLLECTIVES];   /* NCCL_ALGO and NCCL_PROTO leave nothing for it */
  ZsLinkClass   class;
  int           generation;            /* of PCIe, where the class is PCIe or SHM */
  bool          calibrated;
  ZsLoadSet     loads[ZS_N_COLLECTIVES][ZS_N_SHAPES];
};

/* nccl-loads.c */
void zs_comm_make_loads (ZsComm *comm);
/* nccl-calibrate.c: LATENCY and TRANSFER (us, NCCL's estimate in two parts) of BYTES become the expected
 * ones. */
void zs_nccl_calibrate (const ZsComm *comm, ZsCollectiveKind kind, ZsAlgorithm algorithm, ZsProtocol protocol,
                        int64_t bytes, double *latency, double *transfer);
/* The same before the measured factors: the sustained rate of the class, and what every hop between nodes
 * costs beyond NCCL's model. */
void zs_nccl_base_time (const ZsComm *comm, ZsCollectiveKind kind, ZsAlgorithm algorithm, ZsProtocol protocol,
                        int64_t bytes, double *latency, double *transfer);
/* nccl-messages.c: messages between nodes that the busiest proxy thread sends (it receives as many beside), and the bytes
 * of each, flags and all; 0: not counted. */
double zs_nccl_messages (const ZsComm *comm, ZsCollectiveKind kind, ZsAlgorithm algorithm, ZsProtocol protocol,
                         int64_t bytes, double *ret_message);
/* What was measured of this machine, for a protocol: factor on the transfer. */
double zs_nccl_own_factor (const ZsComm *comm, ZsAlgorithm algorithm, ZsProtocol protocol);
/* Row of the measured factors that serves it; -1: none, the person gave the rate. */
int  zs_nccl_factor_row (const ZsComm *comm, ZsAlgorithm algorithm, ZsProtocol protocol);
/* Seconds per byte of all-to-all and send/recv where the class of links is slower than its links say; 0: it is not. */
double zs_nccl_pair_seconds (const ZsComm *comm, ZsCollectiveKind kind);
ZsLinkClass zs_nccl_class (const ZsComm *comm);
const char *zs_nccl_class_name (ZsLinkClass class);
