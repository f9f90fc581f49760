/* test-scenario.c: scenarios, ds_configs with flags, --set, files of other programs.
 * SPDX-License-Identifier: MIT */
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>

#include "sim/io/file.h"
#include "sim/scenario/simulate.h"
#include "tests/testing.h"

static ZsCatalogue *catalogue;

/* A scenario that must load. */
static ZsScenario *
load (const char *path, const ZsScenarioFlags *flags, const char *const *sets)
{
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  ZsScenario *scenario = zs_scenario_load (path, flags, sets, catalogue, errors);

  zs_errors_print (errors, "# ", stderr);
  CU_ASSERT_PTR_NOT_NULL_FATAL (scenario);
  CU_ASSERT_EQUAL (zs_errors_count (errors), 0);
  return scenario;
}

static ZsScenario *
parse (const char *text, const ZsScenarioFlags *flags, const char *const *sets)
{
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (ZsDocument) document = zs_yaml_parse ("a.yaml", text, strlen (text), &error);

  if (document == NULL)
    g_printerr ("# %s\n", error->message);
  CU_ASSERT_PTR_NOT_NULL_FATAL (document);
  ZsScenario *scenario =
      zs_scenario_read (zs_document_root (document), "a.yaml", flags, sets, catalogue, errors);

  zs_errors_print (errors, "# ", stderr);
  CU_ASSERT_PTR_NOT_NULL_FATAL (scenario);
  return scenario;
}

static bool
has_note (const ZsScenario *scenario, const char *code)
{
  for (int i = 0; i < zs_notes_count (scenario->notes); i++)
    if (strcmp (zs_notes_get (scenario->notes, i)->code, code) == 0)
      return true;
  return false;
}

static const char *
origin (const ZsScenario *scenario, const char *path)
{
  static char text[300];
  const ZsSetting *setting = zs_settings_find (scenario->settings, path);

  CU_ASSERT_PTR_NOT_NULL_FATAL (setting);
  g_autofree char *where = zs_setting_origin_text (setting);
  g_snprintf (text, sizeof text, "%s: %s", setting->value, where);
  return text;
}

/* Writes TEXT into a folder for tests and returns its path. */
static char *
file_of (const char *folder, const char *name, const char *text)
{
  char *path = g_build_filename (folder, name, NULL);

  CU_ASSERT_TRUE_FATAL (zs_file_write (path, text, -1, NULL));
  return path;
}

#define SMALL "model: llama-7b\ncluster: {gpu: a100-sxm4-40gb, gpus_per_node: 2, fabric: pcie}\n"

static void
every_scenario_that_comes_with_it_loads (void)
{
  int n;
  const ZsCatalogueEntry *entries = zs_catalogue_list (catalogue, ZS_CATALOGUE_SCENARIOS, &n);

  CU_ASSERT_TRUE (n >= 10);
  for (int i = 0; i < n; i++) {
    g_autoptr (ZsScenario) scenario = load (entries[i].path, NULL, NULL);

    CU_ASSERT_TRUE (strlen (scenario->name) > 5);
    for (int k = 0; k < zs_notes_count (scenario->notes); k++)
      CU_ASSERT_TRUE (zs_notes_get (scenario->notes, k)->severity != ZS_NOTE_ERROR);
  }
}

static void
a_ds_config_and_flags_are_a_scenario (void)
{
  g_autofree char *path = testing_source_path ("scenarios/first-run/ds_config.json");
  const ZsScenarioFlags flags = { .model = "llama-7b", .gpus = "2xA100-40G", .fabric = "pcie" };
  g_autoptr (ZsScenario) scenario = load (path, &flags, NULL);

  CU_ASSERT_EQUAL (scenario->training.framework, ZS_FRAMEWORK_DEEPSPEED);
  CU_ASSERT_EQUAL (scenario->training.zero.stage, 3);
  CU_ASSERT_EQUAL (scenario->training.world, 2);
  CU_ASSERT_STRING_EQUAL (scenario->cluster.gpu.name, "a100-pcie-40gb");
  CU_ASSERT_TRUE (has_note (scenario, "gpu-form"));
  CU_ASSERT_EQUAL (scenario->training.zero.reduce_bucket_size, 4096 * 4096);
  CU_ASSERT_EQUAL (scenario->training.step.attention, ZS_ATTENTION_FLASH);
  CU_ASSERT_EQUAL (scenario->training.step.micro_batch, 1);
  CU_ASSERT_EQUAL (scenario->model.n_parameters, INT64_C (6738415616));
  CU_ASSERT_STRING_EQUAL (origin (scenario, "training.framework_version"),
                          "0.19.5: default of zerosim");
  CU_ASSERT_STRING_EQUAL (origin (scenario, "model"), "llama-7b: given by --model llama-7b");
  CU_ASSERT_PTR_NOT_NULL (
      strstr (origin (scenario, "training.deepspeed.zero_optimization.reduce_bucket_size"),
              "resolved from \"auto\""));
}

