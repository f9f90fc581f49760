/* command-plot.c: `zerosim plot FIGURE ...`: writes a table and has gnuplot draw plots/FIGURE.gp.
 * SPDX-License-Identifier: MIT
 *
 * A figure is a file: its first three lines are comments with title:, needs: and shows:. */
#include "config.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/error.h"
#include "sim/base/words.h"
#include "sim/cli/command-list.h"
#include "sim/cli/load.h"
#include "sim/cli/study.h"
#include "sim/io/file.h"
#include "sim/report/describe.h"
#include "sim/scenario/simulate.h"
#include "sim/study/figure.h"

#define MAX_RESULTS 6

/* A figure that is being made. */
typedef struct {
  const ZsOptions *options;
  char           **arguments;     /* after the figure's name */
  ZsCatalogue     *catalogue;
  FILE            *data;
  GString         *settings;
  int              rows;          /* by which the figure is taller */
} Figure;

typedef struct {
  const char *name;               /* of plots/NAME.gp */
  bool      (*write) (Figure *figure, GError **error);
} Writer;

static const char *
argument (const Figure *figure, int i)
{
  return i < (int) g_strv_length (figure->arguments) ? figure->arguments[i] : NULL;
}

/* ---- of scenarios ---- */

static ZsResult *
run (Figure *figure, const char *path, ZsScenario **ret_scenario, GError **error)
{
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_auto (GStrv) sets = zs_sets_of (figure->options);
  ZsScenarioFlags flags = zs_flags_of (figure->options);
  g_autoptr (ZsScenario) scenario
      = zs_scenario_load (path, &flags, (const char *const *) sets, figure->catalogue, errors);
  ZsRunOptions options;

  if (scenario == NULL) {
    g_autofree char *text = zs_errors_text (errors);

    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s", g_strchomp (text));
    return NULL;
  }
  zs_scenario_run_options (scenario, &options);
  options.want_spans = options.want_memory_events = true;
  ZsResult *result = zs_scenario_run (scenario, &options, error);

  if (result != NULL)
    *ret_scenario = g_steal_pointer (&scenario);
  return result;
}

static bool
want_argument (const Figure *figure, const char *what, GError **error)
{
  if (argument (figure, 0) != NULL)
    return true;
  g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "plot: %s is wanted", what);
  return false;
}

static bool
write_one (Figure *figure, void (*write) (const ZsResult *result, FILE *data, GString *settings),
           GError **error)
{
  g_autoptr (ZsScenario) scenario = NULL;
  g_autoptr (ZsResult) result = NULL;

  if (!want_argument (figure, "a scenario", error)
      || (result = run (figure, argument (figure, 0), &scenario, error)) == NULL)
    return false;
  g_autofree char *title = zs_scenario_title (scenario);

  zs_figure_set_text (figure->settings, "title_text", title);
  write (result, figure->data, figure->settings);
  return true;
}

static bool
write_memory (Figure *figure, GError **error)
{
  return write_one (figure, zs_figure_memory, error);
}

static bool
write_timeline (Figure *figure, GError **error)
{
  return write_one (figure, zs_figure_timeline, error);
}

static bool
write_step (Figure *figure, GError **error)
{
  ZsResult *results[MAX_RESULTS] = { NULL };
  char *names[MAX_RESULTS] = { NULL };
  int n = 0;
  bool ok = want_argument (figure, "a scenario, or several,", error);

  if (ok && g_strv_length (figure->arguments) > MAX_RESULTS) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "plot: at most %d scenarios", MAX_RESULTS);
    ok = false;
  }
  for (; ok && argument (figure, n) != NULL; n++) {
    g_autoptr (ZsScenario) scenario = NULL;

    results[n] = run (figure, argument (figure, n), &scenario, error);
    ok = results[n] != NULL;
    names[n] = ok ? zs_scenario_title (scenario) : NULL;
    if (ok && results[n]->outcome != ZS_OUTCOME_OK) {
      g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s runs out of memory: there is no steady step to draw",
                   argument (figure, n));
      ok = false;
    }
  }
  if (ok) {
    zs_figure_set_text (figure->settings, "title_text", n == 1 ? names[0] : "Where a step's time goes");
    zs_figure_step (results, (const char *const *) names, n, figure->data, figure->settings);
    figure->rows = 7 * (n - 1);
  }
  for (int i = 0; i < MAX_RESULTS; i++) {
    zs_result_free (results[i]);
    g_free (names[i]);
  }
  return ok;
}

/* ---- of sweeps ---- */

