/* attention-math.c: attention written in operators.  SPDX-License-Identifier: MIT
 *
 * transformers' eager_attention_forward:
 *   k, v = repeat_kv; w = q k^T * scaling (+ mask); w = softmax (w, fp32).to (dtype); out = w v
 * Products of more than one sequence need q (and k, v where repeat_kv has not just made them)
 * contiguous by head, so copies are made and held; a single sequence is viewed instead.  fp16 has a
 * fused softmax that reads halves; bf16 goes through an fp32 copy. */
#include "config.h"

#include "sim/model/emit-internal.h"

static int64_t
scores_bytes (const ZsEmitter *e, int64_t element)
{
  return e->tokens * e->model->shape.n_heads * e->sequence * element;
}

static bool
repeats (const ZsEmitter *e)
{
  return e->model->shape.n_kv_heads != e->model->shape.n_heads;
}

/* X by head: a repetition if GROUPED, else a copy if there are several sequences. */
static ZsTensor
by_head (ZsEmitter *e, ZsTensor x)
{
  if (e->batch == 1)
    return zs_plan_ref (e->plan, x);
  ZsTensor copy = zs_activation (e, e->q_bytes);

  zs_run (e, e->k.repeat);
  return copy;
}

static ZsTensor
repeat (ZsEmitter *e, ZsTensor x)
{
  if (!repeats (e))
    return zs_plan_ref (e->plan, x);
  ZsTensor copy = zs_activation (e, e->q_bytes);

  zs_run (e, e->k.repeat);
  return copy;
}

static ZsTensor
softmax (ZsEmitter *e, ZsLayer *layer, ZsTensor scores)
{
  int64_t narrow = scores_bytes (e, e->element), wide = scores_bytes (e, 4);
  bool copies = e->upcast && e->shape.dtype != ZS_DTYPE_FP16;
  ZsTensor input = copies ? zs_temporary (e, wide) : zs_plan_ref (e->plan, scores);

  if (copies)
    zs_run (e, e->k.scores_up);
  ZsTensor result = zs_activation (e, wide);
  zs_run (e, e->k.softmax);
  layer->attention_saved.softmax = zs_save (e, result, layer->attention_grad);
  zs_drop (e, input);
  if (!e->upcast) {
    zs_drop (e, scores);
    return result;
  }
  ZsTensor down = zs_activation (e, narrow);
  zs_run (e, e->k.scores_down);
  zs_drop (e, result);
  zs_drop (e, scores);
  return down;
}

ZsTensor
zs_math_forward (ZsEmitter *e, ZsLayer *layer, ZsTensor q, ZsTensor k, ZsTensor v)
{
  ZsAttentionSaved *saved = &layer->attention_saved;
  bool grad = layer->attention_grad;
  int64_t narrow = scores_bytes (e, e->element);
  ZsTensor key = repeat (e, k), value = repeat (e, v);

  ZsTensor query = by_head (e, q);
  ZsTensor key_by_head = repeats (e) ? zs_plan_ref (e->plan, key) : by_head (e, key);
  ZsTensor raw = zs_temporary (e, narrow);
  zs_touch_cublas (e);
  zs_run (e, e->k.scores);
  saved->q = zs_save (e, query, grad);
  saved->k = zs_save (e, key_by_head, grad);
  zs_drop (e, query);
  zs_drop (e, key_by_head);
  ZsTensor scores = zs_temporary (e, narrow);
  zs_run (e, e->k.scores_scale);
  zs_drop (e, raw);
  if (e->mask != ZS_NO_TENSOR) {
    ZsTensor masked = zs_temporary (e, narrow);

    zs_run (e, e->k.scores_mask);
    zs_drop (e, scores);
    scores = masked;
  }
  ZsTensor weights = softmax (e, layer, scores);
  ZsTensor value_by_head = repeats (e) ? zs_plan_ref (e->plan, value) : by_head (e, value);
  ZsTensor context = zs_temporary (e, e->q_bytes);
  zs_run (e, e->k.context);
  saved->probabilities = zs_save (e, weights, grad);
  saved->v = zs_save (e, value_by_head, grad);
  zs_drop (e, value_by_head);
  ZsTensor out = zs_activation (e, e->q_bytes);
  zs_run (e, e->k.context_copy);
  zs_drop (e, context);
  zs_drop (e, key);
  zs_drop (e, value);
  layer->weights = weights;
  return out;
}

