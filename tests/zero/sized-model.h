/* sized-model.h: a model that has only sizes, and a step that makes only gradients.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/model/hooks.h"
#include "sim/zero/zero.h"
#include "tests/zero/ledger.h"

/* LLaMA-7B: N = 6,738,415,616. */
ZsModel *sized_llama_7b (void);
void     sized_model_free (ZsModel *model);

/* Settings of DeepSpeed VERSION on WORLD ranks: bf16, one group, buckets of BUCKET elements,
 * FusedAdam or CPU Adam, clipping 1. */
ZsZeroConfig sized_config (int stage, int64_t world, int64_t bucket, ZsVersion version);

/* Hooks of RANK with load and init read into LEDGER. */
ZsHooks *sized_start (const ZsModel *model, const ZsZeroConfig *config, int64_t rank, ZsPlan *plan,
                      Ledger *ledger);
/* One micro-step: the gradients in reverse model order. */
void sized_micro_step (const ZsModel *model, ZsHooks *hooks, ZsPlan *plan, Ledger *ledger, int step,
                       int micro_step, bool boundary);
void sized_optimizer_step (ZsHooks *hooks, ZsPlan *plan, Ledger *ledger, int step);
