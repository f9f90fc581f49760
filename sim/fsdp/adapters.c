/* adapters.c: each LoRA matrix a unit of FSDP1.  SPDX-License-Identifier: MIT
 *
 * peft/utils/other.py, fsdp_auto_wrap_policy (): modules without children whose weight trains are wrapped
 * one by one.  Such a unit costs the host as much as a layer's, and the limit of two gathers under way
 * then holds the layer's gather back until nearly all of the layer before it has run: nothing of it
 * overlaps.  A unit inside a checkpoint is gathered in forward, in the recomputation and in backward. */
#include "config.h"

#include "sim/fsdp/adapters.h"

enum { UNSHARD = ZS_STREAM_ALL_GATHER, POST_BACKWARD = ZS_STREAM_REDUCE, COMPUTE = ZS_STREAM_COMPUTE };

void
fsdp_limiter_wait (FsdpLimiter *limiter, FsdpUnits *units)
{
  if (!units->config.limit_all_gathers || limiter->n < FSDP_MAX_INFLIGHT)
    return;
  zs_plan_host_wait_event (units->plan, limiter->inflight[0]);
  zs_plan_event_free (units->plan, limiter->inflight[0]);
  limiter->inflight[0] = limiter->inflight[1];
  limiter->n--;
}

void
fsdp_limiter_freed (FsdpLimiter *limiter, FsdpUnits *units)
{
  ZsPlan *plan = units->plan;

  if (!units->config.limit_all_gathers)
    return;
  /* The queue grows past its limit only when units are freed without a gather between. */
  if (limiter->n == FSDP_MAX_INFLIGHT) {
    zs_plan_event_free (plan, limiter->inflight[0]);
    limiter->inflight[0] = limiter->inflight[1];
    limiter->n--;
  }
  ZsEvent event = zs_plan_event_new (plan);

  zs_plan_event_record (plan, event, COMPUTE);
  limiter->inflight[limiter->n++] = event;
}

/* NULL: MODULE is no such unit. */
static FsdpParameter *
parameter_of (FsdpUnits *units, int32_t module)
{
  if (!fsdp_wraps_adapters (units) || !fsdp_is_adapter (units, module))
    return NULL;
  return &units->parameters[units->slot_of_parameter[units->model->modules[module].first_parameter]];
}

void
fsdp_adapters_init (FsdpUnits *units)
{
  ZsPlan *plan = units->plan;

  for (int32_t m = 0; m < units->model->n_modules; m++) {
    FsdpParameter *parameter = parameter_of (units, m);

    if (parameter == NULL)
      continue;
    int64_t bytes = parameter->shard_elements * units->parameter_bytes;

    parameter->shard = units->config.cpu_offload
                         ? zs_plan_host_alloc (plan, bytes, ZS_CATEGORY_MASTER, ZS_FLAG_PINNED)
                         : zs_plan_alloc (plan, bytes, fsdp_shard_category (units));
    zs_plan_unref (plan, parameter->original);
    parameter->original = ZS_NO_TENSOR;
  }
}

void
fsdp_adapter_enter (FsdpAdapters *adapters, FsdpLimiter *limiter, FsdpUnits *units, int32_t module)
{
  ZsPlan *plan = units->plan;
  const FsdpParameter *parameter = parameter_of (units, module);

  if (parameter == NULL || adapters->full != ZS_NO_TENSOR)
    return;
  int64_t shard = parameter->shard_elements;
  ZsTensor fetched = ZS_NO_TENSOR;

  zs_plan_host (plan, ZS_HOST_FSDP_HOOK, 1);
  fsdp_limiter_wait (limiter, units);
  uint8_t stream = zs_plan_set_stream (plan, UNSHARD);
  if (units->config.cpu_offload) {
    fetched = zs_plan_alloc (plan, shard * units->parameter_bytes, ZS_CATEGORY_OFFLOAD);
    zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, shard * units->parameter_bytes, ZS_FLAG_PINNED);
  }
  adapters->full = zs_plan_alloc (plan, shard * units->ranks * units->compute_bytes, ZS_CATEGORY_GATHERED);
  fsdp_collective (units, ZS_COLLECTIVE_ALL_GATHER, FSDP_SHARD_GROUP, shard * units->ranks * units->compute_bytes,
                   UNSHARD);
  zs_plan_unref (plan, fetched);
  zs_plan_set_stream (plan, stream);
  zs_plan_stream_wait_stream (plan, COMPUTE, UNSHARD);
}

void
fsdp_adapter_leave (FsdpAdapters *adapters, FsdpLimiter *limiter, FsdpUnits *units, int32_t module)
{
  /* a recomputation may have left it already */
  if (parameter_of (units, module) == NULL || adapters->full == ZS_NO_TENSOR)
    return;
  zs_plan_host (units->plan, ZS_HOST_FSDP_HOOK, 1);
  zs_plan_record_stream (units->plan, adapters->full, COMPUTE);
  zs_plan_unref (units->plan, adapters->full);
  adapters->full = ZS_NO_TENSOR;
  fsdp_limiter_freed (limiter, units);
}

void
fsdp_adapter_reduce (FsdpUnits *units, int32_t module)
{
  ZsPlan *plan = units->plan;
  FsdpParameter *parameter = parameter_of (units, module);

  if (parameter == NULL || parameter->gradient == ZS_NO_TENSOR)
    return;
  int64_t bytes = parameter->shard_elements * units->ranks * units->reduce_bytes;

  zs_plan_stream_wait_stream (plan, POST_BACKWARD, COMPUTE);
  uint8_t stream = zs_plan_set_stream (plan, POST_BACKWARD);
  ZsTensor output = zs_plan_alloc (plan, parameter->shard_elements * units->parameter_bytes,
                                   ZS_CATEGORY_GRADIENTS);

  fsdp_collective (units, ZS_COLLECTIVE_REDUCE_SCATTER, FSDP_SHARD_GROUP, bytes, POST_BACKWARD);
  if (units->replicas > 1)
    fsdp_collective (units, ZS_COLLECTIVE_ALL_REDUCE, FSDP_REPLICATE_GROUP, bytes / units->ranks,
                     POST_BACKWARD);
  zs_plan_record_stream (plan, parameter->gradient, POST_BACKWARD);
  zs_plan_unref (plan, parameter->gradient);
  parameter->gradient = ZS_NO_TENSOR;
  if (units->config.cpu_offload) {
    zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, parameter->shard_elements * units->parameter_bytes,
                  ZS_FLAG_PINNED);
    zs_plan_unref (plan, output);
  } else if (parameter->shard_gradient == ZS_NO_TENSOR)
    parameter->shard_gradient = output;
  else
    zs_plan_unref (plan, output);   /* added to what is there */
  zs_plan_set_stream (plan, stream);
}

void
fsdp_adapters_drop_gradients (FsdpUnits *units)
{
  for (int32_t m = 0; m < units->model->n_modules; m++) {
    FsdpParameter *parameter = parameter_of (units, m);

    if (parameter == NULL)
      continue;
    zs_plan_unref (units->plan, parameter->shard_gradient);
    parameter->shard_gradient = ZS_NO_TENSOR;
  }
}
