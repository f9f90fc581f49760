/* nccl-search.c: NCCL's search for channels.
 * SPDX-License-Identifier: MIT
 *
 * The procedure of NCCL 2.30 src/graph/search.cc.  From the fastest speed downwards, channels are laid
 * one after the other, each taking its speed from every edge it passes; the best is the one with the
 * greatest channels x speed, then the fewest hops.  The budget of steps is part of the procedure: what
 * NCCL does not find in time does not exist. */
#include "config.h"

#include "sim/network/nccl-graph.h"

#include <math.h>
#include <string.h>

enum { ORDER_FREE, ORDER_PCI, ORDER_REPLAY };

/* Budgets of search.cc, in steps of the recursion. */
#define BUDGET_GLOBAL (1 << 19)
#define BUDGET        (1 << 14)
#define BUDGET_SAME   (1 << 8)

typedef struct {
  ZsNcclSystem *system;
  ZsNcclGraph  *graph, *best;
  uint64_t      used[ZS_NCCL_MAX_GPUS];   /* channels that pass the GPU, as bits */
  /* GPUs after each, best first: by their own distance, and by that to a NIC (made when first asked) */
  int8_t       *orders;                   /* (1 + NICs) x GPUs x GPUs */
  int8_t       *classes;                  /* of the same entries: equal where the GPUs are alike to it */
  bool         *ordered;                  /* (1 + NICs) x GPUs */
  int           back_to_net, back_to_first;
} Search;

static void lay_channel (Search *search, int64_t *budget);
static void at_gpu (Search *search, int g, int step, int back_to_net, int back_to_first, int order,
                    int64_t *budget);

static bool
take_edge (double *left, double amount)
{
  if (amount > 0 && *left < amount)
    return false;
  *left = (double) (int64_t) ((*left - amount) * 1000 + 0.5) / 1000;
  return true;
}

/* Takes RATE along the first ROOM hops of the path; returns how many had it. */
static int
take_path (ZsNcclSystem *system, const ZsNcclPath *path, int start, int room, double rate)
{
  double pcie = path->intel_root ? rate * 6 / 5 : rate;

  for (int i = 0; i < room; i++) {
    ZsNcclEdge *edge = &system->edges[path->edges[i]];
    const ZsNcclNode *to = &system->nodes[edge->to];
    double forward = edge->type == ZS_PATH_PIX ? pcie : rate, back = 0;
    ZsNcclEdge *reverse = NULL;

    if (to->type == ZS_NCCL_GPU && to->capability < 80 && system->nodes[start].type != ZS_NCCL_GPU) {
      reverse = &system->edges[edge->back];
      back = forward / 8;   /* read requests before Ampere */
    }
    if (forward > 0 && (edge->rate < forward || (reverse != NULL && reverse->rate < back)))
      return i;
    take_edge (&edge->rate, forward);
    if (reverse != NULL)
      take_edge (&reverse->rate, back);
  }
  return room;
}

static bool
is_tree (ZsNcclPattern pattern)
{
  return pattern != ZS_PATTERN_RING && pattern != ZS_PATTERN_NVLS;
}

static bool
is_inside (const ZsNcclSystem *system, int node)
{
  return system->nodes[node].type == ZS_NCCL_GPU || system->nodes[node].type == ZS_NCCL_NVS;
}

/* Takes (MULTIPLE > 0) or gives back (< 0) a hop of the channel; false: not there, nothing taken. */
static bool
follow (Search *search, int from, int to, int multiple)
{
  ZsNcclSystem *system = search->system;
  ZsNcclGraph *graph = search->graph;
  bool inside = is_inside (system, from) && is_inside (system, to);
  const ZsNcclPath *path = zs_nccl_path (system, from, to), *back = zs_nccl_path (system, to, from);
  ZsPathType limit = inside ? graph->type_intra : graph->type_inter;
  double rate = (inside ? graph->rate_intra : graph->rate_inter) * multiple;

  if (path->n < 0)
    return false;
  if (multiple > 0 && path->type > limit)
    return false;
  if (multiple > 0 && is_tree (graph->pattern) && back->type > limit)
    return false;
  int n = take_path (system, path, from, path->n, rate);

  if (n < path->n) {
    take_path (system, path, from, n, -rate);
    return false;
  }
  graph->n_hops += multiple * path->n;
  return true;
}

