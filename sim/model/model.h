/* model.h: the modules and parameters of a LLaMA-like model, in the order PyTorch registers them.
 * SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>

#include "sim/model/shape.h"

typedef enum {
  ZS_MODULE_TOP,            /* LlamaForCausalLM (or the PeftModel around it) */
  ZS_MODULE_INNER,          /* LlamaModel */
  ZS_MODULE_EMBEDDING,
  ZS_MODULE_LAYER,
  ZS_MODULE_ATTENTION,
  ZS_MODULE_Q, ZS_MODULE_K, ZS_MODULE_V, ZS_MODULE_O,
  ZS_MODULE_Q_NORM, ZS_MODULE_K_NORM,
  ZS_MODULE_MLP,
  ZS_MODULE_GATE, ZS_MODULE_UP, ZS_MODULE_DOWN, ZS_MODULE_ACTIVATION,
  ZS_MODULE_INPUT_NORM, ZS_MODULE_POST_NORM,
  ZS_MODULE_FINAL_NORM,
  ZS_MODULE_ROTARY,
  ZS_MODULE_HEAD,
  ZS_MODULE_LORA_A, ZS_MODULE_LORA_B, ZS_MODULE_LORA_DROPOUT,
  ZS_MODULE_SAVED_COPY,     /* of the parent, an embedding or head, that trains in its place */
  ZS_N_MODULES
} ZsModuleKind;

typedef struct {
  ZsModuleKind kind;
  int32_t layer;            /* -1 outside the layers */
  int32_t parent;           /* module index; -1 for the top */
  int32_t first_parameter;  /* its direct parameters are consecutive */
  int32_t n_parameters;
} ZsModule;

typedef struct {
  int32_t module;
  int64_t rows, columns;    /* columns 1 for vectors */
  int64_t elements;
  ZsDtype dtype;
  bool    trainable;
  bool    is_bias;
  bool    quantized;        /* nf4: elements of `dtype` that hold the packed weight (quantize.h) */
  const char *name;         /* static: "q_proj.weight" */
} ZsParameter;

typedef struct {
  ZsModelShape shape;
  ZsModule    *modules;     /* in the order of model.modules (): parents before children */
  int32_t      n_modules;
  ZsParameter *parameters;  /* in the order of model.parameters (); tied weights once */
  int32_t      n_parameters;
  int64_t      n_elements, n_trainable;   /* sums over parameters */
  bool         double_quantized;          /* ZsLora */
} ZsModel;

/* Modules and parameters of SHAPE with the adapters of LORA (may be NULL); DTYPE of base weights. */
ZsModel *zs_model_new  (const ZsModelShape *shape, const ZsLora *lora, ZsDtype dtype,
                        const ZsVersions *versions) G_GNUC_WARN_UNUSED_RESULT;
void     zs_model_free (ZsModel *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsModel, zs_model_free)

/* Is it an adapter's; or, with the copies of modules_to_save, something that peft adds to a model? */
bool zs_parameter_is_adapter (const ZsModel *model, int32_t parameter);
bool zs_parameter_is_added   (const ZsModel *model, int32_t parameter);
/* Is it the embedding's weight? */
bool zs_parameter_is_embedding (const ZsModel *model, int32_t parameter);
/* Index of the module of KIND in LAYER (-1 outside), or -1. */
int32_t zs_model_find (const ZsModel *model, ZsModuleKind kind, int32_t layer);
