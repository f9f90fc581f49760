/* optimizer.h: clip_grad_norm_ and torch.optim.AdamW on tensors of one GPU.
 * SPDX-License-Identifier: MIT
 *
 * Used by plain PyTorch, FSDP and DeepSpeed's client optimizers.  States are lazy: the first step
 * allocates them.  Sources: torch/optim/adam.py, torch/nn/utils/clip_grad.py, recorded histories. */
#pragma once

#include "sim/model/shape.h"
#include "sim/plan/plan.h"

typedef struct {
  ZsPlan         *plan;
  ZsOptimizerKind kind;
  int             n;
  int64_t        *elements;      /* per tensor */
  ZsDtype        *dtypes;
  ZsTensor       *exp_avg, *exp_avg_sq, *steps;
  uint32_t        label_step, label_clip;
} ZsAdamW;

/* N tensors of ELEMENTS and DTYPES, which are copied. */
ZsAdamW *zs_adamw_new  (ZsPlan *plan, ZsOptimizerKind kind, int n, const int64_t *elements,
                        const ZsDtype *dtypes) G_GNUC_WARN_UNUSED_RESULT;
void     zs_adamw_free (ZsAdamW *adam);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsAdamW, zs_adamw_free)

/* A number for the states that exist. */
uint64_t zs_adamw_digest (const ZsAdamW *adam);

/* clip_grad_norm_ (): norms per tensor, their norm, the factor, the scaling in place. */
void zs_adamw_clip (ZsAdamW *adam);
/* step (), without zero_grad (). */
void zs_adamw_step (ZsAdamW *adam);
