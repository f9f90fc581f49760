/* summary.c: the first screen.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/report/summary.h"

#include <string.h>

#include "sim/base/units.h"

#define NAME_ROOM 26     /* columns of a row's name */
#define MAX_HOLDERS 8

void
zs_change_clear (ZsChange *change)
{
  g_clear_pointer (&change->change, g_free);
  g_clear_pointer (&change->sets, g_strfreev);
  g_clear_pointer (&change->reason, g_free);
}

static void
append_bytes (ZsText *text, int64_t bytes)
{
  g_autofree char *formatted = zs_bytes_format (bytes);

  zs_text_append (text, "%s", formatted);
}

/* Two decimals in one unit, so that a column can be compared: "12.34 GiB". */
static void
append_gib (ZsText *text, int64_t bytes)
{
  zs_text_append (text, "%8.2f GiB", (double) bytes / 1073741824.0);
}

/* All times of one table in one unit, that of the WHOLE, so that they can be compared. */
static char *
table_time (ZsTime time, ZsTime whole)
{
  double seconds = zs_time_to_seconds (time);

  if (whole >= 10 * ZS_SECOND)
    return g_strdup_printf ("%.2f s", seconds);
  if (whole >= ZS_SECOND)
    return g_strdup_printf ("%.3f s", seconds);
  return g_strdup_printf (whole >= 100 * ZS_MILLISECOND ? "%.1f ms" : "%.3f ms", seconds * 1e3);
}

/* Where in the run: "step 2, backward of micro-step 1". */
static char *
place (int step, ZsPhase phase, int micro_step)
{
  if (step == 0)
    return g_strdup (phase == ZS_PHASE_LOAD ? "while the model is loaded"
                                            : "while the engine is initialised");
  if (phase == ZS_PHASE_FORWARD || phase == ZS_PHASE_BACKWARD)
    return g_strdup_printf ("in step %d, %s of micro-step %d", step, zs_phase_name (phase),
                            micro_step + 1);
  return g_strdup_printf ("in step %d, %s", step, zs_phase_name (phase));
}

static void
write_oom (const ZsResult *result, int64_t needed_bytes, ZsText *text)
{
  const ZsOom *oom = &result->oom;
  g_autofree char *where = place (oom->step, oom->phase, oom->micro_step);
  g_autofree char *request = zs_bytes_format (oom->request_bytes);
  g_autofree char *allocated = zs_bytes_format (oom->allocated_bytes);
  g_autofree char *reserved = zs_bytes_format (oom->reserved_bytes);
  g_autofree char *layer
      = oom->layer >= 0 ? g_strdup_printf (", layer %d", oom->layer) : g_strdup ("");
  g_autofree char *who
      = g_strdup_printf ("(rank %" G_GINT64_FORMAT "%s: %s)", oom->rank, layer,
                         oom->op != NULL && oom->op[0] != '\0' ? oom->op : "model");
  int64_t missing = oom->tried_bytes - oom->free_bytes;
  GString *sizes = g_string_new (NULL);

  zs_text_styled (text, ZS_STYLE_BAD, "OUT OF MEMORY");
  zs_text_append (text, " %s%s%s\n", where,
                  (int) (strlen ("OUT OF MEMORY  ") + strlen (where) + strlen (who)) > text->width
                      ? "\n  " : " ", who);
  g_string_append_printf (sizes, "%s of %s did not fit: %s allocated, %s reserved", request,
                          zs_category_name (oom->category), allocated, reserved);
  if (missing > 0) {
    g_autofree char *short_by = zs_bytes_format (missing);

    g_string_append_printf (sizes, "; short by %s", short_by);
  }
  zs_text_wrap (text, "  ", 2, sizes->str);
  g_string_free (sizes, TRUE);
  if (needed_bytes > 0) {
    g_autofree char *needed = zs_bytes_format (needed_bytes);
    g_autofree char *has = zs_bytes_format (result->gpu_memory_bytes);
    GString *need = g_string_new (NULL);

    g_string_printf (need, "On a GPU with room for it the run would need %s", needed);
    if (result->gpu_memory_bytes > 0)
      g_string_append_printf (need, "; this one has %s", has);
    if (result->limit_bytes > 0) {
      g_autofree char *limit = zs_bytes_format (result->limit_bytes);

      g_string_append_printf (need, ", of which PyTorch may reserve %s", limit);
    }
    g_string_append_c (need, '.');
    zs_text_wrap (text, "  ", 2, need->str);
    g_string_free (need, TRUE);
  }
  if (oom->message != NULL)
    zs_text_wrap (text, "  ", 2, oom->message);
}

