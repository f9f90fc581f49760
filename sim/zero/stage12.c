/* stage12.c: DeepSpeedZeroOptimizer, ZeRO-1 and 2: construction, gradient hooks, end of backward.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/zero/stage12-hooks.h"
#include "sim/zero/stage12.h"

#include "sim/base/digest.h"
#include "sim/zero/torch-ops.h"

static void
before_forward_pass (void *data, ZsPlan *plan, int step, int micro_step, bool boundary)
{
  ZsStage12 *self = data;

  zs_wrapped_before_forward_pass (data, plan, step, micro_step, boundary);
  self->micro_step = micro_step;
}

static bool
buckets_in_first_hook (const ZsStage12 *self)
{
  return zs_behaves (&self->config.versions, ZS_BEHAVIOUR_BUCKETS_IN_FIRST_GRADIENT_HOOK);
}

static void
before_backward_pass (void *data, ZsPlan *plan)
{
  ZsStage12 *self = data;
  const ZsVersions *versions = &self->config.versions;

  self->backward_open = true;
  zs_loss_before_buckets (&self->loss, plan, versions, self->config.gradient_accumulation);
  if (!buckets_in_first_hook (self)) {
    zs_stage12_release_buckets (self, plan);   /* of a micro-step without a step (stage 1) */
    zs_stage12_setup_buckets (self, plan);
  }
  zs_loss_before_backward (&self->loss, plan);
}

/* The running sum in param.grad, or in an accumulator of another dtype. */
static ZsTensor
accumulate (ZsStage12 *self, ZsPlan *plan, int32_t parameter, ZsTensor gradient)
{
  int64_t elements = zs_stage12_elements (self, parameter);
  ZsTensor *sum = &self->gradients[parameter];
  int bytes = (int) zs_dtype_bytes (self->separate_accumulator ? self->config.grad_accum_dtype
                                                               : self->config.dtype);

  if (*sum == ZS_NO_TENSOR && !self->separate_accumulator) {
    *sum = gradient;
    return gradient;
  }
  if (*sum == ZS_NO_TENSOR) {
    *sum = zs_plan_alloc (plan, bytes * elements, ZS_CATEGORY_GRADIENTS);
    zs_torch_copy (plan, ZS_WORK_COMPUTE, elements, self->bytes, bytes, "accumulate gradient");
  } else
    zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMPUTE, elements, bytes,
                     elements * (2 * bytes + self->bytes), "accumulate gradient");
  zs_plan_unref (plan, gradient);
  return *sum;
}

/* What is reduced: param.grad, which the bucket takes over, or a copy of the accumulator. */
static ZsTensor
take_for_reduction (ZsStage12 *self, ZsPlan *plan, int32_t parameter)
{
  ZsTensor gradient = self->gradients[parameter];
  int64_t elements = zs_stage12_elements (self, parameter);

  if (gradient == ZS_NO_TENSOR)
    return gradient;
  if (self->separate_accumulator) {
    ZsTensor copy = zs_plan_alloc (plan, self->bytes * elements, ZS_CATEGORY_GRADIENTS);

    zs_torch_copy (plan, ZS_WORK_COMMUNICATION, elements,
                   (int) zs_dtype_bytes (self->config.grad_accum_dtype), self->bytes,
                   "gradient for reduction");
    return copy;
  }
  self->gradients[parameter] = ZS_NO_TENSOR;
  return gradient;
}

static bool
has_hooks (const ZsStage12 *self)
{
  return self->partition_gradients || self->config.overlap_comm;
}

static void
gradient (void *data, ZsPlan *plan, int32_t parameter, ZsTensor gradient)
{
  ZsStage12 *self = data;

  /* the newer releases have hooks in any case, and buckets from the first on, which a micro-step
   * without a step leaves behind (stage 1, measured on 0.19.5) */
  if (buckets_in_first_hook (self))
    zs_stage12_setup_buckets (self, plan);
  if (has_hooks (self))
    zs_plan_host (plan, ZS_HOST_GRADIENT_HOOK, 1);
  if (!self->partition_gradients) {
    accumulate (self, plan, parameter, gradient);
    if (!has_hooks (self) || !self->wrapped.boundary)
      return;
    gradient = take_for_reduction (self, plan, parameter);
  }
  zs_stage12_add_to_bucket (self, plan, parameter, gradient);
}

