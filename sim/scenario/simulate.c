/* simulate.c: from a scenario to its result.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/scenario/simulate.h"

#include "sim/run/training.h"

/* Ten seconds or so of our time: some 1,000 micro-steps of LLaMA-7B under ZeRO-3 in three steps. */
#define MAX_INSTRUCTIONS INT64_C (100000000)
/* A layer's forward and backward are at least so many.  A run that cannot come to its end is still begun:
 * an out of memory is found in its first micro-steps. */
#define LEAST_OF_A_LAYER 50
#define MAX_BEFORE_GIVING_UP INT64_C (3000000)

static int64_t
max_instructions (const ZsTraining *training)
{
  __int128 least = (__int128) training->n_steps * training->gradient_accumulation
                   * training->shape.n_layers * LEAST_OF_A_LAYER;

  return least > MAX_INSTRUCTIONS ? MAX_BEFORE_GIVING_UP : MAX_INSTRUCTIONS;
}

void
zs_scenario_run_options (const ZsScenario *scenario, ZsRunOptions *ret_options)
{
  zs_run_options_init (ret_options);
  ret_options->max_instructions = max_instructions (&scenario->training);
  ret_options->alloc_conf = scenario->alloc_conf;
  ret_options->memory_limit_bytes = scenario->memory_limit_bytes;
  ret_options->torch = scenario->cluster.versions.of[ZS_SOFTWARE_TORCH];
  if (scenario->measured.any && scenario->measured.rank < scenario->training.world)
    ret_options->report_rank = scenario->measured.rank;
  ret_options->alone = scenario->measured.any && scenario->measured.alone;
}

ZsCluster *
zs_scenario_cluster (const ZsScenario *scenario, GError **error)
{
  const ZsClusterSettings *cluster = &scenario->cluster;
  ZsDtype dtype = scenario->training.step.dtype;
  ZsClusterSpec spec = {
    .gpu = &cluster->gpu,
    .host = &cluster->host,
    .topology = scenario->topology,
    .nccl = { .version = cluster->versions.of[ZS_SOFTWARE_NCCL],
              .environment = cluster->environment },
    .group_ranks = zs_training_group_ranks (&scenario->training),
    .fp32 = dtype == ZS_DTYPE_FP32,
    .fp16 = dtype == ZS_DTYPE_FP16,
    .kernel_speed = cluster->kernel_speed,
  };

  return zs_cluster_new (&spec, error);
}

ZsResult *
zs_scenario_run (const ZsScenario *scenario, const ZsRunOptions *options, GError **error)
{
  g_autoptr (ZsCluster) cluster = zs_scenario_cluster (scenario, error);
  ZsRunOptions usual;

  if (cluster == NULL)
    return NULL;
  if (options == NULL) {
    zs_scenario_run_options (scenario, &usual);
    options = &usual;
  }
  return zs_run (&scenario->training, zs_cluster_machine (cluster), options, error);
}
