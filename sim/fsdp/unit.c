/* unit.c: what both versions of FSDP share: units and loading.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/fsdp/unit.h"
#include "sim/model/quantize.h"

#include "sim/base/digest.h"

static uint32_t
kernel (FsdpUnits *units, ZsKernelKind kind, int64_t elements, int64_t bytes, const char *name)
{
  ZsKernel value = { .kind = (uint8_t) kind, .launch = ZS_LAUNCH_NO_GRAD,
                     .element_bytes = (uint8_t) units->compute_bytes, .phase_class = 2,
                     .n = elements, .bytes = bytes, .name = name };

  return zs_plan_kernel (units->plan, &value);
}

uint32_t
fsdp_copy_kernel (FsdpUnits *units, ZsKernelKind kind, int64_t elements, int64_t each, const char *name)
{
  return kernel (units, kind, elements, elements * each, name);
}

/* Version 2 shards each parameter by rows. */
static void
add_sizes (FsdpUnits *units, FsdpUnit *unit)
{
  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    unit->shard_elements += units->parameters[i].shard_elements;
    if (units->parameters[i].trainable)
      unit->trainable_shard_elements += units->parameters[i].shard_elements;
  }
}

/* Version 1 lays all into one flat parameter (_flat_param.py), with use_orig_params each at a multiple
 * of 16 bytes and the whole padded to a multiple of the ranks; without, the shards alone are padded.
 * A rank holds what of each parameter falls into its part. */
static void
flatten (FsdpUnits *units, FsdpUnit *unit)
{
  int64_t total = 0, align = units->config.flat_optimizer ? 1 : 16 / units->parameter_bytes;

  for (int32_t i = unit->first; i < unit->first + unit->n; i++)
    total = fsdp_divide_up (total, align) * align + units->parameters[i].elements;
  unit->shard_elements = unit->trainable_shard_elements = fsdp_divide_up (total, units->ranks);
  unit->flat_elements = units->config.flat_optimizer ? total : unit->shard_elements * units->ranks;
  int64_t start = units->rank * unit->shard_elements, at = 0;

  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    FsdpParameter *parameter = &units->parameters[i];
    int64_t from = MAX (at = fsdp_divide_up (at, align) * align, start);
    int64_t to = MIN (at + parameter->elements, start + unit->shard_elements);

    parameter->shard_elements = parameter->local_elements = MAX (to - from, 0);
    at += parameter->elements;
  }
}

static void
finish_unit (FsdpUnits *units, FsdpUnit *unit)
{
  int64_t c = units->compute_bytes, r = units->reduce_bytes, p = units->parameter_bytes;

  if (units->config.version == 1)
    flatten (units, unit);
  else
    add_sizes (units, unit);
  int64_t shard = unit->shard_elements, trained = unit->trainable_shard_elements;

  unit->label_gather = zs_plan_label (units->plan, unit->layer, "all-gather");
  unit->label_reduce = zs_plan_label (units->plan, unit->layer, "reduce-scatter");
  unit->cast = kernel (units, ZS_KERNEL_CAST, shard, shard * (p + c), "fsdp.cast");
  unit->copy_in = kernel (units, ZS_KERNEL_COPY, shard, shard * 2 * c, "fsdp.copy_in");
  unit->copy_out = kernel (units, ZS_KERNEL_COPY, shard * units->ranks,
                           shard * units->ranks * 2 * c, "fsdp.copy_out");
  /* chunk_cat: from 16 bit to fp32 one element at a time (2.84 ps each on an H200), else a copy */
  unit->reduce_copy = kernel (units, c < r ? ZS_KERNEL_CAST : ZS_KERNEL_COPY, trained * units->ranks,
                              trained * units->ranks * (c + r), "fsdp.chunk_cat");
  unit->reduce_cast = kernel (units, ZS_KERNEL_CAST, trained, trained * (r + p), "fsdp.reduce_cast");
  unit->accumulate_full = kernel (units, ZS_KERNEL_ELEMENTWISE, trained * units->ranks,
                                  trained * units->ranks * (2 * r + c), "fsdp.accumulate whole");
  unit->accumulate = kernel (units, ZS_KERNEL_ELEMENTWISE, trained, trained * 3 * p,
                             "fsdp.accumulate");
}

