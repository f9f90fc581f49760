/* stage3-gather.c: how the parameters that the coordinator chooses are gathered and freed.
 * SPDX-License-Identifier: MIT
 *
 * deepspeed/runtime/zero/partition_parameters.py: all_gather_coalesced () and the handles that it
 * returns.  One tensor is gathered straight into its own buffer.  Two or more go through one flat
 * buffer: at the first wait every member is assembled from it into its own storage, and the buffer
 * goes when the last member has been waited for (its handle lies in the registry until then).
 */
#include "config.h"

#include "sim/zero/stage3-internal.h"

#include <string.h>

void
zero3_limiter_wait (Zero3Limiter *limiter, ZsPlan *plan)
{
  /* Completed events are dropped without waiting; waiting for them again costs nothing. */
  if (limiter->n > 2) {
    zs_plan_host_wait_event (plan, limiter->events[0]);
    zs_plan_event_free (plan, limiter->events[0]);
    for (int i = 1; i < limiter->n; i++)
      limiter->events[i - 1] = limiter->events[i];
    limiter->n--;
  }
}

void
zero3_limiter_record (Zero3Limiter *limiter, ZsPlan *plan, uint8_t stream)
{
  ZsEvent event = zs_plan_event_new (plan);

  zs_plan_event_record (plan, event, stream);
  limiter->events[limiter->n++] = event;
}

static Zero3Handle *
handle_new (Zero3 *zero, const int32_t *parameters, int32_t n)
{
  int32_t index = 0;

  while (index < zero->n_handles && zero->handles[index].used)
    index++;
  if (index == zero->n_handles) {
    zero->n_handles = MAX (16, zero->n_handles * 2);
    zero->handles = g_renew (Zero3Handle, zero->handles, zero->n_handles);
    memset (zero->handles + index, 0, sizeof (Zero3Handle) * (gsize) (zero->n_handles - index));
  }
  Zero3Handle *handle = &zero->handles[index];

  if (handle->room < n) {
    handle->room = n;
    handle->members = g_renew (int32_t, handle->members, n);
  }
  handle->used = true;
  handle->complete = handle->coalesced = handle->secondary = handle->quantized = false;
  handle->n = handle->left = n;
  handle->flat = handle->scales = ZS_NO_TENSOR;
  handle->done = handle->scales_done = ZS_NO_EVENT;
  for (int32_t i = 0; i < n; i++) {
    handle->members[i] = parameters[i];
    zero->parameters[parameters[i]].handle = index;
  }
  return handle;
}

static void
set_full (Zero3 *zero, int32_t parameter, ZsTensor tensor)
{
  zero->parameters[parameter].full = tensor;
  zero->parameters[parameter].full_stream = zero->plan->stream;
}

/* One rank: a shard on the GPU is the parameter; one on the host is copied. */
static void
gather_alone (Zero3 *zero, const int32_t *parameters, int32_t n)
{
  handle_new (zero, parameters, n);
  for (int32_t i = 0; i < n; i++) {
    Zero3Parameter *parameter = &zero->parameters[parameters[i]];
    ZsTensor copy = zero3_shard_to_gpu (zero, zero->plan, parameters[i], parameter->elements);

    set_full (zero, parameters[i],
              copy != ZS_NO_TENSOR ? copy : zs_plan_ref (zero->plan, parameter->shard_tensor));
  }
}

/* Elements of PARAMETER that each rank of the gather's group holds, and that group. */
static int64_t
group_shard (const Zero3 *zero, const Zero3Parameter *parameter, const Zero3Handle *handle)
{
  return handle->secondary ? zero3_secondary_shard (zero, parameter) : parameter->shard;
}

static int64_t
group_ranks (const Zero3 *zero, const Zero3Handle *handle)
{
  return handle->secondary ? zero->config.hpz_partition_size : zero->world;
}

static unsigned int
group_communicator (const Zero3 *zero, const Zero3Handle *handle)
{
  return handle->secondary ? ZS_ZERO3_COMM_NODE : zero3_gather_communicator (zero);
}

