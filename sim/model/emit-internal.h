/* emit-internal.h: what the files of sim/model share: sizes, kernels and what forward saves.
 * SPDX-License-Identifier: MIT
 *
 * Not for other folders.  Words: a tensor "saved" is one that autograd holds for backward.  In a
 * forward under activation checkpointing nothing is saved; the recomputation inside backward saves.
 */
#pragma once

#include "sim/model/emit.h"

enum { ZS_Q, ZS_K, ZS_V, ZS_O, ZS_GATE, ZS_UP, ZS_DOWN, ZS_N_LAYER_LINEARS, ZS_HEAD = ZS_N_LAYER_LINEARS,
       ZS_N_LINEARS };

/* What a label says; one per layer, resolved at construction. */
typedef enum {
  ZS_WHAT_LAYER, ZS_WHAT_INPUT_NORM, ZS_WHAT_Q, ZS_WHAT_K, ZS_WHAT_V, ZS_WHAT_Q_NORM, ZS_WHAT_K_NORM,
  ZS_WHAT_ROTARY, ZS_WHAT_ATTENTION, ZS_WHAT_O, ZS_WHAT_POST_NORM, ZS_WHAT_GATE, ZS_WHAT_ACTIVATION,
  ZS_WHAT_UP, ZS_WHAT_DOWN, ZS_WHAT_RESIDUAL, ZS_WHAT_CHECKPOINT, ZS_N_WHATS
} ZsWhat;

/* A kernel of forward: with autograd, and in no_grad mode. */
typedef struct { uint32_t id[2]; } ZsForwardKernel;

/* Sizes and kernels of one kind of RMSNorm: ROWS x COLUMNS. */
typedef struct {
  bool    of_heads;     /* of q or k */
  int64_t rows, columns;
  int64_t bytes, bytes32, row_bytes, weight_bytes, buffer_bytes, semaphore_bytes;
  ZsForwardKernel up, square, mean, epsilon, rsqrt, scale, down, weight;
  uint32_t weight_dx, weight_dw, sum_dw, cast_up, multiply, scale_back, row_sum, row_power, row_scale,
    row_multiply, expand, power, double_it, grad, add, cast_down, residual;
  /* Liger's */
  int64_t partial_bytes, column_bytes;             /* fp32 sums for the weight: of each SM, of all */
  ZsForwardKernel fused;
  uint32_t fused_back, sum_partials, cast_sum;
} ZsNormKind;

typedef struct { ZsTensor x_square, x_scale, rsqrt, rsqrt_scale, normal; } ZsNormSaved;

/* Sizes and kernels of one linear, the same in every layer. */
typedef struct {
  ZsWhat  what;
  const char *name;
  int64_t in, out;
  int64_t in_bytes, out_bytes, weight_bytes;      /* activations and weight gradient */
  bool    casts_input;                            /* autocast: the input comes from the stream */
  int64_t wide_in_bytes, wide_weight_bytes, wide_bias_bytes;
  ZsForwardKernel cast_weight, cast_x;
  uint32_t cast_x_back, cast_weight_back, cast_bias_back;
  bool    bias, adapted, trainable;
  bool    quantized;                              /* nf4: the weight is made for each product */
  int64_t full_weight_bytes, scale_bytes;
  ZsForwardKernel dequantize, clone;
  uint32_t dequantize_back;
  int64_t bias_bytes, bias_buffer, bias_semaphores;
  ZsForwardKernel product;
  uint32_t dgrad, wgrad, bias_sum, accumulate;
  /* adapter: sizes in the adapter's dtype */
  int64_t a_in_bytes, a_x_bytes, a_out_bytes, b_out_bytes, a_weight_bytes, b_weight_bytes;
  int64_t a_wide_bytes, b_wide_bytes;             /* gradients in the adapter's own dtype */
  ZsForwardKernel cast_a, cast_b, cast_a_x;
  uint32_t cast_a_back, cast_b_back, cast_a_x_back;
  ZsForwardKernel cast_in, drop, a, b, scale, add, cast_out;
  uint32_t a_dgrad, a_wgrad, b_dgrad, b_wgrad, scale_back, cast_back, cast_base, drop_back, cast_in_back;
} ZsLinearKind;

typedef struct { int32_t module, weight, bias, dropout, a_module, b_module, a, b; } ZsLinearIds;

typedef struct { ZsTensor input, weight, a_input, a_output, mask, a_weight, b_weight; } ZsLinearSaved;

typedef struct {
  /* sdpa */
  ZsTensor q, k, v, out, lse, seed, offset, bias;
  /* eager and math */
  ZsTensor softmax, probabilities;
} ZsAttentionSaved;

