/* What a ds_config means.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>
#include <unistd.h>

#include "sim/io/hjson.h"
#include "sim/scenario/ds-config.h"
#include "tests/testing.h"

typedef struct {
  ZsDocument *document;
  ZsDsConfig config;
  ZsErrors *errors;
  ZsNotes *notes;
  ZsSettings *settings;
  char *text; /* of the errors */
} Reading;

static void
reading_clear (Reading *reading)
{
  zs_document_free (reading->document);
  zs_errors_free (reading->errors);
  zs_notes_free (reading->notes);
  zs_settings_free (reading->settings);
  g_free (reading->text);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Reading, reading_clear)

/* LLaMA-7B's hidden size on two GPUs under Hugging Face. */
static ZsDsContext
usual (void)
{
  ZsDsContext context;

  zs_ds_context_init (&context);
  context.world = context.node_ranks = 2;
  context.hidden = 4096;
  context.micro_batch = 1;
  context.accumulation = 16;
  return context;
}

static ZsDsContext
of_version (int major, int minor, int patch)
{
  ZsDsContext context = usual ();

  context.versions.of[ZS_SOFTWARE_DEEPSPEED] = ZS_VERSION (major, minor, patch);
  return context;
}

static ZsDsContext
plain (void)
{
  ZsDsContext context = usual ();

  context.caller = ZS_DS_PLAIN;
  context.micro_batch = context.accumulation = 0;
  return context;
}

static bool
read_node (Reading *reading, ZsDocument *document, const ZsDsContext *context)
{
  reading->document = document;
  reading->errors = zs_errors_new ();
  reading->notes = zs_notes_new ();
  reading->settings = zs_settings_new ();
  bool ok = zs_ds_config_read (zs_document_root (document), context, &reading->config,
                               reading->errors, reading->notes, reading->settings);

  reading->text = zs_errors_text (reading->errors);
  return ok;
}

static bool
read_text (Reading *reading, const char *text, const ZsDsContext *context)
{
  g_autoptr (GError) error = NULL;
  ZsDocument *document = zs_hjson_parse ("ds.json", text, strlen (text), NULL, &error);

  if (document == NULL)
    g_printerr ("# %s\n", error->message);
  return read_node (reading, document, context);
}

static bool
has_note (const Reading *reading, const char *code)
{
  for (int i = 0; i < zs_notes_count (reading->notes); i++)
    if (strcmp (zs_notes_get (reading->notes, i)->code, code) == 0)
      return true;
  return false;
}