static bool
write_sweep (Figure *figure,
             bool (*write) (ZsStore *store, const ZsFigureAxes *axes, FILE *data, GString *settings,
                            GError **error),
             GError **error)
{
  g_autoptr (ZsStore) store = NULL;
  ZsFigureAxes axes = { .x = argument (figure, 1), .value = argument (figure, 3) };

  axes.y = axes.by = argument (figure, 2);
  if (!want_argument (figure, "the file that `zerosim sweep --output` wrote", error)
      || (store = zs_store_open_existing (argument (figure, 0), error)) == NULL)
    return false;
  g_autofree char *name = zs_store_name (store);

  zs_figure_set_text (figure->settings, "title_text", name);
  return write (store, &axes, figure->data, figure->settings, error);
}

static bool
write_curve (Figure *figure, GError **error)
{
  return write_sweep (figure, zs_figure_curve, error);
}

static bool
write_heat (Figure *figure, GError **error)
{
  return write_sweep (figure, zs_figure_heat, error);
}

static bool
pareto (ZsStore *store, const ZsFigureAxes *axes, FILE *data, GString *settings, GError **error)
{
  (void) axes;
  return zs_figure_pareto (store, data, settings, error);
}

static bool
write_pareto (Figure *figure, GError **error)
{
  return write_sweep (figure, pareto, error);
}

/* ---- of collectives ---- */

static bool
write_collective (Figure *figure, GError **error)
{
  ZsCollectiveKind kinds[ZS_N_COLLECTIVES];
  int64_t sizes[64];
  int n_kinds = 0, n_sizes = 0;
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_auto (GStrv) sets = zs_sets_of (figure->options);
  ZsScenarioFlags flags = zs_flags_of (figure->options);

  if (!want_argument (figure, "a collective, or several, such as all_gather", error))
    return false;
  for (; argument (figure, n_kinds) != NULL; n_kinds++)
    if (n_kinds == ZS_N_COLLECTIVES
        || !zs_collective_from_name (argument (figure, n_kinds), &kinds[n_kinds])) {
      g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "plot: unknown collective '%s'",
                   argument (figure, n_kinds));
      return false;
    }
  g_autoptr (ZsScenario) scenario
      = zs_scenario_load_cluster (figure->options->cluster, &flags, (const char *const *) sets,
                                  figure->catalogue, errors);

  if (scenario == NULL) {
    g_autofree char *text = zs_errors_text (errors);

    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s", g_strchomp (text));
    return false;
  }
  g_autoptr (ZsCluster) cluster = zs_scenario_cluster (scenario, error);

  if (cluster == NULL)
    return false;
  for (int64_t size = 1024; size <= INT64_C (8) << 30; size *= 2)
    sizes[n_sizes++] = size;
  g_autofree char *title
      = g_strdup_printf ("%d x %s", scenario->cluster.gpus_per_node * scenario->cluster.n_nodes,
                         scenario->cluster.gpu.name);

  zs_figure_set_text (figure->settings, "title_text", title);
  zs_figure_collective (zs_cluster_comm (cluster, ZS_COMMUNICATOR_WORLD, 0), kinds, n_kinds, sizes,
                        n_sizes, figure->data, figure->settings);
  return true;
}

static const Writer WRITERS[] = {
  { "memory", write_memory }, { "timeline", write_timeline }, { "step", write_step },
  { "curve", write_curve },   { "heat", write_heat },         { "pareto", write_pareto },
  { "collective", write_collective },
};

/* ---- files ---- */

/* The rest of the line "# KEY: ..." of SCRIPT; free with g_free. */
static char *
read_comment (const char *script, const char *key)
{
  g_autofree char *start = g_strdup_printf ("# %s: ", key);
  const char *at = strstr (script, start);

  if (at == NULL)
    return g_strdup ("");
  at += strlen (start);
  return g_strndup (at, strcspn (at, "\n"));
}

static char *
plots_file (const ZsCatalogue *catalogue, const char *name)
{
  g_autofree char *file = g_strconcat (name, ".gp", NULL);

  return g_build_filename (zs_catalogue_datadir (catalogue), "plots", file, NULL);
}

static int
list_figures (const ZsCatalogue *catalogue)
{
  for (size_t i = 0; i < G_N_ELEMENTS (WRITERS); i++) {
    g_autofree char *path = plots_file (catalogue, WRITERS[i].name);
    g_autofree char *script = NULL;
    g_autoptr (GError) error = NULL;

    if (!zs_file_read (path, 1 << 20, &script, NULL, &error))
      return zs_command_fail (error);
    g_autofree char *title = read_comment (script, "title");
    g_autofree char *needs = read_comment (script, "needs");
    g_autofree char *shows = read_comment (script, "shows");

    printf ("%-11s %s (of a %s)\n            %s\n", WRITERS[i].name, title, needs, shows);
  }
  return ZS_EXIT_DONE;
}

