/* scenario-import.c: accelerate's YAML and Hugging Face's TrainingArguments beside a scenario.
 * SPDX-License-Identifier: MIT
 *
 * What they say becomes settings of the scenario where it says nothing itself, at their place in
 * their file.  Their many other keys (logging, saving, data) are passed over. */
#include "config.h"

#include <string.h>

#include "sim/io/file.h"
#include "sim/scenario/ds-config.h"
#include "sim/scenario/scenario-internal.h"

/* A scalar with the place of NODE. */
static ZsNode *
word_at (ZsReader *reader, const ZsNode *node, const char *text)
{
  ZsNode *word = zs_document_flag (reader->document, node->file, text);

  word->line = node->line;
  word->column = node->column;
  return word;
}

static bool
is_true (const ZsNode *node)
{
  bool value = false;

  /* accelerate writes 'true' in quotes too */
  return zs_node_bool (node, &value) ? value
                                     : node != NULL && node->kind == ZS_NODE_SCALAR
                                           && g_ascii_strcasecmp (node->text, "true") == 0;
}

typedef struct {
  const char *key, *path;
} Copied;

static bool
copy_keys (ZsReader *reader, const ZsNode *from, const Copied *rows, size_t n_rows)
{
  bool ok = true;

  for (size_t i = 0; i < n_rows; i++) {
    ZsNode *node = zs_node_get (from, rows[i].key);

    if (node != NULL && !zs_node_is_null (node))
      ok &= zs_reader_put_default (reader, rows[i].path, node);
  }
  return ok;
}

/* The ds_config that accelerate's DeepSpeedPlugin makes of its short keys
 * (accelerate/utils/dataclasses.py). */
static bool
import_deepspeed (ZsReader *reader, const ZsNode *block, const ZsNode *file_given)
{
  static const Copied rows[] = {
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
  const ZsNode *file = zs_node_get (block, "deepspeed_config_file");

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
  bool ok = copy_keys (reader, block, rows, G_N_ELEMENTS (rows));
  const char *const automatic[] = { "train_batch_size", "train_micro_batch_size_per_gpu",
                                    "gradient_accumulation_steps" };

  for (size_t i = 0; i < G_N_ELEMENTS (automatic); i++) {
    g_autofree char *path = g_strconcat ("training.deepspeed.", automatic[i], NULL);
    ZsNode *node = word_at (reader, block, "auto");

    node->quoted = true;
    ok &= zs_reader_put_default (reader, path, node);
  }
  ok &= zs_reader_put_default (reader, "training.deepspeed.zero_allow_untested_optimizer",
                               word_at (reader, block, "true"));
  return ok;
}

static bool
import_fsdp (ZsReader *reader, const ZsNode *block)
{
  static const Copied rows[] = {
    { "fsdp_offload_params", "training.fsdp.cpu_offload" },
    { "fsdp_backward_prefetch", "training.fsdp.backward_prefetch" },
    { "fsdp_limit_all_gathers", "training.fsdp.limit_all_gathers" },
  };
  int64_t version = 1;
  const ZsNode *strategy = zs_node_get (block, "fsdp_sharding_strategy");
  const ZsNode *reshard = zs_node_get (block, "fsdp_reshard_after_forward");
  const ZsNode *checkpointing = zs_node_get (block, "fsdp_activation_checkpointing");
  bool ok = copy_keys (reader, block, rows, G_N_ELEMENTS (rows)), truth;

  zs_node_int (zs_node_get (block, "fsdp_version"), &version);
  ok &= zs_reader_put_default (reader, "training.framework",
                               word_at (reader, block, version == 2 ? "fsdp2" : "fsdp"));
  if (zs_node_bool (reshard, &truth))
    ok &= zs_reader_put_default (reader, "training.fsdp.reshard_after_forward", (ZsNode *)reshard);
  else if (reshard != NULL && strategy == NULL)
    strategy = reshard; /* version 1 wrote the strategy there */
  if (strategy != NULL && strategy->kind == ZS_NODE_SCALAR) {
    const char *text = strategy->text;
    bool grad_op = strcmp (text, "2") == 0 || strstr (text, "SHARD_GRAD_OP") != NULL;
    bool hybrid = strcmp (text, "4") == 0 || strstr (text, "HYBRID") != NULL;

    if (strcmp (text, "3") == 0 || strcmp (text, "NO_SHARD") == 0)
      return zs_reader_put (reader, "training.framework", word_at (reader, strategy, "ddp")) && ok;
    ok &= zs_reader_put_default (reader, "training.fsdp.reshard_after_forward",
                                 word_at (reader, strategy, grad_op ? "false" : "true"));
    ok &= zs_reader_put_default (reader, "training.fsdp.hybrid",
                                 word_at (reader, strategy, hybrid ? "true" : "false"));
  }
  if (is_true (checkpointing))
    ok &= zs_reader_put_default (reader, "training.checkpointing",
                                 word_at (reader, checkpointing, "full"));
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
    ok &= zs_reader_put_default (reader, "training.framework", word_at (reader, type, "deepspeed"));
    if (deepspeed != NULL && deepspeed->kind == ZS_NODE_MAPPING)
      ok &= import_deepspeed (reader, deepspeed, given);
  } else if (strcmp (type->text, "FSDP") == 0) {
    ok &= import_fsdp (reader, fsdp != NULL ? fsdp : root);
  } else if (strcmp (type->text, "MULTI_GPU") == 0) {
    ok &= zs_reader_put_default (reader, "training.framework", word_at (reader, type, "ddp"));
  } else if (strcmp (type->text, "NO") != 0) {
    ok = zs_node_fail (
        type, reader->errors,
        "distributed_type %.40s is not simulated; DEEPSPEED, FSDP, MULTI_GPU and NO are",
        type->text);
  }
  if (precision != NULL && precision->kind == ZS_NODE_SCALAR
      && (strcmp (precision->text, "bf16") == 0 || strcmp (precision->text, "fp16") == 0))
    ok &= zs_reader_put_default (reader, "training.dtype", (ZsNode *)precision);
  else if (precision != NULL && precision->kind == ZS_NODE_SCALAR
           && strcmp (precision->text, "no") == 0)
    ok &= zs_reader_put_default (reader, "training.dtype", word_at (reader, precision, "fp32"));

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

    ok &= zs_reader_put_default (reader, "cluster.gpus_per_node",
                                 word_at (reader, processes, per_node));
  }
  return ok;
}