static ZsTensor
softmax_backward (ZsEmitter *e, ZsAttentionSaved *saved, ZsTensor gradient)
{
  int64_t narrow = scores_bytes (e, e->element), wide = scores_bytes (e, 4);
  bool copies = e->upcast && e->shape.dtype != ZS_DTYPE_FP16;
  ZsTensor g32 = gradient;

  if (e->upcast) {
    g32 = zs_temporary (e, wide);
    zs_run_back (e, e->k.scores_cast);
    zs_drop (e, gradient);
  }
  ZsTensor result = zs_temporary (e, copies || !e->upcast ? wide : narrow);
  ZsTensor product = zs_temporary (e, wide);
  zs_run_back (e, e->k.softmax_back);
  zs_drop (e, product);
  if (e->popped)
    zs_release (e, &saved->softmax);
  zs_drop (e, g32);
  zs_release (e, &saved->softmax);
  if (!copies)
    return result;
  ZsTensor down = zs_temporary (e, narrow);
  zs_run_back (e, e->k.scores_cast);
  zs_drop (e, result);
  return down;
}

/* Sum over the query heads that share a key head.  Takes X. */
static ZsTensor
reduce_heads (ZsEmitter *e, ZsTensor x)
{
  if (!repeats (e))
    return x;
  ZsTensor sum = zs_temporary (e, e->kv_bytes);

  zs_run_back (e, e->k.head_reduce);
  zs_drop (e, x);
  return sum;
}

/* Takes GRADIENT. */
void
zs_math_backward (ZsEmitter *e, ZsLayer *layer, ZsTensor gradient, ZsTensor *ret_q, ZsTensor *ret_k,
                  ZsTensor *ret_v)
{
  ZsAttentionSaved *saved = &layer->attention_saved;
  int64_t narrow = scores_bytes (e, e->element);

  if (e->batch > 1) {
    ZsTensor copy = zs_temporary (e, e->q_bytes);

    zs_run_back (e, e->k.back_context_copy);
    zs_drop (e, gradient);
    gradient = copy;
  }
  ZsTensor dv = zs_temporary (e, e->q_bytes);
  zs_touch_cublas (e);
  zs_run_back (e, e->k.context_wgrad);
  ZsTensor to_weights = zs_temporary (e, narrow);
  zs_run_back (e, e->k.context_dgrad);
  if (e->popped) {
    zs_release (e, &saved->probabilities);
    zs_release (e, &saved->v);
  }
  zs_drop (e, gradient);
  zs_release (e, &saved->v);
  zs_release (e, &saved->probabilities);
  ZsTensor to_scores = softmax_backward (e, saved, to_weights);
  ZsTensor scaled = zs_temporary (e, narrow);
  zs_run_back (e, e->k.back_scores_scale);
  zs_drop (e, to_scores);
  ZsTensor dk = zs_temporary (e, e->q_bytes);
  zs_run_back (e, e->k.scores_wgrad);
  ZsTensor dq = zs_temporary (e, e->q_bytes);
  zs_run_back (e, e->k.scores_dgrad);
  if (e->popped) {
    zs_release (e, &saved->q);
    zs_release (e, &saved->k);
  }
  zs_drop (e, scaled);
  zs_release (e, &saved->k);
  zs_release (e, &saved->q);
  *ret_v = reduce_heads (e, dv);
  *ret_k = reduce_heads (e, dk);
  *ret_q = dq;
}
