/* collectives-measured.c: predictions against nccl-tests results that others published.
 * SPDX-License-Identifier: MIT
 *
 *   collectives-measured            a line for each system, then the summary
 *   collectives-measured --rows     every row, as tab-separated values (for fit-collectives.py)
 *   collectives-measured --model    the same with NCCL's own estimate, uncalibrated
 *
 * A system is a row of measured-systems.tsv; systems weigh equally, whatever their number of rows.
 * All-to-all and send/recv are left out, as NCCL has no model of them.  Exits 1 when the program no
 * longer reaches what `--check` states. */
#include "config.h"

#include "sim/base/version.h"
#include "sim/network/nccl-comm.h"
#include "tests/network/fixtures.h"
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SYSTEM, GPUS, NODES, MATCH, GPU, PER_NODE, FABRIC, CPU, PEER, SHM, NETWORK, RANKS, RELEASE, ENVIRONMENT,
       PROCESS, USE,
       N_COLUMNS };

typedef struct {
  char      **column;
  bool        used;
  int         number;
  ZsTopology *topology;
  ZsComm     *comm;
  GArray     *small, *large;     /* of double: relative errors below 1 MiB and from it on */
} Machine;

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
build (Machine *machine, bool model)
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

static int
compare_doubles (const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return (x > y) - (x < y);
}

static double
median (GArray *values)
{
  if (values->len == 0)
    return NAN;
  qsort (values->data, values->len, sizeof (double), compare_doubles);
  return values->len % 2 == 1 ? g_array_index (values, double, values->len / 2)
         : (g_array_index (values, double, values->len / 2 - 1) + g_array_index (values, double, values->len / 2)) / 2;
}

static double
median_size (const GArray *errors)
{
  g_autoptr (GArray) sizes = g_array_new (FALSE, FALSE, sizeof (double));

  for (guint i = 0; i < errors->len; i++) {
    double size = fabs (g_array_index (errors, double, i));

    g_array_append_val (sizes, size);
  }
  return median (sizes);
}

static void
print_number (double value)
{
  if (isnan (value))
    printf (" %8s", "-");
  else
    printf (" %7.1f%%", value * 100);
}

