/* simulate.h: runs a scenario.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/run/cluster.h"
#include "sim/run/run.h"
#include "sim/scenario/scenario.h"

/* What a run of SCENARIO starts from: PyTorch's default allocator or its alloc_conf, its memory limit, its
 * version; the rank that was measured, if any, else the worst. */
void zs_scenario_run_options (const ZsScenario *scenario, ZsRunOptions *ret_options);

/* The machine of SCENARIO, which it borrows.  A communicator over all GPUs is in it
 * (`zs_cluster_comm`).  ERROR: NCCL's environment has an impossible value. */
ZsCluster *zs_scenario_cluster (const ZsScenario *scenario, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Machines that many scenarios have in common: what NCCL finds on one is found once; and results on them, for
 * scenarios that come to the same plans (sim/run/known.h).  Any thread may use a cache at any time; it
 * outlives the runs that use it. */
typedef struct ZsClusterCache ZsClusterCache;
ZsClusterCache *zs_cluster_cache_new  (void) G_GNUC_WARN_UNUSED_RESULT;
void            zs_cluster_cache_free (ZsClusterCache *cache);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsClusterCache, zs_cluster_cache_free)

/* As zs_scenario_run () below, with the machine from CACHE (NULL: none). */
ZsResult  *zs_scenario_run_cached (const ZsScenario *scenario, const ZsRunOptions *options,
                                   ZsClusterCache *cache, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Runs SCENARIO.  OPTIONS may be NULL: zs_scenario_run_options ().  An OOM is a result; ERROR is a limit of ours
 * or a setting that no machine takes. */
ZsResult  *zs_scenario_run (const ZsScenario *scenario, const ZsRunOptions *options,
                            GError **error) G_GNUC_WARN_UNUSED_RESULT;
