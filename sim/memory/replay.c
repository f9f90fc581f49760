/* replay.c: a recorded history against our allocator.  SPDX-License-Identifier: MIT
 *
 * The history is cut into operations.  A malloc is everything up to its `alloc` or `oom`: completions
 * of deferred frees, segments given back, segments taken.  Segments given back without need were an
 * empty_cache ().  A deferred free is one whose `free_completed` does not follow at once; its stream
 * is not recorded, so it waits on a spare stream of the allocator, chosen so that the events of each
 * spare stream complete in order. */
#include "config.h"

#include <string.h>

#include "sim/memory/allocator-private.h"
#include "sim/memory/history-private.h"
#include "sim/memory/replay.h"

#define MAX_MISMATCHES 100
#define NEVER INT64_MAX
#define CHECK_EVERY 61
/* Addresses of our own once the recorded ones cannot be used. */
#define OWN_ADDRESSES_END (INT64_C (1) << 46)

typedef struct {
  const ZsHistory *history;
  const ZsReplayOptions *options;
  ZsReplayReport  *report;
  ZsCachingAllocator *allocator;
  GHashTable *live;            /* recorded address to ZsBlock */
  int64_t    *completed_at;    /* per free_requested: entry of its free_completed, or NEVER */
  int64_t     last_completion[ZS_ALLOCATOR_STREAMS];
  int64_t     total_memory;

  /* the present operation: entries first to end - 1 */
  int64_t     first, end;
  int64_t     cutoff;          /* deferred frees that completed before this entry are seen as done */
  int64_t     compared;        /* entry up to which actions have been compared */
  int64_t     placed;          /* entry up to which recorded segment addresses have been used */
  bool        refuse;          /* the driver has nothing more */
  int64_t     next_own;
} Replay;

/* ---- comparing ---- */

static void
add_mismatch (Replay *replay, int64_t entry, const ZsHistoryEntry *recorded,
              const ZsHistoryEntry *ours)
{
  ZsReplayReport *report = replay->report;

  if (report->n_mismatches++ < MAX_MISMATCHES) {
    ZsMismatch mismatch = { .entry = entry, .has_recorded = recorded != NULL,
                            .has_ours = ours != NULL };

    if (recorded != NULL)
      mismatch.recorded = *recorded;
    if (ours != NULL)
      mismatch.ours = *ours;
    g_array_append_val (report->mismatches, mismatch);
  }
}

static void
diverge (Replay *replay, int64_t entry)
{
  if (replay->report->diverged_at < 0)
    replay->report->diverged_at = entry;
}

/* Next recorded entry of the operation that is no completion; NULL at its end. */
static const ZsHistoryEntry *
next_recorded (Replay *replay, int64_t *ret_index)
{
  const ZsHistoryEntry *entries = replay->history->entries;

  while (replay->compared < replay->end
         && entries[replay->compared].action == ZS_ALLOCATOR_FREE_COMPLETED)
    replay->compared++;
  if (replay->compared == replay->end)
    return NULL;
  *ret_index = replay->compared;
  return &entries[replay->compared++];
}

static void
compare_action (Replay *replay, const ZsHistoryEntry *ours)
{
  int64_t index = replay->end - 1;
  const ZsHistoryEntry *recorded = next_recorded (replay, &index);

  if (recorded == NULL) {
    add_mismatch (replay, index, NULL, ours);
    diverge (replay, index);
    return;
  }
  bool same_kind = recorded->action == ours->action && recorded->bytes == ours->bytes
                   && recorded->stream == ours->stream;
  /* The address of an oom entry is what the GPU has free, which only the GPU knows. */
  bool same_address = ours->action == ZS_ALLOCATOR_OOM || recorded->address == ours->address;

  if (same_kind && (same_address || replay->report->diverged_at >= 0))
    return;
  add_mismatch (replay, index, recorded, ours);
  diverge (replay, index);
}

static void
on_segment (void *self, ZsAllocatorAction action, int64_t address, int64_t bytes, int stream)
{
  ZsHistoryEntry ours = { .action = (uint8_t) action, .stream = (uint8_t) stream,
                          .address = address, .bytes = bytes };

  compare_action (self, &ours);
}

/* ---- the outside world, as it was recorded ---- */

static bool
overlaps (const Replay *replay, int64_t address, int64_t bytes)
{
  const GPtrArray *segments = replay->allocator->segments;

  for (guint i = 0; i < segments->len; i++) {
    const ZsBlock *first = segments->pdata[i], *last = first;

    while (last->after != NULL)
      last = last->after;
    if (address < last->address + last->size && first->address < address + bytes)
      return true;
  }
  return false;
}

