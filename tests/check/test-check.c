/* The linter: every rule with a good and a bad file, recipes, broken files, output, corrections.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <jansson.h>
#include <string.h>

#include "sim/io/hjson.h"
#include "tests/check/checking.h"
#include "tests/testing.h"

#define Z1 "\"zero_optimization\": {\"stage\": 1"
#define Z2 "\"zero_optimization\": {\"stage\": 2"
#define Z3 "\"zero_optimization\": {\"stage\": 3"
#define CPU "\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}"
#define NVME "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/n\""
#define PNVME "\"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/n\""
#define ADAM "\"optimizer\": {\"type\": \"Adam\"}"
#define ACC "distributed_type: DEEPSPEED\ndeepspeed_config:\n"
#define ARGS "{\"output_dir\": \"o\", \"gradient_checkpointing\": true, "

/* BAD has a finding of CODE at '^', GOOD (nearly the same) has none of CODE.  FILE NULL: "ds.json".
 */
static const struct {
  const char *code, *bad, *good;
  Beside beside;
  const char *file;
} RULES[] = {
  { "syntax", "{\"a\": ^", "{" Z1 "}}", EITHER, NULL },
  { "file-not-found", ARGS "\"deepspeed\": ^\"none.json\"}", ARGS "\"deepspeed\": null}", EITHER,
    NULL },
  { "not-strict-json", "{" Z1 "} ^# c\n}", "{" Z1 "}}", EITHER, NULL },
  { "not-strict-json", "{" Z1 "^,}}", "{" Z1 "}}", HF, NULL },
  { "python-literal", "{" Z1 ", \"overlap_comm\": ^True\n}}", "{" Z1 ", \"overlap_comm\": true\n}}",
    PLAIN, NULL },
  { "duplicate-key", "{" Z1 "}, ^\"zero_optimization\": {}}", "{" Z1 "}}", PLAIN, NULL },
  { "unknown-key", "{" Z1 ", ^\"stages\": 1}}", "{" Z1 "}}", PLAIN, NULL },
  { "invented-key", "{" Z1 "}, ^\"zero3_init\": true}", "{" Z1 "}}", PLAIN, NULL },
  { "foreign-key", "{" Z1 "}, ^\"zero3_init_flag\": true}", "{" Z1 "}}", PLAIN, NULL },
  { "misplaced-key", "{" Z1 "}, ^\"overlap_comm\": true}", "{" Z1 ", \"overlap_comm\": true}}",
    PLAIN, NULL },
  { "newer-key", "{" Z3 ", ^\"stage3_allgather_sequential\": false}}", "{" Z3 "}}", OLD, NULL },
  { "removed-key", "{" Z3 ", ^\"cpu_offload_params\": true}}",
    "{" Z3 ", \"offload_param\": {\"device\": \"cpu\"}}}", HF, NULL },
  { "deprecated-key", "{" Z3 ", ^\"cpu_offload\": true}}", "{" Z3 ", " CPU "}}", HF, NULL },
  { "deprecated-key", "{" Z3 "}, \"aio\": {^\"thread_count\": 2}}",
    "{" Z3 "}, \"aio\": {\"intra_op_parallelism\": 2}}", HF, NULL },
  { "old-name", "{" Z1 "}, ^\"bfloat16\": {\"enabled\": true}}",
    "{" Z1 "}, \"bf16\": {\"enabled\": true}}", HF, NULL },
  { "legacy-section", "{" Z1 "}, ^\"sparse_attention\": {\"mode\": \"fixed\"}}", "{" Z1 "}}", HF,
    NULL },
  { "two-names", "{" Z3 ", ^\"prefetch_bucket_size\": 1e7, \"stage3_prefetch_bucket_size\": 1e7}}",
    "{" Z3 ", \"prefetch_bucket_size\": 1e7}}", HF, NULL },
  { "old-and-new-name", "{" Z3 ", ^\"cpu_offload\": true, " CPU "}}", "{" Z3 ", " CPU "}}", HF,
    NULL },
  { "dead-key", "{" Z2 ", ^\"sub_group_size\": 1e9}}", "{" Z3 ", \"sub_group_size\": 1e9}}", HF,
    NULL },
  { "dead-key", "{" Z2 ", ^\"allgather_bucket_size\": 2e8}}", "{" Z2 "}}", OLD, NULL },
  { "dead-key", "{" Z3 ", \"offload_optimizer\": {\"device\": \"cpu\", ^\"buffer_count\": 4}}}",
    "{" Z3 ", " NVME ", \"buffer_count\": 4}}}", HF, NULL },
  { "unknown-optimizer-param",
    "{" Z1 "}, \"optimizer\": {\"type\": \"Adam\", \"params\": {^\"weight_decai\": 0}}}",
    "{" Z1
    "}, \"optimizer\": {\"type\": \"Adam\", \"params\": {\"weight_decay\": 0, \"mine\": 1}}}",
    HF, NULL },
  { "wrong-optimizer-param",
    "{" Z1 "}, \"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 1, ^\"dampening\": 0}}}",
    "{" Z1
    "}, \"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 1, \"dampening\": 0}}}",
    HF, NULL },
  { "accumulation-saves-nothing",
    "{" Z1 "}, \"train_micro_batch_size_per_gpu\": 4, ^\"gradient_accumulation_steps\": 1}",
    "{" Z1 "}, \"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 1}", HF,
    NULL },
  { "mixture-with-stage-3", "{\"zero_optimization\": {^\"stage\": 3}}",
    "{\"zero_optimization\": {\"stage\": 2}}", MIXED, NULL },
  { "mixed-gpus", "{\"zero_optimization\": {^\"stage\": 3}}", "{\"train_batch_size\": 1}", MIXED,
    NULL },
  { "wrong-scheduler-param",
    "{" Z1 "}, \"scheduler\": {\"type\": \"WarmupLR\", \"params\": {^\"cycle_min_lr\": 0}}}",
    "{" Z1 "}, \"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 0}}}", HF,
    NULL },
  { "wrong-type", "{" Z1 ", \"overlap_comm\": ^[1]}}", "{" Z1 ", \"overlap_comm\": null}}", HF,
    NULL },
  { "out-of-range", "{" Z1 "}, \"train_batch_size\": ^0}", "{" Z1 "}, \"train_batch_size\": 8}",
    EITHER, NULL },
  { "unknown-word", "{" Z1 "}, \"communication_data_type\": ^\"half\"}",
    "{" Z1 "}, \"communication_data_type\": \"fp16\"}", HF, NULL },
  { "number-in-quotes", "{" Z1 ", \"reduce_bucket_size\": ^\"2e8\"}}",
    "{" Z1 ", \"reduce_bucket_size\": 2e8}}", HF, NULL },
  { "fractional-size", "{" Z1 ", \"reduce_bucket_size\": ^2.5}}",
    "{" Z1 ", \"reduce_bucket_size\": 2.0e8}}", HF, NULL },
  { "fractional-size", "{" Z3 ", \"reduce_bucket_size\": ^1.5}}", "{" Z3 "}}", OLD_HF, NULL },
  { "text-for-bool", "{" Z1 ", \"overlap_comm\": ^\"yes\"}}", "{" Z1 ", \"overlap_comm\": true}}",
    HF, NULL },
  { "unknown-optimizer", "{" Z1 "}, \"optimizer\": {\"type\": ^\"Adem\"}}", "{" Z1 "}, " ADAM "}",
    HF, NULL },
  { "unknown-scheduler", "{" Z1 "}, \"scheduler\": {\"type\": ^\"WarmUpLR\"}}",
    "{" Z1 "}, \"scheduler\": {\"type\": \"WarmupLR\"}}", HF, NULL },
  { "optimizer-not-simulated", "{" Z1 "}, \"optimizer\": {\"type\": ^\"Lion\"}}",
    "{" Z1 "}, " ADAM "}", HF, NULL },
  { "not-simulated", "{" Z1 "}, \"compile\": {\"deepcompile\": ^true}}",
    "{" Z1 "}, \"compile\": {\"deepcompile\": false}}", HF, NULL },
  { "auto-resolved", "{" Z1 ", \"reduce_bucket_size\": ^\"auto\"}}", "{" Z1 "}}", SEVEN_B, NULL },
  { "auto-unresolved", "{" Z1 ", \"reduce_bucket_size\": ^\"auto\"}}", "{" Z1 "}}", HF, NULL },
  { "auto-without-hf", "{" Z1 "}, \"train_batch_size\": ^\"auto\"}",
    "{" Z1 "}, \"train_batch_size\": 4}", PLAIN, NULL },
  { "auto-without-rule", "{" Z3 ", \"sub_group_size\": ^\"auto\"}}",
    "{" Z3 ", \"sub_group_size\": 1e9}}", HF, NULL },
  { "batch-identity", "{" Z1 "}, ^\"train_batch_size\": 5}", "{" Z1 "}, \"train_batch_size\": 6}",
    SEVEN_B, NULL },
  { "batch-missing", "^{" Z1 "}}", "{" Z1 "}, \"train_batch_size\": 4}", PLAIN, NULL },
  { "differs-from-arguments", "{" Z1 "}, \"gradient_accumulation_steps\": ^8}",
    "{" Z1 "}, \"gradient_accumulation_steps\": 4}", ARGUMENTS, NULL },
  { "differs-from-arguments", "{" Z1 "}, \"fp16\": {^\"enabled\": true}}",
    "{" Z1 "}, \"fp16\": {\"enabled\": false}}", ARGUMENTS, NULL },
  { "both-precisions", "{" Z1 "}, \"fp16\": {\"enabled\": true}, \"bf16\": {^\"enabled\": true}}",
    "{" Z1 "}, \"fp16\": {\"enabled\": false}, \"bf16\": {\"enabled\": true}}", HF, NULL },
  { "zero-missing", "^{\"train_batch_size\": 4}", "{" Z1 "}}", HF, NULL },
  { "stage-missing", "{^\"zero_optimization\": {\"overlap_comm\": true}}", "{" Z1 "}}", HF, NULL },
  { "nvme-without-path", "{" Z3 ", \"offload_param\": {^\"device\": \"nvme\"}}}",
    "{" Z3 ", " PNVME "}}}", HF, NULL },
  { "nvme-below-stage-3", "{" Z2 ", \"offload_optimizer\": {^\"device\": \"nvme\"}}}",
    "{" Z2 ", " CPU "}}", HF, NULL },
  { "ratio-outside-stage-3",
    "{" Z2 ", \"offload_optimizer\": {\"device\": \"cpu\", ^\"ratio\": 0.5}}}",
    "{" Z3 ", \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.5}}}", HF, NULL },
  { "stage-3-refuses", "{" Z3 ", ^\"elastic_checkpoint\": true}}",
    "{" Z3 ", \"elastic_checkpoint\": false}}", HF, NULL },
  { "bf16-states-without-master",
    "{" Z2 "}, \"bf16\": {\"enabled\": true, ^\"bf16_optimizer_states\": true}}",
    "{" Z2 "}, \"bf16\": {\"enabled\": true, \"bf16_optimizer_states\": true, "
           "\"bf16_master_weights_and_grads\": true}}",
    HF, NULL },
  { "stage-0-bf16", "{\"zero_optimization\": {^\"stage\": 0}, \"bf16\": {\"enabled\": true}}",
    "{\"zero_optimization\": {\"stage\": 0}, \"bf16\": {\"enabled\": true}, \"data_types\": "
    "{\"grad_accum_dtype\": \"fp32\"}}",
    OLD, NULL },
  { "prescale-stage-2", "{" Z2 "}, ^\"prescale_gradients\": true}",
    "{" Z1 "}, \"prescale_gradients\": true}", HF, NULL },
  { "zenflow-without-offload", "{" Z2 ", ^\"zenflow\": {}}}", "{" Z2 ", \"zenflow\": {}, " CPU "}}",
    HF, NULL },
  { "amp-with-zero", "{" Z2 "}, ^\"amp\": {\"enabled\": true}}",
    "{" Z2 "}, \"amp\": {\"enabled\": false}}", HF, NULL },
  { "one-bit-with-zero", "{" Z2 "}, \"optimizer\": {\"type\": ^\"OneBitAdam\"}}",
    "{" Z1 "}, \"optimizer\": {\"type\": \"OneBitAdam\"}}", HF, NULL },
  { "untested-optimizer", "{" Z2 "}, \"optimizer\": {\"type\": ^\"Lamb\"}}",
    "{" Z2 "}, \"optimizer\": {\"type\": \"Lamb\"}, \"zero_allow_untested_optimizer\": true}", HF,
    NULL },
  { "nvme-buffers", "{" Z3 ", " NVME ", ^\"buffer_count\": 3}}}",
    "{" Z3 ", " NVME ", \"buffer_count\": 4}}}", HF, NULL },
  { "nvme-buffers", "{" Z3 ", " NVME ", ^\"buffer_count\": 5, \"pipeline_read\": true}}}",
    "{" Z3 ", " NVME ", \"buffer_count\": 8, \"pipeline_read\": true}}}", HF, NULL },
  { "nvme-buffers", "{" Z3 ", " PNVME ", ^\"buffer_size\": 1e7}}}",
    "{" Z3 ", " PNVME ", \"buffer_size\": 1e8}}}", SEVEN_B, NULL },
  { "no-half-precision", "{" Z2 "}, ^\"fp16\": {\"enabled\": false}}",
    "{" Z2 "}, \"fp16\": {\"enabled\": true}}", PLAIN, NULL },
  { "quantized-weights-bf16",
    "{" Z3 ", ^\"zero_quantized_weights\": true}, \"bf16\": {\"enabled\": true}}",
    "{" Z3 ", \"zero_quantized_weights\": true}, \"fp16\": {\"enabled\": true}}", HF, NULL },
  { "offload-with-client-optimizer", "{" Z2 ", ^" CPU "}}", "{" Z2 ", " CPU "}, " ADAM "}", PLAIN,
    NULL },
  { "torch-optimizer-on-cpu", "{" Z2 ", " CPU "}, ^\"zero_force_ds_cpu_optimizer\": false}",
    "{" Z2 ", " CPU "}}", HF, NULL },
  { "torch-optimizer-on-cpu",
    "{" Z2 ", " CPU "}, \"optimizer\": {\"type\": \"Adam\", \"params\": {^\"torch_adam\": true}}}",
    "{" Z2 "}, \"optimizer\": {\"type\": \"Adam\", \"params\": {\"torch_adam\": true}}}", HF,
    NULL },
  { "idle-permission", "{" Z2 "}, ^\"zero_force_ds_cpu_optimizer\": false}",
    "{" Z2 ", " CPU "}, \"zero_force_ds_cpu_optimizer\": false}", HF, NULL },
  { "states-stay-on-gpu", "{" Z3 ", ^\"offload_param\": {\"device\": \"cpu\"}}}",
    "{" Z3 ", \"offload_param\": {\"device\": \"cpu\"}, " CPU "}}", HF, NULL },
  { "one-cpu-thread", "{" Z2 ", ^" CPU "}}", "{" Z2 "}}", ONE_THREAD, NULL },
  { "host-memory", "{" Z2 ", ^" CPU "}}",
    "{" Z2 ", \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": false}}}", SEVEN_B,
    NULL },
  { "pageable-offload",
    "{" Z2 ", \"offload_optimizer\": {\"device\": \"cpu\", ^\"pin_memory\": false}}}",
    "{" Z2 ", " CPU "}}", HF, NULL },
  { "pinned-by-default", "{" Z2 ", ^\"offload_optimizer\": {\"device\": \"cpu\"}}}",
    "{" Z2 ", " CPU "}}", HF, NULL },
  { "idle-cpu-buffer", "{" Z3 ", " PNVME ", ^\"max_in_cpu\": 1e9}}}",
    "{" Z3 ", \"sub_group_size\": 1e8, " PNVME ", \"max_in_cpu\": 1e9}}}", SEVEN_B, NULL },
  { "nvme-param-cpu-optimizer",
    "{" Z3 ", \"offload_param\": {^\"device\": \"nvme\", \"nvme_path\": \"/n\"}, " CPU "}}",
    "{" Z3 ", " PNVME "}, " NVME "}}}", OLD, NULL },
  { "coarse-ratio", "{" Z3 ", \"offload_optimizer\": {\"device\": \"cpu\", ^\"ratio\": 0.9}}}",
    "{" Z3 ", " CPU "}}", SEVEN_B, NULL },
  { "super-offload-clipping",
    "{" Z3 ", \"offload_optimizer\": {\"device\": \"cpu\", \"super_offload\": true}}, "
           "^\"gradient_clipping\": 1.0}",
    "{" Z3 ", \"offload_optimizer\": {\"device\": \"cpu\", \"super_offload\": true}}, "
           "\"gradient_clipping\": 0}",
    HF, NULL },
  { "tiny-bucket", "{" Z3 ", ^\"reduce_bucket_size\": 50000}}",
    "{" Z3 ", \"reduce_bucket_size\": 5e7}}", HF, NULL },
  { "bucket-cost", "{" Z1 ", ^\"reduce_bucket_size\": 1e9}}",
    "{" Z1 ", \"reduce_bucket_size\": 5e7}}", HF, NULL },
  { "bucket-larger-than-model", "{" Z1 ", ^\"reduce_bucket_size\": 7e9}}",
    "{" Z1 ", \"reduce_bucket_size\": 5e8}}", SEVEN_B, NULL },
  { "lora-with-full-buckets", "{" Z2 ", ^\"reduce_bucket_size\": 5e8}}",
    "{" Z2 ", \"reduce_bucket_size\": 4e6}}", LORA, NULL },
  { "prefetch-larger-than-live",
    "{" Z3 ", ^\"stage3_prefetch_bucket_size\": 5e8, \"stage3_max_live_parameters\": 1e8}}",
    "{" Z3 ", \"stage3_prefetch_bucket_size\": 5e7, \"stage3_max_live_parameters\": 1e8}}", HF,
    NULL },
  { "tiny-prefetch", "{" Z3 ", ^\"stage3_prefetch_bucket_size\": 10}}",
    "{" Z3 ", \"stage3_prefetch_bucket_size\": 5e7}}", HF, NULL },
  { "tiny-live-parameters", "{" Z3 ", ^\"stage3_max_reuse_distance\": 0}}",
    "{" Z3 ", \"stage3_max_reuse_distance\": 1e8}}", HF, NULL },
  { "large-persistence", "{" Z3 ", ^\"stage3_param_persistence_threshold\": 1e8}}",
    "{" Z3 ", \"stage3_param_persistence_threshold\": 1e6}}", HF, NULL },
  { "tiny-sub-group", "{" Z3 ", ^\"sub_group_size\": 1e6}}", "{" Z3 ", \"sub_group_size\": 1e8}}",
    HF, NULL },
  { "overlap-costs-a-bucket", "{" Z2 ", ^\"overlap_comm\": true}}",
    "{" Z3 ", \"overlap_comm\": true}}", HF, NULL },
  { "no-overlap", "{" Z3 ", ^\"overlap_comm\": false}}", "{" Z2 ", \"overlap_comm\": false}}", HF,
    NULL },
  { "no-reduce-scatter", "{" Z3 ", ^\"reduce_scatter\": false}}",
    "{" Z2 ", \"reduce_scatter\": false}}", HF, NULL },
  { "not-contiguous", "{" Z3 ", ^\"contiguous_gradients\": false}}",
    "{" Z2 ", \"contiguous_gradients\": false}}", HF, NULL },
  { "all-reduce-gather", "{" Z3 ", ^\"stage3_use_all_reduce_for_fetch_params\": true}}",
    "{" Z3 "}}", HF, NULL },
  { "sequential-gather", "{" Z3 ", ^\"stage3_allgather_sequential\": true}}", "{" Z3 "}}", HF,
    NULL },
  { "gather-on-save", "{" Z3 ", ^\"stage3_gather_16bit_weights_on_model_save\": true}}",
    "{" Z3 "}}", HF, NULL },
  { "hpz-without-gain", "{" Z3 ", ^\"zero_hpz_partition_size\": 8}}",
    "{" Z3 ", \"zero_hpz_partition_size\": 1}}", SEVEN_B, NULL },
  { "quantized-gradients-idle", "{" Z3 ", ^\"zero_quantized_gradients\": true}}", "{" Z3 "}}",
    SEVEN_B, NULL },
  { "activation-checkpointing-idle", "{" Z2 "}, ^\"activation_checkpointing\": {}}", "{" Z2 "}}",
    HF, NULL },
  { "breakdown-synchronises", "{" Z2 "}, ^\"wall_clock_breakdown\": true}",
    "{" Z2 "}, \"wall_clock_breakdown\": false}", HF, NULL },
  { "qlora-with-stage-3", "{\"zero_optimization\": {^\"stage\": 3}}", "{" Z2 "}}", QLORA, NULL },
  { "file-and-keys", ACC "  deepspeed_config_file: x\n  ^zero_stage: 2\n", ACC "  zero_stage: 2\n",
    EITHER, "a.yaml" },
  { "no-wrapping", "distributed_type: FSDP\nfsdp_config:\n  ^fsdp_auto_wrap_policy: NO_WRAP\n",
    "distributed_type: FSDP\nfsdp_config:\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n", EITHER, "a.yaml" },
  { "not-deepspeed", "distributed_type: ^MULTI_GPU\n", ACC "  zero_stage: 2\n", EITHER, "a.yaml" },
  { "whole-model-at-load", ACC "  zero_stage: 3\n  ^zero3_init_flag: false\n",
    ACC "  zero_stage: 3\n  zero3_init_flag: true\n", EITHER, "a.yaml" },
  { "device-map-with-stage-3", ARGS "^\"device_map\": \"auto\", \"deepspeed\": {" Z3 "}}}",
    ARGS "\"device_map\": null, \"deepspeed\": {" Z3 "}}}", EITHER, NULL },
  { "modules-to-save-with-stage-3",
    ARGS "^\"modules_to_save\": [\"lm_head\"], \"deepspeed\": {" Z3 "}}}",
    ARGS "\"modules_to_save\": [\"lm_head\"], \"deepspeed\": {" Z2 "}}}", EITHER, NULL },
  { "unknown-argument", ARGS "^\"gradient_acumulation_steps\": 2}",
    ARGS "\"gradient_accumulation_steps\": 2, \"seed\": 1}", EITHER, NULL },
  { "checkpointing-off",
    "{\"output_dir\": \"o\", ^\"gradient_checkpointing\": false, \"deepspeed\": {" Z2 "}}}",
    ARGS "\"deepspeed\": {" Z2 "}}}", EITHER, NULL },
  { "checkpointing-off",   /* LLaMA-Factory does it unasked */
    "{\"output_dir\": \"o\", \"cutoff_len\": 512, \"disable_gradient_checkpointing\": true, "
    "^\"gradient_checkpointing\": false, \"deepspeed\": {" Z2 "}}}",
    "{\"output_dir\": \"o\", \"cutoff_len\": 512, \"deepspeed\": {" Z2 "}}}", EITHER, NULL },
  { "scenario",
    "model: llama-7b\ncluster: {gpu: a100-sxm4-40gb, gpus_per_node: 2}\ntraining: {^micro_bach: "
    "1}\n",
    "model: llama-7b\ncluster: {gpu: a100-sxm4-40gb, gpus_per_node: 2}\ntraining: {micro_batch: "
    "1}\n",
    EITHER, "s.yaml" },
};