static void
write_fits (const ZsResult *result, ZsText *text)
{
  int64_t limit = result->limit_bytes > 0 ? result->limit_bytes : result->gpu_memory_bytes;
  int64_t used = result->limit_bytes > 0 ? result->peak_reserved_bytes : result->peak_device_bytes;

  zs_text_styled (text, ZS_STYLE_GOOD, "FITS");
  if (limit > 0) {
    zs_text_append (text, ": ");
    append_bytes (text, used);
    zs_text_append (text, " of ");
    append_bytes (text, limit);
    zs_text_append (text, " per GPU at the peak (");
    zs_text_percent (text, used, limit);
    zs_text_append (text, ")");
  }
  zs_text_append (text, "\n");
  if (result->alloc_retries > 0) {
    g_autofree char *times
        = result->alloc_retries == 1
              ? g_strdup ("once") : g_strdup_printf ("%" G_GINT64_FORMAT " times", result->alloc_retries);
    g_autofree char *just = g_strdup_printf (
        "But only just: the allocator had to flush its cache and try again %s, which is slow.", times);

    zs_text_wrap (text, "  ", 2, just);
  } else if (zs_is_tight (used, limit)) {
    zs_text_wrap (text, "  ", 2,
                  "With little to spare: another driver, or a program beside it, may tip it over.");
  }
}

static void
write_verdict (const ZsSummary *summary, ZsText *text)
{
  const ZsResult *result = summary->result;

  if (result->outcome == ZS_OUTCOME_OOM) {
    write_oom (result, summary->needed_bytes, text);
    return;
  }
  if (result->outcome == ZS_OUTCOME_HOST_OOM) {
    zs_text_styled (text, ZS_STYLE_BAD, "OUT OF HOST MEMORY");
    zs_text_append (text, ": each node needs ");
    append_bytes (text, result->host_pinned_peak_bytes + result->host_pageable_peak_bytes);
    zs_text_append (text, ", has ");
    append_bytes (text, result->host_memory_bytes);
    zs_text_append (text, "\n  The kernel kills a process then: exit -9, not a CUDA error.\n");
    return;
  }
  write_fits (result, text);
}

/* At the peak; or, if it did not fit, when it failed: what counts then is who was in the way. */
static void
write_holders (const ZsResult *result, ZsText *text)
{
  const GArray *holders = result->peak_holders;
  bool failed = result->outcome == ZS_OUTCOME_OOM;
  int64_t allocated = failed ? result->oom.allocated_bytes : result->peak_allocated_bytes;
  int64_t reserved = failed ? result->oom.reserved_bytes : result->peak_reserved_bytes;
  int64_t others = 0;
  g_autofree char *where
      = place (result->peak_step, result->peak_phase, result->peak_micro_step);

  zs_text_append (text, "\n");
  zs_text_styled (text, ZS_STYLE_BOLD, failed ? "GPU memory when it failed" : "GPU memory at the peak");
  if (!failed)
    zs_text_append (text, " (%s)", where);
  zs_text_append (text, "\n");
  for (guint i = 0; holders != NULL && i < holders->len; i++) {
    const ZsHolder *holder = &g_array_index (holders, ZsHolder, i);

    /* what would print as 0.00 GiB joins the others */
    if (i >= MAX_HOLDERS || holder->bytes < INT64_C (5) << 20) {
      others += holder->bytes;
      continue;
    }
    zs_text_append (text, "  %-*s", NAME_ROOM, zs_category_name (holder->category));
    append_gib (text, holder->bytes);
    zs_text_append (text, "  ");
    zs_text_bar (text, text->width - NAME_ROOM - 18, holder->bytes, allocated);
    zs_text_append (text, "\n");
  }
  if (others >= INT64_C (5) << 20) {
    zs_text_append (text, "  %-*s", NAME_ROOM, "others");
    append_gib (text, others);
    zs_text_append (text, "\n");
  }
  zs_text_append (text, "  %-*s", NAME_ROOM, "allocated");
  append_gib (text, allocated);
  zs_text_append (text, "\n  %-*s", NAME_ROOM, "reserved by PyTorch");
  append_gib (text, reserved);
  zs_text_append (text, "\n  %-*s", NAME_ROOM, "with CUDA and NCCL");
  append_gib (text, failed ? reserved + result->context_bytes + result->communicator_bytes
                           : result->peak_device_bytes);
  if (result->gpu_memory_bytes > 0) {
    zs_text_append (text, "  of ");
    append_bytes (text, result->gpu_memory_bytes);
  }
  zs_text_append (text, "\n");
}

