/* nccl-search.h: one call of NCCL's recursive search.  Private to nccl-search.c, nccl-channels.c, nccl-order.c.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/network/nccl-graph.h"

/* Budgets of one call, in steps of the recursion (NCCL 2.30 search.cc). */
#define ZS_NCCL_BUDGET      (1 << 14)
#define ZS_NCCL_BUDGET_SAME (1 << 8)    /* where every channel repeats the first */

typedef struct {
  ZsNcclSystem *system;
  ZsNcclGraph  *graph, *best;
  uint64_t      used[ZS_NCCL_MAX_GPUS];   /* channels that pass the GPU, as bits */
  /* GPUs after each, best first: by their own distance, and by that to a NIC (made when first asked) */
  int8_t       *orders;                   /* (1 + NICs) x GPUs x GPUs */
  int8_t       *classes;                  /* of the same entries: equal where the GPUs are alike to it */
  bool         *ordered;                  /* (1 + NICs) x GPUs */
  int           back_to_net, back_to_first;
} ZsNcclSearch;

/* nccl-channels.c: lays channels of GRAPH's pattern at its speed, and keeps the best in BEST; returns what is left of the
 * budget, -1 where nothing better can be found. */
int64_t zs_nccl_lay_channels (ZsNcclSystem *system, ZsNcclGraph *graph, ZsNcclGraph *best);
/* nccl-order.c: GPUs to try after G, best first; returns how many.  TOWARDS_NET: 1 the next should be near the channel's
 * NIC, -1 far from it as the last will have to be near, 0 no NIC. */
int     zs_nccl_next_gpus (ZsNcclSearch *search, int g, int towards_net, int *next);
