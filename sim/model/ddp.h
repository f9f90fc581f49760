/* ddp.h: DistributedDataParallel.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/model/hooks.h"

/* Arguments of DistributedDataParallel (torch/nn/parallel/distributed.py). */
typedef struct {
  bool    find_unused_parameters;    /* the buckets are never rebuilt */
  bool    gradient_as_bucket_view;   /* .grad is a view of the bucket */
  int64_t bucket_cap;                /* bytes; 0: the first bucket 1 MiB, the others 25 MiB */
} ZsDdpConfig;

/* The plain loop under DistributedDataParallel.  MODEL and PLAN are borrowed. */
ZsHooks *zs_ddp_hooks_new (const ZsModel *model, const ZsDdpConfig *config, const ZsStepShape *shape,
                           ZsPlan *plan) G_GNUC_WARN_UNUSED_RESULT;
