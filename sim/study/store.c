/* store.c: the file of a sweep: made, opened, written.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/store-internal.h"

#include <string.h>

#define SCHEMA "1"

bool
store_fail (ZsStore *store, GError **error)
{
  g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s: %s", store->path, sqlite3_errmsg (store->db));
  return false;
}

bool
store_execute (ZsStore *store, const char *sql, GError **error)
{
  return sqlite3_exec (store->db, sql, NULL, NULL, NULL) == SQLITE_OK || store_fail (store, error);
}

sqlite3_stmt *
store_prepare (ZsStore *store, const char *sql, GError **error)
{
  sqlite3_stmt *statement = NULL;

  if (sqlite3_prepare_v2 (store->db, sql, -1, &statement, NULL) == SQLITE_OK)
    return statement;
  store_fail (store, error);
  return NULL;
}

char *
store_ask (ZsStore *store, const char *sql, const char *argument)
{
  sqlite3_stmt *statement = store_prepare (store, sql, NULL);
  char *text = NULL;

  if (statement == NULL)
    return NULL;
  if (argument != NULL)
    sqlite3_bind_text (statement, 1, argument, -1, SQLITE_TRANSIENT);
  if (sqlite3_step (statement) == SQLITE_ROW)
    text = g_strdup ((const char *) sqlite3_column_text (statement, 0));
  sqlite3_finalize (statement);
  return text;
}

char *
store_ask_meta (ZsStore *store, const char *key)
{
  return store_ask (store, "SELECT value FROM meta WHERE key = ?", key);
}

static bool
put_meta (ZsStore *store, const char *key, const char *value, GError **error)
{
  char *sql = sqlite3_mprintf ("INSERT INTO meta VALUES (%Q, %Q)", key, value);
  bool ok = store_execute (store, sql, error);

  sqlite3_free (sql);
  return ok;
}

void
zs_store_free (ZsStore *store)
{
  if (store == NULL)
    return;
  sqlite3_finalize (store->insert);
  sqlite3_close (store->db);
  for (int i = 0; i < ZS_SWEEP_MAX_AXES; i++)
    g_free (store->axes[i]);
  g_free (store->path);
  g_free (store);
}

/* ---- opening ---- */

/* The change to a write-ahead log does not wait for another process that makes it at the same moment. */
static int
enter_wal (sqlite3 *db)
{
  enum { TIMES = 200, PAUSE = 50 /* ms */ };
  int status = SQLITE_BUSY;

  for (int i = 0; i < TIMES && status == SQLITE_BUSY; i++) {
    if (i > 0)
      sqlite3_sleep (PAUSE);
    status = sqlite3_exec (db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
  }
  return status;
}

ZsStore *
store_open_file (const char *path, int flags, GError **error)
{
  ZsStore *store = g_new0 (ZsStore, 1);

  store->path = g_strdup (path != NULL ? path : "(memory)");
  if (sqlite3_open_v2 (path != NULL ? path : ":memory:", &store->db, flags, NULL) != SQLITE_OK
      || sqlite3_busy_timeout (store->db, 10000) != SQLITE_OK
      || enter_wal (store->db) != SQLITE_OK) {
    store_fail (store, error);
    zs_store_free (store);
    return NULL;
  }
  return store;
}

static char *
quote_name (const char *name)
{
  GString *text = g_string_new ("\"");

  for (; *name != '\0'; name++) {
    if (*name == '"')
      g_string_append_c (text, '"');
    g_string_append_c (text, *name);
  }
  g_string_append_c (text, '"');
  return g_string_free (text, FALSE);
}

static const char *
sql_type (ZsCellKind kind)
{
  return kind == ZS_CELL_TEXT ? "TEXT" : kind == ZS_CELL_NUMBER ? "REAL" : "INTEGER";
}

static bool
make_tables (ZsStore *store, const ZsSweep *sweep, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT); "
                                          "CREATE TABLE results (configuration INTEGER PRIMARY KEY");
  g_autofree char *total = g_strdup_printf ("%" G_GINT64_FORMAT, sweep->n_kept);
  g_autofree char *n_axes = g_strdup_printf ("%u", sweep->axes->len);

  for (guint i = 0; i < sweep->axes->len; i++) {
    g_autofree char *name = quote_name (((ZsAxis *) g_ptr_array_index (sweep->axes, i))->path);

    g_string_append_printf (sql, ", %s TEXT", name);
  }
  g_string_append (sql, ", " ZS_COLUMN_OUTCOME " TEXT");
  for (int i = 0; i < zs_columns_count (); i++)
    g_string_append_printf (sql, ", %s %s", zs_column_name (i), sql_type (zs_column_kind (i)));
  g_string_append (sql, ", " ZS_COLUMN_ERROR " TEXT)");
  if (!store_execute (store, "BEGIN IMMEDIATE", error))
    return false;
  if (!store_is_empty (store))    /* another process was faster */
    return store_execute (store, "ROLLBACK", error);
  return store_execute (store, sql->str, error) && put_meta (store, "schema", SCHEMA, error)
         && put_meta (store, "program", PACKAGE_VERSION, error)
         && put_meta (store, "name", sweep->name, error)
         && put_meta (store, "configurations", total, error)
         && put_meta (store, "axes", n_axes, error)
         && put_meta (store, "fingerprint", sweep->fingerprint, error)
         && store_execute (store, "COMMIT", error);
}

