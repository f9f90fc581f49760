/* bandwidth-log.c: what nvbandwidth and bandwidthTest printed.
 * SPDX-License-Identifier: MIT
 *
 * nvbandwidth (0.3 to 0.8): "Running host_to_device_memcpy_ce.", a line with "(row) -> GPU(column) bandwidth (GB/s)", a
 * line of column numbers, then rows of a number and rates.  bandwidthTest of cuda-samples: " Host to Device Bandwidth,
 * 1 Device(s)", " PINNED Memory Transfers", "   Transfer Size (Bytes)  Bandwidth(GB/s)" (older: MB/s), then rows of a size
 * and a rate. */
#include "config.h"

#include "sim/calibrate/bandwidth-log.h"

#include "sim/base/error.h"

#include <math.h>
#include <string.h>

void
zs_bandwidth_log_free (ZsBandwidthLog *log)
{
  if (log == NULL)
    return;
  g_array_unref (log->to_gpu);
  g_array_unref (log->to_host);
  g_free (log);
}

bool
zs_bandwidth_log_is (const char *text)
{
  return strstr (text, "nvbandwidth Version") != NULL || strstr (text, "_memcpy_ce") != NULL
         || strstr (text, "Host to Device Bandwidth") != NULL || strstr (text, "Device to Host Bandwidth") != NULL;
}

/* What the lines that follow are. */
typedef struct {
  GArray *list;      /* NULL: something else */
  bool    table;     /* nvbandwidth */
  bool    pinned;
  double  unit;
} Section;

static bool
is_number (const char *word, double *ret)
{
  char *end;

  *ret = g_ascii_strtod (word, &end);
  return end != word && *end == '\0' && isfinite (*ret);
}

static void
read_numbers (const Section *section, const char *line)
{
  g_auto (GStrv) words = g_strsplit_set (line, " \t", -1);
  double numbers[65];
  int n = 0;

  for (int i = 0; words[i] != NULL && n < 65; i++)
    if (words[i][0] != '\0' && !is_number (words[i], &numbers[n++]))
      return;   /* text */
  /* the line of column numbers of nvbandwidth has no row: its first is 0 and all are whole and small */
  bool columns = section->table && n > 0;

  for (int i = 0; i < n; i++)
    columns &= numbers[i] == i;
  if (n < 2 || columns || (!section->table && n != 2))
    return;
  for (int i = 1; i < n; i++) {
    ZsRate rate = (ZsRate) llrint (CLAMP (numbers[i] * section->unit, 0, 1e13));

    if (rate > 1000000)
      g_array_append_val (section->list, rate);
  }
}

ZsBandwidthLog *
zs_bandwidth_log_parse (const char *file, const char *text, GError **error)
{
  g_autoptr (ZsBandwidthLog) log = g_new0 (ZsBandwidthLog, 1);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  Section section = { NULL, false, true, 1e9 };

  log->to_gpu = g_array_new (FALSE, FALSE, sizeof (ZsRate));
  log->to_host = g_array_new (FALSE, FALSE, sizeof (ZsRate));
  for (int i = 0; lines[i] != NULL; i++) {
    const char *line = g_strstrip (lines[i]);

    if (g_str_has_prefix (line, "Running ")) {
      section.table = true;
      section.unit = 1e9;
      section.pinned = true;
      section.list = g_str_has_prefix (line, "Running host_to_device_memcpy_ce")   ? log->to_gpu
                     : g_str_has_prefix (line, "Running device_to_host_memcpy_ce") ? log->to_host : NULL;
    }
    else if (strstr (line, "Bandwidth, ") != NULL) {
      section.table = false;
      section.pinned = false;
      section.list = strstr (line, "Host to Device") != NULL   ? log->to_gpu
                     : strstr (line, "Device to Host") != NULL ? log->to_host : NULL;
    }
    else if (strstr (line, "PINNED") != NULL)
      section.pinned = true;
    else if (strstr (line, "PAGEABLE") != NULL)
      section.pinned = false;
    else if (strstr (line, "Bandwidth(MB/s)") != NULL)
      section.unit = 1e6;
    else if (strstr (line, "Bandwidth(GB/s)") != NULL)
      section.unit = 1e9;
    else if (g_str_has_prefix (line, "SUM ") || g_str_has_prefix (line, "Waived"))
      section.list = NULL;
    else if (section.list != NULL && section.pinned)
      read_numbers (&section, line);
  }
  if (log->to_gpu->len + log->to_host->len == 0) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s:1:1: no rate of pinned copies between host and GPU in this text", file);
    return NULL;
  }
  return g_steal_pointer (&log);
}
