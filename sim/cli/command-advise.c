/* command-advise.c: `zerosim advise SCENARIO`.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/units.h"
#include "sim/base/words.h"
#include "sim/cli/command-list.h"
#include "sim/cli/load.h"
#include "sim/cli/progress.h"
#include "sim/cli/study.h"
#include "sim/study/advise.h"

static const char *const OBJECTIVES[] = { "tokens_per_second", "memory", "cost", NULL };
static const char *const LIMITS[] = { "host_memory", "gpu_memory", "step_time", NULL };

static bool
unknown (const char *option, const char *word, const char *const *words, GError **error)
{
  g_autofree char *hint = zs_nearest_hint (word, words);
  g_autofree char *all = g_strjoinv (", ", (char **) words);

  g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "--%s: there is no '%s'%s (there are %s)", option, word,
               hint, all);
  return false;
}

static bool
parse_objective (const char *text, ZsObjective *ret_objective, GError **error)
{
  for (int i = 0; OBJECTIVES[i] != NULL; i++)
    if (strcmp (text, OBJECTIVES[i]) == 0) {
      *ret_objective = (ZsObjective) i;
      return true;
    }
  return unknown ("objective", text, OBJECTIVES, error);
}

/* "host_memory=128GiB" */
static bool
parse_limit (const char *text, ZsAdviseOptions *options, GError **error)
{
  const char *equals = strchr (text, '=');
  g_autofree char *name = equals != NULL ? g_strndup (text, (gsize) (equals - text)) : g_strdup (text);
  int64_t *value;
  bool ok;

  if (equals == NULL) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "--limit %s: NAME=VALUE is wanted, as host_memory=128GiB",
                 text);
    return false;
  }
  if (strcmp (name, "host_memory") == 0)
    ok = zs_bytes_parse (equals + 1, value = &options->host_memory_limit, error);
  else if (strcmp (name, "gpu_memory") == 0)
    ok = zs_bytes_parse (equals + 1, value = &options->gpu_memory_limit, error);
  else if (strcmp (name, "step_time") == 0)
    ok = zs_time_parse (equals + 1, value = &options->step_time_limit, error);
  else
    return unknown ("limit", name, LIMITS, error);
  if (ok && *value == 0) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE, "--limit %s: nothing is below 0; leave it out for no limit", text);
    return false;
  }
  if (!ok)
    g_prefix_error (error, "--limit %s: ", text);
  return ok;
}

int
zs_command_advise (const ZsOptions *options, char **arguments)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) sets = zs_sets_of (options);
  ZsScenarioFlags flags = zs_flags_of (options);
  ZsProgress progress;
  ZsAdviseOptions how = { .jobs = options->jobs, .stop = zs_study_catch_signals (),
                          .progress = zs_progress_update, .self = &progress };

  if (options->objective != NULL && !parse_objective (options->objective, &how.objective, &error))
    return zs_command_fail (error);
  for (int i = 0; options->limits != NULL && options->limits[i] != NULL; i++)
    if (!parse_limit (options->limits[i], &how, &error))
      return zs_command_fail (error);
  ZsBase *base = zs_base_new (arguments[0], &flags, (const char *const *) sets, catalogue, errors);

  if (base == NULL)
    return zs_study_fail (errors);
  zs_progress_begin (&progress, "combinations", options->quiet);
  g_autoptr (ZsAdvice) advice = zs_advise (base, &how, catalogue, &error);

  zs_progress_end (&progress);
  if (advice == NULL)
    return zs_command_fail (error);
  if (options->json) {
    g_autoptr (ZsJsonWriter) writer = zs_json_writer_new_file (stdout, 2);

    zs_json_begin_object (writer, NULL);
    zs_advice_write_json (advice, writer);
    zs_json_end_object (writer);
    return ZS_EXIT_DONE;
  }
  ZsText text = { .string = g_string_new (NULL), .width = 80,
                  .colour = zs_options_color (options, STDOUT_FILENO) };

  zs_advice_write (advice, &text);
  fputs (text.string->str, stdout);
  g_string_free (text.string, TRUE);
  return ZS_EXIT_DONE;
}
