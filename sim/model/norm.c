/* norm.c: RMSNorm as transformers writes it, in eager operators.  SPDX-License-Identifier: MIT
 *
 *   x32 = x.to (float32); variance = x32.pow (2).mean (-1); x32 = x32 * rsqrt (variance + eps)
 *   return weight * x32.to (dtype)
 *
 * Autograd holds x32 twice (for pow and for the product), rsqrt twice, the normalised 16-bit copy if
 * the weight trains.  With fp32 activations the casts do nothing and x itself is held. */
#include "config.h"

#include "sim/model/emit-internal.h"

static bool
weight_trains (const ZsEmitter *e, int32_t module)
{
  const ZsModule *norm = &e->model->modules[module];

  return e->model->parameters[norm->first_parameter].trainable || (norm->layer >= 0 && e->layers_train);
}

ZsTensor
zs_norm_forward (ZsEmitter *e, const ZsNormKind *kind, ZsTensor x, int32_t module, bool x_grad,
                 ZsNormSaved *saved)
{
  bool trains = weight_trains (e, module);
  ZsTensor x32, normal;

  if (zs_liger (e, ZS_LIGER_RMS_NORM))
    return zs_liger_norm_forward (e, kind, x, module, x_grad, trains, saved);

  zs_enter (e, module);
  zs_plan_host (e->plan, ZS_HOST_NORM_BODY, 1);
  if (e->upcast) {
    x32 = zs_activation (e, kind->bytes32);
    zs_run (e, kind->up);
  } else {
    x32 = zs_plan_ref (e->plan, x);
  }
  ZsTensor square = zs_temporary (e, kind->bytes32);
  zs_run (e, kind->square);
  ZsTensor mean = zs_temporary (e, kind->row_bytes);
  zs_run (e, kind->mean);
  zs_drop (e, square);
  ZsTensor shifted = zs_temporary (e, kind->row_bytes);
  zs_run (e, kind->epsilon);
  ZsTensor rsqrt = zs_activation (e, kind->row_bytes);
  zs_run (e, kind->rsqrt);
  zs_drop (e, shifted);
  ZsTensor scaled = zs_activation (e, kind->bytes32);
  zs_run (e, kind->scale);
  saved->x_square = zs_save (e, x32, x_grad);
  saved->x_scale = zs_save (e, x32, x_grad);
  saved->rsqrt = zs_save (e, rsqrt, x_grad);
  saved->rsqrt_scale = zs_save (e, rsqrt, x_grad);
  zs_drop (e, rsqrt);
  zs_drop (e, x32);
  if (e->upcast) {
    normal = zs_activation (e, kind->bytes);
    zs_run (e, kind->down);
  } else {
    normal = zs_plan_ref (e->plan, scaled);
  }
  ZsTensor result = zs_activation (e, kind->bytes);
  zs_run (e, kind->weight);
  saved->normal = zs_save (e, normal, trains);
  zs_drop (e, normal);
  zs_drop (e, scaled);
  zs_drop (e, mean);
  zs_leave (e, module);
  return result;
}

/* Gradient of the weight: a sum over rows, with ATen's staging buffer. */
static ZsTensor
sum_rows (ZsEmitter *e, const ZsNormKind *kind)
{
  ZsTensor result = zs_new (e, kind->weight_bytes, ZS_CATEGORY_GRADIENTS);

  if (kind->buffer_bytes > 0) {
    ZsTensor buffer = zs_new (e, kind->buffer_bytes, ZS_CATEGORY_WORKSPACE);
    ZsTensor semaphores = zs_new (e, kind->semaphore_bytes, ZS_CATEGORY_WORKSPACE);

    zs_run_back (e, kind->sum_dw);
    zs_drop (e, semaphores);
    zs_drop (e, buffer);
  } else {
    zs_run_back (e, kind->sum_dw);
  }
  return result;
}

