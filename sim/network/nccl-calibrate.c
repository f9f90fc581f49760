/* nccl-calibrate.c: from NCCL's own estimate to the time that machines take, by class of link.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/network/nccl-comm.h"
#include "sim/network/topology-build.h"

#include <math.h>

#include "sim/network/nccl-factors.h"

const char *
zs_nccl_class_name (ZsLinkClass class)
{
  static const char *const NAMES[] = {
    "ideal", "NVSwitch", "NVLink mesh", "NVLink bridge", "PCIe peer access", "PCIe peer access across sockets",
    "host memory", "host memory across sockets", "InfiniBand", "RoCE", "Slingshot", "EFA", "TCP",
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
    static const ZsLinkClass CLASSES[] = { ZS_CLASS_INFINIBAND, ZS_CLASS_ROCE, ZS_CLASS_SLINGSHOT, ZS_CLASS_EFA,
                                           ZS_CLASS_TCP };

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

/* Share of the message that crosses each link of a ring. */
static double
ring_share (ZsCollectiveKind kind, int n)
{
  switch (kind) {
  case ZS_COLLECTIVE_ALL_REDUCE:
    return 2.0 * (n - 1) / n;
  case ZS_COLLECTIVE_ALL_GATHER:
  case ZS_COLLECTIVE_REDUCE_SCATTER:
    return (n - 1.0) / n;
  default:
    return 1;
  }
}

/* Are rings of this class limited by PCIe and host memory as the links' capacities say, whatever NCCL's
 * graph believes? */
static bool
is_by_links (const ZsComm *comm)
{
  return comm->class >= ZS_CLASS_PCIE_P2P && comm->class <= ZS_CLASS_SHM_SYS;
}

/* Sustained bus rate, GB/s, where the links alone do not say it; 0: they do. */
static double
class_rate (const ZsComm *comm)
{
  /* peer access between sockets.  Gen 4: A100 pair across xGMI 14.5, 8 RTX 4090 across xGMI 20.6, their
   * geometric mean; gen 3 and 5 scaled by the links' own rates */
  static const double SYS_RATES[] = { 8.5, 17.3, 38 };

  if ((comm->class == ZS_CLASS_SHM || comm->class == ZS_CLASS_SHM_SYS) && comm->topology->shm_rate > 0)
    return (double) comm->topology->shm_rate / 1e9;
  return comm->class == ZS_CLASS_PCIE_P2P_SYS ? SYS_RATES[CLAMP (comm->generation, 3, 5) - 3] : 0;
}

double
zs_nccl_pair_seconds (const ZsComm *comm, ZsCollectiveKind kind)
{
  double rate = is_by_links (comm) ? class_rate (comm) : 0;

  return rate > 0 ? (kind == ZS_COLLECTIVE_ALL_TO_ALL ? (comm->n_ranks - 1.0) / comm->n_ranks : 1) / (rate * 1e9) : 0;
}

/* Hops between nodes that one byte takes after the other, as in NCCL's model. */
static int
net_hops (const ZsComm *comm, ZsCollectiveKind kind, ZsAlgorithm algorithm)
{
  int depth = (int) floor (log2 (comm->n_nodes));

  if (algorithm == ZS_ALGORITHM_RING)
    return (kind == ZS_COLLECTIVE_ALL_REDUCE ? 2 : 1) * (comm->n_nodes - 1);
  return algorithm == ZS_ALGORITHM_PAT ? depth : 2 * depth;
}

/* NVLS reduces in the switch: each GPU's link carries the message and 1/n of it, in loops of one chunk for each head and
 * channel; a loop waits for the heads (4.5 us), and the last one is spread when all is reduced.  Chunks as in 2.30
 * src/enqueue.cc.  6, 7 and 8 B200 and 8 H100 from 2 MiB to 16 GiB (nccl-tests): 0.85 and 0.795 of what the links sustain,
 * whatever a release believes (5/6 of the search's rates, 0.85 or 0.74 of them, a cap by the rate between nodes). */
