/* fsdp1.c: FullyShardedDataParallel.  SPDX-License-Identifier: MIT
 *
 * Source: torch/distributed/fsdp/{_runtime_utils,_flat_param,_limiter_utils}.py of PyTorch 2.11, held
 * against histories recorded on one H200.
 *
 * A unit is one flat parameter.  Unsharding casts the shard on the pre-unshard stream and gathers into
 * the full flat parameter on the unshard stream; the model's weights are views of it.  It is freed
 * after use although the compute stream may not have come so far: its memory is recorded on that
 * stream and comes back later.  So that no more than two such buffers are under way, the host waits
 * for the oldest one's event before the next gather (limit_all_gathers).  Autograd makes one gradient
 * per parameter and, when all of a unit are there, concatenates them on the unshard stream; that is
 * cast and reduce-scattered on the post-backward stream.  With
 * use_orig_params the sharded gradients go when the next forward begins.  Activation checkpointing is
 * inside a unit: a recomputation finds it gathered. */
#include "config.h"

#include "sim/fsdp/fsdp1-internal.h"

#include "sim/base/digest.h"

/* ---- gathering ---- */

/* The shard in the compute dtype on the GPU, or none if it can be gathered as it is.  The cast's storage
 * is made before the shard comes from the host (_use_low_precision_shard ()). */
static ZsTensor
pre_unshard (Fsdp1 *fsdp, int32_t index)
{
  FsdpUnits *units = &fsdp->units;
  ZsPlan *plan = units->plan;
  ZsTensor shard = ZS_NO_TENSOR, cast = ZS_NO_TENSOR;

  if (units->casts)
    cast = zs_plan_alloc (plan, fsdp1_shard_bytes (fsdp, index, units->compute_bytes), ZS_CATEGORY_BUCKETS);
  if (units->config.cpu_offload) {
    int64_t bytes = fsdp1_shard_bytes (fsdp, index, units->parameter_bytes);

    shard = zs_plan_alloc (plan, bytes, ZS_CATEGORY_OFFLOAD);
    zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, bytes, ZS_FLAG_PINNED);
  }
  if (!units->casts)
    return shard;
  zs_plan_launch (plan, units->units[index].cast);
  zs_plan_unref (plan, shard);
  return cast;
}

static void
unshard (Fsdp1 *fsdp, int32_t index)
{
  FsdpUnits *units = &fsdp->units;
  ZsPlan *plan = units->plan;
  Fsdp1Unit *flat = &fsdp->flats[index];
  int64_t bytes = fsdp1_full_bytes (fsdp, index, units->compute_bytes);

  if (flat->full != ZS_NO_TENSOR && !(units->config.cpu_offload && units->casts))
    return;
  uint32_t label = zs_plan_set_label (plan, units->units[index].label_gather);
  uint8_t stream = zs_plan_set_stream (plan, PRE_UNSHARD);
  ZsTensor shard = pre_unshard (fsdp, index);

  if (flat->full != ZS_NO_TENSOR) {   /* offloaded, it was fetched and cast for nothing */
    zs_plan_unref (plan, shard);
    zs_plan_set_stream (plan, stream);
    zs_plan_set_label (plan, label);
    return;
  }
  if (shard != ZS_NO_TENSOR)
    zs_plan_stream_wait_stream (plan, UNSHARD, PRE_UNSHARD);
  fsdp_limiter_wait (&fsdp->limiter, units);
  zs_plan_set_stream (plan, UNSHARD);
  flat->full = zs_plan_alloc (plan, bytes, ZS_CATEGORY_GATHERED);
  fsdp_collective (units, ZS_COLLECTIVE_ALL_GATHER, FSDP_SHARD_GROUP, bytes, UNSHARD);
  if (shard != ZS_NO_TENSOR) {
    zs_plan_record_stream (plan, shard, UNSHARD);
    zs_plan_unref (plan, shard);
  }
  zs_plan_set_stream (plan, stream);
  zs_plan_set_label (plan, label);
}

