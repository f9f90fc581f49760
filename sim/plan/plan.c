/* plan.c: the tables behind the builder, and the rarer instructions.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/plan/plan.h"

#include "sim/base/digest.h"

#include <string.h>

/* ---- tables by value ---- */

static void
grow_index (ZsPlanIndex *index)
{
  ZsPlanIndex old = *index;
  uint32_t room = old.places == NULL ? 256 : (old.mask + 1) * 2;

  index->places = g_new0 (struct ZsPlanPlace, room);
  index->mask = room - 1;
  for (uint32_t o = 0; old.places != NULL && o <= old.mask; o++) {
    uint32_t at = old.places[o].hash;

    if (old.places[o].number_plus_1 == 0)
      continue;
    while (index->places[at & index->mask].number_plus_1 != 0)
      at++;
    index->places[at & index->mask] = old.places[o];
  }
  g_free (old.places);
}

/* Room for one more. */
static inline void
ready_index (ZsPlanIndex *index)
{
  if (G_UNLIKELY (index->places == NULL || index->n * 2 > index->mask))
    grow_index (index);
}

/* (Multipliers as in digest.h.) */
static inline uint32_t
kernel_hash (const ZsKernel *kernel)
{
  uint64_t hash = (uint64_t) kernel->kind << 40 | (uint64_t) kernel->form << 32
                  | (uint64_t) kernel->launch << 24 | (uint64_t) kernel->element_bytes << 16
                  | kernel->phase_class;

  hash ^= (uint64_t) kernel->m * UINT64_C (0x9e3779b97f4a7c15);
  hash = zs_digest_add (hash, (uint64_t) kernel->n);
  hash = zs_digest_add (hash, (uint64_t) kernel->k ^ (uint64_t) kernel->bytes << 20);
  return (uint32_t) (hash ^ hash >> 32);
}

static inline bool
same_text (const char *a, const char *b)
{
  return a == b || strcmp (a, b) == 0;
}

static inline bool
kernel_equal (const ZsKernel *x, const ZsKernel *y)
{
  return x->kind == y->kind && x->form == y->form && x->launch == y->launch
         && x->element_bytes == y->element_bytes && x->phase_class == y->phase_class
         && x->heads == y->heads && x->kv_heads == y->kv_heads && x->m == y->m && x->n == y->n
         && x->k == y->k && x->bytes == y->bytes && x->flops == y->flops
         && same_text (x->name, y->name);
}

static inline uint32_t
label_hash (int layer, const char *what)
{
  uint32_t hash = (uint32_t) layer * 0x9e3779b1u;

  for (; *what != '\0'; what++)
    hash = (hash ^ (unsigned char) *what) * 0x01000193u;   /* FNV-1a */
  return hash ^ hash >> 15;
}

ZsPlan *
zs_plan_new (void)
{
  ZsPlan *plan = g_new0 (ZsPlan, 1);

  zs_plan_label (plan, -1, "");
  return plan;
}

void
zs_plan_free (ZsPlan *plan)
{
  if (plan == NULL)
    return;
  g_free (plan->code);
  g_free (plan->kernels);
  g_free (plan->labels);
  g_free (plan->refs);
  g_free (plan->sizes);
  g_free (plan->places);
  g_free (plan->free_slots);
  g_free (plan->free_events);
  g_free (plan->kernel_index.places);
  g_free (plan->label_index.places);
  g_free (plan);
}

void
zs_plan_clear (ZsPlan *plan)
{
  plan->n_code = 0;
}

uint64_t
zs_plan_digest (const ZsPlan *plan, bool events)
{
  uint64_t digest = (uint64_t) plan->label << 8 | plan->stream;

  for (uint32_t slot = 0; slot < plan->n_slots; slot++)
    if (plan->refs[slot] > 0) {
      digest = zs_digest_add (digest, (uint64_t) slot << 32 | (uint32_t) plan->refs[slot]);
      digest = zs_digest_add (digest, (uint64_t) plan->sizes[slot] << 1 | plan->places[slot]);
    }
  return events ? zs_digest_items (digest, plan->free_events, plan->n_events / 64) : digest;
}

