/* nccl-comm.c: a communicator: its graphs, its choices, its times, its memory.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/network/nccl-comm.h"
#include "sim/network/topology-build.h"

#include "sim/base/error.h"

#include <math.h>
#include <string.h>

const char *
zs_algorithm_name (ZsAlgorithm algorithm)
{
  static const char *const NAMES[] = { "tree", "ring", "collnet-direct", "collnet-chain", "nvls", "nvls-tree",
                                       "pat", "p2p", "none" };
  return NAMES[algorithm];
}

const char *
zs_protocol_name (ZsProtocol protocol)
{
  static const char *const NAMES[] = { "ll", "ll128", "simple" };

  return NAMES[protocol];
}

static int
compare_ints (const void *a, const void *b)
{
  return *(const int *) a - *(const int *) b;
}

/* GPUs of the ranks, by node: fills nodes, shapes and shape_of.  All of it is linear: 16,384 ranks are
 * nothing special. */
static void
sort_ranks (ZsComm *comm, const int64_t *ranks)
{
  int per_node = comm->topology->n_gpus, all = MAX (1, comm->topology->n_nodes);
  g_autofree int *first = g_new0 (int, all + 1), *gpus = g_new (int, comm->n_ranks);
  ZsNodeShape shape;

  for (int i = 0; i < comm->n_ranks; i++)
    first[ranks[i] / per_node + 1]++;
  for (int node = 0; node < all; node++) {
    comm->n_nodes += first[node + 1] > 0;
    first[node + 1] += first[node];
  }
  for (int i = comm->n_ranks - 1; i >= 0; i--)   /* from the end: leaves first[] as it was but one on */
    gpus[--first[ranks[i] / per_node + 1]] = (int) (ranks[i] % per_node);
  comm->nodes = g_new (int, comm->n_nodes);
  comm->shape_of = g_new (int, comm->n_nodes);
  for (int node = 0, k = 0; node < all; node++) {
    int begin = first[node + 1], end = node + 1 < all ? first[node + 2] : comm->n_ranks;
    int s = 0;

    if (begin == end)
      continue;
    memset (&shape, 0, sizeof shape);
    for (int i = begin; i < end && shape.n_gpus < ZS_NCCL_MAX_GPUS; i++)
      shape.gpus[shape.n_gpus++] = gpus[i];
    qsort (shape.gpus, (size_t) shape.n_gpus, sizeof *shape.gpus, compare_ints);
    while (s < comm->n_shapes && memcmp (&comm->shapes[s].gpus, &shape.gpus, sizeof shape.gpus) != 0)
      s++;
    if (s == comm->n_shapes) {
      comm->shapes = g_renew (ZsNodeShape, comm->shapes, comm->n_shapes + 1);
      comm->shapes[comm->n_shapes++] = shape;
    }
    comm->nodes[k] = node;
    comm->shape_of[k++] = s;
  }
  comm->root = -1;
  const ZsNodeShape *root_shape = &comm->shapes[comm->shape_of[0]];

  for (int i = 0; ranks[0] / per_node == comm->nodes[0] && i < root_shape->n_gpus; i++)
    if (root_shape->gpus[i] == ranks[0] % per_node)
      comm->root = i;
}

static void
take_least (ZsNcclGraph *all, const ZsNcclGraph *one)
{
  all->n_channels = MIN (all->n_channels, one->n_channels);
  all->rate_intra = fmin (all->rate_intra, one->rate_intra);
  all->rate_inter = fmin (all->rate_inter, one->rate_inter);
  all->type_intra = MAX (all->type_intra, one->type_intra);
  all->type_inter = MAX (all->type_inter, one->type_inter);
  all->same_channels &= one->same_channels;
  all->fallback |= one->fallback;
  if (one->pattern == ZS_PATTERN_TREE && all->pattern == ZS_PATTERN_BALANCED_TREE)
    all->pattern = one->pattern;
}

/* Where NCCL found nothing it believes in 0.1 GB/s; the ring runs all the same, at the rate of its
 * slowest path. */
