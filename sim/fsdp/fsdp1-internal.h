/* fsdp1-internal.h: the state of FullyShardedDataParallel on one rank.  SPDX-License-Identifier: MIT
 *
 * Private to sim/fsdp/fsdp1*.c. */
#pragma once

#include "sim/fsdp/adapters.h"
#include "sim/fsdp/fsdp1.h"
#include "sim/fsdp/unit.h"
#include "sim/model/hooks.h"

enum { PRE_UNSHARD = ZS_STREAM_COPY, UNSHARD = ZS_STREAM_ALL_GATHER, POST_BACKWARD = ZS_STREAM_REDUCE,
       COMPUTE = ZS_STREAM_COMPUTE };

typedef struct {
  ZsTensor shard;           /* flat; GPU or host */
  ZsTensor full;            /* the gathered flat parameter, or none */
  ZsTensor gradient;        /* saved_grad_shard */
  ZsTensor leaving;         /* the same on its way to the host, until the end of backward */
  ZsTensor whole;           /* flat_param.grad before it is reduced: under no_sync it waits */
  bool     in_backward;     /* the pre-backward hook has run */
  bool     prefetched;      /* gathered before its own hook */
  uint32_t concatenate;     /* kernel */
} Fsdp1Unit;

typedef struct {
  FsdpUnits units;          /* first, see fsdp_before_forward_pass () */
  ZsHooks   hooks;
  Fsdp1Unit *flats;
  bool      initialised;    /* _lazy_init () has run */
  bool      stepped;        /* gradients are to go before the next forward */
  FsdpLimiter  limiter;
  FsdpAdapters adapters;
} Fsdp1;

static inline int64_t
fsdp1_shard_bytes (const Fsdp1 *fsdp, int32_t index, int64_t element)
{
  return fsdp->units.units[index].shard_elements * element;
}

static inline int64_t
fsdp1_full_bytes (const Fsdp1 *fsdp, int32_t index, int64_t element)
{
  return fsdp1_shard_bytes (fsdp, index, element) * fsdp->units.ranks;
}

static inline int32_t
fsdp1_root (const Fsdp1 *fsdp)
{
  return fsdp->units.n_units - 1;
}

/* fsdp1-whole.c: hooks */
void fsdp1_load (void *fsdp, ZsPlan *plan);
void fsdp1_init (void *fsdp, ZsPlan *plan);
void fsdp1_save (void *fsdp, ZsPlan *plan);
