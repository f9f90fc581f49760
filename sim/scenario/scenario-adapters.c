/* scenario-adapters.c: the sections `lora`, `ddp` and `fsdp` of `training`.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/scenario/scenario-internal.h"

const char *const ZS_DTYPE_WORDS[] = { "bf16",    "fp16",    "fp32", "bfloat16",
                                       "float16", "float32", NULL };
const int ZS_DTYPE_VALUES[] = { ZS_DTYPE_BF16, ZS_DTYPE_FP16, ZS_DTYPE_FP32,
                                ZS_DTYPE_BF16, ZS_DTYPE_FP16, ZS_DTYPE_FP32 };

/* One of modules_to_save, or a list. */
static bool
read_saved (ZsReader *reader, const ZsNode *node, ZsLora *lora)
{
  enum { EMBEDDING, HEAD };
  static const char *const modules[] = { "embed_tokens", "lm_head", NULL };
  static const ZsField field = { .key = "modules_to_save", .type = ZS_FIELD_WORD, .words = modules };
  bool list = node != NULL && node->kind == ZS_NODE_SEQUENCE;
  bool ok = true;
  int word;

  if (node == NULL || zs_node_is_null (node))
    return true;
  for (int i = 0; i < (list ? node->n_items : 1); i++) {
    if (!zs_schema_read_field (list ? node->items[i] : node, &field, &word, reader->errors))
      ok = false;
    else if (word == EMBEDDING)
      lora->saves_embedding = true;
    else
      lora->saves_head = true;
  }
  return ok;
}

bool
zs_reader_lora (ZsReader *reader, const ZsNode *node, ZsStepShape *step, bool *ret_dtype_given)
{
  typedef struct {
    int64_t rank;
    const ZsNode *targets, *save;
    int dtype;
    double dropout;
  } Lora;
  static const char *const linears[] = { "q_proj",    "k_proj",  "v_proj",    "o_proj",
                                         "gate_proj", "up_proj", "down_proj", NULL };
  static const ZsField fields[] = {
    { ZS_FIELD ("rank", INT, Lora, rank), .min = 1, .max = 8192, .required = true },
    { ZS_FIELD ("targets", NODE, Lora, targets) },
    { ZS_FIELD ("dtype", WORD, Lora, dtype), .words = ZS_DTYPE_WORDS,
      .word_values = ZS_DTYPE_VALUES },
    { ZS_FIELD ("dropout", NUMBER, Lora, dropout), .high = 0.99 },
    { ZS_FIELD ("modules_to_save", NODE, Lora, save),
      .help = "embed_tokens and lm_head train whole, as copies" },
    { .key = "alpha", .type = ZS_FIELD_IGNORED },
  };
  static const ZsField target = { .key = "targets", .type = ZS_FIELD_WORD, .words = linears };
  Lora value = { .dtype = ZS_DTYPE_FP32 };
  const ZsNode *given[G_N_ELEMENTS (fields)];
  bool ok = true;

  if (node == NULL)
    return true;
  if (!zs_schema_read (node, "lora", fields, G_N_ELEMENTS (fields), &value, given, reader->errors))
    return false;
  zs_reader_record (reader, "training.lora.", fields, G_N_ELEMENTS (fields), given);
  step->lora =
      (ZsLora){ .rank = value.rank, .dtype = (ZsDtype)value.dtype, .dropout = value.dropout };
  *ret_dtype_given = given[2] != NULL;
  if (!read_saved (reader, value.save, &step->lora))
    return false;
  if (value.targets == NULL) {
    /* peft's own choice for LLaMA-like models (peft/utils/constants.py) */
    step->lora.targets = ZS_LINEAR_Q | ZS_LINEAR_V;
    zs_reader_default (reader, "training.lora.targets", "peft", "q_proj, v_proj");
    return true;
  }
  if (value.targets->kind == ZS_NODE_SCALAR) {
    if (strcmp (value.targets->text, "all-linear") == 0) {
      step->lora.targets = (1u << 7) - 1;
      return true;
    }
    int word;

    ok = zs_schema_read_field (value.targets, &target, &word, reader->errors);
    if (ok)
      step->lora.targets = 1u << word;
    return ok;
  }
  for (int i = 0; i < value.targets->n_items; i++) {
    int word;

    if (zs_schema_read_field (value.targets->items[i], &target, &word, reader->errors))
      step->lora.targets |= 1u << word;
    else
      ok = false;
  }
  if (ok && step->lora.targets == 0)
    ok = zs_node_fail (value.targets, reader->errors, "'targets' is empty");
  return ok;
}

/* DeepSpeed's engine casts the adapters that peft made in fp32 to the model's dtype, but not those
 * of a model from zero.Init (stage 3) since 0.19.2. */