static void
public_files_are_read (void)
{
  static const struct {
    const char *name;
    int stage;
    int64_t reduce, prefetch;
    bool overlap;
    ZsOffloadDevice optimizer, param;
    ZsDsOptimizer kind;
    int groups;
  } cases[] = {
    { "01-qwen-7b-ds_config.json", 3, 16777216, 15099494, true, ZS_DEVICE_NONE, ZS_DEVICE_NONE,
      ZS_DS_OPTIMIZER_FUSED_ADAM, 1 },
    { "01-qwen-7b-ds_config_zero2.json", 2, 200000000, 50000000, true, ZS_DEVICE_NONE,
      ZS_DEVICE_NONE, ZS_DS_OPTIMIZER_FUSED_ADAM, 1 },
    { "04-lf-1221-ds_config.json", 2, 500000000, 50000000, false, ZS_DEVICE_NONE, ZS_DEVICE_NONE,
      ZS_DS_OPTIMIZER_TORCH_FUSED, 2 },
    { "06-lf-5977-ds_config_offload.json", 3, 16777216, 15099494, true, ZS_DEVICE_CPU,
      ZS_DEVICE_CPU, ZS_DS_OPTIMIZER_CPU_ADAM, 2 },
    { "07-ds-5484-ds_config.json", 3, 200000000, 15099494, true, ZS_DEVICE_NONE, ZS_DEVICE_NONE,
      ZS_DS_OPTIMIZER_TORCH_FUSED, 2 },
    { "09-ds-3448-ds_config.json", 3, 16777216, 15099494, true, ZS_DEVICE_CPU, ZS_DEVICE_CPU,
      ZS_DS_OPTIMIZER_CPU_ADAM, 1 },
    { "11-lf-3499-ds_config_zero2.json", 2, 500000000, 50000000, true, ZS_DEVICE_NONE,
      ZS_DEVICE_NONE, ZS_DS_OPTIMIZER_TORCH_FUSED, 2 },
    { "13-ds-1935-ds_config.json", 2, 10000000, 50000000, true, ZS_DEVICE_NONE, ZS_DEVICE_NONE,
      ZS_DS_OPTIMIZER_TORCH_FUSED, 2 },
    { "13-ds-1935-ds_config_old_working.json", 2, 10000000, 50000000, true, ZS_DEVICE_CPU,
      ZS_DEVICE_NONE, ZS_DS_OPTIMIZER_CPU_ADAM, 2 },
    { "15-qwen3-773-ds_config.json", 3, 16777216, 15099494, true, ZS_DEVICE_NONE, ZS_DEVICE_NONE,
      ZS_DS_OPTIMIZER_TORCH_FUSED, 2 },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *relative = g_strconcat ("tests/data/ds-config/", cases[i].name, NULL);
    g_autofree char *path = testing_source_path (relative);
    g_autoptr (GError) error = NULL;
    ZsDsContext context = usual ();
    g_auto (Reading) reading = { 0 };
    ZsDocument *document = zs_ds_config_load (path, NULL, &error);

    CU_ASSERT_PTR_NOT_NULL_FATAL (document);
    bool ok = read_node (&reading, document, &context);

    if (!ok)
      g_printerr ("# %s: %s\n", cases[i].name, reading.text);
    CU_ASSERT_TRUE (ok);
    const ZsZeroConfig *zero = &reading.config.zero;

    if (zero->stage != cases[i].stage || zero->reduce_bucket_size != cases[i].reduce
        || zero->prefetch_bucket_size != cases[i].prefetch || zero->optimizer != cases[i].kind)
      g_printerr ("# %s: stage %d bucket %" G_GINT64_FORMAT " prefetch %" G_GINT64_FORMAT
                  " optimizer %d\n",
                  cases[i].name, zero->stage, zero->reduce_bucket_size, zero->prefetch_bucket_size,
                  zero->optimizer);
    CU_ASSERT_EQUAL (zero->stage, cases[i].stage);
    CU_ASSERT_EQUAL (zero->reduce_bucket_size, cases[i].reduce);
    CU_ASSERT_EQUAL (zero->prefetch_bucket_size, cases[i].prefetch);
    CU_ASSERT_EQUAL (zero->overlap_comm, cases[i].overlap);
    CU_ASSERT_EQUAL (zero->offload_optimizer, cases[i].optimizer);
    CU_ASSERT_EQUAL (zero->offload_param, cases[i].param);
    CU_ASSERT_EQUAL (zero->optimizer, cases[i].kind);
    CU_ASSERT_EQUAL (zero->optimizer_groups, cases[i].groups);
    CU_ASSERT_EQUAL (zero->world, 2);
    CU_ASSERT_EQUAL (reading.config.micro_batch, 1);
    CU_ASSERT_EQUAL (reading.config.gradient_accumulation, 16);
    CU_ASSERT_EQUAL (reading.config.train_batch_size, 32);
  }
}

static void
defaults_follow_the_version (void)
{
  const char *text =
      "{\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\"}}}";
  ZsDsContext old = of_version (0, 14, 4), new = of_version (0, 19, 5);
  g_auto (Reading) before = { 0 }, after = { 0 };

  CU_ASSERT_TRUE (read_text (&before, text, &old));
  CU_ASSERT_TRUE (read_text (&after, text, &new));
  CU_ASSERT_FALSE (before.config.zero.optimizer_pin);
  CU_ASSERT_TRUE (after.config.zero.optimizer_pin);
  CU_ASSERT_EQUAL (before.config.zero.gradient_clipping, 0.0);
  CU_ASSERT_EQUAL (after.config.zero.gradient_clipping, 1.0);
  CU_ASSERT_FALSE (before.config.zero.check_grad_overflow);
  CU_ASSERT_TRUE (after.config.zero.check_grad_overflow);

  const ZsZeroConfig *zero = &after.config.zero;

  CU_ASSERT_EQUAL (zero->reduce_bucket_size, 500000000);
  CU_ASSERT_EQUAL (zero->allgather_bucket_size, 500000000);
  CU_ASSERT_EQUAL (zero->sub_group_size, 1000000000);
  CU_ASSERT_EQUAL (zero->prefetch_bucket_size, 50000000);
  CU_ASSERT_EQUAL (zero->param_persistence_threshold, 100000);
  CU_ASSERT_EQUAL (zero->model_persistence_threshold, INT64_MAX);
  CU_ASSERT_EQUAL (zero->max_live_parameters, 1000000000);
  CU_ASSERT_EQUAL (zero->max_reuse_distance, 1000000000);
  CU_ASSERT_EQUAL (zero->optimizer_buffer_count, 4);
  CU_ASSERT_EQUAL (zero->param_buffer_count, 5);
  CU_ASSERT_EQUAL (zero->param_buffer_size, 100000000);
  CU_ASSERT_EQUAL (zero->optimizer_ratio, 1.0);
  CU_ASSERT_EQUAL (zero->hpz_partition_size, 1);
  CU_ASSERT_EQUAL (zero->mics_shard_size, -1);
  CU_ASSERT_TRUE (zero->contiguous_gradients && zero->reduce_scatter
                  && zero->memory_efficient_linear);
  CU_ASSERT_TRUE (zero->use_multi_rank_bucket_allreduce && zero->ignore_unused_parameters);
  CU_ASSERT_FALSE (zero->overlap_comm || zero->round_robin_gradients || zero->quantized_weights);
  CU_ASSERT_EQUAL (zero->aio_block_size, 1048576);
  CU_ASSERT_EQUAL (zero->aio_queue_depth, 8);
  CU_ASSERT_EQUAL (zero->aio_intra_op_parallelism, 1);
  CU_ASSERT_TRUE (!zero->aio_single_submit && zero->aio_overlap_events);
  CU_ASSERT_EQUAL (zero->dtype, ZS_DTYPE_BF16);
  CU_ASSERT_EQUAL (zero->communication_dtype, ZS_DTYPE_BF16);
  CU_ASSERT_EQUAL (zero->grad_accum_dtype, ZS_DTYPE_BF16);
}