static void
mend_fallback (const ZsComm *comm, ZsNcclGraph *graph)
{
  double rate = 1e9;

  for (int s = 0; s < comm->n_shapes; s++) {
    const ZsNcclSystem *system = comm->shapes[s].system;

    for (int g = 0; g < system->n_gpus; g++) {
      const ZsNcclPath *path = zs_nccl_path (system, system->gpus[g], system->gpus[(g + 1) % system->n_gpus]);

      if (path->n > 0)
        rate = fmin (rate, path->rate);
    }
    for (int i = 0; i < system->n_nets; i++)
      rate = fmin (rate, system->nodes[system->nets[i]].rate_left);
  }
  graph->rate_intra = graph->rate_inter = rate < 1e9 ? rate : 1;
}

/* As zs_nccl_tune.  Where NCCL_ALGO and NCCL_PROTO leave nothing that serves this collective NCCL refuses it or takes what it
 * has; here it is as if they were not set, and the result is false. */
static bool
tune (const ZsNcclTuneInput *input, ZsCollectiveKind kind, ZsNcclTuning *tuning)
{
  zs_nccl_tune (input, kind, tuning);
  for (int a = 0; a < ZS_N_ALGORITHMS; a++)
    for (int p = 0; p < ZS_N_PROTOCOLS; p++)
      if (tuning->rate[a][p] > 0)
        return true;
  ZsNcclEnvironment open = *input->environment;
  ZsNcclTuneInput free_input = *input;

  for (int a = 0; a < ZS_N_ALGORITHMS; a++)
    open.algorithms[a] = true;
  for (int p = 0; p < ZS_N_PROTOCOLS; p++)
    open.protocols[p] = true;
  open.protocols_set = false;
  free_input.environment = &open;
  zs_nccl_tune (&free_input, kind, tuning);
  return false;
}

ZsComm *
zs_comm_new (const ZsTopology *topology, const int64_t *ranks, int n_ranks, const ZsNcclConfig *config,
             GError **error)
{
  ZsNcclEnvironment environment;
  int64_t limit = (int64_t) topology->n_gpus * topology->n_nodes;

  if (!zs_nccl_environment (config != NULL ? config->version : 0, config != NULL ? config->environment : NULL,
                            &environment, error))
    return NULL;
  for (int i = 0; i < n_ranks; i++)
    if (ranks[i] < 0 || ranks[i] >= limit) {
      g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "rank %" G_GINT64_FORMAT ": %d node%s of %d GPU%s have ranks 0 to %"
                   G_GINT64_FORMAT, ranks[i], topology->n_nodes, topology->n_nodes == 1 ? "" : "s",
                   topology->n_gpus, topology->n_gpus == 1 ? "" : "s", limit - 1);
      return NULL;
    }
  ZsComm *comm = g_new0 (ZsComm, 1);

  comm->topology = topology;
  comm->environment = environment;
  comm->n_ranks = n_ranks;
  comm->calibrated = config == NULL || !config->no_calibration;
  sort_ranks (comm, ranks);
  if (topology->ideal || n_ranks < 2) {
    comm->class = ZS_CLASS_IDEAL;
    return comm;
  }
  bool amd = false;
  int low = G_MAXINT, high = 0;

  for (int s = 0; s < comm->n_shapes; s++) {
    ZsNodeShape *shape = &comm->shapes[s];

    shape->system = zs_nccl_system_new (topology, shape->gpus, shape->n_gpus, comm->n_nodes > 1, &comm->environment);
    zs_nccl_search_all (shape->system, &shape->graphs);
    if (s == 0)
      comm->graphs = shape->graphs;
    take_least (&comm->graphs.ring, &shape->graphs.ring);
    take_least (&comm->graphs.tree, &shape->graphs.tree);
    take_least (&comm->graphs.nvls, &shape->graphs.nvls);
    amd |= shape->system->amd;
    low = MIN (low, shape->system->min_capability);
    high = MAX (high, shape->system->max_capability);
  }
  bool x86 = topology->n_cpus == 0 || topology->parts[topology->cpus[0]].vendor <= ZS_CPU_AMD;

  comm->input = (ZsNcclTuneInput) {
    .environment = &comm->environment, .n_ranks = n_ranks, .n_nodes = comm->n_nodes, .min_capability = low,
    .max_capability = high, .amd = amd, .x86 = x86, .average = config != NULL && config->average,
    .net_latency = comm->n_nodes > 1 ? comm->graphs.ring.latency_inter : 0,
    .ring = &comm->graphs.ring, .tree = &comm->graphs.tree, .nvls = &comm->graphs.nvls,
    .nvls_multi = comm->n_nodes > 1,
  };
  comm->timing_input = comm->input;
  comm->timing_ring = comm->graphs.ring;
  comm->timing_tree = comm->graphs.tree;
  if (comm->graphs.ring.fallback)
    mend_fallback (comm, &comm->timing_ring);
  if (comm->graphs.tree.fallback)
    mend_fallback (comm, &comm->timing_tree);
  /* Machines do not change with NCCL's beliefs: times are from one release's tables, whatever made the choice.
   * 2.27 is closest to what NVLS does on fewer than 8 GPUs: later ones hold it at the rate between nodes. */
  comm->timing_environment = environment;
  if (comm->calibrated)
    comm->timing_environment.version = ZS_VERSION (2, 27, 7);
  comm->timing_input.environment = &comm->timing_environment;
  comm->timing_input.ring = &comm->timing_ring;
  comm->timing_input.tree = &comm->timing_tree;
  for (int kind = 0; kind < ZS_N_COLLECTIVES; kind++) {
    comm->unserved[kind] = !tune (&comm->input, (ZsCollectiveKind) kind, &comm->tuning[kind]);
    tune (&comm->timing_input, (ZsCollectiveKind) kind, &comm->timing[kind]);
  }
  comm->class = zs_nccl_class (comm);
  for (int l = 0; l < topology->n_links; l++)
    if (topology->links[l].kind == ZS_LINK_PCIE)
      comm->generation = MAX (comm->generation, topology->links[l].generation);
  zs_comm_make_loads (comm);
  return comm;
}

