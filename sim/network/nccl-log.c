/* nccl-log.c: what nccl-tests printed.
 * SPDX-License-Identifier: MIT
 *
 * Grammar: nccl-tests src/common.cu and util.cu, versions 2.0 to 2.17.  A row is: size, count, type,
 * [redop], [root], then twice time (us), algbw, busbw, errors. */
#include "config.h"

#include "sim/network/nccl-log.h"

#include "sim/base/error.h"
#include "sim/io/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void
zs_nccl_log_free (ZsNcclLog *log)
{
  if (log == NULL)
    return;
  g_array_unref (log->rows);
  g_ptr_array_unref (log->warnings);
  g_free (log);
}

static void G_GNUC_PRINTF (2, 3)
warn (ZsNcclLog *log, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_ptr_array_add (log->warnings, g_strdup_vprintf (format, arguments));
  va_end (arguments);
}

/* Past what MPI launchers put before a line: "[1,0]<stdout>:", "[0] ", "0: ". */
static const char *
skip_prefix (const char *line)
{
  const char *at = line + strspn (line, " \t");

  if (*at == '[') {
    const char *end = strchr (at, ']');

    if (end != NULL && strspn (at + 1, "0123456789,") == (size_t) (end - at - 1)) {
      at = end + 1;
      if (*at == '<' && strchr (at, '>') != NULL)
        at = strchr (at, '>') + 1;
      at += *at == ':';
    }
  }
  else if (g_ascii_isdigit (*at)) {
    size_t n = strspn (at, "0123456789");

    if (at[n] == ':' && (at[n + 1] == ' ' || at[n + 1] == '#'))
      at += n + 1;
  }
  return at + strspn (at, " \t");
}

static bool
whole (const char *word)
{
  return *word != '\0' && strspn (word, "0123456789") == strlen (word) && strlen (word) <= 18;
}

static bool
real (const char *word, double *ret)
{
  char *end;

  *ret = g_ascii_strtod (word, &end);
  return end != word && *end == '\0' && isfinite (*ret);
}

/* Is it such a row?  Then it is added. */
static bool
read_row (ZsNcclLog *log, const char *line, int number, int *last_root)
{
  g_auto (GStrv) raw = g_strsplit_set (line, " \t", -1);
  const char *words[40];
  int n = 0, at = 3;
  ZsNcclLogRow row = { .line = number };
  double numbers[8] = { 0 };

  for (int i = 0; raw[i] != NULL && n < 40; i++)
    if (raw[i][0] != '\0')
      words[n++] = raw[i];
  if (n < 6 || !whole (words[0]) || !whole (words[1]) || !g_ascii_isalpha (words[2][0]))
    return false;
  if (g_ascii_isalpha (words[at][0]) && strcmp (words[at], "N/A") != 0)
    at++;
  /* root: a whole number where a time would stand, with eight more after it (two halves of four) */
  const char *digits = words[at] + (words[at][0] == '-');

  if (*last_root >= 0 ? *last_root : whole (digits) && n - at >= 9)
    at++;
  for (int i = 0; i < 7 && at + i < n; i++)
    if (!real (words[at + i], &numbers[i])) {
      if (i < 3)
        return false;
      numbers[i] = 0;   /* N/A */
    }
  row.bytes = g_ascii_strtoll (words[0], NULL, 10);
  if (numbers[0] < 0 || numbers[0] > 1e12 || n - at < 3)
    return false;
  row.time = zs_time_from_seconds (numbers[0] * 1e-6);
  row.algbw = numbers[1];
  row.busbw = numbers[2];
  if (numbers[4] > 0 && numbers[4] < 1e12)
    row.time_in_place = zs_time_from_seconds (numbers[4] * 1e-6);
  if (row.bytes > 0 && row.time > 0)   /* tiny sizes are cut to nothing */
    g_array_append_val (log->rows, row);
  return true;
}

/* "all_reduce_perf" anywhere in LINE. */
static void
find_kind (ZsNcclLog *log, const char *line)
{
  static const struct { const char *word; ZsCollectiveKind kind; } NAMES[] = {
    { "all_reduce_perf", ZS_COLLECTIVE_ALL_REDUCE }, { "all_gather_perf", ZS_COLLECTIVE_ALL_GATHER },
    { "reduce_scatter_perf", ZS_COLLECTIVE_REDUCE_SCATTER }, { "broadcast_perf", ZS_COLLECTIVE_BROADCAST },
    { "alltoall_perf", ZS_COLLECTIVE_ALL_TO_ALL }, { "sendrecv_perf", ZS_COLLECTIVE_SEND_RECV },
    { "reduce_perf", ZS_COLLECTIVE_REDUCE },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (NAMES); i++) {
    const char *at = strstr (line, NAMES[i].word);

    if (at == NULL || (at > line && (g_ascii_isalnum (at[-1]) || at[-1] == '_')))
      continue;
    if (log->kind_known && log->kind != NAMES[i].kind && log->rows->len > 0)
      warn (log, "the log has several tests; the first, %s, is read", zs_collective_name (log->kind));
    else if (!log->kind_known) {
      log->kind = NAMES[i].kind;
      log->kind_known = true;
    }
    return;
  }
  const char *starting = strstr (line, "Collective test starting:");

  if (starting != NULL && !log->kind_known) {
    g_autofree char *name = g_strstrip (g_strdup (starting + strlen ("Collective test starting:")));

    if (g_str_has_suffix (name, "_perf"))
      name[strlen (name) - 5] = '\0';
    log->kind_known = zs_collective_from_name (name, &log->kind);
  }
}

