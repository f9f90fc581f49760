/* scenario-import-recipes.c: `optim`, adapters, and the other keys that LLaMA-Factory, TRL and Axolotl write among
 * TrainingArguments, with the defaults of theirs that decide whether a job fits.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/base/words.h"
#include "sim/scenario/scenario-import.h"

/* ---- optim ---- */

/* transformers' OptimizerNames (training_args.py of 5.17, and the two that 4 has beside them). */
static const struct {
  const char *optim, *key, *value;   /* NULL: simulated as AdamW */
  bool gone;                         /* from transformers 5 on */
} OPTIMS[] = {
  { "adamw_torch", "training.optimizer.implementation", "foreach", false },
  { "adamw_torch_fused", "training.optimizer.implementation", "fused", false },
  { "adafactor", "training.optimizer.name", "adafactor", false },
  { "sgd", "training.optimizer.name", "sgd", false },
  { "adamw_bnb_8bit", "training.optimizer.name", "adamw_8bit", false },
  { "adamw_8bit", "training.optimizer.name", "adamw_8bit", false },
  { "paged_adamw_8bit", "training.optimizer.name", "paged_adamw_8bit", false },
  { "paged_adamw_32bit", "training.optimizer.name", "paged_adamw_32bit", false },
  { "adamw_hf", NULL, NULL, true },
  { "adamw_apex_fused", NULL, NULL, true },
  { "adamw_torch_xla", NULL, NULL, false },
  { "adamw_torch_npu_fused", NULL, NULL, false },
  { "adamw_anyprecision", NULL, NULL, false },
  { "adamw_torch_4bit", NULL, NULL, false },
  { "adamw_torch_8bit", NULL, NULL, false },
  { "ademamix", NULL, NULL, false },
  { "adagrad", NULL, NULL, false },
  { "ademamix_8bit", NULL, NULL, false },
  { "lion_8bit", NULL, NULL, false },
  { "lion_32bit", NULL, NULL, false },
  { "paged_ademamix_32bit", NULL, NULL, false },
  { "paged_ademamix_8bit", NULL, NULL, false },
  { "paged_lion_32bit", NULL, NULL, false },
  { "paged_lion_8bit", NULL, NULL, false },
  { "rmsprop", NULL, NULL, false },
  { "rmsprop_bnb", NULL, NULL, false },
  { "rmsprop_bnb_8bit", NULL, NULL, false },
  { "rmsprop_bnb_32bit", NULL, NULL, false },
  { "galore_adamw", NULL, NULL, false },
  { "galore_adamw_8bit", NULL, NULL, false },
  { "galore_adafactor", NULL, NULL, false },
  { "galore_adamw_layerwise", NULL, NULL, false },
  { "galore_adamw_8bit_layerwise", NULL, NULL, false },
  { "galore_adafactor_layerwise", NULL, NULL, false },
  { "lomo", NULL, NULL, false },
  { "adalomo", NULL, NULL, false },
  { "grokadamw", NULL, NULL, false },
  { "schedule_free_radam", NULL, NULL, false },
  { "schedule_free_adamw", NULL, NULL, false },
  { "schedule_free_sgd", NULL, NULL, false },
  { "apollo_adamw", NULL, NULL, false },
  { "apollo_adamw_layerwise", NULL, NULL, false },
  { "stable_adamw", NULL, NULL, false },
};

bool
zs_import_optim (ZsReader *reader, const ZsNode *root)
{
  const ZsNode *optim = zs_node_get (root, zs_import_is_axolotl (root) ? "optimizer" : "optim");
  ZsVersions versions = zs_reader_asked_versions (reader);
  const char *words[G_N_ELEMENTS (OPTIMS) + 1] = { NULL };
  size_t n = 0;

  if (optim == NULL || zs_node_is_null (optim))
    return true;
  if (optim->kind != ZS_NODE_SCALAR)
    return zs_node_fail (optim, reader->errors, "'optim' must be a word such as adamw_torch, not %s",
                         zs_node_describe (optim));
  for (size_t i = 0; i < G_N_ELEMENTS (OPTIMS); i++) {
    if (OPTIMS[i].gone && zs_behaves (&versions, ZS_BEHAVIOUR_FEWER_OPTIMS))
      continue;
    words[n++] = OPTIMS[i].optim;
    if (strcmp (OPTIMS[i].optim, optim->text) != 0)
      continue;
    if (OPTIMS[i].key != NULL)
      return zs_reader_put_default (reader, OPTIMS[i].key, zs_import_at (reader, optim, OPTIMS[i].value));
    zs_notes_add (reader->notes, ZS_NOTE_RISKY, "optimizer", optim,
                  "optim %s is simulated as adamw_torch, which holds 8 bytes a parameter", optim->text);
    return true;
  }
  g_autofree char *hint = zs_nearest_hint (optim->text, words);

  return zs_node_fail (optim, reader->errors, "transformers: \"'%.60s' is not a valid OptimizerNames\"%s", optim->text,
                       hint);
}

