/* instruction.h: what the host process of one rank issues, in its order.
 * SPDX-License-Identifier: MIT
 *
 * A plan is a sequence of these small records.  Nothing in them depends on time: the framework's
 * decisions follow from the order of the instructions.  The few that ask the machine are
 * ZS_OP_UNLESS_FREE and ZS_OP_UNLESS_OVERFLOW.  Tensors, events, kernels, communicators and labels
 * are dense numbers; the tables behind them are in plan.h.
 */
#pragma once

#include <stdint.h>

/* Streams of one GPU, as the frameworks make them.  The caching allocator keys its free blocks by
 * the stream of the allocation. */
typedef enum {
  ZS_STREAM_COMPUTE,        /* the default stream */
  ZS_STREAM_ALL_GATHER,     /* DeepSpeed's all-gather stream; FSDP2's copy-in stream */
  ZS_STREAM_REDUCE,         /* DeepSpeed's reduction stream; FSDP2's reduce-scatter stream */
  ZS_STREAM_COPY,           /* a framework's own copy stream (FSDP2: all-gather stream) */
  ZS_STREAM_OTHER,
  ZS_N_STREAMS
} ZsStreamId;

typedef enum {
  ZS_OP_END,            /* of the chunk */
  ZS_OP_PHASE,          /* kind: ZsPhase; id: step (0 = before training); other: micro-step.  A
                           phase lasts to the next one; it starts and ends with a device
                           synchronisation only if flags has ZS_FLAG_SYNCHRONIZE */
  ZS_OP_ALLOC,          /* id: tensor; bytes: requested; stream: pool; kind: ZsCategory */
  ZS_OP_FREE,           /* id: tensor */
  ZS_OP_RECORD_STREAM,  /* id: tensor; stream: that uses it */
  ZS_OP_LAUNCH,         /* id: kernel; stream */
  ZS_OP_COLLECTIVE,     /* kind: ZsCollectiveKind; stream: issued from; bytes: whole message (as
                           NCCL counts: all-gather and reduce-scatter n x per rank);
                           other: communicator; id: event that completes with it.  It runs on the
                           communicator's own stream, after the work queued on `stream` */
  ZS_OP_COPY,           /* kind: ZsCopyKind; stream; bytes; flags: PINNED, BLOCKING */
  ZS_OP_EVENT_RECORD,   /* id: event; stream */
  ZS_OP_STREAM_WAIT_EVENT,   /* stream waits for event id */
  ZS_OP_STREAM_WAIT_STREAM,  /* stream waits for what is queued on stream `kind` now */
  ZS_OP_HOST_WAIT_EVENT,     /* host blocks until event id has completed */
  ZS_OP_HOST_WAIT_STREAM,    /* host blocks until the stream has drained */
  ZS_OP_HOST_WAIT_DEVICE,    /* host blocks until the GPU is idle */
  ZS_OP_HOST,           /* host work that launches nothing; kind: ZsHostWork; bytes: how many times */
  ZS_OP_CPU_TASK,       /* kind: ZsCpuTask; bytes: elements; host blocks; id: event if ASYNC */
  ZS_OP_NVME,           /* kind: ZsNvmeKind; bytes; id: event that completes with it */
  ZS_OP_HOST_ALLOC,     /* host memory; id: tensor; bytes: requested; flags: PINNED; kind: ZsCategory */
  ZS_OP_HOST_FREE,      /* id: tensor */
  ZS_OP_EMPTY_CACHE,    /* torch.cuda.empty_cache () */
  ZS_OP_UNLESS_FREE,    /* skip the next `other` instructions if at least `bytes` of GPU memory are
                           free for this process (free on the device + cached) */
  ZS_OP_UNLESS_OVERFLOW, /* skip the next `other` instructions if this step's fp16 gradients
                            overflow (a run may be told which steps do; none by default) */
  ZS_N_OPS
} ZsOp;

