/* calibration.c: fits what is uncertain of a machine.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/calibrate/bandwidth-log.h"
#include "sim/calibrate/calibration.h"
#include "sim/calibrate/fit.h"

#include "sim/base/error.h"
#include "sim/io/file.h"
#include "sim/scenario/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A machine that meets the model draws each factor as strongly as one measured row of median size. */
#define PRIOR 1.0
/* Steps are runs: few of them, and a bisection of the logarithm that ends at 0.1 %. */
#define STEP_ROUNDS 9
#define STEP_LOW    0.4
#define STEP_HIGH   2.5

/* One row: TIME is the sum of parts that factors scale. */
typedef struct {
  double   latency, transfer, added;   /* us; of the model, and what the test adds */
  ZsFactor group;                      /* of the transfer */
  double   measured;                   /* us */
  int      source;                     /* index in sources */
} Row;

typedef struct {
  ZsFactor factor;
  double   model, measured;            /* bytes per second */
  int      source;
} Copy;

typedef struct {
  char    *path;
  double   step_seconds;
  int      source;
  ZsFactor factor;                     /* that is fitted to it */
  double   log_speed, before;          /* what it asks for; its error without */
} Step;

struct ZsCalibration {
  const ZsScenario *machine;
  ZsCluster *cluster;
  GArray    *rows, *copies, *steps;
  GPtrArray *sources;
  ZsFitted   fitted[ZS_N_FACTORS];
};

const char *
zs_factor_name (ZsFactor factor)
{
  static const char *const NAMES[] = { "collective_latency", "collective_ll", "collective_simple", "collective_nvls",
                                       "to_gpu", "to_host", "kernels", "python" };
  return NAMES[factor];
}

static void
clear_step (void *step)
{
  g_free (((Step *) step)->path);
}

ZsCalibration *
zs_calibration_new (const ZsScenario *machine, GError **error)
{
  ZsCluster *cluster = zs_scenario_cluster (machine, error);

  if (cluster == NULL)
    return NULL;
  ZsCalibration *calibration = g_new0 (ZsCalibration, 1);

  calibration->machine = machine;
  calibration->cluster = cluster;
  calibration->rows = g_array_new (FALSE, FALSE, sizeof (Row));
  calibration->copies = g_array_new (FALSE, FALSE, sizeof (Copy));
  calibration->steps = g_array_new (FALSE, FALSE, sizeof (Step));
  g_array_set_clear_func (calibration->steps, clear_step);
  calibration->sources = g_ptr_array_new_with_free_func (g_free);
  for (int f = 0; f < ZS_N_FACTORS; f++)
    calibration->fitted[f].value = 1;
  return calibration;
}

void
zs_calibration_free (ZsCalibration *calibration)
{
  if (calibration == NULL)
    return;
  for (int f = 0; f < ZS_N_FACTORS; f++)
    g_free (calibration->fitted[f].source);
  zs_cluster_free (calibration->cluster);
  g_array_unref (calibration->rows);
  g_array_unref (calibration->copies);
  g_array_unref (calibration->steps);
  g_ptr_array_unref (calibration->sources);
  g_free (calibration);
}

static int
source_number (ZsCalibration *calibration, const char *source)
{
  for (guint i = 0; i < calibration->sources->len; i++)
    if (strcmp (g_ptr_array_index (calibration->sources, i), source) == 0)
      return (int) i;
  g_ptr_array_add (calibration->sources, g_strdup (source));
  return (int) calibration->sources->len - 1;
}

bool
zs_calibration_add_log (ZsCalibration *calibration, const ZsNcclLog *log, const char *source, GError **error)
{
  const ZsComm *comm = zs_cluster_comm (calibration->cluster, ZS_COMMUNICATOR_WORLD, 0);
  const ZsClusterSettings *cluster = &calibration->machine->cluster;
  int n_ranks = cluster->gpus_per_node * cluster->n_nodes;

  if (!log->kind_known) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s: the log does not name its collective", source);
    return false;
  }
  if (log->n_ranks > 0 && log->n_ranks != n_ranks) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s: %d ranks in the log, %d in the machine", source, log->n_ranks, n_ranks);
    return false;
  }
  for (guint i = 0; i < log->rows->len; i++) {
    const ZsNcclLogRow *one = &g_array_index (log->rows, ZsNcclLogRow, i);
    ZsChoice choice;

    zs_comm_choose (comm, log->kind, one->bytes, &choice);
    bool nvls = choice.algorithm == ZS_ALGORITHM_NVLS || choice.algorithm == ZS_ALGORITHM_NVLS_TREE;
    Row row = { .latency = (double) choice.latency / ZS_MICROSECOND, .transfer = (double) choice.transfer / ZS_MICROSECOND,
                .added = (double) zs_nccl_log_launches (log->per_thread) / ZS_MICROSECOND,
                .group = nvls ? ZS_FACTOR_COLLECTIVE_NVLS
                         : choice.protocol == ZS_PROTOCOL_SIMPLE ? ZS_FACTOR_COLLECTIVE_SIMPLE : ZS_FACTOR_COLLECTIVE_LL,
                .measured = (double) one->time / ZS_MICROSECOND, .source = source_number (calibration, source) };

    if (row.latency + row.transfer > 0)
      g_array_append_val (calibration->rows, row);
  }
  return true;
}

