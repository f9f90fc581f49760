/* fsdp-run.h: plans of FSDP through the caching allocator, without time.
 * SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>
#include <stdbool.h>

#include "sim/fsdp/fsdp.h"
#include "sim/model/model.h"

typedef struct {
  ZsModelShape model;
  ZsLora       lora;
  ZsStepShape  shape;
  ZsFsdpConfig config;
  int64_t      rank;
  int          n_steps;
} FsdpCase;

typedef struct {
  char    name[24];       /* "model", "engine", "s1m0_fwd" ... */
  int64_t allocated, peak_allocated, reserved, peak_reserved;
  int64_t host, host_pinned;    /* bytes requested */
  int64_t n_collectives, collective_bytes;
  guint   first_action;   /* of the actions below */
} FsdpPhase;

/* An allocation (positive) or free (negative) of so many bytes on a stream. */
typedef struct {
  int64_t bytes;
  int     stream;
} FsdpAction;

typedef struct {
  GArray *phases, *actions;
} FsdpRun;

/* A case with the settings of the recorded runs: bf16 compute, fp32 shards and reduction, torch 2.11 on
 * an H200. */
FsdpCase fsdp_case  (int64_t hidden, int64_t ffn, int64_t layers, int64_t heads, int64_t kv_heads,
                     int64_t vocabulary, bool tied);
FsdpRun *fsdp_run   (const FsdpCase *test);
void     fsdp_run_free (FsdpRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (FsdpRun, fsdp_run_free)
const FsdpPhase *fsdp_run_phase (const FsdpRun *run, const char *name);
/* Insertions and deletions that turn A into B; LIMIT + 1 when there are more. */
int      fsdp_edit_distance (const FsdpAction *a, int n, const FsdpAction *b, int m, int limit);
