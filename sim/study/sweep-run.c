/* sweep-run.c: runs a sweep on many threads; one thread writes.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/sweep-run.h"

#include "sim/study/parallel.h"

#define BATCH_ROWS 256
#define BATCH_TIME (G_USEC_PER_SEC / 4)

typedef struct {
  int64_t     configuration;
  const char *outcome;
  ZsCell     *cells;          /* NULL: no result */
  char       *problem;
} Row;

typedef struct {
  const ZsSweep *sweep;
  ZsStore       *store;
  const ZsSweepOptions *options;
  GArray        *todo;        /* int64_t: configurations */
  int64_t        n_done, n_all;
  int            n_pending;   /* rows not committed */
  gint64         committed;   /* when */
  GError        *error;
} Sweeping;

static gpointer
run_task (void *self, int64_t index)
{
  Sweeping *sweeping = self;
  Row *row = g_new0 (Row, 1);
  g_autoptr (GError) error = NULL;

  row->configuration = g_array_index (sweeping->todo, int64_t, index);
  g_auto (GStrv) changes = zs_sweep_changes (sweeping->sweep, row->configuration);
  g_autoptr (ZsResult) result
      = zs_base_run (sweeping->sweep->base, (const char *const *) changes, NULL, NULL, &error);

  if (result == NULL) {
    row->outcome = error->domain == ZS_ERROR && error->code != ZS_ERROR_LIMIT ? ZS_OUTCOME_INVALID
                                                                             : ZS_OUTCOME_FAILED;
    row->problem = g_strdup (error->message);
    return row;
  }
  row->outcome = zs_outcome_name (result->outcome);
  row->cells = g_new0 (ZsCell, zs_columns_count ());
  for (int i = 0; i < zs_columns_count (); i++)
    row->cells[i] = zs_column_get (i, result);
  return row;
}

static bool
commit (Sweeping *sweeping)
{
  sweeping->n_pending = 0;
  sweeping->committed = g_get_monotonic_time ();
  return zs_store_commit (sweeping->store, &sweeping->error);
}

static bool
keep_row (Sweeping *sweeping, Row *row)
{
  const char *values[ZS_SWEEP_MAX_AXES];
  bool ok = sweeping->error == NULL;

  for (guint i = 0; i < sweeping->sweep->axes->len; i++)
    values[i] = zs_sweep_value (sweeping->sweep, row->configuration, (int) i);
  ok = ok && zs_store_add (sweeping->store, row->configuration, values, row->outcome, row->cells,
                           row->problem, &sweeping->error);
  sweeping->n_pending++;
  sweeping->n_done++;
  g_free (row->cells);
  g_free (row->problem);
  g_free (row);
  return ok;
}

static bool
take_result (void *self, gpointer result)
{
  Sweeping *sweeping = self;
  const ZsSweepOptions *options = sweeping->options;
  bool ok = sweeping->error == NULL;

  if (result != NULL)
    ok = keep_row (sweeping, result);
  if (ok && sweeping->n_pending > 0
      && (sweeping->n_pending >= BATCH_ROWS
          || g_get_monotonic_time () - sweeping->committed >= BATCH_TIME))
    ok = commit (sweeping);
  if (options->progress != NULL)
    options->progress (options->self, (int) sweeping->n_done, (int) sweeping->n_all);
  return ok;
}

bool
zs_sweep_run (const ZsSweep *sweep, ZsStore *store, const ZsSweepOptions *options, GError **error)
{
  g_autofree guint8 *done = g_malloc0 (sweep->n_kept);
  g_autoptr (GArray) todo = g_array_new (FALSE, FALSE, sizeof (int64_t));
  Sweeping sweeping = { .sweep = sweep, .store = store, .options = options, .todo = todo,
                        .committed = g_get_monotonic_time () };
  ZsParallel parallel = { .task = run_task, .done = take_result, .self = &sweeping,
                          .stop = options->stop };
  int64_t n_shards = MAX (options->n_shards, 1);

  if (zs_store_done (store, done, sweep->n_kept, error) < 0)
    return false;
  for (int64_t i = options->shard; i < sweep->n_kept; i += n_shards) {
    if (done[i] == 0)
      g_array_append_val (todo, i);
    sweeping.n_all++;
  }
  sweeping.n_done = sweeping.n_all - todo->len;
  bool all = zs_parallel_run (&parallel, todo->len, options->jobs);

  if (sweeping.error == NULL)
    commit (&sweeping);
  if (sweeping.error != NULL) {
    g_propagate_error (error, sweeping.error);
    return false;
  }
  return all;
}
