/* scenario-import.c: accelerate's YAML beside a scenario, and what it shares with TrainingArguments.
 * SPDX-License-Identifier: MIT
 *
 * What they say becomes settings of the scenario where it says nothing itself, at their place in
 * their file.  Their many other keys (logging, saving, data) are passed over. */
#include "config.h"

#include <string.h>

#include "sim/base/words.h"
#include "sim/scenario/scenario-import.h"

/* A scalar with the place of NODE. */
ZsNode *
zs_import_at (ZsReader *reader, const ZsNode *node, const char *text)
{
  ZsNode *word = zs_document_flag (reader->document, node->file, text);

  word->line = node->line;
  word->column = node->column;
  return word;
}

/* The value under one of KEYS (NULL-terminated), or NULL where it is missing or null. */
static ZsNode *
get_any (const ZsNode *block, const char *const *keys)
{
  for (; *keys != NULL; keys++) {
    ZsNode *node = zs_node_get (block, *keys);

    if (node != NULL && !zs_node_is_null (node))
      return node;
  }
  return NULL;
}

/* NODE is true or false, in quotes perhaps, as accelerate and shells write it. */
static bool
read_truth (const ZsNode *node, bool *ret_value)
{
  ZsNode bare = *node;

  bare.quoted = false;
  return zs_node_bool (&bare, ret_value);
}

/* *RET_VALUE stays if there is none. */
bool
zs_import_switch (ZsReader *reader, const ZsNode *block, const char *key, bool *ret_value)
{
  const ZsNode *node = zs_node_get (block, key);

  if (node == NULL || zs_node_is_null (node) || read_truth (node, ret_value))
    return true;
  return zs_node_fail (node, reader->errors, "'%s' must be true or false, not %s%s%.40s%s", key,
                       zs_node_describe (node), node->kind == ZS_NODE_SCALAR ? " '" : "",
                       node->kind == ZS_NODE_SCALAR ? node->text : "",
                       node->kind == ZS_NODE_SCALAR ? "'" : "");
}

/* One of WORDS, in quotes or not (accelerate writes numbers in both ways), or their index. */
bool
zs_import_word (ZsReader *reader, const ZsNode *node, const char *key, const char *const *words, int *ret_word)
{
  for (int i = 0; node->kind == ZS_NODE_SCALAR && words[i] != NULL; i++)
    if (strcmp (node->text, words[i]) == 0) {
      *ret_word = i;
      return true;
    }

  g_autofree char *list = zs_schema_word_list (words);
  g_autofree char *hint =
      node->kind == ZS_NODE_SCALAR ? zs_nearest_hint (node->text, words) : g_strdup ("");

  return zs_node_fail (node, reader->errors, "'%s' must be %s, not %s%.40s%s%s", key, list,
                       node->kind == ZS_NODE_SCALAR ? "'" : "",
                       node->kind == ZS_NODE_SCALAR ? node->text : zs_node_describe (node),
                       node->kind == ZS_NODE_SCALAR ? "'" : "", hint);
}

/* Keys of BLOCK that are none of KNOWN. */
static void
note_unknown (ZsReader *reader, const ZsNode *block, const char *what, const char *const *known)
{
  for (int i = 0; i < block->n_items; i++) {
    const char *key = block->keys[i]->text;

    if (!g_strv_contains (known, key)) {
      g_autofree char *hint = zs_nearest_hint (key, known);

      zs_notes_add (reader->notes, ZS_NOTE_IGNORED, "unknown-key", block->keys[i],
                    "'%.60s' is no key of %s and changes nothing%s", key, what, hint);
    }
  }
}

bool
zs_import_keys (ZsReader *reader, const ZsNode *from, const ZsImportKey *rows, size_t n_rows)
{
  bool ok = true;

  for (size_t i = 0; i < n_rows; i++) {
    ZsNode *node = zs_node_get (from, rows[i].key);
    bool truth;

    if (node == NULL || zs_node_is_null (node))
      continue;
    if (node->quoted && read_truth (node, &truth))
      node = zs_import_at (reader, node, truth ? "true" : "false");
    ok &= zs_reader_put_default (reader, rows[i].path, node);
  }
  return ok;
}

/* The ds_config that accelerate's DeepSpeedPlugin makes of its short keys
 * (accelerate/utils/dataclasses.py). */
