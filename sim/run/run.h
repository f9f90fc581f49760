/* run.h: executes the plans of all ranks against a machine.
 * SPDX-License-Identifier: MIT
 *
 * Each rank has a host thread with its own clock: an instruction costs host time, memory is
 * allocated and freed in host order, and the GPU follows later.  Streams run in order; collectives
 * start when the slowest member has come; copies, collectives, NVMe and CPU work share links.
 *
 * The host runs ahead of the GPU until it must know GPU time: it waits for something, a deferred
 * free (record_stream) may or may not have completed when memory is wanted, or too many launches
 * are pending.  Then it stands at its clock until every other host stands at or after that time;
 * the GPUs are advanced to it, and the answer is exact.
 *
 * Ranks that cannot differ are run once (fold.h).  A run is a value: it has no globals, and many
 * runs may go on in different threads.  Same input, same result.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

#include "sim/base/version.h"
#include "sim/job/job.h"
#include "sim/memory/alloc-conf.h"
#include "sim/plan/plan.h"
#include "sim/run/machine.h"
#include "sim/run/result.h"

/* The plan of one rank, chunk by chunk; NULL at the end.  A chunk is valid until the next call. */
typedef struct {
  void *self;
  const ZsPlan *(*next) (void *self);
  void (*free) (void *self);      /* may be NULL */
  /* Floating point operations of the model in the steps FIRST to LAST (for MFU), and with what is
   * computed again (HFU).  NULL: of the last, from the kernels, three times the forward passes for the
   * model. */
  double (*model_flops)    (void *self, int first, int last);
  double (*hardware_flops) (void *self, int first, int last);
  /* Repetitions: as zs_planner_place (), _digest () and _skip ().  NULL: none are looked for. */
  void     (*place)  (void *self, ZsPlannerPlace *ret_place);
  uint64_t (*digest) (void *self, bool events);
  void     (*skip)   (void *self, int steps, int micro_steps);
} ZsPlanSource;

/* PLAN, which it takes, in one chunk. */
ZsPlanSource zs_plan_source_whole (ZsPlan *plan);

/* What is to be run. */
typedef struct {
  void *self;
  ZsPlanSource (*open) (void *self, int64_t rank);
  bool one_plan;                   /* all ranks have equal plans; plan_key is not asked */
  /* Ranks with the same key have equal plans.  NULL: plans are compared (each is made once more).
     */
  int64_t (*plan_key) (void *self, int64_t rank);
  /* How much memory RANK's own part takes: where not all plans can be run, those of the ranks with
   * the most and the least are.  May be NULL. */
  int64_t (*plan_size) (void *self, int64_t rank);
  int64_t group_ranks;             /* size of ZS_COMMUNICATOR_GROUP's groups; 0: not used */
  int64_t micro_steps;             /* of all steps together; 0: not known */
  int64_t samples_per_rank;        /* per step */
  int64_t tokens_per_rank;         /* per step */
  /* Steps differ: what is said of one is the mean of all but the first.  Tokens of the steps FIRST to
   * LAST of a rank, with and without padding.  NULL: all steps are like the last. */
  int64_t (*tokens) (void *self, int first, int last, bool padding);
} ZsWork;

typedef struct {
  bool want_spans, want_memory_points, want_memory_events, want_links, want_link_points;
  bool no_folding;                 /* every rank is run by itself */
  bool no_repeats;                 /* steps and micro-steps that repeat are run again: repeat.c */
  int  max_plans;                  /* distinct plans to run at most; 0: 16.  fold.h says which */
  int64_t report_rank;             /* -1: the worst */
  bool alone;                      /* only report_rank (or 0) is run, and its collectives wait for
                                      nobody: as over PyTorch's fake process group */
  ZsPace pace;                     /* of the GPUs' clocks; by default as kernels are alone in a loop */
  ZsAllocConf alloc_conf;
  int64_t memory_limit_bytes;      /* on reserved bytes; 0: none */
  ZsVersion torch;                 /* whose OOM text */
  int64_t overflow_steps;          /* bit n: the fp16 gradients of step n overflow */
  int64_t max_instructions, max_events;   /* that are run, without repetitions; 0: 2e9 of each */
} ZsRunOptions;

void zs_run_options_init (ZsRunOptions *options);

#define ZS_RUN_ERROR (zs_run_error_quark ())
GQuark zs_run_error_quark (void);
typedef enum {
  ZS_RUN_ERROR_LIMIT,              /* too many instructions or events */
  ZS_RUN_ERROR_DEADLOCK,           /* all wait for one another: the plans do not fit together */
  ZS_RUN_ERROR_PLAN,               /* members of a communicator issue different collectives */
} ZsRunError;

/* For a process with many runs: memory that one has freed is kept for the next, which then has no page
 * faults.  The process does not give back what it once held. */
void zs_run_keep_memory (void);

ZsResult *zs_run_work (const ZsWork *work, const ZsMachine *machine, const ZsRunOptions *options,
                       GError **error) G_GNUC_WARN_UNUSED_RESULT;
