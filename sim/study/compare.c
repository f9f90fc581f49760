/* compare.c: runs variants and finds what differs and which to choose.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/compare.h"

#include <string.h>

#include "sim/base/units.h"
#include "sim/report/result-json.h"
#include "sim/study/parallel.h"
#include "sim/study/sweep.h"

#define NOISE      0.02      /* two times that differ by less are equal to the model */

typedef struct {
  GPtrArray *tasks;           /* Task * */
  ZsCompare *compare;
} Comparing;

typedef struct {
  ZsBase     *base;           /* borrowed */
  char      **changes;
  ZsVariant  *variant;
} Task;

static void
free_variant (gpointer data)
{
  ZsVariant *variant = data;

  g_free (variant->name);
  zs_scenario_free (variant->scenario);
  zs_result_free (variant->result);
  g_free (variant->problem);
  g_free (variant);
}

static void
free_task (gpointer data)
{
  Task *task = data;

  g_strfreev (task->changes);
  g_free (task);
}

void
zs_compare_free (ZsCompare *compare)
{
  if (compare == NULL)
    return;
  g_ptr_array_unref (compare->variants);
  g_ptr_array_unref (compare->differing);
  g_free (compare->recommendation);
  g_free (compare);
}

/* ---- running ---- */

static gpointer
run_task (void *self, int64_t index)
{
  Comparing *comparing = self;
  Task *task = g_ptr_array_index (comparing->tasks, index);
  g_autoptr (GError) error = NULL;

  task->variant->result = zs_base_run (task->base, (const char *const *) task->changes, NULL,
                                       &task->variant->scenario, &error);
  if (task->variant->result == NULL)
    task->variant->problem = g_strdup (error->message);
  return task;
}

static bool
take_task (void *self, gpointer result)
{
  (void) self;
  (void) result;
  return true;
}

static void
add_task (Comparing *comparing, ZsBase *base, char **changes, char *name)
{
  Task *task = g_new0 (Task, 1);
  ZsVariant *variant = g_new0 (ZsVariant, 1);

  variant->name = name;
  *task = (Task) { .base = base, .changes = changes, .variant = variant };
  g_ptr_array_add (comparing->tasks, task);
  g_ptr_array_add (comparing->compare->variants, variant);
}

/* "stage=2, fabric=pcie" */
static char *
name_configuration (const ZsSweep *sweep, int64_t configuration, const char *prefix)
{
  GString *name = g_string_new (prefix);

  for (guint i = 0; i < sweep->axes->len; i++) {
    const ZsAxis *axis = g_ptr_array_index (sweep->axes, i);
    const char *value = zs_sweep_value (sweep, configuration, (int) i);
    const char *last = strrchr (axis->path, '.');

    if (value == NULL)
      continue;
    g_string_append_printf (name, "%s%s=%s", name->len > 0 ? ", " : "",
                            last != NULL ? last + 1 : axis->path, value);
  }
  return g_string_free (name, FALSE);
}

static void
add_sweep (Comparing *comparing, ZsSweep *sweep, const char *prefix)
{
  for (int64_t i = 0; i < MIN (sweep->n_kept, ZS_COMPARE_MAX_VARIANTS + 1); i++)
    add_task (comparing, sweep->base, zs_sweep_changes (sweep, i),
              name_configuration (sweep, i, prefix));
}

/* A file without axes must be right. */
static void
name_files (Comparing *comparing, const char *const *paths, ZsErrors *errors)
{
  for (guint i = 0; i < comparing->compare->variants->len; i++) {
    ZsVariant *variant = g_ptr_array_index (comparing->compare->variants, i);

    if (variant->problem != NULL) {
      zs_errors_add (errors, "%s", variant->problem);
      continue;
    }
    g_free (variant->name);
    variant->name = g_strdup (variant->scenario->name);
  }
  /* two of one name are called by their files */
  for (guint i = 0; i < comparing->compare->variants->len; i++)
    for (guint j = 0; j < i; j++) {
      ZsVariant *a = g_ptr_array_index (comparing->compare->variants, i);
      ZsVariant *b = g_ptr_array_index (comparing->compare->variants, j);

      if (strcmp (a->name, b->name) == 0) {
        g_free (a->name);
        a->name = g_strdup (paths[i]);
        g_free (b->name);
        b->name = g_strdup (paths[j]);
      }
    }
}

