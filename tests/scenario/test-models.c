/* test-models.c: every file of models/ loads and is plausible, and says what the tables say.
 * SPDX-License-Identifier: MIT */
#include <glib.h>
#include <math.h>
#include <string.h>

#include "sim/io/file.h"
#include "sim/scenario/catalogue.h"
#include "sim/scenario/hf-config.h"
#include "tests/testing.h"

/* Rows of a table of tests/data/models as string vectors, the head first. */
static GPtrArray *
table (const char *name)
{
  g_autofree char *relative = g_build_filename ("tests/data/models", name, NULL);
  g_autofree char *path = testing_source_path (relative);
  g_autofree char *text = NULL;
  GPtrArray *rows = g_ptr_array_new_with_free_func ((GDestroyNotify)g_strfreev);
  gsize length;

  CU_ASSERT_TRUE_FATAL (zs_file_read (path, 1 << 20, &text, &length, NULL));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (int i = 0; lines[i] != NULL; i++)
    if (lines[i][0] != '#' && lines[i][0] != '\0')
      g_ptr_array_add (rows, g_strsplit (lines[i], "\t", -1));
  return rows;
}

static const char *
cell (GPtrArray *rows, guint row, const char *column)
{
  char **head = g_ptr_array_index (rows, 0), **cells = g_ptr_array_index (rows, row);

  for (int i = 0; head[i] != NULL && cells[i] != NULL; i++)
    if (strcmp (head[i], column) == 0)
      return cells[i];
  return "";
}

static void
every_gpu_of_the_table_is_there (void)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  GPtrArray *rows = table ("gpus.tsv");
  int n_gpus;

  zs_catalogue_list (catalogue, ZS_CATALOGUE_GPUS, &n_gpus);
  CU_ASSERT_TRUE (n_gpus >= (int)rows->len - 1);
  for (guint r = 1; r < rows->len; r++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (ZsErrors) errors = zs_errors_new ();
    const ZsCatalogueEntry *entry = zs_catalogue_find (catalogue, ZS_CATALOGUE_GPUS,
                                                       cell (rows, r, "name"), NULL, NULL, &error);
    ZsGpu gpu;

    if (entry == NULL)
      g_printerr ("# %s\n", error->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL (entry);
    CU_ASSERT_TRUE (zs_gpu_read (zs_document_root (entry->document), &gpu, errors));
    zs_errors_print (errors, "# ", stderr);
    CU_ASSERT_STRING_EQUAL (gpu.name, entry->name);
    CU_ASSERT_EQUAL (gpu.sm_count, atoi (cell (rows, r, "sm_count")));
    CU_ASSERT_EQUAL (gpu.memory_rate / 1000000000, atoi (cell (rows, r, "mem_bandwidth_GBps")));

    double label = g_ascii_strtod (cell (rows, r, "memory_label_GB"), NULL);
    double typical = g_ascii_strtod (cell (rows, r, "torch_total_GiB_typical"), NULL);
    double gib = (double)gpu.memory_bytes / (1 << 30);

    if (typical > 0)
      CU_ASSERT_DOUBLE_EQUAL (gib, typical, 0.006);
    CU_ASSERT_TRUE (gib > 0.9 * label && gib < 1.05 * label);
  }
  g_ptr_array_unref (rows);
}

