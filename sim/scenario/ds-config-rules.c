/* ds-config-rules.c: what stops a start-up though each value by itself is fine.
 * SPDX-License-Identifier: MIT
 *
 * One function per rule and one row in RULES.  Texts in quotes are DeepSpeed's own.  The batch
 * identity and the precisions are checked where they are filled in. */
#include "config.h"

#include <string.h>

#include "sim/base/words.h"
#include "sim/scenario/ds-config-internal.h"

#define ZERO "zero_optimization."

static bool
is_given (const ZsDsExam *exam, const char *path)
{
  return zs_ds_get (exam, path) != NULL;
}

/* The word at PATH, or NULL. */
static const char *
word_at (const ZsDsExam *exam, const char *path)
{
  const ZsNode *node = zs_ds_get (exam, path);

  return node != NULL && node->kind == ZS_NODE_SCALAR ? node->text : NULL;
}

static bool
device_is (const ZsDsExam *exam, const char *block, const char *device)
{
  g_autofree char *path = g_strconcat (block, ".device", NULL);

  return g_strcmp0 (word_at (exam, path), device) == 0;
}

static void
stage_missing (const ZsDsExam *exam)
{
  const ZsNode *section = zs_node_get (exam->root, "zero_optimization");

  if (section != NULL && section->kind == ZS_NODE_MAPPING && section->n_items > 0
      && zs_node_get (section, "stage") == NULL)
    zs_ds_say (exam, ZS_NOTE_RISKY, "stage-missing", zs_ds_place (exam, "zero_optimization"),
               "\"stage\": 3",
               "no stage is given: it is 0, ZeRO is off and the other keys of the "
               "section have no effect");
}

static void
section_missing (const ZsDsExam *exam)
{
  if (!is_given (exam, "zero_optimization") && exam->context->caller != ZS_DS_PLAIN)
    zs_ds_say (exam, exam->context->caller == ZS_DS_EITHER ? ZS_NOTE_INFO : ZS_NOTE_ERROR,
               "zero-missing", exam->root, "\"zero_optimization\": {\"stage\": 2}",
               "accelerate: \"Please specify the ZeRO optimization config in the DeepSpeed "
               "config\"");
}

