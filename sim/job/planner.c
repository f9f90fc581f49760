/* planner.c: the phases of a job, one chunk each.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/fsdp/fsdp.h"
#include "sim/job/job.h"
#include "sim/model/emit.h"
#include "sim/model/plain.h"
#include "sim/zero/zero.h"

#include "sim/base/digest.h"

typedef enum { STAGE_LOAD, STAGE_INIT, STAGE_FORWARD, STAGE_BACKWARD, STAGE_OPTIMIZER, STAGE_SAVE,
               STAGE_END } Stage;

struct ZsPlanner {
  ZsTraining training;
  ZsModel   *model;
  ZsPlan    *plan;
  ZsHooks   *hooks;
  ZsEmitter *emitter;
  Stage      stage;
  int64_t    rank;
  int        step, micro_step;
};

static ZsHooks *
make_hooks (ZsPlanner *planner, int64_t rank)
{
  const ZsTraining *training = &planner->training;

  switch (training->framework) {
  case ZS_FRAMEWORK_DEEPSPEED:
    return zs_zero_hooks_new (planner->model, &training->zero, &training->step, rank, planner->plan);
  case ZS_FRAMEWORK_DDP:
    return zs_ddp_hooks_new (planner->model, &training->ddp, &training->step, planner->plan);
  case ZS_FRAMEWORK_FSDP1:
  case ZS_FRAMEWORK_FSDP2:
    return zs_fsdp_hooks_new (planner->model, &training->fsdp, &training->step, rank, planner->plan);
  case ZS_FRAMEWORK_SINGLE:
    break;
  }
  return zs_plain_hooks_new (planner->model, &training->step, planner->plan);
}

/* Of all ranks in the first step, with padding; each is taken to have as many as the first. */
static int64_t
step_tokens (const ZsTraining *training)
{
  int64_t positions = 0;

  for (int i = 0; i < MAX (training->gradient_accumulation, 1); i++) {
    ZsMicroBatch micro_batch;

    zs_training_micro_batch (training, 0, 1, i, &micro_batch);
    positions += micro_batch.sequence;
  }
  return positions * training->step.micro_batch * MAX (training->world, 1);
}

ZsPlanner *
zs_planner_new (const ZsTraining *training, int64_t rank)
{
  ZsPlanner *planner = g_new0 (ZsPlanner, 1);

  planner->training = *training;
  planner->rank = rank;
  training = &planner->training;
  planner->training.step.step_tokens = step_tokens (training);
  if (training->framework == ZS_FRAMEWORK_DEEPSPEED)   /* module.bfloat16 () takes the buffers along */
    planner->training.step.cast_model
      = !zs_behaves (&training->zero.versions, ZS_BEHAVIOUR_ZERO_INIT_NOT_CAST)
        || (training->zero.stage == 3 && training->zero.zero_init);   /* recorded with 0.19.5 */
  if (training->framework == ZS_FRAMEWORK_FSDP1)   /* MixedPrecision's buffer_dtype */
    planner->training.step.cast_model = training->fsdp.compute_dtype != training->fsdp.parameter_dtype;
  bool fsdp = training->framework == ZS_FRAMEWORK_FSDP1 || training->framework == ZS_FRAMEWORK_FSDP2;
  if (fsdp && training->fsdp.compute_dtype != training->fsdp.parameter_dtype)   /* gathered in it */
    planner->training.step.lora.dtype = training->fsdp.compute_dtype;
  planner->model = zs_model_new (&training->shape, &training->step.lora, training->step.dtype,
                                 &training->step.versions);
  planner->plan = zs_plan_new ();
  planner->hooks = make_hooks (planner, rank);
  planner->emitter = zs_emitter_new (planner->model, &training->step, planner->hooks, planner->plan);
  planner->step = 1;
  return planner;
}

