/* history.h: recorded and simulated allocator histories, cut into phases, and how far they agree.
 * SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>

#include "sim/job/job.h"

typedef struct {
  char     action;       /* 'a' or 'f' */
  uint8_t  stream;       /* 0 the default stream, else by first appearance */
  uint32_t label;        /* of the plan; 0 in a recording */
  int64_t  bytes;        /* requested */
} TestEvent;

typedef struct {
  char    *name;         /* "s2m0_fwd" */
  GArray  *events;       /* TestEvent */
  int64_t  peak, end;    /* requested bytes, from the beginning of the history */
} TestPhase;

/* Free with test_history_free. */
typedef struct {
  GPtrArray *phases;     /* TestPhase */
} TestHistory;

void test_history_free (TestHistory *history);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TestHistory, test_history_free)

/* The end of a phase on a history's clock, microseconds. */
typedef struct { char *name; int64_t end; } TestMark;
GArray      *test_marks_new (void);   /* of TestMark, whose names go with it */
/* A recording at PATH, cut at MARKS; NULL if there is none. */
TestHistory *test_history_read (const char *path, const GArray *marks);
/* tests/data/h200/trace_ID.csv.gz and trace_phases.tsv; NULL if there is none. */
TestHistory *test_history_of_trace (const char *id);
/* A case of tests/data/steps/micro-steps.tsv.gz; *RET_RUN is its configuration (owned). */
TestHistory *test_history_of_step (const char *name, ZsTraining *ret_training);
/* Names of all its cases; free with g_strfreev. */
char       **test_step_names (void);
/* What PLANNER emits; phases are named as in the recordings.  KEEP_PLAN: labels of events stay valid
 * while the planner lives. */
TestHistory *test_history_of_plan (ZsPlanner *planner);

TestPhase *test_history_phase (const TestHistory *history, const char *name);

/* One column of an alignment: indices into the two histories, -1 where there is none. */
typedef struct { int32_t recorded, simulated; } TestPair;
/* Edits from RECORDED to SIMULATED (insertions, deletions, replacements); *RET_PAIRS if not NULL. */
int64_t test_align (const GArray *recorded, const GArray *simulated, GArray **ret_pairs);
/* 1 - edits / length of the longer; 1 for two empty ones. */
double test_agreement (const GArray *recorded, const GArray *simulated);
