/* model.c: modules and parameters in PyTorch's order.  SPDX-License-Identifier: MIT
 *
 * The order is that of the constructors in transformers 5.17 (models/llama/modeling_llama.py; the
 * same in qwen2 and qwen3) and, for adapters, of peft's lora.Linear: the base weight, then lora_A,
 * then lora_B.  An adapter's base layer and its containers are folded into the linear's own module.
 */
#include "config.h"

#include "sim/model/model.h"
#include "sim/model/quantize.h"

typedef struct {
  ZsModel *model;
  const ZsLora *lora;
  ZsDtype dtype;
  GArray *modules, *parameters;
} Build;

static int32_t
add_module (Build *build, ZsModuleKind kind, int32_t layer, int32_t parent)
{
  ZsModule module = { .kind = kind, .layer = layer, .parent = parent,
                      .first_parameter = (int32_t) build->parameters->len };

  g_array_append_val (build->modules, module);
  return (int32_t) build->modules->len - 1;
}

static void
add_parameter (Build *build, int32_t module, int64_t rows, int64_t columns, ZsDtype dtype,
               bool trainable, bool is_bias, const char *name)
{
  ZsParameter parameter = { .module = module, .rows = rows, .columns = columns,
                            .elements = rows * columns, .dtype = dtype, .trainable = trainable,
                            .is_bias = is_bias, .name = name };

  g_array_append_val (build->parameters, parameter);
  g_array_index (build->modules, ZsModule, module).n_parameters++;
  build->model->n_elements += parameter.elements;
  if (trainable)
    build->model->n_trainable += parameter.elements;
}

static bool
base_trains (const Build *build)
{
  return build->lora == NULL || build->lora->rank == 0;
}

static void
add_norm (Build *build, ZsModuleKind kind, int32_t layer, int32_t parent, int64_t size,
          const char *name)
{
  int32_t module = add_module (build, kind, layer, parent);

  add_parameter (build, module, size, 1, build->dtype, base_trains (build), false, name);
}

static void
add_linear (Build *build, ZsModuleKind kind, int32_t layer, int32_t parent, int64_t rows,
            int64_t columns, bool bias, unsigned target, const char *name, const char *bias_name)
{
  int32_t module = add_module (build, kind, layer, parent);
  const ZsLora *lora = build->lora;
  int64_t out = rows, in = columns;
  bool quantized = lora != NULL && lora->rank > 0 && lora->base_4bit;

  if (quantized) {
    rows = zs_packed_bytes (rows * columns) / zs_dtype_bytes (build->dtype);
    columns = 1;
  }
  add_parameter (build, module, rows, columns, build->dtype, base_trains (build), false, name);
  if (quantized) {
    GArray *all = build->parameters;

    g_array_index (all, ZsParameter, all->len - 1).quantized = true;
    rows = out;
    columns = in;
  }
  if (bias)
    add_parameter (build, module, rows, 1, build->dtype, base_trains (build), true, bias_name);
  if (base_trains (build) || (lora->targets & target) == 0)
    return;
  add_module (build, ZS_MODULE_LORA_DROPOUT, layer, module);
  int32_t a = add_module (build, ZS_MODULE_LORA_A, layer, module);
  add_parameter (build, a, lora->rank, columns, lora->dtype, true, false, "lora_A.weight");
  int32_t b = add_module (build, ZS_MODULE_LORA_B, layer, module);
  add_parameter (build, b, rows, lora->rank, lora->dtype, true, false, "lora_B.weight");
}

static void
add_layer (Build *build, int32_t layer, int32_t inner)
{
  const ZsModelShape *shape = &build->model->shape;
  int64_t h = shape->hidden, q = shape->n_heads * shape->head_dim;
  int64_t kv = shape->n_kv_heads * shape->head_dim, ffn = shape->intermediate;
  bool qkv = shape->qkv_bias || shape->attention_bias_all;
  int32_t top = add_module (build, ZS_MODULE_LAYER, layer, inner);
  int32_t attention = add_module (build, ZS_MODULE_ATTENTION, layer, top);

  add_linear (build, ZS_MODULE_Q, layer, attention, q, h, qkv, ZS_LINEAR_Q, "q_proj.weight",
              "q_proj.bias");
  add_linear (build, ZS_MODULE_K, layer, attention, kv, h, qkv, ZS_LINEAR_K, "k_proj.weight",
              "k_proj.bias");
  add_linear (build, ZS_MODULE_V, layer, attention, kv, h, qkv, ZS_LINEAR_V, "v_proj.weight",
              "v_proj.bias");
  add_linear (build, ZS_MODULE_O, layer, attention, h, q, shape->attention_bias_all, ZS_LINEAR_O,
              "o_proj.weight", "o_proj.bias");
  if (shape->qk_norm) {
    add_norm (build, ZS_MODULE_Q_NORM, layer, attention, shape->head_dim, "q_norm.weight");
    add_norm (build, ZS_MODULE_K_NORM, layer, attention, shape->head_dim, "k_norm.weight");
  }
  int32_t mlp = add_module (build, ZS_MODULE_MLP, layer, top);
  add_linear (build, ZS_MODULE_GATE, layer, mlp, ffn, h, shape->mlp_bias, ZS_LINEAR_GATE,
              "gate_proj.weight", "gate_proj.bias");
  add_linear (build, ZS_MODULE_UP, layer, mlp, ffn, h, shape->mlp_bias, ZS_LINEAR_UP,
              "up_proj.weight", "up_proj.bias");
  add_linear (build, ZS_MODULE_DOWN, layer, mlp, h, ffn, shape->mlp_bias, ZS_LINEAR_DOWN,
              "down_proj.weight", "down_proj.bias");
  add_module (build, ZS_MODULE_ACTIVATION, layer, mlp);
  add_norm (build, ZS_MODULE_INPUT_NORM, layer, top, h, "input_layernorm.weight");
  add_norm (build, ZS_MODULE_POST_NORM, layer, top, h, "post_attention_layernorm.weight");
}