void
zs_planner_free (ZsPlanner *planner)
{
  if (planner == NULL)
    return;
  zs_emitter_free (planner->emitter);
  zs_hooks_free (planner->hooks);
  zs_plan_free (planner->plan);
  zs_model_free (planner->model);
  g_free (planner);
}

const ZsModel *
zs_planner_model (const ZsPlanner *planner)
{
  return planner->model;
}

const ZsPlan *
zs_planner_plan (const ZsPlanner *planner)
{
  return planner->plan;
}

/* The sum over the steps FIRST to LAST of what OF says about a micro-step of some length. */
static double
sum_of_steps (const ZsPlanner *planner, int first, int last, double (*of) (const ZsEmitter *, int64_t))
{
  const ZsTraining *training = &planner->training;
  int n = MAX (training->gradient_accumulation, 1);
  int64_t n_samplers = zs_training_samplers (training);
  double sum = 0;

  if (!zs_lengths_given (&training->lengths))
    return of (planner->emitter, training->step.sequence) * n * (last - first + 1);
  for (int64_t rank = 0; rank < n_samplers; rank++)
    for (int step = first; step <= last; step++)
      for (int micro_step = 0; micro_step < n; micro_step++) {
        ZsMicroBatch micro_batch;

        zs_training_micro_batch (training, rank, step, micro_step, &micro_batch);
        sum += of (planner->emitter, micro_batch.sequence);
      }
  return sum / (double) n_samplers;
}

double
zs_planner_model_flops (const ZsPlanner *planner, int first, int last)
{
  return sum_of_steps (planner, first, last, zs_emitter_model_flops);
}

double
zs_planner_hardware_flops (const ZsPlanner *planner, int first, int last)
{
  return sum_of_steps (planner, first, last, zs_emitter_hardware_flops);
}

static void
load (ZsPlanner *planner)
{
  bool first = planner->training.framework != ZS_FRAMEWORK_SINGLE
               || !planner->training.step.cast_model;

  if (first)
    zs_emit_inputs (planner->emitter);
  if (planner->hooks->load != NULL)
    planner->hooks->load (planner->hooks->self, planner->plan);
  if (!first)
    zs_emit_inputs (planner->emitter);
}

/* Emit the stage that is due and move on. */
static void
emit (ZsPlanner *planner)
{
  const ZsTraining *training = &planner->training;
  ZsPlan *plan = planner->plan;
  bool synchronize = training->synchronize_phases;
  int last = MAX (training->gradient_accumulation, 1) - 1;

  switch (planner->stage) {
  case STAGE_LOAD:
    zs_plan_phase (plan, ZS_PHASE_LOAD, 0, 0, synchronize);
    load (planner);
    planner->stage = STAGE_INIT;
    break;
  case STAGE_INIT:
    zs_plan_phase (plan, ZS_PHASE_INIT, 0, 0, synchronize);
    if (planner->hooks->init != NULL)
      planner->hooks->init (planner->hooks->self, plan);
    planner->stage = planner->step <= training->n_steps ? STAGE_FORWARD : STAGE_END;
    break;
  case STAGE_FORWARD:
    zs_plan_phase (plan, ZS_PHASE_FORWARD, planner->step, planner->micro_step, synchronize);
    if (zs_lengths_given (&training->lengths)) {
      ZsMicroBatch micro_batch;

      zs_training_micro_batch (training, planner->rank, planner->step, planner->micro_step, &micro_batch);
      zs_emitter_set_length (planner->emitter, micro_batch.sequence, micro_batch.padded);
    }
    zs_emit_forward (planner->emitter, planner->step, planner->micro_step, planner->micro_step == last);
    planner->stage = STAGE_BACKWARD;
    break;
  case STAGE_BACKWARD:
    zs_plan_phase (plan, ZS_PHASE_BACKWARD, planner->step, planner->micro_step, synchronize);
    zs_emit_backward (planner->emitter);
    planner->stage = planner->micro_step == last ? STAGE_OPTIMIZER : STAGE_FORWARD;
    planner->micro_step = planner->micro_step == last ? 0 : planner->micro_step + 1;
    break;
  case STAGE_OPTIMIZER:
    zs_plan_phase (plan, ZS_PHASE_OPTIMIZER, planner->step, 0, synchronize);
    planner->hooks->step (planner->hooks->self, plan, planner->step);
    if (training->step.new_inputs && training->step.keep_outputs)
      zs_emit_drop_outputs (planner->emitter);
    if (training->empty_cache_steps > 0 && planner->step % training->empty_cache_steps == 0)
      zs_plan_empty_cache (plan);
    planner->stage = planner->step++ < training->n_steps ? STAGE_FORWARD
                     : training->save                    ? STAGE_SAVE
                                                         : STAGE_END;
    break;
  case STAGE_SAVE:
    zs_plan_phase (plan, ZS_PHASE_SAVE, training->n_steps, 0, synchronize);
    if (planner->hooks->save != NULL)
      planner->hooks->save (planner->hooks->self, plan);
    planner->stage = STAGE_END;
    break;
  case STAGE_END:
    break;
  }
}

