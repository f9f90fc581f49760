/* attention-sdpa-math.c: scaled_dot_product_attention's back end written in operators.
 * SPDX-License-Identifier: MIT
 *
 * What sdpa takes when no kernel can: fp32 with fewer key than query heads, old GPUs, or when asked
 * for.  16-bit operands are computed in fp32; q and k are both scaled by the root of the scale; the
 * causal mask is built in each call; the safe softmax looks for rows that are masked altogether.  The
 * weights too are cast back to 16 bit, although nobody asks for them.
 * Sources: _scaled_dot_product_attention_math () of ATen/native/transformers/attention.cpp (torch 2.11),
 * histories recorded on one H200 (one sequence; copies for several are the same as in eager attention). */
#include "config.h"

#include "sim/model/emit-internal.h"

enum { FP32 = 4 };

static int64_t
scores (const ZsEmitter *e)
{
  return e->tokens * e->model->shape.n_heads * e->sequence;
}

static bool
grouped (const ZsEmitter *e)
{
  return e->model->shape.n_kv_heads != e->model->shape.n_heads;
}

/* Does transformers repeat k and v, in 16 bit, before it calls sdpa? */
static bool
repeats (const ZsEmitter *e)
{
  return grouped (e) && (zs_masks (e)
                         || !zs_behaves (&e->shape.versions, ZS_BEHAVIOUR_NATIVE_GQA));
}

/* Bytes of q, and of k or v, in fp32. */
static int64_t
wide_q (const ZsEmitter *e)
{
  return e->q_bytes / e->element * FP32;
}

static int64_t
wide_kv (const ZsEmitter *e)
{
  return e->kv_bytes / e->element * FP32;
}

/* X in fp32, or X again. */
static ZsTensor
widen (ZsEmitter *e, ZsTensor x, int64_t bytes, ZsForwardKernel kernel)
{
  if (e->element == FP32)
    return zs_plan_ref (e->plan, x);
  ZsTensor wide = zs_temporary (e, bytes);

  zs_run (e, kernel);
  return wide;
}

/* ones ().tril (), and what is 0 where that is true and -inf elsewhere. */
static ZsTensor
causal_mask (ZsEmitter *e)
{
  int64_t square = e->sequence * e->sequence;
  ZsTensor ones = zs_temporary (e, square);
  zs_run (e, e->k.mask_fill);
  ZsTensor lower = zs_temporary (e, square);
  zs_run (e, e->k.mask_fill);
  zs_drop (e, ones);
  ZsTensor zero = zs_temporary (e, FP32), infinite = zs_temporary (e, FP32);
  ZsTensor mask = zs_temporary (e, square * FP32);
  zs_run (e, e->k.mask_fill);
  zs_drop (e, infinite);
  zs_drop (e, zero);
  zs_drop (e, lower);
  return mask;
}

/* The boolean mask that transformers gives, as in zs_attention_forward (). */
static ZsTensor
given_mask (ZsEmitter *e)
{
  if (e->mask == ZS_NO_TENSOR)
    return ZS_NO_TENSOR;
  ZsTensor zero = zs_temporary (e, e->element), infinite = zs_temporary (e, e->element);
  ZsTensor bias = zs_temporary (e, e->batch * e->sequence * e->sequence * e->element);

  zs_run (e, e->k.mask_fill);
  zs_drop (e, infinite);
  zs_drop (e, zero);
  return bias;
}

static ZsTensor
safe_softmax (ZsEmitter *e, ZsTensor raw)
{
  ZsTensor result = zs_activation (e, scores (e) * FP32);
  zs_run (e, e->k.softmax);
  ZsTensor masked = zs_temporary (e, scores (e));
  zs_run (e, e->k.scores_mask);
  ZsTensor rows = zs_temporary (e, scores (e) / e->sequence);
  zs_run (e, e->k.scores_mask);
  ZsTensor zero = zs_temporary (e, FP32);
  zs_run (e, e->k.tiny);
  zs_drop (e, zero);
  zs_drop (e, rows);
  zs_drop (e, masked);
  zs_drop (e, raw);
  return result;
}

/* X by head for the product: a copy if there are several sequences. */
static ZsTensor
by_head (ZsEmitter *e, ZsTensor x)
{
  if (e->batch == 1)
    return zs_plan_ref (e->plan, x);
  ZsTensor copy = zs_activation (e, wide_q (e));

  zs_run (e, e->k.repeat);
  return copy;
}

static ZsTensor
repeat (ZsEmitter *e, ZsTensor x, int64_t bytes)
{
  if (!grouped (e))
    return zs_plan_ref (e->plan, x);
  ZsTensor copy = zs_activation (e, bytes);

  zs_run (e, e->k.repeat);
  return copy;
}

