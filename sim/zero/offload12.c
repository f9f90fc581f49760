/* offload12.c: the optimizer of ZeRO-1 and 2 on the CPU (`nvme` acts as `cpu`).
 * SPDX-License-Identifier: MIT
 *
 * deepspeed/runtime/zero/stage_1_and_2.py with cpu_offload.  Pinned buffers are HOST_ALLOCs with
 * ZS_FLAG_PINNED: PyTorch's host allocator rounds each up to a power of two. */
#include "config.h"

#include "sim/zero/adam.h"
#include "sim/zero/loss.h"
#include "sim/zero/stage12.h"
#include "sim/zero/torch-ops.h"

static unsigned int
pin_flag (const ZsStage12 *self)
{
  return self->config.optimizer_pin ? ZS_FLAG_PINNED : 0;
}

static unsigned int
master_flag (const ZsStage12 *self)
{
  return zs_behaves (&self->config.versions, ZS_BEHAVIOUR_MASTER_ALWAYS_PINNED)
         ? ZS_FLAG_PINNED : pin_flag (self);
}

/* Copies between the GPU and buffers that follow pin_memory: asynchronous only if pinned. */
static void
copy (const ZsStage12 *self, ZsPlan *plan, ZsCopyKind kind, int64_t bytes)
{
  zs_plan_copy (plan, kind, bytes, self->config.optimizer_pin ? ZS_FLAG_PINNED : ZS_FLAG_BLOCKING);
}

/* A zero-filled or copied host tensor; pin_memory () makes a second one and drops the first. */
static ZsTensor
host_buffer (ZsPlan *plan, int64_t bytes, ZsCategory category, unsigned int flags)
{
  ZsTensor pageable = zs_plan_host_alloc (plan, bytes, category, 0);

  zs_plan_cpu_task (plan, ZS_CPU_ZERO, bytes);
  if (flags == 0)
    return pageable;
  ZsTensor pinned = zs_plan_host_alloc (plan, bytes, category, flags);

  zs_plan_cpu_task (plan, ZS_CPU_COPY, bytes);
  zs_plan_unref (plan, pageable);
  return pinned;
}

void
zs_offload12_init_group (ZsStage12 *self, ZsPlan *plan, int32_t g)
{
  int64_t elements = self->groups[g].partition_elements;
  ZsOffload12 *host = &self->host;

  /* 0.14.4: .to ("cpu").clone ().float (); 0.19.5 clones on the GPU first, which shows in the reserved
   * bytes after construction */
  ZsTensor clone = ZS_NO_TENSOR;

  if (zs_behaves (&self->config.versions, ZS_BEHAVIOUR_FLATTEN_ON_GPU)) {
    clone = zs_plan_alloc (plan, self->bytes * elements, ZS_CATEGORY_MASTER);
    zs_torch_copy (plan, ZS_WORK_OPTIMIZER, elements, self->bytes, self->bytes, "clone partition");
  }
  ZsTensor partition = zs_plan_host_alloc (plan, self->bytes * elements, ZS_CATEGORY_MASTER,
                                           ZS_FLAG_COPIED);

  zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, self->bytes * elements, ZS_FLAG_BLOCKING);
  host->master[g] = host_buffer (plan, self->master_bytes * elements, ZS_CATEGORY_MASTER,
                                 master_flag (self));
  zs_plan_cpu_task (plan, ZS_CPU_CAST, elements);
  zs_plan_unref (plan, partition);
  zs_plan_unref (plan, clone);
  if (zs_behaves (&self->config.versions, ZS_BEHAVIOUR_OFFLOAD_STAGING_16BIT))
    host->parameters[g] = host_buffer (plan, self->bytes * elements, ZS_CATEGORY_OFFLOAD,
                                       pin_flag (self));
}

void
zs_offload12_init (ZsStage12 *self, ZsPlan *plan)
{
  ZsOffload12 *host = &self->host;
  int64_t bytes = self->bytes * self->largest;

  host->staging_host = host_buffer (plan, bytes, ZS_CATEGORY_OFFLOAD, pin_flag (self));
  host->staging_gpu = zs_plan_alloc (plan, bytes, ZS_CATEGORY_OFFLOAD);
  zs_torch_launch (plan, ZS_KERNEL_FILL, ZS_WORK_OPTIMIZER, self->largest, self->bytes, bytes,
                   "zero staging");
  for (int32_t g = 0; g < self->n_groups; g++)
    host->gradient[g] = host_buffer (plan, self->master_bytes * self->groups[g].partition_elements,
                                     ZS_CATEGORY_GRADIENTS, pin_flag (self));
}

/* async_accumulate_grad_in_cpu_via_gpu (): the sum of earlier micro-steps lives on the host, each
 * gradient whole, and makes the round trip through one GPU buffer. */
static void
accumulate_on_host (ZsStage12 *self, ZsPlan *plan, int32_t parameter)
{
  int64_t elements = zs_stage12_elements (self, parameter);
  int64_t bytes = self->bytes * elements;
  ZsTensor *sum = &self->host.accumulated[parameter];
  bool half_master = self->master_bytes == 2;   /* then the fp32 gradient's own buffer serves */

  if (*sum == ZS_NO_TENSOR && !half_master)
    *sum = host_buffer (plan, bytes, ZS_CATEGORY_GRADIENTS, pin_flag (self));
  if (self->micro_step > 0) {
    copy (self, plan, ZS_COPY_HOST_TO_GPU, bytes);
    zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, elements, self->bytes,
                     3 * bytes, "add gradient");
  }
  if (!self->wrapped.boundary || zs_behaves (&self->config.versions, ZS_BEHAVIOUR_OFFLOAD_STAGING_16BIT))
    copy (self, plan, ZS_COPY_GPU_TO_HOST, bytes);
}

