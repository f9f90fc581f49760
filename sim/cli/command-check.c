/* command-check.c: `zerosim check FILE...`.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "sim/base/error.h"
#include "sim/check/check.h"
#include "sim/cli/command-list.h"
#include "sim/cli/load.h"
#include "sim/io/file.h"

/* What the command line says about the job. */
static bool
fill_options (const ZsOptions *options, ZsCheckOptions *check, GError **error)
{
  zs_check_options_init (check);
  if (options->hf && options->no_hf) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "--hf and --no-hf contradict each other");
    return false;
  }
  if (options->no_hf)
    check->ds.caller = ZS_DS_PLAIN;
  if (options->hf)
    check->ds.caller = ZS_DS_HUGGING_FACE;
  if (options->world < 0) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "--world: the number of ranks is at least 1");
    return false;
  }
  if (options->world > 0)
    check->ds.world = options->world;
  if (options->deepspeed_version != NULL
      && !zs_version_parse (options->deepspeed_version,
                            &check->ds.versions.of[ZS_SOFTWARE_DEEPSPEED])) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE,
                 "--deepspeed-version: '%s' is no version, such as 0.19.5",
                 options->deepspeed_version);
    return false;
  }
  return true;
}

/* With a model and GPUs on the command line more can be said: what the scenario knows. */
static void
add_scenario (const ZsOptions *options, const char *path, ZsCatalogue *catalogue,
              ZsCheckOptions *check)
{
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  ZsScenarioFlags flags = zs_flags_of (options);
  g_auto (GStrv) sets = zs_sets_of (options);

  if (options->model == NULL)
    return;
  check->mixture = zs_check_is_mixture (options->model);
  g_autoptr (ZsScenario) scenario
      = zs_scenario_load (path, &flags, (const char *const *) sets, catalogue, errors);

  if (scenario != NULL)
    zs_check_options_take (check, scenario);
}

static void
try_advice (const ZsOptions *options, const char *path, ZsCatalogue *catalogue, ZsFindings *findings)
{
  ZsScenarioFlags flags = zs_flags_of (options);
  g_auto (GStrv) sets = zs_sets_of (options);
  ZsScenarioSource source = { .path = path, .flags = &flags,
                              .sets = (const char *const *) sets, .catalogue = catalogue };

  if (!options->no_advice
      && (options->model != NULL || zs_findings_kind (findings) == ZS_CHECK_SCENARIO))
    zs_findings_try_advice (findings, &source);
}

/* The corrected file goes beside FILE: "ds_config.json" gets "ds_config.fixed.json". */
static bool
write_fix (const char *path, ZsFindings *findings, GError **error)
{
  int n = 0;
  g_autofree char *text = zs_check_fix (findings, &n);
  const char *end = strrchr (path, '.');
  int stem = end != NULL && strchr (end, '/') == NULL ? (int) (end - path) : (int) strlen (path);
  g_autofree char *fixed = g_strdup_printf ("%.*s.fixed%s", stem, path, path + stem);

  if (text == NULL || n == 0) {
    fprintf (stderr, "%s: nothing that can be corrected\n", path);
    return true;
  }
  if (!zs_file_write (fixed, text, -1, error))
    return false;
  fprintf (stderr, "%s: %d correction%s\n", fixed, n, n == 1 ? "" : "s");
  return true;
}

static void
print_all (const ZsOptions *options, GPtrArray *list)
{
  const ZsFindings *const *all = (const ZsFindings *const *) list->pdata;

  if (options->json || options->sarif) {
    g_autoptr (ZsJsonWriter) writer = zs_json_writer_new_file (stdout, 2);

    if (options->sarif)
      zs_findings_sarif (all, (int) list->len, writer);
    else
      zs_findings_json (all, (int) list->len, writer);
    return;
  }
  for (guint i = 0; i < list->len; i++) {
    g_autofree char *text = zs_findings_text (all[i]);

    fputs (text, stdout);
  }
}

static void
free_findings (gpointer findings)
{
  zs_findings_free (findings);
}

int
zs_command_check (const ZsOptions *options, char **arguments)
{
  g_autoptr (GPtrArray) list = g_ptr_array_new_with_free_func (free_findings);
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (GError) error = NULL;
  ZsCheckOptions check;
  bool wrong = false;

  for (char **path = arguments; *path != NULL; path++) {
    if (options->fix && strcmp (*path, "-") == 0) {
      fprintf (stderr, "zerosim: --fix writes beside the file, and standard input has no place\n");
      return ZS_EXIT_USAGE;
    }
    if (!fill_options (options, &check, &error))
      return zs_command_fail (error);
    add_scenario (options, *path, catalogue, &check);
    ZsFindings *findings = zs_check_file (*path, ZS_CHECK_GUESS, &check);

    g_ptr_array_add (list, findings);
    try_advice (options, *path, catalogue, findings);
    wrong |= zs_findings_has_error (findings);
    if (options->fix && !write_fix (*path, findings, &error))
      return zs_command_fail (error);
  }
  print_all (options, list);
  return wrong ? ZS_EXIT_INPUT : ZS_EXIT_DONE;
}
