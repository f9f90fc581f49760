/* topology.c: parts, links, the ways between them.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/network/topology-build.h"

#include <math.h>
#include <string.h>

ZsTopology *
zs_topology_new (const char *name)
{
  ZsTopology *topology = g_new0 (ZsTopology, 1);

  g_strlcpy (topology->name, name, sizeof topology->name);
  topology->n_nodes = 1;
  topology->warnings = g_ptr_array_new_with_free_func (g_free);
  return topology;
}

void
zs_topology_free (ZsTopology *topology)
{
  if (topology == NULL)
    return;
  g_free (topology->parts);
  g_free (topology->links);
  g_free (topology->gpus);
  g_free (topology->nics);
  g_free (topology->cpus);
  g_free (topology->nvlinks);
  g_free (topology->pcie_paths);
  g_ptr_array_unref (topology->warnings);
  g_free (topology);
}

void
zs_topology_warn (ZsTopology *topology, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_ptr_array_add (topology->warnings, g_strdup_vprintf (format, arguments));
  va_end (arguments);
}

int
zs_topology_add_part (ZsTopology *topology, ZsPartKind kind, int index, const char *name)
{
  int number = topology->n_parts++;

  topology->parts = g_renew (ZsPart, topology->parts, topology->n_parts);
  topology->parts[number] = (ZsPart) { .kind = kind, .index = index };
  g_strlcpy (topology->parts[number].name, name, sizeof topology->parts[number].name);
  return number;
}

static int
add_link (ZsTopology *topology, const ZsLink *link)
{
  int number = topology->n_links++;

  topology->links = g_renew (ZsLink, topology->links, topology->n_links);
  topology->links[number] = *link;
  ZsLink *added = &topology->links[number];
  const char *from = topology->parts[link->from].name;

  if (link->from != link->to)
    g_snprintf (added->name, sizeof added->name, "%s > %s", from, topology->parts[link->to].name);
  else
    g_snprintf (added->name, sizeof added->name, "%s %s", from, zs_link_kind_name (link->kind));
  return number;
}

bool
zs_topology_is_upper (const ZsTopology *topology, int a, int b)
{
  ZsPartKind x = topology->parts[a].kind, y = topology->parts[b].kind;

  if (x == ZS_PART_CPU || y == ZS_PART_CPU)
    return x == ZS_PART_CPU;
  if (x == ZS_PART_PCIE_SWITCH && y == ZS_PART_PCIE_SWITCH)
    return a < b;
  return x == ZS_PART_PCIE_SWITCH;
}

void
zs_topology_join (ZsTopology *topology, int a, int b, ZsLinkKind kind, int count, int generation,
                  int capability)
{
  ZsLink link = { .kind = kind, .from = a, .to = b, .count = count, .generation = generation };
  const ZsPart *cpu = &topology->parts[a];

  switch (kind) {
  case ZS_LINK_PCIE:
    link.nccl_rate = zs_pcie_nccl_rate (generation, count);
    link.rate = zs_pcie_rate (generation, count, !zs_topology_is_upper (topology, a, b));
    link.latency = 500 * 1000;   /* half a microsecond per hop: P2P latency 1.2-1.7 us less the
                                    local 1.5 (p2pBandwidthLatencyTest, RTX 4090) */
    break;
  case ZS_LINK_NVLINK:
    link.nccl_rate = zs_nvlink_nccl_rate (capability, count, ZS_VERSION (2, 30, 7));
    link.rate = zs_nvlink_rate (capability, count);
    break;
  case ZS_LINK_SOCKET:
    link.nccl_rate = zs_socket_nccl_rate (cpu->vendor, cpu->family, cpu->model, ZS_VERSION (2, 30, 7));
    link.rate = zs_socket_rate (cpu->vendor, generation);
    break;
  case ZS_LINK_C2C:
    /* GB200: 359 and 377 GB/s by nvbandwidth; NCCL: bandwidth per link x count of the XML, 450 */
    link.rate = INT64_C (350000000000);
    link.nccl_rate = INT64_C (450000000000);
    break;
  default:
    g_assert_not_reached ();
  }
  link.reverse = topology->n_links + 1;
  add_link (topology, &link);
  link.reverse = topology->n_links - 1;
  link.from = b;
  link.to = a;
  if (kind == ZS_LINK_PCIE)
    link.rate = zs_pcie_rate (generation, count, !zs_topology_is_upper (topology, b, a));
  add_link (topology, &link);
}

