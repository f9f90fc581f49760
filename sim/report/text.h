/* text.h: pieces of text for a terminal: bars, columns, colour, wrapped paragraphs.
 * SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum {
  ZS_STYLE_PLAIN, ZS_STYLE_BOLD, ZS_STYLE_GOOD, ZS_STYLE_BAD, ZS_STYLE_DIM
} ZsTextStyle;

/* Text that is being written, and whether it may be coloured. */
typedef struct {
  GString *string;
  bool     colour;
  int      width;       /* columns: 80 where nothing is known */
} ZsText;

void zs_text_append (ZsText *text, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* The same in STYLE, if the text is coloured. */
void zs_text_styled (ZsText *text, ZsTextStyle style, const char *format, ...) G_GNUC_PRINTF (3, 4);
/* PARAGRAPH broken between words to the width; further lines begin with INDENT spaces.  FIRST is
 * written before the first line. */
void zs_text_wrap (ZsText *text, const char *first, int indent, const char *paragraph);
/* A bar of at most ROOM characters for PART of WHOLE. */
void zs_text_bar (ZsText *text, int room, int64_t part, int64_t whole);
/* PART of WHOLE in percent, "37 %"; "-" if WHOLE is 0. */
void zs_text_percent (ZsText *text, int64_t part, int64_t whole);
