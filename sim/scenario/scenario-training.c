/* scenario-training.c: the section `training`.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/scenario/ds-config.h"
#include "sim/scenario/scenario-internal.h"

typedef struct {
  int framework, dtype, attention, attention_mask, sdpa_backend;
  ZsVersion versions[ZS_N_GIVEN_VERSIONS];
  const ZsNode *deepspeed, *checkpointing, *optimizer, *ddp, *fsdp, *lora, *lengths, *liger;
  int64_t micro_batch, accumulation, sequence, multiple, omp_threads, steps, memory_limit, empty_cache_steps,
      optimizer_groups;
  double clipping;
  bool fused_operators, reentrant, autocast, tf32, load_in_4bit, double_quant, zero_init, use_cache, packing, keep_outputs, new_inputs,
    synchronize, hugging_face, save;
  const char *alloc_conf;
} Values;

/* clang-format off */
enum { FRAMEWORK, FRAMEWORK_VERSION, TORCH_VERSION, TRANSFORMERS_VERSION, DEEPSPEED, MICRO_BATCH,
       ACCUMULATION, SEQUENCE, DTYPE, ATTENTION, ATTENTION_MASK, CHECKPOINTING, REENTRANT, OPTIMIZER,
       CLIPPING, FSDP, LORA, AUTOCAST, LOAD_IN_4BIT, ZERO_INIT, MEMORY_LIMIT, OMP_THREADS, ALLOC_CONF,
       STEPS, FUSED_OPERATORS, KEEP_OUTPUTS, SYNCHRONIZE, HUGGING_FACE, EMPTY_CACHE_STEPS,
       SAVE, SDPA_BACKEND, NEW_INPUTS, DOUBLE_QUANT, DDP,
       USE_CACHE, PACKING, TF32, LENGTHS, MULTIPLE, LIGER, N_FIELDS };
/* clang-format on */

enum { ATTENTION_EAGER, ATTENTION_SDPA, ATTENTION_FLASH, ATTENTION_FLASH_2 };

static const char *const FRAMEWORKS[] = { "single", "ddp", "deepspeed", "fsdp", "fsdp2", NULL };
static const char *const ATTENTIONS[] = { "eager", "sdpa", "flash", "flash_attention_2", NULL };
static const int ATTENTION_VALUES[] = { ATTENTION_EAGER, ATTENTION_SDPA, ATTENTION_FLASH,
                                        ATTENTION_FLASH_2 };

/* what the model is given as attention_mask */
enum { MASK_NONE, MASK_PADDING, MASK_ONES };
static const char *const MASKS[] = { "none", "padding", "ones", "false", "true", NULL };
static const int MASK_VALUES[] = { MASK_NONE, MASK_PADDING, MASK_ONES, MASK_NONE, MASK_PADDING };

/* torch.nn.attention.sdpa_kernel () */
static const char *const SDPA_BACKENDS[] = { "cudnn", "flash", "efficient", "math", NULL };
static const int SDPA_VALUES[] = { ZS_ATTENTION_CUDNN, ZS_ATTENTION_FLASH, ZS_ATTENTION_EFFICIENT,
                                   ZS_ATTENTION_MATH };

