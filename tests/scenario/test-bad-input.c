/* test-bad-input.c: broken files give one clear error each, with its place, and nothing else
 * happens. SPDX-License-Identifier: MIT */
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>

#include "sim/io/file.h"
#include "sim/scenario/scenario.h"
#include "tests/testing.h"

#define GOOD_CLUSTER "cluster: {gpu: a100-sxm4-40gb, gpus_per_node: 2, fabric: pcie}\n"
#define GOOD "model: llama-7b\n" GOOD_CLUSTER
#define DS(text) GOOD "training: {deepspeed: {" text "}}\n"

typedef struct {
  const char *suffix; /* of the file's name */
  const char *text;
  gssize length;       /* 0: up to the NUL */
  const char *place;   /* after the file's name: "3:7", or "" where there are no lines */
  const char *message; /* part of the error */
} Case;

static const Case CASES[] = {
  /* not a text, or not a settings file */
  { ".yaml", "", 0, "1:1", "empty" },
  { ".yaml", "  \n\n", 0, "1:1", "empty" },
  { ".json", "", 0, "1:1", "empty" },
  { ".yaml", "# only a comment\n", 0, "", "nothing but comments" },
  { ".yaml", "model: a\0b", 10, "1:9", "byte 0x00" },
  { ".yaml",
    "\x7f"
    "ELF\x02\x01",
    6, "1:1", "binary" },
  { ".yaml", "model: caf\xe9\n", 0, "1:11", "byte 0xe9" },
  { ".yaml", "\xff\xfem\0o\0", 6, "1:1", "UTF-16" },
  { ".yaml", "name: \x1b[31m\n", 0, "1:7", "byte 0x1b" },
  /* truncated or torn */
  { ".yaml", "model: {base: llama-7b, layers", 0, "2:1", "expected" },
  { ".yaml", "model: \"llama-7b\n", 0, "", "quoted scalar" },
  { ".yaml", "model: [llama-7b\n", 0, "", "expected" },
  { ".json", "{\"zero_optimization\": {\"stage\": 3", 0, "", "" },
  { ".json", "{\"zero_optimization\": ", 0, "", "" },
  { ".yaml", "model: llama-7b\n\tcluster: x\n", 0, "2:", "tab" },
  { ".yaml", "model: llama-7b\n  cluster: {}\n", 0, "2:", "mapping values" },
  { ".yaml", "a: b: c\n", 0, "1:", "mapping values" },
  { ".yaml", "@model: x\n", 0, "1:1", "quotes" },
  { ".yaml", "model: llama-7b\n---\nmodel: x\n", 0, "2:1", "second document" },
  /* YAML that could do harm */
  { ".yaml", "model: *nowhere\n", 0, "1:8", "no '&nowhere'" },
  { ".yaml", "a: &a [*a]\n", 0, "1:8", "no '&a'" },
  { ".yaml", "model: !!python/object:os.system x\n", 0, "1:8", "tags" },
  { ".yaml", "? [a, b]\n: c\n", 0, "1:3", "a key must be a word" },
  { ".yaml", "<<: 5\nmodel: x\n", 0, "1:5", "'<<' takes a mapping" },
  /* given twice */
  { ".yaml", "model: llama-7b\nmodel: llama-13b\n", 0, "2:1",
    "'model' is given twice; the first is at line 1" },
  { ".yaml", "cluster:\n  gpu: h100\n  nodes: 1\n  gpu: a100\n", 0, "4:3", "'gpu' is given twice" },
  { ".json", "{\"zero_optimization\": {\"stage\": 3},\n \"zero_optimization\": {\"stage\": 2}}", 0,
    "2:", "" },
  /* wrong shape */
  { ".yaml", "just words\n", 0, "1:1", "must be a mapping" },
  { ".yaml", "- model\n- cluster\n", 0, "1:1", "must be a mapping" },
  { ".yaml", "model: llama-7b\ncluster: a100\n", 0, "2:10", "'cluster' must be a mapping" },
  { ".yaml", GOOD "training: [a]\n", 0, "3:11", "'training' must be a mapping" },
  { ".yaml", "model: [llama-7b]\n" GOOD_CLUSTER, 0, "1:8", "'model' must be a name" },
  { ".yaml", GOOD_CLUSTER, 0, "1:1", "no model is named" },
  { ".yaml", "model: llama-7b\n", 0, "1:1", "no GPU is named" },
  /* other files in the place of a scenario */
  { ".yaml", "distributed_type: TPU\nnum_processes: 2\n", 0, "1:19", "TPU is not simulated" },
  { ".json", "{\"model_type\": \"llama\", \"hidden_size\": 4096}", 0, "1:2", "--model" },
  { ".json", "{\"output_dir\": \"x\", \"per_device_train_batch_size\": 0}", 0, "1:52", "must be 1 to" },
  { ".yaml", "name: s\nscenario: a.yaml\naxes: {stage: [2, 3]}\n", 0, "3:1", "zerosim sweep" },
  /* unknown words */
  { ".yaml", GOOD "trainig: {}\n", 0, "3:1", "did you mean 'training'" },
  { ".yaml", GOOD "training: {micro_bach: 1}\n", 0, "3:12", "did you mean 'micro_batch'" },
  { ".yaml", "model: lama-7b\n" GOOD_CLUSTER, 0, "1:8", "did you mean 'llama-7b'" },
  { ".yaml", "model: llama-7b\ncluster: {gpu: a100-sxm4-40bg}\n", 0, "2:16",
    "did you mean 'a100-sxm4-40gb'" },
  { ".yaml", "model: llama-7b\ncluster: {gpu: A100}\n", 0, "2:16", "may be any of" },
  { ".yaml", "model: llama-7b\ncluster: {instance: dgx-h1000}\n", 0, "2:21",
    "did you mean 'dgx-h100'" },
  { ".yaml", GOOD "training: {framework: deepsped}\n", 0, "3:23", "did you mean 'deepspeed'" },
  { ".yaml", GOOD "training: {attention: flash3}\n", 0, "3:23", "eager, sdpa, flash" },
  { ".yaml", GOOD "training: {checkpointing: fully}\n", 0, "3:27", "none or full" },
  { ".yaml", GOOD "training: {lora: {rank: 8, targets: [q]}}\n", 0, "3:38", "q_proj" },
  { ".yaml", "model: {base: llama-7b, layer: 4}\n" GOOD_CLUSTER, 0, "1:25",
    "did you mean 'layers'" },
  { ".yaml", DS ("train_batch_size: 2, zero_optimization: {stgae: 3}"), 0, "3:65", "stage" },
  { ".yaml", "model: llama-7b\ncluster: {gpu: h100, fabric: pcie6}\n", 0, "2:30", "did you mean 'pcie'?" },
  { ".yaml", "model: llama-7b\ncluster: {gpu: rtx-4090, gpus_per_node: 2, fabric: nvlink}\n", 0,
    "2:52", "has no NVLink" },
  { ".yaml", "model: llama-7b\ncluster: {gpu: h100, nodes: 2, network: ib}\n", 0, "2:41",
    "there are: " },
  { ".yaml", GOOD "training: {alloc_conf: \"expandable_segment:True\"}\n", 0, "3:24",
    "expandable_segments" },
  /* wrong types and ranges */
  { ".yaml", GOOD "training: {micro_batch: -1}\n", 0, "3:25", "1 to 1048576" },
  { ".yaml", GOOD "training: {micro_batch: 1.5}\n", 0, "3:25", "whole number" },
  { ".yaml", GOOD "training: {micro_batch: 99999999999999999999}\n", 0, "3:25", "whole number" },
  { ".yaml", GOOD "training: {sequence_length: 0}\n", 0, "3:29", "must be 1 to" },
  { ".yaml", GOOD "training: {gradient_clipping: .nan}\n", 0, "3:31", "must be a number" },
  { ".yaml", GOOD "training: {gradient_clipping: inf}\n", 0, "3:31", "must be a number" },
  { ".yaml", GOOD "training: {gradient_clipping: 1e999}\n", 0, "3:31", "must be a number" },
  { ".yaml", GOOD "training: {autocast: yes}\n", 0, "3:22", "true or false" },
  { ".yaml", GOOD "training: {torch_version: latest}\n", 0, "3:27", "a version such as" },
  { ".yaml", GOOD "training: {memory_limit: 24}\n", 0, "3:26", "needs its unit" },
  { ".yaml", GOOD "training: {memory_limit: 24 Gb}\n", 0, "3:26", "bits" },
  { ".yaml", GOOD "training: {memory_limit: 99999999 PiB}\n", 0, "3:26", "too large" },
  { ".yaml", "model: llama-7b\ncluster: {gpu: h100, nodes: 0}\n", 0, "2:29", "1 to 2048" },
  { ".yaml", "model: llama-7b\ncluster: {gpu: h100, gpus_per_node: 1e30}\n", 0, "2:37",
    "whole number" },
  { ".yaml", "model: llama-7b\ncluster: {gpu: h100, host: {memory: 64 GB/s}}\n", 0, "2:37",
    "not a unit of a size" },
  { ".yaml", "model: llama-7b\ncluster: {gpu: h100, shm_rate: 9 GB}\n", 0, "2:32",
    "GB/s (bytes) or Gb/s (bits)" },
  { ".yaml", "model: llama-7b\ncluster: {gpu: h100, network: {nics: 8, kind: efa}}\n", 0, "2:31",
    "needs 'rate'" },
  { ".yaml", "model: llama-7b\ncluster: {gpu: h100, nvme: {read: 1 GB/s}}\n", 0, "2:28",
    "needs 'write'" },
  { ".yaml", "model: {base: llama-7b, heads: 7}\n" GOOD_CLUSTER, 0, "1:8", "multiple" },
  { ".yaml", "model: {base: llama-7b, layers: 0}\n" GOOD_CLUSTER, 0, "1:33", "1 to 4096" },
  { ".yaml", "model: {layers: 4, heads: 8, intermediate: 512, vocabulary: 99}\n" GOOD_CLUSTER, 0,
    "1:8", "needs 'hidden_size'" },
  { ".yaml", GOOD "training: {framework: single}\n", 0, "3:23", "for one GPU" },
  { ".yaml", GOOD "training: {framework: deepspeed}\n", 0, "3:23", "needs its ds_config" },
  { ".yaml", "model: llama-7b\ncluster: {gpu: v100-32gb}\ntraining: {attention: flash}\n", 0,
    "3:23", "Ampere" },
  { ".yaml", GOOD "measured: {step_time: 4.5}\n", 0, "3:23", "needs its unit" },
  { ".yaml", GOOD "measured: {phases: [{step: 1}]}\n", 0, "3:21", "needs 'phase'" },
  { ".yaml", DS ("train_batch_size: 2, zero_optimization: {stage: 4}"), 0, "3:72", "0, 1, 2 or 3" },
  { ".yaml", DS ("train_batch_size: 2, zero_optimization: 3"), 0, "3:64", "object" },
  { ".json",
    "{\"train_batch_size\": 2, \"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": -5}}",
    0, "1:81", "at least 0" },
  /* files that are not there */
  { ".yaml", GOOD "training: {deepspeed: nowhere.json}\n", 0, "3:23", "No such file" },
  { ".yaml", GOOD "training: {deepspeed: .}\n", 0, "3:23", "" },
  { ".yaml", "model: nowhere/config.json\n" GOOD_CLUSTER, 0, "1:8", "No such file" },
  { ".yaml", "model: llama-7b\ncluster: {gpu: h100, fabric: {topo: nowhere.txt}}\n", 0, "2:37",
    "No such file" },
  { ".yaml", "model: llama-7b\ncluster: {gpu: h100, fabric: {topo: a, nccl_xml: b}}\n", 0, "2:30",
    "{topo: FILE}" },
};