void
zs_comm_free (ZsComm *comm)
{
  if (comm == NULL)
    return;
  for (int s = 0; s < comm->n_shapes; s++)
    zs_nccl_system_free (comm->shapes[s].system);
  for (int kind = 0; kind < ZS_N_COLLECTIVES; kind++)
    for (int shape = 0; shape < ZS_N_SHAPES; shape++)
      g_free (comm->loads[kind][shape].loads);
  g_free (comm->shapes);
  g_free (comm->nodes);
  g_free (comm->shape_of);
  g_free (comm);
}

/* Which nodes carry the choice's loads. */
static void
set_nodes (const ZsComm *comm, ZsChoice *choice)
{
  choice->nodes = comm->nodes;
  choice->n_nodes = comm->n_shapes == 1 ? comm->n_nodes : 0;
}

/* All-to-all and send/recv have no tuning model in NCCL.  Its schedule (2.30 enqueue.cc, p2p rounds): in round d rank r
 * sends to r + d and receives from r - d, eight rounds to a batch of work that runs side by side; Simple over direct
 * connections, LL for small messages.  So every link carries what its pairs exchange, and the whole is as fast as the
 * busiest one, at the share of it that kernels reach; a batch costs a latency, and a peer in another node a turn of the
 * proxy thread. */
