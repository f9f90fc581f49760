/* memory-table.h: the measured runs of tests/data/h200/memory*.csv, and plans run through the caching
 * allocator in their place.  SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>

#include "sim/job/job.h"

enum { TEST_MEMORY_PHASES = 12 };

typedef struct {
  char    name[8];       /* "model", "engine", "s1_fwd" ... "s3_step" */
  int64_t allocated, reserved, requested;   /* peaks; 0: not measured */
} TestMemoryPhase;

typedef struct {
  char       *id, *set, *framework, *title;   /* title: id, with "*" for the newer DeepSpeed */
  ZsTraining  training;
  char       *alloc_conf;
  int64_t     limit;                 /* of reserved bytes; 0 none */
  bool        usable;                /* it ran to its end without a limit */
  int         n_phases;
  TestMemoryPhase phases[TEST_MEMORY_PHASES];
  int64_t     train_allocated, train_reserved;   /* without model construction and engine */
  int64_t     pinned;                /* host memory that torch pinned, whole pages */
  char       *oom;                   /* "CUDA out of memory. Tried to allocate ...", or "" */
  int64_t     retries;
} TestMemoryRow;

typedef struct {
  TestMemoryPhase phases[TEST_MEMORY_PHASES];
  int64_t         train_allocated, train_reserved, pinned;
  int64_t         tried, retries;    /* if it does not fit: the segment that was refused */
} TestMemoryResult;

/* Elements are TestMemoryRow, freed with the array. */
GPtrArray *test_memory_rows (void);
/* Within row->limit.  false: the framework is not simulated, or it does not fit. */
bool       test_memory_run  (const TestMemoryRow *row, TestMemoryResult *ret_result);
