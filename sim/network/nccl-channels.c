/* nccl-channels.c: lays channels at one speed, each taking it from every edge it passes.
 * SPDX-License-Identifier: MIT
 *
 * The recursion of NCCL 2.30 src/graph/search.cc. */
#include "config.h"

#include "sim/network/nccl-search.h"

enum { ORDER_FREE, ORDER_PCI, ORDER_REPLAY };

static void lay_channel (ZsNcclSearch *search, int64_t *budget);
static void at_gpu (ZsNcclSearch *search, int g, int step, int back_to_net, int back_to_first, int order,
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
follow (ZsNcclSearch *search, int from, int to, int multiple)
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
is_better (const ZsNcclSearch *search)
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
end_channel (ZsNcclSearch *search, int64_t *budget)
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
try_gpu (ZsNcclSearch *search, int from, int g, int step, int back_to_net, int back_to_first, int order,
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

/* The GPU after STEP of the channel before this one; -1: its first. */
static int
replay_gpu (const ZsNcclSearch *search, int step)
{
  return search->graph->n_channels < 1 ? -1 : search->graph->intra[search->graph->n_channels - 1][step + 1];
}

static void
leave_by_net (ZsNcclSearch *search, int g, int step, int back_to_first, int order, int64_t *budget)
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
try_nvls (ZsNcclSearch *search, int g, int64_t *budget)
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
at_gpu (ZsNcclSearch *search, int g, int step, int back_to_net, int back_to_first, int order, int64_t *budget)
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
      count = zs_nccl_next_gpus (search, g, back_to_net == -1 ? 0 : back_to_net == step + 1 ? 1 : -1, next);
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
lay_from_nets (ZsNcclSearch *search, int64_t *budget)
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
lay_channel (ZsNcclSearch *search, int64_t *budget)
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

int64_t
zs_nccl_lay_channels (ZsNcclSystem *system, ZsNcclGraph *graph, ZsNcclGraph *best)
{
  ZsNcclSearch search = { .system = system, .graph = graph, .best = best };
  int64_t budget = graph->same_channels ? ZS_NCCL_BUDGET_SAME : ZS_NCCL_BUDGET;

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
