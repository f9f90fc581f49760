/* stage12-init.c: how the model gets to the GPU and DeepSpeedZeroOptimizer's construction.
 * SPDX-License-Identifier: MIT
 *
 * deepspeed/runtime/engine.py, _configure_distributed_model (); zero/stage_1_and_2.py, __init__ ().
 * The order was read off allocator histories of 0.14.4 and 0.19.5. */
#include "config.h"

#include "sim/zero/adam.h"
#include "sim/zero/skip.h"
#include "sim/zero/stage12.h"
#include "sim/zero/torch-ops.h"

void
zs_stage12_load (void *data, ZsPlan *plan)
{
  ZsStage12 *self = data;

  zs_zero_load_model (plan, self->model, self->wrapped.storage, &self->rotary);
}

/* param.data = a view of the flat buffer. */
static void
drop_storage (ZsStage12 *self, ZsPlan *plan, const ZsFlatGroup *group)
{
  for (int32_t i = 0; i < group->n_parameters; i++) {
    int32_t parameter = group->parameters[group->order[i]].parameter;

    zs_plan_unref (plan, self->wrapped.storage[parameter]);
    self->wrapped.storage[parameter] = ZS_NO_TENSOR;
  }
}

/* Up to 0.18: every parameter goes to the host and leaves a placeholder of one number; the flat
 * buffer is made there and copied. */
static void
flatten_on_host (ZsStage12 *self, ZsPlan *plan, int32_t g)
{
  const ZsFlatGroup *group = &self->groups[g];
  int32_t n = group->n_parameters;
  g_autofree ZsTensor *copies = g_new (ZsTensor, n);
  g_autofree ZsTensor *placeholders = g_new (ZsTensor, n);

  for (int32_t i = 0; i < n; i++) {
    int32_t parameter = group->parameters[group->order[i]].parameter;
    int64_t bytes = self->bytes * zs_stage12_elements (self, parameter);

    copies[i] = zs_plan_host_alloc (plan, bytes, ZS_CATEGORY_PARAMETERS, 0);
    zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, bytes, ZS_FLAG_BLOCKING);
    placeholders[i] = zs_plan_alloc (plan, 4, ZS_CATEGORY_PARAMETERS);
    zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, 4, ZS_FLAG_BLOCKING);
    zs_plan_unref (plan, self->wrapped.storage[parameter]);
    self->wrapped.storage[parameter] = ZS_NO_TENSOR;
  }
  zs_plan_empty_cache (plan);
  int64_t bytes = self->bytes * group->padded_elements;
  ZsTensor flat = zs_plan_host_alloc (plan, bytes, ZS_CATEGORY_PARAMETERS, 0);

  zs_plan_cpu_task (plan, ZS_CPU_COPY, bytes);
  for (int32_t i = 0; i < n; i++)
    zs_plan_unref (plan, copies[i]);
  self->wrapped.flat[g] = zs_plan_alloc (plan, bytes, ZS_CATEGORY_PARAMETERS);
  zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, bytes, ZS_FLAG_BLOCKING);
  zs_plan_unref (plan, flat);
  for (int32_t i = 0; i < n; i++)
    zs_plan_unref (plan, placeholders[i]);
}

/* From 0.19.0: the flat buffer is made on the GPU if it fits there; the parameters' own storage
 * stays in the cache.  If not, as before. */