static void
old_and_new_names (const ZsDsExam *exam)
{
  static const char *const PAIRS[][2] = {
    { ZERO "cpu_offload", ZERO "offload_optimizer" },
    { ZERO "cpu_offload_param", ZERO "offload_param" },
    { ZERO "stage3_gather_fp16_weights_on_model_save",
      ZERO "stage3_gather_16bit_weights_on_model_save" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (PAIRS); i++)
    if (is_given (exam, PAIRS[i][0]) && is_given (exam, PAIRS[i][1]))
      zs_ds_say (exam, ZS_NOTE_ERROR, "old-and-new-name", zs_ds_place (exam, PAIRS[i][0]), NULL,
                 "\"Cannot provide deprecated parameter '%s' and replacing parameter '%s' "
                 "together\"",
                 zs_ds_key_word (zs_ds_key_find (PAIRS[i][0])),
                 zs_ds_key_word (zs_ds_key_find (PAIRS[i][1])));
}

static void
two_names_of_one_key (const ZsDsExam *exam)
{
  const ZsNode *section = zs_node_get (exam->root, "zero_optimization");

  for (int i = 0; i < zs_ds_n_aliases (); i++) {
    const char *name, *key, *dot;

    zs_ds_alias (i, &name, &key);
    if ((dot = strrchr (name, '.')) == NULL)
      continue;
    const ZsNode *other = zs_node_get_key (section, dot + 1);

    if (other != NULL && zs_node_get_key (section, strrchr (key, '.') + 1) != NULL)
      zs_ds_say (exam, ZS_NOTE_RISKY, "two-names", other, NULL,
                 "'%s' is another name of '%s', which is given too", dot + 1,
                 strrchr (key, '.') + 1);
  }
}

static void
nvme_without_path (const ZsDsExam *exam)
{
  static const char *const BLOCKS[] = { ZERO "offload_param", ZERO "offload_optimizer" };

  for (size_t i = 0; i < G_N_ELEMENTS (BLOCKS); i++) {
    g_autofree char *path = g_strconcat (BLOCKS[i], ".nvme_path", NULL);
    g_autofree char *device = g_strconcat (BLOCKS[i], ".device", NULL);

    if (!device_is (exam, BLOCKS[i], "nvme"))
      continue;
    if (exam->stage < 3)
      zs_ds_say (exam, ZS_NOTE_DEAD, "nvme-below-stage-3", zs_ds_place (exam, device), "\"cpu\"",
                 i == 0 ? "offload_param acts in stage 3 only"
                        : "stages 1 and 2 have no NVMe tier: \"nvme\" is taken as \"cpu\"");
    else if (zs_node_is_null (zs_ds_get (exam, path)) || !is_given (exam, path))
      zs_ds_say (exam, ZS_NOTE_ERROR, "nvme-without-path", zs_ds_place (exam, device),
                 "\"nvme_path\": \"/local_nvme\"",
                 i == 0 ? "\"\"nvme_path\" in DeepSpeed Config cannot be None\""
                        : "there is no nvme_path: os.path.join fails with a TypeError");
  }
}

static void
ratio_outside_stage_3 (const ZsDsExam *exam)
{
  const char *path = ZERO "offload_optimizer.ratio";

  if (is_given (exam, path) && exam->stage < 3 && zs_ds_number (exam, path) < 1
      && zs_ds_behaves (exam, ZS_BEHAVIOUR_PYDANTIC2))
    zs_ds_say (exam, ZS_NOTE_ERROR, "ratio-outside-stage-3", zs_ds_place (exam, path), NULL,
               "\"Partial offloading only supported for ZeRO Stage 3\"");
}

static void
stage_3_refusals (const ZsDsExam *exam)
{
  if (exam->stage == 3 && zs_ds_truth (exam, ZERO "elastic_checkpoint"))
    zs_ds_say (exam, ZS_NOTE_ERROR, "stage-3-refuses",
               zs_ds_place (exam, ZERO "elastic_checkpoint"), "false",
               "stage 3 refuses \"elastic_checkpoint\": true");
}

static void
states_without_master (const ZsDsExam *exam)
{
  if (zs_ds_truth (exam, "bf16.bf16_optimizer_states")
      && !zs_ds_truth (exam, "bf16.bf16_master_weights_and_grads"))
    zs_ds_say (exam, ZS_NOTE_ERROR, "bf16-states-without-master",
               zs_ds_place (exam, "bf16.bf16_optimizer_states"),
               "\"bf16_master_weights_and_grads\": true",
               "bf16_optimizer_states needs bf16_master_weights_and_grads");
}

/* engine.py, _do_optimizer_sanity_check: which wrapper stage 0 has for bf16. */
static void
stage_0_in_bf16 (const ZsDsExam *exam)
{
  const ZsZeroConfig *zero = &exam->config->zero;
  bool new = zs_ds_behaves (exam, ZS_BEHAVIOUR_STAGE0_BF16_FP16_OPTIMIZER);

  if (exam->stage != 0 || zero->dtype != ZS_DTYPE_BF16
      || (zs_ds_get (exam, "zero_optimization.stage") == NULL
          && exam->context->caller != ZS_DS_PLAIN))
    return;
  if (!new && zero->grad_accum_dtype == ZS_DTYPE_BF16)
    zs_ds_say (exam, ZS_NOTE_ERROR, "stage-0-bf16", zs_ds_place (exam, "zero_optimization.stage"),
               "\"data_types\": {\"grad_accum_dtype\": \"fp32\"}",
               "stage 0 in bf16 is not implemented before DeepSpeed 0.17.6 unless gradients are "
               "accumulated in fp32");
  else if (new && zero->grad_accum_dtype == ZS_DTYPE_FP32)
    zs_ds_say (exam, ZS_NOTE_ERROR, "stage-0-bf16",
               zs_ds_place (exam, "data_types.grad_accum_dtype"), NULL,
               "stage 0 in bf16 with fp32 gradient accumulation is refused since DeepSpeed 0.17.6");
}

static void
prescaling_in_stage_2 (const ZsDsExam *exam)
{
  if (exam->stage != 2 || !exam->config->zero.reduce_scatter)
    return;
  if (zs_ds_truth (exam, "prescale_gradients"))
    zs_ds_say (exam, ZS_NOTE_ERROR, "prescale-stage-2", zs_ds_place (exam, "prescale_gradients"),
               "false",
               "\"pre-scale gradients is not yet supported with ZeRO-2 with reduce scatter "
               "enabled\"");
  if (zs_ds_number (exam, "gradient_predivide_factor") != 1)
    zs_ds_say (exam, ZS_NOTE_ERROR, "prescale-stage-2",
               zs_ds_place (exam, "gradient_predivide_factor"), "1.0",
               "\"gradient_predivide_factor != 1.0 is not yet supported with ZeRO-2 with reduce "
               "scatter enabled\"");
}

static void
zenflow_without_offload (const ZsDsExam *exam)
{
  const ZsNode *node = zs_ds_get (exam, ZERO "zenflow");

  if (node != NULL && !zs_node_is_null (node)
      && exam->config->zero.offload_optimizer == ZS_DEVICE_NONE)
    zs_ds_say (exam, ZS_NOTE_ERROR, "zenflow-without-offload", zs_ds_place (exam, ZERO "zenflow"),
               NULL, "zenflow needs an offloaded optimizer");
}

/* What changes bytes or times and is not in the simulator: said, not passed over. */
static void
not_simulated (const ZsDsExam *exam)
{
  static const struct {
    const char *path, *what;
  } KEYS[] = {
    { ZERO "zenflow.topk_ratio", "ZenFlow" },
    { ZERO "zenflow", "ZenFlow" },
    { ZERO "offload_optimizer.super_offload", "SuperOffload" },
    { "compile.deepcompile", "DeepCompile" },
    { "tensor_parallel.autotp_size", "tensor parallelism" },
    { "sequence_parallel_size", "sequence parallelism" },
    { "hybrid_engine.enabled", "the hybrid engine" },
  };
  const char *said = "";

  for (size_t i = 0; i < G_N_ELEMENTS (KEYS); i++) {
    const ZsNode *node = zs_ds_get (exam, KEYS[i].path);
    double number;
    bool truth;

    if (node == NULL || zs_node_is_null (node) || strcmp (said, KEYS[i].what) == 0
        || (zs_node_bool (node, &truth) && !truth) || (zs_node_number (node, &number) && number <= 1
                                                       && strstr (KEYS[i].path, "size") != NULL))
      continue;
    said = KEYS[i].what;
    zs_ds_say (exam, ZS_NOTE_RISKY, "not-simulated", node, NULL,
               "%s is not simulated: the result is that of the same file without it", said);
  }
}

/* swap_tensor/partitioned_optimizer_swapper.py: the first step asserts that there are enough. */
static void
nvme_buffers (const ZsDsExam *exam)
{
  const ZsZeroConfig *zero = &exam->config->zero;
  int64_t need = 4 + 4 * (zero->optimizer_pipeline_read + zero->optimizer_pipeline_write);

  if (zero->offload_optimizer != ZS_DEVICE_NVME || zero->optimizer_buffer_count >= need)
    return;
  g_autofree char *instead = g_strdup_printf ("%" G_GINT64_FORMAT, need);

  zs_ds_say (exam, zero->optimizer_buffer_count < 4 ? ZS_NOTE_ERROR : ZS_NOTE_RISKY, "nvme-buffers",
             zs_ds_place (exam, ZERO "offload_optimizer.buffer_count"), instead,
             "Adam on NVMe needs 4 buffers per sub-group, and about 4 more for each of "
             "pipeline_read and pipeline_write; with %" G_GINT64_FORMAT
             " the first step aborts and asks for more",
             zero->optimizer_buffer_count);
}

static void
amp_with_zero (const ZsDsExam *exam)
{
  bool enabled;

  if (exam->stage > 0 && zs_node_bool (zs_ds_get (exam, "amp.enabled"), &enabled) && enabled)
    zs_ds_say (exam, ZS_NOTE_ERROR, "amp-with-zero", zs_ds_place (exam, "amp"), "\"bf16\"",
               "Apex amp and ZeRO are refused together");
}

/* The names of engine.py's own optimizers; ZeRO takes only SUPPORTED without being told. */
static void
optimizer_type (const ZsDsExam *exam)
{
  static const char *const OWN[] = { "adam",       "adamw",       "adagrad",    "lion",   "lamb",
                                     "onebitadam", "zerooneadam", "onebitlamb", "muadam", "muadamw",
                                     "musgd",      "muon",        NULL };
  static const char *const TORCH[] = { "SGD",      "Adam",   "AdamW",      "RMSprop",   "Adagrad",
                                       "Adadelta", "Adamax", "ASGD",       "NAdam",     "RAdam",
                                       "Rprop",    "LBFGS",  "SparseAdam", "Adafactor", NULL };
  static const char *const SUPPORTED[] = { "adam", "adamw", "adagrad", "lion", "muon", NULL };
  static const char *const ONE_BIT[] = { "onebitadam", "zerooneadam", "onebitlamb", NULL };
  const char *type = word_at (exam, "optimizer.type");
  const ZsNode *node = zs_ds_get (exam, "optimizer.type");

  if (type == NULL)
    return;
  g_autofree char *lower = g_ascii_strdown (type, -1);

  if (!g_strv_contains (OWN, lower) && !g_strv_contains (TORCH, type)) {
    const char *near = zs_nearest_word (type, TORCH);
    g_autofree char *instead = near != NULL ? g_strdup_printf ("\"%s\"", near) : NULL;

    zs_ds_say (exam, ZS_NOTE_ERROR, "unknown-optimizer", node, instead,
               "DeepSpeed has no optimizer \"%s\", and torch.optim neither", type);
    return;
  }
  if (exam->stage >= 2 && g_strv_contains (ONE_BIT, lower))
    zs_ds_say (exam, ZS_NOTE_ERROR, "one-bit-with-zero", node, NULL,
               "%s cannot be used with ZeRO stage %d", type, exam->stage);
  else if (exam->stage > 0 && !g_strv_contains (SUPPORTED, lower)
           && !zs_ds_truth (exam, "zero_allow_untested_optimizer"))
    zs_ds_say (exam, ZS_NOTE_ERROR, "untested-optimizer", node,
               "\"zero_allow_untested_optimizer\": true",
               "\"You are using an untested ZeRO Optimizer. Please add "
               "<\"zero_allow_untested_optimizer\": true> in the configuration file to use it.\"");
  if (strcmp (lower, "adam") != 0 && strcmp (lower, "adamw") != 0)
    zs_ds_say (exam, ZS_NOTE_RISKY, "optimizer-not-simulated", node, NULL,
               "\"%s\" is simulated as AdamW: its states and its step may be smaller", type);
}

static void
scheduler_type (const ZsDsExam *exam)
{
  static const char *const OWN[] = { "LRRangeTest",   "OneCycle",       "WarmupLR",
                                     "WarmupDecayLR", "WarmupCosineLR", NULL };
  static const char *const TORCH[] = {
    "LambdaLR",          "MultiplicativeLR", "StepLR",           "MultiStepLR",
    "ConstantLR",        "LinearLR",         "ExponentialLR",    "PolynomialLR",
    "CosineAnnealingLR", "CyclicLR",         "OneCycleLR",       "CosineAnnealingWarmRestarts",
    "ReduceLROnPlateau", "SequentialLR",     "ChainedScheduler", NULL
  };
  const char *type = word_at (exam, "scheduler.type");

  if (type == NULL || g_strv_contains (OWN, type) || g_strv_contains (TORCH, type))
    return;
  const char *near = zs_nearest_word (type, OWN);
  g_autofree char *instead = near != NULL ? g_strdup_printf ("\"%s\"", near) : NULL;

  zs_ds_say (exam, ZS_NOTE_ERROR, "unknown-scheduler", zs_ds_get (exam, "scheduler.type"), instead,
             "\"DeepSpeed does not recognize LR scheduler %s\"", type);
}

static void
offload_with_client_optimizer (const ZsDsExam *exam)
{
  if (exam->config->zero.offload_optimizer == ZS_DEVICE_NONE || exam->config->optimizer_section
      || exam->context->caller != ZS_DS_PLAIN
      || !zs_ds_behaves (exam, ZS_BEHAVIOUR_OFFLOAD_OPTIMIZER_GUARD)
      || !zs_ds_truth (exam, "zero_force_ds_cpu_optimizer"))
    return;
  zs_ds_say (
      exam, ZS_NOTE_RISKY, "offload-with-client-optimizer",
      zs_ds_place (exam, ZERO "offload_optimizer"), "\"optimizer\": {\"type\": \"AdamW\"}",
      "the file names no optimizer; one that the program hands over must be DeepSpeedCPUAdam, "
      "else: \"You are using ZeRO-Offload with a client provided optimizer (...) which in most "
      "cases will yield poor performance\"");
}

/* Trainer compares what the file says with --max_grad_norm. */
static void
clipping_differs (const ZsDsExam *exam)
{
  const ZsNode *node = zs_ds_get (exam, "gradient_clipping");
  double number;

  if (exam->context->clipping_must_match && zs_node_number (node, &number)
      && number != exam->context->max_grad_norm)
    zs_ds_say (exam, ZS_NOTE_ERROR, "differs-from-arguments", node, "\"auto\"",
               "'gradient_clipping' is %s here but %g in the training arguments (max_grad_norm): "
               "\"Please correct the following DeepSpeed config values that mismatch "
               "TrainingArguments\"",
               node->text, exam->context->max_grad_norm);
}

static void (*const RULES[]) (const ZsDsExam *exam) = {
  stage_missing,         section_missing,         old_and_new_names,
  two_names_of_one_key,  nvme_without_path,       ratio_outside_stage_3,
  stage_3_refusals,      states_without_master,   stage_0_in_bf16,
  prescaling_in_stage_2, zenflow_without_offload, amp_with_zero,
  optimizer_type,        scheduler_type,          offload_with_client_optimizer,
  clipping_differs,      not_simulated,           nvme_buffers,
};

void
zs_ds_check_rules (const ZsDsExam *exam)
{
  for (size_t i = 0; i < G_N_ELEMENTS (RULES); i++)
    RULES[i](exam);
}
