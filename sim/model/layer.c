/* layer.c: one decoder layer, forward and backward.  SPDX-License-Identifier: MIT
 *
 * The frees are where Python's variables are rebound or its frames return. */
#include "config.h"

#include "sim/model/emit-internal.h"

static ZsTensor
attend (ZsEmitter *e, ZsLayer *layer, ZsTensor q, ZsTensor k, ZsTensor v)
{
  switch (e->shape.attention) {
  case ZS_ATTENTION_EAGER: return zs_math_forward (e, layer, q, k, v);
  case ZS_ATTENTION_MATH: return zs_sdpa_math_forward (e, layer, q, k, v);
  default: return zs_attention_forward (e, layer, q, k, v);
  }
}

static void
attend_backward (ZsEmitter *e, ZsLayer *layer, ZsTensor gradient, ZsTensor *ret_q, ZsTensor *ret_k,
                 ZsTensor *ret_v)
{
  switch (e->shape.attention) {
  case ZS_ATTENTION_EAGER: zs_math_backward (e, layer, gradient, ret_q, ret_k, ret_v); break;
  case ZS_ATTENTION_MATH: zs_sdpa_math_backward (e, layer, gradient, ret_q, ret_k, ret_v); break;
  default: zs_attention_backward (e, layer, gradient, ret_q, ret_k, ret_v); break;
  }
}

/* One of q, k: the product, with Qwen3 a norm over each head. */
static ZsTensor
project (ZsEmitter *e, ZsLayer *layer, int which, ZsTensor n1)
{
  bool is_q = which == ZS_Q;
  ZsTensor x;

  zs_label_layer (e, layer, is_q ? ZS_WHAT_Q : ZS_WHAT_K);
  x = zs_linear_forward (e, &e->linears[which], &layer->linears[which], n1, layer->n1_grad,
                         &layer->saved[which], false);
  if (!e->model->shape.qk_norm)
    return x;
  zs_label_layer (e, layer, is_q ? ZS_WHAT_Q_NORM : ZS_WHAT_K_NORM);
  ZsTensor normal = zs_norm_forward (e, is_q ? &e->q_norm : &e->k_norm, x,
                                     is_q ? layer->q_norm : layer->k_norm,
                                     is_q ? layer->q_grad : layer->k_grad,
                                     is_q ? &layer->q_norm_saved : &layer->k_norm_saved);
  zs_drop (e, x);
  return normal;
}

static ZsTensor
attention_block (ZsEmitter *e, ZsLayer *layer, ZsTensor n1)
{
  zs_enter (e, layer->attention);
  zs_plan_host (e->plan, ZS_HOST_ATTENTION_BODY, 1);
  ZsTensor q = project (e, layer, ZS_Q, n1);
  ZsTensor k = project (e, layer, ZS_K, n1);
  zs_label_layer (e, layer, ZS_WHAT_V);
  ZsTensor v = zs_linear_forward (e, &e->linears[ZS_V], &layer->linears[ZS_V], n1, layer->n1_grad,
                                  &layer->saved[ZS_V], false);
  bool own_tables = !zs_behaves (&e->shape.versions, ZS_BEHAVIOUR_SHARED_ROTARY_TABLES);
  if (own_tables)
    zs_rotary_tables (e);
  zs_label_layer (e, layer, ZS_WHAT_ROTARY);
  ZsTensor q_turned = q, k_turned = k;
  if (zs_liger (e, ZS_LIGER_ROPE)) {
    zs_liger_rope_forward (e, layer);   /* in place */
  } else {
    q_turned = zs_rotary_forward (e, layer, 0, q, layer->q_grad);
    k_turned = zs_rotary_forward (e, layer, 1, k, layer->k_grad);
    zs_drop (e, q);
    zs_drop (e, k);
  }
  zs_label_layer (e, layer, ZS_WHAT_ATTENTION);
  zs_cache_update (e, layer, &k_turned, &v);
  ZsTensor out = attend (e, layer, q_turned, k_turned, v);
  zs_label_layer (e, layer, ZS_WHAT_O);
  ZsTensor result = zs_linear_forward (e, &e->linears[ZS_O], &layer->linears[ZS_O], out,
                                       layer->attention_grad, &layer->saved[ZS_O], false);
  zs_drop (e, out);
  zs_drop (e, q_turned);
  zs_drop (e, k_turned);
  zs_drop (e, v);
  if (own_tables) {
    zs_release (e, &e->cos);
    zs_release (e, &e->sin);
  }
  zs_leave (e, layer->attention);
  return result;
}

