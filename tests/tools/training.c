/* training.c: reading the settings of measured runs.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/scenario/scenario.h"
#include "tests/tools/training.h"

#include <stdlib.h>
#include <string.h>

void
test_training_init (ZsTraining *training)
{
  ZsVersions versions = { .of = { [ZS_SOFTWARE_DEEPSPEED] = ZS_VERSION (0, 14, 4),
                                  [ZS_SOFTWARE_TORCH] = ZS_VERSION (2, 11, 0),
                                  [ZS_SOFTWARE_TRANSFORMERS] = ZS_VERSION (5, 17, 0),
                                  [ZS_SOFTWARE_NCCL] = ZS_VERSION (2, 28, 9) } };

  *training = (ZsTraining) {
    .framework = ZS_FRAMEWORK_SINGLE, .n_steps = 2, .gradient_accumulation = 1, .world = 1,
    .synchronize_phases = true,
    .step = { .micro_batch = 1, .sequence = 1024, .dtype = ZS_DTYPE_BF16,
              .attention = ZS_ATTENTION_CUDNN, .optimizer = ZS_OPTIMIZER_FUSED, .clip = true,
              .versions = versions, .compute_capability = 90, .sm_count = 132 },
    .zero = { .gradient_accumulation = 1, .dtype = ZS_DTYPE_BF16, .communication_dtype = ZS_DTYPE_BF16,
              .grad_accum_dtype = ZS_DTYPE_BF16, .gradient_clipping = 1.0,
              .optimizer = ZS_DS_OPTIMIZER_FUSED_ADAM, .optimizer_groups = 1,
              .reduce_bucket_size = 500000000, .allgather_bucket_size = 500000000,
              .overlap_comm = true, .contiguous_gradients = true, .reduce_scatter = true,
              .use_multi_rank_bucket_allreduce = true, .ignore_unused_parameters = true,
              .sub_group_size = 1000000000, .prefetch_bucket_size = 50000000,
              .param_persistence_threshold = 100000, .model_persistence_threshold = INT64_MAX,
              .max_live_parameters = 1000000000, .max_reuse_distance = 1000000000,
              .memory_efficient_linear = true, .zero_init = true, .optimizer_pin = true,
              .param_pin = true, .optimizer_buffer_count = 4, .optimizer_ratio = 1.0,
              .param_buffer_count = 5, .param_buffer_size = 100000000,
              .param_max_in_cpu = 1000000000, .hpz_partition_size = 1, .mics_shard_size = -1,
              .check_grad_overflow = true, .versions = versions },
    .fsdp = { .version = 2, .gradient_accumulation = 1, .reshard_after_forward = true,
              .parameter_dtype = ZS_DTYPE_FP32, .compute_dtype = ZS_DTYPE_BF16,
              .reduce_dtype = ZS_DTYPE_FP32, .limit_all_gathers = true, .backward_prefetch = true,
              .optimizer = ZS_OPTIMIZER_FUSED, .versions = versions },
  };
}

static ZsDtype
dtype_of (const char *value)
{
  if (strstr (value, "float32") != NULL || strcmp (value, "fp32") == 0)
    return ZS_DTYPE_FP32;
  if (strstr (value, "bfloat16") == NULL && (strstr (value, "float16") != NULL || strcmp (value, "fp16") == 0))
    return ZS_DTYPE_FP16;
  return ZS_DTYPE_BF16;
}

static ZsOffloadDevice
device_of (const char *value)
{
  return strcmp (value, "cpu") == 0 ? ZS_DEVICE_CPU : strcmp (value, "nvme") == 0 ? ZS_DEVICE_NVME
                                                                                : ZS_DEVICE_NONE;
}

static unsigned
targets_of (const char *value)
{
  static const struct { const char *name; unsigned bit; } NAMES[] = {
    { "q_proj", ZS_LINEAR_Q }, { "k_proj", ZS_LINEAR_K }, { "v_proj", ZS_LINEAR_V },
    { "o_proj", ZS_LINEAR_O }, { "gate_proj", ZS_LINEAR_GATE }, { "up_proj", ZS_LINEAR_UP },
    { "down_proj", ZS_LINEAR_DOWN },
  };
  unsigned targets = 0;

  for (gsize i = 0; i < G_N_ELEMENTS (NAMES); i++)
    if (strstr (value, NAMES[i].name) != NULL)
      targets |= NAMES[i].bit;
  return targets;
}

static void
set_optimizer (ZsTraining *training, const char *value)
{
  if (strstr (value, "foreach") != NULL) {
    training->step.optimizer = ZS_OPTIMIZER_FOREACH;
    training->zero.optimizer = ZS_DS_OPTIMIZER_TORCH_FOREACH;
  } else if (strstr (value, "torch") != NULL) {
    training->zero.optimizer = ZS_DS_OPTIMIZER_TORCH_FUSED;
  }
}

static void
set_checkpointing (ZsTraining *training, const char *value)
{
  training->step.checkpoint_every = strcmp (value, "none") == 0 ? 0 : 1;
  training->step.reentrant = strcmp (value, "reentrant") == 0;
}

static void
set_framework (ZsTraining *training, const char *value)
{
  training->framework = strcmp (value, "deepspeed") == 0 ? ZS_FRAMEWORK_DEEPSPEED
                        : strcmp (value, "fsdp2") == 0   ? ZS_FRAMEWORK_FSDP2
                                                         : ZS_FRAMEWORK_SINGLE;
}

typedef struct {
  const char *key;
  gsize       offset;
} IntegerKey;

#define AT(member) G_STRUCT_OFFSET (ZsTraining, member)

static const IntegerKey INTEGERS[] = {
  { "hidden", AT (shape.hidden) }, { "h", AT (shape.hidden) },
  { "ffn", AT (shape.intermediate) }, { "layers", AT (shape.n_layers) },
  { "heads", AT (shape.n_heads) }, { "kv", AT (shape.n_kv_heads) },
  { "kv_heads", AT (shape.n_kv_heads) }, { "vocab", AT (shape.vocabulary) },
  { "world", AT (world) }, { "mbs", AT (step.micro_batch) }, { "seq", AT (step.sequence) },
  { "lora_r", AT (step.lora.rank) },
  { "reduce_bucket_size", AT (zero.reduce_bucket_size) },
  { "allgather_bucket_size", AT (zero.allgather_bucket_size) },
  { "sub_group_size", AT (zero.sub_group_size) },
  { "stage3_prefetch_bucket_size", AT (zero.prefetch_bucket_size) },
  { "stage3_param_persistence_threshold", AT (zero.param_persistence_threshold) },
  { "stage3_max_live_parameters", AT (zero.max_live_parameters) },
  { "stage3_max_reuse_distance", AT (zero.max_reuse_distance) },
  { "stage3_module_granularity_threshold", AT (zero.module_granularity_threshold) },
  { "zero_hpz_partition_size", AT (zero.hpz_partition_size) },
};

static const IntegerKey BOOLEANS[] = {
  { "tied", AT (shape.tied_embeddings) }, { "keep_outputs", AT (step.keep_outputs) },
  { "attention_mask", AT (step.attention_mask) },
  { "contiguous_gradients", AT (zero.contiguous_gradients) },
  { "reduce_scatter", AT (zero.reduce_scatter) }, { "overlap_comm", AT (zero.overlap_comm) },
  { "round_robin_gradients", AT (zero.round_robin_gradients) },
  { "use_multi_rank_bucket_allreduce", AT (zero.use_multi_rank_bucket_allreduce) },
  { "memory_efficient_linear", AT (zero.memory_efficient_linear) },
  { "zero_init", AT (zero.zero_init) }, { "pin", AT (zero.optimizer_pin) },
  { "fsdp_reshard", AT (fsdp.reshard_after_forward) }, { "reshard", AT (fsdp.reshard_after_forward) },
  { "fsdp_cpu_offload", AT (fsdp.cpu_offload) },
  { "check_grad_overflow", AT (zero.check_grad_overflow) },
  { "bf16_master_weights_and_grads", AT (zero.bf16_master_weights_and_grads) },
  { "bf16_optimizer_states", AT (zero.bf16_optimizer_states) },
  { "immediate_grad_update", AT (zero.immediate_grad_update) },
  { "stage3_allgather_sequential", AT (zero.allgather_sequential) },
  { "stage3_use_all_reduce_for_fetch_params", AT (zero.use_all_reduce_for_fetch_params) },
};

static bool
set_from_tables (ZsTraining *training, const char *key, const char *value)
{
  for (gsize i = 0; i < G_N_ELEMENTS (INTEGERS); i++)
    if (strcmp (INTEGERS[i].key, key) == 0) {
      G_STRUCT_MEMBER (int64_t, training, INTEGERS[i].offset) = (int64_t) g_ascii_strtod (value, NULL);
      return true;
    }
  for (gsize i = 0; i < G_N_ELEMENTS (BOOLEANS); i++)
    if (strcmp (BOOLEANS[i].key, key) == 0) {
      G_STRUCT_MEMBER (bool, training, BOOLEANS[i].offset) = strcmp (value, "1") == 0
                                                            || strcmp (value, "true") == 0;
      return true;
    }
  return false;
}

void
test_training_set (ZsTraining *training, const char *key, const char *value)
{
  if (value == NULL || *value == '\0' || set_from_tables (training, key, value))
    return;
  if (strcmp (key, "framework") == 0)
    set_framework (training, value);
  else if (strcmp (key, "stage") == 0)
    training->zero.stage = atoi (value);
  else if (strcmp (key, "steps") == 0)
    training->n_steps = atoi (value);
  else if (strcmp (key, "gas") == 0)
    training->gradient_accumulation = atoi (value);
  else if (strcmp (key, "ckpt") == 0)
    set_checkpointing (training, value);
  else if (strcmp (key, "attn") == 0)
    training->step.attention = strcmp (value, "eager") == 0 ? ZS_ATTENTION_EAGER : ZS_ATTENTION_CUDNN;
  else if (strcmp (key, "optimizer") == 0)
    set_optimizer (training, value);
  else if (strcmp (key, "offload_optimizer") == 0)
    training->zero.offload_optimizer = device_of (value);
  else if (strcmp (key, "offload_param") == 0)
    training->zero.offload_param = device_of (value);
  else if (strcmp (key, "clip") == 0)
    training->zero.gradient_clipping = g_ascii_strtod (value, NULL);
  else if (strcmp (key, "lora_targets") == 0)
    training->step.lora.targets = targets_of (value);
  else if (strcmp (key, "master") == 0 || strcmp (key, "master_dtype") == 0)
    training->fsdp.parameter_dtype = dtype_of (value);
  else if (strcmp (key, "reduce_dtype") == 0 || strcmp (key, "fsdp_reduce_dtype") == 0)
    training->fsdp.reduce_dtype = dtype_of (value);
  else if (strcmp (key, "grad_accum_dtype") == 0)
    training->zero.grad_accum_dtype = dtype_of (value);
  else if (strcmp (key, "communication_data_type") == 0)
    training->zero.communication_dtype = dtype_of (value);
  else if (strcmp (key, "ratio") == 0)
    training->zero.optimizer_ratio = g_ascii_strtod (value, NULL);
  else if (strcmp (key, "deepspeed") == 0)
    zs_version_parse (value, &training->step.versions.of[ZS_SOFTWARE_DEEPSPEED]);
  else if (strcmp (key, "torch") == 0)
    zs_version_parse (value, &training->step.versions.of[ZS_SOFTWARE_TORCH]);
}

void
test_training_finish (ZsTraining *training)
{
  ZsModelShape *shape = &training->shape;

  if (shape->head_dim == 0 && shape->n_heads > 0)
    shape->head_dim = shape->hidden / shape->n_heads;
  training->zero.world = training->fsdp.world = training->world;
  training->zero.node_ranks = training->fsdp.node_ranks = MIN (training->world, 8);
  training->zero.gradient_accumulation = training->gradient_accumulation;
  training->fsdp.gradient_accumulation = training->gradient_accumulation;
  training->zero.versions = training->fsdp.versions = training->step.versions;
  training->zero.param_pin = training->zero.optimizer_pin;
  training->step.clip = training->framework != ZS_FRAMEWORK_DEEPSPEED
                        && training->zero.gradient_clipping > 0;
  if (training->zero.offload_optimizer != ZS_DEVICE_NONE
      && training->zero.optimizer == ZS_DS_OPTIMIZER_FUSED_ADAM)
    training->zero.optimizer = ZS_DS_OPTIMIZER_CPU_ADAM;
  if (training->step.lora.rank > 0) {
    /* peft makes fp32 adapters; DeepSpeed's engine casts the whole module, but for models from
     * zero.Init in newer versions */
    bool cast = training->framework == ZS_FRAMEWORK_DEEPSPEED
                && !(training->zero.stage == 3
                     && zs_behaves (&training->step.versions, ZS_BEHAVIOUR_ZERO_INIT_NOT_CAST));

    training->step.lora.dtype = cast ? ZS_DTYPE_BF16 : ZS_DTYPE_FP32;
  }
  if (training->framework == ZS_FRAMEWORK_DEEPSPEED)
    training->step.cast_model = training->zero.stage < 3
                                || !zs_behaves (&training->step.versions, ZS_BEHAVIOUR_ZERO_INIT_NOT_CAST);
}

