/* world.h: the insides of one run; for sim/run alone.
 * SPDX-License-Identifier: MIT
 *
 * Words.
 *   rank   one rank that is run; it may stand for others that cannot differ (fold.h).
 *   lane   a queue of work that runs in order beside a rank's host: the CUDA streams, one for each
 *          communicator, and one each for asynchronous CPU work, NVMe reads and NVMe writes.
 *   item   an entry of a lane: a kernel, a wait for another lane, a collective, a copy ...
 *   position   how many items have been pushed to a lane.  A CUDA event is a position of a lane: it
 *          has completed when that many items are done.
 *   op     a collective, copy or task of one size, asked of the machine once.
 *
 * Time order.  Hosts write items with the host time at which they were issued; the world's clock is
 * never later than the clock of a host that may still write.  Each rank knows when something next
 * happens on its lanes; kernels that follow one another are passed in a tight loop.  A rank that has
 * no collective, copy or task under way is alone: its kernels may be passed ahead of the world's clock,
 * up to its own host's, since nothing that others do before that can reach them.
 */
#pragma once

#include "sim/engine/earliest.h"
#include "sim/engine/event-queue.h"
#include "sim/engine/flow.h"
#include "sim/engine/gate.h"
#include "sim/memory/caching-allocator.h"
#include "sim/memory/host-allocator.h"
#include "sim/run/run.h"

enum {
  LANE_COMPUTE = ZS_STREAM_COMPUTE,
  LANE_COMMUNICATOR = ZS_N_STREAMS,
  LANE_CPU = LANE_COMMUNICATOR + ZS_N_COMMUNICATORS,
  LANE_NVME_READ, LANE_NVME_WRITE,
  N_LANES,
  N_GPU_LANES = LANE_CPU,           /* those that a device synchronisation waits for */
};

typedef enum { ITEM_KERNEL, ITEM_WAIT, ITEM_MARK, ITEM_COLLECTIVE, ITEM_COPY, ITEM_TASK } ItemKind;

typedef struct {
  ZsTime   issue;          /* host time */
  int64_t  value;          /* wait: position; collective, copy, task: bytes or elements */
  uint32_t id;             /* kernel, mark; else unused */
  uint32_t label;
  uint8_t  kind;           /* ItemKind */
  uint8_t  lane;           /* wait: for which */
  uint8_t  what;           /* kind of the collective, copy, task */
  uint8_t  flags;
} Item;

typedef struct {
  Item    *ring;
  uint64_t mask, pushed, done;
  ZsTime   time;           /* when the last item that is done ended */
  ZsTime   start;          /* of the head, once it can begin */
  int64_t  work_pushed, work_done;   /* kernels' times alone, added up */
  uint32_t waiters;        /* bits: lanes whose head waits for this one */
  bool     begun;          /* the head is a collective, copy or task that has been handed over, or a kernel
                              beside the compute stream that runs */
} Lane;

/* A record_stream free that waits for a lane. */
typedef struct {
  uint64_t position;
  int64_t  work;           /* the lane's work_pushed then */
} Deferred;

typedef struct {
  Deferred *ring;
  uint64_t mask, head, tail;
} DeferredQueue;

/* A collective, copy or task of one size, as the machine answered. */
typedef struct {
  int64_t  key_bytes;
  uint32_t key;            /* what it is; 0: empty */
  int32_t  route;
  ZsTime   latency, transfer;
  ZsRate   limit;
  int64_t  bytes;
  int32_t  sms, memory_share;    /* of the GPU's memory rate, in 1/1000 */
} Op;

typedef struct {
  Op      *table;          /* open addressing */
  uint32_t mask, n;
} OpTable;

#define N_HELD 5           /* levels: at level n the compute stream does 1/2^n of its work */

/* How much of the GPU collectives have taken: times of kernels then. */
typedef struct {
  int32_t  sms, memory_share;
  int32_t  held;           /* how much kernels of other streams hold up the compute stream's: a level */
  ZsTime  *time;           /* by kernel; 0: not computed yet */
} Slowdown;

typedef enum {
  HOST_RUNS,
  HOST_ASKS,               /* stands at its clock until the world has come there */
  HOST_WAITS_LANE,
  HOST_WAITS_DEVICE,
  HOST_DONE,               /* at its end, or out of memory */
} HostState;

/* A stretch in which the host waited. */
typedef struct {
  ZsTime  start, end;
  uint8_t cause;           /* ZsWait */
} Blocked;

typedef struct {
  ZsBlock    *block;       /* on the GPU */
  ZsHostBlock host;
  int64_t     bytes;       /* of the block; 0: nothing */
  uint32_t    label;
  uint8_t     category;
} Slot;