/* ---- what differs ---- */

static const char *
setting_of (const ZsVariant *variant, const char *path)
{
  const ZsSetting *setting
      = variant->scenario != NULL ? zs_settings_find (variant->scenario->settings, path) : NULL;

  return setting != NULL ? setting->value : NULL;
}

static bool
differs (const ZsCompare *compare, const char *path)
{
  const char *first = NULL;
  bool any = false;

  for (guint i = 0; i < compare->variants->len; i++) {
    const ZsVariant *variant = g_ptr_array_index (compare->variants, i);
    const char *value = setting_of (variant, path);

    if (variant->scenario == NULL)
      continue;
    if (any && g_strcmp0 (value, first) != 0)
      return true;
    first = value;
    any = true;
  }
  return false;
}

static void
find_differing (ZsCompare *compare)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);

  for (guint i = 0; i < compare->variants->len; i++) {
    const ZsVariant *variant = g_ptr_array_index (compare->variants, i);

    for (guint j = 0; variant->scenario != NULL && j < variant->scenario->settings->rows->len; j++) {
      const char *path = g_array_index (variant->scenario->settings->rows, ZsSetting, j).path;

      if (strcmp (path, "name") == 0 || !g_hash_table_add (seen, (gpointer) path))
        continue;
      if (differs (compare, path))
        g_ptr_array_add (compare->differing, g_strdup (path));
    }
  }
}

/* ---- which to choose ---- */

static bool
fits (const ZsVariant *variant)
{
  return variant->result != NULL && variant->result->outcome == ZS_OUTCOME_OK;
}

/* Of the whole job: variants may have different numbers of GPUs. */
static double
speed_of (const ZsVariant *variant)
{
  return variant->result->tokens_per_second_per_gpu * (double) variant->result->n_ranks;
}

static int64_t
host_of (const ZsVariant *variant)
{
  return variant->result->host_pinned_peak_bytes + variant->result->host_pageable_peak_bytes;
}

/* What the step waits for most, apart from computing; its share in *RET_SHARE. */
static const char *
main_wait (const ZsResult *result, double *ret_share)
{
  static const char *const WORDS[ZS_N_WAITS] = {
    [ZS_WAIT_COMPUTE] = "computes", [ZS_WAIT_COMMUNICATION] = "waits for other GPUs",
    [ZS_WAIT_OFFLOAD] = "waits for offload", [ZS_WAIT_OPTIMIZER] = "is in the optimizer",
    [ZS_WAIT_HOST] = "waits for Python",
  };
  int most = ZS_WAIT_COMMUNICATION;

  for (int wait = 0; wait < ZS_N_WAITS; wait++)
    if (wait != ZS_WAIT_COMPUTE && result->wait_ps[wait] > result->wait_ps[most])
      most = wait;
  *ret_share = result->step_time_ps > 0
                 ? (double) result->wait_ps[most] / (double) result->step_time_ps : 0;
  return WORDS[most];
}

static void
append_price (GString *text, const ZsVariant *best, const ZsVariant *other)
{
  int64_t gpu = best->result->peak_device_bytes - other->result->peak_device_bytes;
  int64_t host = host_of (best) - host_of (other);
  int64_t gpus = best->result->n_ranks - other->result->n_ranks;
  const char *join = "its price is";

  if (gpus > 0) {
    g_string_append_printf (text, "; %s %" G_GINT64_FORMAT " more GPUs", join, gpus);
    join = "and";
  }
  if (gpu > (INT64_C (1) << 28)) {
    g_autofree char *size = zs_bytes_format (gpu);

    g_string_append_printf (text, "%s %s %s more memory on each GPU", *join == 'a' ? "" : ";", join, size);
    join = "and";
  }
  if (host > (INT64_C (1) << 30)) {
    g_autofree char *size = zs_bytes_format (host);

    g_string_append_printf (text, "%s %s %s more host memory per node", *join == 'a' ? "" : ";", join,
                            size);
  }
}

