/* nccl-tune.c: latency + bytes / bandwidth for every algorithm and protocol, as NCCL estimates them.
 * SPDX-License-Identifier: MIT
 *
 * Source: NCCL 2.30.7 src/graph/tuning.cc (ncclTopoTuneModel, ncclTopoGetAlgoTime) and src/enqueue.cc
 * (number of channels and threads); differences of 2.18 to 2.29 by version. */
#include "config.h"

#include "sim/network/nccl-tune.h"

#include <math.h>

static int
capability_row (int capability)
{
  return capability >= 100 ? 3 : capability >= 90 ? 2 : capability >= 80 ? 1 : 0;
}

static bool
has_nvls (const ZsNcclTuneInput *input)
{
  return input->nvls != NULL && input->nvls->n_channels > 0 && !input->average
         && input->environment->nvls_enable != 0;
}

static const ZsNcclGraph *
graph_of (const ZsNcclTuneInput *input, ZsAlgorithm algorithm)
{
  switch (algorithm) {
  case ZS_ALGORITHM_TREE:
    return input->tree;
  case ZS_ALGORITHM_NVLS:
  case ZS_ALGORITHM_NVLS_TREE:
    return input->nvls;
  default:
    return input->ring;
  }
}

/* Does NCCL have ALGORITHM for KIND on these ranks? */
static bool
exists (const ZsNcclTuneInput *input, ZsCollectiveKind kind, ZsAlgorithm algorithm, ZsProtocol protocol)
{
  bool gather = kind == ZS_COLLECTIVE_ALL_GATHER || kind == ZS_COLLECTIVE_REDUCE_SCATTER;
  bool reduce = kind == ZS_COLLECTIVE_ALL_REDUCE;

  switch (algorithm) {
  case ZS_ALGORITHM_RING:
    return true;
  case ZS_ALGORITHM_TREE:
    return reduce;
  case ZS_ALGORITHM_NVLS:
    /* across nodes it needs SHARP */
    return (gather || reduce) && protocol == ZS_PROTOCOL_SIMPLE && input->n_nodes == 1 && has_nvls (input);
  case ZS_ALGORITHM_NVLS_TREE:
    return reduce && protocol == ZS_PROTOCOL_SIMPLE && input->n_nodes > 1 && has_nvls (input)
           && input->nvls_multi && input->environment->version >= ZS_VERSION (2, 18, 0);
  case ZS_ALGORITHM_PAT:
    return gather && protocol == ZS_PROTOCOL_SIMPLE && input->n_nodes > 1
           && input->n_nodes == input->n_ranks && input->environment->version >= ZS_VERSION (2, 23, 0);
  default:
    return false;   /* CollNet: SHARP plug-ins are not simulated */
  }
}

static bool
allowed (const ZsNcclTuneInput *input, ZsCollectiveKind kind, ZsAlgorithm algorithm, ZsProtocol protocol)
{
  const ZsNcclEnvironment *environment = input->environment;
  const ZsNcclGraph *graph = graph_of (input, algorithm);

  /* Broadcast and reduce have only the ring, whatever NCCL_ALGO says. */
  if (!environment->algorithms[algorithm]
      && !(algorithm == ZS_ALGORITHM_RING && (kind == ZS_COLLECTIVE_BROADCAST || kind == ZS_COLLECTIVE_REDUCE)))
    return false;
  bool one_protocol = algorithm != ZS_ALGORITHM_RING && algorithm != ZS_ALGORITHM_TREE;

  if (!environment->protocols[protocol] && !one_protocol)
    return false;
  if (protocol != ZS_PROTOCOL_LL128 || environment->protocols_set)
    return true;
  int low = input->min_capability, high = input->max_capability;
  bool equal = low == high
               || (environment->version >= ZS_VERSION (2, 30, 0) && low >= 90);
  bool known = environment->version < ZS_VERSION (2, 27, 0) ? low == 70 || low == 80 || low == 90 : low >= 70;

  return graph->type_intra <= ZS_PATH_NVB
         && (input->n_nodes == 1 || graph->type_inter <= (low >= 90 ? ZS_PATH_PXN : ZS_PATH_PXB))
         && equal && known;
}

static int
n_steps (ZsCollectiveKind kind, int n_ranks)
{
  switch (kind) {
  case ZS_COLLECTIVE_ALL_REDUCE:
    return 2 * (n_ranks - 1);
  case ZS_COLLECTIVE_ALL_GATHER:
  case ZS_COLLECTIVE_REDUCE_SCATTER:
    return n_ranks - 1;
  default:
    return n_ranks;
  }
}