static void
reshard (Fsdp1 *fsdp, int32_t index)
{
  ZsPlan *plan = fsdp->units.plan;
  Fsdp1Unit *flat = &fsdp->flats[index];

  if (flat->full == ZS_NO_TENSOR)
    return;
  zs_plan_record_stream (plan, flat->full, COMPUTE);
  zs_plan_unref (plan, flat->full);
  flat->full = ZS_NO_TENSOR;
  fsdp_limiter_freed (&fsdp->limiter, &fsdp->units);
}

/* ---- forward ---- */

static void
touch (Fsdp1 *fsdp, int64_t bytes)
{
  zs_plan_unref (fsdp->units.plan, zs_plan_alloc (fsdp->units.plan, bytes, ZS_CATEGORY_TEMPORARY));
}

/* init_flat_param_attributes (): each buffer is made once and its storage given back. */
static void
lazy_init (Fsdp1 *fsdp)
{
  FsdpUnits *units = &fsdp->units;
  int64_t buffer_bytes = units->model->shape.head_dim / 2 * units->compute_bytes;

  for (gsize i = 0; units->casts && i < G_N_ELEMENTS (units->rotary); i++) {   /* buffer_dtype */
    ZsTensor cast = zs_plan_alloc (units->plan, buffer_bytes, ZS_CATEGORY_INPUT);

    zs_plan_unref (units->plan, units->rotary[i]);
    units->rotary[i] = cast;
  }
  for (int32_t i = 0; i < units->n_units; i++) {
    int32_t index = i == 0 ? fsdp1_root (fsdp) : i - 1;

    if (units->casts)
      touch (fsdp, fsdp1_shard_bytes (fsdp, index, units->compute_bytes));
    touch (fsdp, fsdp1_full_bytes (fsdp, index, units->compute_bytes));
    if (units->casts)
      touch (fsdp, fsdp1_full_bytes (fsdp, index, units->parameter_bytes));
  }
  fsdp->initialised = true;
}

/* All .grad were set to None by zero_grad (): the flat ones follow when forward begins. */
static void
drop_gradients (Fsdp1 *fsdp)
{
  for (int32_t i = 0; i < fsdp->units.n_units; i++) {
    Fsdp1Unit *flat = &fsdp->flats[i == 0 ? fsdp1_root (fsdp) : i - 1];

    zs_plan_unref (fsdp->units.plan, flat->gradient);
    flat->gradient = ZS_NO_TENSOR;
  }
  fsdp_adapters_drop_gradients (&fsdp->units);
  fsdp->stepped = false;
}

static void
prefetch (Fsdp1 *fsdp, int32_t index)
{
  unshard (fsdp, index);
  fsdp->flats[index].prefetched = true;
}

static void
pre_backward (Fsdp1 *fsdp, int32_t index)
{
  Fsdp1Unit *flat = &fsdp->flats[index];
  int32_t before = index - 1;   /* the layer below; of the root, the last layer */

  if (flat->in_backward)
    return;
  flat->in_backward = true;
  zs_plan_host (fsdp->units.plan, ZS_HOST_FSDP_HOOK, 1);
  if (!flat->prefetched)
    unshard (fsdp, index);
  flat->prefetched = false;
  zs_plan_stream_wait_stream (fsdp->units.plan, COMPUTE, UNSHARD);
  if (fsdp->units.config.backward_prefetch && !fsdp->units.config.prefetch_after
      && before >= 0)
    prefetch (fsdp, before);
}

static void
before_forward (void *self, ZsPlan *plan, int32_t module, bool recompute)
{
  Fsdp1 *fsdp = self;
  int32_t index = fsdp->units.unit_of_module[module];

  if (index < 0) {
    fsdp_adapter_enter (&fsdp->adapters, &fsdp->limiter, &fsdp->units, module);
    return;
  }
  if (recompute) {   /* of a unit whose pre-backward hook runs first */
    pre_backward (fsdp, index);
    return;
  }
  zs_plan_host (plan, ZS_HOST_FSDP_HOOK, 1);
  if (index == fsdp1_root (fsdp)) {
    if (!fsdp->initialised)
      lazy_init (fsdp);
    if (fsdp->stepped)
      drop_gradients (fsdp);
    zs_plan_stream_wait_stream (plan, UNSHARD, COMPUTE);
    zs_plan_stream_wait_stream (plan, PRE_UNSHARD, COMPUTE);
  }
  unshard (fsdp, index);
  zs_plan_stream_wait_stream (plan, COMPUTE, UNSHARD);
}

