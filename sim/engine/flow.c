/* flow.c: flows over classes of resources.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/engine/flow.h"

#include "sim/base/digest.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  ZsShare *shares;         /* as given, by resource ascending */
  int32_t  n_shares;
  ZsShare *classes;        /* the same by class */
  int32_t  n_classes;
  ZsRate   limit;          /* of a flow that is alone */
  int64_t  bytes;
} Route;

typedef struct {
  __int128 left;           /* at `since` */
  ZsTime   since, end;
  ZsRate   rate, limit;
  int32_t  route;
  uint64_t tag;
} Flow;

struct ZsFlowSet {
  ZsRate  *capacities;
  int32_t  n_resources;

  Route   *routes;
  int32_t  n_routes, routes_room;
  int32_t *class_of;       /* by resource */
  ZsRate  *class_capacity; /* the least of its resources */
  ZsTime  *class_busy;
  int32_t *class_active;   /* flows that use it */
  int32_t  n_classes;

  Flow    *flows;          /* in the order of their start */
  ZsDemand *demands;
  int32_t  n_flows, flows_room;
  bool     unsettled;
  ZsTime   settled, next;
  ZsMaxMin work;
};

ZsFlowSet *
zs_flow_set_new (const ZsRate *capacities, int32_t n_resources)
{
  ZsFlowSet *set = g_new0 (ZsFlowSet, 1);

  set->n_resources = n_resources;
  set->capacities = g_memdup2 (capacities, (size_t) n_resources * sizeof *capacities);
  set->class_of = g_new0 (int32_t, n_resources + 1);
  set->n_classes = 1;      /* what no route uses */
  set->class_capacity = g_new0 (ZsRate, 1);
  set->class_busy = g_new0 (ZsTime, 1);
  set->class_active = g_new0 (int32_t, 1);
  set->next = ZS_TIME_MAX;
  return set;
}

void
zs_flow_set_free (ZsFlowSet *set)
{
  if (set == NULL)
    return;
  for (int32_t r = 0; r < set->n_routes; r++) {
    g_free (set->routes[r].shares);
    g_free (set->routes[r].classes);
  }
  g_free (set->routes);
  g_free (set->capacities);
  g_free (set->class_of);
  g_free (set->class_capacity);
  g_free (set->class_busy);
  g_free (set->class_active);
  g_free (set->flows);
  g_free (set->demands);
  zs_max_min_clear (&set->work);
  g_free (set);
}

static int
by_resource (const void *a, const void *b)
{
  return ((const ZsShare *) a)->resource - ((const ZsShare *) b)->resource;
}

/* Give the resources of ROUTE classes of their own: those of one old class and one weight
   together. */
static void
split_classes (ZsFlowSet *set, const Route *route)
{
  int32_t first_new = set->n_classes;
  int32_t room = set->n_classes + route->n_shares;
  g_autofree int32_t *old_class = g_new (int32_t, route->n_shares + 1);
  g_autofree int32_t *weight = g_new (int32_t, route->n_shares + 1);

  set->class_busy = g_renew (ZsTime, set->class_busy, room);
  set->class_active = g_renew (int32_t, set->class_active, room);
  for (int32_t k = 0; k < route->n_shares; k++) {
    const ZsShare *share = &route->shares[k];
    int32_t *class_of = &set->class_of[share->resource], found = -1;

    for (int32_t c = first_new; c < set->n_classes && found < 0; c++)
      if (old_class[c - first_new] == *class_of && weight[c - first_new] == share->weight)
        found = c;
    if (found < 0) {
      found = set->n_classes++;
      old_class[found - first_new] = *class_of;
      weight[found - first_new] = share->weight;
      set->class_busy[found] = set->class_busy[*class_of];
      set->class_active[found] = set->class_active[*class_of];
    }
    *class_of = found;
  }
  set->class_capacity = g_renew (ZsRate, set->class_capacity, set->n_classes);
  for (int32_t c = 0; c < set->n_classes; c++)
    set->class_capacity[c] = INT64_MAX / ZS_SHARE_ONE;
  for (int32_t r = 0; r < set->n_resources; r++)
    set->class_capacity[set->class_of[r]] = MIN (set->class_capacity[set->class_of[r]],
                                                 set->capacities[r]);
}

/* ROUTE by classes; all resources of a class have one weight in it. */
static void
collapse (const ZsFlowSet *set, Route *route)
{
  g_autofree bool *seen = g_new0 (bool, set->n_classes);

  route->classes = g_renew (ZsShare, route->classes, route->n_shares + 1);
  route->n_classes = 0;
  route->limit = INT64_MAX;
  for (int32_t k = 0; k < route->n_shares; k++) {
    int32_t c = set->class_of[route->shares[k].resource];

    if (seen[c])
      continue;
    seen[c] = true;
    route->classes[route->n_classes++] = (ZsShare) { .resource = c,
                                                     .weight = route->shares[k].weight };
    route->limit = MIN (route->limit,
                        MAX (1, set->class_capacity[c] * ZS_SHARE_ONE / route->shares[k].weight));
  }
}