#define NVLS_LOOP 4.5
static double
nvls_transfer (const ZsComm *comm, int64_t bytes, double links)
{
  int channels, threads;

  zs_nccl_launch (&comm->input, ZS_ALGORITHM_NVLS, ZS_PROTOCOL_SIMPLE, bytes, &channels, &threads);
  double at_once = (double) channels * comm->shapes[0].system->n_gpus, chunk = 131072;

  if ((double) bytes < 64 * at_once * chunk)
    chunk = 65536;
  if ((double) bytes < 8 * at_once * chunk)
    chunk = 32768;
  if ((double) bytes < 2 * at_once * chunk)
    chunk = 16384;
  double loops = (double) bytes / (at_once * chunk), moved = links / (comm->input.min_capability >= 100 ? 0.795 : 0.85);

  return moved + loops * NVLS_LOOP + moved / fmax (loops, 1);
}

/* NVLSTree moves in loops too; a chunk is reduced in the switch, sent up and down the tree and spread, so the last one
 * needs about 2.5 times its share more.  Chunks as in src/enqueue.cc of 2.2x (recalled, and met by the times): of 512 KiB
 * (64 KiB from 4 nodes on), cut while there are fewer than 32, 16, 4 and 1 loops.  16 H100 over InfiniBand, 8 MiB to
 * 4 GiB: what is above latency and rate within 20 % (nccl-tests). */
#define NVLS_TREE_FILL 2.5
static double
nvls_tree_transfer (const ZsComm *comm, int64_t bytes, double moved)
{
  static const struct { double loops, chunk; } CUTS[] = { { 32, 262144 }, { 16, 131072 }, { 4, 65536 }, { 1, 32768 } };
  int channels, threads;

  zs_nccl_launch (&comm->input, ZS_ALGORITHM_NVLS_TREE, ZS_PROTOCOL_SIMPLE, bytes, &channels, &threads);
  double at_once = (double) channels * comm->shapes[0].system->n_gpus, chunk = comm->n_nodes >= 4 ? 65536 : 524288;

  for (size_t i = 0; i < G_N_ELEMENTS (CUTS); i++)
    if ((double) bytes < CUTS[i].loops * at_once * chunk)
      chunk = fmin (chunk, CUTS[i].chunk);
  double loops = (double) bytes / (at_once * chunk);

  return moved + loops * NVLS_LOOP + NVLS_TREE_FILL * moved / fmax (loops, 1);
}

