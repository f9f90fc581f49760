/* fsdp.h: PyTorch's fully sharded data parallelism as hooks around a model.
 * SPDX-License-Identifier: MIT
 *
 * Version 2 is torch.distributed.fsdp.fully_shard, applied to each decoder layer and then to the
 * model (the root, which holds embeddings, final norm and head).  Version 1 is
 * FullyShardedDataParallel with the same units as flat parameters.
 * Source: torch/distributed/fsdp of PyTorch 2.11; the sequence of allocations of version 2 was held
 * against a history recorded on one H200. */
#pragma once

#include "sim/fsdp/config.h"
#include "sim/model/hooks.h"

/* Hooks of RANK; MODEL and PLAN are borrowed and must outlive them.  Freed through their `free`. */
ZsHooks *zs_fsdp_hooks_new (const ZsModel *model, const ZsFsdpConfig *config,
                            const ZsStepShape *shape, int64_t rank, ZsPlan *plan)
  G_GNUC_WARN_UNUSED_RESULT;
