/* load.h: the model on the GPU before a framework takes its parameters over.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/model/model.h"
#include "sim/plan/plan.h"

/* The parameters one by one in model order, each in its own storage, into STORAGE (by parameter).
 * LoRA adapters of a 16-bit model are fp32 until the engine casts them (peft's default). */
void zs_zero_load_model (ZsPlan *plan, const ZsModel *model, ZsTensor *storage);
/* module.bfloat16 () or .half (): the fp32 adapters of a model that trains in 16 bit. */
void zs_zero_cast_model (ZsPlan *plan, const ZsModel *model, ZsTensor *storage);