/* silu (gate) * up. */
static ZsTensor
activate (ZsEmitter *e, ZsLayer *layer, ZsTensor n2)
{
  zs_label_layer (e, layer, ZS_WHAT_GATE);
  ZsTensor gate = zs_linear_forward (e, &e->linears[ZS_GATE], &layer->linears[ZS_GATE], n2,
                                     layer->n2_grad, &layer->saved[ZS_GATE], false);
  if (zs_liger (e, ZS_LIGER_SWIGLU)) {
    zs_label_layer (e, layer, ZS_WHAT_UP);
    ZsTensor up = zs_linear_forward (e, &e->linears[ZS_UP], &layer->linears[ZS_UP], n2, layer->n2_grad,
                                     &layer->saved[ZS_UP], false);

    return zs_liger_swiglu_forward (e, layer, gate, up);
  }
  zs_label_layer (e, layer, ZS_WHAT_ACTIVATION);
  zs_enter (e, layer->activation);
  ZsTensor silu = zs_activation (e, e->ffn_bytes);
  zs_run (e, e->k.silu);
  zs_leave (e, layer->activation);
  layer->gate = zs_save (e, gate, layer->gate_grad);
  zs_drop (e, gate);
  zs_label_layer (e, layer, ZS_WHAT_UP);
  ZsTensor up = zs_linear_forward (e, &e->linears[ZS_UP], &layer->linears[ZS_UP], n2, layer->n2_grad,
                                   &layer->saved[ZS_UP], false);
  zs_label_layer (e, layer, ZS_WHAT_ACTIVATION);
  ZsTensor product = zs_activation (e, e->ffn_bytes);
  zs_run (e, e->k.product);
  layer->silu = zs_save (e, silu, layer->up_grad);
  layer->up = zs_save (e, up, layer->gate_grad);
  zs_drop (e, silu);
  zs_drop (e, up);
  return product;
}

static ZsTensor
mlp_block (ZsEmitter *e, ZsLayer *layer, ZsTensor n2, bool stop)
{
  zs_enter (e, layer->mlp);
  zs_plan_host (e->plan, ZS_HOST_NORM_BODY, 1);
  ZsTensor product = activate (e, layer, n2);
  zs_label_layer (e, layer, ZS_WHAT_DOWN);
  ZsTensor result = zs_linear_forward (e, &e->linears[ZS_DOWN], &layer->linears[ZS_DOWN], product,
                                       layer->gate_grad || layer->up_grad, &layer->saved[ZS_DOWN],
                                       stop);
  zs_drop (e, product);
  if (!stop)
    zs_leave (e, layer->mlp);
  return result;
}

/* Borrows X.  STOP: a recomputation that ends at the last saved tensor; the result is then none. */
ZsTensor
zs_layer_forward (ZsEmitter *e, ZsLayer *layer, ZsTensor x, bool stop)
{
  zs_label_layer (e, layer, ZS_WHAT_LAYER);
  zs_enter (e, layer->module);
  zs_plan_host (e->plan, ZS_HOST_LAYER_BODY, 1);
  zs_label_layer (e, layer, ZS_WHAT_INPUT_NORM);
  ZsTensor n1 = zs_norm_forward (e, &e->hidden_norm, x, layer->input_norm, layer->x_grad,
                                 &layer->input_saved);
  ZsTensor attended = attention_block (e, layer, n1);
  zs_drop (e, n1);
  zs_label_layer (e, layer, ZS_WHAT_RESIDUAL);
  ZsTensor middle = zs_activation (e, e->hidden);
  zs_run (e, e->k.residual);
  zs_drop (e, attended);
  zs_label_layer (e, layer, ZS_WHAT_POST_NORM);
  ZsTensor n2 = zs_norm_forward (e, &e->hidden_norm, middle, layer->post_norm, layer->mid_grad,
                                 &layer->post_saved);
  ZsTensor down = mlp_block (e, layer, n2, stop);
  zs_drop (e, n2);
  if (stop) {
    zs_drop (e, middle);
    zs_release (e, &layer->weights);
    return ZS_NO_TENSOR;
  }
  zs_label_layer (e, layer, ZS_WHAT_RESIDUAL);
  ZsTensor result = zs_new (e, e->hidden, ZS_CATEGORY_ACTIVATIONS);
  zs_run (e, e->k.residual);
  zs_drop (e, down);
  zs_drop (e, middle);
  zs_release (e, &layer->weights);
  zs_leave (e, layer->module);
  return result;
}

/* Under autocast a linear's output is 16-bit, and so is its share of the stream's gradient. */
static bool
narrow_gradient (ZsEmitter *e, ZsTensor *gradient)
{
  if (!e->weight_cast)
    return false;
  *gradient = zs_temporary (e, e->narrow_hidden);
  zs_run_back (e, e->k.stream_cast_back);
  return true;
}