/* ---- what other programs make of the same keys ---- */

/* Any of the keys that only LLaMA-Factory has. */
static const ZsNode *
llama_factory (const ZsNode *root)
{
  static const char *const signs[] = { "finetuning_type", "cutoff_len", "lora_target", "quantization_bit",
                                       "disable_gradient_checkpointing", "pure_bf16" };

  for (size_t i = 0; i < G_N_ELEMENTS (signs); i++)
    if (zs_node_get_key (root, signs[i]) != NULL)
      return zs_node_get_key (root, signs[i]);
  return NULL;
}

/* Its checkpointing is on and reentrant unless it is told otherwise (prepare_model_for_training () in
 * model/model_utils/checkpointing.py; disable_gradient_checkpointing and use_reentrant_gc in
 * hparams/model_args.py), and what it trains in 16 bit becomes fp32 where neither ZeRO-3 nor FSDP shards it
 * (init_adapter () in model/adapter.py). */
static bool
import_llama_factory (ZsReader *reader, const ZsNode *root, const ZsNode *sign)
{
  static const char *const kernels[] = { "auto", "disabled", "sdpa", "fa2", "fa3", NULL };
  static const char *const attentions[] = { NULL, "eager", "sdpa", "flash_attention_2", "flash_attention_2" };
  const ZsNode *attention = zs_node_get (root, "flash_attn");
  bool off = false, reentrant = true, pure = false, ok = true;
  int kernel = 0;

  ok &= zs_import_switch (reader, root, "disable_gradient_checkpointing", &off)
        & zs_import_switch (reader, root, "use_reentrant_gc", &reentrant)
        & zs_import_switch (reader, root, "pure_bf16", &pure);
  reader->upcasts = !pure;
  if (attention != NULL && !zs_node_is_null (attention))
    ok &= zs_import_word (reader, attention, "flash_attn", kernels, &kernel)
          && (attentions[kernel] == NULL
              || zs_reader_put_default (reader, "training.attention",
                                        zs_import_at (reader, attention, attentions[kernel])));
  if (pure)
    ok &= zs_reader_put_default (reader, "training.dtype",
                                 zs_import_at (reader, zs_node_get (root, "pure_bf16"), "bf16"));
  if (!off && ok && zs_reader_find (reader, "training.checkpointing") == NULL)
    zs_notes_add (reader->notes, ZS_NOTE_INFO, "llama-factory-checkpointing", sign,
                  "LLaMA-Factory checkpoints activations unless disable_gradient_checkpointing is true");
  return ok
         && zs_reader_put_default (reader, "training.checkpointing", zs_import_at (reader, sign, off ? "none" : "full"))
         && (off || zs_reader_put_default (reader, "training.reentrant",
                                           zs_import_at (reader, sign, reentrant ? "true" : "false")))
         && zs_reader_put_default (reader, "training.sequence_length", zs_import_at (reader, sign, "2048"));
}

/* A key that only TRL has. */
static const ZsNode *
trl (const ZsNode *root)
{
  static const char *const signs[] = { "use_peft", "lora_r", "lora_target_modules", "dataset_text_field" };

  for (size_t i = 0; i < G_N_ELEMENTS (signs); i++)
    if (zs_node_get_key (root, signs[i]) != NULL)
      return zs_node_get_key (root, signs[i]);
  return NULL;
}

bool
zs_import_is_trl (const ZsNode *root)
{
  return trl (root) != NULL;
}

bool
zs_scenario_checkpoints_unasked (const ZsNode *root)
{
  const ZsNode *off = zs_node_get (root, "disable_gradient_checkpointing");
  bool disabled = false;

  if (zs_import_is_axolotl (root))
    return false;
  if (llama_factory (root) != NULL)
    return off == NULL || !zs_import_truth (off, &disabled) || !disabled;
  return trl (root) != NULL && zs_node_get (root, "gradient_checkpointing") == NULL;
}

