/* summary.c: the first screen.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/report/summary.h"

#include "sim/base/units.h"

#define NAME_ROOM 26     /* columns of a row's name */
#define MAX_HOLDERS 8

void
zs_change_clear (ZsChange *change)
{
  g_clear_pointer (&change->change, g_free);
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

static void
append_time (ZsText *text, ZsTime time)
{
  g_autofree char *formatted = zs_time_format (time);

  zs_text_append (text, "%s", formatted);
}

/* Where in the run: "step 2, backward of micro-step 1". */
static char *
place (int step, ZsPhase phase, int micro_step)
{
  if (step == 0)
    return g_strdup_printf ("while the model is %s",
                            phase == ZS_PHASE_LOAD ? "loaded" : "made ready (engine initialisation)");
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
  g_autofree char *layer
      = oom->layer >= 0 ? g_strdup_printf (", layer %d", oom->layer) : g_strdup ("");
  int64_t missing = oom->tried_bytes - oom->free_bytes;

  zs_text_styled (text, ZS_STYLE_BAD, "OUT OF MEMORY");
  zs_text_append (text, " %s (rank %" G_GINT64_FORMAT "%s: %s)\n", where, oom->rank, layer,
                  oom->op != NULL && oom->op[0] != '\0' ? oom->op : "model");
  zs_text_append (text, "  %s of %s did not fit: ", request, zs_category_name (oom->category));
  append_bytes (text, oom->allocated_bytes);
  zs_text_append (text, " allocated, ");
  append_bytes (text, oom->reserved_bytes);
  zs_text_append (text, " reserved");
  if (missing > 0) {
    zs_text_append (text, "; short by ");
    append_bytes (text, missing);
  }
  zs_text_append (text, "\n");
  if (needed_bytes > 0) {
    zs_text_append (text, "  On a GPU with room for it the run would need ");
    append_bytes (text, needed_bytes);
    if (result->gpu_memory_bytes > 0) {
      zs_text_append (text, "; this one has ");
      append_bytes (text, result->gpu_memory_bytes);
    }
    zs_text_append (text, ".\n");
  }
  if (oom->message != NULL)
    zs_text_wrap (text, "  ", 2, oom->message);
}

static void
write_verdict (const ZsSummary *summary, ZsText *text)
{
  const ZsResult *result = summary->result;
  int64_t limit = result->limit_bytes > 0 ? result->limit_bytes : result->gpu_memory_bytes;
  int64_t used = result->limit_bytes > 0 ? result->peak_reserved_bytes : result->peak_device_bytes;

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
  if (result->alloc_retries > 0)
    zs_text_append (text,
                    ", but only just: the allocator\n  had to flush its cache and retry %" G_GINT64_FORMAT
                    " times, which is slow",
                    result->alloc_retries);
  zs_text_append (text, "\n");
}

static void
write_holders (const ZsResult *result, ZsText *text)
{
  const GArray *holders = result->peak_holders;
  int64_t others = 0;
  g_autofree char *where
      = place (result->peak_step, result->peak_phase, result->peak_micro_step);

  zs_text_append (text, "\n");
  zs_text_styled (text, ZS_STYLE_BOLD, "GPU memory at the peak");
  zs_text_append (text, " (%s)\n", where);
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
    zs_text_bar (text, text->width - NAME_ROOM - 18, holder->bytes, result->peak_allocated_bytes);
    zs_text_append (text, "\n");
  }
  if (others >= INT64_C (5) << 20) {
    zs_text_append (text, "  %-*s", NAME_ROOM, "others");
    append_gib (text, others);
    zs_text_append (text, "\n");
  }
  zs_text_append (text, "  %-*s", NAME_ROOM, "allocated");
  append_gib (text, result->peak_allocated_bytes);
  zs_text_append (text, "\n  %-*s", NAME_ROOM, "reserved by PyTorch");
  append_gib (text, result->peak_reserved_bytes);
  zs_text_append (text, "\n  %-*s", NAME_ROOM, "with CUDA and NCCL");
  append_gib (text, result->peak_device_bytes);
  if (result->gpu_memory_bytes > 0) {
    zs_text_append (text, "  of ");
    append_bytes (text, result->gpu_memory_bytes);
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

static void
write_time (const ZsResult *result, ZsText *text)
{
  if (result->step_time_ps <= 0)
    return;
  zs_text_append (text, "\n");
  zs_text_styled (text, ZS_STYLE_BOLD, "Time of a step");
  zs_text_append (text, " ");
  append_time (text, result->step_time_ps);
  zs_text_append (text, "\n");
  for (int wait = 0; wait < ZS_N_WAITS; wait++) {
    if (result->wait_ps[wait] <= 0)
      continue;
    g_autofree char *time = zs_time_format (result->wait_ps[wait]);

    zs_text_append (text, "  %-*s%12s  ", NAME_ROOM, WAIT_WORDS[wait], time);
    zs_text_bar (text, text->width - NAME_ROOM - 18, result->wait_ps[wait], result->step_time_ps);
    zs_text_append (text, "\n");
  }
  zs_text_append (text, "  %.0f tokens/s per GPU, %.3g samples/s, %.0f TFLOPS per GPU, MFU %.0f %%\n",
                  result->tokens_per_second_per_gpu, result->samples_per_second,
                  result->tflops_per_gpu, 100 * result->mfu);
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
  append_bytes (text, result->host_pinned_peak_bytes);
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

static void
write_changes (const ZsSummary *summary, ZsText *text)
{
  const ZsResult *result = summary->result;
  double before = result->outcome == ZS_OUTCOME_OK ? result->tokens_per_second_per_gpu : 0;

  if (summary->n_changes == 0 && summary->changes_said == NULL)
    return;
  zs_text_append (text, "\n");
  zs_text_styled (text, ZS_STYLE_BOLD, "What would help most");
  zs_text_append (text, "\n");
  for (int i = 0; i < summary->n_changes; i++) {
    const ZsChange *change = &summary->changes[i];

    zs_text_append (text, "  %d ", i + 1);
    zs_text_styled (text, ZS_STYLE_BOLD, "%s", change->change);
    zs_text_append (text, "\n    ");
    if (change->outcome == ZS_OUTCOME_OK) {
      zs_text_append (text, "fits with ");
      append_bytes (text, change->peak_device_bytes);
    } else {
      zs_text_append (text, "does not fit alone");
    }
    if (change->outcome == ZS_OUTCOME_OK && change->step_time > 0) {
      zs_text_append (text, "; step ");
      append_time (text, change->step_time);
      zs_text_append (text, ", %.0f tokens/s per GPU", change->tokens_per_second_per_gpu);
      if (before > 0)
        zs_text_append (text, " (%+.0f %%)",
                        100.0 * (change->tokens_per_second_per_gpu / before - 1));
    }
    if (change->host_bytes > INT64_C (1) << 30) {
      zs_text_append (text, "; host ");
      append_bytes (text, change->host_bytes);
    }
    zs_text_append (text, "\n");
    if (change->reason != NULL)
      zs_text_wrap (text, "    ", 4, change->reason);
  }
  if (summary->changes_said != NULL)
    zs_text_wrap (text, "  ", 2, summary->changes_said);
}

void
zs_summary_write (const ZsSummary *summary, ZsText *text)
{
  zs_text_styled (text, ZS_STYLE_BOLD, "%s", summary->title);
  zs_text_append (text, "\n");
  for (const char *const *line = summary->settings; line != NULL && *line != NULL; line++)
    zs_text_wrap (text, "", 2, *line);
  zs_text_append (text, "\n");
  write_verdict (summary, text);
  write_holders (summary->result, text);
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