static void
after_forward (void *self, ZsPlan *plan, int32_t module, bool recompute)
{
  Fsdp1 *fsdp = self;
  int32_t index = fsdp->units.unit_of_module[module];

  if (index < 0)
    fsdp_adapter_leave (&fsdp->adapters, &fsdp->limiter, &fsdp->units, module);
  if (index < 0 || recompute)
    return;
  zs_plan_host (plan, ZS_HOST_FSDP_HOOK, 1);
  if (fsdp->units.config.reshard_after_forward && index != fsdp1_root (fsdp))
    reshard (fsdp, index);
}

/* ---- backward ---- */

static void
before_backward (void *self, ZsPlan *plan, int32_t module)
{
  Fsdp1 *fsdp = self;
  int32_t index = fsdp->units.unit_of_module[module];

  (void) plan;
  if (index >= 0)
    pre_backward (fsdp, index);
  else
    fsdp_adapter_enter (&fsdp->adapters, &fsdp->limiter, &fsdp->units, module);
}

/* The new gradients become, or are added to, what the optimizer sees.  Returns what is then to be
 * dropped. */
static ZsTensor
keep_gradient (Fsdp1 *fsdp, int32_t index, ZsTensor reduced)
{
  FsdpUnits *units = &fsdp->units;
  ZsPlan *plan = units->plan;
  Fsdp1Unit *flat = &fsdp->flats[index];

  if (units->config.reduce_dtype != units->config.parameter_dtype) {
    ZsTensor cast = zs_plan_alloc (plan, fsdp1_shard_bytes (fsdp, index, units->parameter_bytes),
                                   ZS_CATEGORY_GRADIENTS);

    zs_plan_launch (plan, units->units[index].reduce_cast);
    zs_plan_unref (plan, reduced);
    reduced = cast;
  }
  if (units->config.cpu_offload) {
    int64_t bytes = fsdp1_shard_bytes (fsdp, index, units->parameter_bytes);

    if (flat->gradient == ZS_NO_TENSOR)
      flat->gradient = zs_plan_host_alloc (plan, bytes, ZS_CATEGORY_GRADIENTS, ZS_FLAG_PINNED);
    zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, bytes, ZS_FLAG_PINNED);
    zs_plan_unref (plan, flat->leaving);
    flat->leaving = reduced;
    reduced = ZS_NO_TENSOR;
  } else if (flat->gradient == ZS_NO_TENSOR) {
    flat->gradient = reduced;
    reduced = ZS_NO_TENSOR;
  } else {
    zs_plan_launch (plan, units->units[index].accumulate);
  }
  return reduced;
}

/* _reduce_grad () of the flat GRADIENT, which it takes. */
static void
reduce (Fsdp1 *fsdp, int32_t index, ZsTensor gradient)
{
  FsdpUnits *units = &fsdp->units;
  ZsPlan *plan = units->plan;
  const FsdpUnit *unit = &units->units[index];
  int64_t bytes = fsdp1_full_bytes (fsdp, index, units->reduce_bytes);
  ZsTensor input = zs_plan_ref (plan, gradient);

  zs_plan_stream_wait_stream (plan, POST_BACKWARD, COMPUTE);
  zs_plan_stream_wait_stream (plan, POST_BACKWARD, UNSHARD);
  uint8_t stream = zs_plan_set_stream (plan, POST_BACKWARD);

  if (units->reduce_bytes != units->compute_bytes) {
    zs_plan_unref (plan, input);
    input = zs_plan_alloc (plan, unit->flat_elements * units->reduce_bytes, ZS_CATEGORY_BUCKETS);
    zs_plan_launch (plan, unit->reduce_copy);
  }
  ZsTensor padded = ZS_NO_TENSOR;

  if (unit->flat_elements != unit->shard_elements * units->ranks) {
    padded = zs_plan_alloc (plan, bytes, ZS_CATEGORY_BUCKETS);
    zs_plan_launch (plan, unit->reduce_copy);
  }
  ZsTensor output = zs_plan_alloc (plan, bytes / units->ranks, ZS_CATEGORY_GRADIENTS);

  fsdp_collective (units, ZS_COLLECTIVE_REDUCE_SCATTER, FSDP_SHARD_GROUP, bytes, POST_BACKWARD);
  if (units->replicas > 1)
    fsdp_collective (units, ZS_COLLECTIVE_ALL_REDUCE, FSDP_REPLICATE_GROUP, bytes / units->ranks,
                     POST_BACKWARD);
  output = keep_gradient (fsdp, index, output);
  zs_plan_record_stream (plan, gradient, POST_BACKWARD);
  zs_plan_unref (plan, padded);
  zs_plan_unref (plan, input);
  zs_plan_unref (plan, output);
  zs_plan_unref (plan, gradient);
  zs_plan_set_stream (plan, stream);
}