void
zs_topology_set_gpu (ZsTopology *topology, int number, int g, const ZsTopologyOptions *options)
{
  ZsPart *part = &topology->parts[number];
  const ZsGpu *gpu = options->gpus != NULL && g < options->n_gpus ? options->gpus[g] : options->gpu;

  if (gpu != NULL) {
    part->compute_capability = gpu->compute_capability;
    part->peer_access = gpu->p2p_over_pcie;
  }
  else if (part->compute_capability == 0) {
    part->compute_capability = 80;
    part->peer_access = true;
  }
  if (options->peer_access >= 0)
    part->peer_access = options->peer_access > 0;
}

int
zs_topology_route (const ZsTopology *topology, int from, int to, unsigned int kinds, int *links,
                   int room)
{
  g_autofree int *came_by = g_new (int, topology->n_parts);
  g_autofree int *queue = g_new (int, topology->n_parts);
  int head = 0, tail = 0, n = 0;

  for (int i = 0; i < topology->n_parts; i++)
    came_by[i] = -2;
  came_by[from] = -1;
  queue[tail++] = from;
  while (head < tail && came_by[to] == -2) {
    int at = queue[head++];

    /* GPUs and NICs do not forward */
    if (at != from
        && (topology->parts[at].kind == ZS_PART_GPU || topology->parts[at].kind == ZS_PART_NIC))
      continue;
    for (int l = 0; l < topology->n_links; l++) {
      const ZsLink *link = &topology->links[l];

      if (link->from == at && link->to != at && (kinds >> link->kind & 1) && came_by[link->to] == -2) {
        came_by[link->to] = l;
        queue[tail++] = link->to;
      }
    }
  }
  if (came_by[to] == -2)
    return -1;
  for (int at = to; at != from; at = topology->links[came_by[at]].from)
    n++;
  if (n > room)
    return -1;
  for (int at = to, i = n; at != from; at = topology->links[came_by[at]].from)
    links[--i] = came_by[at];
  return n;
}

ZsPathType
zs_topology_pcie_path_type (const ZsTopology *topology, int from, int to)
{
  int links[16];
  int n = from == to ? 0 : zs_topology_route (topology, from, to, ZS_PCIE_KINDS, links, 16);
  int n_switches = 0;
  bool socket = false, cpu = false;

  if (from == to)
    return ZS_PATH_SELF;
  if (n < 0)
    return ZS_PATH_NONE;
  for (int i = 0; i < n; i++) {
    const ZsLink *link = &topology->links[links[i]];

    socket |= link->kind == ZS_LINK_SOCKET;
    cpu |= topology->parts[link->to].kind == ZS_PART_CPU || topology->parts[link->from].kind == ZS_PART_CPU;
    n_switches += topology->parts[link->to].kind == ZS_PART_PCIE_SWITCH;
  }
  return socket ? ZS_PATH_SYS : cpu ? ZS_PATH_PHB : n_switches > 1 ? ZS_PATH_PXB : ZS_PATH_PIX;
}

int
zs_topology_cpu_of (const ZsTopology *topology, int part)
{
  int best = -1, best_n = 99, links[16];

  for (int i = 0; i < topology->n_cpus; i++) {
    int n = topology->cpus[i] == part ? 0
            : zs_topology_route (topology, part, topology->cpus[i], ZS_PCIE_KINDS, links, 16);

    if (n >= 0 && n < best_n) {
      best_n = n;
      best = topology->cpus[i];
    }
  }
  return best;
}