void
zs_reader_cast_lora (ZsReader *reader, ZsTraining *training, bool dtype_given)
{
  ZsLora *lora = &training->step.lora;

  if (lora->rank == 0 || training->framework != ZS_FRAMEWORK_DEEPSPEED
      || training->step.dtype == ZS_DTYPE_FP32 || lora->dtype != ZS_DTYPE_FP32)
    return;
  if (training->zero.stage == 3 && training->zero.zero_init
      && zs_behaves (&training->zero.versions, ZS_BEHAVIOUR_ZERO_INIT_NOT_CAST))
    return;
  lora->dtype = training->step.dtype;
  zs_settings_put (reader->settings, "training.lora.dtype", ZS_SETTING_DERIVED,
                   "DeepSpeed's cast of the model", "%s", ZS_DTYPE_WORDS[lora->dtype]);
  if (dtype_given)
    zs_notes_add (reader->notes, ZS_NOTE_INFO, "lora-cast",
                  zs_reader_find (reader, "training.lora.dtype"),
                  "DeepSpeed casts fp32 adapters to %s here", ZS_DTYPE_WORDS[lora->dtype]);
}

bool
zs_reader_ddp (ZsReader *reader, const ZsNode *node, ZsTraining *training)
{
  typedef struct {
    bool find_unused, as_view;
    int64_t cap;
  } Ddp;
  static const ZsField fields[] = {
    { ZS_FIELD ("find_unused_parameters", BOOL, Ddp, find_unused) },
    { ZS_FIELD ("gradient_as_bucket_view", BOOL, Ddp, as_view) },
    { ZS_FIELD ("bucket_cap_mb", INT, Ddp, cap), .min = 1, .max = 1 << 20, .help = "MiB" },
  };
  Ddp value = { 0 };
  const ZsNode *given[G_N_ELEMENTS (fields)] = { NULL };
  bool trainer = false;

  /* Trainer asks for it unless checkpointing forbids it (_wrap_model ()) */
  zs_node_bool (zs_reader_find (reader, "training.hugging_face"), &trainer);
  value.find_unused = trainer && training->step.checkpoint_every == 0;
  if (node != NULL
      && !zs_schema_read (node, "ddp", fields, G_N_ELEMENTS (fields), &value, given, reader->errors))
    return false;
  zs_reader_record (reader, "training.ddp.", fields, G_N_ELEMENTS (fields), given);
  training->ddp = (ZsDdpConfig){ .find_unused_parameters = value.find_unused,
                                 .gradient_as_bucket_view = value.as_view,
                                 .bucket_cap = value.cap << 20 };
  return true;
}

