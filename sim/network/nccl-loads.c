/* nccl-loads.c: which links a collective's bytes cross, and how many times.
 * SPDX-License-Identifier: MIT
 *
 * Follows the channels that the search found.  A message is spread evenly over the channels; every hop
 * of a ring's channel carries the share that the textbook says (all-reduce 2 (n-1)/n, all-gather and
 * reduce-scatter (n-1)/n, broadcast and reduce 1, except that nothing flows into the root of a broadcast
 * and out of the root of a reduce; the root is rank 0, as in nccl-tests and where a framework broadcasts
 * its parameters).  A hop without peer access goes through host memory: one write and one read of it, and
 * both GPUs' traffic with the host.  Over TCP the bytes of a GPU pass through its proxy thread. */
#include "config.h"

#include "sim/network/nccl-comm.h"
#include "sim/network/topology-build.h"

#include <math.h>

typedef struct {
  double *weight;        /* by link of the topology */
  const ZsNodeShape *shape;
  const ZsTopology *topology;
  int node;              /* of the communicator, where a root makes nodes differ */
  bool into, out_of;     /* nothing flows into, or out of, rank 0 */
} Sheet;

static void
load (Sheet *sheet, int link, double weight)
{
  if (link >= 0)
    sheet->weight[link] += weight;
}

/* A GPU's PCIe link carries less in both directions together when kernels read and write host memory (NCCL's
 * SHM and its bounce buffers) than with copy engines, for which ZS_LINK_DUPLEX is the rate.  Both directions of
 * one GPU, nccl-tests: two V100 (gen 3) 14.2 GB/s, eight RTX 4090 (gen 4) 30, two hosts of one A100 over
 * InfiniBand without GPUDirect (gen 4) 23-25, four RTX 5090 (gen 5) 70; duplex rates 19, 38, 38, 102. */
#define KERNEL_WEIGHT 1.3
/* GPUDirect through a root complex, both directions of one A100 on gen 4 (nccl-tests): 21 to 28 GB/s on AMD Rome,
 * 36 on Milan (Polaris); 32 is taken where the CPU is not known.  Machines with Slingshot 11 are Milan or later. */
#define ROOT_WEIGHT   1.2
#define ROOT_WEIGHT_SLINGSHOT 1.0

/* May the NIC of NET reach the memory of the GPU that is PATH away? */
static bool
reaches (const ZsNcclSystem *system, const ZsNcclNode *net, const ZsNcclPath *path)
{
  return system->topology->parts[system->topology->nics[net->nic]].gpu_direct
         && path->type <= zs_nccl_direct_level (system);
}

/* One hop between two nodes of NCCL's system. */
static void
load_hop (Sheet *sheet, int from, int to, double weight)
{
  const ZsNcclSystem *system = sheet->shape->system;
  const ZsNcclPath *path = zs_nccl_path (system, from, to);
  bool host = false;
  int cpu = -1;

  for (int i = 0; i < path->n; i++) {
    const ZsNcclEdge *edge = &system->edges[path->edges[i]];

    load (sheet, edge->link, weight);
    if (system->nodes[edge->to].type == ZS_NCCL_CPU)
      cpu = system->nodes[edge->to].part;
  }
  const ZsNcclNode *a = &system->nodes[from], *b = &system->nodes[to];

  if (cpu < 0)
    return;
  bool direct = (a->type == ZS_NCCL_NET && reaches (system, a, path))
                || (b->type == ZS_NCCL_NET && reaches (system, b, path));

  if (a->type == ZS_NCCL_GPU && b->type == ZS_NCCL_GPU)
    host = !system->p2p[a->rank * system->n_gpus + b->rank];
  else   /* to or from a NIC by way of the CPU: bounce buffers, or GPUDirect through the root complex */
    host = !direct;
  if (!host && a->type == ZS_NCCL_GPU && b->type == ZS_NCCL_GPU)
    return;
  if (host)
    load (sheet, zs_topology_capacity (sheet->topology, cpu, ZS_LINK_MEMORY), 2 * weight);
  weight *= host ? KERNEL_WEIGHT
            : sheet->topology->network.kind == ZS_NETWORK_SLINGSHOT ? ROOT_WEIGHT_SLINGSHOT : ROOT_WEIGHT;
  if (a->type == ZS_NCCL_GPU)
    load (sheet, zs_topology_capacity (sheet->topology, a->part, ZS_LINK_DUPLEX), weight);
  if (b->type == ZS_NCCL_GPU)
    load (sheet, zs_topology_capacity (sheet->topology, b->part, ZS_LINK_DUPLEX), weight);
}

