/* config.h: settings of FSDP1 (FullyShardedDataParallel) and FSDP2 (fully_shard).
 * SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/model/shape.h"

typedef struct {
  int      version;                 /* 1 or 2 */
  int64_t  world, node_ranks;
  int      gradient_accumulation;
  bool     reshard_after_forward;   /* FULL_SHARD; false: SHARD_GRAD_OP */
  bool     keep_root;               /* FSDP2 without a word about resharding: the root stays gathered
                                       after forward (fully_shard ()'s own default, from 2.8 on) */
  bool     load_on_host;            /* the model is built or read in host memory, and a unit comes to the
                                       GPU when it is sharded; else all of it is there first */
  bool     load_gathers;            /* FSDP1: then the weights are read into the sharded model, which is
                                       gathered on each GPU for it (Fabric's load_raw ()) */
  bool     wrap_embedding;          /* FSDP2: the embedding is a unit of its own, if it is not tied */
  bool     hybrid;                  /* shard in the node, replicate across */
  ZsDtype  parameter_dtype;         /* of the shards: fp32 master, or the model's own */
  ZsDtype  compute_dtype;           /* mixed precision param_dtype */
  ZsDtype  reduce_dtype;
  bool     cpu_offload;
  bool     limit_all_gathers;       /* FSDP1 */
  bool     backward_prefetch;       /* FSDP1: BACKWARD_PRE */
  bool     prefetch_after;          /* FSDP1: BACKWARD_POST instead */
  bool     no_sync;                 /* micro-steps that do not end a step run under no_sync (), or
                                       set_requires_gradient_sync (false), as in Trainer and accelerate:
                                       whole gradients wait on each GPU for the last one */
  bool     flat_optimizer;          /* FSDP1 with use_orig_params=False: the optimizer sees one flat
                                       parameter per unit */
  bool     wrap_adapters;           /* FSDP1 with LoRA: each A and B is a unit, see fsdp_wraps_adapters () */
  bool     state_dict_on_gpu;       /* FSDP1: FULL_STATE_DICT with offload_to_cpu=False */
  ZsOptimizerKind optimizer;
  ZsVersions versions;
} ZsFsdpConfig;
