/* command-collective.c: `zerosim collective OP`: the columns of nccl-tests.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/base/words.h"
#include "sim/cli/command-list.h"
#include "sim/cli/load.h"
#include "sim/io/json-writer.h"
#include "sim/network/nccl-log.h"
#include "sim/scenario/simulate.h"

#define DEFAULT_SIZES "8:8G:2"
#define MAX_SIZES 256

static bool
add_size (GArray *sizes, int64_t bytes, GError **error)
{
  if (sizes->len >= MAX_SIZES) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "--sizes: more than %d sizes", MAX_SIZES);
    return false;
  }
  g_array_append_val (sizes, bytes);
  return true;
}

/* "from:to:factor" or a list. */
static bool
parse_sizes (const char *text, GArray *sizes, GError **error)
{
  g_auto (GStrv) range = g_strsplit (text, ":", -1);

  if (g_strv_length (range) == 3) {
    int64_t from, to;
    double factor;

    if (!zs_message_size_parse (range[0], &from, error)
        || !zs_message_size_parse (range[1], &to, error)
        || !zs_number_parse (range[2], &factor, error)) {
      g_prefix_error (error, "--sizes: ");
      return false;
    }
    if (factor <= 1 || from <= 0 || to < from) {
      g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT,
                   "--sizes: '%s': from:to:factor wants 0 < from <= to and a factor above 1", text);
      return false;
    }
    for (double size = (double) from; size <= (double) to; size *= factor)
      if (!add_size (sizes, (int64_t) size, error))
        return false;
    return true;
  }
  g_auto (GStrv) list = g_strsplit (text, ",", -1);

  for (char **item = list; *item != NULL; item++) {
    int64_t bytes;

    if (!zs_message_size_parse (*item, &bytes, error)) {
      g_prefix_error (error, "--sizes: ");
      return false;
    }
    if (!add_size (sizes, bytes, error))
      return false;
  }
  return true;
}

static bool
find_operation (const char *name, ZsCollectiveKind *ret_kind, GError **error)
{
  const char *names[ZS_N_COLLECTIVES + 1] = { NULL };
  g_autofree char *plain = g_strdelimit (g_strdup (name), "-", '_');

  if (zs_collective_from_name (plain, ret_kind))
    return true;
  for (int i = 0; i < ZS_N_COLLECTIVES; i++)
    names[i] = zs_collective_name (i);
  g_autofree char *hint = zs_nearest_hint (plain, names);
  g_autofree char *all = g_strjoinv (", ", (char **) names);

  g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "unknown collective '%s'%s (there are %s)", name, hint,
               all);
  return false;
}

/* What was measured beside the rows; NULL: nothing. */
typedef struct {
  ZsNcclLog *log;
  ZsTime     launches;   /* of the test, in every predicted time */
} Against;

static double
ratio (const ZsCollectiveRow *row, const Against *against, int i)
{
  const ZsNcclLogRow *measured = &g_array_index (against->log->rows, ZsNcclLogRow, i);

  return (double) (row->time + against->launches) / (double) measured->time;
}

static int
compare_doubles (const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return (x > y) - (x < y);
}

/* Median error of the rows from LOW to below HIGH bytes; -1: none. */
static double
median_error (const ZsCollectiveRow *rows, const Against *against, int64_t low, int64_t high, int *ret_n)
{
  int n = 0, all = (int) against->log->rows->len;
  g_autofree double *errors = g_new (double, all + 1);

  for (int i = 0; i < all; i++)
    if (rows[i].bytes >= low && rows[i].bytes < high)
      errors[n++] = fabs (ratio (&rows[i], against, i) - 1);
  *ret_n = n;
  if (n == 0)
    return -1;
  qsort (errors, (size_t) n, sizeof *errors, compare_doubles);
  return (errors[(n - 1) / 2] + errors[n / 2]) / 2;
}

static void
json_summary (ZsJsonWriter *writer, const ZsCollectiveRow *rows, const Against *against)
{
  static const struct { const char *key; int64_t low, high; } PARTS[] = {
    { "below_1MiB", 0, 1 << 20 }, { "from_1MiB", 1 << 20, INT64_MAX },
  };

  zs_json_begin_object (writer, "against");
  for (size_t k = 0; k < G_N_ELEMENTS (PARTS); k++) {
    int n;
    double error = median_error (rows, against, PARTS[k].low, PARTS[k].high, &n);

    zs_json_begin_object (writer, PARTS[k].key);
    zs_json_int (writer, "rows", n);
    if (n > 0)
      zs_json_number (writer, "median_error", error);
    zs_json_end_object (writer);
  }
  zs_json_end_object (writer);
}