static void
set_json (ZsTraining *training, const char *key, json_t *value)
{
  const char *sub_key;
  json_t *sub;
  char text[64] = "";

  if (json_is_object (value)) {
    json_object_foreach (value, sub_key, sub)
      set_json (training, strcmp (key, "lora") == 0 && strcmp (sub_key, "r") == 0 ? "lora_r"
                          : strcmp (key, "lora") == 0                           ? "lora_targets"
                                                                                : sub_key, sub);
    return;
  }
  if (json_is_string (value))
    test_training_set (training, key, json_string_value (value));
  else if (json_is_boolean (value))
    test_training_set (training, key, json_is_true (value) ? "1" : "0");
  else if (json_is_number (value))
    test_training_set (training, key, g_ascii_dtostr (text, sizeof text, json_number_value (value)));
}

void
test_training_apply_json (ZsTraining *training, json_t *object)
{
  const char *key;
  json_t *value;

  json_object_foreach (object, key, value)
    set_json (training, key, value);
}

bool
test_training_is_simulated (const ZsTraining *training)
{
  return training->framework == ZS_FRAMEWORK_SINGLE || training->framework == ZS_FRAMEWORK_DEEPSPEED;
}

void
test_training_from_json (ZsTraining *training, json_t *run)
{
  const char *key;
  json_t *value;

  test_training_init (training);
  json_object_foreach (run, key, value)
    set_json (training, key, value);
  test_training_finish (training);
}

