/* liger.c: Liger's RMSNorm, SwiGLU and rotary embedding.  SPDX-License-Identifier: MIT
 *
 * Each is an autograd function of Python around one Triton kernel.
 *
 * RMSNorm holds its input and 1 / rms of each row in fp32; backward writes the input's gradient over the
 * output's, and makes the weight's gradient, trained or not, from an fp32 sum of each SM.
 * SwiGLU holds gate and up, and backward writes their gradients over them.
 * Rotary turns q and k where they are, and back; it holds cos and sin.
 * Source: liger_kernel/ops/rms_norm.py, swiglu.py, rope.py. */
#include "config.h"

#include "sim/model/emit-internal.h"

ZsTensor
zs_liger_norm_forward (ZsEmitter *e, const ZsNormKind *kind, ZsTensor x, int32_t module, bool x_grad,
                       bool trains, ZsNormSaved *saved)
{
  bool needed = x_grad || trains;

  zs_enter (e, module);
  zs_plan_host (e->plan, ZS_HOST_NORM_BODY, 1);
  ZsTensor result = zs_activation (e, kind->bytes);
  ZsTensor rstd = zs_activation (e, kind->row_bytes);
  zs_run (e, kind->fused);
  saved->x_scale = zs_save (e, x, needed);
  saved->rsqrt = zs_save (e, rstd, needed);
  e->n_saved += needed;   /* the weight, which somebody else holds */
  zs_drop (e, rstd);
  zs_leave (e, module);
  return result;
}

/* Takes GRADIENT, which becomes that of the input. */
void
zs_liger_norm_backward (ZsEmitter *e, const ZsNormKind *kind, ZsGradient gradient, int32_t module,
                        bool x_grad, bool trains, ZsNormSaved *saved, ZsLayer *last_of, ZsGradient *total)
{
  bool hooked = e->hooks->linear_saves_no_weight || e->hooks->after_backward != NULL;

  zs_enter_back (e, module);
  ZsTensor partial = zs_temporary (e, kind->partial_bytes);
  zs_run_back (e, kind->fused_back);
  ZsTensor dw = zs_new (e, kind->column_bytes, trains ? ZS_CATEGORY_GRADIENTS : ZS_CATEGORY_TEMPORARY);
  zs_run_back (e, kind->sum_partials);
  if (kind->weight_bytes != kind->column_bytes) {
    ZsTensor narrow = zs_new (e, kind->weight_bytes, trains ? ZS_CATEGORY_GRADIENTS : ZS_CATEGORY_TEMPORARY);

    zs_run_back (e, kind->cast_sum);
    zs_drop (e, dw);
    dw = narrow;
  }
  zs_drop (e, partial);
  zs_release (e, &saved->x_scale);
  zs_release (e, &saved->rsqrt);
  if (last_of != NULL)
    zs_layer_forget (e, last_of);
  ZsGradient to_x = { gradient.tensor, true };
  if (x_grad && !hooked)
    *total = zs_accumulate (e, *total, to_x, kind->bytes, kind->residual);
  if (trains)
    zs_give_gradient (e, e->model->modules[module].first_parameter, dw);
  else
    zs_drop (e, dw);
  if (!x_grad)
    zs_drop (e, gradient.tensor);
  zs_leave_back (e, module);
  if (x_grad && hooked)
    *total = zs_accumulate (e, *total, to_x, kind->bytes, kind->residual);
}

/* Takes GATE and UP. */
ZsTensor
zs_liger_swiglu_forward (ZsEmitter *e, ZsLayer *layer, ZsTensor gate, ZsTensor up)
{
  bool needed = layer->gate_grad || layer->up_grad;

  zs_label_layer (e, layer, ZS_WHAT_ACTIVATION);
  ZsTensor product = zs_activation (e, e->ffn_bytes);
  zs_run (e, e->k.swiglu);
  layer->gate = zs_save (e, gate, needed);
  layer->up = zs_save (e, up, needed);
  zs_drop (e, gate);
  zs_drop (e, up);
  return product;
}

/* Takes GRADIENT. */
void
zs_liger_swiglu_backward (ZsEmitter *e, ZsLayer *layer, ZsTensor gradient, ZsTensor *ret_gate, ZsTensor *ret_up)
{
  zs_run_back (e, e->k.swiglu_back);
  *ret_gate = layer->gate;
  *ret_up = layer->up;
  layer->gate = layer->up = ZS_NO_TENSOR;
  if (!layer->gate_grad)
    zs_release (e, ret_gate);
  if (!layer->up_grad)
    zs_release (e, ret_up);
  zs_drop (e, gradient);
}

void
zs_liger_rope_forward (ZsEmitter *e, ZsLayer *layer)
{
  bool needed = layer->q_grad || layer->k_grad;

  zs_run (e, e->k.rope);
  layer->cos[0] = zs_save (e, e->cos, needed);
  layer->sin[0] = zs_save (e, e->sin, needed);
}

/* Takes *DQ and *DK and sets them anew. */
void
zs_liger_rope_backward (ZsEmitter *e, ZsLayer *layer, ZsTensor *dq, ZsTensor *dk)
{
  if (zs_gradient_by_head (e)) {   /* transpose (1, 2).contiguous () */
    ZsTensor q = *dq, k = *dk;

    *dq = zs_temporary (e, e->q_bytes);
    zs_run_back (e, e->k.q_copy);
    *dk = zs_temporary (e, e->kv_bytes);
    zs_run_back (e, e->k.k_copy);
    zs_run_back (e, e->k.rope_back);
    zs_drop (e, q);
    zs_drop (e, k);
  } else {
    zs_run_back (e, e->k.rope_back);
  }
  zs_release (e, &layer->cos[0]);
  zs_release (e, &layer->sin[0]);
}