static void
a_ds_config_without_a_batch_runs_with_one_sample (void)
{
  g_autoptr (ZsScenario) scenario =
      parse (SMALL "training: {deepspeed: {zero_optimization: {stage: 2}, bf16: {enabled: true}}}",
             NULL, NULL);

  CU_ASSERT_EQUAL (scenario->training.step.micro_batch, 1);
  CU_ASSERT_TRUE (has_note (scenario, "no-batch-size"));
}

static void
sets_win_and_say_so (void)
{
  g_autofree char *path = testing_source_path ("scenarios/zero3.yaml");
  const char *const sets[] = { "stage=2",
                               "reduce_bucket_size=1e8",
                               "micro_batch=4",
                               "zero_optimization.overlap_comm=false",
                               "model.layers=4",
                               "training.lora={rank: 8, targets: [q_proj]}",
                               "cluster.gpus_per_node=4",
                               NULL };
  const ZsScenarioFlags flags = { .sequence = "512", .micro_batch = "2" };
  g_autoptr (ZsScenario) scenario = load (path, &flags, sets);

  CU_ASSERT_EQUAL (scenario->training.zero.stage, 2);
  CU_ASSERT_EQUAL (scenario->training.zero.reduce_bucket_size, 100000000);
  CU_ASSERT_EQUAL (scenario->training.step.micro_batch, 4);
  CU_ASSERT_FALSE (scenario->training.zero.overlap_comm);
  CU_ASSERT_EQUAL (scenario->training.shape.n_layers, 4);
  CU_ASSERT_EQUAL (scenario->training.step.lora.rank, 8);
  CU_ASSERT_EQUAL (scenario->training.step.lora.targets, ZS_LINEAR_Q);
  CU_ASSERT_EQUAL (scenario->training.step.sequence, 512);
  CU_ASSERT_EQUAL (scenario->training.world, 4);
  CU_ASSERT_STRING_EQUAL (origin (scenario, "training.deepspeed.zero_optimization.stage"),
                          "2: given by --set stage=2");
}

static void
short_paths_are_completed (void)
{
  static const struct {
    const char *text, *path;
  } cases[] = {
    { "stage", "training.deepspeed.zero_optimization.stage" },
    { "zero_optimization.stage", "training.deepspeed.zero_optimization.stage" },
    { "offload_optimizer.device", "training.deepspeed.zero_optimization.offload_optimizer.device" },
    { "training.deepspeed.zero_optimization.stage", "training.deepspeed.zero_optimization.stage" },
    { "micro_batch", "training.micro_batch" },
    { "gpus_per_node", "cluster.gpus_per_node" },
    { "bf16.enabled", "training.deepspeed.bf16.enabled" },
    { "model", "model" },
    { "stgae", NULL },
    { "", NULL },
    { "cluster..gpu", NULL },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *path = zs_scenario_path (cases[i].text, NULL);

    CU_ASSERT_EQUAL (g_strcmp0 (path, cases[i].path), 0);
  }
}

static void
defaults_follow_versions (void)
{
  g_autoptr (ZsScenario) now = parse (SMALL "training: {checkpointing: full}", NULL, NULL);
  g_autoptr (ZsScenario) then = parse (
      SMALL "training: {checkpointing: full, transformers_version: 4.45, torch_version: 2.5}", NULL,
      NULL);
  g_autoptr (ZsScenario) old =
      parse (SMALL "training: {transformers_version: 4.31, torch_version: 2.1}", NULL, NULL);

  CU_ASSERT_EQUAL (now->training.framework, ZS_FRAMEWORK_DDP);
  CU_ASSERT_FALSE (now->training.step.reentrant);
  CU_ASSERT_TRUE (then->training.step.reentrant);
  CU_ASSERT_EQUAL (now->training.step.optimizer, ZS_OPTIMIZER_FUSED);
  CU_ASSERT_EQUAL (then->training.step.optimizer, ZS_OPTIMIZER_FOREACH);
  CU_ASSERT_EQUAL (old->training.step.attention, ZS_ATTENTION_EAGER);
  CU_ASSERT_EQUAL (now->cluster.versions.of[ZS_SOFTWARE_NCCL], ZS_VERSION (2, 28, 9));
  CU_ASSERT_EQUAL (then->cluster.versions.of[ZS_SOFTWARE_NCCL], ZS_VERSION (2, 21, 5));
}

