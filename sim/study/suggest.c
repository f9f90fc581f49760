/* suggest.c: tries the changes of suggest-changes.c.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/suggest.h"

#include <string.h>

#include "sim/scenario/simulate.h"
#include "sim/study/base.h"
#include "sim/study/parallel.h"
#include "sim/study/suggest-changes.h"

#define MAX_SHOWN   4
#define WORTH_SHOWING 1.02     /* a gain of less than 2 % is within the model's noise */

typedef struct {
  ZsBase        *base;
  ZsSuggestions *suggestions;
  GHashTable    *tried;    /* settings, joined: none is tried twice */
  bool           last_resort;
} Study;

/* A change that is being tried. */
typedef struct {
  char      **sets;      /* NULL at the end; the try's own, as is the reason */
  char       *reason;
  size_t      row;              /* of its table: of those with the same, the best is kept */
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

  for (int i = 0; sets[i] != NULL; i++) {
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
  const char *const *sets = (const char *const *) try->sets;
  g_autoptr (ZsResult) result = zs_base_run (trying->study->base, sets, NULL, NULL, NULL);

  if (result == NULL)
    return try;
  try->run = true;
  try->change = (ZsChange) {
    .change = describe_sets (sets),
    .sets = g_strdupv (try->sets),
    .reason = g_strconcat (try->reason, try->swaps_optimizer ? " The optimizer becomes AdamW." : "", NULL),
    .outcome = result->outcome,
    .peak_allocated_bytes = result->peak_allocated_bytes,
    .peak_reserved_bytes = result->peak_reserved_bytes,
    .peak_device_bytes = result->peak_device_bytes,
    .tight = zs_is_tight (result->peak_device_bytes, result->gpu_memory_bytes),
    .other = trying->study->last_resort,
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

static void
clear_try (gpointer data)
{
  Try *try = data;

  g_strfreev (try->sets);
  g_free (try->reason);
}

static GArray *
new_tries (void)
{
  GArray *tries = g_array_new (FALSE, TRUE, sizeof (Try));

  g_array_set_clear_func (tries, clear_try);
  return tries;
}

/* Takes SETS and REASON. */
static void
add_try (Study *study, GArray *tries, char **sets, char *reason, size_t row, bool swaps_optimizer)
{
  Try try = { .sets = sets, .reason = reason, .row = row, .swaps_optimizer = swaps_optimizer };

  if (sets[0] != NULL && g_hash_table_add (study->tried, g_strjoinv (",", sets)))
    g_array_append_val (tries, try);
  else
    clear_try (&try);
}

/* Those that leave room first, then those that keep the method and the GPUs, then by speed. */
static int
compare_changes (const void *a, const void *b)
{
  const ZsChange *x = a, *y = b;

  if (x->tight != y->tight)
    return x->tight - y->tight;
  if (x->other != y->other)
    return x->other - y->other;
  return (x->tokens_per_second_per_gpu < y->tokens_per_second_per_gpu)
         - (x->tokens_per_second_per_gpu > y->tokens_per_second_per_gpu);
}

/* Runs TRIES on all cores, and keeps those that fit and are faster than BETTER_THAN. */
static void
run_tries (Study *study, GArray *tries, double better_than)
{
  Trying trying = { .study = study, .tries = tries };
  ZsParallel parallel = { .task = run_try, .done = take_try, .self = &trying };

  GArray *changes = study->suggestions->changes;
  const Try *kept = NULL;

  zs_parallel_run (&parallel, tries->len, 0);
  for (guint i = 0; i < tries->len; i++) {
    Try *try = &g_array_index (tries, Try, i);
    bool found = try->run && try->change.outcome == ZS_OUTCOME_OK
                 && try->change.tokens_per_second_per_gpu > better_than;
    bool again = found && kept != NULL && kept->row == try->row;

    study->suggestions->n_tried += try->run;
    if (again && compare_changes (&try->change, &kept->change) < 0)
      g_array_remove_index (changes, changes->len - 1);
    else if (again || (try->run && !found))
      zs_change_clear (&try->change);
    if (try->run && try->change.change != NULL) {
      g_array_append_val (changes, try->change);
      kept = try;
    }
  }
}

static bool
names_threads (char **sets)
{
  for (; *sets != NULL; sets++)
    if (g_str_has_prefix (*sets, "training.omp_threads="))
      return true;
  return false;
}

/* Tries the changes of TABLE that apply. */
static void
try_table (Study *study, ZsSuggestTable table, const ZsScenario *scenario, double better_than)
{
  g_autoptr (GArray) tries = new_tries ();
  size_t n;
  const ZsSuggestChange *changes = zs_suggest_table (table, &n);

  study->last_resort = table == ZS_SUGGEST_LAST_RESORT;
  for (size_t i = 0; i < n; i++) {
    /* AdamW is the only one that is simulated under DeepSpeed */
    bool swaps_optimizer = scenario->training.step.optimizer > ZS_OPTIMIZER_FOR_LOOP
                           && strcmp (changes[i].sets[0], "training.framework=deepspeed") == 0;

    if (!changes[i].applies (scenario))
      continue;
    int64_t batch = scenario->training.step.micro_batch;

    do {
      batch = batch % 2 == 0 ? batch / 2 : 1;
      char **sets = zs_suggest_sets (&changes[i], scenario, batch);

      add_try (study, tries, sets,
               g_strconcat (changes[i].reason, names_threads (sets) ? " OMP_NUM_THREADS gives it the cores." : "", NULL),
               i, swaps_optimizer);
    } while (batch > 1);
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
  g_autoptr (GArray) tries = new_tries ();
  char **sets = g_new0 (char *, 2);

  if (few_threads (scenario))
    sets[0] = g_strdup_printf ("training.omp_threads=%d",
                               (int) (scenario->cluster.host.cores / MAX (scenario->cluster.gpus_per_node, 1)));
  add_try (study, tries, sets,
           g_strdup ("CPU Adam uses the cores (OMP_NUM_THREADS; torchrun sets it to 1)."), 0, false);
  run_tries (study, tries, better_than);
}

static bool
leaves_room (const GArray *changes)
{
  for (guint i = 0; i < changes->len; i++)
    if (!g_array_index (changes, ZsChange, i).tight)
      return true;
  return false;
}

/* Does X set all that Y sets, and more? */
static bool
sets_more (const ZsChange *x, const ZsChange *y)
{
  for (char **set = y->sets; *set != NULL; set++)
    if (!g_strv_contains ((const char *const *) x->sets, *set))
      return false;
  return g_strv_length (x->sets) > g_strv_length (y->sets);
}

/* A part of a change that is as good without the rest stands for it. */
static void
drop_idle (GArray *changes)
{
  for (guint i = changes->len; i-- > 0; )
    for (guint j = 0; j < changes->len; j++) {
      const ZsChange *x = &g_array_index (changes, ZsChange, i), *y = &g_array_index (changes, ZsChange, j);

      if (sets_more (x, y) && y->tight <= x->tight
          && x->tokens_per_second_per_gpu < y->tokens_per_second_per_gpu * WORTH_SHOWING) {
        g_array_remove_index (changes, i);
        break;
      }
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
  g_autoptr (GArray) tries = new_tries ();

  for (int factor = 2; factor <= 16 && (!same || accumulation % factor == 0); factor *= 2) {
    char *reason = same
                     ? g_strdup ("Fewer, larger micro-steps for the same global batch.")
                     : g_strdup_printf ("The global batch grows from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT
                                        " sequences: learning rate and schedule are to follow.",
                                        batch * accumulation * scenario->training.world,
                                        factor * batch * accumulation * scenario->training.world);
    char **sets = g_new0 (char *, 3);

    sets[0] = g_strdup_printf ("training.micro_batch=%" G_GINT64_FORMAT, batch * factor);
    if (same)
      sets[1] = g_strdup_printf ("training.gradient_accumulation=%d", accumulation / factor);
    add_try (study, tries, sets, reason, same ? (size_t) factor : 0, false);
  }
  run_tries (study, tries, better_than);
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
  g_autoptr (GHashTable) tried = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  Study study = { .base = base, .suggestions = suggestions, .tried = tried };
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
         table <= ZS_SUGGEST_LAST_RESORT && !leaves_room (changes); table++)
      try_table (&study, table, scenario, -1);
  }
  if (changes->len > 1)
    qsort (changes->data, changes->len, sizeof (ZsChange), compare_changes);
  int n_found = (int) changes->len;

  drop_idle (changes);

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