static bool
is_better (const Search *search)
{
  const ZsNcclGraph *graph = search->graph, *best = search->best;

  if (graph->n_channels < graph->min_channels)
    return false;
  if (graph->pattern == ZS_PATTERN_NVLS)
    return (graph->n_channels > best->n_channels && graph->n_channels <= search->system->n_gpus)
           || graph->n_channels * graph->rate_inter > best->n_channels * best->rate_inter;
  double rate = graph->n_channels * graph->rate_intra, best_rate = best->n_channels * best->rate_intra;

  if (rate != best_rate)
    return rate > best_rate;
  return graph->pattern == best->pattern && graph->cross_nic == best->cross_nic
         && graph->n_hops < best->n_hops;
}

static void
end_channel (Search *search, int64_t *budget)
{
  ZsNcclGraph *graph = search->graph;

  graph->n_channels++;
  if (is_better (search)) {
    *search->best = *graph;
    if (graph->n_channels == graph->max_channels)
      *budget = -1;
  }
  if (graph->n_channels < graph->max_channels)
    lay_channel (search, budget);
  graph->n_channels--;
}

static void
try_gpu (Search *search, int from, int g, int step, int back_to_net, int back_to_first, int order,
         int64_t *budget)
{
  uint64_t flag = UINT64_C (1) << search->graph->n_channels;
  int gpu = search->system->gpus[g];

  if (from >= 0 && !follow (search, from, gpu, 1))
    return;
  search->used[g] ^= flag;
  at_gpu (search, g, step, back_to_net, back_to_first, order, budget);
  search->used[g] ^= flag;
  if (from >= 0)
    follow (search, from, gpu, -1);
}

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
make_order (Search *search, int g, int net)
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

/* GPUs to try after G, best first.  TOWARDS_NET: 1 the next should be near the channel's NIC, -1 far
 * from it as the last will have to be near, 0 no NIC. */
static int
next_gpus (Search *search, int g, int towards_net, int *next)
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

/* The GPU after STEP of the channel before this one; -1: its first. */
static int
replay_gpu (const Search *search, int step)
{
  return search->graph->n_channels < 1 ? -1 : search->graph->intra[search->graph->n_channels - 1][step + 1];
}

static void
leave_by_net (Search *search, int g, int step, int back_to_first, int order, int64_t *budget)
{
  ZsNcclSystem *system = search->system;
  ZsNcclGraph *graph = search->graph;
  int c = graph->n_channels, start = graph->inter[c][0];
  bool seen[ZS_NCCL_MAX_GPUS] = { false };

  /* NICs nearest to the GPU first */
  for (int round = 0; round < system->n_nets; round++) {
    int n = -1;

    for (int i = 0; i < system->n_nets; i++) {
      const ZsNcclPath *path = zs_nccl_path (system, system->gpus[g], system->nets[i]);
      const ZsNcclPath *chosen = n < 0 ? NULL : zs_nccl_path (system, system->gpus[g], system->nets[n]);

      if (!seen[i] && (chosen == NULL || path->type < chosen->type))
        n = i;
    }
    seen[n] = true;
    if (graph->pattern == ZS_PATTERN_TREE && n != start)
      continue;
    if (graph->pattern == ZS_PATTERN_RING && graph->cross_nic == 2) {
      if ((c & 1) && n != graph->inter[c - 1][0])
        continue;
    }
    else if (graph->cross_nic == 0 && n != start)
      continue;
    int next_back = -1;
    double saved = graph->rate_inter;

    if (graph->pattern == ZS_PATTERN_BALANCED_TREE) {
      /* half of the rate on each of the first two GPUs */
      if (step == 0)
        next_back = 1;
      else if (n != graph->inter[c][1])
        continue;
      graph->rate_inter /= 2;
    }
    bool there = follow (search, system->gpus[g], system->nets[n], 1);

    graph->rate_inter = saved;
    if (!there)
      continue;
    graph->inter[c][1] = (int8_t) n;
    at_gpu (search, g, step, next_back, back_to_first, order, budget);
    if (graph->pattern == ZS_PATTERN_BALANCED_TREE)
      graph->rate_inter /= 2;
    follow (search, system->gpus[g], system->nets[n], -1);
    graph->rate_inter = saved;
  }
}

