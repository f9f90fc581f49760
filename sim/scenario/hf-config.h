/* hf-config.h: the dimensions of a model from a Hugging Face config.json.
 * SPDX-License-Identifier: MIT
 *
 * Architectures that are simulated: LLaMA (1, 2, 3.x and its relatives under the same class), Mistral,
 * Qwen2, Qwen2.5 and Qwen3, all dense.  Defaults are those of transformers' configuration classes
 * (configuration_llama.py, configuration_mistral.py, configuration_qwen2.py, configuration_qwen3.py, 5.17).
 */
#pragma once

#include "sim/model/shape.h"
#include "sim/scenario/notes.h"

typedef struct {
  ZsModelShape shape;
  ZsDtype      dtype;         /* dtype or torch_dtype of the file; fp32 if it says none */
  bool         has_dtype;
  int64_t      sliding_window;   /* 0: none */
  int64_t      n_parameters;  /* from the dimensions */
} ZsHfConfig;

/* ROOT: of a config.json, or a mapping of the same keys.  NAME: the model's, if the file has none.  What
 * the file asks for and is not simulated is noted.  False if an error was added. */
bool zs_hf_config_read (const ZsNode *root, const char *name, ZsHfConfig *ret_config, ZsNotes *notes,
                        ZsErrors *errors);

/* Elements of all parameters of SHAPE, tied weights once. */
int64_t zs_shape_parameters (const ZsModelShape *shape);
