/* store-merge.c: parts of a sweep become one.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/store-internal.h"

static bool
attach (ZsStore *store, const char *path, GError **error)
{
  char *sql = sqlite3_mprintf ("ATTACH %Q AS input", path);
  bool ok = store_execute (store, sql, error);

  sqlite3_free (sql);
  return ok;
}

/* The tables of the attached input, empty. */
static bool
copy_tables (ZsStore *store, GError **error)
{
  g_autofree char *sql = store_ask (store, "SELECT sql FROM input.sqlite_master WHERE name = 'results'",
                                   NULL);

  return sql != NULL && store_execute (store, "BEGIN IMMEDIATE", error) && store_execute (store, sql, error)
         && store_execute (store, "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);"
                            "INSERT INTO meta SELECT * FROM input.meta; COMMIT", error);
}

static bool
merge_one (ZsStore *store, const char *path, GError **error)
{
  g_autoptr (ZsStore) input = zs_store_open_existing (path, error);   /* its WAL is taken in */

  if (input == NULL)
    return false;
  g_autofree char *theirs = store_ask_meta (input, "fingerprint");

  if (!attach (store, path, error) || (!store_has_tables (store) && !copy_tables (store, error)))
    return false;
  g_autofree char *ours = store_ask_meta (store, "fingerprint");

  if (g_strcmp0 (ours, theirs) != 0) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s is a part of another sweep than %s", path,
                 store->path);
    return false;
  }
  g_autofree char *differs = store_ask (
      store, "SELECT configuration FROM (SELECT * FROM input.results WHERE configuration IN (SELECT "
             "configuration FROM main.results) EXCEPT SELECT * FROM main.results) LIMIT 1", NULL);

  if (differs != NULL) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT,
                 "%s: configuration %s has another result than in a part merged before", path, differs);
    return false;
  }
  return store_execute (store, "INSERT OR IGNORE INTO main.results SELECT * FROM input.results; DETACH input",
                  error);
}

bool
zs_store_merge (const char *out, const char *const *inputs, ZsStore **ret_store, GError **error)
{
  g_autoptr (ZsStore) store = store_open_file (out, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, error);

  if (store == NULL || (!store_is_empty (store) && !store_check_schema (store, error)))
    return false;
  for (int i = 0; inputs[i] != NULL; i++)
    if (!merge_one (store, inputs[i], error))
      return false;
  if (!store_read_axes (store, error))
    return false;
  *ret_store = g_steal_pointer (&store);
  return true;
}