/* Is the embedding a unit, and which? */
static int32_t
embedding_unit (const FsdpUnits *units)
{
  return units->n_units > units->model->shape.n_layers + 1 ? units->n_units - 2 : -1;
}

bool
fsdp_is_adapter (const FsdpUnits *units, int32_t module)
{
  ZsModuleKind kind = units->model->modules[module].kind;

  return kind == ZS_MODULE_LORA_A || kind == ZS_MODULE_LORA_B;
}

bool
fsdp_wraps_adapters (const FsdpUnits *units)
{
  return units->config.version == 1 && units->config.wrap_adapters && units->shape.lora.rank > 0;
}

/* The unit of the decoder layers, the embedding or the root that MODULE is below; -1: one of its own. */
static int32_t
unit_below (const FsdpUnits *units, int32_t module)
{
  const ZsModule *modules = units->model->modules;

  if (fsdp_wraps_adapters (units) && fsdp_is_adapter (units, module))
    return -1;
  if (modules[module].layer >= 0)
    return modules[module].layer;
  for (int32_t m = module; m >= 0 && embedding_unit (units) >= 0; m = modules[m].parent)
    if (modules[m].kind == ZS_MODULE_EMBEDDING)
      return embedding_unit (units);
  return units->n_units - 1;
}

/* Parameters of UNIT: those below its module that no other unit has, in the order of modules (). */
static void
fill_unit (FsdpUnits *units, FsdpUnit *unit, int32_t *next)
{
  const ZsModel *model = units->model;

  unit->first = *next;
  for (int32_t i = 0; i < model->n_parameters; i++) {
    const ZsParameter *parameter = &model->parameters[i];

    if (unit_below (units, parameter->module) != unit - units->units)
      continue;
    /* rows are dealt out: ceil (rows / ranks) to each, the last ones may get fewer or none */
    int64_t rows = fsdp_divide_up (parameter->rows, units->ranks);
    int64_t left = CLAMP (parameter->rows - units->rank * rows, 0, rows);

    units->slot_of_parameter[i] = *next;
    units->parameters[(*next)++] = (FsdpParameter) {
      .index = i, .trainable = parameter->trainable, .elements = parameter->elements,
      .shard_elements = rows * parameter->columns, .local_elements = left * parameter->columns,
      .original = ZS_NO_TENSOR, .shard = ZS_NO_TENSOR, .full = ZS_NO_TENSOR,
      .gradient = ZS_NO_TENSOR, .accumulated = ZS_NO_TENSOR, .shard_gradient = ZS_NO_TENSOR,
    };
  }
  unit->n = *next - unit->first;
  finish_unit (units, unit);
}

/* Parameters that no unit has: each is flat by itself. */
static void
add_adapters (FsdpUnits *units, int32_t *next)
{
  for (int32_t i = 0; i < units->model->n_parameters; i++) {
    const ZsParameter *parameter = &units->model->parameters[i];
    int64_t shard = fsdp_divide_up (parameter->elements, units->ranks);

    if (unit_below (units, parameter->module) >= 0)
      continue;
    units->slot_of_parameter[i] = *next;
    units->parameters[(*next)++] = (FsdpParameter) {
      .index = i, .trainable = parameter->trainable, .elements = parameter->elements,
      .shard_elements = shard,
      .local_elements = CLAMP (parameter->elements - units->rank * shard, 0, shard),
      .original = ZS_NO_TENSOR, .shard = ZS_NO_TENSOR, .full = ZS_NO_TENSOR,
      .gradient = ZS_NO_TENSOR, .accumulated = ZS_NO_TENSOR, .shard_gradient = ZS_NO_TENSOR,
    };
  }
}

