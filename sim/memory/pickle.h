/* pickle.h: reads the plain data of a Python pickle.  Private to sim/memory.
 * SPDX-License-Identifier: MIT
 *
 * Dictionaries, lists, tuples, strings, numbers, booleans and None.  Every opcode that could name a
 * class or call something is refused, so nothing is ever executed.  Values point into the data, which
 * must outlive them. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum {
  PICKLE_NONE, PICKLE_BOOL, PICKLE_INT, PICKLE_FLOAT, PICKLE_STRING, PICKLE_LIST, PICKLE_TUPLE,
  PICKLE_DICT, PICKLE_MARK
} PickleType;

typedef struct PickleItems PickleItems;

typedef struct {
  PickleType type;
  uint32_t   length;          /* STRING: bytes */
  union {
    int64_t      integer;     /* INT, BOOL */
    double       number;
    const char  *text;        /* not terminated */
    PickleItems *items;       /* LIST, TUPLE; DICT: keys and values in turn */
  };
} PickleValue;

struct PickleItems {
  PickleValue *values;
  uint32_t     n, room;
};

typedef struct Pickle Pickle;

/* NULL and an error (without a file's name) when DATA is no pickle of plain data. */
Pickle *pickle_read (const uint8_t *data, gsize length, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void    pickle_free (Pickle *pickle);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Pickle, pickle_free)

const PickleValue *pickle_top (const Pickle *pickle);
/* Value of KEY in a dictionary; NULL if VALUE is none or lacks it. */
const PickleValue *pickle_get (const PickleValue *value, const char *key);
/* Element I of a list or tuple; NULL if there is none. */
const PickleValue *pickle_at (const PickleValue *value, uint32_t i);
uint32_t           pickle_length (const PickleValue *value);
/* The integer of KEY, or OTHERWISE. */
int64_t            pickle_integer (const PickleValue *value, const char *key, int64_t otherwise);
