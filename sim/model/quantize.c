/* quantize.c: the states of 4-bit weights.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/model/quantize.h"

enum { FP32 = 4, CODE = 16, SCALE_CODE = 256 };

static void
keep (ZsPlan *plan, int64_t bytes)
{
  zs_plan_alloc (plan, bytes, ZS_CATEGORY_PARAMETERS);
}

void
zs_load_quantized_states (ZsPlan *plan, const ZsModel *model)
{
  for (int32_t i = 0; i < model->n_parameters; i++) {
    const ZsParameter *parameter = &model->parameters[i];

    if (!parameter->quantized)
      continue;
    int64_t scales = zs_quantized_scales (parameter->elements * zs_dtype_bytes (parameter->dtype) * 2);

    if (model->double_quantized) {
      int64_t n = scales / FP32;

      keep (plan, n);
      keep (plan, (n + ZS_QUANTIZED_SCALES - 1) / ZS_QUANTIZED_SCALES * FP32);
      keep (plan, SCALE_CODE * FP32);
      keep (plan, FP32);   /* offset */
    } else {
      keep (plan, scales);
    }
    keep (plan, CODE * FP32);
  }
}
