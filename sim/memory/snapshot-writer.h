/* snapshot-writer.h: a pickle that PyTorch's memory viewer (memory_viz) opens.
 * SPDX-License-Identifier: MIT
 *
 * The same dictionary as torch.cuda.memory._dump_snapshot () writes: the segments with their blocks
 * at the end, and the history.  Opcodes of protocol 2 only. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/memory/caching-allocator.h"

typedef struct ZsSnapshotWriter ZsSnapshotWriter;

/* CATEGORIES: names by number, for the viewer's legend. */
ZsSnapshotWriter *zs_snapshot_writer_new  (const char *const *categories, int n_categories)
  G_GNUC_WARN_UNUSED_RESULT;
void              zs_snapshot_writer_free (ZsSnapshotWriter *writer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsSnapshotWriter, zs_snapshot_writer_free)

/* One entry of the history, in time order.  WHERE (may be NULL) and WHAT become its frame: the phase
 * or bucket, and the layer and tensor.  TIME is simulated, in picoseconds. */
void zs_snapshot_writer_add (ZsSnapshotWriter *writer, ZsAllocatorAction action, int64_t address,
                             int64_t bytes, int stream, unsigned int category, const char *where,
                             const char *what, int64_t time);

/* Write the history and ALLOCATOR's present segments (which must be the state after the last entry)
 * to PATH.  ALLOCATOR may be NULL: then the segments are derived from the entries. */
bool zs_snapshot_writer_write (const ZsSnapshotWriter *writer, const ZsCachingAllocator *allocator,
                               const char *alloc_conf, const char *path, GError **error);
