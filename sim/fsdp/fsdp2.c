/* fsdp2.c: fully_shard ().  SPDX-License-Identifier: MIT
 *
 * Source: torch/distributed/fsdp/_fully_shard of PyTorch 2.11; functions here carry the names there.
 *
 * A gather allocates, on the copy-in stream, the shards cast to the compute dtype and the flat result
 * of all ranks, runs the all-gather on its own stream, and is waited for by the compute stream, which
 * copies it out into one tensor per parameter.  In forward the flat result of one unit is kept until
 * the next one has been copied out, so that the gather streams need not wait for the compute stream;
 * in backward it goes at once, and the unit before is gathered ahead.  A reduction casts and
 * interleaves the unit's gradients into one buffer on the compute stream and reduce-scatters it on
 * a stream of its own into the buffer of which the shards' gradients are views; the input is kept
 * until the next reduction.  No tensor is recorded on another stream: references keep them alive. */
#include "config.h"

#include "sim/fsdp/fsdp2.h"

#include "sim/base/digest.h"

enum { COPY_IN = ZS_STREAM_ALL_GATHER, GATHER = ZS_STREAM_COPY, REDUCE = ZS_STREAM_REDUCE,
       ALL_REDUCE = ZS_STREAM_OTHER, COMPUTE = ZS_STREAM_COMPUTE };

typedef enum { IDLE, FORWARD, PRE_BACKWARD, POST_BACKWARD } TrainingState;

/* A flat gathered buffer or the input of a reduction, and the event after which it may go. */
typedef struct {
  ZsTensor tensor;
  ZsEvent  event;
} Held;

#define NOTHING ((Held) { ZS_NO_TENSOR, ZS_NO_EVENT })

typedef struct {
  TrainingState state;         /* of the FSDPState: stays until the end of backward */
  TrainingState group_state;   /* of its parameter group */
  bool          full;          /* unsharded */
  bool          promised;      /* the only rank: wait_for_unshard () has it to do */
  Held          gathered;      /* all_gather_result: issued, not yet waited for */
  GArray       *post_forward;  /* its places in the order below */
} UnitState;

typedef struct {
  ZsHooks    hooks;
  FsdpUnits  units;
  UnitState *states;
  GArray    *post_forward_order;   /* unit of each forward that backward will undo */
  Held       all_gather_state;     /* kept from one copy-out to the next */
  Held       reduce_scatter_state;
  bool       boundary;             /* of gradient accumulation */
  int32_t    iter_forward_root;    /* -1: none is running */
  ZsEvent    last_reduce;
  bool       alone;                /* one rank: copies in the place of collectives */
} Fsdp2;

/* ---- temporary tables of the multi-tensor copies ---- */

enum { BYTES_PER_BLOCK = 128 * 16 /* threads x bytes; ATen/native/cuda/TensorShape.cu */ };

static int64_t
divide_up (int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

/* split_with_sizes_copy: destination, source and size per tensor, sums of blocks, and a number per
 * block of threads.  A thread copies 16 bytes several times, so that a GPU that holds M blocks gets as
 * many waves of them as each has repetitions: sqrt (blocks of all ranks / M), rounded, and no more
 * than M blocks per rank.  The rule meets 80 recorded tables of torch 2.11 on one H200 (M = 132 x 32). */
static int64_t
copy_out_table (const FsdpUnits *units, const FsdpUnit *unit)
{
  int64_t blocks = 0, n = 0, element = units->compute_bytes;
  int64_t resident = (int64_t) units->shape.sm_count * 32;

  for (int32_t i = unit->first; i < unit->first + unit->n; i++, n++)
    blocks += divide_up (units->parameters[i].shard_elements * element, BYTES_PER_BLOCK);
  int64_t repeat = MAX (divide_up (blocks, resident), 1);

  while ((2 * repeat + 1) * (2 * repeat + 1) * resident <= 4 * blocks * units->ranks)
    repeat++;
  blocks = 0;
  for (int32_t i = unit->first; i < unit->first + unit->n; i++)
    blocks += divide_up (units->parameters[i].shard_elements * element, BYTES_PER_BLOCK * repeat);
  return (4 * n + 1 + blocks) * 8;
}

/* _chunk_cat: six numbers per tensor, two sums, and one per block of threads. */
static int64_t
chunk_cat_table (const FsdpUnits *units, const FsdpUnit *unit)
{
  int64_t blocks = 0, n = 0;

  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    if (units->parameters[i].gradient == ZS_NO_TENSOR)
      continue;
    blocks += divide_up (units->parameters[i].shard_elements * units->reduce_bytes,
                         BYTES_PER_BLOCK);
    n++;
  }
  return (6 * n + 2 + blocks) * 8;
}

