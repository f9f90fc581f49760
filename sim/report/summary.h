/* summary.h: the first screen: verdict, peak by holder, time by what it waited for, what would help.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/report/text.h"
#include "sim/run/result.h"

/* A change that was tried, and what came of it. */
typedef struct {
  char     *change;            /* "offload_optimizer.device=cpu" */
  char    **sets;              /* PATH=VALUE as --set takes them; NULL at the end */
  char     *reason;            /* one sentence; may be NULL */
  ZsOutcome outcome;
  int64_t   peak_reserved_bytes, peak_allocated_bytes, peak_device_bytes;
  bool      tight;             /* zs_is_tight () */
  bool      other;             /* another method, or other GPUs */
  int64_t   host_bytes;        /* per node */
  ZsTime    step_time;
  double    tokens_per_second_per_gpu;
} ZsChange;

void zs_change_clear (ZsChange *change);

typedef struct {
  const char     *title;       /* "llama-7b, ZeRO-3, 2 x a100-pcie-40gb" */
  const char *const *settings; /* lines below the title; NULL at the end */
  const ZsResult *result;
  int64_t         needed_bytes;   /* outcome OOM: peak_device_bytes on a GPU with room; 0 unknown */
  const ZsChange *changes;     /* best first */
  int             n_changes;
  const char     *changes_said;    /* what the list of changes is, or why there is none; may be NULL */
  const char *const *assumed;  /* what was assumed, a paragraph each; NULL at the end */
} ZsSummary;

void zs_summary_write (const ZsSummary *summary, ZsText *text);