static void
make_optimizer (FsdpUnits *units)
{
  gsize n = (gsize) units->model->n_parameters;
  g_autofree ZsOptimizerTensor *tensors = g_new0 (ZsOptimizerTensor, MAX (n, (gsize) units->n_units));
  bool flat = units->config.version == 1 && units->config.flat_optimizer && !fsdp_wraps_adapters (units);
  int trained = 0;

  for (int32_t i = 0; flat && i < units->n_units; i++)   /* the root's comes first in parameters () */
    tensors[trained++] = (ZsOptimizerTensor) {
      .elements = units->units[i == 0 ? units->n_units - 1 : i - 1].shard_elements,
      .dtype = units->config.parameter_dtype,
    };
  for (gsize i = 0; !flat && i < n; i++) {
    const FsdpParameter *parameter = &units->parameters[units->slot_of_parameter[i]];

    /* version 1: a parameter of which this rank has nothing has no gradient and no state */
    if (!parameter->trainable || (units->config.version == 1 && parameter->local_elements == 0))
      continue;
    tensors[trained++] = (ZsOptimizerTensor) {
      .elements = parameter->local_elements, .dtype = units->config.parameter_dtype,
      .columns = units->config.version == 2 ? units->model->parameters[i].columns : 0,
      .embedding = zs_parameter_is_embedding (units->model, (int32_t) i),
      .idle = zs_idle_elements (units->model, &units->shape, (int32_t) i, parameter->local_elements),
    };
  }
  units->optimizer = zs_torch_optimizer_new (units->plan, units->config.optimizer, units->shape.sm_count,
                                             trained, tensors);
}

void
fsdp_units_init (FsdpUnits *units, const ZsModel *model, const ZsFsdpConfig *config,
                 const ZsStepShape *shape, int64_t rank, ZsPlan *plan)
{
  int64_t n_layers = model->shape.n_layers;
  int32_t next = 0;

  *units = (FsdpUnits) {
    .model = model, .plan = plan, .config = *config, .shape = *shape,
    .ranks = config->hybrid ? config->node_ranks : config->world,
    .parameter_bytes = zs_dtype_bytes (config->parameter_dtype),
    .compute_bytes = zs_dtype_bytes (config->compute_dtype),
    .reduce_bytes = zs_dtype_bytes (config->reduce_dtype),
    .casts = config->parameter_dtype != config->compute_dtype,
    .parameters = g_new (FsdpParameter, (gsize) model->n_parameters),
    .units = g_new0 (FsdpUnit, (gsize) n_layers + 2), .n_units = (int32_t) n_layers + 1,
    .unit_of_module = g_new (int32_t, (gsize) model->n_modules),
    .slot_of_parameter = g_new (int32_t, (gsize) model->n_parameters),
  };
  units->rank = rank % units->ranks;
  units->replicas = config->world / units->ranks;
  if (config->version == 2 && config->wrap_embedding && !model->shape.tied_embeddings)
    units->n_units++;
  for (int32_t i = 0; i < model->n_modules; i++) {
    const ZsModule *module = &model->modules[i];

    units->unit_of_module[i] = module->kind == ZS_MODULE_LAYER       ? module->layer
                               : module->kind == ZS_MODULE_TOP       ? units->n_units - 1
                               : module->kind == ZS_MODULE_EMBEDDING ? embedding_unit (units) : -1;
    if (units->unit_of_module[i] >= 0)
      units->units[units->unit_of_module[i]].module = i;
  }
  for (int32_t i = 0; i < units->n_units; i++) {
    units->units[i].layer = i < n_layers ? i : -1;
    units->units[i].root = i == units->n_units - 1;
    fill_unit (units, &units->units[i], &next);
  }
  if (fsdp_wraps_adapters (units))
    add_adapters (units, &next);
  if (config->cpu_offload)
    units->host_states = g_new0 (ZsTensor, 2 * (gsize) model->n_parameters);
  else
    make_optimizer (units);
  units->label_load = zs_plan_label (plan, -1, "model");
  units->label_shard = zs_plan_label (plan, -1, "fully_shard");
  units->label_step = zs_plan_label (plan, -1, "AdamW on the CPU");
}

void
fsdp_before_forward_pass (void *self, ZsPlan *plan, int step, int micro_step, bool boundary)
{
  (void) plan;
  (void) step;
  (void) micro_step;
  ((FsdpUnits *) self)->boundary = boundary;
}

uint64_t
fsdp_units_digest (const FsdpUnits *units)
{
  int32_t n = units->model->n_parameters;
  uint64_t digest = zs_digest_items (units->optimizer != NULL ? zs_torch_optimizer_digest (units->optimizer) : 1,
                                     units, 1);

  digest = zs_digest_items (digest, units->parameters, n);
  return units->host_states == NULL ? digest
                                    : zs_digest_items (digest, units->host_states, 2 * n);
}

