/* nccl-paths.c: NCCL's view of one node: edges, cheapest paths, which GPU pairs go straight.
 * SPDX-License-Identifier: MIT
 *
 * After NCCL 2.30 src/graph/topo.cc and paths.cc: breadth-first paths from every node, then GPU pairs
 * that may not use peer access are diverted through the CPU of the receiver, and NICs without
 * GPUDirect through the CPU of the GPU, or over NVLink through the GPU beside the NIC (PXN). */
#include "config.h"

#include "sim/network/nccl-graph.h"
#include "sim/network/topology-build.h"

#include <math.h>

static double
gigabytes (ZsRate rate)
{
  return (double) rate / 1e9;
}

static int
add_node (ZsNcclSystem *system, ZsNcclType type, int part)
{
  system->nodes = g_renew (ZsNcclNode, system->nodes, system->n_nodes + 1);
  system->nodes[system->n_nodes] = (ZsNcclNode) { .type = type, .part = part, .rank = -1, .nic = -1 };
  return system->n_nodes++;
}

static void
add_edge (ZsNcclSystem *system, int from, int to, ZsPathType type, double rate, int link)
{
  system->edges = g_renew (ZsNcclEdge, system->edges, system->n_edges + 1);
  system->edges[system->n_edges++] = (ZsNcclEdge) { .from = from, .to = to, .type = type,
                                                       .rate = rate, .link = link };
}

/* The edges as this version of NCCL rates them. */
static void
add_link_edge (ZsNcclSystem *system, int number, const int *node_of)
{
  const ZsLink *link = &system->topology->links[number];
  const ZsPart *from = &system->topology->parts[link->from], *to = &system->topology->parts[link->to];
  ZsVersion version = system->environment->version;
  int a = node_of[link->from], b = node_of[link->to];

  if (a < 0 || b < 0 || a == b)
    return;
  switch (link->kind) {
  case ZS_LINK_NVLINK: {
    int capability = from->kind == ZS_PART_GPU ? from->compute_capability : to->compute_capability;

    add_edge (system, a, b, ZS_PATH_NVLINK,
              gigabytes (zs_nvlink_nccl_rate (capability, link->count, version)), number);
    break;
  }
  case ZS_LINK_C2C:
    add_edge (system, a, b, ZS_PATH_C2C, gigabytes (link->nccl_rate), number);
    break;
  case ZS_LINK_PCIE:
    add_edge (system, a, b, ZS_PATH_PIX, gigabytes (link->nccl_rate), number);
    break;
  case ZS_LINK_SOCKET:
    add_edge (system, a, b, ZS_PATH_SYS,
              gigabytes (zs_socket_nccl_rate (from->vendor, from->family, from->model, version)),
              number);
    break;
  default:
    break;
  }
}

static void
sort_edges (ZsNcclSystem *system)
{
  int n = 0;

  system->order = g_new (int, system->n_edges + 1);
  for (int i = 0; i < system->n_nodes; i++) {
    ZsNcclNode *node = &system->nodes[i];

    node->first = n;
    for (int e = 0; e < system->n_edges; e++)
      if (system->edges[e].from == i) {
        int at = n++;

        while (at > node->first && system->edges[system->order[at - 1]].rate < system->edges[e].rate) {
          system->order[at] = system->order[at - 1];
          at--;
        }
        system->order[at] = e;
      }
    node->n = n - node->first;
  }
}

static void
pair_edges (ZsNcclSystem *system)
{
  for (int e = 0; e < system->n_edges; e++)
    for (int i = 0; i < system->n_edges; i++)
      if (system->edges[i].from == system->edges[e].to && system->edges[i].to == system->edges[e].from
          && system->edges[i].type == system->edges[e].type)
        system->edges[e].back = i;
}

/* Paths that go from GPU to GPU through an Intel root complex (topo.h, INTEL_P2P_OVERHEAD). */
static void
mark_intel_roots (ZsNcclSystem *system)
{
  for (int i = 0; i < system->n_nodes * system->n_nodes; i++) {
    ZsNcclPath *path = &system->paths[i];

    for (int k = 0; k < path->n; k++) {
      const ZsNcclNode *node = &system->nodes[system->edges[path->edges[k]].to];

      path->intel_root |= node->type == ZS_NCCL_CPU && node->intel && path->type == ZS_PATH_PHB
                          && system->nodes[i / system->n_nodes].type == ZS_NCCL_GPU;
    }
  }
}

static ZsNcclPath *
path_of (ZsNcclSystem *system, int from, int to)
{
  return &system->paths[from * system->n_nodes + to];
}

