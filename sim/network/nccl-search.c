/* nccl-search.c: NCCL's search for channels, speed by speed.
 * SPDX-License-Identifier: MIT
 *
 * The procedure of NCCL 2.30 src/graph/search.cc.  From the fastest speed downwards, channels are laid
 * one after the other (nccl-channels.c); the best is the one with the greatest channels x speed, then the
 * fewest hops.  The budget of steps is part of the procedure: what NCCL does not find in time does not exist. */
#include "config.h"

#include "sim/network/nccl-search.h"

#include <string.h>

/* Of all calls together, in steps of the recursion (search.cc). */
#define BUDGET_GLOBAL (1 << 19)

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
    global -= trial->same_channels ? ZS_NCCL_BUDGET_SAME : ZS_NCCL_BUDGET;
    int64_t left = zs_nccl_lay_channels (system, trial, graph);

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
    left = zs_nccl_lay_channels (system, trial, graph);
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
