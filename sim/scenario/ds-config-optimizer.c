/* ds-config-optimizer.c: precision, and which optimizer runs.  SPDX-License-Identifier: MIT
 *
 * Which optimizer: deepspeed/runtime/engine.py (_configure_basic_optimizer), transformers'
 * deepspeed_optim_sched, and accelerate's map_pytorch_optim_to_deepspeed. */
#include "config.h"

#include <string.h>

#include "sim/scenario/ds-config-internal.h"

/* Is the section SECTION (fp16, bf16) switched on? */
static bool
is_enabled (const ZsDsExam *exam, const char *path, bool *ret_said)
{
  ZsDsValue value;
  ZsDsSource source = zs_ds_value_in_force (exam, path, &value);
  const ZsNode *node = zs_ds_get (exam, path);
  bool truth = value.truth;

  zs_ds_value_clear (&value);
  *ret_said = source == ZS_DS_FROM_FILE;
  /* up to 0.17.0 the word "auto" in a plain program is a text that counts as true; later ones drop
   * it */
  if (source == ZS_DS_FROM_DEFAULT && node != NULL && node->kind == ZS_NODE_SCALAR
      && strcmp (node->text, "auto") == 0)
    truth = !zs_ds_behaves (exam, ZS_BEHAVIOUR_STRICT_PRECISION_SECTIONS);
  return truth;
}

static const char *
dtype_name (ZsDtype dtype)
{
  return dtype == ZS_DTYPE_BF16 ? "bf16" : dtype == ZS_DTYPE_FP16 ? "fp16" : "fp32";
}

/* The dtype that the file names at PATH; not given: *DTYPE stays, the model's own. */
static void
fill_dtype (const ZsDsExam *exam, const char *path, ZsDtype *dtype)
{
  ZsDsValue value;
  bool given = zs_ds_value_in_force (exam, path, &value) == ZS_DS_FROM_FILE && value.ok;

  if (given)
    *dtype = strcmp (value.text, "fp16") == 0   ? ZS_DTYPE_FP16
             : strcmp (value.text, "bf16") == 0 ? ZS_DTYPE_BF16
                                                : ZS_DTYPE_FP32;
  zs_ds_value_clear (&value);
  if (!given)
    zs_ds_settle (exam, path, ZS_SETTING_DERIVED, "the dtype of the model", "%s",
                  dtype_name (*dtype));
}

/* accelerate writes the section that is missing after --bf16 or --fp16 (set_mixed_precision). */
static bool
filled_in_by_accelerate (const ZsDsExam *exam, const char *section, ZsDtype dtype)
{
  return exam->context->caller != ZS_DS_PLAIN && zs_ds_get (exam, section) == NULL
         && exam->context->dtype == dtype;
}

void
zs_ds_fill_precision (ZsDsExam *exam)
{
  const ZsDsContext *context = exam->context;
  ZsDsConfig *config = exam->config;
  bool fp16_said, bf16_said;
  bool fp16 = is_enabled (exam, "fp16.enabled", &fp16_said);
  bool bf16 = is_enabled (exam, "bf16.enabled", &bf16_said);

  /* nothing beside the file says the dtype: the half that the file leaves open agrees with the
   * other */
  if (!context->dtype_given && context->caller != ZS_DS_PLAIN && fp16 && bf16) {
    fp16 &= fp16_said || !bf16_said;
    bf16 &= bf16_said || !fp16_said;
  }
  fp16 |= !bf16 && filled_in_by_accelerate (exam, "fp16", ZS_DTYPE_FP16);
  bf16 |= !fp16 && filled_in_by_accelerate (exam, "bf16", ZS_DTYPE_BF16);
  if (fp16 && bf16) {
    const ZsNode *place = zs_ds_place (exam, "bf16.enabled");

    if (fp16_said && bf16_said)
      zs_ds_say (exam, ZS_NOTE_ERROR, "both-precisions", place, NULL,
                 "fp16 and bf16 are both enabled: \"bfloat16 and fp16 modes cannot be "
                 "simultaneously enabled\"");
    else if (context->caller == ZS_DS_PLAIN)
      zs_ds_say (exam, ZS_NOTE_ERROR, "both-precisions", place, "true or false",
                 "\"auto\" is a text that counts as true before DeepSpeed 0.17.1: \"bfloat16 and "
                 "fp16 modes cannot be simultaneously enabled\"");
    else
      zs_ds_say (exam, ZS_NOTE_ERROR, "differs-from-arguments", place, "\"auto\"",
                 "one of fp16 and bf16 is enabled here and the other by the training arguments");
  }
  config->dtype = bf16 ? ZS_DTYPE_BF16 : fp16 ? ZS_DTYPE_FP16 : ZS_DTYPE_FP32;
  if (context->dtype_given && config->dtype != context->dtype && !(fp16 && bf16)) {
    zs_ds_say (exam, ZS_NOTE_ERROR, "differs-from-arguments",
               zs_ds_place (exam, config->dtype == ZS_DTYPE_FP16 ? "fp16.enabled" : "bf16.enabled"),
               context->caller == ZS_DS_PLAIN ? NULL : "\"auto\"",
               "the file trains in %s, the rest of the scenario says %s",
               dtype_name (config->dtype), dtype_name (context->dtype));
  }
  zs_ds_settle (exam, "bf16.enabled", bf16_said ? ZS_SETTING_GIVEN : ZS_SETTING_DERIVED,
                bf16_said ? NULL : "the dtype of the training", "%s", bf16 ? "true" : "false");
  zs_ds_settle (exam, "fp16.enabled", fp16_said ? ZS_SETTING_GIVEN : ZS_SETTING_DERIVED,
                fp16_said ? NULL : "the dtype of the training", "%s", fp16 ? "true" : "false");

  config->autocast = zs_ds_truth (exam, "torch_autocast.enabled");
  config->autocast_dtype = ZS_DTYPE_BF16;
  ZsDsValue value;

  zs_ds_value_in_force (exam, "torch_autocast.dtype", &value);
  if (g_strcmp0 (value.text, "float16") == 0)
    config->autocast_dtype = ZS_DTYPE_FP16;
  zs_ds_value_clear (&value);

  ZsZeroConfig *zero = &config->zero;

  zero->dtype = zero->communication_dtype = zero->grad_accum_dtype = config->dtype;
  fill_dtype (exam, "communication_data_type", &zero->communication_dtype);
  fill_dtype (exam, "data_types.grad_accum_dtype", &zero->grad_accum_dtype);
}

