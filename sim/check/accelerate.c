/* accelerate.c: the YAML of `accelerate config`.  SPDX-License-Identifier: MIT
 *
 * What it says becomes the ds_config that accelerate would make of it (DeepSpeedPlugin in
 * accelerate/utils/dataclasses.py), each value at its place in the YAML, and the rules run on that.
 */
#include "config.h"

#include <string.h>

#include "sim/base/words.h"
#include "sim/check/check-internal.h"

/* Where accelerate puts its words. */
static const struct {
  const char *word, *path;
  bool refused_beside_file; /* "the following accelerate config variables will be ignored" */
} WORDS[] = {
  { "zero_stage", "zero_optimization.stage", true },
  { "offload_optimizer_device", "zero_optimization.offload_optimizer.device", true },
  { "offload_optimizer_nvme_path", "zero_optimization.offload_optimizer.nvme_path", false },
  { "offload_param_device", "zero_optimization.offload_param.device", true },
  { "offload_param_nvme_path", "zero_optimization.offload_param.nvme_path", false },
  { "zero3_save_16bit_model", "zero_optimization.stage3_gather_16bit_weights_on_model_save", true },
  { "gradient_accumulation_steps", "gradient_accumulation_steps", true },
  { "gradient_clipping", "gradient_clipping", true },
};
static const char *const OTHER_WORDS[] = { "deepspeed_config_file",
                                           "deepspeed_hostfile",
                                           "deepspeed_multinode_launcher",
                                           "deepspeed_exclusion_filter",
                                           "deepspeed_inclusion_filter",
                                           "zero3_init_flag",
                                           "deepspeed_moe_layer_cls_names",
                                           "msamp_opt_level",
                                           "enable_msamp",
                                           NULL };

static void
put (ZsDocument *document, const char *path, const ZsNode *key, const ZsNode *value)
{
  g_auto (GStrv) words = g_strsplit (path, ".", -1);
  ZsNode *at = zs_document_root (document), *copy = zs_document_copy (document, value, NULL);

  for (int i = 0; copy != NULL; i++) {
    bool last = words[i + 1] == NULL;
    ZsNode *section = last ? copy : zs_node_get (at, words[i]);

    if (section == NULL)
      section = zs_document_node (document, ZS_NODE_MAPPING, key->line, key->column, NULL);
    if (zs_node_get (at, words[i]) == NULL) {
      ZsNode *name = zs_document_scalar (document, key->line, key->column, words[i],
                                         strlen (words[i]), true, NULL);

      zs_node_add (at, name, section, NULL);
    }
    if (last)
      return;
    at = section;
  }
}

static void
check_names (ZsFindings *findings, const ZsNode *block)
{
  const char *names[G_N_ELEMENTS (WORDS) + G_N_ELEMENTS (OTHER_WORDS)];
  size_t n = 0;

  for (size_t i = 0; i < G_N_ELEMENTS (WORDS); i++)
    names[n++] = WORDS[i].word;
  for (size_t i = 0; i < G_N_ELEMENTS (OTHER_WORDS); i++)
    names[n++] = OTHER_WORDS[i]; /* with the NULL */
  for (int i = 0; i < block->n_items; i++) {
    const ZsNode *key = block->keys[i];
    const char *near;

    if (g_strv_contains (names, key->text))
      continue;
    near = zs_nearest_word (key->text, names);
    if (strcmp (key->text, "train_micro_batch_size_per_gpu") == 0)
      zs_findings_add (
          findings, ZS_NOTE_IGNORED, "foreign-key", key, NULL,
          "accelerate takes the micro-batch from the data loader: '%s' is not read here",
          key->text);
    else
      zs_findings_add (findings, ZS_NOTE_IGNORED, "unknown-key", key, near,
                       "accelerate has no '%s' in deepspeed_config: it is not read%s%s%s",
                       key->text, near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                       near != NULL ? "'?" : "");
  }
}

static bool
check_file (ZsFindings *findings, const ZsNode *root, const ZsNode *block,
            const ZsCheckOptions *options, int *ret_stage)
{
  const ZsNode *file = zs_node_get (block, "deepspeed_config_file");
  const ZsNode *precision = zs_node_get_key (root, "mixed_precision");
  g_autoptr (GString) names = g_string_new (NULL);
  const ZsNode *first = NULL;

  if (file == NULL || zs_node_is_null (file) || file->kind != ZS_NODE_SCALAR)
    return false;
  for (size_t i = 0; i < G_N_ELEMENTS (WORDS) + 1; i++) {
    const ZsNode *key =
        i < G_N_ELEMENTS (WORDS) ? zs_node_get_key (block, WORDS[i].word) : precision;

    if (key == NULL || (i < G_N_ELEMENTS (WORDS) && !WORDS[i].refused_beside_file))
      continue;
    g_string_append_printf (names, "%s'%s'", names->len > 0 ? ", " : "", key->text);
    first = first != NULL ? first : key;
  }
  if (first != NULL)
    zs_findings_add (
        findings, ZS_NOTE_ERROR, "file-and-keys", first, NULL,
        "\"When using `deepspeed_config_file`, the following accelerate config variables "
        "will be ignored: [%s]\": a ValueError; say each in one place only",
        names->str);
  *ret_stage = zs_check_ds_path (findings, file, root->file, options);
  return true;
}

