/* job.h: everything there is to know about one run, typed: what sim/scenario makes of a person's files.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/fsdp/config.h"
#include "sim/hardware/gpu.h"
#include "sim/job/lengths.h"
#include "sim/model/ddp.h"
#include "sim/model/hooks.h"
#include "sim/zero/config.h"

typedef enum {
  ZS_FRAMEWORK_SINGLE,      /* plain PyTorch on one GPU */
  ZS_FRAMEWORK_DDP,
  ZS_FRAMEWORK_DEEPSPEED,
  ZS_FRAMEWORK_FSDP1,
  ZS_FRAMEWORK_FSDP2,
} ZsFramework;

typedef struct {
  ZsFramework  framework;
  ZsModelShape shape;
  ZsStepShape  step;        /* its sequence is the longest, where lengths vary */
  ZsLengths    lengths;
  ZsZeroConfig zero;        /* framework DEEPSPEED */
  ZsDdpConfig  ddp;         /* DDP */
  ZsFsdpConfig fsdp;        /* FSDP1, FSDP2 */
  int          n_steps;
  int          gradient_accumulation;
  int64_t      world;
  bool         synchronize_phases;   /* a device synchronisation around each phase, as the measured
                                        runs had; a real job has none */
  int          empty_cache_steps;    /* torch.cuda.empty_cache () after every so many steps; 0: never */
  bool         save;                 /* the model is saved after the last step */
} ZsTraining;

/* How busy a step's kernels keep the tensor cores of GPU, at full clock: what the power limit depends on
 * (ZsPace).  -1: not known for this GPU and these versions. */
double zs_training_tensor_share (const ZsTraining *training, const ZsGpu *gpu);

/* The plan of one rank, chunk by chunk. */
typedef struct ZsPlanner ZsPlanner;

ZsPlanner *zs_planner_new  (const ZsTraining *training, int64_t rank) G_GNUC_WARN_UNUSED_RESULT;
void       zs_planner_free (ZsPlanner *planner);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsPlanner, zs_planner_free)

/* The next phase's instructions (load, init, then forward and backward per micro-step, optimizer; save);
 * NULL at the end.  The plan belongs to the planner and is valid until the next call. */
const ZsPlan *zs_planner_next (ZsPlanner *planner);

/* ---- repetitions ---- */

/* Where a planner stands: the next phase that it will make is of this step and micro-step. */
typedef struct {
  int  step, micro_step;
  bool forward;             /* the next phase is a forward: one that a step or micro-step begins with */
  int  steps_left;          /* whole ones, that have not begun */
  int  micro_steps_left;    /* of this step, that are still to come before its last one; 0 where the
                               next phase is no part of a micro-step */
} ZsPlannerPlace;
void zs_planner_place (const ZsPlanner *planner, ZsPlannerPlace *ret_place);
/* A number for all that the rest of the plan depends on, but for the numbers of step and micro-step:
 * where it is the same at two places, the same instructions follow, up to the end of the shorter
 * rest.  Without EVENTS, which is enough where all events so far have completed, the numbers of events
 * may differ.  0: not known. */
uint64_t zs_planner_digest (const ZsPlanner *planner, bool events);
/* Leave out so many steps, at a forward of micro-step 0, or so many micro-steps: the plan goes on as
 * if they had been made.  No more than the place says are left. */
void zs_planner_skip (ZsPlanner *planner, int steps, int micro_steps);

const ZsModel *zs_planner_model (const ZsPlanner *planner);
/* The plan itself, for its tables; its instructions are those of the last zs_planner_next (). */
const ZsPlan *zs_planner_plan (const ZsPlanner *planner);
/* Model and hardware (with recomputation) floating point operations of the steps FIRST to LAST of one
 * rank; where each has its own micro-batches, the mean. */
double zs_planner_model_flops    (const ZsPlanner *planner, int first, int last);
double zs_planner_hardware_flops (const ZsPlanner *planner, int first, int last);
/* Tokens of one rank in these steps, with and without padding; where each has its own, the mean. */
int64_t zs_training_tokens (const ZsTraining *training, int first, int last, bool padding);
/* Micro-batch MICRO_STEP of STEP (from 1) of RANK. */
void zs_training_micro_batch (const ZsTraining *training, int64_t rank, int step, int micro_step,
                              ZsMicroBatch *ret_micro_batch);
/* How many ranks have micro-batches that differ: 1 or the world. */
int64_t zs_training_samplers (const ZsTraining *training);
