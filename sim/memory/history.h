/* history.h: a recorded history of PyTorch's caching allocator, and replaying it against ours.
 * SPDX-License-Identifier: MIT
 *
 * A history is a list of entries in time order as torch.cuda.memory._record_memory_history () makes
 * them.  Read from tables with a header line (columns action, addr, size, stream, and time_us if
 * there), separated by tabs or commas, plain or gzip; or from the pickle that
 * torch.cuda.memory._dump_snapshot () writes (plain types only; nothing is ever executed).
 *
 * The replay takes from the history the requests, the frees, the addresses that the driver returned
 * and the moments at which deferred frees (record_stream) completed; it predicts every block
 * address, every segment action and their order, and the counters, and reports where it differs. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/memory/caching-allocator.h"

typedef struct {
  uint8_t action;         /* ZsAllocatorAction */
  uint8_t stream;         /* dense, in the order of the handles */
  int64_t address;        /* OOM: bytes free on the GPU */
  int64_t bytes;          /* blocks: requested; segments: their size; OOM: the rounded request */
  int64_t time_us;        /* 0 where not recorded */
} ZsHistoryEntry;

typedef struct {
  ZsHistoryEntry *entries;
  int64_t   n_entries;
  uint64_t  streams[ZS_ALLOCATOR_STREAMS];   /* handles, ascending */
  int       n_streams;
  char     *alloc_conf;   /* of a snapshot: its PYTORCH_CUDA_ALLOC_CONF; else NULL */
  bool      complete;     /* starts with an empty allocator, as far as one can see */
} ZsHistory;

/* GPU: which of a snapshot's; tables have one.  Errors name file and line (or byte). */
ZsHistory *zs_history_read (const char *path, int gpu, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void       zs_history_free (ZsHistory *history);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsHistory, zs_history_free)

#define ZS_HISTORY_ERROR (zs_history_error_quark ())
GQuark zs_history_error_quark (void);

/* One difference between what was recorded and what we did. */
typedef struct {
  int64_t entry;          /* index in the history */
  ZsHistoryEntry recorded;
  ZsHistoryEntry ours;
  char    text[160];
} ZsMismatch;

typedef struct {
  int64_t n_mismatches;
  GArray *mismatches;     /* ZsMismatch, the first hundred */
  int64_t n_allocs, n_frees, n_deferred, n_segment_actions, n_empty_caches;
  int64_t n_skipped;      /* entries about blocks that were there before the recording */
  ZsAllocatorCounters counters;   /* ours at the end; peaks over everything */
  int64_t inactive_split_bytes;
  int64_t n_segments;
} ZsReplayReport;

/* Called before each entry is replayed, with the allocator as it is then; may reset its peaks. */
typedef void (*ZsReplayVisitor) (void *self, int64_t entry, ZsCachingAllocator *allocator);

typedef struct {
  ZsAllocConf conf;
  int64_t total_memory;   /* of the GPU; 0: not known, 80 GiB */
  int64_t limit;          /* on reserved bytes; 0: none */
  ZsReplayVisitor visit;  /* may be NULL */
  void   *self;
  bool    check;          /* run zs_caching_allocator_check () now and then */
} ZsReplayOptions;

void zs_history_replay (const ZsHistory *history, const ZsReplayOptions *options,
                        ZsReplayReport *ret_report);
void zs_replay_report_clear (ZsReplayReport *report);
