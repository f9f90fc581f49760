/* plan.h: builds the instructions of one rank.
 * SPDX-License-Identifier: MIT
 *
 * The builder is a very small PyTorch: tensors are slots with a reference count, and the FREE is
 * issued where the last reference goes, which is where Python or autograd would drop it.  Code in
 * sim/model, sim/zero and sim/fsdp calls zs_plan_alloc(), zs_plan_unref(), zs_plan_launch() ... in
 * the order in which the real software allocates, frees and launches.
 *
 * Slots, events and kernels are dense and reused; the lowest free number is taken, so that a plan that
 * repeats itself comes back to the same numbers.  The instructions of one phase form a chunk, which
 * the run consumes before the next is built; the tables live as long as the plan.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/plan/instruction.h"
#include "sim/plan/kernel.h"

typedef uint32_t ZsTensor;   /* slot of a GPU or host tensor */
typedef uint32_t ZsEvent;
#define ZS_NO_TENSOR UINT32_MAX
#define ZS_NO_EVENT  UINT32_MAX

/* What the framework is doing: shown in OOM reports, traces and explanations. */
typedef struct {
  int32_t     layer;   /* decoder layer, -1 outside */
  const char *what;    /* static: "q_proj", "loss", "all-gather", "fetch" */
} ZsLabel;

/* Numbers of table entries by a hash of what they are: open addressing. */
typedef struct {
  struct ZsPlanPlace { uint32_t hash, number_plus_1; } *places;
  uint32_t mask, n;
} ZsPlanIndex;

typedef struct {
  ZsInstruction *code;
  int64_t        n_code, code_room;

  ZsKernel *kernels;           /* by kernel id */
  uint32_t  n_kernels, kernels_room;
  ZsPlanIndex kernel_index;    /* by value */

  ZsLabel  *labels;
  uint32_t  n_labels, labels_room;
  ZsPlanIndex label_index;

  /* tensor slots */
  int32_t  *refs;
  int64_t  *sizes;             /* requested bytes */
  uint8_t  *places;            /* 0 GPU, 1 host */
  uint64_t *free_slots;        /* bits */
  uint32_t  first_slot_word;   /* of free_slots; none is free below it */
  uint32_t  n_slots;

  /* events */
  uint64_t *free_events;       /* bits */
  uint32_t  n_events;

  /* current context */
  uint8_t  stream;
  uint32_t label;
} ZsPlan;

ZsPlan *zs_plan_new  (void) G_GNUC_WARN_UNUSED_RESULT;
void    zs_plan_free (ZsPlan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsPlan, zs_plan_free)

/* A number for the tensors and (with EVENTS) the events that exist: plans with equal ones go on alike. */
uint64_t zs_plan_digest (const ZsPlan *plan, bool events);

/* Begin the next chunk: forgets the instructions, keeps tensors, events and tables. */
void zs_plan_clear (ZsPlan *plan);

void zs_plan_grow (ZsPlan *plan);
void zs_plan_grow_slots (ZsPlan *plan);
void zs_plan_grow_events (ZsPlan *plan);

static inline ZsInstruction *
zs_plan_emit (ZsPlan *plan, ZsOp op)
{
  if (G_UNLIKELY (plan->n_code == plan->code_room))
    zs_plan_grow (plan);
  ZsInstruction *instruction = &plan->code[plan->n_code++];

  *instruction = (ZsInstruction) { .op = (uint8_t) op, .stream = plan->stream,
                                   .label = plan->label };
  return instruction;
}

/* The lowest free slot, which is now in use. */
static inline ZsTensor
zs_plan_take_slot (ZsPlan *plan)
{
  while (plan->first_slot_word * 64 == plan->n_slots || plan->free_slots[plan->first_slot_word] == 0)
    if (plan->first_slot_word * 64 == plan->n_slots)
      zs_plan_grow_slots (plan);
    else
      plan->first_slot_word++;
  uint64_t *word = &plan->free_slots[plan->first_slot_word];
  ZsTensor tensor = plan->first_slot_word * 64 + (uint32_t) __builtin_ctzll (*word);

  *word &= *word - 1;
  return tensor;
}

/* ---- context: the current stream and label; each returns the one before ---- */
static inline uint8_t
zs_plan_set_stream (ZsPlan *plan, uint8_t stream)
{
  uint8_t before = plan->stream;

  plan->stream = stream;
  return before;
}

/* Number of the label (LAYER, WHAT); WHAT is static. */
uint32_t zs_plan_label (ZsPlan *plan, int layer, const char *what);

static inline uint32_t
zs_plan_set_label (ZsPlan *plan, uint32_t label)
{
  uint32_t before = plan->label;

  plan->label = label;
  return before;
}