/* The own slices of a second micro-step are added to the first's (get_flat_partition (), add_ ()). */
static void
add_to_averaged (ZsStage12 *self, ZsPlan *plan)
{
  for (int32_t g = 0; g < self->n_groups; g++)
    for (int32_t i = self->first_own[g]; i < self->first_own[g] + self->n_own[g]; i++) {
      int64_t elements = zs_flat_group_slice (&self->groups[g], i, self->rank, NULL);

      zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, elements, self->bytes,
                       3 * self->bytes * elements, "add own gradient");
    }
}

static int64_t
own_padding (const ZsStage12 *self, int32_t g)
{
  int64_t sum = 0;

  for (int32_t i = self->first_own[g]; i < self->first_own[g] + self->n_own[g]; i++)
    sum += zs_flat_group_slice (&self->groups[g], i, self->rank, NULL);
  return self->groups[g].partition_elements - sum;
}

static void
average_own (ZsStage12 *self, ZsPlan *plan)
{
  bool first = self->averaged_gradients == ZS_NO_TENSOR && self->averaged_padding == ZS_NO_TENSOR;

  for (int32_t g = 0; g < self->n_groups; g++) {
    int64_t padding = own_padding (self, g);

    if (padding > 0) {
      ZsTensor zeros = zs_plan_alloc (plan, self->bytes * padding, ZS_CATEGORY_GRADIENTS);

      zs_torch_launch (plan, ZS_KERNEL_FILL, ZS_WORK_COMMUNICATION, padding, self->bytes,
                       self->bytes * padding, "padding");
      if (self->averaged_padding == ZS_NO_TENSOR)
        self->averaged_padding = zeros;
      else
        zs_plan_unref (plan, zeros);
    }
  }
  if (!self->config.contiguous_gradients) {
    bool added = false;

    for (int32_t p = 0; p < self->model->n_parameters; p++)
      if (self->gradients[p] != ZS_NO_TENSOR && zs_stage12_owns (self, p)) {
        if (self->averaged[p] == ZS_NO_TENSOR) {
          self->averaged[p] = self->gradients[p];
          self->gradients[p] = ZS_NO_TENSOR;
        } else
          added = true;
      }
    if (added)
      add_to_averaged (self, plan);
  } else if (first) {
    self->averaged_gradients = self->own_gradients;
    self->own_gradients = ZS_NO_TENSOR;
  } else
    add_to_averaged (self, plan);
}

/* independent_gradient_partition_epilogue (). */
static void
epilogue (ZsStage12 *self, ZsPlan *plan)
{
  zs_stage12_flush (self, plan);
  if (self->config.overlap_comm) {
    zs_plan_host_wait_device (plan);
    zs_stage12_clear_previous (self, plan);
  }
  if (!self->offload)
    average_own (self, plan);
  zs_stage12_release_buckets (self, plan);
  uint8_t compute = zs_plan_set_stream (plan, self->reduction_stream);

  zs_plan_unref (plan, self->own_gradients);
  self->own_gradients = ZS_NO_TENSOR;
  zs_plan_set_stream (plan, compute);
  for (int32_t p = 0; p < self->model->n_parameters; p++) {
    zs_plan_unref (plan, self->gradients[p]);
    self->gradients[p] = ZS_NO_TENSOR;
  }
}