static void
every_rule_tells_good_from_bad (void)
{
  for (size_t i = 0; i < G_N_ELEMENTS (RULES); i++) {
    const char *file = RULES[i].file != NULL ? RULES[i].file : "ds.json";
    int line, column, no_line, no_column;
    g_autoptr (ZsFindings) bad = check_marked (RULES[i].bad, file, RULES[i].beside, &line, &column);
    g_autoptr (ZsFindings) good =
        check_marked (RULES[i].good, file, RULES[i].beside, &no_line, &no_column);

    if (line == 0 || find_finding (bad, RULES[i].code, line, column) == NULL) {
      g_printerr ("# %s expected at %d:%d\n", RULES[i].code, line, column);
      print_findings (RULES[i].bad, bad);
      CU_FAIL ("not found");
    }
    if (find_finding (good, RULES[i].code, 0, 0) != NULL) {
      g_printerr ("# no %s expected\n", RULES[i].code);
      print_findings (RULES[i].good, good);
      CU_FAIL ("a false alarm");
    }
  }
}

static void
every_row_of_the_table_has_its_case (void)
{
  int n;
  const ZsFindingRow *rows = zs_finding_rows (&n);

  for (int i = 0; i < n; i++) {
    bool found = false;

    for (size_t k = 0; k < G_N_ELEMENTS (RULES); k++)
      found |= strcmp (RULES[k].code, rows[i].code) == 0;
    if (!found)
      g_printerr ("# no case for %s\n", rows[i].code);
    CU_ASSERT_TRUE (found);
  }
  for (size_t k = 0; k < G_N_ELEMENTS (RULES); k++)
    CU_ASSERT_PTR_NOT_NULL (zs_finding_row (RULES[k].code));
}

