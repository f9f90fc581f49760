/* stage3-internal.h: what the files of stage 3 share.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/zero/coordinator.h"
#include "sim/zero/loss.h"
#include "sim/zero/stage3.h"
#include "sim/zero/torch-ops.h"

/* One parameter as this rank sees it. */
typedef struct {
  int64_t  elements, shard;    /* whole; own shard, padded */
  int      bytes;              /* of one element */
  bool     trainable, persistent;
  bool     own_shard_is_empty; /* a late rank's shard of a tiny tensor is padding alone */
  int32_t  sub_group;          /* -1: frozen */
  int32_t  leaf;               /* leaf module that hides it, or -1 */
  ZsTensor shard_tensor;       /* storage of the shard (may be a shared buffer) */
  ZsTensor secondary;          /* hpZ's second shard */
  ZsTensor full;               /* storage of the gathered parameter */
  uint8_t  full_stream;        /* where it was allocated */
  int32_t  handle;             /* of the gather that it waits for, or -1 */
  ZsTensor gradient;           /* in the bucket, or waiting for its leaf module; may be NO_TENSOR */
  ZsTensor wide_gradient;      /* NVMe: fp32 shard too small for disk, to the step */
  bool     on_nvme, in_memory; /* the 16-bit shard: lies in a file; is in a buffer */
  ZsEvent  reading;
  ZsTensor norm;               /* offload: norm of the gradient shard, to the step */
  uint32_t label;
} Zero3Parameter;

/* A gather on its way: AllGatherHandle, AllGatherCoalescedHandle and their like. */
typedef struct {
  bool     used, complete, coalesced;
  bool     forward;
  bool     secondary;          /* within hpZ's group */
  bool     quantized;
  int32_t  n, left;            /* members; not yet waited for */
  int32_t *members;
  int32_t  room;
  ZsTensor flat;               /* the coalesced buffer */
  ZsTensor scales;             /* qwZ */
  ZsEvent  done, scales_done;
} Zero3Handle;

typedef struct {
  int64_t  elements;           /* of this rank's shards */
  int32_t  first, n;           /* in Zero3.group_order */
  int32_t  group;              /* optimizer group */
  bool     on_gpu;             /* states live on the GPU */
  bool     swapped;            /* states live on NVMe */
  bool     shards_swapped;     /* its 16-bit shards live on NVMe */
  ZsTensor master, gradient, moment1, moment2;
} Zero3SubGroup;

/* Buffers and requests of NVMe. */
typedef struct {
  int64_t  buffer_elements;    /* fp32, of one optimizer swap buffer */
  int64_t  pending_elements;   /* gradients in a buffer that is not yet full */
  ZsEvent  reading, writing;
  int64_t  buffers_used, n_reading;   /* of the parameters' pool */
} Zero3Swap;

typedef struct {
  ZsEvent  events[4];
  int      n;
} Zero3Limiter;                /* how far the host runs ahead of a stream */