static const ZsField FIELDS[N_FIELDS] = {
  [FRAMEWORK] = { ZS_FIELD ("framework", WORD, Values, framework), .words = FRAMEWORKS },
  [FRAMEWORK_VERSION] = { ZS_FIELD ("framework_version", VERSION, Values, versions[0]) },
  [TORCH_VERSION] = { ZS_FIELD ("torch_version", VERSION, Values, versions[1]) },
  [TRANSFORMERS_VERSION] = { ZS_FIELD ("transformers_version", VERSION, Values, versions[2]) },
  [DEEPSPEED] = { ZS_FIELD ("deepspeed", MAPPING, Values, deepspeed),
                  .help = "the path of a ds_config.json, or its keys" },
  [MICRO_BATCH] = { ZS_FIELD ("micro_batch", INT, Values, micro_batch), .min = 1, .max = 1 << 20,
                    .help = "samples of one forward pass on one GPU" },
  [ACCUMULATION] = { ZS_FIELD ("gradient_accumulation", INT, Values, accumulation), .min = 1,
                     .max = 1 << 20 },
  [SEQUENCE] = { ZS_FIELD ("sequence_length", INT, Values, sequence), .min = 1, .max = 1 << 24,
                 .help = "tokens of a sample" },
  [LENGTHS] = { ZS_FIELD ("sequence_lengths", NODE, Values, lengths),
                .help = "of the micro-batches, one after another; or {mean: 900, deviation: 700} of samples, "
                        "of which none is longer than sequence_length" },
  [MULTIPLE] = { ZS_FIELD ("pad_to_multiple_of", INT, Values, multiple), .min = 1, .max = 1 << 24,
                 .help = "micro-batches of varying lengths are padded to a multiple" },
  [DTYPE] = { ZS_FIELD ("dtype", WORD, Values, dtype), .words = ZS_DTYPE_WORDS,
              .word_values = ZS_DTYPE_VALUES },
  [ATTENTION] = { ZS_FIELD ("attention", WORD, Values, attention), .words = ATTENTIONS,
                  .word_values = ATTENTION_VALUES },
  [ATTENTION_MASK] = { ZS_FIELD ("attention_mask", WORD, Values, attention_mask), .words = MASKS,
                       .word_values = MASK_VALUES,
                       .help = "padding: some tokens are hidden; ones: a mask is given that hides none" },
  [PACKING] = { ZS_FIELD ("packing", BOOL, Values, packing),
                .help = "samples are joined to sequences, and told apart by position_ids" },
  [USE_CACHE] = { ZS_FIELD ("use_cache", BOOL, Values, use_cache),
                  .help = "the model fills a cache of keys and values, which checkpointing forbids" },
  [CHECKPOINTING] = { ZS_FIELD ("checkpointing", NODE, Values, checkpointing),
                      .help = "none, full or {every: 2, reentrant: false}" },
  [REENTRANT] = { ZS_FIELD ("reentrant", BOOL, Values, reentrant),
                  .help = "use_reentrant of checkpointing" },
  [OPTIMIZER] = { ZS_FIELD ("optimizer", MAPPING, Values, optimizer) },
  [CLIPPING] = { ZS_FIELD ("gradient_clipping", NUMBER, Values, clipping), .help = "0: none" },
  [DDP] = { ZS_FIELD ("ddp", MAPPING, Values, ddp),
            .help = "find_unused_parameters, gradient_as_bucket_view, bucket_cap_mb" },
  [FSDP] = { ZS_FIELD ("fsdp", MAPPING, Values, fsdp) },
  [LORA] = { ZS_FIELD ("lora", MAPPING, Values, lora) },
  [AUTOCAST] = { ZS_FIELD ("autocast", BOOL, Values, autocast),
                 .help = "fp32 parameters under autocast" },
  [TF32] = { ZS_FIELD ("tf32", BOOL, Values, tf32),
             .help = "products of fp32 use TF32, as the trainer's tf32: true sets it" },
  [LOAD_IN_4BIT] = { ZS_FIELD ("load_in_4bit", BOOL, Values, load_in_4bit) },
  [DOUBLE_QUANT] = { ZS_FIELD ("double_quant", BOOL, Values, double_quant),
                     .help = "bnb_4bit_use_double_quant" },
  [ZERO_INIT] = { ZS_FIELD ("zero_init", BOOL, Values, zero_init),
                  .help = "stage 3: build under zero.Init" },
  [MEMORY_LIMIT] = { ZS_FIELD ("memory_limit", BYTES, Values, memory_limit), .min = 1 << 20,
                     .max = INT64_C (1) << 42, .help = "of what torch may reserve" },
  [OMP_THREADS] = { ZS_FIELD ("omp_threads", INT, Values, omp_threads), .min = 1, .max = 4096,
                    .help = "of each rank" },
  [ALLOC_CONF] = { ZS_FIELD ("alloc_conf", STRING, Values, alloc_conf),
                   .help = "PYTORCH_CUDA_ALLOC_CONF" },
  [STEPS] = { ZS_FIELD ("steps", INT, Values, steps), .min = 1, .max = 1000,
              .help = "to simulate" },
  [FUSED_OPERATORS] = { ZS_FIELD ("fused_operators", BOOL, Values, fused_operators),
                        .help = "norm, rotary embedding and activation are one kernel each (times "
                                "only: bytes stay those of the eager operators)" },
  [LIGER] = { ZS_FIELD ("liger", NODE, Values, liger),
              .help = "Liger's kernels: true, false, or {rope, swiglu, rms_norm, cross_entropy, "
                      "fused_linear_cross_entropy: true or false}" },
  [KEEP_OUTPUTS] = { ZS_FIELD ("keep_outputs", BOOL, Values, keep_outputs),
                     .help = "the training loop holds the model's outputs during backward" },
  [SDPA_BACKEND] = { ZS_FIELD ("sdpa_backend", WORD, Values, sdpa_backend), .words = SDPA_BACKENDS,
                     .word_values = SDPA_VALUES, .help = "what sdpa_kernel () allows" },
  [NEW_INPUTS] = { ZS_FIELD ("new_inputs", BOOL, Values, new_inputs),
                   .help = "each micro-step makes its token ids; else one batch is held" },
  [SYNCHRONIZE] = { ZS_FIELD ("synchronize_phases", BOOL, Values, synchronize),
                    .help = "the GPU is drained around each phase, as by a profiler" },
  [HUGGING_FACE] = { ZS_FIELD ("hugging_face", BOOL, Values, hugging_face),
                     .help = "false: the program calls deepspeed.initialize () itself" },
  [EMPTY_CACHE_STEPS] = { ZS_FIELD ("empty_cache_steps", INT, Values, empty_cache_steps), .min = 0,
                          .max = 1 << 20,
                          .help = "torch.cuda.empty_cache () after every so many steps; 0: never" },
  [SAVE] = { ZS_FIELD ("save", BOOL, Values, save),
             .help = "save the model's weights after the last step" },
};