/* A gradient that is on its way: OWN says that nothing else sees its storage (autograd may add to it
 * in place); a product's result seen through a view is not its own. */
typedef struct { ZsTensor tensor; bool own; } ZsGradient;

typedef struct {
  int32_t module, attention, mlp, activation, input_norm, post_norm, q_norm, k_norm;
  ZsLinearIds linears[ZS_N_LAYER_LINEARS];
  uint32_t labels[ZS_N_WHATS];
  bool checkpointed;
  /* which values need a gradient */
  bool x_grad, n1_grad, q_grad, k_grad, v_grad, attention_grad, mid_grad, n2_grad, gate_grad, up_grad,
    out_grad;
  /* saved */
  ZsNormSaved input_saved, post_saved, q_norm_saved, k_norm_saved;
  ZsLinearSaved saved[ZS_N_LAYER_LINEARS];
  ZsAttentionSaved attention_saved;
  ZsTensor cos[2], sin[2];          /* held by the products of q and k */
  ZsTensor cached[2], old_cached[2]; /* k and v in the model's cache, a part of its outputs; those of the
                                        outputs before, which the caller still holds */
  ZsTensor gate, silu, up;
  ZsTensor input;                   /* held by the checkpoint */
  ZsTensor frame_cos, frame_sin, frame_mask, frame_positions;
  ZsTensor weights;                 /* eager: a variable of the layer's forward */
} ZsLayer;

/* A piece of the tokens whose logits Liger's fused loss makes at once. */
typedef struct {
  int64_t logits, hidden, narrow_hidden;          /* bytes; of the last in the products' dtype */
  ZsForwardKernel cast, product, loss, to_hidden, copy, to_weight;
} ZsLossChunk;

struct ZsEmitter {
  const ZsModel *model;
  const ZsHooks *hooks;
  ZsPlan        *plan;
  ZsStepShape    shape;      /* of this micro-step */
  ZsAttention    masked_attention;   /* where there is a mask, or all micro-steps are alike */

  /* what runs now */
  bool no_grad;        /* reentrant checkpointing's forward */
  bool keep;           /* saved tensors are held */
  int64_t n_saved;     /* tensors that autograd has saved, since a checkpoint began */
  bool recompute;      /* inside backward */
  bool popped;         /* backward of a layer recomputed without reentrance: a saved tensor is handed over
                          to the node, which drops it before it returns */
  int  thread;         /* 0: Python's, 1: autograd's */

  /* sizes of activations */
  int64_t batch, sequence, tokens;
  int64_t element, hidden, narrow_hidden, q_bytes, kv_bytes, ffn_bytes, logits, logits32, lse_bytes, table_bytes;
  int64_t stream;              /* bytes of an element of the residual stream: of the parameters' dtype */
  int64_t q_turned, kv_turned; /* q and k after rotary, whose tables have the stream's dtype */
  bool    upcast;              /* the stream is 16-bit: norms compute in fp32 copies */
  bool    wide_loss;           /* logits are 16-bit and cast up for the loss */
  bool    weight_cast;         /* autocast of fp32 parameters */
  bool    adapter_cast;        /* autocast of fp32 adapters */
  bool    effective_reentrant;

  ZsNormKind   hidden_norm, q_norm, k_norm;
  ZsLinearKind linears[ZS_N_LINEARS];
  ZsLinearIds  head;
  ZsLayer     *layers;
  int32_t      top, inner, embedding, final_norm, rotary, head_module;
  bool         embedding_trains, inputs_require_grad, final_grad;
  bool         layers_train;   /* gradients of the layers' own weights are made */
  int64_t      loss_rows, chunk_rows, head_wide, head_narrow;   /* of the fused loss; bytes of the head's weight */
  ZsLossChunk  chunks[2];      /* whole ones, and the last */
  uint32_t     label_embedding, label_rotary, label_mask, label_final_norm, label_head, label_loss,
    label_inputs, label_root;