void
zs_calibration_add_copy (ZsCalibration *calibration, ZsCopyKind copy, ZsRate rate, const char *source)
{
  Copy one = { .factor = copy == ZS_COPY_HOST_TO_GPU ? ZS_FACTOR_TO_GPU : ZS_FACTOR_TO_HOST,
               .model = (double) zs_topology_copy_rate (calibration->machine->topology, 0, copy, true),
               .measured = (double) rate, .source = source_number (calibration, source) };

  g_array_append_val (calibration->copies, one);
}

static bool
add_step (ZsCalibration *calibration, const char *path, ZsCatalogue *catalogue, ZsErrors *errors)
{
  g_autoptr (ZsScenario) scenario = zs_scenario_load (path, NULL, NULL, catalogue, errors);

  if (scenario == NULL)
    return false;
  double seconds = scenario->measured.any && scenario->measured.step_time > 0
                   ? zs_time_to_seconds (scenario->measured.step_time) : 0;

  if (seconds <= 0)
    return zs_errors_add (errors, "%s: no step_time in a measured: block", path);
  g_autofree char *name = g_path_get_basename (path);
  Step step = { .path = g_strdup (path), .step_seconds = seconds, .source = source_number (calibration, name) };

  g_array_append_val (calibration->steps, step);
  return true;
}

bool
zs_calibration_add_file (ZsCalibration *calibration, const char *path, ZsCatalogue *catalogue, ZsErrors *errors)
{
  g_autofree char *text = NULL, *name = g_path_get_basename (path);
  GError *error = NULL;
  gsize length;

  if (g_str_has_suffix (path, ".yaml") || g_str_has_suffix (path, ".yml"))
    return add_step (calibration, path, catalogue, errors);
  if (!zs_file_read (path, 16 << 20, &text, &length, &error)) {
    zs_errors_take (errors, error);
    return false;
  }
  if (zs_bandwidth_log_is (text)) {
    g_autoptr (ZsBandwidthLog) log = zs_bandwidth_log_parse (path, text, &error);

    if (log == NULL) {
      zs_errors_take (errors, error);
      return false;
    }
    for (guint i = 0; i < log->to_gpu->len; i++)
      zs_calibration_add_copy (calibration, ZS_COPY_HOST_TO_GPU, g_array_index (log->to_gpu, ZsRate, i), name);
    for (guint i = 0; i < log->to_host->len; i++)
      zs_calibration_add_copy (calibration, ZS_COPY_GPU_TO_HOST, g_array_index (log->to_host, ZsRate, i), name);
    return true;
  }
  g_autoptr (ZsNcclLog) log = zs_nccl_log_parse (path, text, (gssize) length, &error);

  if (log == NULL || !zs_calibration_add_log (calibration, log, name, &error)) {
    zs_errors_take (errors, error);
    return false;
  }
  return true;
}

/* ---- fitting ---- */

static double
row_ratio (const void *self, int i, const double *factors, double *ret_weight)
{
  const ZsCalibration *calibration = self;
  const Row *row = &g_array_index (calibration->rows, Row, i);

  *ret_weight = 1;
  return (row->latency * factors[ZS_FACTOR_COLLECTIVE_LATENCY] + row->transfer * factors[row->group] + row->added)
         / row->measured;
}

static double
copy_ratio (const void *self, int i, const double *factors, double *ret_weight)
{
  const ZsCalibration *calibration = self;
  const Copy *copy = &g_array_index (calibration->copies, Copy, i);

  *ret_weight = 1;
  return copy->model * factors[copy->factor] / copy->measured;
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
  guint n = values->len;

  if (n == 0)
    return 0;
  qsort (values->data, n, sizeof (double), compare_doubles);
  return (g_array_index (values, double, (n - 1) / 2) + g_array_index (values, double, n / 2)) / 2;
}

