/* hjson-internal.h: what the files of the HJSON reader share.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/io/hjson.h"

typedef struct {
  ZsDocument *document;
  const char *file;
  const char *text, *at, *end; /* text: as it was given, for offsets */
  int line, column;            /* of at */
  int depth;
  int loose_line; /* of the last string without quotes; 0 none */
  GArray *remarks;
  GError **error;
} ZsHjsonReader;

typedef struct {
  const char *at;
  int line, column;
} ZsHjsonPlace;

static inline ZsHjsonPlace
zs_hjson_place_of (const ZsHjsonReader *reader)
{
  return (ZsHjsonPlace){ reader->at, reader->line, reader->column };
}

/* The byte AHEAD of the current one, or NUL at the end (the text has no NUL). */
static inline char
zs_hjson_peek (const ZsHjsonReader *reader, int ahead)
{
  return reader->end - reader->at > ahead ? reader->at[ahead] : '\0';
}

static inline void
zs_hjson_advance (ZsHjsonReader *reader)
{
  unsigned char byte = (unsigned char)*reader->at++;

  if (byte == '\n') {
    reader->line++;
    reader->column = 1;
  } else if (reader->at == reader->end || ((unsigned char)*reader->at & 0xc0) != 0x80) {
    reader->column++; /* characters, not bytes */
  }
}

static inline void
zs_hjson_skip (ZsHjsonReader *reader, int n)
{
  while (n-- > 0 && reader->at < reader->end)
    zs_hjson_advance (reader);
}

/* Notes what strict JSON would refuse: LENGTH bytes from PLACE. */
void zs_hjson_remark (ZsHjsonReader *reader, ZsHjsonRemarkKind kind, ZsHjsonPlace place,
                      gsize length, const char *text);
/* Sets the error, with its place; returns NULL. */
void *zs_hjson_fail (ZsHjsonReader *reader, ZsHjsonPlace place, const char *format, ...)
    G_GNUC_PRINTF (3, 4);
/* A string in quotes, and one between ''' and '''; NULL and the error set.  Free the result. */
GString *zs_hjson_read_quoted (ZsHjsonReader *reader);
GString *zs_hjson_read_multi_line (ZsHjsonReader *reader);
