/* earliest.c: a tournament tree.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/engine/earliest.h"

void
zs_earliest_init (ZsEarliest *earliest, int32_t n)
{
  int32_t leaves = 1;

  while (leaves < n)
    leaves *= 2;
  *earliest = (ZsEarliest) { .n = n, .leaves = leaves };
  earliest->times = g_new (ZsTime, leaves);
  earliest->winners = g_new0 (int32_t, leaves);
  for (int32_t clock = 0; clock < leaves; clock++)
    earliest->times[clock] = ZS_TIME_MAX;
  for (int32_t clock = leaves - 1; clock >= 0; clock--)
    zs_earliest_set (earliest, clock, ZS_TIME_MAX);
}

void
zs_earliest_clear (ZsEarliest *earliest)
{
  g_free (earliest->times);
  g_free (earliest->winners);
  *earliest = (ZsEarliest) { .times = NULL };
}

ZsTime
zs_earliest_rival (const ZsEarliest *earliest, int32_t clock)
{
  ZsTime least = ZS_TIME_MAX;

  /* along CLOCK's path to the top, the winners that it met */
  for (int32_t node = clock + earliest->leaves; node > 1; node /= 2) {
    int32_t other = node ^ 1;
    int32_t winner = other < earliest->leaves ? earliest->winners[other] : other - earliest->leaves;

    least = MIN (least, earliest->times[winner]);
  }
  return least;
}

void
zs_earliest_shift (ZsEarliest *earliest, ZsTime time)
{
  for (int32_t clock = 0; clock < earliest->n; clock++)
    if (earliest->times[clock] != ZS_TIME_MAX)
      zs_earliest_set (earliest, clock, earliest->times[clock] + time);
}
