/* page-internal.h: the pieces of page-data.c; for sim/report/page-*.c alone.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/report/page-data.h"

/* Numbers given out to values in the order in which they are first seen. */
typedef struct {
  int64_t     value;
  const char *text;       /* static, or NULL */
  int         extra;
} ZsPageNumber;

typedef struct {
  GHashTable *index;
  GArray     *rows;       /* ZsPageNumber; NULL: none */
  uint32_t    last[256];  /* 1 + number that was given last, by a hash */
} ZsPageNumbers;

uint32_t zs_page_number (ZsPageNumbers *numbers, int64_t value, const char *text, int extra);
void     zs_page_numbers_clear (ZsPageNumbers *numbers);
guint    zs_page_number_hash (gconstpointer key);
gboolean zs_page_number_equal (gconstpointer a, gconstpointer b);

static inline int64_t
zs_page_ns (ZsTime time)
{
  return (time + 500) / 1000;
}

/* What happened from START to END, into the object that is open. */
void zs_page_write_spans  (const ZsPageScenario *page, ZsTime start, ZsTime end,
                           ZsJsonWriter *writer);
void zs_page_write_memory (const ZsPageScenario *page, ZsTime start, ZsTime end,
                           ZsJsonWriter *writer);
void zs_page_write_links  (const ZsPageScenario *page, ZsTime start, ZsTime end,
                           ZsJsonWriter *writer);