/* Paths of all nodes TO base. */
static void
set_paths (ZsNcclSystem *system, int base)
{
  g_autofree int *list = g_new (int, system->n_nodes), *next = g_new (int, system->n_nodes);
  int n_list = 1;

  list[0] = base;
  *path_of (system, base, base) = (ZsNcclPath) { .n = 0, .rate = 5000, .type = ZS_PATH_SELF };
  while (n_list > 0) {
    int n_next = 0;

    for (int i = 0; i < n_list; i++) {
      int at = list[i];
      const ZsNcclNode *node = &system->nodes[at];
      ZsNcclPath path = *path_of (system, at, base);

      for (int o = node->first; o < node->first + node->n; o++) {
        int e = system->order[o];
        const ZsNcclEdge *edge = &system->edges[e];
        const ZsNcclNode *remote = &system->nodes[edge->to];
        ZsNcclPath *there = path_of (system, edge->to, base);
        double rate = fmin (path.rate, edge->rate);

        /* through a GPU: one hop, NVLink to another GPU */
        if (at != base && node->type == ZS_NCCL_GPU
            && (system->environment->nvb_disable || edge->type != ZS_PATH_NVLINK
                || remote->type != ZS_NCCL_GPU || path.n > 1))
          continue;
        if (path.n + 1 > ZS_NCCL_MAX_HOPS
            || !((there->n < 0 || there->n > path.n) && (there->n < 0 || there->rate < rate)))
          continue;
        ZsPathType type = edge->type;

        there->edges[0] = edge->back;
        for (int k = 0; k < path.n; k++)
          there->edges[k + 1] = path.edges[k];
        there->n = path.n + 1;
        there->rate = rate;
        if (node->type == ZS_NCCL_PCI && remote->type == ZS_NCCL_PCI)
          type = ZS_PATH_PXB;
        if (edge->type == ZS_PATH_PIX && (node->type == ZS_NCCL_CPU || remote->type == ZS_NCCL_CPU))
          type = ZS_PATH_PHB;
        if (node->type == ZS_NCCL_GPU && path.type == ZS_PATH_NVLINK && type == ZS_PATH_NVLINK
            && there->n > 1)
          type = ZS_PATH_NVB;
        there->type = MAX (path.type, type);
        bool listed = false;

        for (int k = 0; k < n_next; k++)
          listed |= next[k] == edge->to;
        if (!listed)
          next[n_next++] = edge->to;
      }
    }
    n_list = n_next;
    for (int i = 0; i < n_next; i++)
      list[i] = next[i];
  }
}

/* FROM to TO by way of VIA. */
static void
divert (ZsNcclSystem *system, int from, int via, int to)
{
  const ZsNcclPath *a = path_of (system, from, via), *b = path_of (system, via, to);
  ZsNcclPath joined = { .n = a->n + b->n, .rate = fmin (a->rate, b->rate),
                        .type = MAX (a->type, b->type) };

  if (a->n < 0 || b->n < 0 || joined.n > ZS_NCCL_MAX_HOPS)
    return;
  for (int i = 0; i < a->n; i++)
    joined.edges[i] = a->edges[i];
  for (int i = 0; i < b->n; i++)
    joined.edges[a->n + i] = b->edges[i];
  if (system->nodes[via].type == ZS_NCCL_GPU)
    joined.type = ZS_PATH_PXN;
  *path_of (system, from, to) = joined;
}

static int
local_cpu (const ZsNcclSystem *system, int node)
{
  int best = -1, hops = G_MAXINT;

  for (int i = 0; i < system->n_cpus; i++) {
    const ZsNcclPath *path = zs_nccl_path (system, node, system->cpus[i]);

    if (path->n >= 0 && path->n < hops) {
      hops = path->n;
      best = system->cpus[i];
    }
  }
  return best;
}

static bool
may_peer (const ZsNcclSystem *system, int a, int b)
{
  const ZsNcclEnvironment *environment = system->environment;
  const ZsNcclPath *path = zs_nccl_path (system, a, b);
  const ZsPart *x = &system->topology->parts[system->nodes[a].part];
  const ZsPart *y = &system->topology->parts[system->nodes[b].part];
  ZsPathType level = ZS_PATH_PXB;

  if (system->amd && system->n_gpus <= 2)
    level = ZS_PATH_SYS;
  if (environment->p2p_disable)
    level = ZS_PATH_SELF;
  else if (environment->p2p_level >= 0)
    level = (ZsPathType) environment->p2p_level;
  if (path->n < 0 || path->type > level)
    return false;
  /* NVLink: the driver always grants it */
  return path->type <= ZS_PATH_NVB || (x->peer_access && y->peer_access);
}

