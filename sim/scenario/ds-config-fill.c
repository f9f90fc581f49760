/* ds-config-fill.c: the values in force, into ZsZeroConfig.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <stddef.h>
#include <string.h>

#include "sim/scenario/ds-config-internal.h"

typedef enum { TO_BOOL, TO_INT64, TO_DOUBLE, TO_DEVICE } Slot;

static const struct {
  const char *path;
  Slot slot;
  size_t offset;
} FIELDS[] = {
#define FIELD(path, slot, member)                                                                  \
  {                                                                                                \
    path, slot, offsetof (ZsZeroConfig, member)                                                    \
  }
#define ZERO(word, slot, member) FIELD ("zero_optimization." word, slot, member)
#define OPTIMIZER(word, slot, member) ZERO ("offload_optimizer." word, slot, member)
#define PARAM(word, slot, member) ZERO ("offload_param." word, slot, member)
  ZERO ("reduce_bucket_size", TO_INT64, reduce_bucket_size),
  ZERO ("allgather_bucket_size", TO_INT64, allgather_bucket_size),
  ZERO ("contiguous_gradients", TO_BOOL, contiguous_gradients),
  ZERO ("reduce_scatter", TO_BOOL, reduce_scatter),
  ZERO ("round_robin_gradients", TO_BOOL, round_robin_gradients),
  ZERO ("use_multi_rank_bucket_allreduce", TO_BOOL, use_multi_rank_bucket_allreduce),
  ZERO ("ignore_unused_parameters", TO_BOOL, ignore_unused_parameters),
  ZERO ("sub_group_size", TO_INT64, sub_group_size),
  ZERO ("stage3_prefetch_bucket_size", TO_INT64, prefetch_bucket_size),
  ZERO ("stage3_param_persistence_threshold", TO_INT64, param_persistence_threshold),
  ZERO ("stage3_model_persistence_threshold", TO_INT64, model_persistence_threshold),
  ZERO ("stage3_max_live_parameters", TO_INT64, max_live_parameters),
  ZERO ("stage3_max_reuse_distance", TO_INT64, max_reuse_distance),
  ZERO ("stage3_module_granularity_threshold", TO_INT64, module_granularity_threshold),
  ZERO ("stage3_allgather_sequential", TO_BOOL, allgather_sequential),
  ZERO ("stage3_use_all_reduce_for_fetch_params", TO_BOOL, use_all_reduce_for_fetch_params),
  ZERO ("stage3_gather_16bit_weights_on_model_save", TO_BOOL, gather_16bit_weights_on_model_save),
  ZERO ("memory_efficient_linear", TO_BOOL, memory_efficient_linear),
  ZERO ("zero_quantized_weights", TO_BOOL, quantized_weights),
  ZERO ("zero_quantized_gradients", TO_BOOL, quantized_gradients),
  ZERO ("zero_quantized_nontrainable_weights", TO_BOOL, quantized_nontrainable_weights),
  ZERO ("zero_hpz_partition_size", TO_INT64, hpz_partition_size),
  ZERO ("mics_shard_size", TO_INT64, mics_shard_size),
  ZERO ("mics_hierarchical_params_gather", TO_BOOL, mics_hierarchical_gather),
  OPTIMIZER ("device", TO_DEVICE, offload_optimizer),
  OPTIMIZER ("pin_memory", TO_BOOL, optimizer_pin),
  OPTIMIZER ("pipeline_read", TO_BOOL, optimizer_pipeline_read),
  OPTIMIZER ("pipeline_write", TO_BOOL, optimizer_pipeline_write),
  OPTIMIZER ("fast_init", TO_BOOL, optimizer_fast_init),
  OPTIMIZER ("buffer_count", TO_INT64, optimizer_buffer_count),
  OPTIMIZER ("ratio", TO_DOUBLE, optimizer_ratio),
  PARAM ("device", TO_DEVICE, offload_param),
  PARAM ("pin_memory", TO_BOOL, param_pin),
  PARAM ("buffer_count", TO_INT64, param_buffer_count),
  PARAM ("buffer_size", TO_INT64, param_buffer_size),
  PARAM ("max_in_cpu", TO_INT64, param_max_in_cpu),
  FIELD ("gradient_clipping", TO_DOUBLE, gradient_clipping),
  FIELD ("bf16.bf16_master_weights_and_grads", TO_BOOL, bf16_master_weights_and_grads),
  FIELD ("bf16.bf16_optimizer_states", TO_BOOL, bf16_optimizer_states),
  FIELD ("bf16.check_grad_overflow", TO_BOOL, check_grad_overflow),
  FIELD ("bf16.immediate_grad_update", TO_BOOL, immediate_grad_update),
  FIELD ("fp16.fp16_master_weights_and_grads", TO_BOOL, fp16_master_weights_and_grads),
  FIELD ("aio.block_size", TO_INT64, aio_block_size),
  FIELD ("aio.queue_depth", TO_INT64, aio_queue_depth),
  FIELD ("aio.single_submit", TO_BOOL, aio_single_submit),
  FIELD ("aio.overlap_events", TO_BOOL, aio_overlap_events),
};

void
zs_ds_settle (const ZsDsExam *exam, const char *path, ZsSettingOrigin origin, const char *where,
              const char *format, ...)
{
  g_autofree char *full = g_strconcat (exam->context->prefix, path, NULL);
  va_list arguments;

  if (exam->settings == NULL)
    return;
  va_start (arguments, format);
  g_autofree char *value = g_strdup_vprintf (format, arguments);

  va_end (arguments);
  zs_settings_put (exam->settings, full, origin, where, "%s", value);
}

/* The default of KEY, as a value. */
static void
read_default (const ZsDsExam *exam, const ZsDsKey *key, ZsDsValue *ret_value)
{
  const char *text = zs_ds_key_fallback (key, &exam->context->versions);
  ZsNode node = { .kind = ZS_NODE_SCALAR, .file = "default" };

  node.text = text == NULL || strcmp (text, "None") == 0 ? "null" : text;
  zs_ds_value_read (key, &node, &exam->context->versions, ret_value);
}

