/* trace.c: Chrome trace events.  SPDX-License-Identifier: MIT
 *
 * Format: "Trace Event Format", the JSON object form: complete events (ph X), counters (ph C) and
 * metadata (ph M) that names and sorts processes and threads.  Times are in microseconds. */
#include "config.h"

#include "sim/report/trace.h"

#include <stdio.h>

#include "sim/io/file.h"
#include "sim/io/json-writer.h"

static const char *const STREAM_NAMES[ZS_N_STREAMS] = {
  [ZS_STREAM_COMPUTE] = "compute stream", [ZS_STREAM_ALL_GATHER] = "all-gather stream",
  [ZS_STREAM_REDUCE] = "reduction stream", [ZS_STREAM_COPY] = "copy stream",
  [ZS_STREAM_OTHER] = "other stream",
};

void
zs_track_name (int track, char *buffer, size_t size)
{
  if (track == ZS_TRACK_HOST)
    g_snprintf (buffer, size, "host (Python)");
  else if (track >= ZS_TRACK_STREAM && track < ZS_TRACK_STREAM + ZS_N_STREAMS)
    g_snprintf (buffer, size, "%s", STREAM_NAMES[track - ZS_TRACK_STREAM]);
  else if (track >= ZS_TRACK_COLLECTIVE && track < ZS_TRACK_COPY_IN)
    g_snprintf (buffer, size, "NCCL communicator %d", track - ZS_TRACK_COLLECTIVE);
  else if (track == ZS_TRACK_COPY_IN)
    g_snprintf (buffer, size, "copy engine, host to GPU");
  else if (track == ZS_TRACK_COPY_OUT)
    g_snprintf (buffer, size, "copy engine, GPU to host");
  else if (track == ZS_TRACK_CPU)
    g_snprintf (buffer, size, "CPU cores");
  else if (track == ZS_TRACK_WAIT)
    g_snprintf (buffer, size, "compute stream waits for");
  else
    g_snprintf (buffer, size, "NVMe");
}

static void
write_metadata (ZsJsonWriter *writer, const char *what, int rank, int track, const char *name)
{
  zs_json_compact (writer);
  zs_json_begin_object (writer, NULL);
  zs_json_string (writer, "ph", "M");
  zs_json_string (writer, "name", what);
  zs_json_int (writer, "pid", rank);
  if (track >= 0)
    zs_json_int (writer, "tid", track);
  zs_json_begin_object (writer, "args");
  if (g_str_has_suffix (what, "sort_index"))
    zs_json_int (writer, "sort_index", track >= 0 ? track : rank);
  else
    zs_json_string (writer, "name", name);
  zs_json_end_object (writer);
  zs_json_end_object (writer);
}

/* Name each process and thread that has a span. */
static void
write_tracks (const ZsResult *result, ZsJsonWriter *writer)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_direct_hash, g_direct_equal);

  for (guint i = 0; i < result->spans->len; i++) {
    const ZsSpan *span = &g_array_index (result->spans, ZsSpan, i);
    char name[64];

    if (g_hash_table_add (seen, GINT_TO_POINTER (-1 - span->rank))) {
      g_snprintf (name, sizeof name, "rank %d", span->rank);
      write_metadata (writer, "process_name", span->rank, -1, name);
      write_metadata (writer, "process_sort_index", span->rank, -1, NULL);
    }
    if (g_hash_table_add (seen, GINT_TO_POINTER (span->rank * ZS_N_TRACKS + span->track))) {
      zs_track_name (span->track, name, sizeof name);
      write_metadata (writer, "thread_name", span->rank, span->track, name);
      write_metadata (writer, "thread_sort_index", span->rank, span->track, NULL);
    }
  }
}

static void
write_span (const ZsSpan *span, ZsJsonWriter *writer)
{
  zs_json_compact (writer);
  zs_json_begin_object (writer, NULL);
  zs_json_string (writer, "ph", "X");
  zs_json_string (writer, "name", span->name != NULL ? span->name : "");
  zs_json_int (writer, "pid", span->rank);
  zs_json_int (writer, "tid", span->track);
  zs_json_fixed (writer, "ts", span->start, 6);
  zs_json_fixed (writer, "dur", span->end - span->start, 6);
  if (span->critical)
    zs_json_string (writer, "cname", "terrible");
  zs_json_begin_object (writer, "args");
  if (span->layer >= 0)
    zs_json_int (writer, "layer", span->layer);
  if (span->bytes > 0)
    zs_json_int (writer, "bytes", span->bytes);
  if (span->critical)
    zs_json_bool (writer, "critical", true);
  zs_json_end_object (writer);
  zs_json_end_object (writer);
}

static void
write_memory (const ZsResult *result, ZsJsonWriter *writer)
{
  ZsTime last = -1;

  for (guint i = 0; result->memory_points != NULL && i < result->memory_points->len; i++) {
    const ZsMemoryPoint *point = &g_array_index (result->memory_points, ZsMemoryPoint, i);
    bool more = i + 1 < result->memory_points->len;

    /* one value a moment: the last */
    if (more && g_array_index (result->memory_points, ZsMemoryPoint, i + 1).when == point->when)
      continue;
    if (point->when == last)
      continue;
    last = point->when;
    zs_json_compact (writer);
    zs_json_begin_object (writer, NULL);
    zs_json_string (writer, "ph", "C");
    zs_json_string (writer, "name", "GPU memory");
    zs_json_int (writer, "pid", result->reported_rank);
    zs_json_fixed (writer, "ts", point->when, 6);
    zs_json_begin_object (writer, "args");
    zs_json_int (writer, "allocated", point->allocated_bytes);
    zs_json_int (writer, "reserved, not allocated", point->reserved_bytes - point->allocated_bytes);
    zs_json_end_object (writer);
    zs_json_end_object (writer);
  }
}

bool
zs_trace_write (const ZsResult *result, const char *path, GError **error)
{
  g_autoptr (ZsFileWriter) file = zs_file_writer_new (path, error);

  if (file == NULL)
    return false;
  {
    g_autoptr (ZsJsonWriter) writer = zs_json_writer_new_file (zs_file_writer_stream (file), 0);

    zs_json_begin_object (writer, NULL);
    zs_json_string (writer, "displayTimeUnit", "ms");
    zs_json_begin_array (writer, "traceEvents");
    write_tracks (result, writer);
    for (guint i = 0; i < result->spans->len; i++)
      write_span (&g_array_index (result->spans, ZsSpan, i), writer);
    write_memory (result, writer);
    zs_json_end_array (writer);
    zs_json_end_object (writer);
  }
  return zs_file_writer_commit (g_steal_pointer (&file), error);
}
