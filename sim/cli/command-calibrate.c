/* command-calibrate.c: `zerosim calibrate FILE...`: a machine fitted to what was measured on it.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "sim/calibrate/calibration.h"
#include "sim/cli/command-list.h"
#include "sim/cli/load.h"
#include "sim/io/file.h"
#include "sim/io/json-writer.h"

static void
print_json (const ZsCalibration *calibration)
{
  g_autoptr (ZsJsonWriter) writer = zs_json_writer_new_file (stdout, 2);

  zs_json_begin_object (writer, NULL);
  zs_json_begin_array (writer, "factors");
  for (int f = 0; f < ZS_N_FACTORS; f++) {
    const ZsFitted *fitted = zs_calibration_get (calibration, (ZsFactor) f);

    if (fitted->n_rows == 0)
      continue;
    zs_json_compact (writer);
    zs_json_begin_object (writer, NULL);
    zs_json_string (writer, "name", zs_factor_name ((ZsFactor) f));
    zs_json_number (writer, "value", fitted->value);
    zs_json_int (writer, "rows", fitted->n_rows);
    zs_json_number (writer, "median_error_before", fitted->before);
    zs_json_number (writer, "median_error", fitted->after);
    zs_json_string (writer, "source", fitted->source);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
  zs_json_end_object (writer);
}

static bool
is_yaml (const char *path)
{
  return g_str_has_suffix (path, ".yaml") || g_str_has_suffix (path, ".yml");
}

/* The machine: --cluster, flags, or that of the first scenario among FILES. */
static ZsScenario *
load_machine (const ZsOptions *options, char **files, ZsCatalogue *catalogue, ZsErrors *errors)
{
  g_auto (GStrv) sets = zs_sets_of (options);
  ZsScenarioFlags flags = zs_flags_of (options);
  const char *path = options->cluster;

  for (int i = 0; path == NULL && options->gpus == NULL && files[i] != NULL; i++)
    if (is_yaml (files[i]))
      path = files[i];
  if (path == NULL && options->gpus == NULL) {
    zs_errors_add (errors, "which machine? --cluster FILE (a YAML file with a cluster: block) or --gpus 8xH100");
    return NULL;
  }
  return zs_scenario_load_cluster (path, &flags, (const char *const *) sets, catalogue, errors);
}

int
zs_command_calibrate (const ZsOptions *options, char **arguments)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_autoptr (ZsScenario) machine = load_machine (options, arguments, catalogue, errors);
  g_autoptr (GError) error = NULL;

  if (machine == NULL) {
    zs_errors_print (errors, "", stderr);
    return ZS_EXIT_INPUT;
  }
  g_autoptr (ZsCalibration) calibration = zs_calibration_new (machine, &error);

  if (calibration == NULL)
    return zs_command_fail (error);
  bool ok = true;

  for (char **file = arguments; *file != NULL; file++)
    ok &= zs_calibration_add_file (calibration, *file, catalogue, errors);
  if (!ok || !zs_calibration_fit (calibration, catalogue, errors)) {
    zs_errors_print (errors, "", stderr);
    return ZS_EXIT_INPUT;
  }
  g_autofree char *yaml = zs_calibration_yaml (calibration);

  if (options->output != NULL && !zs_file_write (options->output, yaml, -1, &error))
    return zs_command_fail (error);
  if (options->json)
    print_json (calibration);
  else if (options->output == NULL)
    printf ("%s", yaml);
  else if (strcmp (options->output, "-") != 0)
    for (int f = 0; f < ZS_N_FACTORS; f++) {
      const ZsFitted *fitted = zs_calibration_get (calibration, (ZsFactor) f);

      if (fitted->n_rows > 0)
        printf ("%-20s %7.3f   median error %5.1f %% -> %5.1f %%   %d measured, %s\n", zs_factor_name ((ZsFactor) f),
                fitted->value, 100 * fitted->before, 100 * fitted->after, fitted->n_rows, fitted->source);
    }
  return ZS_EXIT_DONE;
}