ZsDsSource
zs_ds_value_in_force (const ZsDsExam *exam, const char *path, ZsDsValue *ret_value)
{
  const ZsDsKey *key = zs_ds_key_find (path);
  const ZsNode *node = zs_ds_get (exam, path);
  const char *how;

  g_assert (key != NULL);
  if (node != NULL) {
    zs_ds_value_read (key, node, &exam->context->versions, ret_value);
    if (ret_value->ok && !ret_value->is_null)
      return ZS_DS_FROM_FILE;
    if (ret_value->is_auto && zs_ds_auto_resolve (exam, path, &ret_value->number, &how)) {
      ret_value->integer = (int64_t)ret_value->number;
      ret_value->truth = ret_value->number != 0;
      ret_value->ok = true;
      return ZS_DS_FROM_AUTO;
    }
    zs_ds_value_clear (ret_value);
  }
  read_default (exam, key, ret_value);
  return ZS_DS_FROM_DEFAULT;
}

bool
zs_ds_truth (const ZsDsExam *exam, const char *path)
{
  ZsDsValue value;

  zs_ds_value_in_force (exam, path, &value);
  zs_ds_value_clear (&value);
  return value.truth;
}

int64_t
zs_ds_integer (const ZsDsExam *exam, const char *path)
{
  ZsDsValue value;

  zs_ds_value_in_force (exam, path, &value);
  zs_ds_value_clear (&value);
  return value.integer;
}

double
zs_ds_number (const ZsDsExam *exam, const char *path)
{
  ZsDsValue value;

  zs_ds_value_in_force (exam, path, &value);
  zs_ds_value_clear (&value);
  return value.number;
}

