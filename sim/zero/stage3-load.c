/* stage3-load.c: how the model becomes shards, and what deepspeed.initialize () allocates.
 * SPDX-License-Identifier: MIT
 *
 * Under zero.Init every module's parameters are created on the GPU, broadcast and cut into shards as
 * soon as the module has been built.  The engine then moves all trainable shards through the host into
 * one buffer ("defragment"), makes the fp32 masters sub-group by sub-group, a buffer of zeros for the
 * largest one, the gradient bucket and the buffer of gradient shards, and gathers every trainable
 * parameter once to hang its gradient hook on it.
 */
#include "config.h"

#include "sim/model/quantize.h"
#include "sim/zero/stage3-internal.h"

static void
broadcast (ZsPlan *plan, int64_t bytes)
{
  zs_torch_collective (plan, ZS_COLLECTIVE_BROADCAST, ZS_ZERO3_COMM_WORLD, bytes);
}

static unsigned int
pin_if (bool pin)
{
  return pin ? ZS_FLAG_PINNED : 0;
}

/* A new host tensor; pin_memory () copies, so that a pageable one exists beside it for a moment. */
static ZsTensor
host_tensor (ZsPlan *plan, int64_t bytes, ZsCategory category, bool pin)
{
  ZsTensor pageable = zs_plan_host_alloc (plan, bytes, category, 0);

  if (!pin)
    return pageable;
  ZsTensor pinned = zs_plan_host_alloc (plan, bytes, category, ZS_FLAG_PINNED);

  zs_plan_cpu_task (plan, ZS_CPU_COPY, bytes);
  zs_plan_unref (plan, pageable);
  return pinned;
}

/* _partition_param (): the own shard of a parameter whose whole storage is FULL. */
static ZsTensor
make_shard (Zero3 *zero, ZsPlan *plan, const Zero3Parameter *parameter)
{
  int64_t bytes = parameter->shard * parameter->bytes;
  ZsTensor shard;

  if (zero->config.offload_param == ZS_DEVICE_NVME
      && zero3_is_swappable (zero, parameter->shard, parameter->bytes)) {
    zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, bytes, ZS_FLAG_BLOCKING | ZS_FLAG_PINNED);
    zero3_write_now (plan, bytes);
    shard = ZS_NO_TENSOR;
  } else if (zero3_params_on_host (zero)) {
    shard = host_tensor (plan, bytes, ZS_CATEGORY_PARAMETERS, zero->config.param_pin);
    zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, bytes,
                  ZS_FLAG_BLOCKING | pin_if (zero->config.param_pin));
  } else {
    shard = zs_plan_alloc (plan, bytes, ZS_CATEGORY_PARAMETERS);
    zs_torch_copy (plan, ZS_WORK_COMMUNICATION, parameter->shard, parameter->bytes,
                   parameter->bytes, "partition");
  }
  return shard;
}

static ZsTensor
create (Zero3 *zero, ZsPlan *plan, const Zero3Parameter *parameter)
{
  int64_t bytes = parameter->elements * parameter->bytes;
  ZsTensor full = zs_plan_alloc (plan, bytes, ZS_CATEGORY_PARAMETERS);

  (void) zero;
  zs_torch_launch (plan, ZS_KERNEL_FILL, ZS_WORK_COMPUTE, parameter->elements, parameter->bytes,
                   bytes, "initialise");
  return full;
}

/* The rotary module: inv_freq in fp32, its conversions, its broadcast; two copies in the model's dtype
 * stay (read off recorded histories of transformers 5.17). */
