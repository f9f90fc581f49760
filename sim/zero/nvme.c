/* nvme.c: optimizer states, gradients and parameters of stage 3 on NVMe (ZeRO-Infinity).
 * SPDX-License-Identifier: MIT
 *
 * deepspeed/runtime/swap_tensor/: partitioned_optimizer_swapper.py, pipelined_optimizer_swapper.py,
 * async_swapper.py, partitioned_param_swapper.py.  Swap buffers are pinned at their exact size.
 *
 * Optimizer.  A sub-group of at least max (1 MiB, block_size) bytes of fp32 is swapped: master, two
 * moments and the gradient lie in files.  The plain swapper is serial: read, Adam, write.  The pipelined
 * one reads the next sub-group during Adam (pipeline_read) and leaves a write pending until the next
 * one (pipeline_write).
 *
 * Parameters.  A shard of at least that size in its own dtype lies in a file unless its sub-group fits
 * the buffer in CPU memory.  A gather reads it into one of buffer_count buffers; the release gives the
 * buffer back.
 */
#include "config.h"

#include "sim/zero/stage3-internal.h"

enum { MIN_AIO_BYTES = 1048576, AIO_ALIGNMENT = 1024 };   /* swap_tensor/constants.py, utils.py */

bool
zero3_is_swappable (const Zero3 *zero, int64_t elements, int64_t bytes_of_one)
{
  return elements * bytes_of_one >= MAX (MIN_AIO_BYTES, zero->config.aio_block_size);
}

static int64_t
align_elements (const Zero3 *zero, int64_t elements, int64_t bytes_of_one)
{
  int64_t unit = AIO_ALIGNMENT * MAX (1, zero->config.aio_intra_op_parallelism) / bytes_of_one;

  return (elements + unit - 1) / unit * unit;
}

static void
read_now (ZsPlan *plan, int64_t bytes)
{
  ZsEvent done = zs_plan_event_new (plan);

  zs_plan_nvme (plan, ZS_NVME_READ, bytes, done);
  zs_plan_host_wait_event (plan, done);
  zs_plan_event_free (plan, done);
}

static ZsEvent
start (ZsPlan *plan, ZsNvmeKind kind, int64_t bytes)
{
  ZsEvent done = zs_plan_event_new (plan);

  zs_plan_nvme (plan, kind, bytes, done);
  return done;
}

static void
finish (ZsPlan *plan, ZsEvent *event)
{
  if (*event == ZS_NO_EVENT)
    return;
  zs_plan_host_wait_event (plan, *event);
  zs_plan_event_free (plan, *event);
  *event = ZS_NO_EVENT;
}

void
zero3_write_now (ZsPlan *plan, int64_t bytes)
{
  ZsEvent done = start (plan, ZS_NVME_WRITE, bytes);

  finish (plan, &done);
}

/* ---- optimizer ---- */

void
zero3_swap_init (Zero3 *zero, ZsPlan *plan)
{
  Zero3Swap *swap = &zero->swap;
  int64_t largest = 0;

  for (int32_t k = 0; k < zero->n_sub_groups; k++)
    if (zero->sub_groups[k].swapped)
      largest = MAX (largest, zero->sub_groups[k].elements);
  if (largest == 0)
    return;
  swap->buffer_elements = align_elements (zero, largest, 4);
  for (int64_t i = 0; i < zero->config.optimizer_buffer_count; i++)
    zs_plan_host_alloc (plan, 4 * swap->buffer_elements, ZS_CATEGORY_OFFLOAD,
                        ZS_FLAG_PINNED | ZS_FLAG_EXACT_PIN);
}

