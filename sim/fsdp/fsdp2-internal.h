/* fsdp2-internal.h: the state of fully_shard () on one rank.  SPDX-License-Identifier: MIT
 *
 * Private to sim/fsdp/fsdp2*.c.  Functions carry the names they have in
 * torch/distributed/fsdp/_fully_shard of PyTorch 2.11. */
#pragma once

#include "sim/fsdp/fsdp2.h"
#include "sim/fsdp/unit.h"
#include "sim/model/hooks.h"

enum { COPY_IN = ZS_STREAM_ALL_GATHER, GATHER = ZS_STREAM_COPY, REDUCE = ZS_STREAM_REDUCE,
       ALL_REDUCE = ZS_STREAM_OTHER, COMPUTE = ZS_STREAM_COMPUTE };

typedef enum { IDLE, FORWARD, PRE_BACKWARD, POST_BACKWARD } Fsdp2State;

/* A flat gathered buffer or the input of a reduction, and the event after which it may go. */
typedef struct {
  ZsTensor tensor;
  ZsEvent  event;
} Fsdp2Held;

#define FSDP2_NOTHING ((Fsdp2Held) { ZS_NO_TENSOR, ZS_NO_EVENT })

typedef struct {
  Fsdp2State state;          /* of the FSDPState: stays until the end of backward */
  Fsdp2State group_state;    /* of its parameter group */
  bool       full;           /* unsharded */
  bool       promised;       /* the only rank: wait_for_unshard () has it to do */
  Fsdp2Held  gathered;       /* all_gather_result: issued, not yet waited for */
  GArray    *post_forward;   /* its places in the order below */
} Fsdp2Unit;

typedef struct {
  FsdpUnits  units;                /* first, see fsdp_before_forward_pass () */
  ZsHooks    hooks;
  Fsdp2Unit *states;
  GArray    *post_forward_order;   /* unit of each forward that backward will undo */
  Fsdp2Held  all_gather_state;     /* kept from one copy-out to the next */
  Fsdp2Held  reduce_scatter_state;
  int32_t    iter_forward_root;    /* -1: none is running */
  ZsEvent    last_reduce;
  bool       alone;                /* one rank: copies in the place of collectives */
} Fsdp2;

/* Bytes that a block of threads copies at a time; ATen/native/cuda/TensorShape.cu */
enum { FSDP2_BYTES_PER_BLOCK = 128 * 16 /* threads x bytes */ };

/* fsdp2-gather.c */
void    fsdp2_unshard               (Fsdp2 *fsdp, int32_t unit);
void    fsdp2_wait_for_unshard      (Fsdp2 *fsdp, int32_t unit);
void    fsdp2_reshard               (Fsdp2 *fsdp, int32_t unit);
void    fsdp2_free_all_gather_state (Fsdp2 *fsdp);
void    fsdp2_drop_held             (Fsdp2 *fsdp, Fsdp2Held *held);
ZsEvent fsdp2_record_event          (Fsdp2 *fsdp, uint8_t stream);

/* fsdp2-reduce.c */
void fsdp2_post_backward (Fsdp2 *fsdp, int32_t unit);
