/* test-calibration.c: what a fit does to what it has not seen.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/calibrate/bandwidth-log.h"
#include "sim/calibrate/fit.h"
#include "tests/network/measured.h"
#include "tests/testing.h"

#include <math.h>
#include <stdlib.h>

/* ---- the fit alone ---- */

typedef struct {
  int    n;
  double x[64], y[64], measured[64];
} Line;

static double
line_ratio (const void *self, int i, const double *factors, double *ret_weight)
{
  const Line *line = self;

  *ret_weight = 1;
  return (line->x[i] * factors[0] + line->y[i] * factors[1]) / line->measured[i];
}

static void
known_factors_are_found (void)
{
  const unsigned int seed = 7;
  g_autoptr (GRand) random = g_rand_new_with_seed (seed);

  for (int trial = 0; trial < 20; trial++) {
    double a = exp (g_rand_double_range (random, -1, 1)), b = exp (g_rand_double_range (random, -1, 1));
    Line line = { .n = 24 };
    ZsFitFactor specs[2] = { { .low = 0.1, .high = 10 }, { .low = 0.1, .high = 10 } };
    double factors[2] = { 1, 1 };

    for (int i = 0; i < line.n; i++) {
      line.x[i] = 20;
      line.y[i] = pow (2, i - 8);
      line.measured[i] = line.x[i] * a + line.y[i] * b;
    }
    double rest = zs_fit (line_ratio, &line, line.n, specs, 2, factors);

    if (fabs (factors[0] / a - 1) > 1e-3 || fabs (factors[1] / b - 1) > 1e-3 || rest > 1e-3)
      CU_FAIL ("factors that made the numbers are not found");
    specs[1].fixed = true;
    factors[0] = factors[1] = 1;
    zs_fit (line_ratio, &line, line.n, specs, 2, factors);
    CU_ASSERT_EQUAL (factors[1], 1);
    specs[1] = (ZsFitFactor) { .low = 0.9, .high = 1.1, .prior = 1e6 };
    zs_fit (line_ratio, &line, line.n, specs, 2, factors);
    CU_ASSERT_TRUE (factors[1] >= 0.9 && factors[1] <= 1.1);
    CU_ASSERT_DOUBLE_EQUAL (factors[1], 1, 1e-3);
  }
}

/* ---- rows of a machine, every second one held back ---- */

typedef struct {
  double latency, transfer, added, measured;
  int    group;
} Sample;

static double
sample_ratio (const void *self, int i, const double *factors, double *ret_weight)
{
  const Sample *sample = &g_array_index ((const GArray *) self, Sample, i);

  *ret_weight = 1;
  return (sample->latency * factors[0] + sample->transfer * factors[sample->group] + sample->added) / sample->measured;
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
  qsort (values->data, values->len, sizeof (double), compare_doubles);
  return (g_array_index (values, double, (values->len - 1) / 2) + g_array_index (values, double, values->len / 2)) / 2;
}

/* Median error of the rows of MACHINE whose number is odd. */
static double
held_back (GArray *rows, const Machine *machine)
{
  g_autoptr (GArray) errors = g_array_new (FALSE, FALSE, sizeof (double));
  int n = 0;

  for (guint i = 0; i < rows->len; i++) {
    const MeasuredRow *row = &g_array_index (rows, MeasuredRow, i);
    ZsCollectiveRow one;

    if (row->machine != machine || n++ % 2 == 0)
      continue;
    zs_collective_rows (machine->comm, row->kind, &row->bytes, 1, &one);
    double error = fabs (((double) one.time / ZS_MICROSECOND + row->launches) / row->time - 1);

    g_array_append_val (errors, error);
  }
  return median (errors);
}