void
zs_nccl_base_time (const ZsComm *comm, ZsCollectiveKind kind, ZsAlgorithm algorithm, ZsProtocol protocol,
                   int64_t bytes, double *latency, double *transfer)
{
  double rate = class_rate (comm), turns = 0;
  bool nvls = algorithm == ZS_ALGORITHM_NVLS || algorithm == ZS_ALGORITHM_NVLS_TREE;
  ZsLoadShape shape = nvls ? ZS_SHAPE_NVLS : algorithm == ZS_ALGORITHM_TREE ? ZS_SHAPE_TREE : ZS_SHAPE_RING;

  /* LL sends as many flags as data, LL128 8 of 128 bytes */
  double links = (double) bytes * comm->loads[kind][shape].seconds_per_byte * 1e6
                 * (protocol == ZS_PROTOCOL_LL ? 2 : protocol == ZS_PROTOCOL_LL128 ? 128 / 120.0 : 1);

  if (is_by_links (comm)) {
    double sustained = rate > 0 ? (double) bytes * ring_share (kind, comm->n_ranks) / (rate * 1000) : 0;

    *transfer = fmax (links, protocol == ZS_PROTOCOL_LL ? 2 * sustained : sustained);
  }
  /* NCCL raises the latency of Simple rings between nodes by 1.4 (1.9), to prefer trees; two hosts with one GPU each
   * take 37-48 us before the first byte where it says 36 without and 51 with it */
  if (comm->n_nodes > 1 && algorithm == ZS_ALGORITHM_RING && protocol == ZS_PROTOCOL_SIMPLE
      && kind == ZS_COLLECTIVE_ALL_REDUCE)
    *transfer -= fmin (*transfer, (comm->input.min_capability < 80 ? 0.9 : 0.4) * *latency);
  if (comm->n_nodes > 1) {
    const ZsNetwork *network = &comm->topology->network;
    double message, n_messages = zs_nccl_messages (comm, kind, algorithm, protocol, bytes, &message);
    /* The libfabric plug-ins of 2025 (NCCL's release stands for them) show no handshake and half the time of a message,
     * except LL's, whose flags the thread reads: two nodes of two H100 NVL over Slingshot, 7-8 us with LL and at most 4.4
     * with Simple; 32 B200 over EFA, at most 5 with LL128. */
    bool libfabric = network->kind == ZS_NETWORK_SLINGSHOT || network->kind == ZS_NETWORK_EFA;
    bool newer = libfabric && comm->environment.version >= ZS_VERSION (2, 27, 0);
    bool asks = network->handshake_from > 0 && n_messages > 0 && message >= (double) network->handshake_from && !newer;
    ZsTime turn = newer && protocol != ZS_PROTOCOL_LL ? network->message_time / 2 : network->message_time;
    ZsTime more = asks ? network->handshake_time : 0;

    *latency += net_hops (comm, kind, algorithm) * (double) (network->extra_latency + more) / 1e6;
    turns = n_messages * (double) (turn + more) / 1e6;
  }
  /* NCCL discounts trees by 8 %, plain ones (a NIC beside each GPU) by 15 % more.  Machines do not: 8 GH200 of two
   * nodes reach 89 % of their NICs, 16 A100 83 %. */
  if (comm->n_nodes > 1 && algorithm == ZS_ALGORITHM_TREE)
    *transfer *= 0.92 * (comm->graphs.tree.pattern == ZS_PATTERN_TREE ? 0.85 : 1);
  if (algorithm == ZS_ALGORITHM_NVLS && comm->n_nodes == 1 && kind == ZS_COLLECTIVE_ALL_REDUCE)
    *transfer = nvls_transfer (comm, bytes, links);
  if (algorithm == ZS_ALGORITHM_NVLS_TREE)
    *transfer = nvls_tree_transfer (comm, bytes, fmax (*transfer, links));
  *transfer = fmax (*transfer, links);   /* never faster than its links */
  if (turns > 0) {
    /* One after the other through the proxy thread; what it copies itself comes on top. */
    bool copies = zs_proxy_rate (comm->topology->network.kind, comm->topology->network.gpu_direct) > 0;
    ZsNcclTables tables;

    zs_nccl_tables (comm->timing_environment.version, &tables);
    *transfer = fmax (*transfer, tables.base[algorithm][protocol] + turns + (copies ? links : 0) - *latency);
  }
  /* EFA's plug-in before RDMA writes (2023; NCCL's release stands for it): p4d of 2022 reached 61-64 % of its NICs,
   * p4de of 2024 83 % */
  if (comm->class == ZS_CLASS_EFA && comm->topology->network.gpu_direct
      && comm->environment.version < ZS_VERSION (2, 15, 0))
    *transfer *= 0.83 / 0.62;
}

