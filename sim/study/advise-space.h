/* advise-space.h: what `zerosim advise` may change, as dimensions with values.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/study/base.h"

#define ZS_SPACE_MAX_DIMENSIONS 16
#define ZS_SPACE_MAX_VALUES     24

typedef enum {
  ZS_DIMENSION_STRUCTURE,    /* decides where things are: all combinations are looked at */
  ZS_DIMENSION_TUNING,       /* sizes and switches: looked at one by one */
} ZsDimensionKind;

/* Where a dimension has an effect at all; elsewhere it is left as it is. */
typedef enum { ZS_SENSE_ALWAYS, ZS_SENSE_STAGE3, ZS_SENSE_STAGE12, ZS_SENSE_SHARDED, ZS_SENSE_OFFLOAD } ZsSense;

typedef struct {
  char  **sets;              /* NULL-terminated; the first value has none: as it is */
  int     stage;             /* of the dimension `stage`: what it becomes; else -1 */
  int     offload;           /* of `offload`: 0 none, 1 optimizer, 2 and parameters; else -1 */
  int64_t micro, gpus;       /* of `batch`: micro-batch and GPUs per node */
  bool    accumulates;       /* of `batch`: more than one micro-step */
} ZsSpaceValue;

typedef struct {
  const char     *name;      /* "stage", "offload", ... */
  const char     *trade;     /* what changing it costs or brings, for a person */
  ZsDimensionKind kind;
  ZsSense         sense;
  int             n_values;
  ZsSpaceValue    values[ZS_SPACE_MAX_VALUES];
} ZsDimension;

typedef struct {
  int         n;
  ZsDimension dimensions[ZS_SPACE_MAX_DIMENSIONS];
  int         stage, offload;     /* as it is; -1: no DeepSpeed */
} ZsSpace;

/* What may change in SCENARIO.  NAMES (NULL: all) are the dimensions wanted; MACHINES: fewer GPUs too. */
ZsSpace *zs_space_new  (const ZsScenario *scenario, const char *const *names, bool machines);
void     zs_space_free (ZsSpace *space);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsSpace, zs_space_free)

/* The names of all dimensions that there are; NULL-terminated. */
extern const char *const ZS_SPACE_NAMES[];

/* Does CHOICE make sense: nothing is changed that has no effect there, and parameters are offloaded at
 * stage 3 only? */
bool     zs_space_sensible (const ZsSpace *space, const int *choice);
/* All of CHOICE as `--set` takes it; free with g_strfreev. */
char   **zs_space_sets     (const ZsSpace *space, const int *choice);
int      zs_space_changes  (const ZsSpace *space, const int *choice);
