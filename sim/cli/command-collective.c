/* command-collective.c: `zerosim collective OP`: the columns of nccl-tests.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/base/words.h"
#include "sim/cli/command-list.h"
#include "sim/cli/load.h"
#include "sim/io/json-writer.h"
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

static void
print_json (ZsCollectiveKind kind, int64_t n_ranks, const ZsCollectiveRow *rows, int n_rows)
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
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
  zs_json_end_object (writer);
}

static void
print_rows (const ZsScenario *scenario, const ZsComm *comm, ZsCollectiveKind kind,
            const ZsCollectiveRow *rows, int n_rows)
{
  g_autofree char *found = zs_comm_describe (comm);

  printf ("# zerosim %s: %s on %d x %s", PACKAGE_VERSION, zs_collective_name (kind),
          scenario->cluster.gpus_per_node * scenario->cluster.n_nodes, scenario->cluster.gpu.name);
  if (scenario->cluster.n_nodes > 1)
    printf (" (%d nodes)", scenario->cluster.n_nodes);
  printf ("\n# NCCL finds: %s\n# expect %.0f %% for 1 MiB and more\n#\n", found,
          100 * zs_comm_expected_error (comm));
  printf ("# %12s %12s %8s %8s %8s %10s %8s %8s\n", "size", "algorithm", "protocol", "channels", "",
          "time", "algbw", "busbw");
  printf ("# %12s %12s %8s %8s %8s %10s %8s %8s\n", "(B)", "", "", "", "", "(us)", "(GB/s)", "(GB/s)");
  for (int i = 0; i < n_rows; i++)
    printf ("%14" G_GINT64_FORMAT " %12s %8s %8d %8s %10.2f %8.2f %8.2f\n", rows[i].bytes,
            zs_algorithm_name (rows[i].algorithm), zs_protocol_name (rows[i].protocol),
            rows[i].channels, "", (double) rows[i].time / (double) ZS_MICROSECOND, rows[i].algbw,
            rows[i].busbw);
}

/* The cluster from --cluster, or from --gpus, --fabric ... */
static ZsScenario *
load_cluster (const ZsOptions *options, ZsCatalogue *catalogue)
{
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_auto (GStrv) sets = zs_sets_of (options);
  g_autoptr (ZsScenario) scenario = NULL;

  if (options->cluster == NULL)
    zs_errors_add (errors, "--cluster FILE says which machine: a YAML file with a cluster: block");
  else
    scenario = zs_scenario_load_cluster (options->cluster, (const char *const *) sets, catalogue,
                                         errors);
  if (scenario == NULL)
    zs_errors_print (errors, "", stderr);
  return g_steal_pointer (&scenario);
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
  g_autoptr (ZsCluster) cluster = zs_scenario_cluster (scenario, &error);

  if (cluster == NULL)
    return zs_command_fail (error);
  const ZsComm *comm = zs_cluster_comm (cluster, ZS_COMMUNICATOR_WORLD, 0);
  g_autofree ZsCollectiveRow *rows = g_new0 (ZsCollectiveRow, sizes->len);

  zs_collective_rows (comm, kind, (const int64_t *) sizes->data, (int) sizes->len, rows);
  if (options->json)
    print_json (kind, (int64_t) scenario->cluster.gpus_per_node * scenario->cluster.n_nodes, rows,
                (int) sizes->len);
  else
    print_rows (scenario, comm, kind, rows, (int) sizes->len);
  return ZS_EXIT_DONE;
}
