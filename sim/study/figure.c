/* figure.c: data of figures of one result.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/figure.h"

#include <string.h>

#include "sim/memory/caching-allocator.h"

#define MEMORY_POINTS   700     /* columns of a picture that can be told apart */
#define TIMELINE_POINTS 1400
#define MAX_PHASES      14      /* more are not marked one by one */
#define LEAST_SHARE     0.01    /* of the peak: smaller holders go to "others" */

void
zs_figure_set_text (GString *settings, const char *name, const char *value)
{
  g_string_append_printf (settings, "%s = '", name);
  for (; *value != '\0'; value++) {
    if (*value == '\'')
      g_string_append_c (settings, '\'');
    g_string_append_c (settings, *value == '\n' ? ' ' : *value);
  }
  g_string_append (settings, "'\n");
}

void
zs_figure_set_number (GString *settings, const char *name, double value)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];

  g_string_append_printf (settings, "%s = %s\n", name, zs_number_text (value, buffer));
}

/* ---- memory ---- */

static double
gib (int64_t bytes)
{
  return (double) bytes / 1073741824.0;
}

/* The first and last moment of STEP. */
static void
step_window (const ZsResult *result, int step, ZsTime *ret_start, ZsTime *ret_end)
{
  *ret_start = 0;
  *ret_end = 0;
  for (guint i = 0; i < result->phases->len; i++) {
    const ZsPhaseResult *phase = &g_array_index (result->phases, ZsPhaseResult, i);

    if (phase->step != step)
      continue;
    if (*ret_end == 0)
      *ret_start = phase->start;
    *ret_end = phase->start + phase->time;
  }
}

static void
write_phases (const ZsResult *result, int step, ZsTime start, double unit, GString *settings)
{
  int n = 0, n_all = 0;

  for (guint i = 0; i < result->phases->len; i++)
    n_all += g_array_index (result->phases, ZsPhaseResult, i).step == step;
  for (guint i = 0; i < result->phases->len && n_all <= MAX_PHASES; i++) {
    const ZsPhaseResult *phase = &g_array_index (result->phases, ZsPhaseResult, i);

    if (phase->step != step)
      continue;
    n++;
    g_autofree char *at = g_strdup_printf ("phase%d", n);
    g_autofree char *name = g_strdup_printf ("phase_name%d", n);

    zs_figure_set_number (settings, at, (double) (phase->start - start) / unit);
    zs_figure_set_text (settings, name, zs_phase_name (phase->phase));
  }
  zs_figure_set_number (settings, "phases", n);
}

typedef struct {
  int64_t now[ZS_ALLOCATOR_CATEGORIES], all;
} Held;

static void
apply_event (Held *held, const ZsMemoryEvent *event)
{
  int64_t bytes = event->action == ZS_ALLOCATOR_ALLOC            ? event->block_bytes
                  : event->action == ZS_ALLOCATOR_FREE_REQUESTED ? -event->block_bytes
                                                                 : 0;

  held->now[event->category % ZS_ALLOCATOR_CATEGORIES] += bytes;
  held->all += bytes;
}

/* What was held at the highest point of each of MEMORY_POINTS stretches from START to END. */
static GArray *
sample_memory (const ZsResult *result, ZsTime start, ZsTime end, Held *ret_peak, ZsTime *ret_when)
{
  GArray *points = g_array_new (FALSE, TRUE, sizeof (Held));
  Held held = { .all = 0 };
  guint i = 0, n = result->memory_events->len;

  *ret_peak = held;
  *ret_when = start;
  for (int point = 0; point < MEMORY_POINTS; point++) {
    ZsTime until = start + (ZsTime) ((__int128) (end - start) * (point + 1) / MEMORY_POINTS);
    Held highest = held;

    for (; i < n && g_array_index (result->memory_events, ZsMemoryEvent, i).when <= until; i++) {
      const ZsMemoryEvent *event = &g_array_index (result->memory_events, ZsMemoryEvent, i);

      apply_event (&held, event);
      if (event->when < start)
        highest = held;
      else if (held.all > highest.all)
        highest = held;
      if (event->when >= start && held.all > ret_peak->all) {
        *ret_peak = held;
        *ret_when = event->when;
      }
    }
    if (point == 0 && highest.all > ret_peak->all)
      *ret_peak = highest;
    g_array_append_val (points, highest);
  }
  return points;
}

