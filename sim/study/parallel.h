/* parallel.h: many independent tasks on a few threads.  SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
  /* Task INDEX, in any thread; what it returns (not NULL) is handed to `done`. */
  gpointer (*task) (void *self, int64_t index);
  /* In the calling thread, in the order in which tasks end; takes RESULT.  NULL: none for 200 ms.
   * Returns false to stop. */
  bool     (*done) (void *self, gpointer result);
  void      *self;
  const int *stop;         /* may be NULL; not zero: begin no further task */
} ZsParallel;

/* Runs tasks 0 to N - 1, in order of their beginning, on JOBS threads (0: as many as there are cores).
 * True if all were run. */
bool zs_parallel_run (const ZsParallel *parallel, int64_t n, int jobs);
