/* load.c: from the command line to a scenario.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/cli/load.h"

#include <stdio.h>

ZsScenarioFlags
zs_flags_of (const ZsOptions *options)
{
  return (ZsScenarioFlags) {
    .model = options->model, .gpus = options->gpus, .nodes = options->nodes,
    .fabric = options->fabric, .network = options->network, .micro_batch = options->micro_batch,
    .sequence = options->sequence, .accumulation = options->accumulation,
    .checkpointing = options->checkpointing, .attention = options->attention,
    .lora = options->lora, .host_memory = options->host_memory,
    .deepspeed_version = options->deepspeed_version, .steps = options->steps,
    .accelerate = options->accelerate, .training_args = options->training_args,
  };
}

char **
zs_sets_of (const ZsOptions *options)
{
  const struct { const char *path, *value; } flags[] = {
    { "training.torch_version", options->torch_version },
    { "training.transformers_version", options->transformers_version },
    { "training.memory_limit", options->memory_limit },
  };
  GPtrArray *sets = g_ptr_array_new ();

  for (size_t i = 0; i < G_N_ELEMENTS (flags); i++)
    if (flags[i].value != NULL)
      g_ptr_array_add (sets, g_strdup_printf ("%s=%s", flags[i].path, flags[i].value));
  for (char **set = options->sets; set != NULL && *set != NULL; set++)
    g_ptr_array_add (sets, g_strdup (*set));
  g_ptr_array_add (sets, NULL);
  return (char **) g_ptr_array_free (sets, FALSE);
}

ZsScenario *
zs_load_scenario (const char *path, const ZsOptions *options, ZsCatalogue *catalogue)
{
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_auto (GStrv) sets = zs_sets_of (options);
  ZsScenarioFlags flags = zs_flags_of (options);
  ZsScenario *scenario
      = zs_scenario_load (path, &flags, (const char *const *) sets, catalogue, errors);

  if (scenario == NULL)
    zs_errors_print (errors, "", stderr);
  return scenario;
}
