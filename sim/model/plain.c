/* plain.c: a model on one GPU and torch.optim.  SPDX-License-Identifier: MIT
 *
 * The model is built on the GPU in its dtype (parameters in the order of the constructors, the rotary
 * module's frequencies among them), or moved there after a cast.  The first gradient of a parameter
 * becomes its .grad; later ones are added in place. */
#include "config.h"

#include "sim/model/optimizer.h"
#include "sim/model/plain.h"
#include "sim/model/quantize.h"

#include "sim/base/digest.h"

typedef struct {
  ZsHooks        hooks;
  const ZsModel *model;
  ZsStepShape    shape;
  ZsPlan        *plan;
  ZsTensor      *weights, *gradients;    /* by parameter */
  ZsTorchOptimizer *optimizer;
  uint32_t       label;
  uint32_t      *add_kernels;            /* .grad += */
} Plain;

static ZsTensor
frequencies (Plain *plain)
{
  int64_t half = plain->model->shape.head_dim / 2;

  return zs_plan_alloc (plain->plan, half * (plain->shape.cast_model ? zs_dtype_bytes (plain->shape.dtype) : 4),
                        ZS_CATEGORY_INPUT);
}

/* inv_freq and original_inv_freq; built on the GPU they leave temporaries. */
static void
load_rotary (Plain *plain)
{
  ZsPlan *plan = plain->plan;

  if (plain->shape.cast_model) {
    frequencies (plain);
    frequencies (plain);
    return;
  }
  ZsTensor range = frequencies (plain), wide = frequencies (plain);
  zs_plan_unref (plan, range);
  ZsTensor exponent = frequencies (plain);
  ZsTensor base = zs_plan_alloc (plan, 8, ZS_CATEGORY_TEMPORARY);
  zs_plan_unref (plan, base);
  zs_plan_unref (plan, wide);
  ZsTensor power = frequencies (plain);
  frequencies (plain);   /* inv_freq */
  zs_plan_unref (plan, power);
  zs_plan_unref (plan, exponent);
  frequencies (plain);   /* original_inv_freq */
}

static void
load (void *self, ZsPlan *plan)
{
  Plain *plain = self;
  const ZsModel *model = plain->model;

  zs_plan_set_label (plan, plain->label);
  for (int32_t i = 0; i < model->n_parameters; i++) {
    const ZsParameter *parameter = &model->parameters[i];

    if (zs_parameter_is_added (model, i))
      continue;
    plain->weights[i] = zs_plan_alloc (plan, parameter->elements * zs_dtype_bytes (parameter->dtype),
                                       ZS_CATEGORY_PARAMETERS);
    if (model->modules[parameter->module].kind == ZS_MODULE_FINAL_NORM)
      load_rotary (plain);
  }
  zs_load_quantized_states (plan, model);
  if (model->shape.tied_embeddings && !plain->shape.cast_model)   /* made, then tied and dropped */
    zs_plan_unref (plan, zs_plan_alloc (plan, model->parameters[0].elements
                                                * zs_dtype_bytes (model->parameters[0].dtype),
                                        ZS_CATEGORY_PARAMETERS));
}

/* peft: adapters are made in the base's dtype, and cast to fp32 at the end. */
static void
init (void *self, ZsPlan *plan)
{
  Plain *plain = self;
  const ZsModel *model = plain->model;
  int64_t base = zs_dtype_bytes (model->parameters[0].dtype);

  zs_plan_set_label (plan, plain->label);
  for (int32_t i = 0; i < model->n_parameters; i++)
    if (zs_parameter_is_added (model, i))
      plain->weights[i] = zs_plan_alloc (plan, model->parameters[i].elements * base,
                                         ZS_CATEGORY_PARAMETERS);
  for (int32_t i = 0; i < model->n_parameters; i++) {
    int64_t wanted = zs_dtype_bytes (model->parameters[i].dtype);

    if (!zs_parameter_is_adapter (model, i) || wanted == base)
      continue;
    ZsTensor cast = zs_plan_alloc (plan, model->parameters[i].elements * wanted, ZS_CATEGORY_PARAMETERS);
    zs_plan_unref (plan, plain->weights[i]);
    plain->weights[i] = cast;
  }
}

