/* linear.c: nn.Linear, and peft's lora.Linear around it.  SPDX-License-Identifier: MIT
 *
 * The product's autograd node computes the weight's gradient first, then the input's; with a bias
 * (addmm) the input's first.  DeepSpeed's memory-efficient linear computes the input's first, saves
 * after its forward, and its result is no view.  An adapter adds, with its own casts,
 *   result + lora_B (lora_A (dropout (x))) * scaling. */
#include "config.h"

#include "sim/model/emit-internal.h"

ZsGradient
zs_accumulate (ZsEmitter *e, ZsGradient old, ZsGradient new_gradient, int64_t bytes, uint32_t kernel)
{
  if (old.tensor == ZS_NO_TENSOR)
    return new_gradient;
  if (old.own) {
    zs_run_back (e, kernel);
    zs_drop (e, new_gradient.tensor);
    return old;
  }
  ZsGradient sum = { zs_temporary (e, bytes), true };

  zs_run_back (e, kernel);
  zs_drop (e, old.tensor);
  zs_drop (e, new_gradient.tensor);
  return sum;
}

static bool
efficient (const ZsEmitter *e)
{
  return e->hooks->linear_saves_no_weight;
}

/* Does autograd hold the weight's storage?  DeepSpeed's linear saves the parameter, whose storage the
 * framework may take away; but a recomputation that is not reentrant keeps what is saved as detached
 * tensors, which hold it. */
static bool
saves_weight (const ZsEmitter *e)
{
  return !efficient (e) || (e->recompute && !e->shape.reentrant);
}

/* The whole weight of a 4-bit one; with doubly quantised scales these first. */
static ZsTensor
whole_weight (ZsEmitter *e, const ZsLinearKind *kind)
{
  ZsTensor scales = zs_temporary (e, e->shape.lora.double_quantized ? kind->scale_bytes : 0);
  ZsTensor weight = zs_temporary (e, kind->full_weight_bytes);

  if (e->thread == 0 || e->recompute)
    zs_run (e, kind->dequantize);
  else
    zs_run_back (e, kind->dequantize_back);
  zs_drop (e, scales);
  return weight;
}

/* x A^T B^T * scaling, added to BASE, which it takes. */
static ZsTensor
adapter_forward (ZsEmitter *e, const ZsLinearKind *kind, const ZsLinearIds *ids, ZsTensor x, bool x_grad,
                 ZsTensor base, ZsLinearSaved *saved, bool stop)
{
  bool cast = kind->a_in_bytes != kind->wide_in_bytes;
  ZsTensor input = zs_plan_ref (e->plan, x);

  if (kind->quantized) {   /* result.clone () */
    ZsTensor clone = zs_activation (e, kind->out_bytes);

    zs_run (e, kind->clone);
    zs_drop (e, base);
    base = clone;
  }
  if (cast) {
    zs_drop (e, input);
    input = zs_activation (e, kind->a_in_bytes);
    zs_run (e, kind->cast_in);
  }
  zs_plan_host (e->plan, ZS_HOST_LORA_BODY, 1);
  zs_enter (e, ids->dropout);
  ZsTensor dropped = zs_plan_ref (e->plan, input);
  if (e->shape.lora.dropout > 0) {
    zs_drop (e, dropped);
    ZsTensor mask = zs_activation (e, e->tokens * kind->in);
    dropped = zs_activation (e, kind->a_in_bytes);
    zs_run (e, kind->drop);
    saved->mask = zs_save (e, mask, x_grad);
    zs_drop (e, mask);
  }
  zs_leave (e, ids->dropout);
  zs_enter (e, ids->a_module);
  ZsTensor a_weight = zs_plan_ref (e->plan, zs_weight_of (e, ids->a));
  if (e->adapter_cast) {
    zs_drop (e, a_weight);
    a_weight = zs_cast_weight (e, kind->a_weight_bytes, kind->cast_a);
    zs_drop (e, dropped);
    dropped = zs_activation (e, kind->a_x_bytes);
    zs_run (e, kind->cast_a_x);
  }
  ZsTensor small = zs_activation (e, kind->a_out_bytes);
  zs_touch_cublas (e);
  zs_run (e, kind->a);
  saved->a_input = zs_save (e, dropped, true);
  saved->a_weight = zs_save (e, a_weight, x_grad && saves_weight (e));
  zs_drop (e, a_weight);
  zs_leave (e, ids->a_module);
  zs_drop (e, dropped);
  zs_enter (e, ids->b_module);
  ZsTensor b_weight = zs_plan_ref (e->plan, zs_weight_of (e, ids->b));
  if (e->adapter_cast) {
    zs_drop (e, b_weight);
    b_weight = zs_cast_weight (e, kind->b_weight_bytes, kind->cast_b);
  }
  saved->a_output = zs_save (e, small, true);
  saved->b_weight = zs_save (e, b_weight, saves_weight (e));
  zs_drop (e, b_weight);
  if (stop && !efficient (e)) {
    zs_drop (e, small);
    zs_drop (e, input);
    zs_drop (e, base);
    return ZS_NO_TENSOR;
  }
  ZsTensor wide = zs_temporary (e, kind->b_out_bytes);
  zs_run (e, kind->b);
  zs_leave (e, ids->b_module);
  zs_drop (e, small);
  if (stop) {
    zs_drop (e, wide);
    zs_drop (e, input);
    zs_drop (e, base);
    return ZS_NO_TENSOR;
  }
  ZsTensor scaled = zs_temporary (e, kind->b_out_bytes);
  zs_run (e, kind->scale);
  zs_drop (e, wide);
  bool narrow = kind->b_out_bytes != kind->out_bytes;
  if (narrow && kind->quantized) {   /* peft's bnb layers go back to the base's dtype before the sum */
    ZsTensor down = zs_temporary (e, kind->out_bytes);

    zs_run (e, kind->cast_out);
    zs_drop (e, scaled);
    scaled = down;
  }
  ZsTensor sum = zs_activation (e, kind->quantized ? kind->out_bytes : kind->b_out_bytes);
  zs_run (e, kind->add);
  zs_drop (e, scaled);
  zs_drop (e, base);
  if (narrow && !kind->quantized) {
    ZsTensor result = zs_activation (e, kind->out_bytes);

    zs_run (e, kind->cast_out);
    zs_drop (e, sum);
    sum = result;
  }
  zs_drop (e, input);
  return sum;
}