  struct {
    ZsForwardKernel embedding, residual, silu, product, rotary_half_q, rotary_cat_q, rotary_mul_q,
      rotary_add_q, rotary_half_k, rotary_cat_k, rotary_mul_k, rotary_add_k, attention, tiny, table,
      table_product, pad, logits_up, log_softmax, nll, shift, repeat, scores, scores_scale, scores_mask,
      scores_up, softmax, scores_down, q_cast, k_cast, context, context_copy, mask_fill, cache_k, cache_v,
      swiglu, rope, cross_entropy, hidden_fill, weight_fill, weight_add, head_cast, hidden_shift;
    uint32_t silu_back, product_back, residual_add, back_mul_q, back_half_q, rotary_fill_q,
      rotary_copy_q, back_add_q, back_join_q, back_mul_k, back_half_k, rotary_fill_k, rotary_copy_k,
      back_add_k, back_join_k,
      attention_back, q_copy, k_copy, q_cast_back, k_cast_back, stream_cast_back, rotary_cast_q,
      rotary_cast_k, fill_logits, nll_back, log_softmax_back, logits_down, scale_logits, shift_back,
      embedding_fill, embedding_back, embedding_sort, embedding_add, back_tiny, head_reduce,
      scores_dgrad, scores_wgrad, context_dgrad, context_wgrad, scores_cast, softmax_back,
      back_scores_scale, back_context_copy, swiglu_back, rope_back, scale_hidden, scale_weight, hidden_fill_back,
      hidden_shift_back, scale_wide_logits;
  } k;

  GArray *casts;               /* autocast's cache of 16-bit weights: references, until it ends */

  /* held between forward and backward */
  ZsTensor ids, input_mask;
  ZsTensor workspaces[2], lt_workspaces[2];   /* of cuBLAS and cuBLASLt, by thread */
  ZsTensor cos, sin, mask;
  ZsTensor head_saved_weight;
  ZsNormSaved  final_saved;
  ZsLinearSaved head_saved;
  ZsTensor hidden_gradient, head_gradient;   /* of the fused loss, which makes them in forward */
  ZsTensor labels, total_weight, log_softmax, loss, scaled_loss, outputs;
  ZsTensor position_ids, tied_gradient;
  ZsTensor graph_cos, graph_sin, graph_mask, graph_positions, graph_inputs, graph_input_gradient;   /* see checkpoint.c */
  ZsLayer *pending;            /* checkpointed layer to recompute when a saved tensor is asked for */
};

/* ---- small words ---- */

/* Is there a cache of keys and values? */
static inline bool
zs_caches (const ZsEmitter *e)
{
  return e->shape.use_cache && e->shape.checkpoint_every == 0;
}

/* Is the window shorter than the sequence? */
static inline bool
zs_windowed (const ZsEmitter *e)
{
  return e->model->shape.sliding_window > 0 && e->sequence > e->model->shape.sliding_window;
}

/* Does attention get a [batch, 1, sequence, sequence] mask?  flash-attn takes lengths and a window. */
static inline bool
zs_masks (const ZsEmitter *e)
{
  if (e->shape.attention == ZS_ATTENTION_EAGER)
    return true;
  return e->shape.attention != ZS_ATTENTION_FLASH
         && (e->shape.attention_mask || e->shape.packed || zs_windowed (e));
}

static inline ZsTensor
zs_new (ZsEmitter *e, int64_t bytes, ZsCategory category)
{
  return zs_plan_alloc (e->plan, bytes, category);
}

#define ZS_NO_KERNEL UINT32_MAX   /* fused into another */

static inline bool
zs_liger (const ZsEmitter *e, unsigned kernel)
{
  return (e->shape.liger & kernel) != 0;
}

/* A result that autograd may hold, and one that it never does. */
static inline ZsTensor
zs_activation (ZsEmitter *e, int64_t bytes)
{
  return zs_plan_alloc (e->plan, bytes, e->keep ? ZS_CATEGORY_ACTIVATIONS : ZS_CATEGORY_TEMPORARY);
}

static inline ZsTensor
zs_temporary (ZsEmitter *e, int64_t bytes)
{
  return zs_plan_alloc (e->plan, bytes, ZS_CATEGORY_TEMPORARY);
}

static inline void
zs_drop (ZsEmitter *e, ZsTensor tensor)
{
  zs_plan_unref (e->plan, tensor);
}

/* Drop what *SLOT holds and forget it. */
static inline void
zs_release (ZsEmitter *e, ZsTensor *slot)
{
  ZsTensor tensor = *slot;

  *slot = ZS_NO_TENSOR;
  zs_plan_unref (e->plan, tensor);
}

/* autograd saves TENSOR if it holds anything now and NEEDED. */
static inline ZsTensor
zs_save (ZsEmitter *e, ZsTensor tensor, bool needed)
{
  e->n_saved += needed;
  return e->keep && needed ? zs_plan_ref (e->plan, tensor) : ZS_NO_TENSOR;
}

static inline void
zs_run (ZsEmitter *e, ZsForwardKernel kernel)
{
  if (kernel.id[0] != ZS_NO_KERNEL)
    zs_plan_launch (e->plan, kernel.id[e->no_grad]);
}

