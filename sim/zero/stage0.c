/* stage0.c: DeepSpeed without ZeRO: FP16_Optimizer, also in its bf16 mode, FP16_UnfusedOptimizer, and
 * fp32 without a wrapper.
 * SPDX-License-Identifier: MIT
 *
 * deepspeed/runtime/fp16/fused_optimizer.py and unfused_optimizer.py; the all-reduce after backward:
 * deepspeed/runtime/engine.py, buffered_allreduce_fallback (). */
#include "config.h"

#include "sim/zero/adam.h"
#include "sim/zero/load.h"
#include "sim/zero/loss.h"
#include "sim/zero/skip.h"
#include "sim/zero/stage12-hooks.h"
#include "sim/zero/wrapper.h"
#include "sim/zero/zero.h"

#include "sim/base/digest.h"

#define ALL_REDUCE_ELEMENTS INT64_C (500000000)   /* engine.py: MEMORY_OPT_ALLREDUCE_SIZE */

typedef struct {
  ZsWrapped wrapped;
  ZsHooks hooks;
  ZsZeroConfig config;
  ZsStepShape  shape;
  const ZsModel *model;
  ZsWrapper wrapper;
  int bytes;
  int64_t elements;        /* trainable */
  ZsRotaryBuffers rotary;
  ZsTensor *gradients;     /* param.grad, by parameter */
  ZsTensor *masters, *momentum, *variance, *step_count;   /* by parameter (unfused, none) */
  ZsTensor master, flat_momentum, flat_variance, flat_step;   /* fused */
  ZsLoss loss;
} Stage0;

static bool
trainable (const Stage0 *self, int32_t p)
{
  return self->model->parameters[p].trainable;
}

static int64_t
elements_of (const Stage0 *self, int32_t p)
{
  return self->model->parameters[p].elements;
}

static void
load (void *data, ZsPlan *plan)
{
  Stage0 *self = data;

  zs_zero_load_model (plan, self->model, self->wrapped.storage, &self->rotary);
}

static ZsTensor
converted (ZsPlan *plan, int64_t elements, int from, int to, ZsCategory category, const char *name)
{
  ZsTensor tensor = zs_plan_alloc (plan, to * elements, category);

  zs_torch_copy (plan, ZS_WORK_OPTIMIZER, elements, from, to, name);
  return tensor;
}

static void
drop (ZsPlan *plan, ZsTensor *tensor)
{
  zs_plan_unref (plan, *tensor);
  *tensor = ZS_NO_TENSOR;
}

/* Clones of all parameters, one flat buffer, the originals: 6 bytes per parameter for a moment. */
static void
init_fused (Stage0 *self, ZsPlan *plan)
{
  const ZsModel *model = self->model;
  g_autofree ZsTensor *clones = g_new (ZsTensor, MAX (model->n_parameters, 1));

  for (int32_t p = 0; p < model->n_parameters; p++)
    if (trainable (self, p))
      clones[p] = converted (plan, elements_of (self, p), self->bytes, self->bytes,
                             ZS_CATEGORY_PARAMETERS, "clone parameter");
  self->wrapped.flat[0] = converted (plan, self->elements, self->bytes, self->bytes, ZS_CATEGORY_PARAMETERS,
                          "flatten parameters");
  for (int32_t p = 0; p < model->n_parameters; p++)
    if (trainable (self, p))
      zs_plan_unref (plan, clones[p]);
  for (int32_t p = 0; p < model->n_parameters; p++)
    if (trainable (self, p))
      drop (plan, &self->wrapped.storage[p]);
  ZsTensor clone = converted (plan, self->elements, self->bytes, self->bytes, ZS_CATEGORY_MASTER,
                              "clone parameters");

  self->master = converted (plan, self->elements, self->bytes, 4, ZS_CATEGORY_MASTER,
                            "master weights");
  zs_plan_unref (plan, clone);
  /* initialize_optimizer_states (): a step with zero gradients makes the states */
  ZsTensor zeros = zs_plan_alloc (plan, 4 * self->elements, ZS_CATEGORY_STEP);

  zs_torch_launch (plan, ZS_KERNEL_FILL, ZS_WORK_OPTIMIZER, self->elements, 4, 4 * self->elements,
                   "zero gradient");
  zs_adam_step (plan, self->config.optimizer, self->elements, 4, 4,
                (ZsAdamStates) { &self->flat_momentum, &self->flat_variance, &self->flat_step });
  zs_plan_unref (plan, zeros);
}