/* Entry of the log from which the tensors alive at the peak are found.  Blocks are multiples of 512
 * bytes. */
typedef struct {
  uint32_t tensor, label;
  uint32_t units;          /* of 512 bytes; 0: freed */
  uint32_t category;
} LogEntry;
#define LOG_UNIT INT64_C (512)

typedef struct {
  ZsTime   when;           /* -1: the GPU has not come there */
  ZsTime   wait[ZS_N_WAITS];
} Mark;

typedef struct {
  uint8_t  lane;
  uint64_t position;
} EventPoint;

/* A GArray that grows fourfold (what is not written yet costs nothing, what is moved does), whose length
 * is kept here while it is written. */
typedef struct {
  GArray *array;           /* NULL: nothing is noted */
  guint   n;
} Notes;

static inline gpointer
zs_notes_add (Notes *notes, gsize size)
{
  if (G_UNLIKELY (notes->n == notes->array->len))
    g_array_set_size (notes->array, MAX (4096, notes->array->len * 4));
  return notes->array->data + (gsize) notes->n++ * size;
}

/* Points of the memory timeline that come TIMES more, each PERIOD later: repeat.c. */
typedef struct {
  guint   first, end;
  int64_t times;
  ZsTime  period;
} PointRepeat;

typedef struct Run Run;

typedef struct {
  Run     *run;
  int32_t  index;
  int64_t  rank;           /* of the job */
  int64_t *members;        /* ranks that it stands for, itself first */
  int32_t  n_members;

  /* host */
  ZsPlanSource source;
  const ZsPlan *plan;
  const ZsInstruction *at;
  int      chunk_steps, chunk_micro_steps;   /* passed over since the chunk was made: repeat.c */
  ZsTime   host;
  HostState state;
  uint8_t  wait_lane;
  uint64_t wait_position;
  ZsTime   wait_since;     /* the host waits, and has been accounted for until then */
  ZsTime   after_wait;     /* host time that follows a wait */
  EventPoint *events;
  uint32_t n_events;
  int64_t  n_instructions, n_repeated;

  /* tables by kernel */
  uint32_t n_kernels, kernels_room;
  ZsTime  *launch_cost;
  uint8_t *kernel_cause;   /* ZsWait */
  double  *kernel_flops;

  /* lanes */
  Lane     lanes[N_LANES];
  ZsTime   next[N_LANES];
  uint32_t active;         /* bits: lanes with a time in next[] */
  uint32_t busy;           /* bits: lanes with items */
  int32_t  n_begun;        /* lanes whose head has been handed over */
  Slowdown *slowdowns;
  int32_t  n_slowdowns, slowdown, slowdown_beside;   /* of the compute stream, of the others */
  int32_t  sms, memory_share;      /* taken now */
  int32_t  moving[ZS_N_COMMUNICATORS];   /* memory share of each; they share the links, so the largest is that
                                            of all */
  int32_t  n_beside[N_HELD];       /* kernels that run on other streams than compute, by what they hold up */
  uint32_t behind;                 /* bits: lanes whose collective waits for the kernel that fills the GPU */
  bool     unsettled;      /* these changed, and kernels' times not yet */
  uint32_t engine_busy[2]; /* copy engines, by direction: lane + 1 */
  uint8_t  engine_queue[2][N_LANES];
  int32_t  engine_waiting[2];
  OpTable  ops;
  int32_t  instances[ZS_N_COMMUNICATORS];

  /* where the compute stream's time went */
  ZsTime   wait[ZS_N_WAITS];
  ZsTime   compute_since;  /* the head of the compute stream waits since then; -1: it does not */
  GArray  *blocked;        /* Blocked, of the host, by time */
  guint    blocked_head;

  /* memory */
  ZsCachingAllocator *allocator;
  const ZsAllocatorCounters *counters;
  ZsHostAllocator *host_memory;
  Slot    *slots;
  uint32_t n_slots;
  DeferredQueue deferred[N_LANES];
  uint32_t deferred_lanes;
  bool     must_drain;     /* the allocator waited for the GPU */
  ZsTime   segment_time;   /* host time that the driver took during the last call */
  ZsOom    oom;
  ZsTime   failed_at;      /* host time; -1: did not run out of memory */
  int64_t  communicator_bytes;
  int64_t  segment_bytes, peak_device;      /* segments, and the most of them and communicators at once */
  unsigned int collectives_used[ZS_N_COMMUNICATORS];
  bool     logging;
  Notes    base, log, peak_base, peak_log;   /* LogEntry */
  guint    peak_at;        /* entries of peak_log (or log) until the peak */
  bool     peak_here;      /* the peak is in the phase that is going on */
  int64_t  peak_bytes, peak_reserved;
  int      peak_phase;     /* index in phases */
  uint32_t label;          /* of the allocation being made */
  const ZsPlan *label_plan;

  /* phases, steps */
  GArray  *phases;         /* ZsPhaseResult */
  GArray  *marks;          /* Mark: start of each phase, and the end */
  int      step;
  double   flops;          /* of the phase */
  GArray  *phase_flops;    /* double: of those that are over */
  int64_t  nvme_bytes;     /* of the step */
  double   step_flops, forward_flops;   /* of the step, up to the phase before */

  GArray  *spans, *memory_events;
  guint    last_wait;      /* 1 + the last of ZS_TRACK_WAIT among spans */
  Notes    memory_points;
  GArray  *point_repeats;  /* PointRepeat; NULL: none */
} Rank;