static void
gpus_without_bf16_train_in_fp16 (void)
{
#define AUTO                                                                                       \
  "training: {deepspeed: {fp16: {enabled: auto}, bf16: {enabled: auto}, zero_optimization: "       \
  "{stage: 2}}}"
  g_autoptr (ZsScenario) volta =
      parse ("model: llama-7b\ncluster: {gpu: v100-32gb, gpus_per_node: 8}\n" AUTO, NULL, NULL);
  g_autoptr (ZsScenario) ampere = parse (SMALL AUTO, NULL, NULL);
  g_autoptr (ZsScenario) said =
      parse (SMALL "training: {deepspeed: {fp16: {enabled: auto}, zero_optimization: {stage: 2}}}",
             NULL, NULL);

  CU_ASSERT_EQUAL (volta->training.zero.dtype, ZS_DTYPE_FP16);
  CU_ASSERT_EQUAL (ampere->training.zero.dtype, ZS_DTYPE_BF16);
  CU_ASSERT_EQUAL (said->training.zero.dtype, ZS_DTYPE_FP16);
  CU_ASSERT_EQUAL (volta->training.step.attention, ZS_ATTENTION_EFFICIENT);
}

static void
sdpa_dispatches_by_gpu_and_mask (void)
{
  const ZsVersion new = ZS_VERSION (2, 11, 0);

  CU_ASSERT_EQUAL (zs_attention_of_sdpa (90, new, ZS_DTYPE_BF16, 128, false, false), ZS_ATTENTION_CUDNN);
  CU_ASSERT_EQUAL (zs_attention_of_sdpa (90, ZS_VERSION (2, 4, 0), ZS_DTYPE_BF16, 128, false, false),
                   ZS_ATTENTION_FLASH);
  CU_ASSERT_EQUAL (zs_attention_of_sdpa (80, new, ZS_DTYPE_BF16, 128, false, false), ZS_ATTENTION_FLASH);
  CU_ASSERT_EQUAL (zs_attention_of_sdpa (80, new, ZS_DTYPE_BF16, 128, true, false),
                   ZS_ATTENTION_EFFICIENT);
  CU_ASSERT_EQUAL (zs_attention_of_sdpa (70, new, ZS_DTYPE_FP16, 128, false, false),
                   ZS_ATTENTION_EFFICIENT);
  CU_ASSERT_EQUAL (zs_attention_of_sdpa (90, new, ZS_DTYPE_FP32, 128, false, false),
                   ZS_ATTENTION_EFFICIENT);
  CU_ASSERT_EQUAL (zs_attention_of_sdpa (90, new, ZS_DTYPE_FP32, 128, false, true),
                   ZS_ATTENTION_MATH);
  CU_ASSERT_EQUAL (zs_attention_of_sdpa (90, new, ZS_DTYPE_BF16, 100, false, false),
                   ZS_ATTENTION_FLASH);
}

static void
a_base_is_changed_key_by_key (void)
{
  g_autoptr (ZsScenario) scenario =
      parse ("model: {base: llama-7b, layers: 4, hidden: 2048, heads: 16}\ncluster: {gpu: h200}\n",
             NULL, NULL);

  CU_ASSERT_EQUAL (scenario->training.shape.n_layers, 4);
  CU_ASSERT_EQUAL (scenario->training.shape.hidden, 2048);
  CU_ASSERT_EQUAL (scenario->training.shape.head_dim, 128);
  CU_ASSERT_EQUAL (scenario->training.shape.n_heads, 16);
  CU_ASSERT_EQUAL (scenario->training.framework, ZS_FRAMEWORK_SINGLE);
  CU_ASSERT_EQUAL (scenario->training.step.attention, ZS_ATTENTION_CUDNN);
}

