/* nccl-loads.c: which links a collective's bytes cross, and how many times.
 * SPDX-License-Identifier: MIT
 *
 * Follows the channels that the search found.  A message is spread evenly over the channels; every hop
 * of a ring's channel carries the share that the textbook says (all-reduce 2 (n-1)/n, all-gather and
 * reduce-scatter (n-1)/n, broadcast and reduce 1).  A hop without peer access goes through host memory:
 * one write and one read of it, and both GPUs' traffic with the host. */
#include "config.h"

#include "sim/network/nccl-comm.h"
#include "sim/network/topology-build.h"

#include <math.h>

typedef struct {
  double *weight;        /* by link of the topology */
  const ZsNodeShape *shape;
  const ZsTopology *topology;
} Sheet;

static void
load (Sheet *sheet, int link, double weight)
{
  if (link >= 0)
    sheet->weight[link] += weight;
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
  if (a->type == ZS_NCCL_GPU && b->type == ZS_NCCL_GPU)
    host = !system->p2p[a->rank * system->n_gpus + b->rank];
  else   /* to or from a NIC by way of the host: bounce buffers */
    host = true;
  if (!host)
    return;
  load (sheet, zs_topology_capacity (sheet->topology, cpu, ZS_LINK_MEMORY), 2 * weight);
  if (a->type == ZS_NCCL_GPU)
    load (sheet, zs_topology_capacity (sheet->topology, a->part, ZS_LINK_DUPLEX), weight);
  if (b->type == ZS_NCCL_GPU)
    load (sheet, zs_topology_capacity (sheet->topology, b->part, ZS_LINK_DUPLEX), weight);
}

/* Out of (DIRECTION 0) or into (1) the node over NET; both capacities of a NIC lie side by side. */
static void
load_net (Sheet *sheet, int net, int direction, double weight)
{
  const ZsNcclSystem *system = sheet->shape->system;
  int part = sheet->topology->nics[system->nodes[net].nic];
  int link = zs_topology_capacity (sheet->topology, part, ZS_LINK_NETWORK);

  if (link >= 0)
    load (sheet, link + direction, weight);
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
    load_hop (sheet, system->gpus[order[i]], system->gpus[order[i + 1]], forward);
    if (backward > 0)
      load_hop (sheet, system->gpus[order[i + 1]], system->gpus[order[i]], backward);
  }
  if (comm->n_nodes > 1 && system->n_nets > 0) {
    int in = system->nets[graph->inter[c][0]], out = system->nets[graph->inter[c][1]];
    int last = ring ? order[n - 1] : order[0];
    /* a ring passes its share on; a tree sends it to the parent and from it, but the roots have none */
    double net = ring ? forward : (forward + backward) * (comm->n_nodes - 1) / comm->n_nodes;

    load_net (sheet, in, 1, net);
    load_hop (sheet, in, system->gpus[order[0]], net);
    load_hop (sheet, system->gpus[last], out, net);
    load_net (sheet, out, 0, net);
  }
  else if (ring && n > 1)
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

    load_net (sheet, net, 1, weight);
    load_hop (sheet, net, head, weight);
    load_hop (sheet, head, net, weight);
    load_net (sheet, net, 0, weight);
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
      load_net (sheet, best, 0, weight);
    }
    if (every || g == 0) {
      load_hop (sheet, best, system->gpus[g], weight);
      load_net (sheet, best, 1, weight);
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

static void
make_set (ZsComm *comm, ZsCollectiveKind kind, ZsLoadShape shape)
{
  const ZsTopology *topology = comm->topology;
  ZsLoadSet *set = &comm->loads[kind][shape];
  GArray *loads = g_array_new (FALSE, FALSE, sizeof (ZsLoad));
  g_autofree double *weights = g_new0 (double, topology->n_links * comm->n_shapes + 1);

  for (int s = 0; s < comm->n_shapes; s++) {
    Sheet sheet = { .weight = weights + s * topology->n_links, .shape = &comm->shapes[s], .topology = topology };

    if (shape != ZS_SHAPE_NVLS || sheet.shape->system->nvs >= 0)
      fill_sheet (&sheet, comm, kind, shape);
  }
  for (int i = 0; i < comm->n_nodes; i++)
    for (int l = 0; l < topology->n_links; l++) {
      double weight = weights[comm->shape_of[i] * topology->n_links + l];
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
