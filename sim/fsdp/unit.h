/* unit.h: the units that FSDP gathers and reduces as one: a decoder layer, the embedding, or the root.
 * SPDX-License-Identifier: MIT
 *
 * Private to sim/fsdp.  Words: a parameter is "full" when gathered ("unsharded" in PyTorch), and a
 * shard is this rank's piece of it.  Sizes of shards are padded, so that all ranks' are equal. */
#pragma once

#include "sim/fsdp/config.h"
#include "sim/model/model.h"
#include "sim/model/optimizer.h"
#include "sim/plan/plan.h"

#define FSDP_SHARD_GROUP     0   /* communicator over which parameters are sharded */
#define FSDP_REPLICATE_GROUP 1   /* hybrid sharding: the same shard on every node */

static inline int64_t
fsdp_divide_up (int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

typedef struct {
  int32_t  index;               /* in the model */
  bool     trainable;
  int64_t  elements;            /* of the full parameter */
  int64_t  shard_elements;      /* padded */
  int64_t  local_elements;      /* of this rank's shard, without padding */
  ZsTensor original;            /* as loaded, until it is sharded */
  ZsTensor shard;               /* version 2; GPU or host memory */
  ZsTensor full;
  ZsTensor gradient;            /* .grad of the full parameter */
  ZsTensor accumulated;         /* version 2 under no_sync: the same in the reduce dtype */
  ZsTensor shard_gradient;      /* version 2: a view into the unit's reduced gradients */
} FsdpParameter;

typedef struct {
  int32_t  module, layer;       /* layer -1: the root or the embedding */
  bool     root;
  int32_t  first, n;            /* its parameters, in the order of modules () */
  uint32_t label_gather, label_reduce;
  int64_t  shard_elements;      /* padded sums */
  int64_t  flat_elements;       /* version 1: of the flat parameter before its padding to the ranks */
  int64_t  trainable_shard_elements;
  uint32_t cast, copy_in, copy_out, reduce_copy, reduce_cast, accumulate,
    accumulate_full;            /* kernels */
} FsdpUnit;

typedef struct {
  const ZsModel *model;
  ZsPlan        *plan;
  ZsFsdpConfig   config;
  ZsStepShape    shape;
  int64_t        rank, ranks;   /* in the shard group */
  int64_t        replicas;      /* hybrid: how many such groups */
  int64_t        parameter_bytes, compute_bytes, reduce_bytes;   /* per element */
  bool           casts;         /* parameters are gathered in another dtype than they are kept in */

  FsdpParameter *parameters;
  FsdpUnit      *units;         /* layers in order, the embedding if it is one, then the root */
  int32_t        n_units;
  int32_t       *unit_of_module;      /* -1: none begins there */
  int32_t       *slot_of_parameter;   /* model index to index in `parameters` */
  ZsTorchOptimizer *optimizer;     /* GPU */
  ZsTensor       rotary[2];     /* inv_freq and its copy, fp32 */
  ZsTensor      *host_states;   /* CPU offload: exp_avg and exp_avg_sq by parameter */
  uint32_t       label_load, label_shard, label_step;
  bool           boundary;      /* the last micro-step before the optimizer's step */
} FsdpUnits;

void fsdp_units_init  (FsdpUnits *units, const ZsModel *model, const ZsFsdpConfig *config,
                       const ZsStepShape *shape, int64_t rank, ZsPlan *plan);
void fsdp_units_clear (FsdpUnits *units);
/* The hook of that name; SELF begins with its units. */
void fsdp_before_forward_pass (void *self, ZsPlan *plan, int step, int micro_step, bool boundary);
/* A number for what changes from call to call. */
uint64_t fsdp_units_digest (const FsdpUnits *units);

/* Each adapter's A and B is a unit by itself, as peft's fsdp_auto_wrap_policy () (which Trainer sets for a
 * LoRA model) and fsdp_qlora make them: with use_orig_params=False a unit's parameters must be all trained
 * or all frozen. */
bool fsdp_wraps_adapters (const FsdpUnits *units);
bool fsdp_is_adapter (const FsdpUnits *units, int32_t module);

/* A copy or cast of ELEMENTS, EACH bytes of traffic for one. */
uint32_t fsdp_copy_kernel (FsdpUnits *units, ZsKernelKind kind, int64_t elements, int64_t each, const char *name);
/* The model is built on the GPU in the parameters' dtype, unless it stays in host memory. */
void fsdp_load (FsdpUnits *units);
/* UNIT is about to be sharded: brings it to the GPU if it is not there. */
void fsdp_bring (FsdpUnits *units, const FsdpUnit *unit);
/* step.c: optimizer.step () of sharded parameters, with clip_grad_norm_ before; gradients stay. */
void fsdp_step (FsdpUnits *units);

/* ZS_CATEGORY_MASTER when the shards are what the optimizer updates in fp32, else PARAMETERS. */
ZsCategory fsdp_shard_category (const FsdpUnits *units);

/* A collective on STREAM, which continues after it. */
void fsdp_collective (FsdpUnits *units, ZsCollectiveKind kind, unsigned int group, int64_t bytes,
                      uint8_t stream);