static void
a_model_may_be_a_config_file (void)
{
  g_autofree char *folder = g_dir_make_tmp ("zerosim-XXXXXX", NULL);
  g_autofree char *inside = g_build_filename (folder, "my-llama", NULL);
  g_autofree char *config = NULL, *path = NULL;

  CU_ASSERT_EQUAL (g_mkdir (inside, 0755), 0);
  config = file_of (inside, "config.json",
                    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", "
                    "\"hidden_size\": 512,\n"
                    "\"intermediate_size\": 1024, \"num_hidden_layers\": 2, "
                    "\"num_attention_heads\": 8, \"vocab_size\": 1000,\n"
                    "\"rope_scaling\": {\"factor\": 8.0, \"rope_type\": \"llama3\"}, "
                    "\"eos_token_id\": [1, 2], \"rms_norm_eps\": 1e-05}");
  path = file_of (folder, "s.yaml", "model: my-llama/config.json\ncluster: {gpu: h100}\n");
  const ZsScenarioFlags flags = { .model = inside };
  g_autoptr (ZsScenario) file = load (path, NULL, NULL);
  g_autoptr (ZsScenario) whole = load (path, &flags, NULL);

  CU_ASSERT_STRING_EQUAL (file->training.shape.name, "my-llama");
  CU_ASSERT_STRING_EQUAL (whole->training.shape.name, "my-llama");
  CU_ASSERT_EQUAL (file->training.shape.n_kv_heads, 8);
  g_unlink (config);
  g_unlink (path);
  g_rmdir (inside);
  g_rmdir (folder);
}

static void
a_machine_fills_in_what_is_not_said (void)
{
  g_autoptr (ZsScenario) scenario =
      parse ("model: llama-7b\ncluster: {instance: DGX-H100, gpus_per_node: 4, host: {cores: 8}}\n",
             NULL, NULL);

  CU_ASSERT_STRING_EQUAL (scenario->cluster.gpu.name, "h100-sxm5-80gb");
  CU_ASSERT_EQUAL (scenario->cluster.gpus_per_node, 4);
  CU_ASSERT_EQUAL (scenario->cluster.host.cores, 8);
  CU_ASSERT_EQUAL (scenario->cluster.host.memory_bytes, INT64_C (2048) << 30);
  CU_ASSERT_TRUE (scenario->cluster.has_network);
  CU_ASSERT_EQUAL (scenario->cluster.network.nics, 8);
  CU_ASSERT_EQUAL (scenario->cluster.network.rate, INT64_C (50000000000));
}

static void
every_machine_makes_a_cluster (void)
{
  int n;
  const ZsCatalogueEntry *entries = zs_catalogue_list (catalogue, ZS_CATALOGUE_INSTANCES, &n);

  for (int i = 0; i < n; i++) {
    g_autofree char *text =
        g_strdup_printf ("model: llama-7b\ncluster: {instance: %s}", entries[i].name);
    g_autoptr (ZsScenario) scenario = parse (text, NULL, NULL);

    CU_ASSERT_TRUE (scenario->cluster.gpus_per_node >= 1);
    CU_ASSERT_TRUE (scenario->cluster.host.memory_rate > INT64_C (20000000000));
  }
}

