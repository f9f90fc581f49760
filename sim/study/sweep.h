/* sweep.h: every combination of a few axes over one scenario, numbered.
 * SPDX-License-Identifier: MIT
 *
 * A sweep file:
 *
 *   name: ...
 *   scenario: zero3.yaml             # a path, from the sweep file or from here; or inline
 *   set: {training.steps: 3}         # changes of the scenario that hold for all
 *   axes:
 *     stage: [1, 2, 3]
 *     reduce_bucket_size: 1e6:1e9:log7
 *     stage3_prefetch_bucket_size: {values: [1e6, 1e7], when: stage == 3}
 *   when: [micro_batch * gradient_accumulation == 16]
 *
 * The last axis runs fastest.  Where an axis's own condition does not hold, its setting is left alone and
 * it counts once.  A configuration is kept if all conditions of the file hold.  Kept ones are numbered from
 * 0; the number is what the store knows them by. */
#pragma once

#include "sim/study/axis.h"
#include "sim/study/base.h"

#define ZS_SWEEP_MAX_AXES     32
/* Combinations that are looked at, and configurations that are kept: more asks for a mistake. */
#define ZS_SWEEP_MAX_PRODUCT  50000000
#define ZS_SWEEP_MAX_KEPT     2000000

typedef struct {
  char       *name;
  ZsBase     *base;
  GPtrArray  *axes;          /* ZsAxis * */
  int64_t     n_kept;
  int64_t    *kept;          /* the combination of each kept configuration, counted in the order of the axes */
  uint32_t   *used;          /* bits: axes that are not left alone there */
  char       *fingerprint;   /* of all that decides the results */
  ZsDocument *document;      /* the sweep file; NULL: none */
  char      **sets;
} ZsSweep;

/* Reads the sweep file at PATH, or the scenario at PATH with AXES alone ("PATH=VALUES" of --vary,
 * NULL-terminated, may be NULL); AXES come after those of the file.  FLAGS, SETS and CATALOGUE are borrowed.
 * On failure NULL and ERRORS. */
ZsSweep *zs_sweep_load (const char *path, const char *const *axes, const ZsScenarioFlags *flags,
                        const char *const *sets, ZsCatalogue *catalogue,
                        ZsErrors *errors) G_GNUC_WARN_UNUSED_RESULT;
void     zs_sweep_free (ZsSweep *sweep);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsSweep, zs_sweep_free)

/* The value of AXIS in the kept CONFIGURATION; NULL: left alone there. */
const char *zs_sweep_value (const ZsSweep *sweep, int64_t configuration, int axis);
/* Its changes, as for --set; free with g_strfreev. */
char      **zs_sweep_changes (const ZsSweep *sweep, int64_t configuration);
/* Reads a few configurations of each value: false and ERRORS if some value can never be read. */
bool        zs_sweep_check (const ZsSweep *sweep, ZsErrors *errors);