static bool
has_secondary (const Zero3 *zero, int32_t index)
{
  return zero->config.hpz_partition_size > 1 && zero->parameters[index].secondary != ZS_NO_TENSOR;
}

static void
gather_one (Zero3 *zero, int32_t index)
{
  ZsPlan *plan = zero->plan;
  Zero3Parameter *parameter = &zero->parameters[index];
  Zero3Handle *handle = handle_new (zero, &index, 1);

  handle->secondary = has_secondary (zero, index);
  int64_t shard = group_shard (zero, parameter, handle), ranks = group_ranks (zero, handle);
  bool quantize = zero->config.quantized_weights;
  int64_t bytes = shard * ranks * (quantize ? 1 : parameter->bytes);

  set_full (zero, index, zs_plan_alloc (plan, bytes, ZS_CATEGORY_GATHERED));
  ZsTensor staging = zero3_shard_to_gpu (zero, plan, index, shard);

  if (quantize)
    zero3_gather_quantized (zero, plan, shard, ranks, group_communicator (zero, handle), handle);
  else {
    handle->done = zs_plan_event_new (plan);
    zs_plan_collective (plan, ZS_COLLECTIVE_ALL_GATHER, group_communicator (zero, handle), bytes,
                        handle->done);
  }
  zs_plan_unref (plan, staging);
}

/* MiCS: a buffer per parameter, one grouped call. */
static void
gather_grouped (Zero3 *zero, const int32_t *parameters, int32_t n)
{
  ZsPlan *plan = zero->plan;
  Zero3Handle *handle = handle_new (zero, parameters, n);
  int64_t bytes = 0;
  ZsTensor staging[n];

  for (int32_t i = 0; i < n; i++) {
    const Zero3Parameter *parameter = &zero->parameters[parameters[i]];

    staging[i] = zero3_shard_to_gpu (zero, plan, parameters[i], parameter->shard);
    set_full (zero, parameters[i],
              zs_plan_alloc (plan, parameter->shard * zero->world * parameter->bytes,
                             ZS_CATEGORY_GATHERED));
    bytes += parameter->shard * zero->world * parameter->bytes;
  }
  handle->done = zs_plan_event_new (plan);
  zs_plan_collective (plan, ZS_COLLECTIVE_ALL_GATHER, ZS_ZERO3_COMM_NODE, bytes, handle->done);
  for (int32_t i = n; i-- > 0;)
    zs_plan_unref (plan, staging[i]);
}

static void
gather_coalesced (Zero3 *zero, const int32_t *parameters, int32_t n)
{
  ZsPlan *plan = zero->plan;
  Zero3Handle *handle = handle_new (zero, parameters, n);
  bool quantize = zero->config.quantized_weights;
  int64_t shards = 0, elements = 0;
  ZsTensor staging[n];

  handle->secondary = has_secondary (zero, parameters[0]);
  bool all_reduce = zero->config.use_all_reduce_for_fetch_params && !quantize && !handle->secondary;

  for (int32_t i = 0; i < n; i++) {
    const Zero3Parameter *parameter = &zero->parameters[parameters[i]];

    elements += group_shard (zero, parameter, handle);
    shards += group_shard (zero, parameter, handle) * (quantize ? 1 : parameter->bytes);
  }
  int64_t ranks = group_ranks (zero, handle), bytes = shards * ranks;
  ZsTensor flat = zs_plan_alloc (plan, bytes, ZS_CATEGORY_GATHERED);

  if (all_reduce)
    zs_torch_launch (plan, ZS_KERNEL_FILL, ZS_WORK_COMMUNICATION, bytes, 1, bytes, "gather.zero");
  for (int32_t i = 0; i < n; i++)
    staging[i] = zero3_shard_to_gpu (zero, plan, parameters[i],
                                     group_shard (zero, &zero->parameters[parameters[i]], handle));
  if (all_reduce)
    for (int32_t i = 0; i < n; i++) {
      Zero3Parameter *parameter = &zero->parameters[parameters[i]];

      zs_torch_copy (plan, ZS_WORK_COMMUNICATION, parameter->shard, parameter->bytes,
                     parameter->bytes, "gather.shard");
      set_full (zero, parameters[i], zs_plan_ref (plan, flat));
    }
  else if (!quantize)
    zs_torch_launch (plan, ZS_KERNEL_COPY, ZS_WORK_COMMUNICATION, shards, 1, 2 * shards,
                     "gather.shards");
  if (quantize)
    zero3_gather_quantized (zero, plan, elements, ranks, group_communicator (zero, handle), handle);
  for (int32_t i = n; i-- > 0;)   /* Python drops a list from its end */
    zs_plan_unref (plan, staging[i]);
  if (!quantize) {
    handle->done = zs_plan_event_new (plan);
    zs_plan_collective (plan, all_reduce ? ZS_COLLECTIVE_ALL_REDUCE : ZS_COLLECTIVE_ALL_GATHER,
                        group_communicator (zero, handle), bytes, handle->done);
  }
  if (all_reduce)
    zs_plan_unref (plan, flat);
  else {
    handle->coalesced = true;
    handle->flat = flat;
  }
}