int
main (int argc, char **argv)
{
  bool rows = false, model = false, check = false;
  g_autoptr (GPtrArray) machines = g_ptr_array_new ();
  g_autofree char *systems = read_data ("measured-systems.tsv"), *measured = read_data ("nccl-measured.csv");
  g_auto (GStrv) lines = g_strsplit (systems, "\n", -1), csv = g_strsplit (measured, "\n", -1);
  int n_unmatched = 0;

  for (int i = 1; i < argc; i++) {
    rows |= strcmp (argv[i], "--rows") == 0;
    model |= strcmp (argv[i], "--model") == 0;
    check |= strcmp (argv[i], "--check") == 0;
  }
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
      build (machine, model);
    g_ptr_array_add (machines, machine);
  }
  for (int i = 1; csv[i] != NULL; i++) {
    char *f[16];
    ZsCollectiveKind kind;

    if (split_csv (csv[i], f, 16) < 12 || f[5][0] == '\0')
      continue;
    if (!zs_collective_from_name (f[7], &kind) || kind == ZS_COLLECTIVE_ALL_TO_ALL || kind == ZS_COLLECTIVE_SEND_RECV)
      continue;
    double time = g_ascii_strtod (f[11], NULL);
    int64_t bytes = g_ascii_strtoll (f[8], NULL, 10);
    Machine *machine = NULL;

    for (guint m = 0; m < machines->len && machine == NULL; m++) {
      Machine *one = machines->pdata[m];

      if (g_str_has_prefix (f[0], one->column[SYSTEM]) && strcmp (f[3], one->column[GPUS]) == 0
          && strcmp (f[4], one->column[NODES]) == 0
          && (strstr (f[5], one->column[MATCH]) != NULL || strstr (f[12] != NULL ? f[12] : "", one->column[MATCH]) != NULL))
        machine = one;
    }
    n_unmatched += machine == NULL;
    if (machine == NULL || !machine->used || time <= 0 || bytes <= 0)
      continue;
    ZsCollectiveRow row;

    zs_collective_rows (machine->comm, kind, &bytes, 1, &row);
    /* A process that drives all GPUs launches on one after the other: about 3 us each (an 8-GPU box of V100
     * needs 33 us more than the model, of RTX 4090 23, of four 8).  This is the test's, not NCCL's. */
    double launches = strcmp (machine->column[PROCESS], "single") == 0 ? 3.0 * (atoi (f[3]) - 1) : 0;
    double predicted = (double) row.time / 1e6 + launches, error = predicted / time - 1;

    g_array_append_val (bytes < 1048576 ? machine->small : machine->large, error);
    if (rows) {
      /* what the fit needs: time less the launches, base latency and transfer, the row of factors */
      double latency = machine->comm->timing[kind].latency[row.algorithm][row.protocol], whole;

      whole = zs_nccl_time (&machine->comm->timing_input, &machine->comm->timing[kind], kind, row.algorithm, row.protocol,
                            bytes);
      double transfer = whole - latency;

      zs_nccl_base_time (machine->comm, kind, row.algorithm, row.protocol, bytes, &latency, &transfer);
      printf ("%d\t%s\t%s\t%s\t%s\t%s\t%s\t%" G_GINT64_FORMAT "\t%.2f\t%.3f\t%.3f\t%d\t%s\t%s\t%.3f\t%.2f\t%.1f\n",
              machine->number, machine->column[USE], machine->column[SYSTEM], f[3], f[4], machine->column[MATCH], f[7], bytes, time - launches, latency,
              transfer, zs_nccl_factor_row (machine->comm, row.algorithm, row.protocol), zs_algorithm_name (row.algorithm),
              zs_protocol_name (row.protocol), error, predicted, launches);
    }
  }
  if (rows)
    return 0;

  g_autoptr (GArray) large = g_array_new (FALSE, FALSE, sizeof (double)), small = g_array_new (FALSE, FALSE, sizeof (double));
  int n_within = 0, n_worse = 0;

  printf ("%-28s %4s %5s %5s %8s %8s %5s %8s  %s\n", "system", "GPUs", "nodes", "rows", ">= 1 MiB", "bias", "rows", "< 1 MiB",
          "found by NCCL's search");
  for (guint m = 0; m < machines->len; m++) {
    Machine *machine = machines->pdata[m];

    if (!machine->used || machine->small->len + machine->large->len == 0) {
      if (!machine->used)
        printf ("%-28s %4s %5s  left out: %s\n", machine->column[SYSTEM], machine->column[GPUS], machine->column[NODES],
                machine->column[USE]);
      continue;
    }
    double error = median_size (machine->large), error_small = median_size (machine->small);
    g_autofree char *found = zs_comm_describe (machine->comm);

    printf ("%-28s %4s %5s %5u", machine->column[SYSTEM], machine->column[GPUS], machine->column[NODES], machine->large->len);
    print_number (error);
    print_number (median (machine->large));
    printf (" %5u", machine->small->len);
    print_number (error_small);
    printf ("  %s\n", found);
    if (machine->large->len > 0) {
      g_array_append_val (large, error);
      n_within += error <= 0.30;
      n_worse += error > 0.30;
    }
    if (machine->small->len > 0)
      g_array_append_val (small, error_small);
  }
  double all = median (large), all_small = median (small);

  printf ("\n%u systems from 1 MiB: median error %.1f%%, %d of %u within 30%%; %u systems below 1 MiB: median error %.1f%%\n",
          large->len, all * 100, n_within, large->len, small->len, all_small * 100);
  if (n_unmatched > 0)
    printf ("%d rows belong to no system\n", n_unmatched);
  return check && (all > 0.12 || all_small > 0.30) ? 1 : 0;
}
