/* Mistakes that people made in public: each is found at its place.  SPDX-License-Identifier: MIT
 *
 * The numbers are those of a collection of issue threads; what each is about is in its text. */
#include "config.h"

#include <string.h>

#include "tests/check/checking.h"
#include "tests/testing.h"

#define Z2 "\"zero_optimization\": {\"stage\": 2"
#define Z3 "\"zero_optimization\": {\"stage\": 3"

static const struct {
  int number;
  const char *text; /* '^' before the place */
  Beside beside;
  const char *code;
  ZsNoteSeverity severity;
  const char *part;    /* of the text */
  const char *instead; /* NULL: any */
} MISTAKES[] = {
  { 1, "{" Z2 "}, ^\"offload_optimizer\": {\"device\": \"cpu\"}}", EITHER, "misplaced-key",
    ZS_NOTE_IGNORED, "belongs to zero_optimization", "zero_optimization.offload_optimizer" },
  { 1, "{" Z3 "}, ^\"offload_param\": {\"device\": \"cpu\"}}", EITHER, "misplaced-key",
    ZS_NOTE_IGNORED, "belongs to zero_optimization", "zero_optimization.offload_param" },
  { 2, "{" Z3 "}, ^\"stage3_max_live_parameters\": 1e8}", EITHER, "misplaced-key", ZS_NOTE_IGNORED,
    "belongs to zero_optimization", NULL },
  { 2, "{^\"stage\": 3}", EITHER, "misplaced-key", ZS_NOTE_IGNORED, "belongs to zero_optimization",
    NULL },
  { 2, "{" Z2 "}, ^\"overlap_comm\": true}", EITHER, "misplaced-key", ZS_NOTE_IGNORED,
    "belongs to zero_optimization", NULL },
  { 2, "{" Z2 "}, ^\"reduce_bucket_size\": 5e7}", EITHER, "misplaced-key", ZS_NOTE_IGNORED,
    "belongs to zero_optimization", NULL },
  { 3, "{" Z3 ", ^\"aio\": {\"block_size\": 1048576}}}", EITHER, "misplaced-key", ZS_NOTE_ERROR,
    "belongs to the top level", "aio" },
  { 4, "{" Z2 ", ^\"train_batch_size\": 8}}", EITHER, "misplaced-key", ZS_NOTE_ERROR,
    "Extra inputs are not permitted", "train_batch_size" },
  { 4, "{" Z2 ", ^\"train_batch_size\": 8}}", OLD, "misplaced-key", ZS_NOTE_ERROR,
    "extra fields not permitted", NULL },
  { 5, "{" Z3 ", ^\"stage3_prefetch_bucketsize\": 5e7}}", EITHER, "unknown-key", ZS_NOTE_ERROR,
    "did you mean 'stage3_prefetch_bucket_size'", "zero_optimization.stage3_prefetch_bucket_size" },
  { 5, "{" Z2 ", ^\"offload_optimiser\": {\"device\": \"cpu\"}}}", EITHER, "unknown-key",
    ZS_NOTE_ERROR, "did you mean 'offload_optimizer'", NULL },
  { 5, "{" Z3 ", ^\"cpu_offload_params\": true}}", EITHER, "removed-key", ZS_NOTE_ERROR,
    "not known any more", "zero_optimization.offload_param" },
  { 6, "{" Z2 "}, ^\"gradient_clipp1ng\": 1.0}", EITHER, "unknown-key", ZS_NOTE_IGNORED,
    "did you mean 'gradient_clipping'", "gradient_clipping" },
  { 6, "{" Z2 "}, ^\"micro_batch_per_gpu\": 4}", EITHER, "foreign-key", ZS_NOTE_IGNORED, "ignores",
    "train_micro_batch_size_per_gpu" },
  { 6, "{" Z2 "}, ^\"train_micro_batch_size\": 4}", EITHER, "unknown-key", ZS_NOTE_IGNORED,
    "did you mean 'train_micro_batch_size_per_gpu'", NULL },
  { 6, "^{" Z2 "}, \"train_micro_batch_size\": 4}", PLAIN, "batch-missing", ZS_NOTE_ERROR,
    "Either train_batch_size or train_micro_batch_size_per_gpu", NULL },
  { 7, "{" Z3 ", \"offload_optimizer\": {\"device\": \"cpu\", ^\"buffer_size\": 1e8}}}", EITHER,
    "misplaced-key", ZS_NOTE_ERROR, "belongs to zero_optimization.offload_param", NULL },
  { 7, "{" Z3 ", \"offload_param\": {\"device\": \"cpu\", ^\"fast_init\": false}}}", EITHER,
    "misplaced-key", ZS_NOTE_ERROR, "belongs to zero_optimization.offload_optimizer", NULL },
  { 8, "{" Z2 "}, ^\"activation_checkpointing\": {\"partition_activations\": true}}", HF,
    "activation-checkpointing-idle", ZS_NOTE_DEAD, "gradient_checkpointing", NULL },
  { 9, "{" Z2 ", ^\"contiguous_memory_optimization\": true}}", EITHER, "misplaced-key",
    ZS_NOTE_ERROR, "belongs to activation_checkpointing", NULL },
  { 9, "{" Z2 ", ^\"partition_activations\": true}}", EITHER, "misplaced-key", ZS_NOTE_ERROR,
    "belongs to activation_checkpointing", NULL },
  { 10, "{" Z2 "}, ^\"bfloat16\": {\"enabled\": true}}", EITHER, "old-name", ZS_NOTE_INFO, "bf16",
    "bf16" },
  { 11, "{" Z2 "}, \"bf16\": {\"enabled\": true, ^\"loss_scale\": 0}}", EITHER, "misplaced-key",
    ZS_NOTE_ERROR, "bf16 has no loss scaling", NULL },
  { 11, "{" Z2 "}, \"bf16\": {\"enabled\": true, ^\"loss_scale\": 0}}", OLD, "misplaced-key",
    ZS_NOTE_IGNORED, "ignores", NULL },
  { 12, "{" Z2 "}, \"fp16\": {\"enabled\": true, ^\"opt_level\": \"O3\"}}", EITHER, "misplaced-key",
    ZS_NOTE_ERROR, "amp", NULL },
  { 13, "{" Z2 "}, \"fp16\": {\"enabled\": true, \"loss_scale\": ^\"dynamic\"}}", EITHER,
    "wrong-type", ZS_NOTE_ERROR, "must be a number", NULL },
  { 14, "{" Z2 "}, \"optimizer\": {\"type\": \"Adam\", \"params\": {^\"max_grad_norm\": 1.0}}}",
    EITHER, "removed-key", ZS_NOTE_ERROR, "gradient_clipping", "gradient_clipping" },
  { 15, "{" Z2 ", ^\"cpu_offload\": true}}", EITHER, "deprecated-key", ZS_NOTE_RISKY, "deprecated",
    "zero_optimization.offload_optimizer" },
  { 16, "{" Z2 ", ^\"cpu_offload\": true, \"offload_optimizer\": {\"device\": \"cpu\"}}}", EITHER,
    "old-and-new-name", ZS_NOTE_ERROR, "Cannot provide deprecated parameter", NULL },
  { 17, "{" Z3 ", ^\"cpu_offload_param\": true}}", EITHER, "deprecated-key", ZS_NOTE_RISKY,
    "deprecated", "zero_optimization.offload_param" },
  { 17, "{" Z3 ", ^\"cpu_offload_use_pin_memory\": true}}", EITHER, "deprecated-key", ZS_NOTE_DEAD,
    "pins nothing", NULL },
  { 18, "{" Z3 ", ^\"stage3_gather_fp16_weights_on_model_save\": true}}", EITHER, "deprecated-key",
    ZS_NOTE_RISKY, "deprecated", "zero_optimization.stage3_gather_16bit_weights_on_model_save" },
  { 19, "{^\"zero_optimization\": true}", EITHER, "deprecated-key", ZS_NOTE_RISKY, "stage 1",
    NULL },
  { 20, "{" Z2 ", ^\"legacy_stage1\": true}}", EITHER, "removed-key", ZS_NOTE_ERROR,
    "since DeepSpeed 0.5.9", NULL },
  { 21, "{" Z2 ", \"offload_optimizer\": ^true}}", EITHER, "wrong-type", ZS_NOTE_ERROR,
    "must be an object", NULL },
  { 21, "{" Z2 ", \"offload_optimizer\": ^\"cpu\"}}", EITHER, "wrong-type", ZS_NOTE_ERROR,
    "must be an object", NULL },
  { 23, "{" Z2 ", \"reduce_bucket_size\": ^\"5e8\"}}", EITHER, "number-in-quotes", ZS_NOTE_ERROR,
    "unable to parse string as an integer", "500000000" },
  { 24, "{" Z3 ", \"stage3_prefetch_bucket_size\": ^15099494.4}}", EITHER, "fractional-size",
    ZS_NOTE_ERROR, "got a number with a fractional part", "15099494" },
  { 24, "{" Z3 ", \"stage3_prefetch_bucket_size\": ^15099494.4}}", OLD, "fractional-size",
    ZS_NOTE_RISKY, "cut off to 15,099,494", "15099494" },
  { 25, "{\"zero_optimization\": {\"stage\": ^\"3\"}}", OLD, "number-in-quotes", ZS_NOTE_ERROR,
    "not a valid enumeration member", "3" },
  { 25, "{\"zero_optimization\": {\"stage\": ^\"3\"}}", EITHER, "number-in-quotes", ZS_NOTE_INFO,
    "", "3" },
  { 26, "{\"zero_optimization\": {\"stage\": ^4}}", EITHER, "out-of-range", ZS_NOTE_ERROR,
    "must be 0, 1, 2 or 3, not 4", NULL },
  { 27, "{" Z2 ", \"offload_optimizer\": {\"device\": ^\"CPU\"}}}", EITHER, "unknown-word",
    ZS_NOTE_ERROR, "must be none, cpu or nvme", "\"cpu\"" },
  { 27, "{" Z2 ", \"offload_optimizer\": {\"device\": ^\"ssd\"}}}", EITHER, "unknown-word",
    ZS_NOTE_ERROR, "must be none, cpu or nvme", NULL },
  { 27, "{" Z2 ", \"offload_optimizer\": {\"device\": ^null}}}", EITHER, "wrong-type",
    ZS_NOTE_ERROR, "\"none\"", "\"none\"" },
  { 28, "{" Z2 ", \"overlap_comm\": ^\"true\"}}", EITHER, "text-for-bool", ZS_NOTE_RISKY,
    "taken as true", "true" },
  { 28, "{" Z2 "}, \"bf16\": {\"enabled\": ^\"true\"}}", EITHER, "text-for-bool", ZS_NOTE_RISKY,
    "taken as true", "true" },
  { 29, "{" Z2 "},\n\"fp16\": {\"enabled\": ^True,\n}}", EITHER, "python-literal", ZS_NOTE_ERROR,
    "True,", "true" },
  { 29, "{" Z2 "},\n^// a comment\n\"fp16\": {\"enabled\": true}}", HF, "not-strict-json",
    ZS_NOTE_ERROR, "a comment", NULL },
  { 29, "{" Z2 "}, \"fp16\": {\"enabled\": true^,}}", HF, "not-strict-json", ZS_NOTE_ERROR,
    "a comma after the last value", NULL },
  { 29, "{" Z2 "}^\n\"fp16\": {\"enabled\": true}}", HF, "not-strict-json", ZS_NOTE_ERROR,
    "a comma left out", NULL },
  { 29, "{^'fp16': {\"enabled\": true}, " Z2 "}}", HF, "not-strict-json", ZS_NOTE_ERROR,
    "single quotes", NULL },
  { 30, "{" Z2 "},\n^" Z3 "}}", EITHER, "duplicate-key", ZS_NOTE_ERROR, "first at line 1", NULL },
  { 30, "{" Z2 "},\n^" Z3 "}}", HF, "duplicate-key", ZS_NOTE_RISKY, "the last one", NULL },
  { 31, "{\"output_dir\": \"o\", \"deepspeed\": ^\"no/such/file.json\"}", HF, "file-not-found",
    ZS_NOTE_ERROR, "Expected a string path", NULL },
  { 32, "{" Z2 ", \"offload_optimizer\": {\"device\": \"cpu\", ^\"ratio\": 0.3}}}", EITHER,
    "ratio-outside-stage-3", ZS_NOTE_ERROR, "Partial offloading only supported", NULL },
  { 32, "{" Z2 ", \"offload_optimizer\": {\"device\": \"cpu\", ^\"ratio\": 0.3}}}", OLD, "dead-key",
    ZS_NOTE_DEAD, "stage 3 only", NULL },
  { 33, "{" Z2 ", \"reduce_bucket_size\": ^-5}}", EITHER, "out-of-range", ZS_NOTE_ERROR,
    "must be at least 0", NULL },
  { 34, "{" Z2 ", ^\"offload_param\": {\"device\": \"cpu\"}}}", EITHER, "dead-key", ZS_NOTE_DEAD,
    "the weights stay whole on every GPU", NULL },
  { 35, "{" Z3 ", ^\"allgather_bucket_size\": 5e8}}", EITHER, "dead-key", ZS_NOTE_DEAD, "no effect",
    NULL },
  { 35, "{" Z3 ", ^\"allgather_partitions\": true}}", EITHER, "dead-key", ZS_NOTE_DEAD, "no effect",
    NULL },
  { 35, "{" Z3 ", ^\"round_robin_gradients\": true}}", EITHER, "dead-key", ZS_NOTE_DEAD,
    "acts in stage 1 and 2 only", NULL },
  { 36, "{" Z2 ", ^\"stage3_max_live_parameters\": 1e9}}", EITHER, "dead-key", ZS_NOTE_DEAD,
    "acts in stage 3 only", NULL },
  { 36, "{" Z2 ", ^\"sub_group_size\": 1e9}}", EITHER, "dead-key", ZS_NOTE_DEAD,
    "acts in stage 3 only", NULL },
  { 38, "{\"zero_optimization\": {\"stage\": 0, ^\"offload_optimizer\": {\"device\": \"cpu\"}}}",
    EITHER, "dead-key", ZS_NOTE_DEAD, "in stage 0 it has no effect", NULL },
  { 38, "{^\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"cpu\"}}}", EITHER,
    "stage-missing", ZS_NOTE_RISKY, "ZeRO is off", NULL },
  { 39, "{" Z3 ", \"offload_param\": {^\"device\": \"nvme\"}}}", EITHER, "nvme-without-path",
    ZS_NOTE_ERROR, "nvme_path", NULL },
  { 39, "{" Z3 ", \"offload_optimizer\": {^\"device\": \"nvme\"}}}", EITHER, "nvme-without-path",
    ZS_NOTE_ERROR, "TypeError", NULL },
  { 40,
    "{" Z3 ", \"offload_param\": {^\"device\": \"nvme\", \"nvme_path\": \"/n\"}, "
    "\"offload_optimizer\": {\"device\": \"cpu\"}}}",
    OLD, "nvme-param-cpu-optimizer", ZS_NOTE_RISKY, "swap_folder", NULL },
  { 41, "{" Z2 ", ^\"offload_optimizer\": {\"device\": \"cpu\"}}, \"train_batch_size\": 8}", PLAIN,
    "offload-with-client-optimizer", ZS_NOTE_RISKY, "yield poor performance", NULL },
  { 41,
    "{" Z2
    ", \"offload_optimizer\": {\"device\": \"cpu\"}}, ^\"zero_force_ds_cpu_optimizer\": false}",
    HF, "torch-optimizer-on-cpu", ZS_NOTE_SLOW, "3 to 7 times slower", NULL },
  { 42, "{" Z2 "}, \"optimizer\": {\"type\": ^\"SGD\"}}", EITHER, "untested-optimizer",
    ZS_NOTE_ERROR, "untested ZeRO Optimizer", NULL },
  { 43, "{" Z2 "}, \"fp16\": {\"enabled\": true}, \"bf16\": {^\"enabled\": true}}", EITHER,
    "both-precisions", ZS_NOTE_ERROR, "cannot be simultaneously enabled", NULL },
  { 44,
    "{" Z2 "}, \"fp16\": {\"enabled\": \"auto\"}, \"bf16\": {^\"enabled\": \"auto\"}, "
    "\"train_batch_size\": 8}",
    OLD_PLAIN, "both-precisions", ZS_NOTE_ERROR, "cannot be simultaneously enabled", NULL },
  { 44,
    "{" Z2 "}, \"fp16\": {\"enabled\": \"auto\"}, \"bf16\": {\"enabled\": ^\"auto\"}, "
    "\"train_batch_size\": 8}",
    PLAIN, "auto-without-hf", ZS_NOTE_RISKY, "the training is in fp32", NULL },
  { 45,
    "{" Z2 "}, ^\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 2, "
    "\"gradient_accumulation_steps\": 4}",
    SEVEN_B, "batch-identity", ZS_NOTE_ERROR,
    "micro_batch_per_gpu * gradient_acc_step * world_size 64 != 2 * 4 * 2",
    "\"gradient_accumulation_steps\": 16, or \"train_batch_size\": 16" },
  { 46, "{" Z2 "}, \"train_micro_batch_size_per_gpu\": ^4}", ARGUMENTS, "differs-from-arguments",
    ZS_NOTE_ERROR, "mismatch TrainingArguments", "\"auto\"" },
  { 46, "{" Z2 "}, \"gradient_clipping\": ^0.5}", ARGUMENTS, "differs-from-arguments",
    ZS_NOTE_ERROR, "max_grad_norm", "\"auto\"" },
  { 47, "{" Z2 "}, \"gradient_clipping\": ^\"auto\", \"train_batch_size\": 8}", PLAIN,
    "auto-without-hf", ZS_NOTE_ERROR, "not supported between instances of 'str' and 'int'", NULL },
  { 47, "{" Z2 ", \"reduce_bucket_size\": ^\"auto\"}, \"train_batch_size\": 8}", PLAIN,
    "auto-without-hf", ZS_NOTE_RISKY, "the default 500000000", "500000000" },
  { 48, "{" Z2 ", \"reduce_bucket_size\": ^\"auto\"}}", EITHER, "auto-unresolved", ZS_NOTE_INFO,
    "from the model: hidden size squared", NULL },
  { 49, "{" Z2 ", \"reduce_bucket_size\": ^\"auto\"}}", SEVEN_B, "auto-resolved", ZS_NOTE_INFO,
    "16,777,216 (hidden size squared)", NULL },
  { 49, "{" Z3 ", \"stage3_prefetch_bucket_size\": ^\"auto\"}}", SEVEN_B, "auto-resolved",
    ZS_NOTE_INFO, "15,099,494", NULL },
  { 50, "{" Z2 ", ^\"reduce_bucket_size\": 1e2}}", EITHER, "tiny-bucket", ZS_NOTE_SLOW,
    "very many messages", NULL },
  { 50, "{" Z3 ", ^\"stage3_prefetch_bucket_size\": 0}}", EITHER, "tiny-prefetch", ZS_NOTE_SLOW,
    "switches prefetching off", NULL },
  { 50, "{" Z3 ", ^\"stage3_max_live_parameters\": 0}}", EITHER, "tiny-live-parameters",
    ZS_NOTE_SLOW, "nothing stays gathered", NULL },
  { 53, "{\"output_dir\": \"o\", ^\"device_map\": \"auto\", \"deepspeed\": {" Z3 "}}}", HF,
    "device-map-with-stage-3", ZS_NOTE_ERROR, "is not compatible with", NULL },
  { 53, "{\"output_dir\": \"o\", ^\"low_cpu_mem_usage\": true, \"deepspeed\": {" Z3 "}}}", HF,
    "device-map-with-stage-3", ZS_NOTE_ERROR, "is not compatible with", NULL },
  { 54, "{\"zero_optimization\": {^\"stage\": 3}}", QLORA, "qlora-with-stage-3", ZS_NOTE_RISKY,
    "bnb_4bit_quant_storage", NULL },
  { 57, "{" Z2 ", ^\"overlap_comm\": true}}", EITHER, "overlap-costs-a-bucket", ZS_NOTE_INFO,
    "it saves no memory", NULL },
  { 59, "{" Z3 ", ^\"zero_hpz_partition_size\": 2}}", SEVEN_B, "hpz-without-gain", ZS_NOTE_RISKY,
    "gains nothing on one node", NULL },
  { 60, "{" Z2 ", \"offload_optimizer\": {^\"pin_memory\": false, \"device\": \"cpu\"}}}", EITHER,
    "pageable-offload", ZS_NOTE_SLOW, "pageable", NULL },
  { 60, "{" Z2 ", ^\"offload_optimizer\": {\"device\": \"cpu\"}}}", EITHER, "pinned-by-default",
    ZS_NOTE_INFO, "power of two", NULL },
  { 60, "{" Z2 ", ^\"offload_optimizer\": {\"device\": \"cpu\"}}}", OLD, "pageable-offload",
    ZS_NOTE_INFO, "default before 0.19.5", NULL },
  { 61, "{" Z3 ", ^\"stage3_gather_16bit_weights_on_model_save\": true}}", EITHER, "gather-on-save",
    ZS_NOTE_INFO, "rank 0's host memory", NULL },
  /* names that circulate and never existed */
  { 64, "{" Z3 "}, ^\"zero3_max_live_parameters\": 1e8}", EITHER, "invented-key", ZS_NOTE_IGNORED,
    "in no release", "zero_optimization.stage3_max_live_parameters" },
  { 64, "{" Z3 ", ^\"zero_force_disable_cpu_offload\": true}}", EITHER, "invented-key",
    ZS_NOTE_ERROR, "in no release", NULL },
  { 64, "{" Z3 "}, ^\"zero_3_use_jit\": true}", EITHER, "invented-key", ZS_NOTE_IGNORED,
    "in no release", NULL },
  { 64, "{" Z3 ", ^\"zero3_init\": true}}", EITHER, "invented-key", ZS_NOTE_ERROR, "in no release",
    NULL },
};