/* Everything that is found has a row, a text, and a place. */
static void
check_sound (const char *what, const ZsFindings *findings)
{
  for (int i = 0; i < zs_findings_count (findings); i++) {
    const ZsFinding *finding = zs_findings_get (findings, i);

    if (zs_finding_row (finding->code) == NULL || finding->file == NULL || *finding->text == '\0'
        || !g_utf8_validate (finding->text, -1, NULL)) {
      print_findings (what, findings);
      CU_FAIL ("a finding without its row, text or file");
    }
  }
}

static void
documented_recipes_raise_no_alarm (void)
{
  g_autofree char *folder = testing_source_path ("tests/data/check/good");
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name;
  int n_files = 0;

  CU_ASSERT_PTR_NOT_NULL_FATAL (dir);
  while ((name = g_dir_read_name (dir)) != NULL) {
    g_autofree char *path = g_build_filename (folder, name, NULL);
    bool plain = g_str_has_prefix (name, "ds-");
    ZsCheckOptions options = options_for (plain                              ? PLAIN
                                          : g_str_has_suffix (name, ".yaml") ? EITHER
                                                                             : HF);
    g_autoptr (ZsFindings) findings = zs_check_file (path, ZS_CHECK_GUESS, &options);
    bool alarm = false;

    n_files++;
    for (int i = 0; i < zs_findings_count (findings); i++) {
      const ZsFinding *finding = zs_findings_get (findings, i);

      alarm |= finding->severity != ZS_NOTE_INFO
               && !(finding->severity == ZS_NOTE_DEAD && strcmp (finding->code, "dead-key") == 0);
    }
    if (alarm)
      print_findings (name, findings);
    CU_ASSERT_FALSE (alarm);
    check_sound (name, findings);
  }
  CU_ASSERT_TRUE (n_files >= 30);
}