static bool
import_deepspeed (ZsReader *reader, const ZsNode *block, const ZsNode *file_given)
{
  static const ZsImportKey rows[] = {
    { "zero_stage", "training.deepspeed.zero_optimization.stage" },
    { "gradient_accumulation_steps", "training.gradient_accumulation" },
    { "gradient_clipping", "training.deepspeed.gradient_clipping" },
    { "zero3_save_16bit_model",
      "training.deepspeed.zero_optimization.stage3_gather_16bit_weights_on_model_save" },
    { "offload_optimizer_device", "training.deepspeed.zero_optimization.offload_optimizer.device" },
    { "offload_param_device", "training.deepspeed.zero_optimization.offload_param.device" },
    { "offload_optimizer_nvme_path",
      "training.deepspeed.zero_optimization.offload_optimizer.nvme_path" },
    { "offload_param_nvme_path", "training.deepspeed.zero_optimization.offload_param.nvme_path" },
    { "zero3_init_flag", "training.zero_init" },
  };
  /* with a file these must not be set (accelerate: ValueError) */
  static const char *const exclusive[] = {
    "gradient_accumulation_steps",
    "gradient_clipping",
    "zero_stage",
    "offload_optimizer_device",
    "offload_param_device",
    "offload_param_nvme_path",
    "offload_optimizer_nvme_path",
    "zero3_save_16bit_model",
    "mixed_precision",
    NULL,
  };
  static const char *const known[] = {
    "deepspeed_config_file", "deepspeed_hostfile", "deepspeed_exclusion_filter", "deepspeed_inclusion_filter",
    "deepspeed_multinode_launcher", "deepspeed_moe_layer_cls_names", "deepspeed_fields_to_mask",
    "zero_stage", "gradient_accumulation_steps", "gradient_clipping", "zero3_save_16bit_model",
    "offload_optimizer_device", "offload_param_device", "offload_optimizer_nvme_path",
    "offload_param_nvme_path", "zero3_init_flag", "mixed_precision", NULL,
  };
  const ZsNode *file = zs_node_get (block, "deepspeed_config_file");

  note_unknown (reader, block, "accelerate's deepspeed_config", known);
  if (zs_node_is_null (file))
    file = NULL;
  if (file != NULL || file_given != NULL) {
    for (int i = 0; exclusive[i] != NULL; i++) {
      const ZsNode *key = zs_node_get_key (block, exclusive[i]);

      if (key != NULL)
        return zs_node_fail (key, reader->errors,
                             "accelerate refuses '%s' beside a ds_config file, which has to say it",
                             exclusive[i]);
    }
    const ZsNode *init = zs_node_get (block, "zero3_init_flag");

    if (init != NULL)
      zs_reader_put_default (reader, "training.zero_init", (ZsNode *)init);
    return file == NULL || file_given != NULL
           || (zs_reader_put_default (reader, "training.deepspeed", (ZsNode *)file)
               && zs_reader_graft (reader));
  }
  bool ok = zs_import_keys (reader, block, rows, G_N_ELEMENTS (rows));
  const char *const automatic[] = { "train_batch_size", "train_micro_batch_size_per_gpu",
                                    "gradient_accumulation_steps" };

  for (size_t i = 0; i < G_N_ELEMENTS (automatic); i++) {
    g_autofree char *path = g_strconcat ("training.deepspeed.", automatic[i], NULL);
    ZsNode *node = zs_import_at (reader, block, "auto");

    node->quoted = true;
    ok &= zs_reader_put_default (reader, path, node);
  }
  ok &= zs_reader_put_default (reader, "training.deepspeed.zero_allow_untested_optimizer",
                               zs_import_at (reader, block, "true"));
  return ok;
}

/* FSDP's ShardingStrategy, by name and by number (torch/distributed/fsdp/api.py), in the order of the
 * numbers; Trainer writes the names small. */
static const char *const STRATEGIES[] = { "FULL_SHARD",         "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD",
                                          "HYBRID_SHARD_ZERO2", "1",             "2",        "3",
                                          "4",                  "5",             NULL };

bool
zs_import_strategy (ZsReader *reader, const ZsNode *node, int strategy)
{
  bool gathered = strategy == ZS_IMPORT_SHARD_GRAD_OP || strategy == ZS_IMPORT_HYBRID_SHARD_ZERO2;
  bool hybrid = strategy == ZS_IMPORT_HYBRID_SHARD || strategy == ZS_IMPORT_HYBRID_SHARD_ZERO2;

  if (strategy == ZS_IMPORT_NO_SHARD)
    return zs_reader_put (reader, "training.framework", zs_import_at (reader, node, "ddp"));
  return zs_reader_put_default (reader, "training.fsdp.reshard_after_forward",
                                zs_import_at (reader, node, gathered ? "false" : "true"))
         & zs_reader_put_default (reader, "training.fsdp.hybrid",
                                  zs_import_at (reader, node, hybrid ? "true" : "false"));
}