static void
post_backward (Fsdp1 *fsdp, int32_t index)
{
  FsdpUnits *units = &fsdp->units;
  ZsPlan *plan = units->plan;
  const FsdpUnit *unit = &units->units[index];
  int n = 0;

  fsdp->flats[index].in_backward = false;
  zs_plan_host (plan, ZS_HOST_FSDP_HOOK, 1);
  for (int32_t i = unit->first; i < unit->first + unit->n; i++)
    n += units->parameters[i].gradient != ZS_NO_TENSOR;
  bool waits = units->config.no_sync && !units->boundary;

  if (n == 0) {
    reshard (fsdp, index);
    return;
  }
  zs_plan_host (plan, ZS_HOST_FSDP_GRADIENT, n);   /* each comes through a view of the flat one */
  uint32_t label = zs_plan_set_label (plan, unit->label_reduce);
  uint8_t stream = zs_plan_set_stream (plan, UNSHARD);
  ZsTensor gradient = zs_plan_alloc (plan, unit->flat_elements * units->compute_bytes,
                                     ZS_CATEGORY_GRADIENTS);

  zs_plan_stream_wait_stream (plan, UNSHARD, COMPUTE);
  zs_plan_launch (plan, fsdp->flats[index].concatenate);
  zs_plan_set_stream (plan, stream);
  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    zs_plan_unref (plan, units->parameters[i].gradient);
    units->parameters[i].gradient = ZS_NO_TENSOR;
  }
  if (fsdp->flats[index].whole != ZS_NO_TENSOR) {
    zs_plan_launch (plan, unit->accumulate_full);
    zs_plan_unref (plan, gradient);
    gradient = fsdp->flats[index].whole;
  }
  fsdp->flats[index].whole = waits ? gradient : ZS_NO_TENSOR;
  if (!waits || units->config.reshard_after_forward)   /* _should_free_in_backward () */
    reshard (fsdp, index);
  /* the root is the last to come here, and the layer before it has had its turn */
  if (units->config.prefetch_after && index > 0 && index != fsdp1_root (fsdp))
    prefetch (fsdp, index - 1);
  if (!waits)
    reduce (fsdp, index, gradient);
  zs_plan_set_label (plan, label);
}

static void
after_backward (void *self, ZsPlan *plan, int32_t module)
{
  Fsdp1 *fsdp = self;
  int32_t index = fsdp->units.unit_of_module[module];

  (void) plan;
  if (index < 0) {
    fsdp_adapter_leave (&fsdp->adapters, &fsdp->limiter, &fsdp->units, module);
    fsdp_adapter_reduce (&fsdp->units, module);
  } else if (index != fsdp1_root (fsdp))
    post_backward (fsdp, index);
}

