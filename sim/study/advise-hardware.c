/* advise-hardware.c: machines on which a job would fit that fits here with no setting.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/advise-internal.h"
#include "sim/study/parallel.h"

#define MAX_MACHINES 24
#define MAX_GPUS     64
#define MOST_USED    97      /* percent of a GPU's memory */

typedef struct {
  char   *machine;
  char  **sets;            /* of the machine */
  bool    many;            /* the same GPU, more of them; else another GPU */
  int64_t rank;            /* smaller is nearer to what there is: GPUs, or bytes of one */
  ZsTrial best;
  char  **best_sets;
} Machine;

typedef struct {
  ZsAdvice *advice;
  Machine   machines[MAX_MACHINES];
  int       n;
  int       frugal[2][ZS_SPACE_MAX_DIMENSIONS];   /* settings to try on each */
} Looking;

void
zs_hardware_advice_free (gpointer data)
{
  ZsHardwareAdvice *advice = data;

  g_free (advice->machine);
  g_strfreev (advice->sets);
  g_free (advice);
}

static void
add_machine (Looking *looking, char *name, bool many, int64_t rank, char **sets)
{
  if (looking->n == MAX_MACHINES) {
    g_free (name);
    g_strfreev (sets);
    return;
  }
  looking->machines[looking->n++] = (Machine) { .machine = name, .many = many, .rank = rank, .sets = sets };
}

/* Twice, four times ... as many of the same GPU: first in the node, then in more nodes. */
static void
add_more_gpus (Looking *looking, const ZsScenario *scenario)
{
  int per_node = scenario->cluster.gpus_per_node, nodes = scenario->cluster.n_nodes;

  for (int i = 0; i < 5; i++) {
    if (per_node < 8 && nodes == 1)
      per_node *= 2;
    else
      nodes *= 2;
    if (per_node * nodes > MAX_GPUS)
      return;
    char **sets = g_new0 (char *, 4);

    sets[0] = g_strdup_printf ("cluster.gpus_per_node=%d", per_node);
    sets[1] = g_strdup_printf ("cluster.nodes=%d", nodes);
    if (nodes > 1 && !scenario->cluster.has_network)
      sets[2] = g_strdup ("cluster.network=ib-hdr-200");
    add_machine (looking, nodes > 1 ? g_strdup_printf ("%d nodes of %d x %s", nodes, per_node,
                                                       scenario->cluster.gpu.name)
                                    : g_strdup_printf ("%d x %s", per_node, scenario->cluster.gpu.name),
                 true, (int64_t) per_node * nodes, sets);
  }
}

/* As many GPUs with more memory: one for each size that there is. */
static void
add_larger_gpus (Looking *looking, const ZsScenario *scenario, ZsCatalogue *catalogue)
{
  static const char *const LARGER[] = { "a100-sxm4-40gb", "rtx-a6000", "a100-sxm4-80gb", "h100-sxm5-80gb",
                                        "h200-sxm-141gb", "b200-sxm-180gb", "mi300x" };
  /* said of the GPU that there is */
  static const char *const OF_THE_OLD[] = { "cluster.gpu_memory", "cluster.instance", "cluster.peer_access" };
  int gpus = scenario->cluster.gpus_per_node;

  for (size_t i = 0; i < G_N_ELEMENTS (LARGER); i++) {
    const ZsCatalogueEntry *entry
        = zs_catalogue_find (catalogue, ZS_CATALOGUE_GPUS, LARGER[i], NULL, NULL, NULL);
    char **sets;
    ZsGpu gpu;
    g_autoptr (ZsErrors) errors = zs_errors_new ();

    if (entry == NULL || entry->document == NULL
        || !zs_gpu_read (zs_document_root (entry->document), &gpu, errors)
        || gpu.memory_bytes <= scenario->cluster.gpu.memory_bytes * 11 / 10)
      continue;
    GPtrArray *list = g_ptr_array_new ();

    g_ptr_array_add (list, g_strdup_printf ("cluster.gpu=%s", LARGER[i]));
    for (size_t j = 0; j < G_N_ELEMENTS (OF_THE_OLD); j++) {
      g_autofree char *now = zs_base_setting (looking->advice->base, OF_THE_OLD[j]);

      if (now != NULL)
        g_ptr_array_add (list, g_strconcat (OF_THE_OLD[j], "=null", NULL));
    }
    if (gpus > 1)
      g_ptr_array_add (list, g_strdup ("cluster.fabric=nvlink"));
    g_ptr_array_add (list, NULL);
    sets = (char **) g_ptr_array_free (list, FALSE);
    add_machine (looking, g_strdup_printf ("%d x %s", gpus * scenario->cluster.n_nodes, LARGER[i]), false,
                 gpu.memory_bytes, sets);
  }
}

/* ---- the settings ---- */

