/* scenario-import-args.c: Hugging Face's TrainingArguments beside a scenario, with the keys that TRL and
 * LLaMA-Factory write among them.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/base/words.h"
#include "sim/scenario/scenario-import.h"

/* TrainingArguments stand beside many keys of other programs: only what is a letter or two from a key
 * that is read is spoken of. */
static void
note_misspelt (ZsReader *reader, const ZsNode *root, const ZsImportKey *rows, size_t n_rows)
{
  static const char *const others[] = { "bf16", "fp16", "optim", "fsdp", "fsdp_config", "deepspeed",
                                        "gradient_checkpointing", "gradient_checkpointing_kwargs",
                                        "ddp_find_unused_parameters", "ddp_bucket_cap_mb" };

  for (int i = 0; i < root->n_items; i++) {
    const char *key = root->keys[i]->text, *meant = NULL;

    for (size_t j = 0; j < n_rows + G_N_ELEMENTS (others); j++) {
      const char *word = j < n_rows ? rows[j].key : others[j - n_rows];
      int distance = zs_word_distance (key, word);

      if (distance == 0) {
        meant = NULL;
        break;
      }
      if (distance <= (strlen (word) >= 8 ? 2 : 1) && strlen (word) > 4)
        meant = word;
    }
    if (meant != NULL)
      zs_notes_add (reader->notes, ZS_NOTE_IGNORED, "unknown-key", root->keys[i],
                    "'%.60s' is not read; did you mean '%s'?", key, meant);
  }
}

/* `fsdp` of TrainingArguments: words in a string or a list, or true; `fsdp_config` beside it. */
static bool
import_fsdp_words (ZsReader *reader, const ZsNode *root, const ZsNode *fsdp, bool *ret_sharded)
{
  enum { OFFLOAD = ZS_IMPORT_N_STRATEGIES, AUTO_WRAP };
  static const char *const words[] = { "full_shard",         "shard_grad_op", "no_shard",  "hybrid_shard",
                                       "hybrid_shard_zero2", "offload",       "auto_wrap", NULL };
  const ZsNode *config = zs_node_get (root, "fsdp_config");
  bool on = false, offload = false, ok = true;
  int strategy = -1;

  if (zs_node_is_null (fsdp))
    return true;
  if (zs_node_bool (fsdp, &on)) {
    strategy = on ? ZS_IMPORT_FULL_SHARD : -1;
  } else if (fsdp->kind == ZS_NODE_MAPPING) {
    return zs_node_fail (fsdp, reader->errors, "'fsdp' must be words such as \"full_shard auto_wrap\", not a mapping");
  } else {
    bool list = fsdp->kind == ZS_NODE_SEQUENCE;

    for (int i = 0; i < (list ? fsdp->n_items : 1); i++) {
      const ZsNode *item = list ? fsdp->items[i] : fsdp;
      g_auto (GStrv) parts = item->kind == ZS_NODE_SCALAR ? g_strsplit_set (item->text, " ,", -1) : NULL;

      if (parts == NULL)
        return zs_node_fail (item, reader->errors, "'fsdp' holds %s where a word is wanted", zs_node_describe (item));
      for (char **part = parts; *part != NULL; part++) {
        int word = AUTO_WRAP;

        if (**part != '\0' && !zs_import_word (reader, zs_import_at (reader, item, *part), "fsdp", words, &word))
          return false;
        if (word < ZS_IMPORT_N_STRATEGIES)
          strategy = word;
        offload |= word == OFFLOAD;
      }
    }
  }
  if (strategy < 0)
    return !offload
           || zs_node_fail (fsdp, reader->errors,
                            "'fsdp' says how to offload, but not how to shard: add full_shard");
  *ret_sharded = strategy != ZS_IMPORT_NO_SHARD;
  if (offload)
    ok &= zs_reader_put_default (reader, "training.fsdp.cpu_offload", zs_import_at (reader, fsdp, "true"));
  ok &= zs_import_strategy (reader, fsdp, strategy);
  if (strategy == ZS_IMPORT_NO_SHARD)
    return ok;
  if (config != NULL && config->kind == ZS_NODE_SCALAR && config->quoted) {
    GError *error = NULL;
    g_autofree char *path = zs_reader_file (config);
    ZsDocument *document = zs_document_load (path, &error);

    if (document == NULL) {
      zs_errors_take (reader->errors, error);
      return false;
    }
    zs_document_take (reader->document, document);
    config = zs_document_root (document);
  }
  if (config != NULL && !zs_node_is_null (config))
    return zs_import_fsdp (reader, config, fsdp, false) && ok;
  return zs_reader_put_default (reader, "training.framework", zs_import_at (reader, fsdp, "fsdp")) && ok;
}

