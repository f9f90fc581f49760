/* fsdp1.h: FullyShardedDataParallel.  Private to sim/fsdp.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/fsdp/fsdp.h"
#include "sim/fsdp/unit.h"

ZsHooks *zs_fsdp1_hooks_new (const ZsModel *model, const ZsFsdpConfig *config,
                             const ZsStepShape *shape, int64_t rank, ZsPlan *plan)
  G_GNUC_WARN_UNUSED_RESULT;
