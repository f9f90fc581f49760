/* attention.c: scaled_dot_product_attention by cuDNN, flash and the memory-efficient kernel.
 * SPDX-License-Identifier: MIT
 *
 * Forward leaves q, k, v, the output, the log-sum-exp of each row and two 8-byte random states.
 * Backward of cuDNN has one workspace: an fp32 accumulator of dq, a row sum, and with fewer key than
 * query heads dk and dv for all heads.  Sizes: recorded on one H200, torch 2.11.
 *
 * flash wants a head of a multiple of 8: sdpa pads q, k and v, and slices the output (sdp_utils.cpp,
 * pad_last_dim); the padded tensors lie by head, so that backward makes the output and its gradient
 * contiguous first. */
#include "config.h"

#include "sim/model/emit-internal.h"

enum { CUDNN_WORKSPACE = 256, RANDOM_STATE = 8, FLASH_RANDOM_STATE = 16, FLASH_ROUND = 128,
       FLASH_HEAD = 8, EFFICIENT_ROUND = 32, EFFICIENT_HEAD = 256 };

static int64_t
round_up (int64_t n, int64_t to)
{
  return (n + to - 1) / to * to;
}

/* Elements per row statistic: the sequence rounded up as each kernel pads it. */
static int64_t
row_statistics (const ZsEmitter *e, int64_t to)
{
  return e->batch * e->model->shape.n_heads * round_up (e->sequence, to) * 4;
}

/* With a mask transformers repeats k and v for all query heads (enable_gqa only without a mask). */
static bool
repeats (const ZsEmitter *e)
{
  return e->model->shape.n_kv_heads != e->model->shape.n_heads
         && (zs_masks (e) || e->shape.attention == ZS_ATTENTION_EFFICIENT
             || !zs_behaves (&e->shape.versions, ZS_BEHAVIOUR_NATIVE_GQA));
}

static bool
pads (const ZsEmitter *e)
{
  return e->shape.attention == ZS_ATTENTION_FLASH && e->model->shape.head_dim % FLASH_HEAD != 0;
}

/* BYTES of q, k or v as the kernel takes them. */
static int64_t
padded (const ZsEmitter *e, int64_t bytes)
{
  int64_t head = e->model->shape.head_dim;

  return pads (e) ? bytes / head * round_up (head, FLASH_HEAD) : bytes;
}

/* X padded.  Takes X. */
static ZsTensor
pad (ZsEmitter *e, ZsTensor x, int64_t bytes)
{
  if (!pads (e))
    return x;
  ZsTensor wider = zs_activation (e, padded (e, bytes));

  zs_run (e, e->k.repeat);
  zs_drop (e, x);
  return wider;
}

/* Does the gradient of v come by head, so that its product needs a copy? */
bool
zs_gradient_by_head (const ZsEmitter *e)
{
  return e->shape.attention == ZS_ATTENTION_EAGER || e->shape.attention == ZS_ATTENTION_MATH
         || repeats (e) || pads (e) || zs_caches (e);
}

static int64_t
backward_workspace (const ZsEmitter *e)
{
  const ZsModelShape *shape = &e->model->shape;
  int64_t q = e->tokens * shape->n_heads * shape->head_dim;
  int64_t bytes = 4 * q + e->lse_bytes + CUDNN_WORKSPACE;

  if (shape->n_kv_heads != shape->n_heads && !repeats (e))
    bytes += 2 * e->q_bytes;
  return bytes;
}

