/* fsdp2.c: fully_shard ().  SPDX-License-Identifier: MIT
 *
 * Source: torch/distributed/fsdp/_fully_shard of PyTorch 2.11; functions here carry the names there.
 * What a gather and a reduction do is in fsdp2-gather.c and fsdp2-reduce.c; here is when: before each
 * unit, the next one of backward ahead.  No tensor is recorded on another stream: references keep
 * them alive. */
#include "config.h"

#include "sim/fsdp/fsdp2-internal.h"

#include "sim/base/digest.h"

/* ---- forward ---- */

static void
before_forward (void *self, ZsPlan *plan, int32_t module, bool recompute)
{
  Fsdp2 *fsdp = self;
  int32_t index = fsdp->units.unit_of_module[module];

  (void) recompute;   /* the states below know */
  if (index < 0 || fsdp->states[index].state == PRE_BACKWARD)
    return;
  zs_plan_host (plan, ZS_HOST_FSDP_HOOK, 1);
  fsdp->states[index].state = FORWARD;
  if (fsdp->iter_forward_root < 0) {
    fsdp->iter_forward_root = index;
    zs_plan_stream_wait_stream (plan, COPY_IN, COMPUTE);
    zs_plan_stream_wait_stream (plan, GATHER, COMPUTE);
  }
  fsdp->states[index].group_state = FORWARD;
  fsdp2_unshard (fsdp, index);
  fsdp2_wait_for_unshard (fsdp, index);
}

static void
after_forward (void *self, ZsPlan *plan, int32_t module, bool recompute)
{
  Fsdp2 *fsdp = self;
  int32_t index = fsdp->units.unit_of_module[module];

  if (index < 0 || fsdp->states[index].state == PRE_BACKWARD)
    return;
  Fsdp2Unit *state = &fsdp->states[index];
  guint place = fsdp->post_forward_order->len;

  zs_plan_host (plan, ZS_HOST_FSDP_HOOK, 1);
  if (!recompute) {   /* is_bw () */
    fsdp2_reshard (fsdp, index);
    g_array_append_val (fsdp->post_forward_order, index);
    g_array_append_val (state->post_forward, place);
  }
  state->state = state->group_state = IDLE;
  if (fsdp->iter_forward_root == index) {
    fsdp2_free_all_gather_state (fsdp);
    fsdp->iter_forward_root = -1;
  }
}

/* ---- backward ---- */

/* The unit whose forward ended before this one's is needed next. */
static void
prefetch (Fsdp2 *fsdp, int32_t index)
{
  GArray *places = fsdp->states[index].post_forward;

  if (places->len == 0)
    return;
  guint place = g_array_index (places, guint, places->len - 1);

  g_array_set_size (places, places->len - 1);
  if (place > 0)
    fsdp2_unshard (fsdp, g_array_index (fsdp->post_forward_order, int32_t, place - 1));
}

static void
before_backward (void *self, ZsPlan *plan, int32_t module)
{
  Fsdp2 *fsdp = self;
  int32_t index = fsdp->units.unit_of_module[module];

  if (index < 0)
    return;
  zs_plan_host (plan, ZS_HOST_FSDP_HOOK, 1);
  fsdp->states[index].state = fsdp->states[index].group_state = PRE_BACKWARD;
  fsdp2_unshard (fsdp, index);
  fsdp2_wait_for_unshard (fsdp, index);
  prefetch (fsdp, index);
}

static void
after_backward (void *self, ZsPlan *plan, int32_t module)
{
  Fsdp2 *fsdp = self;
  int32_t index = fsdp->units.unit_of_module[module];

  (void) plan;
  if (index >= 0 && fsdp->units.units[index].layer >= 0)
    fsdp2_post_backward (fsdp, index);
}

/* _root_post_backward_final_callback () */
static void
after_backward_pass (void *self, ZsPlan *plan)
{
  Fsdp2 *fsdp = self;
  int32_t root = fsdp->units.n_units - 1;

  /* all_states begins with the root */
  for (int32_t i = 0; i < fsdp->units.n_units; i++) {
    int32_t index = i == 0 ? root : i - 1;
    Fsdp2Unit *state = &fsdp->states[index];

    if (state->group_state != POST_BACKWARD)
      fsdp2_post_backward (fsdp, index);
    state->state = state->group_state = IDLE;
    g_array_set_size (state->post_forward, 0);
    if (state->gathered.tensor != ZS_NO_TENSOR) {   /* gathered ahead for nothing */
      zs_plan_stream_wait_event (plan, COMPUTE, state->gathered.event);
      fsdp2_drop_held (fsdp, &state->gathered);
    }
  }
  if (fsdp->last_reduce != ZS_NO_EVENT) {
    zs_plan_stream_wait_event (plan, COMPUTE, fsdp->last_reduce);
    if (fsdp->units.config.cpu_offload)
      zs_plan_host_wait_event (plan, fsdp->last_reduce);
    zs_plan_event_free (plan, fsdp->last_reduce);
    fsdp->last_reduce = ZS_NO_EVENT;
  }
  g_array_set_size (fsdp->post_forward_order, 0);
  if (fsdp->reduce_scatter_state.tensor != ZS_NO_TENSOR) {
    zs_plan_stream_wait_event (plan, COMPUTE, fsdp->reduce_scatter_state.event);
    fsdp2_drop_held (fsdp, &fsdp->reduce_scatter_state);
  }
}

/* AccumulateGrad on the full parameter. */
static void
gradient (void *self, ZsPlan *plan, int32_t index, ZsTensor tensor)
{
  Fsdp2 *fsdp = self;
  FsdpParameter *parameter = &fsdp->units.parameters[fsdp->units.slot_of_parameter[index]];

  if (parameter->gradient != ZS_NO_TENSOR) {   /* under no_sync: in place */
    zs_plan_unref (plan, tensor);
    return;
  }
  parameter->gradient = tensor;
}

