/* csv-writer.h: rows of comma-separated values, quoted as RFC 4180 says, lines ended by a newline.
 * SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>
#include <stdint.h>

typedef struct {
  GString *out;       /* borrowed */
  int      n_fields;  /* in the row so far */
} ZsCsvWriter;

static inline ZsCsvWriter
zs_csv_writer (GString *out)
{
  return (ZsCsvWriter) { .out = out };
}

void zs_csv_text   (ZsCsvWriter *writer, const char *text);     /* NULL: an empty field */
void zs_csv_int    (ZsCsvWriter *writer, int64_t value);
void zs_csv_number (ZsCsvWriter *writer, double value);         /* empty if not finite */
void zs_csv_empty  (ZsCsvWriter *writer);
void zs_csv_end    (ZsCsvWriter *writer);                       /* of the row */
