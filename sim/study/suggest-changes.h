/* suggest-changes.h: the changes of settings worth trying, as tables.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/scenario/scenario.h"

#define ZS_SUGGEST_MAX_SETS 6

/* One change: what to set, when it makes sense, what it trades. */
typedef struct {
  const char *sets[ZS_SUGGEST_MAX_SETS];    /* "key=value", NULL after the last if fewer */
  bool      (*applies) (const ZsScenario *scenario);
  const char *reason;
} ZsSuggestChange;

/* When a table is tried. */
typedef enum {
  ZS_SUGGEST_SMALLER,            /* out of memory: single changes */
  ZS_SUGGEST_SMALLER_TOGETHER,   /* combinations, if no single one suffices */
  ZS_SUGGEST_LAST_RESORT,        /* another method, or more GPUs, if nothing else does */
  ZS_SUGGEST_FASTER,             /* it fits: what makes it faster */
  ZS_SUGGEST_N_TABLES
} ZsSuggestTable;

/* *RET_N changes, static. */
const ZsSuggestChange *zs_suggest_table (ZsSuggestTable table, size_t *ret_n);
/* What CHANGE sets that SCENARIO does not have yet, with the threads of an optimizer that moves to the CPU; where it asks for a smaller micro-batch, MICRO_BATCH,
 * which divides the scenario's, and the accumulation that keeps the global batch.  NULL-terminated; empty if
 * nothing is, or too many micro-steps would be; free with g_strfreev. */
char                 **zs_suggest_sets (const ZsSuggestChange *change, const ZsScenario *scenario,
                                        int64_t micro_batch);