static ZsCatalogue *catalogue;
static char *folder;

/* Flags that make a ds_config complete. */
static const ZsScenarioFlags FLAGS = { .model = "llama-7b", .gpus = "2xA100-40G" };

static void
every_broken_file_has_its_error (void)
{
  for (size_t i = 0; i < G_N_ELEMENTS (CASES); i++) {
    const Case *one = &CASES[i];
    g_autofree char *name = g_strconcat ("bad", one->suffix, NULL);
    g_autofree char *path = g_build_filename (folder, name, NULL);
    g_autofree char *prefix = g_strdup_printf ("%s:%s", path, one->place);
    g_autoptr (ZsErrors) errors = zs_errors_new ();
    bool json = strcmp (one->suffix, ".json") == 0;

    CU_ASSERT_TRUE_FATAL (
        zs_file_write (path, one->text, one->length > 0 ? one->length : -1, NULL));
    ZsScenario *scenario = zs_scenario_load (path, json ? &FLAGS : NULL, NULL, catalogue, errors);

    CU_ASSERT_PTR_NULL (scenario);
    CU_ASSERT_EQUAL (zs_errors_count (errors), 1);
    if (scenario != NULL || zs_errors_count (errors) != 1
        || !g_str_has_prefix (zs_errors_get (errors, 0)->message, prefix)
        || strstr (zs_errors_get (errors, 0)->message, one->message) == NULL) {
      g_printerr ("# case %zu, wanted %s ... %s\n", i, one->place, one->message);
      zs_errors_print (errors, "#   ", stderr);
    }
    if (zs_errors_count (errors) > 0) {
      const char *message = zs_errors_get (errors, 0)->message;

      CU_ASSERT_TRUE (g_str_has_prefix (message, prefix));
      CU_ASSERT_PTR_NOT_NULL (strstr (message, one->message));
      CU_ASSERT_TRUE (strlen (message) < 600);
      CU_ASSERT_TRUE (g_utf8_validate (message, -1, NULL));
    }
    zs_scenario_free (scenario);
    g_unlink (path);
  }
}

