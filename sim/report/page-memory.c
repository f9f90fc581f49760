/* page-memory.c: memory and links of one step as columns.
 * SPDX-License-Identifier: MIT
 *
 * Memory begins with what there is at the start of the step (segments and blocks, found by replaying
 * the history before it); then every event. Rows of both look alike: action, time since the row
 * before, address (difference to the row before, in 512 bytes), size (same unit), what was not asked
 * for of it, category, layer + 1, what, stream; a free has only the first three. */
#include "config.h"

#include "sim/memory/caching-allocator.h"
#include "sim/report/page-internal.h"

#define UNIT INT64_C (512)

enum { ACTION, WHEN, ADDRESS, SIZE, SPARE, CATEGORY, LAYER, WHAT, STREAM, N_COLUMNS };

typedef struct {
  GByteArray   *columns[N_COLUMNS];
  ZsPageNumbers whats;
  int64_t       address, when;
  int           n_rows;
} Memory;

static void
add_row (Memory *memory, int action, int64_t when, const ZsMemoryEvent *event)
{
  bool is_free = action == ZS_ALLOCATOR_FREE_REQUESTED || action == ZS_ALLOCATOR_FREE_COMPLETED;

  zs_pack_unsigned (memory->columns[ACTION], (uint64_t) action);
  zs_pack_unsigned (memory->columns[WHEN], (uint64_t) (when - memory->when));
  zs_pack_signed (memory->columns[ADDRESS], (event->address - memory->address) / UNIT);
  memory->when = when;
  memory->address = event->address;
  memory->n_rows++;
  if (is_free)
    return;
  zs_pack_unsigned (memory->columns[SIZE], (uint64_t) (event->block_bytes / UNIT));
  zs_pack_unsigned (memory->columns[SPARE],
                    (uint64_t) MAX (0, event->block_bytes - event->bytes));
  zs_pack_unsigned (memory->columns[CATEGORY], event->category);
  zs_pack_unsigned (memory->columns[LAYER], (uint64_t) (event->layer + 1));
  zs_pack_unsigned (memory->columns[WHAT], zs_page_number (&memory->whats, 0, event->what, 0));
  zs_pack_unsigned (memory->columns[STREAM], event->stream);
}

static int
by_address (const void *a, const void *b)
{
  const ZsMemoryEvent *x = *(const ZsMemoryEvent *const *) a, *y = *(const ZsMemoryEvent *const *) b;

  return x->address < y->address ? -1 : x->address > y->address;
}

/* Rows for the values of TABLE (ZsMemoryEvent) by address. */
static void
add_table (Memory *memory, GHashTable *table, int action)
{
  GHashTableIter iterator;
  gpointer value;
  g_autoptr (GPtrArray) events = g_ptr_array_new ();

  g_hash_table_iter_init (&iterator, table);
  while (g_hash_table_iter_next (&iterator, NULL, &value))
    g_ptr_array_add (events, value);
  if (events->len > 0)
    qsort (events->pdata, events->len, sizeof (gpointer), by_address);
  for (guint i = 0; i < events->len; i++)
    add_row (memory, action, 0, events->pdata[i]);
}

/* Everything before START; returns the index of the first event that is not. */
static guint
add_start (Memory *memory, const GArray *events, ZsTime start)
{
  g_autoptr (GHashTable) blocks = g_hash_table_new (g_int64_hash, g_int64_equal);
  g_autoptr (GHashTable) waiting = g_hash_table_new (g_int64_hash, g_int64_equal);
  g_autoptr (GHashTable) segments = g_hash_table_new (g_int64_hash, g_int64_equal);
  guint e = 0;

  for (; e < events->len; e++) {
    ZsMemoryEvent *event = &g_array_index (events, ZsMemoryEvent, e);

    if (event->when >= start)
      break;
    switch (event->action) {
    case ZS_ALLOCATOR_ALLOC:
      g_hash_table_insert (blocks, &event->address, event);
      break;
    case ZS_ALLOCATOR_FREE_REQUESTED: {
      gpointer block = g_hash_table_lookup (blocks, &event->address);

      if (block != NULL)
        g_hash_table_insert (waiting, &event->address, block);
      g_hash_table_remove (blocks, &event->address);
      break;
    }
    case ZS_ALLOCATOR_FREE_COMPLETED:
      g_hash_table_remove (waiting, &event->address);
      break;
    case ZS_ALLOCATOR_SEGMENT_ALLOC:
    case ZS_ALLOCATOR_SEGMENT_MAP:
      g_hash_table_insert (segments, &event->address, event);
      break;
    case ZS_ALLOCATOR_SEGMENT_FREE:
    case ZS_ALLOCATOR_SEGMENT_UNMAP:
      g_hash_table_remove (segments, &event->address);
      break;
    default:
      break;
    }
  }
  add_table (memory, segments, ZS_ALLOCATOR_SEGMENT_ALLOC);
  add_table (memory, waiting, ZS_ALLOCATOR_ALLOC);
  add_table (memory, blocks, ZS_ALLOCATOR_ALLOC);
  /* freed already, but not by every stream */
  GHashTableIter iterator;
  gpointer value;
  g_autoptr (GPtrArray) freed = g_ptr_array_new ();

  g_hash_table_iter_init (&iterator, waiting);
  while (g_hash_table_iter_next (&iterator, NULL, &value))
    g_ptr_array_add (freed, value);
  if (freed->len > 0)
    qsort (freed->pdata, freed->len, sizeof (gpointer), by_address);
  for (guint i = 0; i < freed->len; i++)
    add_row (memory, ZS_ALLOCATOR_FREE_REQUESTED, 0, freed->pdata[i]);
  return e;
}