/* One group of a communicator: its classes of ranks meet here. */
typedef struct {
  ZsCommunicator communicator;
  int64_t *groups;         /* that it stands for */
  int32_t  n_groups;
  int32_t *ranks;          /* indices of run ranks */
  ZsGate   gate;
  Op       op;
  uint8_t  what;
  int64_t  bytes;
  OpTable  ops;
} Instance;

/* What may repeat: repeat.c. */
enum { ZS_REPEAT_STEPS, ZS_REPEAT_MICRO_STEPS, ZS_N_REPEATS };

struct Run {
  const ZsWork *work;
  const ZsMachine *machine;
  const ZsRunOptions *options;

  Rank    *ranks;
  int32_t  n_ranks;
  Instance *instances;
  int32_t  n_instances;
  int64_t  n_plans;        /* distinct ones that are run */
  bool     one_node;       /* the first node is run for all: fold.c */
  int64_t  folded_ranks;   /* ranks, groups and resources that are looked at: all, or the first node's */
  int32_t  n_resources;

  ZsTime   now;
  ZsEarliest earliest;
  ZsEventQueue queue;
  ZsFlowSet *flows;
  GArray  *shares;         /* room for the machine's answers */
  int32_t  n_unsettled;    /* ranks whose kernels' times must change */
  int32_t  n_released;     /* hosts that may go on */
  int64_t  n_events, max_events, n_instructions, max_instructions;
  ZsTime   host_costs[ZS_N_HOST_WORKS];
  uint64_t launch_depth;
  int64_t  n_repeated_events;
  int64_t  n_resets;       /* of the use of links */
  bool     looks_for_repeats;
  GArray  *boundaries[ZS_N_REPEATS];
  GArray  *link_points;    /* NULL: nobody asked */
  ZsRate  *link_rates;     /* of the last points, by resource */

  bool     stopped;        /* an error, or one rank is run and out of memory */
  ZsTime   stop_at;        /* hosts go no further: since one ran out of memory there; ZS_TIME_MAX */
  ZsOutcome outcome;
  GError  *error;
};

/* ---- lane.c ---- */
void zs_lane_grow (Lane *lane);
/* The head of lane L is new: find out when it begins or ends.  PASSED: something was finished. */
void zs_lane_begin (Rank *rank, int l, bool passed);
/* The head of lane L, handed over before, has ended. */
void zs_lane_end (Rank *rank, int l);
/* More or less of the GPU is taken. */
void zs_rank_take (Rank *rank, int32_t sms);
/* The collective of COMMUNICATOR takes MEMORY_SHARE (in 1/1000) from now on. */
void zs_rank_moves (Rank *rank, ZsCommunicator communicator, int32_t memory_share);
void zs_rank_settle (Rank *rank);
void zs_rank_add_kernels (Rank *rank);
/* CHANGE kernels more run beside the compute stream. */
void zs_rank_beside (Rank *rank, uint32_t kernel, int32_t change);
/* The kernel at the head of lane L, not the compute stream's, starts now. */
void zs_rank_start_beside (Rank *rank, int l);
bool zs_rank_is_idle (const Rank *rank);      /* the GPU has drained */
void zs_rank_release (Rank *rank, ZsTime when);
ZsTime zs_rank_kernel_time (Rank *rank, Slowdown *slowdown, uint32_t kernel);

/* A new item at the end of lane L, issued now; the caller fills in the rest of what its kind needs
 * in place (a copy of a fresh struct would wait for its own stores), then calls zs_lane_push(). */