/* Categories by their bytes at PEAK, the largest first. */
static void
order_categories (const Held *peak, int *ret_order)
{
  for (int i = 0; i < ZS_ALLOCATOR_CATEGORIES; i++)
    ret_order[i] = i;
  for (int i = 1; i < ZS_ALLOCATOR_CATEGORIES; i++)
    for (int j = i; j > 0 && peak->now[ret_order[j]] > peak->now[ret_order[j - 1]]; j--) {
      int swap = ret_order[j];

      ret_order[j] = ret_order[j - 1];
      ret_order[j - 1] = swap;
    }
}

void
zs_figure_memory (const ZsResult *result, FILE *data, GString *settings)
{
  ZsTime start, end, when;
  Held peak;
  int order[ZS_ALLOCATOR_CATEGORIES], shown = 0;
  int step = result->outcome == ZS_OUTCOME_OOM ? result->oom.step : result->peak_step;

  step_window (result, step, &start, &end);
  if (result->outcome == ZS_OUTCOME_OOM && result->memory_events->len > 0)
    end = MAX (end, g_array_index (result->memory_events, ZsMemoryEvent,
                                   result->memory_events->len - 1).when);
  g_autoptr (GArray) points = sample_memory (result, start, end, &peak, &when);
  bool seconds = end - start > ZS_SECOND;
  double unit = (double) (seconds ? ZS_SECOND : ZS_MILLISECOND);
  /* whatever is large at some moment of the step has a colour of its own */
  Held most = { .all = peak.all };

  for (guint i = 0; i < points->len; i++)
    for (int c = 0; c < ZS_ALLOCATOR_CATEGORIES; c++)
      most.now[c] = MAX (most.now[c], g_array_index (points, Held, i).now[c]);
  order_categories (&peak, order);

  for (int i = 0; i < ZS_ALLOCATOR_CATEGORIES; i++)
    if ((double) most.now[order[i]] >= LEAST_SHARE * (double) peak.all && most.now[order[i]] > 0)
      order[shown++] = order[i];
  for (guint i = 0; i < points->len; i++) {
    const Held *held = &g_array_index (points, Held, i);
    int64_t left = held->all;

    fprintf (data, "%.6g", (double) (end - start) * (i + 0.5) / MEMORY_POINTS / unit);
    for (int j = 0; j < shown; j++) {
      fprintf (data, "\t%.5g", gib (held->now[order[j]]));
      left -= held->now[order[j]];
    }
    fprintf (data, "\t%.5g\n", gib (left));
  }
  for (int i = 0; i < shown; i++) {
    g_autofree char *name = g_strdup_printf ("name%d", i + 1);

    zs_figure_set_text (settings, name, zs_category_name ((ZsCategory) order[i]));
  }
  g_autofree char *others = g_strdup_printf ("name%d", shown + 1);

  zs_figure_set_text (settings, others, "others");
  zs_figure_set_number (settings, "categories", shown + 1);
  zs_figure_set_text (settings, "unit", seconds ? "s" : "ms");
  zs_figure_set_number (settings, "step", step);
  zs_figure_set_number (settings, "span", (double) (end - start) / unit);
  zs_figure_set_number (settings, "peak_time", (double) (when - start) / unit);
  zs_figure_set_number (settings, "peak", gib (peak.all));
  zs_figure_set_number (settings, "room", gib (result->limit_bytes > 0 ? result->limit_bytes
                                               : result->gpu_memory_bytes - result->context_bytes
                                                   - result->communicator_bytes));
  zs_figure_set_number (settings, "oom", result->outcome == ZS_OUTCOME_OOM);
  write_phases (result, step, start, unit, settings);
}

/* ---- timeline ---- */

static const char *
track_name (int track)
{
  static const char *const STREAMS[ZS_N_STREAMS] = { "compute", "all-gather stream", "reduce stream",
                                         "copy stream", "other stream" };

  if (track == ZS_TRACK_HOST)
    return "host (Python)";
  if (track < ZS_TRACK_COLLECTIVE)
    return STREAMS[track - ZS_TRACK_STREAM];
  if (track < ZS_TRACK_COPY_IN)
    return "collectives";
  return track == ZS_TRACK_COPY_IN    ? "PCIe to the GPU"
         : track == ZS_TRACK_COPY_OUT ? "PCIe to the host"
         : track == ZS_TRACK_CPU      ? "CPU"
                                      : "NVMe";
}

typedef struct {
  ZsTime start, end;
  bool   critical;
} Bar;

static void
write_bar (FILE *data, const Bar *bar, int row, ZsTime start, double unit)
{
  if (bar->end > bar->start)
    fprintf (data, "%.7g\t%.7g\t%d\t%d\n", (double) (bar->start - start) / unit,
             (double) (bar->end - start) / unit, row, bar->critical);
}