static double
ring_rate (const ZsNcclTuneInput *input, const ZsNcclTables *tables, ZsCollectiveKind kind, ZsProtocol protocol,
           double bus)
{
  int row = capability_row (input->min_capability), column = MIN (input->n_nodes, 3) - 1;
  int ll_row = input->n_nodes == 1 ? row : input->amd ? 1 : 0;
  ZsVersion version = input->environment->version;
  int n_channels = input->ring->n_channels;

  if (protocol == ZS_PROTOCOL_LL) {
    double factor = 0.5;

    if (version < ZS_VERSION (2, 21, 0))
      factor = input->n_nodes > 1 || kind == ZS_COLLECTIVE_ALL_REDUCE || kind == ZS_COLLECTIVE_REDUCE
               ? 0.25 : 1 / 3.0;
    return fmin (tables->ll_max[ll_row][column], bus * factor);
  }
  if (protocol == ZS_PROTOCOL_LL128) {
    double ppn = (double) input->n_ranks / input->n_nodes;
    double factor = version < ZS_VERSION (2, 23, 0) && ppn < 2 ? 0.7 : 0.92;

    return fmin (bus * factor, n_channels * tables->ring_ll128[row][column]);
  }
  return bus;
}

static double
tree_rate (const ZsNcclTuneInput *input, const ZsNcclTables *tables, ZsProtocol protocol, double bus)
{
  int row = capability_row (input->min_capability), column = MIN (input->n_nodes, 3) - 1;
  int ll_row = input->n_nodes == 1 ? row : input->amd ? 1 : 0;
  int n_channels = input->tree->n_channels;
  double rate = fmin (bus * 0.92, n_channels * tables->tree[row][column]);

  if (protocol == ZS_PROTOCOL_LL)
    rate = fmin (rate / 3.8, tables->ll_max[ll_row][column]);
  if (protocol == ZS_PROTOCOL_LL128)
    rate = fmin (rate * (input->n_nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0),
                 n_channels * tables->tree_ll128[row][column]);
  return input->tree->pattern == ZS_PATTERN_TREE ? rate * 0.85 : rate;
}

static double
nvls_rate (const ZsNcclTuneInput *input, const ZsNcclTables *tables, ZsCollectiveKind kind, ZsAlgorithm algorithm)
{
  const ZsNcclGraph *graph = input->nvls;
  int row = capability_row (input->min_capability), column = MIN (input->n_nodes, 3) - 1;
  int n = graph->n_channels;
  bool tree = algorithm == ZS_ALGORITHM_NVLS_TREE;
  double ppn = (double) input->n_ranks / input->n_nodes;
  ZsVersion version = input->environment->version;

  if (version < ZS_VERSION (2, 28, 0)) {
    double rate = input->n_nodes <= 2 && !tree ? graph->rate_intra : graph->rate_inter;
    double ratio = 5.0 / 6.0;

    if (kind == ZS_COLLECTIVE_ALL_REDUCE) {
      rate = fmin (graph->rate_intra, graph->rate_inter);
      if (tree && input->n_nodes > 2)
        rate = fmin (graph->rate_intra, graph->rate_inter / 2);
    }
    if (version < ZS_VERSION (2, 19, 0)) {
      ratio = version < ZS_VERSION (2, 18, 3) ? 0.75 : ratio;
      if (tree)
        ratio = 0.70 * input->n_nodes / (2 * (input->n_nodes - 1));
    }
    return n * rate * ratio;
  }
  double intra = graph->rate_intra * tables->nvls_efficiency[row] * (n - 1) / n
                 * (kind == ZS_COLLECTIVE_ALL_REDUCE ? 2 : (ppn - 1) / ppn);
  double inter = graph->rate_inter * (input->n_nodes <= 2 && tree ? 2 : 1);
  double rate = fmin (intra, inter);

  if (tree)
    rate = fmin (rate, tables->nvls_tree[row][column]);
  return n * rate;
}

