/* suggest.c: tries the changes of suggest-changes.c.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/suggest.h"

#include <string.h>

#include "sim/scenario/simulate.h"
#include "sim/study/base.h"
#include "sim/study/parallel.h"
#include "sim/study/suggest-changes.h"

#define MAX_SHOWN   3
#define WORTH_SHOWING 1.02     /* a gain of less than 2 % is within the model's noise */

typedef struct {
  ZsBase        *base;
  ZsSuggestions *suggestions;
} Study;

/* A change that is being tried. */
typedef struct {
  const char *const *sets;      /* at most ZS_SUGGEST_MAX_SETS, NULL-terminated if fewer */
  const char *reason;
  bool        run;              /* it could be: its settings do not contradict each other */
  ZsChange    change;
  bool swaps_optimizer;   /* AdamW is run instead of the scenario's */
} Try;

typedef struct {
  Study  *study;
  GArray *tries;
} Trying;

static char *
describe_sets (const char *const *sets)
{
  GString *text = g_string_new (NULL);

  for (int i = 0; i < ZS_SUGGEST_MAX_SETS && sets[i] != NULL; i++) {
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
  const char *sets[ZS_SUGGEST_MAX_SETS + 1] = { NULL };

  for (int i = 0; i < ZS_SUGGEST_MAX_SETS && try->sets[i] != NULL; i++)
    sets[i] = try->sets[i];
  g_autoptr (ZsResult) result = zs_base_run (trying->study->base, sets, NULL, NULL, NULL);

  if (result == NULL)
    return try;
  try->run = true;
  try->change = (ZsChange) {
    .change = describe_sets (try->sets),
    .reason = g_strconcat (try->reason, try->swaps_optimizer ? " The optimizer becomes AdamW." : "", NULL),
    .outcome = result->outcome,
    .peak_allocated_bytes = result->peak_allocated_bytes,
    .peak_reserved_bytes = result->peak_reserved_bytes,
    .peak_device_bytes = result->peak_device_bytes,
    .tight = zs_is_tight (result->peak_device_bytes, result->gpu_memory_bytes),
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
try_table (Study *study, ZsSuggestTable table, const ZsScenario *scenario, double better_than)
{
  g_autoptr (GArray) tries = g_array_new (FALSE, TRUE, sizeof (Try));
  size_t n;
  const ZsSuggestChange *changes = zs_suggest_table (table, &n);

  for (size_t i = 0; i < n; i++) {
    Try try = { .sets = changes[i].sets, .reason = changes[i].reason };

    /* the only one that is simulated under DeepSpeed */
    try.swaps_optimizer = scenario->training.step.optimizer > ZS_OPTIMIZER_FOR_LOOP
                          && strcmp (try.sets[0], "training.framework=deepspeed") == 0;
    if (changes[i].applies (scenario))
      g_array_append_val (tries, try);
  }
  run_tries (study, tries, better_than);
}

static bool
few_threads (const ZsScenario *s)
{
  return s->training.framework == ZS_FRAMEWORK_DEEPSPEED
         && s->training.zero.offload_optimizer != ZS_DEVICE_NONE
         && s->cluster.host.omp_threads == 1
         && s->cluster.host.cores > 2 * s->cluster.gpus_per_node;
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

/* Those that leave room first, then by speed. */
static int
compare_changes (const void *a, const void *b)
{
  const ZsChange *x = a, *y = b;

  if (x->tight != y->tight)
    return x->tight - y->tight;
  return (x->tokens_per_second_per_gpu < y->tokens_per_second_per_gpu)
         - (x->tokens_per_second_per_gpu > y->tokens_per_second_per_gpu);
}

/* Of CHANGES from FIRST on. */
static void
keep_fastest (GArray *changes, guint first)
{
  for (guint n = changes->len; n > first + 1; n = changes->len) {
    bool last = compare_changes (&g_array_index (changes, ZsChange, n - 1),
                                 &g_array_index (changes, ZsChange, first)) < 0;

    g_array_remove_index (changes, last ? first : n - 1);
  }
}

/* A larger micro-batch: with the same number of sequences per step if accumulation allows, otherwise
 * with more of them, of which only the best is kept, for it changes the training. */
static void
try_larger_micro_batch (Study *study, const ZsScenario *scenario, double better_than)
{
  int64_t batch = scenario->training.step.micro_batch;
  int accumulation = scenario->training.gradient_accumulation;
  bool same = accumulation % 2 == 0;
  g_autoptr (GArray) tries = g_array_new (FALSE, TRUE, sizeof (Try));
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  const char *sets[4][3] = { { NULL } };

  for (int n = 0, factor = 2; factor <= 16 && (!same || accumulation % factor == 0); n++, factor *= 2) {
    char *reason = same
                     ? g_strdup ("Fewer, larger micro-steps for the same global batch.")
                     : g_strdup_printf ("The global batch grows from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT
                                        " sequences: learning rate and schedule are to follow.",
                                        batch * accumulation * scenario->training.world,
                                        factor * batch * accumulation * scenario->training.world);
    Try try = { .sets = sets[n], .reason = reason };

    g_ptr_array_add (texts, reason);
    sets[n][0] = g_strdup_printf ("training.micro_batch=%" G_GINT64_FORMAT, batch * factor);
    g_ptr_array_add (texts, (gpointer) sets[n][0]);
    if (same) {
      sets[n][1] = g_strdup_printf ("training.gradient_accumulation=%d", accumulation / factor);
      g_ptr_array_add (texts, (gpointer) sets[n][1]);
    }
    g_array_append_val (tries, try);
  }
  guint before = study->suggestions->changes->len;

  run_tries (study, tries, better_than);
  if (!same)
    keep_fastest (study->suggestions->changes, before);
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

    try_table (&study, ZS_SUGGEST_FASTER, scenario, better_than);
    try_threads (&study, scenario, better_than);
    try_larger_micro_batch (&study, scenario, better_than);
  } else {
    for (ZsSuggestTable table = ZS_SUGGEST_SMALLER;
         table <= ZS_SUGGEST_LAST_RESORT && changes->len == 0; table++)
      try_table (&study, table, scenario, -1);
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
        "None of %d changes tried%s makes it fit: it needs more or larger GPUs, a smaller model or a "
        "shorter sequence.", suggestions->n_tried,
        scenario->training.step.lora.rank == 0 ? ", adapters (LoRA) among them," : "");
  else
    suggestions->said = g_strdup_printf ("(each simulated; %d of %d changes tried %s; best first)",
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
