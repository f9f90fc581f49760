/* result.h: what a run found.  A value: sim/report and sim/study read it and never the run.
 * SPDX-License-Identifier: MIT
 *
 * The names of the JSON contract are these members' names.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

#include "sim/base/time.h"
#include "sim/plan/instruction.h"

typedef enum { ZS_OUTCOME_OK, ZS_OUTCOME_OOM, ZS_OUTCOME_HOST_OOM } ZsOutcome;

/* What the steady step's time went to.  Every picosecond of the step of the reported rank belongs to
 * one of these, by what its compute stream did or waited for. */
typedef enum {
  ZS_WAIT_COMPUTE,          /* a kernel of the model ran */
  ZS_WAIT_COMMUNICATION,    /* nothing ran: waiting for a collective */
  ZS_WAIT_OFFLOAD,          /* waiting for a copy to or from the host, NVMe, or for CPU work of offload */
  ZS_WAIT_OPTIMIZER,        /* optimizer kernels, CPU Adam */
  ZS_WAIT_HOST,             /* the GPU had nothing to do: the host had not launched yet */
  ZS_N_WAITS
} ZsWait;

typedef struct {
  ZsPhase phase;
  int     step, micro_step;
  ZsTime  start, time;
  int64_t peak_allocated_bytes, peak_reserved_bytes;
  int64_t start_allocated_bytes, end_allocated_bytes, end_reserved_bytes;
} ZsPhaseResult;

typedef struct {
  int     step;
  ZsTime  time;
} ZsStepResult;

typedef struct {
  ZsCategory category;
  int64_t    bytes;
} ZsHolder;

/* A tensor alive at the peak (largest first), or at the moment of an OOM. */
typedef struct {
  ZsCategory  category;
  int32_t     layer;         /* -1 outside the layers */
  const char *what;          /* static */
  int64_t     bytes;         /* of the block: with rounding */
  int         count;         /* equal ones in one row */
} ZsLiveTensor;

typedef struct {
  int64_t     rank;
  int         step, micro_step;
  ZsPhase     phase;
  int32_t     layer;
  const char *op;            /* static */
  ZsCategory  category;      /* of what was to be allocated */
  int64_t     request_bytes; /* asked for */
  int64_t     tried_bytes;   /* as PyTorch prints it: the segment's size */
  int64_t     allocated_bytes, reserved_bytes, free_bytes, limit_bytes;
  char       *message;       /* PyTorch's own text */
} ZsOom;

/* One bar of the timeline. */
typedef struct {
  int32_t     rank;
  uint8_t     track;         /* ZsTrack */
  uint8_t     kind;          /* of the instruction */
  uint8_t     cause;         /* ZsWait: of kernels, and of ZS_TRACK_WAIT */
  ZsTime      start, end;
  const char *name;          /* static */
  int32_t     layer;
  int64_t     bytes;
  bool        critical;      /* on the steady step's critical path */
} ZsSpan;

typedef enum {
  ZS_TRACK_HOST,
  ZS_TRACK_STREAM,           /* + ZsStreamId */
  ZS_TRACK_COLLECTIVE = ZS_TRACK_STREAM + ZS_N_STREAMS,   /* + communicator (0-3) */
  ZS_TRACK_COPY_IN = ZS_TRACK_COLLECTIVE + 4,
  ZS_TRACK_COPY_OUT,
  ZS_TRACK_CPU,
  ZS_TRACK_NVME,
  ZS_TRACK_WAIT,             /* what the compute stream waited for, or did besides kernels: with its
                                kernels these spans cover it without a gap */
  ZS_N_TRACKS
} ZsTrack;

/* A point of the memory timeline of the reported rank: after one allocation or free. */
typedef struct {
  ZsTime  when;              /* host time */
  int64_t allocated_bytes, reserved_bytes;
} ZsMemoryPoint;

/* One entry of the allocator's history, as PyTorch's recorder would write it. */
typedef struct {
  uint8_t     action;        /* ZsAllocatorAction (sim/memory) */
  uint8_t     stream;
  ZsCategory  category;
  int32_t     layer;
  const char *what;
  ZsTime      when;
  int64_t     address, bytes;   /* as requested */
  int64_t     block_bytes;   /* what it takes of its segment: as counted in allocated */
} ZsMemoryEvent;

