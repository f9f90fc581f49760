/* snapshot-writer.c: a snapshot for PyTorch's memory viewer.  SPDX-License-Identifier: MIT
 *
 * What the viewer (torch/utils/viz/MemoryViz.js) needs: blocks that tile their segment, frames with
 * both strings, lists in batches of at most a thousand, numbers below 2^53, and, if entries have
 * categories, at least one that is "unknown": segment actions are. */
#include "config.h"

#include <string.h>

#include "sim/io/file.h"
#include "sim/memory/snapshot-writer.h"

#define BATCH 1000   /* elements per APPENDS, as Python's pickler does */

typedef struct {
  uint8_t     action, stream, category;
  int64_t     address, bytes, time;
  const char *where, *what;
} Entry;

struct ZsSnapshotWriter {
  GPtrArray    *categories;
  GStringChunk *strings;
  GArray       *entries;
};

/* A segment as it is written: a contiguous mapped range with its blocks. */
typedef struct {
  int64_t address, bytes;
  uint8_t stream;
  bool    small, expandable;
  GArray *blocks;
} Range;

typedef struct {
  int64_t      address, bytes, requested;
  ZsBlockState state;
} Block;

ZsSnapshotWriter *
zs_snapshot_writer_new (const char *const *categories, int n_categories)
{
  ZsSnapshotWriter *writer = g_new0 (ZsSnapshotWriter, 1);

  writer->categories = g_ptr_array_new ();
  writer->strings = g_string_chunk_new (4096);
  writer->entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  for (int i = 0; i < n_categories; i++)
    g_ptr_array_add (writer->categories,
                     g_string_chunk_insert_const (writer->strings, categories[i]));
  return writer;
}

void
zs_snapshot_writer_free (ZsSnapshotWriter *writer)
{
  if (writer == NULL)
    return;
  g_ptr_array_free (writer->categories, TRUE);
  g_string_chunk_free (writer->strings);
  g_array_free (writer->entries, TRUE);
  g_free (writer);
}

void
zs_snapshot_writer_add (ZsSnapshotWriter *writer, ZsAllocatorAction action, int64_t address,
                        int64_t bytes, int stream, unsigned int category, const char *where,
                        const char *what, int64_t time)
{
  Entry entry = {
    .action = (uint8_t) action, .stream = (uint8_t) stream, .category = (uint8_t) category,
    .address = address, .bytes = bytes, .time = time,
    .where = where == NULL ? "" : g_string_chunk_insert_const (writer->strings, where),
    .what = what == NULL ? "" : g_string_chunk_insert_const (writer->strings, what),
  };

  g_array_append_val (writer->entries, entry);
}

/* ---- segments ---- */

static Range *
add_range (GArray *ranges, int64_t address, int64_t bytes, int stream, bool small, bool expandable)
{
  Range range = { address, bytes, (uint8_t) stream, small, expandable,
                  g_array_new (FALSE, FALSE, sizeof (Block)) };

  g_array_append_val (ranges, range);
  return &g_array_index (ranges, Range, ranges->len - 1);
}

static void
add_block (Range *range, int64_t address, int64_t bytes, int64_t requested, ZsBlockState state)
{
  Block block = { address, bytes, requested, state };

  g_array_append_val (range->blocks, block);
}

static void
range_from_allocator (void *self, const ZsSegment *segment, const ZsBlock *block)
{
  GArray *ranges = self;
  Range *last = ranges->len > 0 ? &g_array_index (ranges, Range, ranges->len - 1) : NULL;
  int64_t address = zs_block_address (block), size = zs_block_size (block);

  if (zs_block_state (block) == ZS_BLOCK_UNMAPPED)
    return;
  /* A new segment, or the next mapped part of an expandable one. */
  if (last == NULL || address == segment->address || last->address + last->bytes != address
      || last->stream != segment->stream || last->small != segment->small)
    last = add_range (ranges, address, 0, segment->stream, segment->small, segment->expandable);
  last->bytes += size;
  add_block (last, address, size, zs_block_requested (block), zs_block_state (block));
}