static void
every_gpu_file_is_plausible (void)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  int n;
  const ZsCatalogueEntry *entries = zs_catalogue_list (catalogue, ZS_CATALOGUE_GPUS, &n);

  for (int i = 0; i < n; i++) {
    g_autoptr (ZsErrors) errors = zs_errors_new ();
    ZsGpu gpu = { 0 };

    CU_ASSERT_PTR_NOT_NULL_FATAL (entries[i].document);
    CU_ASSERT_TRUE_FATAL (zs_gpu_read (zs_document_root (entries[i].document), &gpu, errors));
    CU_ASSERT_STRING_EQUAL (gpu.name, entries[i].name);

    double peak = gpu.bf16_flops > 0 ? gpu.bf16_flops : gpu.fp16_flops;

    CU_ASSERT_TRUE (peak >= gpu.fp32_flops && gpu.fp32_flops >= 5e12);
    /* an operation per byte between 20 and 500: anything else is a misplaced comma */
    CU_ASSERT_TRUE (peak / (double)gpu.memory_rate > 20 && peak / (double)gpu.memory_rate < 500);
    CU_ASSERT_TRUE (gpu.context_bytes > (INT64_C (300) << 20)
                    && gpu.context_bytes < INT64_C (2) << 30);
    CU_ASSERT_TRUE (gpu.matmul_efficiency > 0.4 && gpu.matmul_efficiency < 1.3);
    CU_ASSERT_TRUE (gpu.memory_efficiency > 0.5 && gpu.memory_efficiency <= 0.95);
    CU_ASSERT_TRUE (gpu.expected_error >= 0.05);
    CU_ASSERT_TRUE (strcmp (entries[i].form, "") != 0);
    CU_ASSERT_TRUE (gpu.pinned_copy_rate > INT64_C (10000000000));
  }
}

static void
every_model_has_its_parameters (void)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  GPtrArray *rows = table ("models.tsv");

  for (guint r = 1; r < rows->len; r++) {
    const char *const names[] = { cell (rows, r, "name"), cell (rows, r, "hf_repo") };

    for (int k = 0; k < 2; k++) {
      g_autoptr (GError) error = NULL;
      g_autoptr (ZsErrors) errors = zs_errors_new ();
      const ZsCatalogueEntry *entry =
          zs_catalogue_find (catalogue, ZS_CATALOGUE_MODELS, names[k], NULL, NULL, &error);
      ZsHfConfig config = { 0 };

      if (entry == NULL)
        g_printerr ("# %s\n", error->message);
      CU_ASSERT_PTR_NOT_NULL_FATAL (entry);
      CU_ASSERT_TRUE (
          zs_hf_config_read (zs_document_root (entry->document), "x", &config, NULL, errors));
      zs_errors_print (errors, "# ", stderr);
      CU_ASSERT_EQUAL (config.n_parameters,
                       g_ascii_strtoll (cell (rows, r, "params_total"), NULL, 10));
      CU_ASSERT_STRING_EQUAL (config.shape.name, names[0]);
      CU_ASSERT_EQUAL (config.shape.qk_norm, atoi (cell (rows, r, "qk_norm")));
      CU_ASSERT_EQUAL (config.shape.qkv_bias, atoi (cell (rows, r, "qkv_bias")));
    }
  }
  g_ptr_array_unref (rows);
}

static void
every_machine_names_a_gpu (void)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  GPtrArray *rows = table ("instances.tsv");
  int n;

  for (guint r = 1; r < rows->len; r++) {
    const ZsCatalogueEntry *entry = zs_catalogue_find (catalogue, ZS_CATALOGUE_INSTANCES,
                                                       cell (rows, r, "name"), NULL, NULL, NULL);

    CU_ASSERT_PTR_NOT_NULL_FATAL (entry);
    const ZsNode *gpu = zs_node_get (zs_document_root (entry->document), "gpu");
    CU_ASSERT_PTR_NOT_NULL_FATAL (gpu);
    CU_ASSERT_PTR_NOT_NULL (
        zs_catalogue_find (catalogue, ZS_CATALOGUE_GPUS, gpu->text, NULL, NULL, NULL));
    CU_ASSERT_STRING_EQUAL (zs_node_get (zs_document_root (entry->document), "gpus_per_node")->text,
                            cell (rows, r, "gpus"));
  }
  zs_catalogue_list (catalogue, ZS_CATALOGUE_INSTANCES, &n);
  CU_ASSERT_EQUAL (n, (int)rows->len - 1);
  g_ptr_array_unref (rows);
}

