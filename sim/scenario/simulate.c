/* simulate.c: from a scenario to its result.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/scenario/simulate.h"

#include "sim/run/training.h"

#include <string.h>

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
  ret_options->pace = (ZsPace) {
    .tensor_share = zs_training_tensor_share (&scenario->training, &scenario->cluster.gpu),
    .slowest = ret_options->alone ? 1 : zs_slowest_of (scenario->training.world),
  };
}

static ZsClusterSpec
cluster_spec (const ZsScenario *scenario)
{
  const ZsClusterSettings *cluster = &scenario->cluster;
  ZsDtype dtype = scenario->training.step.dtype;

  return (ZsClusterSpec) {
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
}

ZsCluster *
zs_scenario_cluster (const ZsScenario *scenario, GError **error)
{
  ZsClusterSpec spec = cluster_spec (scenario);

  return zs_cluster_new (&spec, error);
}

/* ---- machines in common ---- */

/* More different machines than this are not kept: those that come later are made for each run. */
#define MOST_MACHINES 256

/* A cluster, and what it borrows. */
typedef struct {
  ZsGpu       gpu;
  ZsHost      host;
  ZsTopology *topology;
  ZsCluster  *cluster;
} Machine;

struct ZsClusterCache {
  GMutex      mutex;
  GHashTable *machines;     /* GBytes, all that a cluster is made of, to Machine */
  ZsRunCache *runs;         /* on them */
};

static void
free_machine (gpointer data)
{
  Machine *machine = data;

  zs_cluster_free (machine->cluster);
  zs_topology_free (machine->topology);
  g_free (machine);
}

ZsClusterCache *
zs_cluster_cache_new (void)
{
  ZsClusterCache *cache = g_new0 (ZsClusterCache, 1);

  g_mutex_init (&cache->mutex);
  cache->runs = zs_run_cache_new ();
  cache->machines = g_hash_table_new_full (g_bytes_hash, g_bytes_equal,
                                           (GDestroyNotify) g_bytes_unref, free_machine);
  return cache;
}

void
zs_cluster_cache_free (ZsClusterCache *cache)
{
  if (cache == NULL)
    return;
  zs_run_cache_free (cache->runs);
  g_hash_table_unref (cache->machines);
  g_mutex_clear (&cache->mutex);
  g_free (cache);
}

static GBytes *
spec_key (const ZsClusterSpec *spec)
{
  GString *key = g_string_sized_new (16384);
  const int64_t numbers[] = { spec->nccl.version, spec->n_ranks, spec->gpu_memory_bytes,
                              spec->group_ranks, spec->fp32, spec->fp16, spec->nccl.average,
                              spec->nccl.no_calibration };

  /* structures that are made by one assignment from zeros: bytes between members are equal, or else a
   * machine is made once more */
  g_string_append_len (key, (const char *) numbers, sizeof numbers);
  g_string_append_len (key, (const char *) spec->gpu, sizeof *spec->gpu);
  g_string_append_len (key, (const char *) spec->host, sizeof *spec->host);
  for (const char *const *e = spec->nccl.environment; e != NULL && *e != NULL; e++)
    g_string_append_len (key, *e, (gssize) strlen (*e) + 1);
  zs_topology_key (spec->topology, key);
  return g_string_free_to_bytes (key);
}

/* NULL without ERROR: there are too many. */
static const ZsCluster *
find_cluster (ZsClusterCache *cache, const ZsScenario *scenario, GError **error)
{
  ZsClusterSpec spec = cluster_spec (scenario);
  g_autoptr (GBytes) key = spec_key (&spec);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&cache->mutex);
  Machine *machine = g_hash_table_lookup (cache->machines, key);

  if (machine != NULL)
    return machine->cluster;
  if (g_hash_table_size (cache->machines) >= MOST_MACHINES)
    return NULL;
  machine = g_new0 (Machine, 1);
  machine->gpu = *spec.gpu;
  machine->host = *spec.host;
  machine->topology = zs_topology_copy (spec.topology);
  spec.gpu = &machine->gpu;
  spec.host = &machine->host;
  spec.topology = machine->topology;
  machine->cluster = zs_cluster_new (&spec, error);
  if (machine->cluster == NULL) {
    free_machine (machine);
    return NULL;
  }
  g_hash_table_insert (cache->machines, g_steal_pointer (&key), machine);
  return machine->cluster;
}

ZsResult *
zs_scenario_run_cached (const ZsScenario *scenario, const ZsRunOptions *options, ZsClusterCache *cache,
                        GError **error)
{
  g_autoptr (ZsCluster) own = NULL;
  const ZsCluster *cluster = NULL;
  g_autoptr (GError) failure = NULL;
  ZsRunOptions usual;

  if (cache != NULL)
    cluster = find_cluster (cache, scenario, &failure);
  if (cluster == NULL && failure == NULL)
    cluster = own = zs_scenario_cluster (scenario, &failure);
  if (cluster == NULL) {
    g_propagate_error (error, g_steal_pointer (&failure));
    return NULL;
  }
  if (options == NULL) {
    zs_scenario_run_options (scenario, &usual);
    options = &usual;
  }
  return zs_run_known (&scenario->training, zs_cluster_machine (cluster), options,
                       own == NULL ? cache->runs : NULL, error);
}

ZsResult *
zs_scenario_run (const ZsScenario *scenario, const ZsRunOptions *options, GError **error)
{
  return zs_scenario_run_cached (scenario, options, NULL, error);
}
