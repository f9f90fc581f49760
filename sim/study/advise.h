/* advise.h: searches the settings of a job: the smallest change that makes it fit, and the fastest that fits.
 * SPDX-License-Identifier: MIT
 *
 * What may change is a list of dimensions (advise-space.h): stage, offload, checkpointing, micro-batch against
 * accumulation with the same number of sequences per step, buckets, prefetching, live parameters, sub-groups, pinning,
 * CPU threads, the allocator.  Each candidate is simulated; nothing is estimated.
 *
 * What fits by less than a 25th of a GPU (zs_is_tight ()), which is as much as reserved bytes have differed from
 * measured ones at worst, comes after all that has more room: it is an answer only where nothing else fits, and
 * is marked.
 *
 * A space that is small enough (by the number of instructions that its runs would take) is searched as a whole.
 * A larger one in two parts: all combinations of the structural dimensions, then the tuning dimensions one
 * after another, and in pairs, from the best of those.  Same input, same answer, for any number of threads. */
#pragma once

#include "sim/io/json-writer.h"
#include "sim/report/text.h"
#include "sim/study/advise-space.h"

typedef enum { ZS_OBJECTIVE_SPEED, ZS_OBJECTIVE_MEMORY, ZS_OBJECTIVE_COST } ZsObjective;

typedef struct {
  ZsObjective objective;
  int64_t host_memory_limit;      /* bytes per node; 0: what the machine has */
  int64_t gpu_memory_limit;       /* bytes of one GPU; 0: what it has */
  ZsTime  step_time_limit;        /* 0: none */
  const char *const *dimensions;  /* names of those that may change; NULL: all */
  bool    exhaustive;             /* the whole space, however large */
  bool    two_parts;              /* even if the space is small */
  int     jobs;
  const int *stop;
  void  (*progress) (void *self, int done, int all);
  void   *self;
} ZsAdviseOptions;

/* One candidate, simulated. */
typedef struct {
  int     choice[ZS_SPACE_MAX_DIMENSIONS];   /* of each dimension: a value; 0: as it is */
  int     n_changes;
  bool    valid;                  /* it could be run */
  bool    fits;                   /* the simulated run fits, within the limits */
  bool    thin;                   /* by less than the model may be wrong (zs_is_tight ()) */
  int64_t room_bytes;             /* of a GPU, or of what PyTorch may reserve: what is left */
  ZsOutcome outcome;
  int     stopped;                /* an OOM: how far it came (step and phase); orders those that do not fit */
  int64_t peak_device_bytes, host_bytes, n_instructions;
  int64_t gpu_memory_bytes;       /* that there is */
  ZsTime  step_time;
  double  tokens_per_second_per_gpu;
  int64_t n_ranks;
} ZsTrial;

/* A machine on which it would fit. */
typedef struct {
  char   *machine;                /* "4 x a100-sxm4-80gb" */
  char  **sets;
  int64_t peak_device_bytes;
  double  tokens_per_second_per_gpu;
} ZsHardwareAdvice;

typedef struct {
  ZsBase   *base;
  ZsSpace  *space;
  ZsAdviseOptions options;
  GArray   *trials;               /* ZsTrial, in the order in which they were made; the first is the job as it is */
  int       smallest, fastest, best;   /* places in trials; -1: nothing fits.  Best: by the objective */
  int       nearly;               /* as fast as the fastest within 2 %, with the least GPU memory */
  GArray   *front;                /* int: trials with room that no other beats in memory and speed, least
                                     memory first */
  GArray   *thin;                 /* int: what would be faster than the fastest, but fits by too little */
  GPtrArray *hardware;            /* ZsHardwareAdvice *, where nothing fits */
} ZsAdvice;

/* BASE is taken.  NULL and ERROR: the job as it is cannot be read or run, or it was stopped. */
ZsAdvice *zs_advise      (ZsBase *base, const ZsAdviseOptions *options, ZsCatalogue *catalogue,
                          GError **error) G_GNUC_WARN_UNUSED_RESULT;
void      zs_advice_free (ZsAdvice *advice);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsAdvice, zs_advice_free)

const ZsTrial *zs_advice_trial (const ZsAdvice *advice, int index);
/* Is A better than B by OBJECTIVE?  Neither needs to fit. */
bool      zs_trial_better (const ZsTrial *a, const ZsTrial *b, ZsObjective objective);
/* It fits, with more room than the model may be wrong by. */
bool      zs_trial_has_room (const ZsTrial *trial);
/* GPU hours for a thousand million tokens. */
double    zs_trial_cost (const ZsTrial *trial);

void      zs_advice_write      (const ZsAdvice *advice, ZsText *text);
void      zs_advice_write_json (const ZsAdvice *advice, ZsJsonWriter *writer);