static void
overlap_is_the_default_of_stage_3_only (void)
{
  for (int stage = 0; stage <= 3; stage++) {
    g_autofree char *text =
        g_strdup_printf ("{zero_optimization: {stage: %d}, bf16: {enabled: true}}", stage);
    ZsDsContext context = usual ();
    g_auto (Reading) reading = { 0 };

    CU_ASSERT_TRUE (read_text (&reading, text, &context));
    CU_ASSERT_EQUAL (reading.config.zero.overlap_comm, stage == 3);
    CU_ASSERT_EQUAL (reading.config.zero.stage, stage);
  }
}

static void
auto_is_hugging_faces_word (void)
{
  const char *text = "{zero_optimization: {stage: 3, reduce_bucket_size: \"auto\", "
                     "stage3_prefetch_bucket_size: \"auto\","
                     " stage3_param_persistence_threshold: \"auto\"}, gradient_clipping: \"auto\","
                     " bf16: {enabled: \"auto\"}, fp16: {enabled: \"auto\"},"
                     " train_micro_batch_size_per_gpu: \"auto\"}";
  ZsDsContext hf = usual (), own = plain (), unknown = usual ();
  g_auto (Reading) resolved = { 0 }, dropped = { 0 }, unresolved = { 0 };

  CU_ASSERT_TRUE (read_text (&resolved, text, &hf));
  CU_ASSERT_EQUAL (resolved.config.zero.reduce_bucket_size, 4096 * 4096);
  CU_ASSERT_EQUAL (resolved.config.zero.prefetch_bucket_size, 15099494);
  CU_ASSERT_EQUAL (resolved.config.zero.param_persistence_threshold, 40960);
  CU_ASSERT_EQUAL (resolved.config.zero.gradient_clipping, 1.0);
  CU_ASSERT_EQUAL (resolved.config.dtype, ZS_DTYPE_BF16);
  const ZsSetting *row =
      zs_settings_find (resolved.settings, "zero_optimization.reduce_bucket_size");

  CU_ASSERT_PTR_NOT_NULL_FATAL (row);
  CU_ASSERT_EQUAL (row->origin, ZS_SETTING_AUTO);
  CU_ASSERT_STRING_EQUAL (row->value, "16777216");
  CU_ASSERT_STRING_EQUAL (row->where, "hidden size squared");

  /* plain DeepSpeed: dropped in typed sections, a failure elsewhere */
  CU_ASSERT_FALSE (read_text (&dropped, text, &own));
  CU_ASSERT_EQUAL (dropped.config.zero.reduce_bucket_size, 500000000);
  CU_ASSERT_EQUAL (dropped.config.dtype, ZS_DTYPE_FP32);
  CU_ASSERT_TRUE (has_note (&dropped, "auto-without-hf"));
  CU_ASSERT_PTR_NOT_NULL (strstr (dropped.text, "'gradient_clipping' is a text"));

  unknown.hidden = 0;
  CU_ASSERT_FALSE (read_text (&unresolved, text, &unknown));
  CU_ASSERT_PTR_NOT_NULL (strstr (unresolved.text, "ds.json:1:52: \"auto\""));
}