static ZsAdamStates
states_of (Stage0 *self, int32_t p)
{
  return (ZsAdamStates) { &self->momentum[p], &self->variance[p], &self->step_count[p] };
}

static void
init_unfused (Stage0 *self, ZsPlan *plan)
{
  const ZsModel *model = self->model;
  g_autofree ZsTensor *zeros = g_new (ZsTensor, MAX (2 * model->n_parameters, 1));
  int32_t n = 0;

  for (int32_t p = 0; p < model->n_parameters; p++)
    if (trainable (self, p)) {
      int64_t elements = elements_of (self, p);
      ZsTensor clone = converted (plan, elements, self->bytes, self->bytes, ZS_CATEGORY_MASTER,
                                  "clone parameter");

      self->masters[p] = converted (plan, elements, self->bytes, 4, ZS_CATEGORY_MASTER,
                                    "master weight");
      zs_plan_unref (plan, clone);
    }
  for (int pass = 0; pass < 2; pass++)   /* gradients of the 16-bit and of the fp32 parameters */
    for (int32_t p = 0; p < model->n_parameters; p++)
      if (trainable (self, p))
        zeros[n++] = zs_plan_alloc (plan, (pass == 0 ? self->bytes : 4) * elements_of (self, p),
                                    ZS_CATEGORY_STEP);
  for (int32_t p = 0; p < model->n_parameters; p++)
    if (trainable (self, p))
      zs_adam_step (plan, self->config.optimizer, elements_of (self, p), 4, 4,
                    states_of (self, p));
  for (int32_t i = 0; i < n; i++)
    zs_plan_unref (plan, zeros[i]);
}

static void
init (void *data, ZsPlan *plan)
{
  Stage0 *self = data;
  uint32_t label = zs_plan_set_label (plan, zs_plan_label (plan, -1, "deepspeed.initialize"));

  zs_zero_cast_model (plan, self->model, &self->config.versions, self->config.dtype, self->wrapped.storage,
                      &self->rotary);
  zs_adam_init (plan, self->config.optimizer);
  if (self->wrapper == ZS_WRAPPER_FP16)
    init_fused (self, plan);
  else if (self->wrapper == ZS_WRAPPER_FP16_UNFUSED)
    init_unfused (self, plan);
  zs_plan_set_label (plan, label);
}

static void
before_backward_pass (void *data, ZsPlan *plan)
{
  Stage0 *self = data;

  zs_loss_before_buckets (&self->loss, plan, &self->config.versions,
                          self->config.gradient_accumulation);
  zs_loss_before_backward (&self->loss, plan);
}

static void
gradient (void *data, ZsPlan *plan, int32_t p, ZsTensor gradient)
{
  Stage0 *self = data;
  int64_t elements = elements_of (self, p);

  if (self->gradients[p] == ZS_NO_TENSOR) {
    self->gradients[p] = gradient;
    return;
  }
  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMPUTE, elements, self->bytes,
                   3 * self->bytes * elements, "accumulate gradient");
  zs_plan_unref (plan, gradient);
}

/* allreduce_bucket () and the copies back. */
static void
reduce_bucket (Stage0 *self, ZsPlan *plan, int32_t first, int32_t end, int32_t n, int64_t elements)
{
  int from = self->bytes, to = (int) zs_dtype_bytes (self->config.communication_dtype);
  ZsTensor joined = ZS_NO_TENSOR, cast = ZS_NO_TENSOR;

  zs_plan_host (plan, ZS_HOST_BUCKET_FLUSH, 1);
  if (n > 1)
    joined = converted (plan, elements, from, from, ZS_CATEGORY_BUCKETS, "join gradients");
  if (to != from)
    cast = converted (plan, elements, from, to, ZS_CATEGORY_BUCKETS, "convert gradients");
  zs_torch_collective (plan, ZS_COLLECTIVE_ALL_REDUCE, ZS_COMMUNICATOR_CLONE, to * elements);
  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, elements, to,
                   2 * to * elements, "average gradients");
  if (to != from)
    zs_torch_copy (plan, ZS_WORK_COMMUNICATION, elements, to, from, "convert gradients");
  zs_plan_unref (plan, cast);
  if (n > 1)
    for (int32_t p = first; p < end; p++)
      if (trainable (self, p) && self->gradients[p] != ZS_NO_TENSOR)
        zs_torch_copy (plan, ZS_WORK_COMMUNICATION, elements_of (self, p), from, from,
                       "gradient back");
  zs_plan_unref (plan, joined);
}