int32_t
zs_flow_set_route (ZsFlowSet *set, const ZsShare *shares, int32_t n_shares)
{
  Route route = { .n_shares = n_shares };

  route.shares = g_new (ZsShare, n_shares + 1);
  if (n_shares > 0)
    memcpy (route.shares, shares, (size_t) n_shares * sizeof *shares);
  qsort (route.shares, (size_t) n_shares, sizeof *shares, by_resource);
  for (int32_t r = 0; r < set->n_routes; r++)
    if (set->routes[r].n_shares == n_shares
        && memcmp (set->routes[r].shares, route.shares, (size_t) n_shares * sizeof *shares) == 0) {
      g_free (route.shares);
      return r;
    }
  for (int32_t k = 0; k < n_shares; k++)
    g_assert (route.shares[k].resource < set->n_resources && route.shares[k].weight > 0
              && (k == 0 || route.shares[k].resource > route.shares[k - 1].resource));

  if (set->n_routes == set->routes_room) {
    set->routes_room = MAX (16, set->routes_room * 2);
    set->routes = g_renew (Route, set->routes, set->routes_room);
  }
  set->routes[set->n_routes++] = route;
  split_classes (set, &route);
  for (int32_t r = 0; r < set->n_routes; r++)
    collapse (set, &set->routes[r]);
  return set->n_routes - 1;
}

static void
use_classes (ZsFlowSet *set, const Route *route, int32_t change)
{
  for (int32_t k = 0; k < route->n_classes; k++)
    set->class_active[route->classes[k].resource] += change;
}

static void
pass_time (ZsFlowSet *set, ZsTime now)
{
  if (now == set->settled)
    return;
  for (int32_t c = 1; c < set->n_classes; c++)
    if (set->class_active[c] > 0)
      set->class_busy[c] += now - set->settled;
  set->settled = now;
}

void
zs_flow_set_start (ZsFlowSet *set, ZsTime now, int32_t route, ZsRate limit, ZsTime alone,
                   int64_t bytes, uint64_t tag)
{
  g_assert (limit > 0 && alone > 0);
  pass_time (set, now);
  if (set->n_flows == set->flows_room) {
    set->flows_room = MAX (16, set->flows_room * 2);
    set->flows = g_renew (Flow, set->flows, set->flows_room);
    set->demands = g_renew (ZsDemand, set->demands, set->flows_room);
  }
  set->flows[set->n_flows++] = (Flow) {
    .left = (__int128) limit * alone, .since = now, .end = ZS_TIME_MAX, .limit = limit,
    .route = route, .tag = tag,
  };
  set->routes[route].bytes += bytes;
  use_classes (set, &set->routes[route], 1);
  set->unsettled = true;
}

bool
zs_flow_set_is_unsettled (const ZsFlowSet *set)
{
  return set->unsettled;
}

static void
set_rate (Flow *flow, ZsTime now, ZsRate rate)
{
  if (rate == flow->rate)
    return;
  flow->left -= (__int128) flow->rate * (now - flow->since);
  flow->left = MAX (flow->left, 0);   /* its end was rounded up to a whole picosecond */
  flow->since = now;
  flow->rate = rate;

  __int128 time = (flow->left + rate - 1) / rate;

  flow->end = time > ZS_TIME_MAX - now ? ZS_TIME_MAX : now + (ZsTime) time;
}

void
zs_flow_set_settle (ZsFlowSet *set, ZsTime now)
{
  pass_time (set, now);
  set->unsettled = false;
  if (set->n_flows == 1) {
    Flow *flow = &set->flows[0];

    set_rate (flow, now, MIN (flow->limit, set->routes[flow->route].limit));
    set->next = flow->end;
    return;
  }
  for (int32_t f = 0; f < set->n_flows; f++) {
    const Route *route = &set->routes[set->flows[f].route];

    set->demands[f] = (ZsDemand) { .shares = route->classes, .n_shares = route->n_classes,
                                   .limit = set->flows[f].limit };
  }
  zs_max_min (&set->work, set->class_capacity, set->n_classes, set->demands, set->n_flows);
  set->next = ZS_TIME_MAX;
  for (int32_t f = 0; f < set->n_flows; f++) {
    set_rate (&set->flows[f], now, set->demands[f].rate);
    set->next = MIN (set->next, set->flows[f].end);
  }
}

ZsTime
zs_flow_set_next (const ZsFlowSet *set)
{
  return set->next;
}

