/* training.h: runs a training job on a machine.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/job/job.h"
#include "sim/run/known.h"
#include "sim/run/run.h"

/* Size of the groups of ZS_COMMUNICATOR_GROUP that TRAINING uses (hpZ, MiCS, hybrid sharding); 0:
 * none.  A cluster wants to know it. */
int64_t zs_training_group_ranks (const ZsTraining *training);

/* MACHINE has TRAINING's world of ranks. */
ZsResult *zs_run (const ZsTraining *training, const ZsMachine *machine, const ZsRunOptions *options,
                  GError **error) G_GNUC_WARN_UNUSED_RESULT;
/* The same, where CACHE (NULL: none) may know it. */
ZsResult *zs_run_known (const ZsTraining *training, const ZsMachine *machine,
                        const ZsRunOptions *options, ZsRunCache *cache, GError **error)
  G_GNUC_WARN_UNUSED_RESULT;