/* ---- gathering ---- */

static void
drop_held (Fsdp2 *fsdp, Held *held)
{
  zs_plan_unref (fsdp->units.plan, held->tensor);
  if (held->event != ZS_NO_EVENT)
    zs_plan_event_free (fsdp->units.plan, held->event);
  *held = NOTHING;
}

static ZsEvent
record_event (Fsdp2 *fsdp, uint8_t stream)
{
  ZsEvent event = zs_plan_event_new (fsdp->units.plan);

  zs_plan_event_record (fsdp->units.plan, event, stream);
  return event;
}

static void
wait_all_gather_streams (Fsdp2 *fsdp, ZsEvent event)
{
  zs_plan_stream_wait_event (fsdp->units.plan, COPY_IN, event);
  zs_plan_stream_wait_event (fsdp->units.plan, GATHER, event);
}

/* _get_param_all_gather_inputs () with CPU offload: per parameter a copy to the GPU and a cast.
 * Returns how many of TENSORS it made. */
static int
fetch_from_host (FsdpUnits *units, const FsdpUnit *unit, ZsTensor *tensors)
{
  ZsPlan *plan = units->plan;
  int n = 0;

  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    int64_t elements = units->parameters[i].shard_elements;
    ZsTensor shard = zs_plan_alloc (plan, elements * units->parameter_bytes, ZS_CATEGORY_OFFLOAD);

    zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, elements * units->parameter_bytes, ZS_FLAG_PINNED);
    if (units->casts) {
      ZsTensor cast = zs_plan_alloc (plan, elements * units->compute_bytes, ZS_CATEGORY_BUCKETS);

      zs_plan_launch (plan, unit->cast);
      zs_plan_unref (plan, shard);
      shard = cast;
    }
    tensors[n++] = shard;
  }
  return n;
}

/* foreach_all_gather () */
static void
unshard (Fsdp2 *fsdp, int32_t index)
{
  FsdpUnits *units = &fsdp->units;
  ZsPlan *plan = units->plan;
  const FsdpUnit *unit = &units->units[index];
  UnitState *state = &fsdp->states[index];
  int64_t shard_bytes = unit->shard_elements * units->compute_bytes;

  if (state->gathered.tensor != ZS_NO_TENSOR || state->promised || state->full)
    return;
  if (fsdp->alone) {
    state->promised = true;
    return;
  }
  uint32_t label = zs_plan_set_label (plan, unit->label_gather);
  uint8_t stream = zs_plan_set_stream (plan, COPY_IN);
  g_autofree ZsTensor *inputs = g_new (ZsTensor, (gsize) unit->n + 1);
  int n_inputs = 0;

  if (units->config.cpu_offload)
    n_inputs = fetch_from_host (units, unit, inputs);
  else if (units->casts) {
    inputs[n_inputs++] = zs_plan_alloc (plan, shard_bytes, ZS_CATEGORY_BUCKETS);
    zs_plan_launch (plan, unit->cast);
  }
  ZsTensor flat = zs_plan_alloc (plan, shard_bytes * units->ranks, ZS_CATEGORY_BUCKETS);

  zs_plan_launch (plan, unit->copy_in);
  zs_plan_stream_wait_stream (plan, GATHER, COPY_IN);
  fsdp_collective (units, ZS_COLLECTIVE_ALL_GATHER, FSDP_SHARD_GROUP, shard_bytes * units->ranks,
                   GATHER);
  state->gathered = (Held) { flat, record_event (fsdp, GATHER) };
  for (int i = n_inputs - 1; i >= 0; i--)   /* a list is cleared from its end */
    zs_plan_unref (plan, inputs[i]);
  zs_plan_set_stream (plan, stream);
  zs_plan_set_label (plan, label);
}

