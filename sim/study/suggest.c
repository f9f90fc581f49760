/* suggest.c: tries a table of changes.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/suggest.h"

#include <string.h>

#include "sim/scenario/simulate.h"

#define MAX_SETS    6
#define MAX_SHOWN   3
#define WORTH_SHOWING 1.02     /* a gain of less than 2 % is within the model's noise */

typedef bool (*Applies) (const ZsScenario *scenario);

/* One change: what to set, when it makes sense, what it trades. */
typedef struct {
  const char *sets[MAX_SETS];
  Applies     applies;
  const char *reason;
} Change;

static bool
is_zero (const ZsScenario *s)
{
  return s->training.framework == ZS_FRAMEWORK_DEEPSPEED;
}

static bool
is_stage3 (const ZsScenario *s)
{
  return is_zero (s) && s->training.zero.stage == 3;
}

static bool
not_checkpointed (const ZsScenario *s)
{
  return s->training.step.checkpoint_every == 0;
}

static bool
checkpointed (const ZsScenario *s)
{
  return s->training.step.checkpoint_every != 0;
}

static bool
optimizer_on_gpu (const ZsScenario *s)
{
  return is_zero (s) && s->training.zero.stage >= 1
         && s->training.zero.offload_optimizer == ZS_DEVICE_NONE;
}

static bool
optimizer_offloaded (const ZsScenario *s)
{
  return is_zero (s) && s->training.zero.offload_optimizer != ZS_DEVICE_NONE;
}

static bool
parameters_on_gpu (const ZsScenario *s)
{
  return is_stage3 (s) && s->training.zero.offload_param == ZS_DEVICE_NONE;
}

static bool
parameters_offloaded (const ZsScenario *s)
{
  return is_stage3 (s) && s->training.zero.offload_param != ZS_DEVICE_NONE;
}

static bool
below_stage2 (const ZsScenario *s)
{
  return is_zero (s) && s->training.zero.stage < 2 && s->training.world > 1;
}

static bool
below_stage3 (const ZsScenario *s)
{
  return is_zero (s) && s->training.zero.stage < 3 && s->training.world > 1;
}

static bool
large_bucket (const ZsScenario *s)
{
  return is_zero (s) && s->training.zero.stage >= 1
         && s->training.zero.reduce_bucket_size > 100000000;
}

static bool
large_sub_group (const ZsScenario *s)
{
  return is_stage3 (s) && s->training.zero.sub_group_size > 100000000;
}

static bool
large_live (const ZsScenario *s)
{
  return is_stage3 (s) && s->training.zero.max_live_parameters > 100000000;
}

static bool
eager_attention (const ZsScenario *s)
{
  return s->training.step.attention == ZS_ATTENTION_EAGER;
}

static bool
plain_allocator (const ZsScenario *s)
{
  return !s->alloc_conf.expandable_segments;
}

static bool
no_overlap12 (const ZsScenario *s)
{
  return is_zero (s) && s->training.zero.stage >= 1 && s->training.zero.stage <= 2
         && !s->training.zero.overlap_comm && s->training.world > 1;
}

static bool
few_threads (const ZsScenario *s)
{
  return optimizer_offloaded (s) && s->cluster.host.omp_threads == 1
         && s->cluster.host.cores > 2 * s->cluster.gpus_per_node;
}

static bool
micro_batch_above_one (const ZsScenario *s)
{
  return s->training.step.micro_batch > 1;
}

#define OFFLOAD_OPTIMIZER "zero_optimization.offload_optimizer.device=cpu"
#define OFFLOAD_PARAM     "zero_optimization.offload_param.device=cpu"
#define CHECKPOINT        "training.checkpointing=full"
#define STAGE3            "zero_optimization.stage=3"

