/* nccl.h: what NCCL does with a collective on a group of ranks: algorithm, protocol, channels, time,
 * the links it loads, the GPU memory it holds.
 * SPDX-License-Identifier: MIT
 *
 * Three layers.  (1) The graphs and the choice are rebuilt as NCCL builds them (nccl-paths,
 * nccl-search, nccl-tune: exact, NCCL 2.18 to 2.30).  (2) The time is NCCL's own estimate corrected by
 * measured factors for the class of link (nccl-calibrate: calibrated, with source and error).
 * (3) The run shares links: an activity runs alone in latency + transfer, and loads each link with
 * bytes * weight / ZS_LOAD_ONE over `transfer`.
 *
 * A communicator is const once built, apart from nothing: threads may share it.
 */
#pragma once

#include "sim/network/topology.h"

typedef enum {
  ZS_ALGORITHM_TREE, ZS_ALGORITHM_RING, ZS_ALGORITHM_COLLNET_DIRECT, ZS_ALGORITHM_COLLNET_CHAIN,
  ZS_ALGORITHM_NVLS, ZS_ALGORITHM_NVLS_TREE, ZS_ALGORITHM_PAT, ZS_N_ALGORITHMS,
  ZS_ALGORITHM_P2P = ZS_N_ALGORITHMS,   /* all-to-all, send/recv */
  ZS_ALGORITHM_NONE                     /* one rank, or an ideal fabric */
} ZsAlgorithm;   /* in the order in which NCCL breaks ties */

typedef enum {
  ZS_PROTOCOL_LL, ZS_PROTOCOL_LL128, ZS_PROTOCOL_SIMPLE, ZS_N_PROTOCOLS
} ZsProtocol;

const char *zs_algorithm_name (ZsAlgorithm algorithm);   /* "ring", "nvls-tree" */
const char *zs_protocol_name (ZsProtocol protocol);      /* "ll128" */

typedef struct {
  ZsVersion   version;         /* 0: the newest known */
  const char *const *environment;   /* "NCCL_ALGO=Ring" ..., NULL at the end; NULL: nothing set */
  bool        average;         /* reductions are ncclAvg: no NVLS */
  bool        no_calibration;  /* NCCL's own estimate as the time */
} ZsNcclConfig;

typedef struct ZsComm ZsComm;

/* RANKS are numbers in the whole job: node = rank / GPUs per node.  Copies what it needs of CONFIG;
 * TOPOLOGY must outlive it.  Fails on an environment variable with an impossible value. */
ZsComm *zs_comm_new  (const ZsTopology *topology, const int64_t *ranks, int n_ranks,
                      const ZsNcclConfig *config, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void    zs_comm_free (ZsComm *comm);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsComm, zs_comm_free)

typedef struct {
  ZsAlgorithm algorithm;
  ZsProtocol  protocol;
  int         channels;      /* thread blocks: each takes one SM while it runs */
  int         threads;       /* per block */
  ZsTime      latency;       /* fixed part of the time alone */
  ZsTime      transfer;      /* the rest, alone; stretched when its links are shared */
  ZsTime      model_time;    /* NCCL's own estimate, uncorrected */
  /* Borrowed from the communicator.  N_NODES > 0: its nodes are alike, and LOADS are those of the first
   * of NODES, whose like is on each of the others.  0: those of all nodes, node x links of a node + link. */
  const ZsLoad *loads;
  int         n_loads;
  const int  *nodes;
  int         n_nodes;
} ZsChoice;

/* BYTES: the whole message as NCCL counts (all-gather, reduce-scatter, all-to-all: n x per rank). */
void zs_comm_choose (const ZsComm *comm, ZsCollectiveKind kind, int64_t bytes, ZsChoice *ret_choice);

/* False: NCCL_ALGO and NCCL_PROTO leave no algorithm for KIND, and it is timed as if they were not set. */
bool zs_comm_obeys (const ZsComm *comm, ZsCollectiveKind kind);

/* GPU memory that the communicator holds on each GPU: 0 before its first collective; with the
 * collectives in KINDS (bits, 1 << ZsCollectiveKind) used.  FIRST: the first communicator of the
 * process, which also pays the kernels' fixed part. */
int64_t zs_comm_gpu_bytes (const ZsComm *comm, unsigned int kinds, bool first);
/* Relative error to expect of large messages (>= 1 MiB) on this class of links: 0.12 = 12 %. */
double  zs_comm_expected_error (const ZsComm *comm);
/* What NCCL found, for people: "ring 12 x 20 GB/s NVL". Free with g_free. */
char   *zs_comm_describe (const ZsComm *comm);

/* ---- library side of `zerosim collective` ---- */
typedef struct {
  int64_t     bytes;
  ZsTime      time;
  ZsTime      model_time;
  ZsAlgorithm algorithm;
  ZsProtocol  protocol;
  int         channels;
  double      algbw, busbw;   /* GB/s, as nccl-tests defines them */
} ZsCollectiveRow;
/* One row per size. */
void zs_collective_rows (const ZsComm *comm, ZsCollectiveKind kind, const int64_t *sizes, int n_sizes,
                         ZsCollectiveRow *ret_rows);
/* Bus bandwidth / algorithm bandwidth (nccl-tests, PERFORMANCE.md). */
double zs_collective_bus_factor (ZsCollectiveKind kind, int n_ranks);
/* "all_gather" as nccl-tests and --json write it; and back (false: unknown). */
const char *zs_collective_name (ZsCollectiveKind kind);
bool        zs_collective_from_name (const char *name, ZsCollectiveKind *ret_kind);
