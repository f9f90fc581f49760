/* ready-config.c: a scenario as files that the real job reads.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/study/advise-internal.h"

static const ZsNode *
find (const ZsScenario *scenario, const char *section, const char *key)
{
  return zs_node_get (zs_node_get (zs_document_root (scenario->document), section), key);
}

static void
write_scalar (const ZsNode *node, const char *key, ZsJsonWriter *writer)
{
  int64_t whole;
  double number;
  bool truth;

  if (node->quoted || strcmp (node->text, "auto") == 0)
    zs_json_string (writer, key, node->text);
  else if (zs_node_is_null (node))
    zs_json_null (writer, key);
  else if (zs_node_int (node, &whole))
    zs_json_int (writer, key, whole);
  else if (zs_node_number (node, &number))
    zs_json_number (writer, key, number);
  else if (zs_node_bool (node, &truth))
    zs_json_bool (writer, key, truth);
  else
    zs_json_string (writer, key, node->text);
}

static void write_members (const ZsNode *node, ZsJsonWriter *writer);

static void
write_node (const ZsNode *node, const char *key, ZsJsonWriter *writer)
{
  switch (node->kind) {
  case ZS_NODE_SCALAR:
    write_scalar (node, key, writer);
    break;
  case ZS_NODE_SEQUENCE:
    zs_json_compact (writer);
    zs_json_begin_array (writer, key);
    for (int i = 0; i < node->n_items; i++)
      write_node (node->items[i], NULL, writer);
    zs_json_end_array (writer);
    break;
  case ZS_NODE_MAPPING:
    zs_json_begin_object (writer, key);
    write_members (node, writer);
    zs_json_end_object (writer);
    break;
  }
}

static void
write_members (const ZsNode *node, ZsJsonWriter *writer)
{
  for (int i = 0; i < node->n_items; i++)
    write_node (node->items[i], node->keys[i]->text, writer);
}

void
zs_ready_ds_config (const ZsScenario *scenario, ZsJsonWriter *writer)
{
  static const char *const BATCH[] = { "train_batch_size", "train_micro_batch_size_per_gpu",
                                       "gradient_accumulation_steps", NULL };
  const ZsNode *config = find (scenario, "training", "deepspeed");
  const ZsTraining *training = &scenario->training;

  zs_json_int (writer, "train_micro_batch_size_per_gpu", training->step.micro_batch);
  zs_json_int (writer, "gradient_accumulation_steps", training->gradient_accumulation);
  zs_json_int (writer, "train_batch_size",
               training->step.micro_batch * training->gradient_accumulation * training->world);
  for (int i = 0; config != NULL && config->kind == ZS_NODE_MAPPING && i < config->n_items; i++)
    if (!g_strv_contains (BATCH, config->keys[i]->text))
      write_node (config->items[i], config->keys[i]->text, writer);
}

/* use_liger_kernel, with a configuration where it is not the usual one. */
static void
write_liger (unsigned liger, ZsJsonWriter *writer)
{
  static const struct {
    const char *key;
    unsigned    bit;
  } kernels[] = {
    { "rope", ZS_LIGER_ROPE }, { "swiglu", ZS_LIGER_SWIGLU }, { "rms_norm", ZS_LIGER_RMS_NORM },
    { "cross_entropy", ZS_LIGER_CROSS_ENTROPY }, { "fused_linear_cross_entropy", ZS_LIGER_FUSED_LOSS },
  };

  if (liger == 0)
    return;
  zs_json_bool (writer, "use_liger_kernel", true);
  if (liger == ZS_LIGER_USUAL)
    return;
  zs_json_compact (writer);
  zs_json_begin_object (writer, "liger_kernel_config");
  for (size_t i = 0; i < G_N_ELEMENTS (kernels); i++)
    zs_json_bool (writer, kernels[i].key, (liger & kernels[i].bit) != 0);
  zs_json_end_object (writer);
}

void
zs_ready_training_arguments (const ZsScenario *scenario, ZsJsonWriter *writer)
{
  const ZsTraining *training = &scenario->training;
  bool checkpointing = training->step.checkpoint_every != 0;

  zs_json_int (writer, "per_device_train_batch_size", training->step.micro_batch);
  zs_json_int (writer, "gradient_accumulation_steps", training->gradient_accumulation);
  zs_json_bool (writer, "gradient_checkpointing", checkpointing);
  if (checkpointing) {
    zs_json_compact (writer);
    zs_json_begin_object (writer, "gradient_checkpointing_kwargs");
    zs_json_bool (writer, "use_reentrant", training->step.reentrant);
    zs_json_end_object (writer);
  }
  write_liger (training->step.liger, writer);
  zs_json_bool (writer, "bf16", training->step.dtype == ZS_DTYPE_BF16);
  zs_json_bool (writer, "fp16", training->step.dtype == ZS_DTYPE_FP16);
  if (training->framework == ZS_FRAMEWORK_DEEPSPEED)
    zs_json_string (writer, "deepspeed", "ds_config.json");
}

/* Keys as accelerate's `config` command writes them (accelerate/commands/config/cluster.py). */
void
zs_ready_accelerate (const ZsScenario *scenario, ZsJsonWriter *writer)
{
  const ZsTraining *training = &scenario->training;
  const ZsFsdpConfig *fsdp = &training->fsdp;
  static const char *const PREFETCH[] = { "NO_PREFETCH", "BACKWARD_PRE", "BACKWARD_POST" };

  if (training->framework != ZS_FRAMEWORK_FSDP1 && training->framework != ZS_FRAMEWORK_FSDP2)
    return;
  zs_json_string (writer, "distributed_type", "FSDP");
  zs_json_string (writer, "mixed_precision",
                  fsdp->compute_dtype == ZS_DTYPE_BF16 ? "bf16" : fsdp->compute_dtype == ZS_DTYPE_FP16 ? "fp16" : "no");
  zs_json_begin_object (writer, "fsdp_config");
  zs_json_int (writer, "fsdp_version", fsdp->version);
  if (fsdp->version == 2)
    zs_json_bool (writer, "fsdp_reshard_after_forward", fsdp->reshard_after_forward);
  else
    zs_json_string (writer, "fsdp_sharding_strategy",
                    fsdp->hybrid ? "HYBRID_SHARD" : fsdp->reshard_after_forward ? "FULL_SHARD" : "SHARD_GRAD_OP");
  zs_json_bool (writer, "fsdp_offload_params", fsdp->cpu_offload);
  if (fsdp->version == 1)
    zs_json_string (writer, "fsdp_backward_prefetch",
                    PREFETCH[fsdp->backward_prefetch ? 1 : fsdp->prefetch_after ? 2 : 0]);
  if (fsdp->version == 1 && !fsdp->limit_all_gathers)
    zs_json_bool (writer, "fsdp_limit_all_gathers", false);
  zs_json_string (writer, "fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
  zs_json_end_object (writer);
}

char **
zs_ready_environment (const ZsScenario *scenario)
{
  GPtrArray *lines = g_ptr_array_new ();

  if (scenario->alloc_conf_text[0] != '\0')
    g_ptr_array_add (lines, g_strconcat ("PYTORCH_CUDA_ALLOC_CONF=", scenario->alloc_conf_text, NULL));
  if (scenario->cluster.host.omp_threads > 0)
    g_ptr_array_add (lines, g_strdup_printf ("OMP_NUM_THREADS=%d", (int) scenario->cluster.host.omp_threads));
  g_ptr_array_add (lines, NULL);
  return (char **) g_ptr_array_free (lines, FALSE);
}