void
zs_offload12_gradient (ZsStage12 *self, ZsPlan *plan, int32_t parameter)
{
  const ZsFlatGroup *group = &self->groups[self->wrapped.group_of[parameter]];
  int64_t elements = zs_stage12_elements (self, parameter);
  int64_t own = zs_flat_group_slice (group, self->index_of[parameter], self->rank, NULL);

  /* stage 1 sums on the GPU; 0.14.4 sums on the host all the same, 0.19.5 does not (pinned bytes of
   * both were measured) */
  bool on_host = self->partition_gradients
                 || !zs_behaves (&self->config.versions,
                                 ZS_BEHAVIOUR_BUCKETS_IN_FIRST_GRADIENT_HOOK);

  if (self->config.gradient_accumulation > 1 && on_host)
    accumulate_on_host (self, plan, parameter);
  if (!self->wrapped.boundary)
    return;
  /* set_norm_for_param_grad_in_gpu (): of the own slice */
  ZsTensor norm = zs_torch_double_norm (plan, &self->shape, own, self->bytes);

  zs_plan_unref (plan, self->host.norms[parameter]);
  self->host.norms[parameter] = norm;
  /* update_overflow_tracker_for_param_grad (): of the whole gradient, and the host reads it */
  ZsTensor overflow = zs_torch_has_inf_or_nan (plan, &self->shape, elements, self->bytes);

  zs_torch_item (plan, 4);
  zs_plan_unref (plan, overflow);
  /* async_inplace_copy_grad_to_fp32_buffer_from_gpu () */
  ZsTensor converted = ZS_NO_TENSOR;

  if (self->master_bytes != self->bytes) {
    converted = zs_plan_alloc (plan, self->master_bytes * own, ZS_CATEGORY_OFFLOAD);
    zs_torch_copy (plan, ZS_WORK_COMMUNICATION, own, self->bytes, self->master_bytes,
                   "gradient to fp32");
  }
  copy (self, plan, ZS_COPY_GPU_TO_HOST, self->master_bytes * own);
  zs_plan_unref (plan, converted);
}

/* complete_grad_norm_calculation_for_cpu_offload (): one .item () per own gradient. */
static void
host_norm (ZsStage12 *self, ZsPlan *plan)
{
  for (int32_t g = 0; g < self->n_groups; g++) {
    for (int32_t i = 0; i < self->n_own[g]; i++)
      zs_torch_item (plan, 8);
    ZsTensor total = zs_torch_scalar_from_host (plan, 4);

    zs_torch_collective (plan, ZS_COLLECTIVE_ALL_REDUCE, ZS_COMMUNICATOR_CLONE, 4);
    zs_torch_item (plan, 4);
    zs_plan_unref (plan, total);
  }
}

/* The updated partition goes back to the GPU. */
static void
send_parameters (ZsStage12 *self, ZsPlan *plan, int32_t g)
{
  const ZsVersions *versions = &self->config.versions;
  int64_t elements = self->groups[g].partition_elements;

  if (zs_behaves (versions, ZS_BEHAVIOUR_OFFLOAD_STEP_SPIKE)) {
    ZsTensor spike = zs_plan_alloc (plan, self->master_bytes * elements, ZS_CATEGORY_OFFLOAD);

    zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, self->master_bytes * elements,
                  ZS_FLAG_BLOCKING | (master_flag (self) & ZS_FLAG_PINNED));
    zs_torch_copy (plan, ZS_WORK_OPTIMIZER, elements, self->master_bytes, self->bytes,
                   "update parameters");
    zs_plan_unref (plan, spike);
  } else if (zs_behaves (versions, ZS_BEHAVIOUR_OFFLOAD_STAGING_16BIT)) {
    zs_copy_on_cpu (plan, elements, self->master_bytes, self->bytes);
    copy (self, plan, ZS_COPY_HOST_TO_GPU, self->bytes * elements);
  } else {
    ZsTensor cast = zs_plan_host_alloc (plan, self->bytes * elements, ZS_CATEGORY_OFFLOAD, 0);

    zs_plan_cpu_task (plan, ZS_CPU_CAST, elements);
    zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, self->bytes * elements, ZS_FLAG_BLOCKING);
    zs_plan_unref (plan, cast);
  }
}

void
zs_offload12_step (ZsStage12 *self, ZsPlan *plan)
{
  ZsOffload12 *host = &self->host;
  uint32_t label = zs_plan_set_label (plan, zs_plan_label (plan, -1, "CPU optimizer"));

  host_norm (self, plan);
  for (int32_t g = 0; g < self->n_groups; g++) {
    int64_t elements = self->groups[g].partition_elements;

    zs_scale_on_cpu (plan, elements, self->master_bytes);
    if (host->momentum[g] == ZS_NO_TENSOR) {
      /* DeepSpeedCPUAdam: pageable, in the first step */
      host->momentum[g] = zs_plan_host_alloc (plan, self->state_bytes * elements,
                                              ZS_CATEGORY_OPTIMIZER, 0);
      host->variance[g] = zs_plan_host_alloc (plan, self->state_bytes * elements,
                                              ZS_CATEGORY_OPTIMIZER, 0);
      zs_plan_cpu_task (plan, ZS_CPU_ZERO, 2 * self->state_bytes * elements);
    }
    zs_adam_on_cpu (plan, self->config.optimizer, elements, self->master_bytes, self->state_bytes);
    send_parameters (self, plan, g);
  }
  for (int32_t p = 0; p < self->model->n_parameters; p++) {   /* reset_cpu_buffers () */
    zs_plan_unref (plan, host->norms[p]);
    host->norms[p] = ZS_NO_TENSOR;
  }
  zs_stage12_gather (self, plan);
  zs_plan_set_label (plan, label);
}
