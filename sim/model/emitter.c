/* emitter.c: an emitter's sizes and tables.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/model/emit-internal.h"

#include <string.h>

static const char *const WHATS[ZS_N_WHATS] = {
  [ZS_WHAT_LAYER] = "layer", [ZS_WHAT_INPUT_NORM] = "input_layernorm", [ZS_WHAT_Q] = "q_proj",
  [ZS_WHAT_K] = "k_proj", [ZS_WHAT_V] = "v_proj", [ZS_WHAT_Q_NORM] = "q_norm",
  [ZS_WHAT_K_NORM] = "k_norm", [ZS_WHAT_ROTARY] = "rotary", [ZS_WHAT_ATTENTION] = "attention",
  [ZS_WHAT_O] = "o_proj", [ZS_WHAT_POST_NORM] = "post_attention_layernorm",
  [ZS_WHAT_GATE] = "gate_proj", [ZS_WHAT_ACTIVATION] = "act_fn", [ZS_WHAT_UP] = "up_proj",
  [ZS_WHAT_DOWN] = "down_proj", [ZS_WHAT_RESIDUAL] = "residual",
  [ZS_WHAT_CHECKPOINT] = "recomputation",
};

static int64_t
power_of_two_below (int64_t n)
{
  int64_t power = 1;

  while (power * 2 <= n)
    power *= 2;
  return power;
}

static int64_t
divide_up (int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

/* setReduceConfig () for a sum over the slow dimension: outputs are vectorised by up to 4, a block has
 * 512 / vector threads; from 256 values per thread on, several blocks share an output through global
 * memory, which holds a whole block's width and vector for each of them. */
int64_t
zs_column_sum_buffer (int64_t rows, int64_t columns, int element_bytes, int sm_count,
                      int64_t *ret_semaphore_bytes)
{
  enum { MAX_THREADS = 512, WARP = 32, MIN_VALUES = 16, MAX_VALUES = 256, ACCUMULATOR = 4 };
  int64_t vector = 4, threads_per_sm = 2048;

  (void) element_bytes;
  *ret_semaphore_bytes = 0;
  while (columns % vector != 0)
    vector /= 2;
  int64_t max_threads = MAX_THREADS / vector, outputs = columns / vector;
  int64_t outputs2 = outputs < max_threads ? power_of_two_below (outputs) : max_threads;
  int64_t rows2 = rows < max_threads ? power_of_two_below (rows) : max_threads;
  int64_t width = MIN (outputs2, WARP);
  int64_t height = MIN (rows2, max_threads / width);

  width = MIN (outputs2, max_threads / height);
  int64_t values = rows;
  if (values < MIN (height * 16, MAX_VALUES))
    return 0;
  values = divide_up (rows, height);
  int64_t grid = divide_up (outputs, width);
  int64_t target = (int64_t) sm_count * (threads_per_sm / (width * height));
  if (values < MAX_VALUES || grid > target)
    return 0;
  int64_t blocks = MAX (MIN (divide_up (target, grid), divide_up (values, MIN_VALUES)),
                        divide_up (values, MAX_VALUES));
  if (blocks <= 1)
    return 0;
  *ret_semaphore_bytes = grid * 4;
  return ACCUMULATOR * columns * blocks * width * vector;
}

int64_t
zs_cublas_workspace_bytes (int compute_capability)
{
  return compute_capability >= 90 && compute_capability < 110 ? INT64_C (4096) * 8 * 1024
                                                              : INT64_C (4096) * 1024 * 2 + 16 * 1024 * 8;
}

