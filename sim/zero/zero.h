/* zero.h: DeepSpeed's engine as hooks around the model.
 * SPDX-License-Identifier: MIT
 *
 * Each stage keeps what the real engine of one rank keeps (flat buffers, partitions, buckets, host
 * buffers) and emits its instructions where the real one runs.  Sources: deepspeed/runtime/engine.py,
 * deepspeed/runtime/zero, deepspeed/runtime/bf16_optimizer.py, deepspeed/runtime/fp16; sizes and
 * orders are held against allocator histories and memory peaks of 0.14.4 and 0.19.5 on one H200.
 */
#pragma once

#include "sim/model/hooks.h"
#include "sim/zero/config.h"

/* Which optimizer wrapper DeepSpeed builds (engine.py, _do_optimizer_sanity_check). */
typedef enum {
  ZS_WRAPPER_NONE,      /* stage 0 in fp32: the plain optimizer */
  ZS_WRAPPER_FP16,      /* FP16_Optimizer, also in its bf16 mode */
  ZS_WRAPPER_FP16_UNFUSED,   /* the same for an optimizer that is not FusedAdam */
  ZS_WRAPPER_BF16,      /* BF16_Optimizer */
  ZS_WRAPPER_STAGE12,   /* DeepSpeedZeroOptimizer */
  ZS_WRAPPER_STAGE3
} ZsWrapper;

ZsWrapper zs_zero_wrapper (const ZsZeroConfig *config);

/* The hooks of RANK; free with hooks->free (hooks->self).  MODEL and PLAN are borrowed and outlive
 * the hooks; CONFIG and SHAPE are copied.  PLAN is the only plan that the hooks may be called with. */
ZsHooks *zs_zero_hooks_new (const ZsModel *model, const ZsZeroConfig *config,
                            const ZsStepShape *shape, int64_t rank, ZsPlan *plan)
  G_GNUC_WARN_UNUSED_RESULT;