const ZsPlan *
zs_planner_next (ZsPlanner *planner)
{
  if (planner->stage == STAGE_END)
    return NULL;
  zs_plan_clear (planner->plan);
  emit (planner);
  zs_plan_emit (planner->plan, ZS_OP_END);
  return planner->plan;
}

/* ---- repetitions ---- */

void
zs_planner_place (const ZsPlanner *planner, ZsPlannerPlace *ret_place)
{
  int last = MAX (planner->training.gradient_accumulation, 1) - 1;
  int of_step = planner->training.n_steps - planner->step;

  *ret_place = (ZsPlannerPlace) { .step = planner->step, .micro_step = planner->micro_step,
                                  .forward = planner->stage == STAGE_FORWARD };
  if (planner->stage == STAGE_FORWARD) {
    ret_place->steps_left = planner->micro_step == 0 ? of_step + 1 : of_step;
    ret_place->micro_steps_left = last - planner->micro_step;
  } else if (planner->stage == STAGE_BACKWARD) {
    ret_place->steps_left = of_step;
    ret_place->micro_steps_left = MAX (last - planner->micro_step - 1, 0);
  } else if (planner->stage == STAGE_OPTIMIZER) {
    ret_place->steps_left = of_step;
  }
}

/* Which lengths come next.  (Those that are drawn never come again.) */
static uint64_t
add_lengths (const ZsPlanner *planner, uint64_t digest)
{
  const ZsTraining *training = &planner->training;
  int64_t number = (int64_t) (planner->step - 1) * MAX (training->gradient_accumulation, 1)
                   + planner->micro_step;

  return training->lengths.n_list > 0
           ? zs_digest_add (digest, (uint64_t) (number % training->lengths.n_list)) : digest;
}

uint64_t
zs_planner_digest (const ZsPlanner *planner, bool events)
{
  if (planner->hooks->digest == NULL || planner->training.lengths.mean > 0)
    return 0;
  uint64_t digest = zs_digest_add (planner->hooks->digest (planner->hooks->self, events), planner->stage);

  if (planner->training.empty_cache_steps > 0)
    digest = zs_digest_add (digest,
                            (uint64_t) (planner->step % planner->training.empty_cache_steps));
  digest = add_lengths (planner, digest);
  digest = zs_digest_add (digest, zs_emitter_digest (planner->emitter));
  return zs_digest_add (digest, zs_plan_digest (planner->plan, events));
}

void
zs_planner_skip (ZsPlanner *planner, int steps, int micro_steps)
{
  planner->step += steps;
  planner->micro_step += micro_steps;
  if (planner->stage == STAGE_FORWARD && planner->step > planner->training.n_steps)
    planner->stage = planner->training.save ? STAGE_SAVE : STAGE_END;
}