static void
append_room (GString *text, const ZsVariant *best)
{
  const ZsResult *result = best->result;
  int64_t left = result->gpu_memory_bytes - result->peak_device_bytes;
  g_autofree char *size = zs_bytes_format (MAX (left, 0));

  if (zs_is_tight (result->peak_device_bytes, result->gpu_memory_bytes))
    g_string_append_printf (text, "; only %s of each GPU are left, so a longer sample may not fit", size);
}

static char *
none_fits (const ZsCompare *compare)
{
  const ZsVariant *nearest = NULL;

  for (guint i = 0; i < compare->variants->len; i++) {
    const ZsVariant *variant = g_ptr_array_index (compare->variants, i);

    /* the one that came furthest: a later step or phase, then less wanted */
    if (variant->result == NULL)
      continue;
    if (nearest == NULL || variant->result->oom.step > nearest->result->oom.step
        || (variant->result->oom.step == nearest->result->oom.step
            && variant->result->oom.phase > nearest->result->oom.phase))
      nearest = variant;
  }
  if (nearest == NULL)
    return g_strdup ("None of them can be run.");
  return g_strdup_printf ("None of them fits; %s comes furthest (it stops in step %d, %s). `zerosim advise` "
                          "searches for settings that fit.",
                          nearest->name, nearest->result->oom.step,
                          zs_phase_name (nearest->result->oom.phase));
}

static char *
recommend (const ZsCompare *compare)
{
  const ZsVariant *best = NULL, *second = NULL;
  int n_fit = 0;
  g_autoptr (GString) text = g_string_new (NULL);
  double share;

  for (guint i = 0; i < compare->variants->len; i++) {
    const ZsVariant *variant = g_ptr_array_index (compare->variants, i);

    if (!fits (variant))
      continue;
    n_fit++;
    if (best == NULL || speed_of (variant) > speed_of (best)) {
      second = best;
      best = variant;
    } else if (second == NULL || speed_of (variant) > speed_of (second)) {
      second = variant;
    }
  }
  if (best == NULL)
    return none_fits (compare);
  if (g_ptr_array_find_with_equal_func (compare->differing, "model", g_str_equal, NULL))
    g_string_append (text, "These are different models; by tokens alone: ");
  if (n_fit == 1) {
    const char *wait = main_wait (best->result, &share);

    if (compare->variants->len == 1)
      g_string_append_printf (text, "%s fits", best->name);
    else
      g_string_append_printf (text, "Choose %s: it alone fits", best->name);
    if (share > 0.05)
      g_string_append_printf (text, "; its price is that %.0f %% of a step %s", 100 * share, wait);
    append_room (text, best);
    g_string_append_c (text, '.');
    return g_strdup (text->str);
  }
  if (speed_of (best) < speed_of (second) * (1 + NOISE)) {
    /* equally fast: the one that takes less */
    for (guint i = 0; i < compare->variants->len; i++) {
      const ZsVariant *variant = g_ptr_array_index (compare->variants, i);

      if (fits (variant) && speed_of (variant) * (1 + NOISE) > speed_of (second)
          && variant->result->peak_device_bytes < best->result->peak_device_bytes) {
        second = best;
        best = variant;
      }
    }
    int64_t less = second->result->peak_device_bytes - best->result->peak_device_bytes;
    g_autofree char *size = zs_bytes_format (MAX (less, 0));

    g_string_append_printf (text, "Choose %s: %s is as fast within %.0f %%", best->name, second->name,
                            100 * NOISE);
    if (less > 0)
      g_string_append_printf (text, " and takes %s more memory on each GPU", size);
    append_price (text, best, second);
  } else {
    const char *wait = main_wait (second->result, &share);

    g_string_append_printf (text, "Choose %s: it fits and is %.3g times as fast as %s", best->name,
                            speed_of (best) / speed_of (second), second->name);
    if (share > 0.1)
      g_string_append_printf (text, ", which %s for %.0f %% of its step", wait, 100 * share);
    append_price (text, best, second);
  }
  append_room (text, best);
  g_string_append_c (text, '.');
  return g_strdup (text->str);
}

