/* compare-memory.c: measured peaks of GPU memory against plans run through the caching allocator.
 * SPDX-License-Identifier: MIT
 *
 *   compare-memory [--framework NAME] [--stage N] [--id ID] [--set NAME] [--all]
 *
 * Reads tests/data/h200/memory.csv and memory-ds0195.csv.  No time passes: frees that wait for
 * another stream complete at once, as they did in the measured runs, whose collectives took no time.
 * Prints one row per run, largest error last, and a summary per framework; with --id every phase. */
#include "config.h"

#include "tests/testing.h"
#include "tests/tools/memory-table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *only_framework, *only_id, *only_set;
static int only_stage = -1;
static gboolean show_all;

static double
percent (int64_t predicted, int64_t measured)
{
  return measured == 0 ? 0 : 100.0 * (double) (predicted - measured) / (double) measured;
}

static bool
is_wanted (const TestMemoryRow *row)
{
  return (only_framework == NULL || strcmp (only_framework, row->framework) == 0)
         && (only_id == NULL || strcmp (only_id, row->id) == 0)
         && (only_set == NULL || strcmp (only_set, row->set) == 0)
         && (only_stage < 0 || only_stage == row->training.zero.stage);
}

static void
print_phases (const TestMemoryRow *row, const TestMemoryResult *result)
{
  printf ("%-10s %15s %15s %9s %15s %15s %9s %12s\n", "phase", "allocated", "measured", "error", "reserved",
          "measured", "error", "requested +-");
  for (int i = 0; i < row->n_phases; i++) {
    const TestMemoryPhase *a = &row->phases[i], *b = &result->phases[i];

    printf ("%-10s %15" G_GINT64_FORMAT " %15" G_GINT64_FORMAT " %8.3f%% %15" G_GINT64_FORMAT
            " %15" G_GINT64_FORMAT " %8.3f%% %12" G_GINT64_FORMAT "\n",
            a->name, b->allocated, a->allocated, percent (b->allocated, a->allocated), b->reserved,
            a->reserved, percent (b->reserved, a->reserved),
            a->requested > 0 ? b->requested - a->requested : 0);
  }
}

typedef struct {
  const TestMemoryRow *row;
  TestMemoryResult     result;
  double               error, reserved_error;   /* of the training peak, percent */
} Line;

static int
by_error (gconstpointer a, gconstpointer b)
{
  double x = fabs (((const Line *) a)->error), y = fabs (((const Line *) b)->error);

  return x < y ? -1 : x > y;
}

static int
by_number (gconstpointer a, gconstpointer b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return x < y ? -1 : x > y;
}

static void
summarise (const GArray *lines, const char *framework, int stage)
{
  g_autoptr (GArray) errors = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr (GArray) reserved = g_array_new (FALSE, FALSE, sizeof (double));
  int exact = 0, tenth = 0, half = 0, two = 0;

  for (guint i = 0; i < lines->len; i++) {
    const Line *line = &g_array_index (lines, Line, i);
    double error = fabs (line->error), error_reserved = fabs (line->reserved_error);

    if (strcmp (line->row->framework, framework) != 0
        || (stage >= 0 && line->row->training.zero.stage != stage))
      continue;
    g_array_append_val (errors, error);
    g_array_append_val (reserved, error_reserved);
    exact += error == 0;
    tenth += error <= 0.1;
    half += error <= 0.5;
    two += error <= 2;
  }
  if (errors->len == 0)
    return;
  g_array_sort (errors, by_number);
  g_array_sort (reserved, by_number);
  printf ("%-10s stage %2d: %3u runs; allocated: exact %3d, within 0.1 %% %3d, 0.5 %% %3d, 2 %% %3d, median %.4f %%, "
          "worst %.2f %%; reserved: median %.3f %%, 90 %% %.2f %%, worst %.2f %%\n",
          framework, stage, errors->len, exact, tenth, half, two,
          g_array_index (errors, double, errors->len / 2), g_array_index (errors, double, errors->len - 1),
          g_array_index (reserved, double, reserved->len / 2),
          g_array_index (reserved, double, reserved->len * 9 / 10),
          g_array_index (reserved, double, reserved->len - 1));
}

int
main (int argc, char **argv)
{
  GOptionEntry entries[] = {
    { "framework", 0, 0, G_OPTION_ARG_STRING, &only_framework, "plain, deepspeed or fsdp2", "NAME" },
    { "stage", 0, 0, G_OPTION_ARG_INT, &only_stage, "Only this ZeRO stage", "N" },
    { "id", 0, 0, G_OPTION_ARG_STRING, &only_id, "Only this run, phase by phase", "ID" },
    { "set", 0, 0, G_OPTION_ARG_STRING, &only_set, "Only this set of runs", "NAME" },
    { "all", 0, 0, G_OPTION_ARG_NONE, &show_all, "Every run, not only those off by 0.1 %", NULL },
    { 0 },
  };
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (GArray) lines = g_array_new (FALSE, FALSE, sizeof (Line));

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error)) {
    fprintf (stderr, "compare-memory: %s\n", error->message);
    return 2;
  }
  g_autoptr (GPtrArray) rows = test_memory_rows ();
  for (guint i = 0; i < rows->len; i++) {
    const TestMemoryRow *row = g_ptr_array_index (rows, i);
    Line line = { .row = row };

    if (!row->usable || !is_wanted (row) || !test_memory_run (row, &line.result))
      continue;
    line.error = percent (line.result.train_allocated, row->train_allocated);
    line.reserved_error = percent (line.result.train_reserved, row->train_reserved);
    if (only_id != NULL)
      print_phases (row, &line.result);
    g_array_append_val (lines, line);
  }
  g_array_sort (lines, by_error);
  printf ("%-32s %-10s %2s %15s %15s %9s %15s %9s\n", "run", "framework", "st", "allocated", "measured",
          "error", "reserved", "error");
  for (guint i = 0; i < lines->len; i++) {
    const Line *line = &g_array_index (lines, Line, i);

    if (show_all || only_id != NULL || fabs (line->error) > 0.1 || fabs (line->reserved_error) > 2)
      printf ("%-32s %-10s %2d %15" G_GINT64_FORMAT " %15" G_GINT64_FORMAT " %8.3f%% %15" G_GINT64_FORMAT
              " %8.2f%%\n", line->row->title, line->row->framework, line->row->training.zero.stage,
              line->result.train_allocated, line->row->train_allocated, line->error,
              line->result.train_reserved, line->reserved_error);
  }
  summarise (lines, "plain", -1);
  for (int stage = 0; stage < 4; stage++)
    summarise (lines, "deepspeed", stage);
  summarise (lines, "fsdp2", -1);
  return 0;
}
