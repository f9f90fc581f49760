/* bf16-optimizer.c: BF16_Optimizer: bf16 parameters, fp32 gradients of the whole model, sharded states.
 * SPDX-License-Identifier: MIT
 *
 * deepspeed/runtime/bf16_optimizer.py: stage 1 with fp32 accumulation, and stage 0 before 0.17.6. */
#include "config.h"

#include "sim/zero/adam.h"
#include "sim/zero/load.h"
#include "sim/zero/loss.h"
#include "sim/zero/partition.h"
#include "sim/zero/stage12-hooks.h"
#include "sim/zero/wrapper.h"

#include "sim/base/digest.h"

typedef struct {
  ZsWrapped wrapped;
  ZsHooks hooks;
  ZsZeroConfig config;
  ZsStepShape  shape;
  const ZsModel *model;
  int32_t n_groups;
  ZsFlatGroup groups[ZS_MAX_GROUPS];
  ZsRotaryBuffers rotary;
  ZsTensor *gradients;   /* by parameter */
  ZsTensor master[ZS_MAX_GROUPS], sums[ZS_MAX_GROUPS];
  ZsTensor momentum[ZS_MAX_GROUPS], variance[ZS_MAX_GROUPS], step_count[ZS_MAX_GROUPS];
  ZsTensor global_norm;
  ZsLoss loss;
} Bf16Optimizer;

static void
load (void *data, ZsPlan *plan)
{
  Bf16Optimizer *self = data;

  zs_zero_load_model (plan, self->model, self->wrapped.storage, &self->rotary);
}

static void
init (void *data, ZsPlan *plan)
{
  Bf16Optimizer *self = data;
  uint32_t label = zs_plan_set_label (plan, zs_plan_label (plan, -1, "deepspeed.initialize"));

  zs_zero_cast_model (plan, self->model, &self->config.versions, self->config.dtype, self->wrapped.storage,
                      &self->rotary);
  zs_adam_init (plan, self->config.optimizer);
  for (int32_t g = 0; g < self->n_groups; g++) {
    const ZsFlatGroup *group = &self->groups[g];
    int64_t own = group->partition_elements;

    self->wrapped.flat[g] = zs_plan_alloc (plan, 2 * group->padded_elements, ZS_CATEGORY_PARAMETERS);
    zs_torch_copy (plan, ZS_WORK_OPTIMIZER, group->elements, 2, 2, "flatten parameters");
    for (int32_t i = 0; i < group->n_parameters; i++) {
      int32_t p = group->parameters[i].parameter;

      zs_plan_unref (plan, self->wrapped.storage[p]);
      self->wrapped.storage[p] = ZS_NO_TENSOR;
    }
    ZsTensor clone = zs_plan_alloc (plan, 2 * own, ZS_CATEGORY_MASTER);

    zs_torch_copy (plan, ZS_WORK_OPTIMIZER, own, 2, 2, "clone partition");
    self->master[g] = zs_plan_alloc (plan, 4 * own, ZS_CATEGORY_MASTER);
    zs_torch_copy (plan, ZS_WORK_OPTIMIZER, own, 2, 4, "master weights");
    zs_plan_unref (plan, clone);
    self->sums[g] = zs_plan_alloc (plan, 4 * group->padded_elements, ZS_CATEGORY_GRADIENTS);
    zs_torch_launch (plan, ZS_KERNEL_FILL, ZS_WORK_OPTIMIZER, group->padded_elements, 4,
                     4 * group->padded_elements, "zero gradients");
  }
  zs_plan_set_label (plan, label);
}

static void
before_backward_pass (void *data, ZsPlan *plan)
{
  Bf16Optimizer *self = data;

  zs_loss_before_buckets (&self->loss, plan, &self->config.versions,
                          self->config.gradient_accumulation);
  zs_loss_before_backward (&self->loss, plan);
  /* clear_lp_grads (): measured on 0.14.4, the gradients of the micro-step before go here */
  for (int32_t p = 0; p < self->model->n_parameters; p++) {
    zs_plan_unref (plan, self->gradients[p]);
    self->gradients[p] = ZS_NO_TENSOR;
  }
}

/* zero_grad () and immediate_grad_update set gradients to None.  Before, they stay to the next
 * backward (measured on 0.14.4, also with immediate_grad_update). */
static bool
frees_gradients (const Bf16Optimizer *self)
{
  return zs_behaves (&self->config.versions, ZS_BEHAVIOUR_BF16_OPTIMIZER_FREES_GRADIENTS);
}