static void
load_rotary (Zero3 *zero, ZsPlan *plan)
{
  int64_t n = zero->model->shape.head_dim / 2, half = n * zero->model_bytes;
  ZsTensor wide = zs_plan_alloc (plan, 4 * n, ZS_CATEGORY_INPUT);
  ZsTensor first = zs_plan_alloc (plan, half, ZS_CATEGORY_INPUT);

  zs_plan_unref (plan, wide);
  ZsTensor arange = zs_plan_alloc (plan, half, ZS_CATEGORY_INPUT);

  zs_plan_unref (plan, first);
  ZsTensor power = zs_plan_alloc (plan, half, ZS_CATEGORY_INPUT);

  zs_plan_unref (plan, zs_plan_alloc (plan, 8, ZS_CATEGORY_INPUT));
  zs_plan_unref (plan, arange);
  ZsTensor inverse = zs_plan_alloc (plan, half, ZS_CATEGORY_INPUT);

  zs_plan_alloc (plan, half, ZS_CATEGORY_INPUT);   /* stays */
  zs_plan_unref (plan, inverse);
  zs_plan_unref (plan, power);
  zs_plan_alloc (plan, half, ZS_CATEGORY_INPUT);   /* stays */
}

/* An adapter from one element size to another; the old storage goes. */
static void
convert_adapter (Zero3 *zero, ZsPlan *plan, int32_t index, int from, int to)
{
  Zero3Parameter *parameter = &zero->parameters[index];
  ZsTensor cast = zs_plan_alloc (plan, to * parameter->elements, ZS_CATEGORY_PARAMETERS);

  zs_torch_copy (plan, ZS_WORK_OPTIMIZER, parameter->elements, from, to, "cast adapter");
  zs_plan_unref (plan, parameter->full);
  parameter->full = cast;
}

/* peft's adapters come outside zero.Init: whole, in the base model's dtype, then all cast to fp32. */
static void
load_adapters (Zero3 *zero, ZsPlan *plan)
{
  for (int32_t p = 0; p < zero->n_parameters; p++)
    if (zs_parameter_is_added (zero->model, p)) {
      Zero3Parameter *parameter = &zero->parameters[p];

      parameter->full = zs_plan_alloc (plan, parameter->elements * zero->model_bytes,
                                       ZS_CATEGORY_PARAMETERS);
      zs_torch_launch (plan, ZS_KERNEL_FILL, ZS_WORK_COMPUTE, parameter->elements,
                       (int) zero->model_bytes, parameter->elements * zero->model_bytes,
                       "initialise");
    }
  for (int32_t p = 0; zero->model_bytes == 2 && p < zero->n_parameters; p++)
    if (zs_parameter_is_adapter (zero->model, p))
      convert_adapter (zero, plan, p, 2, 4);
}

void
zero3_load (void *self, ZsPlan *plan)
{
  Zero3 *zero = self;
  const ZsModel *model = zero->model;
  uint32_t label = zs_plan_set_label (plan, zero->label_init);
  int32_t head = zs_model_find (model, ZS_MODULE_HEAD, -1);

  if (zero->config.offload_param == ZS_DEVICE_NVME)
    zero3_swap_pool (zero, plan);
  for (int32_t m = 0; m < model->n_modules; m++) {
    const ZsModule *module = &model->modules[m];
    bool own = m != head || !model->shape.tied_embeddings;

    if (module->kind == ZS_MODULE_ROTARY)
      load_rotary (zero, plan);
    if (module->n_parameters == 0 || !own || zs_parameter_is_added (model, module->first_parameter))
      continue;
    for (int32_t i = 0; i < module->n_parameters; i++) {
      Zero3Parameter *parameter = &zero->parameters[module->first_parameter + i];

      parameter->full = create (zero, plan, parameter);
    }
    for (int32_t i = 0; zero->config.zero_init && i < module->n_parameters; i++) {
      Zero3Parameter *parameter = &zero->parameters[module->first_parameter + i];

      broadcast (plan, parameter->elements * parameter->bytes);
      zero3_fill_secondary (zero, plan, module->first_parameter + i);
      parameter->shard_tensor = make_shard (zero, plan, parameter);
      zs_plan_unref (plan, parameter->full);
      parameter->full = ZS_NO_TENSOR;
    }
  }
  if (model->shape.tied_embeddings && head >= 0) {
    /* The head is built with a weight of its own, then tied; the garbage collector takes its shard
     * during deepspeed.initialize (). */
    int32_t embedding = zs_model_find (model, ZS_MODULE_EMBEDDING, -1);
    Zero3Parameter like = zero->parameters[model->modules[embedding].first_parameter];
    ZsTensor full = create (zero, plan, &like);

    if (zero->config.zero_init) {
      broadcast (plan, like.elements * like.bytes);
      zero->tied_head_shard = make_shard (zero, plan, &like);
    }
    zs_plan_unref (plan, full);
  }
  zs_load_quantized_states (plan, model);
  if (zero->shape.lora.rank > 0) {
    load_adapters (zero, plan);
    zs_plan_unref (plan, zero->tied_head_shard);   /* collected on the way */
    zero->tied_head_shard = ZS_NO_TENSOR;
  }
  zs_plan_set_label (plan, label);
}