static void
accelerate_and_training_arguments_are_read (void)
{
  g_autofree char *folder = g_dir_make_tmp ("zerosim-XXXXXX", NULL);
  g_autofree char *ds =
      file_of (folder, "ds.json",
               "{\"zero_optimization\": {\"stage\": 2}, \"bf16\": {\"enabled\": \"auto\"}}");
  g_autofree char *plain = file_of (folder, "s.yaml", "cluster: {gpu: h100}\n");
  g_autofree char *accelerate = file_of (
      folder, "accelerate.yaml",
      "compute_environment: LOCAL_MACHINE\ndeepspeed_config:\n  gradient_accumulation_steps: 4\n"
      "  offload_optimizer_device: cpu\n  offload_param_device: none\n  zero3_init_flag: true\n"
      "  zero3_save_16bit_model: true\n  zero_stage: 3\ndistributed_type: "
      "DEEPSPEED\nmixed_precision: bf16\n"
      "num_machines: 1\nnum_processes: 8\n");
  g_autofree char *fsdp = file_of (folder, "fsdp.yaml",
                                   "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n  "
                                   "fsdp_reshard_after_forward: true\n"
                                   "  fsdp_activation_checkpointing: true\nmixed_precision: "
                                   "bf16\nnum_machines: 2\nnum_processes: 16\n");
  g_autofree char *args = file_of (
      folder, "args.json",
      "{\"model_name_or_path\": \"meta-llama/Llama-2-7b-hf\", \"per_device_train_batch_size\": 2, "
      "\"gradient_checkpointing\": true, \"bf16\": true, \"optim\": \"adamw_torch\", "
      "\"deepspeed\": \"ds.json\", "
      "\"output_dir\": \"x\", \"max_seq_length\": 1024}");
  const ZsScenarioFlags one = { .model = "llama-7b", .accelerate = accelerate };
  const ZsScenarioFlags two = { .model = "llama-7b", .accelerate = fsdp };
  const ZsScenarioFlags three = { .training_args = args };
  g_autoptr (ZsScenario) a = load (plain, &one, NULL);
  g_autoptr (ZsScenario) b = load (plain, &two, NULL);
  g_autoptr (ZsScenario) c = load (plain, &three, NULL);

  CU_ASSERT_EQUAL (a->training.zero.stage, 3);
  CU_ASSERT_EQUAL (a->training.zero.offload_optimizer, ZS_DEVICE_CPU);
  CU_ASSERT_EQUAL (a->training.gradient_accumulation, 4);
  CU_ASSERT_EQUAL (a->training.world, 8);
  CU_ASSERT_EQUAL (a->training.step.dtype, ZS_DTYPE_BF16);
  CU_ASSERT_EQUAL (b->training.framework, ZS_FRAMEWORK_FSDP2);
  CU_ASSERT_EQUAL (b->training.step.checkpoint_every, 1);
  CU_ASSERT_EQUAL (b->cluster.n_nodes, 2);
  CU_ASSERT_EQUAL (b->training.fsdp.world, 16);
  CU_ASSERT_EQUAL (b->training.fsdp.parameter_dtype, ZS_DTYPE_FP32);
  /* as accelerate wraps it, and not a loop of one's own */
  CU_ASSERT_EQUAL (b->training.fsdp.reduce_dtype, ZS_DTYPE_BF16);
  CU_ASSERT_TRUE (b->training.fsdp.load_on_host && b->training.fsdp.no_sync);
  CU_ASSERT_TRUE (b->training.fsdp.wrap_embedding && b->training.fsdp.keep_root);
  CU_ASSERT_FALSE (b->training.step.autocast);
  CU_ASSERT_EQUAL (c->training.framework, ZS_FRAMEWORK_DEEPSPEED);
  CU_ASSERT_EQUAL (c->training.zero.stage, 2);
  CU_ASSERT_EQUAL (c->training.step.micro_batch, 2);
  CU_ASSERT_EQUAL (c->training.step.sequence, 1024);
  CU_ASSERT_EQUAL (c->training.step.checkpoint_every, 1);
  CU_ASSERT_STRING_EQUAL (c->training.shape.name, "llama-2-7b");
  CU_ASSERT_EQUAL (c->training.zero.optimizer_groups, 2);
  CU_ASSERT_TRUE (c->training.step.mask_of_ones && !c->training.step.autocast);

  /* accelerate's own rule: not both a file and its short keys */
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  CU_ASSERT_PTR_NULL (zs_scenario_load (
      ds, &(ZsScenarioFlags){ .model = "llama-7b", .gpus = "8xH100", .accelerate = accelerate },
      NULL, catalogue, errors));
  CU_ASSERT_PTR_NOT_NULL (strstr (zs_errors_get (errors, 0)->message, "accelerate refuses"));
  char *const files[] = { ds, plain, accelerate, fsdp, args };
  for (size_t i = 0; i < G_N_ELEMENTS (files); i++)
    g_unlink (files[i]);
  g_rmdir (folder);
}