static const Writer *
find_writer (const char *name, GError **error)
{
  const char *names[G_N_ELEMENTS (WRITERS) + 1] = { NULL };

  for (size_t i = 0; i < G_N_ELEMENTS (WRITERS); i++) {
    names[i] = WRITERS[i].name;
    if (strcmp (name, names[i]) == 0)
      return &WRITERS[i];
  }
  g_autofree char *hint = zs_nearest_hint (name, names);
  g_autofree char *all = g_strjoinv (", ", (char **) names);

  g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "there is no figure '%s'%s (there are %s)", name, hint, all);
  return NULL;
}

static bool
run_gnuplot (const char *settings, const char *common, const char *script, GError **error)
{
  const char *command[] = { "gnuplot", settings, common, script, NULL };
  g_autofree char *problem = NULL;
  int status;

  if (!g_spawn_sync (NULL, (char **) command, NULL, G_SPAWN_SEARCH_PATH | G_SPAWN_STDOUT_TO_DEV_NULL, NULL,
                     NULL, NULL, &problem, &status, error)) {
    g_prefix_error (error, "gnuplot cannot be run (package gnuplot-nox): ");
    return false;
  }
  if (status == 0)
    return true;
  g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "gnuplot failed:\n%s", g_strchomp (problem));
  return false;
}

/* Table and settings go to a folder that is removed again. */
static bool
draw (Figure *figure, const Writer *writer, const char *folder, const char *output, GError **error)
{
  g_autofree char *data = g_build_filename (folder, "data.tsv", NULL);
  g_autofree char *vars = g_build_filename (folder, "settings.gp", NULL);
  g_autofree char *drawn = g_build_filename (folder, "figure", NULL);
  g_autofree char *common = plots_file (figure->catalogue, "common");
  g_autofree char *script = plots_file (figure->catalogue, writer->name);
  g_autofree char *picture = NULL;
  gsize length;
  bool ok;

  figure->data = fopen (data, "w");
  ok = figure->data != NULL && writer->write (figure, error);
  if (figure->data != NULL)
    fclose (figure->data);
  zs_figure_set_text (figure->settings, "data", data);
  zs_figure_set_text (figure->settings, "output_file", drawn);
  zs_figure_set_text (figure->settings, "terminal_name", g_str_has_suffix (output, ".png") ? "png" : "svg");
  zs_figure_set_number (figure->settings, "wide_rows", figure->rows);
  ok = ok && g_file_set_contents (vars, figure->settings->str, -1, error)
       && run_gnuplot (vars, common, script, error)
       && zs_file_read (drawn, 256 << 20, &picture, &length, error)
       && zs_file_write (output, picture, (gssize) length, error);
  g_unlink (data);
  g_unlink (vars);
  g_unlink (drawn);
  return ok;
}

int
zs_command_plot (const ZsOptions *options, char **arguments)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (GString) settings = g_string_new (NULL);
  const Writer *writer;

  if (options->list)
    return list_figures (catalogue);
  if (arguments[0] == NULL) {
    fprintf (stderr, "Usage: zerosim plot [OPTION...] FIGURE ARGUMENT...  (--list shows the figures)\n");
    return ZS_EXIT_USAGE;
  }
  if ((writer = find_writer (arguments[0], &error)) == NULL)
    return zs_command_fail (error);
  g_autofree char *usual = g_strconcat (writer->name, ".svg", NULL);
  const char *output = options->output != NULL ? options->output : usual;
  g_autofree char *folder = g_dir_make_tmp ("zerosim-XXXXXX", &error);
  Figure figure = { .options = options, .arguments = arguments + 1, .catalogue = catalogue,
                    .settings = settings };

  if (folder == NULL)
    return zs_command_fail (error);
  if (strcmp (output, "-") != 0 && !g_str_has_suffix (output, ".svg") && !g_str_has_suffix (output, ".png")) {
    g_rmdir (folder);
    fprintf (stderr, "zerosim: --output %s: a name that ends in .svg or .png is wanted\n", output);
    return ZS_EXIT_USAGE;
  }
  bool ok = draw (&figure, writer, folder, output, &error);

  g_rmdir (folder);
  if (!ok)
    return zs_command_fail (error);
  if (options->output == NULL)
    printf ("%s\n", output);
  return ZS_EXIT_DONE;
}
