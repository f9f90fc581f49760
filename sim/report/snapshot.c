/* snapshot.c: a result's history as a pickle.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/report/snapshot.h"

#include "sim/memory/snapshot-writer.h"

bool
zs_snapshot_write (const ZsResult *result, const char *alloc_conf, const char *path, GError **error)
{
  const char *names[ZS_N_CATEGORIES];

  for (int category = 0; category < ZS_N_CATEGORIES; category++)
    names[category] = zs_category_name (category);
  g_autoptr (ZsSnapshotWriter) writer = zs_snapshot_writer_new (names, ZS_N_CATEGORIES);

  for (guint i = 0; i < result->memory_events->len; i++) {
    const ZsMemoryEvent *event = &g_array_index (result->memory_events, ZsMemoryEvent, i);
    char where[32] = "";

    if (event->layer >= 0)
      g_snprintf (where, sizeof where, "layer %d", event->layer);
    zs_snapshot_writer_add (writer, event->action, event->address, event->bytes, event->stream,
                            event->category, where, event->what, event->when);
  }
  return zs_snapshot_writer_write (writer, NULL, alloc_conf, path, error);
}