static int64_t
integer (json_t *run, const char *key)
{
  return json_integer_value (json_object_get (run, key));
}

static const char *
string (json_t *run, const char *key)
{
  const char *text = json_string_value (json_object_get (run, key));

  return text != NULL ? text : "";
}

static void
set_step_lora (ZsTraining *training, json_t *lora)
{
  if (!json_is_array (lora))
    return;
  json_t *targets = json_array_get (lora, 1), *target;
  gsize i;

  training->step.lora.rank = json_integer_value (json_array_get (lora, 0));
  json_array_foreach (targets, i, target)
    training->step.lora.targets |= targets_of (json_string_value (target));
  training->step.lora.dtype = dtype_of (json_string_value (json_array_get (lora, 2)));
  training->step.lora.dropout = json_number_value (json_array_get (lora, 3));
}

void
test_training_from_step (ZsTraining *training, json_t *run)
{
  const char *backend = string (run, "backend"), *model = string (run, "model");
  ZsStepShape *step = &training->step;

  test_training_init (training);
  training->shape = (ZsModelShape) {
    .hidden = integer (run, "h"), .intermediate = integer (run, "I"), .n_layers = integer (run, "L"),
    .n_heads = integer (run, "H"), .n_kv_heads = integer (run, "K"), .vocabulary = integer (run, "V"),
    .head_dim = integer (run, "d"), .tied_embeddings = json_is_true (json_object_get (run, "tied")),
    .qkv_bias = strcmp (model, "qwen2") == 0, .qk_norm = strcmp (model, "qwen3") == 0,
    .attention_bias_all = json_is_true (json_object_get (run, "abias")),
    .mlp_bias = json_is_true (json_object_get (run, "mbias")),
  };
  training->n_steps = (int) integer (run, "steps");
  training->gradient_accumulation = (int) integer (run, "gas");
  step->autocast = json_is_true (json_object_get (run, "autocast"));
  step->micro_batch = integer (run, "B");
  step->sequence = integer (run, "S");
  step->dtype = dtype_of (string (run, "dtype"));
  step->attention = strcmp (string (run, "attn"), "eager") == 0       ? ZS_ATTENTION_EAGER
                    : strcmp (backend, "FLASH_ATTENTION") == 0       ? ZS_ATTENTION_FLASH
                    : strcmp (backend, "EFFICIENT_ATTENTION") == 0   ? ZS_ATTENTION_EFFICIENT
                    : strcmp (backend, "MATH") == 0 || (step->dtype == ZS_DTYPE_FP32 && !step->autocast)
                      ? ZS_ATTENTION_MATH
                                                                                   : ZS_ATTENTION_CUDNN;
  step->attention_mask = json_is_true (json_object_get (run, "mask"));
  step->mask_of_ones = strcmp (string (run, "mask"), "ones") == 0;
  step->use_cache = strcmp (string (run, "name"), "cache") == 0;
  set_checkpointing (training, *string (run, "ckpt") == '\0'             ? "none"
                               : strcmp (string (run, "ckpt"), "re") == 0 ? "reentrant"
                                                                          : "nonreentrant");
  step->keep_outputs = json_is_true (json_object_get (run, "keep"));
  step->autocast = json_is_true (json_object_get (run, "autocast"));
  step->cast_model = json_is_true (json_object_get (run, "cast"));
  if (*string (run, "ddp") != '\0')
    training->framework = ZS_FRAMEWORK_DDP;
  training->ddp.gradient_as_bucket_view = strcmp (string (run, "ddp"), "view") == 0;
  step->optimizer = strcmp (string (run, "opt"), "foreach") == 0 ? ZS_OPTIMIZER_FOREACH
                    : strcmp (string (run, "opt"), "loop") == 0  ? ZS_OPTIMIZER_FOR_LOOP
                                                                 : ZS_OPTIMIZER_FUSED;
  set_step_lora (training, json_object_get (run, "lora"));
  test_training_finish (training);
  step->clip = json_is_true (json_object_get (run, "clip"));
  if (step->lora.rank > 0)
    step->lora.dtype = dtype_of (json_string_value (json_array_get (json_object_get (run, "lora"), 2)));
  step->cast_model = json_is_true (json_object_get (run, "cast"));
}

