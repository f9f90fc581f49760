/* figure-sweep.c: data of figures of a sweep.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <math.h>
#include <string.h>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/base/words.h"
#include "sim/study/figure.h"

#define MAX_SERIES 8
#define LOG_RATIO  30       /* axes that span more are drawn in the logarithm */

/* A point of the figure: the fastest configuration that fits there, or none. */
typedef struct {
  int    x, y;              /* places in the axes' values */
  bool   fits;
  double speed, value;
} Point;

typedef struct {
  ZsStore   *store;
  int        x, y;          /* places of the axes; -1: none */
  int        value, speed;  /* columns */
  GPtrArray *xs, *ys;       /* their values, in the order in which they come */
  GArray    *points;        /* Point */
} Grid;

static int
place_of (GPtrArray *values, const char *value)
{
  for (guint i = 0; i < values->len; i++)
    if (strcmp (g_ptr_array_index (values, i), value) == 0)
      return (int) i;
  g_ptr_array_add (values, g_strdup (value));
  return (int) values->len - 1;
}

static void
add_row (void *self, const ZsStoreRow *row)
{
  Grid *grid = self;
  const char *x = row->axes[grid->x], *y = grid->y >= 0 ? row->axes[grid->y] : "";
  Point point = { .fits = strcmp (row->outcome, "ok") == 0,
                  .speed = row->columns[grid->speed], .value = row->columns[grid->value] };

  if (strcmp (row->outcome, ZS_OUTCOME_INVALID) == 0 || strcmp (row->outcome, ZS_OUTCOME_FAILED) == 0)
    return;
  point.x = place_of (grid->xs, x != NULL ? x : "as it is");
  point.y = place_of (grid->ys, y != NULL ? y : "as it is");
  for (guint i = 0; i < grid->points->len; i++) {
    Point *there = &g_array_index (grid->points, Point, i);

    if (there->x != point.x || there->y != point.y)
      continue;
    if (point.fits && (!there->fits || point.speed > there->speed))
      *there = point;
    return;
  }
  g_array_append_val (grid->points, point);
}

/* The last word of the path; of several settings that go together, the first one's.  Free with g_free. */
static char *
short_axis (ZsStore *store, int axis)
{
  const char *path = zs_store_axis (store, axis);
  g_autofree char *first = g_strndup (path, strcspn (path, "+"));
  const char *last = strrchr (first, '.');

  return g_strdup (last != NULL ? last + 1 : first);
}

static int
find_axis (ZsStore *store, const char *name, GError **error)
{
  int n = zs_store_axes (store);
  g_autofree const char **names = g_new0 (const char *, n + 1);

  for (int i = 0; i < n; i++) {
    g_autofree char *shown = short_axis (store, i);

    names[i] = zs_store_axis (store, i);
    if (strcmp (names[i], name) == 0 || strcmp (shown, name) == 0)
      return i;
  }
  g_autofree char *hint = zs_nearest_hint (name, names);
  g_autofree char *all = g_strjoinv (", ", (char **) names);

  g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "the sweep has no axis '%s'%s (there are %s)", name, hint,
               all);
  return -1;
}

/* The axes that were asked for, else the last ones; false: there is none. */
static bool
choose_axes (Grid *grid, const ZsFigureAxes *axes, const char *y, bool two, GError **error)
{
  int n = zs_store_axes (grid->store);
  const char *value = axes->value != NULL ? axes->value : "tokens_per_second_per_gpu";

  grid->speed = zs_column_find ("tokens_per_second_per_gpu");
  grid->value = zs_column_find (value);
  if (grid->value < 0) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "a sweep has no result '%s'", value);
    return false;
  }
  if (two && n < 2) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "a heat map wants a sweep with two axes or more");
    return false;
  }
  grid->x = axes->x != NULL ? find_axis (grid->store, axes->x, error) : n - 1;
  if (grid->x < 0)
    return false;
  grid->y = y != NULL ? find_axis (grid->store, y, error) : -1;
  if (y != NULL && grid->y < 0)
    return false;
  for (int i = n - 1; y == NULL && i >= 0 && grid->y < 0; i--)
    if (i != grid->x)
      grid->y = i;
  if (grid->x == grid->y) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "the two axes are the same");
    return false;
  }
  return true;
}

static void
grid_clear (Grid *grid)
{
  g_ptr_array_unref (grid->xs);
  g_ptr_array_unref (grid->ys);
  g_array_unref (grid->points);
}

/* Bytes as GiB, picoseconds as seconds. */
static double
scale_of (const char *column)
{
  return g_str_has_suffix (column, "_bytes") ? 1.0 / 1073741824.0
         : g_str_has_suffix (column, "_ps")  ? 1e-12
                                             : 1;
}

