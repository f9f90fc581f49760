/* command-replay.c: `zerosim replay TRACE`.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/cli/command-list.h"
#include "sim/io/json-writer.h"
#include "sim/memory/history.h"

static void
print_json (const ZsReplayReport *report)
{
  const ZsAllocatorCounters *counters = &report->counters;
  g_autoptr (ZsJsonWriter) writer = zs_json_writer_new_file (stdout, 2);

  zs_json_begin_object (writer, NULL);
  zs_json_int (writer, "mismatches", report->n_mismatches);
  zs_json_int (writer, "allocations", report->n_allocs);
  zs_json_int (writer, "frees", report->n_frees);
  zs_json_int (writer, "segment_actions", report->n_segment_actions);
  zs_json_int (writer, "skipped", report->n_skipped);
  zs_json_int (writer, "allocated_bytes", counters->allocated.now);
  zs_json_int (writer, "peak_allocated_bytes", counters->allocated.peak);
  zs_json_int (writer, "reserved_bytes", counters->reserved.now);
  zs_json_int (writer, "peak_reserved_bytes", counters->reserved.peak);
  zs_json_begin_array (writer, "differences");
  for (guint i = 0; i < report->mismatches->len; i++) {
    const ZsMismatch *mismatch = &g_array_index (report->mismatches, ZsMismatch, i);

    zs_json_compact (writer);
    zs_json_begin_object (writer, NULL);
    zs_json_int (writer, "entry", mismatch->entry);
    zs_json_string (writer, "text", mismatch->text);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
  zs_json_end_object (writer);
}

static void
print_text (const ZsReplayReport *report)
{
  const ZsAllocatorCounters *counters = &report->counters;
  g_autofree char *allocated = zs_bytes_format (counters->allocated.now);
  g_autofree char *peak = zs_bytes_format (counters->allocated.peak);
  g_autofree char *reserved = zs_bytes_format (counters->reserved.now);
  g_autofree char *peak_reserved = zs_bytes_format (counters->reserved.peak);

  printf ("%" G_GINT64_FORMAT " allocations, %" G_GINT64_FORMAT " frees, %" G_GINT64_FORMAT
          " segment actions\n",
          report->n_allocs, report->n_frees, report->n_segment_actions);
  if (report->n_skipped > 0)
    printf ("%" G_GINT64_FORMAT " entries about blocks from before the recording were passed over\n",
            report->n_skipped);
  printf ("allocated %s at the end, %s at the peak\nreserved  %s at the end, %s at the peak\n",
          allocated, peak, reserved, peak_reserved);
  for (guint i = 0; i < MIN (report->mismatches->len, 10); i++)
    printf ("entry %" G_GINT64_FORMAT ": %s\n",
            g_array_index (report->mismatches, ZsMismatch, i).entry,
            g_array_index (report->mismatches, ZsMismatch, i).text);
  if (report->n_mismatches == 0)
    puts ("every address, segment and counter agrees");
  else
    printf ("%" G_GINT64_FORMAT " differences\n", report->n_mismatches);
}

int
zs_command_replay (const ZsOptions *options, char **arguments)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ZsHistory) history = zs_history_read (arguments[0], 0, &error);
  ZsReplayOptions replay = { .limit = 0 };
  ZsReplayReport report;

  if (history == NULL)
    return zs_command_fail (error);
  if (!zs_alloc_conf_parse (options->alloc_conf != NULL ? options->alloc_conf : history->alloc_conf,
                            &replay.conf, &error)) {
    g_prefix_error (&error, "--alloc-conf: ");
    return zs_command_fail (error);
  }
  if (options->limit != NULL && !zs_bytes_parse (options->limit, &replay.limit, &error)) {
    g_prefix_error (&error, "--limit: ");
    return zs_command_fail (error);
  }
  zs_history_replay (history, &replay, &report);
  if (options->json)
    print_json (&report);
  else
    print_text (&report);

  bool equal = report.n_mismatches == 0;

  zs_replay_report_clear (&report);
  return equal ? ZS_EXIT_DONE : ZS_EXIT_INPUT;
}
