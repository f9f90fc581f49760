/* load.c: the model on the GPU.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/model/quantize.h"
#include "sim/zero/load.h"
#include "sim/zero/torch-ops.h"

/* 1 / base ^ (arange / dim), with its temporaries; read off recorded histories. */
static void
load_rotary (ZsPlan *plan, const ZsModel *model, ZsRotaryBuffers *rotary)
{
  int64_t bytes = 4 * (model->shape.head_dim / 2);
  ZsTensor range, wide, exponent, base, power;

  if (bytes == 0)
    return;
  range = zs_plan_alloc (plan, bytes, ZS_CATEGORY_INPUT);
  wide = zs_plan_alloc (plan, bytes, ZS_CATEGORY_INPUT);
  zs_plan_unref (plan, range);
  exponent = zs_plan_alloc (plan, bytes, ZS_CATEGORY_INPUT);
  base = zs_plan_alloc (plan, 8, ZS_CATEGORY_INPUT);
  zs_plan_unref (plan, base);
  zs_plan_unref (plan, wide);
  power = zs_plan_alloc (plan, bytes, ZS_CATEGORY_INPUT);
  rotary->frequencies[0] = zs_plan_alloc (plan, bytes, ZS_CATEGORY_INPUT);
  zs_plan_unref (plan, power);
  zs_plan_unref (plan, exponent);
  rotary->frequencies[1] = zs_plan_alloc (plan, bytes, ZS_CATEGORY_INPUT);
}

static void
load_parameter (ZsPlan *plan, const ZsModel *model, int32_t p, ZsTensor *storage)
{
  const ZsParameter *parameter = &model->parameters[p];
  int64_t bytes = parameter->elements * zs_dtype_bytes (parameter->dtype);

  storage[p] = zs_plan_alloc (plan, bytes, ZS_CATEGORY_PARAMETERS);
  zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, bytes, ZS_FLAG_BLOCKING);
}

static void
convert (ZsPlan *plan, const ZsModel *model, int32_t p, int from, int to, ZsTensor *storage)
{
  int64_t elements = model->parameters[p].elements;
  ZsTensor cast = zs_plan_alloc (plan, to * elements, ZS_CATEGORY_PARAMETERS);

  zs_torch_copy (plan, ZS_WORK_OPTIMIZER, elements, from, to, "cast adapter");
  zs_plan_unref (plan, storage[p]);
  storage[p] = cast;
}

void
zs_zero_load_model (ZsPlan *plan, const ZsModel *model, ZsTensor *storage,
                    ZsRotaryBuffers *ret_rotary)
{
  uint32_t label = zs_plan_set_label (plan, zs_plan_label (plan, -1, "load model"));

  *ret_rotary = (ZsRotaryBuffers) { { ZS_NO_TENSOR, ZS_NO_TENSOR } };
  for (int32_t p = 0; p < model->n_parameters; p++)
    if (!zs_parameter_is_added (model, p)) {
      load_parameter (plan, model, p, storage);
      if (model->modules[model->parameters[p].module].kind == ZS_MODULE_FINAL_NORM)
        load_rotary (plan, model, ret_rotary);
    }
  if (model->shape.tied_embeddings && model->n_parameters > 0) {
    /* lm_head is built before it is tied to the embedding */
    int64_t bytes = model->shape.vocabulary * model->shape.hidden
                    * zs_dtype_bytes (model->parameters[0].dtype);

    zs_plan_unref (plan, zs_plan_alloc (plan, bytes, ZS_CATEGORY_PARAMETERS));
  }
  zs_load_quantized_states (plan, model);
  for (int32_t p = 0; p < model->n_parameters; p++)
    if (zs_parameter_is_added (model, p))
      load_parameter (plan, model, p, storage);
  for (int32_t p = 0; p < model->n_parameters; p++)
    if (zs_parameter_is_adapter (model, p) && zs_dtype_bytes (model->parameters[p].dtype) == 2)
      convert (plan, model, p, 2, 4, storage);
  zs_plan_set_label (plan, label);
}

void
zs_zero_cast_model (ZsPlan *plan, const ZsModel *model, const ZsVersions *versions, ZsDtype dtype,
                    ZsTensor *storage, ZsRotaryBuffers *rotary)
{
  for (int32_t p = 0; p < model->n_parameters; p++)
    if (zs_parameter_is_adapter (model, p) && zs_dtype_bytes (model->parameters[p].dtype) == 2)
      convert (plan, model, p, 4, 2, storage);
  if (zs_dtype_bytes (dtype) == 4 || zs_behaves (versions, ZS_BEHAVIOUR_ZERO_INIT_NOT_CAST)
      || rotary->frequencies[0] == ZS_NO_TENSOR)
    return;
  int64_t bytes = 2 * (model->shape.head_dim / 2);
  ZsTensor cast = zs_plan_alloc (plan, bytes, ZS_CATEGORY_INPUT);

  zs_plan_unref (plan, rotary->frequencies[0]);
  rotary->frequencies[0] = cast;
  /* the module goes on holding the second one's fp32 original */
  zs_plan_alloc (plan, bytes, ZS_CATEGORY_INPUT);
}