/* fsdp_config of accelerate (FLAT: in the file itself, as its first versions wrote it) or of Trainer,
 * which reads the keys without "fsdp_" too (training_args.py). */
bool
zs_import_fsdp (ZsReader *reader, const ZsNode *block, const ZsNode *place, bool flat)
{
  static const ZsImportKey rows[] = {
    { "fsdp_offload_params", "training.fsdp.cpu_offload" },
    { "fsdp_backward_prefetch", "training.fsdp.backward_prefetch" },
    { "backward_prefetch", "training.fsdp.backward_prefetch" },
    { "fsdp_limit_all_gathers", "training.fsdp.limit_all_gathers" },
    { "limit_all_gathers", "training.fsdp.limit_all_gathers" },
    { "fsdp_use_orig_params", "training.fsdp.use_orig_params" },
    { "use_orig_params", "training.fsdp.use_orig_params" },
  };
  static const char *const known[] = {
    "fsdp_activation_checkpointing", "activation_checkpointing", "fsdp_auto_wrap_policy", "auto_wrap_policy",
    "fsdp_backward_prefetch", "backward_prefetch", "fsdp_backward_prefetch_policy",
    "fsdp_cpu_ram_efficient_loading", "cpu_ram_efficient_loading", "fsdp_forward_prefetch",
    "forward_prefetch", "fsdp_limit_all_gathers", "limit_all_gathers", "fsdp_min_num_params",
    "min_num_params", "fsdp_offload_params", "fsdp_reshard_after_forward", "reshard_after_forward",
    "fsdp_sharding_strategy", "fsdp_state_dict_type", "state_dict_type", "fsdp_sync_module_states",
    "sync_module_states", "fsdp_transformer_layer_cls_to_wrap", "transformer_layer_cls_to_wrap",
    "fsdp_use_orig_params", "use_orig_params", "fsdp_version", "version", "xla", "xla_fsdp_v2",
    "xla_fsdp_settings", "xla_fsdp_grad_ckpt", NULL,
  };
  static const char *const versions[] = { "1", "2", NULL };
  static const char *const version_keys[] = { "fsdp_version", "version", NULL };
  static const char *const reshard_keys[] = { "fsdp_reshard_after_forward", "reshard_after_forward", NULL };
  int version = 0, strategy;
  const ZsNode *version_node = get_any (block, version_keys);
  const ZsNode *strategy_node = get_any (block, (const char *const[]){ "fsdp_sharding_strategy", NULL });
  ZsNode *reshard = get_any (block, reshard_keys);
  bool ok = true, checkpointed = false, truth;

  if (block->kind != ZS_NODE_MAPPING)
    return zs_node_fail (block, reader->errors, "'fsdp_config' must be a mapping (key: value), not %s",
                         zs_node_describe (block));
  if (!flat)
    note_unknown (reader, block, "fsdp_config", known);
  if (version_node != NULL)
    ok &= zs_import_word (reader, version_node, "fsdp_version", versions, &version);
  ok &= zs_import_keys (reader, block, rows, G_N_ELEMENTS (rows));
  ok &= zs_reader_put_default (reader, "training.framework",
                               zs_import_at (reader, version_node != NULL ? version_node : place,
                                        version == 1 ? "fsdp2" : "fsdp"));
  if (reshard != NULL
      && (zs_node_bool (reshard, &truth)
          || (reshard->kind == ZS_NODE_SCALAR
              && (g_ascii_strcasecmp (reshard->text, "true") == 0
                  || g_ascii_strcasecmp (reshard->text, "false") == 0))))
    ok &= zs_reader_put_default (reader, "training.fsdp.reshard_after_forward",
                                 zs_import_at (reader, reshard, g_ascii_tolower (reshard->text[0]) == 't' ? "true" : "false"));
  else if (reshard != NULL && strategy_node == NULL)
    strategy_node = reshard; /* version 1 wrote the strategy there */
  if (strategy_node != NULL)
    ok &= zs_import_word (reader, strategy_node,
                     strategy_node == reshard ? "fsdp_reshard_after_forward" : "fsdp_sharding_strategy", STRATEGIES,
                     &strategy)
          && zs_import_strategy (reader, strategy_node, strategy % ZS_IMPORT_N_STRATEGIES);
  for (int i = 0; i < 2; i++) {
    const char *key = &"fsdp_activation_checkpointing"[i == 0 ? 0 : strlen ("fsdp_")];

    ok &= zs_import_switch (reader, block, key, &checkpointed);
    if (checkpointed && zs_node_get (block, key) != NULL)
      ok &= zs_reader_put_default (reader, "training.checkpointing",
                                   zs_import_at (reader, zs_node_get (block, key), "full"));
  }
  return ok;
}