/* Axolotl has names of its own (utils/schemas/config.py and model.py). */
bool
zs_import_is_axolotl (const ZsNode *root)
{
  return zs_node_get_key (root, "base_model") != NULL;
}

static bool
import_axolotl (ZsReader *reader, const ZsNode *root)
{
  static const ZsImportKey rows[] = {
    { "base_model", "model" },
    { "micro_batch_size", "training.micro_batch" },
    { "sequence_len", "training.sequence_length" },
    { "lora_r", "training.lora.rank" },
    { "lora_dropout", "training.lora.dropout" },
    { "lora_target_modules", "training.lora.targets" },
  };
  static const struct {
    const char *key, *attention;
  } attentions[] = {
    { "flash_attention", "flash_attention_2" },
    { "sdp_attention", "sdpa" },
    { "eager_attention", "eager" },
  };
  static const char *const adapters[] = { "lora", "qlora", NULL };
  const ZsNode *adapter = zs_node_get (root, "adapter");
  bool adapts = adapter != NULL && !zs_node_is_null (adapter) && *adapter->text != '\0', linear = false, ok = true;
  int word = 0;

  if (adapts && !zs_import_word (reader, adapter, "adapter", adapters, &word))
    return false;
  ok &= zs_import_keys (reader, root, rows, G_N_ELEMENTS (rows) - (adapts ? 0 : 3));
  ok &= zs_import_switch (reader, root, "lora_target_linear", &linear);
  if (adapts && linear)
    ok &= zs_reader_put_default (reader, "training.lora.targets", zs_import_at (reader, adapter, "all-linear"));
  if (adapts && word == 1)
    ok &= zs_reader_put_default (reader, "training.load_in_4bit", zs_import_at (reader, adapter, "true"));
  for (size_t i = 0; i < G_N_ELEMENTS (attentions); i++) {
    bool on = false;

    ok &= zs_import_switch (reader, root, attentions[i].key, &on);
    if (on)
      ok &= zs_reader_put_default (reader, "training.attention",
                                   zs_import_at (reader, zs_node_get (root, attentions[i].key), attentions[i].attention));
  }
  return ok;
}

/* TRL's trainers checkpoint unless they are told otherwise (SFTConfig in trainer/sft_config.py, from 0.20). */
static bool
import_trl (ZsReader *reader, const ZsNode *root)
{
  const ZsNode *sign = trl (root);

  if (sign == NULL || zs_reader_find (reader, "training.checkpointing") != NULL
      || !zs_scenario_checkpoints_unasked (root))
    return true;
  zs_notes_add (reader->notes, ZS_NOTE_INFO, "trl-checkpointing", sign,
                "TRL from 0.20 checkpoints activations unless gradient_checkpointing is false");
  return zs_reader_put (reader, "training.checkpointing", zs_import_at (reader, sign, "full"));
}

/* LLaMA-Factory's finetuning_type, lora_rank (8) and lora_target ("all"; hparams/finetuning_args.py), TRL's
 * use_peft, lora_r (16) and lora_target_modules (trainer/model_config.py). */