int
zs_topology_capacity (const ZsTopology *topology, int part, ZsLinkKind kind)
{
  for (int l = 0; l < topology->n_links; l++)
    if (topology->links[l].kind == kind && topology->links[l].from == part
        && topology->links[l].to == part)
      return l;
  return -1;
}

static void
index_parts (ZsTopology *topology)
{
  g_free (topology->gpus);
  g_free (topology->nics);
  g_free (topology->cpus);
  topology->n_gpus = topology->n_nics = topology->n_cpus = 0;
  topology->gpus = g_new (int, topology->n_parts + 1);
  topology->nics = g_new (int, topology->n_parts + 1);
  topology->cpus = g_new (int, topology->n_parts + 1);
  for (int i = 0; i < topology->n_parts; i++)
    switch (topology->parts[i].kind) {
    case ZS_PART_GPU: topology->gpus[topology->n_gpus++] = i; break;
    case ZS_PART_NIC: topology->nics[topology->n_nics++] = i; break;
    case ZS_PART_CPU: topology->cpus[topology->n_cpus++] = i; break;
    default: break;
    }
}

static void
add_capacity (ZsTopology *topology, int part, ZsLinkKind kind, ZsRate rate)
{
  ZsLink link = { .kind = kind, .from = part, .to = part, .rate = rate, .reverse = -1 };

  add_link (topology, &link);
}

static int
best_generation (const ZsTopology *topology)
{
  int generation = 0;

  for (int l = 0; l < topology->n_links; l++)
    if (topology->links[l].kind == ZS_LINK_PCIE)
      generation = MAX (generation, topology->links[l].generation);
  return generation > 0 ? generation : 4;
}

static void
find_paths (ZsTopology *topology)
{
  int n = topology->n_gpus;

  topology->nvlinks = g_new0 (int, n * n + 1);
  topology->pcie_paths = g_new0 (uint8_t, n * n + 1);
  for (int a = 0; a < n; a++)
    for (int b = 0; b < n; b++) {
      int from = topology->gpus[a], to = topology->gpus[b], links = 0;

      topology->pcie_paths[a * n + b] = (uint8_t) zs_topology_pcie_path_type (topology, from, to);
      for (int l = 0; a != b && l < topology->n_links; l++) {
        const ZsLink *link = &topology->links[l];

        if (link->kind != ZS_LINK_NVLINK || link->from != from)
          continue;
        if (link->to == to)
          links += link->count;
        else if (topology->parts[link->to].kind == ZS_PART_NVSWITCH)
          for (int m = 0; m < topology->n_links; m++)
            if (topology->links[m].kind == ZS_LINK_NVLINK && topology->links[m].from == link->to
                && topology->links[m].to == to)
              links += MIN (link->count, topology->links[m].count);
      }
      topology->nvlinks[a * n + b] = links;
    }
}

void
zs_topology_set_pcie_path (ZsTopology *topology, int a, int b, ZsPathType path)
{
  topology->pcie_paths[a * topology->n_gpus + b] = (uint8_t) path;
}

/* GPUs that sit badly: what a person would want to know before blaming the software. */
static void
note_bad_places (ZsTopology *topology)
{
  int n = topology->n_gpus, n_linked = 0, widest = 0;

  for (int g = 0; g < n; g++) {
    bool linked = false;

    for (int h = 0; h < n; h++)
      linked |= topology->nvlinks[g * n + h] > 0;
    n_linked += linked;
  }
  for (int g = 0; n_linked > 0 && n_linked < n && g < n; g++) {
    bool linked = false;

    for (int h = 0; h < n; h++)
      linked |= topology->nvlinks[g * n + h] > 0;
    if (!linked)
      zs_topology_warn (topology, "GPU %d has no NVLink while others have: every ring with it runs over PCIe", g);
  }
  for (int l = 0; l < topology->n_links; l++)
    if (topology->links[l].kind == ZS_LINK_PCIE && topology->parts[topology->links[l].from].kind == ZS_PART_GPU)
      widest = MAX (widest, topology->links[l].count);
  for (int l = 0; l < topology->n_links; l++) {
    const ZsLink *link = &topology->links[l];

    if (link->kind == ZS_LINK_PCIE && topology->parts[link->from].kind == ZS_PART_GPU && link->count < widest)
      zs_topology_warn (topology, "%s has %d PCIe lanes while others have %d",
                        topology->parts[link->from].name, link->count, widest);
  }
  if (n >= 2 && n_linked == 0 && topology->n_cpus > 1) {
    g_autofree int *of = g_new0 (int, topology->n_parts);

    for (int g = 0; g < n; g++) {
      int cpu = zs_topology_cpu_of (topology, topology->gpus[g]);

      if (cpu >= 0)
        of[cpu]++;
    }
    for (int i = 0; i < topology->n_cpus && n > 2 && topology->n_cpus < n; i++)
      if (of[topology->cpus[i]] == 1)
        zs_topology_warn (topology, "one GPU alone on %s: every ring crosses the sockets for it",
                          topology->parts[topology->cpus[i]].name);
  }
}

