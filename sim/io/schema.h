/* schema.h: a table of fields beside a struct, and the one reader that fills structs from documents.
 * SPDX-License-Identifier: MIT
 *
 * Unknown keys (with the nearest valid one), values of the wrong type, out of range, or no word of the
 * list, and missing required keys are found here, once for all files.  All of them are collected.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

#include "sim/io/document.h"

typedef enum {
  ZS_FIELD_INT,       /* int64_t; 5e8 is a whole number */
  ZS_FIELD_INT32,     /* int */
  ZS_FIELD_BOOL,      /* bool */
  ZS_FIELD_NUMBER,    /* double */
  ZS_FIELD_BYTES,     /* int64_t: "80 GiB" */
  ZS_FIELD_RATE,      /* ZsRate: "25 GB/s" */
  ZS_FIELD_TIME,      /* ZsTime: "5 us" */
  ZS_FIELD_TEXT,      /* char[size], `size` bytes with the NUL */
  ZS_FIELD_STRING,    /* const char *: borrowed from the document */
  ZS_FIELD_WORD,      /* int: index in `words` (aliases are `words` too: see word_values) */
  ZS_FIELD_VERSION,   /* ZsVersion: 0.19.5 or "2.11" */
  ZS_FIELD_MAPPING,   /* const ZsNode *: a mapping, which the caller reads */
  ZS_FIELD_LIST,      /* const ZsNode *: a list, which the caller reads */
  ZS_FIELD_NODE,      /* const ZsNode *: anything */
  ZS_FIELD_IGNORED,   /* known, and not read */
} ZsFieldType;

typedef struct {
  const char *key;
  ZsFieldType type;
  size_t      offset;
  int64_t     min, max;         /* of INT, INT32, BYTES, RATE, TIME; max 0: no limit */
  double      low, high;        /* of NUMBER; high 0: no limit */
  size_t      size;             /* of TEXT */
  const char *const *words;     /* of WORD, NULL-terminated */
  const int  *word_values;      /* of WORD: what each word stands for; NULL: its index */
  bool        required;
  const char *help;             /* one line */
} ZsField;

/* The head of a row: { ZS_FIELD ("gpus", INT32, ZsNodeSpec, n_gpus), .min = 1, .max = 16 } */
#define ZS_FIELD(name, kind, Struct, member)                                                       \
  .key = name, .type = ZS_FIELD_##kind, .offset = offsetof (Struct, member)

/* Fills DEST from the mapping NODE.  A field that is missing or null is left as it is.  GIVEN, if not
 * NULL, has room for N_FIELDS nodes and gets the node of each field that was given (else NULL).
 * WHAT names the mapping in messages ("cluster", "the file").  False if an error was added. */
bool zs_schema_read (const ZsNode *node, const char *what, const ZsField *fields, int n_fields,
                     void *dest, const ZsNode **given, ZsErrors *errors);
/* One value alone. */
bool zs_schema_read_field (const ZsNode *node, const ZsField *field, void *dest, ZsErrors *errors);
/* Adds "unknown key 'x' in WHAT; did you mean 'y'?" at KEY; returns false. */
bool zs_schema_unknown_key (const ZsNode *key, const char *what, const char *const *words,
                            ZsErrors *errors);
/* "eager, sdpa or flash": free with g_free. */
char *zs_schema_word_list (const char *const *words);