/* VALUE of PATH and where it came from, into the settings. */
static void
record (const ZsDsExam *exam, const char *path, const ZsDsValue *value, ZsDsSource source)
{
  const ZsDsKey *key = zs_ds_key_find (path);
  g_autofree char *version = zs_version_format (exam->context->versions.of[ZS_SOFTWARE_DEEPSPEED]);
  g_autofree char *software = g_strdup_printf ("DeepSpeed %s", version);
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];

  if (exam->settings == NULL)
    return;
  if (source == ZS_DS_FROM_FILE) {
    g_autofree char *full = g_strconcat (exam->context->prefix, path, NULL);

    zs_settings_put_node (exam->settings, full, zs_ds_get (exam, path));
    return;
  }
  switch (key->type & ~ZS_DS_OR_NULL) {
  case ZS_DS_BOOL:
    g_strlcpy (buffer, value->truth ? "true" : "false", sizeof buffer);
    break;
  case ZS_DS_FLOAT:
    g_ascii_formatd (buffer, sizeof buffer, "%g", value->number);
    break;
  case ZS_DS_STRING:
  case ZS_DS_PATH:
    g_strlcpy (buffer, value->text != NULL ? value->text : "none", sizeof buffer);
    break;
  default:
    g_snprintf (buffer, sizeof buffer, "%" G_GINT64_FORMAT, value->integer);
  }
  zs_ds_settle (exam, path, source == ZS_DS_FROM_AUTO ? ZS_SETTING_AUTO : ZS_SETTING_DEFAULT,
                source == ZS_DS_FROM_AUTO ? zs_ds_auto_how (path) : software, "%s", buffer);
}

static ZsOffloadDevice
device_of (const ZsDsValue *value)
{
  if (g_strcmp0 (value->text, "cpu") == 0)
    return ZS_DEVICE_CPU;
  return g_strcmp0 (value->text, "nvme") == 0 ? ZS_DEVICE_NVME : ZS_DEVICE_NONE;
}

static void
fill_fields (ZsDsExam *exam)
{
  for (size_t i = 0; i < G_N_ELEMENTS (FIELDS); i++) {
    void *slot = (char *)&exam->config->zero + FIELDS[i].offset;
    ZsDsValue value;
    ZsDsSource source = zs_ds_value_in_force (exam, FIELDS[i].path, &value);

    switch (FIELDS[i].slot) {
    case TO_BOOL:
      *(bool *)slot = value.truth;
      break;
    case TO_INT64:
      *(int64_t *)slot = value.integer;
      break;
    case TO_DOUBLE:
      *(double *)slot = value.number;
      break;
    case TO_DEVICE:
      *(ZsOffloadDevice *)slot = device_of (&value);
      break;
    }
    record (exam, FIELDS[i].path, &value, source);
    zs_ds_value_clear (&value);
  }
}

/* zero_optimization.stage; `"zero_optimization": true` is the form of the first releases: stage 1.
 */
static void
fill_stage (ZsDsExam *exam)
{
  const ZsNode *section = zs_node_get (exam->root, "zero_optimization");
  ZsDsValue value;
  bool old_form;

  if (zs_node_bool (section, &old_form)) {
    exam->stage = old_form;
    zs_ds_settle (exam, "zero_optimization.stage", ZS_SETTING_DERIVED,
                  "\"zero_optimization\": true", "%d", exam->stage);
  } else {
    ZsDsSource source = zs_ds_value_in_force (exam, "zero_optimization.stage", &value);

    exam->stage = (int)value.integer;
    record (exam, "zero_optimization.stage", &value, source);
    zs_ds_value_clear (&value);
  }
  exam->config->zero.stage = exam->stage;
}