static void
print_json (ZsCollectiveKind kind, int64_t n_ranks, const ZsCollectiveRow *rows, int n_rows, const Against *against)
{
  g_autoptr (ZsJsonWriter) writer = zs_json_writer_new_file (stdout, 2);

  zs_json_begin_object (writer, NULL);
  zs_json_string (writer, "op", zs_collective_name (kind));
  zs_json_int (writer, "ranks", n_ranks);
  zs_json_begin_array (writer, "rows");
  for (int i = 0; i < n_rows; i++) {
    zs_json_compact (writer);
    zs_json_begin_object (writer, NULL);
    zs_json_int (writer, "bytes", rows[i].bytes);
    zs_json_int (writer, "time_ps", rows[i].time);
    zs_json_int (writer, "model_time_ps", rows[i].model_time);
    zs_json_string (writer, "algorithm", zs_algorithm_name (rows[i].algorithm));
    zs_json_string (writer, "protocol", zs_protocol_name (rows[i].protocol));
    zs_json_int (writer, "channels", rows[i].channels);
    zs_json_number (writer, "algbw", rows[i].algbw);
    zs_json_number (writer, "busbw", rows[i].busbw);
    if (against->log != NULL) {
      zs_json_int (writer, "measured_ps", g_array_index (against->log->rows, ZsNcclLogRow, i).time);
      zs_json_number (writer, "ratio", ratio (&rows[i], against, i));
    }
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
  if (against->log != NULL)
    json_summary (writer, rows, against);
  zs_json_end_object (writer);
}

static void
print_head (const ZsScenario *scenario, const ZsComm *comm, ZsCollectiveKind kind)
{
  g_autofree char *found = zs_comm_describe (comm);

  printf ("# zerosim %s: %s on %d x %s", PACKAGE_VERSION, zs_collective_name (kind),
          scenario->cluster.gpus_per_node * scenario->cluster.n_nodes, scenario->cluster.gpu.name);
  if (scenario->cluster.n_nodes > 1)
    printf (" (%d nodes)", scenario->cluster.n_nodes);
  printf ("\n# NCCL finds: %s\n# expect %.0f %% for 1 MiB and more\n", found,
          100 * zs_comm_expected_error (comm));
  if (!zs_comm_obeys (comm, kind))
    printf ("# NCCL_ALGO and NCCL_PROTO leave no algorithm for %s, which NCCL may refuse: as if they were not set\n",
            zs_collective_name (kind));
}

static void
print_rows (const ZsCollectiveRow *rows, int n_rows, const Against *against)
{
  bool measured = against->log != NULL;

  printf ("#\n# %12s %12s %8s %8s %8s %10s %8s %8s", "size", "algorithm", "protocol", "channels", "",
          "time", "algbw", "busbw");
  printf (measured ? " %10s %7s\n" : "\n", "measured", "ratio");
  printf ("# %12s %12s %8s %8s %8s %10s %8s %8s", "(B)", "", "", "", "", "(us)", "(GB/s)", "(GB/s)");
  printf (measured ? " %10s %7s\n" : "\n", "(us)", "");
  for (int i = 0; i < n_rows; i++) {
    printf ("%14" G_GINT64_FORMAT " %12s %8s %8d %8s %10.2f %8.2f %8.2f", rows[i].bytes,
            zs_algorithm_name (rows[i].algorithm), zs_protocol_name (rows[i].protocol),
            rows[i].channels, "", (double) rows[i].time / (double) ZS_MICROSECOND, rows[i].algbw,
            rows[i].busbw);
    if (measured)
      printf (" %10.2f %7.2f", (double) g_array_index (against->log->rows, ZsNcclLogRow, i).time
                               / (double) ZS_MICROSECOND, ratio (&rows[i], against, i));
    printf ("\n");
  }
  if (!measured)
    return;
  int n_small, n_large;
  double small = median_error (rows, against, 0, 1 << 20, &n_small);
  double large = median_error (rows, against, 1 << 20, INT64_MAX, &n_large);

  printf ("#\n# ratio: predicted / measured, out of place\n");
  if (against->launches > 0)
    printf ("# one thread drives %d GPUs: %.0f us of launches are in every ratio\n", against->log->per_thread,
            (double) against->launches / (double) ZS_MICROSECOND);
  if (n_large > 0)
    printf ("# median error from 1 MiB: %.1f %% (%d rows)\n", large * 100, n_large);
  if (n_small > 0)
    printf ("# median error below 1 MiB: %.1f %% (%d rows)\n", small * 100, n_small);
}

/* What of the cluster is passed over or may hurt. */
static void
print_notes (const ZsScenario *scenario)
{
  for (int i = 0; i < zs_notes_count (scenario->notes); i++) {
    const ZsNote *note = zs_notes_get (scenario->notes, i);

    if (note->severity != ZS_NOTE_INFO)
      fprintf (stderr, "%s%s%s\n", note->where, note->where[0] != '\0' ? ": " : "", note->text);
  }
}

/* The cluster from --cluster, or from --gpus, --fabric ... */
static ZsScenario *
load_cluster (const ZsOptions *options, ZsCatalogue *catalogue)
{
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_auto (GStrv) sets = zs_sets_of (options);
  ZsScenarioFlags flags = zs_flags_of (options);
  g_autoptr (ZsScenario) scenario = NULL;

  if (options->cluster == NULL && options->gpus == NULL)
    zs_errors_add (errors, "which machine? --cluster FILE (a YAML file with a cluster: block) or --gpus 8xH100");
  else
    scenario = zs_scenario_load_cluster (options->cluster, &flags, (const char *const *) sets, catalogue,
                                         errors);
  if (scenario == NULL)
    zs_errors_print (errors, "", stderr);
  return g_steal_pointer (&scenario);
}

/* The log of --against, whose sizes are those that are predicted. */
static bool
load_log (const ZsOptions *options, ZsCollectiveKind kind, const ZsScenario *scenario, GArray *sizes,
          Against *against, GError **error)
{
  int n_ranks = scenario->cluster.gpus_per_node * scenario->cluster.n_nodes;

  if (options->sizes != NULL) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "--against takes the sizes of the log; leave --sizes out");
    return false;
  }
  against->log = zs_nccl_log_load (options->against, error);
  if (against->log == NULL)
    return false;
  const ZsNcclLog *log = against->log;

  for (guint i = 0; i < log->warnings->len; i++)
    fprintf (stderr, "%s: %s\n", options->against, (const char *) g_ptr_array_index (log->warnings, i));
  if (log->kind_known && log->kind != kind) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s: is a log of %s, not of %s", options->against,
                 zs_collective_name (log->kind), zs_collective_name (kind));
    return false;
  }
  if (log->n_ranks > 0 && log->n_ranks != n_ranks)
    fprintf (stderr, "%s: %d ranks in the log, %d in the machine\n", options->against, log->n_ranks, n_ranks);
  against->launches = zs_nccl_log_launches (log->per_thread);
  g_array_set_size (sizes, 0);
  for (guint i = 0; i < log->rows->len; i++)
    g_array_append_val (sizes, g_array_index (log->rows, ZsNcclLogRow, i).bytes);
  return true;
}