static void
measured_numbers_are_read (void)
{
  g_autoptr (ZsScenario) scenario =
      parse (SMALL "training: {}\nmeasured:\n  peak_allocated: 37.1 GiB\n  step_time: 4.5 s\n  "
                   "outcome: oom\n  rank: 0\n"
                   "  phases: [{step: 3, phase: backward, peak_allocated: 9481 MiB, time: 58 ms}]\n"
                   "  oom: {step: 1, phase: optimizer, tried: 3.14 GiB, allocated: 28.28 GiB}\n  "
                   "source: a test\n",
             NULL, NULL);
  const ZsMeasured *measured = &scenario->measured;

  CU_ASSERT_TRUE (measured->any && measured->any_oom);
  CU_ASSERT_EQUAL (measured->outcome, ZS_OUTCOME_OOM);
  CU_ASSERT_EQUAL (measured->step_time, 4500 * ZS_MILLISECOND);
  CU_ASSERT_EQUAL (measured->peak_reserved_bytes, -1);
  CU_ASSERT_EQUAL (measured->phases->len, 1);
  const ZsMeasuredPhase *phase = &g_array_index (measured->phases, ZsMeasuredPhase, 0);
  CU_ASSERT_EQUAL (phase->peak_allocated_bytes, INT64_C (9481) << 20);
  CU_ASSERT_EQUAL (phase->end_allocated_bytes, -1);
  CU_ASSERT_EQUAL (phase->phase, ZS_PHASE_BACKWARD);
  CU_ASSERT_EQUAL (measured->oom_phase, ZS_PHASE_OPTIMIZER);
}

static void
deepspeed_casts_adapters_by_its_version (void)
{
#define LORA(stage, version)                                                                       \
  SMALL "training: {framework_version: " version                                                   \
        ", lora: {rank: 8}, deepspeed: {bf16: {enabled: true}, "                                   \
        "zero_optimization: {stage: " stage "}, train_micro_batch_size_per_gpu: 1}}"
  g_autoptr (ZsScenario) two = parse (LORA ("2", "0.19.5"), NULL, NULL);
  g_autoptr (ZsScenario) three = parse (LORA ("3", "0.19.5"), NULL, NULL);
  g_autoptr (ZsScenario) old = parse (LORA ("3", "0.14.4"), NULL, NULL);

  CU_ASSERT_EQUAL (two->training.step.lora.dtype, ZS_DTYPE_BF16);
  CU_ASSERT_EQUAL (three->training.step.lora.dtype, ZS_DTYPE_FP32);
  CU_ASSERT_EQUAL (old->training.step.lora.dtype, ZS_DTYPE_BF16);
  CU_ASSERT_EQUAL (two->training.step.lora.targets, ZS_LINEAR_Q | ZS_LINEAR_V);
}

static void
a_topology_file_says_how_many_gpus (void)
{
  g_autofree char *folder = g_dir_make_tmp ("zerosim-XXXXXX", NULL);
  g_autofree char *topo =
      file_of (folder, "topo.txt",
               "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n"
               "GPU0\t X \tPHB\tSYS\tSYS\t0-15\t0\nGPU1\tPHB\t X \tSYS\tSYS\t0-15\t0\n"
               "GPU2\tSYS\tSYS\t X \tPHB\t16-31\t1\nGPU3\tSYS\tSYS\tPHB\t X \t16-31\t1\n");
  g_autofree char *path = file_of (
      folder, "s.yaml", "model: llama-7b\ncluster: {gpu: l40s, fabric: {topo: topo.txt}}\n");
  g_autoptr (ZsScenario) scenario = load (path, NULL, NULL);

  CU_ASSERT_EQUAL (scenario->cluster.gpus_per_node, 4);
  CU_ASSERT_EQUAL (scenario->training.world, 4);
  CU_ASSERT_EQUAL (zs_topology_path (scenario->topology, 0, 3), ZS_PATH_SYS);
  CU_ASSERT_EQUAL (zs_topology_path (scenario->topology, 0, 1), ZS_PATH_PHB);
  g_unlink (topo);
  g_unlink (path);
  g_rmdir (folder);
}

