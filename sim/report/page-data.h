/* page-data.h: what the page (sim/web) draws of one scenario and its result, as one JSON object.
 * SPDX-License-Identifier: MIT
 *
 * Numbers and texts are JSON. What there is many of (spans, allocations, rates of links) is packed
 * into columns of variable-length integers, compressed (zlib) and written in base64; sim/web/data.js
 * unpacks it. Times in columns are nanoseconds since the start of their step. */
#pragma once

#include "sim/io/json-writer.h"
#include "sim/report/summary.h"
#include "sim/scenario/scenario.h"

typedef struct {
  const ZsScenario *scenario;
  /* With spans, memory events, links and link points, or the page shows less. */
  const ZsResult   *result;
  const ZsChange   *changes;     /* tried; for the story */
  int               n_changes;
  int               max_spans;   /* of one step; more are merged until they are fewer. 0: 60,000 */
  bool              quick;       /* little compression: the page is on this machine */
} ZsPageScenario;

/* The members of the object that is open in WRITER. */
void zs_page_write_scenario (const ZsPageScenario *page, ZsJsonWriter *writer);

/* ---- columns: for page-data alone, and its tests ---- */

/* Seven bits a byte, least significant first; the top bit says that more follow. */
void zs_pack_unsigned (GByteArray *column, uint64_t value);
/* Small numbers of either sign become small ones: 0, -1, 1, -2 ... */
void zs_pack_signed   (GByteArray *column, int64_t value);
/* The columns one after another, each after its length, compressed, in base64: g_free it. */
char *zs_pack_finish  (GByteArray *const *columns, int n_columns, bool quick);