/* ---- before training, and the step ---- */

static void
load (void *self, ZsPlan *plan)
{
  (void) plan;
  fsdp_load (&((Fsdp2 *) self)->units);
}

/* FSDPParam._init_sharded_param (): a padded shard is made and filled; the originals go when all
 * of the unit have one. */
static void
init (void *self, ZsPlan *plan)
{
  FsdpUnits *units = &((Fsdp2 *) self)->units;

  zs_plan_set_label (plan, units->label_shard);
  for (int32_t u = 0; u < units->n_units; u++) {
    const FsdpUnit *unit = &units->units[u];

    fsdp_bring (units, unit);
    for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
      FsdpParameter *parameter = &units->parameters[i];
      int64_t bytes = parameter->shard_elements * units->parameter_bytes;

      parameter->shard = zs_plan_alloc (plan, bytes, fsdp_shard_category (units));
      zs_plan_launch (plan, unit->copy_in);
      if (units->config.cpu_offload) {
        ZsTensor pageable = zs_plan_host_alloc (plan, bytes, ZS_CATEGORY_MASTER, 0);

        zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, bytes, ZS_FLAG_BLOCKING);
        zs_plan_unref (plan, parameter->shard);
        parameter->shard = zs_plan_host_alloc (plan, bytes, ZS_CATEGORY_MASTER, ZS_FLAG_PINNED);
        zs_plan_copy (plan, ZS_COPY_HOST_TO_HOST, bytes, ZS_FLAG_BLOCKING);
        zs_plan_unref (plan, pageable);
      }
    }
    for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
      zs_plan_unref (plan, units->parameters[i].original);
      units->parameters[i].original = ZS_NO_TENSOR;
    }
  }
}

static void
step (void *self, ZsPlan *plan, int number)
{
  FsdpUnits *units = &((Fsdp2 *) self)->units;

  (void) number;
  fsdp_step (units);
  for (int32_t i = 0; i < units->model->n_parameters; i++) {   /* zero_grad () */
    FsdpParameter *parameter = &units->parameters[units->slot_of_parameter[i]];

    zs_plan_unref (plan, parameter->shard_gradient);
    parameter->shard_gradient = ZS_NO_TENSOR;
  }
}

static void
free_fsdp2 (void *self)
{
  Fsdp2 *fsdp = self;

  for (int32_t i = 0; i < fsdp->units.n_units; i++)
    g_array_free (fsdp->states[i].post_forward, TRUE);
  g_free (fsdp->states);
  g_array_free (fsdp->post_forward_order, TRUE);
  fsdp_units_clear (&fsdp->units);
  g_free (fsdp);
}

static uint64_t
fsdp2_digest (const void *self, bool events)
{
  const Fsdp2 *fsdp = self;
  Fsdp2 copy;

  memcpy (&copy, fsdp, sizeof copy);
  if (!events) {   /* there, or not */
    copy.all_gather_state.event = copy.all_gather_state.event == ZS_NO_EVENT;
    copy.reduce_scatter_state.event = copy.reduce_scatter_state.event == ZS_NO_EVENT;
    copy.last_reduce = copy.last_reduce == ZS_NO_EVENT;
  }
  const GArray *order = fsdp->post_forward_order;
  uint64_t digest = zs_digest_items (fsdp_units_digest (&fsdp->units), &copy, 1);

  digest = zs_digest_items (digest, fsdp->states, fsdp->units.n_units);
  for (int32_t i = 0; i < fsdp->units.n_units; i++)
    digest = zs_digest_bytes (digest, fsdp->states[i].post_forward->data,
                              fsdp->states[i].post_forward->len * sizeof (guint));
  return zs_digest_bytes (digest, order->data, order->len * sizeof (int32_t));
}

ZsHooks *
zs_fsdp2_hooks_new (const ZsModel *model, const ZsFsdpConfig *config, const ZsStepShape *shape,
                    int64_t rank, ZsPlan *plan)
{
  Fsdp2 *fsdp = g_new0 (Fsdp2, 1);

  fsdp_units_init (&fsdp->units, model, config, shape, rank, plan);
  fsdp->states = g_new0 (Fsdp2Unit, (gsize) fsdp->units.n_units);
  for (int32_t i = 0; i < fsdp->units.n_units; i++) {
    fsdp->states[i].gathered = FSDP2_NOTHING;
    fsdp->states[i].post_forward = g_array_new (FALSE, FALSE, sizeof (guint));
  }
  fsdp->post_forward_order = g_array_new (FALSE, FALSE, sizeof (int32_t));
  fsdp->all_gather_state = fsdp->reduce_scatter_state = FSDP2_NOTHING;
  fsdp->iter_forward_root = -1;
  fsdp->last_reduce = ZS_NO_EVENT;
  fsdp->alone = fsdp->units.ranks == 1 && !config->cpu_offload
                && zs_behaves (&config->versions, ZS_BEHAVIOUR_FSDP2_ALONE_COPIES);
  fsdp->hooks = (ZsHooks) {
    .self = fsdp, .load = load, .init = init, .before_forward_pass = fsdp_before_forward_pass,
    .before_forward = before_forward,
    .after_forward = after_forward, .before_backward = before_backward,
    .after_backward = after_backward, .after_backward_pass = after_backward_pass,
    .ends_inside_backward = true, .gradient = gradient, .step = step, .digest = fsdp2_digest,
    .free = free_fsdp2,
  };
  return &fsdp->hooks;
}