#define PAIR_LATENCY 7.0   /* us beyond a ring's hop, once: two nodes of one A100 over InfiniBand, 31-43 us up to 320 KiB (nccl-tests) */
#define PAIR_TURN    2.0   /* us a remote peer where the network's file says nothing (assumed: one posted message of verbs) */
static void
choose_pairs (const ZsComm *comm, ZsCollectiveKind kind, int64_t bytes, ZsChoice *choice)
{
  const ZsLoadSet *set = &comm->loads[kind][ZS_SHAPE_RING];
  bool nvlink = comm->class >= ZS_CLASS_NVSWITCH && comm->class <= ZS_CLASS_NVLINK_BRIDGE;
  /* measured send/recv of 1 GiB, 8 A100 on an NVSwitch: 218-220 GB/s of 274 by copy engine */
  double efficiency = nvlink ? 0.80 : 0.85;
  int64_t per_peer = kind == ZS_COLLECTIVE_ALL_TO_ALL ? bytes / comm->n_ranks : bytes;
  ZsNcclTables tables;

  zs_nccl_tables (comm->environment.version, &tables);
  choice->algorithm = ZS_ALGORITHM_P2P;
  choice->protocol = per_peer < 16384 ? ZS_PROTOCOL_LL : ZS_PROTOCOL_SIMPLE;
  int hw = comm->n_nodes > 1 ? ZS_HW_NET : nvlink ? ZS_HW_NVLINK : ZS_HW_PCI;
  double latency = tables.base[ZS_ALGORITHM_RING][choice->protocol]
                   + tables.hop[hw][ZS_ALGORITHM_RING][choice->protocol]
                   + (comm->n_nodes > 1 ? (double) comm->topology->network.extra_latency / 1e6 : 0);
  int peers = kind == ZS_COLLECTIVE_ALL_TO_ALL ? comm->n_ranks - 1 : 1;

  int remote = comm->n_nodes < 2 ? 0 : kind == ZS_COLLECTIVE_ALL_TO_ALL ? comm->n_ranks - comm->n_ranks / comm->n_nodes : 1;

  if (comm->topology->calibration.collective_latency > 0)
    latency *= comm->topology->calibration.collective_latency;
  choice->channels = (int) CLAMP (bytes / 131072, 1, 2 * zs_nccl_compute_channels (&comm->input));
  if (comm->environment.max_p2p_channels > 0)
    choice->channels = MIN (choice->channels, comm->environment.max_p2p_channels);
  choice->threads = 512;
  double turn = comm->topology->network.message_time > 0 ? (double) comm->topology->network.message_time / 1e6 : PAIR_TURN;

  /* further peers go out side by side: 8 to a round (2.30 enqueue.cc) */
  choice->latency = zs_time_from_seconds ((latency * (1 + (peers - 1) / 8) + turn * remote
                                           + (remote > 0 ? PAIR_LATENCY : 0)) * 1e-6);
  choice->transfer = zs_time_from_seconds (fmax (1, zs_nccl_own_factor (comm, choice->algorithm, choice->protocol))
                                           * fmax ((double) bytes * set->seconds_per_byte / efficiency,
                                                   (double) bytes * zs_nccl_pair_seconds (comm, kind)));
  choice->model_time = choice->latency + choice->transfer;
  choice->loads = set->loads;
  choice->n_loads = set->n;
  set_nodes (comm, choice);
}

/* What its channels can carry where the user left fewer than the search found: one block moves about
 * as much as one search channel asks of two. */
static double
few_channels_factor (const ZsComm *comm, ZsAlgorithm algorithm)
{
  const ZsNcclGraph *graph = algorithm == ZS_ALGORITHM_TREE ? &comm->timing_tree : &comm->timing_ring;
  int channels = zs_nccl_compute_channels (&comm->input);
  /* of one block, GB/s: the fastest speed that the search asks of a channel (half, as there are two) */
  double block = comm->input.min_capability >= 100 ? 45 : comm->input.min_capability >= 90 ? 30 : 20;
  double wanted = graph->n_channels * graph->rate_intra;

  if ((comm->environment.max_channels == 0 && comm->environment.max_ctas == 0) || channels >= 2 * graph->n_channels)
    return 1;
  return fmax (1, wanted / (channels * block));
}

bool
zs_comm_obeys (const ZsComm *comm, ZsCollectiveKind kind)
{
  return !comm->unserved[kind] || kind >= ZS_COLLECTIVE_ALL_TO_ALL;
}

