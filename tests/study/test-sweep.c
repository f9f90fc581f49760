/* test-sweep.c: axes, conditions and the numbers of configurations.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/study/sweep.h"
#include "tests/testing.h"

static int
find_name (void *self, const char *name)
{
  const char *const *names = self;

  for (int i = 0; names[i] != NULL; i++)
    if (strcmp (names[i], name) == 0)
      return i;
  return -1;
}

static void
conditions_hold_where_they_should (void)
{
  static const char *const names[] = { "stage", "bucket", "device", "none", NULL };
  static const char *const values[] = { "3", "5e8", "cpu", "" };
  static const struct { const char *text; bool holds; } cases[] = {
    { "stage == 3", true },
    { "stage != 3 or bucket > 1e8", true },
    { "not stage == 3", false },
    { "stage == 3 and not (bucket < 1e9)", false },
    { "device == cpu and stage>=2", true },
    { "device == 'cpu'", true },
    { "bucket == 500000000", true },
    { "stage * 2 + 1 == 7 and 7 % 4 == 3", true },
    { "bucket / 5e8 == 1", true },
    { "2 - 3 < 0", true },
    { "none", false },
    { "none == ''", true },
    { "device", true },
    { "true and not false", true },
    { "1 < 2 or 1/0 > 3", true },
    { "order == 3", false },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (ZsCondition) condition
        = zs_condition_new (cases[i].text, find_name, (gpointer) names, &error);

    CU_ASSERT_PTR_NOT_NULL_FATAL (condition);
    if (zs_condition_holds (condition, values) != cases[i].holds)
      printf ("# %s\n", cases[i].text);
    CU_ASSERT_EQUAL (zs_condition_holds (condition, values), cases[i].holds);
  }
}

static void
wrong_conditions_are_refused (void)
{
  static const char *const names[] = { "stage", NULL };
  static const char *const cases[] = { "", "stage ==", "stage = 3", "(stage == 3", "stage == 3)", "1 2",
                                       "'open", "and", "stage == 1 == 1", "not", "((((((((((((((((((((((((("
                                       "((((((((((((((((((((1" };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;

    CU_ASSERT_PTR_NULL (zs_condition_new (cases[i], find_name, (gpointer) names, &error));
    CU_ASSERT_PTR_NOT_NULL (error);
  }
}

static char *
values_of (const char *text)
{
  g_autoptr (ZsAxis) axis = zs_axis_parse (text, NULL);

  if (axis == NULL)
    return g_strdup ("none");
  g_ptr_array_add (axis->values, NULL);
  return g_strjoinv (" ", (char **) axis->values->pdata);
}

static void
lists_and_ranges_become_values (void)
{
  static const struct { const char *text, *values; } cases[] = {
    { "stage=1,2,3", "1 2 3" },
    { "micro_batch=1:9:4", "1 5 9" },
    { "micro_batch=1:8:3,16", "1 4 7 16" },
    { "reduce_bucket_size=1e6:1e9:log4", "1000000 10000000 100000000 1000000000" },
    { "micro_batch=1:4:log9", "1 2 3 4" },
    { "gradient_clipping=0.5:1:0.25", "0.5 0.75 1" },
    { "checkpointing=none,{every: 2},full", "none {every: 2} full" },
    { "lora.targets=[q_proj, v_proj],[q_proj]", "[q_proj, v_proj] [q_proj]" },
    { "fabric=pcie", "pcie" },
    { "stage3_max_live_parameters+stage3_max_reuse_distance=1e8,1e9", "1e8 1e9" },
    { "stage=", "none" },
    { "=3", "none" },
    { "stage=1,1", "none" },
    { "stage=1,,2", "none" },
    { "nonsense=1", "none" },
    { "micro_batch=9:1:1", "none" },
    { "micro_batch=1:9:0", "none" },
    { "micro_batch=0:9:log3", "none" },
    { "micro_batch=1:1e9:1", "none" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *values = values_of (cases[i].text);

    CU_ASSERT_STRING_EQUAL (values, cases[i].values);
  }
}

static ZsSweep *
load (const char *text, ZsCatalogue *catalogue)
{
  g_autofree char *folder = g_dir_make_tmp ("zerosim-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "sweep.yaml", NULL);
  g_autoptr (ZsErrors) errors = zs_errors_new ();

  g_file_set_contents (path, text, -1, NULL);
  ZsSweep *sweep = zs_sweep_load (path, NULL, NULL, NULL, catalogue, errors);

  if (sweep == NULL)
    zs_errors_print (errors, "# ", stdout);
  remove (path);
  remove (folder);
  return sweep;
}

static void
the_last_axis_runs_fastest (void)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (ZsSweep) sweep = load ("scenario: {model: llama-7b, training: {sequence_length: 512}}\n"
                                    "axes:\n"
                                    "  stage: [2, 3]\n"
                                    "  stage3_prefetch_bucket_size: {values: [1e6, 1e7], when: stage == 3}\n"
                                    "  micro_batch: [1, 2, 4]\n"
                                    "when: micro_batch * sequence_length < 2048 or stage == 3\n",
                                    catalogue);
  static const char *const expected[][3] = {
    { "2", NULL, "1" },  { "2", NULL, "2" },  { "3", "1e6", "1" }, { "3", "1e6", "2" },
    { "3", "1e6", "4" }, { "3", "1e7", "1" }, { "3", "1e7", "2" }, { "3", "1e7", "4" },
  };

  CU_ASSERT_PTR_NOT_NULL_FATAL (sweep);
  CU_ASSERT_EQUAL_FATAL (sweep->n_kept, (int64_t) G_N_ELEMENTS (expected));
  for (int64_t i = 0; i < sweep->n_kept; i++)
    for (int axis = 0; axis < 3; axis++)
      CU_ASSERT_EQUAL (g_strcmp0 (zs_sweep_value (sweep, i, axis), expected[i][axis]), 0);
  g_auto (GStrv) changes = zs_sweep_changes (sweep, 0);

  CU_ASSERT_EQUAL_FATAL (g_strv_length (changes), 2);
  CU_ASSERT_STRING_EQUAL (changes[0], "training.deepspeed.zero_optimization.stage=2");
  CU_ASSERT_STRING_EQUAL (changes[1], "training.micro_batch=1");
}

static void
other_sweeps_have_other_fingerprints (void)
{
  static const char *const texts[] = {
    "scenario: {model: llama-7b}\naxes: {stage: [2, 3]}\n",
    "scenario: {model: llama-7b}\naxes: {stage: [3, 2]}\n",
    "scenario: {model: llama-13b}\naxes: {stage: [2, 3]}\n",
    "scenario: {model: llama-7b}\naxes: {stage: [2, 3]}\nwhen: stage > 2\n",
    "scenario: {model: llama-7b}\nset: {steps: 2}\naxes: {stage: [2, 3]}\n",
  };
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  ZsSweep *sweeps[G_N_ELEMENTS (texts)];

  for (size_t i = 0; i < G_N_ELEMENTS (texts); i++) {
    sweeps[i] = load (texts[i], catalogue);
    CU_ASSERT_PTR_NOT_NULL_FATAL (sweeps[i]);
    for (size_t j = 0; j < i; j++)
      CU_ASSERT_STRING_NOT_EQUAL (sweeps[i]->fingerprint, sweeps[j]->fingerprint);
  }
  for (size_t i = 0; i < G_N_ELEMENTS (texts); i++)
    zs_sweep_free (sweeps[i]);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "conditions hold where they should", conditions_hold_where_they_should },
    { "wrong conditions are refused", wrong_conditions_are_refused },
    { "lists and ranges become values", lists_and_ranges_become_values },
    { "the last axis runs fastest, and an axis without effect counts once", the_last_axis_runs_fastest },
    { "other sweeps have other fingerprints", other_sweeps_have_other_fingerprints },
    CU_TEST_INFO_NULL
  };

  return testing_main ("sweep", tests);
}