int
zs_nccl_factor_row (const ZsComm *comm, ZsAlgorithm algorithm, ZsProtocol protocol)
{
  static const int POOLS[ZS_N_CLASSES] = {
    [ZS_CLASS_NVSWITCH] = 0, [ZS_CLASS_NVLINK_MESH] = 1, [ZS_CLASS_NVLINK_BRIDGE] = 2, [ZS_CLASS_PCIE_P2P] = 3,
    [ZS_CLASS_PCIE_P2P_SYS] = 3, [ZS_CLASS_SHM] = 4, [ZS_CLASS_SHM_SYS] = 4, [ZS_CLASS_INFINIBAND] = 5,
    [ZS_CLASS_ROCE] = 5, [ZS_CLASS_SLINGSHOT] = 6, [ZS_CLASS_EFA] = 7, [ZS_CLASS_TCP] = 8,
  };
  bool nvls = algorithm == ZS_ALGORITHM_NVLS || algorithm == ZS_ALGORITHM_NVLS_TREE;
  bool host = comm->class == ZS_CLASS_SHM || comm->class == ZS_CLASS_SHM_SYS;

  if (host && comm->topology->shm_rate > 0)
    return -1;   /* the person has measured it */
  /* NVLSTree is alike over all networks */
  if (nvls && comm->n_nodes > 1)
    return 3 * POOLS[ZS_CLASS_INFINIBAND] + 2;
  /* verbs, but no NIC beside the GPU: the root complex and host memory count */
  if ((comm->class == ZS_CLASS_INFINIBAND || comm->class == ZS_CLASS_ROCE) && comm->graphs.ring.type_inter > ZS_PATH_PXN)
    return 9 * 3 + (protocol == ZS_PROTOCOL_SIMPLE ? 1 : 0);
  return POOLS[comm->class] * 3 + (nvls ? 2 : protocol == ZS_PROTOCOL_SIMPLE ? 1 : 0);
}

/* Factor at BYTES: between the sizes of the table in the logarithm of the size. */
static double
factor_at (const double *row, int64_t bytes)
{
  double at = (log2 ((double) MAX (bytes, 1)) - FACTOR_FIRST_SIZE) / FACTOR_STEP;
  int i = (int) floor (at);

  if (i < 0)
    return row[0];
  if (i >= FACTOR_SIZES - 1)
    return row[FACTOR_SIZES - 1];
  return exp (log (row[i]) * (1 - (at - i)) + log (row[i + 1]) * (at - i));
}

void
zs_nccl_calibrate (const ZsComm *comm, ZsCollectiveKind kind, ZsAlgorithm algorithm, ZsProtocol protocol,
                   int64_t bytes, double *latency, double *transfer)
{
  zs_nccl_base_time (comm, kind, algorithm, protocol, bytes, latency, transfer);
  int row = zs_nccl_factor_row (comm, algorithm, protocol);
  double factor = row < 0 ? 1 : factor_at (FACTORS[row], bytes);

  *latency *= factor;
  *transfer *= factor;
}

double
zs_nccl_own_factor (const ZsComm *comm, ZsAlgorithm algorithm, ZsProtocol protocol)
{
  const ZsLinkCalibration *own = &comm->topology->calibration;
  bool nvls = algorithm == ZS_ALGORITHM_NVLS || algorithm == ZS_ALGORITHM_NVLS_TREE;
  double factor = nvls ? own->collective_nvls : protocol == ZS_PROTOCOL_SIMPLE ? own->collective_simple : own->collective_ll;

  return factor > 0 ? factor : 1;
}

double
zs_comm_expected_error (const ZsComm *comm)
{
  int row;

  if (comm->class == ZS_CLASS_IDEAL)
    return 0;
  row = zs_nccl_factor_row (comm, ZS_ALGORITHM_RING, ZS_PROTOCOL_SIMPLE);
  if (row < 0)
    return 0.10;
  /* hosts that hand GPUs to containers or virtual machines move 0.9 to 4 GB/s where bare metal moves 15 (nccl-tests,
   * RTX 4090 and A40): nobody can tell them apart from here, `shm_rate` says it */
  bool host = comm->class == ZS_CLASS_SHM || comm->class == ZS_CLASS_SHM_SYS;

  return fmax (EXPECTED_ERRORS[row / 3], host ? 0.30 : 0);
}