static void
a_broken_file_is_one_clear_error (void)
{
  static const char *const TEXTS[] = {
    "",
    " \n\t ",
    "{",
    "}",
    "[",
    "[1,",
    "null",
    "\"text\"",
    "42",
    "{\"a\"",
    "{\"a\":",
    "{\"a\": }",
    "{\"a\": 1",
    "{\"zero_optimization\": {\"stage\": 2",
    "{\"zero_optimization\": {\"stage\": 2}} trailing",
    "{\"a\": \"unclosed}",
    "{\"a\": 'unclosed}",
    "{\"a\": \"\\q\"}",
    "{\"a\": \"\\u00zz\"}",
    "{,}",
    "{\"a\": 1,,}",
    "{\"a\" 1}",
    "{a b: 1}",
    "{\"a\": \x01}",
    "\x89PNG\r\n\x1a\n",
    "\x7f"
    "ELF",
    "\xff\xfe{\"a\": 1}",
    "{\"a\": \xc3\x28}",
    "<html><body>not json</body></html>",
    "PK\x03\x04",
    "// nothing",
    "/* open",
    "#!/bin/sh\necho hello",
    "{\"enabled\": True}",
    "\x1f\x8b\x08",
  };
  static const char *const YAML[] = {
    "",
    "deepspeed_config: [",
    "deepspeed_config: {zero_stage: 2",
    "a: b: c",
    "\tdistributed_type: DEEPSPEED",
    "distributed_type: &a [*a",
    "- 1\n- 2\n",
    "distributed_type: \"x\n",
    "%YAML 9.9\n---\nx",
    "a: *nothing",
  };

  for (size_t i = 0; i < G_N_ELEMENTS (TEXTS) + G_N_ELEMENTS (YAML); i++) {
    bool json = i < G_N_ELEMENTS (TEXTS);
    const char *text = json ? TEXTS[i] : YAML[i - G_N_ELEMENTS (TEXTS)];
    ZsCheckOptions options = options_for (EITHER);
    g_autoptr (ZsFindings) findings =
        zs_check_text (json ? "f.json" : "f.yaml", text, strlen (text), ZS_CHECK_GUESS, &options);
    int n_errors = 0;

    for (int k = 0; k < zs_findings_count (findings); k++)
      n_errors += zs_findings_get (findings, k)->severity == ZS_NOTE_ERROR;
    if (n_errors != 1)
      print_findings (text, findings);
    CU_ASSERT_EQUAL (n_errors, 1);
    if (n_errors == 1)
      CU_ASSERT_TRUE (zs_findings_get (findings, 0)->line > 0);
    check_sound (text, findings);
  }
}