/* What zero.Init did not build is whole on the GPU; it is cast where the engine does that, then cut
 * one by one. */
static void
partition_model (Zero3 *zero, ZsPlan *plan)
{
  for (int32_t p = 0; p < zero->n_parameters; p++)
    if (zs_parameter_is_adapter (zero->model, p) && zero->model_bytes == 2 && zero->parameters[p].bytes == 2)
      convert_adapter (zero, plan, p, 4, 2);
  for (int32_t p = 0; p < zero->n_parameters; p++) {
    Zero3Parameter *parameter = &zero->parameters[p];

    if (parameter->full == ZS_NO_TENSOR)
      continue;
    broadcast (plan, parameter->elements * parameter->bytes);
    zero3_fill_secondary (zero, plan, p);
    parameter->shard_tensor = make_shard (zero, plan, parameter);
    zs_plan_unref (plan, parameter->full);
    parameter->full = ZS_NO_TENSOR;
  }
}

/* defragment (): shards to a pageable host buffer, cache emptied, one buffer on the GPU. */
static void
defragment (Zero3 *zero, ZsPlan *plan)
{
  int64_t bytes = 0;

  for (int32_t i = 0; i < zero->n_trainable; i++) {
    const Zero3Parameter *parameter = &zero->parameters[zero->group_order[i]];

    bytes += parameter->shard * parameter->bytes;
  }
  ZsTensor buffer = zs_plan_host_alloc (plan, bytes, ZS_CATEGORY_PARAMETERS, 0);

  for (int32_t i = 0; i < zero->n_trainable; i++) {
    Zero3Parameter *parameter = &zero->parameters[zero->group_order[i]];

    zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, parameter->shard * parameter->bytes,
                  ZS_FLAG_BLOCKING);
    zs_plan_unref (plan, parameter->shard_tensor);
  }
  zs_plan_empty_cache (plan);
  zero->shard_buffer = zs_plan_alloc (plan, bytes, ZS_CATEGORY_PARAMETERS);
  zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, bytes, ZS_FLAG_BLOCKING);
  for (int32_t i = 0; i < zero->n_trainable; i++)
    zero->parameters[zero->group_order[i]].shard_tensor = zs_plan_ref (plan, zero->shard_buffer);
  zs_plan_unref (plan, buffer);
}

/* The shards of parameters on the host move into one pinned buffer per optimizer group (pinned
 * whatever pin_memory says); what zero.Init pinned goes back to PyTorch's cache. */