static int
compare_ranges (const void *a, const void *b)
{
  const Range *x = a, *y = b;

  return x->address < y->address ? -1 : x->address > y->address;
}

static int
compare_blocks (const void *a, const void *b)
{
  const Block *x = a, *y = b;

  return x->address < y->address ? -1 : x->address > y->address;
}

/* Take ADDRESS to ADDRESS + BYTES out of the ranges. */
static void
cut_ranges (GArray *ranges, int64_t address, int64_t bytes)
{
  for (guint i = 0; i < ranges->len; i++) {
    Range *range = &g_array_index (ranges, Range, i);
    int64_t end = range->address + range->bytes, cut_end = address + bytes;

    if (range->address >= cut_end || end <= address)
      continue;
    if (cut_end < end)
      add_range (ranges, cut_end, end - cut_end, range->stream, range->small, range->expandable);
    range = &g_array_index (ranges, Range, i);
    if (address > range->address)
      range->bytes = address - range->address;
    else {
      g_array_free (range->blocks, TRUE);
      g_array_remove_index_fast (ranges, i--);
    }
  }
}

/* Join mapped parts that follow one another. */
static void
join_ranges (GArray *ranges)
{
  guint kept = 0;

  if (ranges->len > 0)
    qsort (ranges->data, ranges->len, sizeof (Range), compare_ranges);
  for (guint i = 0; i < ranges->len; i++) {
    Range *range = &g_array_index (ranges, Range, i);
    Range *before = kept > 0 ? &g_array_index (ranges, Range, kept - 1) : NULL;

    if (before != NULL && range->expandable && before->expandable
        && before->address + before->bytes == range->address && before->stream == range->stream
        && before->small == range->small) {
      before->bytes += range->bytes;
      g_array_free (range->blocks, TRUE);
    } else
      g_array_index (ranges, Range, kept++) = *range;
  }
  g_array_set_size (ranges, kept);
}

/* The blocks that live, rounded to 512 bytes; what lies between is free. */
static void
tile_range (Range *range, const GArray *live)
{
  int64_t at = range->address, end = range->address + range->bytes;

  for (guint i = 0; i < live->len; i++) {
    const Block *block = &g_array_index (live, Block, i);
    int64_t size = (block->requested + 511) / 512 * 512;

    if (block->address < at || block->address + size > end)
      continue;
    if (block->address > at)
      add_block (range, at, block->address - at, 0, ZS_BLOCK_INACTIVE);
    add_block (range, block->address, size, block->requested, block->state);
    at = block->address + size;
  }
  if (at < end)
    add_block (range, at, end - at, 0, ZS_BLOCK_INACTIVE);
}

static void
ranges_from_entries (const ZsSnapshotWriter *writer, GArray *ranges)
{
  g_autoptr (GHashTable) states = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL, g_free);

  for (guint i = 0; i < writer->entries->len; i++) {
    const Entry *entry = &g_array_index (writer->entries, Entry, i);
    Block *block;

    switch (entry->action) {
    case ZS_ALLOCATOR_SEGMENT_ALLOC:
    case ZS_ALLOCATOR_SEGMENT_MAP:
      add_range (ranges, entry->address, entry->bytes, entry->stream,
                 entry->bytes <= 2 * ZS_MIB, entry->action == ZS_ALLOCATOR_SEGMENT_MAP);
      break;
    case ZS_ALLOCATOR_SEGMENT_FREE:
    case ZS_ALLOCATOR_SEGMENT_UNMAP:
      cut_ranges (ranges, entry->address, entry->bytes);
      break;
    case ZS_ALLOCATOR_ALLOC:
      block = g_new (Block, 1);
      *block = (Block) { entry->address, entry->bytes, entry->bytes, ZS_BLOCK_ALLOCATED };
      g_hash_table_replace (states, &block->address, block);
      break;
    case ZS_ALLOCATOR_FREE_REQUESTED:
      block = g_hash_table_lookup (states, &entry->address);
      if (block != NULL)
        block->state = ZS_BLOCK_AWAITING_FREE;
      break;
    case ZS_ALLOCATOR_FREE_COMPLETED:
      g_hash_table_remove (states, &entry->address);
      break;
    default:
      break;
    }
  }
  join_ranges (ranges);

  g_autoptr (GArray) live = g_array_new (FALSE, FALSE, sizeof (Block));
  GHashTableIter iter;
  gpointer block;

  g_hash_table_iter_init (&iter, states);
  while (g_hash_table_iter_next (&iter, NULL, &block))
    g_array_append_vals (live, block, 1);
  if (live->len > 0)
    qsort (live->data, live->len, sizeof (Block), compare_blocks);
  for (guint i = 0; i < ranges->len; i++)
    tile_range (&g_array_index (ranges, Range, i), live);
}

