/* command-validate.c: `zerosim validate CASE...`.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cli/command-list.h"
#include "sim/cli/progress.h"
#include "sim/io/json-writer.h"
#include "sim/study/validate.h"

static const ZsCase *
case_of (const ZsValidation *validation, const ZsComparison *comparison)
{
  return &g_array_index (validation->cases, ZsCase, comparison->case_index);
}

static void
write_summary (ZsJsonWriter *writer, const char *key, const ZsErrorSummary *summary)
{
  zs_json_compact (writer);
  zs_json_begin_object (writer, key);
  zs_json_int (writer, "n", summary->n);
  zs_json_number (writer, "median", summary->median);
  zs_json_number (writer, "p90", summary->p90);
  zs_json_number (writer, "p98", summary->p98);
  zs_json_number (writer, "worst", summary->worst);
  zs_json_int (writer, "within_0.5_percent", summary->within_half_percent);
  zs_json_int (writer, "within_1_percent", summary->within_1);
  zs_json_int (writer, "within_2_percent", summary->within_2);
  zs_json_int (writer, "within_5_percent", summary->within_5);
  zs_json_int (writer, "within_12_percent", summary->within_12);
  zs_json_int (writer, "within_25_percent", summary->within_25);
  zs_json_end_object (writer);
}

static void
print_json (const ZsValidation *validation)
{
  g_autoptr (ZsJsonWriter) writer = zs_json_writer_new_file (stdout, 2);

  zs_json_begin_object (writer, NULL);
  zs_json_begin_array (writer, "cases");
  for (guint i = 0; i < validation->comparisons->len; i++) {
    const ZsComparison *c = &g_array_index (validation->comparisons, ZsComparison, i);

    zs_json_compact (writer);
    zs_json_begin_object (writer, NULL);
    zs_json_string (writer, "name", case_of (validation, c)->name);
    zs_json_string (writer, "kind", case_of (validation, c)->kind);
    zs_json_string (writer, "quantity", zs_quantity_name (c->quantity));
    if (c->detail[0] != '\0')
      zs_json_string (writer, "detail", c->detail);
    zs_json_number (writer, "measured", c->measured);
    zs_json_number (writer, "predicted", c->predicted);
    zs_json_number (writer, "error", c->error);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
  zs_json_begin_array (writer, "failures");
  for (guint i = 0; i < validation->cases->len; i++) {
    const ZsCase *c = &g_array_index (validation->cases, ZsCase, i);

    if (c->failure != NULL)
      zs_json_string (writer, NULL, c->failure);
  }
  zs_json_end_array (writer);
  zs_json_begin_object (writer, "summary");
  for (int quantity = 0; quantity < ZS_N_QUANTITIES; quantity++) {
    ZsErrorSummary summary;

    if (zs_validation_summary (validation, quantity, NULL, &summary))
      write_summary (writer, zs_quantity_name (quantity), &summary);
  }
  zs_json_end_object (writer);
  zs_json_end_object (writer);
}

static int
compare_worst_first (const void *a, const void *b)
{
  const ZsComparison *x = *(const ZsComparison *const *) a, *y = *(const ZsComparison *const *) b;
  double ex = fabs (x->error), ey = fabs (y->error);

  if (ex != ey)
    return (ex < ey) - (ex > ey);
  return x < y ? -1 : 1;
}

static void
print_number (ZsQuantity quantity, double value)
{
  switch (quantity) {
  case ZS_QUANTITY_OUTCOME:
    printf (" %14s", value == 0 ? "fits" : value == 1 ? "oom" : "host-oom");
    break;
  case ZS_QUANTITY_PHASE_TIME:
  case ZS_QUANTITY_STEP_TIME:
    printf (" %11.2f ms", value / 1e9);
    break;
  case ZS_QUANTITY_COLLECTIVE_TIME:
  case ZS_QUANTITY_COPY_TIME:
    printf (" %11.2f us", value / 1e6);
    break;
  case ZS_QUANTITY_COLLECTIVE_SLOWDOWN:
  case ZS_QUANTITY_BESIDE_SLOWDOWN:
    printf (" %12.3f x", value);
    break;
  case ZS_QUANTITY_TOKENS:
  case ZS_QUANTITY_SAMPLES:
    printf (" %14.2f", value);
    break;
  default:
    printf (" %10.2f MiB", value / 1048576.0);
  }
}

#define ROWS_SHOWN 60

static void
print_text (const ZsValidation *validation)
{
  guint n = validation->comparisons->len;
  g_autofree const ZsComparison **sorted = g_new0 (const ZsComparison *, n + 1);
  int n_failed = 0;

  for (guint i = 0; i < n; i++)
    sorted[i] = &g_array_index (validation->comparisons, ZsComparison, i);
  qsort (sorted, n, sizeof *sorted, compare_worst_first);
  printf ("%-30s %-22s %14s %14s %8s\n", "case", "quantity", "measured", "predicted", "error");
  for (guint i = 0; i < MIN (n, ROWS_SHOWN); i++) {
    const ZsComparison *c = sorted[i];
    g_autofree char *what = g_strdup_printf ("%s%s%s", zs_quantity_name (c->quantity),
                                             c->detail[0] != '\0' ? " " : "", c->detail);

    if (c->error == 0)
      break;
    printf ("%-30.30s %-22.40s", case_of (validation, c)->name, what);
    print_number (c->quantity, c->measured);
    print_number (c->quantity, c->predicted);
    printf (" %+7.2f%%\n", 100 * c->error);
  }
  if (n > ROWS_SHOWN)
    printf ("(the worst %d of %u; --json has all)\n", ROWS_SHOWN, n);
  printf ("\n%-26s %6s %8s %8s %8s %8s %8s %8s %8s\n", "summary of absolute errors", "n", "median",
          "90 %", "worst", "<=0.5 %", "<=2 %", "<=12 %", "<=25 %");
  for (int quantity = 0; quantity < ZS_N_QUANTITIES; quantity++) {
    ZsErrorSummary s;

    if (!zs_validation_summary (validation, quantity, NULL, &s))
      continue;
    printf ("%-26s %6d %7.2f%% %7.2f%% %7.2f%% %7.1f%% %7.1f%% %7.1f%% %7.1f%%\n",
            zs_quantity_name (quantity), s.n, 100 * s.median, 100 * s.p90, 100 * s.worst,
            100.0 * s.within_half_percent / s.n, 100.0 * s.within_2 / s.n,
            100.0 * s.within_12 / s.n, 100.0 * s.within_25 / s.n);
  }
  for (guint i = 0; i < validation->cases->len; i++) {
    const ZsCase *c = &g_array_index (validation->cases, ZsCase, i);

    if (c->failure != NULL) {
      fprintf (stderr, "%s\n", c->failure);
      n_failed++;
    }
  }
  printf ("%u cases, %d could not be run\n", validation->cases->len, n_failed);
}

int
zs_command_validate (const ZsOptions *options, char **arguments)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  ZsProgress progress;

  zs_progress_begin (&progress, "cases", options->quiet);
  g_autoptr (ZsValidation) validation
      = zs_validate ((const char *const *) arguments, catalogue, options->jobs, zs_progress_update,
                     &progress, errors);

  zs_progress_end (&progress);
  if (validation == NULL) {
    zs_errors_print (errors, "", stderr);
    return ZS_EXIT_INPUT;
  }
  if (validation->cases->len == 0) {
    fprintf (stderr, "%s: there are no cases (*.yaml) in this folder\n", arguments[0]);
    return ZS_EXIT_INPUT;
  }
  if (options->json)
    print_json (validation);
  else
    print_text (validation);
  for (guint i = 0; i < validation->cases->len; i++)
    if (g_array_index (validation->cases, ZsCase, i).failure != NULL)
      return ZS_EXIT_INPUT;
  return ZS_EXIT_DONE;
}