static void
move_shards_to_host_buffers (Zero3 *zero, ZsPlan *plan)
{
  int32_t n_groups = MAX (1, zero->config.optimizer_groups);
  bool nvme = zero->config.offload_param == ZS_DEVICE_NVME;
  int64_t earlier = 0;

  for (int32_t group = 0; group < n_groups; group++) {
    int64_t bytes = 0, elements = 0;

    for (int32_t i = 0; i < zero->n_trainable; i++) {
      const Zero3Parameter *parameter = &zero->parameters[zero->group_order[i]];

      if (zero->sub_groups[parameter->sub_group].group == group) {
        bytes += parameter->shard * parameter->bytes;
        elements += parameter->shard;
      }
    }
    if (nvme) {   /* _create_param_groups_fp16_flat_cpu_memory () */
      int64_t room = MAX (0, zero->config.param_max_in_cpu - earlier);

      earlier += elements;
      elements = MIN (elements, room);
      bytes = elements * zero->model_bytes;
    }
    if (bytes == 0)
      continue;
    ZsTensor buffer = host_tensor (plan, bytes, ZS_CATEGORY_PARAMETERS, true);

    for (int32_t i = 0; i < zero->n_trainable; i++) {
      Zero3Parameter *parameter = &zero->parameters[zero->group_order[i]];

      const Zero3SubGroup *sub_group = &zero->sub_groups[parameter->sub_group];

      if (sub_group->group != group || sub_group->shards_swapped)
        continue;
      if (nvme && zero3_is_swappable (zero, parameter->shard, parameter->bytes)) {   /* comes back */
        ZsEvent done = zs_plan_event_new (plan);

        zs_plan_nvme (plan, ZS_NVME_READ, parameter->shard * parameter->bytes, done);
        zs_plan_host_wait_event (plan, done);
        zs_plan_event_free (plan, done);
      }
      zs_plan_unref (plan, parameter->shard_tensor);
      parameter->shard_tensor = zs_plan_ref (plan, buffer);
    }
    zs_plan_cpu_task (plan, ZS_CPU_COPY, elements * zero->model_bytes);
    if (!nvme)
      zs_plan_unref (plan, buffer);   /* with NVMe it stays even where no sub-group fits into it */
  }
  if (nvme) {   /* what an updated sub-group is written from */
    int64_t largest = 0;

    for (int32_t k = 0; k < zero->n_sub_groups; k++)
      largest = MAX (largest, zero->sub_groups[k].shards_swapped ? zero->sub_groups[k].elements : 0);
    if (largest > 0)
      host_tensor (plan, largest * zero->model_bytes, ZS_CATEGORY_OFFLOAD, true);
  }
}

static void
make_masters (Zero3 *zero, ZsPlan *plan)
{
  int64_t b = zero3_master_bytes (zero);
  bool old = zero->old_backward;

  for (int32_t k = 0; k < zero->n_sub_groups; k++) {
    Zero3SubGroup *group = &zero->sub_groups[k];
    int64_t n = group->elements;

    if (!group->on_gpu) {
      if (group->swapped) {
        zero3_swap_master (zero, plan, group);
        continue;
      }
      if (group->shards_swapped) {
        ZsEvent done = zs_plan_event_new (plan);

        zs_plan_nvme (plan, ZS_NVME_READ, n * zero->model_bytes, done);
        zs_plan_host_wait_event (plan, done);
        zs_plan_event_free (plan, done);
      }
      if (!zero3_params_on_host (zero)) {
        /* .to ("cpu") of the 16-bit shards, then the conversion */
        ZsTensor half = zs_plan_host_alloc (plan, n * zero->model_bytes, ZS_CATEGORY_OFFLOAD,
                                            ZS_FLAG_COPIED);

        zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, n * zero->model_bytes, ZS_FLAG_BLOCKING);
        group->master = zs_plan_host_alloc (plan, n * b, ZS_CATEGORY_MASTER, 0);
        zs_plan_cpu_task (plan, ZS_CPU_CAST, n);
        zs_plan_unref (plan, half);
      } else {
        group->master = zs_plan_host_alloc (plan, n * b, ZS_CATEGORY_MASTER, 0);
        zs_plan_cpu_task (plan, ZS_CPU_CAST, n);
      }
      continue;
    }
    /* Shards on the host come to the GPU first (offload_param alone, Twin-Flow with both). */
    ZsTensor staged = ZS_NO_TENSOR;

    if (zero3_params_on_host (zero)) {
      staged = zs_plan_alloc (plan, n * zero->model_bytes, ZS_CATEGORY_OFFLOAD);
      zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, n * zero->model_bytes,
                    ZS_FLAG_BLOCKING | ZS_FLAG_PINNED);
    }
    /* until 0.19.2: .clone ().float (); later .to (float).clone () */
    ZsTensor first = zs_plan_alloc (plan, n * (old ? zero->model_bytes : b), ZS_CATEGORY_MASTER);

    zs_torch_copy (plan, ZS_WORK_OPTIMIZER, n, (int) zero->model_bytes,
                   (int) (old ? zero->model_bytes : b), "master.first");
    zs_plan_unref (plan, staged);
    group->master = zs_plan_alloc (plan, n * b, ZS_CATEGORY_MASTER);
    zs_torch_copy (plan, ZS_WORK_OPTIMIZER, n, (int) (old ? zero->model_bytes : b), (int) b,
                   "master.second");
    zs_plan_unref (plan, first);
  }
}

