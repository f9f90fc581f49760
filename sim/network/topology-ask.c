/* topology-ask.c: questions to a topology: paths, copies, the tree to print.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/network/topology-build.h"

#include <string.h>

ZsPathType
zs_topology_path (const ZsTopology *topology, int a, int b)
{
  int n = topology->n_gpus;

  g_assert (a >= 0 && b >= 0 && a < n && b < n);
  if (a == b)
    return ZS_PATH_SELF;
  return topology->nvlinks[a * n + b] > 0 ? ZS_PATH_NVLINK : (ZsPathType) topology->pcie_paths[a * n + b];
}

int
zs_topology_nvlinks (const ZsTopology *topology, int a, int b)
{
  return a == b ? 0 : topology->nvlinks[a * topology->n_gpus + b];
}

const char *
zs_path_name (ZsPathType path)
{
  static const char *const NAMES[] = { "X", "NV", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB",
                                       "NODE", "SYS", "NET", "none" };
  return NAMES[path];
}

char *
zs_topology_cell (const ZsTopology *topology, int a, int b)
{
  ZsPathType path = zs_topology_path (topology, a, b);

  if (path == ZS_PATH_NVLINK)
    return g_strdup_printf ("NV%d", zs_topology_nvlinks (topology, a, b));
  return g_strdup (zs_path_name (path));
}

const char *
zs_part_kind_name (ZsPartKind kind)
{
  static const char *const NAMES[] = { "GPU", "PCIe switch", "NVSwitch", "CPU", "NIC" };

  return NAMES[kind];
}

const char *
zs_link_kind_name (ZsLinkKind kind)
{
  static const char *const NAMES[] = { "NVLink", "C2C", "PCIe", "socket", "memory", "duplex",
                                       "network", "proxy thread" };
  return NAMES[kind];
}

int
zs_topology_memory_link (const ZsTopology *topology, int gpu)
{
  int cpu = topology->n_gpus > 0 ? zs_topology_cpu_of (topology, topology->gpus[gpu]) : -1;

  return cpu < 0 ? -1 : zs_topology_capacity (topology, cpu, ZS_LINK_MEMORY);
}

int
zs_topology_copy_loads (const ZsTopology *topology, int gpu, ZsCopyKind copy, ZsLoad *loads, int room)
{
  int part = topology->gpus[gpu], cpu = zs_topology_cpu_of (topology, part), n = 0, links[16];

  if (cpu < 0)
    return 0;
  int memory = zs_topology_capacity (topology, cpu, ZS_LINK_MEMORY);

  if (memory >= 0 && n < room)
    loads[n++] = (ZsLoad) { memory, copy == ZS_COPY_HOST_TO_HOST ? 2 * ZS_LOAD_ONE : ZS_LOAD_ONE };
  if (copy == ZS_COPY_HOST_TO_HOST)
    return n;
  bool in = copy == ZS_COPY_HOST_TO_GPU;
  int n_links = zs_topology_route (topology, in ? cpu : part, in ? part : cpu, ZS_PCIE_KINDS, links, 16);
  int duplex = zs_topology_capacity (topology, part, ZS_LINK_DUPLEX);

  for (int i = 0; i < n_links && n < room; i++)
    loads[n++] = (ZsLoad) { links[i], ZS_LOAD_ONE };
  if (duplex >= 0 && n < room)
    loads[n++] = (ZsLoad) { duplex, ZS_LOAD_ONE };
  return n;
}

ZsTime
zs_topology_copy_latency (const ZsTopology *topology, int gpu, ZsCopyKind copy)
{
  (void) topology;
  (void) gpu;
  /* measured on one H200: pinned copies up to 64 KiB take about 4 us, whatever their size */
  return copy == ZS_COPY_HOST_TO_HOST ? 0 : 4 * ZS_MICROSECOND;
}

/* Does the GPU reach pageable memory itself (C2C), without a buffer of the driver's? */
static bool
is_coherent (const ZsTopology *topology, int part)
{
  for (int l = 0; l < topology->n_links; l++)
    if (topology->links[l].kind == ZS_LINK_C2C && topology->links[l].from == part)
      return true;
  return false;
}

ZsRate
zs_topology_copy_rate (const ZsTopology *topology, int gpu, ZsCopyKind copy, bool pinned)
{
  ZsLoad loads[16];
  int n = zs_topology_copy_loads (topology, gpu, copy, loads, 16);
  ZsRate rate = INT64_C (200000000000);

  for (int i = 0; i < n; i++)
    rate = MIN (rate, topology->links[loads[i].link].rate * ZS_LOAD_ONE / loads[i].weight);
  if (copy == ZS_COPY_HOST_TO_HOST)
    return MIN (rate, INT64_C (4700000000));   /* one thread's memcpy: 4.5-4.8 GB/s of 1 GiB, host of an H200 */
  if (!pinned && is_coherent (topology, topology->gpus[gpu]))
    return MIN (rate, INT64_C (100000000000));  /* one GH200, 1 GiB to the GPU: pageable 93 GiB/s, pinned 97 */
  /* The driver's own thread copies through a pinned buffer: it is that core's memcpy that counts, so PCIe generations
   * hardly differ, and never above the link.  Measured, large buffers, GB/s on gen 5 hosts (H200): to the GPU
   * 7.5, 8.5, 9.3, 17.7, 21.8 (13 to 15 up to 16 MiB, which caches hold); back 14.6, 15.8, 17.2, 18.3.  The middle of
   * each (geometric) is taken: a factor of 1.8 either way to the GPU. */
  if (!pinned)
    rate = MIN (rate * 3 / 4, copy == ZS_COPY_HOST_TO_GPU ? INT64_C (11900000000) : INT64_C (16400000000));
  return rate;
}

/* ---- the tree to print ---- */

static void
add_rows (const ZsTopology *topology, GArray *rows, int part, int link, int depth)
{
  ZsTopologyRow row = { .depth = depth, .name = topology->parts[part].name,
                        .kind = zs_part_kind_name (topology->parts[part].kind), .link = link,
                        .rate = link < 0 ? 0 : topology->links[link].rate };

  g_array_append_val (rows, row);
  if (topology->parts[part].kind == ZS_PART_GPU || topology->parts[part].kind == ZS_PART_NIC)
    return;
  for (int l = 0; l < topology->n_links; l++) {
    const ZsLink *down = &topology->links[l];

    if (down->from == part && down->to != part
        && ((down->kind == ZS_LINK_PCIE && zs_topology_is_upper (topology, part, down->to)) || down->kind == ZS_LINK_C2C
            || (down->kind == ZS_LINK_NVLINK && topology->parts[part].kind == ZS_PART_NVSWITCH)))
      add_rows (topology, rows, down->to, l, depth + 1);
  }
}

GArray *
zs_topology_rows (const ZsTopology *topology)
{
  GArray *rows = g_array_new (FALSE, FALSE, sizeof (ZsTopologyRow));

  for (int i = 0; i < topology->n_parts; i++)
    if (topology->parts[i].kind == ZS_PART_CPU || topology->parts[i].kind == ZS_PART_NVSWITCH
        || (topology->n_cpus == 0 && topology->parts[i].kind == ZS_PART_GPU))
      add_rows (topology, rows, i, -1, 0);
  return rows;
}