static void
huge_and_deep_files_are_refused (void)
{
  g_autoptr (GString) deep = g_string_new (NULL), wide = g_string_new ("{"),
                      large = g_string_new (NULL);
  GString *const texts[] = { deep, wide, large };
  ZsCheckOptions options = options_for (EITHER);

  for (int i = 0; i < 50000; i++)
    g_string_append (deep, "{\"a\":");
  for (int i = 0; i < 30000; i++)
    g_string_append_printf (wide, "\"k%d\":1,", i);
  g_string_set_size (large, (17 << 20));
  memset (large->str, ' ', large->len);
  for (size_t i = 0; i < G_N_ELEMENTS (texts); i++) {
    g_autoptr (ZsFindings) findings =
        zs_check_text ("f.json", texts[i]->str, texts[i]->len, ZS_CHECK_GUESS, &options);

    CU_ASSERT_EQUAL (zs_findings_count (findings), 1);
    CU_ASSERT_TRUE (zs_findings_has_error (findings));
  }
  g_autoptr (ZsFindings) none = zs_check_file ("/no/such/file", ZS_CHECK_GUESS, &options);
  g_autoptr (ZsFindings) folder = zs_check_file ("/tmp", ZS_CHECK_GUESS, &options);

  CU_ASSERT_STRING_EQUAL (zs_findings_get (none, 0)->code, "file-not-found");
  CU_ASSERT_STRING_EQUAL (zs_findings_get (folder, 0)->code, "file-not-found");
}