/* foreach_all_gather_copy_out () */
static void
copy_out (Fsdp2 *fsdp, int32_t index)
{
  FsdpUnits *units = &fsdp->units;
  ZsPlan *plan = units->plan;
  const FsdpUnit *unit = &units->units[index];

  zs_plan_stream_wait_event (plan, COMPUTE, fsdp->states[index].gathered.event);
  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    FsdpParameter *parameter = &units->parameters[i];

    parameter->full = zs_plan_alloc (plan, parameter->shard_elements * units->ranks
                                             * units->compute_bytes,
                                     ZS_CATEGORY_GATHERED);
  }
  ZsTensor table = zs_plan_alloc (plan, copy_out_table (units, unit), ZS_CATEGORY_TEMPORARY);

  zs_plan_launch (plan, unit->copy_out);
  zs_plan_unref (plan, table);
}

/* Of one rank: each shard is cast, and copied to where it would have been gathered; a cast one lives
 * until the next has been made. */
static void
copy_shards (Fsdp2 *fsdp, int32_t index)
{
  FsdpUnits *units = &fsdp->units;
  ZsPlan *plan = units->plan;
  const FsdpUnit *unit = &units->units[index];
  uint32_t label = zs_plan_set_label (plan, unit->label_gather);
  ZsTensor before = ZS_NO_TENSOR;

  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    FsdpParameter *parameter = &units->parameters[i];
    int64_t bytes = parameter->shard_elements * units->compute_bytes;

    if (units->casts) {
      ZsTensor cast = zs_plan_alloc (plan, bytes, ZS_CATEGORY_BUCKETS);

      zs_plan_launch (plan, fsdp_copy_kernel (units, ZS_KERNEL_CAST, parameter->shard_elements,
                                              units->parameter_bytes + units->compute_bytes, "fsdp.cast"));
      zs_plan_unref (plan, before);
      before = cast;
    }
    parameter->full = zs_plan_alloc (plan, bytes, ZS_CATEGORY_GATHERED);
    zs_plan_launch (plan, fsdp_copy_kernel (units, ZS_KERNEL_COPY, parameter->shard_elements,
                                            2 * units->compute_bytes, "fsdp.copy_out"));
  }
  zs_plan_unref (plan, before);
  fsdp->states[index].promised = false;
  fsdp->states[index].full = true;
  zs_plan_set_label (plan, label);
}

static void
wait_for_unshard (Fsdp2 *fsdp, int32_t index)
{
  UnitState *state = &fsdp->states[index];
  ZsPlan *plan = fsdp->units.plan;
  Held before = NOTHING;

  if (state->promised) {
    copy_shards (fsdp, index);
    return;
  }
  if (state->gathered.tensor == ZS_NO_TENSOR)
    return;
  uint32_t label = zs_plan_set_label (plan, fsdp->units.units[index].label_gather);

  if (state->group_state == FORWARD && fsdp->all_gather_state.tensor != ZS_NO_TENSOR) {
    wait_all_gather_streams (fsdp, fsdp->all_gather_state.event);
    before = fsdp->all_gather_state;   /* a local variable there keeps it to the end */
    fsdp->all_gather_state = NOTHING;
  }
  copy_out (fsdp, index);
  state->full = true;
  ZsEvent copied = record_event (fsdp, COMPUTE);

  zs_plan_event_free (plan, state->gathered.event);
  state->gathered.event = copied;
  if (state->group_state == FORWARD)
    fsdp->all_gather_state = state->gathered;
  else {
    wait_all_gather_streams (fsdp, copied);
    drop_held (fsdp, &state->gathered);
  }
  state->gathered = NOTHING;
  drop_held (fsdp, &before);
  zs_plan_set_label (plan, label);
}