ZsCompare *
zs_compare (const char *const *paths, const char *const *axes, const ZsScenarioFlags *flags,
            const char *const *sets, ZsCatalogue *catalogue, int jobs, const int *stop, ZsErrors *errors)
{
  g_autoptr (ZsCompare) compare = g_new0 (ZsCompare, 1);
  bool vary = axes != NULL && axes[0] != NULL;
  g_autoptr (GPtrArray) owned
      = g_ptr_array_new_with_free_func (vary ? (GDestroyNotify) zs_sweep_free
                                             : (GDestroyNotify) zs_base_free);
  g_autoptr (GPtrArray) tasks = g_ptr_array_new_with_free_func (free_task);
  Comparing comparing = { .tasks = tasks, .compare = compare };
  ZsParallel parallel = { .task = run_task, .done = take_task, .self = &comparing, .stop = stop };
  int before = zs_errors_count (errors);

  compare->variants = g_ptr_array_new_with_free_func (free_variant);
  compare->differing = g_ptr_array_new_with_free_func (g_free);
  for (int i = 0; paths[i] != NULL; i++) {
    if (vary) {
      ZsSweep *sweep = zs_sweep_load (paths[i], axes, flags, sets, catalogue, errors);

      if (sweep == NULL || !zs_sweep_check (sweep, errors)) {
        zs_sweep_free (sweep);
        continue;
      }
      g_ptr_array_add (owned, sweep);
      add_sweep (&comparing, sweep, paths[1] != NULL ? paths[i] : "");
    } else {
      ZsBase *base = zs_base_new (paths[i], flags, sets, catalogue, errors);

      if (base == NULL)
        continue;
      g_ptr_array_add (owned, base);
      add_task (&comparing, base, NULL, g_strdup (paths[i]));
    }
  }
  if (compare->variants->len > ZS_COMPARE_MAX_VARIANTS)
    zs_errors_take (errors, g_error_new (ZS_ERROR, ZS_ERROR_LIMIT,
                                         "more than %d variants to compare: `zerosim sweep` is for that",
                                         ZS_COMPARE_MAX_VARIANTS));
  if (zs_errors_count (errors) > before)
    return NULL;
  if (!zs_parallel_run (&parallel, tasks->len, jobs)) {
    zs_errors_take (errors, g_error_new (ZS_ERROR, ZS_ERROR_LIMIT, "interrupted"));
    return NULL;
  }
  if (!vary)
    name_files (&comparing, paths, errors);
  if (zs_errors_count (errors) > before)
    return NULL;
  find_differing (compare);
  compare->recommendation = recommend (compare);
  return g_steal_pointer (&compare);
}

void
zs_compare_write_json (const ZsCompare *compare, ZsJsonWriter *writer)
{
  zs_json_begin_array (writer, "variants");
  for (guint i = 0; i < compare->variants->len; i++) {
    const ZsVariant *variant = g_ptr_array_index (compare->variants, i);

    zs_json_begin_object (writer, NULL);
    zs_json_string (writer, "name", variant->name);
    zs_json_begin_object (writer, "settings");
    for (guint j = 0; variant->scenario != NULL && j < compare->differing->len; j++) {
      const char *path = g_ptr_array_index (compare->differing, j);

      zs_json_string (writer, path, setting_of (variant, path));
    }
    zs_json_end_object (writer);
    if (variant->result != NULL) {
      zs_json_begin_object (writer, "result");
      zs_result_write_json (variant->result, NULL, 0, writer);
      zs_json_end_object (writer);
    } else {
      zs_json_null (writer, "result");
      zs_json_string (writer, "problem", variant->problem);
    }
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
  zs_json_string (writer, "recommendation", compare->recommendation);
}