/* Whatever the bytes: an answer, and sound findings. */
static void
mutants_of_real_files_get_an_answer (void)
{
  static const char BYTES[] = "{}[]:,\"'#/0123456789eE.-+ \nautonvmecpTFtrue";
  g_autofree char *folder = testing_source_path ("tests/data/check/good");
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  guint64 seed = 20261130, state = seed;
  const char *name;

  CU_ASSERT_PTR_NOT_NULL_FATAL (dir);
  g_print ("# seed %" G_GUINT64_FORMAT "\n", seed);
  while ((name = g_dir_read_name (dir)) != NULL) {
    g_autofree char *path = g_build_filename (folder, name, NULL), *text = NULL;
    gsize length;

    CU_ASSERT_TRUE_FATAL (g_file_get_contents (path, &text, &length, NULL));
    for (int round = 0; round < 60; round++) {
      g_autofree char *mutant = g_memdup2 (text, length);
      ZsCheckOptions options = options_for (round % 3 == 0 ? PLAIN : round % 3 == 1 ? HF : SEVEN_B);

      for (int i = 0; i < 1 + round % 5; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        mutant[(state >> 33) % length] = BYTES[(state >> 20) % (sizeof BYTES - 1)];
      }
      g_autoptr (ZsFindings) findings =
          zs_check_text (name, mutant, round % 10 == 9 ? (gsize)(state >> 33) % length : length,
                         ZS_CHECK_GUESS, &options);
      g_autofree char *fixed = zs_check_fix (findings, NULL);

      check_sound (name, findings);
      if (fixed != NULL) {
        json_t *parsed = json_loads (fixed, 0, NULL);

        if (parsed == NULL)
          g_printerr ("# %s\n", fixed);
        CU_ASSERT_PTR_NOT_NULL (parsed);
        json_decref (parsed);
      }
    }
  }
}

