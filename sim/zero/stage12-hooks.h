/* stage12-hooks.h: the wrappers of stages 0, 1 and 2; zero.h chooses one.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/model/hooks.h"
#include "sim/zero/config.h"

/* Arguments and ownership as zs_zero_hooks_new (). */
ZsHooks *zs_stage12_hooks_new (const ZsModel *model, const ZsZeroConfig *config,
                               const ZsStepShape *shape, int64_t rank, ZsPlan *plan);
/* FP16_Optimizer, FP16_UnfusedOptimizer, or no wrapper. */
ZsHooks *zs_stage0_hooks_new (const ZsModel *model, const ZsZeroConfig *config,
                              const ZsStepShape *shape, int64_t rank, ZsPlan *plan);
ZsHooks *zs_bf16_optimizer_hooks_new (const ZsModel *model, const ZsZeroConfig *config,
                                      const ZsStepShape *shape, int64_t rank, ZsPlan *plan);