void
fsdp_units_clear (FsdpUnits *units)
{
  g_free (units->parameters);
  g_free (units->units);
  g_free (units->unit_of_module);
  g_free (units->slot_of_parameter);
  g_free (units->host_states);
  zs_torch_optimizer_free (units->optimizer);
}

ZsCategory
fsdp_shard_category (const FsdpUnits *units)
{
  return units->casts && units->config.parameter_dtype == ZS_DTYPE_FP32 ? ZS_CATEGORY_MASTER
                                                                        : ZS_CATEGORY_PARAMETERS;
}

void
fsdp_collective (FsdpUnits *units, ZsCollectiveKind kind, unsigned int group, int64_t bytes,
                 uint8_t stream)
{
  ZsPlan *plan = units->plan;
  ZsEvent done = zs_plan_event_new (plan);
  uint8_t before = zs_plan_set_stream (plan, stream);

  zs_plan_collective (plan, kind, group, bytes, done);
  zs_plan_stream_wait_event (plan, stream, done);
  zs_plan_set_stream (plan, before);
  zs_plan_event_free (plan, done);
}

/* ---- loading ---- */

/* inv_freq of the rotary embedding and the temporaries of its construction in fp32
 * (transformers/models/llama/modeling_llama.py); inv_freq and its copy stay. */
static void
load_rotary (ZsPlan *plan, int64_t head_dim, ZsTensor *ret_buffers)
{
  int64_t bytes = head_dim / 2 * 4;
  ZsTensor range = zs_plan_alloc (plan, bytes, ZS_CATEGORY_TEMPORARY);
  ZsTensor wide = zs_plan_alloc (plan, bytes, ZS_CATEGORY_TEMPORARY);

  zs_plan_unref (plan, range);
  ZsTensor exponent = zs_plan_alloc (plan, bytes, ZS_CATEGORY_TEMPORARY);
  ZsTensor base = zs_plan_alloc (plan, 8, ZS_CATEGORY_TEMPORARY);
  zs_plan_unref (plan, base);
  zs_plan_unref (plan, wide);
  ZsTensor power = zs_plan_alloc (plan, bytes, ZS_CATEGORY_TEMPORARY);
  ret_buffers[0] = zs_plan_alloc (plan, bytes, ZS_CATEGORY_INPUT);
  zs_plan_unref (plan, power);
  zs_plan_unref (plan, exponent);
  ret_buffers[1] = zs_plan_alloc (plan, bytes, ZS_CATEGORY_INPUT);
}

void
fsdp_load (FsdpUnits *units)
{
  const ZsModel *model = units->model;
  ZsPlan *plan = units->plan;

  zs_plan_set_label (plan, units->label_load);
  for (int32_t i = 0; i < model->n_parameters; i++) {
    FsdpParameter *parameter = &units->parameters[units->slot_of_parameter[i]];

    if (!units->config.load_on_host)
      parameter->original = zs_plan_alloc (plan, parameter->elements * units->parameter_bytes,
                                           fsdp_shard_category (units));
    if (model->modules[model->parameters[i].module].kind == ZS_MODULE_FINAL_NORM)
      load_rotary (plan, model->shape.head_dim, units->rotary);
  }
  zs_load_quantized_states (plan, model);
  /* A tied head is built and then given up for the embedding. */
  if (model->shape.tied_embeddings && !units->config.load_on_host)
    zs_plan_unref (plan, zs_plan_alloc (plan, model->shape.vocabulary * model->shape.hidden
                                                * units->parameter_bytes,
                                        ZS_CATEGORY_PARAMETERS));
}

/* _move_states_to_device () of both versions */
void
fsdp_bring (FsdpUnits *units, const FsdpUnit *unit)
{
  for (int32_t i = unit->first; units->config.load_on_host && i < unit->first + unit->n; i++) {
    FsdpParameter *parameter = &units->parameters[i];
    int64_t bytes = parameter->elements * units->parameter_bytes;

    parameter->original = zs_plan_alloc (units->plan, bytes, fsdp_shard_category (units));
    zs_plan_copy (units->plan, ZS_COPY_HOST_TO_GPU, bytes, ZS_FLAG_BLOCKING);
  }
}
