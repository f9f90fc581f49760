/* command-replay.c: `zerosim replay TRACE`.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/cli/command-list.h"
#include "sim/io/json-writer.h"
#include "sim/memory/replay.h"

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
    g_autofree char *text = zs_mismatch_format (mismatch);

    zs_json_compact (writer);
    zs_json_begin_object (writer, NULL);
    zs_json_int (writer, "entry", mismatch->entry);
    zs_json_string (writer, "text", text);
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
  for (guint i = 0; i < MIN (report->mismatches->len, 10); i++) {
    const ZsMismatch *mismatch = &g_array_index (report->mismatches, ZsMismatch, i);
    g_autofree char *text = zs_mismatch_format (mismatch);

    printf ("entry %" G_GINT64_FORMAT ": %s\n", mismatch->entry, text);
  }
  if (report->n_mismatches == 0)
    puts ("every address, segment and counter agrees");
  else
    printf ("%" G_GINT64_FORMAT " differences\n", report->n_mismatches);
}

/* Settings that people use, tried in turn when none were given and the default does not agree. */
static const char *const GUESSES[] = {
  "expandable_segments:True",    "max_split_size_mb:128",       "max_split_size_mb:64",
  "max_split_size_mb:256",       "max_split_size_mb:512",       "max_split_size_mb:32",
  "roundup_power2_divisions:4",  "roundup_power2_divisions:8",  "roundup_power2_divisions:16",
  "roundup_power2_divisions:2",  "large_segment_size_mb:40",    "garbage_collection_threshold:0.6",
  "garbage_collection_threshold:0.8", "garbage_collection_threshold:0.9",
};

/* Any limit between the largest reserved sum that was reached and the smallest that was refused decides
 * alike.  The recording tells the former. */
static int64_t
guess_limit (const ZsHistory *history)
{
  int64_t reserved = 0, peak = 0;
  bool refused = false;

  for (int64_t i = 0; i < history->n_entries; i++) {
    const ZsHistoryEntry *entry = &history->entries[i];

    switch (entry->action) {
    case ZS_ALLOCATOR_SEGMENT_ALLOC:
    case ZS_ALLOCATOR_SEGMENT_MAP:
      reserved += entry->bytes;
      peak = MAX (peak, reserved);
      break;
    case ZS_ALLOCATOR_SEGMENT_FREE:
    case ZS_ALLOCATOR_SEGMENT_UNMAP:
      reserved -= entry->bytes;
      break;
    case ZS_ALLOCATOR_OOM:
      refused = true;
      break;
    default:
      break;
    }
  }
  return refused ? peak : 0;
}

/* Replays with each guess until one agrees; leaves REPORT as it was if none does. */
static const char *
try_guesses (const ZsHistory *history, ZsReplayOptions *replay, ZsReplayReport *report)
{
  for (size_t i = 0; i < G_N_ELEMENTS (GUESSES); i++) {
    ZsReplayOptions options = *replay;
    ZsReplayReport tried;

    if (!zs_alloc_conf_parse (GUESSES[i], &options.conf, NULL))
      continue;
    zs_history_replay (history, &options, &tried);
    if (tried.n_mismatches == 0) {
      zs_replay_report_clear (report);
      *report = tried;
      return GUESSES[i];
    }
    zs_replay_report_clear (&tried);
  }
  return NULL;
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
  const char *guess = NULL;

  if (options->limit == NULL)
    replay.limit = guess_limit (history);
  zs_history_replay (history, &replay, &report);
  if (report.n_mismatches > 0 && options->alloc_conf == NULL && history->alloc_conf == NULL)
    guess = try_guesses (history, &replay, &report);
  if (guess != NULL && !options->json)
    printf ("recorded under PYTORCH_CUDA_ALLOC_CONF=%s, it seems (no other common setting agrees)\n",
            guess);
  if (options->json)
    print_json (&report);
  else
    print_text (&report);

  bool equal = report.n_mismatches == 0;

  zs_replay_report_clear (&report);
  return equal ? ZS_EXIT_DONE : ZS_EXIT_INPUT;
}