/* peft's ModulesToSaveWrapper: a copy that trains, in the dtype of the original. */
static void
add_copy (Build *build, int32_t of)
{
  const ZsModelShape *shape = &build->model->shape;
  int32_t module = add_module (build, ZS_MODULE_SAVED_COPY, -1, of);

  add_parameter (build, module, shape->vocabulary, shape->hidden, build->dtype, true, false,
                 "modules_to_save.weight");
}

ZsModel *
zs_model_new (const ZsModelShape *shape, const ZsLora *lora, ZsDtype dtype,
              const ZsVersions *versions)
{
  ZsModel *model = g_new0 (ZsModel, 1);
  Build build = { .model = model, .lora = lora, .dtype = dtype,
                  .modules = g_array_new (FALSE, TRUE, sizeof (ZsModule)),
                  .parameters = g_array_new (FALSE, TRUE, sizeof (ZsParameter)) };

  (void) versions;   /* the order has not changed between the releases in behaviours.def */
  model->shape = *shape;
  model->double_quantized = lora != NULL && lora->double_quantized;
  int32_t top = add_module (&build, ZS_MODULE_TOP, -1, -1);
  int32_t inner = add_module (&build, ZS_MODULE_INNER, -1, top);
  int32_t embedding = add_module (&build, ZS_MODULE_EMBEDDING, -1, inner);

  add_parameter (&build, embedding, shape->vocabulary, shape->hidden, dtype, base_trains (&build),
                 false, "embed_tokens.weight");
  if (!base_trains (&build) && lora->saves_embedding)
    add_copy (&build, embedding);
  for (int32_t layer = 0; layer < shape->n_layers; layer++)
    add_layer (&build, layer, inner);
  add_norm (&build, ZS_MODULE_FINAL_NORM, -1, inner, shape->hidden, "norm.weight");
  add_module (&build, ZS_MODULE_ROTARY, -1, inner);
  int32_t head = add_module (&build, ZS_MODULE_HEAD, -1, top);
  if (!shape->tied_embeddings)
    add_parameter (&build, head, shape->vocabulary, shape->hidden, dtype, base_trains (&build),
                   false, "lm_head.weight");
  if (!base_trains (&build) && lora->saves_head)
    add_copy (&build, head);

  model->n_modules = (int32_t) build.modules->len;
  model->modules = (ZsModule *) (void *) g_array_free (build.modules, FALSE);
  model->n_parameters = (int32_t) build.parameters->len;
  model->parameters = (ZsParameter *) (void *) g_array_free (build.parameters, FALSE);
  return model;
}

void
zs_model_free (ZsModel *model)
{
  if (model == NULL)
    return;
  g_free (model->modules);
  g_free (model->parameters);
  g_free (model);
}

bool
zs_parameter_is_adapter (const ZsModel *model, int32_t parameter)
{
  ZsModuleKind kind = model->modules[model->parameters[parameter].module].kind;

  return kind == ZS_MODULE_LORA_A || kind == ZS_MODULE_LORA_B;
}

bool
zs_parameter_is_added (const ZsModel *model, int32_t parameter)
{
  return zs_parameter_is_adapter (model, parameter)
         || model->modules[model->parameters[parameter].module].kind == ZS_MODULE_SAVED_COPY;
}

bool
zs_parameter_is_embedding (const ZsModel *model, int32_t parameter)
{
  const ZsModule *module = &model->modules[model->parameters[parameter].module];

  return module->kind == ZS_MODULE_EMBEDDING
         || (module->kind == ZS_MODULE_SAVED_COPY
             && model->modules[module->parent].kind == ZS_MODULE_EMBEDDING);
}

int32_t
zs_model_find (const ZsModel *model, ZsModuleKind kind, int32_t layer)
{
  for (int32_t i = 0; i < model->n_modules; i++)
    if (model->modules[i].kind == kind && model->modules[i].layer == layer)
      return i;
  return -1;
}