static bool
import_adapters (ZsReader *reader, const ZsNode *root, const ZsNode *factory)
{
  static const char *const types[] = { "lora", "full", NULL };
  static const ZsImportKey rows[] = {
    { "lora_rank", "training.lora.rank" },
    { "lora_r", "training.lora.rank" },
    { "lora_dropout", "training.lora.dropout" },
  };
  static const char *const targets[] = { "lora_target", "lora_target_modules" };
  const ZsNode *type = zs_node_get (root, "finetuning_type"), *rank = zs_node_get (root, "lora_rank");
  const ZsNode *place = type != NULL ? type : factory != NULL ? factory : zs_node_get (root, "use_peft");
  bool use = factory != NULL, four = false, ok = true; /* lora is LLaMA-Factory's default */
  int word = 1, bits = 0;

  ok &= zs_import_switch (reader, root, "use_peft", &use);
  if (type != NULL && !zs_node_is_null (type)) {
    if (!zs_import_word (reader, type, "finetuning_type", types, &word))
      return false;
    use = word == 0;
  } else if (rank != NULL) {
    use = true;
    place = place != NULL ? place : rank;
  }
  if (!use || !ok)
    return ok;
  ok &= zs_import_keys (reader, root, rows, G_N_ELEMENTS (rows));
  ok &= zs_reader_put_default (reader, "training.lora.rank",
                               zs_import_at (reader, place, factory != NULL ? "8" : "16"));
  for (size_t i = 0; i < G_N_ELEMENTS (targets); i++) {
    ZsNode *node = zs_node_get (root, targets[i]);

    if (node == NULL || zs_node_is_null (node))
      continue;
    if (node->kind == ZS_NODE_SCALAR && strcmp (node->text, "all") == 0) {
      node = zs_import_at (reader, node, "all-linear");
    } else if (node->kind == ZS_NODE_SCALAR && strchr (node->text, ',') != NULL) {
      g_auto (GStrv) names = g_strsplit (node->text, ",", -1);
      ZsNode *list = zs_document_node (reader->document, ZS_NODE_SEQUENCE, node->line, node->column, NULL);

      if (list == NULL)
        return zs_node_fail (node, reader->errors, "the file is too large");
      list->file = node->file;
      for (char **name = names; *name != NULL; name++)
        zs_node_append (list, zs_import_at (reader, node, g_strstrip (*name)));
      node = list;
    }
    ok &= zs_reader_put_default (reader, "training.lora.targets", node);
  }
  if (factory != NULL)
    ok &= zs_reader_put_default (reader, "training.lora.targets", zs_import_at (reader, place, "all-linear"));

  static const char *const quantized[] = { "4", NULL };
  const ZsNode *quantization = zs_node_get (root, "quantization_bit");

  ok &= zs_import_switch (reader, root, "load_in_4bit", &four);
  if (quantization != NULL && !zs_node_is_null (quantization)) {
    ok &= zs_import_word (reader, quantization, "quantization_bit", quantized, &bits);
    four = true;
  }
  if (four)
    ok &= zs_reader_put_default (reader, "training.load_in_4bit", zs_import_at (reader, place, "true"));
  return ok;
}

/* Keys that change memory or time and are not simulated, where they are on. */
static void
note_unsimulated (ZsReader *reader, const ZsNode *root)
{
  static const char unsloth[] = "Unsloth's kernels are not simulated: the run would hold less and be faster";
  static const char method[] = "this way of training is not simulated";
  static const struct {
    const char *key, *text;
  } rows[] = {
    { "torch_compile", ZS_IMPORT_COMPILE },
    { "use_unsloth", unsloth },
    { "use_unsloth_gc", unsloth },
    { "activation_offloading", "activations in host memory are not simulated: they stay on the GPU" },
    { "auto_find_batch_size", "after an out of memory a smaller batch would be tried; what is given is simulated" },
    { "load_in_8bit", "weights in 8 bit are not simulated: they are in 16 bit" },
    { "use_galore", method },
    { "use_apollo", method },
    { "use_badam", method },
    { "use_dora", method },
  };

  const ZsNode *parallelism = zs_node_get (root, "parallelism_config");

  if (parallelism != NULL && parallelism->n_items > 0)
    zs_notes_add (reader->notes, ZS_NOTE_RISKY, "not-simulated", parallelism,
                  "parallelism_config is not simulated: all GPUs are data-parallel");
  for (size_t i = 0; i < G_N_ELEMENTS (rows); i++) {
    const ZsNode *node = zs_node_get (root, rows[i].key);
    bool on;

    if (node != NULL && zs_import_truth (node, &on) && on)
      zs_notes_add (reader->notes, ZS_NOTE_RISKY, "not-simulated", node, "%s: %s", rows[i].key, rows[i].text);
  }
}

bool
zs_import_recipe (ZsReader *reader, const ZsNode *root)
{
  const ZsNode *factory = llama_factory (root);

  /* their command lines start torchrun or accelerate, which leave a rank one thread */
  reader->launched |= factory != NULL || trl (root) != NULL || zs_import_is_axolotl (root);
  note_unsimulated (reader, root);
  if (!zs_import_liger (reader, root))
    return false;
  if (zs_import_is_axolotl (root))
    return import_axolotl (reader, root);
  return import_adapters (reader, root, factory)
         && (factory != NULL ? import_llama_factory (reader, root, factory) : import_trl (reader, root));
}
