/* describe.c: a scenario in a few lines of text.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/report/describe.h"

#include "sim/base/units.h"

static const char *const ATTENTION_NAMES[ZS_N_ATTENTIONS] = {
  [ZS_ATTENTION_EAGER] = "eager", [ZS_ATTENTION_CUDNN] = "sdpa (cuDNN)",
  [ZS_ATTENTION_FLASH] = "flash", [ZS_ATTENTION_EFFICIENT] = "sdpa (memory-efficient)",
  [ZS_ATTENTION_MATH] = "sdpa (math)",
};
static const char *const DTYPE_NAMES[ZS_N_DTYPES] = {
  [ZS_DTYPE_BF16] = "bf16", [ZS_DTYPE_FP16] = "fp16", [ZS_DTYPE_FP32] = "fp32",
};
static const char *const DEVICE_NAMES[] = {
  [ZS_DEVICE_NONE] = "none", [ZS_DEVICE_CPU] = "cpu", [ZS_DEVICE_NVME] = "nvme",
};

static void
append_method (const ZsTraining *training, GString *text)
{
  const ZsZeroConfig *zero = &training->zero;

  switch (training->framework) {
  case ZS_FRAMEWORK_DEEPSPEED:
    g_string_append_printf (text, "ZeRO-%d", zero->stage);
    if (zero->offload_optimizer != ZS_DEVICE_NONE && zero->offload_param != ZS_DEVICE_NONE)
      g_string_append_printf (text, " with optimizer and parameters on %s",
                              DEVICE_NAMES[zero->offload_param]);
    else if (zero->offload_optimizer != ZS_DEVICE_NONE)
      g_string_append_printf (text, " with the optimizer on %s",
                              DEVICE_NAMES[zero->offload_optimizer]);
    else if (zero->offload_param != ZS_DEVICE_NONE)
      g_string_append_printf (text, " with parameters on %s", DEVICE_NAMES[zero->offload_param]);
    break;
  case ZS_FRAMEWORK_FSDP1:
    g_string_append_printf (text, "FSDP%s", training->fsdp.cpu_offload ? " with CPU offload" : "");
    break;
  case ZS_FRAMEWORK_FSDP2:
    g_string_append_printf (text, "FSDP2%s", training->fsdp.cpu_offload ? " with CPU offload" : "");
    break;
  case ZS_FRAMEWORK_DDP:
    g_string_append (text, "DDP");
    break;
  case ZS_FRAMEWORK_SINGLE:
    g_string_append (text, "plain PyTorch");
    break;
  }
}

char *
zs_scenario_title (const ZsScenario *scenario)
{
  GString *text = g_string_new (scenario->model_name != NULL ? scenario->model_name
                                                             : scenario->training.shape.name);
  const ZsClusterSettings *cluster = &scenario->cluster;

  g_string_append (text, ", ");
  append_method (&scenario->training, text);
  if (scenario->training.step.lora.rank > 0)
    g_string_append_printf (text, ", LoRA r=%" G_GINT64_FORMAT, scenario->training.step.lora.rank);
  if (cluster->n_nodes > 1)
    g_string_append_printf (text, ", %d nodes of %d x %s", cluster->n_nodes, cluster->gpus_per_node,
                            cluster->gpu.name);
  else
    g_string_append_printf (text, ", %d x %s", cluster->gpus_per_node, cluster->gpu.name);
  return g_string_free (text, FALSE);
}

static char *
zero_line (const ZsTraining *training)
{
  const ZsZeroConfig *zero = &training->zero;
  g_autofree char *version = zs_version_format (zero->versions.of[ZS_SOFTWARE_DEEPSPEED]);
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "DeepSpeed %s", version);
  if (zero->stage >= 1) {
    g_autofree char *bucket = zs_count_format (zero->reduce_bucket_size);

    g_string_append_printf (text, ": bucket %s elements, overlap_comm %s", bucket,
                            zero->overlap_comm ? "on" : "off");
  }
  if (zero->stage == 3) {
    g_autofree char *prefetch = zs_count_format (zero->prefetch_bucket_size);
    g_autofree char *live = zs_count_format (zero->max_live_parameters);
    g_autofree char *group = zs_count_format (zero->sub_group_size);

    g_string_append_printf (text, ", prefetch %s, live %s, sub-group %s", prefetch, live, group);
  }
  if (zero->offload_optimizer != ZS_DEVICE_NONE)
    g_string_append_printf (text, ", pin_memory %s", zero->optimizer_pin ? "on" : "off");
  return g_string_free (text, FALSE);
}

/* "sequence 2048", or what is known of lengths. */
static char *
describe_sequence (const ZsTraining *training)
{
  const ZsLengths *lengths = &training->lengths;
  int64_t longest = training->step.sequence, shortest = INT64_MAX;
  g_autofree char *padded = lengths->multiple > 1
                              ? g_strdup_printf (", padded to multiples of %" G_GINT64_FORMAT, lengths->multiple)
                              : g_strdup ("");

  for (int i = 0; i < lengths->n_list; i++)
    shortest = MIN (shortest, lengths->list[i]);
  if (lengths->n_list > 0)
    return g_strdup_printf ("sequences of %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT " tokens%s", shortest, longest,
                            padded);
  if (lengths->mean > 0)
    return g_strdup_printf ("samples of %" G_GINT64_FORMAT " +- %" G_GINT64_FORMAT " tokens%s %" G_GINT64_FORMAT "%s",
                            lengths->mean, lengths->deviation, lengths->drop ? ", none above" : " cut at", longest,
                            padded);
  return g_strdup_printf ("sequence %" G_GINT64_FORMAT, longest);
}

