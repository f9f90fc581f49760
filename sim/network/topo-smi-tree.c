/* topo-smi-tree.c: the machine behind the matrix of `nvidia-smi topo -m`.
 * SPDX-License-Identifier: MIT
 *
 * The matrix gives classes, not the tree and not rates.  The tree is rebuilt: devices that are PIX to
 * each other share a switch, PXB a switch above, PHB and NODE a CPU, SYS nothing.  NVLink cells hide
 * the PCIe relation of two GPUs; it is inferred from their NICs and NUMA columns. */
#include "config.h"

#include "sim/network/topo-smi.h"

#include <stdlib.h>
#include <string.h>

static int
root_of (ZsSmiReader *reader, int i)
{
  while (reader->set[i] != i)
    i = reader->set[i] = reader->set[reader->set[i]];
  return i;
}

static void
join_sets (ZsSmiReader *reader, int a, int b)
{
  int x = root_of (reader, a), y = root_of (reader, b);

  reader->set[MAX (x, y)] = MIN (x, y);
}

/* Groups of devices that are at most LEVEL apart; GROUP of each, numbered by first member. */
static void
group (ZsSmiReader *reader, ZsSmiCellKind level, int *groups)
{
  for (int i = 0; i < reader->n; i++)
    reader->set[i] = i;
  for (int a = 0; a < reader->n; a++)
    for (int b = a + 1; b < reader->n; b++) {
      ZsSmiCellKind kind = (ZsSmiCellKind) reader->cells[a][b].kind;
      const ZsSmiDevice *x = &reader->devices[a], *y = &reader->devices[b];

      if (kind >= ZS_SMI_PIX && kind <= level)
        join_sets (reader, a, b);
      /* NVLink hides the PCIe relation: the NUMA columns, or nothing known at all, put them together */
      if (kind == ZS_SMI_NV && level == ZS_SMI_NODE) {
        bool same = x->numa >= 0 && y->numa >= 0 ? x->numa == y->numa : g_str_equal (x->affinity, y->affinity);

        if (same)
          join_sets (reader, a, b);
      }
    }
  for (int i = 0; i < reader->n; i++)
    groups[i] = root_of (reader, i);
}

static int
group_size (const ZsSmiReader *reader, const int *groups, int i)
{
  int n = 0;

  for (int k = 0; k < reader->n; k++)
    n += groups[k] == groups[i];
  return n;
}

static void
build_tree (ZsSmiReader *reader, const ZsTopologyOptions *options, int generation)
{
  ZsTopology *topology = reader->topology;
  int leaves[ZS_SMI_MAX_DEVICES], uppers[ZS_SMI_MAX_DEVICES], cpus[ZS_SMI_MAX_DEVICES];
  int leaf_part[ZS_SMI_MAX_DEVICES], upper_part[ZS_SMI_MAX_DEVICES], cpu_part[ZS_SMI_MAX_DEVICES];
  int n_cpus = 0, n_switches = 0, n_nics = 0;
  char name[32];

  group (reader, ZS_SMI_PIX, leaves);
  group (reader, ZS_SMI_PXB, uppers);
  group (reader, ZS_SMI_NODE, cpus);
  for (int i = 0; i < reader->n; i++)
    leaf_part[i] = upper_part[i] = cpu_part[i] = -1;
  for (int i = 0; i < reader->n; i++) {
    ZsSmiDevice *device = &reader->devices[i];
    int g = device->gpu ? atoi (device->label + 3) : n_nics, above;

    if (cpu_part[cpus[i]] < 0) {
      g_snprintf (name, sizeof name, "CPU %d", n_cpus);
      cpu_part[cpus[i]] = zs_topology_add_part (topology, ZS_PART_CPU, n_cpus++, name);
    }
    above = cpu_part[cpus[i]];
    bool shares_upper = group_size (reader, uppers, i) > group_size (reader, leaves, i);

    if (shares_upper) {
      if (upper_part[uppers[i]] < 0) {
        g_snprintf (name, sizeof name, "switch %d", n_switches);
        upper_part[uppers[i]] = zs_topology_add_part (topology, ZS_PART_PCIE_SWITCH, n_switches++, name);
        zs_topology_join (topology, above, upper_part[uppers[i]], ZS_LINK_PCIE, 16, generation, 0);
      }
      above = upper_part[uppers[i]];
    }
    /* below an upper switch every device has a lower one, or the pair would be PIX */
    if (group_size (reader, leaves, i) > 1 || shares_upper) {
      if (leaf_part[leaves[i]] < 0) {
        g_snprintf (name, sizeof name, "switch %d", n_switches);
        leaf_part[leaves[i]] = zs_topology_add_part (topology, ZS_PART_PCIE_SWITCH, n_switches++, name);
        zs_topology_join (topology, above, leaf_part[leaves[i]], ZS_LINK_PCIE, 16, generation, 0);
      }
      above = leaf_part[leaves[i]];
    }
    /* the name from the NIC legend was kept in `affinity` */
    device->part = zs_topology_add_part (topology, device->gpu ? ZS_PART_GPU : ZS_PART_NIC, g,
                                         !device->gpu && device->affinity[0] != '\0' ? device->affinity : device->label);
    if (device->gpu)
      zs_topology_set_gpu (topology, device->part, g, options);
    else
      n_nics++;
    zs_topology_join (topology, above, device->part, ZS_LINK_PCIE, 16, generation, 0);
  }
}

