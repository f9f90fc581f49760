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

/* What is at each address: open addressing, since every event of the history asks. */
typedef struct {
  int64_t address;
  const ZsMemoryEvent *event;   /* NULL: nothing, but others may follow */
  bool waiting;                 /* freed, but not by every stream */
} Place;

typedef struct {
  Place   *places;
  uint32_t mask, n;             /* n: that were ever used */
} Places;

static Place *
place_of (const Places *places, int64_t address)
{
  uint32_t at = (uint32_t) ((uint64_t) (address / UNIT) * UINT64_C (0x9e3779b97f4a7c15) >> 32);

  while (places->places[at & places->mask].address != address
         && places->places[at & places->mask].address != 0)
    at++;
  return &places->places[at & places->mask];
}

static void
grow_places (Places *places)
{
  Places old = *places;

  places->mask = old.places == NULL ? 4095 : old.mask * 4 + 3;
  places->places = g_new0 (Place, (gsize) places->mask + 1);
  places->n = 0;
  for (uint32_t p = 0; old.places != NULL && p <= old.mask; p++)
    if (old.places[p].event != NULL) {
      *place_of (places, old.places[p].address) = old.places[p];
      places->n++;
    }
  g_free (old.places);
}

static void
put (Places *places, const ZsMemoryEvent *event)
{
  if (places->places == NULL || places->n * 2 > places->mask)
    grow_places (places);
  Place *place = place_of (places, event->address);

  places->n += place->address == 0;
  *place = (Place) { .address = event->address, .event = event };
}

/* Rows of what is in PLACES, of those that are WAITING or of those that are not, by address. */
static void
add_places (Memory *memory, const Places *places, bool waiting, int action)
{
  g_autoptr (GPtrArray) events = g_ptr_array_new ();

  for (uint32_t p = 0; places->places != NULL && p <= places->mask; p++)
    if (places->places[p].event != NULL && places->places[p].waiting == waiting)
      g_ptr_array_add (events, (gpointer) places->places[p].event);
  if (events->len > 0)
    qsort (events->pdata, events->len, sizeof (gpointer), by_address);
  for (guint i = 0; i < events->len; i++)
    add_row (memory, action, 0, events->pdata[i]);
}

/* Everything before START; returns the index of the first event that is not. */
static guint
add_start (Memory *memory, const GArray *events, ZsTime start)
{
  Places blocks = { NULL }, segments = { NULL };
  Place *place;
  guint e = 0;

  grow_places (&blocks);
  grow_places (&segments);
  for (; e < events->len; e++) {
    const ZsMemoryEvent *event = &g_array_index (events, ZsMemoryEvent, e);

    if (event->when >= start)
      break;
    switch (event->action) {
    case ZS_ALLOCATOR_ALLOC:
      put (&blocks, event);
      break;
    case ZS_ALLOCATOR_FREE_REQUESTED:
      place_of (&blocks, event->address)->waiting = true;
      break;
    case ZS_ALLOCATOR_FREE_COMPLETED:
      place = place_of (&blocks, event->address);
      if (place->waiting)
        place->event = NULL;
      break;
    case ZS_ALLOCATOR_SEGMENT_ALLOC:
    case ZS_ALLOCATOR_SEGMENT_MAP:
      put (&segments, event);
      break;
    case ZS_ALLOCATOR_SEGMENT_FREE:
    case ZS_ALLOCATOR_SEGMENT_UNMAP:
      place_of (&segments, event->address)->event = NULL;
      break;
    default:
      break;
    }
  }
  add_places (memory, &segments, false, ZS_ALLOCATOR_SEGMENT_ALLOC);
  add_places (memory, &blocks, true, ZS_ALLOCATOR_ALLOC);
  add_places (memory, &blocks, false, ZS_ALLOCATOR_ALLOC);
  add_places (memory, &blocks, true, ZS_ALLOCATOR_FREE_REQUESTED);
  g_free (blocks.places);
  g_free (segments.places);
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