void
zs_page_write_memory (const ZsPageScenario *page, ZsTime start, ZsTime end, ZsJsonWriter *writer)
{
  const GArray *events = page->result->memory_events;
  Memory memory = { .n_rows = 0 };
  int n_before;

  if (events == NULL)
    return;
  for (int c = 0; c < N_COLUMNS; c++)
    memory.columns[c] = g_byte_array_new ();
  guint e = add_start (&memory, events, start);

  n_before = memory.n_rows;
  for (; e < events->len; e++) {
    const ZsMemoryEvent *event = &g_array_index (events, ZsMemoryEvent, e);

    if (event->when >= end)
      break;
    if (event->action <= ZS_ALLOCATOR_SEGMENT_UNMAP)
      add_row (&memory, event->action, zs_page_ns (event->when - start), event);
  }
  zs_json_begin_object (writer, "memory");
  zs_json_int (writer, "before", n_before);
  zs_json_int (writer, "rows", memory.n_rows);
  zs_json_compact (writer);
  zs_json_begin_array (writer, "whats");
  for (guint i = 0; memory.whats.rows != NULL && i < memory.whats.rows->len; i++)
    zs_json_string (writer, NULL, g_array_index (memory.whats.rows, ZsPageNumber, i).text);
  zs_json_end_array (writer);
  g_autofree char *packed = zs_pack_finish (memory.columns, N_COLUMNS, page->quick);

  zs_json_string (writer, "columns", packed);
  zs_json_end_object (writer);
  for (int c = 0; c < N_COLUMNS; c++)
    g_byte_array_unref (memory.columns[c]);
  zs_page_numbers_clear (&memory.whats);
}

/* ---- links ---- */

typedef struct {
  uint64_t hash;
  int      n;
  ZsRate   rate;      /* at the start */
} Series;

#define FNV UINT64_C (1099511628211)

static void
write_series (const GArray *points, int32_t resource, const Series *series, ZsTime start,
              ZsTime end, bool quick, ZsJsonWriter *writer)
{
  GByteArray *columns[2] = { g_byte_array_new (), g_byte_array_new () };
  int64_t at = 0;

  zs_pack_unsigned (columns[0], 0);
  zs_pack_unsigned (columns[1], (uint64_t) (series->rate / 1000000));
  for (guint i = 0; i < points->len; i++) {
    const ZsLinkPoint *point = &g_array_index (points, ZsLinkPoint, i);

    if (point->resource != resource || point->when <= start || point->when >= end)
      continue;
    zs_pack_unsigned (columns[0], (uint64_t) (zs_page_ns (point->when - start) - at));
    zs_pack_unsigned (columns[1], (uint64_t) (point->rate / 1000000));
    at = zs_page_ns (point->when - start);
  }
  g_autofree char *packed = zs_pack_finish (columns, 2, quick);

  zs_json_int (writer, "points", series->n + 1);
  zs_json_string (writer, "columns", packed);
  g_byte_array_unref (columns[0]);
  g_byte_array_unref (columns[1]);
}

/* Links whose traffic is the same at every moment are one row with many names. */
void
zs_page_write_links (const ZsPageScenario *page, ZsTime start, ZsTime end, ZsJsonWriter *writer)
{
  const GArray *points = page->result->link_points, *links = page->result->links;
  int32_t n = 0;

  if (points == NULL || links == NULL)
    return;
  for (guint i = 0; i < points->len; i++)
    n = MAX (n, g_array_index (points, ZsLinkPoint, i).resource + 1);
  for (guint l = 0; l < links->len; l++)
    n = MAX (n, g_array_index (links, ZsLinkUse, l).resource + 1);
  g_autofree Series *series = g_new0 (Series, n + 1);
  g_autofree bool *done = g_new0 (bool, links->len + 1);

  for (guint i = 0; i < points->len; i++) {
    const ZsLinkPoint *point = &g_array_index (points, ZsLinkPoint, i);
    Series *of = &series[point->resource];

    if (point->when <= start) {
      of->rate = point->rate;
    } else if (point->when < end) {
      of->hash = (of->hash ^ (uint64_t) point->when) * FNV;
      of->hash = (of->hash ^ (uint64_t) point->rate) * FNV;
      of->n++;
    }
  }
  zs_json_begin_array (writer, "links");
  for (guint l = 0; l < links->len; l++) {
    const ZsLinkUse *link = &g_array_index (links, ZsLinkUse, l);
    const Series *of = &series[link->resource];

    if (done[l] || (of->n == 0 && of->rate == 0))
      continue;
    zs_json_compact (writer);
    zs_json_begin_object (writer, NULL);
    zs_json_begin_array (writer, "links");       /* places in the result's list */
    for (guint m = l; m < links->len; m++) {
      const ZsLinkUse *other = &g_array_index (links, ZsLinkUse, m);
      const Series *theirs = &series[other->resource];

      if (done[m] || theirs->hash != of->hash || theirs->n != of->n || theirs->rate != of->rate
          || other->rate != link->rate)
        continue;
      done[m] = true;
      zs_json_int (writer, NULL, m);
    }
    zs_json_end_array (writer);
    write_series (points, link->resource, of, start, end, page->quick, writer);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
}