/* x32 and rsqrt meet in a product; then pow, mean and rsqrt run back into x32's gradient. */
static void
input_gradient (ZsEmitter *e, const ZsNormKind *kind, ZsTensor gradient, ZsNormSaved *saved,
                ZsLayer *last_of, ZsGradient *ret_total)
{
  ZsTensor g32 = gradient;

  if (e->upcast) {
    g32 = zs_temporary (e, kind->bytes32);
    zs_run_back (e, kind->cast_up);
    zs_drop (e, gradient);
  }
  ZsTensor to_rsqrt = zs_temporary (e, kind->bytes32);
  zs_run_back (e, kind->multiply);
  ZsTensor total = zs_temporary (e, kind->bytes32);
  zs_run_back (e, kind->scale_back);
  if (e->popped) {
    zs_release (e, &saved->rsqrt_scale);
    zs_release (e, &saved->x_scale);
  }
  ZsTensor row = zs_temporary (e, kind->row_bytes);
  zs_run_back (e, kind->row_sum);
  zs_drop (e, to_rsqrt);
  zs_drop (e, g32);
  zs_release (e, &saved->rsqrt_scale);
  zs_release (e, &saved->x_scale);
  if (!e->upcast)   /* x32 is x: its gradients arrive one by one where the others do */
    *ret_total = zs_accumulate (e, *ret_total, (ZsGradient) { total, true }, kind->bytes, kind->add);

  ZsTensor cube = zs_temporary (e, kind->row_bytes);
  zs_run_back (e, kind->row_power);
  ZsTensor half = zs_temporary (e, kind->row_bytes);
  zs_run_back (e, kind->row_scale);
  ZsTensor row_gradient = zs_temporary (e, kind->row_bytes);
  zs_run_back (e, kind->row_multiply);
  zs_drop (e, half);
  zs_drop (e, cube);
  if (e->popped)
    zs_release (e, &saved->rsqrt);
  zs_drop (e, row);
  zs_release (e, &saved->rsqrt);

  ZsTensor expanded = zs_temporary (e, kind->bytes32);
  zs_run_back (e, kind->expand);
  zs_drop (e, row_gradient);
  ZsTensor power = zs_temporary (e, kind->bytes32);
  zs_run_back (e, kind->power);
  ZsTensor twice = zs_temporary (e, kind->bytes32);
  zs_run_back (e, kind->double_it);
  ZsTensor square_gradient = zs_temporary (e, kind->bytes32);
  zs_run_back (e, kind->grad);
  zs_drop (e, twice);
  zs_drop (e, power);
  if (e->popped)
    zs_release (e, &saved->x_square);
  zs_drop (e, expanded);
  zs_release (e, &saved->x_square);
  if (last_of != NULL)
    zs_layer_forget (e, last_of);
  if (!e->upcast) {
    *ret_total = zs_accumulate (e, *ret_total, (ZsGradient) { square_gradient, true }, kind->bytes, kind->add);
    return;
  }
  zs_run_back (e, kind->add);
  zs_drop (e, square_gradient);
  ZsTensor result = zs_temporary (e, kind->bytes);
  zs_run_back (e, kind->cast_down);
  zs_drop (e, total);
  *ret_total = zs_accumulate (e, *ret_total, (ZsGradient) { result, true }, kind->bytes, kind->residual);
}

/* Takes GRADIENT and adds that of x, if it needs one, to *TOTAL.  LAST_OF: the layer whose last saved
 * tensor this node drops, which ends its checkpoint. */
void
zs_norm_backward (ZsEmitter *e, const ZsNormKind *kind, ZsGradient gradient, int32_t module,
                  bool x_grad, ZsNormSaved *saved, ZsLayer *last_of, ZsGradient *total)
{
  const ZsModel *model = e->model;
  int32_t parameter = model->modules[module].first_parameter;
  bool trains = weight_trains (e, module);
  ZsTensor to_x = ZS_NO_TENSOR, product = ZS_NO_TENSOR, dw = ZS_NO_TENSOR;

  if (zs_liger (e, ZS_LIGER_RMS_NORM)) {
    zs_liger_norm_backward (e, kind, gradient, module, x_grad, trains, saved, last_of, total);
    return;
  }

  zs_enter_back (e, module);
  if (x_grad) {
    to_x = zs_temporary (e, kind->bytes);
    zs_run_back (e, kind->weight_dx);
  }
  if (trains) {
    product = zs_temporary (e, kind->bytes);
    zs_run_back (e, kind->weight_dw);
    if (e->popped)
      zs_release (e, &saved->normal);
    dw = sum_rows (e, kind);
    zs_drop (e, product);
  }
  zs_drop (e, gradient.tensor);
  zs_release (e, &saved->normal);
  if (dw != ZS_NO_TENSOR)
    zs_give_gradient (e, parameter, dw);
  if (x_grad)
    input_gradient (e, kind, to_x, saved, last_of, total);
  else if (last_of != NULL)
    zs_layer_forget (e, last_of);
  zs_leave_back (e, module);
}