void
zs_comm_choose (const ZsComm *comm, ZsCollectiveKind kind, int64_t bytes, ZsChoice *ret_choice)
{
  ZsChoice choice = { .algorithm = ZS_ALGORITHM_NONE, .protocol = ZS_PROTOCOL_SIMPLE };

  g_assert (bytes >= 0);
  if (comm->class == ZS_CLASS_IDEAL || bytes == 0) {
    *ret_choice = choice;
    return;
  }
  if (kind == ZS_COLLECTIVE_ALL_TO_ALL || kind == ZS_COLLECTIVE_SEND_RECV) {
    choose_pairs (comm, kind, bytes, &choice);
    *ret_choice = choice;
    return;
  }
  double model = -1;

  bool served = zs_nccl_choose (&comm->input, &comm->tuning[kind], kind, bytes, &choice.algorithm, &choice.protocol, &model);

  g_assert (served);   /* tune() leaves no collective without one */
  ZsNcclTuning timing = comm->timing[kind];

  if (timing.rate[choice.algorithm][choice.protocol] <= 0) {   /* the release whose tables are the times does not have it */
    timing.rate[choice.algorithm][choice.protocol] = comm->timing_ring.n_channels * comm->timing_ring.rate_intra * 0.5;
    timing.latency[choice.algorithm][choice.protocol] = 20;
  }
  double time = zs_nccl_time (&comm->timing_input, &timing, kind, choice.algorithm, choice.protocol, bytes);
  double latency = fmin (timing.latency[choice.algorithm][choice.protocol], time), transfer = time - latency;
  bool nvls = choice.algorithm == ZS_ALGORITHM_NVLS || choice.algorithm == ZS_ALGORITHM_NVLS_TREE;
  const ZsLoadSet *set = &comm->loads[kind][nvls ? ZS_SHAPE_NVLS
                                            : choice.algorithm == ZS_ALGORITHM_TREE ? ZS_SHAPE_TREE : ZS_SHAPE_RING];

  choice.model_time = zs_time_from_seconds ((comm->calibrated && model > 0 && !comm->graphs.ring.fallback ? model : time)
                                            * 1e-6);
  if (!nvls)
    transfer *= few_channels_factor (comm, choice.algorithm);
  if (comm->calibrated) {
    zs_nccl_calibrate (comm, kind, choice.algorithm, choice.protocol, bytes, &latency, &transfer);
    double own = zs_nccl_own_factor (comm, choice.algorithm, choice.protocol);

    if (comm->topology->calibration.collective_latency > 0)
      latency *= comm->topology->calibration.collective_latency;
    /* never faster than its links, unless they were measured to be */
    transfer = fmax (transfer * own, (double) bytes * set->seconds_per_byte * 1e6);
  }
  zs_nccl_launch (&comm->input, choice.algorithm, choice.protocol, bytes, &choice.channels, &choice.threads);
  choice.latency = zs_time_from_seconds (latency * 1e-6);
  choice.transfer = zs_time_from_seconds (transfer * 1e-6);
  choice.loads = set->loads;
  choice.n_loads = set->n;
  set_nodes (comm, &choice);
  *ret_choice = choice;
}

int64_t
zs_comm_gpu_bytes (const ZsComm *comm, unsigned int kinds, bool first)
{
  const int64_t MIB = 1 << 20;
  ZsVersion version = comm->environment.version;
  /* Kernels, once per process: 178 MB more for the first communicator than for the second (one H200,
   * NCCL 2.28.9, measured); before lazy set-up 256 MiB (NVIDIA/nccl#964: 544 MB with 288 of buffers). */
  int64_t bytes = !first ? 0 : version >= ZS_VERSION (2, 22, 0) ? INT64_C (178000000) : 256 * MIB;

  if (kinds == 0 || comm->topology->ideal)
    return 0;
  if (comm->n_ranks < 2 || comm->class == ZS_CLASS_IDEAL)
    /* a communicator of one rank on one H200, NCCL 2.28.9: 388 MiB, of which 384 the pool of network
     * send/recv (48 channels x 16 x 512 KiB, NVIDIA/nccl#2363) */
    return bytes + (version >= ZS_VERSION (2, 28, 0) ? 388 : 4) * MIB;
  int channels = zs_nccl_compute_channels (&comm->input);
  const ZsNcclSystem *system = comm->shapes[0].system;
  bool nvlink = comm->graphs.ring.type_intra <= ZS_PATH_NVB;
  bool peers = nvlink || comm->class == ZS_CLASS_PCIE_P2P || comm->class == ZS_CLASS_PCIE_P2P_SYS;
  /* one direction of one channel to one neighbour: LL 512 KiB + LL128 4800 KiB + Simple on one end and
   * a header on the other, each in steps of 2 MiB */
  int64_t connection = (INT64_C (512) * 1024 + 4800 * 1024 + comm->environment.buffer_bytes + 2 * MIB - 1)
                       / (2 * MIB) * 2 * MIB + 2 * MIB;
  /* a ring has one neighbour each way; chains of trees, where set up, half as much again */
  double neighbours = comm->n_ranks > 2 && (!comm->environment.runtime_connect
                                            || (kinds >> ZS_COLLECTIVE_ALL_REDUCE & 1)) ? 1.5 : 1;

  bytes += 4 * MIB;
  if (peers)
    bytes += (int64_t) (neighbours * (double) (channels * connection));
  else
    bytes += channels * 2 * MIB;   /* through host memory: headers alone */
  if (version >= ZS_VERSION (2, 28, 0))
    bytes += (int64_t) MIN (2 * channels, 64) * 16 * (nvlink ? 512 : 128) * 1024;
  if (comm->graphs.nvls.n_channels > 0 && !comm->input.average
      && (kinds & (1u << ZS_COLLECTIVE_ALL_REDUCE)))
    bytes += (int64_t) (comm->input.min_capability >= 100 ? 24 : 16) * 2 * MIB * system->n_gpus;
  if (kinds & (1u << ZS_COLLECTIVE_ALL_TO_ALL) && peers) {
    /* 8 H100: 1060 to 4340 MB with the first all-to-all (NVIDIA/nccl#1685) */
    int per_peer = MAX (1, 2 * channels / MAX (comm->n_ranks - 1, 1));

    bytes += (int64_t) (comm->n_ranks - 1) * MIN (per_peer * 4, 32) * (connection + 2 * MIB);
  }
  return bytes;
}

