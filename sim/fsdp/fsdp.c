/* fsdp.c: the two versions of FSDP.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/fsdp/fsdp.h"
#include "sim/fsdp/fsdp1.h"
#include "sim/fsdp/fsdp2.h"

ZsHooks *
zs_fsdp_hooks_new (const ZsModel *model, const ZsFsdpConfig *config, const ZsStepShape *shape,
                   int64_t rank, ZsPlan *plan)
{
  if (config->version == 1)
    return zs_fsdp1_hooks_new (model, config, shape, rank, plan);
  return zs_fsdp2_hooks_new (model, config, shape, rank, plan);
}