typedef struct {
  ZsHooks        hooks;
  const ZsModel *model;
  ZsZeroConfig   config;
  ZsStepShape    shape;
  int64_t        rank, world;  /* ranks that share the states: MiCS: of the shard group */
  bool           first_rank;   /* of all: it writes what is saved */
  int64_t        model_bytes;  /* of one element of the model's dtype */

  /* version and settings, asked once */
  bool     old_backward;       /* until 0.19.2: reset at the end of backward, embedding stays */
  bool     one_communicator;
  bool     async_fp32_copy;
  bool     bucket_in_communication_dtype;
  bool     overlap;
  uint8_t  gather_stream, reduce_stream;

  Zero3Parameter *parameters;
  int32_t  n_parameters;
  int32_t *first_member, *members;   /* by module: what it fetches */
  bool    *hooked;                   /* by module: false inside a leaf module */
  bool    *is_leaf;                  /* by module */
  ZsTensor *leaf_empty;               /* by module: what its absent parameters point to */
  ZsCoordinator *coordinator;
  ZsPlan  *plan;                     /* of the call in progress */

  Zero3Handle *handles;
  int32_t  n_handles;
  bool     gather_stream_dirty;      /* work that compute has not yet waited for */
  Zero3Limiter fetches, reductions;
  int32_t  fetch_module;             /* of the fetch in progress */

  int32_t *group_order;              /* trainable parameters by optimizer group */
  int32_t  n_trainable;
  Zero3SubGroup *sub_groups;
  int32_t  n_sub_groups;
  int64_t  trainable_shard_elements;

  ZsTensor shard_buffer;             /* lp_param_buffer on the GPU */
  ZsTensor gradient_buffer;          /* grad_partitions_flat_buffer, GPU or host */
  ZsTensor bucket;
  ZsTensor adam_flag, overflow_flag; /* 4 and 1 bytes that live as long as the engine */
  ZsTensor kept_norm;                /* 8 bytes, from step to step (from 0.18.3) */
  ZsTensor tied_head_shard;          /* of the head's own weight, until it is collected */

  int32_t *in_bucket;
  int32_t  n_in_bucket;
  int64_t  bucket_elements;

  Zero3Swap swap;
  GArray  *held;                     /* ZsTensor: fp32 gradients of the bucket being swapped out */

  bool     boundary;
  int      micro_step;               /* since the last step: micro_step_id */
  bool     states_exist;
  ZsLoss   loss;

  uint32_t label_gather, label_release, label_reduce, label_step, label_offload, label_init;
} Zero3;

static inline bool
zero3_params_on_host (const Zero3 *zero)
{
  return zero->config.offload_param != ZS_DEVICE_NONE;
}

static inline bool
zero3_optimizer_on_host (const Zero3 *zero)
{
  return zero->config.offload_optimizer != ZS_DEVICE_NONE;
}

/* Of one element of the master weights and of the gradients that the optimizer gets. */
static inline int
zero3_master_bytes (const Zero3 *zero)
{
  return zero->config.bf16_master_weights_and_grads || zero->config.fp16_master_weights_and_grads
         ? 2 : 4;
}

/* MiCS: states are sharded over consecutive ranks only. */
static inline bool
zero3_is_mics (const Zero3 *zero)
{
  return zero->config.mics_shard_size > 0;
}

static inline unsigned int
zero3_gather_communicator (const Zero3 *zero)
{
  return zero3_is_mics (zero) ? ZS_ZERO3_COMM_NODE : ZS_ZERO3_COMM_WORLD;
}

static inline unsigned int
zero3_reduce_communicator (const Zero3 *zero)
{
  if (zero3_is_mics (zero))
    return ZS_ZERO3_COMM_NODE;
  return zero->one_communicator ? ZS_ZERO3_COMM_WORLD : ZS_ZERO3_COMM_CLONE;
}

/* stage3-load.c */
void zero3_load (void *self, ZsPlan *plan);
void zero3_init (void *self, ZsPlan *plan);

/* stage3-whole.c */
void zero3_hang_hooks (Zero3 *zero, ZsPlan *plan);
/* deepspeed/runtime/engine.py, _zero3_consolidated_16bit_state_dict () */
void zero3_save (void *self, ZsPlan *plan);

/* stage3-gather.c: the coordinator's calls, and gathers outside it. */
void zero3_gather  (void *self, const int32_t *parameters, int32_t n, bool forward, bool prefetch);
void zero3_wait    (void *self, int32_t parameter);
void zero3_fetched (void *self, int32_t module, int32_t n_waits);
void zero3_release (void *self, int32_t parameter);
void zero3_gather_persistent (Zero3 *zero, ZsPlan *plan);
ZsTensor zero3_weight (void *self, int32_t parameter);
/* The host waits for the oldest of more than two recorded events, then records one more on STREAM
 * after BETWEEN (may be NULL). */