/* Without a policy FSDP makes one unit of the whole model. */
static void
check_fsdp (ZsFindings *findings, const ZsNode *root, const ZsNode *type)
{
  const ZsNode *config = zs_node_get (root, "fsdp_config");
  const ZsNode *block = config != NULL ? config : root;   /* accelerate first wrote the keys in the file itself */
  const char *const *known = zs_scenario_fsdp_keys ();
  const ZsNode *policy = NULL, *place = type;
  bool mapping = block->kind == ZS_NODE_MAPPING;

  for (int i = 0; mapping && i < block->n_items; i++) {
    const ZsNode *key = block->keys[i];
    size_t skip = g_str_has_prefix (key->text, "fsdp_") ? strlen ("fsdp_") : 0;
    const char *near = zs_nearest_word (key->text + skip, known);
    g_autofree char *right = near != NULL ? g_strconcat (skip > 0 ? "fsdp_" : "", near, NULL) : NULL;

    if (strcmp (key->text + skip, "auto_wrap_policy") == 0 && !zs_node_is_null (block->items[i])) {
      policy = block->items[i];
      place = key;
    }
    if (block == config && !g_strv_contains (known, key->text + skip))
      zs_findings_add (findings, ZS_NOTE_IGNORED, "unknown-key", key, right,
                       "accelerate has no '%s' in fsdp_config: it is not read%s%s%s", key->text,
                       right != NULL ? "; did you mean '" : "", right != NULL ? right : "", right != NULL ? "'?" : "");
  }
  if (policy == NULL || (policy->kind == ZS_NODE_SCALAR && g_ascii_strcasecmp (policy->text, "NO_WRAP") == 0))
    zs_findings_add (findings, ZS_NOTE_RISKY, "no-wrapping", place, "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
                     "without an auto_wrap_policy the whole model is one unit, which is gathered at once: "
                     "nothing is saved in forward and backward");
}

void
zs_check_accelerate (ZsFindings *findings, const ZsNode *root, const ZsCheckOptions *given)
{
  const ZsNode *block = zs_node_get (root, "deepspeed_config");
  const ZsNode *type = zs_node_get (root, "distributed_type");
  const ZsNode *precision = zs_node_get (root, "mixed_precision");
  ZsCheckOptions options = *given;
  int64_t processes, machines;
  int stage = -1;
  bool init;

  if (block == NULL || block->kind != ZS_NODE_MAPPING) {
    bool is_deepspeed = type != NULL && type->kind == ZS_NODE_SCALAR
                        && g_ascii_strcasecmp (type->text, "DEEPSPEED") == 0;

    zs_findings_add (
        findings, is_deepspeed ? ZS_NOTE_ERROR : ZS_NOTE_INFO,
        is_deepspeed ? "zero-missing" : "not-deepspeed", type != NULL ? type : root, NULL,
        is_deepspeed ? "distributed_type is DEEPSPEED, but there is no deepspeed_config"
                     : "this accelerate file does not use DeepSpeed: only what a run would refuse is looked for");
    if (type != NULL && type->kind == ZS_NODE_SCALAR && strcmp (type->text, "FSDP") == 0)
      check_fsdp (findings, root, type);
    return;
  }
  options.ds.caller = ZS_DS_HUGGING_FACE;
  if (options.ds.world <= 0 && zs_node_int (zs_node_get (root, "num_processes"), &processes)
      && processes > 0) {
    options.ds.world = options.ds.node_ranks = processes;
    if (zs_node_int (zs_node_get (root, "num_machines"), &machines) && machines > 0)
      options.ds.node_ranks = MAX (processes / machines, 1);
  }
  if (precision != NULL && precision->kind == ZS_NODE_SCALAR) {
    options.ds.dtype_given = true;
    options.ds.dtype = strcmp (precision->text, "bf16") == 0   ? ZS_DTYPE_BF16
                       : strcmp (precision->text, "fp16") == 0 ? ZS_DTYPE_FP16
                                                               : ZS_DTYPE_FP32;
  }
  check_names (findings, block);
  if (!check_file (findings, root, block, &options, &stage)) {
    ZsDocument *document = zs_document_new (root->file);

    zs_findings_take (findings, document);
    zs_document_set_root (
        document, zs_document_node (document, ZS_NODE_MAPPING, root->line, root->column, NULL));
    for (size_t i = 0; i < G_N_ELEMENTS (WORDS); i++) {
      const ZsNode *key = zs_node_get_key (block, WORDS[i].word);

      if (key != NULL)
        put (document, WORDS[i].path, key, zs_node_get (block, WORDS[i].word));
    }
    ZsNode *automatic = zs_document_flag (document, root->file, "auto");

    zs_node_put (document, zs_document_root (document), "train_micro_batch_size_per_gpu",
                 automatic);
    stage = zs_check_ds_root (findings, zs_document_root (document), &options);
  }
  if (zs_node_bool (zs_node_get (block, "zero3_init_flag"), &init)) {
    const ZsNode *key = zs_node_get_key (block, "zero3_init_flag");

    if (init && stage >= 0 && stage < 3)
      zs_findings_add (
          findings, ZS_NOTE_DEAD, "dead-key", key, NULL,
          "zero3_init_flag acts in stage 3 only; in stage %d accelerate sets it to false", stage);
    else if (!init && stage == 3)
      zs_findings_add (findings, ZS_NOTE_RISKY, "whole-model-at-load", key, "true",
                       "without zero.Init every rank loads the whole model and moves it to its GPU "
                       "before it is sharded");
  }
}
