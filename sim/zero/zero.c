/* zero.c: which engine a configuration gets.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/zero/stage12-hooks.h"
#include "sim/zero/stage3.h"
#include "sim/zero/zero.h"

static bool
fused (ZsDsOptimizer optimizer)
{
  return optimizer == ZS_DS_OPTIMIZER_FUSED_ADAM;
}

ZsWrapper
zs_zero_wrapper (const ZsZeroConfig *config)
{
  bool fp32_sums = config->grad_accum_dtype == ZS_DTYPE_FP32;

  switch (config->stage) {
  case 0:
    if (config->dtype == ZS_DTYPE_FP32)
      return ZS_WRAPPER_NONE;
    if (config->dtype == ZS_DTYPE_BF16
        && !zs_behaves (&config->versions, ZS_BEHAVIOUR_STAGE0_BF16_FP16_OPTIMIZER))
      return ZS_WRAPPER_BF16;
    return fused (config->optimizer) ? ZS_WRAPPER_FP16 : ZS_WRAPPER_FP16_UNFUSED;
  case 1:
    /* an optimizer on the CPU has no BF16_Optimizer */
    return config->dtype == ZS_DTYPE_BF16 && fp32_sums
               && config->offload_optimizer == ZS_DEVICE_NONE
             ? ZS_WRAPPER_BF16 : ZS_WRAPPER_STAGE12;
  case 2:
    return ZS_WRAPPER_STAGE12;
  default:
    return ZS_WRAPPER_STAGE3;
  }
}

ZsHooks *
zs_zero_hooks_new (const ZsModel *model, const ZsZeroConfig *config, const ZsStepShape *shape,
                   int64_t rank, ZsPlan *plan)
{
  switch (zs_zero_wrapper (config)) {
  case ZS_WRAPPER_NONE:
  case ZS_WRAPPER_FP16:
  case ZS_WRAPPER_FP16_UNFUSED:
    return zs_stage0_hooks_new (model, config, shape, rank, plan);
  case ZS_WRAPPER_BF16:
    return zs_bf16_optimizer_hooks_new (model, config, shape, rank, plan);
  case ZS_WRAPPER_STAGE12:
    return zs_stage12_hooks_new (model, config, shape, rank, plan);
  case ZS_WRAPPER_STAGE3:
  default:
    return zs_zero3_hooks_new (model, config, shape, rank, plan);
  }
}