static void
add_sizes (ZsEmitter *e)
{
  const ZsModelShape *s = &e->model->shape;

  e->batch = e->shape.micro_batch;
  e->sequence = e->shape.sequence;
  e->tokens = e->batch * e->sequence;
  e->stream = zs_dtype_bytes (e->shape.dtype);
  e->element = e->shape.autocast ? 2 : e->stream;
  e->upcast = e->stream == 2;
  e->wide_loss = e->element == 2;
  e->weight_cast = e->stream != e->element;
  e->adapter_cast = e->shape.autocast && e->shape.lora.dtype == ZS_DTYPE_FP32;
  e->hidden = e->tokens * s->hidden * e->stream;
  e->narrow_hidden = e->tokens * s->hidden * e->element;
  e->q_bytes = e->tokens * s->n_heads * s->head_dim * e->element;
  e->kv_bytes = e->tokens * s->n_kv_heads * s->head_dim * e->element;
  bool in_place = zs_liger (e, ZS_LIGER_ROPE);
  e->q_turned = in_place ? e->q_bytes : e->tokens * s->n_heads * s->head_dim * e->stream;
  e->kv_turned = in_place ? e->kv_bytes : e->tokens * s->n_kv_heads * s->head_dim * e->stream;
  e->ffn_bytes = e->tokens * s->intermediate * e->element;
  e->logits = e->tokens * s->vocabulary * e->element;
  e->logits32 = e->tokens * s->vocabulary * 4;
  e->lse_bytes = e->tokens * s->n_heads * 4;
  e->table_bytes = e->sequence * s->head_dim * e->stream;
}

static void
set_module (ZsEmitter *e, ZsLayer *layer, int32_t index)
{
  static const int LINEARS[ZS_N_MODULES] = {
    [ZS_MODULE_Q] = ZS_Q + 1, [ZS_MODULE_K] = ZS_K + 1, [ZS_MODULE_V] = ZS_V + 1,
    [ZS_MODULE_O] = ZS_O + 1, [ZS_MODULE_GATE] = ZS_GATE + 1, [ZS_MODULE_UP] = ZS_UP + 1,
    [ZS_MODULE_DOWN] = ZS_DOWN + 1,
  };
  const ZsModule *module = &e->model->modules[index];
  int linear = LINEARS[module->kind] - 1;

  if (linear >= 0) {
    layer->linears[linear] = (ZsLinearIds) { .module = index, .weight = module->first_parameter,
                                             .bias = module->first_parameter + 1 };
    return;
  }
  switch (module->kind) {
  case ZS_MODULE_LAYER: layer->module = index; break;
  case ZS_MODULE_ATTENTION: layer->attention = index; break;
  case ZS_MODULE_MLP: layer->mlp = index; break;
  case ZS_MODULE_ACTIVATION: layer->activation = index; break;
  case ZS_MODULE_INPUT_NORM: layer->input_norm = index; break;
  case ZS_MODULE_POST_NORM: layer->post_norm = index; break;
  case ZS_MODULE_Q_NORM: layer->q_norm = index; break;
  case ZS_MODULE_K_NORM: layer->k_norm = index; break;
  case ZS_MODULE_LORA_DROPOUT:
  case ZS_MODULE_LORA_A:
  case ZS_MODULE_LORA_B:
    for (int i = 0; i < ZS_N_LAYER_LINEARS; i++) {
      ZsLinearIds *ids = &layer->linears[i];

      if (ids->module != module->parent)
        continue;
      if (module->kind == ZS_MODULE_LORA_DROPOUT)
        ids->dropout = index;
      else if (module->kind == ZS_MODULE_LORA_A)
        ids->a_module = index, ids->a = module->first_parameter;
      else
        ids->b_module = index, ids->b = module->first_parameter;
    }
    break;
  default: break;
  }
}

static void
add_modules (ZsEmitter *e)
{
  const ZsModel *model = e->model;

  for (int32_t i = 0; i < model->n_modules; i++) {
    const ZsModule *module = &model->modules[i];

    if (module->layer >= 0) {
      set_module (e, &e->layers[module->layer], i);
      continue;
    }
    switch (module->kind) {
    case ZS_MODULE_TOP: e->top = i; break;
    case ZS_MODULE_INNER: e->inner = i; break;
    case ZS_MODULE_EMBEDDING: e->embedding = i; break;
    case ZS_MODULE_FINAL_NORM: e->final_norm = i; break;
    case ZS_MODULE_ROTARY: e->rotary = i; break;
    case ZS_MODULE_HEAD: e->head_module = i; break;
    case ZS_MODULE_SAVED_COPY:   /* called instead of the original */
      if (module->parent == e->embedding)
        e->embedding = i;
      else
        e->head_module = i;
      break;
    default: break;
    }
  }
  e->head = (ZsLinearIds) { .module = e->head_module,
                            .weight = model->modules[e->head_module].n_parameters == 0   /* tied */
                                        ? -1 : model->modules[e->head_module].first_parameter };
}