/* reduce_gradients (): stage 1 without overlap_comm reduces after backward. */
static void
reduce_after_backward (ZsStage12 *self, ZsPlan *plan)
{
  for (int32_t g = 0; g < self->n_groups; g++)
    for (int32_t i = 0; i < self->groups[g].n_parameters; i++) {
      int32_t parameter = self->groups[g].parameters[self->groups[g].order[i]].parameter;
      ZsTensor gradient = take_for_reduction (self, plan, parameter);

      if (gradient == ZS_NO_TENSOR)
        continue;
      zs_plan_host (plan, ZS_HOST_GRADIENT_HOOK, 1);
      zs_stage12_add_to_bucket (self, plan, parameter, gradient);
    }
}

static void
after_backward_pass (void *data, ZsPlan *plan)
{
  ZsStage12 *self = data;

  zs_loss_after_backward (&self->loss, plan, &self->config.versions);
  if (self->partition_gradients || self->wrapped.boundary) {
    if (!has_hooks (self))
      reduce_after_backward (self, plan);
    epilogue (self, plan);
  }
  zs_loss_end_backward (&self->loss, plan);
  self->backward_open = false;
}

static void
free_stage12 (void *data)
{
  ZsStage12 *self = data;

  for (int32_t g = 0; g < self->n_groups; g++)
    zs_flat_group_clear (&self->groups[g]);
  g_free (self->wrapped.group_of);
  g_free (self->index_of);
  g_free (self->wrapped.storage);
  g_free (self->gradients);
  g_free (self->averaged);
  g_free (self->entries);
  g_free (self->previous);
  g_free (self->host.accumulated);
  g_free (self->host.norms);
  g_free (self);
}

static uint64_t
stage12_digest (const void *data, bool events G_GNUC_UNUSED)
{
  const ZsStage12 *self = data;
  ZsStage12 copy;
  int32_t n = self->model->n_parameters;

  memcpy (&copy, self, sizeof copy);
  copy.micro_step = self->micro_step > 0;   /* only the first is another */
  uint64_t digest = zs_digest_items (1, &copy, 1);

  digest = zs_digest_items (digest, self->wrapped.storage, n);
  digest = zs_digest_items (digest, self->gradients, n);
  digest = zs_digest_items (digest, self->averaged, n);
  digest = zs_digest_items (digest, self->entries, self->n_entries);
  digest = zs_digest_items (digest, self->previous, self->n_previous);
  if (self->host.accumulated != NULL)
    digest = zs_digest_items (digest, self->host.accumulated, n);
  if (self->host.norms != NULL)
    digest = zs_digest_items (digest, self->host.norms, n);
  return digest;
}

static ZsTensor *
no_tensors (int32_t n)
{
  ZsTensor *tensors = g_new (ZsTensor, MAX (n, 1));

  for (int32_t i = 0; i < n; i++)
    tensors[i] = ZS_NO_TENSOR;
  return tensors;
}

static void
make_groups (ZsStage12 *self)
{
  const ZsModel *model = self->model;
  g_autofree int32_t *indices = g_new (int32_t, MAX (model->n_parameters, 1));
  int wanted = CLAMP (self->config.optimizer_groups, 1, ZS_MAX_GROUPS);

  for (int g = 0; g < wanted; g++) {
    int32_t n = 0;

    for (int32_t p = 0; p < model->n_parameters; p++)
      if (model->parameters[p].trainable && zs_flat_group_of (&model->parameters[p], wanted) == g)
        indices[n++] = p;
    if (n == 0)
      continue;
    ZsFlatGroup *group = &self->groups[self->n_groups];

    zs_flat_group_init (group, model, indices, n, self->config.world,
                        self->config.round_robin_gradients);
    for (int32_t i = 0; i < n; i++) {
      self->wrapped.group_of[group->parameters[i].parameter] = self->n_groups;
      self->index_of[group->parameters[i].parameter] = i;
      self->largest = MAX (self->largest, group->parameters[i].elements);
    }
    zs_flat_group_own (group, self->rank, &self->first_own[self->n_groups],
                       &self->n_own[self->n_groups]);
    self->own_elements += zs_flat_group_own_elements (group, self->rank);
    self->n_groups++;
  }
}