void
zs_plan_grow (ZsPlan *plan)
{
  plan->code_room = MAX (4096, plan->code_room * 2);
  plan->code = g_renew (ZsInstruction, plan->code, plan->code_room);
}

void
zs_plan_grow_slots (ZsPlan *plan)
{
  uint32_t room = MAX (256, plan->n_slots * 2);

  plan->refs = g_renew (int32_t, plan->refs, room);
  memset (plan->refs + plan->n_slots, 0, (room - plan->n_slots) * sizeof *plan->refs);
  plan->sizes = g_renew (int64_t, plan->sizes, room);
  plan->places = g_renew (uint8_t, plan->places, room);
  plan->free_slots = g_renew (uint64_t, plan->free_slots, room / 64);
  for (uint32_t word = plan->n_slots / 64; word < room / 64; word++)
    plan->free_slots[word] = UINT64_MAX;
  plan->n_slots = room;
}

void
zs_plan_grow_events (ZsPlan *plan)
{
  uint32_t room = MAX (64, plan->n_events * 2);

  plan->free_events = g_renew (uint64_t, plan->free_events, room / 64);
  for (uint32_t word = plan->n_events / 64; word < room / 64; word++)
    plan->free_events[word] = UINT64_MAX;
  plan->n_events = room;
}

uint32_t
zs_plan_label (ZsPlan *plan, int layer, const char *what)
{
  ZsPlanIndex *index = &plan->label_index;
  uint32_t hash = label_hash (layer, what), at = hash;

  ready_index (index);
  for (;; at++) {
    const struct ZsPlanPlace *place = &index->places[at & index->mask];

    if (place->number_plus_1 == 0)
      break;
    const ZsLabel *label = &plan->labels[place->number_plus_1 - 1];

    if (place->hash == hash && label->layer == layer && same_text (label->what, what))
      return place->number_plus_1 - 1;
  }
  if (plan->n_labels == plan->labels_room) {
    plan->labels_room = MAX (64, plan->labels_room * 2);
    plan->labels = g_renew (ZsLabel, plan->labels, plan->labels_room);
  }
  plan->labels[plan->n_labels++] = (ZsLabel) { .layer = layer, .what = what };
  index->places[at & index->mask] = (struct ZsPlanPlace) { hash, plan->n_labels };
  index->n++;
  return plan->n_labels - 1;
}

uint32_t
zs_plan_kernel (ZsPlan *plan, const ZsKernel *kernel)
{
  ZsPlanIndex *index = &plan->kernel_index;
  uint32_t hash = kernel_hash (kernel), at = hash;

  ready_index (index);
  for (;; at++) {
    const struct ZsPlanPlace *place = &index->places[at & index->mask];

    if (place->number_plus_1 == 0)
      break;
    if (place->hash == hash && kernel_equal (&plan->kernels[place->number_plus_1 - 1], kernel))
      return place->number_plus_1 - 1;
  }
  if (plan->n_kernels == plan->kernels_room) {
    plan->kernels_room = MAX (64, plan->kernels_room * 2);
    plan->kernels = g_renew (ZsKernel, plan->kernels, plan->kernels_room);
  }
  plan->kernels[plan->n_kernels++] = *kernel;
  index->places[at & index->mask] = (struct ZsPlanPlace) { hash, plan->n_kernels };
  index->n++;
  return plan->n_kernels - 1;
}

ZsTensor
zs_plan_host_alloc (ZsPlan *plan, int64_t bytes, ZsCategory category, unsigned int flags)
{
  ZsTensor tensor = zs_plan_take_slot (plan);

  plan->refs[tensor] = 1;
  plan->sizes[tensor] = bytes;
  plan->places[tensor] = 1;
  if (bytes > 0) {
    ZsInstruction *instruction = zs_plan_emit (plan, ZS_OP_HOST_ALLOC);

    instruction->kind = (uint8_t) category;
    instruction->flags = (uint8_t) flags;
    instruction->id = tensor;
    instruction->bytes = bytes;
  }
  return tensor;
}

