/* collectives-measured.c: predictions against nccl-tests results that others published.
 * SPDX-License-Identifier: MIT
 *
 *   collectives-measured            a line for each system, then the summary
 *   collectives-measured --rows     every row, as tab-separated values (for fit-collectives.py)
 *   collectives-measured --model    the same with NCCL's own estimate, uncalibrated
 *   collectives-measured --pairs    all-to-all and send/recv instead of the collectives that NCCL has a model of
 *
 * A system is a row of measured-systems.tsv; systems weigh equally, whatever their number of rows.
 * Exits 1 when the program no longer reaches what `--check` states. */
#include "config.h"

#include "tests/network/measured.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
  bool rows = false, model = false, check = false, pairs = false;
  int n_unmatched = 0;

  for (int i = 1; i < argc; i++) {
    rows |= strcmp (argv[i], "--rows") == 0;
    model |= strcmp (argv[i], "--model") == 0;
    check |= strcmp (argv[i], "--check") == 0;
    pairs |= strcmp (argv[i], "--pairs") == 0;
  }
  g_autoptr (GPtrArray) machines = measured_machines (model);
  g_autoptr (GArray) all_rows = measured_rows (machines, pairs);

  for (guint i = 0; i < all_rows->len; i++) {
    const MeasuredRow *measured = &g_array_index (all_rows, MeasuredRow, i);
    Machine *machine = measured->machine;
    ZsCollectiveKind kind = measured->kind;
    double time = measured->time, launches = measured->launches;
    int64_t bytes = measured->bytes;
    bool pair = kind == ZS_COLLECTIVE_ALL_TO_ALL || kind == ZS_COLLECTIVE_SEND_RECV;

    n_unmatched += machine == NULL && !pairs;
    if (machine == NULL || pair != pairs)
      continue;
    ZsCollectiveRow row;

    zs_collective_rows (machine->comm, kind, &bytes, 1, &row);
    double predicted = (double) row.time / 1e6 + launches, error = predicted / time - 1;

    g_array_append_val (bytes < 1048576 ? machine->small : machine->large, error);
    if (rows && pair)
      printf ("%s\t%s\t%s\t%s\t%s\t%" G_GINT64_FORMAT "\t%.1f\t%.1f\t%.3f\n", machine->column[SYSTEM], machine->column[GPUS],
              machine->column[NODES], machine->column[MATCH], zs_collective_name (kind), bytes, time, predicted, error);
    else if (rows) {
      /* what the fit needs: time less the launches, base latency and transfer, the row of factors */
      double latency = machine->comm->timing[kind].latency[row.algorithm][row.protocol], whole;

      whole = zs_nccl_time (&machine->comm->timing_input, &machine->comm->timing[kind], kind, row.algorithm, row.protocol,
                            bytes);
      double transfer = whole - latency;

      zs_nccl_base_time (machine->comm, kind, row.algorithm, row.protocol, bytes, &latency, &transfer);
      printf ("%d\t%s\t%s\t%s\t%s\t%s\t%s\t%" G_GINT64_FORMAT "\t%.2f\t%.3f\t%.3f\t%d\t%s\t%s\t%.3f\t%.2f\t%.1f\n",
              machine->number, machine->column[USE], machine->column[SYSTEM], machine->column[GPUS],
              machine->column[NODES], machine->column[MATCH], zs_collective_name (kind), bytes, time - launches, latency,
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
  return check && (all > 0.09 || all_small > 0.22 || n_within * 100 < 89 * (int) large->len) ? 1 : 0;
}