int
zs_command_collective (const ZsOptions *options, char **arguments)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GArray) sizes = g_array_new (FALSE, FALSE, sizeof (int64_t));
  ZsCollectiveKind kind;

  if (!find_operation (arguments[0], &kind, &error)
      || !parse_sizes (options->sizes != NULL ? options->sizes : DEFAULT_SIZES, sizes, &error))
    return zs_command_fail (error);

  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (ZsScenario) scenario = load_cluster (options, catalogue);

  if (scenario == NULL)
    return ZS_EXIT_INPUT;
  g_autoptr (ZsNcclLog) log = NULL;
  Against against = { NULL, 0 };

  if (options->against != NULL) {
    bool read = load_log (options, kind, scenario, sizes, &against, &error);

    log = against.log;
    if (!read)
      return zs_command_fail (error);
  }
  g_autoptr (ZsCluster) cluster = zs_scenario_cluster (scenario, &error);

  if (cluster == NULL)
    return zs_command_fail (error);
  const ZsComm *comm = zs_cluster_comm (cluster, ZS_COMMUNICATOR_WORLD, 0);
  g_autofree ZsCollectiveRow *rows = g_new0 (ZsCollectiveRow, sizes->len);

  zs_collective_rows (comm, kind, (const int64_t *) sizes->data, (int) sizes->len, rows);
  if (!options->quiet)
    print_notes (scenario);
  if (options->json) {
    print_json (kind, (int64_t) scenario->cluster.gpus_per_node * scenario->cluster.n_nodes, rows,
                (int) sizes->len, &against);
    return ZS_EXIT_DONE;
  }
  print_head (scenario, comm, kind);
  print_rows (rows, (int) sizes->len, &against);
  return ZS_EXIT_DONE;
}
