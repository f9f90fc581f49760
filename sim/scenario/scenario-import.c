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

bool
zs_import_truth (const ZsNode *node, bool *ret_value)
{
  ZsNode bare = *node;

  bare.quoted = false;
  return zs_node_bool (&bare, ret_value);
}

bool
zs_import_no_truth (ZsReader *reader, const ZsNode *node, const char *key)
{
  bool scalar = node->kind == ZS_NODE_SCALAR;

  return zs_node_fail (node, reader->errors, "'%s' must be true or false, not %s%s%.40s%s", key,
                       zs_node_describe (node), scalar ? " '" : "", scalar ? node->text : "", scalar ? "'" : "");
}

/* *RET_VALUE stays if there is none. */
bool
zs_import_switch (ZsReader *reader, const ZsNode *block, const char *key, bool *ret_value)
{
  const ZsNode *node = zs_node_get (block, key);

  return node == NULL || zs_node_is_null (node) || zs_import_truth (node, ret_value)
         || zs_import_no_truth (reader, node, key);
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

void
zs_import_note_unknown (ZsReader *reader, const ZsNode *key, const char *what, const char *const *known,
                        const char *prefix)
{
  size_t skip = g_str_has_prefix (key->text, prefix) ? strlen (prefix) : 0;
  const char *near = zs_nearest_word (key->text + skip, known);

  zs_notes_add (reader->notes, ZS_NOTE_IGNORED, "unknown-key", key, "'%.60s' is no key of %s and changes nothing%s%s%s%s",
                key->text, what, near != NULL ? "; did you mean '" : "", near != NULL && skip > 0 ? prefix : "",
                near != NULL ? near : "", near != NULL ? "'?" : "");
}

const ZsNode *
zs_import_load (ZsReader *reader, const char *path)
{
  GError *error = NULL;
  ZsDocument *document = zs_document_load (path, &error);

  if (document == NULL) {
    zs_errors_take (reader->errors, error);
    return NULL;
  }
  zs_document_take (reader->document, document);
  return zs_document_root (document);
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
    if (node->quoted && zs_import_truth (node, &truth))
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

  for (int i = 0; i < block->n_items; i++)
    if (!g_strv_contains (known, block->keys[i]->text))
      zs_import_note_unknown (reader, block->keys[i], "accelerate's deepspeed_config", known, "");
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

/* accelerate refuses a file with other keys (BaseConfig.from_yaml_file () in commands/config/config_args.py); the
 * last row is of older releases, whose files it still reads or once wrote. */
static bool
check_keys (ZsReader *reader, const ZsNode *root)
{
  static const char *const known[] = {
    "compute_environment", "distributed_type", "mixed_precision", "use_cpu", "debug", "num_processes", "machine_rank",
    "num_machines", "gpu_ids", "main_process_ip", "main_process_port", "rdzv_backend", "same_network",
    "main_training_function", "enable_cpu_affinity", "fp8_config", "deepspeed_config", "fsdp_config",
    "parallelism_config", "megatron_lm_config", "mpirun_config", "downcast_bf16", "tpu_name", "tpu_zone",
    "tpu_use_cluster", "tpu_use_sudo", "command_file", "commands", "tpu_vm", "tpu_env", "dynamo_config",
    "fp16", "dynamo_backend", "ipex_config", "use_xpu", "deepspeed_hostfile", NULL,
  };
  const ZsNode *where = zs_node_get (root, "compute_environment");
  bool flat = zs_node_get (root, "fsdp_config") == NULL, ok = true;

  if (where != NULL && where->kind == ZS_NODE_SCALAR && strcmp (where->text, "AMAZON_SAGEMAKER") == 0)
    return true;
  for (int i = 0; i < root->n_items; i++) {
    const char *key = root->keys[i]->text;

    if (g_strv_contains (known, key) || (flat && zs_import_is_fsdp_key (key)))
      continue;
    g_autofree char *hint = zs_nearest_hint (key, known);

    ok = zs_node_fail (root->keys[i], reader->errors,
                       "accelerate: \"The config file ... had unknown keys (['%.60s'])\"%s", key, hint);
  }
  return ok;
}

/* What an accelerate file asks for that is not simulated. */
static void
note_unsimulated (ZsReader *reader, const ZsNode *root)
{
  const ZsNode *compiler = zs_node_get (root, "dynamo_config"), *old = zs_node_get (root, "dynamo_backend");
  const ZsNode *backend = compiler != NULL && compiler->kind == ZS_NODE_MAPPING
                              ? zs_node_get (compiler, "dynamo_backend") : old;
  const ZsNode *parallelism = zs_node_get (root, "parallelism_config");
  bool cpu = false;

  if (backend != NULL && backend->kind == ZS_NODE_SCALAR && !zs_node_is_null (backend)
      && g_ascii_strcasecmp (backend->text, "no") != 0 && (backend->quoted || !zs_node_bool (backend, &cpu)))
    zs_notes_add (reader->notes, ZS_NOTE_RISKY, "not-simulated", backend, "%s", ZS_IMPORT_COMPILE);
  if (parallelism != NULL && parallelism->kind == ZS_NODE_MAPPING && parallelism->n_items > 0)
    zs_notes_add (reader->notes, ZS_NOTE_RISKY, "not-simulated", parallelism,
                  "parallelism_config is not simulated: all GPUs are data-parallel");
}

bool
zs_reader_import_accelerate (ZsReader *reader, const char *path)
{
  const ZsNode *root = zs_import_load (reader, path);

  if (root == NULL)
    return false;
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
  ok &= check_keys (reader, root);
  note_unsimulated (reader, root);
  if (strcmp (type->text, "DEEPSPEED") == 0) {
    ok &= zs_reader_put_default (reader, "training.framework", zs_import_at (reader, type, "deepspeed"));
    if (deepspeed != NULL && deepspeed->kind == ZS_NODE_MAPPING)
      ok &= import_deepspeed (reader, deepspeed, given);
  } else if (strcmp (type->text, "FSDP") == 0) {
    ok &= zs_import_fsdp (reader, fsdp != NULL ? fsdp : root, type,
                          fsdp != NULL ? ZS_IMPORT_ACCELERATE : ZS_IMPORT_FLAT);
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
      ok &= zs_import_precision (reader, precision, "fp32");
    else if (!zs_import_word (reader, precision, "mixed_precision", precisions, &word))
      ok = false;
    else
      ok &= zs_import_precision (reader, precision, dtypes[word]);
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

bool
zs_import_precision (ZsReader *reader, const ZsNode *node, const char *dtype)
{
  ZsNode *word = zs_import_at (reader, node, dtype);

  if (strcmp (dtype, "fp32") == 0 || zs_reader_find (reader, "training.dtype") != NULL)
    return zs_reader_put_default (reader, "training.dtype", word);
  reader->mixed = word;
  return true;
}

bool
zs_reader_end_imports (ZsReader *reader)
{
  const ZsNode *framework = zs_reader_find (reader, "training.framework"), *word = reader->mixed;
  const char *name = framework != NULL && framework->kind == ZS_NODE_SCALAR ? framework->text : "";
  bool casts = *name == '\0' ? zs_reader_find (reader, "training.deepspeed") != NULL
                             : strcmp (name, "deepspeed") == 0 || strcmp (name, "fsdp2") == 0;
  bool full = zs_reader_find (reader, "training.lora") == NULL;
  ZsVersions versions = zs_reader_asked_versions (reader);
  const char *dtype;

  if (word == NULL)
    return true;
  if (casts || strcmp (name, "fsdp") == 0)
    dtype = word->text;
  else   /* GradScaler refuses gradients in fp16 */
    dtype = full && (strcmp (word->text, "fp16") == 0 || reader->upcasts
                     || !zs_behaves (&versions, ZS_BEHAVIOUR_LOADS_CHECKPOINT_DTYPE))
                ? "fp32" : word->text;
  if (!zs_reader_put_default (reader, "training.dtype", zs_import_at (reader, word, dtype)))
    return false;
  if (casts || zs_reader_find (reader, "training.autocast") != NULL)
    return true;
  if (strcmp (name, "fsdp") != 0)
    zs_notes_add (reader->notes, ZS_NOTE_INFO, "autocast", word,
                  "mixed precision is autocast here, over weights in %s; `--set training.dtype=%s` for others", dtype,
                  strcmp (dtype, "fp32") == 0 ? "bf16" : "fp32");
  return zs_reader_put (reader, "training.autocast", zs_import_at (reader, word, "true"));
}