ZsTensor
zs_attention_forward (ZsEmitter *e, ZsLayer *layer, ZsTensor q, ZsTensor k, ZsTensor v)
{
  ZsAttentionSaved *saved = &layer->attention_saved;
  bool grad = layer->attention_grad;
  ZsTensor key = zs_plan_ref (e->plan, k), value = zs_plan_ref (e->plan, v), bias = ZS_NO_TENSOR;
  ZsTensor wide_key = ZS_NO_TENSOR;

  if (repeats (e)) {
    zs_drop (e, key);
    key = zs_activation (e, e->q_turned);
    zs_run (e, e->k.repeat);
    zs_drop (e, value);
    value = zs_activation (e, e->q_bytes);
    zs_run (e, e->k.repeat);
  }
  ZsTensor query = zs_plan_ref (e->plan, q);
  if (e->q_turned != e->q_bytes) {   /* rotary's tables are wider */
    if (!repeats (e)) {
      zs_drop (e, key);
      key = zs_activation (e, e->kv_bytes);
      zs_run (e, e->k.k_cast);
    } else {   /* a variable of the layer's attention until it returns */
      wide_key = key;
      key = zs_activation (e, e->q_bytes);
      zs_run (e, e->k.q_cast);
    }
    zs_drop (e, query);
    query = zs_activation (e, e->q_bytes);
    zs_run (e, e->k.q_cast);
  }
  if (e->mask != ZS_NO_TENSOR) {   /* the boolean mask becomes an additive one, in each layer */
    ZsTensor scalar = zs_temporary (e, e->element);
    ZsTensor other = zs_temporary (e, e->element);
    bias = zs_activation (e, e->batch * e->sequence * e->sequence * e->element);
    zs_run (e, e->k.mask_fill);
    zs_drop (e, other);
    zs_drop (e, scalar);
  }
  int64_t kv = repeats (e) ? e->q_bytes : e->kv_bytes;
  query = pad (e, query, e->q_bytes);
  key = pad (e, key, kv);
  value = pad (e, value, kv);
  ZsTensor seed = ZS_NO_TENSOR, offset = ZS_NO_TENSOR, lse = ZS_NO_TENSOR;
  ZsAttention kernel = e->shape.attention;
  if (kernel == ZS_ATTENTION_CUDNN) {
    seed = zs_activation (e, RANDOM_STATE);
    offset = zs_activation (e, RANDOM_STATE);
  }
  ZsTensor out = zs_activation (e, padded (e, e->q_bytes));
  if (kernel == ZS_ATTENTION_FLASH || (!e->no_grad && grad))
    lse = zs_activation (e, kernel == ZS_ATTENTION_EFFICIENT ? row_statistics (e, EFFICIENT_ROUND)
                                                             : e->lse_bytes);
  if (kernel == ZS_ATTENTION_FLASH) {
    seed = zs_activation (e, FLASH_RANDOM_STATE);
    offset = zs_activation (e, RANDOM_STATE);
  }
  ZsTensor workspace = zs_new (e, kernel == ZS_ATTENTION_CUDNN ? CUDNN_WORKSPACE : 0,
                               ZS_CATEGORY_WORKSPACE);
  zs_run (e, e->k.attention);
  zs_drop (e, workspace);
  saved->q = zs_save (e, query, grad);
  saved->k = zs_save (e, key, grad);
  saved->v = zs_save (e, value, grad);
  saved->out = zs_save (e, out, grad);
  saved->lse = zs_save (e, lse, grad);
  saved->seed = zs_save (e, seed, grad);
  saved->offset = zs_save (e, offset, grad);
  saved->bias = zs_save (e, bias, grad);
  zs_drop (e, lse);
  zs_drop (e, seed);
  zs_drop (e, offset);
  zs_drop (e, bias);
  zs_drop (e, query);
  zs_drop (e, key);
  zs_drop (e, wide_key);
  zs_drop (e, value);
  if (!pads (e))
    return out;
  ZsTensor sliced = zs_activation (e, e->q_bytes);   /* transpose (1, 2).contiguous () */
  zs_run (e, e->k.context_copy);
  zs_drop (e, out);
  return sliced;
}

/* flash rounds a head up to 32, above 128 to 64 (flash_api.cpp). */
static int64_t
flash_head (int64_t head)
{
  return round_up (head, head <= 128 ? 32 : 64);
}

/* The kernel with its temporaries. */
static void
run_backward (ZsEmitter *e)
{
  const ZsModelShape *shape = &e->model->shape;
  int64_t rows = e->batch * shape->n_heads * round_up (e->sequence, FLASH_ROUND);
  ZsTensor a, b, dk = ZS_NO_TENSOR, dv = ZS_NO_TENSOR;

  switch (e->shape.attention) {
  case ZS_ATTENTION_FLASH:   /* row sums, fp32 dq, and dk and dv of all heads */
    a = zs_new (e, rows * 4, ZS_CATEGORY_WORKSPACE);
    b = zs_new (e, rows * flash_head (shape->head_dim) * 4, ZS_CATEGORY_WORKSPACE);
    if (shape->n_kv_heads != shape->n_heads && !repeats (e)) {
      dk = zs_temporary (e, padded (e, e->q_bytes));
      dv = zs_temporary (e, padded (e, e->q_bytes));
    }
    zs_run_back (e, e->k.attention_back);
    zs_drop (e, dv);
    zs_drop (e, dk);
    zs_drop (e, b);
    zs_drop (e, a);
    break;
  case ZS_ATTENTION_EFFICIENT:
    a = zs_new (e, row_statistics (e, EFFICIENT_ROUND), ZS_CATEGORY_WORKSPACE);
    b = zs_new (e, e->tokens * shape->n_heads * shape->head_dim * 4
                     + e->batch * shape->n_heads * EFFICIENT_HEAD, ZS_CATEGORY_WORKSPACE);
    zs_run_back (e, e->k.attention_back);
    zs_drop (e, a);
    zs_drop (e, b);
    break;
  default:
    a = zs_new (e, backward_workspace (e), ZS_CATEGORY_WORKSPACE);
    zs_run_back (e, e->k.attention_back);
    zs_drop (e, a);
    break;
  }
}