static void
rows_that_were_held_back_are_met_better (void)
{
  g_autoptr (GPtrArray) machines = measured_machines (false);
  g_autoptr (GArray) rows = measured_rows (machines, false);
  g_autoptr (GArray) before = g_array_new (FALSE, FALSE, sizeof (double)), after = g_array_new (FALSE, FALSE, sizeof (double));
  int n_better = 0, n_worse = 0;

  for (guint m = 0; m < machines->len; m++) {
    Machine *machine = machines->pdata[m];
    g_autoptr (GArray) samples = g_array_new (FALSE, FALSE, sizeof (Sample));
    ZsFitFactor specs[4] = { { 0.1, 10, 1, false }, { 0.1, 10, 1, false }, { 0.1, 10, 1, false }, { 0.1, 10, 1, false } };
    double factors[4] = { 1, 1, 1, 1 };
    int n = 0;

    for (guint i = 0; machine->used && i < rows->len; i++) {
      const MeasuredRow *row = &g_array_index (rows, MeasuredRow, i);
      ZsChoice choice;

      if (row->machine != machine || n++ % 2 != 0)
        continue;
      zs_comm_choose (machine->comm, row->kind, row->bytes, &choice);
      bool nvls = choice.algorithm == ZS_ALGORITHM_NVLS || choice.algorithm == ZS_ALGORITHM_NVLS_TREE;
      Sample sample = { (double) choice.latency / ZS_MICROSECOND, (double) choice.transfer / ZS_MICROSECOND, row->launches,
                        row->time, nvls ? 3 : choice.protocol == ZS_PROTOCOL_SIMPLE ? 2 : 1 };

      g_array_append_val (samples, sample);
    }
    if (samples->len < 5)
      continue;
    double old = held_back (rows, machine);

    zs_fit (sample_ratio, samples, (int) samples->len, specs, 4, factors);
    ZsLinkCalibration calibration = { .collective_latency = factors[0], .collective_ll = factors[1],
                                      .collective_simple = factors[2], .collective_nvls = factors[3] };

    measured_rebuild (machine, &calibration);
    double new = held_back (rows, machine);

    printf ("# %-28s %s GPUs: held back %5.1f %% -> %5.1f %% (latency %.2f, LL %.2f, Simple %.2f, NVLS %.2f)\n",
            machine->column[SYSTEM], machine->column[GPUS], 100 * old, 100 * new, factors[0], factors[1], factors[2], factors[3]);
    g_array_append_val (before, old);
    g_array_append_val (after, new);
    n_better += new < old;
    n_worse += new > old + 0.05;
  }
  printf ("# median over %u machines: %.1f %% -> %.1f %%, %d better, %d worse by more than 5 %%\n", before->len,
          100 * median (before), 100 * median (after), n_better, n_worse);
  CU_ASSERT_TRUE (before->len >= 15);
  CU_ASSERT_TRUE (median (after) < 0.8 * median (before));
  CU_ASSERT_TRUE (n_better > 2 * n_worse);
}

static void
logs_of_copies_are_read (void)
{
  static const char NVBANDWIDTH[] = "nvbandwidth Version: v0.6\n"
    "Running host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n"
    "           0         1\n 0     55.64     55.42\n\nSUM host_to_device_memcpy_ce 111.06\n\n"
    "Running host_to_device_bidirectional_memcpy_ce.\n           0\n 0     11.00\n";
  static const char BANDWIDTH_TEST[] = " Host to Device Bandwidth, 1 Device(s)\n PINNED Memory Transfers\n"
    "   Transfer Size (Bytes)\tBandwidth(MB/s)\n   33554432\t\t\t12500.0\n\n"
    " Device to Host Bandwidth, 1 Device(s)\n PAGEABLE Memory Transfers\n"
    "   Transfer Size (Bytes)\tBandwidth(MB/s)\n   33554432\t\t\t3000.0\n";
  g_autoptr (GError) error = NULL;
  g_autoptr (ZsBandwidthLog) a = zs_bandwidth_log_parse ("a", NVBANDWIDTH, &error);
  g_autoptr (ZsBandwidthLog) b = zs_bandwidth_log_parse ("b", BANDWIDTH_TEST, &error);
  g_autoptr (ZsBandwidthLog) c = NULL;

  CU_ASSERT_PTR_NOT_NULL_FATAL (a);
  CU_ASSERT_PTR_NOT_NULL_FATAL (b);
  CU_ASSERT_EQUAL (a->to_gpu->len, 2);
  CU_ASSERT_EQUAL (a->to_host->len, 0);
  CU_ASSERT_EQUAL (g_array_index (a->to_gpu, ZsRate, 1), INT64_C (55420000000));
  CU_ASSERT_EQUAL (b->to_gpu->len, 1);
  CU_ASSERT_EQUAL (g_array_index (b->to_gpu, ZsRate, 0), INT64_C (12500000000));
  CU_ASSERT_EQUAL (b->to_host->len, 0);   /* pageable */
  c = zs_bandwidth_log_parse ("c", "nvbandwidth Version: v0.6\n", &error);
  CU_ASSERT_PTR_NULL (c);
  CU_ASSERT_PTR_NOT_NULL (error);
  /* cut anywhere: an answer or an error, never a crash */
  for (size_t n = 0; n < sizeof NVBANDWIDTH; n++) {
    g_autofree char *cut = g_strndup (NVBANDWIDTH, n);

    zs_bandwidth_log_free (zs_bandwidth_log_parse ("cut", cut, NULL));
  }
}

int
main (void)
{
  static const CU_TestInfo TESTS[] = {
    { "factors that made the numbers are found", known_factors_are_found },
    { "rows that were held back are met better", rows_that_were_held_back_are_met_better },
    { "logs of copies are read", logs_of_copies_are_read },
    CU_TEST_INFO_NULL,
  };
  return testing_main ("calibration", TESTS);
}
