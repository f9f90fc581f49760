/* page-spans.c: the timeline of one step as columns.
 * SPDX-License-Identifier: MIT
 *
 * Columns of spans, track by track: start (after the end of the one before), duration, name, layer
 * + 1, bytes. Where a step has more spans than a page should hold, neighbours of one track, layer and
 * cause become one, closest first; waits that are shorter than the gaps that were closed are left out.
 * What is merged is drawn, not counted: sums come from the result. */
#include "config.h"

#include "sim/report/page-internal.h"
#include "sim/report/trace.h"

#define DEFAULT_MAX_SPANS 60000

/* Numbers strings (by address: they are static) with a cause, and 64-bit values. */
uint32_t
zs_page_number (ZsPageNumbers *numbers, int64_t value, const char *text, int extra)
{
  ZsPageNumber key = { .value = value, .text = text, .extra = extra };
  uint32_t place = ((uint32_t) (guintptr) text >> 3 ^ (uint32_t) ((uint64_t) value >> 9)
                    ^ (uint32_t) extra * 31u) % G_N_ELEMENTS (numbers->last);
  gpointer found;

  if (numbers->rows != NULL && numbers->last[place] != 0) {   /* mostly one of the last few */
    uint32_t number = numbers->last[place] - 1;
    const ZsPageNumber *row = &g_array_index (numbers->rows, ZsPageNumber, number);

    if (row->text == text && row->value == value && row->extra == extra)
      return number;
  }
  if (numbers->index == NULL) {
    numbers->index = g_hash_table_new_full (zs_page_number_hash, zs_page_number_equal, g_free, NULL);
    numbers->rows = g_array_new (FALSE, FALSE, sizeof (ZsPageNumber));
  }
  if (g_hash_table_lookup_extended (numbers->index, &key, NULL, &found)) {
    numbers->last[place] = GPOINTER_TO_UINT (found) + 1;
    return GPOINTER_TO_UINT (found);
  }
  uint32_t number = numbers->rows->len;

  numbers->last[place] = number + 1;

  g_array_append_val (numbers->rows, key);
  g_hash_table_insert (numbers->index, g_memdup2 (&key, sizeof key), GUINT_TO_POINTER (number));
  return number;
}

guint
zs_page_number_hash (gconstpointer key)
{
  const ZsPageNumber *number = key;

  return (guint) ((uint64_t) number->value * 0x9e3779b97f4a7c15u >> 33)
         ^ (number->text != NULL ? g_str_hash (number->text) : 0) ^ (guint) number->extra * 31u;
}

gboolean
zs_page_number_equal (gconstpointer a, gconstpointer b)
{
  const ZsPageNumber *x = a, *y = b;

  return x->value == y->value && x->extra == y->extra && g_strcmp0 (x->text, y->text) == 0;
}

void
zs_page_numbers_clear (ZsPageNumbers *numbers)
{
  g_clear_pointer (&numbers->index, g_hash_table_unref);
  if (numbers->rows != NULL)
    g_array_unref (numbers->rows);
  numbers->rows = NULL;
}

static int
by_track (const void *a, const void *b)
{
  const ZsSpan *x = a, *y = b;

  if (x->track != y->track)
    return x->track < y->track ? -1 : 1;
  if (x->start != y->start)
    return x->start < y->start ? -1 : 1;
  return x->end < y->end ? -1 : x->end > y->end;
}

/* SPANS, which it frees, by track.  A track's own are mostly in order, so they are dealt out, and only those
 * that are not are sorted. */
static GArray *
sort_spans (GArray *spans)
{
  GArray *sorted = g_array_sized_new (FALSE, FALSE, sizeof (ZsSpan), spans->len);
  guint n[ZS_N_TRACKS + 1] = { 0 };

  g_array_set_size (sorted, spans->len);
  for (guint s = 0; s < spans->len; s++)
    n[g_array_index (spans, ZsSpan, s).track + 1]++;
  for (int track = 0; track < ZS_N_TRACKS; track++)
    n[track + 1] += n[track];
  for (guint s = 0; s < spans->len; s++) {
    const ZsSpan *span = &g_array_index (spans, ZsSpan, s);

    g_array_index (sorted, ZsSpan, n[span->track]++) = *span;
  }
  g_array_unref (spans);
  /* now n[] are the ends */
  for (int track = 0; track < ZS_N_TRACKS; track++) {
    guint first = track > 0 ? n[track - 1] : 0, s = first + 1;

    while (s < n[track] && by_track (&g_array_index (sorted, ZsSpan, s - 1),
                                     &g_array_index (sorted, ZsSpan, s)) <= 0)
      s++;
    if (s < n[track])
      qsort (&g_array_index (sorted, ZsSpan, first), n[track] - first, sizeof (ZsSpan), by_track);
  }
  return sorted;
}