/* Bars of TRACK, joined where the gap cannot be seen; false: there are none. */
static bool
write_track (const ZsResult *result, int track, ZsTime start, ZsTime end, int row, double unit, FILE *data)
{
  ZsTime gap = (end - start) / TIMELINE_POINTS;
  Bar bar = { .end = -1 };
  bool any = false;

  for (guint i = 0; i < result->spans->len; i++) {
    const ZsSpan *span = &g_array_index (result->spans, ZsSpan, i);

    if (span->track != track || span->rank != result->reported_rank || span->end <= start
        || span->start >= end)
      continue;
    any = true;
    if (bar.end >= 0 && span->start - bar.end <= gap && span->critical == bar.critical) {
      bar.end = MAX (bar.end, span->end);
      continue;
    }
    write_bar (data, &bar, row, start, unit);
    bar = (Bar) { .start = MAX (span->start, start), .end = MIN (span->end, end),
                  .critical = span->critical };
  }
  write_bar (data, &bar, row, start, unit);
  return any;
}

void
zs_figure_timeline (const ZsResult *result, FILE *data, GString *settings)
{
  int step = result->steps->len > 0
               ? g_array_index (result->steps, ZsStepResult, result->steps->len - 1).step : 1;
  ZsTime start, end;
  int rows = 0;

  step_window (result, step, &start, &end);
  bool seconds = end - start > ZS_SECOND;
  double unit = (double) (seconds ? ZS_SECOND : ZS_MILLISECOND);

  for (int track = 0; track < ZS_TRACK_WAIT; track++)
    if (write_track (result, track, start, end, rows, unit, data)) {
      g_autofree char *name = g_strdup_printf ("track%d", ++rows);

      zs_figure_set_text (settings, name, track_name (track));
    }
  zs_figure_set_number (settings, "tracks", rows);
  zs_figure_set_text (settings, "unit", seconds ? "s" : "ms");
  zs_figure_set_number (settings, "step", step);
  zs_figure_set_number (settings, "span", (double) (end - start) / unit);
  write_phases (result, step, start, unit, settings);
}

/* ---- a step's time ---- */

void
zs_figure_step (ZsResult *const *results, const char *const *names, int n, FILE *data, GString *settings)
{
  ZsTime longest = 0;

  for (int i = 0; i < n; i++)
    longest = MAX (longest, results[i]->step_time_ps);
  bool seconds = longest > ZS_SECOND;
  double unit = (double) (seconds ? ZS_SECOND : ZS_MILLISECOND);

  for (int i = 0; i < n; i++) {
    double from = 0;
    g_autofree char *name = g_strdup_printf ("name%d", i + 1);

    zs_figure_set_text (settings, name, names[i]);
    fprintf (data, i > 0 ? "\n\n" : "");
    for (int wait = 0; wait < ZS_N_WAITS; wait++) {
      double time = (double) results[i]->wait_ps[wait] / unit;

      fprintf (data, "%d\t%.6g\t%.6g\t%.4g\n", wait, from, from + time,
               results[i]->step_time_ps > 0 ? 100.0 * (double) results[i]->wait_ps[wait]
                                                / (double) results[i]->step_time_ps : 0);
      from += time;
    }
    fprintf (data, "%d\t0\t%.6g\t100\n", ZS_N_WAITS, from);
  }
  zs_figure_set_number (settings, "results", n);
  zs_figure_set_text (settings, "unit", seconds ? "s" : "ms");
  zs_figure_set_number (settings, "span", (double) longest / unit);
}

/* ---- collectives ---- */

void
zs_figure_collective (const ZsComm *comm, const ZsCollectiveKind *kinds, int n_kinds,
                      const int64_t *sizes, int n_sizes, FILE *data, GString *settings)
{
  g_autofree ZsCollectiveRow *rows = g_new0 (ZsCollectiveRow, n_sizes);

  for (int i = 0; i < n_kinds; i++) {
    g_autofree char *name = g_strdup_printf ("name%d", i + 1);

    zs_collective_rows (comm, kinds[i], sizes, n_sizes, rows);
    fprintf (data, i > 0 ? "\n\n" : "");
    for (int j = 0; j < n_sizes; j++)
      fprintf (data, "%" G_GINT64_FORMAT "\t%.6g\t%.6g\n", rows[j].bytes, rows[j].busbw,
               (double) rows[j].time / (double) ZS_MICROSECOND);
    zs_figure_set_text (settings, name, zs_collective_name (kinds[i]));
  }
  zs_figure_set_number (settings, "results", n_kinds);
}
