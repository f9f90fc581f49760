/* command-compare.c: `zerosim compare A B...` and `zerosim compare SCENARIO --vary stage=0,1,2,3`.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <unistd.h>

#include "sim/cli/command-list.h"
#include "sim/cli/load.h"
#include "sim/cli/study.h"
#include "sim/study/compare.h"

int
zs_command_compare (const ZsOptions *options, char **arguments)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_auto (GStrv) sets = zs_sets_of (options);
  ZsScenarioFlags flags = zs_flags_of (options);

  if (arguments[1] == NULL && (options->vary == NULL || options->vary[0] == NULL)) {
    fprintf (stderr, "zerosim: what is %s to be compared with?  Give another scenario, or "
             "--vary stage=0,1,2,3\n", arguments[0]);
    return ZS_EXIT_USAGE;
  }
  g_autoptr (ZsCompare) compare
      = zs_compare ((const char *const *) arguments, (const char *const *) options->vary, &flags,
                    (const char *const *) sets, catalogue, options->jobs, zs_study_catch_signals (), errors);

  if (compare == NULL)
    return zs_study_fail (errors);
  if (options->json) {
    g_autoptr (ZsJsonWriter) writer = zs_json_writer_new_file (stdout, 2);

    zs_json_begin_object (writer, NULL);
    zs_compare_write_json (compare, writer);
    zs_json_end_object (writer);
    return ZS_EXIT_DONE;
  }
  ZsText text = { .string = g_string_new (NULL), .width = 80,
                  .colour = zs_options_color (options, STDOUT_FILENO) };

  zs_compare_write (compare, &text);
  fputs (text.string->str, stdout);
  g_string_free (text.string, TRUE);
  return ZS_EXIT_DONE;
}
