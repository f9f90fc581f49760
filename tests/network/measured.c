/* measured.c: the machines of measured-systems.tsv and their rows.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/network/measured.h"

#include "sim/base/version.h"
#include "tests/network/fixtures.h"
#include "tests/testing.h"

#include <stdlib.h>
#include <string.h>

static char *
read_data (const char *name)
{
  g_autofree char *relative = g_strdup_printf ("tests/data/network/%s", name);
  g_autofree char *path = testing_source_path (relative);
  char *text = NULL;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    g_error ("%s cannot be read", path);
  return text;
}

static void
build (Machine *machine, bool model, const ZsLinkCalibration *calibration)
{
  char **column = machine->column;
  g_autofree char *models = fixture_models ();
  ZsHost host = { .vendor = strcmp (column[CPU], "amd") == 0 ? ZS_CPU_AMD : strcmp (column[CPU], "arm") == 0 ? ZS_CPU_ARM
                            : ZS_CPU_INTEL };
  ZsTopologyOptions options = { .gpu = fixture_gpu (column[GPU]), .n_gpus = atoi (column[PER_NODE]), .host = &host,
                                .peer_access = atoi (column[PEER]) };
  int n_nodes = atoi (column[NODES]), n_ranks = atoi (column[GPUS]), per_node = n_ranks / n_nodes;
  g_autoptr (GError) error = NULL;
  int64_t ranks[512];
  g_auto (GStrv) chosen = g_strsplit (column[RANKS], ",", -1);
  const char *environment[] = { column[ENVIRONMENT][0] != '\0' ? column[ENVIRONMENT] : NULL, NULL };
  ZsNcclConfig config = { .environment = environment, .no_calibration = model };

  if (calibration != NULL)
    options.calibration = *calibration;
  if (options.gpu == NULL)
    g_error ("unknown GPU %s", column[GPU]);
  /* preset of hosts that hand GPUs to containers: NCCL through host memory at 3 GB/s */
  if (strcmp (column[SHM], "container") == 0)
    options.shm_rate = INT64_C (3000000000);
  machine->topology = zs_topology_from_fabric (models, column[FABRIC], &options, &error);
  if (machine->topology == NULL)
    g_error ("%s: %s", column[SYSTEM], error->message);
  if (n_nodes > 1) {
    g_auto (GStrv) parts = g_strsplit (column[NETWORK], ":", 2);
    ZsNetwork network;

    if (!zs_network_load (models, parts[0], &network, &error))
      g_error ("%s: %s", column[SYSTEM], error->message);
    if (parts[1] != NULL)
      network.nics = atoi (parts[1]);
    if (!zs_topology_connect (machine->topology, n_nodes, &network, &error))
      g_error ("%s: %s", column[SYSTEM], error->message);
  }
  for (int r = 0; r < n_ranks; r++) {
    int gpu = chosen[0] != NULL && (int) g_strv_length (chosen) == n_ranks ? atoi (chosen[r]) : r % per_node;

    ranks[r] = (int64_t) (r / per_node) * machine->topology->n_gpus + gpu;
  }
  zs_version_parse (column[RELEASE], &config.version);
  machine->comm = zs_comm_new (machine->topology, ranks, n_ranks, &config, &error);
  if (machine->comm == NULL)
    g_error ("%s: %s", column[SYSTEM], error->message);
}

static int
split_csv (char *line, char **fields, int room)
{
  int n = 0;

  for (char *at = line; n < room;) {
    char *to = at;
    bool quoted = false;

    fields[n++] = to;
    for (; *at != '\0' && (quoted || *at != ','); at++) {
      if (*at == '"')
        quoted = !quoted;
      else
        *to++ = *at;
    }
    bool end = *at == '\0';

    *to = '\0';
    if (end)
      break;
    at++;
  }
  return n;
}

void
measured_rebuild (Machine *machine, const ZsLinkCalibration *calibration)
{
  zs_comm_free (machine->comm);
  zs_topology_free (machine->topology);
  build (machine, false, calibration);
}

static void
free_machine (gpointer data)
{
  Machine *machine = data;

  zs_comm_free (machine->comm);
  zs_topology_free (machine->topology);
  g_array_unref (machine->small);
  g_array_unref (machine->large);
  g_strfreev (machine->column);
  g_free (machine);
}

GPtrArray *
measured_machines (bool model)
{
  GPtrArray *machines = g_ptr_array_new_with_free_func (free_machine);
  g_autofree char *systems = read_data ("measured-systems.tsv");
  g_auto (GStrv) lines = g_strsplit (systems, "\n", -1);

  for (int i = 0; lines[i] != NULL; i++) {
    if (lines[i][0] == '#' || lines[i][0] == '\0' || g_str_has_prefix (lines[i], "system\t"))
      continue;
    Machine *machine = g_new0 (Machine, 1);

    machine->column = g_strsplit (lines[i], "\t", -1);
    if (g_strv_length (machine->column) != N_COLUMNS)
      g_error ("measured-systems.tsv:%d: %u columns, not %d", i + 1, g_strv_length (machine->column), N_COLUMNS);
    machine->number = (int) machines->len;
    machine->used = !g_str_has_prefix (machine->column[USE], "no");
    machine->small = g_array_new (FALSE, FALSE, sizeof (double));
    machine->large = g_array_new (FALSE, FALSE, sizeof (double));
    if (machine->used)
      build (machine, model, NULL);
    g_ptr_array_add (machines, machine);
  }
  return machines;
}

GArray *
measured_rows (GPtrArray *machines, bool pairs)
{
  GArray *rows = g_array_new (FALSE, FALSE, sizeof (MeasuredRow));
  g_autofree char *measured = read_data ("nccl-measured.csv");
  g_auto (GStrv) csv = g_strsplit (measured, "\n", -1);

  for (int i = 1; csv[i] != NULL; i++) {
    char *f[16] = { NULL };
    MeasuredRow row = { .machine = NULL };

    if (split_csv (csv[i], f, 16) < 12 || f[5][0] == '\0' || !zs_collective_from_name (f[7], &row.kind))
      continue;
    if ((row.kind == ZS_COLLECTIVE_ALL_TO_ALL || row.kind == ZS_COLLECTIVE_SEND_RECV) && !pairs)
      continue;
    row.time = g_ascii_strtod (f[11], NULL);
    row.bytes = g_ascii_strtoll (f[8], NULL, 10);
    for (guint m = 0; m < machines->len && row.machine == NULL; m++) {
      Machine *one = machines->pdata[m];

      if (g_str_has_prefix (f[0], one->column[SYSTEM]) && strcmp (f[3], one->column[GPUS]) == 0
          && strcmp (f[4], one->column[NODES]) == 0
          && (strstr (f[5], one->column[MATCH]) != NULL || strstr (f[12] != NULL ? f[12] : "", one->column[MATCH]) != NULL))
        row.machine = one;
    }
    /* A process that drives all GPUs launches on one after the other: 3 us each, as for a log (nccl-log.h). */
    if (row.machine != NULL && strcmp (row.machine->column[PROCESS], "single") == 0)
      row.launches = 3.0 * (atoi (f[3]) - 1);
    if (row.machine == NULL || (row.machine->used && row.time > 0 && row.bytes > 0))
      g_array_append_val (rows, row);
  }
  return rows;
}
