/* json-writer.h: writes JSON as it goes, without a tree in memory.
 * SPDX-License-Identifier: MIT
 *
 * KEY is the member's name inside an object, NULL inside an array and at the top.  Nesting is checked
 * by assertions.  Numbers are printed the same everywhere; a number that is not finite becomes null.
 * Strings must be UTF-8; bytes that are not become U+FFFD.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct ZsJsonWriter ZsJsonWriter;

/* To the end of OUT, or to FILE; borrowed.  INDENT spaces a level; 0: all in one line.  An object or
 * array begun with a `compact` function stays on one line. */
ZsJsonWriter *zs_json_writer_new      (GString *out, int indent) G_GNUC_WARN_UNUSED_RESULT;
ZsJsonWriter *zs_json_writer_new_file (FILE *file, int indent) G_GNUC_WARN_UNUSED_RESULT;
/* Everything must be closed.  Ends the text with a newline; errors of FILE are seen by ferror (). */
void          zs_json_writer_free     (ZsJsonWriter *writer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsJsonWriter, zs_json_writer_free)

void zs_json_begin_object   (ZsJsonWriter *writer, const char *key);
void zs_json_end_object     (ZsJsonWriter *writer);
void zs_json_begin_array    (ZsJsonWriter *writer, const char *key);
void zs_json_end_array      (ZsJsonWriter *writer);
/* The next object or array that begins, and all in it, stays on one line. */
void zs_json_compact        (ZsJsonWriter *writer);

void zs_json_int    (ZsJsonWriter *writer, const char *key, int64_t value);
void zs_json_bool   (ZsJsonWriter *writer, const char *key, bool value);
/* shortest text of at most 15 digits (17 if needed) that reads back as VALUE */
void zs_json_number (ZsJsonWriter *writer, const char *key, double value);
/* VALUE / 10^DECIMALS, exactly: picoseconds as microseconds are decimals 6 */
void zs_json_fixed  (ZsJsonWriter *writer, const char *key, int64_t value, int decimals);
/* NULL becomes null */
void zs_json_string (ZsJsonWriter *writer, const char *key, const char *value);
void zs_json_null   (ZsJsonWriter *writer, const char *key);

/* VALUE as zs_json_number prints it, into BUFFER (G_ASCII_DTOSTR_BUF_SIZE): for CSV too. */
const char *zs_number_text (double value, char *buffer);