static void
each_is_found_at_its_place (void)
{
  for (size_t i = 0; i < G_N_ELEMENTS (MISTAKES); i++) {
    int line, column;
    g_autoptr (ZsFindings) findings =
        check_marked (MISTAKES[i].text, "ds.json", MISTAKES[i].beside, &line, &column);
    const ZsFinding *finding = find_finding (findings, MISTAKES[i].code, line, column);
    bool ok =
        finding != NULL && finding->severity == MISTAKES[i].severity
        && strstr (finding->text, MISTAKES[i].part) != NULL
        && (MISTAKES[i].instead == NULL || g_strcmp0 (finding->instead, MISTAKES[i].instead) == 0);

    if (!ok) {
      g_printerr ("# mistake %d, expected %s (%s) at %d:%d: %s\n", MISTAKES[i].number,
                  MISTAKES[i].code, zs_note_severity_name (MISTAKES[i].severity), line, column,
                  MISTAKES[i].part);
      print_findings (MISTAKES[i].text, findings);
    }
    CU_ASSERT_TRUE (ok);
  }
}

/* 22, 37: what looks odd and is fine. */
static void
what_is_fine_is_left_alone (void)
{
  static const char *const FINE[] = {
    "{\"train_batch_size\": 8, \"bf16\": {\"enabled\": true}, " Z2
    ", \"reduce_bucket_size\": 5e7}}",
    "{\"train_batch_size\": 8, \"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": "
    "1, "
    "\"reduce_bucket_size\": 5e7, \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": "
    "true}}, "
    "\"optimizer\": {\"type\": \"AdamW\"}}",
  };

  for (size_t i = 0; i < G_N_ELEMENTS (FINE); i++) {
    int line, column;
    g_autoptr (ZsFindings) findings = check_marked (FINE[i], "ds.json", PLAIN, &line, &column);

    for (int k = 0; k < zs_findings_count (findings); k++)
      if (zs_findings_get (findings, k)->severity != ZS_NOTE_INFO) {
        print_findings (FINE[i], findings);
        CU_FAIL ("a false alarm");
      }
  }
}

