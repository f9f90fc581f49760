/* replay.h: a recorded history against our allocator.
 * SPDX-License-Identifier: MIT
 *
 * The replay takes from the history the requests, the frees, the addresses that the driver returned
 * and the moments at which deferred frees (record_stream) completed.  It predicts every block
 * address, every segment action, their order and the counters, and reports where it differs.  After
 * the first difference in an address the recorded ones mean nothing any more: from there on only
 * the kinds and sizes of segment actions are compared. */
#pragma once

#include "sim/memory/history.h"

/* One difference between what was recorded and what we did. */
typedef struct {
  int64_t entry;               /* index in the history */
  bool    has_recorded, has_ours;
  ZsHistoryEntry recorded, ours;
} ZsMismatch;

typedef struct {
  int64_t n_mismatches;
  GArray *mismatches;          /* ZsMismatch, the first hundred */
  int64_t diverged_at;         /* entry of the first difference in an address; -1 none */
  int64_t n_allocs, n_frees, n_deferred, n_segment_actions, n_empty_caches;
  int64_t n_skipped;           /* entries about blocks from before the recording */
  ZsAllocatorCounters counters;   /* ours at the end; peaks over everything, or since the visitor
                                     reset them */
  int64_t inactive_split_bytes, n_segments;
  int64_t recorded_reserved, recorded_requested;   /* sums over the history */
  bool    totals_agree;        /* at the end, with those sums and a snapshot's totals */
} ZsReplayReport;

/* Called before each operation (malloc, free, empty_cache) with the index of its first entry; may
 * reset the allocator's peaks.  Called once more at the end with n_entries. */
typedef void (*ZsReplayVisitor) (void *self, int64_t entry, ZsCachingAllocator *allocator);

typedef struct {
  ZsAllocConf conf;
  int64_t total_memory;   /* of the GPU; 0: not known, then 256 GiB */
  int64_t limit;          /* on reserved bytes; 0: none */
  ZsReplayVisitor visit;  /* may be NULL */
  void   *self;
  bool    check;          /* check the allocator's invariants now and then (slow) */
} ZsReplayOptions;

/* RET_REPORT is cleared with zs_replay_report_clear (). */
void zs_history_replay (const ZsHistory *history, const ZsReplayOptions *options,
                        ZsReplayReport *ret_report);
void zs_replay_report_clear (ZsReplayReport *report);

/* "alloc of 1024 bytes on stream 0 at 0x...: recorded ..., here ..."; g_free it. */
char *zs_mismatch_format (const ZsMismatch *mismatch);