static void
below_stage_3_auto_fills_no_stage_3_key (void)
{
  ZsDsContext context = usual ();
  g_auto (Reading) reading = { 0 };

  CU_ASSERT_TRUE (
      read_text (&reading, "{zero_optimization: {stage: 2, stage3_prefetch_bucket_size: \"auto\"}}",
                 &context));
  CU_ASSERT_EQUAL (reading.config.zero.prefetch_bucket_size, 50000000);
  CU_ASSERT_TRUE (has_note (&reading, "dead-key"));
}

static void
an_old_transformers_fills_in_a_fraction (void)
{
  ZsDsContext context = usual ();
  g_auto (Reading) refused = { 0 }, cut = { 0 };
  const char *text = "{zero_optimization: {stage: 3, stage3_prefetch_bucket_size: \"auto\"}}";

  context.versions.of[ZS_SOFTWARE_TRANSFORMERS] = ZS_VERSION (4, 43, 0);
  CU_ASSERT_FALSE (read_text (&refused, text, &context));
  CU_ASSERT_PTR_NOT_NULL (strstr (refused.text, "15099494.4"));
  context.versions.of[ZS_SOFTWARE_DEEPSPEED] = ZS_VERSION (0, 14, 4);
  CU_ASSERT_TRUE (read_text (&cut, text, &context));
  CU_ASSERT_EQUAL (cut.config.zero.prefetch_bucket_size, 15099494);
}

static void
names_have_aliases_and_predecessors (void)
{
  ZsDsContext context = usual ();
  g_auto (Reading) alias = { 0 }, old = { 0 }, both = { 0 };

  CU_ASSERT_TRUE (read_text (&alias,
                             "{zero_optimization: {stage: 3, prefetch_bucket_size: 7, "
                             "max_live_parameters: 8}, bfloat16: {enabled: true}, "
                             "aio: {thread_count: 4}}",
                             &context));
  CU_ASSERT_EQUAL (alias.config.zero.prefetch_bucket_size, 7);
  CU_ASSERT_EQUAL (alias.config.zero.max_live_parameters, 8);
  CU_ASSERT_EQUAL (alias.config.zero.aio_intra_op_parallelism, 4);
  CU_ASSERT_EQUAL (alias.config.dtype, ZS_DTYPE_BF16);

  CU_ASSERT_TRUE (read_text (&old,
                             "{zero_optimization: {stage: 3, cpu_offload: true, "
                             "cpu_offload_param: true}}",
                             &context));
  CU_ASSERT_EQUAL (old.config.zero.offload_optimizer, ZS_DEVICE_CPU);
  CU_ASSERT_EQUAL (old.config.zero.offload_param, ZS_DEVICE_CPU);
  CU_ASSERT_TRUE (has_note (&old, "deprecated-key"));

  CU_ASSERT_FALSE (read_text (&both,
                              "{zero_optimization: {stage: 2, cpu_offload: true, "
                              "offload_optimizer: {device: \"cpu\"}}}",
                              &context));
  CU_ASSERT_PTR_NOT_NULL (strstr (both.text, "Cannot provide deprecated parameter 'cpu_offload'"));
}

static void
the_old_form_of_zero_is_stage_1 (void)
{
  ZsDsContext context = usual ();
  g_auto (Reading) reading = { 0 };

  CU_ASSERT_TRUE (read_text (&reading, "{\"zero_optimization\": true}", &context));
  CU_ASSERT_EQUAL (reading.config.zero.stage, 1);
}

static void
offload_follows_the_stage (void)
{
  ZsDsContext context = usual ();
  g_auto (Reading) two = { 0 }, three = { 0 };
  const char *blocks = "offload_optimizer: {device: \"nvme\", nvme_path: \"/n\"}, "
                       "offload_param: {device: \"nvme\", nvme_path: \"/n\"}";
  g_autofree char *below = g_strdup_printf ("{zero_optimization: {stage: 2, %s}}", blocks);
  g_autofree char *at = g_strdup_printf ("{zero_optimization: {stage: 3, %s}}", blocks);

  CU_ASSERT_TRUE (read_text (&two, below, &context));
  CU_ASSERT_EQUAL (two.config.zero.offload_optimizer, ZS_DEVICE_CPU);
  CU_ASSERT_EQUAL (two.config.zero.offload_param, ZS_DEVICE_NONE);
  CU_ASSERT_TRUE (read_text (&three, at, &context));
  CU_ASSERT_EQUAL (three.config.zero.offload_optimizer, ZS_DEVICE_NVME);
  CU_ASSERT_EQUAL (three.config.zero.offload_param, ZS_DEVICE_NVME);
}

