/* stage12.h: the state of DeepSpeedZeroOptimizer (ZeRO-1 and 2) on one rank.
 * SPDX-License-Identifier: MIT
 *
 * Private to sim/zero/stage12*.c and offload12.c.  Words as in deepspeed/runtime/zero/
 * stage_1_and_2.py: IPG ("independent parallel gradients") bucket; grads_in_partition, the buffer of
 * the own gradients; averaged_gradients, the same kept until the step.
 */
#pragma once

#include "sim/model/hooks.h"
#include "sim/zero/config.h"
#include "sim/zero/load.h"
#include "sim/zero/loss.h"
#include "sim/zero/partition.h"
#include "sim/zero/wrapper.h"

/* A gradient in the open bucket. */
typedef struct {
  int32_t  parameter;
  ZsTensor gradient;    /* its own storage, or ZS_NO_TENSOR if it was copied into the buffer */
} ZsBucketEntry;

/* Buffers of optimizer offload; all on the host but `staging_gpu`. */
typedef struct {
  ZsTensor  master[ZS_MAX_GROUPS], gradient[ZS_MAX_GROUPS];
  ZsTensor  momentum[ZS_MAX_GROUPS], variance[ZS_MAX_GROUPS];
  ZsTensor  staging_gpu, staging_host;   /* temp_grad_buffer_for_{gpu,cpu}_offload */
  ZsTensor  parameters[ZS_MAX_GROUPS];   /* param_buffer_of_bit16_for_cpu_offload */
  ZsTensor *accumulated;                 /* accumulated_grads_in_cpu, by parameter */
  ZsTensor *norms;                       /* norm_for_param_grads, by parameter; on the GPU */
} ZsOffload12;

typedef struct {
  ZsWrapped wrapped;
  ZsHooks hooks;
  ZsZeroConfig config;
  ZsStepShape  shape;
  const ZsModel *model;
  int64_t rank;
  int bytes;               /* of an element of the model */
  int bucket_bytes;        /* of the IPG buckets */
  int communication_bytes;
  int master_bytes, state_bytes;
  bool partition_gradients;   /* stage 2 */
  bool offload;
  bool separate_accumulator;  /* stage 1 with an accumulation dtype of its own */
  uint8_t reduction_stream;   /* ZS_STREAM_REDUCE with overlap_comm, else ZS_STREAM_COMPUTE */

  int32_t n_groups;
  ZsFlatGroup groups[ZS_MAX_GROUPS];
  int32_t *index_of;               /* by parameter: place in its group's flat order; -1 frozen */
  int32_t first_own[ZS_MAX_GROUPS], n_own[ZS_MAX_GROUPS];
  int64_t own_elements;            /* untrimmed, all groups */
  int64_t largest;                 /* elements of the largest trainable parameter */

  ZsRotaryBuffers rotary;
  ZsTensor master[ZS_MAX_GROUPS];
  ZsTensor momentum[ZS_MAX_GROUPS], variance[ZS_MAX_GROUPS], step_count[ZS_MAX_GROUPS];

  /* gradients */
  ZsTensor *gradients;             /* param.grad in storage of its own */
  ZsTensor *averaged;              /* own gradients kept to the step, without contiguous_gradients */
  ZsTensor  buckets[2];
  int       bucket_index;
  ZsBucketEntry *entries;
  int32_t   n_entries;
  int64_t   bucket_elements;
  int32_t   large;                 /* extra_large_param_to_reduce, or -1 */
  ZsTensor *previous;              /* previous_reduced_grads */
  int32_t   n_previous;
  ZsTensor  own_gradients, averaged_gradients;
  ZsTensor  own_padding, averaged_padding;

  int  micro_step;
  bool backward_open;
  ZsLoss   loss;
  ZsTensor global_norm;
  ZsOffload12 host;
} ZsStage12;

static inline bool
zs_stage12_owns (const ZsStage12 *self, int32_t parameter)
{
  int32_t group = self->wrapped.group_of[parameter], index = self->index_of[parameter];

  return index >= self->first_own[group] && index < self->first_own[group] + self->n_own[group];
}

static inline int64_t
zs_stage12_elements (const ZsStage12 *self, int32_t parameter)
{
  return self->model->parameters[parameter].elements;
}

/* stage12-init.c */
void zs_stage12_load (void *self, ZsPlan *plan);
void zs_stage12_init (void *self, ZsPlan *plan);

/* stage12-reduce.c */
void zs_stage12_add_to_bucket   (ZsStage12 *self, ZsPlan *plan, int32_t parameter, ZsTensor gradient);
void zs_stage12_setup_buckets   (ZsStage12 *self, ZsPlan *plan);
void zs_stage12_release_buckets (ZsStage12 *self, ZsPlan *plan);
void zs_stage12_flush           (ZsStage12 *self, ZsPlan *plan);
void zs_stage12_clear_previous  (ZsStage12 *self, ZsPlan *plan);

/* stage12-step.c */
void zs_stage12_step (void *self, ZsPlan *plan, int step);
/* The all-gathers at the end of a step. */
void zs_stage12_gather (ZsStage12 *self, ZsPlan *plan);

/* offload12.c */
void zs_offload12_init_group (ZsStage12 *self, ZsPlan *plan, int32_t group);
void zs_offload12_init       (ZsStage12 *self, ZsPlan *plan);
void zs_offload12_gradient   (ZsStage12 *self, ZsPlan *plan, int32_t parameter);
void zs_offload12_step       (ZsStage12 *self, ZsPlan *plan);
