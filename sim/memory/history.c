/* history.c: reading recorded histories.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "sim/memory/history-private.h"

G_DEFINE_QUARK (zs-history-error-quark, zs_history_error)

#define MAX_FILE (INT64_C (512) << 20)   /* unpacked */

void
zs_history_free (ZsHistory *history)
{
  if (history == NULL)
    return;
  g_free (history->entries);
  g_free (history->alloc_conf);
  g_free (history);
}

int
history_action_by_name (const char *name, size_t length)
{
  for (int i = 0; i < ZS_N_ALLOCATOR_ACTIONS; i++) {
    const char *known = zs_allocator_action_name ((ZsAllocatorAction) i);

    if (strlen (known) == length && memcmp (known, name, length) == 0)
      return i;
  }
  return -1;
}

bool
history_builder_add (HistoryBuilder *builder, ZsAllocatorAction action, int64_t address,
                     int64_t bytes, uint64_t stream, int64_t time_us, const char **ret_why)
{
  if (bytes < 0 || bytes > HISTORY_MAX_BYTES) {
    *ret_why = "a size must be 0 to 256 GiB";
    return false;
  }
  if (address < 0 || address >= HISTORY_MAX_ADDRESS) {
    *ret_why = "an address must have at most 47 bits";
    return false;
  }
  if (bytes == 0 && action != ZS_ALLOCATOR_SNAPSHOT) {
    *ret_why = "only a snapshot may have size 0";
    return false;
  }
  ZsHistoryEntry entry = { .action = (uint8_t) action, .address = address, .bytes = bytes,
                           .time_us = time_us };

  g_array_append_val (builder->entries, entry);
  g_array_append_val (builder->handles, stream);
  return true;
}

static int
compare_handles (const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

  return x < y ? -1 : x > y;
}

/* Number the streams in the order of their handles, which is how the allocator orders them. */
static bool
number_streams (HistoryBuilder *builder, ZsHistory *history, GError **error)
{
  const uint64_t *handles = (const uint64_t *) (void *) builder->handles->data;

  for (guint i = 0; i < builder->handles->len; i++) {
    int known = 0;

    while (known < history->n_streams && history->streams[known] != handles[i])
      known++;
    if (known < history->n_streams)
      continue;
    if (history->n_streams == ZS_HISTORY_STREAMS) {
      g_set_error (error, ZS_HISTORY_ERROR, 0, "%s: more than %d streams", builder->path,
                   ZS_HISTORY_STREAMS);
      return false;
    }
    history->streams[history->n_streams++] = handles[i];
  }
  qsort (history->streams, (size_t) history->n_streams, sizeof *history->streams, compare_handles);
  for (guint i = 0; i < builder->handles->len; i++) {
    ZsHistoryEntry *entry = &g_array_index (builder->entries, ZsHistoryEntry, i);

    while (history->streams[entry->stream] != handles[i])
      entry->stream++;
  }
  return true;
}

/* ---- tables ---- */

enum { COLUMN_ACTION, COLUMN_ADDRESS, COLUMN_SIZE, COLUMN_STREAM, COLUMN_TIME, N_COLUMNS };
static const char *const COLUMNS[N_COLUMNS] = { "action", "addr", "size", "stream", "time_us" };
#define MAX_FIELDS 16

typedef struct {
  const char *text;
  size_t      length;
} Field;

static int
split_line (const char *line, size_t length, char separator, Field *fields)
{
  int n = 0;

  while (n < MAX_FIELDS) {
    const char *end = memchr (line, separator, length);
    size_t size = end == NULL ? length : (size_t) (end - line);

    fields[n++] = (Field) { line, size };
    if (end == NULL)
      break;
    line += size + 1;
    length -= size + 1;
  }
  return n;
}

static bool
field_integer (Field field, int64_t *ret_value)
{
  int64_t value = 0;
  size_t i = 0;
  bool negative = field.length > 0 && field.text[0] == '-';

  if (negative)
    i++;
  if (i == field.length)
    return false;
  for (; i < field.length; i++) {
    if (!g_ascii_isdigit (field.text[i]) || __builtin_mul_overflow (value, 10, &value)
        || __builtin_add_overflow (value, field.text[i] - '0', &value))
      return false;
  }
  *ret_value = negative ? -value : value;
  return true;
}

static bool
read_row (HistoryBuilder *builder, const Field *fields, int n_fields, const int *columns,
          int64_t line, GError **error)
{
  int64_t values[N_COLUMNS] = { 0 };

  for (int i = COLUMN_ADDRESS; i < N_COLUMNS; i++) {
    if (columns[i] < 0)
      continue;
    if (columns[i] >= n_fields || !field_integer (fields[columns[i]], &values[i])) {
      g_set_error (error, ZS_HISTORY_ERROR, 0, "%s:%" G_GINT64_FORMAT ": '%s' must be a whole "
                   "number", builder->path, line, COLUMNS[i]);
      return false;
    }
  }
  Field name = fields[columns[COLUMN_ACTION]];
  int action = history_action_by_name (name.text, name.length);

  if (action < 0) {
    g_set_error (error, ZS_HISTORY_ERROR, 0, "%s:%" G_GINT64_FORMAT ": unknown action '%.*s'",
                 builder->path, line, (int) MIN (name.length, 40), name.text);
    return false;
  }
  const char *why;

  if (!history_builder_add (builder, (ZsAllocatorAction) action, values[COLUMN_ADDRESS],
                            values[COLUMN_SIZE], (uint64_t) values[COLUMN_STREAM],
                            values[COLUMN_TIME], &why)) {
    g_set_error (error, ZS_HISTORY_ERROR, 0, "%s:%" G_GINT64_FORMAT ": %s", builder->path, line,
                 why);
    return false;
  }
  return true;
}

