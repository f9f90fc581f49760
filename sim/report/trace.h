/* trace.h: the timeline of a result as Chrome trace events, which Perfetto and chrome://tracing open.
 * SPDX-License-Identifier: MIT
 *
 * A process per rank, a track (thread) per stream, communicator, copy engine and CPU, and counters
 * for allocated and reserved bytes and for the use of links.  Times are microseconds with picosecond
 * digits. */
#pragma once

#include <glib.h>
#include <stdbool.h>

#include "sim/run/result.h"

/* Write the spans and memory points of RESULT to PATH (complete, or not at all). */
bool zs_trace_write (const ZsResult *result, const char *path, GError **error);

/* "compute stream", of a ZsTrack. */
void zs_track_name (int track, char *buffer, size_t size);
