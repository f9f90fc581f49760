/* history.h: a recorded history of PyTorch's caching allocator.
 * SPDX-License-Identifier: MIT
 *
 * A history is a list of entries in time order as torch.cuda.memory._record_memory_history () makes
 * them.  Read from tables with a header line (columns action, addr, size, stream, and time_us if it
 * is there), separated by tabs or commas, plain or gzip; or from the pickle that
 * torch.cuda.memory._dump_snapshot () writes (plain types only; nothing is ever executed). */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/memory/caching-allocator.h"

/* A file may name so many streams; the rest of the allocator's are for deferred frees. */
#define ZS_HISTORY_STREAMS 16

typedef struct {
  uint8_t action;         /* ZsAllocatorAction */
  uint8_t stream;         /* dense, in the order of the handles */
  int64_t address;        /* OOM: bytes free on the GPU */
  int64_t bytes;          /* blocks: requested; segments: their size; OOM: the rounded request */
  int64_t time_us;        /* 0 where not recorded */
} ZsHistoryEntry;

/* Totals of a snapshot's segments, in bytes. */
typedef struct {
  int64_t reserved, allocated, active, requested, n_segments;
} ZsHistoryTotals;

typedef struct {
  ZsHistoryEntry *entries;
  int64_t   n_entries;
  uint64_t  streams[ZS_HISTORY_STREAMS];   /* handles, ascending */
  int       n_streams;
  char     *alloc_conf;   /* of a snapshot: its PYTORCH_CUDA_ALLOC_CONF; else NULL */
  bool      has_totals;   /* a snapshot: */
  ZsHistoryTotals totals;
} ZsHistory;

/* GPU: which of a snapshot's; tables have one.  Errors name file and line (or byte). */
ZsHistory *zs_history_read (const char *path, int gpu, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void       zs_history_free (ZsHistory *history);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsHistory, zs_history_free)

#define ZS_HISTORY_ERROR (zs_history_error_quark ())
GQuark zs_history_error_quark (void);
