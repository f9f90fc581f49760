/* plain.h: plain PyTorch: gradients stay in .grad, torch.optim.AdamW.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/model/hooks.h"

/* MODEL and PLAN are borrowed. */
ZsHooks *zs_plain_hooks_new (const ZsModel *model, const ZsStepShape *shape, ZsPlan *plan)
  G_GNUC_WARN_UNUSED_RESULT;
/* Forget PARAMETER's .grad, of the hooks above. */
void     zs_plain_drop_gradient (ZsHooks *hooks, int32_t parameter);
/* Frees hooks of any framework; NULL is allowed. */
void     zs_hooks_free (ZsHooks *hooks);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsHooks, zs_hooks_free)