bool
store_read_axes (ZsStore *store, GError **error)
{
  g_autofree char *n = store_ask_meta (store, "axes");
  sqlite3_stmt *statement = store_prepare (store, "SELECT * FROM results LIMIT 0", error);

  if (statement == NULL)
    return false;
  store->n_axes = n != NULL ? (int) CLAMP (g_ascii_strtoll (n, NULL, 10), 0, ZS_SWEEP_MAX_AXES) : 0;
  store->n_axes = MIN (store->n_axes, sqlite3_column_count (statement) - 1);
  for (int i = 0; i < store->n_axes; i++)
    store->axes[i] = g_strdup (sqlite3_column_name (statement, i + 1));
  sqlite3_finalize (statement);
  return true;
}

static bool
prepare_insert (ZsStore *store, GError **error)
{
  /* what another process has put there is the same */
  g_autoptr (GString) sql = g_string_new ("INSERT OR IGNORE INTO results VALUES (?");

  for (int i = 0; i < store->n_axes + zs_columns_count () + 2; i++)
    g_string_append (sql, ", ?");
  g_string_append (sql, ")");
  store->insert = store_prepare (store, sql->str, error);
  return store->insert != NULL;
}

bool
store_check_schema (ZsStore *store, GError **error)
{
  g_autofree char *schema = store_ask_meta (store, "schema");

  if (schema != NULL && strcmp (schema, SCHEMA) == 0)
    return true;
  g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s: this is no result of a sweep%s", store->path,
               schema != NULL ? " of this version of zerosim" : "");
  return false;
}

static bool
check_sweep (ZsStore *store, const ZsSweep *sweep, GError **error)
{
  g_autofree char *fingerprint = store_ask_meta (store, "fingerprint");
  g_autofree char *name = store_ask_meta (store, "name");
  g_autofree char *program = store_ask_meta (store, "program");

  if (g_strcmp0 (fingerprint, sweep->fingerprint) == 0)
    return true;
  if (g_strcmp0 (program, PACKAGE_VERSION) != 0)
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT,
                 "%s was begun with zerosim %s, whose results may differ from those of " PACKAGE_VERSION
                 ": remove it, or choose another --output", store->path, program);
  else
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT,
                 "%s holds another sweep ('%s', with other axes, conditions or settings): remove it, or "
                 "choose another --output", store->path, name);
  return false;
}

bool
store_has_tables (ZsStore *store)
{
  g_autofree char *name = store_ask (store, "SELECT name FROM sqlite_master WHERE name = 'meta'", NULL);

  return name != NULL;
}

bool
store_is_empty (ZsStore *store)
{
  g_autofree char *name = store_ask (store, "SELECT name FROM sqlite_master LIMIT 1", NULL);

  return name == NULL;
}