/* STOP: a recomputation ends here, at the last tensor that is saved; the result is then none. */
ZsTensor
zs_linear_forward (ZsEmitter *e, const ZsLinearKind *kind, const ZsLinearIds *ids, ZsTensor x,
                   bool x_grad, ZsLinearSaved *saved, bool stop)
{
  bool stop_here = stop && !kind->adapted;

  if (stop_here && kind->quantized)   /* saves nothing: the product before it was the last that did */
    return ZS_NO_TENSOR;
  zs_enter (e, ids->module);
  ZsTensor input = zs_plan_ref (e->plan, x);
  ZsTensor weight = zs_plan_ref (e->plan, zs_weight_of (e, ids->weight < 0 ? 0 : ids->weight));
  if (e->weight_cast && !kind->quantized) {
    zs_drop (e, weight);
    weight = zs_cast_weight (e, kind->weight_bytes, kind->cast_weight);
  }
  if (kind->casts_input) {
    zs_drop (e, input);
    input = zs_activation (e, kind->in_bytes);
    zs_run (e, kind->cast_x);
  }
  saved->input = zs_save (e, input, kind->trainable || (efficient (e) && x_grad && !kind->quantized));
  saved->weight = zs_save (e, weight, x_grad && saves_weight (e) && !kind->quantized);
  ZsTensor whole = kind->quantized ? whole_weight (e, kind) : ZS_NO_TENSOR;
  zs_drop (e, weight);
  if (stop_here && !efficient (e)) {
    zs_drop (e, input);
    return ZS_NO_TENSOR;
  }
  ZsTensor result = kind->what == ZS_N_WHATS ? zs_new (e, kind->out_bytes, ZS_CATEGORY_LOGITS)
                                             : zs_activation (e, kind->out_bytes);
  if (kind->bias)
    zs_touch_cublas_lt (e);
  else
    zs_touch_cublas (e);
  zs_run (e, kind->product);
  zs_drop (e, whole);
  zs_drop (e, input);
  if (stop_here) {
    zs_drop (e, result);
    return ZS_NO_TENSOR;
  }
  if (kind->adapted) {
    result = adapter_forward (e, kind, ids, x, x_grad, result, saved, stop);
    if (stop)
      return ZS_NO_TENSOR;
  }
  zs_leave (e, ids->module);
  return result;
}