void zero3_limiter_wait   (Zero3Limiter *limiter, ZsPlan *plan);
void zero3_limiter_record (Zero3Limiter *limiter, ZsPlan *plan, uint8_t stream);

/* stage3-gradients.c */
void zero3_gradient (void *self, ZsPlan *plan, int32_t parameter, ZsTensor gradient);
void zero3_leaf_backward (Zero3 *zero, ZsPlan *plan, int32_t module);
void zero3_finish_backward (Zero3 *zero, ZsPlan *plan);

/* stage3-step.c */
void zero3_step (void *self, ZsPlan *plan, int step);

/* offload3.c: host side.  All on the plan's current stream. */
/* Copy of the own shard of PARAMETER to the GPU: a new tensor of its shard, or NO_TENSOR if the shard is
 * there already. */
ZsTensor zero3_shard_to_gpu (Zero3 *zero, ZsPlan *plan, int32_t parameter, int64_t elements);
/* A reduced gradient shard of ELEMENTS x FROM_BYTES goes to the host accumulator, then at the
 * boundary its norm is taken and its fp32 copy sent; returns the GPU copy that Python holds until
 * the next one (PREVIOUS is dropped when Python drops it). */
ZsTensor zero3_offload_gradient (Zero3 *zero, ZsPlan *plan, int32_t parameter, int64_t elements,
                                 int from_bytes, ZsTensor previous);
/* Scale, Adam and write-back of one sub-group whose states are on the host. */
void zero3_offload_step (Zero3 *zero, ZsPlan *plan, int32_t sub_group);

/* nvme.c */
bool zero3_is_swappable (const Zero3 *zero, int64_t elements, int64_t bytes_of_one);
void zero3_write_now    (ZsPlan *plan, int64_t bytes);
/* Swap buffers of the optimizer; a swapped sub-group's master at init. */
void zero3_swap_init   (Zero3 *zero, ZsPlan *plan);
void zero3_swap_master (Zero3 *zero, ZsPlan *plan, const Zero3SubGroup *group);
/* The fp32 copy of a gradient shard of ELEMENTS x FROM_BYTES goes to a swap buffer and to disk. */
void zero3_swap_gradient (Zero3 *zero, ZsPlan *plan, int32_t parameter, int64_t elements,
                          int from_bytes);
void zero3_swap_before_step (Zero3 *zero, ZsPlan *plan);
void zero3_swap_in  (Zero3 *zero, ZsPlan *plan, int32_t sub_group);
void zero3_swap_out (Zero3 *zero, ZsPlan *plan, int32_t sub_group);
/* Parameters: the pool of buffers, which shards lie on NVMe, and their way to memory. */
void zero3_swap_pool     (Zero3 *zero, ZsPlan *plan);
void zero3_place_shards  (Zero3 *zero);
void zero3_read_shard    (Zero3 *zero, ZsPlan *plan, int32_t parameter);
void zero3_forget_shard  (Zero3 *zero, int32_t parameter);
bool zero3_shard_is_away (void *self, int32_t parameter);
void zero3_read_ahead    (void *self, const int32_t *queue, int32_t n, int64_t in_flight);

/* zeropp.c */
void     zero3_gather_quantized (Zero3 *zero, ZsPlan *plan, int64_t elements, int64_t ranks,
                                 unsigned int communicator, Zero3Handle *handle);
ZsTensor zero3_dequantize (Zero3 *zero, ZsPlan *plan, int64_t elements, ZsTensor packed,
                           Zero3Handle *handle);
int64_t  zero3_secondary_shard (const Zero3 *zero, const Zero3Parameter *parameter);
void     zero3_fill_secondary  (Zero3 *zero, ZsPlan *plan, int32_t parameter);
void     zero3_drop_secondaries (Zero3 *zero, ZsPlan *plan);
bool     zero3_quantizes_gradients (const Zero3 *zero);
bool     zero3_reduce_quantized (Zero3 *zero, ZsPlan *plan, int32_t parameter, ZsTensor *ret_shard);
