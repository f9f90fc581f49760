/* store.h: the results of a sweep in SQLite, written while it runs.
 * SPDX-License-Identifier: MIT
 *
 * Table `results` has one row a configuration: its number, the value of each axis, the outcome, the columns of
 * sim/study/columns.h, and why there is no result.  Rows are written in transactions (WAL), so that a
 * process that is killed leaves whole rows, each once; what is there is not run again.  Table `meta` says which
 * sweep it is. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>

#include "sim/io/json-writer.h"
#include "sim/study/columns.h"
#include "sim/study/sweep.h"

/* Outcomes beside those of a result: the scenario is wrong in this combination; a limit of ours. */
#define ZS_OUTCOME_INVALID "invalid"
#define ZS_OUTCOME_FAILED  "failed"

typedef struct ZsStore ZsStore;

/* The file at PATH for SWEEP, made if it is not there; NULL: in memory.  Fails if it holds another sweep. */
ZsStore *zs_store_open  (const char *path, const ZsSweep *sweep, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/* An existing file, whatever sweep it is. */
ZsStore *zs_store_open_existing (const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/* What was added since the last commit is lost. */
void     zs_store_free  (ZsStore *store);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsStore, zs_store_free)

/* The row of CONFIGURATION: VALUES are those of the axes (NULL: left alone), CELLS the columns (NULL: no
 * result; then PROBLEM says why). */
bool     zs_store_add    (ZsStore *store, int64_t configuration, const char *const *values,
                          const char *outcome, const ZsCell *cells, const char *problem,
                          GError **error);
bool     zs_store_commit (ZsStore *store, GError **error);
/* Sets the bit of each configuration that is there in DONE (one byte each, N of them); -1 and ERROR if the file
 * cannot be read, else how many there are. */
int64_t  zs_store_done   (ZsStore *store, guint8 *done, int64_t n, GError **error);
/* How many configurations the sweep has. */
int64_t  zs_store_total  (ZsStore *store);
/* Rows by outcome: *RET_OK fit, *RET_OOM did not, *RET_NONE have no result. */
bool     zs_store_count  (ZsStore *store, int64_t *ret_ok, int64_t *ret_oom, int64_t *ret_none,
                          GError **error);

/* The configuration that fits and has the most (LARGEST) or least of COLUMN, in words; NULL: none.  Free with
 * g_free. */
char    *zs_store_best   (ZsStore *store, const char *column, bool largest);

/* The sweep's name; free with g_free. */
char       *zs_store_name (ZsStore *store);
int         zs_store_axes (ZsStore *store);
const char *zs_store_axis (ZsStore *store, int axis);

/* A row as it is read: valid during the call. */
typedef struct {
  const char *const *axes;      /* values; NULL: left alone */
  const char   *outcome;
  const double *columns;        /* NAN: empty or text */
} ZsStoreRow;

/* Calls EACH for all rows in the order of the axes. */
bool     zs_store_each   (ZsStore *store, void (*each) (void *self, const ZsStoreRow *row), void *self,
                          GError **error);

/* All rows in the order of the axes.  PATH "-" is standard output. */
bool     zs_store_write_csv  (ZsStore *store, const char *path, GError **error);
/* "axes" and "rows" into the object that is open in WRITER. */
bool     zs_store_write_json (ZsStore *store, ZsJsonWriter *writer, GError **error);

/* Makes (or adds to) OUT the rows of INPUTS (NULL-terminated), which must be of one sweep; a row that two have
 * must be equal. */
bool     zs_store_merge (const char *out, const char *const *inputs, ZsStore **ret_store,
                         GError **error);