/* Which values of a layer need a gradient, given whether its input does. */
static bool
flow (ZsEmitter *e, ZsLayer *layer, bool x_grad)
{
  bool trains = e->layers_train;
  bool learns[ZS_N_LAYER_LINEARS];

  for (int i = 0; i < ZS_N_LAYER_LINEARS; i++)
    learns[i] = e->linears[i].trainable || e->linears[i].adapted;
  layer->x_grad = x_grad;
  layer->n1_grad = x_grad || trains;
  layer->q_grad = layer->n1_grad || learns[ZS_Q];
  layer->k_grad = layer->n1_grad || learns[ZS_K];
  layer->v_grad = layer->n1_grad || learns[ZS_V];
  layer->attention_grad = layer->q_grad || layer->k_grad || layer->v_grad;
  layer->mid_grad = x_grad || layer->attention_grad || learns[ZS_O];
  layer->n2_grad = layer->mid_grad || trains;
  layer->gate_grad = layer->n2_grad || learns[ZS_GATE];
  layer->up_grad = layer->n2_grad || learns[ZS_UP];
  layer->out_grad = layer->mid_grad || layer->gate_grad || layer->up_grad || learns[ZS_DOWN];
  return layer->out_grad;
}

static void
add_layers (ZsEmitter *e)
{
  int64_t n = e->model->shape.n_layers, every = e->shape.checkpoint_every;
  bool trains = e->shape.lora.rank == 0, grad;

  e->layers = g_new0 (ZsLayer, (gsize) n);
  add_modules (e);
  e->embedding_trains = trains || e->shape.lora.saves_embedding;
  /* gradient_checkpointing_enable () of transformers calls enable_input_require_grads () */
  e->inputs_require_grad = e->embedding_trains || every > 0;
  grad = e->inputs_require_grad;
  for (int64_t i = 0; i < n; i++) {
    ZsLayer *layer = &e->layers[i];

    layer->checkpointed = every > 0 && i % every == 0;
    grad = flow (e, layer, grad);
    for (int what = 0; what < ZS_N_WHATS; what++)
      layer->labels[what] = zs_plan_label (e->plan, (int) i, WHATS[what]);
    ZsTensor *slots[] = { &layer->cached[0], &layer->cached[1], &layer->old_cached[0],
                          &layer->old_cached[1], &layer->gate, &layer->silu, &layer->up, &layer->input, &layer->frame_cos,
                          &layer->frame_sin, &layer->frame_mask, &layer->frame_positions,
                          &layer->weights, &layer->cos[0], &layer->cos[1],
                          &layer->sin[0], &layer->sin[1] };
    for (gsize j = 0; j < G_N_ELEMENTS (slots); j++)
      *slots[j] = ZS_NO_TENSOR;
    memset (&layer->input_saved, 0xff, sizeof layer->input_saved);
    memset (&layer->post_saved, 0xff, sizeof layer->post_saved);
    memset (&layer->q_norm_saved, 0xff, sizeof layer->q_norm_saved);
    memset (&layer->k_norm_saved, 0xff, sizeof layer->k_norm_saved);
    memset (&layer->saved, 0xff, sizeof layer->saved);
    memset (&layer->attention_saved, 0xff, sizeof layer->attention_saved);
  }
  e->final_grad = grad;
}