static ZsDsOptimizer
torch_optimizer (ZsOptimizerKind kind)
{
  return kind == ZS_OPTIMIZER_FUSED     ? ZS_DS_OPTIMIZER_TORCH_FUSED
         : kind == ZS_OPTIMIZER_FOREACH ? ZS_DS_OPTIMIZER_TORCH_FOREACH
                                        : ZS_DS_OPTIMIZER_TORCH_FOR_LOOP;
}

static const char *
optimizer_name (const ZsDsExam *exam, ZsDsOptimizer optimizer)
{
  static const char *const NAMES[] = {
    [ZS_DS_OPTIMIZER_FUSED_ADAM] = "DeepSpeed FusedAdam",
    [ZS_DS_OPTIMIZER_CPU_ADAM] = "DeepSpeedCPUAdam",
    [ZS_DS_OPTIMIZER_TORCH_FUSED] = "torch AdamW (fused)",
    [ZS_DS_OPTIMIZER_TORCH_FOREACH] = "torch AdamW (foreach)",
    [ZS_DS_OPTIMIZER_TORCH_FOR_LOOP] = "torch AdamW (for-loop)",
  };

  return exam->config->torch_optimizer_on_cpu ? "torch AdamW on the CPU" : NAMES[optimizer];
}

void
zs_ds_fill_optimizer (ZsDsExam *exam)
{
  const ZsDsContext *context = exam->context;
  ZsDsConfig *config = exam->config;
  ZsZeroConfig *zero = &config->zero;
  const bool offload = zero->offload_optimizer != ZS_DEVICE_NONE;
  const bool plain = context->caller == ZS_DS_PLAIN;
  const char *how;

  config->optimizer_section = zs_ds_get (exam, "optimizer.type") != NULL;
  if (config->optimizer_section) {
    bool torch_adam = zs_ds_truth (exam, "optimizer.params.torch_adam");

    zero->optimizer = torch_adam ? ZS_DS_OPTIMIZER_TORCH_FOREACH
                      : offload  ? ZS_DS_OPTIMIZER_CPU_ADAM
                                 : ZS_DS_OPTIMIZER_FUSED_ADAM;
    config->torch_optimizer_on_cpu = torch_adam && offload;
    zero->optimizer_groups = 1; /* Trainer gives the parameters as one list */
    how = torch_adam ? "optimizer.params.torch_adam"
          : offload  ? "the optimizer section, offloaded"
                     : "the optimizer section";
  } else {
    bool swapped = offload && (plain || zs_ds_truth (exam, "zero_force_ds_cpu_optimizer"));

    zero->optimizer =
        swapped ? ZS_DS_OPTIMIZER_CPU_ADAM : torch_optimizer (context->client_optimizer);
    config->torch_optimizer_on_cpu = offload && !swapped;
    zero->optimizer_groups = context->client_groups > 0 ? context->client_groups
                             : plain                    ? 1
                                                        : 2; /* with and without weight decay */
    how = plain     ? "no optimizer section: the program's own"
          : swapped ? "no optimizer section: accelerate puts it in place of torch AdamW"
                    : "no optimizer section: Trainer builds torch AdamW";
  }
  zs_ds_settle (exam, "optimizer", ZS_SETTING_DERIVED, how, "%s",
                optimizer_name (exam, zero->optimizer));
}
