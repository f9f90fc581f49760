/* adapters.h: FSDP1's units of one LoRA matrix, and the limit on gathers under way.
 * SPDX-License-Identifier: MIT
 *
 * Private to sim/fsdp. */
#pragma once

#include "sim/fsdp/unit.h"

enum { FSDP_MAX_INFLIGHT = 2 };   /* torch/distributed/fsdp/_limiter_utils.py: _FreeEventQueue */

typedef struct {
  ZsEvent inflight[FSDP_MAX_INFLIGHT];
  int     n;
} FsdpLimiter;

/* Before a gather: the host waits for the oldest buffer that has been given back. */
void fsdp_limiter_wait  (FsdpLimiter *limiter, FsdpUnits *units);
/* A gathered buffer has been given back. */
void fsdp_limiter_freed (FsdpLimiter *limiter, FsdpUnits *units);

typedef struct {
  ZsTensor full;     /* of the one that is gathered */
} FsdpAdapters;

/* All do nothing for other modules. */
void fsdp_adapters_init (FsdpUnits *units);
void fsdp_adapter_enter (FsdpAdapters *adapters, FsdpLimiter *limiter, FsdpUnits *units, int32_t module);
void fsdp_adapter_leave (FsdpAdapters *adapters, FsdpLimiter *limiter, FsdpUnits *units, int32_t module);
/* After backward of MODULE. */
void fsdp_adapter_reduce (FsdpUnits *units, int32_t module);
void fsdp_adapters_drop_gradients (FsdpUnits *units);
