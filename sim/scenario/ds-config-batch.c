/* ds-config-batch.c: the batch identity.  SPDX-License-Identifier: MIT
 *
 * train_batch_size = train_micro_batch_size_per_gpu * gradient_accumulation_steps * W, with
 * DeepSpeed's derivations and assertions (runtime/config.py, _set_batch_related_parameters,
 * _batch_assertion). */
#include "config.h"

#include "sim/scenario/ds-config-internal.h"

#define TRAIN "train_batch_size"
#define MICRO "train_micro_batch_size_per_gpu"
#define STEPS "gradient_accumulation_steps"

typedef struct {
  const char *path;
  int64_t value; /* 0 not known */
  bool from_file;
} Number;

/* One of the three: from the file, from "auto", or from beside the file. */
static Number
given (const ZsDsExam *exam, const char *path, int64_t beside)
{
  ZsDsValue value;
  ZsDsSource source = zs_ds_value_in_force (exam, path, &value);
  Number number = { path, value.integer, source == ZS_DS_FROM_FILE };

  if (source == ZS_DS_FROM_DEFAULT)
    number.value = beside > 0 ? beside : 0;
  if (number.from_file && exam->settings != NULL) {
    g_autofree char *full = g_strconcat (exam->context->prefix, path, NULL);

    zs_settings_put_node (exam->settings, full, zs_ds_get (exam, path));
  }
  zs_ds_value_clear (&value);
  return number;
}

static void
settle (const ZsDsExam *exam, const Number *number, int64_t beside, const char *derived)
{
  bool is_auto = zs_ds_get (exam, number->path) != NULL;

  if (number->value > 0 && !number->from_file)
    zs_ds_settle (exam, number->path, is_auto ? ZS_SETTING_AUTO : ZS_SETTING_DERIVED,
                  beside > 0 ? zs_ds_auto_how (number->path) : derived, "%" G_GINT64_FORMAT,
                  number->value);
}

/* Two settings near to what was written that satisfy the identity. */
static char *
valid_settings (int64_t train, int64_t micro, int64_t steps, int64_t world)
{
  int64_t per_step = micro * world, below = train / per_step;

  if (below > 0 && train % per_step == 0)
    return g_strdup_printf ("\"%s\": %" G_GINT64_FORMAT ", or \"%s\": %" G_GINT64_FORMAT, STEPS,
                            below, TRAIN, per_step * steps);
  if (below == steps || below == 0)
    below = steps;
  int64_t above = below == steps ? steps + 1 : below + 1;

  return g_strdup_printf ("\"%s\": %" G_GINT64_FORMAT " with \"%s\": %" G_GINT64_FORMAT
                          ", or \"%s\": %" G_GINT64_FORMAT " with \"%s\": %" G_GINT64_FORMAT,
                          TRAIN, per_step * below, STEPS, below, TRAIN, per_step * above, STEPS,
                          above);
}

static void
check_arguments (const ZsDsExam *exam, const char *path, int64_t beside, const char *argument)
{
  const ZsNode *node = zs_ds_get (exam, path);
  int64_t number;

  if (beside <= 0 || !zs_node_int (node, &number) || number == beside)
    return;
  zs_ds_say (
      exam, ZS_NOTE_ERROR, "differs-from-arguments", node, "\"auto\"",
      exam->context->caller == ZS_DS_PLAIN
          ? "'%s' is %s here but %" G_GINT64_FORMAT " in the rest of the scenario (%s)"
          : "'%s' is %s here but %" G_GINT64_FORMAT " in the training arguments: \"Please "
            "correct the following DeepSpeed config values that mismatch TrainingArguments\" "
            "(%s)",
      path, node->text, beside, argument);
}

