/* skip.h: instructions that run only if the machine says so.
 * SPDX-License-Identifier: MIT
 *
 * A plan has two questions, each of which skips what follows it; "at least 0 bytes are free" is
 * always true, so it serves as a jump over the other branch.
 */
#pragma once

#include "sim/plan/plan.h"

/* The instructions from START to the end run unless the gradients overflow.  If they do, the tensors
 * that those instructions leave freed are freed, and the ones that they leave allocated are allocated,
 * so that the plan goes on from the same tensors.  (Adam's states thus exist after a first step that
 * overflowed; the real ones come a step later.) */
void zs_zero_unless_overflow (ZsPlan *plan, int64_t start);

/* The instructions from START to MIDDLE run if at least BYTES of GPU memory are free, those from
 * MIDDLE to the end if not. */
void zs_zero_if_free (ZsPlan *plan, int64_t start, int64_t middle, int64_t bytes);