/* _post_backward_final_callback () */
static void
after_backward_pass (void *self, ZsPlan *plan)
{
  Fsdp1 *fsdp = self;

  for (int32_t i = 0; i < fsdp->units.n_units; i++)
    if (fsdp->flats[i].in_backward)
      post_backward (fsdp, i);
  zs_plan_stream_wait_stream (plan, COMPUTE, POST_BACKWARD);
  if (fsdp->units.config.cpu_offload)
    zs_plan_host_wait_stream (plan, POST_BACKWARD);
  for (int32_t i = 0; i < fsdp->units.n_units; i++) {
    Fsdp1Unit *flat = &fsdp->flats[i == 0 ? fsdp1_root (fsdp) : i - 1];

    zs_plan_unref (plan, flat->leaving);
    flat->leaving = ZS_NO_TENSOR;
  }
}

static void
gradient (void *self, ZsPlan *plan, int32_t index, ZsTensor tensor)
{
  Fsdp1 *fsdp = self;
  FsdpParameter *parameter = &fsdp->units.parameters[fsdp->units.slot_of_parameter[index]];

  (void) plan;
  g_assert (parameter->gradient == ZS_NO_TENSOR);
  parameter->gradient = tensor;
}

static void
step (void *self, ZsPlan *plan, int number)
{
  Fsdp1 *fsdp = self;

  (void) plan;
  (void) number;
  fsdp_step (&fsdp->units);
  fsdp->stepped = true;
  if (fsdp->units.config.flat_optimizer)   /* zero_grad () reaches the flat gradients themselves */
    drop_gradients (fsdp);
}

static void
free_fsdp1 (void *self)
{
  Fsdp1 *fsdp = self;

  g_free (fsdp->flats);
  fsdp_units_clear (&fsdp->units);
  g_free (fsdp);
}

static uint64_t
fsdp1_digest (const void *self, bool events)
{
  const Fsdp1 *fsdp = self;
  Fsdp1 copy;

  memcpy (&copy, fsdp, sizeof copy);
  if (!events)
    memset (copy.limiter.inflight, 0, sizeof copy.limiter.inflight);
  uint64_t digest = zs_digest_items (fsdp_units_digest (&fsdp->units), &copy, 1);

  return zs_digest_items (digest, fsdp->flats, fsdp->units.n_units);
}

ZsHooks *
zs_fsdp1_hooks_new (const ZsModel *model, const ZsFsdpConfig *config, const ZsStepShape *shape,
                    int64_t rank, ZsPlan *plan)
{
  Fsdp1 *fsdp = g_new0 (Fsdp1, 1);

  fsdp_units_init (&fsdp->units, model, config, shape, rank, plan);
  fsdp->flats = g_new0 (Fsdp1Unit, (gsize) fsdp->units.n_units);
  for (int32_t i = 0; i < fsdp->units.n_units; i++) {
    int64_t elements = fsdp1_full_bytes (fsdp, i, 1), element = fsdp->units.compute_bytes;
    ZsKernel concatenate = { .kind = ZS_KERNEL_COPY, .launch = ZS_LAUNCH_AUTOGRAD,
                             .element_bytes = (uint8_t) element, .phase_class = 2, .n = elements,
                             .bytes = 2 * elements * element, .name = "fsdp.concatenate" };

    fsdp->flats[i] = (Fsdp1Unit) { .shard = ZS_NO_TENSOR, .full = ZS_NO_TENSOR,
                                  .gradient = ZS_NO_TENSOR, .leaving = ZS_NO_TENSOR,
                                  .whole = ZS_NO_TENSOR,
                                  .concatenate = zs_plan_kernel (plan, &concatenate) };
  }
  fsdp->adapters.full = ZS_NO_TENSOR;
  fsdp->hooks = (ZsHooks) {
    .self = fsdp, .load = fsdp1_load, .init = fsdp1_init, .before_forward_pass = fsdp_before_forward_pass,
    .before_forward = before_forward,
    .after_forward = after_forward, .before_backward = before_backward,
    .after_backward = after_backward, .after_backward_pass = after_backward_pass,
    .ends_inside_backward = true, .layer_trains_as_one = !fsdp_wraps_adapters (&fsdp->units),
    .weight_stream = UNSHARD, .gradient = gradient, .step = step,
    .save = fsdp1_save,
    .digest = fsdp1_digest,
    .free = free_fsdp1,
  };
  return &fsdp->hooks;
}