enum {
  ZS_FLAG_PINNED      = 1 << 0,
  ZS_FLAG_BLOCKING    = 1 << 1,   /* the host waits for it */
  ZS_FLAG_SYNCHRONIZE = 1 << 2,
  ZS_FLAG_ASYNC       = 1 << 3,
  ZS_FLAG_EXACT_PIN   = 1 << 4,   /* pinned at its exact size, not through the caching allocator */
  ZS_FLAG_DATA_WAIT   = 1 << 5,   /* a host wait that reads a result (.item ()) */
  ZS_FLAG_COPIED      = 1 << 6,   /* of pageable memory: a copy from the GPU is the first to touch it */
};

typedef enum {
  ZS_PHASE_LOAD, ZS_PHASE_INIT, ZS_PHASE_FORWARD, ZS_PHASE_BACKWARD, ZS_PHASE_OPTIMIZER,
  ZS_PHASE_SAVE, ZS_N_PHASES
} ZsPhase;

typedef enum {
  ZS_COLLECTIVE_ALL_REDUCE, ZS_COLLECTIVE_ALL_GATHER, ZS_COLLECTIVE_REDUCE_SCATTER,
  ZS_COLLECTIVE_BROADCAST, ZS_COLLECTIVE_REDUCE, ZS_COLLECTIVE_ALL_TO_ALL,
  ZS_COLLECTIVE_SEND_RECV, ZS_N_COLLECTIVES
} ZsCollectiveKind;

/* Groups of ranks: `other` of a ZS_OP_COLLECTIVE.  Each has its own stream of work on every GPU. */
typedef enum {
  ZS_COMMUNICATOR_WORLD,     /* all ranks: the default group */
  ZS_COMMUNICATOR_CLONE,     /* all ranks again: DeepSpeed's clone for data parallelism */
  ZS_COMMUNICATOR_GROUP,     /* consecutive ranks: hpZ, MiCS, hybrid sharding (a node, mostly) */
  ZS_COMMUNICATOR_ACROSS,    /* the ranks with the same place in their group */
  ZS_N_COMMUNICATORS
} ZsCommunicator;

typedef enum {
  ZS_COPY_HOST_TO_GPU, ZS_COPY_GPU_TO_HOST, ZS_COPY_HOST_TO_HOST, ZS_N_COPIES
} ZsCopyKind;   /* GPU to GPU on one device is a kernel */

typedef enum { ZS_NVME_READ, ZS_NVME_WRITE } ZsNvmeKind;

/* Who holds bytes: the rows of the peak's table. */
typedef enum {
  ZS_CATEGORY_PARAMETERS,        /* model parameters or their shards, in the model's dtype */
  ZS_CATEGORY_GATHERED,          /* gathered (full) parameters of stage 3 or FSDP */
  ZS_CATEGORY_MASTER,            /* fp32 master weights */
  ZS_CATEGORY_OPTIMIZER,         /* optimizer states */
  ZS_CATEGORY_GRADIENTS,         /* gradients and their shards */
  ZS_CATEGORY_ACTIVATIONS,       /* saved for backward */
  ZS_CATEGORY_CHECKPOINTS,       /* layer inputs kept by activation checkpointing */
  ZS_CATEGORY_LOGITS,            /* logits, loss and their relatives */
  ZS_CATEGORY_BUCKETS,           /* communication buckets and their copies */
  ZS_CATEGORY_TEMPORARY,         /* operators' temporaries */
  ZS_CATEGORY_WORKSPACE,         /* cuBLAS, reductions */
  ZS_CATEGORY_STEP,              /* temporaries of the optimizer step */
  ZS_CATEGORY_OFFLOAD,           /* staging of offload */
  ZS_CATEGORY_INPUT,             /* token ids, masks, rotary tables */
  ZS_N_CATEGORIES
} ZsCategory;

