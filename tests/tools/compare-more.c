/* compare-more.c: the recorded runs of tests/data/h200-more against their plans, as a table.
 * SPDX-License-Identifier: MIT
 *
 *   compare-more [--data FOLDER] [ID…]     one row each; with ids, every phase too
 *
 * Agreement: 1 - edits / entries of the sequences of allocations and frees, the worst phase of steps 2
 * and 3.  Errors: of the peaks, the worst phase of steps 2 and 3, and of the whole training. */
#include "config.h"

#include "tests/testing.h"
#include "tests/tools/more.h"

#include <stdio.h>
#include <string.h>

static void
print_phases (const TestMoreRun *run)
{
  g_autoptr (GArray) simulated = test_more_simulated (run);

  printf ("%-10s %14s %14s %12s %14s %12s %14s %12s\n", "phase", "requested", "peak", "difference",
          "allocated", "difference", "reserved", "difference");
  for (guint i = 0; simulated != NULL && i < run->phases->len; i++)
    for (guint j = 0; j < simulated->len; j++) {
      const TestCounters *a = &g_array_index (run->phases, TestCounters, i);
      const TestCounters *b = &g_array_index (simulated, TestCounters, j);

      if (strcmp (a->name, b->name) == 0)
        printf ("%-10s %14" G_GINT64_FORMAT " %14" G_GINT64_FORMAT " %12" G_GINT64_FORMAT
                " %14" G_GINT64_FORMAT " %12" G_GINT64_FORMAT " %14" G_GINT64_FORMAT " %12" G_GINT64_FORMAT
                "\n", a->name, b->requested - a->requested, a->peak_requested,
                b->peak_requested - a->peak_requested, a->peak_allocated,
                b->peak_allocated - a->peak_allocated, a->peak_reserved, b->peak_reserved - a->peak_reserved);
    }
}

static bool
is_wanted (const char *id, char **wanted)
{
  return *wanted == NULL || g_strv_contains ((const char *const *) wanted, id);
}

int
main (int argc, char **argv)
{
  const char *folder = "tests/data/h200-more";

  if (argc > 2 && strcmp (argv[1], "--data") == 0) {
    folder = argv[2];
    argv += 2;
  }
  g_autoptr (GPtrArray) runs = test_more_runs (folder);

  printf ("| run | forward | backward | step | step 1 | requested | allocated | reserved | training: allocated | reserved |\n"
          "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (guint i = 0; i < runs->len; i++) {
    const TestMoreRun *run = g_ptr_array_index (runs, i);

    if (!is_wanted (run->id, argv + 1))
      continue;
    TestMoreResult r = test_more_compare (run);
    printf ("| %s | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %+.3f %% | %+.3f %% | %+.2f %% | %+.3f %% | %+.2f %% |\n",
            run->id, 100 * r.agreement[0], 100 * r.agreement[1], 100 * r.agreement[2], 100 * r.agreement[3],
            r.requested, r.allocated, r.reserved, r.run_allocated, r.run_reserved);
    if (argv[1] != NULL)
      print_phases (run);
  }
  return 0;
}