/* Switch to every GPU and back: twice for the head. */
static void
try_nvls (Search *search, int g, int64_t *budget)
{
  ZsNcclSystem *system = search->system;
  int n = system->n_gpus, down = 0, up = 0, c = search->graph->n_channels;

  while (down < n && follow (search, system->nvs, system->gpus[down], down == g ? 2 : 1))
    down++;
  if (down == n) {
    while (up < n && follow (search, system->gpus[up], system->nvs, up == g ? 2 : 1))
      up++;
    if (up == n) {
      for (int i = 1; i < n; i++)
        search->graph->intra[c][i] = (int8_t) ((g + i) % n);
      end_channel (search, budget);
    }
    while (up-- > 0)
      follow (search, system->gpus[up], system->nvs, up == g ? -2 : -1);
  }
  while (down-- > 0)
    follow (search, system->nvs, system->gpus[down], down == g ? -2 : -1);
}

static void
at_gpu (Search *search, int g, int step, int back_to_net, int back_to_first, int order, int64_t *budget)
{
  ZsNcclSystem *system = search->system;
  ZsNcclGraph *graph = search->graph;
  int n = system->n_gpus, c = graph->n_channels;

  if (*budget <= 0)
    return;
  (*budget)--;
  if (step == n) {
    end_channel (search, budget);
    return;
  }
  graph->intra[c][step] = (int8_t) g;
  if (step == back_to_net)
    leave_by_net (search, g, step, back_to_first, order, budget);
  else if (graph->pattern == ZS_PATTERN_NVLS)
    try_nvls (search, g, budget);
  else if (step < n - 1) {
    int next[ZS_NCCL_MAX_GPUS], count = 1;

    if (order == ORDER_PCI)
      next[0] = step + 1;
    else if (order == ORDER_REPLAY)
      count = (next[0] = replay_gpu (search, step)) >= 0;
    else
      count = next_gpus (search, g, back_to_net == -1 ? 0 : back_to_net == step + 1 ? 1 : -1, next);
    for (int i = 0; i < count; i++)
      try_gpu (search, system->gpus[g], next[i], step + 1, back_to_net, back_to_first, order, budget);
  }
  else if (step == back_to_first) {
    int first = graph->intra[c][0];

    if (follow (search, system->gpus[g], system->gpus[first], 1)) {
      at_gpu (search, first, step + 1, back_to_net, -1, order, budget);
      follow (search, system->gpus[g], system->gpus[first], -1);
    }
  }
  else
    at_gpu (search, g, n, -1, -1, order, budget);
}