static bool
read_table (HistoryBuilder *builder, const char *data, gsize length, GError **error)
{
  const char *end = data + length;
  int columns[N_COLUMNS];
  char separator = '\t';
  int64_t line = 1;

  for (const char *at = data; at < end; line++) {
    const char *stop = memchr (at, '\n', (size_t) (end - at));
    size_t size = (size_t) ((stop == NULL ? end : stop) - at);
    Field fields[MAX_FIELDS];

    if (size > 0 && at[size - 1] == '\r')
      size--;
    if (line == 1 && memchr (at, '\t', size) == NULL)
      separator = ',';
    int n_fields = split_line (at, size, separator, fields);

    if (line == 1) {
      for (int i = 0; i < N_COLUMNS; i++) {
        columns[i] = -1;
        for (int j = 0; j < n_fields; j++)
          if (fields[j].length == strlen (COLUMNS[i])
              && memcmp (fields[j].text, COLUMNS[i], fields[j].length) == 0)
            columns[i] = j;
        if (columns[i] < 0 && i != COLUMN_TIME) {
          g_set_error (error, ZS_HISTORY_ERROR, 0, "%s:1: no column '%s'; expected action, addr, "
                       "size, stream, or a snapshot of torch.cuda.memory", builder->path,
                       COLUMNS[i]);
          return false;
        }
      }
    } else if (size > 0 && columns[COLUMN_ACTION] < n_fields) {
      if (!read_row (builder, fields, n_fields, columns, line, error))
        return false;
    }
    at = stop == NULL ? end : stop + 1;
  }
  if (line == 1) {
    g_set_error (error, ZS_HISTORY_ERROR, 0, "%s: empty file", builder->path);
    return false;
  }
  return true;
}

/* ---- files ---- */

static GByteArray *
read_file (const char *path, GError **error)
{
  if (g_file_test (path, G_FILE_TEST_IS_DIR)
      || (g_file_test (path, G_FILE_TEST_EXISTS) && !g_file_test (path, G_FILE_TEST_IS_REGULAR))) {
    g_set_error (error, ZS_HISTORY_ERROR, 0, "%s: this is a %s, not a file", path,
                 g_file_test (path, G_FILE_TEST_IS_DIR) ? "folder" : "device");
    return NULL;
  }
  errno = 0;
  bool standard = strcmp (path, "-") == 0;
  gzFile file = standard ? gzdopen (dup (STDIN_FILENO), "rb") : gzopen (path, "rb");

  if (file == NULL) {
    g_set_error (error, ZS_HISTORY_ERROR, 0, "%s: %s", path, g_strerror (errno));
    return NULL;
  }
  g_autoptr (GByteArray) data = g_byte_array_new ();
  g_autofree guint8 *buffer = g_malloc (1 << 16);
  int n;

  while ((n = gzread (file, buffer, 1 << 16)) > 0) {
    if (data->len + (int64_t) n > MAX_FILE)
      break;
    g_byte_array_append (data, buffer, (guint) n);
  }
  int code = Z_OK;
  const char *message = gzerror (file, &code);

  if (n != 0)
    g_set_error (error, ZS_HISTORY_ERROR, 0, "%s: %s", path,
                 n > 0 ? "larger than 512 MiB" : code == Z_ERRNO ? g_strerror (errno) : message);
  gzclose (file);
  return n != 0 ? NULL : g_steal_pointer (&data);
}

ZsHistory *
zs_history_read (const char *path, int gpu, GError **error)
{
  g_autoptr (GByteArray) data = read_file (path, error);

  if (data == NULL)
    return NULL;
  g_autoptr (ZsHistory) history = g_new0 (ZsHistory, 1);
  HistoryBuilder builder = {
    .path = path,
    .entries = g_array_new (FALSE, FALSE, sizeof (ZsHistoryEntry)),
    .handles = g_array_new (FALSE, FALSE, sizeof (uint64_t)),
  };
  /* A pickle of protocol 2 or later begins with its PROTO opcode. */
  bool ok = data->len > 0 && data->data[0] == 0x80
              ? history_read_snapshot (&builder, history, data->data, data->len, gpu, error)
              : read_table (&builder, (const char *) data->data, data->len, error);

  ok = ok && number_streams (&builder, history, error);
  g_array_free (builder.handles, TRUE);
  history->n_entries = builder.entries->len;
  history->entries = (ZsHistoryEntry *) (void *) g_array_free (builder.entries, FALSE);
  return ok ? g_steal_pointer (&history) : NULL;
}