/* Does row I say something of FACTOR: the greater part of its time is what it scales? */
static bool
rests_on (const Row *row, ZsFactor factor)
{
  return factor == ZS_FACTOR_COLLECTIVE_LATENCY ? row->latency >= row->transfer
                                                : row->group == factor && row->transfer > row->latency;
}

static void
note_source (ZsCalibration *calibration, ZsFactor factor, GArray *numbers)
{
  GString *text = g_string_new (NULL);
  int last = -1;

  for (guint i = 0; i < numbers->len; i++) {   /* in the order in which they were added */
    int number = g_array_index (numbers, int, i);

    if (number != last)
      g_string_append_printf (text, "%s%s", text->len > 0 ? ", " : "",
                              (char *) g_ptr_array_index (calibration->sources, number));
    last = number;
  }
  g_free (calibration->fitted[factor].source);
  calibration->fitted[factor].source = g_string_free (text, FALSE);
}

/* Fill in what FACTOR rests on. */
static void
summarise (ZsCalibration *calibration, ZsFactor factor, ZsFitRatio ratio, int n, const double *before, const double *after)
{
  g_autoptr (GArray) a = g_array_new (FALSE, FALSE, sizeof (double)), b = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr (GArray) numbers = g_array_new (FALSE, FALSE, sizeof (int));
  ZsFitted *fitted = &calibration->fitted[factor];
  bool rows = ratio == row_ratio;

  for (int i = 0; i < n; i++) {
    bool counts = rows ? rests_on (&g_array_index (calibration->rows, Row, i), factor)
                       : g_array_index (calibration->copies, Copy, i).factor == factor;
    int source = rows ? g_array_index (calibration->rows, Row, i).source : g_array_index (calibration->copies, Copy, i).source;
    double weight, x = fabs (ratio (calibration, i, before, &weight) - 1), y = fabs (ratio (calibration, i, after, &weight) - 1);

    if (!counts)
      continue;
    g_array_append_val (a, x);
    g_array_append_val (b, y);
    g_array_append_val (numbers, source);
  }
  fitted->n_rows = (int) a->len;
  fitted->value = a->len > 0 ? after[factor] : 1;
  fitted->before = median (a);
  fitted->after = median (b);
  note_source (calibration, factor, numbers);
}

static void
fit_links (ZsCalibration *calibration)
{
  ZsFitFactor specs[ZS_N_FACTORS];
  double before[ZS_N_FACTORS], after[ZS_N_FACTORS];

  for (int f = 0; f < ZS_N_FACTORS; f++) {
    bool measured = false;

    for (guint i = 0; i < calibration->rows->len; i++)
      measured |= rests_on (&g_array_index (calibration->rows, Row, i), (ZsFactor) f);
    for (guint i = 0; i < calibration->copies->len; i++)
      measured |= (int) g_array_index (calibration->copies, Copy, i).factor == f;
    specs[f] = (ZsFitFactor) { .low = 0.1, .high = 10, .prior = PRIOR, .fixed = !measured };
    before[f] = after[f] = 1;
  }
  zs_fit (row_ratio, calibration, (int) calibration->rows->len, specs, ZS_FACTOR_TO_GPU, after);
  /* a rate is measured directly: nothing draws it to 1 */
  specs[ZS_FACTOR_TO_GPU].prior = specs[ZS_FACTOR_TO_HOST].prior = 0;
  zs_fit (copy_ratio, calibration, (int) calibration->copies->len, specs, ZS_FACTOR_KERNELS, after);
  for (int f = 0; f < ZS_FACTOR_TO_GPU; f++)
    summarise (calibration, (ZsFactor) f, row_ratio, (int) calibration->rows->len, before, after);
  for (int f = ZS_FACTOR_TO_GPU; f < ZS_FACTOR_KERNELS; f++)
    summarise (calibration, (ZsFactor) f, copy_ratio, (int) calibration->copies->len, before, after);
}