static inline void
zs_run_back (ZsEmitter *e, uint32_t kernel)
{
  if (kernel != ZS_NO_KERNEL)
    zs_plan_launch (e->plan, kernel);
}

static inline void
zs_enter (ZsEmitter *e, int32_t module)
{
  zs_plan_host (e->plan, ZS_HOST_MODULE_CALL, 1);
  if (e->hooks->before_forward != NULL)
    e->hooks->before_forward (e->hooks->self, e->plan, module, e->recompute);
}

static inline void
zs_leave (ZsEmitter *e, int32_t module)
{
  if (e->hooks->after_forward != NULL)
    e->hooks->after_forward (e->hooks->self, e->plan, module, e->recompute);
}

static inline void
zs_enter_back (ZsEmitter *e, int32_t module)
{
  if (e->hooks->before_backward != NULL)
    e->hooks->before_backward (e->hooks->self, e->plan, module);
}

static inline void
zs_leave_back (ZsEmitter *e, int32_t module)
{
  if (e->hooks->after_backward != NULL)
    e->hooks->after_backward (e->hooks->self, e->plan, module);
}

static inline void
zs_give_gradient (ZsEmitter *e, int32_t parameter, ZsTensor gradient)
{
  e->hooks->gradient (e->hooks->self, e->plan, parameter, gradient);
}

static inline ZsTensor
zs_weight_of (ZsEmitter *e, int32_t parameter)
{
  return e->hooks->weight != NULL ? e->hooks->weight (e->hooks->self, parameter) : ZS_NO_TENSOR;
}

static inline void
zs_label_layer (ZsEmitter *e, const ZsLayer *layer, ZsWhat what)
{
  zs_plan_set_label (e->plan, layer->labels[what]);
}

/* The workspace of cuBLAS, which a thread allocates with its first product, after the result. */
static inline void
zs_touch_cublas (ZsEmitter *e)
{
  if (G_UNLIKELY (e->workspaces[e->thread] == ZS_NO_TENSOR))
    e->workspaces[e->thread] = zs_new (e, zs_cublas_workspace_bytes (e->shape.compute_capability),
                                       ZS_CATEGORY_WORKSPACE);
}

/* That of cuBLASLt, which products with a bias take: 1 MiB (getCUDABlasLtWorkspaceSize () of torch 2.11). */
static inline void
zs_touch_cublas_lt (ZsEmitter *e)
{
  if (G_UNLIKELY (e->lt_workspaces[e->thread] == ZS_NO_TENSOR))
    e->lt_workspaces[e->thread] = zs_new (e, 1 << 20, ZS_CATEGORY_WORKSPACE);
}

/* NEW arrives where OLD waits: their sum.  In place if OLD is its own. */
ZsGradient zs_accumulate (ZsEmitter *e, ZsGradient old, ZsGradient new_gradient, int64_t bytes,
                          uint32_t kernel);

/* norm.c */
ZsTensor zs_norm_forward  (ZsEmitter *e, const ZsNormKind *kind, ZsTensor x, int32_t module, bool x_grad,
                           ZsNormSaved *saved);
void     zs_norm_backward (ZsEmitter *e, const ZsNormKind *kind, ZsGradient gradient, int32_t module,
                           bool x_grad, ZsNormSaved *saved, ZsLayer *last_of, ZsGradient *total);
/* autocast.c */
ZsTensor zs_cast_weight (ZsEmitter *e, int64_t bytes, ZsForwardKernel kernel);
void     zs_end_autocast (ZsEmitter *e);
/* linear.c */
ZsTensor zs_linear_forward  (ZsEmitter *e, const ZsLinearKind *kind, const ZsLinearIds *ids, ZsTensor x,
                             bool x_grad, ZsLinearSaved *saved, bool stop);
void     zs_linear_backward (ZsEmitter *e, const ZsLinearKind *kind, const ZsLinearIds *ids,
                             ZsTensor gradient, bool consume, bool x_grad, ZsLinearSaved *saved,
                             ZsGradient *total);
/* attention.c, attention-math.c (eager), attention-sdpa-math.c */
bool     zs_gradient_by_head    (const ZsEmitter *e);
ZsTensor zs_attention_forward  (ZsEmitter *e, ZsLayer *layer, ZsTensor q, ZsTensor k, ZsTensor v);
void     zs_attention_backward (ZsEmitter *e, ZsLayer *layer, ZsTensor gradient, ZsTensor *ret_q,
                                ZsTensor *ret_k, ZsTensor *ret_v);
