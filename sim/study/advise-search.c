/* advise-search.c: which candidates are run.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/study/advise-internal.h"
#include "sim/study/parallel.h"

/* Instructions that a search of the whole space may take: about ten seconds of two cores. */
#define WHOLE_SPACE_INSTRUCTIONS INT64_C (400000000)
#define LEAST_INSTRUCTIONS       20000       /* taken for a run that stopped early */
#define MAX_WHOLE_SPACE          200000
#define MIN_STARTS  4       /* structures from which tuning starts: these, */
#define MAX_STARTS 12
#define NEAR_START 0.9      /* and those that are not much slower than the best so far */
#define MAX_ROUNDS  8

typedef struct {
  ZsAdvice   *advice;
  GHashTable *known;        /* choice as text to place in trials + 1 */
  GArray     *wanted;       /* ZsTrial: choices that are to be run */
  int         n_done, n_all;
} Search;

/* ---- running candidates ---- */

static gpointer
run_task (void *self, int64_t index)
{
  Search *search = self;
  ZsAdvice *advice = search->advice;
  const ZsAdviseOptions *options = &advice->options;
  ZsTrial *trial = &g_array_index (search->wanted, ZsTrial, index);
  g_auto (GStrv) sets = zs_space_sets (advice->space, trial->choice);
  g_autoptr (ZsResult) result
      = zs_base_run (advice->base, (const char *const *) sets, NULL, NULL, NULL);

  if (result == NULL)
    return trial;
  trial->valid = true;
  trial->outcome = result->outcome;
  trial->stopped = result->outcome == ZS_OUTCOME_OOM ? result->oom.step * 16 + (int) result->oom.phase : 1 << 20;
  trial->peak_device_bytes = result->peak_device_bytes;
  trial->host_bytes = result->host_pinned_peak_bytes + result->host_pageable_peak_bytes;
  trial->n_instructions = result->n_instructions;
  trial->n_ranks = result->n_ranks;
  trial->gpu_memory_bytes = result->gpu_memory_bytes;
  trial->fits = result->outcome == ZS_OUTCOME_OK
                && (options->host_memory_limit == 0 || trial->host_bytes <= options->host_memory_limit)
                && (options->gpu_memory_limit == 0
                    || trial->peak_device_bytes <= options->gpu_memory_limit)
                && (options->step_time_limit == 0 || result->step_time_ps <= options->step_time_limit);
  trial->room_bytes = MAX (0, result->gpu_memory_bytes - result->peak_device_bytes);
  trial->thin = zs_is_tight (result->peak_device_bytes, result->gpu_memory_bytes);
  if (result->limit_bytes > 0) {
    trial->room_bytes = MIN (trial->room_bytes, MAX (0, result->limit_bytes - result->peak_reserved_bytes));
    trial->thin |= zs_is_tight (result->peak_reserved_bytes, result->limit_bytes);
  }
  if (result->outcome == ZS_OUTCOME_OK) {
    trial->step_time = result->step_time_ps;
    trial->tokens_per_second_per_gpu = result->tokens_per_second_per_gpu;
  }
  return trial;
}

static bool
take_task (void *self, gpointer result)
{
  Search *search = self;
  const ZsAdviseOptions *options = &search->advice->options;

  search->n_done += result != NULL;
  if (options->progress != NULL)
    options->progress (options->self, search->n_done, search->n_all);
  return true;
}

static char *
key_of (const ZsSpace *space, const int *choice)
{
  char *key = g_malloc ((gsize) space->n + 1);

  for (int i = 0; i < space->n; i++)
    key[i] = (char) ('A' + choice[i]);
  key[space->n] = '\0';
  return key;
}

/* The trial of CHOICE, if it has been run. */
static const ZsTrial *
find_trial (const Search *search, const int *choice)
{
  g_autofree char *key = key_of (search->advice->space, choice);
  int place = GPOINTER_TO_INT (g_hash_table_lookup (search->known, key));

  return place > 0 ? zs_advice_trial (search->advice, place - 1) : NULL;
}