static void
reshard (Fsdp2 *fsdp, int32_t index)
{
  FsdpUnits *units = &fsdp->units;
  const FsdpUnit *unit = &units->units[index];
  UnitState *state = &fsdp->states[index];

  if (state->group_state == FORWARD
      && (!units->config.reshard_after_forward || (unit->root && units->config.keep_root)))
    return;
  if (!state->full)
    return;
  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    zs_plan_unref (units->plan, units->parameters[i].full);
    units->parameters[i].full = ZS_NO_TENSOR;
  }
  state->full = false;
}

/* ---- forward ---- */

static void
free_all_gather_state (Fsdp2 *fsdp)
{
  if (fsdp->all_gather_state.tensor == ZS_NO_TENSOR)
    return;
  wait_all_gather_streams (fsdp, fsdp->all_gather_state.event);
  drop_held (fsdp, &fsdp->all_gather_state);
}

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
  unshard (fsdp, index);
  wait_for_unshard (fsdp, index);
}

static void
after_forward (void *self, ZsPlan *plan, int32_t module, bool recompute)
{
  Fsdp2 *fsdp = self;
  int32_t index = fsdp->units.unit_of_module[module];

  if (index < 0 || fsdp->states[index].state == PRE_BACKWARD)
    return;
  UnitState *state = &fsdp->states[index];
  guint place = fsdp->post_forward_order->len;

  zs_plan_host (plan, ZS_HOST_FSDP_HOOK, 1);
  if (!recompute) {   /* is_bw () */
    reshard (fsdp, index);
    g_array_append_val (fsdp->post_forward_order, index);
    g_array_append_val (state->post_forward, place);
  }
  state->state = state->group_state = IDLE;
  if (fsdp->iter_forward_root == index) {
    free_all_gather_state (fsdp);
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
    unshard (fsdp, g_array_index (fsdp->post_forward_order, int32_t, place - 1));
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
  unshard (fsdp, index);
  wait_for_unshard (fsdp, index);
  prefetch (fsdp, index);
}

/* The reduced gradients become the shards' .grad, are added to them, or go to the host.  Borrows
 * REDUCED. */
static void
hand_out (Fsdp2 *fsdp, const FsdpUnit *unit, const int32_t *with_gradient, int n, ZsTensor reduced)
{
  FsdpUnits *units = &fsdp->units;
  ZsPlan *plan = units->plan;
  bool accumulate = units->parameters[with_gradient[0]].shard_gradient != ZS_NO_TENSOR;

  for (int i = 0; i < n; i++) {
    FsdpParameter *parameter = &units->parameters[with_gradient[i]];
    int64_t bytes = parameter->local_elements * units->parameter_bytes;

    if (units->config.cpu_offload) {
      /* pinned, and without waiting, unless it is added to what is there */
      ZsTensor host = zs_plan_host_alloc (plan, bytes, ZS_CATEGORY_GRADIENTS,
                                          accumulate ? 0 : ZS_FLAG_PINNED);

      zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, bytes,
                    accumulate ? ZS_FLAG_BLOCKING : ZS_FLAG_PINNED);
      if (accumulate) {
        zs_plan_cpu_task (plan, ZS_CPU_SCALE, parameter->local_elements);
        zs_plan_unref (plan, host);
      } else
        parameter->shard_gradient = host;
    } else if (!accumulate)
      parameter->shard_gradient = zs_plan_ref (plan, reduced);
  }
  if (accumulate && !units->config.cpu_offload)
    zs_plan_launch (plan, unit->accumulate);
}