static void
set_value_label (GString *settings, const char *column)
{
  g_autofree char *plain = g_strdelimit (g_strdup (column), "_", ' ');
  g_autofree char *text = NULL;

  if (strcmp (column, "tokens_per_second_per_gpu") == 0)
    text = g_strdup ("tokens/s per GPU");
  else if (g_str_has_suffix (plain, " bytes"))
    text = g_strdup_printf ("%.*s, GiB", (int) strlen (plain) - 6, plain);
  else if (g_str_has_suffix (plain, " ps"))
    text = g_strdup_printf ("%.*s, s", (int) strlen (plain) - 3, plain);
  else
    text = g_strdup (plain);
  zs_figure_set_text (settings, "value_label", text);
}

static void
set_axis (GString *settings, const char *name, ZsStore *store, int axis)
{
  g_autofree char *text = short_axis (store, axis);

  zs_figure_set_text (settings, name, text);
}

static void
set_over (const Grid *grid, int used, GString *settings)
{
  zs_figure_set_text (settings, "over", zs_store_axes (grid->store) > used
                                          ? "each point: the fastest of the other axes' values" : "");
}

/* "200000000" as "2e8", which a tick has room for. */
static char *
short_value (const char *value)
{
  double number;

  if (!zs_number_parse (value, &number, NULL) || number < 100000)
    return g_strdup (value);
  char *text = g_strdup_printf ("%.2g", number);
  char *plus = strstr (text, "e+0");

  if (plus != NULL)
    memmove (plus + 1, plus + 3, strlen (plus + 3) + 1);
  return text;
}

static void
set_ticks (GString *settings, const char *axis, GPtrArray *values)
{
  for (guint i = 0; i < values->len; i++) {
    g_autofree char *name = g_strdup_printf ("%s_tick%u", axis, i);
    g_autofree char *text = short_value (g_ptr_array_index (values, i));

    zs_figure_set_text (settings, name, text);
  }
  g_autofree char *count = g_strdup_printf ("%s_ticks", axis);

  zs_figure_set_number (settings, count, values->len);
}

/* All values as numbers; false: one is none. */
static bool
read_numbers (GPtrArray *values, double *ret_numbers)
{
  for (guint i = 0; i < values->len; i++)
    if (!zs_number_parse (g_ptr_array_index (values, i), &ret_numbers[i], NULL))
      return false;
  return true;
}

static bool
is_logarithmic (const double *numbers, guint n)
{
  double least = INFINITY, most = 0;

  for (guint i = 0; i < n; i++) {
    least = MIN (least, numbers[i]);
    most = MAX (most, numbers[i]);
  }
  return least > 0 && most > LOG_RATIO * least;
}

static bool
make_grid (Grid *grid, ZsStore *store, GError **error)
{
  grid->xs = g_ptr_array_new_with_free_func (g_free);
  grid->ys = g_ptr_array_new_with_free_func (g_free);
  grid->points = g_array_new (FALSE, FALSE, sizeof (Point));
  if (!zs_store_each (store, add_row, grid, error)) {
    grid_clear (grid);
    return false;
  }
  if (grid->points->len > 0)
    return true;
  grid_clear (grid);
  g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "the sweep has no results yet");
  return false;
}

bool
zs_figure_curve (ZsStore *store, const ZsFigureAxes *axes, FILE *data, GString *settings, GError **error)
{
  Grid grid = { .store = store };
  bool one = zs_store_axes (store) == 1;

  if (!choose_axes (&grid, axes, axes->by, false, error))
    return false;
  if (one)
    grid.y = -1;
  if (!make_grid (&grid, store, error))
    return false;
  const char *column = zs_column_name (grid.value);
  g_autofree double *numbers = g_new0 (double, grid.xs->len);
  bool numeric = read_numbers (grid.xs, numbers);
  guint n_series = MIN (grid.ys->len, MAX_SERIES);

  for (guint series = 0; series < n_series; series++) {
    g_autofree char *name = g_strdup_printf ("name%u", series + 1);
    g_autofree char *by = grid.y >= 0 ? short_axis (store, grid.y) : NULL;
    g_autofree char *text = grid.y < 0 ? g_strdup ("")
                            : g_strdup_printf ("%s = %s", by,
                                               (char *) g_ptr_array_index (grid.ys, series));

    zs_figure_set_text (settings, name, text);
    fprintf (data, series > 0 ? "\n\n" : "");
    for (guint x = 0; x < grid.xs->len; x++)
      for (guint i = 0; i < grid.points->len; i++) {
        const Point *point = &g_array_index (grid.points, Point, i);

        if (point->x == (int) x && point->y == (int) series)
          fprintf (data, "%.10g\t%.8g\t%d\n", numeric ? numbers[x] : x,
                   point->fits ? point->value * scale_of (column) : 0, point->fits);
      }
  }
  double x_least = numeric ? INFINITY : 0, x_most = numeric ? -INFINITY : grid.xs->len - 1;

  for (guint x = 0; numeric && x < grid.xs->len; x++) {
    x_least = MIN (x_least, numbers[x]);
    x_most = MAX (x_most, numbers[x]);
  }
  zs_figure_set_number (settings, "x_least", x_least);
  zs_figure_set_number (settings, "x_most", x_most);
  for (guint x = 0; numeric && x < grid.xs->len; x++) {
    g_autofree char *name = g_strdup_printf ("x_value%u", x);

    zs_figure_set_number (settings, name, numbers[x]);
  }
  zs_figure_set_number (settings, "results", n_series);
  zs_figure_set_number (settings, "numeric", numeric);
  zs_figure_set_number (settings, "logarithmic",
                        numeric && is_logarithmic (numbers, grid.xs->len));
  set_axis (settings, "x_label", store, grid.x);
  set_ticks (settings, "x", grid.xs);
  set_value_label (settings, column);
  set_over (&grid, one ? 1 : 2, settings);
  grid_clear (&grid);
  return true;
}