/* initialize_optimizer_states (): one buffer of zeros for the largest sub-group; with offload it is
 * on the host, and every sub-group on the host gets its own fp32 gradient. */
static void
make_zero_gradients (Zero3 *zero, ZsPlan *plan)
{
  bool host = zero3_optimizer_on_host (zero);
  int64_t largest = 0, b = zero3_master_bytes (zero);
  ZsTensor zeros;

  for (int32_t k = 0; k < zero->n_sub_groups; k++)
    largest = MAX (largest, zero->sub_groups[k].elements);
  if (host) {
    zeros = zs_plan_host_alloc (plan, largest * b, ZS_CATEGORY_GRADIENTS, 0);
    zs_plan_cpu_task (plan, ZS_CPU_ZERO, largest);
  } else {
    zeros = zs_plan_alloc (plan, largest * b, ZS_CATEGORY_GRADIENTS);
    zs_torch_launch (plan, ZS_KERNEL_FILL, ZS_WORK_OPTIMIZER, largest, (int) b, largest * b, "zeros");
  }
  for (int32_t k = 0; host && k < zero->n_sub_groups; k++) {
    Zero3SubGroup *group = &zero->sub_groups[k];

    if (group->swapped)
      continue;
    if (group->on_gpu) {
      group->gradient = zs_plan_alloc (plan, group->elements * b, ZS_CATEGORY_GRADIENTS);
      zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, group->elements * b, ZS_FLAG_BLOCKING);
    } else
      group->gradient = host_tensor (plan, group->elements * b, ZS_CATEGORY_GRADIENTS,
                                     zero->config.optimizer_pin);
  }
  zs_plan_unref (plan, zeros);
}

void
zero3_init (void *self, ZsPlan *plan)
{
  Zero3 *zero = self;
  const ZsZeroConfig *config = &zero->config;
  uint32_t label = zs_plan_set_label (plan, zero->label_init);
  int64_t accumulated = zs_dtype_bytes (config->grad_accum_dtype);

  zs_plan_unref (plan, zero->tied_head_shard);
  zero->tied_head_shard = ZS_NO_TENSOR;
  partition_model (zero, plan);
  if (config->optimizer == ZS_DS_OPTIMIZER_FUSED_ADAM && !zero3_optimizer_on_host (zero))
    zero->adam_flag = zs_plan_alloc (plan, 4, ZS_CATEGORY_WORKSPACE);   /* _dummy_overflow_buf */
  zero->overflow_flag = zs_plan_alloc (plan, 1, ZS_CATEGORY_WORKSPACE);  /* inf_or_nan_tracker */
  if (zero->n_trainable > 0) {
    if (zero3_params_on_host (zero))
      move_shards_to_host_buffers (zero, plan);
    else
      defragment (zero, plan);
  }
  zero3_swap_init (zero, plan);
  make_masters (zero, plan);
  make_zero_gradients (zero, plan);
  if (config->contiguous_gradients) {
    int64_t b = zero->bucket_in_communication_dtype ? zs_dtype_bytes (config->communication_dtype)
                                                    : zero->model_bytes;

    zero->bucket = zs_plan_alloc (plan, config->reduce_bucket_size * b, ZS_CATEGORY_BUCKETS);
  }
  if (zero3_optimizer_on_host (zero))
    zero->gradient_buffer = host_tensor (plan, zero->trainable_shard_elements * accumulated,
                                         ZS_CATEGORY_GRADIENTS, config->optimizer_pin);
  else {
    zero->gradient_buffer = zs_plan_alloc (plan, zero->trainable_shard_elements * accumulated,
                                           ZS_CATEGORY_GRADIENTS);
    zs_torch_launch (plan, ZS_KERNEL_FILL, ZS_WORK_OPTIMIZER, zero->trainable_shard_elements,
                     (int) accumulated, zero->trainable_shard_elements * accumulated, "zeros");
  }
  zero3_hang_hooks (zero, plan);
  zs_plan_set_label (plan, label);
}