/* foreach_reduce () of the N gradients in WITH_GRADIENT */
static void
reduce (Fsdp2 *fsdp, const FsdpUnit *unit, const int32_t *with_gradient, int n)
{
  FsdpUnits *units = &fsdp->units;
  ZsPlan *plan = units->plan;
  int64_t elements = 0, table_bytes = chunk_cat_table (units, unit);

  for (int i = 0; i < n; i++)
    elements += units->parameters[with_gradient[i]].shard_elements;
  if (fsdp->reduce_scatter_state.tensor != ZS_NO_TENSOR) {
    zs_plan_stream_wait_event (plan, COMPUTE, fsdp->reduce_scatter_state.event);
    drop_held (fsdp, &fsdp->reduce_scatter_state);
  }
  ZsTensor input = zs_plan_alloc (plan, elements * units->ranks * units->reduce_bytes,
                                  ZS_CATEGORY_BUCKETS);
  ZsTensor table = zs_plan_alloc (plan, table_bytes, ZS_CATEGORY_TEMPORARY);

  zs_plan_launch (plan, unit->reduce_copy);
  zs_plan_unref (plan, table);
  /* list.clear () drops from the end; a loop's variable keeps the last one a little longer, but for one
   * rank there is no such loop. */
  for (int i = n - (fsdp->alone ? 1 : 2); i >= 0; i--) {
    zs_plan_unref (plan, units->parameters[with_gradient[i]].gradient);
    units->parameters[with_gradient[i]].gradient = ZS_NO_TENSOR;
  }
  zs_plan_stream_wait_stream (plan, REDUCE, COMPUTE);
  uint8_t stream = zs_plan_set_stream (plan, REDUCE);
  ZsTensor output = zs_plan_alloc (plan, elements * units->reduce_bytes, ZS_CATEGORY_GRADIENTS);

  if (fsdp->alone)
    zs_plan_launch (plan, fsdp_copy_kernel (units, ZS_KERNEL_COPY, elements, 2 * units->reduce_bytes,
                                            "fsdp.reduce copy"));
  else
    fsdp_collective (units, ZS_COLLECTIVE_REDUCE_SCATTER, FSDP_SHARD_GROUP,
                     elements * units->ranks * units->reduce_bytes, REDUCE);
  fsdp->reduce_scatter_state = (Held) { input, record_event (fsdp, REDUCE) };
  uint8_t last_stream = REDUCE;

  if (units->replicas > 1) {
    last_stream = ALL_REDUCE;
    zs_plan_stream_wait_stream (plan, ALL_REDUCE, REDUCE);
    fsdp_collective (units, ZS_COLLECTIVE_ALL_REDUCE, FSDP_REPLICATE_GROUP,
                     elements * units->reduce_bytes, ALL_REDUCE);
  }
  zs_plan_set_stream (plan, last_stream);
  if (units->config.reduce_dtype != units->config.parameter_dtype) {
    ZsTensor cast = zs_plan_alloc (plan, elements * units->parameter_bytes, ZS_CATEGORY_GRADIENTS);

    zs_plan_launch (plan, unit->reduce_cast);
    zs_plan_unref (plan, output);
    output = cast;
  }
  hand_out (fsdp, unit, with_gradient, n, output);
  if (fsdp->last_reduce != ZS_NO_EVENT)
    zs_plan_event_free (plan, fsdp->last_reduce);
  fsdp->last_reduce = record_event (fsdp, last_stream);
  zs_plan_set_stream (plan, stream);
  if (!fsdp->alone) {
    zs_plan_unref (plan, units->parameters[with_gradient[n - 1]].gradient);
    units->parameters[with_gradient[n - 1]].gradient = ZS_NO_TENSOR;
  }
  zs_plan_unref (plan, output);
}

/* accumulate_unsharded_grad_if_needed () */
static void
accumulate (FsdpUnits *units, const FsdpUnit *unit)
{
  bool any = false;

  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    FsdpParameter *parameter = &units->parameters[i];

    if (parameter->accumulated == ZS_NO_TENSOR || parameter->gradient == ZS_NO_TENSOR)
      continue;
    any = true;
    zs_plan_unref (units->plan, parameter->gradient);
    parameter->gradient = ZS_NO_TENSOR;
  }
  if (any)
    zs_plan_launch (units->plan, unit->accumulate_full);
}

/* to_accumulated_grad_if_needed () */
static void
keep_whole (FsdpUnits *units, const FsdpUnit *unit)
{
  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    FsdpParameter *parameter = &units->parameters[i];

    if (parameter->gradient == ZS_NO_TENSOR || units->reduce_bytes == units->compute_bytes)
      continue;
    parameter->accumulated = zs_plan_alloc (units->plan, parameter->elements * units->reduce_bytes,
                                            ZS_CATEGORY_GRADIENTS);
    zs_plan_unref (units->plan, parameter->gradient);
    parameter->gradient = ZS_NO_TENSOR;
  }
  zs_plan_launch (units->plan, unit->accumulate_full);
}