static void
check_identity (const ZsDsExam *exam, const Number *train, const Number *micro, const Number *steps)
{
  const Number *const numbers[] = { train, micro, steps };
  static const char *const NAMES[] = { "Train batch size", "Micro batch size per gpu",
                                       "Gradient accumulation steps" };
  int64_t world = exam->context->world, product;

  for (int i = 0; i < 3; i++)
    if (numbers[i]->value <= 0) {
      zs_ds_say (exam, ZS_NOTE_ERROR, "batch-identity",
                 zs_ds_place (exam, numbers[i]->from_file ? numbers[i]->path : TRAIN), NULL,
                 "\"%s: %" G_GINT64_FORMAT
                 " has to be greater than 0\": train_batch_size is %" G_GINT64_FORMAT
                 " for %" G_GINT64_FORMAT " GPUs",
                 NAMES[i], numbers[i]->value, train->value, world);
      return;
    }
  if (__builtin_mul_overflow (micro->value, steps->value, &product)
      || __builtin_mul_overflow (product, world, &product)) {
    zs_ds_say (exam, ZS_NOTE_ERROR, "out-of-range", zs_ds_place (exam, MICRO), NULL,
               "the batch is too large to count");
    return;
  }
  if (product == train->value)
    return;
  g_autofree char *instead = valid_settings (train->value, micro->value, steps->value, world);

  zs_ds_say (exam, ZS_NOTE_ERROR, "batch-identity", zs_ds_place (exam, TRAIN), instead,
             "\"Check batch related parameters. train_batch_size is not equal to "
             "micro_batch_per_gpu * gradient_acc_step * world_size %" G_GINT64_FORMAT
             " != %" G_GINT64_FORMAT " * %" G_GINT64_FORMAT " * %" G_GINT64_FORMAT "\"",
             train->value, micro->value, steps->value, world);
}

/* What is left out follows from the others; with integer division, as DeepSpeed does it. */
static void
derive (Number *train, Number *micro, Number *steps, int64_t world)
{
  bool has_train = train->value > 0, has_micro = micro->value > 0, has_steps = steps->value > 0;

  if (has_train && has_micro && !has_steps)
    steps->value = train->value / micro->value / world;
  else if (has_train && !has_micro && has_steps)
    micro->value = train->value / world / steps->value;
  else if (has_train && !has_micro)
    steps->value = 1, micro->value = train->value / world;
  else if (has_micro && !has_train) {
    steps->value = has_steps ? steps->value : 1;
    if (__builtin_mul_overflow (micro->value, steps->value, &train->value)
        || __builtin_mul_overflow (train->value, world, &train->value))
      train->value = INT64_MAX;
  }
}

void
zs_ds_fill_batch (ZsDsExam *exam)
{
  const ZsDsContext *context = exam->context;
  const bool plain = context->caller == ZS_DS_PLAIN;
  Number train = given (exam, TRAIN, 0);
  Number micro = given (exam, MICRO, context->micro_batch);
  Number steps = given (exam, STEPS, context->accumulation);
  ZsDsConfig *config = exam->config;

  check_arguments (exam, MICRO, context->micro_batch,
                   plain ? "micro_batch" : "per_device_train_batch_size");
  check_arguments (exam, STEPS, context->accumulation,
                   plain ? "gradient_accumulation" : "gradient_accumulation_steps");
  if (train.value == 0 && micro.value == 0) {
    if (zs_ds_get (exam, MICRO) == NULL
        && zs_ds_get (exam, TRAIN) == NULL) /* an "auto" is another matter */
      zs_ds_say (exam, context->caller == ZS_DS_EITHER ? ZS_NOTE_INFO : ZS_NOTE_ERROR,
                 "batch-missing", exam->root, "\"" MICRO "\": 1",
                 "\"Either train_batch_size or train_micro_batch_size_per_gpu needs to be "
                 "provided\"");
  } else if (context->world > 0) {
    derive (&train, &micro, &steps, context->world);
    check_identity (exam, &train, &micro, &steps);
  } else if (train.value == 0 && steps.value == 0) {
    steps.value = 1;
  }
  config->train_batch_size = train.value;
  config->micro_batch = micro.value;
  config->gradient_accumulation = steps.value;
  config->zero.gradient_accumulation = (int)CLAMP (steps.value, 1, 1 << 30);
  settle (exam, &train, 0, "micro-batch * accumulation * GPUs");
  settle (exam, &micro, context->micro_batch, "train_batch_size / (GPUs * accumulation)");
  settle (exam, &steps, context->accumulation,
          train.from_file ? "train_batch_size / (micro-batch * GPUs)" : "1 if nothing says it");
}