static void
divert_pairs (ZsNcclSystem *system)
{
  int n = system->n_gpus;
  g_autofree bool *p2p = g_new0 (bool, n * n + 1);

  for (int a = 0; a < n; a++)
    for (int b = 0; b < n; b++)
      p2p[a * n + b] = a == b || may_peer (system, system->gpus[a], system->gpus[b]);
  for (int b = 0; b < n; b++)
    for (int a = 0; a < n; a++) {
      int cpu = local_cpu (system, system->gpus[b]);

      if (!p2p[a * n + b] && cpu >= 0)
        divert (system, system->gpus[a], cpu, system->gpus[b]);
    }
  system->p2p = g_steal_pointer (&p2p);
}

/* The GPU that NCCL takes as the NIC's own. */
static int
local_gpu (const ZsNcclSystem *system, int net)
{
  int best = -1;

  for (int g = 0; g < system->n_gpus; g++) {
    const ZsNcclPath *path = zs_nccl_path (system, net, system->gpus[g]);
    const ZsNcclPath *other = best < 0 ? NULL : zs_nccl_path (system, net, system->gpus[best]);

    if (path->n >= 0 && (other == NULL || path->type < other->type
                         || (path->type == other->type && path->rate > other->rate)))
      best = g;
  }
  /* several GPUs beside the NIC: NCCL spreads the NICs over them */
  if (best >= 0) {
    const ZsNcclPath *path = zs_nccl_path (system, net, system->gpus[best]);
    int local[ZS_NCCL_MAX_GPUS], n = 0, place = 0;

    for (int g = 0; g < system->n_gpus; g++) {
      const ZsNcclPath *other = zs_nccl_path (system, net, system->gpus[g]);

      if (other->type == path->type && other->rate == path->rate)
        local[n++] = g;
    }
    for (int i = 0; i < system->n_nets && system->nets[i] != net; i++) {
      const ZsNcclPath *other = zs_nccl_path (system, system->nets[i], system->gpus[best]);

      place += other->type == path->type && other->rate == path->rate;
    }
    best = local[place % n];
  }
  return best;
}

ZsPathType
zs_nccl_direct_level (const ZsNcclSystem *system)
{
  if (system->environment->gdr_level >= 0)
    return (ZsPathType) system->environment->gdr_level;
  /* NCCL's default is PXB; sites with Slingshot, whose NICs hang on the CPU beside the GPUs, set
   * NCCL_NET_GDR_LEVEL=PHB for all jobs (documentation of ALCF Polaris, NERSC Perlmutter, CSCS Alps) */
  return system->topology->network.kind == ZS_NETWORK_SLINGSHOT ? ZS_PATH_PHB : ZS_PATH_PXB;
}

static void
divert_nets (ZsNcclSystem *system)
{
  const ZsNcclEnvironment *environment = system->environment;

  for (int i = 0; i < system->n_nets; i++) {
    int net = system->nets[i], relay = local_gpu (system, net);

    for (int g = 0; g < system->n_gpus; g++) {
      int gpu = system->gpus[g];
      const ZsNcclPath *own = zs_nccl_path (system, gpu, net);

      if (!environment->pxn_disable && relay >= 0 && relay != g) {
        const ZsNcclPath *from_relay = zs_nccl_path (system, system->gpus[relay], net);
        const ZsNcclPath *to_relay = zs_nccl_path (system, gpu, system->gpus[relay]);

        if (from_relay->type <= ZS_PATH_PXB && to_relay->type <= ZS_PATH_NVLINK
            && (from_relay->rate > own->rate || own->type > ZS_PATH_PXN))
          divert (system, gpu, system->gpus[relay], net);
      }
      own = zs_nccl_path (system, gpu, net);
      ZsPathType level = zs_nccl_direct_level (system);
      bool direct = system->topology->parts[system->topology->nics[system->nodes[net].nic]].gpu_direct;

      if (own->type < ZS_PATH_PHB && own->type != ZS_PATH_PXN && (!direct || own->type > level)) {
        int cpu = local_cpu (system, gpu);

        if (cpu >= 0) {
          divert (system, net, cpu, gpu);
          divert (system, gpu, cpu, net);
        }
      }
    }
  }
}