static void
after_backward_pass (void *data, ZsPlan *plan)
{
  Stage0 *self = data;
  int32_t first = 0, n = 0;
  int64_t elements = 0;

  zs_loss_after_backward (&self->loss, plan, &self->config.versions);
  for (int32_t p = 0; self->wrapped.boundary && p < self->model->n_parameters; p++) {
    if (self->gradients[p] != ZS_NO_TENSOR) {
      elements += elements_of (self, p);
      n++;
    }
    if (elements > ALL_REDUCE_ELEMENTS || (p + 1 == self->model->n_parameters && n > 0)) {
      reduce_bucket (self, plan, first, p + 1, n, elements);
      first = p + 1;
      n = 0;
      elements = 0;
    }
  }
  zs_loss_end_backward (&self->loss, plan);
}

/* CheckOverflow.has_overflow (): float (x.float ().sum ()) of each gradient, read by the host. */
static void
check_overflow (Stage0 *self, ZsPlan *plan)
{
  for (int32_t p = 0; p < self->model->n_parameters; p++) {
    if (self->gradients[p] == ZS_NO_TENSOR)
      continue;
    int64_t elements = elements_of (self, p);
    ZsTensor copy = converted (plan, elements, self->bytes, 4, ZS_CATEGORY_STEP, "overflow.float");
    ZsTensor sum = zs_torch_reduce (plan, &self->shape, elements, 4, 4, "overflow.sum");

    zs_plan_unref (plan, copy);
    zs_torch_item (plan, 4);
    zs_plan_unref (plan, sum);
  }
  ZsTensor flag = zs_torch_scalar_from_host (plan, 1);

  zs_torch_collective (plan, ZS_COLLECTIVE_ALL_REDUCE, ZS_COMMUNICATOR_CLONE, 1);
  zs_torch_item (plan, 1);
  zs_plan_unref (plan, flag);
}

static void
norm (Stage0 *self, ZsPlan *plan, int64_t elements)
{
  ZsTensor total = zs_torch_reduce (plan, &self->shape, elements, 4, 4, "norm");

  zs_torch_item (plan, 4);
  zs_plan_unref (plan, total);
}

static void
update_fused (Stage0 *self, ZsPlan *plan)
{
  const ZsModel *model = self->model;
  g_autofree ZsTensor *copies = g_new (ZsTensor, MAX (model->n_parameters, 1));

  for (int32_t p = 0; p < model->n_parameters; p++)
    if (trainable (self, p))
      copies[p] = converted (plan, elements_of (self, p), self->bytes, 4, ZS_CATEGORY_STEP,
                             "gradient to fp32");
  ZsTensor flat = converted (plan, self->elements, 4, 4, ZS_CATEGORY_STEP, "flatten gradients");

  for (int32_t p = 0; p < model->n_parameters; p++)
    if (trainable (self, p))
      zs_plan_unref (plan, copies[p]);
  for (int32_t p = 0; p < model->n_parameters; p++)
    drop (plan, &self->gradients[p]);
  norm (self, plan, self->elements);
  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_OPTIMIZER, self->elements, 4,
                   8 * self->elements, "unscale gradients");
  zs_adam_step (plan, self->config.optimizer, self->elements, 4, 4,
                (ZsAdamStates) { &self->flat_momentum, &self->flat_variance, &self->flat_step });
  zs_plan_unref (plan, flat);
  for (int32_t p = 0; p < model->n_parameters; p++)
    if (trainable (self, p)) {
      zs_plan_host (plan, ZS_HOST_STEP_PARAMETER, 1);
      zs_torch_copy (plan, ZS_WORK_OPTIMIZER, elements_of (self, p), 4, self->bytes,
                     "update parameter");
    }
}