static int64_t
place (void *self, int64_t bytes, bool range)
{
  Replay *replay = self;
  const ZsHistoryEntry *entries = replay->history->entries;
  uint8_t wanted = range ? ZS_ALLOCATOR_SEGMENT_MAP : ZS_ALLOCATOR_SEGMENT_ALLOC;

  if (replay->report->diverged_at < 0) {
    while (replay->placed < replay->end && entries[replay->placed].action != wanted)
      replay->placed++;
    if (replay->placed < replay->end) {
      int64_t address = entries[replay->placed].address;

      if (address % 512 == 0 && address + bytes <= HISTORY_MAX_ADDRESS
          && !overlaps (replay, address, bytes)) {
        replay->placed++;
        return address;
      }
    }
    diverge (replay, replay->first);
  }
  /* The space is a hundred times what can be live, so this ends. */
  do {
    if (replay->next_own + bytes > OWN_ADDRESSES_END)
      replay->next_own = ROUND_LARGE;
    replay->next_own += (bytes + ROUND_LARGE - 1) / ROUND_LARGE * ROUND_LARGE;
  } while (overlaps (replay, replay->next_own - bytes, bytes));
  return replay->next_own - bytes;
}

static int64_t
record_event (void *self, int stream)
{
  const Replay *replay = self;

  (void) stream;
  return replay->completed_at[replay->first];
}

static bool
event_done (void *self, int64_t completed_at)
{
  return completed_at < ((const Replay *) self)->cutoff;
}

static int64_t
device_free (void *self, int64_t reserved)
{
  const Replay *replay = self;

  return replay->refuse ? 0 : replay->total_memory - reserved;
}

/* ---- operations ---- */

/* Spare stream for a deferred free of a block of STREAM that completes at entry WHEN. */
static int
spare_stream (Replay *replay, int64_t when)
{
  int best = -1;

  for (int stream = ZS_HISTORY_STREAMS; stream < ZS_ALLOCATOR_STREAMS; stream++)
    if (replay->last_completion[stream] <= when
        && (best < 0 || replay->last_completion[stream] > replay->last_completion[best]))
      best = stream;
  if (best < 0)   /* no GPU has so many streams: the completion will be seen late */
    best = ZS_ALLOCATOR_STREAMS - 1;
  replay->last_completion[best] = MAX (replay->last_completion[best], when);
  return best;
}

static void
replay_free (Replay *replay, const ZsHistoryEntry *entry)
{
  ZsBlock *block = g_hash_table_lookup (replay->live, &entry->address);
  int64_t when = replay->completed_at[replay->first];

  if (block == NULL) {
    replay->report->n_skipped++;
    return;
  }
  g_hash_table_remove (replay->live, &entry->address);
  replay->report->n_frees++;
  if (when != replay->first + 1) {
    replay->report->n_deferred++;
    zs_caching_allocator_record_stream (replay->allocator, block, spare_stream (replay, when));
  }
  zs_caching_allocator_free_block (replay->allocator, block);
}

/* Would a malloc give memory back before it succeeds, by what we know? */
static bool
will_release (const Replay *replay, int64_t bytes, int stream, bool recorded_oom)
{
  ZsCachingAllocator *allocator = replay->allocator;
  int64_t rounded = zs_alloc_conf_round (&allocator->conf, bytes);
  unsigned int set = (rounded <= SMALL_SIZE ? POOL_SMALL : POOL_LARGE) * ZS_ALLOCATOR_STREAMS
                     + (unsigned int) stream;
  int64_t reserved = allocator->counters.reserved.now;
  ZsFreeAt at;

  if (recorded_oom)
    return true;
  if (allocator->sets[set] != NULL
      && zs_free_set_lower_bound (allocator->sets[set], rounded, &at)) {
    int64_t size = zs_free_set_get (allocator->sets[set], at)->size;

    if (rounded < allocator->max_split ? size < allocator->max_split
                                       : size < rounded + allocator->conf.max_non_split_rounding)
      return false;
  }
  if (allocator->limit > 0
      && reserved + zs_alloc_conf_segment (&allocator->conf, rounded) > allocator->limit)
    return true;
  return allocator->gc
         && (double) reserved
              > allocator->conf.garbage_collection_threshold * (double) allocator->limit;
}

static void
end_operation (Replay *replay)
{
  const ZsHistoryEntry *recorded;
  int64_t index;

  while ((recorded = next_recorded (replay, &index)) != NULL) {
    add_mismatch (replay, index, recorded, NULL);
    diverge (replay, index);
  }
}

static void
replay_empty_cache (Replay *replay, int64_t end)
{
  int64_t real_end = replay->end;

  replay->end = end;
  replay->report->n_empty_caches++;
  zs_caching_allocator_empty_cache (replay->allocator);
  end_operation (replay);
  replay->end = real_end;
}