void
zero3_gather (void *self, const int32_t *parameters, int32_t n, bool forward, bool prefetch)
{
  Zero3 *zero = self;
  ZsPlan *plan = zero->plan;
  uint8_t stream = zs_plan_set_stream (plan, zero->gather_stream);
  uint32_t label = zs_plan_set_label (plan, zero->parameters[parameters[0]].label);

  (void) forward;
  (void) prefetch;
  zs_plan_host (plan, ZS_HOST_FETCH_PARAMETER, n);
  zero->gather_stream_dirty = true;
  if (zero->world == 1)
    gather_alone (zero, parameters, n);
  else if (zero3_is_mics (zero))
    gather_grouped (zero, parameters, n);
  else if (n == 1 || zero->config.allgather_sequential)
    for (int32_t i = 0; i < n; i++)
      gather_one (zero, parameters[i]);
  else
    gather_coalesced (zero, parameters, n);
  zs_plan_set_label (plan, label);
  zs_plan_set_stream (plan, stream);
}

/* AllGatherCoalescedHandle.wait (): every member gets its own storage. */
static void
assemble (Zero3 *zero, const Zero3Handle *handle)
{
  ZsPlan *plan = zero->plan;

  for (int32_t i = 0; i < handle->n; i++) {
    Zero3Parameter *parameter = &zero->parameters[handle->members[i]];
    int64_t bytes = parameter->elements * parameter->bytes;

    set_full (zero, handle->members[i], zs_plan_alloc (plan, bytes, ZS_CATEGORY_GATHERED));
    zs_torch_launch (plan, ZS_KERNEL_COPY, ZS_WORK_COMMUNICATION, parameter->elements,
                     parameter->bytes, 2 * bytes, "gather.assemble");
  }
}

static void
dequantize (Zero3 *zero, Zero3Handle *handle)
{
  ZsPlan *plan = zero->plan;
  int64_t elements = 0;

  for (int32_t i = 0; i < handle->n; i++)
    elements += group_shard (zero, &zero->parameters[handle->members[i]], handle);
  elements *= group_ranks (zero, handle);
  if (handle->coalesced)
    handle->flat = zero3_dequantize (zero, plan, elements, handle->flat, handle);
  else
    set_full (zero, handle->members[0],
              zero3_dequantize (zero, plan, elements, zero->parameters[handle->members[0]].full,
                                handle));
}

void
zero3_wait (void *self, int32_t index)
{
  Zero3 *zero = self;
  ZsPlan *plan = zero->plan;
  Zero3Handle *handle = &zero->handles[zero->parameters[index].handle];
  uint8_t stream = zs_plan_set_stream (plan, zero->gather_stream);
  bool limited = !zero->is_leaf[zero->fetch_module];   /* fast_sharding_for_leaf_module */

  if (limited)
    zero3_limiter_wait (&zero->fetches, plan);
  if (!handle->complete) {
    if (handle->done != ZS_NO_EVENT) {
      zs_plan_stream_wait_event (plan, zero->gather_stream, handle->done);
      zs_plan_event_free (plan, handle->done);
    } else
      zs_plan_host_wait_stream (plan, zero->gather_stream);   /* one rank */
    if (handle->quantized)
      dequantize (zero, handle);
    if (handle->coalesced)
      assemble (zero, handle);
    handle->complete = true;
  }
  zero->parameters[index].handle = -1;
  if (--handle->left == 0) {
    zs_plan_unref (plan, handle->flat);
    handle->used = false;
  }
  if (limited)
    zero3_limiter_record (&zero->fetches, plan, zero->gather_stream);
  zero->gather_stream_dirty = true;
  zs_plan_set_stream (plan, stream);
}