/* LLaMA-Factory's finetuning_type, lora_rank (8) and lora_target ("all"; hparams/finetuning_args.py), TRL's
 * use_peft, lora_r (16) and lora_target_modules (trainer/model_config.py). */
static bool
import_adapters (ZsReader *reader, const ZsNode *root)
{
  static const char *const types[] = { "lora", "full", NULL };
  static const ZsImportKey rows[] = {
    { "lora_rank", "training.lora.rank" },
    { "lora_r", "training.lora.rank" },
    { "lora_dropout", "training.lora.dropout" },
  };
  static const char *const targets[] = { "lora_target", "lora_target_modules" };
  const ZsNode *type = zs_node_get (root, "finetuning_type"), *rank = zs_node_get (root, "lora_rank");
  const ZsNode *place = type != NULL ? type : rank != NULL ? rank : zs_node_get (root, "use_peft");
  bool use = rank != NULL, four = false, ok = true;
  int word = 1, bits = 0;

  ok &= zs_import_switch (reader, root, "use_peft", &use);
  if (type != NULL && !zs_node_is_null (type)) {
    if (!zs_import_word (reader, type, "finetuning_type", types, &word))
      return false;
    use = word == 0;
  }
  if (!use || !ok)
    return ok;
  ok &= zs_import_keys (reader, root, rows, G_N_ELEMENTS (rows));
  ok &= zs_reader_put_default (reader, "training.lora.rank",
                               zs_import_at (reader, place, type != NULL ? "8" : "16"));
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
  if (type != NULL)
    ok &= zs_reader_put_default (reader, "training.lora.targets", zs_import_at (reader, type, "all-linear"));

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

/* `optim`; OPTIMIZER may be NULL. */
static bool
import_optimizer (ZsReader *reader, const ZsNode *optimizer)
{
  static const struct {
    const char *optim, *key, *value;
  } optims[] = {
    { "adamw_torch", "training.optimizer.implementation", "foreach" },
    { "adamw_torch_fused", "training.optimizer.implementation", "fused" },
    { "adafactor", "training.optimizer.name", "adafactor" },
    { "sgd", "training.optimizer.name", "sgd" },
    { "adamw_bnb_8bit", "training.optimizer.name", "adamw_8bit" },
    { "adamw_8bit", "training.optimizer.name", "adamw_8bit" },
    { "paged_adamw_8bit", "training.optimizer.name", "paged_adamw_8bit" },
    { "paged_adamw_32bit", "training.optimizer.name", "paged_adamw_32bit" },
    { "paged_adamw", "training.optimizer.name", "paged_adamw_32bit" },
  };
  gsize i = 0;

  if (optimizer == NULL || zs_node_is_null (optimizer))
    return true;
  if (optimizer->kind != ZS_NODE_SCALAR)
    return zs_node_fail (optimizer, reader->errors, "'optim' must be a word such as adamw_torch, not %s",
                         zs_node_describe (optimizer));
  while (i < G_N_ELEMENTS (optims) && strcmp (optims[i].optim, optimizer->text) != 0)
    i++;
  if (i < G_N_ELEMENTS (optims))
    return zs_reader_put_default (reader, optims[i].key, zs_import_at (reader, optimizer, optims[i].value));
  zs_notes_add (reader->notes, ZS_NOTE_RISKY, "optimizer", optimizer,
                "optim %s is simulated as adamw_torch, which holds 8 bytes a parameter", optimizer->text);
  return true;
}

bool
zs_reader_import_training_args (ZsReader *reader, const char *path)
{
  static const ZsImportKey rows[] = {
    { "per_device_train_batch_size", "training.micro_batch" },
    { "gradient_accumulation_steps", "training.gradient_accumulation" },
    { "max_grad_norm", "training.gradient_clipping" },
    { "max_seq_length", "training.sequence_length" },
    { "model_max_length", "training.sequence_length" },
    { "max_length", "training.sequence_length" },
    { "cutoff_len", "training.sequence_length" },
    { "block_size", "training.sequence_length" },
    { "model_name_or_path", "model" },
    { "attn_implementation", "training.attention" },
    { "tf32", "training.tf32" },
    { "torch_empty_cache_steps", "training.empty_cache_steps" },
  };
  static const ZsImportKey ddp_rows[] = {
    { "ddp_find_unused_parameters", "training.ddp.find_unused_parameters" },
    { "ddp_bucket_cap_mb", "training.ddp.bucket_cap_mb" },
  };
  GError *error = NULL;
  ZsDocument *document = zs_document_load (path, &error);

  if (document == NULL) {
    zs_errors_take (reader->errors, error);
    return false;
  }
  zs_document_take (reader->document, document);

  const ZsNode *root = zs_document_root (document);

  if (root->kind != ZS_NODE_MAPPING)
    return zs_node_fail (root, reader->errors, "TrainingArguments must be an object, not %s",
                         zs_node_describe (root));
  bool ok = zs_import_keys (reader, root, rows, G_N_ELEMENTS (rows));
  bool checkpointed = false, bf16_on = false, fp16_on = false;
  ZsNode *checkpointing = zs_node_get (root, "gradient_checkpointing");
  ZsNode *reentrant =
      zs_node_get (zs_node_get (root, "gradient_checkpointing_kwargs"), "use_reentrant");
  ZsNode *bf16 = zs_node_get (root, "bf16"), *fp16 = zs_node_get (root, "fp16");
  ZsNode *deepspeed = zs_node_get (root, "deepspeed");
  ZsNode *fsdp = zs_node_get (root, "fsdp");

  note_misspelt (reader, root, rows, G_N_ELEMENTS (rows));
  ok &= zs_import_switch (reader, root, "gradient_checkpointing", &checkpointed);
  ok &= zs_import_switch (reader, root, "bf16", &bf16_on) & zs_import_switch (reader, root, "fp16", &fp16_on);
  if (bf16_on && fp16_on)
    ok = zs_node_fail (fp16, reader->errors,
                       "transformers: \"At most one of fp16 and bf16 can be True, but not both\"");
  if (checkpointing != NULL)
    ok &= zs_reader_put_default (reader, "training.checkpointing",
                                 zs_import_at (reader, checkpointing, checkpointed ? "full" : "none"));
  if (reentrant != NULL)
    ok &= zs_reader_put_default (reader, "training.reentrant", reentrant);
  if (bf16_on || fp16_on)
    ok &= zs_reader_put_default (
        reader, "training.dtype", zs_import_at (reader, bf16_on ? bf16 : fp16, bf16_on ? "bf16" : "fp16"));
  ok &= import_optimizer (reader, zs_node_get (root, "optim"));
  if (deepspeed != NULL && !zs_node_is_null (deepspeed))
    ok &=
        zs_reader_put_default (reader, "training.deepspeed", deepspeed) && zs_reader_graft (reader);
  ok &= import_adapters (reader, root);

  bool sharded = false;

  if (fsdp != NULL)
    ok &= import_fsdp_words (reader, root, fsdp, &sharded);
  if (sharded && deepspeed != NULL && !zs_node_is_null (deepspeed))
    ok = zs_node_fail (fsdp, reader->errors,
                       "transformers: \"Using --fsdp xxx together with --deepspeed is not possible, deactivate "
                       "one of those flags.\"");
  if (!sharded && deepspeed == NULL)
    ok &= zs_import_keys (reader, root, ddp_rows, G_N_ELEMENTS (ddp_rows));
  return ok;
}
