/* stage3.c: the hooks of stage 3, and what it knows of each parameter and module.
 * SPDX-License-Identifier: MIT
 *
 * deepspeed/runtime/zero/parameter_offload.py: the hooks of every module, persistent parameters, leaf
 * modules by granularity; deepspeed/runtime/engine.py: what surrounds a micro-step.
 */
#include "config.h"

#include "sim/zero/stage3-internal.h"

#include "sim/base/digest.h"

/* ---- what is known before anything runs ---- */

/* mark_persistent_parameters () */
static void
mark_persistent (Zero3 *zero)
{
  int64_t total = 0;

  for (int32_t p = 0; p < zero->n_parameters; p++) {
    Zero3Parameter *parameter = &zero->parameters[p];

    if (parameter->elements + total > zero->config.model_persistence_threshold
        || parameter->elements > zero->config.param_persistence_threshold)
      continue;
    parameter->persistent = true;
    total += parameter->elements;
  }
}

/* Hugging Face's own optimizer keeps norms and biases out of weight decay: a group of their own. */
static int32_t
group_of (const Zero3 *zero, int32_t p)
{
  const ZsParameter *parameter = &zero->model->parameters[p];

  return zero->config.optimizer_groups > 1 && (parameter->columns == 1 || parameter->is_bias);
}

static void
close_sub_group (Zero3 *zero, GArray *groups, Zero3SubGroup *group)
{
  if (group->n == 0)
    return;
  for (int32_t i = 0; i < group->n; i++)
    zero->parameters[zero->group_order[group->first + i]].sub_group = (int32_t) groups->len;
  g_array_append_val (groups, *group);
  group->first += group->n;
  group->n = 0;
  group->elements = 0;
}

/* _create_fp16_sub_groups () */
static void
make_sub_groups (Zero3 *zero)
{
  GArray *groups = g_array_new (FALSE, TRUE, sizeof (Zero3SubGroup));
  Zero3SubGroup group = { .on_gpu = true, .master = ZS_NO_TENSOR, .gradient = ZS_NO_TENSOR,
                          .moment1 = ZS_NO_TENSOR, .moment2 = ZS_NO_TENSOR };

  for (int32_t g = 0; g < MAX (1, zero->config.optimizer_groups); g++) {
    group.group = g;
    for (int32_t p = 0; p < zero->n_parameters; p++) {
      if (!zero->parameters[p].trainable || group_of (zero, p) != g)
        continue;
      zero->group_order[zero->n_trainable++] = p;
      zero->trainable_shard_elements += zero->parameters[p].shard;
      group.n++;
      group.elements += zero->parameters[p].shard;
      if (group.elements >= zero->config.sub_group_size)
        close_sub_group (zero, groups, &group);
    }
    close_sub_group (zero, groups, &group);
  }
  zero->n_sub_groups = (int32_t) groups->len;
  zero->sub_groups = (Zero3SubGroup *) (void *) g_array_free (groups, FALSE);

  if (!zero3_optimizer_on_host (zero))
    return;
  /* Twin-Flow: the first int ((1 - ratio) x sub-groups) stay on the GPU */
  double ratio = zero->config.optimizer_ratio > 0 ? zero->config.optimizer_ratio : 1.0;
  int32_t n_on_gpu = (int32_t) ((1.0 - ratio) * zero->n_sub_groups);

  for (int32_t k = n_on_gpu; k < zero->n_sub_groups; k++) {
    zero->sub_groups[k].on_gpu = false;
    zero->sub_groups[k].swapped = zero->config.offload_optimizer == ZS_DEVICE_NVME
                                  && zero3_is_swappable (zero, zero->sub_groups[k].elements, 4);
  }
}

/* _get_granularity_recursively (): elements of MODULE and all below it; *RET_N counts the modules among
 * them, itself too, that have parameters in or below them. */
static int64_t
count_below (const ZsModel *model, int32_t module, int32_t *ret_n)
{
  int64_t elements = 0;
  int32_t n = 0;

  for (int32_t i = 0; i < model->modules[module].n_parameters; i++)
    elements += model->parameters[model->modules[module].first_parameter + i].elements;
  for (int32_t m = module + 1; m < model->n_modules && model->modules[m].parent >= module; m++)
    if (model->modules[m].parent == module) {
      int32_t n_child;

      elements += count_below (model, m, &n_child);
      n += n_child;
    }
  *ret_n = elements > 0 ? n + 1 : 0;
  return elements;
}

