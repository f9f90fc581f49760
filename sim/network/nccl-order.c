/* nccl-order.c: in which order the search tries the GPUs after one.
 * SPDX-License-Identifier: MIT
 *
 * NCCL 2.30 src/graph/search.cc: by bandwidth and hops, seen from the NIC where the channel has to leave. */
#include "config.h"

#include "sim/network/nccl-search.h"

#include <stdlib.h>

typedef struct {
  int    g, start, inter_hops, intra_hops;
  double inter_rate, pci_rate, intra_rate;
} Candidate;

static int
compare_intra (const Candidate *a, const Candidate *b)
{
  if (a->intra_rate != b->intra_rate)
    return a->intra_rate > b->intra_rate ? -1 : 1;
  return a->intra_hops - b->intra_hops;
}

static int
compare (const void *x, const void *y)
{
  const Candidate *a = x, *b = y;
  int order;

  if (a->inter_rate != b->inter_rate)
    return a->inter_rate > b->inter_rate ? -1 : 1;
  if (a->pci_rate != b->pci_rate)
    return a->pci_rate > b->pci_rate ? -1 : 1;
  if (a->inter_hops != b->inter_hops)
    return a->inter_hops - b->inter_hops;
  order = compare_intra (a, b);
  return order != 0 ? order : a->start - b->start;
}

static double
pci_rate (const ZsNcclSystem *system, int gpu)
{
  const ZsNcclNode *node = &system->nodes[gpu];

  for (int o = node->first; o < node->first + node->n; o++)
    if (system->edges[system->order[o]].type == ZS_PATH_PIX)
      return system->edges[system->order[o]].rate;
  return 0;
}

/* Fills the order of the GPUs after G; NET: place in nets, -1 none. */
static void
make_order (ZsNcclSearch *search, int g, int net)
{
  const ZsNcclSystem *system = search->system;
  int n = system->n_gpus, count = 0, row = (net + 1) * n + g;
  Candidate candidates[ZS_NCCL_MAX_GPUS];

  for (int i = 1; i < n; i++) {
    int h = (g + i) % n;
    const ZsNcclPath *path = zs_nccl_path (system, system->gpus[g], system->gpus[h]);

    if (path->n <= 0)
      continue;
    candidates[count] = (Candidate) { .g = h, .start = i, .intra_hops = path->n, .intra_rate = path->rate };
    if (net >= 0) {
      const ZsNcclPath *way = zs_nccl_path (system, system->nets[net], system->gpus[h]);

      candidates[count].inter_hops = way->n;
      candidates[count].inter_rate = way->rate;
      candidates[count].pci_rate = pci_rate (system, system->gpus[h]);
    }
    count++;
  }
  qsort (candidates, (size_t) count, sizeof *candidates, compare);
  for (int i = 0; i < count; i++) {
    int class = 0;

    while (compare_intra (&candidates[i], &candidates[class]) != 0)
      class++;
    search->orders[row * n + i] = (int8_t) candidates[i].g;
    search->classes[row * n + i] = (int8_t) class;
  }
  if (count < n)
    search->orders[row * n + count] = -1;
  search->ordered[row] = true;
}

int
zs_nccl_next_gpus (ZsNcclSearch *search, int g, int towards_net, int *next)
{
  const ZsNcclSystem *system = search->system;
  const ZsNcclGraph *graph = search->graph;
  uint64_t flag = UINT64_C (1) << graph->n_channels;
  int n = system->n_gpus, count = 0, net = towards_net != 0 ? graph->inter[graph->n_channels][0] : -1;
  int row = (net + 1) * n + g;

  if (!search->ordered[row])
    make_order (search, g, net);
  int class = -1;
  bool alike = true;

  for (int i = 0; i < n && search->orders[row * n + i] >= 0; i++)
    if (!(search->used[search->orders[row * n + i]] & flag)) {
      alike &= class < 0 || class == search->classes[row * n + i];
      class = search->classes[row * n + i];
      next[count++] = search->orders[row * n + i];
    }
  if (towards_net == -1 && alike)
    for (int i = 0; i < count / 2; i++) {
      int other = next[i];

      next[i] = next[count - 1 - i];
      next[count - 1 - i] = other;
    }
  if (system->nvs < 0)
    return count;

  /* NVSwitches like few peers: only the neighbours by number */
  int previous = (g - 1 + n) % n, following = (g + 1) % n, first[2], n_first = 1, found = 0;

  first[0] = following;
  if (graph->pattern == ZS_PATTERN_RING) {
    first[1] = previous;
    n_first = 2;
  }
  else if (graph->pattern == ZS_PATTERN_SPLIT_TREE || graph->pattern == ZS_PATTERN_BALANCED_TREE) {
    first[0] = previous;
    first[1] = following;
    n_first = 2;
  }
  if (previous == following)
    n_first = 1;
  for (int f = 0; f < n_first; f++) {
    int i = 0;

    while (i < count && next[i] != first[f])
      i++;
    if (i == count)
      continue;
    for (; i > 0; i--)
      next[i] = next[i - 1];
    next[0] = first[f];
    found++;
  }
  return found;
}
