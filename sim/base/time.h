/* time.h: simulated time and rates, and the only place where they are rounded.
 * SPDX-License-Identifier: MIT
 *
 * Time is whole picoseconds, rates are whole bytes per second: equal is equal on every machine,
 * and sums do not depend on their order. */
#pragma once

#include <glib.h>
#include <stdint.h>

typedef int64_t ZsTime;   /* picoseconds */
typedef int64_t ZsRate;   /* bytes per second */

#define ZS_MICROSECOND INT64_C (1000000)
#define ZS_MILLISECOND INT64_C (1000000000)
#define ZS_SECOND      INT64_C (1000000000000)
#define ZS_TIME_MAX    INT64_MAX

/* Time to move BYTES at RATE.  Rounds up: the last byte must have arrived. */
static inline ZsTime
zs_time_to_move (int64_t bytes, ZsRate rate)
{
  g_assert (bytes >= 0 && rate > 0);
  __int128 time = ((__int128) bytes * ZS_SECOND + rate - 1) / rate;

  return time > ZS_TIME_MAX ? ZS_TIME_MAX : (ZsTime) time;
}

/* SECONDS (not negative, finite) as picoseconds, to nearest, ties to even. */
static inline ZsTime
zs_time_from_seconds (double seconds)
{
  double time = seconds * (double) ZS_SECOND;

  g_assert (time >= 0);
  return time >= 9.2e18 ? ZS_TIME_MAX : (ZsTime) __builtin_rint (time);
}

static inline double
zs_time_to_seconds (ZsTime time)
{
  return (double) time / (double) ZS_SECOND;
}