static void
lay_from_nets (Search *search, int64_t *budget)
{
  ZsNcclSystem *system = search->system;
  ZsNcclGraph *graph = search->graph;
  int rate = (int) graph->rate_inter, c = graph->n_channels;   /* whole GB/s, as in search.cc */
  bool tried = false;

  for (int i = 0; i < system->n_nets && !tried; i++) {
    int n = (c + i) % system->n_nets, net = system->nets[n];
    ZsNcclNode *node = &system->nodes[net];

    if (node->rate_left < rate)
      continue;
    if (graph->pattern == ZS_PATTERN_NVLS && c >= system->n_nets)
      break;
    graph->inter[c][0] = (int8_t) n;
    graph->latency_inter = node->latency;
    node->rate_left -= rate;
    if (graph->pattern == ZS_PATTERN_NVLS) {
      /* the head: a GPU beside the NIC that no channel has yet */
      for (int g = 0; g < system->n_gpus; g++) {
        bool head = true;

        for (int k = 0; k < c; k++)
          head &= graph->intra[k][0] != g;
        if (head && zs_nccl_path (system, net, system->gpus[g])->type <= graph->type_inter) {
          try_gpu (search, net, g, 0, search->back_to_net, search->back_to_first, ORDER_FREE, budget);
          tried = true;   /* NVLS looks for heads alone: the first NIC that has one */
          break;
        }
      }
    }
    else {
      if (c > 0 && graph->same_channels)
        try_gpu (search, net, graph->intra[c - 1][0], 0, search->back_to_net, search->back_to_first,
                 ORDER_REPLAY, budget);
      if (c == 0 || !graph->same_channels) {
        if (c == 0 && system->nvs < 0) {
          int64_t some = 1 << 10;

          try_gpu (search, net, 0, 0, search->back_to_net, search->back_to_first, ORDER_PCI, &some);
          if (some == -1)
            *budget = -1;
        }
        const ZsNcclPath *nearest = NULL;

        for (int g = 0; g < system->n_gpus; g++) {
          const ZsNcclPath *path = zs_nccl_path (system, net, system->gpus[g]);

          if (path->n >= 0 && (nearest == NULL || path->type < nearest->type
                               || (path->type == nearest->type && path->rate > nearest->rate)))
            nearest = path;
        }
        for (int g = 0; nearest != NULL && g < system->n_gpus; g++) {
          const ZsNcclPath *path = zs_nccl_path (system, net, system->gpus[g]);

          if (path->type == nearest->type && path->rate == nearest->rate)
            try_gpu (search, net, g, 0, search->back_to_net, search->back_to_first, ORDER_FREE, budget);
        }
      }
    }
    node->rate_left += rate;
  }
}

static void
lay_channel (Search *search, int64_t *budget)
{
  ZsNcclSystem *system = search->system;
  ZsNcclGraph *graph = search->graph;

  if (system->n_nets > 0) {
    lay_from_nets (search, budget);
    return;
  }
  if (graph->pattern == ZS_PATTERN_NVLS) {
    if (graph->n_channels < system->n_gpus)
      try_gpu (search, -1, graph->n_channels, 0, -1, search->back_to_first, ORDER_FREE, budget);
    return;
  }
  if (graph->n_channels == 0)
    try_gpu (search, -1, 0, 0, -1, search->back_to_first, ORDER_PCI, budget);
  else
    try_gpu (search, -1, graph->intra[graph->n_channels - 1][0], 0, -1, search->back_to_first,
             ORDER_REPLAY, budget);
  if (!graph->same_channels || graph->n_channels == 0)
    for (int g = 0; g < system->n_gpus; g++)
      try_gpu (search, -1, g, 0, -1, search->back_to_first, ORDER_FREE, budget);
}

static int64_t
search_once (ZsNcclSystem *system, ZsNcclGraph *graph, ZsNcclGraph *best)
{
  Search search = { .system = system, .graph = graph, .best = best };
  int64_t budget = graph->same_channels ? BUDGET_SAME : BUDGET;

  search.back_to_net = search.back_to_first = -1;
  if (system->n_nets > 0)
    search.back_to_net = graph->pattern == ZS_PATTERN_RING ? system->n_gpus - 1
                         : graph->pattern == ZS_PATTERN_SPLIT_TREE ? 1 : 0;
  else if (graph->pattern == ZS_PATTERN_RING)
    search.back_to_first = system->n_gpus - 1;
  if (system->n_nets > 0 && graph->pattern == ZS_PATTERN_NVLS)
    search.back_to_net = -1;
  graph->n_channels = 0;
  graph->n_hops = 0;
  int rows = (1 + system->n_nets) * system->n_gpus;
  g_autofree int8_t *orders = g_new (int8_t, 2 * rows * system->n_gpus);
  g_autofree bool *flags = g_new0 (bool, rows);

  search.orders = orders;
  search.classes = orders + rows * system->n_gpus;
  search.ordered = flags;
  lay_channel (&search, &budget);
  return budget;
}