static void
wire_nvlinks (ZsSmiReader *reader, const ZsTopologyOptions *options)
{
  ZsTopology *topology = reader->topology;
  const ZsGpu *gpu = options->gpu != NULL ? options->gpu : options->gpus != NULL ? options->gpus[0] : NULL;
  int least = G_MAXINT, most = 0, n_gpus = 0;

  for (int a = 0; a < reader->n; a++) {
    n_gpus += reader->devices[a].gpu;
    for (int b = 0; b < reader->n; b++)
      if (a != b && reader->devices[a].gpu && reader->devices[b].gpu) {
        int links = reader->cells[a][b].kind == ZS_SMI_NV ? reader->cells[a][b].links : 0;

        least = MIN (least, links);
        most = MAX (most, links);
      }
  }
  if (most == 0)
    return;
  /* all alike, and more in all than a GPU has: the number is of each GPU to an NVSwitch */
  int limit = gpu != NULL && gpu->nvlink_links > 0 ? gpu->nvlink_links : 18;
  bool module = gpu != NULL && (strstr (gpu->name, "sxm") != NULL || strstr (gpu->name, "SXM") != NULL);
  bool is_switch = n_gpus > 1 && least == most && (most * (n_gpus - 1) > limit || (n_gpus == 2 && module && most == limit));
  int nvs = is_switch ? zs_topology_add_part (topology, ZS_PART_NVSWITCH, 0, "NVSwitch") : -1;

  for (int a = 0; a < reader->n; a++) {
    int part = reader->devices[a].part;

    if (!reader->devices[a].gpu)
      continue;
    int capability = topology->parts[part].compute_capability;

    if (is_switch)
      zs_topology_join (topology, part, nvs, ZS_LINK_NVLINK, most, 0, capability);
    else
      for (int b = a + 1; b < reader->n; b++)
        if (reader->cells[a][b].kind == ZS_SMI_NV)
          zs_topology_join (topology, part, reader->devices[b].part, ZS_LINK_NVLINK, reader->cells[a][b].links, 0, capability);
  }
}

/* Without a GPU named: what the number of links lets one think. */
static void
guess_gpu (const ZsSmiReader *reader, int *ret_generation, int *ret_capability)
{
  int most = 0;

  for (int a = 0; a < reader->n; a++)
    for (int b = 0; b < reader->n; b++)
      most = MAX (most, reader->cells[a][b].links);
  *ret_generation = most >= 18 ? 5 : most > 0 && (most == 6 || most <= 2) ? 3 : 4;
  *ret_capability = most >= 18 ? 90 : most == 6 || (most > 0 && most <= 2) ? 70 : 80;
}

static int
compare_devices (const void *x, const void *y)
{
  const ZsSmiDevice *a = x, *b = y;

  return a->gpu && b->gpu ? atoi (a->label + 3) - atoi (b->label + 3) : 0;
}

/* GPU0, GPU1 ... in this order, whatever the order of the columns. */
static void
sort_gpus (ZsSmiReader *reader)
{
  for (int i = 0; i < reader->n; i++)
    for (int k = i + 1; k < reader->n; k++) {
      bool later = !reader->devices[i].gpu && reader->devices[k].gpu;

      if (!later && compare_devices (&reader->devices[i], &reader->devices[k]) <= 0)
        continue;
      ZsSmiDevice device = reader->devices[i];

      reader->devices[i] = reader->devices[k];
      reader->devices[k] = device;
      for (int m = 0; m < reader->n; m++) {
        ZsSmiCell cell = reader->cells[i][m];

        reader->cells[i][m] = reader->cells[k][m];
        reader->cells[k][m] = cell;
      }
      for (int m = 0; m < reader->n; m++) {
        ZsSmiCell cell = reader->cells[m][i];

        reader->cells[m][i] = reader->cells[m][k];
        reader->cells[m][k] = cell;
      }
    }
}

void
zs_smi_build (ZsSmiReader *reader, const ZsTopologyOptions *options)
{
  ZsTopology *topology = reader->topology;
  const ZsGpu *gpu = options->gpu != NULL ? options->gpu : options->gpus != NULL ? options->gpus[0] : NULL;
  int generation = gpu != NULL ? gpu->pcie_generation : 0, capability = 0;
  static const ZsPathType PATHS[] = { ZS_PATH_SELF, ZS_PATH_NVLINK, ZS_PATH_PIX, ZS_PATH_PXB, ZS_PATH_PHB, ZS_PATH_NODE,
                                      ZS_PATH_SYS };

  if (generation == 0) {
    guess_gpu (reader, &generation, &capability);
    zs_topology_warn (topology, "the text says neither GPU nor PCIe generation: generation %d, compute capability %d are assumed",
                      generation, capability);
  }
  sort_gpus (reader);
  build_tree (reader, options, generation);
  for (int i = 0; gpu == NULL && i < topology->n_parts; i++)
    if (topology->parts[i].kind == ZS_PART_GPU)
      topology->parts[i].compute_capability = capability;
  wire_nvlinks (reader, options);
  zs_topology_finish (topology, options);

  int n_apart = 0;

  for (int a = 0; a < topology->n_gpus; a++)
    for (int b = 0; b < topology->n_gpus; b++) {
      int kind = reader->cells[a][b].kind;

      if (kind < ZS_SMI_PIX)
        continue;
      if (kind == ZS_SMI_SYS && zs_topology_path (topology, a, b) != ZS_PATH_SYS && a < b)
        zs_topology_warn (topology, "GPU%d and GPU%d are SYS, but other cells put them closer together", a, b);
      zs_topology_set_pcie_path (topology, a, b, PATHS[kind]);
      n_apart += kind == ZS_SMI_SYS && a < b && reader->devices[a].numa >= 0
                 && reader->devices[a].numa == reader->devices[b].numa;
    }
  if (n_apart > 0)
    zs_topology_warn (topology, "GPUs of one NUMA node are SYS to each other: the PCIe tree is hidden (a virtual machine?), so each "
                      "hangs on a root of its own here, as NCCL would see it; they may share an uplink in truth");
}