/* Use of one link of the machine over the steady step. */
typedef struct {
  char    name[48];
  int32_t resource;          /* number of the machine's resource */
  ZsRate  rate;
  int64_t bytes;
  ZsTime  busy;
} ZsLinkUse;

/* What crosses one resource of the machine from a moment on. */
typedef struct {
  ZsTime  when;
  int32_t resource;
  ZsRate  rate;
} ZsLinkPoint;

typedef struct {
  ZsOutcome outcome;
  ZsOom     oom;             /* outcome OOM */
  int64_t   reported_rank, n_ranks, n_distinct_plans;

  ZsTime    step_time_ps;    /* the steady step: the last simulated; where steps differ the mean of
                                all but the first */
  ZsTime    wait_ps[ZS_N_WAITS];   /* sums to step_time_ps */
  bool      steps_differ;    /* micro-batches are of different lengths */
  double    padding_share;   /* of the tokens that were computed, where steps differ */
  double    tokens_per_second_per_gpu, samples_per_second, tflops_per_gpu, mfu, hfu;

  int64_t   peak_allocated_bytes, peak_reserved_bytes, peak_device_bytes;
  int64_t   context_bytes, communicator_bytes;      /* parts of peak_device_bytes outside torch */
  int64_t   gpu_memory_bytes, limit_bytes;          /* what there is; what torch may reserve (0: all) */
  int64_t   host_pinned_peak_bytes, host_pageable_peak_bytes;      /* per node */
  int64_t   host_pinned_peak_bytes_per_rank, host_pageable_peak_bytes_per_rank;
  int64_t   host_memory_bytes;                      /* what the node has; 0 unknown */
  int64_t   nvme_bytes;                             /* per node */
  int       peak_step, peak_micro_step;
  ZsPhase   peak_phase;
  int64_t   alloc_retries;

  GArray   *steps;           /* ZsStepResult */
  GArray   *phases;          /* ZsPhaseResult, in order; load and init are step 0 */
  GArray   *peak_holders;    /* ZsHolder, largest first */
  GArray   *live;            /* ZsLiveTensor at the peak or at the OOM; largest first */
  GArray   *links;           /* ZsLinkUse */
  GArray   *spans;           /* ZsSpan, when asked for */
  GArray   *memory_points;   /* ZsMemoryPoint, when asked for */
  GArray   *memory_events;   /* ZsMemoryEvent, when asked for */
  GArray   *link_points;     /* ZsLinkPoint by time, when asked for */

  /* what the run cost us */
  int64_t   n_instructions, n_events;
  int64_t   n_repeated;      /* instructions among these of steps and micro-steps that repeat others */
} ZsResult;

void zs_result_free (ZsResult *result);
/* Another RESULT, which shares its arrays: they are not to be changed. */
ZsResult *zs_result_copy (const ZsResult *result) G_GNUC_WARN_UNUSED_RESULT;
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsResult, zs_result_free)

/* Less than 1/25 of a GPU is left: as much as predicted and measured reserved bytes differ by at worst
 * (docs/memory.md), and drivers and libraries from machine to machine. */
bool        zs_is_tight (int64_t used, int64_t gpu_memory);
const char *zs_category_name (ZsCategory category);   /* "gathered parameters" */
const char *zs_outcome_name (ZsOutcome outcome);      /* "ok", "oom", "host-oom" */
const char *zs_phase_name (ZsPhase phase);            /* "forward" */
const char *zs_wait_name (ZsWait wait);               /* "compute", "exposed_communication", ... */
/* What bounds the steady step: the host if the GPU waits for it a quarter of the time; else what takes
 * longest of the GPU's own work (ZS_WAIT_COMPUTE), communication, and offload with its optimizer. */
ZsWait zs_result_bound (const ZsResult *result);
/* Of the last step that ended, which spans and the use of links are about. */
ZsTime zs_result_last_step_time (const ZsResult *result);
const char *zs_bound_name (ZsWait bound);             /* "gpu", "communication", "offload", "host" */