void
zs_training_add_keys (GPtrArray *words)
{
  for (int i = 0; i < N_FIELDS; i++)
    g_ptr_array_add (words, (char *)FIELDS[i].key);
}

/* The dtype where nothing says it: bf16, but fp16 on a GPU without bf16, or where the ds_config has
 * a section for fp16 alone. */
static ZsDtype
usual_dtype (const ZsReader *reader, const ZsNode *ds_config)
{
  const ZsGpu *gpu = &reader->scenario->cluster.gpu;
  bool fp16 = ds_config != NULL && zs_ds_config_get (ds_config, "fp16") != NULL;
  bool bf16 = ds_config != NULL && zs_ds_config_get (ds_config, "bf16") != NULL;

  return gpu->bf16_flops <= 0 || (fp16 && !bf16) ? ZS_DTYPE_FP16 : ZS_DTYPE_BF16;
}

/* bf16 was left open, and this GPU cannot. */
static void
note_fp16 (ZsReader *reader, const ZsNode *ds_config, bool dtype_given, ZsDtype dtype)
{
  const ZsGpu *gpu = &reader->scenario->cluster.gpu;
  const ZsNode *bf16 = zs_ds_config_get (ds_config, "bf16.enabled");

  if (!dtype_given && dtype == ZS_DTYPE_FP16 && gpu->bf16_flops <= 0 && bf16 != NULL
      && bf16->kind == ZS_NODE_SCALAR && strcmp (bf16->text, "auto") == 0)
    zs_notes_add (reader->notes, ZS_NOTE_INFO, "fp16-taken", bf16,
                  "bf16 is \"auto\", and %s has none: fp16 is taken", gpu->name);
}