/* Peaks of the steps up to STEP. */
static void
peaks_until (const ZsResult *result, int step, int64_t *ret_allocated, int64_t *ret_reserved)
{
  *ret_allocated = *ret_reserved = 0;
  for (guint p = 0; p < result->phases->len; p++) {
    const ZsPhaseResult *phase = &g_array_index (result->phases, ZsPhaseResult, p);

    if (phase->step < 1 || phase->step > step)
      continue;
    *ret_allocated = MAX (*ret_allocated, phase->peak_allocated_bytes);
    *ret_reserved = MAX (*ret_reserved, phase->peak_reserved_bytes);
  }
}

/* Where micro-batches are of different lengths: how far memory has grown after some steps. */
static void
write_growth (const ZsResult *result, ZsText *text)
{
  static const int STEPS[] = { 1, 3, 10, 30, 100 };
  enum { COLUMN = 9, MOST = 5 };
  int steps[G_N_ELEMENTS (STEPS) + 1], n = 0, last = 0;
  int64_t peaks[2];

  if (!result->steps_differ || result->phases->len == 0)
    return;
  last = g_array_index (result->phases, ZsPhaseResult, result->phases->len - 1).step;
  for (size_t i = 0; i < G_N_ELEMENTS (STEPS) && STEPS[i] < last; i++)
    steps[n++] = STEPS[i];
  if (last < 1)
    return;
  steps[n++] = last;
  int first = MAX (n - MOST, 0);

  zs_text_append (text, "\n");
  zs_text_styled (text, ZS_STYLE_BOLD, "%-*s", NAME_ROOM + 2, "Lengths vary: peak by step");
  for (int i = first; i < n; i++)
    zs_text_append (text, "%*d", COLUMN, steps[i]);
  for (int row = 0; row < 2; row++) {
    zs_text_append (text, "\n  %-*s", NAME_ROOM, row == 0 ? "allocated" : "reserved by PyTorch");
    for (int i = first; i < n; i++) {
      peaks_until (result, steps[i], &peaks[0], &peaks[1]);
      zs_text_append (text, "%*.2f", COLUMN, (double) peaks[row] / 1073741824.0);
    }
    zs_text_append (text, " GiB");
  }
  zs_text_append (text, "\n");
}

static const char *const WAIT_WORDS[ZS_N_WAITS] = {
  [ZS_WAIT_COMPUTE] = "compute",
  [ZS_WAIT_COMMUNICATION] = "waiting for other GPUs",
  [ZS_WAIT_OFFLOAD] = "waiting for offload",
  [ZS_WAIT_OPTIMIZER] = "optimizer",
  [ZS_WAIT_HOST] = "waiting for Python",
};

static const char *const BOUND_WORDS[ZS_N_WAITS] = {
  [ZS_WAIT_COMPUTE] = "the GPU", [ZS_WAIT_OPTIMIZER] = "the GPU", [ZS_WAIT_COMMUNICATION] = "communication",
  [ZS_WAIT_OFFLOAD] = "offload", [ZS_WAIT_HOST] = "Python",
};

static void
write_time (const ZsResult *result, ZsText *text)
{
  if (result->step_time_ps <= 0)
    return;
  g_autofree char *whole = table_time (result->step_time_ps, result->step_time_ps);

  zs_text_append (text, "\n");
  if (result->outcome == ZS_OUTCOME_OOM && result->steps->len > 0 && !result->steps_differ)
    zs_text_styled (text, ZS_STYLE_BOLD, "Time of step %d, the last that ended:",
                    g_array_index (result->steps, ZsStepResult, result->steps->len - 1).step);
  else
    zs_text_styled (text, ZS_STYLE_BOLD, result->steps_differ ? "Mean time of a step" : "Time of a step");
  zs_text_append (text, " %s, bound by %s\n", whole, BOUND_WORDS[zs_result_bound (result)]);
  for (int wait = 0; wait < ZS_N_WAITS; wait++) {
    if (result->wait_ps[wait] <= 0)
      continue;
    g_autofree char *time = table_time (result->wait_ps[wait], result->step_time_ps);

    zs_text_append (text, "  %-*s%12s  ", NAME_ROOM, WAIT_WORDS[wait], time);
    zs_text_bar (text, text->width - NAME_ROOM - 18, result->wait_ps[wait], result->step_time_ps);
    zs_text_append (text, "\n");
  }
  zs_text_append (text, "  %.0f tokens/s per GPU, %.3g samples/s, %.0f TFLOPS per GPU, MFU %.0f %%\n",
                  result->tokens_per_second_per_gpu, result->samples_per_second,
                  result->tflops_per_gpu, 100 * result->mfu);
  if (result->padding_share > 0.0005)
    zs_text_append (text, "  %.1f %% of the tokens computed are padding, which tokens/s does not count\n",
                    100 * result->padding_share);
}

