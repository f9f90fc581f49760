/* The table of ds_config keys.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/scenario/ds-config-value.h"
#include "sim/scenario/ds-keys.h"
#include "tests/testing.h"

#define DS(major, minor, patch)                                                                    \
  {                                                                                                \
    .of[ZS_SOFTWARE_DEEPSPEED] = ZS_VERSION (major, minor, patch)                                  \
  }

static void
every_row_is_sound (void)
{
  int n;
  const ZsDsKey *rows = zs_ds_keys (&n);

  CU_ASSERT_TRUE (n > 430);
  for (int i = 0; i < n; i++) {
    const char *dot = strrchr (rows[i].path, '.');

    for (int k = 0; k < i; k++)
      if (strcmp (rows[i].path, rows[k].path) == 0) {
        g_printerr ("# %s is there twice\n", rows[i].path);
        CU_FAIL ("twice");
      }
    if (dot != NULL) {
      g_autofree char *section = g_strndup (rows[i].path, (gsize)(dot - rows[i].path));
      const ZsDsKey *above = zs_ds_key_find (section);

      if (above == NULL)
        g_printerr ("# no row for %s\n", section);
      CU_ASSERT_PTR_NOT_NULL (above);
    }
    if (rows[i].see != NULL && zs_ds_key_find (rows[i].see) == NULL) {
      g_printerr ("# %s: no row for %s\n", rows[i].path, rows[i].see);
      CU_FAIL ("see");
    }
  }
}

static void
a_default_is_a_value_of_its_key (void)
{
  ZsVersions versions = DS (0, 19, 5);
  int n;
  const ZsDsKey *rows = zs_ds_keys (&n);
  g_autoptr (ZsDocument) document = zs_document_new ("default");

  for (int i = 0; i < n; i++) {
    int type = rows[i].type & ~ZS_DS_OR_NULL;
    const char *text = rows[i].fallback;
    ZsDsValue value;

    if (text == NULL || strcmp (text, "None") == 0 || strcmp (text, "required") == 0
        || type == ZS_DS_LIST || type >= ZS_DS_OBJECT || strstr (text, "required") != NULL
        || strcmp (text, "lr") == 0 || strcmp (text, "preset") == 0)
      continue;
    zs_ds_value_read (&rows[i], zs_document_flag (document, "default", text), &versions, &value);
    if (!value.ok)
      g_printerr ("# %s: %s: %s\n", rows[i].path, text, value.problem);
    CU_ASSERT_TRUE (value.ok);
    zs_ds_value_clear (&value);
  }
}

static void
keys_are_found_by_path_alias_and_word (void)
{
  CU_ASSERT_STRING_EQUAL (zs_ds_key_find ("zero_optimization.stage")->path,
                          "zero_optimization.stage");
  CU_ASSERT_STRING_EQUAL (zs_ds_key_find ("zero_optimization.prefetch_bucket_size")->path,
                          "zero_optimization.stage3_prefetch_bucket_size");
  CU_ASSERT_STRING_EQUAL (zs_ds_key_find ("bfloat16.enabled")->path, "bf16.enabled");
  CU_ASSERT_PTR_NULL (zs_ds_key_find ("stage"));
  CU_ASSERT_PTR_NULL (zs_ds_key_find ("zero3_init"));
  CU_ASSERT_EQUAL (zs_ds_key_find_foreign ("zero3_init")->status, ZS_DS_INVENTED);
  CU_ASSERT_STRING_EQUAL (zs_ds_key_find_elsewhere ("offload_optimizer")->path,
                          "zero_optimization.offload_optimizer");
  CU_ASSERT_STRING_EQUAL (zs_ds_key_find_elsewhere ("overlap_comm")->path,
                          "zero_optimization.overlap_comm");
  CU_ASSERT_STRING_EQUAL (zs_ds_key_find_elsewhere ("partition_activations")->path,
                          "activation_checkpointing.partition_activations");
  CU_ASSERT_STRING_EQUAL (zs_ds_key_find_elsewhere ("aio")->path, "aio");
  CU_ASSERT_PTR_NULL (zs_ds_key_find_elsewhere ("enabled"));
  CU_ASSERT_PTR_NULL (zs_ds_key_find_elsewhere ("nonsense"));
}

static void
the_nearest_key_is_what_was_meant (void)
{
  static const struct {
    const char *section, *word, *meant;
  } cases[] = {
    { "zero_optimization", "stage3_prefetch_bucketsize", "stage3_prefetch_bucket_size" },
    { "zero_optimization", "offload_optimiser", "offload_optimizer" },
    { "zero_optimization", "overlap_com", "overlap_comm" },
    { "zero_optimization", "Stage", "stage" },
    { "", "gradient_clipp1ng", "gradient_clipping" },
    { "", "train_micro_batch_size", "train_micro_batch_size_per_gpu" },
    { "", "gradient_accumulation_step", "gradient_accumulation_steps" },
    { "zero_optimization.offload_optimizer", "pin_memmory", "pin_memory" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    const ZsDsKey *key = zs_ds_key_nearest (cases[i].section, cases[i].word);

    CU_ASSERT_PTR_NOT_NULL_FATAL (key);
    CU_ASSERT_STRING_EQUAL (zs_ds_key_word (key), cases[i].meant);
  }
  CU_ASSERT_PTR_NULL (zs_ds_key_nearest ("zero_optimization", "colour"));
}

static void
defaults_and_strictness_depend_on_the_version (void)
{
  ZsVersions old = DS (0, 14, 4), new = DS (0, 19, 5), ancient = DS (0, 6, 0);
  const ZsDsKey *pin = zs_ds_key_find ("zero_optimization.offload_optimizer.pin_memory");
  const ZsDsKey *clip = zs_ds_key_find ("gradient_clipping"), *fp16 = zs_ds_key_find ("fp16");
  const ZsDsKey *zero = zs_ds_key_find ("zero_optimization");

  CU_ASSERT_STRING_EQUAL (zs_ds_key_fallback (pin, &old), "false");
  CU_ASSERT_STRING_EQUAL (zs_ds_key_fallback (pin, &new), "true");
  CU_ASSERT_STRING_EQUAL (zs_ds_key_fallback (clip, &old), "0.0");
  CU_ASSERT_STRING_EQUAL (zs_ds_key_fallback (clip, &new), "1.0");
  CU_ASSERT_FALSE (zs_ds_key_is_strict (fp16, &old));
  CU_ASSERT_TRUE (zs_ds_key_is_strict (fp16, &new));
  CU_ASSERT_TRUE (zs_ds_key_is_strict (zero, &old));
  CU_ASSERT_FALSE (zs_ds_key_is_strict (zero, &ancient));
}

static void
values_are_taken_as_pydantic_takes_them (void)
{
  static const struct {
    const char *path, *text;
    bool quoted, old_ok, new_ok;
    const char *code;
  } cases[] = {
    { "zero_optimization.reduce_bucket_size", "5e8", false, true, true, NULL },
    { "zero_optimization.reduce_bucket_size", "5e8", true, false, false, "number-in-quotes" },
    { "zero_optimization.reduce_bucket_size", "500000000", true, true, true, "number-in-quotes" },
    { "zero_optimization.reduce_bucket_size", "-1", false, false, false, "out-of-range" },
    { "zero_optimization.reduce_bucket_size", "big", true, false, false, "wrong-type" },
    { "zero_optimization.reduce_bucket_size", "null", false, false, false, "wrong-type" },
    { "zero_optimization.stage3_prefetch_bucket_size", "15099494.4", false, true, false,
      "fractional-size" },
    { "zero_optimization.stage", "3", false, true, true, NULL },
    { "zero_optimization.stage", "3", true, false, true, "number-in-quotes" },
    { "zero_optimization.stage", "4", false, false, false, "out-of-range" },
    { "zero_optimization.offload_optimizer.device", "cpu", true, true, true, NULL },
    { "zero_optimization.offload_optimizer.device", "CPU", true, false, false, "unknown-word" },
    { "zero_optimization.offload_optimizer.device", "ssd", true, false, false, "unknown-word" },
    { "zero_optimization.offload_optimizer.device", "null", false, false, false, "wrong-type" },
    { "zero_optimization.offload_optimizer.ratio", "0.3", false, true, true, NULL },
    { "zero_optimization.offload_optimizer.ratio", "1.3", false, false, false, "out-of-range" },
    { "zero_optimization.overlap_comm", "true", true, true, true, "text-for-bool" },
    { "zero_optimization.overlap_comm", "True,", true, false, false, "wrong-type" },
    { "zero_optimization.overlap_comm", "1", false, true, true, "text-for-bool" },
    { "zero_optimization.overlap_comm", "null", false, true, true, NULL },
    { "fp16.loss_scale", "dynamic", true, false, false, "wrong-type" },
  };
  ZsVersions old = DS (0, 14, 4), new = DS (0, 19, 5);
  g_autoptr (ZsDocument) document = zs_document_new ("f");

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    const ZsDsKey *key = zs_ds_key_find (cases[i].path);
    ZsNode *node = zs_document_scalar (document, 1, 1, cases[i].text, strlen (cases[i].text),
                                       cases[i].quoted, NULL);
    ZsDsValue before, after;

    zs_ds_value_read (key, node, &old, &before);
    zs_ds_value_read (key, node, &new, &after);
    if (before.ok != cases[i].old_ok || after.ok != cases[i].new_ok
        || (g_strcmp0 (before.code, cases[i].code) != 0
            && g_strcmp0 (after.code, cases[i].code) != 0))
      g_printerr ("# case %zu: %d %d %s\n", i, before.ok, after.ok, after.code);
    CU_ASSERT_EQUAL (before.ok, cases[i].old_ok);
    CU_ASSERT_EQUAL (after.ok, cases[i].new_ok);
    CU_ASSERT_TRUE (g_strcmp0 (before.code, cases[i].code) == 0
                    || g_strcmp0 (after.code, cases[i].code) == 0);
    zs_ds_value_clear (&before);
    zs_ds_value_clear (&after);
  }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "every row is sound", every_row_is_sound },
    { "a default is a value of its key", a_default_is_a_value_of_its_key },
    { "keys are found by path, alias and word", keys_are_found_by_path_alias_and_word },
    { "the nearest key is what was meant", the_nearest_key_is_what_was_meant },
    { "defaults and strictness depend on the version",
      defaults_and_strictness_depend_on_the_version },
    { "values are taken as pydantic takes them", values_are_taken_as_pydantic_takes_them },
    CU_TEST_INFO_NULL
  };
  return testing_main ("ds-keys", tests);
}