static void
replay_malloc (Replay *replay, const ZsHistoryEntry *last)
{
  const ZsHistoryEntry *entries = replay->history->entries;
  int64_t first_release = -1, last_release = -1;
  bool recorded_miss = last->action == ZS_ALLOCATOR_OOM;
  int64_t n_completed = 0, n_waiting = 0;

  for (int64_t i = replay->first; i < replay->end; i++)
    switch (entries[i].action) {
    case ZS_ALLOCATOR_SEGMENT_FREE:
    case ZS_ALLOCATOR_SEGMENT_UNMAP:
      if (first_release < 0)
        first_release = i;
      last_release = i;
      break;
    case ZS_ALLOCATOR_SEGMENT_ALLOC:
    case ZS_ALLOCATOR_SEGMENT_MAP:
      recorded_miss = true;
      break;
    case ZS_ALLOCATOR_FREE_COMPLETED:
      n_completed++;
      break;
    default:
      break;
    }
  for (int stream = 0; stream < ZS_ALLOCATOR_STREAMS; stream++)
    n_waiting += replay->allocator->pending[stream].count;

  bool releases = recorded_miss
                  && will_release (replay, last->bytes, last->stream,
                                   last->action == ZS_ALLOCATOR_OOM);

  if (first_release >= 0 && !releases)
    replay_empty_cache (replay, last_release + 1);
  /* Completions before a flush that leaves none waiting were waited for, not seen by polling. */
  if (releases && n_completed == n_waiting)
    replay->cutoff = replay->first;
  else
    replay->cutoff = releases && first_release >= 0 ? first_release : replay->end;

  replay->refuse = last->action == ZS_ALLOCATOR_OOM && replay->options->limit == 0;
  ZsBlock *block = zs_caching_allocator_malloc (replay->allocator, last->bytes, last->stream, 0, 0);

  replay->refuse = false;
  if (block == NULL) {
    end_operation (replay);
    return;
  }
  ZsHistoryEntry ours = { .action = ZS_ALLOCATOR_ALLOC, .stream = last->stream,
                          .address = block->address, .bytes = last->bytes };

  replay->report->n_allocs++;
  compare_action (replay, &ours);
  end_operation (replay);
  if (last->action == ZS_ALLOCATOR_OOM
      || g_hash_table_lookup (replay->live, &last->address) != NULL) {
    /* We found room where PyTorch did not, or an address that is in use: a difference, counted. */
    if (last->action != ZS_ALLOCATOR_OOM)
      add_mismatch (replay, replay->end - 1, last, &ours);
    diverge (replay, replay->end - 1);
    zs_caching_allocator_free_block (replay->allocator, block);
    return;
  }
  g_hash_table_insert (replay->live, (gpointer) &last->address, block);
}

/* ---- the whole ---- */

/* For every free_requested the entry at which it completed. */
static int64_t *
find_completions (const ZsHistory *history)
{
  int64_t *completed_at = g_new (int64_t, history->n_entries + 1);
  g_autoptr (GHashTable) waiting = g_hash_table_new (g_int64_hash, g_int64_equal);

  for (int64_t i = 0; i < history->n_entries; i++) {
    const ZsHistoryEntry *entry = &history->entries[i];

    completed_at[i] = NEVER;
    if (entry->action == ZS_ALLOCATOR_FREE_REQUESTED)
      g_hash_table_insert (waiting, (gpointer) &entry->address, &completed_at[i]);
    else if (entry->action == ZS_ALLOCATOR_FREE_COMPLETED) {
      int64_t *slot = g_hash_table_lookup (waiting, &entry->address);

      if (slot != NULL) {
        *slot = i;
        g_hash_table_remove (waiting, &entry->address);
      }
    }
  }
  return completed_at;
}

/* End of the operation that begins at FIRST; *ret_last: the entry that names it, or NULL. */
static int64_t
operation_end (const ZsHistory *history, int64_t first, const ZsHistoryEntry **ret_last)
{
  for (int64_t i = first; i < history->n_entries; i++)
    switch (history->entries[i].action) {
    case ZS_ALLOCATOR_ALLOC:
    case ZS_ALLOCATOR_OOM:
      *ret_last = &history->entries[i];
      return i + 1;
    case ZS_ALLOCATOR_FREE_REQUESTED:
    case ZS_ALLOCATOR_SNAPSHOT:
      *ret_last = i == first ? &history->entries[i] : NULL;
      return i == first ? i + 1 : i;
    default:
      break;
    }
  *ret_last = NULL;
  return history->n_entries;
}