static void
json_has_the_names_of_the_contract (void)
{
  int line, column;
  g_autoptr (ZsFindings) findings =
      check_marked ("{\n  " Z2 ", ^\"stages\": 1}\n}", "ds.json", EITHER, &line, &column);
  const ZsFindings *list[] = { findings };
  g_autoptr (GString) out = g_string_new (NULL), sarif = g_string_new (NULL);
  ZsJsonWriter *writer = zs_json_writer_new (out, 2);

  zs_findings_json (list, 1, writer);
  zs_json_writer_free (writer);
  json_t *root = json_loads (out->str, 0, NULL);
  json_t *rows = json_object_get (root, "findings"), *first = NULL, *row;
  size_t i;

  json_array_foreach (
      rows, i, row) if (strcmp (json_string_value (json_object_get (row, "code")), "unknown-key")
                        == 0) first = row;
  CU_ASSERT_PTR_NOT_NULL_FATAL (first);
  CU_ASSERT_STRING_EQUAL (json_string_value (json_object_get (first, "severity")), "error");
  CU_ASSERT_EQUAL (json_integer_value (json_object_get (first, "line")), line);
  CU_ASSERT_EQUAL (json_integer_value (json_object_get (first, "column")), column);
  CU_ASSERT_STRING_EQUAL (json_string_value (json_object_get (first, "file")), "ds.json");
  CU_ASSERT_TRUE (json_is_string (json_object_get (first, "text")));
  json_decref (root);

  writer = zs_json_writer_new (sarif, 2);
  zs_findings_sarif (list, 1, writer);
  zs_json_writer_free (writer);
  root = json_loads (sarif->str, 0, NULL);
  CU_ASSERT_PTR_NOT_NULL_FATAL (root);
  CU_ASSERT_STRING_EQUAL (json_string_value (json_object_get (root, "version")), "2.1.0");
  json_t *run = json_array_get (json_object_get (root, "runs"), 0);
  json_t *driver = json_object_get (json_object_get (run, "tool"), "driver");
  int n;

  zs_finding_rows (&n);
  CU_ASSERT_EQUAL (json_array_size (json_object_get (driver, "rules")), n);
  CU_ASSERT_EQUAL (json_array_size (json_object_get (run, "results")),
                   zs_findings_count (findings));
  json_decref (root);
}

