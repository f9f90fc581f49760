/* ledger.h: the simplest reading of a plan: requested bytes alive on the GPU and on the host, enough
 * free memory, no overflow.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/plan/plan.h"

typedef struct {
  int64_t *sizes;          /* by tensor */
  bool    *pinned;
  uint32_t room;
  int64_t gpu, gpu_peak;
  int64_t pinned_exact, pinned_rounded;      /* alive; the second with powers of two */
  int64_t pageable, pageable_peak;
  int64_t collective_bytes, to_host_bytes, to_gpu_bytes;
  int64_t n_collectives, n_frees_unknown;
  bool    overflows;       /* the answer to ZS_OP_UNLESS_OVERFLOW */
} Ledger;

/* Read the plan's instructions into LEDGER and clear the plan. */
void ledger_read (Ledger *ledger, ZsPlan *plan);
/* Peaks start again from what is alive. */
void ledger_reset_peaks (Ledger *ledger);
void ledger_clear (Ledger *ledger);
