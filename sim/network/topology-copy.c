/* topology-copy.c: a topology that outlives its reader, and what it says as bytes.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/network/topology.h"

#include <string.h>

ZsTopology *
zs_topology_copy (const ZsTopology *topology)
{
  ZsTopology *copy = g_memdup2 (topology, sizeof *topology);
  gsize n = (gsize) topology->n_gpus;

  copy->parts = g_memdup2 (topology->parts, (gsize) topology->n_parts * sizeof *copy->parts);
  copy->links = g_memdup2 (topology->links, (gsize) topology->n_links * sizeof *copy->links);
  copy->gpus = g_memdup2 (topology->gpus, n * sizeof *copy->gpus);
  copy->nvlinks = g_memdup2 (topology->nvlinks, n * n * sizeof *copy->nvlinks);
  copy->pcie_paths = g_memdup2 (topology->pcie_paths, n * n * sizeof *copy->pcie_paths);
  copy->nics = g_memdup2 (topology->nics, (gsize) topology->n_nics * sizeof *copy->nics);
  copy->cpus = g_memdup2 (topology->cpus, (gsize) topology->n_cpus * sizeof *copy->cpus);
  copy->warnings = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < topology->warnings->len; i++)
    g_ptr_array_add (copy->warnings, g_strdup (topology->warnings->pdata[i]));
  return copy;
}

static void
add (GString *key, const void *bytes, gsize n)
{
  g_string_append_len (key, bytes, (gssize) n);
}

static void
add_number (GString *key, int64_t number)
{
  add (key, &number, sizeof number);
}

static void
add_text (GString *key, const char *text)
{
  add (key, text, strlen (text) + 1);
}

void
zs_topology_key (const ZsTopology *topology, GString *key)
{
  const ZsNetwork *network = &topology->network;
  gsize n = (gsize) topology->n_gpus;

  /* member by member: what lies between members says nothing */
  for (int p = 0; p < topology->n_parts; p++) {
    const ZsPart *part = &topology->parts[p];

    add_text (key, part->name);
    add_number (key, (int64_t) part->kind << 32 | (uint32_t) part->index);
    add_number (key, (int64_t) part->compute_capability << 2 | part->peer_access << 1
                       | part->gpu_direct);
    add_number (key, (int64_t) part->vendor << 48 | (int64_t) part->family << 24 | part->model);
    add_number (key, part->nic_rate);
  }
  for (int l = 0; l < topology->n_links; l++) {
    const ZsLink *link = &topology->links[l];

    add_text (key, link->name);
    add_number (key, (int64_t) link->kind << 32 | (uint32_t) link->count);
    add_number (key, (int64_t) link->from << 32 | (uint32_t) link->to);
    add_number (key, (int64_t) link->generation << 32 | (uint32_t) link->reverse);
    add_number (key, link->rate);
    add_number (key, link->nccl_rate);
    add_number (key, link->latency);
  }
  add_number (key, topology->n_parts);
  add_number (key, topology->n_links);
  add_number (key, topology->n_gpus);
  add (key, topology->gpus, n * sizeof *topology->gpus);
  add (key, topology->nvlinks, n * n * sizeof *topology->nvlinks);
  add (key, topology->pcie_paths, n * n * sizeof *topology->pcie_paths);
  add (key, topology->nics, (gsize) topology->n_nics * sizeof *topology->nics);
  add (key, topology->cpus, (gsize) topology->n_cpus * sizeof *topology->cpus);
  add_number (key, (int64_t) topology->ideal << 1 | topology->virtual_machine);
  add_number (key, topology->shm_rate);
  add_number (key, topology->n_nodes);
  if (topology->n_nodes < 2)
    return;
  add_text (key, network->name);
  add_number (key, (int64_t) network->kind << 32 | (uint32_t) network->nics);
  add_number (key, network->rate);
  add_number (key, network->latency);
  add_number (key, network->extra_latency);
  add_number (key, network->message_time);
  add_number (key, network->handshake_from);
  add_number (key, network->handshake_time);
  add (key, &network->efficiency, sizeof network->efficiency);
  add_number (key, network->gpu_direct);
}