/* CHOICE is run with the next batch, if it makes sense and is new. */
static void
want (Search *search, const int *choice)
{
  const ZsSpace *space = search->advice->space;
  char *key = key_of (space, choice);
  ZsTrial trial = { .n_changes = zs_space_changes (space, choice) };

  if (!zs_space_sensible (space, choice) || g_hash_table_contains (search->known, key)) {
    g_free (key);
    return;
  }
  memcpy (trial.choice, choice, sizeof trial.choice);
  g_array_append_val (search->wanted, trial);
  g_hash_table_insert (search->known, key,
                       GINT_TO_POINTER ((int) (search->advice->trials->len + search->wanted->len)));
}

/* False: it was stopped. */
static bool
run_wanted (Search *search)
{
  ZsParallel parallel = { .task = run_task, .done = take_task, .self = search,
                          .stop = search->advice->options.stop };

  search->n_all = search->n_done + (int) search->wanted->len;
  bool all = zs_parallel_run (&parallel, search->wanted->len, search->advice->options.jobs);

  g_array_append_vals (search->advice->trials, search->wanted->data, search->wanted->len);
  g_array_set_size (search->wanted, 0);
  return all;
}

/* ---- the whole space ---- */

/* The next choice in the order of the dimensions; false after the last.  KIND: only those dimensions; -1: all. */
static bool
next_choice (const ZsSpace *space, int *choice, int kind)
{
  for (int i = space->n - 1; i >= 0; i--) {
    if (kind >= 0 && (int) space->dimensions[i].kind != kind)
      continue;
    if (++choice[i] < space->dimensions[i].n_values)
      return true;
    choice[i] = 0;
  }
  return false;
}

static int64_t
count_sensible (const ZsSpace *space, int64_t limit)
{
  int choice[ZS_SPACE_MAX_DIMENSIONS] = { 0 };
  int64_t n = 0, looked_at = 0;

  do
    n += zs_space_sensible (space, choice);
  while (n <= limit && looked_at++ < 20 * limit && next_choice (space, choice, -1));
  return looked_at >= 20 * limit ? limit + 1 : n;
}

static bool
search_all (Search *search)
{
  int choice[ZS_SPACE_MAX_DIMENSIONS] = { 0 };

  do
    want (search, choice);
  while (next_choice (search->advice->space, choice, -1));
  return run_wanted (search);
}

/* ---- the two parts ---- */

static int
find_dimension (const ZsSpace *space, const char *name)
{
  for (int i = 0; i < space->n; i++)
    if (strcmp (space->dimensions[i].name, name) == 0)
      return i;
  return -1;
}

/* A smaller micro-batch, all else equal, has run out of memory: this one would too.  Not where that one
 * accumulates and this does not: whole gradients may wait between micro-steps. */
static bool
is_hopeless (const Search *search, const int *choice, int batch)
{
  const ZsDimension *dimension = &search->advice->space->dimensions[batch];
  const ZsSpaceValue *value = &dimension->values[choice[batch]];
  int smaller[ZS_SPACE_MAX_DIMENSIONS];

  memcpy (smaller, choice, sizeof smaller);
  for (int i = 0; i < dimension->n_values; i++) {
    if (dimension->values[i].micro >= value->micro || dimension->values[i].gpus != value->gpus
        || dimension->values[i].accumulates != value->accumulates)
      continue;
    smaller[batch] = i;
    const ZsTrial *trial = find_trial (search, smaller);

    if (trial != NULL && trial->valid && trial->outcome == ZS_OUTCOME_OOM)
      return true;
  }
  return false;
}