static double
latency_of (const ZsNcclTuneInput *input, const ZsNcclTables *tables, ZsCollectiveKind kind, ZsAlgorithm algorithm,
            ZsProtocol protocol)
{
  const ZsNcclGraph *graph = graph_of (input, algorithm);
  int n = input->n_ranks, nodes = input->n_nodes, steps = n_steps (kind, n);
  int hw = graph->type_intra == ZS_PATH_NVLINK ? ZS_HW_NVLINK : ZS_HW_PCI;
  bool simple = protocol == ZS_PROTOCOL_SIMPLE;
  double base = tables->base[algorithm][protocol];
  double hop = tables->hop[hw][algorithm][protocol];
  double overhead = nodes > 1 ? (input->amd ? 2.0 : 1.0) * (simple ? 3 : 1) : 0;
  /* One rank a node: the tree's hop; not yet in 2.16, where two hosts of one A100 leave LL at 130-200 KiB (all-gather)
   * and 330-520 KiB (all-reduce), as the ring's own hop has it. */
  bool alone = nodes == n && input->environment->version >= ZS_VERSION (2, 18, 0);
  double inter = tables->hop[ZS_HW_NET][alone ? ZS_ALGORITHM_TREE : algorithm][protocol]
                 + (simple ? 2 : 1) * input->net_latency;
  int depth = (int) floor (log2 (nodes));

  switch (algorithm) {
  case ZS_ALGORITHM_RING: {
    if (kind == ZS_COLLECTIVE_BROADCAST || kind == ZS_COLLECTIVE_REDUCE) {
      int where = nodes > 1 ? ZS_HW_NET : hw;

      if (graph->same_channels)
        return base + tables->hop[where][ZS_ALGORITHM_RING][protocol];
      return base + steps * tables->hop[where][simple ? ZS_ALGORITHM_TREE : ZS_ALGORITHM_RING][protocol];
    }
    int n_inter = nodes == 1 ? 0 : kind == ZS_COLLECTIVE_ALL_REDUCE ? 2 * (nodes - 1) : nodes - 1;

    if (nodes > 1 && kind == ZS_COLLECTIVE_ALL_REDUCE && input->environment->version < ZS_VERSION (2, 23, 0))
      n_inter = 2 * nodes;
    return base + (steps - n_inter) * fmax (hop, overhead) + n_inter * inter;
  }
  case ZS_ALGORITHM_TREE:
    return base + 2 * ((n / nodes - 1) * hop + depth * inter);
  case ZS_ALGORITHM_NVLS:
    return base + hop + (nodes > 1 ? inter : 0);
  case ZS_ALGORITHM_NVLS_TREE:
    return base + hop + 2 * depth * inter;
  case ZS_ALGORITHM_PAT:
    return base + depth * inter / 3.5 + n * 2.8;
  default:
    return base;
  }
}

void
zs_nccl_tune (const ZsNcclTuneInput *input, ZsCollectiveKind kind, ZsNcclTuning *tuning)
{
  ZsNcclTables tables;
  int n = input->n_ranks;

  *tuning = (ZsNcclTuning) { 0 };
  zs_nccl_tables (input->environment->version, &tables);
  if (n < 2)
    return;
  for (int a = 0; a < ZS_N_ALGORITHMS; a++)
    for (int p = 0; p < ZS_N_PROTOCOLS; p++) {
      if (!exists (input, kind, (ZsAlgorithm) a, (ZsProtocol) p))
        continue;
      const ZsNcclGraph *graph = graph_of (input, (ZsAlgorithm) a);
      double bus = graph->n_channels * (input->n_nodes <= 2 ? graph->rate_intra : graph->rate_inter);
      int steps = n_steps (kind, n);

      if (!allowed (input, kind, (ZsAlgorithm) a, (ZsProtocol) p))
        continue;
      switch ((ZsAlgorithm) a) {
      case ZS_ALGORITHM_RING:
        bus = ring_rate (input, &tables, kind, (ZsProtocol) p, bus) * n / steps;
        break;
      case ZS_ALGORITHM_TREE:
        bus = tree_rate (input, &tables, (ZsProtocol) p, bus) * 0.5;
        break;
      case ZS_ALGORITHM_PAT:
        bus *= 0.75;
        break;
      default:
        bus = nvls_rate (input, &tables, kind, (ZsAlgorithm) a);
        /* from 2.28 as the bandwidth of the bus; before, of the algorithm at once */
        if (input->environment->version >= ZS_VERSION (2, 28, 0) && kind == ZS_COLLECTIVE_ALL_REDUCE)
          bus = bus * n / steps;
      }
      tuning->rate[a][p] = bus;
      tuning->latency[a][p] = latency_of (input, &tables, kind, (ZsAlgorithm) a, (ZsProtocol) p);
    }
}

