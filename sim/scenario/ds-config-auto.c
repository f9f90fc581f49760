/* ds-config-auto.c: how Hugging Face fills in "auto".  SPDX-License-Identifier: MIT
 *
 * transformers/integrations/deepspeed.py (trainer_config_process, trainer_config_finalize) and
 * accelerate's deepspeed_config_process.  A key without a row here keeps its "auto": DeepSpeed's
 * typed sections drop it, so that the default applies; elsewhere the text stays and fails later. */
#include "config.h"

#include <string.h>

#include "sim/scenario/ds-config-internal.h"

typedef enum {
  MICRO_BATCH,
  ACCUMULATION,
  TRAIN_BATCH,
  CLIPPING,
  HIDDEN_SQUARED,
  PREFETCH,
  PERSISTENCE,
  IS_FP16,
  IS_BF16,
  ARGUMENT, /* from an argument that a simulation does not need */
} Rule;

static const struct {
  const char *path;
  Rule rule;
  bool stage3_only;
  const char *how;
} RULES[] = {
  { "train_micro_batch_size_per_gpu", MICRO_BATCH, false, "per_device_train_batch_size" },
  { "gradient_accumulation_steps", ACCUMULATION, false, "the argument of the same name" },
  { "train_batch_size", TRAIN_BATCH, false, "micro-batch * accumulation * GPUs" },
  { "gradient_clipping", CLIPPING, false, "max_grad_norm" },
  { "zero_optimization.reduce_bucket_size", HIDDEN_SQUARED, false, "hidden size squared" },
  { "zero_optimization.stage3_prefetch_bucket_size", PREFETCH, true, "0.9 * hidden size squared" },
  { "zero_optimization.stage3_param_persistence_threshold", PERSISTENCE, true, "10 * hidden size" },
  { "fp16.enabled", IS_FP16, false, "--fp16" },
  { "bf16.enabled", IS_BF16, false, "--bf16" },
  { "optimizer.params.lr", ARGUMENT, false, "learning_rate" },
  { "optimizer.params.betas", ARGUMENT, false, "adam_beta1 and adam_beta2" },
  { "optimizer.params.eps", ARGUMENT, false, "adam_epsilon" },
  { "optimizer.params.weight_decay", ARGUMENT, false, "weight_decay" },
  { "scheduler.params.warmup_min_lr", ARGUMENT, false, "0" },
  { "scheduler.params.warmup_max_lr", ARGUMENT, false, "learning_rate" },
  { "scheduler.params.warmup_num_steps", ARGUMENT, false, "warmup_steps" },
  { "scheduler.params.total_num_steps", ARGUMENT, false, "the number of optimizer steps" },
};

static int
find (const char *path)
{
  for (size_t i = 0; i < G_N_ELEMENTS (RULES); i++)
    if (strcmp (RULES[i].path, path) == 0)
      return (int)i;
  return -1;
}

const char *
zs_ds_auto_how (const char *path)
{
  int i = find (path);

  return i >= 0 ? RULES[i].how : NULL;
}

bool
zs_ds_auto_has_rule (const ZsDsExam *exam, const char *path)
{
  int i = find (path);

  return i >= 0 && exam->context->caller != ZS_DS_PLAIN
         && (!RULES[i].stage3_only || exam->stage == 3);
}

bool
zs_ds_auto_resolve (const ZsDsExam *exam, const char *path, double *ret_number,
                    const char **ret_how)
{
  const ZsDsContext *context = exam->context;
  double hidden = (double)context->hidden, number = 0;
  int i = find (path);

  if (!zs_ds_auto_has_rule (exam, path))
    return false;
  switch (RULES[i].rule) {
  case MICRO_BATCH:
    number = (double)context->micro_batch;
    break;
  case ACCUMULATION:
    number = (double)context->accumulation;
    break;
  case TRAIN_BATCH: /* what the others come to: ds-config-batch.c */
  case ARGUMENT:
    return false;
  case CLIPPING:
    number = context->max_grad_norm >= 0 ? context->max_grad_norm : 1.0;
    break;
  case HIDDEN_SQUARED:
    number = hidden * hidden;
    break;
  case PREFETCH:
    /* int () since transformers 4.45; before it a fraction, which DeepSpeed 0.15 refuses and
     * earlier ones cut off: the walk says so */
    number = (double)(int64_t)(0.9 * hidden * hidden);
    break;
  case PERSISTENCE:
    number = 10 * hidden;
    break;
  case IS_FP16:
    number = context->dtype == ZS_DTYPE_FP16;
    break;
  case IS_BF16:
    number = context->dtype == ZS_DTYPE_BF16;
    break;
  }
  if (number <= 0 && RULES[i].rule != IS_FP16 && RULES[i].rule != IS_BF16
      && RULES[i].rule != CLIPPING)
    return false;
  *ret_number = number;
  *ret_how = RULES[i].how;
  return true;
}
