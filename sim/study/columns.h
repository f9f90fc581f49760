/* columns.h: what a study keeps of a result: one row a name, in the order of the CSV.
 * SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/run/result.h"

typedef enum { ZS_CELL_EMPTY, ZS_CELL_INT, ZS_CELL_NUMBER, ZS_CELL_TEXT } ZsCellKind;

typedef struct {
  ZsCellKind kind;
  union {
    int64_t     integer;
    double      number;
    const char *text;        /* static */
  };
} ZsCell;

/* Kept of every configuration, before these columns: how it ended. */
#define ZS_COLUMN_OUTCOME "outcome"
/* Behind them: why there is no result ("" if there is one). */
#define ZS_COLUMN_ERROR   "error"

int         zs_columns_count (void);
const char *zs_column_name   (int column);
ZsCellKind  zs_column_kind   (int column);
/* The place of NAME; -1: there is none. */
int         zs_column_find   (const char *name);
/* Times of a run that did not fit, and places of an OOM that was none, are empty. */
ZsCell      zs_column_get    (int column, const ZsResult *result);