/* _update_hp_grad (): fp32 sum += gradient.to (fp32) */
static void
add_to_sum (Bf16Optimizer *self, ZsPlan *plan, int32_t p)
{
  int64_t elements = self->model->parameters[p].elements;
  ZsTensor copy = zs_plan_alloc (plan, 4 * elements, ZS_CATEGORY_GRADIENTS);

  zs_torch_copy (plan, ZS_WORK_COMMUNICATION, elements, 2, 4, "gradient to fp32");
  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, elements, 4, 12 * elements,
                   "accumulate gradient");
  zs_plan_unref (plan, copy);
}

static void
gradient (void *data, ZsPlan *plan, int32_t p, ZsTensor gradient)
{
  Bf16Optimizer *self = data;
  int64_t elements = self->model->parameters[p].elements;

  if (self->gradients[p] == ZS_NO_TENSOR)
    self->gradients[p] = gradient;
  else {
    zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMPUTE, elements, 2, 6 * elements,
                     "accumulate gradient");
    zs_plan_unref (plan, gradient);
  }
  if (!self->config.immediate_grad_update)
    return;
  zs_plan_host (plan, ZS_HOST_GRADIENT_HOOK, 1);
  add_to_sum (self, plan, p);
  if (frees_gradients (self)) {
    zs_plan_unref (plan, self->gradients[p]);
    self->gradients[p] = ZS_NO_TENSOR;
  } else
    zs_torch_launch (plan, ZS_KERNEL_FILL, ZS_WORK_COMMUNICATION, elements, 2, 2 * elements,
                     "zero gradient");
}

static void
after_backward_pass (void *data, ZsPlan *plan)
{
  Bf16Optimizer *self = data;
  int to = (int) zs_dtype_bytes (self->config.communication_dtype);

  zs_loss_after_backward (&self->loss, plan, &self->config.versions);
  if (!self->config.immediate_grad_update)
    for (int32_t g = 0; g < self->n_groups; g++)
      for (int32_t i = 0; i < self->groups[g].n_parameters; i++) {
        int32_t p = self->groups[g].parameters[i].parameter;

        if (self->gradients[p] != ZS_NO_TENSOR)
          add_to_sum (self, plan, p);
      }
  for (int32_t g = 0; self->wrapped.boundary && g < self->n_groups; g++) {
    int64_t elements = self->groups[g].padded_elements;
    ZsTensor cast = ZS_NO_TENSOR;

    zs_plan_host (plan, ZS_HOST_BUCKET_FLUSH, 1);
    if (to != 4) {
      cast = zs_plan_alloc (plan, to * elements, ZS_CATEGORY_BUCKETS);
      zs_torch_copy (plan, ZS_WORK_COMMUNICATION, elements, 4, to, "convert gradients");
    }
    zs_torch_collective (plan, ZS_COLLECTIVE_ALL_REDUCE, ZS_COMMUNICATOR_CLONE, to * elements);
    zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, elements, to,
                     2 * to * elements, "average gradients");
    if (to != 4)
      zs_torch_copy (plan, ZS_WORK_COMMUNICATION, elements, to, 4, "convert gradients");
    zs_plan_unref (plan, cast);
  }
  zs_loss_end_backward (&self->loss, plan);
}

/* get_global_norm_of_tensors () and clip_tensors_by_global_norm (): one norm and one multiplication
 * per parameter, over the whole model. */
static void
norm_and_clip (Bf16Optimizer *self, ZsPlan *plan)
{
  const ZsModel *model = self->model;
  g_autofree ZsTensor *norms = g_new (ZsTensor, MAX (model->n_parameters, 1));
  int32_t n = 0;

  for (int32_t p = 0; p < model->n_parameters; p++)
    if (self->wrapped.group_of[p] >= 0)
      norms[n++] = zs_torch_reduce (plan, &self->shape, model->parameters[p].elements, 4, 4,
                                    "norm");
  zs_plan_host (plan, ZS_HOST_STEP_PARAMETER, n);
  ZsTensor total = zs_torch_scalar (plan, 4 * (int64_t) n, ZS_NO_TENSOR);   /* stack */

  total = zs_torch_scalar (plan, 4 * (int64_t) n, total);   /* square */
  total = zs_torch_scalar (plan, 4, total);                 /* sum */
  total = zs_torch_scalar (plan, 4, total);                 /* pow */
  for (int32_t i = n; i-- > 0;)
    zs_plan_unref (plan, norms[i]);
  zs_plan_unref (plan, self->global_norm);
  self->global_norm = total;
  zs_torch_item (plan, 4);   /* assert all_groups_norm > 0 */
  if (self->config.gradient_clipping <= 0)
    return;
  for (int32_t p = 0; p < model->n_parameters; p++)
    if (self->wrapped.group_of[p] >= 0)
      zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_OPTIMIZER,
                       model->parameters[p].elements, 4, 8 * model->parameters[p].elements,
                       "clip gradient");
}

