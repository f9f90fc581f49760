/* test-model.c: modules and parameters.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/model/emit.h"
#include "tests/testing.h"

#include <stdio.h>
#include <string.h>

static const ZsVersions VERSIONS = { { 0 } };

static int
column (char **header, const char *name)
{
  for (int i = 0; header[i] != NULL; i++)
    if (strcmp (header[i], name) == 0)
      return i;
  return -1;
}

static void
models_have_their_published_number_of_parameters (void)
{
  g_autofree char *path = testing_source_path ("tests/data/models/models.tsv");
  g_autofree char *text = NULL;
  int n_checked = 0;

  CU_ASSERT_TRUE_FATAL (g_file_get_contents (path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_auto (GStrv) header = g_strsplit (lines[1], "\t", -1);
  for (char **line = lines + 2; *line != NULL && **line != '\0'; line++) {
    g_auto (GStrv) row = g_strsplit (*line, "\t", -1);
#define FIELD(name) g_ascii_strtoll (row[column (header, name)], NULL, 10)
    ZsModelShape shape = {
      .hidden = FIELD ("hidden_size"), .intermediate = FIELD ("intermediate_size"),
      .n_layers = FIELD ("num_layers"), .n_heads = FIELD ("num_heads"),
      .n_kv_heads = FIELD ("num_kv_heads"), .head_dim = FIELD ("head_dim"),
      .vocabulary = FIELD ("vocab_size"), .tied_embeddings = FIELD ("tied_embeddings"),
      .qkv_bias = FIELD ("qkv_bias"), .qk_norm = FIELD ("qk_norm"),
    };
    int64_t total = FIELD ("params_total");
#undef FIELD
    if (total == 0 || shape.hidden == 0)
      continue;
    g_autoptr (ZsModel) model = zs_model_new (&shape, NULL, ZS_DTYPE_BF16, &VERSIONS);
    if (model->n_elements != total)
      printf ("# %s: %" G_GINT64_FORMAT " is not %" G_GINT64_FORMAT "\n", row[0], model->n_elements, total);
    CU_ASSERT_EQUAL (model->n_elements, total);
    n_checked++;
  }
  CU_ASSERT_TRUE (n_checked >= 20);
}

static ZsModelShape
small_shape (void)
{
  return (ZsModelShape) { .hidden = 64, .intermediate = 160, .n_layers = 3, .n_heads = 4,
                          .n_kv_heads = 2, .head_dim = 16, .vocabulary = 100 };
}

static void
parents_come_before_children_and_parameters_are_consecutive (void)
{
  ZsModelShape shape = small_shape ();
  ZsLora lora = { .rank = 8, .targets = ZS_LINEAR_Q | ZS_LINEAR_DOWN, .dtype = ZS_DTYPE_FP32 };
  g_autoptr (ZsModel) model = zs_model_new (&shape, &lora, ZS_DTYPE_BF16, &VERSIONS);
  int32_t next = 0;
  int64_t trainable = 0;

  for (int32_t i = 0; i < model->n_modules; i++) {
    const ZsModule *module = &model->modules[i];

    CU_ASSERT_TRUE (module->parent < i);
    if (module->n_parameters > 0)
      CU_ASSERT_EQUAL (module->first_parameter, next);
    next += module->n_parameters;
  }
  CU_ASSERT_EQUAL (next, model->n_parameters);
  for (int32_t i = 0; i < model->n_parameters; i++)
    trainable += model->parameters[i].trainable ? model->parameters[i].elements : 0;
  CU_ASSERT_EQUAL (trainable, model->n_trainable);
  CU_ASSERT_EQUAL (trainable, 3 * 8 * (64 + 64 + 160 + 64));
}

static void
tied_weights_are_counted_once (void)
{
  ZsModelShape shape = small_shape ();
  g_autoptr (ZsModel) untied = zs_model_new (&shape, NULL, ZS_DTYPE_BF16, &VERSIONS);

  shape.tied_embeddings = true;
  g_autoptr (ZsModel) tied = zs_model_new (&shape, NULL, ZS_DTYPE_BF16, &VERSIONS);
  CU_ASSERT_EQUAL (untied->n_elements - tied->n_elements, 100 * 64);
  CU_ASSERT_EQUAL (untied->n_parameters - tied->n_parameters, 1);
  CU_ASSERT_TRUE (zs_model_find (tied, ZS_MODULE_HEAD, -1) > 0);
  CU_ASSERT_EQUAL (zs_model_find (tied, ZS_MODULE_Q_NORM, 0), -1);
}

static void
column_sums_have_the_recorded_buffers (void)
{
  static const struct { int64_t rows, columns, bytes, semaphores; } cases[] = {
    { 512, 1024, 0, 0 }, { 1024, 1024, 8388608, 32 }, { 2048, 1024, 16777216, 32 },
    { 4096, 1024, 33554432, 32 }, { 2331, 1024, 19398656, 32 }, { 2048, 256, 4194304, 8 },
    { 2048, 2816, 46137344, 88 }, { 32768, 128, 33554432, 4 }, { 8192, 128, 8388608, 4 },
    { 1024, 2048, 16777216, 64 }, { 2048, 4096, 67108864, 128 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    int64_t semaphores;

    CU_ASSERT_EQUAL (zs_column_sum_buffer (cases[i].rows, cases[i].columns, 2, 132, &semaphores),
                     cases[i].bytes);
    CU_ASSERT_EQUAL (semaphores, cases[i].semaphores);
  }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "models have their published number of parameters", models_have_their_published_number_of_parameters },
    { "parents come before children, parameters are consecutive",
      parents_come_before_children_and_parameters_are_consecutive },
    { "tied weights are counted once", tied_weights_are_counted_once },
    { "column sums have the recorded buffers", column_sums_have_the_recorded_buffers },
    CU_TEST_INFO_NULL
  };

  return testing_main ("model", tests);
}