static bool
has_children (const ZsModel *model, int32_t module)
{
  return module + 1 < model->n_modules && model->modules[module + 1].parent == module;
}

/* _set_z3_leaf_modules_by_threshold (): in pre-order, the first modules with children whose elements
 * per module do not exceed the threshold are fetched whole; modules of 1e9 elements are exempt. */
static void
find_leaf_modules (Zero3 *zero)
{
  const ZsModel *model = zero->model;

  for (int32_t m = 0; m < model->n_modules; m++)
    zero->hooked[m] = true;
  if (zero->config.module_granularity_threshold <= 0)
    return;
  for (int32_t m = 0; m < model->n_modules; m++) {
    int32_t n_below;

    if (!zero->hooked[m] || !has_children (model, m))
      continue;
    int64_t elements = count_below (model, m, &n_below);

    if (elements >= 1000000000 || n_below == 0
        || elements / n_below > zero->config.module_granularity_threshold)
      continue;
    zero->is_leaf[m] = true;
    for (int32_t below = m + 1; below < model->n_modules; below++)
      for (int32_t at = model->modules[below].parent; at >= m; at = model->modules[at].parent)
        if (at == m) {
          zero->hooked[below] = false;
          for (int32_t i = 0; i < model->modules[below].n_parameters; i++)
            zero->parameters[model->modules[below].first_parameter + i].leaf = m;
          break;
        }
  }
}

/* Liger's fused loss reads the head's weight in the model's own forward, whose module hooks then gather
 * it: ZeROOrderedDict's __getitem__ () finds it absent in the first forward and registers it with the module
 * that runs, an external parameter from then on (parameter_offload.py).  So it is gathered before all layers
 * and let go after them, in forward and again in backward.  Here that holds from the first forward on. */
static int32_t
external_module (const Zero3 *zero, int32_t *ret_copy)
{
  const ZsModel *model = zero->model;
  int32_t head = zs_model_find (model, ZS_MODULE_HEAD, -1);

  *ret_copy = -1;
  if ((zero->shape.liger & ZS_LIGER_FUSED_LOSS) == 0)
    return -1;
  for (int32_t m = head + 1; m < model->n_modules && *ret_copy < 0; m++)
    if (model->modules[m].kind == ZS_MODULE_SAVED_COPY && model->modules[m].parent == head)
      *ret_copy = m;
  return *ret_copy >= 0 ? *ret_copy : head;
}

static void
find_members (Zero3 *zero)
{
  const ZsModel *model = zero->model;
  int32_t n = 0, head = zs_model_find (model, ZS_MODULE_HEAD, -1), copy;
  int32_t external = external_module (zero, &copy);
  int32_t embedding = zs_model_find (model, ZS_MODULE_EMBEDDING, -1);

  zero->first_member = g_new (int32_t, model->n_modules + 1);
  zero->members = g_new (int32_t, zero->n_parameters + 2);
  for (int32_t m = 0; m < model->n_modules; m++) {
    zero->first_member[m] = n;
    if (m == 0 && external >= 0 && !zero->is_leaf[m])
      zero->members[n++] = model->modules[external].n_parameters > 0
                             ? model->modules[external].first_parameter
                             : model->modules[embedding].first_parameter;
    if (external >= 0 && (m == head || m == copy) && !zero->is_leaf[0])
      continue;
    if (zero->is_leaf[m]) {
      for (int32_t p = 0; p < zero->n_parameters; p++)
        if (zero->parameters[p].leaf == m || model->parameters[p].module == m)
          zero->members[n++] = p;
    } else if (zero->hooked[m]) {
      if (m == head && model->shape.tied_embeddings)
        zero->members[n++] = model->modules[embedding].first_parameter;
      else
        for (int32_t i = 0; i < model->modules[m].n_parameters; i++)
          zero->members[n++] = model->modules[m].first_parameter + i;
    }
  }
  zero->first_member[model->n_modules] = n;
}

