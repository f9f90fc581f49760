/* result-json.c: a result as JSON.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/report/result-json.h"

static void
write_oom (const ZsOom *oom, ZsJsonWriter *writer)
{
  zs_json_begin_object (writer, "oom");
  zs_json_int (writer, "rank", oom->rank);
  zs_json_int (writer, "step", oom->step);
  zs_json_string (writer, "phase", zs_phase_name (oom->phase));
  zs_json_int (writer, "micro_step", oom->micro_step);
  zs_json_int (writer, "layer", oom->layer);
  zs_json_string (writer, "op", oom->op);
  zs_json_string (writer, "category", zs_category_name (oom->category));
  zs_json_int (writer, "request_bytes", oom->request_bytes);
  zs_json_int (writer, "tried_bytes", oom->tried_bytes);
  zs_json_int (writer, "allocated_bytes", oom->allocated_bytes);
  zs_json_int (writer, "reserved_bytes", oom->reserved_bytes);
  zs_json_int (writer, "free_bytes", oom->free_bytes);
  zs_json_string (writer, "message", oom->message);
  zs_json_end_object (writer);
}

static bool
has_micro_step (ZsPhase phase)
{
  return phase == ZS_PHASE_FORWARD || phase == ZS_PHASE_BACKWARD;
}

static void
write_phases (const ZsResult *result, int step, ZsJsonWriter *writer)
{
  zs_json_begin_array (writer, "phases");
  for (guint i = 0; i < result->phases->len; i++) {
    const ZsPhaseResult *phase = &g_array_index (result->phases, ZsPhaseResult, i);

    if (phase->step != step)
      continue;
    zs_json_compact (writer);
    zs_json_begin_object (writer, NULL);
    zs_json_string (writer, "phase", zs_phase_name (phase->phase));
    if (has_micro_step (phase->phase))
      zs_json_int (writer, "micro_step", phase->micro_step);
    zs_json_int (writer, "time_ps", phase->time);
    zs_json_int (writer, "peak_allocated_bytes", phase->peak_allocated_bytes);
    zs_json_int (writer, "peak_reserved_bytes", phase->peak_reserved_bytes);
    zs_json_int (writer, "end_allocated_bytes", phase->end_allocated_bytes);
    zs_json_int (writer, "end_reserved_bytes", phase->end_reserved_bytes);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
}

/* Step 0 is what comes before training: load and init. */
static void
write_steps (const ZsResult *result, ZsJsonWriter *writer)
{
  bool has_step_zero = false;

  for (guint i = 0; i < result->phases->len; i++)
    has_step_zero |= g_array_index (result->phases, ZsPhaseResult, i).step == 0;
  zs_json_begin_array (writer, "steps");
  if (has_step_zero) {
    zs_json_begin_object (writer, NULL);
    zs_json_int (writer, "step", 0);
    write_phases (result, 0, writer);
    zs_json_end_object (writer);
  }
  for (guint i = 0; i < result->steps->len; i++) {
    const ZsStepResult *step = &g_array_index (result->steps, ZsStepResult, i);

    if (step->step == 0)
      continue;
    zs_json_begin_object (writer, NULL);
    zs_json_int (writer, "step", step->step);
    zs_json_int (writer, "time_ps", step->time);
    write_phases (result, step->step, writer);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
}

static void
write_peak (const ZsResult *result, ZsJsonWriter *writer)
{
  zs_json_begin_array (writer, "peak_holders");
  for (guint i = 0; i < result->peak_holders->len; i++) {
    const ZsHolder *holder = &g_array_index (result->peak_holders, ZsHolder, i);

    zs_json_compact (writer);
    zs_json_begin_object (writer, NULL);
    zs_json_string (writer, "category", zs_category_name (holder->category));
    zs_json_int (writer, "bytes", holder->bytes);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
  zs_json_begin_array (writer, "peak_tensors");
  for (guint i = 0; i < result->live->len; i++) {
    const ZsLiveTensor *tensor = &g_array_index (result->live, ZsLiveTensor, i);

    zs_json_compact (writer);
    zs_json_begin_object (writer, NULL);
    zs_json_string (writer, "category", zs_category_name (tensor->category));
    zs_json_int (writer, "layer", tensor->layer);
    zs_json_string (writer, "what", tensor->what);
    zs_json_int (writer, "bytes", tensor->bytes);
    zs_json_int (writer, "count", tensor->count);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
}

static void
write_links (const ZsResult *result, ZsJsonWriter *writer)
{
  zs_json_begin_array (writer, "links");
  for (guint i = 0; result->links != NULL && i < result->links->len; i++) {
    const ZsLinkUse *link = &g_array_index (result->links, ZsLinkUse, i);

    zs_json_compact (writer);
    zs_json_begin_object (writer, NULL);
    zs_json_string (writer, "link", link->name);
    zs_json_int (writer, "rate_bytes_per_s", link->rate);
    zs_json_int (writer, "bytes", link->bytes);
    zs_json_int (writer, "busy_ps", link->busy);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
}

static void
write_time (const ZsResult *result, ZsJsonWriter *writer)
{
  zs_json_begin_object (writer, "time");
  for (int wait = 0; wait < ZS_N_WAITS; wait++) {
    char key[48];

    g_snprintf (key, sizeof key, "%s_ps", zs_wait_name (wait));
    zs_json_int (writer, key, result->wait_ps[wait]);
  }
  zs_json_end_object (writer);
  if (result->step_time_ps > 0)
    zs_json_string (writer, "bound_by", zs_bound_name (zs_result_bound (result)));
}

void
zs_result_write_json (const ZsResult *result, const ZsResultNote *notes, int n_notes,
                      ZsJsonWriter *writer)
{
  zs_json_string (writer, "outcome", zs_outcome_name (result->outcome));
  if (result->outcome == ZS_OUTCOME_OOM)
    write_oom (&result->oom, writer);
  zs_json_int (writer, "rank", result->reported_rank);
  zs_json_int (writer, "ranks", result->n_ranks);
  zs_json_int (writer, "distinct_plans", result->n_distinct_plans);
  zs_json_int (writer, "step_time_ps", result->step_time_ps);
  zs_json_number (writer, "tokens_per_second_per_gpu", result->tokens_per_second_per_gpu);
  if (result->steps_differ)
    zs_json_number (writer, "padding_share", result->padding_share);
  zs_json_number (writer, "samples_per_second", result->samples_per_second);
  zs_json_number (writer, "tflops_per_gpu", result->tflops_per_gpu);
  zs_json_number (writer, "mfu", result->mfu);
  zs_json_number (writer, "hfu", result->hfu);
  zs_json_int (writer, "peak_allocated_bytes", result->peak_allocated_bytes);
  zs_json_int (writer, "peak_reserved_bytes", result->peak_reserved_bytes);
  zs_json_int (writer, "peak_device_bytes", result->peak_device_bytes);
  zs_json_int (writer, "context_bytes", result->context_bytes);
  zs_json_int (writer, "communicator_bytes", result->communicator_bytes);
  zs_json_int (writer, "gpu_memory_bytes", result->gpu_memory_bytes);
  zs_json_int (writer, "limit_bytes", result->limit_bytes);
  zs_json_int (writer, "host_pinned_peak_bytes", result->host_pinned_peak_bytes);
  zs_json_int (writer, "host_pageable_peak_bytes", result->host_pageable_peak_bytes);
  zs_json_int (writer, "host_pinned_peak_bytes_per_rank", result->host_pinned_peak_bytes_per_rank);
  zs_json_int (writer, "host_pageable_peak_bytes_per_rank",
               result->host_pageable_peak_bytes_per_rank);
  zs_json_int (writer, "host_memory_bytes", result->host_memory_bytes);
  zs_json_int (writer, "nvme_bytes", result->nvme_bytes);
  zs_json_int (writer, "alloc_retries", result->alloc_retries);
  zs_json_begin_object (writer, "peak");
  zs_json_int (writer, "step", result->peak_step);
  zs_json_string (writer, "phase", zs_phase_name (result->peak_phase));
  zs_json_int (writer, "micro_step", result->peak_micro_step);
  zs_json_end_object (writer);
  write_steps (result, writer);
  write_time (result, writer);
  write_peak (result, writer);
  write_links (result, writer);
  zs_json_begin_array (writer, "notes");
  for (int i = 0; i < n_notes; i++) {
    zs_json_compact (writer);
    zs_json_begin_object (writer, NULL);
    zs_json_string (writer, "code", notes[i].code);
    zs_json_string (writer, "where", notes[i].where);
    zs_json_string (writer, "text", notes[i].text);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
}