ZsTensor zs_math_forward  (ZsEmitter *e, ZsLayer *layer, ZsTensor q, ZsTensor k, ZsTensor v);
void     zs_math_backward (ZsEmitter *e, ZsLayer *layer, ZsTensor gradient, ZsTensor *ret_q,
                           ZsTensor *ret_k, ZsTensor *ret_v);
ZsTensor zs_sdpa_math_forward  (ZsEmitter *e, ZsLayer *layer, ZsTensor q, ZsTensor k, ZsTensor v);
void     zs_sdpa_math_backward (ZsEmitter *e, ZsLayer *layer, ZsTensor gradient, ZsTensor *ret_q,
                                ZsTensor *ret_k, ZsTensor *ret_v);
/* rotary.c */
void     zs_rotary_tables   (ZsEmitter *e);
ZsTensor zs_rotary_forward  (ZsEmitter *e, ZsLayer *layer, int which, ZsTensor x, bool grad);
ZsTensor zs_rotary_backward (ZsEmitter *e, ZsLayer *layer, int which, ZsTensor gradient);
/* cache.c */
void zs_cache_update (ZsEmitter *e, ZsLayer *layer, ZsTensor *k, ZsTensor *v);
void zs_cache_forget (ZsEmitter *e, bool old);
/* mask.c */
void zs_mask_forward (ZsEmitter *e);
/* layer.c */
ZsTensor   zs_layer_forward  (ZsEmitter *e, ZsLayer *layer, ZsTensor x, bool stop);
ZsGradient zs_layer_backward (ZsEmitter *e, ZsLayer *layer, ZsGradient gradient);
void       zs_layer_forget   (ZsEmitter *e, ZsLayer *layer);
/* checkpoint.c */
ZsTensor   zs_checkpoint_forward  (ZsEmitter *e, ZsLayer *layer, ZsTensor x);
ZsGradient zs_checkpoint_backward (ZsEmitter *e, ZsLayer *layer, ZsGradient gradient);
/* loss.c */
void       zs_loss_forward  (ZsEmitter *e, ZsTensor hidden);
ZsGradient zs_loss_backward (ZsEmitter *e, ZsTensor unscaled);
void       zs_recompute_now       (ZsEmitter *e);
bool       zs_loss_pads_labels (const ZsEmitter *e);
void       zs_loss_shift_labels (ZsEmitter *e, ZsTensor *ret_padded);
/* liger.c */
ZsTensor zs_liger_norm_forward  (ZsEmitter *e, const ZsNormKind *kind, ZsTensor x, int32_t module,
                                 bool x_grad, bool trains, ZsNormSaved *saved);
void     zs_liger_norm_backward (ZsEmitter *e, const ZsNormKind *kind, ZsGradient gradient, int32_t module,
                                 bool x_grad, bool trains, ZsNormSaved *saved, ZsLayer *last_of,
                                 ZsGradient *total);
ZsTensor zs_liger_swiglu_forward  (ZsEmitter *e, ZsLayer *layer, ZsTensor gate, ZsTensor up);
void     zs_liger_swiglu_backward (ZsEmitter *e, ZsLayer *layer, ZsTensor gradient, ZsTensor *ret_gate,
                                   ZsTensor *ret_up);
void     zs_liger_rope_forward  (ZsEmitter *e, ZsLayer *layer);
void     zs_liger_rope_backward (ZsEmitter *e, ZsLayer *layer, ZsTensor *dq, ZsTensor *dk);
/* liger-loss.c */
void       zs_liger_loss_forward  (ZsEmitter *e);
ZsGradient zs_liger_loss_backward (ZsEmitter *e, ZsTensor unscaled);
/* The host counts the labels that count and waits for the number. */
void       zs_liger_count_labels  (ZsEmitter *e, int64_t rows, ZsTensor *ret_mask);
/* It looks whether the loss's gradient is 1 and, if it may not be, multiplies by it. */
void       zs_liger_scale         (ZsEmitter *e, uint32_t kernel, uint32_t other);
/* kernels.c: a kernel of N elements that moves BYTES; a product */
ZsForwardKernel zs_forward_kernel  (ZsEmitter *e, ZsKernelKind kind, int64_t n, int64_t bytes,
                                    int64_t element, const char *name);
uint32_t        zs_backward_kernel (ZsEmitter *e, ZsKernelKind kind, int64_t n, int64_t bytes,
                                    int64_t element, const char *name);
uint32_t        zs_product_kernel  (ZsEmitter *e, int64_t m, int64_t n, int64_t k, ZsMatmulForm form,
                                    ZsLaunchKind launch, int64_t element, const char *name);
/* kernels-liger.c */
void zs_emitter_add_liger_kernels (ZsEmitter *e);
void zs_emitter_add_kernels (ZsEmitter *e);
