/* store.c: the results of a sweep in SQLite.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/store.h"

#include <math.h>
#include <sqlite3.h>
#include <string.h>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/io/csv-writer.h"
#include "sim/io/file.h"

#define SCHEMA "1"

struct ZsStore {
  char         *path;         /* for messages */
  sqlite3      *db;
  sqlite3_stmt *insert;
  int           n_axes;
  char         *axes[ZS_SWEEP_MAX_AXES];
  bool          in_transaction;
};

static bool
fail (ZsStore *store, GError **error)
{
  g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s: %s", store->path, sqlite3_errmsg (store->db));
  return false;
}

static bool
execute (ZsStore *store, const char *sql, GError **error)
{
  return sqlite3_exec (store->db, sql, NULL, NULL, NULL) == SQLITE_OK || fail (store, error);
}

static sqlite3_stmt *
prepare (ZsStore *store, const char *sql, GError **error)
{
  sqlite3_stmt *statement = NULL;

  if (sqlite3_prepare_v2 (store->db, sql, -1, &statement, NULL) == SQLITE_OK)
    return statement;
  fail (store, error);
  return NULL;
}

/* One text, NULL if there is no such row; free with g_free. */
static char *
ask_text (ZsStore *store, const char *sql, const char *argument)
{
  sqlite3_stmt *statement = prepare (store, sql, NULL);
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

static char *
ask_meta (ZsStore *store, const char *key)
{
  return ask_text (store, "SELECT value FROM meta WHERE key = ?", key);
}

static bool
put_meta (ZsStore *store, const char *key, const char *value, GError **error)
{
  char *sql = sqlite3_mprintf ("INSERT INTO meta VALUES (%Q, %Q)", key, value);
  bool ok = execute (store, sql, error);

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

/* What is at PATH must be a database with our tables; another process may be at work in it. */
static ZsStore *
open_file (const char *path, int flags, GError **error)
{
  ZsStore *store = g_new0 (ZsStore, 1);

  store->path = g_strdup (path != NULL ? path : "(memory)");
  if (sqlite3_open_v2 (path != NULL ? path : ":memory:", &store->db, flags, NULL) != SQLITE_OK
      || sqlite3_busy_timeout (store->db, 10000) != SQLITE_OK
      || sqlite3_exec (store->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", NULL, NULL,
                       NULL) != SQLITE_OK) {
    fail (store, error);
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
  g_autoptr (GString) sql = g_string_new ("BEGIN IMMEDIATE; CREATE TABLE meta (key TEXT PRIMARY KEY, "
                                          "value TEXT); CREATE TABLE results (configuration INTEGER "
                                          "PRIMARY KEY");
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
  return execute (store, sql->str, error) && put_meta (store, "schema", SCHEMA, error)
         && put_meta (store, "program", PACKAGE_VERSION, error)
         && put_meta (store, "name", sweep->name, error)
         && put_meta (store, "configurations", total, error)
         && put_meta (store, "axes", n_axes, error)
         && put_meta (store, "fingerprint", sweep->fingerprint, error)
         && execute (store, "COMMIT", error);
}

/* Number and names of the axes of an existing file. */
static bool
read_axes (ZsStore *store, GError **error)
{
  g_autofree char *n = ask_meta (store, "axes");
  sqlite3_stmt *statement = prepare (store, "SELECT * FROM results LIMIT 0", error);

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
  g_autoptr (GString) sql = g_string_new ("INSERT INTO results VALUES (?");

  for (int i = 0; i < store->n_axes + zs_columns_count () + 2; i++)
    g_string_append (sql, ", ?");
  g_string_append (sql, ")");
  store->insert = prepare (store, sql->str, error);
  return store->insert != NULL;
}

static bool
check_schema (ZsStore *store, GError **error)
{
  g_autofree char *schema = ask_meta (store, "schema");

  if (schema != NULL && strcmp (schema, SCHEMA) == 0)
    return true;
  g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s: this is no result of a sweep%s", store->path,
               schema != NULL ? " of this version of zerosim" : "");
  return false;
}

static bool
check_sweep (ZsStore *store, const ZsSweep *sweep, GError **error)
{
  g_autofree char *fingerprint = ask_meta (store, "fingerprint");
  g_autofree char *name = ask_meta (store, "name");
  g_autofree char *program = ask_meta (store, "program");

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

static bool
has_tables (ZsStore *store)
{
  g_autofree char *name = ask_text (store, "SELECT name FROM sqlite_master WHERE name = 'meta'", NULL);

  return name != NULL;
}

static bool
is_empty (ZsStore *store)
{
  g_autofree char *name = ask_text (store, "SELECT name FROM sqlite_master LIMIT 1", NULL);

  return name == NULL;
}

ZsStore *
zs_store_open (const char *path, const ZsSweep *sweep, GError **error)
{
  g_autoptr (ZsStore) store = open_file (path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, error);

  if (store == NULL)
    return NULL;
  if (is_empty (store) ? !make_tables (store, sweep, error)
                       : !check_schema (store, error) || !check_sweep (store, sweep, error))
    return NULL;
  if (!read_axes (store, error) || !prepare_insert (store, error))
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
  store = open_file (path, SQLITE_OPEN_READWRITE, error);
  if (store == NULL || !check_schema (store, error) || !read_axes (store, error))
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

  if (!store->in_transaction && !execute (store, "BEGIN IMMEDIATE", error))
    return false;
  store->in_transaction = true;
  sqlite3_bind_int64 (store->insert, place++, configuration);
  for (int i = 0; i < store->n_axes; i++)
    bind_text (store->insert, place++, values[i]);
  bind_text (store->insert, place++, outcome);
  for (int i = 0; i < zs_columns_count (); i++)
    bind_cell (store->insert, place++, cells != NULL ? &cells[i] : &EMPTY);
  bind_text (store->insert, place, problem);
  bool ok = sqlite3_step (store->insert) == SQLITE_DONE || fail (store, error);

  sqlite3_reset (store->insert);
  return ok;
}

bool
zs_store_commit (ZsStore *store, GError **error)
{
  if (!store->in_transaction)
    return true;
  store->in_transaction = false;
  return execute (store, "COMMIT", error);
}

int64_t
zs_store_done (ZsStore *store, guint8 *done, int64_t n, GError **error)
{
  sqlite3_stmt *statement = prepare (store, "SELECT configuration FROM results", error);
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
  fail (store, error);
  return -1;
}

int64_t
zs_store_total (ZsStore *store)
{
  g_autofree char *total = ask_meta (store, "configurations");

  return total != NULL ? g_ascii_strtoll (total, NULL, 10) : 0;
}

bool
zs_store_count (ZsStore *store, int64_t *ret_ok, int64_t *ret_oom, int64_t *ret_none, GError **error)
{
  sqlite3_stmt *statement = prepare (store,
                                     "SELECT count (*) FILTER (WHERE outcome = 'ok'),"
                                     " count (*) FILTER (WHERE outcome IN ('oom', 'host-oom')),"
                                     " count (*) FILTER (WHERE outcome IN ('invalid', 'failed'))"
                                     " FROM results", error);
  bool ok = statement != NULL && sqlite3_step (statement) == SQLITE_ROW;

  if (ok) {
    *ret_ok = sqlite3_column_int64 (statement, 0);
    *ret_oom = sqlite3_column_int64 (statement, 1);
    *ret_none = sqlite3_column_int64 (statement, 2);
  }
  sqlite3_finalize (statement);
  return ok || fail (store, error);
}

char *
zs_store_best (ZsStore *store, const char *column, bool largest)
{
  g_autofree char *sql = g_strdup_printf (
      "SELECT *, tokens_per_second_per_gpu AS speed, peak_device_bytes AS peak FROM results WHERE outcome = "
      "'ok' ORDER BY %s %s, configuration LIMIT 1", column, largest ? "DESC" : "ASC");
  sqlite3_stmt *statement = prepare (store, sql, NULL);
  GString *text;

  if (statement == NULL || sqlite3_step (statement) != SQLITE_ROW) {
    sqlite3_finalize (statement);
    return NULL;
  }
  text = g_string_new (NULL);
  for (int i = 1; i <= store->n_axes; i++)
    if (sqlite3_column_type (statement, i) != SQLITE_NULL)
      g_string_append_printf (text, "%s%s=%s", text->len > 0 ? ", " : "",
                              sqlite3_column_name (statement, i), sqlite3_column_text (statement, i));
  int last = sqlite3_column_count (statement) - 1;
  g_autofree char *peak = zs_bytes_format (sqlite3_column_int64 (statement, last));

  g_string_append_printf (text, " (%.0f tokens/s per GPU, %s)", sqlite3_column_double (statement, last - 1),
                          peak);
  sqlite3_finalize (statement);
  return g_string_free (text, FALSE);
}

/* ---- reading ---- */

#define ALL_ROWS "SELECT * FROM results ORDER BY configuration"

char *
zs_store_name (ZsStore *store)
{
  char *name = ask_meta (store, "name");

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

bool
zs_store_each (ZsStore *store, void (*each) (void *self, const ZsStoreRow *row), void *self, GError **error)
{
  sqlite3_stmt *statement = prepare (store, ALL_ROWS, error);
  g_autofree double *columns = g_new (double, zs_columns_count ());
  const char *axes[ZS_SWEEP_MAX_AXES];
  int status;

  if (statement == NULL)
    return false;
  while ((status = sqlite3_step (statement)) == SQLITE_ROW) {
    for (int i = 0; i < store->n_axes; i++)
      axes[i] = (const char *) sqlite3_column_text (statement, i + 1);
    for (int i = 0; i < zs_columns_count (); i++) {
      int place = store->n_axes + 2 + i, type = sqlite3_column_type (statement, place);

      columns[i] = type == SQLITE_INTEGER || type == SQLITE_FLOAT
                     ? sqlite3_column_double (statement, place) : NAN;
    }
    const char *outcome = (const char *) sqlite3_column_text (statement, store->n_axes + 1);
    ZsStoreRow row = { .axes = axes, .outcome = outcome != NULL ? outcome : "", .columns = columns };

    each (self, &row);
  }
  sqlite3_finalize (statement);
  return status == SQLITE_DONE || fail (store, error);
}

static void
write_csv_row (sqlite3_stmt *statement, ZsCsvWriter *csv)
{
  /* the first column is the number, which is the row's place */
  for (int i = 1; i < sqlite3_column_count (statement); i++)
    switch (sqlite3_column_type (statement, i)) {
    case SQLITE_INTEGER:
      zs_csv_int (csv, sqlite3_column_int64 (statement, i));
      break;
    case SQLITE_FLOAT:
      zs_csv_number (csv, sqlite3_column_double (statement, i));
      break;
    case SQLITE_NULL:
      zs_csv_empty (csv);
      break;
    default:
      zs_csv_text (csv, (const char *) sqlite3_column_text (statement, i));
    }
  zs_csv_end (csv);
}

static bool
write_rows (ZsStore *store, FILE *file, GError **error)
{
  sqlite3_stmt *statement = prepare (store, ALL_ROWS, error);
  g_autoptr (GString) text = g_string_new (NULL);
  ZsCsvWriter csv = zs_csv_writer (text);
  int status;

  if (statement == NULL)
    return false;
  for (int i = 1; i < sqlite3_column_count (statement); i++)
    zs_csv_text (&csv, sqlite3_column_name (statement, i));
  zs_csv_end (&csv);
  while ((status = sqlite3_step (statement)) == SQLITE_ROW) {
    write_csv_row (statement, &csv);
    if (text->len > 1 << 16) {
      fwrite (text->str, 1, text->len, file);
      g_string_truncate (text, 0);
    }
  }
  fwrite (text->str, 1, text->len, file);
  sqlite3_finalize (statement);
  return status == SQLITE_DONE || fail (store, error);
}

bool
zs_store_write_csv (ZsStore *store, const char *path, GError **error)
{
  g_autoptr (ZsFileWriter) writer = NULL;

  if (strcmp (path, "-") == 0)
    return write_rows (store, stdout, error);
  writer = zs_file_writer_new (path, error);
  return writer != NULL && write_rows (store, zs_file_writer_stream (writer), error)
         && zs_file_writer_commit (g_steal_pointer (&writer), error);
}

static void
write_json_cell (sqlite3_stmt *statement, int i, ZsJsonWriter *writer)
{
  const char *name = sqlite3_column_name (statement, i);

  switch (sqlite3_column_type (statement, i)) {
  case SQLITE_INTEGER:
    zs_json_int (writer, name, sqlite3_column_int64 (statement, i));
    break;
  case SQLITE_FLOAT:
    zs_json_number (writer, name, sqlite3_column_double (statement, i));
    break;
  case SQLITE_NULL:
    zs_json_null (writer, name);
    break;
  default:
    zs_json_string (writer, name, (const char *) sqlite3_column_text (statement, i));
  }
}

bool
zs_store_write_json (ZsStore *store, ZsJsonWriter *writer, GError **error)
{
  sqlite3_stmt *statement = prepare (store, ALL_ROWS, error);
  int status;

  if (statement == NULL)
    return false;
  zs_json_int (writer, "configurations", zs_store_total (store));
  zs_json_begin_array (writer, "axes");
  for (int i = 1; i <= store->n_axes; i++)
    zs_json_string (writer, NULL, sqlite3_column_name (statement, i));
  zs_json_end_array (writer);
  zs_json_begin_array (writer, "rows");
  while ((status = sqlite3_step (statement)) == SQLITE_ROW) {
    zs_json_compact (writer);
    zs_json_begin_object (writer, NULL);
    for (int i = 0; i < sqlite3_column_count (statement); i++)
      write_json_cell (statement, i, writer);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
  sqlite3_finalize (statement);
  return status == SQLITE_DONE || fail (store, error);
}

/* ---- merging ---- */

static bool
attach (ZsStore *store, const char *path, GError **error)
{
  char *sql = sqlite3_mprintf ("ATTACH %Q AS input", path);
  bool ok = execute (store, sql, error);

  sqlite3_free (sql);
  return ok;
}

/* The tables of the attached input, empty. */
static bool
copy_tables (ZsStore *store, GError **error)
{
  g_autofree char *sql = ask_text (store, "SELECT sql FROM input.sqlite_master WHERE name = 'results'",
                                   NULL);

  return sql != NULL && execute (store, "BEGIN IMMEDIATE", error) && execute (store, sql, error)
         && execute (store, "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);"
                            "INSERT INTO meta SELECT * FROM input.meta; COMMIT", error);
}

static bool
merge_one (ZsStore *store, const char *path, GError **error)
{
  g_autoptr (ZsStore) input = zs_store_open_existing (path, error);   /* its WAL is taken in */

  if (input == NULL)
    return false;
  g_autofree char *theirs = ask_meta (input, "fingerprint");

  if (!attach (store, path, error) || (!has_tables (store) && !copy_tables (store, error)))
    return false;
  g_autofree char *ours = ask_meta (store, "fingerprint");

  if (g_strcmp0 (ours, theirs) != 0) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s is a part of another sweep than %s", path,
                 store->path);
    return false;
  }
  g_autofree char *differs = ask_text (
      store, "SELECT configuration FROM (SELECT * FROM input.results WHERE configuration IN (SELECT "
             "configuration FROM main.results) EXCEPT SELECT * FROM main.results) LIMIT 1", NULL);

  if (differs != NULL) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT,
                 "%s: configuration %s has another result than in a part merged before", path, differs);
    return false;
  }
  return execute (store, "INSERT OR IGNORE INTO main.results SELECT * FROM input.results; DETACH input",
                  error);
}

bool
zs_store_merge (const char *out, const char *const *inputs, ZsStore **ret_store, GError **error)
{
  g_autoptr (ZsStore) store = open_file (out, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, error);

  if (store == NULL || (!is_empty (store) && !check_schema (store, error)))
    return false;
  for (int i = 0; inputs[i] != NULL; i++)
    if (!merge_one (store, inputs[i], error))
      return false;
  if (!read_axes (store, error))
    return false;
  *ret_store = g_steal_pointer (&store);
  return true;
}
