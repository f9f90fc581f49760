/* nccl-tune.h: NCCL's own estimate of a collective, and the choice that follows from it.  Private to
 * sim/network.
 * SPDX-License-Identifier: MIT
 *
 * Exact for the versions whose tables are in nccl-tables.c: the same numbers as NCCL's
 * NCCL_DEBUG_SUBSYS=TUNING prints, within the rounding of its floats. */
#pragma once

#include "sim/network/nccl-graph.h"

typedef struct {
  const ZsNcclEnvironment *environment;
  int    n_ranks, n_nodes;
  int    min_capability, max_capability;
  bool   amd;                    /* CPUs: AMD or mixed */
  bool   x86;
  bool   average;                /* no NVLS for averages */
  double net_latency;            /* us, as the plug-in says; of the graphs */
  const ZsNcclGraph *ring, *tree, *nvls;   /* nvls NULL or without channels: none */
  bool   nvls_multi;             /* NVLS across nodes possible: NVLSTree */
} ZsNcclTuneInput;

typedef struct {
  double rate[ZS_N_ALGORITHMS][ZS_N_PROTOCOLS];      /* algorithm bandwidth, GB/s; 0: not available */
  double latency[ZS_N_ALGORITHMS][ZS_N_PROTOCOLS];   /* us */
} ZsNcclTuning;   /* of one kind of collective */

void zs_nccl_tune (const ZsNcclTuneInput *input, ZsCollectiveKind kind, ZsNcclTuning *ret_tuning);
/* us; < 0: not available */
double zs_nccl_time (const ZsNcclTuneInput *input, const ZsNcclTuning *tuning, ZsCollectiveKind kind,
                     ZsAlgorithm algorithm, ZsProtocol protocol, int64_t bytes);
/* The pair with the least time; false if there is none (one rank). */
bool zs_nccl_choose (const ZsNcclTuneInput *input, const ZsNcclTuning *tuning, ZsCollectiveKind kind,
                     int64_t bytes, ZsAlgorithm *ret_algorithm, ZsProtocol *ret_protocol,
                     double *ret_time);
/* Thread blocks and threads of the kernel. */
void zs_nccl_launch (const ZsNcclTuneInput *input, ZsAlgorithm algorithm, ZsProtocol protocol,
                     int64_t bytes, int *ret_channels, int *ret_threads);
/* Channels that the communicator sets up for rings and trees. */
int  zs_nccl_compute_channels (const ZsNcclTuneInput *input);

/* ---- nccl-tables.c ---- */
enum { ZS_HW_NVLINK, ZS_HW_PCI, ZS_HW_NET, ZS_N_HW };
typedef struct {
  double base[ZS_N_ALGORITHMS][ZS_N_PROTOCOLS];
  double hop[ZS_N_HW][ZS_N_ALGORITHMS][ZS_N_PROTOCOLS];
  /* by compute capability: Volta, Ampere, Hopper, Blackwell; by nodes: 1, 2, more */
  double ll_max[4][3];
  double ring_ll128[4][3], tree_ll128[4][3], tree[4][3], nvls_tree[4][3];
  double nvls_efficiency[4];
} ZsNcclTables;
void zs_nccl_tables (ZsVersion version, ZsNcclTables *ret_tables);
/* Of the tree's bandwidth by log2 (bytes / 64). */
extern const double ZS_NCCL_TREE_CORRECTION[ZS_N_PROTOCOLS][24];