static void
update_each (Stage0 *self, ZsPlan *plan)
{
  const ZsModel *model = self->model;
  bool plain = self->wrapper == ZS_WRAPPER_NONE;
  g_autofree ZsTensor *copies = g_new (ZsTensor, MAX (model->n_parameters, 1));

  for (int32_t p = 0; p < model->n_parameters; p++) {
    copies[p] = ZS_NO_TENSOR;
    if (self->gradients[p] == ZS_NO_TENSOR)
      continue;
    if (!plain)
      copies[p] = converted (plan, elements_of (self, p), self->bytes, 4, ZS_CATEGORY_STEP,
                             "gradient to fp32");
    norm (self, plan, elements_of (self, p));
  }
  for (int32_t p = 0; p < model->n_parameters; p++)
    if (self->gradients[p] != ZS_NO_TENSOR)
      zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_OPTIMIZER, elements_of (self, p), 4,
                       8 * elements_of (self, p), "unscale gradients");
  for (int32_t p = 0; p < model->n_parameters; p++)
    if (self->gradients[p] != ZS_NO_TENSOR)
      zs_adam_step (plan, self->config.optimizer, elements_of (self, p), 4, 4,
                    states_of (self, p));
  for (int32_t p = 0; p < model->n_parameters; p++)
    if (copies[p] != ZS_NO_TENSOR) {
      zs_plan_unref (plan, copies[p]);
      zs_torch_copy (plan, ZS_WORK_OPTIMIZER, elements_of (self, p), 4, self->bytes,
                     "update parameter");
    }
  for (int32_t p = 0; p < model->n_parameters; p++)
    drop (plan, &self->gradients[p]);
}

static void
step (void *data, ZsPlan *plan, int step)
{
  Stage0 *self = data;
  uint32_t label = zs_plan_set_label (plan, zs_plan_label (plan, -1, "optimizer"));

  (void) step;
  zs_plan_host (plan, ZS_HOST_ENGINE_STEP, 1);
  if (self->wrapper != ZS_WRAPPER_NONE)
    check_overflow (self, plan);
  int64_t start = plan->n_code;

  if (self->wrapper == ZS_WRAPPER_FP16)
    update_fused (self, plan);
  else
    update_each (self, plan);
  if (self->config.dtype == ZS_DTYPE_FP16)
    zs_zero_unless_overflow (plan, start);
  zs_loss_after_step (&self->loss, plan);
  zs_plan_set_label (plan, label);
}

static void
free_stage0 (void *data)
{
  Stage0 *self = data;

  g_free (self->wrapped.storage);
  g_free (self->gradients);
  g_free (self->masters);
  g_free (self->momentum);
  g_free (self->variance);
  g_free (self->step_count);
  g_free (self);
}

static ZsTensor *
no_tensors (int32_t n)
{
  ZsTensor *tensors = g_new (ZsTensor, MAX (n, 1));

  for (int32_t i = 0; i < n; i++)
    tensors[i] = ZS_NO_TENSOR;
  return tensors;
}

static uint64_t
stage0_digest (const void *data, bool events G_GNUC_UNUSED)
{
  const Stage0 *self = data;
  int32_t n = self->model->n_parameters;
  uint64_t digest = zs_digest_items (1, self, 1);

  digest = zs_digest_items (digest, self->wrapped.storage, n);
  digest = zs_digest_items (digest, self->gradients, n);
  digest = zs_digest_items (digest, self->masters, n);
  digest = zs_digest_items (digest, self->momentum, n);
  digest = zs_digest_items (digest, self->variance, n);
  return zs_digest_items (digest, self->step_count, n);
}

ZsHooks *
zs_stage0_hooks_new (const ZsModel *model, const ZsZeroConfig *config, const ZsStepShape *shape,
                     int64_t rank, ZsPlan *plan)
{
  Stage0 *self = g_new0 (Stage0, 1);
  int32_t n = model->n_parameters;

  (void) rank;
  (void) plan;
  self->config = *config;
  self->shape = *shape;
  self->model = model;
  self->wrapper = zs_zero_wrapper (config);
  self->bytes = (int) zs_dtype_bytes (config->dtype);
  for (int32_t p = 0; p < n; p++)
    if (trainable (self, p))
      self->elements += elements_of (self, p);
  self->wrapped.storage = no_tensors (n);
  self->gradients = no_tensors (n);
  self->masters = no_tensors (n);
  self->momentum = no_tensors (n);
  self->variance = no_tensors (n);
  self->step_count = no_tensors (n);
  self->wrapped.flat[0] = self->master = self->flat_momentum = self->flat_variance = ZS_NO_TENSOR;
  self->flat_step = ZS_NO_TENSOR;
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
    .digest = stage0_digest,
    .free = free_stage0,
  };
  return &self->hooks;
}
