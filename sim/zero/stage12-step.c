/* stage12-step.c: the optimizer step of ZeRO-1 and 2.
 * SPDX-License-Identifier: MIT
 *
 * deepspeed/runtime/zero/stage_1_and_2.py, step (): overflow check, norm, then per group flatten,
 * fp32 copy, clip, Adam, 16-bit copy; one all-gather per group at the end. */
#include "config.h"

#include "sim/zero/adam.h"
#include "sim/zero/skip.h"
#include "sim/zero/stage12.h"
#include "sim/zero/torch-ops.h"

static bool
checks_overflow (const ZsStage12 *self)
{
  const ZsZeroConfig *config = &self->config;

  if (config->dtype == ZS_DTYPE_FP16)
    return true;
  return config->dtype == ZS_DTYPE_BF16 && config->check_grad_overflow
         && zs_behaves (&config->versions, ZS_BEHAVIOUR_BF16_OVERFLOW_OPTION);
}

/* has_overflow_partitioned_grads_serial (), summed over the ranks; the host reads the flag. */
static void
check_overflow (ZsStage12 *self, ZsPlan *plan)
{
  ZsTensor count = ZS_NO_TENSOR;

  if (!self->offload) {
    count = zs_torch_scalar (plan, 4, ZS_NO_TENSOR);
    for (int32_t g = 0; g < self->n_groups; g++)
      for (int32_t i = self->first_own[g]; i < self->first_own[g] + self->n_own[g]; i++) {
        int64_t elements = zs_flat_group_slice (&self->groups[g], i, self->rank, NULL);

        zs_plan_unref (plan, zs_torch_has_inf_or_nan (plan, &self->shape, elements, self->bytes));
      }
    count = zs_torch_scalar (plan, 1, count);   /* .bool () */
    count = zs_torch_scalar (plan, 1, count);   /* .byte () */
  } else
    count = zs_torch_scalar_from_host (plan, 1);   /* ByteTensor ([local_overflow]) */
  zs_torch_collective (plan, ZS_COLLECTIVE_ALL_REDUCE, ZS_COMMUNICATOR_CLONE, 1);
  zs_torch_item (plan, 1);
  zs_plan_unref (plan, count);
}

/* scaled_global_norm (): one norm per own slice, per group; then over the groups. */
static ZsTensor
gradient_norm (ZsStage12 *self, ZsPlan *plan)
{
  const ZsVersions *versions = &self->config.versions;
  ZsTensor totals[ZS_MAX_GROUPS];

  for (int32_t g = 0; g < self->n_groups; g++) {
    int32_t n = self->n_own[g];
    g_autofree ZsTensor *norms = g_new (ZsTensor, MAX (n, 1));

    for (int32_t i = 0; i < n; i++) {
      zs_plan_host (plan, ZS_HOST_NORM_PARAMETER, 1);
      norms[i] = zs_torch_double_norm (plan, &self->shape,
                                       zs_flat_group_slice (&self->groups[g],
                                                            self->first_own[g] + i, self->rank,
                                                            NULL),
                                       self->bytes);
    }
    totals[g] = zs_zero_total_norm (plan, versions, norms, n, ZS_COMMUNICATOR_CLONE);
  }
  ZsTensor stacked = zs_torch_scalar (plan, 4 * (int64_t) self->n_groups, ZS_NO_TENSOR);
  ZsTensor norm = zs_torch_scalar (plan, 4, stacked);

  for (int32_t g = self->n_groups; g-- > 0;)
    zs_plan_unref (plan, totals[g]);
  return norm;
}

/* Drop the gradients of group G: with the last group the shared buffer goes. */
static void
drop_gradients (ZsStage12 *self, ZsPlan *plan, int32_t g)
{
  for (int32_t i = self->first_own[g]; i < self->first_own[g] + self->n_own[g]; i++) {
    int32_t parameter = self->groups[g].parameters[i].parameter;

    zs_plan_unref (plan, self->averaged[parameter]);
    self->averaged[parameter] = ZS_NO_TENSOR;
  }
  if (g < self->n_groups - 1)
    return;
  uint8_t compute = zs_plan_set_stream (plan, self->reduction_stream);

  zs_plan_unref (plan, self->averaged_gradients);
  self->averaged_gradients = ZS_NO_TENSOR;
  zs_plan_set_stream (plan, compute);
  zs_plan_unref (plan, self->averaged_padding);
  self->averaged_padding = ZS_NO_TENSOR;
}

