/* shape.h: dimensions of a LLaMA-like decoder, and how a step runs it.
 * SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/version.h"
#include "sim/plan/kernel.h"

typedef struct {
  char    name[64];
  int64_t hidden, intermediate, n_layers, n_heads, n_kv_heads, head_dim, vocabulary;
  int64_t max_position;
  bool    tied_embeddings;
  bool    qkv_bias;      /* Qwen2, Qwen2.5 */
  bool    qk_norm;       /* Qwen3: RMSNorm over head_dim on q and k */
  bool    attention_bias_all;  /* attention_bias: q, k, v and o */
  bool    mlp_bias;
  int64_t sliding_window;   /* tokens that attention looks back at; 0: all */
} ZsModelShape;

typedef enum { ZS_DTYPE_BF16, ZS_DTYPE_FP16, ZS_DTYPE_FP32, ZS_N_DTYPES } ZsDtype;

static inline int64_t
zs_dtype_bytes (ZsDtype dtype)
{
  return dtype == ZS_DTYPE_FP32 ? 4 : 2;
}

enum {   /* linears that LoRA can adapt, as bits */
  ZS_LINEAR_Q = 1 << 0, ZS_LINEAR_K = 1 << 1, ZS_LINEAR_V = 1 << 2, ZS_LINEAR_O = 1 << 3,
  ZS_LINEAR_GATE = 1 << 4, ZS_LINEAR_UP = 1 << 5, ZS_LINEAR_DOWN = 1 << 6,
};

typedef struct {
  int64_t  rank;           /* 0: no LoRA */
  unsigned targets;        /* ZS_LINEAR_* */
  ZsDtype  dtype;          /* of the adapters while they train */
  double   dropout;
  bool     saves_embedding, saves_head;   /* modules_to_save: trained whole, as copies beside the frozen
                                             originals */
  bool     base_4bit;      /* QLoRA: the base's linears, but the head, are nf4 (quantize.h) */
  bool     double_quantized;   /* and their scales in 8 bit */
} ZsLora;

typedef enum {
  ZS_OPTIMIZER_FUSED, ZS_OPTIMIZER_FOREACH, ZS_OPTIMIZER_FOR_LOOP,   /* torch.optim.AdamW */
  ZS_OPTIMIZER_SGD, ZS_OPTIMIZER_SGD_MOMENTUM,                       /* torch.optim.SGD */
  ZS_OPTIMIZER_ADAFACTOR,                                            /* transformers' */
  ZS_OPTIMIZER_ADAMW_8BIT, ZS_OPTIMIZER_PAGED_ADAMW_8BIT,            /* bitsandbytes' */
  ZS_OPTIMIZER_PAGED_ADAMW_32BIT,
} ZsOptimizerKind;

enum {   /* kernels of Liger (liger.c, liger-loss.c) in place of the model's own, as bits */
  ZS_LIGER_ROPE = 1 << 0, ZS_LIGER_SWIGLU = 1 << 1, ZS_LIGER_RMS_NORM = 1 << 2,
  ZS_LIGER_CROSS_ENTROPY = 1 << 3,   /* on logits; or */
  ZS_LIGER_FUSED_LOSS = 1 << 4,      /* fused_linear_cross_entropy: from the head's input, without logits */
  ZS_LIGER_USUAL = ZS_LIGER_ROPE | ZS_LIGER_SWIGLU | ZS_LIGER_RMS_NORM | ZS_LIGER_FUSED_LOSS,
};

/* How one rank runs the model: what sim/model needs to emit a micro-step. */
typedef struct {
  int64_t      micro_batch, sequence;
  int64_t      step_tokens;         /* of all ranks and micro-steps of a step; 0: those of a micro-step */
  ZsDtype      dtype;               /* of parameters and activations */
  ZsAttention  attention;
  ZsAttention  open_attention;      /* where lengths vary: of micro-batches without padding */
  bool         flash_1;             /* FLASH is FlashAttention-1 */
  bool         fused_operators;     /* norm, rotary embedding and activation are a kernel each: times
                                       only, bytes stay those of the eager operators */
  unsigned     liger;               /* ZS_LIGER_* */
  bool         attention_mask;      /* a padding mask is given */
  bool         mask_of_ones;        /* a mask is given that hides nothing: sdpa and flash leave it out
                                       after a look at it */
  bool         packed;              /* sequences of several samples, told by their positions */
  bool         use_cache;           /* the model fills a cache of keys and values, as configurations
                                       ask for by default; never with checkpointing */
  int64_t      checkpoint_every;    /* 0: no checkpointing; 1: every layer; k: every k-th layer */
  bool         reentrant;
  ZsLora       lora;
  bool         keep_outputs;        /* the caller's loop holds `outputs` during backward */
  bool         new_inputs;          /* as training loops do, each micro-step makes its inputs before
                                       the ones before go, divides the loss by the accumulation and
                                       forgets it after backward; else there is one batch for the
                                       whole run, and a loss goes when the next is there */
  bool         tf32;                /* products of fp32 on tensor cores: torch.backends.cuda.matmul.allow_tf32 */
  bool         autocast;            /* fp32 parameters under autocast */
  bool         load_in_4bit;        /* QLoRA */
  bool         cast_model;          /* the model was cast to dtype after it was built (model.to (),
                                       DeepSpeed's engine), with its rotary frequencies */
  ZsOptimizerKind optimizer;        /* plain PyTorch and FSDP; DeepSpeed has its own */
  int          optimizer_groups;    /* 2: with and without weight decay, as Trainer's; else 1 */
  bool         clip;                /* clip_grad_norm_ is called (without DeepSpeed) */
  ZsVersions   versions;
  int          compute_capability;  /* of the GPU: 90 = sm90; decides workspaces and kernels */
  int          sm_count;
} ZsStepShape;