static void
corrections_are_what_was_meant (void)
{
  static const struct {
    const char *before, *after;
  } cases[] = {
    { "{zero_optimization: {stage: 2}, # two\n train_batch_size: 8,}",
      "{\n  \"zero_optimization\": {\n    \"stage\": 2\n  },\n  \"train_batch_size\": 8\n}\n" },
    { "{" Z2 ", \"reduce_bucket_size\": \"5e8\"}}",
      "{\n  \"zero_optimization\": {\n    \"stage\": 2,\n    \"reduce_bucket_size\": 500000000\n  "
      "}\n}\n" },
    { "{" Z3 ", \"stage3_prefetch_bucket_size\": 15099494.4}}",
      "{\n  \"zero_optimization\": {\n    \"stage\": 3,\n    \"stage3_prefetch_bucket_size\": "
      "15099494\n  }\n}\n" },
    { "{" Z2 ", \"overlap_com\": True,\n}}",
      "{\n  \"zero_optimization\": {\n    \"stage\": 2,\n    \"overlap_comm\": true\n  }\n}\n" },
    { "{" Z2 "}, \"offload_optimizer\": {\"device\": \"CPU\"}}",
      "{\n  \"zero_optimization\": {\n    \"stage\": 2,\n    \"offload_optimizer\": {\n      "
      "\"device\": \"CPU\"\n    }\n  }\n}\n" },
    { "{" Z2 ", \"offload_optimizer\": {\"device\": \"CPU\"}}}",
      "{\n  \"zero_optimization\": {\n    \"stage\": 2,\n    \"offload_optimizer\": {\n      "
      "\"device\": \"cpu\"\n    }\n  }\n}\n" },
    { "{" Z2 ", \"cpu_offload\": true}, \"zero_3_use_jit\": 1}",
      "{\n  \"zero_optimization\": {\n    \"stage\": 2,\n    \"offload_optimizer\": {\n      "
      "\"device\": \"cpu\"\n    }\n  }\n}\n" },
    { "{" Z3 "}, \"zero3_max_live_parameters\": 1e8, \"stage3_max_reuse_distance\": 1e8}",
      "{\n  \"zero_optimization\": {\n    \"stage\": 3,\n    \"stage3_max_live_parameters\": "
      "1e8,\n    \"stage3_max_reuse_distance\": 1e8\n  }\n}\n" },
    { "{\"stage\": 3, \"bfloat16\": {\"enabled\": \"yes\"}}",
      "{\n  \"bf16\": {\n    \"enabled\": true\n  },\n  \"zero_optimization\": {\n    \"stage\": "
      "3\n  }\n}\n" },
    { "{" Z2 "}, \"optimizer\": {\"type\": \"Adam\", \"params\": {\"max_grad_norm\": 0.5}}}",
      "{\n  \"zero_optimization\": {\n    \"stage\": 2\n  },\n  \"optimizer\": {\n    \"type\": "
      "\"Adam\",\n    \"params\": {}\n  },\n  \"gradient_clipping\": 0.5\n}\n" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    int line, column;
    g_autoptr (ZsFindings) findings =
        check_marked (cases[i].before, "ds.json", EITHER, &line, &column);
    g_autofree char *fixed = zs_check_fix (findings, NULL);

    CU_ASSERT_PTR_NOT_NULL_FATAL (fixed);
    if (strcmp (fixed, cases[i].after) != 0) {
      g_printerr ("# %s\n", fixed);
      print_findings (cases[i].before, findings);
    }
    CU_ASSERT_STRING_EQUAL (fixed, cases[i].after);
  }
}

/* A second round finds no more to correct than what a first one has uncovered. */
static void
corrections_come_to_rest (void)
{
  for (size_t i = 0; i < G_N_ELEMENTS (RULES); i++) {
    g_autofree char *text = NULL;
    int line, column, n = 1;
    g_autoptr (ZsFindings) findings =
        check_marked (RULES[i].bad, "ds.json", RULES[i].beside, &line, &column);

    if (RULES[i].file != NULL || (text = zs_check_fix (findings, &n)) == NULL)
      continue;
    for (int round = 0; round < 3 && n > 0; round++) {
      ZsCheckOptions options = options_for (RULES[i].beside);
      g_autoptr (ZsFindings) again =
          zs_check_text ("ds.json", text, strlen (text), ZS_CHECK_DS_CONFIG, &options);

      g_free (text);
      text = zs_check_fix (again, &n);
    }
    if (n > 0)
      g_printerr ("# %s\n", text);
    CU_ASSERT_EQUAL (n, 0);
  }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "every rule tells good from bad", every_rule_tells_good_from_bad },
    { "every row of the table has its case", every_row_of_the_table_has_its_case },
    { "documented recipes raise no alarm", documented_recipes_raise_no_alarm },
    { "a broken file is one clear error", a_broken_file_is_one_clear_error },
    { "huge and deep files are refused", huge_and_deep_files_are_refused },
    { "mutants of real files get an answer", mutants_of_real_files_get_an_answer },
    { "JSON has the names of the contract", json_has_the_names_of_the_contract },
    { "corrections are what was meant", corrections_are_what_was_meant },
    { "corrections come to rest", corrections_come_to_rest },
    CU_TEST_INFO_NULL
  };
  return testing_main ("check", tests);
}