bool
zs_flow_set_end (ZsFlowSet *set, ZsTime now, uint64_t *ret_tag)
{
  for (int32_t f = 0; f < set->n_flows; f++) {
    if (set->flows[f].end > now)
      continue;
    pass_time (set, now);
    *ret_tag = set->flows[f].tag;
    use_classes (set, &set->routes[set->flows[f].route], -1);
    memmove (&set->flows[f], &set->flows[f + 1],
             (size_t) (set->n_flows - f - 1) * sizeof *set->flows);
    set->n_flows--;
    set->unsettled = true;
    set->next = ZS_TIME_MAX;
    for (int32_t g = 0; g < set->n_flows; g++)
      set->next = MIN (set->next, set->flows[g].end);
    return true;
  }
  return false;
}

int32_t
zs_flow_set_n_flows (const ZsFlowSet *set)
{
  return set->n_flows;
}

void
zs_flow_set_reset_use (ZsFlowSet *set, ZsTime now)
{
  pass_time (set, now);
  for (int32_t c = 0; c < set->n_classes; c++)
    set->class_busy[c] = 0;
  for (int32_t r = 0; r < set->n_routes; r++)
    set->routes[r].bytes = 0;
}

int64_t
zs_flow_set_bytes (const ZsFlowSet *set, int32_t resource)
{
  const ZsShare key = { .resource = resource };
  __int128 bytes = 0;

  for (int32_t r = 0; r < set->n_routes; r++) {
    const Route *route = &set->routes[r];
    const ZsShare *share = bsearch (&key, route->shares, (size_t) route->n_shares, sizeof key,
                                    by_resource);

    if (share != NULL)
      bytes += (__int128) route->bytes * share->weight;
  }
  return (int64_t) (bytes / ZS_SHARE_ONE);
}

ZsTime
zs_flow_set_busy (ZsFlowSet *set, int32_t resource, ZsTime now)
{
  pass_time (set, now);
  return set->class_busy[set->class_of[resource]];
}

ZsRate
zs_flow_set_rate (const ZsFlowSet *set, int32_t resource)
{
  __int128 rate = 0;
  int32_t class = set->class_of[resource];

  for (int32_t f = 0; set->class_active[class] > 0 && f < set->n_flows; f++) {
    const Route *route = &set->routes[set->flows[f].route];

    for (int32_t k = 0; k < route->n_classes; k++)
      if (route->classes[k].resource == class)
        rate += (__int128) set->flows[f].rate * route->classes[k].weight;
  }
  return (ZsRate) (rate / ZS_SHARE_ONE);
}

/* ---- repetitions ---- */

uint64_t
zs_flow_set_digest (const ZsFlowSet *set, ZsTime now)
{
  uint64_t digest = zs_digest_add ((uint64_t) set->n_routes << 32 | (uint32_t) set->n_classes,
                                   (uint64_t) set->unsettled);

  for (int32_t f = 0; f < set->n_flows; f++) {
    const Flow *flow = &set->flows[f];

    digest = zs_digest_add (digest, (uint64_t) flow->left);
    digest = zs_digest_add (digest, (uint64_t) (flow->left >> 64));
    digest = zs_digest_add (digest, (uint64_t) (flow->since - now));
    digest = zs_digest_add (digest, (uint64_t) flow->rate);
    digest = zs_digest_add (digest, (uint64_t) flow->limit);
    digest = zs_digest_add (digest, flow->tag);
    digest = zs_digest_add (digest, (uint64_t) flow->route);
  }
  return digest;
}

int64_t *
zs_flow_set_use (const ZsFlowSet *set, ZsTime now)
{
  int64_t *use = g_new (int64_t, set->n_routes + set->n_classes + 1);

  for (int32_t r = 0; r < set->n_routes; r++)
    use[r] = set->routes[r].bytes;
  for (int32_t c = 0; c < set->n_classes; c++)
    use[set->n_routes + c] = set->class_busy[c] + (set->class_active[c] > 0 ? now - set->settled : 0);
  return use;
}

void
zs_flow_set_repeat (ZsFlowSet *set, ZsTime now, ZsTime time, const int64_t *before, int64_t times)
{
  g_autofree int64_t *use = zs_flow_set_use (set, now);

  for (int32_t f = 0; f < set->n_flows; f++) {
    Flow *flow = &set->flows[f];

    flow->since += time;
    if (flow->end != ZS_TIME_MAX)
      flow->end += time;
  }
  set->settled += time;
  if (set->next != ZS_TIME_MAX)
    set->next += time;
  if (before == NULL)
    return;
  for (int32_t r = 0; r < set->n_routes; r++)
    set->routes[r].bytes += times * (use[r] - before[r]);
  for (int32_t c = 0; c < set->n_classes; c++)
    set->class_busy[c] += times * (use[set->n_routes + c] - before[set->n_routes + c]);
}