/* ---- pickle ---- */

static void
put_string (GString *out, const char *text)
{
  uint32_t length = GUINT32_TO_LE ((uint32_t) strlen (text));

  g_string_append_c (out, 'X');
  g_string_append_len (out, (const char *) &length, 4);
  g_string_append (out, text);
}

static void
put_integer (GString *out, int64_t value)
{
  if (value == (int32_t) value) {
    int32_t small = GINT32_TO_LE ((int32_t) value);

    g_string_append_c (out, 'J');
    g_string_append_len (out, (const char *) &small, 4);
  } else {
    int64_t large = GINT64_TO_LE (value);

    g_string_append_len (out, "\x8a\x08", 2);
    g_string_append_len (out, (const char *) &large, 8);
  }
}

static void
put_pair (GString *out, const char *key, int64_t value)
{
  put_string (out, key);
  put_integer (out, value);
}

static void
put_text_pair (GString *out, const char *key, const char *value)
{
  put_string (out, key);
  put_string (out, value);
}

static void
put_bool (GString *out, bool value)
{
  g_string_append_c (out, value ? '\x88' : '\x89');
}

/* 'frames': [{'filename': WHERE, 'line': 0, 'name': WHAT}], or [] when neither is known. */
static void
put_frames (GString *out, const char *where, const char *what)
{
  put_string (out, "frames");
  g_string_append_c (out, ']');
  if (where[0] == '\0' && what[0] == '\0')
    return;
  g_string_append (out, "(}(");
  put_text_pair (out, "filename", where);
  put_pair (out, "line", 0);
  put_text_pair (out, "name", what);
  g_string_append (out, "ue");
}

static const char *
category_of (const ZsSnapshotWriter *writer, const Entry *entry)
{
  bool of_block = entry->action <= ZS_ALLOCATOR_FREE_COMPLETED;

  return of_block && entry->category < writer->categories->len
           ? writer->categories->pdata[entry->category] : "unknown";
}

static void
put_entry (GString *out, const ZsSnapshotWriter *writer, const Entry *entry)
{
  g_string_append (out, "}(");
  put_text_pair (out, "action", zs_allocator_action_name ((ZsAllocatorAction) entry->action));
  put_pair (out, entry->action == ZS_ALLOCATOR_OOM ? "device_free" : "addr", entry->address);
  put_pair (out, "size", entry->bytes);
  put_pair (out, "stream", entry->stream);
  put_pair (out, "time_us", entry->time / 1000000);
  put_text_pair (out, "category", category_of (writer, entry));
  put_frames (out, entry->where, entry->what);
  g_string_append_c (out, 'u');
}

static void
put_block (GString *out, const Block *block, const Entry *allocation)
{
  static const char *const STATES[] = {
    [ZS_BLOCK_INACTIVE] = "inactive", [ZS_BLOCK_ALLOCATED] = "active_allocated",
    [ZS_BLOCK_AWAITING_FREE] = "active_awaiting_free",
  };

  g_string_append (out, "}(");
  put_pair (out, "address", block->address);
  put_pair (out, "size", block->bytes);
  put_pair (out, "requested_size", block->requested);
  put_text_pair (out, "state", STATES[block->state]);
  put_frames (out, allocation == NULL ? "" : allocation->where,
              allocation == NULL ? "" : allocation->what);
  g_string_append_c (out, 'u');
}

/* Between the elements of a list: close a full batch and open the next. */
static void
put_batch (GString *out, guint i, guint n)
{
  if (i % BATCH == 0 && i < n)
    g_string_append_c (out, '(');
}