static bool
read_deepspeed (ZsReader *reader, const Values *values, const ZsNode *const *given,
                ZsTraining *training)
{
  ZsScenario *scenario = reader->scenario;
  ZsDsContext context;
  ZsDsConfig config = { 0 };
  const ZsNode *root = values->deepspeed;

  if (root == NULL)
    return zs_node_fail (
        given[FRAMEWORK] != NULL ? given[FRAMEWORK] : reader->root, reader->errors,
        "framework deepspeed needs its ds_config: `deepspeed:` with a path or the keys, such as --set stage=3");
  zs_ds_context_init (&context);
  context.versions = scenario->cluster.versions;
  context.caller = given[HUGGING_FACE] != NULL && !values->hugging_face ? ZS_DS_PLAIN
                                                                        : ZS_DS_HUGGING_FACE;
  context.world = training->world;
  context.node_ranks = scenario->cluster.gpus_per_node;
  context.hidden = scenario->model.shape.hidden;
  context.micro_batch = given[MICRO_BATCH] != NULL ? values->micro_batch : 0;
  context.accumulation = given[ACCUMULATION] != NULL ? values->accumulation : 0;
  context.dtype_given = given[DTYPE] != NULL;
  context.dtype = given[DTYPE] != NULL ? (ZsDtype)values->dtype : usual_dtype (reader, root);
  context.max_grad_norm =
      given[CLIPPING] != NULL ? values->clipping : 1.0; /* TrainingArguments' own */
  context.client_optimizer = training->step.optimizer;
  context.client_groups = (int)values->optimizer_groups;
  context.zero_init = values->zero_init;
  context.prefix = "training.deepspeed.";
  if (context.micro_batch == 0 && zs_ds_config_get (root, "train_batch_size") == NULL
      && zs_ds_config_get (root, "train_micro_batch_size_per_gpu") == NULL) {
    /* DeepSpeed would not start; a person who asks whether it fits should hear that all the same */
    context.micro_batch = 1;
    zs_notes_add (reader->notes, ZS_NOTE_RISKY, "no-batch-size", root,
                  "no batch size is given, and DeepSpeed needs train_batch_size or "
                  "train_micro_batch_size_per_gpu; a micro-batch of 1 is taken");
  }
  if (!zs_ds_config_read (root, &context, &config, reader->errors, reader->notes, reader->settings))
    return false;
  if (config.micro_batch == 0 || config.gradient_accumulation == 0) {
    /* all of it "auto" or missing: one sample at a time, once */
    g_autoptr (ZsSettings) scratch = zs_settings_new ();

    if (config.micro_batch == 0)
      zs_notes_add (reader->notes, ZS_NOTE_INFO, "default-batch", zs_ds_config_get (root, "train_micro_batch_size_per_gpu"),
                    "the micro-batch is left open: 1 is taken (`--micro-batch`; transformers' own default is 8)");
    context.micro_batch = config.micro_batch > 0 ? config.micro_batch : 1;
    context.accumulation = config.gradient_accumulation > 0 ? config.gradient_accumulation : 1;
    if (!zs_ds_config_read (root, &context, &config, reader->errors, NULL, scratch))
      return false;
  }
  note_fp16 (reader, root, context.dtype_given, config.dtype);
  training->zero = config.zero;
  training->gradient_accumulation =
      (int)(config.gradient_accumulation > 0 ? config.gradient_accumulation : context.accumulation);
  training->zero.gradient_accumulation = training->gradient_accumulation;
  training->step.micro_batch = config.micro_batch > 0 ? config.micro_batch : context.micro_batch;
  training->step.dtype = config.dtype;
  if (config.autocast) {
    training->step.autocast = true;
    training->step.dtype = config.autocast_dtype;
  }
  return true;
}

/* Which framework, where it is not said. */
static void
choose_framework (ZsReader *reader, Values *values, const ZsNode *const *given, int64_t world)
{
  if (given[FRAMEWORK] != NULL)
    return;
  values->framework = given[DEEPSPEED] != NULL ? ZS_FRAMEWORK_DEEPSPEED
                      : given[FSDP] != NULL    ? ZS_FRAMEWORK_FSDP2
                      : world > 1              ? ZS_FRAMEWORK_DDP
                                               : ZS_FRAMEWORK_SINGLE;
  zs_settings_put (reader->settings, "training.framework", ZS_SETTING_DERIVED,
                   given[DEEPSPEED] != NULL ? "the ds_config"
                   : given[FSDP] != NULL    ? "the section fsdp"
                                            : "the number of GPUs",
                   "%s", FRAMEWORKS[values->framework]);
}