/* To make it fit: single changes, then combinations for when no single one suffices. */
static const Change SMALLER[] = {
  { { CHECKPOINT }, not_checkpointed, "Activations are recomputed in backward: about a third more compute." },
  { { "training.attention=sdpa" }, eager_attention, "The score matrices are never kept; also faster." },
  { { "training.alloc_conf=expandable_segments:True" }, plain_allocator,
    "Less reserved memory lies idle between tensors; costs nothing." },
  { { "zero_optimization.stage=2" }, below_stage2, "Gradients are sharded as well." },
  { { STAGE3 }, below_stage3, "Parameters are sharded as well; each layer is gathered for forward and backward." },
  { { OFFLOAD_OPTIMIZER }, optimizer_on_gpu, "Optimizer states and master weights move to host memory; the step waits for CPU Adam." },
  { { OFFLOAD_OPTIMIZER, OFFLOAD_PARAM }, parameters_on_gpu, "Parameters move to host memory too; every gather first crosses PCIe." },
  { { "zero_optimization.reduce_bucket_size=5e7" }, large_bucket, "Smaller gradient buckets." },
  { { "zero_optimization.sub_group_size=1e8" }, large_sub_group, "The optimizer works on smaller pieces: smaller temporaries." },
  { { "zero_optimization.stage3_max_live_parameters=1e8", "zero_optimization.stage3_max_reuse_distance=1e8" }, large_live,
    "Fewer gathered parameters at once; more is gathered twice." },
  { { "training.micro_batch=1" }, micro_batch_above_one, "Raise gradient accumulation to keep the global batch." },
};
static const Change SMALLER_TOGETHER[] = {
  { { OFFLOAD_OPTIMIZER, CHECKPOINT }, optimizer_on_gpu, "Optimizer in host memory, activations recomputed." },
  { { STAGE3, CHECKPOINT }, below_stage3, "Everything sharded, activations recomputed." },
  { { STAGE3, OFFLOAD_OPTIMIZER, CHECKPOINT }, is_zero, "Everything sharded, optimizer in host memory, activations recomputed." },
  { { STAGE3, OFFLOAD_OPTIMIZER, OFFLOAD_PARAM, CHECKPOINT }, is_zero, "Optimizer and parameters in host memory." },
  { { STAGE3, OFFLOAD_OPTIMIZER, OFFLOAD_PARAM, CHECKPOINT, "training.micro_batch=1",
      "zero_optimization.reduce_bucket_size=5e7" }, is_zero,
    "Everything that saves: little is left on the GPU but activations of one sequence." },
};
/* To make it faster. */
static const Change FASTER[] = {
  { { "training.checkpointing=none" }, checkpointed, "No recomputation in backward; more activations are kept." },
  { { "zero_optimization.offload_optimizer.device=none", "zero_optimization.offload_param.device=none" }, optimizer_offloaded,
    "The optimizer runs on the GPU." },
  { { "zero_optimization.offload_param.device=none" }, parameters_offloaded, "Parameters stay on the GPU." },
  { { "zero_optimization.stage=2" }, is_stage3, "Parameters are not gathered for every layer." },
  { { "training.attention=sdpa" }, eager_attention, "Fused attention." },
  { { "zero_optimization.overlap_comm=true" }, no_overlap12, "Reductions overlap with backward; one more bucket." },
  { { "training.omp_threads=0" }, few_threads, "CPU Adam uses the cores (OMP_NUM_THREADS; torchrun sets it to 1)." },
};

typedef struct {
  const ZsScenarioSource *source;
  ZsSuggestions *suggestions;
} Study;

/* Simulate the scenario with SETS on top; false if it cannot be (settings that contradict). */
static bool
try_change (Study *study, const char *const *sets, const char *reason, ZsChange *ret_change)
{
  g_autoptr (GPtrArray) all = g_ptr_array_new ();
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (ZsErrors) errors = zs_errors_new ();

  for (const char *const *set = study->source->sets; set != NULL && *set != NULL; set++)
    g_ptr_array_add (all, (gpointer) *set);
  for (int i = 0; i < MAX_SETS && sets[i] != NULL; i++) {
    const char *shown = g_str_has_prefix (sets[i], "zero_optimization.")
                          ? sets[i] + strlen ("zero_optimization.") : sets[i];

    if (g_str_has_prefix (shown, "training."))
      shown += strlen ("training.");
    g_ptr_array_add (all, (gpointer) sets[i]);
    g_string_append_printf (text, "%s%s", i > 0 ? ", " : "", shown);
  }
  g_ptr_array_add (all, NULL);

  g_autoptr (ZsScenario) scenario
      = zs_scenario_load (study->source->path, study->source->flags,
                          (const char *const *) all->pdata, study->source->catalogue, errors);

  if (scenario == NULL)
    return false;
  g_autoptr (ZsResult) result = zs_scenario_run (scenario, NULL, NULL);

  if (result == NULL)
    return false;
  study->suggestions->n_tried++;
  *ret_change = (ZsChange) {
    .change = g_string_free (g_steal_pointer (&text), FALSE),
    .reason = g_strdup (reason),
    .outcome = result->outcome,
    .peak_allocated_bytes = result->peak_allocated_bytes,
    .peak_reserved_bytes = result->peak_reserved_bytes,
    .peak_device_bytes = result->peak_device_bytes,
    .host_bytes = result->host_pinned_peak_bytes + result->host_pageable_peak_bytes,
    .step_time = result->step_time_ps,
    .tokens_per_second_per_gpu = result->tokens_per_second_per_gpu,
  };
  return true;
}

/* Tries the changes of TABLE that apply, and keeps those that fit and are faster than BETTER_THAN. */
static void
try_table (Study *study, const Change *table, size_t n, const ZsScenario *scenario,
           double better_than)
{
  for (size_t i = 0; i < n; i++) {
    ZsChange change;

    if (!table[i].applies (scenario)
        || !try_change (study, table[i].sets, table[i].reason, &change))
      continue;
    if (change.outcome == ZS_OUTCOME_OK && change.tokens_per_second_per_gpu > better_than)
      g_array_append_val (study->suggestions->changes, change);
    else
      zs_change_clear (&change);
  }
}