static inline Item *
zs_lane_add (Rank *rank, int l, ItemKind kind)
{
  Lane *lane = &rank->lanes[l];

  if (G_UNLIKELY (lane->pushed - lane->done > lane->mask || lane->ring == NULL))
    zs_lane_grow (lane);
  Item *item = &lane->ring[lane->pushed & lane->mask];

  item->issue = rank->host;
  item->kind = (uint8_t) kind;
  return item;
}

static inline void
zs_lane_push (Rank *rank, int l)
{
  Lane *lane = &rank->lanes[l];

  lane->pushed++;
  if (lane->pushed - lane->done == 1)
    zs_lane_begin (rank, l, false);
}

/* ---- step.c ---- */
/* Pass what happens on RANK's lanes up to LIMIT, and its kernels up to KERNEL_LIMIT (no less); returns
 * early when the world must look. */
void zs_rank_step (Rank *rank, ZsTime limit, ZsTime kernel_limit);
/* Tell the world when something next happens on RANK. */
void zs_rank_update (Rank *rank);

/* ---- world.c ---- */
/* Up to HORIZON, or until a host is released.  False: nothing is left to happen. */
bool zs_world_advance (Run *run, ZsTime horizon);
/* Nothing that others do can change how long RANK's kernels take: nothing of it is under way.  (Spans
 * are noted in the order of time.) */
static inline bool
zs_rank_is_alone (const Rank *rank)
{
  return rank->n_begun == 0 && !rank->unsettled && rank->spans == NULL;
}

/* The head of lane L, a collective, copy or task, begins. */
void zs_world_start (Rank *rank, int l);

/* ---- host.c ---- */
void zs_host_run (Rank *rank);

/* ---- account.c ---- */
/* Before anything changes on RANK: what its waits were for until now. */
void zs_account_waits (Rank *rank);
/* The compute stream waited, or did something besides kernels. */
void zs_account_wait (Rank *rank, ZsTime start, ZsTime end, uint8_t cause);
/* The compute stream had nothing to do from START to END. */
void zs_account_idle (Rank *rank, ZsTime start, ZsTime end);
void zs_account_host_pages (Rank *rank, ZsTime start);
uint8_t zs_account_cause (const Rank *rank, int l);

/* ---- memory.c ---- */
void zs_memory_init (Rank *rank);
void zs_memory_clear (Rank *rank);
/* Is it known which deferred frees have completed at the host's time? */
bool zs_memory_poll (Rank *rank);
bool zs_memory_alloc (Rank *rank, const ZsInstruction *instruction);
void zs_memory_free (Rank *rank, const ZsInstruction *instruction);
void zs_memory_record_stream (Rank *rank, const ZsInstruction *instruction);
void zs_memory_empty_cache (Rank *rank);
void zs_memory_host_alloc (Rank *rank, const ZsInstruction *instruction);
void zs_memory_host_free (Rank *rank, const ZsInstruction *instruction);
void zs_memory_collective (Rank *rank, const ZsInstruction *instruction);
/* A phase begins; NULL: the end. */
void zs_memory_phase (Rank *rank, const ZsInstruction *instruction);
int64_t zs_memory_free_bytes (Rank *rank);
/* The peak is in the phase that is going on, and no higher one comes in it: keep what was alive. */
void zs_memory_keep_peak (Rank *rank);

/* ---- repeat.c ---- */
void zs_repeat_init (Run *run);
void zs_repeat_clear (Run *run);
/* The first rank has come to the end of a chunk: if the run is where it has been before, move on. */
void zs_repeat_look (Run *run);
/* The memory timeline of RANK with its repetitions, taken out; NULL: not kept. */
GArray *zs_repeat_points (Rank *rank);

/* ---- shared.c ---- */
/* All ranks read one plan, in the place of one each. */
void zs_shared_open (Run *run);

/* ---- fold.c ---- */
/* How much of the machine has to be looked at. */
void zs_fold_init (Run *run);
void zs_fold_ranks (Run *run);

/* ---- critical.c ---- */
/* Mark the spans of RANK that made the time from START to END what it was. */
void zs_critical_path (GArray *spans, int32_t rank, ZsTime start, ZsTime end);

/* ---- gather.c ---- */
ZsResult *zs_gather_result (Run *run);
/* The span is valid until the next is added. */
ZsSpan *zs_gather_span (Rank *rank, int track, uint8_t kind, ZsTime start, ZsTime end,
                        const char *name, uint32_t label, int64_t bytes);
void zs_gather_wait (Rank *rank, ZsTime start, ZsTime end, uint8_t cause);
/* What crosses each resource since now, where it has changed. */
void zs_gather_links (Run *run);