static void
spellings_lead_to_one_gpu (void)
{
  static const struct {
    const char *text, *form, *name;
    bool open;
  } cases[] = {
    { "A100-40G", "pcie", "a100-pcie-40gb", true },
    { "A100-40G", "sxm", "a100-sxm4-40gb", true },
    { "A100-40G", NULL, "a100-sxm4-40gb", true },
    { "a100 80gb", "pcie", "a100-pcie-80gb", true },
    { "NVIDIA A100-SXM4-40GB", "pcie", "a100-sxm4-40gb", false },
    { "NVIDIA A100 80GB PCIe", NULL, "a100-pcie-80gb", false },
    { "NVIDIA A100-PCIE-40GB", "sxm", "a100-pcie-40gb", false },
    { "rtx4090", NULL, "rtx-4090", false },
    { "4090", NULL, "rtx-4090", false },
    { "NVIDIA GeForce RTX 3090", NULL, "rtx-3090", false },
    { "Tesla V100-SXM2-32GB", NULL, "v100-sxm2-32gb", false },
    { "H100", "sxm", "h100-sxm5-80gb", true },
    { "H100", "pcie", "h100-pcie-80gb", true },
    { "NVIDIA H100 80GB HBM3", NULL, "h100-sxm5-80gb", false },
    { "NVIDIA H200", NULL, "h200-sxm-141gb", false },
    { "L40S", NULL, "l40s", false },
    { "A10", NULL, "a10", false },
    { "Tesla T4", NULL, "t4", false },
    { "A100", NULL, NULL, false },
    { "A100-41G", NULL, NULL, false },
    { "B100", NULL, NULL, false },
    { "", NULL, NULL, false },
  };
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    bool open = false;
    const ZsCatalogueEntry *entry = zs_catalogue_find (catalogue, ZS_CATALOGUE_GPUS, cases[i].text,
                                                       cases[i].form, &open, &error);
    const char *name = entry != NULL ? entry->name : NULL;

    if (g_strcmp0 (name, cases[i].name) != 0)
      g_printerr ("# %s: %s%s\n", cases[i].text, name != NULL ? name : "",
                  error != NULL ? error->message : "");
    CU_ASSERT_EQUAL (g_strcmp0 (name, cases[i].name), 0);
    CU_ASSERT_EQUAL (open, cases[i].open);
    CU_ASSERT_EQUAL (error != NULL, cases[i].name == NULL);
  }
}

/* No name or alias may stand for two entries that differ in more than their form. */
static void
aliases_are_not_shared_by_accident (void)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);

  for (int kind = 0; kind < ZS_CATALOGUE_FABRICS; kind++) {
    int n;
    const ZsCatalogueEntry *entries = zs_catalogue_list (catalogue, kind, &n);

    CU_ASSERT_TRUE (n > 0);
    for (int i = 0; i < n; i++)
      for (int j = 0; entries[i].aliases[j] != NULL; j++) {
        g_autoptr (GError) error = NULL;
        const ZsCatalogueEntry *found =
            zs_catalogue_find (catalogue, kind, entries[i].aliases[j],
                               *entries[i].form != '\0' ? entries[i].form : NULL, NULL, &error);

        /* "A100" is four cards: said so, and not guessed */
        if (error != NULL && strstr (error->message, "may be any of") != NULL
            && strlen (entries[i].aliases[j]) == strlen ("A100"))
          continue;
        CU_ASSERT_PTR_NOT_NULL_FATAL (found);
        if (strcmp (found->name, entries[i].name) != 0)
          g_printerr ("# %s of %s: %s\n", entries[i].aliases[j], entries[i].name, found->name);
        CU_ASSERT_STRING_EQUAL (found->name, entries[i].name);
      }
  }
}

static bool
read_config (const char *text, ZsHfConfig *config, ZsNotes *notes, char **ret_errors)
{
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_autoptr (ZsDocument) document = zs_json_parse ("config.json", text, strlen (text), NULL);
  bool ok;

  CU_ASSERT_PTR_NOT_NULL_FATAL (document);
  ok = zs_hf_config_read (zs_document_root (document), "x", config, notes, errors);
  CU_ASSERT_EQUAL (ok, zs_errors_count (errors) == 0);
  *ret_errors = zs_errors_text (errors);
  return ok;
}

#define DIMENSIONS                                                                                 \
  "\"hidden_size\":4096,\"intermediate_size\":14336,\"num_hidden_layers\":32,"                     \
  "\"num_attention_heads\":32,\"vocab_size\":32000"