ZsStore *
zs_store_open (const char *path, const ZsSweep *sweep, GError **error)
{
  g_autoptr (ZsStore) store = store_open_file (path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, error);

  if (store == NULL)
    return NULL;
  if ((store_is_empty (store) && !make_tables (store, sweep, error)) || !store_check_schema (store, error)
      || !check_sweep (store, sweep, error))
    return NULL;
  if (!store_read_axes (store, error) || !prepare_insert (store, error))
    return NULL;
  return g_steal_pointer (&store);
}

ZsStore *
zs_store_open_existing (const char *path, GError **error)
{
  g_autoptr (ZsStore) store = NULL;

  if (!g_file_test (path, G_FILE_TEST_EXISTS)) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s: no such file", path);
    return NULL;
  }
  store = store_open_file (path, SQLITE_OPEN_READWRITE, error);
  if (store == NULL || !store_check_schema (store, error) || !store_read_axes (store, error))
    return NULL;
  return g_steal_pointer (&store);
}

/* ---- writing ---- */

static void
bind_cell (sqlite3_stmt *statement, int place, const ZsCell *cell)
{
  switch (cell->kind) {
  case ZS_CELL_EMPTY:
    sqlite3_bind_null (statement, place);
    break;
  case ZS_CELL_INT:
    sqlite3_bind_int64 (statement, place, cell->integer);
    break;
  case ZS_CELL_NUMBER:
    sqlite3_bind_double (statement, place, cell->number);
    break;
  case ZS_CELL_TEXT:
    sqlite3_bind_text (statement, place, cell->text, -1, SQLITE_STATIC);
    break;
  }
}

static void
bind_text (sqlite3_stmt *statement, int place, const char *text)
{
  if (text == NULL)
    sqlite3_bind_null (statement, place);
  else
    sqlite3_bind_text (statement, place, text, -1, SQLITE_STATIC);
}

bool
zs_store_add (ZsStore *store, int64_t configuration, const char *const *values, const char *outcome,
              const ZsCell *cells, const char *problem, GError **error)
{
  static const ZsCell EMPTY = { .kind = ZS_CELL_EMPTY };
  int place = 1;

  if (!store->in_transaction && !store_execute (store, "BEGIN IMMEDIATE", error))
    return false;
  store->in_transaction = true;
  sqlite3_bind_int64 (store->insert, place++, configuration);
  for (int i = 0; i < store->n_axes; i++)
    bind_text (store->insert, place++, values[i]);
  bind_text (store->insert, place++, outcome);
  for (int i = 0; i < zs_columns_count (); i++)
    bind_cell (store->insert, place++, cells != NULL ? &cells[i] : &EMPTY);
  bind_text (store->insert, place, problem);
  bool ok = sqlite3_step (store->insert) == SQLITE_DONE || store_fail (store, error);

  sqlite3_reset (store->insert);
  return ok;
}

bool
zs_store_commit (ZsStore *store, GError **error)
{
  if (!store->in_transaction)
    return true;
  store->in_transaction = false;
  return store_execute (store, "COMMIT", error);
}

int64_t
zs_store_done (ZsStore *store, guint8 *done, int64_t n, GError **error)
{
  sqlite3_stmt *statement = store_prepare (store, "SELECT configuration FROM results", error);
  int64_t n_done = 0;
  int status;

  if (statement == NULL)
    return -1;
  while ((status = sqlite3_step (statement)) == SQLITE_ROW) {
    int64_t configuration = sqlite3_column_int64 (statement, 0);

    if (configuration < 0 || configuration >= n)
      continue;
    done[configuration] = 1;
    n_done++;
  }
  sqlite3_finalize (statement);
  if (status == SQLITE_DONE)
    return n_done;
  store_fail (store, error);
  return -1;
}

int64_t
zs_store_total (ZsStore *store)
{
  g_autofree char *total = store_ask_meta (store, "configurations");

  return total != NULL ? g_ascii_strtoll (total, NULL, 10) : 0;
}

char *
zs_store_name (ZsStore *store)
{
  char *name = store_ask_meta (store, "name");

  return name != NULL ? name : g_strdup ("");
}

int
zs_store_axes (ZsStore *store)
{
  return store->n_axes;
}

const char *
zs_store_axis (ZsStore *store, int axis)
{
  return store->axes[axis];
}
