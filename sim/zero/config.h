/* config.h: the ZeRO settings of one job, typed and with every default filled in.
 * SPDX-License-Identifier: MIT
 *
 * sim/zero knows no JSON: sim/scenario fills this from a ds_config.  Sizes of buckets are in
 * elements, as in the ds_config. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/model/shape.h"

typedef enum { ZS_DEVICE_NONE, ZS_DEVICE_CPU, ZS_DEVICE_NVME } ZsOffloadDevice;

typedef enum {
  ZS_DS_OPTIMIZER_FUSED_ADAM,     /* ds_config optimizer Adam/AdamW on the GPU */
  ZS_DS_OPTIMIZER_CPU_ADAM,       /* the same with offload_optimizer */
  ZS_DS_OPTIMIZER_TORCH_FUSED,    /* client torch.optim.AdamW (fused=True) */
  ZS_DS_OPTIMIZER_TORCH_FOREACH,  /* client torch.optim.AdamW, default */
  ZS_DS_OPTIMIZER_TORCH_FOR_LOOP,
} ZsDsOptimizer;

typedef struct {
  int      stage;
  int64_t  world;                 /* data-parallel ranks */
  int64_t  node_ranks;            /* ranks on one node */
  int      gradient_accumulation;
  ZsDtype  dtype;                 /* of the model: bf16, fp16 or fp32 section */
  ZsDtype  communication_dtype;
  ZsDtype  grad_accum_dtype;
  double   gradient_clipping;
  ZsDsOptimizer optimizer;
  int      optimizer_groups;      /* 1; Hugging Face's own optimizer makes 2 (decay, no decay) */

  int64_t  reduce_bucket_size;    /* elements */
  int64_t  allgather_bucket_size;
  bool     overlap_comm, contiguous_gradients, reduce_scatter, round_robin_gradients;
  bool     use_multi_rank_bucket_allreduce;
  bool     ignore_unused_parameters;

  int64_t  sub_group_size;
  int64_t  prefetch_bucket_size, param_persistence_threshold, model_persistence_threshold;
  int64_t  max_live_parameters, max_reuse_distance;
  int64_t  module_granularity_threshold;
  bool     memory_efficient_linear;
  bool     allgather_sequential, use_all_reduce_for_fetch_params;
  bool     gather_16bit_weights_on_model_save;
  bool     zero_init;             /* the model is built under zero.Init */

  ZsOffloadDevice offload_optimizer;
  bool     optimizer_pin, optimizer_pipeline_read, optimizer_pipeline_write, optimizer_fast_init;
  int64_t  optimizer_buffer_count;
  double   optimizer_ratio;       /* Twin-Flow */
  ZsOffloadDevice offload_param;
  bool     param_pin;
  int64_t  param_buffer_count, param_buffer_size, param_max_in_cpu;

  bool     quantized_weights, quantized_gradients, quantized_nontrainable_weights;
  int64_t  hpz_partition_size, mics_shard_size;
  bool     mics_hierarchical_gather;

  bool     bf16_master_weights_and_grads, bf16_optimizer_states, check_grad_overflow;
  bool     immediate_grad_update;   /* bf16.immediate_grad_update */
  bool     fp16_master_weights_and_grads;

  int64_t  aio_block_size, aio_queue_depth, aio_intra_op_parallelism;
  bool     aio_single_submit, aio_overlap_events;

  ZsVersions versions;
} ZsZeroConfig;