double
zs_nccl_time (const ZsNcclTuneInput *input, const ZsNcclTuning *tuning, ZsCollectiveKind kind,
              ZsAlgorithm algorithm, ZsProtocol protocol, int64_t bytes)
{
  double rate = tuning->rate[algorithm][protocol], latency = tuning->latency[algorithm][protocol];
  int size = 63 - __builtin_clzll ((uint64_t) MAX (bytes >> 6, 1));   /* log2 (bytes / 64) */

  if (rate <= 0)
    return -1;
  if (bytes >= 64 && algorithm == ZS_ALGORITHM_TREE && kind == ZS_COLLECTIVE_ALL_REDUCE && size < 23)
    rate *= ZS_NCCL_TREE_CORRECTION[protocol][size];
  if (bytes >= 64 && algorithm == ZS_ALGORITHM_NVLS_TREE && input->min_capability >= 100 && input->x86
      && input->environment->version >= ZS_VERSION (2, 29, 0) && size < 24)
    rate *= ZS_NCCL_TREE_CORRECTION[ZS_PROTOCOL_SIMPLE][size];
  if (algorithm == ZS_ALGORITHM_RING && protocol == ZS_PROTOCOL_SIMPLE && input->n_nodes > 1
      && kind == ZS_COLLECTIVE_ALL_REDUCE
      && bytes / ((int64_t) zs_nccl_compute_channels (input) * input->n_ranks) >= 64)
    latency *= input->min_capability < 80 ? 1.9 : 1.4;
  return latency + (double) bytes / (1000 * rate);
}

bool
zs_nccl_choose (const ZsNcclTuneInput *input, const ZsNcclTuning *tuning, ZsCollectiveKind kind, int64_t bytes,
                ZsAlgorithm *ret_algorithm, ZsProtocol *ret_protocol, double *ret_time)
{
  double best = -1;

  for (int a = 0; a < ZS_N_ALGORITHMS; a++)
    for (int p = 0; p < ZS_N_PROTOCOLS; p++) {
      double time = zs_nccl_time (input, tuning, kind, (ZsAlgorithm) a, (ZsProtocol) p, bytes);

      if (time >= 0 && (best < 0 || time < best)) {
        best = time;
        *ret_algorithm = (ZsAlgorithm) a;
        *ret_protocol = (ZsProtocol) p;
      }
    }
  *ret_time = best;
  return best >= 0;
}

int
zs_nccl_compute_channels (const ZsNcclTuneInput *input)
{
  const ZsNcclEnvironment *environment = input->environment;
  int channels = 2 * MAX (input->ring->n_channels, 1);

  if (input->min_capability >= 90 && input->n_nodes > 1 && input->ring->rate_intra > 45 && channels < 16)
    channels *= 2;
  if (environment->max_channels > 0)
    channels = MIN (channels, environment->max_channels);
  if (environment->min_channels > 0)
    channels = MAX (channels, environment->min_channels);
  if (environment->max_ctas > 0)
    channels = MIN (channels, environment->max_ctas);
  if (environment->min_ctas > 0)
    channels = MAX (channels, environment->min_ctas);
  return CLAMP (channels, 1, ZS_NCCL_MAX_CHANNELS);
}

void
zs_nccl_launch (const ZsNcclTuneInput *input, ZsAlgorithm algorithm, ZsProtocol protocol, int64_t bytes,
                int *ret_channels, int *ret_threads)
{
  int channels = zs_nccl_compute_channels (input);
  bool ring = algorithm == ZS_ALGORITHM_RING;
  double rate = input->ring->n_channels * input->ring->rate_intra;
  int threads = protocol == ZS_PROTOCOL_LL128 ? 640
                : protocol == ZS_PROTOCOL_SIMPLE && ring && rate <= 12 ? 256 : 512;
  int64_t threshold = protocol == ZS_PROTOCOL_SIMPLE ? 64 : protocol == ZS_PROTOCOL_LL128 ? 8
                      : ring ? 8 * (int64_t) input->n_ranks : 8;

  if (algorithm == ZS_ALGORITHM_NVLS || algorithm == ZS_ALGORITHM_NVLS_TREE) {
    channels = input->min_capability >= 100 ? (input->n_nodes > 1 ? 32 : 24) : 16;
    if (input->environment->max_ctas > 0)
      channels = MIN (channels, input->environment->max_ctas);
    *ret_channels = channels;
    *ret_threads = 640;
    return;
  }
  if (input->environment->threads > 0)
    threads = MIN (threads, input->environment->threads);
  while (channels >= 2 && bytes < channels * threads * threshold)
    channels--;
  while (threads > 128 && threads % 256 == 0 && bytes < channels * threads * threshold)
    threads /= 2;
  if (algorithm == ZS_ALGORITHM_TREE)
    threads = 640;
  else if (ring && protocol == ZS_PROTOCOL_SIMPLE)
    threads += 32;
  *ret_channels = channels;
  *ret_threads = threads;
}