/* Out of autocast's copy, if CAST.  Takes GRADIENT. */
static ZsTensor
widen (ZsEmitter *e, ZsTensor gradient, bool cast, int64_t bytes, uint32_t kernel)
{
  if (!cast)
    return gradient;
  ZsTensor wide = zs_new (e, bytes, ZS_CATEGORY_GRADIENTS);

  zs_run_back (e, kernel);
  zs_drop (e, gradient);
  return wide;
}

/* The adapter's part: takes nothing of GRADIENT but gives the base product its own share of it. */
static ZsTensor
adapter_backward (ZsEmitter *e, const ZsLinearKind *kind, const ZsLinearIds *ids, ZsTensor gradient,
                  bool consume, bool x_grad, bool base_grad, ZsLinearSaved *saved, ZsGradient *total)
{
  ZsTensor wide = gradient, base = gradient;
  bool cast = kind->b_out_bytes != kind->out_bytes;

  if (cast && kind->quantized) {
    wide = zs_temporary (e, kind->b_out_bytes);
    zs_run_back (e, kind->cast_back);
  } else if (cast) {
    wide = zs_temporary (e, kind->b_out_bytes);
    zs_run_back (e, kind->cast_back);
    if (consume)
      zs_drop (e, gradient);
    base = ZS_NO_TENSOR;
    if (base_grad) {
      base = zs_temporary (e, kind->out_bytes);
      zs_run_back (e, kind->cast_base);
    }
  }
  ZsTensor scaled = zs_temporary (e, kind->b_out_bytes);
  zs_run_back (e, kind->scale_back);
  if (cast)
    zs_drop (e, wide);
  if ((!cast || kind->quantized) && consume && !base_grad) {   /* the base needs it no more */
    zs_drop (e, gradient);
    base = ZS_NO_TENSOR;
  }

  zs_enter_back (e, ids->b_module);
  if (e->pending != NULL)
    zs_recompute_now (e);
  ZsTensor db = zs_new (e, kind->b_weight_bytes, ZS_CATEGORY_GRADIENTS);
  zs_run_back (e, kind->b_wgrad);
  ZsTensor small = zs_temporary (e, kind->a_out_bytes);
  zs_run_back (e, kind->b_dgrad);
  if (e->popped) {
    zs_release (e, &saved->a_output);
    zs_release (e, &saved->b_weight);
  }
  zs_drop (e, scaled);
  zs_release (e, &saved->b_weight);
  zs_release (e, &saved->a_output);
  zs_give_gradient (e, ids->b, widen (e, db, e->adapter_cast, kind->b_wide_bytes, kind->cast_b_back));
  zs_leave_back (e, ids->b_module);

  zs_enter_back (e, ids->a_module);
  ZsTensor da = zs_new (e, kind->a_weight_bytes, ZS_CATEGORY_GRADIENTS);
  zs_run_back (e, kind->a_wgrad);
  ZsGradient to_x = { ZS_NO_TENSOR, false };
  if (x_grad) {
    to_x.tensor = zs_temporary (e, kind->a_x_bytes);
    zs_run_back (e, kind->a_dgrad);
  }
  if (e->popped) {
    zs_release (e, &saved->a_input);
    zs_release (e, &saved->a_weight);
  }
  zs_drop (e, small);
  zs_release (e, &saved->a_weight);
  zs_release (e, &saved->a_input);
  if (x_grad && e->adapter_cast)
    to_x = (ZsGradient) { widen (e, to_x.tensor, true, kind->a_in_bytes, kind->cast_a_x_back), true };
  bool plain = e->shape.lora.dropout == 0 && kind->a_in_bytes == kind->wide_in_bytes;
  if (x_grad && plain)
    *total = zs_accumulate (e, *total, to_x, kind->wide_in_bytes, kind->accumulate);
  zs_give_gradient (e, ids->a, widen (e, da, e->adapter_cast, kind->a_wide_bytes, kind->cast_a_back));
  zs_leave_back (e, ids->a_module);
  if (!x_grad || plain)
    return base;

  if (e->shape.lora.dropout > 0) {
    ZsTensor before = zs_temporary (e, kind->a_in_bytes);

    zs_run_back (e, kind->drop_back);
    if (e->popped)
      zs_release (e, &saved->mask);
    zs_drop (e, to_x.tensor);
    zs_release (e, &saved->mask);
    to_x = (ZsGradient) { before, true };
  }
  if (kind->a_in_bytes != kind->wide_in_bytes) {
    ZsTensor before = zs_temporary (e, kind->wide_in_bytes);

    zs_run_back (e, kind->cast_in_back);
    zs_drop (e, to_x.tensor);
    to_x = (ZsGradient) { before, true };
  }
  *total = zs_accumulate (e, *total, to_x, kind->wide_in_bytes, kind->accumulate);
  return base;
}

