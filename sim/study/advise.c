/* advise.c: which of the candidates that were run are the answers.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/advise-internal.h"

#define AS_FAST    0.98     /* within the noise of the model */
#define MOST_THIN  3

const ZsTrial *
zs_advice_trial (const ZsAdvice *advice, int index)
{
  return &g_array_index (advice->trials, ZsTrial, index);
}

double
zs_trial_cost (const ZsTrial *trial)
{
  return trial->tokens_per_second_per_gpu > 0
           ? 1e9 / trial->tokens_per_second_per_gpu / 3600 : G_MAXDOUBLE;
}

/* ---- which is better ---- */

static int
compare_numbers (double a, double b)
{
  return (a > b) - (a < b);
}

bool
zs_trial_better (const ZsTrial *a, const ZsTrial *b, ZsObjective objective)
{
  int order = (int) b->fits - (int) a->fits;

  /* what fits by less than the model may be wrong comes after all that has room */
  if (order == 0 && a->fits)
    order = (int) a->thin - (int) b->thin;

  if (!a->fits && !b->fits) {
    order = (int) b->valid - (int) a->valid;
    if (order == 0)
      order = b->stopped - a->stopped;
    if (order == 0)
      order = compare_numbers ((double) a->peak_device_bytes, (double) b->peak_device_bytes);
  } else if (order == 0) {
    double speed = compare_numbers (b->tokens_per_second_per_gpu * (double) b->n_ranks,
                                    a->tokens_per_second_per_gpu * (double) a->n_ranks);
    double memory = compare_numbers ((double) a->peak_device_bytes, (double) b->peak_device_bytes);

    if (objective == ZS_OBJECTIVE_MEMORY)
      order = memory != 0 ? (int) memory : (int) speed;
    else if (objective == ZS_OBJECTIVE_COST)
      order = compare_numbers (b->tokens_per_second_per_gpu, a->tokens_per_second_per_gpu);
    else
      order = (int) speed;
    if (order == 0)
      order = a->n_changes - b->n_changes;
    if (order == 0)
      order = (int) memory;
  }
  return order < 0;
}

bool
zs_trial_has_room (const ZsTrial *trial)
{
  return trial->fits && !trial->thin;
}

static int
find_best (const ZsAdvice *advice, ZsObjective objective)
{
  int best = 0;

  for (guint i = 1; i < advice->trials->len; i++)
    if (zs_trial_better (zs_advice_trial (advice, (int) i), zs_advice_trial (advice, best), objective))
      best = (int) i;
  return best;
}

/* ---- answers ---- */

static void
find_smallest (ZsAdvice *advice)
{
  for (guint i = 0; i < advice->trials->len; i++) {
    const ZsTrial *trial = zs_advice_trial (advice, (int) i);

    if (!trial->fits)
      continue;
    const ZsTrial *now = advice->smallest >= 0 ? zs_advice_trial (advice, advice->smallest) : NULL;
    int order = now == NULL ? -1 : (int) trial->thin - (int) now->thin;

    if (order == 0)
      order = trial->n_changes - now->n_changes;
    if (order < 0 || (order == 0 && zs_trial_better (trial, now, advice->options.objective)))
      advice->smallest = (int) i;
  }
}

/* As fast as the fastest, as far as the model can tell, with the least memory. */
static void
find_nearly (ZsAdvice *advice)
{
  bool thin = zs_advice_trial (advice, advice->fastest)->thin;
  double enough = AS_FAST * zs_advice_trial (advice, advice->fastest)->tokens_per_second_per_gpu
                  * (double) zs_advice_trial (advice, advice->fastest)->n_ranks;

  for (int i = 0; i < (int) advice->trials->len; i++) {
    const ZsTrial *trial = zs_advice_trial (advice, i);

    if (trial->fits && trial->thin == thin
        && trial->tokens_per_second_per_gpu * (double) trial->n_ranks >= enough
        && (advice->nearly < 0
            || zs_trial_better (trial, zs_advice_trial (advice, advice->nearly), ZS_OBJECTIVE_MEMORY)))
      advice->nearly = i;
  }
}

static int
compare_memory (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const ZsAdvice *advice = user_data;
  const ZsTrial *x = zs_advice_trial (advice, *(const int *) a);
  const ZsTrial *y = zs_advice_trial (advice, *(const int *) b);
  int order = compare_numbers ((double) x->peak_device_bytes, (double) y->peak_device_bytes);

  if (order == 0)
    order = compare_numbers (y->tokens_per_second_per_gpu, x->tokens_per_second_per_gpu);
  return order != 0 ? order : *(const int *) a - *(const int *) b;
}