/* Kinds of host work, each with a cost in the host's table (sim/hardware). */
typedef enum {
  ZS_HOST_MODULE_CALL,       /* Python: nn.Module.__call__ */
  ZS_HOST_LAYER_BODY,        /* Python of a decoder layer's forward, beside its operators */
  ZS_HOST_ATTENTION_BODY,    /* of an attention's: views, rotary embedding, choice of the kernel */
  ZS_HOST_NORM_BODY,         /* of a norm's or an MLP's */
  ZS_HOST_LORA_BODY,         /* of peft's Linear */
  ZS_HOST_HOOK,              /* DeepSpeed: one pre/post forward/backward hook */
  ZS_HOST_FETCH,             /* stage 3: fetch_sub_module, fixed part */
  ZS_HOST_FETCH_PARAMETER,   /*   per parameter gathered */
  ZS_HOST_RELEASE,           /* stage 3: release_sub_module, fixed part */
  ZS_HOST_RELEASE_PARAMETER,
  ZS_HOST_RECORD_TRACE,      /* stage 3: the recording pass, per module */
  ZS_HOST_GRADIENT_HOOK,     /* ZeRO: gradient hook per parameter */
  ZS_HOST_BUCKET_FLUSH,
  ZS_HOST_STEP_PARAMETER,    /* optimizer step: Python per parameter tensor */
  ZS_HOST_LIST_LAUNCH,       /* one of the kernels that an operation on lists of tensors is cut into */
  ZS_HOST_STEP_FIXED,
  ZS_HOST_ENGINE_STEP,       /* DeepSpeed: engine.step () and its optimizer's, fixed part */
  ZS_HOST_NORM_PARAMETER,    /* DeepSpeed: the norm of one gradient */
  ZS_HOST_CLIP_PARAMETER,    /* clip_grad_norm_: per parameter tensor */
  ZS_HOST_CLIP_FIXED,
  ZS_HOST_SHARDED_CLIP_PARAMETER,   /*   of shards, FSDP's: beside a plain tensor's */
  ZS_HOST_SHARDED_CLIP_FIXED,
  ZS_HOST_DTENSOR,           /* an operation of the optimizer on a DTensor, beside a plain tensor's */
  ZS_HOST_FSDP_HOOK,
  ZS_HOST_FSDP_GRADIENT,     /* post-backward, per gradient */
  ZS_HOST_CHECKPOINT,        /* entering and leaving a checkpoint */
  ZS_HOST_SAVED_TENSOR,      /* hook of a non-reentrant checkpoint, per saved tensor */
  ZS_HOST_AUTOGRAD_NODE,     /* C++ autograd node without kernels */
  ZS_HOST_MODEL_BODY,        /* the model's forward before its layers: wrappers, positions, mask */
  ZS_HOST_BACKWARD_START,    /* the autograd engine looks at the whole graph before it begins */
  ZS_HOST_ZERO_GRADIENT,     /* zero_grad (): per parameter tensor */
  ZS_HOST_DTENSOR_FIXED,     /* the optimizer's operation on lists of DTensors */
  ZS_HOST_MISC,              /* bytes: picoseconds at speed 1 */
  ZS_N_HOST_WORKS
} ZsHostWork;

typedef enum {
  ZS_CPU_ADAM,               /* DeepSpeedCPUAdam on fp32 */
  ZS_CPU_ADAM_TORCH,         /* torch.optim on the CPU */
  ZS_CPU_SCALE,              /* in-place multiply of fp32 */
  ZS_CPU_ADD,                /* a += b of fp32 */
  ZS_CPU_NORM,               /* 2-norm of fp32 */
  ZS_CPU_CAST,               /* fp32 to 16 bit or back */
  ZS_CPU_WIDEN,              /* 16 bit to fp32, of what a blocking copy has just brought */
  ZS_CPU_CHECK,              /* torch.isinf () and torch.isnan (), each with any () */
  ZS_CPU_COPY,               /* 1 byte read + 1 byte written per element */
  ZS_CPU_ZERO,
  ZS_N_CPU_TASKS
} ZsCpuTask;

typedef struct {
  uint8_t  op;       /* ZsOp */
  uint8_t  stream;   /* ZsStreamId */
  uint8_t  kind;
  uint8_t  flags;
  uint32_t id;
  uint32_t other;
  uint32_t label;    /* what the framework is doing: row of the plan's label table */
  int64_t  bytes;
} ZsInstruction;