/* Out of (DIRECTION 0) or into (1) the node over NET, for GPU; both capacities of a NIC lie side by side. */
static void
load_net (Sheet *sheet, const ZsComm *comm, int net, int gpu, int direction, double weight)
{
  const ZsNcclSystem *system = sheet->shape->system;
  int part = sheet->topology->nics[system->nodes[net].nic];
  int link = zs_topology_capacity (sheet->topology, part, ZS_LINK_NETWORK);

  if (link >= 0)
    load (sheet, link + direction, weight);
  load (sheet, zs_topology_capacity (sheet->topology, system->nodes[gpu].part, ZS_LINK_PROXY), weight / comm->environment.socket_threads);
}

/* Does nothing flow from FROM to TO on a ring inside the node, as the root is at one end? */
static bool
is_idle (const Sheet *sheet, const ZsComm *comm, int from, int to)
{
  int root = sheet->node == 0 ? comm->root : -1;

  return root >= 0 && ((sheet->into && to == root) || (sheet->out_of && from == root));
}

/* The same for what comes in from the node before, or goes OUT to the next: it does not matter to the node
 * alone, but to the place of the root in the first node. */
static bool
is_idle_net (const Sheet *sheet, const ZsComm *comm, int c, bool out)
{
  const ZsNodeShape *first = &comm->shapes[comm->shape_of[0]];
  const int8_t *order = first->graphs.ring.intra[c];

  if (sheet->into && order[0] == comm->root)
    return sheet->node == (out ? comm->n_nodes - 1 : 0);
  if (sheet->out_of && order[first->n_gpus - 1] == comm->root)
    return sheet->node == (out ? 0 : 1);
  return false;
}

/* A channel's GPUs in order, forward and (BACKWARD > 0) back; ring closes it. */
static void
load_channel (Sheet *sheet, const ZsComm *comm, const ZsNcclGraph *graph, int c, bool ring, double forward,
              double backward)
{
  const ZsNcclSystem *system = sheet->shape->system;
  const int8_t *order = graph->intra[c];
  int n = system->n_gpus;

  for (int i = 0; i + 1 < n; i++) {
    if (!is_idle (sheet, comm, order[i], order[i + 1]))
      load_hop (sheet, system->gpus[order[i]], system->gpus[order[i + 1]], forward);
    if (backward > 0)
      load_hop (sheet, system->gpus[order[i + 1]], system->gpus[order[i]], backward);
  }
  if (comm->n_nodes > 1 && system->n_nets > 0) {
    int in = system->nets[graph->inter[c][0]], out = system->nets[graph->inter[c][1]];
    int last = ring ? order[n - 1] : order[0];
    /* a ring passes its share on; a tree sends it to the parent and from it, but the roots have none */
    double net = ring ? forward : (forward + backward) * (comm->n_nodes - 1) / comm->n_nodes;

    if (!ring || !is_idle_net (sheet, comm, c, false)) {
      load_net (sheet, comm, in, system->gpus[order[0]], 1, net);
      load_hop (sheet, in, system->gpus[order[0]], net);
    }
    if (!ring || !is_idle_net (sheet, comm, c, true)) {
      load_hop (sheet, system->gpus[last], out, net);
      load_net (sheet, comm, out, system->gpus[last], 0, net);
    }
  }
  else if (ring && n > 1 && !is_idle (sheet, comm, order[n - 1], order[0]))
    load_hop (sheet, system->gpus[order[n - 1]], system->gpus[order[0]], forward);
}

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

