/* command-sweep.c: `zerosim sweep SWEEP` and `zerosim sweep merge OUT.db PART.db...`.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/cli/command-list.h"
#include "sim/cli/load.h"
#include "sim/cli/progress.h"
#include "sim/cli/study.h"
#include "sim/study/sweep-run.h"

/* "K/N", K from 1 */
static bool
parse_shard (const char *text, ZsSweepOptions *options, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (text, "/", -1);
  int64_t k, n;

  if (g_strv_length (parts) == 2 && zs_count_parse (parts[0], &k, NULL)
      && zs_count_parse (parts[1], &n, NULL) && k >= 1 && k <= n) {
    options->shard = k - 1;
    options->n_shards = n;
    return true;
  }
  g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "--shard %s: K/N is wanted, with K from 1 to N, as 3/8",
               text);
  return false;
}

static bool
print_json (ZsStore *store, const char *name, GError **error)
{
  g_autoptr (ZsJsonWriter) writer = zs_json_writer_new_file (stdout, 2);

  zs_json_begin_object (writer, NULL);
  zs_json_string (writer, "name", name);
  bool ok = zs_store_write_json (store, writer, error);

  zs_json_end_object (writer);
  return ok;
}

static bool
print_text (ZsStore *store, GError **error)
{
  int64_t ok, oom, none;

  if (!zs_store_count (store, &ok, &oom, &none, error))
    return false;
  printf ("%" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " configurations: %" G_GINT64_FORMAT
          " fit, %" G_GINT64_FORMAT " run out of memory", ok + oom + none, zs_store_total (store), ok, oom);
  if (none > 0)
    printf (", %" G_GINT64_FORMAT " cannot be run (column " ZS_COLUMN_ERROR " says why)", none);
  printf ("\n");
  g_autofree char *fastest
      = zs_store_best (store, "tokens_per_second_per_gpu", true);
  g_autofree char *smallest = zs_store_best (store, "peak_device_bytes", false);

  if (fastest != NULL)
    printf ("fastest: %s\n", fastest);
  if (smallest != NULL)
    printf ("least GPU memory: %s\n", smallest);
  return true;
}

/* Where nothing else was asked for, the CSV is what a sweep prints. */
static bool
write_results (const ZsOptions *options, ZsStore *store, const char *name, GError **error)
{
  const char *csv = options->csv;

  if (csv == NULL && !options->json && options->output == NULL)
    csv = "-";
  if (csv != NULL && !zs_store_write_csv (store, csv, error))
    return false;
  if (options->json)
    return print_json (store, name, error);
  return (csv != NULL && strcmp (csv, "-") == 0) || print_text (store, error);
}

static int
merge (const ZsOptions *options, char **arguments)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ZsStore) store = NULL;

  if (g_strv_length (arguments) < 2) {
    fprintf (stderr, "Usage: zerosim sweep merge OUT.db PART.db... [--csv CSV]\n");
    return ZS_EXIT_USAGE;
  }
  if (!zs_store_merge (arguments[0], (const char *const *) arguments + 1, &store, &error))
    return zs_command_fail (error);
  if (options->csv != NULL && !zs_store_write_csv (store, options->csv, &error))
    return zs_command_fail (error);
  if (options->json ? !print_json (store, arguments[0], &error)
      : g_strcmp0 (options->csv, "-") != 0 && !print_text (store, &error))
    return zs_command_fail (error);
  return ZS_EXIT_DONE;
}

int
zs_command_sweep (const ZsOptions *options, char **arguments)
{
  if (strcmp (arguments[0], "merge") == 0)
    return merge (options, arguments + 1);
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) sets = zs_sets_of (options);
  ZsScenarioFlags flags = zs_flags_of (options);
  ZsProgress progress;
  ZsSweepOptions how = { .jobs = options->jobs, .n_shards = 1, .stop = zs_study_catch_signals (),
                         .progress = zs_progress_update, .self = &progress };

  if (arguments[1] != NULL) {
    fprintf (stderr, "Usage: zerosim sweep [OPTION...] SWEEP\n");
    return ZS_EXIT_USAGE;
  }
  if (g_strcmp0 (options->output, "-") == 0) {
    fprintf (stderr, "zerosim: --output - : a sweep keeps its results in a file of SQLite; --csv - prints them\n");
    return ZS_EXIT_USAGE;
  }
  if (options->shard != NULL && !parse_shard (options->shard, &how, &error))
    return zs_command_fail (error);
  g_autoptr (ZsSweep) sweep = zs_sweep_load (arguments[0], (const char *const *) options->vary, &flags,
                                             (const char *const *) sets, catalogue, errors);

  if (sweep == NULL || !zs_sweep_check (sweep, errors))
    return zs_study_fail (errors);
  g_autoptr (ZsStore) store = zs_store_open (options->output, sweep, &error);

  if (store == NULL)
    return zs_command_fail (error);
  zs_progress_begin (&progress, "configurations", options->quiet);
  bool complete = zs_sweep_run (sweep, store, &how, &error);

  zs_progress_end (&progress);
  if (error != NULL)
    return zs_command_fail (error);
  if (!complete) {
    if (options->output != NULL)
      fprintf (stderr, "zerosim: interrupted; the same command goes on from %s\n", options->output);
    else
      fprintf (stderr, "zerosim: interrupted; nothing was kept, for want of --output\n");
    return ZS_EXIT_LIMIT;
  }
  if (!write_results (options, store, sweep->name, &error))
    return zs_command_fail (error);
  return ZS_EXIT_DONE;
}