static void
defaults_are_those_of_the_class (void)
{
  g_autoptr (ZsNotes) notes = zs_notes_new ();
  g_autofree char *e1 = NULL, *e2 = NULL, *e3 = NULL, *e4 = NULL;
  ZsHfConfig config;

  CU_ASSERT_TRUE (read_config ("{\"model_type\":\"llama\"," DIMENSIONS "}", &config, notes, &e1));
  CU_ASSERT_EQUAL (config.shape.n_kv_heads, 32);
  CU_ASSERT_EQUAL (config.shape.head_dim, 128);
  CU_ASSERT_FALSE (config.shape.tied_embeddings);
  CU_ASSERT_EQUAL (zs_notes_count (notes), 0);
  CU_ASSERT_TRUE (read_config (
      "{\"model_type\":\"mistral\",\"sliding_window\":4096," DIMENSIONS "}", &config, notes, &e2));
  CU_ASSERT_EQUAL (config.shape.n_kv_heads, 8);
  CU_ASSERT_EQUAL (zs_notes_count (notes), 1);
  CU_ASSERT_STRING_EQUAL (zs_notes_get (notes, 0)->code, "sliding-window");
  CU_ASSERT_TRUE (read_config ("{\"model_type\":\"qwen3\",\"num_key_value_heads\":null," DIMENSIONS
                               "}",
                               &config, notes, &e3));
  CU_ASSERT_EQUAL (config.shape.n_kv_heads, 32);
  CU_ASSERT_TRUE (config.shape.qk_norm);
  CU_ASSERT_TRUE (read_config (
      "{\"architectures\":[\"Qwen2ForCausalLM\"],\"torch_dtype\":\"bfloat16\"," DIMENSIONS "}",
      &config, notes, &e4));
  CU_ASSERT_TRUE (config.shape.qkv_bias && config.has_dtype && config.dtype == ZS_DTYPE_BF16);
}

static void
other_architectures_are_refused_politely (void)
{
  static const struct {
    const char *text, *message;
  } cases[] = {
    { "{\"model_type\":\"mixtral\"," DIMENSIONS "}", "mistral-7b-v0.1" },
    { "{\"model_type\":\"gpt_neox\"," DIMENSIONS "}", "tinyllama" },
    { "{\"model_type\":\"lama\"," DIMENSIONS "}", "did you mean 'llama'" },
    { "{\"model_type\":\"llama\",\"num_local_experts\":8," DIMENSIONS "}", "experts" },
    { "{\"model_type\":\"llama\"}", "needs 'hidden_size'" },
    { "{\"model_type\":\"llama\",\"num_key_value_heads\":5," DIMENSIONS "}", "no multiple" },
    { "{\"model_type\":\"llama\",\"head_dim\":\"x\"," DIMENSIONS "}", "whole number" },
    { "{\"model_type\":7," DIMENSIONS "}", "not simulated" },
    { "[]", "must be a mapping" },
    { "{\"model_type\":\"llama\",\"torch_dtype\":\"int8\"," DIMENSIONS "}",
      "bfloat16, float16 or float32" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *text = NULL;
    ZsHfConfig config;

    CU_ASSERT_FALSE (read_config (cases[i].text, &config, NULL, &text));
    if (strstr (text, cases[i].message) == NULL)
      g_printerr ("# %s", text);
    CU_ASSERT_PTR_NOT_NULL (strstr (text, cases[i].message));
    CU_ASSERT_TRUE (g_str_has_prefix (text, "config.json:1:"));
  }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "every GPU of the table is there", every_gpu_of_the_table_is_there },
    { "every GPU file is plausible", every_gpu_file_is_plausible },
    { "every model has its parameters", every_model_has_its_parameters },
    { "every machine names a GPU", every_machine_names_a_gpu },
    { "spellings lead to one GPU", spellings_lead_to_one_gpu },
    { "aliases are not shared by accident", aliases_are_not_shared_by_accident },
    { "defaults are those of the class", defaults_are_those_of_the_class },
    { "other architectures are refused politely", other_architectures_are_refused_politely },
    CU_TEST_INFO_NULL
  };

  return testing_main ("models", tests);
}