static void
step_group (ZsStage12 *self, ZsPlan *plan, int32_t g)
{
  const ZsFlatGroup *group = &self->groups[g];
  int64_t elements = group->partition_elements;
  int64_t pieces = self->n_own[g];
  int64_t own = 0;
  ZsTensor flat = ZS_NO_TENSOR, gradient;
  bool same = self->master_bytes == self->bytes;   /* then .to () makes no copy */

  for (int32_t i = 0; i < self->n_own[g]; i++)
    own += zs_flat_group_slice (group, self->first_own[g] + i, self->rank, NULL);
  pieces += own < elements;   /* padding of the last rank */
  if (pieces > 1) {
    flat = zs_plan_alloc (plan, self->bytes * elements, ZS_CATEGORY_STEP);
    zs_torch_copy (plan, ZS_WORK_OPTIMIZER, elements, self->bytes, self->bytes, "flatten gradients");
  }
  if (!same) {
    gradient = zs_plan_alloc (plan, self->master_bytes * elements, ZS_CATEGORY_STEP);
    zs_torch_copy (plan, ZS_WORK_OPTIMIZER, elements, self->bytes, self->master_bytes,
                   "gradients to fp32");
    zs_plan_unref (plan, flat);
  } else
    gradient = flat;
  /* one piece of the same dtype is a view of the own gradients, which live on in it */
  bool is_view = same && pieces <= 1;

  if (!is_view)
    drop_gradients (self, plan, g);
  zs_zero_unscale_and_clip (plan, self->config.gradient_clipping, elements, self->master_bytes);
  zs_adam_step (plan, self->config.optimizer, elements, self->master_bytes, self->state_bytes,
                (ZsAdamStates) { &self->momentum[g], &self->variance[g], &self->step_count[g] });
  zs_plan_unref (plan, gradient);
  if (is_view)
    drop_gradients (self, plan, g);
  zs_torch_copy (plan, ZS_WORK_OPTIMIZER, elements, self->master_bytes, self->bytes,
                 "update parameters");
}

/* Before 0.12.4: shards of about allgather_bucket_size, each gathered as a list of views, for which
 * PyTorch makes one flat output and copies from it (runtime/utils.py, all_gather_dp_groups ();
 * ProcessGroupNCCL::allgather). */
static void
gather_in_shards (ZsStage12 *self, ZsPlan *plan, const ZsFlatGroup *group)
{
  int64_t world = group->world, partition = group->partition_elements;
  int64_t limit = MAX (self->config.allgather_bucket_size, 1);
  int64_t n_shards = MAX (1, partition * world / limit);
  int64_t shard = partition / n_shards;

  shard -= shard % ZS_FLAT_ALIGNMENT;
  for (int64_t i = 0; i < n_shards; i++) {
    int64_t elements = i == n_shards - 1 ? partition - i * shard : shard;
    ZsTensor flat = zs_plan_alloc (plan, self->bytes * elements * world, ZS_CATEGORY_BUCKETS);

    zs_torch_collective (plan, ZS_COLLECTIVE_ALL_GATHER, ZS_COMMUNICATOR_CLONE,
                         self->bytes * elements * world);
    zs_torch_copy (plan, ZS_WORK_COMMUNICATION, elements * world, self->bytes, self->bytes,
                   "gathered shards");
    zs_plan_unref (plan, flat);
  }
}

void
zs_stage12_gather (ZsStage12 *self, ZsPlan *plan)
{
  uint32_t label = zs_plan_set_label (plan, zs_plan_label (plan, -1, "gather parameters"));

  for (int32_t g = 0; g < self->n_groups; g++)
    if (zs_behaves (&self->config.versions, ZS_BEHAVIOUR_MULTI_RANK_ALLREDUCE))
      zs_torch_collective (plan, ZS_COLLECTIVE_ALL_GATHER, ZS_COMMUNICATOR_CLONE,
                           self->bytes * self->groups[g].padded_elements);
    else
      gather_in_shards (self, plan, &self->groups[g]);
  zs_plan_set_label (plan, label);
}

/* What follows the overflow check in a step that is not skipped. */
static void
update (ZsStage12 *self, ZsPlan *plan)
{
  if (self->offload) {
    zs_offload12_step (self, plan);
    return;
  }
  uint32_t label = zs_plan_set_label (plan, zs_plan_label (plan, -1, "gradient norm"));
  ZsTensor norm = gradient_norm (self, plan);
  ZsTensor before = self->global_norm;

  self->global_norm = zs_torch_scalar (plan, 4, ZS_NO_TENSOR);   /* norm / loss scale */
  zs_plan_set_label (plan, zs_plan_label (plan, -1, "optimizer"));
  for (int32_t g = 0; g < self->n_groups; g++)
    step_group (self, plan, g);
  zs_stage12_gather (self, plan);
  zs_plan_unref (plan, norm);
  zs_plan_unref (plan, before);
  zs_plan_set_label (plan, label);
}

void
zs_stage12_step (void *data, ZsPlan *plan, int step)
{
  ZsStage12 *self = data;

  (void) step;
  zs_plan_host (plan, ZS_HOST_ENGINE_STEP, 1);
  if (checks_overflow (self)) {
    uint32_t label = zs_plan_set_label (plan, zs_plan_label (plan, -1, "overflow check"));

    check_overflow (self, plan);
    zs_plan_set_label (plan, label);
  }
  int64_t start = plan->n_code;

  update (self, plan);
  if (self->config.dtype == ZS_DTYPE_FP16)
    zs_zero_unless_overflow (plan, start);
  zs_loss_after_step (&self->loss, plan);
}