static void
count_recorded (const ZsHistory *history, ZsReplayReport *report)
{
  for (int64_t i = 0; i < history->n_entries; i++) {
    const ZsHistoryEntry *entry = &history->entries[i];

    switch (entry->action) {
    case ZS_ALLOCATOR_ALLOC:
      report->recorded_requested += entry->bytes;
      break;
    case ZS_ALLOCATOR_FREE_COMPLETED:
      report->recorded_requested -= entry->bytes;
      break;
    case ZS_ALLOCATOR_SEGMENT_ALLOC:
    case ZS_ALLOCATOR_SEGMENT_MAP:
      report->recorded_reserved += entry->bytes;
      report->n_segment_actions++;
      break;
    case ZS_ALLOCATOR_SEGMENT_FREE:
    case ZS_ALLOCATOR_SEGMENT_UNMAP:
      report->recorded_reserved -= entry->bytes;
      report->n_segment_actions++;
      break;
    default:
      break;
    }
  }
}

static void
finish_report (Replay *replay)
{
  ZsReplayReport *report = replay->report;
  const ZsHistory *history = replay->history;

  report->counters = *zs_caching_allocator_counters (replay->allocator);
  report->inactive_split_bytes = zs_caching_allocator_inactive_split_bytes (replay->allocator);
  report->n_segments = replay->allocator->segments->len;
  count_recorded (history, report);
  report->totals_agree = report->n_skipped > 0
                         || (report->recorded_reserved == report->counters.reserved.now
                             && report->recorded_requested == report->counters.requested.now);
  if (history->has_totals)
    report->totals_agree = report->totals_agree
                           && history->totals.reserved == report->counters.reserved.now
                           && history->totals.allocated == report->counters.allocated.now
                           && history->totals.active == report->counters.active.now;
}

void
zs_history_replay (const ZsHistory *history, const ZsReplayOptions *options,
                   ZsReplayReport *ret_report)
{
  *ret_report = (ZsReplayReport) {
    .mismatches = g_array_new (FALSE, FALSE, sizeof (ZsMismatch)), .diverged_at = -1,
  };
  Replay replay = {
    .history = history, .options = options, .report = ret_report,
    .live = g_hash_table_new (g_int64_hash, g_int64_equal),
    .completed_at = find_completions (history),
    .total_memory = options->total_memory > 0 ? MIN (options->total_memory, INT64_C (256) << 30)
                                              : INT64_C (256) << 30,
    .next_own = ROUND_LARGE,
  };
  ZsAllocatorHost host = {
    .self = &replay, .record = record_event, .done = event_done, .device_free = device_free,
    .place = place, .on_segment = on_segment,
  };

  replay.allocator = zs_caching_allocator_new (&options->conf, replay.total_memory, &host);
  if (options->limit > 0)
    zs_caching_allocator_set_limit (replay.allocator, options->limit);
  for (int64_t i = 0, n_operations = 0; i < history->n_entries; i = replay.end, n_operations++) {
    const ZsHistoryEntry *last;

    replay.first = replay.compared = replay.placed = i;
    replay.end = operation_end (history, i, &last);
    if (options->visit != NULL)
      options->visit (options->self, i, replay.allocator);
    if (last == NULL)
      replay_empty_cache (&replay, replay.end);
    else if (last->action == ZS_ALLOCATOR_FREE_REQUESTED) {
      replay_free (&replay, last);
      if (replay.completed_at[i] == i + 1)
        replay.end++;
    } else if (last->action != ZS_ALLOCATOR_SNAPSHOT)
      replay_malloc (&replay, last);
    if (options->check && n_operations % CHECK_EVERY == 0)
      zs_caching_allocator_check (replay.allocator);
  }
  if (options->visit != NULL)
    options->visit (options->self, history->n_entries, replay.allocator);
  finish_report (&replay);
  zs_caching_allocator_free (replay.allocator);
  g_hash_table_unref (replay.live);
  g_free (replay.completed_at);
}

void
zs_replay_report_clear (ZsReplayReport *report)
{
  g_clear_pointer (&report->mismatches, g_array_unref);
}

static void
append_entry (GString *text, const ZsHistoryEntry *entry)
{
  g_string_append_printf (text, "%s of %" G_GINT64_FORMAT " bytes at %#" G_GINT64_MODIFIER "x on "
                          "stream %d", zs_allocator_action_name ((ZsAllocatorAction) entry->action),
                          entry->bytes, (guint64) entry->address, entry->stream);
}

char *
zs_mismatch_format (const ZsMismatch *mismatch)
{
  GString *text = g_string_new (NULL);

  g_string_printf (text, "entry %" G_GINT64_FORMAT ": recorded ", mismatch->entry + 1);
  if (mismatch->has_recorded)
    append_entry (text, &mismatch->recorded);
  else
    g_string_append (text, "nothing");
  g_string_append (text, ", here ");
  if (mismatch->has_ours)
    append_entry (text, &mismatch->ours);
  else
    g_string_append (text, "nothing");
  return g_string_free (text, FALSE);
}