static const double *
speeds (const ZsNcclSystem *system, bool inter, int *ret_n)
{
  static const double INTRA[] = { 40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3 };
  static const double INTER[] = { 48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12 };
  static const double INTRA90[] = { 60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3 };
  static const double INTRA90_OLD[] = { 60, 40, 30, 24, 20, 15, 12, 6, 3 };
  static const double INTER90[] = { 48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12 };
  static const double INTER90_OLD[] = { 48, 45, 42, 40, 30, 24, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12 };
  static const double INTRA100[] = { 90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18 };
  static const double INTER100[] = { 96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12 };
#define LIST(list) (*ret_n = G_N_ELEMENTS (list), list)
  bool old = system->environment->version < ZS_VERSION (2, 19, 0);

  if (system->min_capability >= 100)
    return inter ? LIST (INTER100) : LIST (INTRA100);
  if (system->min_capability >= 90) {
    if (old)
      return inter ? LIST (INTER90_OLD) : LIST (INTRA90_OLD);
    return inter ? LIST (INTER90) : LIST (INTRA90);
  }
  return inter ? LIST (INTER) : LIST (INTRA);
#undef LIST
}

static ZsPathType
worse_type (ZsPathType type)
{
  return type + 1 == ZS_PATH_NODE ? ZS_PATH_SYS : (ZsPathType) (type + 1);
}

static void
path_type_range (const ZsNcclSystem *system, bool net, ZsPathType *best, ZsPathType *worst)
{
  *best = ZS_PATH_SYS;
  *worst = ZS_PATH_SELF;
  for (int g = 0; g < system->n_gpus; g++)
    for (int i = 0; i < (net ? system->n_nets : system->n_gpus); i++) {
      int other = net ? system->nets[i] : system->gpus[i];
      const ZsNcclPath *path = zs_nccl_path (system, system->gpus[g], other);

      if (other != system->gpus[g]) {
        *best = MIN (*best, path->type);
        *worst = MAX (*worst, path->type);
      }
    }
}

static void
double_channels (const ZsNcclSystem *system, ZsNcclGraph *graph)
{
  if (graph->n_channels == 0 || graph->pattern == ZS_PATTERN_NVLS || graph->rate_intra < 25)
    return;
  if (system->min_capability > 80 && graph->rate_intra < 50 && graph->n_channels > 4)
    return;
  int n = MIN (graph->n_channels * 2, graph->max_channels);
  int times = (n + graph->n_channels - 1) / graph->n_channels;

  for (int c = graph->n_channels; c < n; c++) {
    memcpy (graph->intra[c], graph->intra[c - graph->n_channels], sizeof graph->intra[c]);
    memcpy (graph->inter[c], graph->inter[c - graph->n_channels], sizeof graph->inter[c]);
  }
  graph->rate_intra /= times;
  graph->rate_inter /= times;
  graph->n_channels = n;
}

/* Exactly two NVLink islands of at least two GPUs? */
static bool
is_split (const ZsNcclSystem *system)
{
  int island[ZS_NCCL_MAX_GPUS], size[ZS_NCCL_MAX_GPUS] = { 0 }, n = 0;

  for (int g = 0; g < system->n_gpus; g++)
    island[g] = -1;
  for (int g = 0; g < system->n_gpus; g++) {
    if (island[g] >= 0)
      continue;
    for (int h = g; h < system->n_gpus; h++)
      if (h == g || zs_nccl_path (system, system->gpus[g], system->gpus[h])->type == ZS_PATH_NVLINK) {
        island[h] = n;
        size[n]++;
      }
    n++;
  }
  return n == 2 && size[0] > 1 && size[1] > 1;
}

