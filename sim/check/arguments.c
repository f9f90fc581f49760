/* arguments.c: TrainingArguments (and what people put beside them) as JSON.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/base/words.h"
#include "sim/check/check-internal.h"

/* Arguments that matter here, or are often misspelt. */
static const char *const KNOWN[] = { "output_dir",
                                     "per_device_train_batch_size",
                                     "per_device_eval_batch_size",
                                     "gradient_accumulation_steps",
                                     "gradient_checkpointing",
                                     "gradient_checkpointing_kwargs",
                                     "learning_rate",
                                     "weight_decay",
                                     "adam_beta1",
                                     "adam_beta2",
                                     "adam_epsilon",
                                     "max_grad_norm",
                                     "num_train_epochs",
                                     "max_steps",
                                     "lr_scheduler_type",
                                     "warmup_ratio",
                                     "warmup_steps",
                                     "logging_steps",
                                     "save_steps",
                                     "save_strategy",
                                     "save_total_limit",
                                     "eval_steps",
                                     "eval_strategy",
                                     "evaluation_strategy",
                                     "deepspeed",
                                     "optim",
                                     "dataloader_num_workers",
                                     "dataloader_pin_memory",
                                     "torch_compile",
                                     "auto_find_batch_size",
                                     "group_by_length",
                                     "neat_packing",
                                     "pad_to_multiple_of",
                                     "report_to",
                                     "remove_unused_columns",
                                     "ddp_find_unused_parameters",
                                     "low_cpu_mem_usage",
                                     "device_map",
                                     "torch_dtype",
                                     "model_name_or_path",
                                     "load_in_4bit",
                                     "load_in_8bit",
                                     "use_liger_kernel",
                                     "liger_kernel_config",
                                     "enable_liger_kernel",
                                     NULL };

static void
check_names (ZsFindings *findings, const ZsNode *root)
{
  for (int i = 0; i < root->n_items; i++) {
    const ZsNode *key = root->keys[i];

    if (strlen (key->text) < 8 || g_strv_contains (KNOWN, key->text))
      continue;
    for (int k = 0; KNOWN[k] != NULL; k++)
      if (strlen (KNOWN[k]) >= 8 && zs_word_distance (key->text, KNOWN[k]) <= 2) {
        zs_findings_add (findings, ZS_NOTE_RISKY, "unknown-argument", key, KNOWN[k],
                         "'%s' is probably '%s'", key->text, KNOWN[k]);
        break;
      }
  }
}

static void
read_dtype (ZsFindings *findings, const ZsNode *root, ZsDsContext *ds)
{
  bool bf16 = false, fp16 = false;

  zs_node_bool (zs_node_get (root, "bf16"), &bf16);
  zs_node_bool (zs_node_get (root, "fp16"), &fp16);
  if (bf16 && fp16)
    zs_findings_add (findings, ZS_NOTE_ERROR, "both-precisions", zs_node_get_key (root, "fp16"),
                     NULL, "\"At most one of fp16 and bf16 can be True, but not both\"");
  ds->dtype_given = !(bf16 && fp16);
  ds->dtype = bf16 ? ZS_DTYPE_BF16 : fp16 ? ZS_DTYPE_FP16 : ZS_DTYPE_FP32;
}

/* transformers' from_pretrained refuses these under ZeRO-3. */
static void
check_stage_3 (ZsFindings *findings, const ZsNode *root)
{
  static const char *const WORDS[] = { "device_map", "low_cpu_mem_usage" };

  for (size_t i = 0; i < G_N_ELEMENTS (WORDS); i++) {
    const ZsNode *value = zs_node_get (root, WORDS[i]);
    bool truth;

    if (value == NULL || zs_node_is_null (value) || (zs_node_bool (value, &truth) && !truth))
      continue;
    zs_findings_add (findings, ZS_NOTE_ERROR, "device-map-with-stage-3",
                     zs_node_get_key (root, WORDS[i]), NULL,
                     "\"DeepSpeed Zero-3 is not compatible with `low_cpu_mem_usage=True` or with "
                     "passing a `device_map`\": leave '%s' out",
                     WORDS[i]);
  }
}

/* PEFT trains whole copies of these modules; the gathering of ZeRO-3 does not reach them. */
static void
check_modules_to_save (ZsFindings *findings, const ZsNode *root)
{
  static const char *const WORDS[] = { "modules_to_save", "additional_target" };

  for (size_t i = 0; i < G_N_ELEMENTS (WORDS); i++) {
    const ZsNode *value = zs_node_get (root, WORDS[i]);

    if (value != NULL && !zs_node_is_null (value)
        && (value->n_items > 0 || value->kind == ZS_NODE_SCALAR))
      zs_findings_add (
          findings, ZS_NOTE_RISKY, "modules-to-save-with-stage-3", zs_node_get_key (root, WORDS[i]),
          NULL,
          "LoRA with whole modules trained beside it (embeddings, head) is not supported "
          "under ZeRO-3 by several recipes; they use ZeRO-2 for it");
  }
}

void
zs_check_arguments (ZsFindings *findings, const ZsNode *root, const ZsCheckOptions *given)
{
  const ZsNode *deepspeed = zs_node_get (root, "deepspeed");
  ZsCheckOptions options = *given;
  ZsDsContext *ds = &options.ds;
  bool truth = false;
  int64_t number;
  int stage = -1;

  ds->caller = ZS_DS_HUGGING_FACE;
  ds->micro_batch = zs_node_int (zs_node_get (root, "per_device_train_batch_size"), &number)
                        ? number
                        : 8; /* transformers' default */
  ds->accumulation =
      zs_node_int (zs_node_get (root, "gradient_accumulation_steps"), &number) ? number : 1;
  ds->max_grad_norm = 1.0;
  ds->clipping_must_match = true;
  zs_node_number (zs_node_get (root, "max_grad_norm"), &ds->max_grad_norm);
  read_dtype (findings, root, ds);
  options.load_in_4bit |= zs_node_bool (zs_node_get (root, "load_in_4bit"), &truth) && truth;
  const ZsNode *model = zs_node_get (root, "model_name_or_path");

  options.mixture |= model != NULL && model->kind == ZS_NODE_SCALAR && zs_check_is_mixture (model->text);
  check_names (findings, root);
  if (deepspeed == NULL || zs_node_is_null (deepspeed)
      || (deepspeed->kind == ZS_NODE_SCALAR && *deepspeed->text == '\0'))
    return;
  if (deepspeed->kind == ZS_NODE_SCALAR)
    stage = zs_check_ds_path (findings, deepspeed, root->file, &options);
  else
    stage = zs_check_ds_root (findings, deepspeed, &options);
  if (stage == 3) {
    check_stage_3 (findings, root);
    check_modules_to_save (findings, root);
  }
  truth = false;
  if (!zs_node_bool (zs_node_get (root, "gradient_checkpointing"), &truth) || !truth)
    truth = zs_scenario_checkpoints_unasked (root);
  if (!truth) {
    const ZsNode *key = zs_node_get_key (root, "gradient_checkpointing");

    zs_findings_add (findings, ZS_NOTE_INFO, "checkpointing-off", key != NULL ? key : root,
                     "\"gradient_checkpointing\": true",
                     "gradient_checkpointing is off: the activations of every layer are kept for "
                     "backward, whatever the ds_config says about activation_checkpointing");
  }
}