void
zs_plan_collective (ZsPlan *plan, ZsCollectiveKind kind, unsigned int communicator, int64_t bytes,
                    ZsEvent done)
{
  ZsInstruction *instruction = zs_plan_emit (plan, ZS_OP_COLLECTIVE);

  instruction->kind = (uint8_t) kind;
  instruction->other = communicator;
  instruction->bytes = bytes;
  instruction->id = done;
}

void
zs_plan_copy (ZsPlan *plan, ZsCopyKind kind, int64_t bytes, unsigned int flags)
{
  ZsInstruction *instruction = zs_plan_emit (plan, ZS_OP_COPY);

  instruction->kind = (uint8_t) kind;
  instruction->bytes = bytes;
  instruction->flags = (uint8_t) flags;
}

void
zs_plan_host (ZsPlan *plan, ZsHostWork work, int64_t times)
{
  ZsInstruction *instruction = zs_plan_emit (plan, ZS_OP_HOST);

  instruction->kind = (uint8_t) work;
  instruction->bytes = times;
}

void
zs_plan_cpu_task (ZsPlan *plan, ZsCpuTask task, int64_t elements)
{
  ZsInstruction *instruction = zs_plan_emit (plan, ZS_OP_CPU_TASK);

  instruction->kind = (uint8_t) task;
  instruction->bytes = elements;
  instruction->id = ZS_NO_EVENT;
}

void
zs_plan_nvme (ZsPlan *plan, ZsNvmeKind kind, int64_t bytes, ZsEvent done)
{
  ZsInstruction *instruction = zs_plan_emit (plan, ZS_OP_NVME);

  instruction->kind = (uint8_t) kind;
  instruction->bytes = bytes;
  instruction->id = done;
}

void
zs_plan_phase (ZsPlan *plan, ZsPhase phase, int step, int micro_step, bool synchronize)
{
  ZsInstruction *instruction = zs_plan_emit (plan, ZS_OP_PHASE);

  instruction->kind = (uint8_t) phase;
  instruction->id = (uint32_t) step;
  instruction->other = (uint32_t) micro_step;
  instruction->flags = synchronize ? ZS_FLAG_SYNCHRONIZE : 0;
}

void
zs_plan_empty_cache (ZsPlan *plan)
{
  zs_plan_emit (plan, ZS_OP_EMPTY_CACHE);
}

void
zs_plan_event_record (ZsPlan *plan, ZsEvent event, uint8_t stream)
{
  ZsInstruction *instruction = zs_plan_emit (plan, ZS_OP_EVENT_RECORD);

  instruction->id = event;
  instruction->stream = stream;
}

void
zs_plan_stream_wait_event (ZsPlan *plan, uint8_t stream, ZsEvent event)
{
  ZsInstruction *instruction = zs_plan_emit (plan, ZS_OP_STREAM_WAIT_EVENT);

  instruction->id = event;
  instruction->stream = stream;
}

void
zs_plan_stream_wait_stream (ZsPlan *plan, uint8_t stream, uint8_t for_stream)
{
  ZsInstruction *instruction = zs_plan_emit (plan, ZS_OP_STREAM_WAIT_STREAM);

  instruction->stream = stream;
  instruction->kind = for_stream;
}

void
zs_plan_host_wait_event (ZsPlan *plan, ZsEvent event)
{
  zs_plan_emit (plan, ZS_OP_HOST_WAIT_EVENT)->id = event;
}

void
zs_plan_host_wait_stream (ZsPlan *plan, uint8_t stream)
{
  zs_plan_emit (plan, ZS_OP_HOST_WAIT_STREAM)->stream = stream;
}

void
zs_plan_host_wait_device (ZsPlan *plan)
{
  zs_plan_emit (plan, ZS_OP_HOST_WAIT_DEVICE);
}