/* A larger micro-batch with the same number of sequences per step, if accumulation allows. */
static void
try_larger_micro_batch (Study *study, const ZsScenario *scenario, double better_than)
{
  int64_t batch = scenario->training.step.micro_batch;
  int accumulation = scenario->training.gradient_accumulation;

  for (int factor = 2; factor <= 16 && accumulation % factor == 0; factor *= 2) {
    g_autofree char *micro
        = g_strdup_printf ("training.micro_batch=%" G_GINT64_FORMAT, batch * factor);
    g_autofree char *steps
        = g_strdup_printf ("training.gradient_accumulation=%d", accumulation / factor);
    const char *sets[MAX_SETS] = { micro, steps };
    ZsChange change;

    if (!try_change (study, sets, "Fewer, larger micro-steps for the same global batch.", &change))
      return;
    if (change.outcome != ZS_OUTCOME_OK) {
      zs_change_clear (&change);
      return;
    }
    if (change.tokens_per_second_per_gpu > better_than)
      g_array_append_val (study->suggestions->changes, change);
    else
      zs_change_clear (&change);
  }
}

static int
compare_changes (const void *a, const void *b)
{
  const ZsChange *x = a, *y = b;

  return (x->tokens_per_second_per_gpu < y->tokens_per_second_per_gpu)
         - (x->tokens_per_second_per_gpu > y->tokens_per_second_per_gpu);
}

static void
clear_change (gpointer change)
{
  zs_change_clear (change);
}

ZsSuggestions *
zs_suggest (const ZsScenarioSource *source, const ZsScenario *scenario, const ZsResult *result)
{
  ZsSuggestions *suggestions = g_new0 (ZsSuggestions, 1);
  Study study = { .source = source, .suggestions = suggestions };
  GArray *changes = suggestions->changes = g_array_new (FALSE, FALSE, sizeof (ZsChange));

  g_array_set_clear_func (changes, clear_change);
  if (result->outcome == ZS_OUTCOME_OK) {
    double better_than = result->tokens_per_second_per_gpu * WORTH_SHOWING;

    try_table (&study, FASTER, G_N_ELEMENTS (FASTER), scenario, better_than);
    try_larger_micro_batch (&study, scenario, better_than);
  } else {
    try_table (&study, SMALLER, G_N_ELEMENTS (SMALLER), scenario, -1);
    if (changes->len == 0)
      try_table (&study, SMALLER_TOGETHER, G_N_ELEMENTS (SMALLER_TOGETHER), scenario, -1);
  }
  qsort (changes->data, changes->len, sizeof (ZsChange), compare_changes);
  int n_found = (int) changes->len;

  if (changes->len > MAX_SHOWN)
    g_array_set_size (changes, MAX_SHOWN);
  if (suggestions->n_tried == 0)
    suggestions->said = NULL;
  else if (n_found == 0 && result->outcome == ZS_OUTCOME_OK)
    suggestions->said = g_strdup_printf ("None of %d changes tried fits and is faster by 2 %% or more.",
                                         suggestions->n_tried);
  else if (n_found == 0)
    suggestions->said = g_strdup_printf (
        "None of %d changes tried makes it fit: it needs more or larger GPUs, a smaller model, a "
        "shorter sequence or adapters (--lora).", suggestions->n_tried);
  else
    suggestions->said = g_strdup_printf ("(each simulated; %d of %d changes tried %s; fastest first)",
                                         n_found, suggestions->n_tried,
                                         result->outcome == ZS_OUTCOME_OK ? "are faster and fit" : "fit");
  return suggestions;
}

/* More than any GPU has; the run is the same but for what asks how much memory is free. */
#define ROOM "cluster.gpu_memory=400 GiB"

int64_t
zs_needed_bytes (const ZsScenarioSource *source)
{
  g_autoptr (GPtrArray) all = g_ptr_array_new ();
  g_autoptr (ZsErrors) errors = zs_errors_new ();

  for (const char *const *set = source->sets; set != NULL && *set != NULL; set++)
    g_ptr_array_add (all, (gpointer) *set);
  g_ptr_array_add (all, (gpointer) ROOM);
  g_ptr_array_add (all, (gpointer) "training.memory_limit=null");
  g_ptr_array_add (all, NULL);
  g_autoptr (ZsScenario) scenario = zs_scenario_load (
      source->path, source->flags, (const char *const *) all->pdata, source->catalogue, errors);

  if (scenario == NULL)
    return 0;
  g_autoptr (ZsResult) result = zs_scenario_run (scenario, NULL, NULL);

  return result != NULL && result->outcome != ZS_OUTCOME_OOM ? result->peak_device_bytes : 0;
}

void
zs_suggestions_free (ZsSuggestions *suggestions)
{
  if (suggestions == NULL)
    return;
  g_array_unref (suggestions->changes);
  g_free (suggestions->said);
  g_free (suggestions);
}