/* torch leaves TF32 alone where there is none; transformers ends (training_args.py). */
static bool
check_tf32 (ZsReader *reader, const Values *values, const ZsNode *node, const ZsStepShape *step)
{
  const ZsGpu *gpu = &reader->scenario->cluster.gpu;

  if (node == NULL || !values->tf32)
    return true;
  if (gpu->tf32_flops <= 0 && reader->trainer)
    return zs_node_fail (node, reader->errors,
                         "transformers: \"--tf32 requires Ampere or a newer GPU arch\", not %s", gpu->name);
  if (gpu->tf32_flops <= 0)
    zs_notes_add (reader->notes, ZS_NOTE_DEAD, "dead-key", node, "`tf32` has no effect: %s has no TF32", gpu->name);
  else if (step->dtype != ZS_DTYPE_FP32 || step->autocast)
    zs_notes_add (reader->notes, ZS_NOTE_DEAD, "dead-key", node,
                  "`tf32` has no effect on the products of the layers, which are in 16 bit");
  return true;
}

static bool
check_gpu (ZsReader *reader, const Values *values, const ZsNode *const *given,
           const ZsTraining *training)
{
  const ZsGpu *gpu = &reader->scenario->cluster.gpu;
  int capability = gpu->compute_capability;

  if (training->step.dtype == ZS_DTYPE_BF16 && capability > 0 && gpu->bf16_flops <= 0)
    zs_notes_add (reader->notes, ZS_NOTE_RISKY, "no-bf16", given[DTYPE],
                  "%s has no bf16 in hardware: products are many times slower than in fp16",
                  gpu->name);
  if (given[ATTENTION] != NULL && values->attention >= ATTENTION_FLASH
      && (training->step.dtype == ZS_DTYPE_FP32 || (capability > 0 && capability < 80)))
    return zs_node_fail (
        given[ATTENTION], reader->errors,
        "FlashAttention needs bf16 or fp16 and an Ampere GPU or newer, not %s in %s; say sdpa",
        gpu->name, ZS_DTYPE_WORDS[training->step.dtype]);
  return true;
}

static void
choose_attention (ZsReader *reader, const Values *values, const ZsNode *const *given,
                  ZsStepShape *step)
{
  static const char *const names[] = { [ZS_ATTENTION_EAGER] = "eager",
                                       [ZS_ATTENTION_CUDNN] = "cuDNN",
                                       [ZS_ATTENTION_FLASH] = "flash",
                                       [ZS_ATTENTION_EFFICIENT] = "memory-efficient",
                                       [ZS_ATTENTION_MATH] = "math" };
  const ZsScenario *scenario = reader->scenario;
  const ZsModelShape *shape = &scenario->model.shape;
  ZsDtype dtype = step->autocast ? usual_dtype (reader, NULL) : step->dtype;
  bool window = shape->sliding_window > 0 && step->sequence > shape->sliding_window;
  bool masked = step->attention_mask || step->packed || window;
  bool grouped = shape->n_kv_heads != shape->n_heads && zs_behaves (&step->versions, ZS_BEHAVIOUR_NATIVE_GQA);
  int kind = values->attention;

  if (given[ATTENTION] == NULL) {
    /* sdpa is transformers' default since 4.36 for these models */
    kind = step->versions.of[ZS_SOFTWARE_TRANSFORMERS] >= ZS_VERSION (4, 36, 0) ? ATTENTION_SDPA
                                                                                : ATTENTION_EAGER;
    zs_reader_default (reader, "training.attention", "transformers", "%s", ATTENTIONS[kind]);
  }
  step->attention =
      kind == ATTENTION_EAGER ? ZS_ATTENTION_EAGER
      : kind >= ATTENTION_FLASH
          ? ZS_ATTENTION_FLASH
          : zs_attention_of_sdpa (scenario->cluster.gpu.compute_capability,
                                  step->versions.of[ZS_SOFTWARE_TORCH], dtype,
                                  shape->head_dim, masked, grouped && !masked);
  step->open_attention = step->attention;
  /* PyTorch's own flash kernel is FlashAttention-2 from 2.2 on; the flash-attn package's since 2023 */
  step->flash_1 = kind != ATTENTION_FLASH_2 && step->attention == ZS_ATTENTION_FLASH
                  && step->versions.of[ZS_SOFTWARE_TORCH] < ZS_VERSION (2, 2, 0);
  if (kind == ATTENTION_SDPA && given[SDPA_BACKEND] != NULL)
    step->attention = step->open_attention = (ZsAttention)values->sdpa_backend;
  else if (kind == ATTENTION_SDPA)
    zs_settings_put (reader->settings, "training.attention.backend", ZS_SETTING_DERIVED,
                     "GPU, PyTorch and mask", "%s", names[step->attention]);
  if (kind == ATTENTION_SDPA && given[SDPA_BACKEND] == NULL)
    step->open_attention = zs_attention_of_sdpa (scenario->cluster.gpu.compute_capability,
                                                 step->versions.of[ZS_SOFTWARE_TORCH], dtype, shape->head_dim,
                                                 step->packed, grouped && !step->packed);
}