/* The structure that keeps the most off the GPUs: FULL everything in host memory, else sharded alone. */
static void
make_frugal (const ZsSpace *space, bool full, int *ret_choice)
{
  for (int i = 0; i < space->n; i++) {
    const ZsDimension *dimension = &space->dimensions[i];

    ret_choice[i] = 0;
    for (int j = 0; j < dimension->n_values; j++) {
      const ZsSpaceValue *value = &dimension->values[j];

      if (g_str_equal (dimension->name, "batch")) {
        if (value->gpus == dimension->values[0].gpus
            && value->micro < dimension->values[ret_choice[i]].micro)
          ret_choice[i] = j;
      } else if (value->stage == 3 || (full && value->offload == 2)
                 || (g_str_equal (dimension->name, "checkpointing") && j > 0
                     && g_str_equal (value->sets[0], "training.checkpointing=full"))
                 || (g_str_equal (dimension->name, "attention") && j > 0)
                 || (g_str_equal (dimension->name, "allocator") && j > 0)) {
        ret_choice[i] = j;
      }
    }
  }
}

static gpointer
run_task (void *self, int64_t index)
{
  Looking *looking = self;
  Machine *machine = &looking->machines[index];
  const ZsAdviseOptions *options = &looking->advice->options;

  /* sharded alone is faster: it is tried first */
  for (int i = 0; i < 2 && !machine->best.fits; i++) {
    g_auto (GStrv) settings = zs_space_sets (looking->advice->space, looking->frugal[i]);
    g_autoptr (GPtrArray) all = g_ptr_array_new ();

    for (int j = 0; machine->sets[j] != NULL; j++)
      g_ptr_array_add (all, machine->sets[j]);
    for (int j = 0; settings[j] != NULL; j++)
      g_ptr_array_add (all, settings[j]);
    g_ptr_array_add (all, NULL);
    g_autoptr (ZsResult) result
        = zs_base_run (looking->advice->base, (const char *const *) all->pdata, NULL, NULL, NULL);

    /* one that fits by a hair is no advice */
    if (result == NULL || result->outcome != ZS_OUTCOME_OK
        || result->peak_device_bytes > result->gpu_memory_bytes / 100 * MOST_USED)
      continue;
    machine->best = (ZsTrial) {
      .valid = true, .peak_device_bytes = result->peak_device_bytes,
      .host_bytes = result->host_pinned_peak_bytes + result->host_pageable_peak_bytes,
      .tokens_per_second_per_gpu = result->tokens_per_second_per_gpu, .step_time = result->step_time_ps,
    };
    machine->best.fits
        = (options->host_memory_limit == 0 || machine->best.host_bytes <= options->host_memory_limit)
          && (options->step_time_limit == 0 || machine->best.step_time <= options->step_time_limit);
    machine->best_sets = g_strdupv ((char **) all->pdata);
    if (!machine->best.fits)
      g_clear_pointer (&machine->best_sets, g_strfreev);
  }
  return machine;
}

static bool
take_task (void *self, gpointer result)
{
  (void) self;
  (void) result;
  return true;
}

/* Of those that fit, the least of the same GPU, and the smallest of larger ones. */
static void
keep_nearest (Looking *looking, bool many)
{
  Machine *nearest = NULL;

  for (int i = 0; i < looking->n; i++) {
    Machine *machine = &looking->machines[i];

    if (machine->best.fits && machine->many == many && (nearest == NULL || machine->rank < nearest->rank))
      nearest = machine;
  }
  if (nearest == NULL)
    return;
  ZsHardwareAdvice *advice = g_new0 (ZsHardwareAdvice, 1);

  *advice = (ZsHardwareAdvice) {
    .machine = g_strdup (nearest->machine), .sets = g_steal_pointer (&nearest->best_sets),
    .peak_device_bytes = nearest->best.peak_device_bytes,
    .tokens_per_second_per_gpu = nearest->best.tokens_per_second_per_gpu,
  };
  g_ptr_array_add (looking->advice->hardware, advice);
}

bool
zs_advise_hardware (ZsAdvice *advice, const ZsScenario *scenario, ZsCatalogue *catalogue)
{
  Looking looking = { .advice = advice };
  ZsParallel parallel = { .task = run_task, .done = take_task, .self = &looking,
                          .stop = advice->options.stop };

  make_frugal (advice->space, false, looking.frugal[0]);
  make_frugal (advice->space, true, looking.frugal[1]);
  add_more_gpus (&looking, scenario);
  add_larger_gpus (&looking, scenario, catalogue);
  bool all = zs_parallel_run (&parallel, looking.n, advice->options.jobs);

  if (all) {
    keep_nearest (&looking, true);
    keep_nearest (&looking, false);
  }
  for (int i = 0; i < looking.n; i++) {
    g_free (looking.machines[i].machine);
    g_strfreev (looking.machines[i].sets);
    g_strfreev (looking.machines[i].best_sets);
  }
  return all;
}