static void
forget (ZsEmitter *e, ZsAttentionSaved *saved)
{
  zs_release (e, &saved->bias);
  zs_release (e, &saved->k);
  zs_release (e, &saved->q);
  zs_release (e, &saved->v);
  zs_release (e, &saved->lse);
  zs_release (e, &saved->out);
  if (e->shape.attention == ZS_ATTENTION_FLASH)
    zs_release (e, &saved->seed);
  zs_release (e, &saved->offset);
  zs_release (e, &saved->seed);
}

/* Out of autocast's copy.  Takes GRADIENT. */
static ZsTensor
widen (ZsEmitter *e, ZsTensor gradient, int64_t bytes, uint32_t kernel)
{
  if (e->q_turned == e->q_bytes || gradient == ZS_NO_TENSOR)
    return gradient;
  ZsTensor wide = zs_temporary (e, bytes);

  zs_run_back (e, kernel);
  zs_drop (e, gradient);
  return wide;
}

/* Without its padding.  Takes GRADIENT. */
static ZsTensor
unpad (ZsEmitter *e, ZsTensor gradient, int64_t bytes)
{
  if (!pads (e) || gradient == ZS_NO_TENSOR)
    return gradient;
  ZsTensor narrow = zs_temporary (e, bytes);

  zs_run_back (e, e->k.q_copy);
  zs_drop (e, gradient);
  return narrow;
}

/* Takes GRADIENT. */
void
zs_attention_backward (ZsEmitter *e, ZsLayer *layer, ZsTensor gradient, ZsTensor *ret_q,
                       ZsTensor *ret_k, ZsTensor *ret_v)
{
  ZsAttentionSaved *saved = &layer->attention_saved;
  int64_t kv = repeats (e) ? e->q_bytes : e->kv_bytes, wide_q = padded (e, e->q_bytes);
  ZsTensor copy_gradient = ZS_NO_TENSOR, copy_out = ZS_NO_TENSOR;

  if (pads (e)) {
    ZsTensor wider = zs_temporary (e, wide_q);

    zs_run_back (e, e->k.q_copy);
    zs_drop (e, gradient);
    gradient = wider;
    copy_gradient = zs_temporary (e, wide_q);
    zs_run_back (e, e->k.q_copy);
    copy_out = zs_temporary (e, wide_q);
    zs_run_back (e, e->k.q_copy);
  }
  ZsTensor dq = zs_temporary (e, wide_q), dk = zs_temporary (e, padded (e, kv));
  ZsTensor dv = zs_temporary (e, padded (e, kv));

  run_backward (e);
  zs_drop (e, copy_out);
  zs_drop (e, copy_gradient);
  if (!layer->k_grad && !repeats (e))
    zs_release (e, &dk);
  if (!layer->q_grad)
    zs_release (e, &dq);
  if (!layer->v_grad && !repeats (e))
    zs_release (e, &dv);
  if (e->popped) {
    zs_release (e, &saved->seed);
    zs_release (e, &saved->offset);
    zs_release (e, &saved->out);
    zs_release (e, &saved->lse);
    zs_release (e, &saved->v);
    zs_release (e, &saved->q);
    zs_release (e, &saved->k);
    zs_release (e, &saved->bias);
  }
  zs_drop (e, gradient);
  forget (e, saved);
  dv = unpad (e, dv, kv);
  dk = unpad (e, dk, kv);
  dq = unpad (e, dq, e->q_bytes);
  dq = widen (e, dq, e->q_turned, e->k.q_cast_back);
  if (repeats (e)) {   /* sum over the heads that share */
    dk = widen (e, dk, e->q_turned, e->k.q_cast_back);
    ZsTensor sum = zs_temporary (e, e->kv_bytes);

    zs_run_back (e, e->k.head_reduce);
    zs_drop (e, dv);
    dv = sum;
    sum = zs_temporary (e, e->kv_turned);
    zs_run_back (e, e->k.head_reduce);
    zs_drop (e, dk);
    dk = sum;
  } else {
    dk = widen (e, dk, e->kv_turned, e->k.k_cast_back);
  }
  *ret_q = dq;
  *ret_k = dk;
  *ret_v = dv;
}
