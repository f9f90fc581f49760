/* command-topology.c: `zerosim topology FILE`: what was understood of a machine.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <libsmartcols.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/units.h"
#include "sim/cli/command-list.h"
#include "sim/cli/load.h"
#include "sim/io/file.h"
#include "sim/io/json-writer.h"

static void
print_json (const ZsTopology *topology)
{
  g_autoptr (ZsJsonWriter) writer = zs_json_writer_new_file (stdout, 2);

  zs_json_begin_object (writer, NULL);
  zs_json_string (writer, "name", topology->name);
  zs_json_int (writer, "gpus", topology->n_gpus);
  zs_json_int (writer, "nics", topology->n_nics);
  zs_json_begin_array (writer, "links");
  for (int a = 0; a < topology->n_gpus; a++)
    for (int b = a + 1; b < topology->n_gpus; b++) {
      g_autofree char *cell = zs_topology_cell (topology, a, b);

      zs_json_compact (writer);
      zs_json_begin_object (writer, NULL);
      zs_json_int (writer, "a", a);
      zs_json_int (writer, "b", b);
      zs_json_string (writer, "kind", cell);
      zs_json_end_object (writer);
    }
  zs_json_end_array (writer);
  zs_json_begin_array (writer, "warnings");
  for (guint i = 0; i < topology->warnings->len; i++)
    zs_json_string (writer, NULL, g_ptr_array_index (topology->warnings, i));
  zs_json_end_array (writer);
  zs_json_end_object (writer);
}

static void
print_tree (const ZsTopology *topology)
{
  g_autoptr (GArray) rows = zs_topology_rows (topology);
  struct libscols_table *table = scols_new_table ();
  struct libscols_line *parents[64] = { NULL };

  scols_table_new_column (table, "PART", 0, SCOLS_FL_TREE);
  scols_table_new_column (table, "KIND", 0, 0);
  scols_table_new_column (table, "LINK", 0, 0);
  scols_table_new_column (table, "RATE", 0, SCOLS_FL_RIGHT);
  for (guint i = 0; i < rows->len; i++) {
    const ZsTopologyRow *row = &g_array_index (rows, ZsTopologyRow, i);
    int depth = CLAMP (row->depth, 0, 63);
    struct libscols_line *line
        = scols_table_new_line (table, depth > 0 ? parents[depth - 1] : NULL);

    parents[depth] = line;
    scols_line_set_data (line, 0, row->name);
    scols_line_set_data (line, 1, row->kind);
    if (row->link >= 0)
      scols_line_set_data (line, 2, zs_link_kind_name (topology->links[row->link].kind));
    if (row->rate > 0) {
      g_autofree char *rate = zs_rate_format (row->rate);

      scols_line_set_data (line, 3, rate);
    }
  }
  scols_print_table (table);
  scols_unref_table (table);
}

static void
print_pairs (const ZsTopology *topology)
{
  if (topology->n_gpus < 2)
    return;
  printf ("\n%6s", "");
  for (int b = 0; b < topology->n_gpus; b++)
    printf (" GPU%-3d", b);
  printf ("\n");
  for (int a = 0; a < topology->n_gpus; a++) {
    printf ("GPU%-3d", a);
    for (int b = 0; b < topology->n_gpus; b++) {
      g_autofree char *cell = a == b ? g_strdup ("X") : zs_topology_cell (topology, a, b);

      printf (" %-6s", cell);
    }
    printf ("\n");
  }
}

/* FILE is a text of nvidia-smi or an XML of NCCL, or a YAML with a cluster: block. */
static ZsTopology *
load (const char *path, ZsCatalogue *catalogue, ZsScenario **ret_scenario, GError **error)
{
  ZsTopologyOptions options = { .peer_access = -1 };

  if (g_str_has_suffix (path, ".yaml") || g_str_has_suffix (path, ".yml")) {
    g_autoptr (ZsErrors) errors = zs_errors_new ();

    *ret_scenario = zs_scenario_load_cluster (path, NULL, NULL, catalogue, errors);
    if (*ret_scenario != NULL)
      return (*ret_scenario)->topology;
    g_autofree char *text = zs_errors_text (errors);

    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s", g_strchomp (text));
    return NULL;
  }
  return zs_topology_from_file (path, &options, error);
}

/* What the reader had to assume, which no file says. */
static void
print_assumptions (const ZsTopology *topology, bool text)
{
  int generation = 0;

  for (int l = 0; l < topology->n_links; l++)
    if (topology->links[l].kind == ZS_LINK_PCIE)
      generation = MAX (generation, topology->links[l].generation);
  printf ("\nAssumed:\n");
  if (text)
    printf ("  the text gives classes, not rates: PCIe %d x16, links as fast as others have measured them\n",
            generation);
  for (int i = 0; i < topology->n_links; i++) {
    const ZsLink *link = &topology->links[i];

    if (link->kind == ZS_LINK_SOCKET) {
      g_autofree char *rate = zs_rate_format (link->rate), *nccl = zs_rate_format (link->nccl_rate);

      printf ("  between sockets: %s; NCCL believes %s\n", rate, nccl);
      break;
    }
  }
  for (int i = 0; i < topology->n_links; i++) {
    const ZsLink *link = &topology->links[i];

    if (link->kind == ZS_LINK_MEMORY) {
      g_autofree char *rate = zs_rate_format (link->rate);

      printf ("  host memory of %s: %s, reads and writes together\n", topology->parts[link->from].name, rate);
      break;
    }
  }
  for (int g = 0; g < topology->n_gpus; g++)
    if (topology->parts[topology->gpus[g]].peer_access) {
      printf ("  GPUs may reach each other over PCIe (peer_access: false says otherwise)\n");
      break;
    }
}

int
zs_command_topology (const ZsOptions *options, char **arguments)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (ZsScenario) scenario = NULL;
  ZsTopology *topology = load (arguments[0], catalogue, &scenario, &error);

  if (topology == NULL)
    return zs_command_fail (error);
  if (options->plot != NULL) {
    g_autofree char *svg = zs_topology_svg (topology);

    if (!zs_file_write (options->plot, svg, -1, &error)) {
      if (scenario == NULL)
        zs_topology_free (topology);
      return zs_command_fail (error);
    }
  }
  if (options->json) {
    print_json (topology);
  } else if (options->plot == NULL || strcmp (options->plot, "-") != 0) {
    print_tree (topology);
    print_pairs (topology);
    for (guint i = 0; i < topology->warnings->len; i++)
      printf ("%s%s\n", i == 0 ? "\n" : "", (char *) g_ptr_array_index (topology->warnings, i));
    print_assumptions (topology, scenario == NULL && !g_str_has_suffix (arguments[0], ".xml"));
  }
  if (scenario == NULL)
    zs_topology_free (topology);
  return ZS_EXIT_DONE;
}
