/* store-read.c: what is in the file of a sweep.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <math.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/io/csv-writer.h"
#include "sim/io/file.h"
#include "sim/study/store-internal.h"

#define ALL_ROWS "SELECT * FROM results ORDER BY configuration"

bool
zs_store_each (ZsStore *store, void (*each) (void *self, const ZsStoreRow *row), void *self, GError **error)
{
  sqlite3_stmt *statement = store_prepare (store, ALL_ROWS, error);
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
  return status == SQLITE_DONE || store_fail (store, error);
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
  sqlite3_stmt *statement = store_prepare (store, ALL_ROWS, error);
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
  return status == SQLITE_DONE || store_fail (store, error);
}

bool
zs_store_write_csv (ZsStore *store, const char *path, GError **error)
{
  g_autoptr (ZsFileWriter) writer = zs_file_writer_new (path, error);

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
  sqlite3_stmt *statement = store_prepare (store, ALL_ROWS, error);
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
  return status == SQLITE_DONE || store_fail (store, error);
}

/* ---- in short ---- */

bool
zs_store_count (ZsStore *store, int64_t *ret_ok, int64_t *ret_oom, int64_t *ret_none, GError **error)
{
  sqlite3_stmt *statement = store_prepare (store,
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
  return ok || store_fail (store, error);
}

char *
zs_store_best (ZsStore *store, const char *column, bool largest)
{
  g_autofree char *sql = g_strdup_printf (
      "SELECT *, tokens_per_second_per_gpu AS speed, peak_device_bytes AS peak FROM results WHERE outcome = "
      "'ok' ORDER BY %s %s, configuration LIMIT 1", column, largest ? "DESC" : "ASC");
  sqlite3_stmt *statement = store_prepare (store, sql, NULL);
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