/* Seconds of the step of PATH with FACTOR at VALUE and the others as fitted; < 0: it does not run. */
static double
run_step (const ZsCalibration *calibration, const char *path, ZsFactor factor, double value, ZsCatalogue *catalogue,
          bool *ret_host_bound, ZsErrors *errors)
{
  g_autoptr (GPtrArray) sets = g_ptr_array_new_with_free_func (g_free);

  for (int f = 0; f < ZS_N_FACTORS; f++) {
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    double one = f == (int) factor ? value : calibration->fitted[f].value;

    if (one != 1)
      g_ptr_array_add (sets, g_strdup_printf ("cluster.calibration.%s=%s", zs_factor_name ((ZsFactor) f),
                                              g_ascii_formatd (number, sizeof number, "%.6f", one)));
  }
  g_ptr_array_add (sets, NULL);
  g_autoptr (ZsScenario) scenario = zs_scenario_load (path, NULL, (const char *const *) sets->pdata, catalogue, errors);
  GError *error = NULL;

  if (scenario == NULL)
    return -1;
  g_autoptr (ZsResult) result = zs_scenario_run (scenario, NULL, &error);

  if (result == NULL) {
    zs_errors_take (errors, error);
    return -1;
  }
  if (result->outcome != ZS_OUTCOME_OK) {
    zs_errors_add (errors, "%s: the simulated step does not fit in memory, so its time says nothing", path);
    return -1;
  }
  if (ret_host_bound != NULL)
    *ret_host_bound = result->wait_ps[ZS_WAIT_HOST] > result->wait_ps[ZS_WAIT_COMPUTE];
  return zs_time_to_seconds (result->step_time_ps);
}

static bool
summarise_steps (ZsCalibration *calibration, ZsFactor factor, ZsCatalogue *catalogue, ZsErrors *errors)
{
  g_autoptr (GArray) logs = g_array_new (FALSE, FALSE, sizeof (double)), before = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr (GArray) after = g_array_new (FALSE, FALSE, sizeof (double)), numbers = g_array_new (FALSE, FALSE, sizeof (int));
  ZsFitted *fitted = &calibration->fitted[factor];

  for (guint i = 0; i < calibration->steps->len; i++) {
    const Step *step = &g_array_index (calibration->steps, Step, i);

    if (step->factor != factor)
      continue;
    g_array_append_val (logs, step->log_speed);
    g_array_append_val (before, step->before);
    g_array_append_val (numbers, step->source);
  }
  if (logs->len == 0)
    return true;
  fitted->value = exp (median (logs));
  fitted->n_rows = (int) logs->len;
  fitted->before = median (before);
  note_source (calibration, factor, numbers);
  for (guint i = 0; i < calibration->steps->len; i++) {
    const Step *step = &g_array_index (calibration->steps, Step, i);

    if (step->factor != factor)
      continue;
    double seconds = run_step (calibration, step->path, factor, fitted->value, catalogue, NULL, errors);
    double error = fabs (seconds / step->step_seconds - 1);

    if (seconds < 0)
      return false;
    g_array_append_val (after, error);
  }
  fitted->after = median (after);
  return true;
}

/* The speed that makes the steps take what was measured: of kernels, or of the host process where the step waits
 * for it more than for kernels. */
static bool
fit_steps (ZsCalibration *calibration, ZsCatalogue *catalogue, ZsErrors *errors)
{
  for (guint i = 0; i < calibration->steps->len; i++) {
    Step *step = &g_array_index (calibration->steps, Step, i);
    bool host = false;
    double now = run_step (calibration, step->path, ZS_FACTOR_KERNELS, 1, catalogue, &host, errors);
    ZsFactor factor = host ? ZS_FACTOR_PYTHON : ZS_FACTOR_KERNELS;
    double low = log (STEP_LOW), high = log (STEP_HIGH);

    if (now < 0)
      return false;
    step->factor = factor;
    step->before = fabs (now / step->step_seconds - 1);
    for (int round = 0; round < STEP_ROUNDS; round++) {   /* a faster machine never takes longer */
      double middle = (low + high) / 2;
      double seconds = run_step (calibration, step->path, factor, exp (middle), catalogue, NULL, errors);

      if (seconds < 0)
        return false;
      if (seconds > step->step_seconds)
        low = middle;
      else
        high = middle;
    }
    step->log_speed = (low + high) / 2;
  }
  return summarise_steps (calibration, ZS_FACTOR_KERNELS, catalogue, errors)
         && summarise_steps (calibration, ZS_FACTOR_PYTHON, catalogue, errors);
}

bool
zs_calibration_fit (ZsCalibration *calibration, ZsCatalogue *catalogue, ZsErrors *errors)
{
  fit_links (calibration);
  return fit_steps (calibration, catalogue, errors);
}

const ZsFitted *
zs_calibration_get (const ZsCalibration *calibration, ZsFactor factor)
{
  return &calibration->fitted[factor];
}

const ZsScenario *
zs_calibration_machine (const ZsCalibration *calibration)
{
  return calibration->machine;
}