/* The fp32 master of a swapped sub-group: made in memory, written, forgotten. */
void
zero3_swap_master (Zero3 *zero, ZsPlan *plan, const Zero3SubGroup *group)
{
  int64_t n = group->elements;
  ZsTensor master = zs_plan_host_alloc (plan, 4 * n, ZS_CATEGORY_OFFLOAD, 0);

  if (group->shards_swapped)
    read_now (plan, n * zero->model_bytes);
  else if (!zero3_params_on_host (zero))
    zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, n * zero->model_bytes, ZS_FLAG_BLOCKING);
  zs_plan_cpu_task (plan, ZS_CPU_CAST, n);
  zero3_write_now (plan, 4 * n);
  zs_plan_unref (plan, master);
}

void
zero3_swap_gradient (Zero3 *zero, ZsPlan *plan, int32_t index, int64_t n, int from)
{
  Zero3Parameter *parameter = &zero->parameters[index];
  Zero3Swap *swap = &zero->swap;
  ZsTensor wide = ZS_NO_TENSOR;

  if (from != 4) {
    wide = zs_plan_alloc (plan, 4 * n, ZS_CATEGORY_OFFLOAD);
    zs_torch_copy (plan, ZS_WORK_COMMUNICATION, n, from, 4, "offload.widen");
  }
  if (!zero3_is_swappable (zero, n, 4)) {   /* stays on the GPU until the step */
    zs_plan_unref (plan, parameter->wide_gradient);
    parameter->wide_gradient = wide;
    return;
  }
  zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, 4 * n, ZS_FLAG_BLOCKING | ZS_FLAG_PINNED);
  if (swap->pending_elements + n > swap->buffer_elements) {   /* the buffer is full */
    finish (plan, &swap->writing);
    swap->writing = start (plan, ZS_NVME_WRITE, 4 * swap->pending_elements);
    swap->pending_elements = 0;
  }
  swap->pending_elements += n;
  /* the fp32 copies of one bucket live until all of them have been sent */
  if (wide != ZS_NO_TENSOR)
    g_array_append_val (zero->held, wide);
}

void
zero3_swap_before_step (Zero3 *zero, ZsPlan *plan)
{
  Zero3Swap *swap = &zero->swap;

  finish (plan, &swap->writing);
  if (swap->pending_elements > 0)
    zero3_write_now (plan, 4 * swap->pending_elements);
  swap->pending_elements = 0;
}

static int64_t
state_bytes (const Zero3 *zero, const Zero3SubGroup *group)
{
  return 4 * group->elements * (zero->states_exist ? 3 : 1);
}

/* Until Adam can run on GROUP. */
void
zero3_swap_in (Zero3 *zero, ZsPlan *plan, int32_t number)
{
  Zero3Swap *swap = &zero->swap;
  Zero3SubGroup *group = &zero->sub_groups[number];
  bool pipelined = zero->config.optimizer_pipeline_read || zero->config.optimizer_pipeline_write;

  if (!pipelined) {
    read_now (plan, state_bytes (zero, group));
    read_now (plan, 4 * group->elements);
    return;
  }
  if (swap->reading == ZS_NO_EVENT)
    swap->reading = start (plan, ZS_NVME_READ, state_bytes (zero, group) + 4 * group->elements);
  finish (plan, &swap->reading);
  for (int32_t next = number + 1; zero->config.optimizer_pipeline_read && next < zero->n_sub_groups;
       next++)
    if (zero->sub_groups[next].swapped) {
      swap->reading = start (plan, ZS_NVME_READ, state_bytes (zero, &zero->sub_groups[next])
                                                 + 4 * zero->sub_groups[next].elements);
      break;
    }
}

void
zero3_swap_out (Zero3 *zero, ZsPlan *plan, int32_t number)
{
  Zero3Swap *swap = &zero->swap;
  int64_t bytes = 12 * zero->sub_groups[number].elements;
  bool last = true;

  for (int32_t next = number + 1; next < zero->n_sub_groups; next++)
    last = last && !zero->sub_groups[next].swapped;
  finish (plan, &swap->writing);
  swap->writing = start (plan, ZS_NVME_WRITE, bytes);
  if (last || !zero->config.optimizer_pipeline_write)
    finish (plan, &swap->writing);
  for (int32_t i = 0; i < zero->sub_groups[number].n; i++) {   /* small fp32 gradients on the GPU */
    Zero3Parameter *parameter
      = &zero->parameters[zero->group_order[zero->sub_groups[number].first + i]];

    zs_plan_unref (plan, parameter->wide_gradient);
    parameter->wide_gradient = ZS_NO_TENSOR;
  }
}