static void
accelerate_files_are_checked_at_their_places (void)
{
  static const struct {
    const char *text, *code, *part;
    ZsNoteSeverity severity;
  } cases[] = {
    { "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n  offload_param_device: "
      "cpu\n",
      "dead-key", "offload_param", ZS_NOTE_DEAD },
    { "distributed_type: DEEPSPEED\ndeepspeed_config:\n  ^zero_stage: 3\n  deepspeed_config_file: "
      "x.json\n",
      "file-and-keys", "will be ignored", ZS_NOTE_ERROR },
    { "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ^x.json\n",
      "file-not-found", "x.json", ZS_NOTE_ERROR },
    { "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n"
      "  ^train_micro_batch_size_per_gpu: 4\n",
      "foreign-key", "data loader", ZS_NOTE_IGNORED },
    { "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n  ^zero3_init_flag: true\n",
      "dead-key", "stage 3 only", ZS_NOTE_DEAD },
    { "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n  ^zero3_init_flag: "
      "false\n",
      "whole-model-at-load", "loads the whole model", ZS_NOTE_RISKY },
    { "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: ^5\n", "out-of-range", "not 5",
      ZS_NOTE_ERROR },
    { "distributed_type: DEEPSPEED\ndeepspeed_config:\n  ^zero_stge: 3\n", "unknown-key",
      "zero_stage", ZS_NOTE_IGNORED },
    { "distributed_type: ^DEEPSPEED\n", "zero-missing", "no deepspeed_config", ZS_NOTE_ERROR },
    { "distributed_type: ^FSDP\nfsdp_config: {}\n", "not-deepspeed", "a run would refuse",
      ZS_NOTE_INFO },
    { "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n"
      "  ^offload_optimizer_device: nvme\n",
      "nvme-without-path", "TypeError", ZS_NOTE_ERROR },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    int line, column;
    g_autoptr (ZsFindings) findings =
        check_marked (cases[i].text, "acc.yaml", EITHER, &line, &column);
    const ZsFinding *finding = find_finding (findings, cases[i].code, line, column);
    bool ok = finding != NULL && strstr (finding->text, cases[i].part) != NULL
              && finding->severity == cases[i].severity;

    if (!ok) {
      g_printerr ("# expected %s at %d:%d\n", cases[i].code, line, column);
      print_findings (cases[i].text, findings);
    }
    CU_ASSERT_TRUE (ok);
    CU_ASSERT_EQUAL (zs_findings_kind (findings), ZS_CHECK_ACCELERATE);
  }
}

int
main (void)
{
  static const CU_TestInfo tests[] = { { "each is found at its place", each_is_found_at_its_place },
                                       { "what is fine is left alone", what_is_fine_is_left_alone },
                                       { "accelerate files are checked at their places",
                                         accelerate_files_are_checked_at_their_places },
                                       CU_TEST_INFO_NULL };
  return testing_main ("mistakes", tests);
}
