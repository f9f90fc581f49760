/* training.c: the plans of a training job as the work of a run.
 * SPDX-License-Identifier: MIT
 *
 * Which ranks have equal plans is known from the framework: without sharding, and in ZeRO-3 (every
 * tensor is cut into equal, padded shards), all have.  In ZeRO-1 and ZeRO-2 each rank owns other
 * tensors.  FSDP2 cuts the first dimension, so shards are equal if it divides by the ranks; else
 * plans are compared.
 */
#include "config.h"

#include "sim/run/training.h"

#include "sim/zero/partition.h"

/* A job, and what ZeRO-1/2 ranks own, computed when somebody asks. */
typedef struct {
  const ZsTraining *training;
  int64_t *own_elements;           /* by rank */
} Job;

static const ZsPlan *
next_chunk (void *self)
{
  return zs_planner_next (self);
}

static void
free_planner (void *self)
{
  zs_planner_free (self);
}

static double
model_flops (void *self, int first, int last)
{
  return zs_planner_model_flops (self, first, last);
}

static double
hardware_flops (void *self, int first, int last)
{
  return zs_planner_hardware_flops (self, first, last);
}

static void
planner_place (void *self, ZsPlannerPlace *ret_place)
{
  zs_planner_place (self, ret_place);
}

static uint64_t
planner_digest (void *self, bool events)
{
  return zs_planner_digest (self, events);
}

static void
planner_skip (void *self, int steps, int micro_steps)
{
  zs_planner_skip (self, steps, micro_steps);
}

static ZsPlanSource
open_planner (void *self, int64_t rank)
{
  const Job *job = self;

  return (ZsPlanSource) { .self = zs_planner_new (job->training, rank), .next = next_chunk,
                          .free = free_planner, .model_flops = model_flops,
                          .hardware_flops = hardware_flops, .place = planner_place,
                          .digest = planner_digest, .skip = planner_skip };
}

static int64_t
tokens (void *self, int first, int last, bool padding)
{
  return zs_training_tokens (((const Job *) self)->training, first, last, padding);
}

static int64_t
one_plan (void *self G_GNUC_UNUSED, int64_t rank G_GNUC_UNUSED)
{
  return 0;
}

/* The first rank alone holds what is saved. */
static int64_t
writer_plan (void *self G_GNUC_UNUSED, int64_t rank)
{
  return rank > 0;
}

static int64_t
own_plan (void *self G_GNUC_UNUSED, int64_t rank)
{
  return rank;
}

/* Elements of the tensors that RANK owns, whole or in part: what its gradients take
 * (deepspeed/runtime/zero/stage_1_and_2.py keeps them untrimmed). */
static int64_t
own_size (void *self, int64_t rank)
{
  Job *job = self;
  const ZsTraining *training = job->training;

  if (job->own_elements == NULL) {
    g_autoptr (ZsModel) model = zs_model_new (&training->shape, &training->step.lora,
                                              training->step.dtype, &training->step.versions);
    g_autofree int32_t *indices = g_new (int32_t, model->n_parameters + 1);
    int n_groups = MAX (1, training->zero.optimizer_groups);

    job->own_elements = g_new0 (int64_t, training->world);
    for (int g = 0; g < n_groups; g++) {
      ZsFlatGroup group;
      int32_t n = 0;

      for (int32_t p = 0; p < model->n_parameters; p++)
        if (model->parameters[p].trainable
            && zs_flat_group_of (&model->parameters[p], n_groups) == g)
          indices[n++] = p;
      zs_flat_group_init (&group, model, indices, n, training->world,
                          training->zero.round_robin_gradients);
      for (int64_t r = 0; r < training->world; r++)
        job->own_elements[r] += zs_flat_group_own_elements (&group, r);
      zs_flat_group_clear (&group);
    }
  }
  return job->own_elements[rank];
}

static bool
divides (const ZsModelShape *shape, int64_t ranks)
{
  return shape->hidden % ranks == 0 && shape->intermediate % ranks == 0
         && shape->vocabulary % ranks == 0 && shape->n_heads * shape->head_dim % ranks == 0
         && shape->n_kv_heads * shape->head_dim % ranks == 0
         && (!shape->qk_norm || shape->head_dim % ranks == 0);
}

int64_t
zs_training_group_ranks (const ZsTraining *training)
{
  int64_t ranks = 0;

  if (training->framework == ZS_FRAMEWORK_DEEPSPEED)
    ranks = training->zero.mics_shard_size > 0 ? training->zero.mics_shard_size
            : training->zero.hpz_partition_size > 1 ? training->zero.hpz_partition_size : 0;
  else if (training->framework == ZS_FRAMEWORK_FSDP1 || training->framework == ZS_FRAMEWORK_FSDP2)
    ranks = training->fsdp.hybrid ? training->fsdp.node_ranks : 0;
  return MIN (ranks, training->world);
}

ZsResult *
zs_run (const ZsTraining *training, const ZsMachine *machine, const ZsRunOptions *options,
        GError **error)
{
  return zs_run_known (training, machine, options, NULL, error);
}

ZsResult *
zs_run_known (const ZsTraining *training, const ZsMachine *machine, const ZsRunOptions *options,
              ZsRunCache *cache, GError **error)
{
  int64_t group = zs_training_group_ranks (training);
  Job job = { .training = training };
  ZsWork work = {
    .self = &job, .open = open_planner, .group_ranks = group,
    .plan_key = training->save ? writer_plan : one_plan,
    .micro_steps = (int64_t) training->n_steps * MAX (1, training->gradient_accumulation),
    .samples_per_rank = training->step.micro_batch * MAX (1, training->gradient_accumulation),
  };

  g_assert (machine->n_ranks == training->world);
  work.tokens_per_rank = work.samples_per_rank * training->step.sequence;
  if (zs_lengths_given (&training->lengths))
    work.tokens = tokens;
  if (training->framework == ZS_FRAMEWORK_DEEPSPEED
      && (training->zero.stage == 1 || training->zero.stage == 2)) {
    work.plan_key = own_plan;
    work.plan_size = own_size;
  } else if (training->framework == ZS_FRAMEWORK_FSDP1
             || training->framework == ZS_FRAMEWORK_FSDP2) {
    if (!divides (&training->shape, group > 0 ? group : training->world))
      work.plan_key = NULL;
  }
  if (zs_training_samplers (training) > 1)
    work.plan_key = own_plan;
  work.one_plan = work.plan_key == one_plan;
  ZsResult *result = zs_run_work_known (&work, machine, options, cache, error);

  g_free (job.own_elements);
  return result;
}