/* ---- tests/data/h200-more ---- */

static bool
is_true (json_t *object, const char *key)
{
  return json_is_true (json_object_get (object, key));
}

static void
set_more_model (ZsTraining *training, json_t *model)
{
  const char *type = string (model, "model_type");

  training->shape = (ZsModelShape) {
    .hidden = integer (model, "hidden_size"), .intermediate = integer (model, "intermediate_size"),
    .n_layers = integer (model, "num_hidden_layers"), .n_heads = integer (model, "num_attention_heads"),
    .n_kv_heads = integer (model, "num_key_value_heads"), .vocabulary = integer (model, "vocab_size"),
    .head_dim = integer (model, "head_dim"), .tied_embeddings = is_true (model, "tie_word_embeddings"),
    .qkv_bias = strcmp (type, "qwen2") == 0, .qk_norm = strcmp (type, "qwen3") == 0,
    .sliding_window = integer (model, "sliding_window"),
    .attention_bias_all = is_true (model, "attention_bias"), .mlp_bias = is_true (model, "mlp_bias"),
  };
}

static void
set_more_lora (ZsLora *lora, json_t *object)
{
  json_t *targets = json_object_get (object, "targets"), *target;
  gsize i;

  if (!json_is_object (object))
    return;
  json_array_foreach (json_object_get (object, "save"), i, target) {
    lora->saves_embedding |= strcmp (json_string_value (target), "embed_tokens") == 0;
    lora->saves_head |= strcmp (json_string_value (target), "lm_head") == 0;
  }
  lora->rank = integer (object, "r");
  lora->dropout = json_number_value (json_object_get (object, "dropout"));
  lora->dtype = is_true (object, "bf16") ? ZS_DTYPE_BF16 : ZS_DTYPE_FP32;
  if (json_is_string (targets))
    lora->targets = ZS_LINEAR_Q | ZS_LINEAR_K | ZS_LINEAR_V | ZS_LINEAR_O | ZS_LINEAR_GATE | ZS_LINEAR_UP
                    | ZS_LINEAR_DOWN;
  json_array_foreach (targets, i, target)
    lora->targets |= targets_of (json_string_value (target));
}

