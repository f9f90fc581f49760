/* stage3.h: DeepSpeed's ZeRO stage 3 as hooks around a model's step.
 * SPDX-License-Identifier: MIT
 *
 * deepspeed/runtime/zero/: partition_parameters.py (zero.Init, gathers), stage3.py (gradients, step,
 * offload), partitioned_param_coordinator.py (what is gathered when, see coordinator.h).  The order and
 * the sizes of allocations follow recorded histories of 0.14.4 and 0.19.5 (one H200, torch 2.11).
 *
 * Streams: gathers on ZS_STREAM_ALL_GATHER and reductions on ZS_STREAM_REDUCE with overlap_comm, all on
 * ZS_STREAM_COMPUTE without.
 */
#pragma once

#include "sim/model/hooks.h"
#include "sim/zero/config.h"

/* Numbers of communicators in a plan of stage 3.  The run knows their ranks. */
typedef enum {
  ZS_ZERO3_COMM_WORLD,      /* gathers; reductions too from 0.19.3 */
  ZS_ZERO3_COMM_CLONE,      /* all ranks again: reductions until 0.19.2 */
  ZS_ZERO3_COMM_NODE,       /* consecutive ranks: hpZ's group, a MiCS shard group, qgZ within a node */
  ZS_ZERO3_COMM_ACROSS,     /* ranks with the same place in their NODE groups */
} ZsZero3Communicator;

/* Hooks of RANK.  MODEL must outlive them; CONFIG and SHAPE are copied.  PLAN may be NULL: the hooks
 * keep no plan of their own.  Free with hooks->free (hooks->self). */
ZsHooks *zs_zero3_hooks_new (const ZsModel *model, const ZsZeroConfig *config,
                             const ZsStepShape *shape, int64_t rank,
                             ZsPlan *plan) G_GNUC_WARN_UNUSED_RESULT;

/* Elements of the own shard of a parameter of ELEMENTS over WORLD ranks: the last ranks' are padded. */
static inline int64_t
zs_zero3_shard (int64_t elements, int64_t world)
{
  return (elements + world - 1) / world;
}
