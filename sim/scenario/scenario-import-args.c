/* scenario-import-args.c: Hugging Face's TrainingArguments beside a scenario.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/base/words.h"
#include "sim/scenario/ds-config.h"
#include "sim/scenario/scenario-import.h"

/* TrainingArguments stand beside many keys of other programs: only what is a letter or two from a key
 * that is read is spoken of. */
static void
note_misspelt (ZsReader *reader, const ZsNode *root, const ZsImportKey *rows, size_t n_rows)
{
  static const char *const others[] = { "bf16", "fp16", "optim", "fsdp", "fsdp_config", "deepspeed",
                                        "gradient_checkpointing", "gradient_checkpointing_kwargs",
                                        "ddp_find_unused_parameters", "ddp_bucket_cap_mb",
                                        "use_liger_kernel", "liger_kernel_config", "enable_liger_kernel" };

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

/* What Trainer does that is no argument, as measured with it (docs/memory.md): two groups of parameters, and
 * a mask in every batch; and the size of a batch where none is given (training_args.py). */
static bool
import_defaults (ZsReader *reader, const ZsNode *root)
{
  static const ZsImportKey rows[] = {
    { "true", "training.hugging_face" },
    { "true", "training.new_inputs" },
    { "ones", "training.attention_mask" },
    { "2", "training.optimizer.groups" },
    { "8", "training.micro_batch" },
  };
  const ZsNode *config = zs_reader_find (reader, "training.deepspeed");
  const ZsNode *said = config != NULL ? zs_ds_config_get (config, "train_micro_batch_size_per_gpu") : NULL;
  const ZsNode *checkpointing = zs_node_get (root, "gradient_checkpointing");
  size_t n = G_N_ELEMENTS (rows);
  bool ok = true;
  int64_t number;

  reader->trainer = true;
  if (said != NULL && zs_node_int (said, &number))
    n--;   /* the last row: what the ds_config says must be what the arguments say */
  else if (zs_reader_find (reader, "training.micro_batch") == NULL)
    zs_notes_add (reader->notes, ZS_NOTE_INFO, "default-batch", root,
                  "per_device_train_batch_size is not given: transformers' 8 is taken");
  for (size_t i = 0; i < n; i++)
    ok &= zs_reader_put_default (reader, rows[i].path, zs_import_at (reader, root, rows[i].key));
  if (checkpointing != NULL && !zs_node_is_null (checkpointing))   /* false, and fsdp_config does not say so either */
    ok &= zs_reader_put_default (reader, "training.checkpointing", zs_import_at (reader, checkpointing, "none"));
  return ok;
}

/* Numbers that the ds_config must not say otherwise (trainer_config_process () in integrations/deepspeed.py; the
 * defaults are TrainingArguments', of which TRL has its own for learning_rate).  Those of the batch are the
 * ds_config reader's. */
static bool
check_agreement (ZsReader *reader, const ZsNode *root)
{
  static const struct {
    const char *argument, *path;
    double      missing;   /* where it is not given */
    int         item;      /* of a list; -1: it is none */
  } rows[] = {
    { "learning_rate", "optimizer.params.lr", 5e-5, -1 },
    { "learning_rate", "scheduler.params.warmup_max_lr", 5e-5, -1 },
    { "adam_epsilon", "optimizer.params.eps", 1e-8, -1 },
    { "weight_decay", "optimizer.params.weight_decay", 0, -1 },
    { "adam_beta1", "optimizer.params.betas", 0.9, 0 },
    { "adam_beta2", "optimizer.params.betas", 0.999, 1 },
    { "max_grad_norm", "gradient_clipping", 1, -1 },
  };
  const ZsNode *config = zs_reader_find (reader, "training.deepspeed");
  bool ok = true;

  for (size_t i = 0; config != NULL && i < G_N_ELEMENTS (rows); i++) {
    const ZsNode *argument = zs_node_get (root, rows[i].argument), *node = zs_ds_config_get (config, rows[i].path);
    double mine = rows[i].missing, theirs;

    if (rows[i].item >= 0)
      node = node != NULL && node->kind == ZS_NODE_SEQUENCE && node->n_items > rows[i].item ? node->items[rows[i].item]
                                                                                          : NULL;
    if (argument == NULL && zs_import_is_trl (root))
      continue;
    if (node == NULL || node->quoted || !zs_node_number (node, &theirs)
        || (argument != NULL && !zs_node_number (argument, &mine)) || mine == theirs)
      continue;
    const char *dot = strrchr (rows[i].path, '.'), *key = dot != NULL ? dot + 1 : rows[i].path;

    if (argument != NULL)
      ok = zs_node_fail (node, reader->errors,
                         "'%s' is %g here but %g in the training arguments (%s): \"Please correct the following DeepSpeed "
                         "config values that mismatch TrainingArguments\"", key, theirs, mine, rows[i].argument);
    else
      zs_notes_add (reader->notes, ZS_NOTE_RISKY, "differs-from-arguments", node,
                    "'%s' is %g here: unless %s is given as that and not left at its default of %g, transformers ends",
                    key, theirs, rows[i].argument, mine);
  }
  return ok;
}

/* gradient_checkpointing_kwargs: `every_n_layers` since transformers 5. */
static bool
import_checkpointing (ZsReader *reader, const ZsNode *root)
{
  const ZsNode *kwargs = zs_node_get (root, "gradient_checkpointing_kwargs");
  ZsNode *checkpointing = zs_node_get (root, "gradient_checkpointing");
  ZsNode *reentrant = zs_node_get (kwargs, "use_reentrant"), *every = zs_node_get (kwargs, "every_n_layers");
  const ZsNode *offload = zs_node_get (kwargs, "offload");
  bool on = false, offloaded = false, ok = zs_import_switch (reader, root, "gradient_checkpointing", &on);

  if (on && every != NULL && !zs_node_is_null (every))
    ok &= zs_reader_find (reader, "training.checkpointing") != NULL
          || zs_reader_put (reader, "training.checkpointing.every", every);
  if (on)
    ok &= zs_reader_put_default (reader, "training.checkpointing", zs_import_at (reader, checkpointing, "full"));
  if (reentrant != NULL && !zs_node_is_null (reentrant))
    ok &= zs_reader_put_default (reader, "training.reentrant", reentrant);
  if (on && offload != NULL && zs_import_truth (offload, &offloaded) && offloaded)
    zs_notes_add (reader->notes, ZS_NOTE_RISKY, "not-simulated", offload,
                  "activations in host memory are not simulated: they stay on the GPU");
  return ok;
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
  const ZsNode *root = zs_import_load (reader, path);

  if (root == NULL)
    return false;
  if (root->kind != ZS_NODE_MAPPING)
    return zs_node_fail (root, reader->errors, "TrainingArguments must be an object, not %s",
                         zs_node_describe (root));
  bool ok = zs_import_keys (reader, root, rows, G_N_ELEMENTS (rows));
  bool bf16_on = false, fp16_on = false, sharded = false;
  ZsNode *bf16 = zs_node_get (root, "bf16"), *fp16 = zs_node_get (root, "fp16");
  ZsNode *deepspeed = zs_node_get (root, "deepspeed");

  if (zs_node_is_null (deepspeed) || (deepspeed != NULL && deepspeed->kind == ZS_NODE_SCALAR && *deepspeed->text == '\0'))
    deepspeed = NULL;
  ZsNode *fsdp = zs_node_get (root, "fsdp");

  note_misspelt (reader, root, rows, G_N_ELEMENTS (rows));
  ok &= import_checkpointing (reader, root);
  /* Axolotl's "auto" is what the GPU has, "full" also the weights */
  if (zs_import_is_axolotl (root) && bf16 != NULL && bf16->kind == ZS_NODE_SCALAR
      && (strcmp (bf16->text, "auto") == 0 || strcmp (bf16->text, "full") == 0))
    bf16_on = true;
  else
    ok &= zs_import_switch (reader, root, "bf16", &bf16_on);
  ok &= zs_import_switch (reader, root, "fp16", &fp16_on);
  if (bf16_on && fp16_on)
    ok = zs_node_fail (fp16, reader->errors,
                       "transformers: \"At most one of fp16 and bf16 can be True, but not both\"");
  if (bf16_on || fp16_on)
    ok &= zs_import_precision (reader, bf16_on ? bf16 : fp16, bf16_on ? "bf16" : "fp16");
  ok &= zs_import_optim (reader, root);
  if (deepspeed != NULL)
    ok &=
        zs_reader_put_default (reader, "training.deepspeed", deepspeed) && zs_reader_graft (reader)
        && check_agreement (reader, root);
  ok &= zs_import_recipe (reader, root);
  ok &= zs_import_lengths (reader, root);
  if (fsdp != NULL)
    ok &= zs_import_fsdp_words (reader, root, fsdp, &sharded);
  if (sharded && deepspeed != NULL)
    ok = zs_node_fail (fsdp, reader->errors,
                       "transformers: \"Using --fsdp xxx together with --deepspeed is not possible, deactivate "
                       "one of those flags.\"");
  if (!sharded && deepspeed == NULL)
    ok &= zs_import_keys (reader, root, ddp_rows, G_N_ELEMENTS (ddp_rows));
  return ok && import_defaults (reader, root);
}
