/* text.c: pieces of text for a terminal.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/report/text.h"

#include <string.h>

static const char *const STYLES[] = {
  [ZS_STYLE_PLAIN] = "", [ZS_STYLE_BOLD] = "\033[1m", [ZS_STYLE_GOOD] = "\033[1;32m",
  [ZS_STYLE_BAD] = "\033[1;31m", [ZS_STYLE_DIM] = "\033[2m",
};

void
zs_text_append (ZsText *text, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_string_append_vprintf (text->string, format, arguments);
  va_end (arguments);
}

void
zs_text_styled (ZsText *text, ZsTextStyle style, const char *format, ...)
{
  bool coloured = text->colour && style != ZS_STYLE_PLAIN;
  va_list arguments;

  if (coloured)
    g_string_append (text->string, STYLES[style]);
  va_start (arguments, format);
  g_string_append_vprintf (text->string, format, arguments);
  va_end (arguments);
  if (coloured)
    g_string_append (text->string, "\033[0m");
}

/* Is WORD the end of a quantity whose number is BEFORE: "39.39 GiB", "5 %"? */
static bool
is_unit (const char *before, const char *word)
{
  static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "%", "s", "ms", "us", "tokens/s" };
  size_t length = strcspn (word, ".,;:)");

  if (*before == '\0' || !g_ascii_isdigit (before[strlen (before) - 1]))
    return false;
  for (size_t i = 0; i < G_N_ELEMENTS (units); i++)
    if (strlen (units[i]) == length && strncmp (units[i], word, length) == 0)
      return true;
  return false;
}

void
zs_text_wrap (ZsText *text, const char *first, int indent, const char *paragraph)
{
  g_auto (GStrv) words = g_strsplit (paragraph, " ", -1);
  glong column = g_utf8_strlen (first, -1);
  bool at_start = true;

  g_string_append (text->string, first);
  for (char **word = words; *word != NULL; word++) {
    glong length = g_utf8_strlen (*word, -1);
    bool is_quantity = word[1] != NULL && is_unit (*word, word[1]);
    glong room = length + (is_quantity ? 1 + g_utf8_strlen (word[1], -1) : 0);

    if (length == 0)
      continue;
    if (!at_start && column + 1 + room > text->width) {
      g_string_append_printf (text->string, "\n%*s", indent, "");
      column = indent;
      at_start = true;
    }
    if (!at_start) {
      g_string_append_c (text->string, ' ');
      column++;
    }
    g_string_append (text->string, *word);
    column += length;
    at_start = false;
  }
  g_string_append_c (text->string, '\n');
}

void
zs_text_bar (ZsText *text, int room, int64_t part, int64_t whole)
{
  if (whole <= 0 || part <= 0 || room <= 0)
    return;
  /* rounded up: what is there is seen */
  int length = (int) (((__int128) part * room + whole - 1) / whole);

  for (int i = 0; i < MIN (length, room); i++)
    g_string_append_c (text->string, '#');
}

void
zs_text_percent (ZsText *text, int64_t part, int64_t whole)
{
  if (whole <= 0)
    g_string_append (text->string, "-");
  else
    g_string_append_printf (text->string, "%.0f %%", 100.0 * (double) part / (double) whole);
}
