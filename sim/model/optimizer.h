/* optimizer.h: clip_grad_norm_ and optimizers on tensors of one GPU: torch.optim's AdamW and SGD,
 * transformers' Adafactor, bitsandbytes' AdamW.  SPDX-License-Identifier: MIT
 *
 * Used by plain PyTorch and FSDP.  States are lazy: the first step allocates them.  Sources:
 * torch/optim/adam.py, sgd.py, torch/nn/utils/clip_grad.py, transformers/optimization.py, recorded
 * histories; bitsandbytes/optim/optimizer.py (not recorded). */
#pragma once

#include "sim/model/model.h"
#include "sim/model/shape.h"
#include "sim/plan/plan.h"

typedef struct {
  int64_t elements;
  int64_t columns;       /* of a matrix; 0 or 1: a vector */
  ZsDtype dtype;
  int     group;         /* parameter group, from 0 */
  bool    embedding;     /* Trainer has bitsandbytes keep 32-bit states for it */
  int64_t idle;          /* elements that never had a gradient: zs_idle_elements () */
} ZsOptimizerTensor;

typedef struct {
  ZsPlan            *plan;
  ZsOptimizerKind    kind;
  int                sm_count, n, n_groups;
  ZsOptimizerTensor *tensors;
  bool               started;    /* the states are there */
  ZsTensor          *first, *second, *steps;   /* per tensor: exp_avg and exp_avg_sq, or what they are called */
  uint32_t           label_step, label_clip, label_zero;
} ZsTorchOptimizer;

/* Of ELEMENTS of an input embedding that is no head too: those of rows that no token of a step names, if tokens
 * are drawn evenly and steps repeat theirs.  0 of other parameters. */
int64_t zs_idle_elements (const ZsModel *model, const ZsStepShape *shape, int32_t parameter, int64_t elements);

/* What the step is called. */
const char *zs_optimizer_name (ZsOptimizerKind kind);

/* N TENSORS, which are copied; SM_COUNT of the GPU. */
ZsTorchOptimizer *zs_torch_optimizer_new  (ZsPlan *plan, ZsOptimizerKind kind, int sm_count, int n,
                                           const ZsOptimizerTensor *tensors) G_GNUC_WARN_UNUSED_RESULT;
void              zs_torch_optimizer_free (ZsTorchOptimizer *optimizer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsTorchOptimizer, zs_torch_optimizer_free)

/* A number for the states that exist. */
uint64_t zs_torch_optimizer_digest (const ZsTorchOptimizer *optimizer);

/* clip_grad_norm_ (): norms per tensor, their norm, the factor, the scaling in place. */
void zs_torch_optimizer_clip (ZsTorchOptimizer *optimizer);
/* step (), without zero_grad (). */
void zs_torch_optimizer_step (ZsTorchOptimizer *optimizer);
/* What zero_grad () costs the host; the gradients are the caller's. */
void zs_torch_optimizer_zero_grad (ZsTorchOptimizer *optimizer);