static void
post_backward (Fsdp2 *fsdp, int32_t index)
{
  FsdpUnits *units = &fsdp->units;
  const FsdpUnit *unit = &units->units[index];
  g_autofree int32_t *with_gradient = g_new (int32_t, (gsize) unit->n + 1);
  int n = 0;

  fsdp->states[index].group_state = POST_BACKWARD;
  zs_plan_host (units->plan, ZS_HOST_FSDP_HOOK, 1);
  accumulate (units, unit);
  if (units->config.no_sync && !fsdp->boundary) {
    reshard (fsdp, index);
    keep_whole (units, unit);
    return;
  }
  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    FsdpParameter *parameter = &units->parameters[i];

    if (parameter->accumulated != ZS_NO_TENSOR) {
      parameter->gradient = parameter->accumulated;
      parameter->accumulated = ZS_NO_TENSOR;
    }
    if (parameter->gradient != ZS_NO_TENSOR)
      with_gradient[n++] = i;
  }
  reshard (fsdp, index);
  if (n == 0)
    return;
  uint32_t label = zs_plan_set_label (units->plan, unit->label_reduce);

  zs_plan_host (units->plan, ZS_HOST_FSDP_GRADIENT, n);
  reduce (fsdp, unit, with_gradient, n);
  zs_plan_set_label (units->plan, label);
}

static void
after_backward (void *self, ZsPlan *plan, int32_t module)
{
  Fsdp2 *fsdp = self;
  int32_t index = fsdp->units.unit_of_module[module];

  (void) plan;
  if (index >= 0 && fsdp->units.units[index].layer >= 0)
    post_backward (fsdp, index);
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
    UnitState *state = &fsdp->states[index];

    if (state->group_state != POST_BACKWARD)
      post_backward (fsdp, index);
    state->state = state->group_state = IDLE;
    g_array_set_size (state->post_forward, 0);
    if (state->gathered.tensor != ZS_NO_TENSOR) {   /* gathered ahead for nothing */
      zs_plan_stream_wait_event (plan, COMPUTE, state->gathered.event);
      drop_held (fsdp, &state->gathered);
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
    drop_held (fsdp, &fsdp->reduce_scatter_state);
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

static void
before_forward_pass (void *self, ZsPlan *plan, int step, int micro_step, bool boundary)
{
  (void) plan;
  (void) step;
  (void) micro_step;
  ((Fsdp2 *) self)->boundary = boundary;
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
  fsdp->states = g_new0 (UnitState, (gsize) fsdp->units.n_units);
  for (int32_t i = 0; i < fsdp->units.n_units; i++) {
    fsdp->states[i].gathered = NOTHING;
    fsdp->states[i].post_forward = g_array_new (FALSE, FALSE, sizeof (guint));
  }
  fsdp->post_forward_order = g_array_new (FALSE, FALSE, sizeof (int32_t));
  fsdp->all_gather_state = fsdp->reduce_scatter_state = NOTHING;
  fsdp->iter_forward_root = -1;
  fsdp->last_reduce = ZS_NO_EVENT;
  fsdp->alone = fsdp->units.ranks == 1 && !config->cpu_offload
                && zs_behaves (&config->versions, ZS_BEHAVIOUR_FSDP2_ALONE_COPIES);
  fsdp->hooks = (ZsHooks) {
    .self = fsdp, .load = load, .init = init, .before_forward_pass = before_forward_pass,
    .before_forward = before_forward,
    .after_forward = after_forward, .before_backward = before_backward,
    .after_backward = after_backward, .after_backward_pass = after_backward_pass,
    .ends_inside_backward = true, .gradient = gradient, .step = step, .digest = fsdp2_digest,
    .free = free_fsdp2,
  };
  return &fsdp->hooks;
}