bool
zs_reader_fsdp (ZsReader *reader, const ZsNode *node, ZsTraining *training)
{
  typedef struct {
    bool no_sync, reshard, reshard_root, wrap_embedding, hybrid, cpu_offload, limit_all_gathers, use_orig_params,
      wrap_adapters, state_dict_offload;
    int storage, compute, reduce, prefetch, load;
  } Fsdp;
  enum { LOAD_GPU, LOAD_HOST, LOAD_GATHER };
  static const char *const loads[] = { "gpu", "host", "gather", NULL };
  static const char *const prefetches[] = { "none",        "backward_post", "backward_pre",
                                            "NO_PREFETCH", "BACKWARD_POST", "BACKWARD_PRE",
                                            NULL };
  static const int prefetch_values[] = { 0, 2, 1, 0, 2, 1 };
  static const ZsField fields[] = {
    { ZS_FIELD ("reshard_after_forward", BOOL, Fsdp, reshard) },
    { ZS_FIELD ("param_dtype", WORD, Fsdp, compute), .words = ZS_DTYPE_WORDS,
      .word_values = ZS_DTYPE_VALUES },
    { ZS_FIELD ("reduce_dtype", WORD, Fsdp, reduce), .words = ZS_DTYPE_WORDS,
      .word_values = ZS_DTYPE_VALUES },
    { ZS_FIELD ("cpu_offload", BOOL, Fsdp, cpu_offload) },
    { ZS_FIELD ("storage_dtype", WORD, Fsdp, storage), .words = ZS_DTYPE_WORDS,
      .word_values = ZS_DTYPE_VALUES, .help = "of the shards and the optimizer" },
    { ZS_FIELD ("hybrid", BOOL, Fsdp, hybrid) },
    { ZS_FIELD ("limit_all_gathers", BOOL, Fsdp, limit_all_gathers) },
    { ZS_FIELD ("reshard_root", BOOL, Fsdp, reshard_root),
      .help = "FSDP2: false where fully_shard () is told nothing about resharding" },
    { ZS_FIELD ("wrap_embedding", BOOL, Fsdp, wrap_embedding),
      .help = "FSDP2: the embedding is a unit of its own, as in recent accelerate" },
    { ZS_FIELD ("load", WORD, Fsdp, load), .words = loads,
      .help = "where the model is before it is sharded; from_pretrained () leaves it in host memory; "
              "gather: read into the sharded model, as Fabric's load_raw () does" },
    { ZS_FIELD ("no_sync", BOOL, Fsdp, no_sync),
      .help = "whole gradients wait for the last micro-step, as in Trainer and accelerate" },
    { ZS_FIELD ("backward_prefetch", WORD, Fsdp, prefetch), .words = prefetches,
      .word_values = prefetch_values },
    { ZS_FIELD ("use_orig_params", BOOL, Fsdp, use_orig_params),
      .help = "FSDP1; false: the optimizer sees flat parameters" },
    { ZS_FIELD ("wrap_adapters", BOOL, Fsdp, wrap_adapters),
      .help = "FSDP1 with LoRA: each adapter matrix is a unit, as peft's auto-wrap policy makes them" },
    { ZS_FIELD ("state_dict_offload_to_cpu", BOOL, Fsdp, state_dict_offload),
      .help = "FSDP1, when the model is saved; false: all of it is put together on each GPU" },
  };
  /* shards in fp32, as accelerate and torchtitan keep them; computing in the dtype of the training,
   * gradients reduced in fp32 (torchtitan) or that dtype (FSDP1's bf16 policy of accelerate) */
  bool first = training->framework == ZS_FRAMEWORK_FSDP1;
  int compute = (int)training->step.dtype;
  bool trainer = first;   /* accelerate loads into host memory, accumulates under no_sync (), reduces in the
                             dtype of its mixed precision, and gives FSDP2's embedding a unit of its own and
                             its norm and head one that stays gathered (utils/fsdp_utils.py) */
  zs_node_bool (zs_reader_find (reader, "training.hugging_face"), &trainer);
  Fsdp value = { .no_sync = trainer,
                 .load = trainer ? LOAD_HOST : LOAD_GPU,
                 .reshard = true,
                 .reshard_root = first || !trainer,
                 .wrap_embedding = !first && trainer,
                 .limit_all_gathers = true,
                 .prefetch = 1,
                 .use_orig_params = true,
                 .wrap_adapters = first,
                 .state_dict_offload = true,
                 .storage = training->step.load_in_4bit ? compute : ZS_DTYPE_FP32,
                 .compute = compute,
                 .reduce = first || trainer ? compute : ZS_DTYPE_FP32 };
  const ZsNode *given[G_N_ELEMENTS (fields)] = { NULL };

  if (node != NULL
      && !zs_schema_read (node, "fsdp", fields, G_N_ELEMENTS (fields), &value, given,
                          reader->errors))
    return false;
  zs_reader_record (reader, "training.fsdp.", fields, G_N_ELEMENTS (fields), given);
  for (size_t i = 0; i < G_N_ELEMENTS (fields); i++)
    if (given[i] != NULL && fields[i].help != NULL
        && g_str_has_prefix (fields[i].help, first ? "FSDP2" : "FSDP1"))
      zs_notes_add (reader->notes, ZS_NOTE_DEAD, "dead-key", given[i], "`fsdp.%s` has no effect with FSDP%d: it is of FSDP%d",
                    fields[i].key, first ? 1 : 2, first ? 2 : 1);
  zs_reader_default (reader, "training.fsdp.reshard_after_forward", "FSDP", "true");
  if (training->gradient_accumulation > 1)
    zs_reader_default (reader, "training.fsdp.no_sync", trainer ? "transformers' Trainer" : "zerosim", "%s",
                       value.no_sync ? "true" : "false");
  zs_reader_default (reader, "training.fsdp.load", trainer ? "transformers' Trainer" : "zerosim", "%s",
                     loads[value.load]);
  zs_reader_default (reader, "training.fsdp.param_dtype", "zerosim", "%s",
                     ZS_DTYPE_WORDS[value.compute]);
  zs_reader_default (reader, "training.fsdp.reduce_dtype", "zerosim", "%s",
                     ZS_DTYPE_WORDS[value.reduce]);
  zs_reader_default (reader, "training.fsdp.storage_dtype", "zerosim", "%s",
                     ZS_DTYPE_WORDS[value.storage]);
  training->fsdp = (ZsFsdpConfig){
    .version = first ? 1 : 2,
    .world = training->world,
    .node_ranks = reader->scenario->cluster.gpus_per_node,
    .gradient_accumulation = training->gradient_accumulation,
    .reshard_after_forward = value.reshard,
    .keep_root = !value.reshard_root,
    .load_on_host = value.load != LOAD_GPU,
    .load_gathers = value.load == LOAD_GATHER && first,
    .wrap_embedding = value.wrap_embedding,
    .hybrid = value.hybrid,
    .parameter_dtype = (ZsDtype)value.storage,
    .compute_dtype = (ZsDtype)value.compute,
    .reduce_dtype = (ZsDtype)value.reduce,
    .cpu_offload = value.cpu_offload,
    .limit_all_gathers = value.limit_all_gathers,
    .backward_prefetch = value.prefetch == 1,
    .prefetch_after = first && value.prefetch == 2,
    .no_sync = value.no_sync,
    .flat_optimizer = first && !value.use_orig_params,
    .wrap_adapters = first && value.wrap_adapters,
    .state_dict_on_gpu = first && !value.state_dict_offload,
    .optimizer = training->step.optimizer,
    .versions = training->step.versions,
  };
  training->step.dtype = training->fsdp.compute_dtype;
  return true;
}
