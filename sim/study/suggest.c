/* suggest.c: tries a table of changes.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/suggest.h"

#include <string.h>

#include "sim/scenario/simulate.h"
#include "sim/study/base.h"
#include "sim/study/parallel.h"

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
};

typedef struct {
  ZsBase        *base;
  ZsSuggestions *suggestions;
} Study;

/* A change that is being tried. */
typedef struct {
  const char *const *sets;      /* at most MAX_SETS, NULL-terminated if fewer */
  const char *reason;
  bool        run;              /* it could be: its settings do not contradict each other */
  ZsChange    change;
} Try;

typedef struct {
  Study  *study;
  GArray *tries;
} Trying;

static char *
describe_sets (const char *const *sets)
{
  GString *text = g_string_new (NULL);

  for (int i = 0; i < MAX_SETS && sets[i] != NULL; i++) {
    const char *shown = g_str_has_prefix (sets[i], "zero_optimization.")
                          ? sets[i] + strlen ("zero_optimization.") : sets[i];

    if (g_str_has_prefix (shown, "training."))
      shown += strlen ("training.");
    g_string_append_printf (text, "%s%s", i > 0 ? ", " : "", shown);
  }
  return g_string_free (text, FALSE);
}

static gpointer
run_try (void *self, int64_t index)
{
  Trying *trying = self;
  Try *try = &g_array_index (trying->tries, Try, index);
  const char *sets[MAX_SETS + 1] = { NULL };

  for (int i = 0; i < MAX_SETS && try->sets[i] != NULL; i++)
    sets[i] = try->sets[i];
  g_autoptr (ZsResult) result = zs_base_run (trying->study->base, sets, NULL, NULL, NULL);

  if (result == NULL)
    return try;
  try->run = true;
  try->change = (ZsChange) {
    .change = describe_sets (try->sets),
    .reason = g_strdup (try->reason),
    .outcome = result->outcome,
    .peak_allocated_bytes = result->peak_allocated_bytes,
    .peak_reserved_bytes = result->peak_reserved_bytes,
    .peak_device_bytes = result->peak_device_bytes,
    .host_bytes = result->host_pinned_peak_bytes + result->host_pageable_peak_bytes,
    .step_time = result->step_time_ps,
    .tokens_per_second_per_gpu = result->tokens_per_second_per_gpu,
  };
  return try;
}

static bool
take_try (void *self, gpointer result)
{
  (void) self;
  (void) result;
  return true;
}

/* Runs TRIES on all cores, and keeps those that fit and are faster than BETTER_THAN. */
static void
run_tries (Study *study, GArray *tries, double better_than)
{
  Trying trying = { .study = study, .tries = tries };
  ZsParallel parallel = { .task = run_try, .done = take_try, .self = &trying };

  zs_parallel_run (&parallel, tries->len, 0);
  for (guint i = 0; i < tries->len; i++) {
    Try *try = &g_array_index (tries, Try, i);

    study->suggestions->n_tried += try->run;
    if (try->run && try->change.outcome == ZS_OUTCOME_OK
        && try->change.tokens_per_second_per_gpu > better_than)
      g_array_append_val (study->suggestions->changes, try->change);
    else if (try->run)
      zs_change_clear (&try->change);
  }
}

/* Tries the changes of TABLE that apply. */
static void
try_table (Study *study, const Change *table, size_t n, const ZsScenario *scenario,
           double better_than)
{
  g_autoptr (GArray) tries = g_array_new (FALSE, TRUE, sizeof (Try));

  for (size_t i = 0; i < n; i++) {
    Try try = { .sets = table[i].sets, .reason = table[i].reason };

    if (table[i].applies (scenario))
      g_array_append_val (tries, try);
  }
  run_tries (study, tries, better_than);
}

/* CPU Adam on all cores. */
static void
try_threads (Study *study, const ZsScenario *scenario, double better_than)
{
  g_autoptr (GArray) tries = g_array_new (FALSE, TRUE, sizeof (Try));
  g_autofree char *threads
      = g_strdup_printf ("training.omp_threads=%d",
                         (int) (scenario->cluster.host.cores / MAX (scenario->cluster.gpus_per_node, 1)));
  const char *sets[] = { threads, NULL };
  Try try = { .sets = sets, .reason = "CPU Adam uses the cores (OMP_NUM_THREADS; torchrun sets it to 1)." };

  if (!few_threads (scenario))
    return;
  g_array_append_val (tries, try);
  run_tries (study, tries, better_than);
}

/* A larger micro-batch with the same number of sequences per step, if accumulation allows. */
static void
try_larger_micro_batch (Study *study, const ZsScenario *scenario, double better_than)
{
  int64_t batch = scenario->training.step.micro_batch;
  int accumulation = scenario->training.gradient_accumulation;
  g_autoptr (GArray) tries = g_array_new (FALSE, TRUE, sizeof (Try));
  char *texts[8][MAX_SETS] = { { NULL } };
  int n = 0;

  for (int factor = 2; factor <= 16 && accumulation % factor == 0; factor *= 2, n++) {
    Try try = { .sets = (const char *const *) texts[n],
                .reason = "Fewer, larger micro-steps for the same global batch." };

    texts[n][0] = g_strdup_printf ("training.micro_batch=%" G_GINT64_FORMAT, batch * factor);
    texts[n][1] = g_strdup_printf ("training.gradient_accumulation=%d", accumulation / factor);
    g_array_append_val (tries, try);
  }
  run_tries (study, tries, better_than);
  for (int i = 0; i < n; i++) {
    g_free (texts[i][0]);
    g_free (texts[i][1]);
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
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_autoptr (ZsBase) base
      = zs_base_new (source->path, source->flags, source->sets, source->catalogue, errors);
  Study study = { .base = base, .suggestions = suggestions };
  GArray *changes = suggestions->changes = g_array_new (FALSE, FALSE, sizeof (ZsChange));

  g_array_set_clear_func (changes, clear_change);
  if (base == NULL)      /* the file cannot be read a second time */
    return suggestions;
  if (result->outcome == ZS_OUTCOME_OK) {
    double better_than = result->tokens_per_second_per_gpu * WORTH_SHOWING;

    try_table (&study, FASTER, G_N_ELEMENTS (FASTER), scenario, better_than);
    try_threads (&study, scenario, better_than);
    try_larger_micro_batch (&study, scenario, better_than);
  } else {
    try_table (&study, SMALLER, G_N_ELEMENTS (SMALLER), scenario, -1);
    if (changes->len == 0)
      try_table (&study, SMALLER_TOGETHER, G_N_ELEMENTS (SMALLER_TOGETHER), scenario, -1);
  }
  if (changes->len > 1)
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