static double
factor_or_one (double factor)
{
  return factor > 0 ? factor : 1;
}

/* Links between the host and GPUs, at the rates that were measured. */
static void
calibrate_host_links (ZsTopology *topology, const ZsLinkCalibration *calibration)
{
  double to_gpu = factor_or_one (calibration->to_gpu), to_host = factor_or_one (calibration->to_host);

  for (int l = 0; l < topology->n_links; l++) {
    ZsLink *link = &topology->links[l];
    bool wire = link->kind == ZS_LINK_PCIE || link->kind == ZS_LINK_C2C;
    double factor = link->kind == ZS_LINK_DUPLEX ? sqrt (to_gpu * to_host)
                    : !wire                      ? 1
                    : zs_topology_is_upper (topology, link->from, link->to) ? to_gpu : to_host;

    link->rate = (ZsRate) llrint ((double) link->rate * factor);
  }
}

void
zs_topology_finish (ZsTopology *topology, const ZsTopologyOptions *options)
{
  index_parts (topology);
  int generation = best_generation (topology);

  for (int i = 0; i < topology->n_cpus; i++) {
    ZsPart *cpu = &topology->parts[topology->cpus[i]];

    if (cpu->family == 0 && cpu->model == 0) {
      cpu->vendor = options->host != NULL ? options->host->vendor : ZS_CPU_INTEL;
      cpu->family = cpu->vendor == ZS_CPU_INTEL ? 6 : 0;
      cpu->model = cpu->vendor == ZS_CPU_INTEL ? zs_likely_intel_model (generation) : 1;
    }
  }
  for (int i = 0; i < topology->n_cpus; i++)
    for (int j = i + 1; j < topology->n_cpus; j++)
      zs_topology_join (topology, topology->cpus[i], topology->cpus[j], ZS_LINK_SOCKET, 1, generation, 0);
  find_paths (topology);
  for (int i = 0; i < topology->n_cpus; i++) {
    const ZsHost *host = options->host;
    bool known = host != NULL && host->memory_rate > 0;

    add_capacity (topology, topology->cpus[i], ZS_LINK_MEMORY,
                  !known ? zs_host_memory_rate (generation)
                  : host->memory_assumed ? host->memory_rate / MAX (1, host->sockets)
                                         : host->memory_rate / topology->n_cpus);
  }
  for (int l = 0, n = topology->n_links; l < n; l++) {
    const ZsLink link = topology->links[l];

    if (link.kind == ZS_LINK_PCIE && topology->parts[link.from].kind == ZS_PART_GPU)
      add_capacity (topology, link.from, ZS_LINK_DUPLEX, zs_duplex_rate (link.generation, link.count));
    /* GB200: 160-175 GB/s each way when both copy at once */
    if (link.kind == ZS_LINK_C2C && topology->parts[link.from].kind == ZS_PART_GPU)
      add_capacity (topology, link.from, ZS_LINK_DUPLEX, INT64_C (350000000000));
  }
  topology->shm_rate = options->shm_rate;
  topology->calibration = options->calibration;
  calibrate_host_links (topology, &options->calibration);
  note_bad_places (topology);
}
