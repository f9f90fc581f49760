/* load.h: the model on the GPU before a framework takes its parameters over.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/model/model.h"
#include "sim/plan/plan.h"

/* inv_freq and original_inv_freq of the rotary embedding. */
typedef struct {
  ZsTensor frequencies[2];
} ZsRotaryBuffers;

/* The parameters one by one in model order, each in its own storage, into STORAGE (by parameter), and
 * the rotary buffers as transformers builds them on the GPU.  Then peft's adapters: made in the base
 * model's dtype, and cast to fp32 at the end (its default). */
void zs_zero_load_model (ZsPlan *plan, const ZsModel *model, ZsTensor *storage,
                         ZsRotaryBuffers *ret_rotary);

/* module.bfloat16 () or .half () in deepspeed/runtime/engine.py: adapters that train in 16 bit, and,
 * before 0.19.2, the rotary buffers. */
void zs_zero_cast_model (ZsPlan *plan, const ZsModel *model, const ZsVersions *versions,
                         ZsDtype dtype, ZsTensor *storage, ZsRotaryBuffers *rotary);
