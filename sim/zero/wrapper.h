/* wrapper.h: what the 16-bit optimizers of stages 0, 1 and 2 have in common.
 * SPDX-License-Identifier: MIT
 *
 * Private to sim/zero.  The struct of each begins with a ZsWrapped. */
#pragma once

#include "sim/model/hooks.h"

#define ZS_MAX_GROUPS 2   /* Hugging Face: with and without weight decay */

typedef struct {
  ZsTensor *storage;               /* by parameter: its own storage (frozen, or before init) */
  int32_t  *group_of;              /* by parameter; -1 frozen.  NULL: all are in the first */
  ZsTensor  flat[ZS_MAX_GROUPS];   /* in which the parameters of a group lie */
  bool      boundary;              /* the last micro-step before the optimizer's step */
} ZsWrapped;

/* Hooks of these names; SELF begins with a ZsWrapped. */
void     zs_wrapped_before_forward_pass (void *self, ZsPlan *plan, int step, int micro_step, bool boundary);
ZsTensor zs_wrapped_weight              (void *self, int32_t parameter);
