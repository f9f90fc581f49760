/* load.c: the model on the GPU.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/zero/load.h"
#include "sim/zero/torch-ops.h"

static bool
is_adapter (const ZsModel *model, int32_t parameter)
{
  ZsModuleKind kind = model->modules[model->parameters[parameter].module].kind;

  return kind == ZS_MODULE_LORA_A || kind == ZS_MODULE_LORA_B;
}

void
zs_zero_load_model (ZsPlan *plan, const ZsModel *model, ZsTensor *storage)
{
  uint32_t label = zs_plan_set_label (plan, zs_plan_label (plan, -1, "load model"));

  for (int32_t p = 0; p < model->n_parameters; p++) {
    const ZsParameter *parameter = &model->parameters[p];
    int64_t bytes = is_adapter (model, p) ? 4 : zs_dtype_bytes (parameter->dtype);

    storage[p] = zs_plan_alloc (plan, bytes * parameter->elements, ZS_CATEGORY_PARAMETERS);
    zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, bytes * parameter->elements, ZS_FLAG_BLOCKING);
  }
  zs_plan_set_label (plan, label);
}

void
zs_zero_cast_model (ZsPlan *plan, const ZsModel *model, ZsTensor *storage)
{
  for (int32_t p = 0; p < model->n_parameters; p++) {
    const ZsParameter *parameter = &model->parameters[p];
    int bytes = (int) zs_dtype_bytes (parameter->dtype);

    if (!is_adapter (model, p) || bytes == 4)
      continue;
    ZsTensor cast = zs_plan_alloc (plan, bytes * parameter->elements, ZS_CATEGORY_PARAMETERS);

    zs_torch_copy (plan, ZS_WORK_OPTIMIZER, parameter->elements, 4, bytes, "cast adapter");
    zs_plan_unref (plan, storage[p]);
    storage[p] = cast;
  }
}
