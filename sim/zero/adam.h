/* adam.h: one Adam step on a flat tensor, on the GPU or the CPU, and what goes with it on the CPU.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/zero/config.h"
#include "sim/zero/torch-ops.h"

/* States of one tensor, ZS_NO_TENSOR before its first step. */
typedef struct {
  ZsTensor *momentum, *variance, *step_count;
} ZsAdamStates;

/* What the optimizer's constructor allocates: FusedAdam keeps a number on the GPU for its kernel's
 * overflow flag (_dummy_overflow_buf). */
void zs_adam_init (ZsPlan *plan, ZsDsOptimizer optimizer);

/* Adam over ELEMENTS of parameters and gradients of PARAMETER_BYTES with states of STATE_BYTES: makes
 * the states when they do not exist (torch and DeepSpeed both do in the first step), then the kernels
 * and temporaries of the implementation.  FusedAdam and torch's fused one have no temporaries;
 * foreach has one tensor of the states' size, the loop three (measured with torch 2.11). */
void zs_adam_step (ZsPlan *plan, ZsDsOptimizer optimizer, int64_t elements, int parameter_bytes,
                   int state_bytes, ZsAdamStates states);

/* The same on the CPU, where the states are there already: the host waits.  DeepSpeedCPUAdam and torch's fused
 * one make one pass (read p, g, m, v; write p, m, v), its others some ten and a temporary of 4 bytes per element. */
void zs_adam_on_cpu (ZsPlan *plan, ZsDsOptimizer optimizer, int64_t elements, int parameter_bytes,
                     int state_bytes);
/* mul_ () of ELEMENTS, and copy_ () from one dtype to another, on the CPU. */
void zs_scale_on_cpu (ZsPlan *plan, int64_t elements, int bytes);
void zs_copy_on_cpu  (ZsPlan *plan, int64_t elements, int from_bytes, int to_bytes);
