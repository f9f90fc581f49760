/* earliest.h: which of N clocks is due first.
 * SPDX-License-Identifier: MIT
 *
 * Each GPU of a run has one time at which something next happens on it; it changes often and is
 * asked for always.  A tournament tree keeps the winner: set is O(log N), ask is O(1), and of equal
 * times the lowest number wins.
 */
#pragma once

#include "sim/base/time.h"

typedef struct {
  ZsTime  *times;     /* of the clocks; ZS_TIME_MAX: nothing is due */
  int32_t *winners;   /* heap-numbered inner nodes: winners[1] is the first of all */
  int32_t  n, leaves; /* leaves: N rounded up to a power of two */
} ZsEarliest;

void zs_earliest_init  (ZsEarliest *earliest, int32_t n);
void zs_earliest_clear (ZsEarliest *earliest);

static inline void
zs_earliest_set (ZsEarliest *earliest, int32_t clock, ZsTime when)
{
  earliest->times[clock] = when;
  for (int32_t node = (clock + earliest->leaves) / 2; node >= 1; node /= 2) {
    int32_t left = node * 2, right = left + 1;
    int32_t a = left < earliest->leaves ? earliest->winners[left] : left - earliest->leaves;
    int32_t b = right < earliest->leaves ? earliest->winners[right] : right - earliest->leaves;

    earliest->winners[node] = earliest->times[b] < earliest->times[a] ? b : a;
  }
}

static inline int32_t
zs_earliest_clock (const ZsEarliest *earliest)
{
  return earliest->leaves > 1 ? earliest->winners[1] : 0;
}

static inline ZsTime
zs_earliest_time (const ZsEarliest *earliest)
{
  return earliest->times[zs_earliest_clock (earliest)];
}

static inline ZsTime
zs_earliest_of (const ZsEarliest *earliest, int32_t clock)
{
  return earliest->times[clock];
}

/* The earliest of the others. */
ZsTime zs_earliest_rival (const ZsEarliest *earliest, int32_t clock) G_GNUC_PURE;

/* All that is due, is due later by TIME. */
void zs_earliest_shift (ZsEarliest *earliest, ZsTime time);