/* ---- parameters ---- */

void
zero3_swap_pool (Zero3 *zero, ZsPlan *plan)
{
  int64_t elements = align_elements (zero, zero->config.param_buffer_size, zero->model_bytes);

  zs_plan_host_alloc (plan, zero->config.param_buffer_count * elements * zero->model_bytes,
                      ZS_CATEGORY_OFFLOAD, ZS_FLAG_PINNED | ZS_FLAG_EXACT_PIN);
}

/* One pinned buffer in CPU memory per optimizer group; a leading run of whole sub-groups lives in
 * it.  What lies before a sub-group counts even where it went to NVMe. */
void
zero3_place_shards (Zero3 *zero)
{
  int64_t before = 0, room = 0, in_group = 0;
  int32_t group = -1;

  for (int32_t k = 0; k < zero->n_sub_groups; k++) {
    Zero3SubGroup *sub_group = &zero->sub_groups[k];

    if (sub_group->group != group) {
      group = sub_group->group;
      before += in_group;
      in_group = 0;
      room = MAX (0, zero->config.param_max_in_cpu - before);
    }
    sub_group->shards_swapped = in_group + sub_group->elements > room;
    in_group += sub_group->elements;
  }
  for (int32_t p = 0; p < zero->n_parameters; p++) {
    Zero3Parameter *parameter = &zero->parameters[p];

    parameter->on_nvme = zero3_is_swappable (zero, parameter->shard, parameter->bytes)
                         && (parameter->sub_group < 0
                             || zero->sub_groups[parameter->sub_group].shards_swapped);
  }
}

/* The shard of PARAMETER is in a buffer when this returns. */
void
zero3_read_shard (Zero3 *zero, ZsPlan *plan, int32_t index)
{
  Zero3Parameter *parameter = &zero->parameters[index];

  if (!parameter->on_nvme || parameter->in_memory)
    return;
  if (parameter->reading == ZS_NO_EVENT)
    parameter->reading = start (plan, ZS_NVME_READ, parameter->shard * parameter->bytes);
  else
    zero->swap.n_reading--;
  finish (plan, &parameter->reading);
  parameter->in_memory = true;
  zero->swap.buffers_used++;
}

void
zero3_forget_shard (Zero3 *zero, int32_t index)
{
  Zero3Parameter *parameter = &zero->parameters[index];

  if (parameter->on_nvme && parameter->in_memory) {
    parameter->in_memory = false;
    zero->swap.buffers_used--;
  }
}

bool
zero3_shard_is_away (void *self, int32_t index)
{
  const Zero3 *zero = self;
  const Zero3Parameter *parameter = &zero->parameters[index];

  return parameter->on_nvme && !parameter->in_memory && parameter->reading == ZS_NO_EVENT;
}

/* __prefetch_nvme_param_partitions () */
void
zero3_read_ahead (void *self, const int32_t *queue, int32_t n, int64_t in_flight)
{
  Zero3 *zero = self;
  int64_t considered = 0;

  for (int32_t i = 0; i < n; i++) {
    Zero3Parameter *parameter = &zero->parameters[queue[i]];
    int64_t used = zero->swap.buffers_used + zero->swap.n_reading;

    if (considered > 2 * in_flight || used >= zero->config.param_buffer_count)
      break;
    if (zero3_shard_is_away (zero, queue[i])) {
      parameter->reading = start (zero->plan, ZS_NVME_READ, parameter->shard * parameter->bytes);
      zero->swap.n_reading++;
    }
    considered += parameter->elements;
  }
}