/* A deprecated switch that stands for {"device": "cpu"} of SECTION. */
static void
fill_old_offload (ZsDsExam *exam, const char *old, const char *section, ZsOffloadDevice *device)
{
  ZsDsValue value;
  g_autofree char *path = g_strconcat (section, ".device", NULL);

  if (zs_ds_value_in_force (exam, old, &value) == ZS_DS_FROM_FILE && value.truth
      && zs_ds_get (exam, section) == NULL) {
    *device = ZS_DEVICE_CPU;
    zs_ds_settle (exam, path, ZS_SETTING_DERIVED, zs_ds_key_word (zs_ds_key_find (old)), "cpu");
  }
  zs_ds_value_clear (&value);
}

static void
fill_devices (ZsDsExam *exam)
{
  ZsZeroConfig *zero = &exam->config->zero;
  const char *param = "zero_optimization.offload_param.device";
  const char *optimizer = "zero_optimization.offload_optimizer.device";

  fill_old_offload (exam, "zero_optimization.cpu_offload", "zero_optimization.offload_optimizer",
                    &zero->offload_optimizer);
  fill_old_offload (exam, "zero_optimization.cpu_offload_param", "zero_optimization.offload_param",
                    &zero->offload_param);
  /* what the stage makes of them: the walk says so beside the key */
  if (exam->stage < 3 && zero->offload_param != ZS_DEVICE_NONE) {
    zero->offload_param = ZS_DEVICE_NONE;
    zs_ds_settle (exam, param, ZS_SETTING_DERIVED, "no effect below stage 3", "none");
  }
  if (exam->stage == 0 && zero->offload_optimizer != ZS_DEVICE_NONE) {
    zero->offload_optimizer = ZS_DEVICE_NONE;
    zs_ds_settle (exam, optimizer, ZS_SETTING_DERIVED, "stage 0 has no ZeRO optimizer", "none");
  } else if (exam->stage < 3 && zero->offload_optimizer == ZS_DEVICE_NVME) {
    zero->offload_optimizer = ZS_DEVICE_CPU;
    zs_ds_settle (exam, optimizer, ZS_SETTING_DERIVED, "stages 1 and 2 take nvme as cpu", "cpu");
  }
}

void
zs_ds_fill (ZsDsExam *exam)
{
  const ZsDsContext *context = exam->context;
  ZsZeroConfig *zero = &exam->config->zero;
  ZsDsValue value;
  ZsDsSource source;

  zero->versions = context->versions;
  zero->world = MAX (context->world, 1);
  zero->node_ranks = context->node_ranks > 0 ? context->node_ranks : zero->world;
  zero->zero_init = context->zero_init;
  fill_stage (exam);
  fill_fields (exam);
  fill_devices (exam);

  source = zs_ds_value_in_force (exam, "zero_optimization.overlap_comm", &value);
  zero->overlap_comm = source == ZS_DS_FROM_FILE ? value.truth : exam->stage == 3;
  if (source == ZS_DS_FROM_FILE)
    record (exam, "zero_optimization.overlap_comm", &value, source);
  else
    zs_ds_settle (exam, "zero_optimization.overlap_comm", ZS_SETTING_DERIVED,
                  "unset: true in stage 3 only", "%s", zero->overlap_comm ? "true" : "false");
  zs_ds_value_clear (&value);

  /* intra_op_parallelism was thread_count before 0.16.4 */
  source = zs_ds_value_in_force (exam, "aio.intra_op_parallelism", &value);
  if (source != ZS_DS_FROM_FILE) {
    zs_ds_value_clear (&value);
    source = zs_ds_value_in_force (exam, "aio.thread_count", &value);
  }
  zero->aio_intra_op_parallelism = value.integer;
  zs_ds_value_clear (&value);

  exam->config->wall_clock_breakdown = zs_ds_truth (exam, "wall_clock_breakdown");
  exam->config->activation_checkpointing_section =
      zs_ds_get (exam, "activation_checkpointing") != NULL;
  zs_ds_fill_precision (exam);
  zs_ds_fill_batch (exam);
  zs_ds_fill_optimizer (exam);
}
