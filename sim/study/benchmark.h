/* benchmark.h: what a benchmark would read on a machine: collectives beside other work, copies at once.
 * SPDX-License-Identifier: MIT
 *
 * The benchmark is run as a plan of instructions like any other, so that what it says of contention is
 * what a training step meets. */
#pragma once

#include "sim/scenario/scenario.h"

typedef struct {
  ZsTime time, time_with;                  /* of one collective: alone, and beside the other work */
  ZsTime beside_time, beside_time_with;    /* of one turn of that */
} ZsBesideTimes;

/* ROW's collective and what it names, over and over on two streams of every GPU of MACHINE. */
bool   zs_benchmark_beside (const ZsScenario *machine, const ZsMeasuredCollective *row,
                            ZsBesideTimes *ret_times, GError **error);
/* Time of one copy of ROW, with all of its GPUs at it; the slowest.  -1 and ERROR. */
ZsTime zs_benchmark_copies (const ZsScenario *machine, const ZsMeasuredCopy *row, GError **error);