char *
zs_comm_describe (const ZsComm *comm)
{
  const ZsNcclGraph *ring = &comm->graphs.ring, *tree = &comm->graphs.tree, *nvls = &comm->graphs.nvls;
  GString *text = g_string_new (NULL);

  if (comm->class == ZS_CLASS_IDEAL)
    return g_string_free (g_string_append (text, comm->topology->ideal ? "ideal" : "one rank"), FALSE);
  g_string_append_printf (text, "ring %d x %g GB/s %s%s, tree %d x %g", ring->n_channels, ring->rate_intra,
                          ring->type_intra == ZS_PATH_NVLINK ? "NVL" : zs_path_name (ring->type_intra),
                          ring->fallback ? " (none found)" : "", tree->n_channels, tree->rate_intra);
  if (comm->n_nodes > 1)
    g_string_append_printf (text, ", between nodes %d x %g", ring->n_channels, ring->rate_inter);
  if (nvls->n_channels > 0)
    g_string_append_printf (text, ", NVLS %d x %g", nvls->n_channels, nvls->rate_intra);
  g_string_append_printf (text, "; %s", zs_nccl_class_name (comm->class));
  return g_string_free (text, FALSE);
}

/* ---- library side of `zerosim collective` ---- */

static const char *const KIND_NAMES[ZS_N_COLLECTIVES] = {
  "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv",
};

const char *
zs_collective_name (ZsCollectiveKind kind)
{
  return KIND_NAMES[kind];
}

bool
zs_collective_from_name (const char *name, ZsCollectiveKind *ret_kind)
{
  g_autofree char *plain = g_strdup (name);

  g_strdelimit (plain, "-", '_');
  for (int kind = 0; kind < ZS_N_COLLECTIVES; kind++) {
    g_autofree char *without = g_strdup (KIND_NAMES[kind]);
    char *to = without;

    for (const char *from = KIND_NAMES[kind]; *from != '\0'; from++)
      if (*from != '_')
        *to++ = *from;
    *to = '\0';
    g_auto (GStrv) pieces = g_strsplit (plain, "_", -1);
    g_autofree char *joined = g_strjoinv ("", pieces);

    if (g_ascii_strcasecmp (joined, without) == 0) {
      *ret_kind = (ZsCollectiveKind) kind;
      return true;
    }
  }
  return false;
}

double
zs_collective_bus_factor (ZsCollectiveKind kind, int n)
{
  switch (kind) {
  case ZS_COLLECTIVE_ALL_REDUCE:
    return 2.0 * (n - 1) / n;
  case ZS_COLLECTIVE_ALL_GATHER:
  case ZS_COLLECTIVE_REDUCE_SCATTER:
  case ZS_COLLECTIVE_ALL_TO_ALL:
    return (n - 1.0) / n;
  default:
    return 1;
  }
}

void
zs_collective_rows (const ZsComm *comm, ZsCollectiveKind kind, const int64_t *sizes, int n_sizes,
                    ZsCollectiveRow *rows)
{
  for (int i = 0; i < n_sizes; i++) {
    ZsChoice choice;

    zs_comm_choose (comm, kind, sizes[i], &choice);
    rows[i] = (ZsCollectiveRow) { .bytes = sizes[i], .time = choice.latency + choice.transfer,
                                  .model_time = choice.model_time, .algorithm = choice.algorithm,
                                  .protocol = choice.protocol, .channels = choice.channels };
    if (rows[i].time > 0) {
      rows[i].algbw = (double) sizes[i] / (zs_time_to_seconds (rows[i].time) * 1e9);
      rows[i].busbw = rows[i].algbw * zs_collective_bus_factor (kind, comm->n_ranks);
    }
  }
}