/* Threads of each rank: torchrun and accelerate set OMP_NUM_THREADS=1 if there are several
 * processes and it is not set (torch/distributed/run.py); the deepspeed launcher does not. */
static void
choose_threads (ZsReader *reader, const Values *values, const ZsNode *const *given, int framework)
{
  ZsScenario *scenario = reader->scenario;
  const ZsNode *variable = zs_reader_find (reader, "cluster.environment.OMP_NUM_THREADS");
  int64_t *threads = &scenario->cluster.host.omp_threads;

  if (given[OMP_THREADS] != NULL) {
    *threads = values->omp_threads;
  } else if (zs_node_int (variable, threads) && *threads > 0) {
    zs_settings_put_node (reader->settings, "training.omp_threads", variable);
  } else {
    bool launcher = framework == ZS_FRAMEWORK_DEEPSPEED && !reader->launched;

    *threads = launcher || scenario->cluster.gpus_per_node == 1 ? 0 : 1;
    if (launcher && scenario->training.zero.offload_optimizer != ZS_DEVICE_NONE
        && scenario->cluster.gpus_per_node > 1)
      zs_notes_add (reader->notes, ZS_NOTE_INFO, "omp-threads", NULL,
                    "the CPU's part of the step is simulated with all cores, as under the "
                    "deepspeed launcher; "
                    "torchrun and accelerate set OMP_NUM_THREADS=1, which is slower: `omp_threads: "
                    "1` says so");
    zs_reader_default (reader, "training.omp_threads",
                       launcher ? "the deepspeed launcher" : "torchrun and accelerate", "%s",
                       *threads == 0 ? "all cores" : "1");
  }
}

/* `alloc_conf`, or the variable that the environment sets. */
static bool
read_alloc_conf (ZsReader *reader, const ZsNode *node)
{
  ZsScenario *scenario = reader->scenario;
  g_autoptr (GError) error = NULL;

  if (node == NULL)
    node = zs_reader_find (reader, "cluster.environment.PYTORCH_CUDA_ALLOC_CONF");
  if (node == NULL)
    node = zs_reader_find (reader, "cluster.environment.PYTORCH_ALLOC_CONF");
  if (node != NULL && node->kind == ZS_NODE_SCALAR)
    scenario->alloc_conf_text = node->text;
  if (!zs_alloc_conf_parse (scenario->alloc_conf_text, &scenario->alloc_conf, &error))
    return zs_node_fail (node, reader->errors, "alloc_conf: %s", error->message);
  return true;
}

static void
note_dead_sections (ZsReader *reader, ZsFramework framework, const ZsNode *const *given)
{
  bool fsdp = framework == ZS_FRAMEWORK_FSDP1 || framework == ZS_FRAMEWORK_FSDP2;
  const struct {
    int key;
    bool alive;
  } sections[] = {
    { DEEPSPEED, framework == ZS_FRAMEWORK_DEEPSPEED },
    { FSDP, fsdp },
    { DDP, framework == ZS_FRAMEWORK_DDP },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (sections); i++)
    if (given[sections[i].key] != NULL && !sections[i].alive)
      zs_notes_add (reader->notes, ZS_NOTE_DEAD, "dead-section", given[sections[i].key],
                    "`%s` has no effect with framework %s", FIELDS[sections[i].key].key,
                    FRAMEWORKS[framework]);
}