/* First pass: slower and slower, each speed with more and more freedom, until a better one cannot be. */
static void
search_down (ZsNcclSystem *system, ZsNcclGraph *graph, ZsNcclGraph *trial, const double *list, int n_list,
             int cross_nic)
{
  ZsPathType min_intra = ZS_PATH_SELF, min_inter = ZS_PATH_PIX, max_intra = ZS_PATH_SYS, max_inter = ZS_PATH_SYS;
  bool nets = system->n_nets > 0;
  bool try_same = graph->pattern != ZS_PATTERN_NVLS;
  double total = system->total_rate;
  int64_t global = BUDGET_GLOBAL;
  int speed = 0;

  if (system->n_gpus > 1)
    path_type_range (system, false, &min_intra, &max_intra);
  if (nets)
    path_type_range (system, true, &min_inter, &max_inter);
  if (system->n_gpus > 1 && graph->pattern != ZS_PATTERN_RING)
    total *= system->n_gpus / (system->n_gpus - 1.0);
  graph->type_intra = min_intra;
  graph->type_inter = min_inter;
  graph->same_channels = try_same;
  graph->cross_nic = cross_nic == 1;
  *trial = *graph;
  while ((list[speed] > system->max_rate || list[speed] * graph->min_channels > total) && speed < n_list - 1)
    speed++;
  for (trial->rate_intra = trial->rate_inter = list[speed];;) {
    global -= trial->same_channels ? BUDGET_SAME : BUDGET;
    int64_t left = search_once (system, trial, graph);

    if (left == -1 || graph->n_channels * graph->rate_inter >= system->total_rate)
      return;
    if (trial->same_channels && !(system->amd && trial->type_intra == ZS_PATH_SYS)) {
      trial->same_channels = false;
      continue;
    }
    trial->same_channels = try_same;
    global += left;
    if (global < 0 && graph->n_channels > 0)
      return;
    if (system->min_capability >= 90 && trial->pattern == ZS_PATTERN_BALANCED_TREE) {
      trial->pattern = ZS_PATTERN_TREE;
      continue;
    }
    trial->pattern = graph->pattern;
    ZsPathType limit = nets ? trial->type_inter : max_intra;

    if (trial->type_intra < limit && (!nets || trial->type_intra < trial->type_inter)) {
      trial->type_intra = worse_type (trial->type_intra);
      continue;
    }
    trial->type_intra = min_intra;
    if (nets && trial->type_inter < max_inter
        && (graph->n_channels == 0 || trial->type_inter < graph->type_inter || trial->type_inter < ZS_PATH_PXN)) {
      trial->type_inter = worse_type (trial->type_inter);
      continue;
    }
    trial->type_inter = min_inter;
    if (cross_nic == 2 && trial->cross_nic == 0
        && (graph->pattern == ZS_PATTERN_RING || graph->pattern == ZS_PATTERN_BALANCED_TREE)) {
      trial->cross_nic = system->environment->version >= ZS_VERSION (2, 23, 0) ? 2 : 1;
      continue;
    }
    trial->cross_nic = cross_nic == 1;
    if (speed < n_list - 1 && (graph->n_channels == 0 || list[speed + 1] / graph->rate_inter > 0.49)) {
      trial->rate_intra = trial->rate_inter = list[++speed];
      continue;
    }
    return;
  }
}

/* Second pass: the same channels, faster. */
static void
search_up (ZsNcclSystem *system, ZsNcclGraph *graph, ZsNcclGraph *trial, const double *list, int n_list)
{
  int speed = 0;
  int64_t left = -1;

  *trial = *graph;
  while (list[speed] > graph->rate_inter && speed < n_list - 1)
    speed++;
  trial->rate_intra = trial->rate_inter = list[speed];
  trial->min_channels = graph->n_channels;
  while (left != 0 && speed > 0) {
    if (graph->pattern == ZS_PATTERN_RING)
      trial->rate_intra = trial->rate_inter = list[--speed];
    else if (graph->pattern == ZS_PATTERN_NVLS && trial->rate_inter == graph->rate_inter
             && trial->rate_inter < trial->rate_intra * 2) {
      trial->min_channels = trial->max_channels = graph->n_channels;
      trial->rate_inter = list[--speed];
    }
    else if (trial->rate_intra == graph->rate_intra && trial->rate_intra < trial->rate_inter * 2)
      trial->rate_intra = list[--speed];
    else
      break;
    left = search_once (system, trial, graph);
  }
}