static void
a_scenario_runs (void)
{
  g_autoptr (ZsScenario) scenario =
      parse ("model: {base: tinyllama, layers: 2}\ncluster: {gpu: a100-sxm4-40gb}\n"
             "training: {framework: single, sequence_length: 256}\n",
             NULL, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (ZsResult) result = zs_scenario_run (scenario, NULL, &error);

  CU_ASSERT_PTR_NOT_NULL_FATAL (result);
  CU_ASSERT_EQUAL (result->outcome, ZS_OUTCOME_OK);
  /* weights, gradients and two moments in bf16 */
  CU_ASSERT_TRUE (result->peak_allocated_bytes > 8 * scenario->model.n_parameters);
  CU_ASSERT_TRUE (result->step_time_ps > 0);
}

static void
a_cluster_alone_is_read (void)
{
  g_autofree char *folder = g_dir_make_tmp ("zerosim-XXXXXX", NULL);
  g_autofree char *bare =
      file_of (folder, "a.yaml", "gpu: h100\ngpus_per_node: 8\nfabric: nvswitch\n");
  g_autofree char *inside = file_of (folder, "b.yaml", "cluster: {gpu: h100, gpus_per_node: 4}\n");
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_autoptr (ZsScenario) a = zs_scenario_load_cluster (bare, NULL, NULL, catalogue, errors);
  g_autoptr (ZsScenario) b = zs_scenario_load_cluster (inside, NULL, NULL, catalogue, errors);

  zs_errors_print (errors, "# ", stderr);
  CU_ASSERT_PTR_NOT_NULL_FATAL (a);
  CU_ASSERT_PTR_NOT_NULL_FATAL (b);
  CU_ASSERT_EQUAL (a->cluster.gpus_per_node, 8);
  CU_ASSERT_EQUAL (b->cluster.gpus_per_node, 4);
  CU_ASSERT_STRING_EQUAL (b->cluster.fabric, "nvswitch");
  g_unlink (bare);
  g_unlink (inside);
  g_rmdir (folder);
}

static void
machines_are_shared_between_scenarios (void)
{
  static const char text[] = "model: {base: llama-7b, layers: 2}\n"
                             "cluster: {gpu: h100-sxm-80gb, gpus_per_node: 4, fabric: nvswitch}\n"
                             "training: {framework: deepspeed, micro_batch: 1, sequence_length: 512,\n"
                             "  deepspeed: {bf16: {enabled: true}, zero_optimization: {stage: 3}}}\n";
  static const char *const changes[][2] = { { NULL }, { "stage=2", NULL },
                                            { "cluster.fabric=pcie", NULL },
                                            { "training.dtype=bf16", NULL }, { NULL } };
  g_autoptr (ZsClusterCache) cache = zs_cluster_cache_new ();

  for (size_t i = 0; i < G_N_ELEMENTS (changes); i++) {
    g_autoptr (ZsScenario) scenario = parse (text, NULL, changes[i]);
    g_autoptr (ZsResult) shared = zs_scenario_run_cached (scenario, NULL, cache, NULL);
    g_autoptr (ZsResult) own = zs_scenario_run (scenario, NULL, NULL);

    CU_ASSERT_PTR_NOT_NULL_FATAL (shared);
    CU_ASSERT_PTR_NOT_NULL_FATAL (own);
    CU_ASSERT_EQUAL (shared->step_time_ps, own->step_time_ps);
    CU_ASSERT_EQUAL (shared->peak_device_bytes, own->peak_device_bytes);
  }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "every scenario that comes with it loads", every_scenario_that_comes_with_it_loads },
    { "a ds_config and flags are a scenario", a_ds_config_and_flags_are_a_scenario },
    { "a ds_config without a batch runs with one sample",
      a_ds_config_without_a_batch_runs_with_one_sample },
    { "sets win and say so", sets_win_and_say_so },
    { "short paths are completed", short_paths_are_completed },
    { "defaults follow versions", defaults_follow_versions },
    { "GPUs without bf16 train in fp16", gpus_without_bf16_train_in_fp16 },
    { "sdpa dispatches by GPU and mask", sdpa_dispatches_by_gpu_and_mask },
    { "a base is changed key by key", a_base_is_changed_key_by_key },
    { "a model may be a config file", a_model_may_be_a_config_file },
    { "a machine fills in what is not said", a_machine_fills_in_what_is_not_said },
    { "every machine makes a cluster", every_machine_makes_a_cluster },
    { "accelerate and TrainingArguments are read", accelerate_and_training_arguments_are_read },
    { "measured numbers are read", measured_numbers_are_read },
    { "DeepSpeed casts adapters by its version", deepspeed_casts_adapters_by_its_version },
    { "a topology file says how many GPUs", a_topology_file_says_how_many_gpus },
    { "a scenario runs", a_scenario_runs },
    { "a cluster alone is read", a_cluster_alone_is_read },
    { "machines are shared between scenarios", machines_are_shared_between_scenarios },
    CU_TEST_INFO_NULL
  };
  int status;

  catalogue = zs_catalogue_new (NULL);
  status = testing_main ("scenario", tests);
  zs_catalogue_free (catalogue);
  return status;
}
