/* max-min.h: fair shares of resources; knows no network, only capacities.
 * SPDX-License-Identifier: MIT
 *
 * A demand uses some resources, each with a weight: at rate R it takes R x weight / ZS_SHARE_ONE of
 * the resource's capacity.  A share is max-min fair when no rate can be raised without lowering one
 * that is not higher.  Found by progressive filling: all rates rise together; a demand stops at its
 * own limit or when a resource that it uses is full.
 * (Bertsekas and Gallager, Data Networks, 2nd edition, section 6.5.2, with weights.)
 *
 * Everything is whole numbers: rates are rounded down, so that a resource is never overfull, and
 * the result does not depend on the order of the demands.  N equal demands, and one demand whose
 * weights are their sum, get the same rate: this is what lets equal ranks be run once.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/base/time.h"

#define ZS_SHARE_ONE INT64_C (65536)

typedef struct {
  int32_t resource;
  int32_t weight;          /* in 1 / ZS_SHARE_ONE; > 0 */
} ZsShare;

typedef struct {
  const ZsShare *shares;   /* a resource at most once */
  int32_t n_shares;
  ZsRate  limit;           /* its own; > 0 */
  ZsRate  rate;            /* the answer: at least 1 */
} ZsDemand;

/* Room for one caller's work; grows and stays. */
typedef struct {
  int64_t *left, *weight;  /* by resource; weight is all zero between calls */
  int32_t *used;           /* resources in use */
  int32_t  room;
} ZsMaxMin;

void zs_max_min_clear (ZsMaxMin *work);

/* CAPACITY by resource: 1 to 1.4e14 bytes/s. */
void zs_max_min (ZsMaxMin *work, const ZsRate *capacity, int32_t n_resources, ZsDemand *demands,
                 int32_t n_demands);
