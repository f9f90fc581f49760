/* hjson-string.c: strings of HJSON.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/io/hjson-internal.h"

/* Four hexadecimal digits at the current place, or -1. */
static int
read_hex4 (ZsHjsonReader *reader)
{
  int value = 0;

  for (int i = 0; i < 4; i++) {
    int digit = g_ascii_xdigit_value (zs_hjson_peek (reader, i));

    if (digit < 0)
      return -1;
    value = value * 16 + digit;
  }
  zs_hjson_skip (reader, 4);
  return value;
}

static bool
read_escape (ZsHjsonReader *reader, GString *value)
{
  static const char FROM[] = "\"'\\/bfnrt", TO[] = "\"'\\/\b\f\n\r\t";
  ZsHjsonPlace start = zs_hjson_place_of (reader);

  zs_hjson_advance (reader); /* the backslash */
  char byte = zs_hjson_peek (reader, 0);
  const char *simple = byte != '\0' ? strchr (FROM, byte) : NULL;

  if (simple != NULL) {
    g_string_append_c (value, TO[simple - FROM]);
    zs_hjson_advance (reader);
    return true;
  }
  if (byte != 'u') {
    zs_hjson_fail (reader, start, "'\\%c' is no escape of a string", byte != '\0' ? byte : ' ');
    return false;
  }
  zs_hjson_advance (reader);
  int unit = read_hex4 (reader);

  if (unit >= 0xd800 && unit < 0xdc00 && zs_hjson_peek (reader, 0) == '\\'
      && zs_hjson_peek (reader, 1) == 'u') {
    zs_hjson_skip (reader, 2);
    int low = read_hex4 (reader);

    unit = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00) : -1;
  }
  if (unit <= 0 || (unit >= 0xd800 && unit < 0xe000)) {
    zs_hjson_fail (reader, start, "a \\u escape needs four hexadecimal digits of a character");
    return false;
  }
  g_string_append_unichar (value, (gunichar)unit);
  return true;
}

/* A string in quotes; NULL and the error set.  Free the result. */
GString *
zs_hjson_read_quoted (ZsHjsonReader *reader)
{
  ZsHjsonPlace start = zs_hjson_place_of (reader);
  char quote = *reader->at;
  GString *value = g_string_new (NULL);

  zs_hjson_advance (reader);
  for (;;) {
    unsigned char byte = (unsigned char)zs_hjson_peek (reader, 0);

    if (reader->at >= reader->end || byte == '\n' || byte == '\r') {
      zs_hjson_fail (reader, start, "this string has no closing %c on its line", quote);
      break;
    }
    if (byte == (unsigned char)quote) {
      zs_hjson_advance (reader);
      if (quote == '\'')
        zs_hjson_remark (reader, ZS_HJSON_SINGLE_QUOTES, start, (gsize)(reader->at - start.at),
                         value->str);
      return value;
    }
    if (byte < 0x20) {
      zs_hjson_fail (reader, zs_hjson_place_of (reader),
                     "a string has a control character (0x%02x) in it", byte);
      break;
    }
    if (byte == '\\') {
      if (!read_escape (reader, value))
        break;
    } else {
      g_string_append_c (value, (char)byte);
      zs_hjson_advance (reader);
    }
  }
  g_string_free (value, TRUE);
  return NULL;
}

/* The text between ''' and ''': white space up to the column of the opening ''' is indentation, and
 * a line end just after it and just before the closing one does not count. */
GString *
zs_hjson_read_multi_line (ZsHjsonReader *reader)
{
  ZsHjsonPlace start = zs_hjson_place_of (reader);
  int indent = start.column - 1;
  GString *value = g_string_new (NULL);

  zs_hjson_skip (reader, 3);
  while (zs_hjson_peek (reader, 0) == ' ' || zs_hjson_peek (reader, 0) == '\t')
    zs_hjson_advance (reader);
  bool at_line_start = zs_hjson_peek (reader, 0) == '\n' || zs_hjson_peek (reader, 0) == '\r';

  if (at_line_start) {
    if (zs_hjson_peek (reader, 0) == '\r')
      zs_hjson_advance (reader);
    if (zs_hjson_peek (reader, 0) == '\n')
      zs_hjson_advance (reader);
  }
  while (reader->at < reader->end) {
    if (at_line_start)
      for (int i = 0;
           i < indent && (zs_hjson_peek (reader, 0) == ' ' || zs_hjson_peek (reader, 0) == '\t');
           i++)
        zs_hjson_advance (reader);
    at_line_start = false;
    if (zs_hjson_peek (reader, 0) == '\'' && zs_hjson_peek (reader, 1) == '\''
        && zs_hjson_peek (reader, 2) == '\'') {
      zs_hjson_skip (reader, 3);
      if (value->len > 0 && value->str[value->len - 1] == '\n')
        g_string_truncate (value, value->len - 1);
      zs_hjson_remark (reader, ZS_HJSON_MULTI_LINE, start, (gsize)(reader->at - start.at),
                       value->str);
      return value;
    }
    if (reader->at >= reader->end)
      break;
    if (*reader->at != '\r')
      g_string_append_c (value, *reader->at);
    at_line_start = *reader->at == '\n';
    zs_hjson_advance (reader);
  }
  zs_hjson_fail (reader, start, "this string has no closing '''");
  g_string_free (value, TRUE);
  return NULL;
}