static ZsGradient
mlp_backward (ZsEmitter *e, ZsLayer *layer, ZsTensor gradient)
{
  ZsGradient to_product = { ZS_NO_TENSOR, false }, to_n2 = { ZS_NO_TENSOR, false };
  bool product_grad = layer->gate_grad || layer->up_grad;
  ZsTensor to_up = ZS_NO_TENSOR, to_silu = ZS_NO_TENSOR, to_gate = ZS_NO_TENSOR;
  bool fused = zs_liger (e, ZS_LIGER_SWIGLU);

  zs_enter_back (e, layer->mlp);
  zs_label_layer (e, layer, ZS_WHAT_DOWN);
  bool narrow = narrow_gradient (e, &gradient);
  zs_linear_backward (e, &e->linears[ZS_DOWN], &layer->linears[ZS_DOWN], gradient, narrow, product_grad,
                      &layer->saved[ZS_DOWN], &to_product);
  if (!product_grad)
    return to_n2;
  zs_label_layer (e, layer, ZS_WHAT_ACTIVATION);
  if (fused) {
    zs_liger_swiglu_backward (e, layer, to_product.tensor, &to_gate, &to_up);
    to_product.tensor = ZS_NO_TENSOR;
  }
  if (layer->up_grad && !fused) {
    to_up = zs_temporary (e, e->ffn_bytes);
    zs_run_back (e, e->k.product_back);
  }
  if (layer->gate_grad && !fused) {
    to_silu = zs_temporary (e, e->ffn_bytes);
    zs_run_back (e, e->k.product_back);
  }
  if (e->popped) {
    zs_release (e, &layer->silu);
    zs_release (e, &layer->up);
  }
  zs_drop (e, to_product.tensor);
  zs_release (e, &layer->up);
  zs_release (e, &layer->silu);
  if (layer->up_grad) {
    zs_label_layer (e, layer, ZS_WHAT_UP);
    zs_linear_backward (e, &e->linears[ZS_UP], &layer->linears[ZS_UP], to_up, true, layer->n2_grad,
                        &layer->saved[ZS_UP], &to_n2);
  }
  if (layer->gate_grad && !fused) {
    zs_label_layer (e, layer, ZS_WHAT_ACTIVATION);
    zs_enter_back (e, layer->activation);
    to_gate = zs_temporary (e, e->ffn_bytes);
    zs_run_back (e, e->k.silu_back);
    if (e->popped)
      zs_release (e, &layer->gate);
    zs_drop (e, to_silu);
    zs_release (e, &layer->gate);
    zs_leave_back (e, layer->activation);
  }
  if (layer->gate_grad) {
    zs_label_layer (e, layer, ZS_WHAT_GATE);
    zs_linear_backward (e, &e->linears[ZS_GATE], &layer->linears[ZS_GATE], to_gate, true,
                        layer->n2_grad, &layer->saved[ZS_GATE], &to_n2);
  }
  zs_leave_back (e, layer->mlp);
  return to_n2;
}

/* Back through rotary is done; GRADIENT is that of the product's (or norm's) output.  Takes it. */
static void
project_backward (ZsEmitter *e, ZsLayer *layer, int which, ZsTensor gradient, ZsGradient *to_n1)
{
  int64_t bytes = which == ZS_Q ? e->q_bytes : e->kv_bytes;
  bool is_q = which == ZS_Q;

  if (e->model->shape.qk_norm) {
    zs_label_layer (e, layer, is_q ? ZS_WHAT_Q_NORM : ZS_WHAT_K_NORM);
    ZsGradient before = { ZS_NO_TENSOR, false };

    zs_norm_backward (e, is_q ? &e->q_norm : &e->k_norm, (ZsGradient) { gradient, true },
                      is_q ? layer->q_norm : layer->k_norm, true,
                      is_q ? &layer->q_norm_saved : &layer->k_norm_saved, NULL, &before);
    gradient = before.tensor;
  }
  zs_label_layer (e, layer, is_q ? ZS_WHAT_Q : ZS_WHAT_K);
  /* the gradient comes in the layout of [batch, heads, sequence, head_dim] */
  if (!zs_liger (e, ZS_LIGER_ROPE)
      && (is_q ? e->model->shape.n_heads : e->model->shape.n_kv_heads) > 1) {
    ZsTensor copy = zs_temporary (e, bytes);

    zs_run_back (e, is_q ? e->k.q_copy : e->k.k_copy);
    zs_drop (e, gradient);
    gradient = copy;
  }
  zs_linear_backward (e, &e->linears[which], &layer->linears[which], gradient, true, layer->n1_grad,
                      &layer->saved[which], to_n1);
}

