/* known.h: runs of equal plans are run once.  SPDX-License-Identifier: MIT
 *
 * Many settings of a sweep change nothing: a bucket that is larger than what goes into it, a threshold
 * between two sizes, a key that this stage does not read.  Then the plans of all ranks are equal,
 * instruction by instruction, and so is the result.  A cache knows the results of its last runs by a
 * number of 128 bits made of all that went into them: plans, tables, machine, options.  Making plans
 * takes a quarter of a run; where few are known, most are not looked for.
 */
#pragma once

#include "sim/run/run.h"

typedef struct ZsRunCache ZsRunCache;

/* Machines must outlive the cache: they are known by their addresses.  Any thread may use it at any
 * time. */
ZsRunCache *zs_run_cache_new  (void) G_GNUC_WARN_UNUSED_RESULT;
void        zs_run_cache_free (ZsRunCache *cache);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsRunCache, zs_run_cache_free)

/* How many runs were looked for, and how many of them were known. */
void zs_run_cache_count (ZsRunCache *cache, int64_t *ret_n_looked, int64_t *ret_n_known);

/* As zs_run_work (). */
ZsResult *zs_run_work_known (const ZsWork *work, const ZsMachine *machine, const ZsRunOptions *options,
                             ZsRunCache *cache, GError **error) G_GNUC_WARN_UNUSED_RESULT;