static char *
liger_line (unsigned liger)
{
  static const char *const names[] = { "rope", "swiglu", "rms_norm", "cross_entropy",
                                       "fused_linear_cross_entropy" };
  GString *line = g_string_new ("Liger's");

  for (size_t i = 0; i < G_N_ELEMENTS (names); i++)
    if ((liger & 1u << i) != 0)
      g_string_append_printf (line, "%s %s", line->len > 8 ? "," : "", names[i]);
  return g_string_free (line, FALSE);
}

char **
zs_scenario_lines (const ZsScenario *scenario)
{
  const ZsTraining *training = &scenario->training;
  const ZsStepShape *step = &training->step;
  GPtrArray *lines = g_ptr_array_new ();
  g_autofree char *checkpointing = NULL;

  if (step->checkpoint_every == 0)
    checkpointing = g_strdup ("no checkpointing");
  else if (step->checkpoint_every == 1)
    checkpointing = g_strdup_printf ("checkpointing%s", step->reentrant ? " (reentrant)" : "");
  else
    checkpointing = g_strdup_printf ("checkpointing of one layer in %" G_GINT64_FORMAT,
                                     step->checkpoint_every);
  g_autofree char *sequence = describe_sequence (training);

  g_ptr_array_add (lines, g_strdup_printf (
      "micro-batch %" G_GINT64_FORMAT " x accumulation %d x %" G_GINT64_FORMAT
      " rank%s, %s, %s, %s%s, attention %s",
      step->micro_batch, training->gradient_accumulation, training->world,
      training->world == 1 ? "" : "s", sequence,
      checkpointing, DTYPE_NAMES[step->dtype], step->autocast ? " under autocast" : "", ATTENTION_NAMES[step->attention]));
  if (step->liger != 0)
    g_ptr_array_add (lines, liger_line (step->liger));
  if (training->framework == ZS_FRAMEWORK_DEEPSPEED)
    g_ptr_array_add (lines, zero_line (training));
  g_ptr_array_add (lines, NULL);
  return (char **) g_ptr_array_free (lines, FALSE);
}

static const char *const ORIGIN_WORDS[] = {
  [ZS_ORIGIN_MEASURED] = "measured", [ZS_ORIGIN_PUBLISHED] = "published",
  [ZS_ORIGIN_ASSUMED] = "assumed",
};

char **
zs_scenario_assumptions (const ZsScenario *scenario)
{
  const ZsGpu *gpu = &scenario->cluster.gpu;
  GPtrArray *lines = g_ptr_array_new ();

  g_ptr_array_add (lines, g_strdup_printf (
      "Bytes of tensors and segments are exact for these versions. Times of %s: %s rates of its "
      "kernels; expect %.0f %% when the GPU is the limit, a factor of two where Python is.",
      gpu->name, ORIGIN_WORDS[gpu->matmul_origin], 100 * gpu->expected_error));
  for (int i = 0; i < zs_notes_count (scenario->notes); i++) {
    const ZsNote *note = zs_notes_get (scenario->notes, i);

    g_ptr_array_add (lines, note->where != NULL && note->where[0] != '\0'
                                ? g_strdup_printf ("%s: %s", note->where, note->text)
                                : g_strdup (note->text));
  }
  g_ptr_array_add (lines, NULL);
  return (char **) g_ptr_array_free (lines, FALSE);
}