static void
set_more_fsdp (ZsTraining *training, json_t *object)
{
  ZsFsdpConfig *fsdp = &training->fsdp;
  const char *reduce = string (object, "reduce");

  fsdp->version = training->framework == ZS_FRAMEWORK_FSDP1 ? 1 : 2;
  fsdp->reduce_dtype = *reduce != '\0' ? dtype_of (reduce) : ZS_DTYPE_FP32;
  if (is_true (object, "pure"))
    fsdp->parameter_dtype = fsdp->compute_dtype = fsdp->reduce_dtype = training->step.dtype;
  if (json_is_false (json_object_get (object, "reshard"))
      || strcmp (string (object, "strategy"), "SHARD_GRAD_OP") == 0)
    fsdp->reshard_after_forward = false;
  fsdp->keep_root = fsdp->version == 2 && json_object_get (object, "reshard") == NULL;
  fsdp->cpu_offload = is_true (object, "offload");
  fsdp->no_sync = is_true (object, "no_sync");
  fsdp->wrap_embedding = is_true (object, "embed");
  if (*string (object, "prefetch") != '\0') {
    fsdp->backward_prefetch = strcmp (string (object, "prefetch"), "PRE") == 0;
    fsdp->prefetch_after = strcmp (string (object, "prefetch"), "POST") == 0;
  }
  fsdp->flat_optimizer = fsdp->version == 1 && !is_true (object, "orig");
}