static void
write_host (const ZsResult *result, ZsText *text)
{
  int64_t bytes = result->host_pinned_peak_bytes + result->host_pageable_peak_bytes;

  if (bytes < INT64_C (64) << 20 && result->nvme_bytes == 0)
    return;
  zs_text_append (text, "\n");
  zs_text_styled (text, ZS_STYLE_BOLD, "Host memory per node");
  zs_text_append (text, " ");
  append_bytes (text, bytes);
  zs_text_append (text, " (");
  if (result->host_pinned_peak_bytes > 0)
    append_bytes (text, result->host_pinned_peak_bytes);
  else
    zs_text_append (text, "none");
  zs_text_append (text, " of it pinned)");
  if (result->host_memory_bytes > 0) {
    zs_text_append (text, " of ");
    append_bytes (text, result->host_memory_bytes);
  }
  if (result->nvme_bytes > 0) {
    zs_text_append (text, "; NVMe ");
    append_bytes (text, result->nvme_bytes);
  }
  zs_text_append (text, "\n");
}

/* What a change leads to, in a line: "fits in 12.46 GiB; step 4.044 s, 506 tokens/s per GPU". */
static char *
outcome_of (const ZsChange *change, const ZsResult *before)
{
  GString *line = g_string_new (NULL);
  double rate = before->outcome == ZS_OUTCOME_OK ? before->tokens_per_second_per_gpu : 0;

  if (change->outcome == ZS_OUTCOME_OK) {
    g_autofree char *bytes = zs_bytes_format (change->peak_device_bytes);

    g_string_append_printf (line, "fits in %s%s", bytes,
                            change->tight ? ", with little to spare" : "");
  } else {
    g_string_append (line, "does not fit alone");
  }
  if (change->outcome == ZS_OUTCOME_OK && change->step_time > 0) {
    g_autofree char *time = zs_time_format (change->step_time);

    g_string_append_printf (line, "; step %s, %.0f tokens/s per GPU", time,
                            change->tokens_per_second_per_gpu);
    if (rate > 0)
      g_string_append_printf (line, " (%+.0f %%)",
                              100.0 * (change->tokens_per_second_per_gpu / rate - 1));
  }
  if (change->host_bytes > INT64_C (1) << 30) {
    g_autofree char *host = zs_bytes_format (change->host_bytes);

    g_string_append_printf (line, "; host %s", host);
  }
  return g_string_free (line, FALSE);
}

static void
write_changes (const ZsSummary *summary, ZsText *text)
{
  if (summary->n_changes == 0 && summary->changes_said == NULL)
    return;
  zs_text_append (text, "\n");
  zs_text_styled (text, ZS_STYLE_BOLD, "What would help most");
  zs_text_append (text, "\n");
  for (int i = 0; i < summary->n_changes; i++) {
    const ZsChange *change = &summary->changes[i];
    g_autofree char *outcome = outcome_of (change, summary->result);

    g_autofree char *number = g_strdup_printf ("  %d ", i + 1);

    if (g_utf8_strlen (change->change, -1) + 4 > text->width) {
      zs_text_wrap (text, number, 4, change->change);
    } else {
      zs_text_append (text, "%s", number);
      zs_text_styled (text, ZS_STYLE_BOLD, "%s", change->change);
      zs_text_append (text, "\n");
    }
    zs_text_wrap (text, "    ", 4, outcome);
    if (change->reason != NULL)
      zs_text_wrap (text, "    ", 4, change->reason);
  }
  if (summary->changes_said != NULL)
    zs_text_wrap (text, "  ", 2, summary->changes_said);
}

void
zs_summary_write (const ZsSummary *summary, ZsText *text)
{
  if (g_utf8_strlen (summary->title, -1) > text->width) {
    zs_text_wrap (text, "", 2, summary->title);
  } else {
    zs_text_styled (text, ZS_STYLE_BOLD, "%s", summary->title);
    zs_text_append (text, "\n");
  }
  for (const char *const *line = summary->settings; line != NULL && *line != NULL; line++)
    zs_text_wrap (text, "", 2, *line);
  zs_text_append (text, "\n");
  write_verdict (summary, text);
  write_holders (summary->result, text);
  write_growth (summary->result, text);
  write_time (summary->result, text);
  write_host (summary->result, text);
  write_changes (summary, text);
  if (summary->assumed != NULL && summary->assumed[0] != NULL) {
    zs_text_append (text, "\n");
    zs_text_styled (text, ZS_STYLE_BOLD, "Assumed");
    zs_text_append (text, "\n");
    for (const char *const *line = summary->assumed; *line != NULL; line++)
      zs_text_wrap (text, "  ", 4, *line);
  }
}