static void
find_version (ZsNcclLog *log, const char *line)
{
  const char *at = strstr (line, "nccl-library=");

  if (at == NULL || log->version > 0)
    return;
  int64_t code = g_ascii_strtoll (at + strlen ("nccl-library="), NULL, 10);

  if (code > 10000 && code < 1000000)
    log->version = ZS_VERSION ((int) (code / 10000), (int) (code / 100 % 100), (int) (code % 100));
}

static void
find_threads (ZsNcclLog *log, const char *line)
{
  const char *at = strstr (line, " nGpus ");

  if (at != NULL && log->per_thread == 0)
    log->per_thread = (int) CLAMP (g_ascii_strtoll (at + strlen (" nGpus "), NULL, 10), 0, 64);
}

ZsTime
zs_nccl_log_launches (int per_thread)
{
  return per_thread > 1 ? (per_thread - 1) * 3 * ZS_MICROSECOND : 0;
}

/* From busbw / algbw of the largest messages, where the rank lines are missing. */
static void
guess_ranks (ZsNcclLog *log)
{
  bool reduce = log->kind == ZS_COLLECTIVE_ALL_REDUCE;

  if (log->n_ranks > 0 || !log->kind_known || log->rows->len == 0 || log->kind == ZS_COLLECTIVE_BROADCAST
      || log->kind == ZS_COLLECTIVE_REDUCE || log->kind == ZS_COLLECTIVE_SEND_RECV)
    return;
  const ZsNcclLogRow *row = &g_array_index (log->rows, ZsNcclLogRow, log->rows->len - 1);
  double factor = row->algbw > 0 ? row->busbw / row->algbw : 0;
  double n = reduce ? 2 / (2 - factor) : 1 / (1 - factor);

  if (factor > 0 && isfinite (n) && n > 1.5 && n < 1e5) {
    log->n_ranks = (int) lrint (n);
    warn (log, "no rank lines: %d ranks, from the ratio of the bandwidths", log->n_ranks);
  }
}

ZsNcclLog *
zs_nccl_log_parse (const char *file, const char *text, gssize length, GError **error)
{
  g_autoptr (ZsNcclLog) log = g_new0 (ZsNcclLog, 1);
  g_autofree char *copy = length < 0 ? g_strdup (text) : g_strndup (text, (gsize) length);
  g_auto (GStrv) lines = g_strsplit (copy, "\n", -1);
  int has_root = -1;
  bool ended = false;

  log->rows = g_array_new (FALSE, FALSE, sizeof (ZsNcclLogRow));
  log->warnings = g_ptr_array_new_with_free_func (g_free);
  for (int i = 0; lines[i] != NULL; i++) {
    g_strchomp (lines[i]);
    const char *line = skip_prefix (lines[i]);

    if (log->rows->len > 0 && strstr (line, "Collective test starting") != NULL)
      ended = true;
    find_kind (log, line);
    if (*line == '#') {
      const char *at = line + 1 + strspn (line + 1, " \t");

      find_version (log, line);
      find_threads (log, line);
      if (strncmp (at, "Rank ", 5) == 0 && log->rows->len == 0)
        log->n_ranks++;
      if (strncmp (at, "size", 4) == 0 && strstr (at, "count") != NULL)
        has_root = strstr (at, "root") != NULL;
      if (strstr (line, "FAILED") != NULL)
        warn (log, "line %d: the test found wrong values", i + 1);
      continue;
    }
    if (!ended)
      read_row (log, line, i + 1, &has_root);
  }
  if (log->rows->len == 0) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s:1:1: no row of nccl-tests in this text", file);
    return NULL;
  }
  if (!log->kind_known)
    warn (log, "the log does not name its collective");
  guess_ranks (log);
  return g_steal_pointer (&log);
}

ZsNcclLog *
zs_nccl_log_load (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  if (!zs_file_read (path, 16 << 20, &text, &length, error))
    return NULL;
  return zs_nccl_log_parse (path, text, (gssize) length, error);
}
