/* topo-network.c: several equal nodes, joined by their NICs.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/base/error.h"
#include "sim/network/topology-build.h"

/* The part above PART on its way to the host. */
static int
upstream (const ZsTopology *topology, int part)
{
  int cpu = zs_topology_cpu_of (topology, part), links[16];

  if (cpu < 0 || zs_topology_route (topology, part, cpu, ZS_PCIE_KINDS, links, 16) < 1)
    return -1;
  return topology->links[links[0]].to;
}

static int
generation_of (const ZsTopology *topology, int part)
{
  for (int l = 0; l < topology->n_links; l++)
    if (topology->links[l].kind == ZS_LINK_PCIE && topology->links[l].from == part)
      return topology->links[l].generation;
  return 5;   /* a module with C2C: its NICs hang on the CPU's own PCIe 5 */
}

static void
add_nics (ZsTopology *topology, int n)
{
  topology->nics = g_renew (int, topology->nics, topology->n_parts + n + 1);
  for (int i = 0; i < n; i++) {
    char name[24];
    /* evenly beside the GPUs; more NICs than GPUs: in turn */
    int gpu = topology->gpus[n <= topology->n_gpus ? i * topology->n_gpus / n : i % topology->n_gpus];
    int above = upstream (topology, gpu);

    g_snprintf (name, sizeof name, "NIC%d", i);
    int nic = zs_topology_add_part (topology, ZS_PART_NIC, i, name);

    topology->nics[topology->n_nics++] = nic;
    if (above >= 0)
      zs_topology_join (topology, above, nic, ZS_LINK_PCIE, 16, generation_of (topology, gpu), 0);
  }
}

/* How well NIC number I is placed: the best path type to any GPU. */
static ZsPathType
place_of (const ZsTopology *topology, int i)
{
  ZsPathType best = ZS_PATH_NONE;

  for (int g = 0; g < topology->n_gpus; g++)
    best = MIN (best, zs_topology_pcie_path_type (topology, topology->gpus[g], topology->nics[i]));
  return best;
}

bool
zs_topology_connect (ZsTopology *topology, int n_nodes, const ZsNetwork *network, GError **error)
{
  int known = 0;

  topology->n_nodes = n_nodes;
  if (n_nodes < 2 || topology->ideal)
    return true;
  for (int i = 0; i < topology->n_nics; i++)
    known += topology->parts[topology->nics[i]].nic_rate > 0;
  if (network == NULL && known == 0) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT,
                 "%d nodes need a network between them: name one (ib-ndr-400, roce-100, efa-p5, tcp-10g ...)", n_nodes);
    return false;
  }
  if (network != NULL)
    topology->network = *network;
  else
    topology->network = (ZsNetwork) { .name = "as the topology says", .kind = ZS_NETWORK_INFINIBAND,
                                      .efficiency = 0.9, .gpu_direct = true, .origin = ZS_ORIGIN_ASSUMED };
  if (network != NULL) {
    int wanted = network->nics > 0 ? network->nics : topology->n_gpus;

    if (topology->n_nics == 0)
      add_nics (topology, wanted);
    if (network->nics == 0 && topology->n_nics < wanted)
      wanted = topology->n_nics;
    /* the best placed ones carry the traffic; a box has others for storage and management */
    for (int i = 0; i < topology->n_nics; i++)
      topology->parts[topology->nics[i]].nic_rate = 0;
    for (int left = wanted; left > 0; left--) {
      int best = -1;

      for (int i = 0; i < topology->n_nics; i++)
        if (topology->parts[topology->nics[i]].nic_rate == 0
            && (best < 0 || place_of (topology, i) < place_of (topology, best)))
          best = i;
      if (best < 0)
        break;
      topology->parts[topology->nics[best]].nic_rate = network->rate;
      topology->parts[topology->nics[best]].gpu_direct = network->gpu_direct;
    }
  }
  for (int i = 0; i < topology->n_nics; i++) {
    ZsPart *nic = &topology->parts[topology->nics[i]];
    double efficiency = topology->network.efficiency > 0 ? topology->network.efficiency : 0.9;

    if (nic->nic_rate <= 0)
      continue;
    for (int direction = 0; direction < 2; direction++) {
      ZsLink link = { .kind = ZS_LINK_NETWORK, .from = topology->nics[i], .to = topology->nics[i],
                      .rate = (ZsRate) ((double) nic->nic_rate * efficiency), .reverse = -1 };

      topology->links = g_renew (ZsLink, topology->links, topology->n_links + 1);
      g_snprintf (link.name, sizeof link.name, "%s %s", nic->name, direction == 0 ? "out" : "in");
      topology->links[topology->n_links++] = link;
    }
  }
  ZsRate proxy = zs_proxy_rate (topology->network.kind, topology->network.gpu_direct);

  for (int g = 0; proxy > 0 && g < topology->n_gpus; g++) {
    ZsLink link = { .kind = ZS_LINK_PROXY, .from = topology->gpus[g], .to = topology->gpus[g], .rate = proxy,
                    .reverse = -1 };

    topology->links = g_renew (ZsLink, topology->links, topology->n_links + 1);
    g_snprintf (link.name, sizeof link.name, "%s proxy", topology->parts[topology->gpus[g]].name);
    topology->links[topology->n_links++] = link;
  }
  return true;
}