static ZsTensor
bias_gradient (ZsEmitter *e, const ZsLinearKind *kind)
{
  ZsTensor result = zs_new (e, kind->bias_bytes, ZS_CATEGORY_GRADIENTS);
  ZsTensor buffer = zs_new (e, kind->bias_buffer, ZS_CATEGORY_WORKSPACE);
  ZsTensor semaphores = zs_new (e, kind->bias_semaphores, ZS_CATEGORY_WORKSPACE);

  zs_run_back (e, kind->bias_sum);
  zs_drop (e, semaphores);
  zs_drop (e, buffer);
  return result;
}

/* Adds the input's gradient to *TOTAL.  GRADIENT is dropped at its place if CONSUME. */
void
zs_linear_backward (ZsEmitter *e, const ZsLinearKind *kind, const ZsLinearIds *ids, ZsTensor gradient,
                    bool consume, bool x_grad, ZsLinearSaved *saved, ZsGradient *total)
{
  ZsTensor dw = ZS_NO_TENSOR, dbias = ZS_NO_TENSOR, dx = ZS_NO_TENSOR;
  bool base_grad = x_grad || kind->trainable;
  bool input_first = efficient (e) || kind->bias;
  ZsTensor whole = ZS_NO_TENSOR;

  zs_enter_back (e, ids->module);
  if (kind->adapted) {
    ZsTensor base = adapter_backward (e, kind, ids, gradient, consume, x_grad, base_grad, saved, total);

    if (base != gradient)
      consume = true;
    gradient = base;
  }
  if (e->pending != NULL)
    zs_recompute_now (e);
  if (base_grad) {
    if (kind->quantized)
      whole = whole_weight (e, kind);
    if (x_grad && input_first) {
      dx = zs_temporary (e, kind->in_bytes);
      zs_touch_cublas (e);
      zs_run_back (e, kind->dgrad);
    }
    if (kind->trainable) {
      dw = zs_new (e, kind->weight_bytes, ZS_CATEGORY_GRADIENTS);
      zs_touch_cublas (e);
      zs_run_back (e, kind->wgrad);
    }
    if (x_grad && !input_first) {
      dx = zs_temporary (e, kind->in_bytes);
      zs_touch_cublas (e);
      zs_run_back (e, kind->dgrad);
    }
    if (e->popped) {
      zs_release (e, &saved->input);
      zs_release (e, &saved->weight);
    }
    if (kind->bias && kind->trainable)
      dbias = bias_gradient (e, kind);
  }
  zs_drop (e, whole);
  if (consume)
    zs_drop (e, gradient);
  zs_release (e, &saved->weight);
  zs_release (e, &saved->input);
  if (dbias != ZS_NO_TENSOR)
    zs_give_gradient (e, ids->bias, widen (e, dbias, e->weight_cast, kind->wide_bias_bytes,
                                           kind->cast_bias_back));
  /* the view of the input was made after the weight's transposition, so that its node runs first;
   * module hooks of a framework put a node of their own between it and the sum */
  bool hooked = efficient (e) || e->hooks->after_backward != NULL;
  if (dx != ZS_NO_TENSOR && kind->casts_input)
    dx = widen (e, dx, true, kind->wide_in_bytes, kind->cast_x_back);
  ZsGradient to_x = { dx, efficient (e) || kind->casts_input };
  if (!hooked && dx != ZS_NO_TENSOR)
    *total = zs_accumulate (e, *total, to_x, kind->wide_in_bytes, kind->accumulate);
  if (dw != ZS_NO_TENSOR)
    dw = widen (e, dw, e->weight_cast, kind->wide_weight_bytes, kind->cast_weight_back);
  if (dw != ZS_NO_TENSOR && ids->weight < 0)
    e->tied_gradient = dw;   /* waits for the embedding's own */
  else if (dw != ZS_NO_TENSOR)
    zs_give_gradient (e, ids->weight, dw);
  zs_leave_back (e, ids->module);
  if (hooked && dx != ZS_NO_TENSOR)
    *total = zs_accumulate (e, *total, to_x, kind->wide_in_bytes, kind->accumulate);
}
