/* max-min.c: progressive filling.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/engine/max-min.h"

#include <string.h>

void
zs_max_min_clear (ZsMaxMin *work)
{
  g_free (work->left);
  g_free (work->weight);
  g_free (work->used);
  *work = (ZsMaxMin) { .room = 0 };
}

static void
make_room (ZsMaxMin *work, int32_t n_resources)
{
  if (n_resources <= work->room)
    return;
  work->left = g_renew (int64_t, work->left, n_resources);
  work->weight = g_renew (int64_t, work->weight, n_resources);
  work->used = g_renew (int32_t, work->used, n_resources);
  memset (work->weight + work->room, 0,
          (size_t) (n_resources - work->room) * sizeof *work->weight);
  work->room = n_resources;
}

void
zs_max_min (ZsMaxMin *work, const ZsRate *capacity, int32_t n_resources, ZsDemand *demands,
            int32_t n_demands)
{
  int32_t n_used = 0, n_rising = n_demands;

  make_room (work, n_resources);
  for (int32_t i = 0; i < n_demands; i++) {
    demands[i].rate = 0;
    for (int32_t k = 0; k < demands[i].n_shares; k++) {
      int32_t resource = demands[i].shares[k].resource;

      if (work->weight[resource] == 0) {
        work->used[n_used++] = resource;
        work->left[resource] = capacity[resource] * ZS_SHARE_ONE;
      }
      work->weight[resource] += demands[i].shares[k].weight;
    }
  }

  while (n_rising > 0) {
    /* the level at which the next of them stops */
    ZsRate level = INT64_MAX;

    for (int32_t u = 0; u < n_used; u++) {
      int32_t resource = work->used[u];

      if (work->weight[resource] > 0)
        level = MIN (level, work->left[resource] / work->weight[resource]);
    }
    level = MAX (level, 1);
    for (int32_t i = 0; i < n_demands; i++)
      if (demands[i].rate == 0)
        level = MIN (level, demands[i].limit);

    /* Who stops is decided for all before anything is taken, so that the order does not matter.  A
     * negative rate marks one that stops now. */
    for (int32_t i = 0; i < n_demands; i++) {
      if (demands[i].rate != 0)
        continue;
      bool stops = demands[i].limit <= level;

      for (int32_t k = 0; k < demands[i].n_shares && !stops; k++) {
        int32_t resource = demands[i].shares[k].resource;

        stops = work->left[resource] / work->weight[resource] <= level;
      }
      if (stops)
        demands[i].rate = -level;
    }
    for (int32_t i = 0; i < n_demands; i++) {
      if (demands[i].rate >= 0)
        continue;
      demands[i].rate = level;
      n_rising--;
      for (int32_t k = 0; k < demands[i].n_shares; k++) {
        const ZsShare *share = &demands[i].shares[k];

        work->left[share->resource] -= level * share->weight;
        work->weight[share->resource] -= share->weight;
      }
    }
  }
  for (int32_t u = 0; u < n_used; u++)
    work->weight[work->used[u]] = 0;
}