static void
load_nvls (Sheet *sheet, const ZsComm *comm, ZsCollectiveKind kind)
{
  const ZsNcclSystem *system = sheet->shape->system;
  int n = system->n_gpus;
  /* reduce: the heads read everybody's part through the switch; gather: they write it to everybody */
  double up = kind == ZS_COLLECTIVE_REDUCE_SCATTER ? 1 : 0, down = kind == ZS_COLLECTIVE_ALL_GATHER ? 1 : 0;

  if (kind == ZS_COLLECTIVE_ALL_REDUCE)
    up = down = 1 + 1.0 / n;
  else {
    up += down / n;
    down += up >= 1 ? 1.0 / n : 0;
  }
  for (int g = 0; g < n; g++) {
    load_hop (sheet, system->gpus[g], system->nvs, up);
    load_hop (sheet, system->nvs, system->gpus[g], down);
  }
  const ZsNcclGraph *graph = &sheet->shape->graphs.nvls;

  for (int c = 0; comm->n_nodes > 1 && system->n_nets > 0 && c < graph->n_channels; c++) {
    int net = system->nets[graph->inter[c][0]], head = system->gpus[graph->intra[c][0]];
    double weight = 2.0 * (comm->n_nodes - 1) / comm->n_nodes / graph->n_channels;

    load_net (sheet, comm, net, head, 1, weight);
    load_hop (sheet, net, head, weight);
    load_hop (sheet, head, net, weight);
    load_net (sheet, comm, net, head, 0, weight);
  }
}

/* Every pair (all-to-all) or every rank to the next (send/recv). */
static void
load_pairs (Sheet *sheet, const ZsComm *comm, ZsCollectiveKind kind)
{
  const ZsNcclSystem *system = sheet->shape->system;
  int n = system->n_gpus, all = comm->n_ranks;
  bool every = kind == ZS_COLLECTIVE_ALL_TO_ALL;

  for (int a = 0; a < n; a++)
    for (int b = 0; b < n; b++)
      if (a != b && (every || b == a + 1 || (b == 0 && a == n - 1 && comm->n_nodes == 1)))
        load_hop (sheet, system->gpus[a], system->gpus[b], every ? 1.0 / all : 1);
  if (comm->n_nodes < 2 || system->n_nets == 0)
    return;
  for (int g = 0; g < n; g++) {
    int best = system->nets[0];
    double weight = every ? (double) (all - n) / all : 1;

    for (int i = 1; i < system->n_nets; i++) {
      int net = system->nets[(g + i) % system->n_nets];

      if (zs_nccl_path (system, system->gpus[g], net)->type < zs_nccl_path (system, system->gpus[g], best)->type)
        best = net;
    }
    if (every || g == n - 1) {
      load_hop (sheet, system->gpus[g], best, weight);
      load_net (sheet, comm, best, system->gpus[g], 0, weight);
    }
    if (every || g == 0) {
      load_hop (sheet, best, system->gpus[g], weight);
      load_net (sheet, comm, best, system->gpus[g], 1, weight);
    }
  }
}

static void
fill_sheet (Sheet *sheet, const ZsComm *comm, ZsCollectiveKind kind, ZsLoadShape shape)
{
  const ZsNcclGraphs *graphs = &sheet->shape->graphs;

  if (kind == ZS_COLLECTIVE_ALL_TO_ALL || kind == ZS_COLLECTIVE_SEND_RECV)
    load_pairs (sheet, comm, kind);
  else if (shape == ZS_SHAPE_NVLS)
    load_nvls (sheet, comm, kind);
  else {
    bool ring = shape == ZS_SHAPE_RING;
    const ZsNcclGraph *graph = ring ? &graphs->ring : &graphs->tree;
    int n = graph->n_channels;
    double share = ring ? ring_share (kind, comm->n_ranks) / n : 1.0 / n;

    for (int c = 0; c < n; c++)
      load_channel (sheet, comm, graph, c, ring, share, ring ? 0 : share);
  }
}

/* One for each shape of node, or, where a ROOT makes them differ, for each node; of alike
 * ones the first three, as the others carry no more than the third. */
static int
n_sheets (const ZsComm *comm, bool root)
{
  return !root ? comm->n_shapes : comm->n_shapes == 1 ? MIN (comm->n_nodes, 3) : comm->n_nodes;
}