static void
make_coordinator (Zero3 *zero)
{
  int32_t n = zero->n_parameters;
  g_autofree int64_t *elements = g_new (int64_t, n + 1);
  g_autofree bool *persistent = g_new (bool, n + 1), *frozen = g_new (bool, n + 1);
  bool nvme = zero->config.offload_param == ZS_DEVICE_NVME;

  for (int32_t p = 0; p < n; p++) {
    elements[p] = zero->parameters[p].elements;
    persistent[p] = zero->parameters[p].persistent;
    frozen[p] = !zero->parameters[p].trainable;
  }
  zero->coordinator = zs_coordinator_new (
    &(ZsCoordinatorSettings) {
      .n_parameters = n, .n_modules = zero->model->n_modules, .elements = elements,
      .persistent = persistent, .frozen = frozen, .first = zero->first_member,
      .members = zero->members,
      /* stage3_allgather_sequential sets the prefetch bucket to one element */
      .prefetch_bucket = zero->config.allgather_sequential && zero->config.prefetch_bucket_size > 0
                         ? 1 : zero->config.prefetch_bucket_size,
      .max_live = zero->config.max_live_parameters, .max_reuse = zero->config.max_reuse_distance,
      .record_first = zero->old_backward, .keep_frozen_for_backward = !zero->old_backward },
    &(ZsCoordinatorCalls) { .self = zero, .gather = zero3_gather, .wait = zero3_wait,
                            .fetched = zero3_fetched, .release = zero3_release,
                            .on_nvme = nvme ? zero3_shard_is_away : NULL,
                            .read_ahead = nvme ? zero3_read_ahead : NULL });
}

/* ---- module hooks ---- */

static void
fetch (Zero3 *zero, ZsPlan *plan, int32_t module, bool forward, bool recompute)
{
  zero->plan = plan;
  zero->fetch_module = module;
  zs_plan_host (plan, ZS_HOST_HOOK, 1);
  if (zs_coordinator_mode (zero->coordinator) == ZS_TRACE_RECORD)
    zs_plan_host (plan, ZS_HOST_RECORD_TRACE, 1);
  zs_plan_host (plan, ZS_HOST_FETCH, 1);
  zs_coordinator_fetch (zero->coordinator, module, forward, recompute);
  zs_plan_unref (plan, zero->leaf_empty[module]);
  zero->leaf_empty[module] = ZS_NO_TENSOR;
}

/* A leaf's absent parameters share a tensor of one number.  Where the threshold makes leaves, forward
 * lets nothing go once there is a trace: measured with 0.19.5 to the byte; why is not known. */
static void
release (Zero3 *zero, ZsPlan *plan, int32_t module, bool backward)
{
  zero->plan = plan;
  if (zero->config.module_granularity_threshold > 0 && !backward
      && zs_coordinator_mode (zero->coordinator) == ZS_TRACE_COMPLETE)
    return;
  if (zero->is_leaf[module]) {
    ZsTensor empty = zs_plan_alloc (plan, 4, ZS_CATEGORY_GATHERED);

    zs_plan_unref (plan, zero->leaf_empty[module]);
    zero->leaf_empty[module] = empty;
  }
  zs_plan_host (plan, ZS_HOST_HOOK, 1);
  zs_plan_host (plan, ZS_HOST_RELEASE, 1);
  zs_coordinator_release (zero->coordinator, module, backward);
}

/* assert_ints_same_as_other_ranks (): a list of N integers goes to the GPU, is broadcast, comes back. */
static void
compare_integers (ZsPlan *plan, int64_t n)
{
  if (n == 0)
    return;
  ZsTensor list = zs_torch_scalar_from_host (plan, 8 * n);

  zs_torch_collective (plan, ZS_COLLECTIVE_BROADCAST, ZS_ZERO3_COMM_WORLD, 8 * n);
  zs_torch_item (plan, 8 * n);
  zs_plan_unref (plan, list);
}

/* reset_step (): while there is no complete trace the ranks compare what they have. */
static void
reset (Zero3 *zero, ZsPlan *plan)
{
  bool compare = zs_coordinator_mode (zero->coordinator) != ZS_TRACE_COMPLETE;
  int64_t n_calls = zs_coordinator_n_calls (zero->coordinator);
  bool recorded = zs_coordinator_reset (zero->coordinator);
  int64_t n_entries = zs_coordinator_n_entries (zero->coordinator);
  int64_t lists[] = { n_calls, n_entries, n_entries };

  for (int i = 0; compare && i < (recorded ? 3 : 1); i++) {
    if (!zero->old_backward)   /* the lengths first */
      compare_integers (plan, 1);
    compare_integers (plan, lists[i]);
  }
}

static void
before_forward (void *self, ZsPlan *plan, int32_t module, bool recompute)
{
  Zero3 *zero = self;

  if (!zero->hooked[module])
    return;
  if (module == 0 && !recompute && !zero->old_backward)
    reset (zero, plan);
  fetch (zero, plan, module, true, recompute);
}

static void
after_forward (void *self, ZsPlan *plan, int32_t module, bool recompute)
{
  Zero3 *zero = self;

  (void) recompute;
  if (zero->hooked[module])
    release (zero, plan, module, false);
}

