/* json-writer.c: streaming JSON.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/io/json-writer.h"

#include <math.h>
#include <string.h>

#define MAX_DEPTH 32

struct ZsJsonWriter {
  GString *out; /* borrowed, or the buffer of file */
  FILE *file;
  int indent, depth;
  int compact_from; /* depth from which all is on one line; MAX_DEPTH: none */
  bool compact_next;
  bool is_array[MAX_DEPTH + 1], any[MAX_DEPTH + 1];
};

ZsJsonWriter *
zs_json_writer_new (GString *out, int indent)
{
  ZsJsonWriter *writer = g_new0 (ZsJsonWriter, 1);

  writer->out = out;
  writer->indent = indent;
  writer->compact_from = indent > 0 ? MAX_DEPTH : 0;
  writer->is_array[0] = true;
  return writer;
}

ZsJsonWriter *
zs_json_writer_new_file (FILE *file, int indent)
{
  ZsJsonWriter *writer = zs_json_writer_new (g_string_sized_new (1 << 16), indent);

  writer->file = file;
  return writer;
}

static void
drain (ZsJsonWriter *writer)
{
  fwrite (writer->out->str, 1, writer->out->len, writer->file);
  g_string_truncate (writer->out, 0);
}

void
zs_json_writer_free (ZsJsonWriter *writer)
{
  if (writer == NULL)
    return;
  g_assert (writer->depth == 0);
  g_string_append_c (writer->out, '\n');
  if (writer->file != NULL) {
    drain (writer);
    g_string_free (writer->out, TRUE);
  }
  g_free (writer);
}

static void
append_string (GString *out, const char *text)
{
  g_autofree char *repaired = NULL;

  if (!g_utf8_validate (text, -1, NULL))
    text = repaired = g_utf8_make_valid (text, -1);
  g_string_append_c (out, '"');
  for (; *text != '\0'; text++) {
    unsigned char c = (unsigned char)*text;

    switch (c) {
    case '"':
      g_string_append (out, "\\\"");
      break;
    case '\\':
      g_string_append (out, "\\\\");
      break;
    case '\n':
      g_string_append (out, "\\n");
      break;
    case '\t':
      g_string_append (out, "\\t");
      break;
    case '\r':
      g_string_append (out, "\\r");
      break;
    default:
      if (c < 0x20 || c == 0x7f)
        g_string_append_printf (out, "\\u%04x", c);
      else
        g_string_append_c (out, (char)c);
    }
  }
  g_string_append_c (out, '"');
}

static void
new_line (ZsJsonWriter *writer)
{
  if (writer->depth >= writer->compact_from)
    return;
  g_string_append_c (writer->out, '\n');
  for (int i = 0; i < writer->depth * writer->indent; i++)
    g_string_append_c (writer->out, ' ');
}

/* What stands before a value. */
static void
begin_value (ZsJsonWriter *writer, const char *key)
{
  g_assert ((key == NULL) == writer->is_array[writer->depth]);
  g_assert (writer->depth > 0 || !writer->any[0]);
  if (writer->file != NULL && writer->out->len > (1 << 16) - 512)
    drain (writer);
  if (writer->any[writer->depth])
    g_string_append (writer->out,
                     writer->depth >= writer->compact_from && writer->indent > 0 ? ", " : ",");
  writer->any[writer->depth] = true;
  if (writer->depth > 0)
    new_line (writer);
  if (key != NULL) {
    append_string (writer->out, key);
    g_string_append (writer->out, writer->indent > 0 ? ": " : ":");
  }
}

static void
begin (ZsJsonWriter *writer, const char *key, bool is_array)
{
  begin_value (writer, key);
  g_assert (writer->depth < MAX_DEPTH);
  g_string_append_c (writer->out, is_array ? '[' : '{');
  writer->depth++;
  writer->is_array[writer->depth] = is_array;
  writer->any[writer->depth] = false;
  if (writer->compact_next && writer->compact_from > writer->depth)
    writer->compact_from = writer->depth;
  writer->compact_next = false;
}

static void
end (ZsJsonWriter *writer, bool is_array)
{
  g_assert (writer->depth > 0 && writer->is_array[writer->depth] == is_array);

  bool any = writer->any[writer->depth], compact = writer->depth >= writer->compact_from;

  writer->depth--;
  if (any && !compact)
    new_line (writer);
  g_string_append_c (writer->out, is_array ? ']' : '}');
  if (writer->indent > 0 && writer->compact_from > writer->depth)
    writer->compact_from = MAX_DEPTH;
}

void
zs_json_begin_object (ZsJsonWriter *writer, const char *key)
{
  begin (writer, key, false);
}

void
zs_json_end_object (ZsJsonWriter *writer)
{
  end (writer, false);
}

void
zs_json_begin_array (ZsJsonWriter *writer, const char *key)
{
  begin (writer, key, true);
}

void
zs_json_end_array (ZsJsonWriter *writer)
{
  end (writer, true);
}

void
zs_json_compact (ZsJsonWriter *writer)
{
  writer->compact_next = true;
}

void
zs_json_int (ZsJsonWriter *writer, const char *key, int64_t value)
{
  begin_value (writer, key);
  g_string_append_printf (writer->out, "%" G_GINT64_FORMAT, value);
}

void
zs_json_bool (ZsJsonWriter *writer, const char *key, bool value)
{
  begin_value (writer, key);
  g_string_append (writer->out, value ? "true" : "false");
}

const char *
zs_number_text (double value, char *buffer)
{
  g_ascii_formatd (buffer, G_ASCII_DTOSTR_BUF_SIZE, "%.15g", value);
  if (g_ascii_strtod (buffer, NULL) != value)
    g_ascii_formatd (buffer, G_ASCII_DTOSTR_BUF_SIZE, "%.17g", value);
  return buffer;
}

void
zs_json_number (ZsJsonWriter *writer, const char *key, double value)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];

  begin_value (writer, key);
  g_string_append (writer->out, isfinite (value) ? zs_number_text (value, buffer) : "null");
}

void
zs_json_fixed (ZsJsonWriter *writer, const char *key, int64_t value, int decimals)
{
  uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value, unit = 1;

  g_assert (decimals >= 0 && decimals <= 18);
  for (int i = 0; i < decimals; i++)
    unit *= 10;
  begin_value (writer, key);
  g_string_append_printf (writer->out, "%s%" G_GUINT64_FORMAT, value < 0 ? "-" : "", size / unit);

  uint64_t rest = size % unit;

  if (rest == 0)
    return;
  while (rest % 10 == 0) {
    rest /= 10;
    decimals--;
  }
  g_string_append_printf (writer->out, ".%0*" G_GUINT64_FORMAT, decimals, rest);
}

void
zs_json_string (ZsJsonWriter *writer, const char *key, const char *value)
{
  begin_value (writer, key);
  if (value != NULL)
    append_string (writer->out, value);
  else
    g_string_append (writer->out, "null");
}

void
zs_json_null (ZsJsonWriter *writer, const char *key)
{
  zs_json_string (writer, key, NULL);
}