static void
step (void *data, ZsPlan *plan, int step)
{
  Bf16Optimizer *self = data;
  uint32_t label = zs_plan_set_label (plan, zs_plan_label (plan, -1, "optimizer"));

  (void) step;
  zs_plan_host (plan, ZS_HOST_ENGINE_STEP, 1);
  norm_and_clip (self, plan);
  for (int32_t g = 0; g < self->n_groups; g++)
    zs_adam_step (plan, self->config.optimizer, self->groups[g].partition_elements, 4, 4,
                  (ZsAdamStates) { &self->momentum[g], &self->variance[g], &self->step_count[g] });
  for (int32_t g = 0; g < self->n_groups; g++)
    zs_torch_copy (plan, ZS_WORK_OPTIMIZER, self->groups[g].partition_elements, 4, 2,
                   "update parameters");
  for (int32_t g = 0; g < self->n_groups; g++)
    zs_torch_collective (plan, ZS_COLLECTIVE_ALL_GATHER, ZS_COMMUNICATOR_CLONE,
                         2 * self->groups[g].padded_elements);
  for (int32_t g = 0; g < self->n_groups; g++)   /* clear_hp_grads () */
    zs_torch_launch (plan, ZS_KERNEL_FILL, ZS_WORK_OPTIMIZER, self->groups[g].padded_elements, 4,
                     4 * self->groups[g].padded_elements, "zero gradients");
  if (frees_gradients (self))
    for (int32_t p = 0; p < self->model->n_parameters; p++) {
      zs_plan_unref (plan, self->gradients[p]);
      self->gradients[p] = ZS_NO_TENSOR;
    }
  zs_loss_after_step (&self->loss, plan);
  zs_plan_set_label (plan, label);
}

static void
free_optimizer (void *data)
{
  Bf16Optimizer *self = data;

  for (int32_t g = 0; g < self->n_groups; g++)
    zs_flat_group_clear (&self->groups[g]);
  g_free (self->wrapped.group_of);
  g_free (self->wrapped.storage);
  g_free (self->gradients);
  g_free (self);
}

static uint64_t
optimizer_digest (const void *data, bool events G_GNUC_UNUSED)
{
  const Bf16Optimizer *self = data;
  uint64_t digest = zs_digest_items (1, self, 1);

  digest = zs_digest_items (digest, self->wrapped.storage, self->model->n_parameters);
  return zs_digest_items (digest, self->gradients, self->model->n_parameters);
}

ZsHooks *
zs_bf16_optimizer_hooks_new (const ZsModel *model, const ZsZeroConfig *config,
                             const ZsStepShape *shape, int64_t rank, ZsPlan *plan)
{
  Bf16Optimizer *self = g_new0 (Bf16Optimizer, 1);
  int32_t n = model->n_parameters;
  g_autofree int32_t *indices = g_new (int32_t, MAX (n, 1));
  int wanted = CLAMP (config->optimizer_groups, 1, ZS_MAX_GROUPS);

  (void) rank;
  (void) plan;
  self->config = *config;
  self->shape = *shape;
  self->model = model;
  self->wrapped.group_of = g_new (int32_t, MAX (n, 1));
  self->wrapped.storage = g_new (ZsTensor, MAX (n, 1));
  self->gradients = g_new (ZsTensor, MAX (n, 1));
  for (int32_t p = 0; p < n; p++) {
    self->wrapped.group_of[p] = -1;
    self->wrapped.storage[p] = self->gradients[p] = ZS_NO_TENSOR;
  }
  for (int w = 0; w < wanted; w++) {
    int32_t members = 0;

    for (int32_t p = 0; p < n; p++)
      if (model->parameters[p].trainable
          && zs_flat_group_of (&model->parameters[p], wanted) == w) {
        indices[members++] = p;
        self->wrapped.group_of[p] = self->n_groups;
      }
    if (members > 0)
      zs_flat_group_init (&self->groups[self->n_groups++], model, indices, members, config->world,
                          false);
  }
  for (int g = 0; g < ZS_MAX_GROUPS; g++) {
    self->wrapped.flat[g] = self->master[g] = self->sums[g] = ZS_NO_TENSOR;
    self->momentum[g] = self->variance[g] = self->step_count[g] = ZS_NO_TENSOR;
  }
  self->global_norm = ZS_NO_TENSOR;
  zs_loss_init (&self->loss);
  self->hooks = (ZsHooks) {
    .self = self,
    .load = load,
    .init = init,
    .before_forward_pass = zs_wrapped_before_forward_pass,
    .before_backward_pass = before_backward_pass,
    .after_backward_pass = after_backward_pass,
    .gradient = gradient,
    .weight = zs_wrapped_weight,
    .loss_factors = zs_loss_factors (&config->versions, config->gradient_accumulation),
    .scales_output_gradients = zs_loss_scales_outputs (&config->versions),
    .step = step,
    .digest = optimizer_digest,
    .free = free_optimizer,
  };
  return &self->hooks;
}
