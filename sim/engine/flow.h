/* flow.h: activities that share resources, and whose rates change whenever one starts or ends.
 * SPDX-License-Identifier: MIT
 *
 * A flow follows a route (which resources, with which weights) and has a rate of its own that it
 * never exceeds.  Alone, it takes exactly the time that its owner says.  Work is counted in units
 * of 10^-12 byte, so that rate x time is whole, and is followed exactly in 128 bits.
 *
 * Starting and ending only note that rates must change; zs_flow_set_settle() shares the resources
 * anew, once for all that happened at one moment.
 *
 * Routes are few and known early.  Resources that all routes use alike (same weight in each) are
 * one class, of which only the smallest capacity can ever bind: sixteen links of a ring count as
 * one.
 */
#pragma once

#include <stdbool.h>

#include "sim/engine/max-min.h"

typedef struct ZsFlowSet ZsFlowSet;

/* CAPACITIES (copied): of N_RESOURCES. */
ZsFlowSet *zs_flow_set_new  (const ZsRate *capacities,
                             int32_t n_resources) G_GNUC_WARN_UNUSED_RESULT;
void       zs_flow_set_free (ZsFlowSet *set);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsFlowSet, zs_flow_set_free)

/* The number of the route that uses SHARES (copied; may be empty); equal routes have one number. */
int32_t zs_flow_set_route (ZsFlowSet *set, const ZsShare *shares, int32_t n_shares);

/* A flow begins at NOW: it needs ALONE (> 0) if nothing shares its resources, at the rate LIMIT,
 * and carries BYTES for the statistics.  TAG comes back when it ends. */
void zs_flow_set_start (ZsFlowSet *set, ZsTime now, int32_t route, ZsRate limit, ZsTime alone,
                        int64_t bytes, uint64_t tag);
/* Does something that started or ended still have to be taken into account? */
bool zs_flow_set_is_unsettled (const ZsFlowSet *set);
void zs_flow_set_settle (ZsFlowSet *set, ZsTime now);
/* When the next flow ends, as rates are now; ZS_TIME_MAX: none. */
ZsTime zs_flow_set_next (const ZsFlowSet *set);
/* Takes out one flow that ends at NOW (the one that started first); false: none does. */
bool zs_flow_set_end (ZsFlowSet *set, ZsTime now, uint64_t *ret_tag);
int32_t zs_flow_set_n_flows (const ZsFlowSet *set);

/* Since the start or the last reset: bytes that crossed RESOURCE (of flows that ended or started
 * since, in whole), and how long any flow used it. */
void    zs_flow_set_reset_use (ZsFlowSet *set, ZsTime now);
/* What crosses RESOURCE now, as settled. */
ZsRate  zs_flow_set_rate (const ZsFlowSet *set, int32_t resource);
int64_t zs_flow_set_bytes (const ZsFlowSet *set, int32_t resource);
ZsTime  zs_flow_set_busy  (ZsFlowSet *set, int32_t resource, ZsTime now);

/* ---- repetitions ---- */

/* A number for the flows and their rates, as seen from NOW. */
uint64_t zs_flow_set_digest (const ZsFlowSet *set, ZsTime now);
/* The use of resources up to NOW, to be compared later.  Free with g_free. */
int64_t *zs_flow_set_use (const ZsFlowSet *set, ZsTime now) G_GNUC_WARN_UNUSED_RESULT;
/* At NOW, TIME passes in which what happened since BEFORE was taken happens TIMES more.  BEFORE may be
 * NULL: the use of resources stays as it is. */
void zs_flow_set_repeat (ZsFlowSet *set, ZsTime now, ZsTime time, const int64_t *before, int64_t times);