static void
set_dtypes (ZsStage12 *self)
{
  const ZsZeroConfig *config = &self->config;
  bool half_master = config->fp16_master_weights_and_grads || config->bf16_master_weights_and_grads;

  self->bytes = (int) zs_dtype_bytes (config->dtype);
  self->communication_bytes = (int) zs_dtype_bytes (config->communication_dtype);
  /* torch_autocast: fp32 parameters, 16-bit buckets */
  self->bucket_bytes = self->shape.autocast ? self->communication_bytes : self->bytes;
  self->master_bytes = half_master ? 2 : 4;
  self->state_bytes = config->bf16_optimizer_states ? 2 : 4;
  self->partition_gradients = config->stage == 2;
  self->offload = config->offload_optimizer != ZS_DEVICE_NONE;
  if (self->offload)
    self->config.contiguous_gradients = true;   /* forced on */
  self->separate_accumulator = !self->partition_gradients
                               && zs_dtype_bytes (config->grad_accum_dtype) != self->bytes;
  if (!zs_behaves (&config->versions, ZS_BEHAVIOUR_MULTI_RANK_ALLREDUCE))
    self->config.use_multi_rank_bucket_allreduce = false;
  self->reduction_stream = config->overlap_comm ? ZS_STREAM_REDUCE : ZS_STREAM_COMPUTE;
}

ZsHooks *
zs_stage12_hooks_new (const ZsModel *model, const ZsZeroConfig *config, const ZsStepShape *shape,
                      int64_t rank, ZsPlan *plan)
{
  ZsStage12 *self = g_new0 (ZsStage12, 1);
  int32_t n = model->n_parameters;

  (void) plan;
  self->config = *config;
  self->shape = *shape;
  self->model = model;
  self->rank = rank;
  set_dtypes (self);
  self->wrapped.group_of = g_new (int32_t, MAX (n, 1));
  self->index_of = g_new (int32_t, MAX (n, 1));
  for (int32_t p = 0; p < n; p++)
    self->wrapped.group_of[p] = self->index_of[p] = -1;
  make_groups (self);
  self->wrapped.storage = no_tensors (n);
  self->gradients = no_tensors (n);
  self->averaged = no_tensors (n);
  self->previous = no_tensors (n);
  self->host.accumulated = no_tensors (n);
  self->host.norms = no_tensors (n);
  self->entries = g_new (ZsBucketEntry, MAX (n, 1));
  self->large = -1;
  for (int g = 0; g < ZS_MAX_GROUPS; g++) {
    self->wrapped.flat[g] = self->master[g] = self->momentum[g] = self->variance[g] = ZS_NO_TENSOR;
    self->step_count[g] = ZS_NO_TENSOR;
    self->host.master[g] = self->host.gradient[g] = self->host.momentum[g] = ZS_NO_TENSOR;
    self->host.variance[g] = self->host.parameters[g] = ZS_NO_TENSOR;
  }
  self->host.staging_gpu = self->host.staging_host = ZS_NO_TENSOR;
  self->buckets[0] = self->buckets[1] = ZS_NO_TENSOR;
  self->global_norm = ZS_NO_TENSOR;
  self->own_gradients = self->averaged_gradients = ZS_NO_TENSOR;
  self->own_padding = self->averaged_padding = ZS_NO_TENSOR;
  zs_loss_init (&self->loss);
  self->hooks = (ZsHooks) {
    .self = self,
    .load = zs_stage12_load,
    .init = zs_stage12_init,
    .before_forward_pass = before_forward_pass,
    .before_backward_pass = before_backward_pass,
    .after_backward_pass = after_backward_pass,
    .gradient = gradient,
    .weight = zs_wrapped_weight,
    .loss_factors = zs_loss_factors (&config->versions, config->gradient_accumulation),
    .scales_output_gradients = zs_loss_scales_outputs (&config->versions),
    .step = zs_stage12_step,
    .digest = stage12_digest,
    .free = free_stage12,
  };
  return &self->hooks;
}
