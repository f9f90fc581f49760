/* more.h: the recorded runs of tests/data/h200-more.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/memory/alloc-conf.h"
#include "tests/tools/history.h"

/* Counters of one phase; peaks are since the phase before. */
typedef struct {
  char   *name;          /* "s2m0_fwd" */
  int64_t end_us;
  int64_t allocated, peak_allocated, requested, peak_requested, reserved, peak_reserved;
} TestCounters;

typedef struct {
  char       *id;
  char       *folder;
  ZsTraining  training;
  int64_t     limit;     /* of reserved bytes; 0: none */
  bool        oom;       /* it ended so */
  ZsAllocConf conf;
  GArray     *phases;    /* TestCounters */
} TestMoreRun;

/* Those of FOLDER ("tests/data/h200-more", or an absolute path): elements are TestMoreRun in the order of
 * its runs.jsonl; freed with the array. */
GPtrArray   *test_more_runs (const char *folder);
TestHistory *test_more_history (const TestMoreRun *run);
/* The same counters of the run's plan, without time; NULL if it does not fit. */
GArray      *test_more_simulated (const TestMoreRun *run);
/* Those of PHASES, an array of TestCounters, that are called NAME; NULL: none. */
const TestCounters *test_counters_find (const GArray *phases, const char *name);

/* How far RUN is met. */
typedef struct {
  double  agreement[4];   /* worst of each kind of phase: forward, backward, step; then of step 1 */
  double  requested, allocated, reserved;   /* errors of the peaks of steps 2 and 3, of all phases the
                                               largest, in percent of the measured */
  double  run_allocated, run_reserved;      /* of the peak of the whole training */
} TestMoreResult;

TestMoreResult test_more_compare (const TestMoreRun *run);