/* All structures, the small micro-batches first. */
static bool
search_structures (Search *search)
{
  const ZsSpace *space = search->advice->space;
  int batch = find_dimension (space, "batch");

  for (int64_t micro = 1;; micro *= 2) {
    int choice[ZS_SPACE_MAX_DIMENSIONS] = { 0 };
    bool larger = false;

    do {
      if (batch < 0) {
        want (search, choice);
        continue;
      }
      int64_t here = space->dimensions[batch].values[choice[batch]].micro;

      larger |= here > micro;
      if (here <= micro && !is_hopeless (search, choice, batch))
        want (search, choice);
    } while (next_choice (space, choice, ZS_DIMENSION_STRUCTURE));
    if (!run_wanted (search))
      return false;
    if (!larger)
      return true;
  }
}

/* FROM with each value of each tuning dimension, SETTINGS of them at a time. */
static void
want_around (Search *search, const int *from, int settings)
{
  const ZsSpace *space = search->advice->space;
  int choice[ZS_SPACE_MAX_DIMENSIONS];

  for (int i = 0; i < space->n; i++)
    for (int j = 0; space->dimensions[i].kind == ZS_DIMENSION_TUNING && j < space->dimensions[i].n_values;
         j++) {
      memcpy (choice, from, sizeof choice);
      choice[i] = j;
      if (settings > 1)
        want_around (search, choice, settings - 1);
      else
        want (search, choice);
    }
}

/* All that is better alone, together. */
static void
want_together (Search *search, const ZsTrial *from)
{
  const ZsSpace *space = search->advice->space;
  int choice[ZS_SPACE_MAX_DIMENSIONS], together[ZS_SPACE_MAX_DIMENSIONS];

  memcpy (together, from->choice, sizeof together);
  for (int i = 0; i < space->n; i++) {
    const ZsTrial *best = from;

    for (int j = 0; space->dimensions[i].kind == ZS_DIMENSION_TUNING && j < space->dimensions[i].n_values;
         j++) {
      memcpy (choice, from->choice, sizeof choice);
      choice[i] = j;
      const ZsTrial *trial = find_trial (search, choice);

      if (trial != NULL && zs_trial_better (trial, best, search->advice->options.objective))
        best = trial;
    }
    together[i] = best->choice[i];
  }
  want (search, together);
}

/* The best trial of the structure of FROM. */
static ZsTrial
best_of_structure (const Search *search, const ZsTrial *from)
{
  const ZsAdvice *advice = search->advice;
  const ZsSpace *space = advice->space;
  const ZsTrial *best = from;

  for (guint i = 0; i < advice->trials->len; i++) {
    const ZsTrial *trial = zs_advice_trial (advice, (int) i);
    bool same = true;

    for (int j = 0; j < space->n; j++)
      same &= space->dimensions[j].kind != ZS_DIMENSION_STRUCTURE || trial->choice[j] == from->choice[j];
    if (same && zs_trial_better (trial, best, advice->options.objective))
      best = trial;
  }
  return *best;
}

static bool
same_choice (const ZsTrial *a, const ZsTrial *b)
{
  return memcmp (a->choice, b->choice, sizeof a->choice) == 0;
}

/* From START uphill, one setting or all good ones at a time. */
static bool
tune (Search *search, ZsTrial start, ZsTrial *ret_end)
{
  for (int round = 0; round < MAX_ROUNDS; round++) {
    want_around (search, start.choice, 1);
    if (!run_wanted (search))
      return false;
    want_together (search, &start);
    if (!run_wanted (search))
      return false;
    ZsTrial best = best_of_structure (search, &start);

    if (same_choice (&best, &start))
      break;
    start = best;
  }
  *ret_end = start;
  return true;
}

static bool
is_near (const ZsTrial *trial, const ZsTrial *best)
{
  return trial->fits && trial->tokens_per_second_per_gpu >= NEAR_START * best->tokens_per_second_per_gpu;
}

/* All trials, best first.  Without ROOM, as if a fit by a hair were as good as any. */
static GArray *
order_trials (const Search *search, bool room)
{
  const ZsAdvice *advice = search->advice;
  GArray *order = g_array_new (FALSE, FALSE, sizeof (ZsTrial));

  for (guint i = 0; i < advice->trials->len; i++) {
    guint place = order->len;
    ZsTrial trial = *zs_advice_trial (advice, (int) i);

    trial.thin &= room;
    while (place > 0 && zs_trial_better (&trial, &g_array_index (order, ZsTrial, place - 1),
                                         advice->options.objective))
      place--;
    g_array_insert_val (order, place, trial);
  }
  return order;
}