static void
check_generated (GString *text, const char *suffix, const char *message)
{
  g_autofree char *name = g_strconcat ("big", suffix, NULL);
  g_autofree char *path = g_build_filename (folder, name, NULL);
  g_autoptr (ZsErrors) errors = zs_errors_new ();

  CU_ASSERT_TRUE_FATAL (zs_file_write (path, text->str, (gssize)text->len, NULL));
  CU_ASSERT_PTR_NULL (zs_scenario_load (path, strcmp (suffix, ".json") == 0 ? &FLAGS : NULL, NULL,
                                        catalogue, errors));
  if (zs_errors_count (errors) != 1)
    g_printerr ("# %.60s: %d errors\n", text->str, zs_errors_count (errors));
  CU_ASSERT_EQUAL_FATAL (zs_errors_count (errors), 1);
  if (strstr (zs_errors_get (errors, 0)->message, message) == NULL)
    zs_errors_print (errors, "# ", stderr);
  CU_ASSERT_PTR_NOT_NULL (strstr (zs_errors_get (errors, 0)->message, message));
  CU_ASSERT_TRUE (strlen (zs_errors_get (errors, 0)->message) < 600);
  g_unlink (path);
  g_string_free (text, TRUE);
}

static GString *
repeat (const char *before, const char *piece, int n, const char *after)
{
  GString *text = g_string_new (before);

  for (int i = 0; i < n; i++)
    g_string_append (text, piece);
  return g_string_append (text, after);
}

