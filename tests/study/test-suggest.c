/* test-suggest.c: every change that is proposed does what it says.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "sim/scenario/simulate.h"
#include "sim/study/suggest.h"
#include "tests/testing.h"

/* A scenario that comes with zerosim, with flags on top. */
typedef struct {
  const char *path, *model, *gpus, *micro_batch;
  ZsOutcome   outcome;
  const char *proposed;      /* part of a change that must be there; NULL: none is */
  const char *silent;        /* part that no change may have: it is so already, or not worth it */
} Case;

static const Case CASES[] = {
  { "scenarios/fsdp2.yaml", NULL, NULL, NULL, ZS_OUTCOME_OK, "checkpointing=none", NULL },
  { "scenarios/fsdp2.yaml", NULL, NULL, NULL, ZS_OUTCOME_OK, "reshard_after_forward=false", NULL },
  { "scenarios/fsdp2.yaml", NULL, "2xA100-40G", NULL, ZS_OUTCOME_OOM, "fsdp.cpu_offload=true", NULL },
  { "scenarios/fsdp2.yaml", "llama-2-70b", "2xA100-40G", NULL, ZS_OUTCOME_OOM, NULL, NULL },
  { "scenarios/single-gpu.yaml", NULL, NULL, NULL, ZS_OUTCOME_OK, "micro_batch=4", NULL },
  { "scenarios/single-gpu.yaml", "llama-7b", "1xA100-40G", NULL, ZS_OUTCOME_OOM, "framework=deepspeed", NULL },
  { "scenarios/zero2.yaml", "llama-2-70b", "2xA100-40G", NULL, ZS_OUTCOME_OOM, "lora.rank=16", NULL },
  /* what alone leaves no room is followed by what does, and that names only what changes */
  { "scenarios/zero3.yaml", "llama-3-8b", "4xRTX-4090", "6", ZS_OUTCOME_OOM, "micro_batch=3, gradient_accumulation=32",
    "checkpointing=full" },
  { "scenarios/many-lengths.yaml", NULL, NULL, NULL, ZS_OUTCOME_OOM, "alloc_conf=expandable_segments:True", NULL },
  { "scenarios/lora.yaml", NULL, NULL, "16", ZS_OUTCOME_OOM, "micro_batch=4, gradient_accumulation=16", "stage=2" },
};

static void
check_change (const ZsScenarioSource *source, const ZsChange *change)
{
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_autoptr (ZsScenario) scenario = zs_scenario_load (
      source->path, source->flags, (const char *const *) change->sets, source->catalogue, errors);

  if (scenario == NULL) {
    zs_errors_print (errors, "# ", stdout);
    CU_FAIL ("the proposed settings can be given as they are written");
    return;
  }
  g_autoptr (ZsResult) result = zs_scenario_run (scenario, NULL, NULL);

  CU_ASSERT_EQUAL (result->outcome, ZS_OUTCOME_OK);
  CU_ASSERT_EQUAL (result->peak_device_bytes, change->peak_device_bytes);
  CU_ASSERT_EQUAL (result->step_time_ps, change->step_time);
  CU_ASSERT_EQUAL (zs_is_tight (result->peak_device_bytes, result->gpu_memory_bytes), change->tight);
}

static void
changes_hold_when_they_are_made (void)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);

  for (size_t i = 0; i < G_N_ELEMENTS (CASES); i++) {
    const Case *c = &CASES[i];
    g_autofree char *path = testing_source_path (c->path);
    ZsScenarioFlags flags = { .model = c->model, .gpus = c->gpus, .micro_batch = c->micro_batch };
    ZsScenarioSource source = { .path = path, .flags = &flags, .catalogue = catalogue };
    g_autoptr (ZsErrors) errors = zs_errors_new ();
    g_autoptr (ZsScenario) scenario = zs_scenario_load (path, &flags, NULL, catalogue, errors);

    CU_ASSERT_PTR_NOT_NULL_FATAL (scenario);
    g_autoptr (ZsResult) result = zs_scenario_run (scenario, NULL, NULL);
    g_autoptr (ZsSuggestions) suggestions = zs_suggest (&source, scenario, result);
    bool found = c->proposed == NULL && suggestions->changes->len == 0;

    CU_ASSERT_EQUAL (result->outcome, c->outcome);
    CU_ASSERT_PTR_NOT_NULL (suggestions->said);
    for (guint s = 0; s < suggestions->changes->len; s++) {
      const ZsChange *change = &g_array_index (suggestions->changes, ZsChange, s);

      found |= c->proposed != NULL && strstr (change->change, c->proposed) != NULL;
      CU_ASSERT_TRUE (c->silent == NULL || strstr (change->change, c->silent) == NULL);
      check_change (&source, change);
      if (s > 0)
        CU_ASSERT_TRUE (change[-1].tight <= change->tight);
    }
    if (!found)
      printf ("# %s: no change has %s\n", c->path, c->proposed);
    CU_ASSERT_TRUE (found);
  }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "changes hold when they are made", changes_hold_when_they_are_made },
    CU_TEST_INFO_NULL
  };
  return testing_main ("suggest", tests);
}