ZsTensor
zs_sdpa_math_forward (ZsEmitter *e, ZsLayer *layer, ZsTensor q, ZsTensor k, ZsTensor v)
{
  ZsAttentionSaved *saved = &layer->attention_saved;
  bool grad = layer->attention_grad, before = repeats (e);
  ZsTensor key = before ? repeat (e, k, e->q_bytes) : zs_plan_ref (e->plan, k);
  ZsTensor value = before ? repeat (e, v, e->q_bytes) : zs_plan_ref (e->plan, v);
  ZsTensor mask = given_mask (e);
  int64_t kv = before ? wide_q (e) : wide_kv (e);

  ZsTensor q32 = widen (e, q, wide_q (e), e->k.q_cast);
  ZsTensor k32 = widen (e, key, kv, e->k.k_cast), v32 = widen (e, value, kv, e->k.k_cast);
  ZsTensor query = zs_activation (e, wide_q (e));
  zs_run (e, e->k.repeat);
  ZsTensor causal = zs_masks (e) ? ZS_NO_TENSOR : causal_mask (e);
  ZsTensor k_all = before ? zs_plan_ref (e->plan, k32) : repeat (e, k32, wide_q (e));
  ZsTensor v_all = before ? zs_plan_ref (e->plan, v32) : repeat (e, v32, wide_q (e));
  ZsTensor k_scaled = zs_activation (e, wide_q (e));
  zs_run (e, e->k.repeat);
  ZsTensor q_product = by_head (e, query);
  ZsTensor k_product = grouped (e) ? zs_plan_ref (e->plan, k_scaled) : by_head (e, k_scaled);
  ZsTensor raw = zs_temporary (e, scores (e) * FP32);
  zs_touch_cublas (e);
  zs_run (e, e->k.scores);
  zs_run (e, e->k.scores_mask);
  saved->q = zs_save (e, q_product, grad);
  saved->k = zs_save (e, k_product, grad);
  zs_drop (e, q_product);
  zs_drop (e, k_product);
  ZsTensor weights = safe_softmax (e, raw);
  ZsTensor narrow = ZS_NO_TENSOR;
  if (e->element != FP32) {
    narrow = zs_temporary (e, scores (e) * e->element);
    zs_run (e, e->k.scores_down);
  }
  ZsTensor v_product = grouped (e) ? zs_plan_ref (e->plan, v_all) : by_head (e, v_all);
  ZsTensor context = zs_temporary (e, wide_q (e));
  zs_run (e, e->k.context);
  saved->probabilities = zs_save (e, weights, grad);
  saved->v = zs_save (e, v_product, grad);
  if (e->element != FP32) {
    ZsTensor down = zs_temporary (e, e->q_bytes);

    zs_run (e, e->k.q_cast);
    zs_drop (e, context);
    context = down;
  }
  ZsTensor held[] = { weights, query, k_scaled, v_product, v_all, k_all, causal, v32, k32, q32, narrow };
  for (gsize i = 0; i < G_N_ELEMENTS (held); i++)
    zs_drop (e, held[i]);
  zs_drop (e, mask);
  ZsTensor out = zs_activation (e, e->q_bytes);
  zs_run (e, e->k.context_copy);
  zs_drop (e, context);
  zs_drop (e, key);
  zs_drop (e, value);
  return out;
}

/* X through a kernel into a tensor of BYTES.  Takes X. */
static ZsTensor
through (ZsEmitter *e, ZsTensor x, int64_t bytes, uint32_t kernel)
{
  ZsTensor result = zs_temporary (e, bytes);

  zs_run_back (e, kernel);
  zs_drop (e, x);
  return result;
}

static ZsTensor
softmax_backward (ZsEmitter *e, ZsAttentionSaved *saved, ZsTensor gradient)
{
  ZsTensor result = zs_temporary (e, scores (e) * FP32), product = zs_temporary (e, scores (e) * FP32);

  zs_run_back (e, e->k.softmax_back);
  zs_drop (e, product);
  if (e->popped)
    zs_release (e, &saved->probabilities);
  zs_drop (e, gradient);
  zs_release (e, &saved->probabilities);
  return result;
}

/* Takes GRADIENT. */
void
zs_sdpa_math_backward (ZsEmitter *e, ZsLayer *layer, ZsTensor gradient, ZsTensor *ret_q, ZsTensor *ret_k,
                       ZsTensor *ret_v)
{
  ZsAttentionSaved *saved = &layer->attention_saved;
  bool narrow = e->element != FP32, before = repeats (e);

  if (narrow)
    gradient = through (e, gradient, wide_q (e), e->k.q_cast_back);
  if (e->batch > 1)
    gradient = through (e, gradient, wide_q (e), e->k.back_context_copy);
  ZsTensor dv = zs_temporary (e, wide_q (e));
  zs_touch_cublas (e);
  zs_run_back (e, e->k.context_wgrad);
  ZsTensor to_weights = zs_temporary (e, scores (e) * FP32);
  zs_run_back (e, e->k.context_dgrad);
  if (e->popped)
    zs_release (e, &saved->v);
  zs_drop (e, gradient);
  zs_release (e, &saved->v);
  ZsTensor to_scores = softmax_backward (e, saved, to_weights);
  ZsTensor dk = zs_temporary (e, wide_q (e));
  zs_run_back (e, e->k.scores_wgrad);
  ZsTensor dq = zs_temporary (e, wide_q (e));
  zs_run_back (e, e->k.scores_dgrad);
  if (e->popped) {
    zs_release (e, &saved->q);
    zs_release (e, &saved->k);
  }
  zs_drop (e, to_scores);
  zs_release (e, &saved->k);
  zs_release (e, &saved->q);
  dk = through (e, dk, wide_q (e), e->k.q_copy);   /* times the root of the scale */
  if (grouped (e) && !before) {
    dv = through (e, dv, wide_kv (e), e->k.head_reduce);
    dk = through (e, dk, wide_kv (e), e->k.head_reduce);
  }
  dq = through (e, dq, wide_q (e), e->k.q_copy);
  if (narrow) {
    int64_t kv = before ? e->q_bytes : e->kv_bytes;

    dv = through (e, dv, kv, e->k.k_cast_back);
    dk = through (e, dk, kv, e->k.k_cast_back);
    dq = through (e, dq, e->q_bytes, e->k.q_cast_back);
  }
  if (grouped (e) && before) {
    dv = through (e, dv, e->kv_bytes, e->k.head_reduce);
    dk = through (e, dk, e->kv_bytes, e->k.head_reduce);
  }
  *ret_q = dq;
  *ret_k = dk;
  *ret_v = dv;
}