/* Of those that have room, if there are any. */
static void
find_front (ZsAdvice *advice)
{
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (int));
  bool thin = zs_advice_trial (advice, advice->fastest)->thin;
  double fastest = 0;

  for (int i = 0; i < (int) advice->trials->len; i++)
    if (zs_advice_trial (advice, i)->fits && zs_advice_trial (advice, i)->thin == thin)
      g_array_append_val (all, i);
  g_array_sort_with_data (all, compare_memory, advice);
  for (guint i = 0; i < all->len; i++) {
    int place = g_array_index (all, int, i);
    const ZsTrial *trial = zs_advice_trial (advice, place);

    if (trial->tokens_per_second_per_gpu <= fastest)
      continue;
    fastest = trial->tokens_per_second_per_gpu;
    g_array_append_val (advice->front, place);
  }
}

static int
compare_speed (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const ZsAdvice *advice = user_data;
  const ZsTrial *x = zs_advice_trial (advice, *(const int *) a);
  const ZsTrial *y = zs_advice_trial (advice, *(const int *) b);

  return zs_trial_better (x, y, ZS_OBJECTIVE_SPEED)   ? -1
         : zs_trial_better (y, x, ZS_OBJECTIVE_SPEED) ? 1 : *(const int *) a - *(const int *) b;
}

/* What would be faster than the fastest with room, if it fits. */
static void
find_thin (ZsAdvice *advice)
{
  const ZsTrial *fastest = zs_advice_trial (advice, advice->fastest);

  for (int i = 0; i < (int) advice->trials->len && !fastest->thin; i++) {
    const ZsTrial *trial = zs_advice_trial (advice, i);

    if (trial->fits && trial->thin
        && trial->tokens_per_second_per_gpu * (double) trial->n_ranks
             > fastest->tokens_per_second_per_gpu * (double) fastest->n_ranks)
      g_array_append_val (advice->thin, i);
  }
  g_array_sort_with_data (advice->thin, compare_speed, advice);
  if (advice->thin->len > MOST_THIN)
    g_array_set_size (advice->thin, MOST_THIN);
}

ZsAdvice *
zs_advise (ZsBase *base, const ZsAdviseOptions *options, ZsCatalogue *catalogue, GError **error)
{
  g_autoptr (ZsAdvice) advice = g_new0 (ZsAdvice, 1);
  g_autoptr (ZsErrors) errors = zs_errors_new ();

  advice->base = base;
  advice->options = *options;
  advice->trials = g_array_new (FALSE, TRUE, sizeof (ZsTrial));
  advice->front = g_array_new (FALSE, FALSE, sizeof (int));
  advice->thin = g_array_new (FALSE, FALSE, sizeof (int));
  advice->hardware = g_ptr_array_new_with_free_func (zs_hardware_advice_free);
  advice->smallest = advice->fastest = advice->best = advice->nearly = -1;
  g_autoptr (ZsScenario) scenario = zs_base_scenario (base, NULL, errors);

  if (scenario == NULL) {
    g_autofree char *text = zs_errors_text (errors);

    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s", g_strchomp (text));
    return NULL;
  }
  advice->space = zs_space_new (scenario, options->dimensions, options->objective == ZS_OBJECTIVE_COST);
  if (!zs_advise_search (advice)) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_LIMIT, "interrupted");
    return NULL;
  }
  find_smallest (advice);
  if (advice->smallest >= 0) {
    advice->fastest = find_best (advice, ZS_OBJECTIVE_SPEED);
    advice->best = find_best (advice, options->objective);
    find_nearly (advice);
    find_front (advice);
    find_thin (advice);
  } else if (!zs_advise_hardware (advice, scenario, catalogue)) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_LIMIT, "interrupted");
    return NULL;
  }
  return g_steal_pointer (&advice);
}

void
zs_advice_free (ZsAdvice *advice)
{
  if (advice == NULL)
    return;
  zs_base_free (advice->base);
  zs_space_free (advice->space);
  g_array_unref (advice->trials);
  g_array_unref (advice->front);
  g_array_unref (advice->thin);
  g_ptr_array_unref (advice->hardware);
  g_free (advice);
}