bool
zs_reader_import_accelerate (ZsReader *reader, const char *path)
{
  GError *error = NULL;
  ZsDocument *document = zs_document_load (path, &error);

  if (document == NULL) {
    zs_errors_take (reader->errors, error);
    return false;
  }
  zs_document_take (reader->document, document);

  const ZsNode *root = zs_document_root (document);
  const ZsNode *type = zs_node_get (root, "distributed_type");
  const ZsNode *deepspeed = zs_node_get (root, "deepspeed_config");
  const ZsNode *fsdp = zs_node_get (root, "fsdp_config");
  const ZsNode *precision = zs_node_get (root, "mixed_precision");
  const ZsNode *processes = zs_node_get (root, "num_processes"),
               *machines = zs_node_get (root, "num_machines");
  const ZsNode *given = zs_reader_find (reader, "training.deepspeed");
  bool ok = true;

  if (root->kind != ZS_NODE_MAPPING || type == NULL || type->kind != ZS_NODE_SCALAR)
    return zs_node_fail (root, reader->errors,
                         "this is no accelerate file: it has no 'distributed_type'");
  reader->launched = true;
  if (strcmp (type->text, "DEEPSPEED") == 0) {
    ok &= zs_reader_put_default (reader, "training.framework", zs_import_at (reader, type, "deepspeed"));
    if (deepspeed != NULL && deepspeed->kind == ZS_NODE_MAPPING)
      ok &= import_deepspeed (reader, deepspeed, given);
  } else if (strcmp (type->text, "FSDP") == 0) {
    ok &= zs_import_fsdp (reader, fsdp != NULL ? fsdp : root, type, fsdp == NULL);
  } else if (strcmp (type->text, "MULTI_GPU") == 0) {
    ok &= zs_reader_put_default (reader, "training.framework", zs_import_at (reader, type, "ddp"));
  } else if (strcmp (type->text, "NO") != 0) {
    static const char *const types[] = { "DEEPSPEED", "FSDP", "MULTI_GPU", "NO", NULL };
    g_autofree char *hint = zs_nearest_hint (type->text, types);

    ok = zs_node_fail (
        type, reader->errors,
        "distributed_type %.40s is not simulated; DEEPSPEED, FSDP, MULTI_GPU and NO are%s",
        type->text, hint);
  }
  if (precision != NULL && !zs_node_is_null (precision)) {
    static const char *const precisions[] = { "no", "fp16", "bf16", "fp8", NULL };
    static const char *const dtypes[] = { "fp32", "fp16", "bf16", "bf16" };
    int word = 0;
    bool off;

    /* YAML's no without quotes is false to PyYAML, and str (False) is no word of accelerate's; taken all the same */
    if (zs_node_bool (precision, &off) && !off)
      ok &= zs_reader_put_default (reader, "training.dtype", zs_import_at (reader, precision, "fp32"));
    else if (!zs_import_word (reader, precision, "mixed_precision", precisions, &word))
      ok = false;
    else
      ok &= zs_reader_put_default (reader, "training.dtype", zs_import_at (reader, precision, dtypes[word]));
    if (ok && word == 3)
      zs_notes_add (reader->notes, ZS_NOTE_RISKY, "precision", precision,
                    "fp8 is not simulated: products and activations are those of bf16");
  }

  int64_t n = 0, nodes = 1;

  if (machines != NULL && !zs_node_is_null (machines)) {
    if (!zs_node_int (machines, &nodes) || nodes < 1)
      return zs_node_fail (machines, reader->errors,
                           "'num_machines' must be a whole number of at least 1");
    ok &= zs_reader_put_default (reader, "cluster.nodes", (ZsNode *)machines);
  }
  if (processes != NULL && !zs_node_is_null (processes)) {
    if (!zs_node_int (processes, &n) || n < 1 || n % nodes != 0)
      return zs_node_fail (processes, reader->errors,
                           "'num_processes' must be a whole number, a multiple of num_machines");
    g_autofree char *per_node = g_strdup_printf ("%" G_GINT64_FORMAT, n / nodes);
    const ZsNode *said = zs_reader_find (reader, "cluster.gpus_per_node");
    int64_t gpus;

    if (said != NULL && zs_node_int (said, &gpus) && gpus != n / nodes)
      zs_notes_add (reader->notes, ZS_NOTE_RISKY, "processes", processes,
                    "%" G_GINT64_FORMAT " processes would be started; %" G_GINT64_FORMAT
                    " GPUs a node are simulated, as was asked for", n, gpus);
    ok &= zs_reader_put_default (reader, "cluster.gpus_per_node",
                                 zs_import_at (reader, processes, per_node));
  }
  return ok;
}