static void
end_batch (GString *out, guint i, guint n)
{
  if (i % BATCH == BATCH - 1 || i + 1 == n)
    g_string_append_c (out, 'e');
}

static void
put_range (GString *out, const Range *range, GHashTable *allocations)
{
  int64_t allocated = 0, active = 0, requested = 0;

  for (guint i = 0; i < range->blocks->len; i++) {
    const Block *block = &g_array_index (range->blocks, Block, i);

    allocated += block->state == ZS_BLOCK_ALLOCATED ? block->bytes : 0;
    active += block->state != ZS_BLOCK_INACTIVE ? block->bytes : 0;
    requested += block->state != ZS_BLOCK_INACTIVE ? block->requested : 0;
  }
  g_string_append (out, "}(");
  put_pair (out, "device", 0);
  put_pair (out, "address", range->address);
  put_pair (out, "total_size", range->bytes);
  put_pair (out, "allocated_size", allocated);
  put_pair (out, "active_size", active);
  put_pair (out, "requested_size", requested);
  put_pair (out, "stream", range->stream);
  put_text_pair (out, "segment_type", range->small ? "small" : "large");
  put_string (out, "segment_pool_id");
  put_integer (out, 0);
  put_integer (out, 0);
  g_string_append_c (out, '\x86');
  put_string (out, "is_expandable");
  put_bool (out, range->expandable);
  put_frames (out, "", "");
  put_string (out, "blocks");
  g_string_append_c (out, ']');
  for (guint i = 0; i < range->blocks->len; i++) {
    const Block *block = &g_array_index (range->blocks, Block, i);

    put_batch (out, i, range->blocks->len);
    put_block (out, block, block->state == ZS_BLOCK_INACTIVE
                             ? NULL : g_hash_table_lookup (allocations, &block->address));
    end_batch (out, i, range->blocks->len);
  }
  g_string_append_c (out, 'u');
}

bool
zs_snapshot_writer_write (const ZsSnapshotWriter *writer, const ZsCachingAllocator *allocator,
                          const char *alloc_conf, const char *path, GError **error)
{
  g_autoptr (GArray) ranges = g_array_new (FALSE, FALSE, sizeof (Range));
  /* The last allocation at each address says what a live block is. */
  g_autoptr (GHashTable) allocations = g_hash_table_new (g_int64_hash, g_int64_equal);
  GString *out = g_string_sized_new (1 << 16);
  guint n = writer->entries->len;

  for (guint i = 0; i < n; i++) {
    Entry *entry = &g_array_index (writer->entries, Entry, i);

    if (entry->action == ZS_ALLOCATOR_ALLOC)
      g_hash_table_replace (allocations, &entry->address, entry);
  }
  if (allocator != NULL)
    zs_caching_allocator_each_block (allocator, range_from_allocator, ranges);
  else
    ranges_from_entries (writer, ranges);

  g_string_append (out, "\x80\x02}(");
  put_string (out, "segments");
  g_string_append_c (out, ']');
  for (guint i = 0; i < ranges->len; i++) {
    put_batch (out, i, ranges->len);
    put_range (out, &g_array_index (ranges, Range, i), allocations);
    end_batch (out, i, ranges->len);
  }
  put_string (out, "device_traces");
  g_string_append (out, "](]");
  for (guint i = 0; i < n; i++) {
    put_batch (out, i, n);
    put_entry (out, writer, &g_array_index (writer->entries, Entry, i));
    end_batch (out, i, n);
  }
  g_string_append_c (out, 'e');
  put_string (out, "allocator_settings");
  g_string_append (out, "}(");
  put_text_pair (out, "PYTORCH_CUDA_ALLOC_CONF", alloc_conf == NULL ? "" : alloc_conf);
  g_string_append_c (out, 'u');
  put_string (out, "external_annotations");
  g_string_append (out, "]u.");

  bool ok = zs_file_write (path, out->str, (gssize) out->len, error);

  for (guint i = 0; i < ranges->len; i++)
    g_array_free (g_array_index (ranges, Range, i).blocks, TRUE);
  g_string_free (out, TRUE);
  return ok;
}