bool
zs_figure_heat (ZsStore *store, const ZsFigureAxes *axes, FILE *data, GString *settings, GError **error)
{
  Grid grid = { .store = store };

  if (!choose_axes (&grid, axes, axes->y, true, error) || !make_grid (&grid, store, error))
    return false;
  const char *column = zs_column_name (grid.value);
  double least = INFINITY, most = -INFINITY;

  for (guint i = 0; i < grid.points->len; i++) {
    const Point *point = &g_array_index (grid.points, Point, i);
    double value = point->value * scale_of (column);

    fprintf (data, "%d\t%d\t%.8g\t%d\n", point->x, point->y, point->fits ? value : 0, point->fits);
    if (point->fits) {
      least = MIN (least, value);
      most = MAX (most, value);
    }
  }
  zs_figure_set_number (settings, "least", isfinite (least) ? least : 0);
  zs_figure_set_number (settings, "most", isfinite (most) ? most : 1);
  set_axis (settings, "x_label", store, grid.x);
  set_axis (settings, "y_label", store, grid.y);
  set_ticks (settings, "x", grid.xs);
  set_ticks (settings, "y", grid.ys);
  set_value_label (settings, column);
  set_over (&grid, 2, settings);
  grid_clear (&grid);
  return true;
}

/* ---- memory against speed ---- */

typedef struct {
  double memory, speed;
} Pair;

typedef struct {
  GArray *pairs;
  int     memory, speed, oom;
} Pairs;

static void
add_pair (void *self, const ZsStoreRow *row)
{
  Pairs *pairs = self;
  Pair pair = { row->columns[pairs->memory] / 1073741824.0, row->columns[pairs->speed] };

  if (strcmp (row->outcome, "ok") == 0)
    g_array_append_val (pairs->pairs, pair);
  else
    pairs->oom++;
}

static int
compare_pairs (const void *a, const void *b)
{
  const Pair *x = a, *y = b;

  if (x->memory != y->memory)
    return x->memory < y->memory ? -1 : 1;
  return (x->speed < y->speed) - (x->speed > y->speed);
}

bool
zs_figure_pareto (ZsStore *store, FILE *data, GString *settings, GError **error)
{
  Pairs pairs = { .pairs = g_array_new (FALSE, FALSE, sizeof (Pair)),
                  .memory = zs_column_find ("peak_device_bytes"),
                  .speed = zs_column_find ("tokens_per_second_per_gpu") };
  bool ok = zs_store_each (store, add_pair, &pairs, error);
  double best = 0;

  if (ok && pairs.pairs->len == 0) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "no configuration of the sweep fits");
    ok = false;
  }
  qsort (pairs.pairs->data, pairs.pairs->len, sizeof (Pair), compare_pairs);
  for (guint i = 0; i < pairs.pairs->len; i++) {
    const Pair *pair = &g_array_index (pairs.pairs, Pair, i);

    fprintf (data, "%.6g\t%.6g\n", pair->memory, pair->speed);
  }
  fprintf (data, "\n\n");
  for (guint i = 0; i < pairs.pairs->len; i++) {
    const Pair *pair = &g_array_index (pairs.pairs, Pair, i);

    if (pair->speed > best)
      fprintf (data, "%.6g\t%.6g\n", pair->memory, best = pair->speed);
  }
  zs_figure_set_number (settings, "fit", pairs.pairs->len);
  zs_figure_set_number (settings, "oom", pairs.oom);
  g_array_unref (pairs.pairs);
  return ok;
}
