/* nccl-graph.h: the machine as NCCL's search sees it, and the graphs it finds.  Private to sim/network.
 * SPDX-License-Identifier: MIT
 *
 * Rates here are GB/s in double, as NCCL's own arithmetic (float) has no need to be exact: speeds come
 * from short lists of round numbers, and differences are rounded to MB/s as NCCL does. */
#pragma once

#include "sim/network/nccl.h"

#define ZS_NCCL_MAX_GPUS     64
#define ZS_NCCL_MAX_CHANNELS 64
#define ZS_NCCL_MAX_HOPS     12

/* Environment of the job, as far as NCCL's choices depend on it; -1 or 0: not set. */
typedef struct {
  ZsVersion version;
  bool      p2p_disable;
  int       p2p_level;              /* ZsPathType; -1 */
  bool      ignore_disabled_p2p;
  bool      shm_disable, nvb_disable, pxn_disable;
  int       nvls_enable;            /* -1 automatic, 0, 1 */
  int       cross_nic;              /* 2 by default */
  int       gdr_level;              /* ZsPathType; -1 */
  bool      ib_disable;
  bool      algorithms[ZS_N_ALGORITHMS];   /* allowed by NCCL_ALGO */
  bool      protocols[ZS_N_PROTOCOLS];
  bool      protocols_set;          /* said by the user: LL128 then needs no permission */
  int       min_channels, max_channels, min_ctas, max_ctas, max_p2p_channels;
  int       threads;                /* NCCL_NTHREADS */
  int       socket_threads;         /* NCCL_SOCKET_NTHREADS; 1: the proxy's own */
  int64_t   buffer_bytes;           /* NCCL_BUFFSIZE */
  bool      runtime_connect;
} ZsNcclEnvironment;

/* Fills RET from "NAME=VALUE" strings (NULL: none).  Unknown names are passed over. */
bool zs_nccl_environment (ZsVersion version, const char *const *environment, ZsNcclEnvironment *ret,
                          GError **error);

typedef enum { ZS_NCCL_GPU, ZS_NCCL_PCI, ZS_NCCL_NVS, ZS_NCCL_CPU, ZS_NCCL_NIC, ZS_NCCL_NET,
               ZS_N_NCCL_TYPES } ZsNcclType;

typedef struct {
  int        from, to;     /* nodes */
  ZsPathType type;         /* NVLINK, C2C, PIX (PCIe), SYS, SELF (to the network) */
  int        link;         /* of the topology; -1 to the network */
  double     rate;         /* what is left while searching */
  int        back;         /* the edge of the other direction */
} ZsNcclEdge;

typedef struct {
  int        n;            /* hops; -1 no path */
  ZsPathType type;
  double     rate;
  bool       intel_root;   /* peer access through an Intel root complex: PCIe is charged 6/5 */
  int        edges[ZS_NCCL_MAX_HOPS];
} ZsNcclPath;

typedef struct {
  ZsNcclType type;
  int        part;         /* in the topology; -1 of a NET */
  int        first, n;     /* place in `order`: its edges, widest first */
  int        rank;         /* of type GPU: index in the communicator's GPUs of this node */
  int        capability;
  bool       amd, intel;   /* CPU */
  double     rate_left, latency;   /* NET */
  int        nic;
} ZsNcclNode;

/* One node of the cluster with those of its GPUs that are in the communicator. */
typedef struct {
  const ZsTopology *topology;
  const ZsNcclEnvironment *environment;
  ZsNcclNode *nodes;
  int         n_nodes;
  ZsNcclEdge *edges;
  int         n_edges;
  int        *order;
  int         gpus[ZS_NCCL_MAX_GPUS], n_gpus;   /* nodes of that type */
  int         nets[ZS_NCCL_MAX_GPUS], n_nets;
  int         cpus[ZS_NCCL_MAX_GPUS], n_cpus;
  int         nvs;                               /* node, -1 none */
  ZsNcclPath *paths;       /* n_nodes x n_nodes */
  bool       *p2p;         /* n_gpus x n_gpus: straight, not through host memory */
  double      max_rate, total_rate;
  int         min_capability, max_capability;
  bool        amd;         /* its CPUs */
} ZsNcclSystem;

/* GPUS: indices in the topology, ascending.  INTER: the communicator spans nodes, so NICs count. */
ZsNcclSystem *zs_nccl_system_new (const ZsTopology *topology, const int *gpus, int n_gpus, bool inter,
                                  const ZsNcclEnvironment *environment);
void          zs_nccl_system_free (ZsNcclSystem *system);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsNcclSystem, zs_nccl_system_free)

/* The farthest GPU whose memory a NIC reads and writes itself. */
ZsPathType    zs_nccl_direct_level (const ZsNcclSystem *system);

static inline const ZsNcclPath *
zs_nccl_path (const ZsNcclSystem *system, int from, int to)
{
  return &system->paths[from * system->n_nodes + to];
}

typedef enum { ZS_PATTERN_BALANCED_TREE = 1, ZS_PATTERN_SPLIT_TREE, ZS_PATTERN_TREE, ZS_PATTERN_RING,
               ZS_PATTERN_NVLS } ZsNcclPattern;

typedef struct {
  ZsNcclPattern pattern;
  int        min_channels, max_channels;
  int        n_channels;
  double     rate_intra, rate_inter;      /* of one channel, GB/s */
  ZsPathType type_intra, type_inter;
  bool       same_channels;
  int        cross_nic;
  double     latency_inter;               /* us */
  int        n_hops;
  bool       fallback;                    /* nothing found: rank order at 0.1 GB/s */
  int8_t     intra[ZS_NCCL_MAX_CHANNELS][ZS_NCCL_MAX_GPUS];   /* index in system->gpus */
  int8_t     inter[ZS_NCCL_MAX_CHANNELS][2];                  /* index in system->nets */
} ZsNcclGraph;

/* Fill GRAPH for its pattern, min_channels and max_channels. */
void zs_nccl_search (ZsNcclSystem *system, ZsNcclGraph *graph);
/* Ring, tree and (where possible) NVLS, with the channel counts that NCCL agrees on. */
typedef struct {
  ZsNcclGraph ring, tree, nvls;           /* nvls.n_channels 0: none */
} ZsNcclGraphs;
void zs_nccl_search_all (ZsNcclSystem *system, ZsNcclGraphs *graphs);