/* The best structures, each tuned.  *END becomes the best of them all. */
static bool
tune_starts (Search *search, bool room, ZsTrial *end)
{
  ZsObjective objective = search->advice->options.objective;
  g_autoptr (GArray) order = order_trials (search, room);

  for (guint i = 0; i < MIN (order->len, MAX_STARTS); i++) {
    ZsTrial start = g_array_index (order, ZsTrial, i), tuned;

    if (i >= MIN_STARTS && !is_near (&start, end))
      break;
    start.thin = find_trial (search, start.choice)->thin;
    if (!tune (search, start, &tuned))
      return false;
    if (zs_trial_better (&tuned, end, objective))
      *end = tuned;
  }
  return true;
}

/* The best structures, each tuned, also those that a setting may give room; then the best of all in pairs
 * of settings too. */
static bool
search_tuning (Search *search)
{
  ZsTrial end = *zs_advice_trial (search->advice, 0);

  if (!tune_starts (search, true, &end) || !tune_starts (search, false, &end))
    return false;
  for (int round = 0; round < 2; round++) {
    ZsTrial before = end;

    want_around (search, end.choice, 2);
    if (!run_wanted (search) || !tune (search, best_of_structure (search, &end), &end))
      return false;
    if (same_choice (&before, &end))
      break;
  }
  return true;
}

/* One change alone; and, if no two help, a structure with a setting. */
static bool
search_smallest (Search *search)
{
  ZsAdvice *advice = search->advice;
  int least = G_MAXINT;

  want_around (search, zs_advice_trial (advice, 0)->choice, 1);
  if (!run_wanted (search))
    return false;
  for (guint i = 0; i < advice->trials->len; i++)
    if (zs_trial_has_room (zs_advice_trial (advice, (int) i)))
      least = MIN (least, zs_advice_trial (advice, (int) i)->n_changes);
  if (least <= 2)
    return true;
  for (guint i = 0, n = advice->trials->len; i < n; i++)
    if (zs_advice_trial (advice, (int) i)->n_changes == 1) {
      ZsTrial trial = *zs_advice_trial (advice, (int) i);

      want_around (search, trial.choice, 1);
    }
  return run_wanted (search);
}

/* Instructions of a run, by those of all structures: the job as it is may end after a few. */
static int64_t
usual_instructions (const ZsAdvice *advice)
{
  int64_t all = 0, n = 0;

  for (guint i = 0; i < advice->trials->len; i++) {
    all += zs_advice_trial (advice, (int) i)->n_instructions;
    n += zs_advice_trial (advice, (int) i)->valid;
  }
  return MAX (all / MAX (n, 1), LEAST_INSTRUCTIONS);
}

static bool
run_search (Search *search)
{
  ZsAdvice *advice = search->advice;
  int choice[ZS_SPACE_MAX_DIMENSIONS] = { 0 };

  want (search, choice);
  if (!run_wanted (search) || !search_structures (search))
    return false;
  int64_t limit = advice->options.exhaustive ? MAX_WHOLE_SPACE
                                             : WHOLE_SPACE_INSTRUCTIONS / usual_instructions (advice);

  if (!advice->options.two_parts && count_sensible (advice->space, limit) <= limit)
    return search_all (search);
  return search_smallest (search) && search_tuning (search);
}

bool
zs_advise_search (ZsAdvice *advice)
{
  Search search = { .advice = advice };

  search.known = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  search.wanted = g_array_new (FALSE, TRUE, sizeof (ZsTrial));
  bool complete = run_search (&search);

  g_hash_table_unref (search.known);
  g_array_unref (search.wanted);
  return complete;
}