void
zero3_fetched (void *self, int32_t module, int32_t n_waits)
{
  Zero3 *zero = self;

  (void) module;
  (void) n_waits;
  if (zero->gather_stream_dirty && zero->gather_stream != ZS_STREAM_COMPUTE)
    zs_plan_stream_wait_stream (zero->plan, ZS_STREAM_COMPUTE, zero->gather_stream);
  zero->gather_stream_dirty = false;
}

/* free_param () */
void
zero3_release (void *self, int32_t index)
{
  Zero3 *zero = self;
  ZsPlan *plan = zero->plan;
  Zero3Parameter *parameter = &zero->parameters[index];

  zs_plan_host (plan, ZS_HOST_RELEASE_PARAMETER, 1);
  zero3_fill_secondary (zero, plan, index);
  if (parameter->full_stream != plan->stream && parameter->full != parameter->shard_tensor)
    zs_plan_record_stream (plan, parameter->full, plan->stream);
  zs_plan_unref (plan, parameter->full);
  parameter->full = ZS_NO_TENSOR;
  zero3_forget_shard (zero, index);
}

ZsTensor
zero3_weight (void *self, int32_t parameter)
{
  const Zero3 *zero = self;

  return zero->parameters[parameter].full;
}

/* _allgather_params_coalesced () of all persistent parameters: a call each, then the host waits for
 * the device. */
void
zero3_gather_persistent (Zero3 *zero, ZsPlan *plan)
{
  int32_t n = 0, last = -1;
  ZsTensor staging[zero->n_parameters + 1];

  for (int32_t p = 0; p < zero->n_parameters; p++) {
    staging[p] = ZS_NO_TENSOR;
    if (!zero->parameters[p].persistent)
      continue;
    n++;
    last = p;
    zs_plan_host (plan, ZS_HOST_FETCH_PARAMETER, 1);
    if (zero->world > 1)
      staging[p] = zero3_shard_to_gpu (zero, plan, p, zero->parameters[p].shard);
  }
  if (n == 0)
    return;
  zero->plan = plan;
  for (int32_t p = 0; p < zero->n_parameters; p++) {
    Zero3Parameter *parameter = &zero->parameters[p];

    if (!parameter->persistent)
      continue;
    if (zero->world == 1) {
      ZsTensor copy = zero3_shard_to_gpu (zero, plan, p, parameter->elements);

      set_full (zero, p, copy != ZS_NO_TENSOR ? copy : zs_plan_ref (plan, parameter->shard_tensor));
    } else
      set_full (zero, p, zs_plan_alloc (plan, parameter->shard * zero->world * parameter->bytes,
                                        ZS_CATEGORY_GATHERED));
    zs_coordinator_set_available (zero->coordinator, p);
  }
  if (zero->world > 1) {
    for (int32_t p = 0; p < zero->n_parameters; p++)
      if (zero->parameters[p].persistent) {
        ZsEvent done = zs_plan_event_new (plan);

        zs_plan_collective (plan, ZS_COLLECTIVE_ALL_GATHER, zero3_gather_communicator (zero),
                            zero->parameters[p].shard * zero->world * zero->parameters[p].bytes,
                            done);
        if (p == last)
          zs_plan_stream_wait_event (plan, plan->stream, done);
        zs_plan_event_free (plan, done);
      }
  }
  zs_plan_host_wait_device (plan);
  for (int32_t p = last; p-- > 0;)
    zs_plan_unref (plan, staging[p]);
  zs_plan_unref (plan, staging[last]);
}