static void
before_backward (void *self, ZsPlan *plan, int32_t module)
{
  Zero3 *zero = self;

  if (zero->hooked[module])
    fetch (zero, plan, module, false, false);
}

static void
after_backward (void *self, ZsPlan *plan, int32_t module)
{
  Zero3 *zero = self;
  ZsModuleKind kind = zero->model->modules[module].kind;

  /* The hook after backward hangs on the module's inputs; these take token ids, which have no
   * gradient. */
  if (!zero->hooked[module] || kind == ZS_MODULE_TOP || kind == ZS_MODULE_INNER
      || kind == ZS_MODULE_EMBEDDING)
    return;
  if (zero->is_leaf[module])
    zero3_leaf_backward (zero, plan, module);
  release (zero, plan, module, true);
}

/* ---- around a micro-step ---- */

static void
before_forward_pass (void *self, ZsPlan *plan, int step, int micro_step, bool boundary)
{
  Zero3 *zero = self;

  (void) plan;
  (void) step;
  (void) micro_step;
  zero->boundary = boundary;
}

static void
before_backward_pass (void *self, ZsPlan *plan)
{
  Zero3 *zero = self;

  zs_loss_before_buckets (&zero->loss, plan, &zero->config.versions,
                          zero->config.gradient_accumulation);
  zs_loss_before_backward (&zero->loss, plan);
}

static void
after_backward_pass (void *self, ZsPlan *plan)
{
  Zero3 *zero = self;

  zero->plan = plan;
  zs_loss_after_backward (&zero->loss, plan, &zero->config.versions);
  if (zero->old_backward) {
    reset (zero, plan);
    zero3_finish_backward (zero, plan);
  } else {
    zero3_finish_backward (zero, plan);
    zs_coordinator_release_leftovers (zero->coordinator);
  }
  zs_loss_end_backward (&zero->loss, plan);
}

static void
zero3_free (void *self)
{
  Zero3 *zero = self;

  zs_coordinator_free (zero->coordinator);
  for (int32_t i = 0; i < zero->n_handles; i++)
    g_free (zero->handles[i].members);
  g_free (zero->handles);
  g_free (zero->parameters);
  g_free (zero->first_member);
  g_free (zero->members);
  g_free (zero->hooked);
  g_free (zero->is_leaf);
  g_free (zero->leaf_empty);
  g_free (zero->group_order);
  g_free (zero->sub_groups);
  g_free (zero->in_bucket);
  g_array_unref (zero->held);
  g_free (zero);
}

static uint64_t
zero3_digest (const void *self, bool events)
{
  const Zero3 *zero = self;
  Zero3 copy;

  memcpy (&copy, zero, sizeof copy);
  copy.micro_step = zero->micro_step > 0;   /* only the first is another */
  if (!events) {
    memset (copy.fetches.events, 0, sizeof copy.fetches.events);
    memset (copy.reductions.events, 0, sizeof copy.reductions.events);
  }
  uint64_t digest = zs_digest_items (zs_coordinator_digest (zero->coordinator), &copy, 1);

  digest = zs_digest_items (digest, zero->parameters, zero->n_parameters);
  digest = zs_digest_items (digest, zero->leaf_empty, zero->model->n_modules);
  for (int32_t h = 0; h < zero->n_handles; h++)
    if (zero->handles[h].used) {
      digest = zs_digest_items (zs_digest_add (digest, (uint64_t) h), &zero->handles[h], 1);
      digest = zs_digest_items (digest, zero->handles[h].members, zero->handles[h].n);
    }
  digest = zs_digest_items (digest, zero->sub_groups, zero->n_sub_groups);
  digest = zs_digest_items (digest, zero->in_bucket, zero->n_in_bucket);
  return zs_digest_bytes (digest, zero->held->data, zero->held->len * sizeof (ZsTensor));
}