static void
find_rates (ZsNcclSystem *system)
{
  int others = system->n_nets;

  system->max_rate = system->total_rate = 0;
  if (others == 0 && system->n_gpus == 1) {
    system->max_rate = system->total_rate = 5000;
    return;
  }
  for (int g = 0; g < system->n_gpus; g++) {
    int gpu = system->gpus[g];
    const ZsNcclNode *node = &system->nodes[gpu];
    double nvlink = 0, pcie = 0;

    for (int i = 0; i < (others > 0 ? others : system->n_gpus); i++) {
      const ZsNcclPath *path = zs_nccl_path (system, gpu, others > 0 ? system->nets[i] : system->gpus[i]);

      if (path->n > 0)
        system->max_rate = fmax (system->max_rate, path->rate);
    }
    for (int o = node->first; o < node->first + node->n; o++) {
      const ZsNcclEdge *edge = &system->edges[system->order[o]];

      if (edge->type == ZS_PATH_NVLINK)
        nvlink += edge->rate;
      if (edge->type == ZS_PATH_PIX)
        pcie = edge->rate;
    }
    system->total_rate = fmax (system->total_rate, fmax (nvlink, pcie));
  }
}

ZsNcclSystem *
zs_nccl_system_new (const ZsTopology *topology, const int *gpus, int n_gpus, bool inter,
                    const ZsNcclEnvironment *environment)
{
  ZsNcclSystem *system = g_new0 (ZsNcclSystem, 1);
  g_autofree int *node_of = g_new (int, topology->n_parts + 1);

  g_assert (n_gpus <= ZS_NCCL_MAX_GPUS);
  system->topology = topology;
  system->environment = environment;
  system->nvs = -1;
  system->min_capability = G_MAXINT;
  for (int i = 0; i < topology->n_parts; i++)
    node_of[i] = -1;
  for (int i = 0; i < n_gpus; i++) {
    const ZsPart *part = &topology->parts[topology->gpus[gpus[i]]];
    int node = add_node (system, ZS_NCCL_GPU, topology->gpus[gpus[i]]);

    system->nodes[node].rank = i;
    system->nodes[node].capability = part->compute_capability;
    system->min_capability = MIN (system->min_capability, part->compute_capability);
    system->max_capability = MAX (system->max_capability, part->compute_capability);
    node_of[topology->gpus[gpus[i]]] = node;
    system->gpus[system->n_gpus++] = node;
  }
  for (int i = 0; i < topology->n_parts; i++) {
    const ZsPart *part = &topology->parts[i];

    if (part->kind == ZS_PART_PCIE_SWITCH)
      node_of[i] = add_node (system, ZS_NCCL_PCI, i);
    if (part->kind == ZS_PART_NVSWITCH)   /* all of a machine are one */
      node_of[i] = system->nvs < 0 ? (system->nvs = add_node (system, ZS_NCCL_NVS, i)) : system->nvs;
    if (part->kind == ZS_PART_CPU && system->n_cpus < ZS_NCCL_MAX_GPUS) {
      node_of[i] = system->cpus[system->n_cpus++] = add_node (system, ZS_NCCL_CPU, i);
      system->nodes[node_of[i]].amd = part->vendor == ZS_CPU_AMD;
      system->nodes[node_of[i]].intel = part->vendor == ZS_CPU_INTEL;
      system->amd |= part->vendor == ZS_CPU_AMD;
    }
  }
  for (int i = 0; inter && i < topology->n_nics && i < ZS_NCCL_MAX_GPUS; i++) {
    const ZsPart *part = &topology->parts[topology->nics[i]];

    if (part->nic_rate <= 0)
      continue;
    int nic = node_of[topology->nics[i]] = add_node (system, ZS_NCCL_NIC, topology->nics[i]);
    int net = add_node (system, ZS_NCCL_NET, -1);

    system->nodes[net].rate_left = gigabytes (part->nic_rate);
    system->nodes[net].latency = (double) topology->network.latency / 1e6;
    system->nodes[net].nic = i;
    system->nets[system->n_nets++] = net;
    add_edge (system, nic, net, ZS_PATH_SELF, gigabytes (part->nic_rate), -1);
    add_edge (system, net, nic, ZS_PATH_SELF, gigabytes (part->nic_rate), -1);
  }
  for (int l = 0; l < topology->n_links; l++)
    add_link_edge (system, l, node_of);
  pair_edges (system);
  sort_edges (system);

  system->paths = g_new (ZsNcclPath, system->n_nodes * system->n_nodes);
  for (int i = 0; i < system->n_nodes * system->n_nodes; i++)
    system->paths[i] = (ZsNcclPath) { .n = -1, .type = ZS_PATH_NONE };
  for (int i = 0; i < system->n_nodes; i++)
    set_paths (system, i);
  divert_pairs (system);
  divert_nets (system);
  mark_intel_roots (system);
  find_rates (system);
  return system;
}

void
zs_nccl_system_free (ZsNcclSystem *system)
{
  if (system == NULL)
    return;
  g_free (system->nodes);
  g_free (system->edges);
  g_free (system->order);
  g_free (system->paths);
  g_free (system->p2p);
  g_free (system);
}