void
zs_nccl_search (ZsNcclSystem *system, ZsNcclGraph *graph)
{
  ZsNcclGraph trial;
  int n_list;
  const double *list = speeds (system, system->n_nets > 0, &n_list);
  bool nets = system->n_nets > 0;
  int cross_nic = (graph->pattern == ZS_PATTERN_RING || graph->pattern == ZS_PATTERN_BALANCED_TREE)
                  && system->n_nets > 1 ? system->environment->cross_nic : 0;

  graph->n_channels = 0;
  graph->rate_intra = graph->rate_inter = graph->latency_inter = 0;
  graph->n_hops = 0;
  graph->fallback = false;
  if (system->n_gpus == 1 && !nets)
    return;
  if (graph->pattern == ZS_PATTERN_NVLS) {
    graph->max_channels = MIN (system->environment->version < ZS_VERSION (2, 21, 0) ? 8 : 32, system->n_gpus);
    if (!nets)
      graph->min_channels = graph->max_channels;
  }
  if (system->n_gpus == 1 && graph->pattern != ZS_PATTERN_RING)
    graph->pattern = ZS_PATTERN_TREE;
  if (graph->pattern == ZS_PATTERN_RING && is_split (system) && graph->max_channels >= 2
      && graph->min_channels == 1)
    graph->min_channels = 2;

  search_down (system, graph, &trial, list, n_list, cross_nic);
  double_channels (system, graph);
  if (graph->n_channels > 0)
    search_up (system, graph, &trial, list, n_list);

  if (graph->n_channels == 0 && graph->pattern != ZS_PATTERN_NVLS) {
    for (int g = 0; g < system->n_gpus; g++)
      graph->intra[0][g] = (int8_t) g;
    graph->inter[0][0] = graph->inter[0][1] = 0;
    graph->rate_intra = graph->rate_inter = 0.1;
    graph->type_intra = graph->type_inter = ZS_PATH_SYS;
    graph->n_channels = 1;
    graph->fallback = true;
  }
}

void
zs_nccl_search_all (ZsNcclSystem *system, ZsNcclGraphs *graphs)
{
  const ZsNcclEnvironment *environment = system->environment;
  /* half of MAXCHANNELS: 64 channels from 2.25, 32 before */
  int most = environment->version >= ZS_VERSION (2, 25, 0) ? 32 : 16;

  memset (graphs, 0, sizeof *graphs);
  graphs->ring = (ZsNcclGraph) { .pattern = ZS_PATTERN_RING, .min_channels = 1, .max_channels = most };
  zs_nccl_search (system, &graphs->ring);
  int n = MAX (graphs->ring.n_channels, 1);

  graphs->tree = (ZsNcclGraph) { .pattern = ZS_PATTERN_BALANCED_TREE, .min_channels = n, .max_channels = n };
  zs_nccl_search (system, &graphs->tree);
  n = MIN (graphs->ring.n_channels, graphs->tree.n_channels);
  graphs->ring.n_channels = graphs->tree.n_channels = n;

  int least = environment->version >= ZS_VERSION (2, 28, 7) ? 2 : 3;

  if (environment->nvls_enable != 0 && system->nvs >= 0 && system->min_capability >= 90
      && system->n_gpus >= least && environment->version >= ZS_VERSION (2, 17, 0)) {
    graphs->nvls = (ZsNcclGraph) { .pattern = ZS_PATTERN_NVLS, .min_channels = 1,
                                   .max_channels = ZS_NCCL_MAX_CHANNELS };
    zs_nccl_search (system, &graphs->nvls);
  }
}