static ZsGradient
attention_block_backward (ZsEmitter *e, ZsLayer *layer, ZsGradient gradient)
{
  ZsGradient to_out = { ZS_NO_TENSOR, false }, to_n1 = { ZS_NO_TENSOR, false };
  ZsTensor dq, dk, dv;

  zs_enter_back (e, layer->attention);
  zs_label_layer (e, layer, ZS_WHAT_O);
  ZsTensor share = gradient.tensor;
  bool narrow = narrow_gradient (e, &share);
  if (narrow && !layer->x_grad)
    zs_drop (e, gradient.tensor);
  zs_linear_backward (e, &e->linears[ZS_O], &layer->linears[ZS_O], share, narrow || !layer->x_grad,
                      layer->attention_grad, &layer->saved[ZS_O], &to_out);
  if (!layer->attention_grad)
    return to_n1;
  zs_label_layer (e, layer, ZS_WHAT_ATTENTION);
  attend_backward (e, layer, to_out.tensor, &dq, &dk, &dv);
  zs_label_layer (e, layer, ZS_WHAT_ROTARY);
  if (zs_liger (e, ZS_LIGER_ROPE)) {
    if (layer->q_grad || layer->k_grad)
      zs_liger_rope_backward (e, layer, &dq, &dk);
  } else if (layer->k_grad) {
    dk = zs_rotary_backward (e, layer, 1, dk);
  }
  if (!layer->k_grad)
    zs_release (e, &dk);
  if (!layer->q_grad)
    zs_release (e, &dq);
  else if (!zs_liger (e, ZS_LIGER_ROPE))
    dq = zs_rotary_backward (e, layer, 0, dq);
  if (layer->v_grad) {
    zs_label_layer (e, layer, ZS_WHAT_V);
    if (zs_gradient_by_head (e) && e->model->shape.n_kv_heads > 1) {
      ZsTensor copy = zs_temporary (e, e->kv_bytes);

      zs_run_back (e, e->k.k_copy);
      zs_drop (e, dv);
      dv = copy;
    }
    zs_linear_backward (e, &e->linears[ZS_V], &layer->linears[ZS_V], dv, true, layer->n1_grad,
                        &layer->saved[ZS_V], &to_n1);
  } else {
    zs_drop (e, dv);
  }
  if (layer->k_grad)
    project_backward (e, layer, ZS_K, dk, &to_n1);
  if (layer->q_grad)
    project_backward (e, layer, ZS_Q, dq, &to_n1);
  zs_leave_back (e, layer->attention);
  return to_n1;
}

/* Takes GRADIENT; the gradient of the layer's input, or none. */
ZsGradient
zs_layer_backward (ZsEmitter *e, ZsLayer *layer, ZsGradient gradient)
{
  zs_label_layer (e, layer, ZS_WHAT_LAYER);
  zs_enter_back (e, layer->module);
  ZsGradient to_n2 = mlp_backward (e, layer, gradient.tensor);
  if (to_n2.tensor != ZS_NO_TENSOR) {
    zs_label_layer (e, layer, ZS_WHAT_POST_NORM);
    zs_norm_backward (e, &e->hidden_norm, to_n2, layer->post_norm, layer->mid_grad, &layer->post_saved,
                      NULL, &gradient);
  }
  if (layer->mid_grad) {
    ZsGradient to_n1 = attention_block_backward (e, layer, gradient);

    if (!layer->x_grad)
      gradient.tensor = ZS_NO_TENSOR;   /* o_proj was the last to use it */

    if (to_n1.tensor != ZS_NO_TENSOR) {
      zs_label_layer (e, layer, ZS_WHAT_INPUT_NORM);
      zs_norm_backward (e, &e->hidden_norm, to_n1, layer->input_norm, layer->x_grad, &layer->input_saved,
                        layer, &gradient);
    }
  }
  zs_layer_forget (e, layer);
  if (!layer->x_grad)
    zs_release (e, &gradient.tensor);
  else
    zs_leave_back (e, layer->module);
  return gradient;
}

/* The checkpoint's frame goes: nothing of the layer is needed any more. */
void
zs_layer_forget (ZsEmitter *e, ZsLayer *layer)
{
  if (!e->popped)
    return;
  zs_release (e, &layer->frame_mask);
  zs_release (e, &layer->frame_sin);
  zs_release (e, &layer->frame_cos);
  zs_release (e, &layer->frame_positions);
  zs_release (e, &layer->input);
}