/* Weights of all links, by sheets. */
static double *
weigh (const ZsComm *comm, ZsCollectiveKind kind, ZsLoadShape shape, bool root)
{
  const ZsTopology *topology = comm->topology;
  int n = n_sheets (comm, root);
  double *weights = g_new0 (double, topology->n_links * n + 1);

  for (int s = 0; s < n; s++) {
    Sheet sheet = { .weight = weights + s * topology->n_links, .topology = topology, .node = s,
                    .shape = &comm->shapes[root ? comm->shape_of[s] : s],
                    .into = root && kind == ZS_COLLECTIVE_BROADCAST, .out_of = root && kind == ZS_COLLECTIVE_REDUCE };

    if (shape != ZS_SHAPE_NVLS || sheet.shape->system->nvs >= 0)
      fill_sheet (&sheet, comm, kind, shape);
  }
  return weights;
}

static void
make_set (ZsComm *comm, ZsCollectiveKind kind, ZsLoadShape shape)
{
  const ZsTopology *topology = comm->topology;
  ZsLoadSet *set = &comm->loads[kind][shape];
  GArray *loads = g_array_new (FALSE, FALSE, sizeof (ZsLoad));
  bool rooted = kind == ZS_COLLECTIVE_BROADCAST || kind == ZS_COLLECTIVE_REDUCE;
  g_autofree double *weights = weigh (comm, kind, shape, false);
  int n_nodes = comm->n_shapes == 1 ? 1 : comm->n_nodes;   /* where they are alike, the first says all */
  /* links that were measured to be faster than known carry less of it */
  double scale = fmin (1, zs_nccl_own_factor (comm, shape == ZS_SHAPE_NVLS ? ZS_ALGORITHM_NVLS : ZS_ALGORITHM_RING,
                                              ZS_PROTOCOL_SIMPLE));

  for (int i = 0; i < topology->n_links * comm->n_shapes; i++)
    weights[i] *= scale;
  scale = 1;
  for (int i = 0; i < n_nodes; i++)
    for (int l = 0; l < topology->n_links; l++)
      set->seconds_per_byte = fmax (set->seconds_per_byte, weights[comm->shape_of[i] * topology->n_links + l]
                                                           / (double) topology->links[l].rate);
  if (rooted) {
    /* Alone it is as fast as with its root; what others share with it is spread over all ranks, as if each were the root
     * in turn, so that ranks that are equal stay so (sim/run folds them). */
    g_autofree double *own = weigh (comm, kind, shape, true);
    double seconds = 0;

    for (int i = 0; i < n_sheets (comm, true); i++)
      for (int l = 0; l < topology->n_links; l++)
        seconds = fmax (seconds, own[i * topology->n_links + l] / (double) topology->links[l].rate);
    scale = (comm->n_ranks - 1.0) / comm->n_ranks;
    if (set->seconds_per_byte * scale > seconds)
      scale = seconds / set->seconds_per_byte;
    set->seconds_per_byte = seconds;
  }
  for (int i = 0; i < n_nodes; i++)
    for (int l = 0; l < topology->n_links; l++) {
      double weight = weights[comm->shape_of[i] * topology->n_links + l] * scale;
      ZsLoad one = { comm->nodes[i] * topology->n_links + l, (int32_t) ceil (weight * ZS_LOAD_ONE - 1e-6) };

      if (weight <= 0)
        continue;
      g_array_append_val (loads, one);
      set->seconds_per_byte = fmax (set->seconds_per_byte,
                                    (double) one.weight / ZS_LOAD_ONE / (double) topology->links[l].rate);
    }
  set->n = (int) loads->len;
  set->loads = (ZsLoad *) (void *) g_array_free (loads, FALSE);
}

void
zs_comm_make_loads (ZsComm *comm)
{
  for (int kind = 0; kind < ZS_N_COLLECTIVES; kind++)
    for (int shape = 0; shape < ZS_N_SHAPES; shape++) {
      bool pairs = kind == ZS_COLLECTIVE_ALL_TO_ALL || kind == ZS_COLLECTIVE_SEND_RECV;
      bool tree = kind == ZS_COLLECTIVE_ALL_REDUCE;
      bool nvls = (tree || kind == ZS_COLLECTIVE_ALL_GATHER || kind == ZS_COLLECTIVE_REDUCE_SCATTER)
                  && comm->graphs.nvls.n_channels > 0;

      if (shape == ZS_SHAPE_RING || (shape == ZS_SHAPE_TREE && tree && !pairs) || (shape == ZS_SHAPE_NVLS && nvls))
        make_set (comm, (ZsCollectiveKind) kind, (ZsLoadShape) shape);
    }
}
