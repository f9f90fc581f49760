/* store-internal.h: what the files of the store share.  SPDX-License-Identifier: MIT */
#pragma once

#include <sqlite3.h>

#include "sim/base/error.h"
#include "sim/study/store.h"

struct ZsStore {
  char         *path;         /* for messages */
  sqlite3      *db;
  sqlite3_stmt *insert;
  int           n_axes;
  char         *axes[ZS_SWEEP_MAX_AXES];
  bool          in_transaction;
};

/* False, with SQLite's words. */
bool          store_fail (ZsStore *store, GError **error);
bool          store_execute (ZsStore *store, const char *sql, GError **error);
sqlite3_stmt *store_prepare (ZsStore *store, const char *sql, GError **error);
/* One text, ARGUMENT (may be NULL) for its question mark; NULL if there is no such row; free with g_free. */
char         *store_ask (ZsStore *store, const char *sql, const char *argument);
char         *store_ask_meta (ZsStore *store, const char *key);

/* What is at PATH must be a database with our tables; another process may be at work in it. */
ZsStore      *store_open_file (const char *path, int flags, GError **error);
bool          store_is_empty (ZsStore *store);
bool          store_has_tables (ZsStore *store);
bool          store_check_schema (ZsStore *store, GError **error);
/* Number and names of the axes of an existing file. */
bool          store_read_axes (ZsStore *store, GError **error);
