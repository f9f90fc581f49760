/* sweep-check.c: each value of a sweep is looked at before anything is run.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/study/sweep-internal.h"

#define SAMPLES        16     /* configurations that are read for one value, until one is right */
#define MAX_LOOKED_AT 200     /* values of an axis */

/* Kept configurations in which AXIS has its value PLACE, spread over all of them: at most SAMPLES. */
static int
sample (const ZsSweep *sweep, int axis, int place, int64_t *ret_samples)
{
  int places[ZS_SWEEP_MAX_AXES], n = 0;
  int64_t step = MAX (1, sweep->n_kept / 20000), n_found = 0;

  for (int pass = 0; pass < 2; pass++) {
    int64_t count = 0;

    for (int64_t i = 0; i < sweep->n_kept; i += step) {
      if ((sweep->used[i] >> axis & 1) == 0)
        continue;
      zs_sweep_places (sweep, sweep->kept[i], places);
      if (places[axis] != place)
        continue;
      if (pass == 1 && count * SAMPLES / n_found != (count - 1) * SAMPLES / n_found && n < SAMPLES)
        ret_samples[n++] = i;
      count++;
    }
    n_found = count;
    if (n_found == 0)
      return 0;
  }
  return n;
}

static void
check_value (const ZsSweep *sweep, int axis, int place, GHashTable *said, ZsErrors *errors)
{
  const ZsAxis *a = zs_sweep_axis (sweep, axis);
  int64_t samples[SAMPLES];
  int n = sample (sweep, axis, place, samples);
  g_autofree char *first = NULL;

  for (int i = 0; i < n; i++) {
    g_autoptr (ZsErrors) mistakes = zs_errors_new ();
    g_auto (GStrv) changes = zs_sweep_changes (sweep, samples[i]);
    g_autoptr (ZsScenario) scenario
        = zs_base_scenario (sweep->base, (const char *const *) changes, mistakes);

    if (scenario != NULL)
      return;
    if (first == NULL)
      first = zs_errors_text (mistakes);
  }
  if (n == 0 || g_hash_table_contains (said, g_strchomp (first)))
    return;
  g_autofree char *set = g_strconcat (a->full[0], "=", g_ptr_array_index (a->values, place), NULL);

  if (strstr (first, set) != NULL)
    zs_errors_add (errors, "%s: %s", a->where, first);
  else
    zs_errors_add (errors, "%s", first);
  g_hash_table_add (said, g_steal_pointer (&first));
}

bool
zs_sweep_check (const ZsSweep *sweep, ZsErrors *errors)
{
  g_autoptr (GHashTable) said = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  int before = zs_errors_count (errors);

  for (guint i = 0; i < sweep->axes->len; i++) {
    int n = (int) zs_sweep_axis (sweep, (int) i)->values->len;

    for (int place = 0; place < n; place++)
      if (place < MAX_LOOKED_AT || place == n - 1)
        check_value (sweep, (int) i, place, said, errors);
  }
  return zs_errors_count (errors) == before;
}