/* ---- GPU tensors ---- */

/* A new tensor of BYTES (0: no memory, no instruction) on the current stream, with one reference. */
static inline ZsTensor
zs_plan_alloc (ZsPlan *plan, int64_t bytes, ZsCategory category)
{
  ZsTensor tensor = zs_plan_take_slot (plan);

  plan->refs[tensor] = 1;
  plan->sizes[tensor] = bytes;
  plan->places[tensor] = 0;
  if (bytes > 0) {
    ZsInstruction *instruction = zs_plan_emit (plan, ZS_OP_ALLOC);

    instruction->kind = (uint8_t) category;
    instruction->id = tensor;
    instruction->bytes = bytes;
  }
  return tensor;
}

static inline ZsTensor
zs_plan_ref (ZsPlan *plan, ZsTensor tensor)
{
  if (tensor != ZS_NO_TENSOR) {
    g_assert (plan->refs[tensor] > 0);
    plan->refs[tensor]++;
  }
  return tensor;
}

/* Drop a reference; the last one frees.  ZS_NO_TENSOR is allowed. */
static inline void
zs_plan_unref (ZsPlan *plan, ZsTensor tensor)
{
  if (tensor == ZS_NO_TENSOR)
    return;
  g_assert (plan->refs[tensor] > 0);
  if (--plan->refs[tensor] > 0)
    return;
  if (plan->sizes[tensor] > 0)
    zs_plan_emit (plan, plan->places[tensor] == 0 ? ZS_OP_FREE : ZS_OP_HOST_FREE)->id = tensor;
  plan->free_slots[tensor / 64] |= UINT64_C (1) << tensor % 64;
  if (tensor / 64 < plan->first_slot_word)
    plan->first_slot_word = tensor / 64;
}

/* tensor.record_stream (STREAM): its memory waits for that stream when freed. */
static inline void
zs_plan_record_stream (ZsPlan *plan, ZsTensor tensor, uint8_t stream)
{
  ZsInstruction *instruction = zs_plan_emit (plan, ZS_OP_RECORD_STREAM);

  instruction->id = tensor;
  instruction->stream = stream;
}

/* ---- host tensors: same references ---- */
ZsTensor zs_plan_host_alloc (ZsPlan *plan, int64_t bytes, ZsCategory category, unsigned int flags);

/* ---- work ---- */

/* Number of KERNEL, entered once by value. */
uint32_t zs_plan_kernel (ZsPlan *plan, const ZsKernel *kernel);

static inline void
zs_plan_launch (ZsPlan *plan, uint32_t kernel)
{
  zs_plan_emit (plan, ZS_OP_LAUNCH)->id = kernel;
}

void zs_plan_collective (ZsPlan *plan, ZsCollectiveKind kind, unsigned int communicator,
                         int64_t bytes, ZsEvent done);
void zs_plan_copy (ZsPlan *plan, ZsCopyKind kind, int64_t bytes, unsigned int flags);
void zs_plan_host (ZsPlan *plan, ZsHostWork work, int64_t times);
void zs_plan_cpu_task (ZsPlan *plan, ZsCpuTask task, int64_t elements);
void zs_plan_nvme (ZsPlan *plan, ZsNvmeKind kind, int64_t bytes, ZsEvent done);
void zs_plan_phase (ZsPlan *plan, ZsPhase phase, int step, int micro_step, bool synchronize);
void zs_plan_empty_cache (ZsPlan *plan);

/* ---- order ---- */
static inline ZsEvent
zs_plan_event_new (ZsPlan *plan)
{
  for (uint32_t word = 0;; word++) {
    if (G_UNLIKELY (word * 64 == plan->n_events))
      zs_plan_grow_events (plan);
    if (plan->free_events[word] != 0) {
      ZsEvent event = word * 64 + (uint32_t) __builtin_ctzll (plan->free_events[word]);

      plan->free_events[word] &= plan->free_events[word] - 1;
      return event;
    }
  }
}

/* The number may be used again by a later event_new; waits issued before still mean the old one. */
static inline void
zs_plan_event_free (ZsPlan *plan, ZsEvent event)
{
  plan->free_events[event / 64] |= UINT64_C (1) << event % 64;
}

void zs_plan_event_record (ZsPlan *plan, ZsEvent event, uint8_t stream);
void zs_plan_stream_wait_event (ZsPlan *plan, uint8_t stream, ZsEvent event);
void zs_plan_stream_wait_stream (ZsPlan *plan, uint8_t stream, uint8_t for_stream);
void zs_plan_host_wait_event (ZsPlan *plan, ZsEvent event);
void zs_plan_host_wait_stream (ZsPlan *plan, uint8_t stream);
void zs_plan_host_wait_device (ZsPlan *plan);