static void
no_input_eats_memory_or_stack (void)
{
  check_generated (repeat ("a: ", "[", 100000, ""), ".yaml", "");
  check_generated (repeat ("", "- ", 100000, "x"), ".yaml", "");
  check_generated (repeat ("", "{\"a\":", 100000, "1"), ".json", "");
  check_generated (repeat ("[", "[", 500, ""), ".json", "");
  check_generated (repeat ("model: [", "x,", 250000, "]"), ".yaml", "not a settings file");
  check_generated (repeat ("model: ", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 500000, ""),
                   ".yaml", "larger than");
  check_generated (repeat ("model: ", "x", 100000, "\n" GOOD_CLUSTER), ".yaml", "no model");
  check_generated (repeat ("model: llama-7b\ncluster: {gpu: ", "y", 100000, "}\n"), ".yaml",
                   "no GPU");
  check_generated (repeat ("", "k", 2000, ": 1\n"), ".yaml", "");

  /* nine levels of nine aliases: a billion nodes if they were written out */
  GString *bomb = g_string_new ("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
  for (int i = 1; i < 10; i++)
    g_string_append_printf (bomb,
                            "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i,
                            i, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
  check_generated (bomb, ".yaml", "aliases written out");
}

static void
files_that_cannot_be_read_say_why (void)
{
  static const struct {
    const char *path, *message;
  } cases[] = {
    { "/nowhere/at/all.yaml", "No such file" },
    { "/dev/zero", "device" },
    { "/", "folder" },
    { "/dev/null", "device" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (ZsErrors) errors = zs_errors_new ();

    CU_ASSERT_PTR_NULL (zs_scenario_load (cases[i].path, NULL, NULL, catalogue, errors));
    CU_ASSERT_EQUAL_FATAL (zs_errors_count (errors), 1);
    CU_ASSERT_TRUE (g_str_has_prefix (zs_errors_get (errors, 0)->message, cases[i].path));
    CU_ASSERT_PTR_NOT_NULL (strstr (zs_errors_get (errors, 0)->message, cases[i].message));
  }
}

static void
wrong_flags_and_sets_name_themselves (void)
{
  static const struct {
    ZsScenarioFlags flags;
    const char *set, *message;
  } cases[] = {
    { { .gpus = "2x" }, NULL, "--gpus 2x: " },
    { { .gpus = "" }, NULL, "--gpus : " },
    { { .gpus = "x4090" }, NULL, "--gpus x4090: no GPU" },
    { { .gpus = "0xH100" }, NULL, "--gpus 0xH100: 'gpus_per_node' must be 1 to 32" },
    { { .model = "gpt-5" }, NULL, "--model gpt-5: no model" },
    { { .micro_batch = "two" }, NULL, "--micro-batch two: 'micro_batch' must be a whole number" },
    { { .sequence = "-1" }, NULL, "--seq -1: 'sequence_length' must be" },
    { { .checkpointing = "some" },
      NULL,
      "--checkpointing some: 'checkpointing' must be none or full" },
    { { .checkpointing = "0" }, NULL, "--checkpointing 0: 'every' must be" },
    { { .attention = "fast" }, NULL, "--attention fast: 'attention' must be" },
    { { .lora = "8:q" }, NULL, "--lora 8:q: 'targets' must be" },
    { { .lora = "" }, NULL, "--lora : lora needs 'rank'" },
    { { .host_memory = "64" }, NULL, "--host-memory 64: 'memory': a size needs its unit" },
    { { .deepspeed_version = "new" },
      NULL,
      "--deepspeed-version new: 'framework_version' must be" },
    { { .nodes = "0" }, NULL, "--nodes 0: 'nodes' must be" },
    { { 0 }, "stage", "--set stage: PATH=VALUE" },
    { { 0 }, "=3", "--set =3: PATH=VALUE" },
    { { 0 }, "stgae=3", "--set stgae=3: there is no setting 'stgae'; did you mean 'stage'?" },
    { { 0 }, "stage=5", "--set stage=5: 'stage' must be 0, 1, 2 or 3" },
    { { 0 }, "cluster.gpu.name=x", "--set cluster.gpu.name=x: 'gpu' has no 'name'" },
    { { 0 }, "training.lora=[1", "--set training.lora=[1" },
    { { 0 }, "cluster.nodes=", NULL }, /* nothing: as if it were not given */
  };
  g_autofree char *path = testing_source_path ("scenarios/zero3.yaml");

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    const char *const sets[] = { cases[i].set, NULL };
    g_autoptr (ZsErrors) errors = zs_errors_new ();
    g_autoptr (ZsScenario) scenario =
        zs_scenario_load (path, &cases[i].flags, sets, catalogue, errors);

    CU_ASSERT_EQUAL (scenario == NULL, cases[i].message != NULL);
    CU_ASSERT_EQUAL (zs_errors_count (errors), cases[i].message != NULL);
    if (zs_errors_count (errors) > 0) {
      if (cases[i].message == NULL
          || !g_str_has_prefix (zs_errors_get (errors, 0)->message, cases[i].message))
        zs_errors_print (errors, "# ", stderr);
      CU_ASSERT_TRUE (cases[i].message != NULL
                      && g_str_has_prefix (zs_errors_get (errors, 0)->message, cases[i].message));
    }
  }
}

static void
mistakes_are_told_together (void)
{
  static const char text[] = "model: lama\ncluster: {gpu: h100, nodes: x, gpus_per_node: 99}\n";
  g_autofree char *path = g_build_filename (folder, "many.yaml", NULL);
  g_autoptr (ZsErrors) errors = zs_errors_new ();

  CU_ASSERT_TRUE_FATAL (zs_file_write (path, text, -1, NULL));
  CU_ASSERT_PTR_NULL (zs_scenario_load (path, NULL, NULL, catalogue, errors));
  CU_ASSERT_EQUAL (zs_errors_count (errors), 3);
  g_unlink (path);
}

/* Files cut at any byte and with any byte changed never crash, and fail with an error or load. */
static void
torn_files_never_crash (void)
{
  static const char *const names[] = { "scenarios/zero3.yaml",
                                       "scenarios/first-run/ds_config.json" };
  const guint32 seed = 77;
  GRand *random = g_rand_new_with_seed (seed);

  for (size_t f = 0; f < G_N_ELEMENTS (names); f++) {
    g_autofree char *source = testing_source_path (names[f]);
    g_autofree char *text = NULL;
    g_autofree char *path = g_build_filename (folder, f == 0 ? "torn.yaml" : "torn.json", NULL);
    gsize length;

    CU_ASSERT_TRUE_FATAL (zs_file_read (source, 1 << 20, &text, &length, NULL));
    for (int i = 0; i < 250; i++) {
      g_autofree char *torn = g_memdup2 (text, length);
      g_autoptr (ZsErrors) errors = zs_errors_new ();
      gsize n = i % 2 == 0 ? (gsize)g_rand_int_range (random, 0, (int)length) : length;

      for (int k = 0; k < 3 && i % 2 == 1; k++)
        torn[g_rand_int_range (random, 0, (int)length)] = (char)g_rand_int_range (random, 0, 256);
      CU_ASSERT_TRUE (zs_file_write (path, torn, (gssize)n, NULL));
      ZsScenario *scenario =
          zs_scenario_load (path, f == 1 ? &FLAGS : NULL, NULL, catalogue, errors);

      if ((scenario == NULL) != (zs_errors_count (errors) > 0))
        g_printerr ("# seed %u, %s, round %d\n", seed, names[f], i);
      CU_ASSERT_EQUAL (scenario == NULL, zs_errors_count (errors) > 0);
      zs_scenario_free (scenario);
    }
    g_unlink (path);
  }
  g_rand_free (random);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "every broken file has its error", every_broken_file_has_its_error },
    { "no input eats memory or stack", no_input_eats_memory_or_stack },
    { "files that cannot be read say why", files_that_cannot_be_read_say_why },
    { "wrong flags and sets name themselves", wrong_flags_and_sets_name_themselves },
    { "mistakes are told together", mistakes_are_told_together },
    { "torn files never crash", torn_files_never_crash },
    CU_TEST_INFO_NULL
  };
  int status;

  catalogue = zs_catalogue_new (NULL);
  folder = g_dir_make_tmp ("zerosim-XXXXXX", NULL);
  status = testing_main ("bad input", tests);
  g_rmdir (folder);
  g_free (folder);
  zs_catalogue_free (catalogue);
  return status;
}