static void
gradient (void *self, ZsPlan *plan, int32_t parameter, ZsTensor tensor)
{
  Plain *plain = self;

  if (plain->gradients[parameter] == ZS_NO_TENSOR) {
    plain->gradients[parameter] = tensor;
    return;
  }
  zs_plan_launch (plan, plain->add_kernels[parameter]);
  zs_plan_unref (plan, tensor);
}

void
zs_plain_drop_gradient (ZsHooks *hooks, int32_t parameter)
{
  Plain *plain = hooks->self;

  zs_plan_unref (plain->plan, plain->gradients[parameter]);
  plain->gradients[parameter] = ZS_NO_TENSOR;
}

static ZsTensor
weight (void *self, int32_t parameter)
{
  return ((Plain *) self)->weights[parameter];
}

static void
step (void *self, ZsPlan *plan, int number)
{
  Plain *plain = self;

  (void) number;
  if (plain->shape.clip)
    zs_torch_optimizer_clip (plain->optimizer);
  zs_torch_optimizer_step (plain->optimizer);
  zs_torch_optimizer_zero_grad (plain->optimizer);
  for (int32_t i = 0; i < plain->model->n_parameters; i++) {
    zs_plan_unref (plan, plain->gradients[i]);
    plain->gradients[i] = ZS_NO_TENSOR;
  }
}

static void
free_plain (void *self)
{
  Plain *plain = self;

  g_free (plain->weights);
  g_free (plain->gradients);
  g_free (plain->add_kernels);
  zs_torch_optimizer_free (plain->optimizer);
  g_free (plain);
}

static uint64_t
plain_digest (const void *self, bool events G_GNUC_UNUSED)
{
  const Plain *plain = self;
  int32_t n = plain->model->n_parameters;
  uint64_t digest = zs_digest_items (zs_torch_optimizer_digest (plain->optimizer), plain, 1);

  digest = zs_digest_items (digest, plain->weights, n);
  return zs_digest_items (digest, plain->gradients, n);
}

ZsHooks *
zs_plain_hooks_new (const ZsModel *model, const ZsStepShape *shape, ZsPlan *plan)
{
  Plain *plain = g_new0 (Plain, 1);
  gsize n = (gsize) model->n_parameters;
  g_autofree ZsOptimizerTensor *tensors = g_new (ZsOptimizerTensor, n);
  int trained = 0;

  plain->model = model;
  plain->shape = *shape;
  plain->plan = plan;
  plain->weights = g_new (ZsTensor, n);
  plain->gradients = g_new (ZsTensor, n);
  plain->add_kernels = g_new0 (uint32_t, n);
  plain->label = zs_plan_label (plan, -1, "model");
  for (gsize i = 0; i < n; i++) {
    const ZsParameter *parameter = &model->parameters[i];
    int64_t element = zs_dtype_bytes (parameter->dtype);

    plain->weights[i] = plain->gradients[i] = ZS_NO_TENSOR;
    if (!parameter->trainable)
      continue;
    tensors[trained++] = (ZsOptimizerTensor) {
      .elements = parameter->elements, .columns = parameter->columns, .dtype = parameter->dtype,
      .group = shape->optimizer_groups == 2 && parameter->columns == 1,
      .embedding = zs_parameter_is_embedding (model, (int32_t) i),
      .idle = zs_idle_elements (model, shape, (int32_t) i, parameter->elements),
    };
    ZsKernel kernel = { .kind = ZS_KERNEL_ELEMENTWISE, .launch = ZS_LAUNCH_AUTOGRAD,
                        .element_bytes = (uint8_t) element, .n = parameter->elements,
                        .bytes = parameter->elements * 3 * element,
                        .flops = (double) parameter->elements, .name = "accumulate gradient" };
    plain->add_kernels[i] = zs_plan_kernel (plan, &kernel);
  }
  plain->optimizer = zs_torch_optimizer_new (plan, shape->optimizer, shape->sm_count, trained, tensors);
  plain->hooks = (ZsHooks) { .self = plain, .load = load, .init = init, .gradient = gradient,
                             .weight = weight, .step = step, .digest = plain_digest,
                             .free = free_plain };
  return &plain->hooks;
}

void
zs_hooks_free (ZsHooks *hooks)
{
  if (hooks != NULL && hooks->free != NULL)
    hooks->free (hooks->self);
}