/* Samples of lengths that are drawn. */
static void
set_more_lengths (ZsTraining *training, json_t *given)
{
  if (!json_is_object (given))
    return;
  training->lengths = (ZsLengths) {
    .mean = integer (given, "mean"), .deviation = integer (given, "deviation"),
    .seed = (uint64_t) integer (given, "seed"), .drop = is_true (given, "drop"),
    .multiple = json_object_get (given, "multiple") != NULL ? integer (given, "multiple") : 1,
  };
  training->step.sequence = integer (given, "cut");
}

void
test_training_from_more (ZsTraining *training, json_t *run)
{
  static const struct { const char *name; ZsFramework framework; } FRAMEWORKS[] = {
    { "plain", ZS_FRAMEWORK_SINGLE }, { "ddp", ZS_FRAMEWORK_DDP }, { "fsdp1", ZS_FRAMEWORK_FSDP1 },
    { "fsdp2", ZS_FRAMEWORK_FSDP2 },
  };
  const char *backend = string (run, "backend"), *optimizer = string (run, "optimizer");
  ZsStepShape *step = &training->step;

  test_training_init (training);
  for (gsize i = 0; i < G_N_ELEMENTS (FRAMEWORKS); i++)
    if (strcmp (string (run, "framework"), FRAMEWORKS[i].name) == 0)
      training->framework = FRAMEWORKS[i].framework;
  set_more_model (training, json_object_get (run, "model"));
  training->n_steps = (int) integer (run, "steps");
  training->gradient_accumulation = (int) integer (run, "gas");
  training->empty_cache_steps = (int) integer (run, "empty");
  training->world = integer (run, "world");
  step->micro_batch = integer (run, "batch");
  step->sequence = integer (run, "seq");
  step->dtype = dtype_of (string (run, "dtype"));
  step->autocast = is_true (run, "autocast") || *string (run, "autocast") != '\0';
  step->attention = strcmp (string (run, "attn"), "eager") == 0 ? ZS_ATTENTION_EAGER
                    : strcmp (backend, "flash") == 0            ? ZS_ATTENTION_FLASH
                    : strcmp (backend, "efficient") == 0        ? ZS_ATTENTION_EFFICIENT
                    : strcmp (backend, "math") == 0
                      ? ZS_ATTENTION_MATH
                      : ZS_ATTENTION_CUDNN;
  step->attention_mask = is_true (run, "mask");
  step->mask_of_ones = strcmp (string (run, "mask"), "ones") == 0;
  step->use_cache = is_true (run, "use_cache");
  step->packed = strcmp (string (run, "positions"), "packed") == 0;
  if (json_is_object (json_object_get (run, "trainer"))) {   /* as Trainer has them where nothing is said */
    json_t *bf16 = json_object_get (json_object_get (run, "trainer"), "bf16");

    step->mask_of_ones = true;
    step->autocast = bf16 == NULL || json_is_true (bf16);
  }
  set_checkpointing (training, string (run, "ckpt"));
  step->keep_outputs = is_true (run, "keep");
  step->new_inputs = true;
  step->optimizer = strcmp (optimizer, "foreach") == 0    ? ZS_OPTIMIZER_FOREACH
                    : strcmp (optimizer, "for-loop") == 0 ? ZS_OPTIMIZER_FOR_LOOP
                                                          : ZS_OPTIMIZER_FUSED;
  if (g_str_has_prefix (optimizer, "sgd"))
    step->optimizer = strcmp (optimizer, "sgd") == 0 ? ZS_OPTIMIZER_SGD : ZS_OPTIMIZER_SGD_MOMENTUM;
  else if (strcmp (optimizer, "adafactor") == 0)
    step->optimizer = ZS_OPTIMIZER_ADAFACTOR;
  step->optimizer_groups = json_is_object (json_object_get (run, "trainer")) ? 2 : (int) integer (run, "groups");
  training->fsdp.optimizer = step->optimizer;
  set_more_fsdp (training, json_object_get (run, "fsdp"));
  training->ddp.find_unused_parameters = is_true (json_object_get (run, "ddp"), "find_unused_parameters");
  training->ddp.gradient_as_bucket_view = is_true (json_object_get (run, "ddp"), "gradient_as_bucket_view");
  set_more_lora (&step->lora, json_object_get (run, "lora"));
  set_more_lengths (training, json_object_get (run, "lengths"));
  test_training_finish (training);
  ZsAttention open = step->attention;

  if (*backend == '\0' && open == ZS_ATTENTION_CUDNN)
    open = zs_attention_of_sdpa (90, step->versions.of[ZS_SOFTWARE_TORCH], step->autocast ? ZS_DTYPE_BF16 : step->dtype,
                                 training->shape.head_dim, false, training->shape.n_kv_heads != training->shape.n_heads);
  if (!step->attention_mask)
    step->attention = open;
  step->open_attention = open;
  step->clip = json_number_value (json_object_get (run, "clip")) > 0
               || json_is_object (json_object_get (run, "trainer"));
  if (step->lora.rank > 0)
    set_more_lora (&step->lora, json_object_get (run, "lora"));
}