static void
note_dead_keys (ZsReader *reader, const ZsStepShape *step, const ZsNode *const *given)
{
  const struct {
    int key;
    bool alive;
    const char *without;
  } keys[] = {
    { REENTRANT, step->checkpoint_every > 0, "checkpointing" },
    { DOUBLE_QUANT, step->load_in_4bit, "load_in_4bit" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
    if (given[keys[i].key] != NULL && !keys[i].alive)
      zs_notes_add (reader->notes, ZS_NOTE_DEAD, "dead-key", given[keys[i].key], "`%s` has no effect without %s",
                    FIELDS[keys[i].key].key, keys[i].without);
}

bool
zs_reader_training (ZsReader *reader)
{
  ZsScenario *scenario = reader->scenario;
  ZsTraining *training = &scenario->training;
  ZsStepShape *step = &training->step;
  Values values = { .zero_init = true,
                    .double_quant = true,
                    .steps = 3,
                    .micro_batch = 1,
                    .accumulation = 1,
                    .clipping = 1,
                    .alloc_conf = "",
                    .dtype = ZS_DTYPE_BF16 };
  const ZsNode *given[N_FIELDS] = { NULL };
  const ZsNode *node = zs_node_get (reader->root, "training");
  bool reentrant_given = false, lora_dtype_given = false;

  if (node != NULL && !zs_node_is_null (node)
      && !zs_schema_read (node, "training", FIELDS, N_FIELDS, &values, given, reader->errors))
    return false;
  zs_reader_record (reader, "training.", FIELDS, N_FIELDS, given);
  training->world = (int64_t)scenario->cluster.gpus_per_node * scenario->cluster.n_nodes;
  choose_framework (reader, &values, given, training->world);
  zs_reader_versions (reader, values.framework == ZS_FRAMEWORK_DEEPSPEED, &given[FRAMEWORK_VERSION],
                      values.versions);
  training->framework = (ZsFramework)values.framework;
  training->shape = scenario->model.shape;
  training->n_steps = (int)values.steps;
  training->gradient_accumulation = (int)values.accumulation;
  training->synchronize_phases = values.synchronize;
  training->empty_cache_steps = (int)values.empty_cache_steps;
  training->save = values.save;
  scenario->memory_limit_bytes = values.memory_limit;
  *step = (ZsStepShape){
    .micro_batch = values.micro_batch,
    .dtype = given[DTYPE] != NULL ? (ZsDtype)values.dtype : usual_dtype (reader, NULL),
    .attention_mask = values.attention_mask == MASK_PADDING,
    .mask_of_ones = values.attention_mask == MASK_ONES,
    .use_cache = values.use_cache,
    .packed = values.packing,
    .keep_outputs = values.keep_outputs,
    .new_inputs = values.new_inputs,
    .fused_operators = values.fused_operators,
    .autocast = values.autocast,
    .tf32 = values.tf32,
    .load_in_4bit = values.load_in_4bit,
    .clip = values.clipping > 0,
    .versions = scenario->cluster.versions,
    .compute_capability = scenario->cluster.gpu.compute_capability,
    .sm_count = scenario->cluster.gpu.sm_count,
    .reentrant = scenario->cluster.versions.of[ZS_SOFTWARE_TRANSFORMERS] < ZS_VERSION (5, 0, 0),
  };
  if (!read_alloc_conf (reader, given[ALLOC_CONF]))
    return false;
  if (training->framework == ZS_FRAMEWORK_SINGLE && training->world > 1)
    return zs_node_fail (given[FRAMEWORK], reader->errors,
                         "framework single is for one GPU, not %" G_GINT64_FORMAT, training->world);

  bool ok = zs_reader_checkpointing (reader, values.checkpointing, step, &reentrant_given);

  ok &= zs_reader_optimizer (reader, values.optimizer, &step->optimizer, &values.optimizer_groups);
  ok &= zs_reader_liger (reader, values.liger, given[FUSED_OPERATORS], step);
  ok &= zs_reader_lora (reader, values.lora, step, &lora_dtype_given);
  if (ok && values.load_in_4bit && step->lora.rank == 0)
    ok = zs_node_fail (given[LOAD_IN_4BIT], reader->errors,
                       "4-bit weights cannot be trained: `load_in_4bit` needs `lora`");
  if (ok && values.load_in_4bit) {
    step->lora.base_4bit = true;
    step->lora.double_quantized = values.double_quant;
    zs_reader_default (reader, "training.double_quant", "the QLoRA recipe", "true");
    zs_notes_add (reader->notes, ZS_NOTE_INFO, "qlora", given[LOAD_IN_4BIT],
                  "4-bit weights are from bitsandbytes' and peft's sources and were not measured; "
                  "norms, embeddings and head stay in 16 bit (peft's prepare_model_for_kbit_training "
                  "() would make them fp32)");
  }
  if (given[REENTRANT] != NULL)
    step->reentrant = values.reentrant;
  else if (step->checkpoint_every > 0 && !reentrant_given)
    zs_reader_default (reader, "training.reentrant", "transformers", "%s",
                       step->reentrant ? "true" : "false");
  if (given[CHECKPOINTING] == NULL
      && given[MICRO_BATCH] == NULL) /* a bare ds_config, most likely */
    zs_notes_add (reader->notes, ZS_NOTE_INFO, "no-checkpointing", NULL,
                  "activation checkpointing is off, as in transformers unless it is asked for; "
                  "`--checkpointing full` turns it on");
  zs_reader_default (reader, "training.checkpointing", "transformers", "none");

  step->sequence = values.sequence;
  ok &= zs_reader_sequence (reader, given[SEQUENCE], values.lengths, training);
  step->optimizer_groups = values.optimizer_groups == 2 ? 2 : 1;
  if (!ok)
    return false;
  if (training->framework == ZS_FRAMEWORK_DEEPSPEED && step->optimizer > ZS_OPTIMIZER_FOR_LOOP) {
    zs_notes_add (reader->notes, ZS_NOTE_RISKY, "optimizer", given[OPTIMIZER],
                  "under DeepSpeed only Adam's optimizers are simulated: AdamW is taken");
    step->optimizer = ZS_OPTIMIZER_FUSED;
  }
  if (training->framework == ZS_FRAMEWORK_DEEPSPEED)
    ok = read_deepspeed (reader, &values, given, training);
  else if (training->framework == ZS_FRAMEWORK_FSDP1 || training->framework == ZS_FRAMEWORK_FSDP2)
    ok = zs_reader_fsdp (reader, values.fsdp, training);
  else if (training->framework == ZS_FRAMEWORK_DDP)
    ok = zs_reader_ddp (reader, values.ddp, training);
  if (!ok)
    return false;
  const ZsLengthSettings lengths = { .node = values.lengths, .multiple = given[MULTIPLE],
                                     .mask = given[ATTENTION_MASK], .steps = given[STEPS],
                                     .inputs = given[NEW_INPUTS], .pad_to_multiple_of = values.multiple };

  if (!zs_reader_lengths (reader, &lengths, training))
    return false;
  note_dead_sections (reader, training->framework, given);
  note_dead_keys (reader, step, given);
  zs_reader_default (reader, "training.micro_batch", "zerosim", "%" G_GINT64_FORMAT,
                     step->micro_batch);
  zs_reader_default (reader, "training.gradient_accumulation", "zerosim", "%d",
                     training->gradient_accumulation);
  zs_reader_default (reader, "training.dtype", "zerosim", "%s", ZS_DTYPE_WORDS[step->dtype]);
  zs_reader_default (reader, "training.steps", "zerosim", "%d", training->n_steps);
  zs_reader_cast_lora (reader, training, lora_dtype_given);
  choose_attention (reader, &values, given, step);
  choose_threads (reader, &values, given, values.framework);
  zs_reader_note_algorithms (reader);
  return check_tf32 (reader, &values, given[TF32], step) && check_gpu (reader, &values, given, training);
}