ZsEmitter *
zs_emitter_new (const ZsModel *model, const ZsStepShape *shape, const ZsHooks *hooks, ZsPlan *plan)
{
  ZsEmitter *e = g_new0 (ZsEmitter, 1);

  g_assert (ZS_NO_TENSOR == UINT32_MAX);   /* memset above */
  e->model = model;
  e->hooks = hooks;
  e->plan = plan;
  e->shape = *shape;
  e->masked_attention = shape->attention;
  e->casts = g_array_new (FALSE, FALSE, sizeof (ZsTensor));
  e->layers_train = shape->lora.rank == 0 || (hooks->layer_trains_as_one && !shape->lora.base_4bit);
  add_sizes (e);
  zs_emitter_add_kernels (e);
  add_layers (e);
  e->label_embedding = zs_plan_label (plan, -1, "embed_tokens");
  e->label_rotary = zs_plan_label (plan, -1, "rotary tables");
  e->label_mask = zs_plan_label (plan, -1, "mask");
  e->label_final_norm = zs_plan_label (plan, -1, "norm");
  e->label_head = zs_plan_label (plan, -1, "lm_head");
  e->label_loss = zs_plan_label (plan, -1, "loss");
  e->label_inputs = zs_plan_label (plan, -1, "token ids");
  e->label_root = zs_plan_label (plan, -1, "backward");
  ZsTensor *slots[] = { &e->ids, &e->workspaces[0], &e->workspaces[1], &e->lt_workspaces[0],
                        &e->lt_workspaces[1], &e->cos, &e->sin, &e->mask,
                        &e->labels, &e->total_weight, &e->log_softmax, &e->loss, &e->scaled_loss,
                        &e->hidden_gradient, &e->head_gradient, &e->outputs, &e->position_ids,
                        &e->tied_gradient, &e->graph_cos, &e->graph_sin,
                        &e->graph_mask, &e->graph_positions, &e->graph_inputs,
                        &e->graph_input_gradient, &e->input_mask };
  for (gsize i = 0; i < G_N_ELEMENTS (slots); i++)
    *slots[i] = ZS_NO_TENSOR;
  memset (&e->final_saved, 0xff, sizeof e->final_saved);
  memset (&e->head_saved, 0xff, sizeof e->head_saved);
  return e;
}

void
zs_emitter_free (ZsEmitter *e)
{
  if (e == NULL)
    return;
  g_array_unref (e->casts);
  g_free (e->layers);
  g_free (e);
}

void
zs_emitter_set_length (ZsEmitter *e, int64_t sequence, bool padded)
{
  bool given = e->shape.attention_mask || e->shape.mask_of_ones;
  bool masks = given && padded;

  if (e->shape.sequence == sequence && e->shape.attention_mask == masks)
    return;
  e->shape.sequence = sequence;
  e->shape.attention_mask = masks;
  e->shape.mask_of_ones = given && !padded;
  add_sizes (e);
  e->shape.attention = masks || e->shape.packed || zs_windowed (e) ? e->masked_attention
                                                                   : e->shape.open_attention;
  zs_emitter_add_kernels (e);
}

static double
layer_flops (const ZsEmitter *e, double tokens)
{
  double flops = 0;

  for (int i = 0; i < ZS_N_LAYER_LINEARS; i++)
    flops += 2.0 * tokens * (double) e->linears[i].in * (double) e->linears[i].out;
  return flops;
}

static double
attention_flops (const ZsEmitter *e, double tokens, int64_t sequence)
{
  const ZsModelShape *s = &e->model->shape;

  return 2.0 * tokens * (double) sequence * (double) (s->n_heads * s->head_dim);
}

double
zs_emitter_model_flops (const ZsEmitter *e, int64_t sequence)
{
  const ZsModelShape *s = &e->model->shape;
  double tokens = (double) (e->batch * sequence);
  double head = 2.0 * tokens * (double) s->hidden * (double) s->vocabulary;
  double weights = layer_flops (e, tokens) * (double) s->n_layers + head;

  /* backward: the gradients of inputs and of weights; frozen weights have none.  The adapters' own are
   * left out: rank / hidden of them, some thousandths. */
  return (e->shape.lora.rank > 0 ? 2.0 : 3.0) * weights
         + 3.0 * attention_flops (e, tokens, sequence) * (double) s->n_layers;
}

double
zs_emitter_hardware_flops (const ZsEmitter *e, int64_t sequence)
{
  double again = 0, tokens = (double) (e->batch * sequence);

  for (int64_t i = 0; i < e->model->shape.n_layers; i++)
    if (e->layers[i].checkpointed)
      again += layer_flops (e, tokens) + attention_flops (e, tokens, sequence);
  return zs_emitter_model_flops (e, sequence) + again;
}
