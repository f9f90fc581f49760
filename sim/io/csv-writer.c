/* csv-writer.c: CSV.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/io/csv-writer.h"

#include <math.h>
#include <string.h>

#include "sim/io/json-writer.h"

static void
separate (ZsCsvWriter *writer)
{
  if (writer->n_fields++ > 0)
    g_string_append_c (writer->out, ',');
}

void
zs_csv_text (ZsCsvWriter *writer, const char *text)
{
  separate (writer);
  if (text == NULL)
    return;
  if (strpbrk (text, ",\"\r\n") == NULL) {
    g_string_append (writer->out, text);
    return;
  }
  g_string_append_c (writer->out, '"');
  for (; *text != '\0'; text++) {
    if (*text == '"')
      g_string_append_c (writer->out, '"');
    g_string_append_c (writer->out, *text);
  }
  g_string_append_c (writer->out, '"');
}

void
zs_csv_int (ZsCsvWriter *writer, int64_t value)
{
  separate (writer);
  g_string_append_printf (writer->out, "%" G_GINT64_FORMAT, value);
}

void
zs_csv_number (ZsCsvWriter *writer, double value)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];

  separate (writer);
  if (isfinite (value))
    g_string_append (writer->out, zs_number_text (value, buffer));
}

void
zs_csv_empty (ZsCsvWriter *writer)
{
  separate (writer);
}

void
zs_csv_end (ZsCsvWriter *writer)
{
  g_string_append_c (writer->out, '\n');
  writer->n_fields = 0;
}