static void
flatten_on_gpu (ZsStage12 *self, ZsPlan *plan, int32_t g)
{
  const ZsFlatGroup *group = &self->groups[g];
  int64_t bytes = self->bytes * group->padded_elements;
  g_autofree ZsTensor *storage = g_memdup2 (self->wrapped.storage, sizeof (ZsTensor)
                                                           * (gsize) self->model->n_parameters);

  zs_plan_empty_cache (plan);
  int64_t start = plan->n_code;

  self->wrapped.flat[g] = zs_plan_alloc (plan, bytes, ZS_CATEGORY_PARAMETERS);
  zs_torch_copy (plan, ZS_WORK_OPTIMIZER, group->elements, self->bytes, self->bytes,
                 "flatten parameters");
  drop_storage (self, plan, group);

  /* the other branch, with the same tensors */
  int64_t middle = plan->n_code;

  for (int32_t i = 0; i < group->n_parameters; i++) {
    int32_t parameter = group->parameters[group->order[i]].parameter;

    zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, self->bytes * zs_stage12_elements (self, parameter),
                  ZS_FLAG_BLOCKING);
    zs_plan_emit (plan, ZS_OP_FREE)->id = storage[parameter];
  }
  zs_plan_empty_cache (plan);
  ZsTensor host = zs_plan_host_alloc (plan, bytes, ZS_CATEGORY_PARAMETERS, 0);
  ZsInstruction *alloc = zs_plan_emit (plan, ZS_OP_ALLOC);

  alloc->kind = ZS_CATEGORY_PARAMETERS;
  alloc->id = self->wrapped.flat[g];
  alloc->bytes = bytes;
  zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, bytes, ZS_FLAG_BLOCKING);
  zs_plan_unref (plan, host);
  zs_zero_if_free (plan, start, middle, bytes);
}

/* The fp32 master: made from a 16-bit clone of the own partition. */
static void
make_master (ZsStage12 *self, ZsPlan *plan, int32_t g)
{
  int64_t elements = self->groups[g].partition_elements;
  ZsTensor clone = zs_plan_alloc (plan, self->bytes * elements, ZS_CATEGORY_MASTER);

  zs_torch_copy (plan, ZS_WORK_OPTIMIZER, elements, self->bytes, self->bytes, "clone partition");
  if (self->master_bytes == self->bytes) {
    self->master[g] = clone;
    return;
  }
  self->master[g] = zs_plan_alloc (plan, self->master_bytes * elements, ZS_CATEGORY_MASTER);
  zs_torch_copy (plan, ZS_WORK_OPTIMIZER, elements, self->bytes, self->master_bytes,
                 "master weights");
  zs_plan_unref (plan, clone);
}

/* initialize_optimizer_states (): zero gradients that are dropped again; the states themselves come
 * with the first step. */
static void
initialize_states (ZsStage12 *self, ZsPlan *plan)
{
  ZsTensor gradients[ZS_MAX_GROUPS];

  for (int32_t g = 0; g < self->n_groups; g++) {
    int64_t elements = self->groups[g].partition_elements;

    gradients[g] = zs_plan_alloc (plan, self->master_bytes * elements, ZS_CATEGORY_STEP);
    zs_torch_launch (plan, ZS_KERNEL_FILL, ZS_WORK_OPTIMIZER, elements, self->master_bytes,
                     self->master_bytes * elements, "zero gradient");
  }
  for (int32_t g = 0; g < self->n_groups; g++)
    zs_plan_unref (plan, gradients[g]);
}

void
zs_stage12_init (void *data, ZsPlan *plan)
{
  ZsStage12 *self = data;
  uint32_t label = zs_plan_set_label (plan, zs_plan_label (plan, -1, "deepspeed.initialize"));

  zs_zero_cast_model (plan, self->model, &self->config.versions, self->config.dtype, self->wrapped.storage,
                      &self->rotary);
  zs_adam_init (plan, self->config.optimizer);
  for (int32_t g = 0; g < self->n_groups; g++) {
    if (zs_behaves (&self->config.versions, ZS_BEHAVIOUR_FLATTEN_ON_GPU))
      flatten_on_gpu (self, plan, g);
    else
      flatten_on_host (self, plan, g);
    if (self->offload)
      zs_offload12_init_group (self, plan, g);
    else
      make_master (self, plan, g);
  }
  if (self->offload)
    zs_offload12_init (self, plan);
  else
    initialize_states (self, plan);
  zs_plan_set_label (plan, label);
}
