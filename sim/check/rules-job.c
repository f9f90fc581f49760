/* rules-job.c: the job around the ds_config: accumulation, the kind of model, the GPUs.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/check/check-internal.h"
#include "sim/io/document.h"

void
zs_check_rule_accumulation (const ZsCheck *check)
{
  int64_t micro_batch = check->config->micro_batch, steps = check->config->gradient_accumulation;
  const char *path = "gradient_accumulation_steps";
  g_autofree char *instead = NULL;

  if (!zs_check_given (check, path) || !zs_check_given (check, "train_micro_batch_size_per_gpu")
      || steps != 1 || micro_batch <= 1)
    return;
  instead = g_strdup_printf ("\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": %"
                             G_GINT64_FORMAT, micro_batch);
  zs_check_say (check, ZS_NOTE_INFO, "accumulation-saves-nothing", path, instead,
                "accumulating less saves no memory: activations follow from the micro-batch, %"
                G_GINT64_FORMAT " here; the same batch in more and smaller micro-steps takes less of them",
                micro_batch);
}

/* Families whose names say it; a config.json says how many experts it has. */
static const char *const MIXTURES[] = { "mixtral", "moe", "deepseek-v2", "deepseek-v3", "deepseek_v2",
                                        "deepseek_v3", "dbrx", "gpt-oss", "gpt_oss", "-a3b", "-a22b" };
static const char *const EXPERTS[] = { "num_local_experts", "num_experts", "n_routed_experts" };

bool
zs_check_is_mixture (const char *name)
{
  g_autofree char *lower = g_ascii_strdown (name, -1);
  g_autoptr (ZsDocument) document = NULL;

  for (size_t i = 0; i < G_N_ELEMENTS (MIXTURES); i++)
    if (strstr (lower, MIXTURES[i]) != NULL)
      return true;
  if (!g_str_has_suffix (lower, ".json"))
    return false;
  document = zs_document_load (name, NULL);
  for (size_t i = 0; document != NULL && i < G_N_ELEMENTS (EXPERTS); i++)
    if (zs_node_get (zs_document_root (document), EXPERTS[i]) != NULL)
      return true;
  return false;
}

void
zs_check_rule_mixture (const ZsCheck *check)
{
  if (check->config->zero.stage != 3 || !check->options->mixture
      || zs_check_given (check, "zero_optimization.leaf_module"))
    return;
  zs_check_say (check, ZS_NOTE_RISKY, "mixture-with-stage-3", "zero_optimization.stage",
                "deepspeed.utils.set_z3_leaf_modules (model, [the experts' block])",
                "a rank whose tokens skip an expert gathers other parameters than its peers, and all wait "
                "for one another for ever; the block of the experts must be gathered as one (a leaf module)");
}

void
zs_check_rule_mixed_gpus (const ZsCheck *check)
{
  if (!check->options->mixed_gpus || check->config->zero.stage == 0)
    return;
  zs_check_say (check, ZS_NOTE_RISKY, "mixed-gpus", "zero_optimization.stage", NULL,
                "the machine has GPUs of several kinds: every collective waits for the slowest, and the "
                "smallest memory counts%s", check->config->zero.stage == 3
                  ? "; stage 3 has hundreds of collectives in a micro-step (70 to 100 times slower was reported)"
                  : "");
}