/* Spans of RANK that touch the time from START to END, cut to it, by track. */
static GArray *
spans_between (const ZsResult *result, int32_t rank, ZsTime start, ZsTime end)
{
  const ZsSpan *all = &g_array_index (result->spans, ZsSpan, 0);
  guint n = 0;

  for (guint s = 0; s < result->spans->len; s++)
    n += all[s].rank == rank && all[s].end > start && all[s].start < end && all[s].end != all[s].start;
  GArray *spans = g_array_sized_new (FALSE, FALSE, sizeof (ZsSpan), n);

  g_array_set_size (spans, n);
  ZsSpan *to = &g_array_index (spans, ZsSpan, 0);

  for (guint s = 0; s < result->spans->len; s++) {
    const ZsSpan *span = &all[s];

    if (span->rank != rank || span->end <= start || span->start >= end || span->end == span->start)
      continue;
    *to = *span;
    to->start = MAX (span->start, start);
    (to++)->end = MIN (span->end, end);
  }
  return sort_spans (spans);
}

/* Host work that follows without a pause is one. */
static void
merge (GArray *spans, ZsTime gap, bool host_only)
{
  guint n = 0;

  for (guint s = 0; s < spans->len; s++) {
    ZsSpan *span = &g_array_index (spans, ZsSpan, s);
    ZsSpan *last = n > 0 ? &g_array_index (spans, ZsSpan, n - 1) : NULL;

    if (span->track == ZS_TRACK_WAIT && !host_only && span->end - span->start <= gap)
      continue;
    if (last != NULL && last->track == span->track && span->track != ZS_TRACK_WAIT
        && (!host_only || span->track == ZS_TRACK_HOST) && last->layer == span->layer
        && last->kind == span->kind && last->cause == span->cause
        && (host_only ? last->name == span->name : true)
        && span->start - last->end <= gap) {
      last->end = MAX (last->end, span->end);
      last->critical |= span->critical;
      last->bytes += span->bytes;
      if (last->name != span->name)
        last->name = "several, merged";
      continue;
    }
    g_array_index (spans, ZsSpan, n++) = *span;
  }
  g_array_set_size (spans, n);
}

static void
write_tracks (const GArray *spans, ZsJsonWriter *writer)
{
  zs_json_compact (writer);
  zs_json_begin_array (writer, "tracks");
  for (guint s = 0; s < spans->len;) {
    int track = g_array_index (spans, ZsSpan, s).track;
    guint end = s;
    char name[64];

    while (end < spans->len && g_array_index (spans, ZsSpan, end).track == track)
      end++;
    zs_track_name (track, name, sizeof name);
    zs_json_begin_object (writer, NULL);
    zs_json_int (writer, "track", track);
    zs_json_string (writer, "name", name);
    zs_json_int (writer, "spans", end - s);
    zs_json_end_object (writer);
    s = end;
  }
  zs_json_end_array (writer);
}

void
zs_page_write_spans (const ZsPageScenario *page, ZsTime start, ZsTime end, ZsJsonWriter *writer)
{
  const ZsResult *result = page->result;
  g_autoptr (GArray) spans = spans_between (result, (int32_t) result->reported_rank, start, end);
  int max = page->max_spans > 0 ? page->max_spans : DEFAULT_MAX_SPANS;
  ZsPageNumbers names = { 0 }, sizes = { 0 };
  GByteArray *columns[5];
  ZsTime at = 0, gap = 0;
  int track = -1;

  merge (spans, 0, true);
  for (gap = ZS_SECOND / 1000000; (int) spans->len > max && gap < end - start; gap *= 2)
    merge (spans, gap, false);
  for (int c = 0; c < 5; c++)
    columns[c] = g_byte_array_new ();
  for (guint s = 0; s < spans->len; s++) {
    const ZsSpan *span = &g_array_index (spans, ZsSpan, s);
    ZsTime from = zs_page_ns (span->start - start), to = zs_page_ns (span->end - start);
    int extra = span->cause | span->kind << 8;

    if (span->track != track)
      at = 0;
    track = span->track;
    zs_pack_signed (columns[0], from - at);
    zs_pack_unsigned (columns[1], (uint64_t) (to - from));
    zs_pack_unsigned (columns[2],
                      zs_page_number (&names, 0, span->name, extra) * 2u + (span->critical ? 1 : 0));
    zs_pack_unsigned (columns[3], (uint64_t) (span->layer + 1));
    zs_pack_unsigned (columns[4], zs_page_number (&sizes, span->bytes, NULL, 0));
    at = to;
  }
  write_tracks (spans, writer);
  zs_json_bool (writer, "merged", gap > ZS_SECOND / 1000000);
  zs_json_compact (writer);
  zs_json_begin_array (writer, "names");     /* name, cause, kind of instruction, ... */
  for (guint i = 0; names.rows != NULL && i < names.rows->len; i++) {
    const ZsPageNumber *row = &g_array_index (names.rows, ZsPageNumber, i);

    zs_json_string (writer, NULL, row->text);
    zs_json_int (writer, NULL, row->extra & 0xff);
    zs_json_int (writer, NULL, row->extra >> 8);
  }
  zs_json_end_array (writer);
  zs_json_compact (writer);
  zs_json_begin_array (writer, "sizes");
  for (guint i = 0; sizes.rows != NULL && i < sizes.rows->len; i++)
    zs_json_int (writer, NULL, g_array_index (sizes.rows, ZsPageNumber, i).value);
  zs_json_end_array (writer);
  g_autofree char *packed = zs_pack_finish (columns, 5, page->quick);

  zs_json_string (writer, "spans", packed);
  for (int c = 0; c < 5; c++)
    g_byte_array_unref (columns[c]);
  zs_page_numbers_clear (&names);
  zs_page_numbers_clear (&sizes);
}