ZsHooks *
zs_zero3_hooks_new (const ZsModel *model, const ZsZeroConfig *config, const ZsStepShape *shape,
                    int64_t rank, ZsPlan *plan)
{
  Zero3 *zero = g_new0 (Zero3, 1);
  int32_t n = model->n_parameters;
  const ZsVersions *versions = &config->versions;

  zero->model = model;
  zero->config = *config;
  zero->shape = *shape;
  zero->world = config->mics_shard_size > 0 ? config->mics_shard_size : config->world;
  zero->rank = rank % zero->world;
  zero->first_rank = rank == 0;
  zero->model_bytes = zs_dtype_bytes (config->dtype);
  zero->old_backward = !zs_behaves (versions, ZS_BEHAVIOUR_RELEASE_BACKWARD_LEFTOVERS);
  zero->one_communicator = zs_behaves (versions, ZS_BEHAVIOUR_ONE_COMMUNICATOR_STAGE3);
  zero->async_fp32_copy = zs_behaves (versions, ZS_BEHAVIOUR_ASYNC_FP32_GRADIENT_COPY);
  zero->bucket_in_communication_dtype
    = zs_behaves (versions, ZS_BEHAVIOUR_BUCKET_IN_COMMUNICATION_DTYPE);
  zero->overlap = config->overlap_comm;
  zero->gather_stream = config->overlap_comm ? ZS_STREAM_ALL_GATHER : ZS_STREAM_COMPUTE;
  zero->reduce_stream = config->overlap_comm ? ZS_STREAM_REDUCE : ZS_STREAM_COMPUTE;

  zero->n_parameters = n;
  zero->parameters = g_new0 (Zero3Parameter, n + 1);
  for (int32_t p = 0; p < n; p++) {
    const ZsParameter *from = &model->parameters[p];
    Zero3Parameter *to = &zero->parameters[p];

    *to = (Zero3Parameter) {
      .elements = from->elements,
      .shard = zs_zero3_shard (from->elements, zero->world),
      .bytes = (int) zs_dtype_bytes (from->dtype),
      .trainable = from->trainable,
      .sub_group = -1, .leaf = -1, .handle = -1,
      .shard_tensor = ZS_NO_TENSOR, .secondary = ZS_NO_TENSOR, .full = ZS_NO_TENSOR,
      .gradient = ZS_NO_TENSOR, .wide_gradient = ZS_NO_TENSOR, .norm = ZS_NO_TENSOR,
      .reading = ZS_NO_EVENT,
    };
    to->own_shard_is_empty = to->shard * zero->rank >= to->elements;
    if (plan != NULL)
      to->label = zs_plan_label (plan, model->modules[from->module].layer, "gather");
  }
  mark_persistent (zero);
  zero->group_order = g_new (int32_t, n + 1);
  zero->in_bucket = g_new (int32_t, n + 1);
  zero->held = g_array_new (FALSE, FALSE, sizeof (ZsTensor));
  zero->swap.reading = zero->swap.writing = ZS_NO_EVENT;
  make_sub_groups (zero);
  if (config->offload_param == ZS_DEVICE_NVME)
    zero3_place_shards (zero);
  zero->hooked = g_new0 (bool, model->n_modules);
  zero->is_leaf = g_new0 (bool, model->n_modules);
  zero->leaf_empty = g_new (ZsTensor, model->n_modules);
  for (int32_t m = 0; m < model->n_modules; m++)
    zero->leaf_empty[m] = ZS_NO_TENSOR;
  find_leaf_modules (zero);
  find_members (zero);
  make_coordinator (zero);
  zero->shard_buffer = zero->gradient_buffer = zero->bucket = ZS_NO_TENSOR;
  zero->adam_flag = zero->overflow_flag = zero->kept_norm = ZS_NO_TENSOR;
  zero->tied_head_shard = ZS_NO_TENSOR;
  zs_loss_init (&zero->loss);
  if (plan != NULL) {
    zero->label_init = zs_plan_label (plan, -1, "shards");
    zero->label_reduce = zs_plan_label (plan, -1, "reduce gradients");
    zero->label_step = zs_plan_label (plan, -1, "optimizer step");
    zero->label_offload = zs_plan_label (plan, -1, "offload gradients");
  }

  zero->hooks = (ZsHooks) {
    .self = zero,
    .load = zero3_load,
    .init = zero3_init,
    .before_forward_pass = before_forward_pass,
    .before_backward_pass = before_backward_pass,
    .after_backward_pass = after_backward_pass,
    .before_forward = before_forward,
    .after_forward = after_forward,
    .before_backward = before_backward,
    .after_backward = after_backward,
    .gradient = zero3_gradient,
    .weight = zero3_weight,
    .loss_factors = zs_loss_factors (&config->versions, config->gradient_accumulation),
    .linear_saves_no_weight
      = config->memory_efficient_linear
        && (config->zero_init
            || zs_behaves (versions, ZS_BEHAVIOUR_MEMORY_EFFICIENT_LINEAR_ALWAYS)),
    .step = zero3_step,
    .save = zero3_save,
    .digest = zero3_digest,
    .free = zero3_free,
  };
  return &zero->hooks;
}