bool
zs_reader_import_training_args (ZsReader *reader, const char *path)
{
  static const Copied rows[] = {
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
  bool ok = copy_keys (reader, root, rows, G_N_ELEMENTS (rows));
  ZsNode *checkpointing = zs_node_get (root, "gradient_checkpointing");
  ZsNode *reentrant =
      zs_node_get (zs_node_get (root, "gradient_checkpointing_kwargs"), "use_reentrant");
  ZsNode *bf16 = zs_node_get (root, "bf16"), *fp16 = zs_node_get (root, "fp16");
  ZsNode *optimizer = zs_node_get (root, "optim"), *deepspeed = zs_node_get (root, "deepspeed");
  ZsNode *fsdp = zs_node_get (root, "fsdp");

  if (checkpointing != NULL)
    ok &= zs_reader_put_default (
        reader, "training.checkpointing",
        word_at (reader, checkpointing, is_true (checkpointing) ? "full" : "none"));
  if (reentrant != NULL)
    ok &= zs_reader_put_default (reader, "training.reentrant", reentrant);
  if (is_true (bf16) || is_true (fp16))
    ok &= zs_reader_put_default (
        reader, "training.dtype",
        word_at (reader, is_true (bf16) ? bf16 : fp16, is_true (bf16) ? "bf16" : "fp16"));
  if (optimizer != NULL && optimizer->kind == ZS_NODE_SCALAR) {
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

    while (i < G_N_ELEMENTS (optims) && strcmp (optims[i].optim, optimizer->text) != 0)
      i++;
    if (i < G_N_ELEMENTS (optims))
      ok &= zs_reader_put_default (reader, optims[i].key, word_at (reader, optimizer, optims[i].value));
    else
      zs_notes_add (reader->notes, ZS_NOTE_RISKY, "optimizer", optimizer,
                    "optim %s is simulated as adamw_torch, which holds 8 bytes a parameter",
                    optimizer->text);
  }
  if (deepspeed != NULL && !zs_node_is_null (deepspeed))
    ok &=
        zs_reader_put_default (reader, "training.deepspeed", deepspeed) && zs_reader_graft (reader);
  if (fsdp != NULL && fsdp->kind == ZS_NODE_SCALAR && strstr (fsdp->text, "shard") != NULL) {
    ok &= zs_reader_put_default (reader, "training.framework", word_at (reader, fsdp, "fsdp"));
    ok &= zs_reader_put_default (
        reader, "training.fsdp.reshard_after_forward",
        word_at (reader, fsdp, strstr (fsdp->text, "grad_op") ? "false" : "true"));
    ok &= zs_reader_put_default (
        reader, "training.fsdp.cpu_offload",
        word_at (reader, fsdp, strstr (fsdp->text, "offload") ? "true" : "false"));
  }
  return ok;
}