static void
the_optimizer_depends_on_who_builds_it (void)
{
  static const struct {
    ZsDsCaller caller;
    const char *rest;
    ZsDsOptimizer kind;
    bool torch_on_cpu;
    int groups;
  } cases[] = {
    { ZS_DS_HUGGING_FACE, "", ZS_DS_OPTIMIZER_TORCH_FUSED, false, 2 },
    { ZS_DS_HUGGING_FACE, ", optimizer: {type: \"AdamW\"}", ZS_DS_OPTIMIZER_FUSED_ADAM, false, 1 },
    { ZS_DS_HUGGING_FACE, ", optimizer: {type: \"Adam\", params: {torch_adam: true}}",
      ZS_DS_OPTIMIZER_TORCH_FOREACH, false, 1 },
    { ZS_DS_PLAIN, "", ZS_DS_OPTIMIZER_TORCH_FUSED, false, 1 },
    { ZS_DS_PLAIN, ", optimizer: {type: \"AdamW\"}", ZS_DS_OPTIMIZER_FUSED_ADAM, false, 1 },
  };
  static const struct {
    ZsDsCaller caller;
    const char *rest;
    ZsDsOptimizer kind;
    bool torch_on_cpu;
    int groups;
  } offloaded[] = {
    { ZS_DS_HUGGING_FACE, "", ZS_DS_OPTIMIZER_CPU_ADAM, false, 2 },
    { ZS_DS_HUGGING_FACE, ", zero_force_ds_cpu_optimizer: false", ZS_DS_OPTIMIZER_TORCH_FUSED, true,
      2 },
    { ZS_DS_HUGGING_FACE, ", optimizer: {type: \"AdamW\"}", ZS_DS_OPTIMIZER_CPU_ADAM, false, 1 },
    { ZS_DS_PLAIN, ", optimizer: {type: \"AdamW\"}", ZS_DS_OPTIMIZER_CPU_ADAM, false, 1 },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases) + G_N_ELEMENTS (offloaded); i++) {
    bool off = i >= G_N_ELEMENTS (cases);
    size_t k = off ? i - G_N_ELEMENTS (cases) : i;
    const char *rest = off ? offloaded[k].rest : cases[k].rest;
    g_autofree char *text =
        g_strdup_printf ("{train_micro_batch_size_per_gpu: 1, bf16: {enabled: true}, "
                         "zero_optimization: {stage: 2%s}%s}",
                         off ? ", offload_optimizer: {device: \"cpu\"}" : "", rest);
    ZsDsContext context = usual ();
    g_auto (Reading) reading = { 0 };

    context.caller = off ? offloaded[k].caller : cases[k].caller;
    bool ok = read_text (&reading, text, &context);

    if (!ok)
      g_printerr ("# %s: %s\n", text, reading.text);
    CU_ASSERT_TRUE (ok);
    CU_ASSERT_EQUAL (reading.config.zero.optimizer, off ? offloaded[k].kind : cases[k].kind);
    CU_ASSERT_EQUAL (reading.config.torch_optimizer_on_cpu,
                     off ? offloaded[k].torch_on_cpu : cases[k].torch_on_cpu);
    CU_ASSERT_EQUAL (reading.config.zero.optimizer_groups,
                     off ? offloaded[k].groups : cases[k].groups);
  }
}

static void
the_batch_follows_from_what_is_given (void)
{
  static const struct {
    const char *text;
    int64_t world, train, micro, steps;
    const char *error;
  } cases[] = {
    { "train_batch_size: 64, train_micro_batch_size_per_gpu: 2, gradient_accumulation_steps: 4", 8,
      64, 2, 4, NULL },
    { "train_batch_size: 64, train_micro_batch_size_per_gpu: 2", 8, 64, 2, 4, NULL },
    { "train_batch_size: 64, gradient_accumulation_steps: 4", 8, 64, 2, 4, NULL },
    { "train_micro_batch_size_per_gpu: 2, gradient_accumulation_steps: 4", 8, 64, 2, 4, NULL },
    { "train_batch_size: 64", 8, 64, 8, 1, NULL },
    { "train_micro_batch_size_per_gpu: 2", 8, 16, 2, 1, NULL },
    { "train_batch_size: 64, train_micro_batch_size_per_gpu: 2, gradient_accumulation_steps: 4", 4,
      0, 0, 0,
      "ds.json:1:40: \"Check batch related parameters. train_batch_size is not equal to "
      "micro_batch_per_gpu * gradient_acc_step * world_size 64 != 2 * 4 * 4\"; write "
      "\"gradient_accumulation_steps\": 8, or \"train_batch_size\": 32" },
    { "train_batch_size: 30, train_micro_batch_size_per_gpu: 2", 8, 0, 0, 0, "30 != 2 * 1 * 8" },
    { "train_batch_size: 4", 8, 0, 0, 0,
      "\"Micro batch size per gpu: 0 has to be greater than 0\"" },
    { "gradient_accumulation_steps: 4", 8, 0, 0, 0, "\"Either train_batch_size or train_micro" },
    { "train_micro_batch_size_per_gpu: 0", 8, 0, 0, 0, "must be at least 1, not 0" },
    { "train_micro_batch_size_per_gpu: 9e18, gradient_accumulation_steps: 9", 8, 0, 0, 0, "" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *text = g_strdup_printf (
        "{zero_optimization: {stage: 2}, bf16: {enabled: true}, %s}", cases[i].text);
    ZsDsContext context = plain ();
    g_auto (Reading) reading = { 0 };

    if (cases[i].error != NULL && g_str_has_prefix (cases[i].error, "ds.json"))
      g_free (text),
          text = g_strdup_printf ("{zero_optimization: {stage: 2},        %s}", cases[i].text);
    context.world = cases[i].world;
    bool ok = read_text (&reading, text, &context);

    if (ok != (cases[i].error == NULL))
      g_printerr ("# %s: %s\n", text, reading.text);
    CU_ASSERT_EQUAL (ok, cases[i].error == NULL);
    if (cases[i].error != NULL) {
      if (strstr (reading.text, cases[i].error) == NULL)
        g_printerr ("# %s: %s\n", text, reading.text);
      CU_ASSERT_PTR_NOT_NULL (strstr (reading.text, cases[i].error));
      continue;
    }
    CU_ASSERT_EQUAL (reading.config.train_batch_size, cases[i].train);
    CU_ASSERT_EQUAL (reading.config.micro_batch, cases[i].micro);
    CU_ASSERT_EQUAL (reading.config.gradient_accumulation, cases[i].steps);
    CU_ASSERT_EQUAL (reading.config.zero.gradient_accumulation, cases[i].steps);
  }
}

/* Any two of the three give the third back, whatever the numbers. */
static void
a_derived_batch_satisfies_the_identity (void)
{
  guint32 seed = 20240229;
  g_autoptr (GRand) random = g_rand_new_with_seed (seed);

  g_print ("# seed %u\n", seed);
  for (int i = 0; i < 300; i++) {
    int micro = g_rand_int_range (random, 1, 33), steps = g_rand_int_range (random, 1, 65);
    int world = g_rand_int_range (random, 1, 65), hidden_one = g_rand_int_range (random, 0, 3);
    g_autofree char *a = g_strdup_printf ("train_batch_size: %d,", micro * steps * world);
    g_autofree char *b = g_strdup_printf ("train_micro_batch_size_per_gpu: %d,", micro);
    g_autofree char *c = g_strdup_printf ("gradient_accumulation_steps: %d,", steps);
    g_autofree char *text = g_strdup_printf (
        "{%s%s%s bf16: {enabled: true}, zero_optimization: {stage: 1}}", hidden_one == 0 ? "" : a,
        hidden_one == 1 ? "" : b, hidden_one == 2 ? "" : c);
    ZsDsContext context = plain ();
    g_auto (Reading) reading = { 0 };

    context.world = world;
    CU_ASSERT_TRUE (read_text (&reading, text, &context));
    CU_ASSERT_EQUAL (reading.config.train_batch_size, micro * steps * world);
    CU_ASSERT_EQUAL (reading.config.micro_batch, micro);
    CU_ASSERT_EQUAL (reading.config.gradient_accumulation, steps);
  }
}

static void
what_stops_a_start_up_is_an_error_at_its_place (void)
{
  static const struct {
    const char *text, *error;
  } cases[] = {
    { "{zero_optimization: {stage: 4}}", "ds.json:1:29: 'stage' must be 0, 1, 2 or 3, not 4" },
    { "{zero_optimization: {stage: 2, ofload_optimizer: {}}}",
      "ds.json:1:32: unknown key 'ofload_optimizer' in zero_optimization; DeepSpeed does not "
      "start: "
      "\"Extra inputs are not permitted\"; did you mean 'offload_optimizer'?" },
    { "{zero_optimization: {stage: 2, reduce_bucket_size: \"5e8\"}}",
      "ds.json:1:52: 'reduce_bucket_size' is the text \"5e8\"" },
    { "{zero_optimization: {stage: 3, stage3_prefetch_bucket_size: 15099494.4}}",
      "ds.json:1:61: 'stage3_prefetch_bucket_size' is 15099494.4" },
    { "{zero_optimization: {stage: 2, offload_optimizer: true}}",
      "ds.json:1:51: 'offload_optimizer' must be an object in braces, not true" },
    { "{zero_optimization: {stage: 2, offload_optimizer: {device: \"CPU\"}}}",
      "ds.json:1:60: 'device' must be none, cpu or nvme, not \"CPU\"" },
    { "{zero_optimization: {stage: 2, aio: {}}}", "'aio' belongs to the top level" },
    { "{zero_optimization: {stage: 3, offload_optimizer: {device: \"nvme\"}}}", "nvme_path" },
    { "{zero_optimization: {stage: 2, offload_optimizer: {device: \"cpu\", ratio: 0.3}}}",
      "Partial offloading only supported for ZeRO Stage 3" },
    { "{zero_optimization: {stage: 2}, fp16: {enabled: true}, bf16: {enabled: true}}",
      "bfloat16 and fp16 modes cannot be simultaneously enabled" },
    { "{zero_optimization: {stage: 2}, bf16: {enabled: true, loss_scale: 0}}",
      "'loss_scale' belongs to fp16, not to bf16" },
    { "{zero_optimization: {stage: 2}, fp16: {loss_scale: \"dynamic\"}}",
      "'loss_scale' must be a number" },
    { "{zero_optimization: {stage: 2}, train_micro_batch_size_per_gpu: 4}",
      "but 1 in the training arguments" },
    { "{zero_optimization: {stage: 2}, optimizer: {type: \"AdamX\"}}", "no optimizer \"AdamX\"" },
    { "{zero_optimization: {stage: 2}, optimizer: {type: \"SGD\"}}", "untested ZeRO Optimizer" },
    { "{zero_optimization: {stage: 2}, optimizer: {type: \"Adam\", params: {max_grad_norm: 1}}}",
      "please switch to using the deepspeed parameter 'gradient_clipping'" },
    { "{zero_optimization: {stage: 2}, scheduler: {type: \"WarmupLR\", params: {total_num_steps: "
      "1}}}",
      "'total_num_steps' is a parameter of WarmupDecayLR" },
    { "{bf16: {enabled: true}}", "Please specify the ZeRO optimization config" },
    { "[1, 2]", "ds.json:1:1: a ds_config is an object in braces, not a list" },
    { "{zero_optimization: {stage: 2}, communication_data_type: \"half\"}",
      "must be fp16, fp32 or bf16" },
    { "{zero_optimization: {stage: 2, zenflow: {topk_ratio: 0.1}}}",
      "zenflow needs an offloaded optimizer" },
    { "{zero_optimization: {stage: 2}, prescale_gradients: true}",
      "pre-scale gradients is not yet" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    ZsDsContext context = usual ();
    g_auto (Reading) reading = { 0 };

    CU_ASSERT_FALSE (read_text (&reading, cases[i].text, &context));
    CU_ASSERT_EQUAL (zs_errors_count (reading.errors), 1);
    if (strstr (reading.text, cases[i].error) == NULL || zs_errors_count (reading.errors) != 1)
      g_printerr ("# %s: %s\n", cases[i].text, reading.text);
    CU_ASSERT_PTR_NOT_NULL (strstr (reading.text, cases[i].error));
  }
}

static void
what_is_ignored_is_a_note (void)
{
  static const struct {
    const char *text, *code, *part;
  } cases[] = {
    { "{zero_optimization: {stage: 2}, offload_optimizer: {device: \"cpu\"}}", "misplaced-key",
      "'offload_optimizer' belongs to zero_optimization, not to the top level" },
    { "{zero_optimization: {stage: 2}, gradient_clipp1ng: 1}", "unknown-key",
      "did you mean 'gradient_clipping'" },
    { "{zero_optimization: {stage: 2}, zero3_init: true}", "invented-key", "was never a key" },
    { "{zero_optimization: {stage: 2, allgather_bucket_size: 5e8}}", "dead-key", "no effect" },
    { "{zero_optimization: {stage: 2, sub_group_size: 1e9}}", "dead-key", "acts in stage 3 only" },
    { "{zero_optimization: {stage: 2, offload_param: {device: \"cpu\"}}}", "dead-key",
      "the weights stay whole on every GPU" },
    { "{zero_optimization: {stage: 3, round_robin_gradients: true}}", "dead-key",
      "acts in stage 1 and 2 only" },
    { "{zero_optimization: {overlap_comm: true}}", "stage-missing", "it is 0" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    ZsDsContext context = usual ();
    g_auto (Reading) reading = { 0 };
    bool found = false;

    CU_ASSERT_TRUE (read_text (&reading, cases[i].text, &context));
    for (int k = 0; k < zs_notes_count (reading.notes); k++) {
      const ZsNote *note = zs_notes_get (reading.notes, k);

      found |=
          strcmp (note->code, cases[i].code) == 0 && strstr (note->text, cases[i].part) != NULL;
    }
    if (!found)
      for (int k = 0; k < zs_notes_count (reading.notes); k++)
        g_printerr ("# %s: %s\n", cases[i].text, zs_notes_get (reading.notes, k)->text);
    CU_ASSERT_TRUE (found);
  }
}

static void
every_value_has_its_origin (void)
{
  ZsDsContext context = usual ();
  g_auto (Reading) reading = { 0 };

  context.prefix = "training.deepspeed.";
  CU_ASSERT_TRUE (
      read_text (&reading, "{zero_optimization: {stage: 3,\n reduce_bucket_size: 5e8}}", &context));
  const ZsSetting *given = zs_settings_find (
      reading.settings, "training.deepspeed.zero_optimization.reduce_bucket_size");
  const ZsSetting *fallback =
      zs_settings_find (reading.settings, "training.deepspeed.zero_optimization.sub_group_size");
  const ZsSetting *derived =
      zs_settings_find (reading.settings, "training.deepspeed.zero_optimization.overlap_comm");

  CU_ASSERT_TRUE_FATAL (given != NULL && fallback != NULL && derived != NULL);
  CU_ASSERT_EQUAL (given->origin, ZS_SETTING_GIVEN);
  CU_ASSERT_STRING_EQUAL (given->where, "ds.json:2:22");
  CU_ASSERT_EQUAL (fallback->origin, ZS_SETTING_DEFAULT);
  CU_ASSERT_STRING_EQUAL (fallback->where, "DeepSpeed 0.19.5");
  CU_ASSERT_STRING_EQUAL (fallback->value, "1000000000");
  CU_ASSERT_EQUAL (derived->origin, ZS_SETTING_DERIVED);
  CU_ASSERT_STRING_EQUAL (derived->value, "true");
}

static void
a_file_that_json_refuses_is_read_with_a_note (void)
{
  g_autofree char *path = g_strdup_printf ("%s/zs-test-%d.json", g_get_tmp_dir (), (int)getpid ());
  g_autoptr (ZsNotes) notes = zs_notes_new ();
  g_autoptr (GError) error = NULL, error2 = NULL;

  CU_ASSERT_TRUE (g_file_set_contents (
      path, "{\n  \"zero_optimization\": {\"stage\": 2}, // two\n}\n", -1, NULL));
  g_autoptr (ZsDocument) document = zs_ds_config_load (path, notes, &error);

  CU_ASSERT_PTR_NOT_NULL_FATAL (document);
  CU_ASSERT_EQUAL (zs_notes_count (notes), 1);
  CU_ASSERT_STRING_EQUAL (zs_notes_get (notes, 0)->code, "not-strict-json");
  CU_ASSERT_EQUAL (zs_notes_get (notes, 0)->line, 2);
  CU_ASSERT_TRUE (g_file_set_contents (path, "{\"a\": 1, \"a\": 2}", -1, NULL));
  g_autoptr (ZsDocument) twice = zs_ds_config_load (path, notes, &error2);

  CU_ASSERT_PTR_NULL (twice);
  CU_ASSERT_PTR_NOT_NULL (strstr (error2->message, "Duplicate keys in DeepSpeed config"));
  remove (path);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "public files are read", public_files_are_read },
    { "defaults follow the version", defaults_follow_the_version },
    { "overlap is the default of stage 3 only", overlap_is_the_default_of_stage_3_only },
    { "auto is Hugging Face's word", auto_is_hugging_faces_word },
    { "below stage 3 auto fills no stage-3 key", below_stage_3_auto_fills_no_stage_3_key },
    { "an old transformers fills in a fraction", an_old_transformers_fills_in_a_fraction },
    { "names have aliases and predecessors", names_have_aliases_and_predecessors },
    { "the old form of zero is stage 1", the_old_form_of_zero_is_stage_1 },
    { "offload follows the stage", offload_follows_the_stage },
    { "the optimizer depends on who builds it", the_optimizer_depends_on_who_builds_it },
    { "the batch follows from what is given", the_batch_follows_from_what_is_given },
    { "a derived batch satisfies the identity", a_derived_batch_satisfies_the_identity },
    { "what stops a start-up is an error at its place",
      what_stops_a_start_up_is_an_error_at_its_place },
    { "what is ignored is a note", what_is_ignored_is_a_note },
    { "every value has its origin", every_value_has_its_origin },
    { "a file that JSON refuses is read with a note",
      a_file_that_json_refuses_is_read_with_a_note },
    CU_TEST_INFO_NULL
  };
  return testing_main ("ds-config", tests);
}
