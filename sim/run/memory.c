/* memory.c: a rank's memory: what its instructions do to the allocators, and what is remembered.
 * SPDX-License-Identifier: MIT
 *
 * Peaks are those of training: loading and engine construction (step 0) do not count.  To say which
 * tensors were alive at the peak, a log of allocations and frees is kept since the start of the
 * phase, beside the list of what was alive then; the phase with the highest peak keeps both.
 */
#include "config.h"

#include "sim/run/world.h"

#include "sim/memory/oom-message.h"

/* ---- what the allocator asks ---- */

/* An event of the allocator is a position of a lane. */
static int64_t
record (void *self, int stream)
{
  Rank *rank = self;
  Lane *lane = &rank->lanes[stream];
  DeferredQueue *queue = &rank->deferred[stream];

  if (queue->ring == NULL || queue->tail - queue->head > queue->mask) {
    uint64_t room = queue->ring == NULL ? 64 : (queue->mask + 1) * 2;
    Deferred *ring = g_new (Deferred, room);

    for (uint64_t at = queue->head; at < queue->tail; at++)
      ring[at & (room - 1)] = queue->ring[at & queue->mask];
    g_free (queue->ring);
    queue->ring = ring;
    queue->mask = room - 1;
  }
  queue->ring[queue->tail++ & queue->mask] = (Deferred) { .position = lane->pushed,
                                                          .work = lane->work_pushed };
  rank->deferred_lanes |= 1u << stream;
  return (int64_t) ((uint64_t) stream << 56 | lane->pushed);
}

static bool
is_done (void *self, int64_t event)
{
  const Rank *rank = self;

  return rank->lanes[event >> 56].done >= ((uint64_t) event & 0xffffffffffffff);
}

/* Memory does not depend on when the GPU comes there, only that it is waited for: the host waits
 * after the call. */
static void
synchronize (void *self, int64_t event G_GNUC_UNUSED)
{
  Rank *rank = self;

  rank->must_drain = true;
  for (int l = 0; l < N_LANES; l++)
    rank->deferred[l].head = rank->deferred[l].tail;
  rank->deferred_lanes = 0;
}

static int64_t
device_free (void *self, int64_t reserved)
{
  const Rank *rank = self;
  const ZsMachine *machine = rank->run->machine;

  return machine->gpu_memory_bytes - machine->context_bytes - rank->communicator_bytes - reserved;
}

static void
add_memory_event (Rank *rank, ZsAllocatorAction action, int64_t address, int64_t bytes,
                  int64_t block_bytes, int stream, unsigned int category, uint32_t label)
{
  const ZsLabel *what = &rank->plan->labels[label];
  ZsMemoryEvent event = {
    .action = (uint8_t) action, .stream = (uint8_t) stream, .category = category,
    .layer = what->layer, .what = what->what, .when = rank->host, .address = address,
    .bytes = bytes, .block_bytes = block_bytes,
  };

  g_array_append_val (rank->memory_events, event);
}

/* What the process has of the GPU besides CUDA's context. */
static void
count_device (Rank *rank)
{
  rank->peak_device = MAX (rank->peak_device, rank->segment_bytes + rank->communicator_bytes);
}

static void
on_segment (void *self, ZsAllocatorAction action, int64_t address, int64_t bytes, int stream)
{
  Rank *rank = self;
  const ZsMachine *machine = rank->run->machine;

  if (machine->segment_cost != NULL)
    rank->segment_time += machine->segment_cost (machine->self, action, bytes);
  /* cudaFree waits for the whole GPU */
  if (action == ZS_ALLOCATOR_SEGMENT_FREE || action == ZS_ALLOCATOR_SEGMENT_UNMAP) {
    rank->must_drain = true;
    rank->segment_bytes -= bytes;
  } else if (action == ZS_ALLOCATOR_SEGMENT_ALLOC || action == ZS_ALLOCATOR_SEGMENT_MAP) {
    rank->segment_bytes += bytes;
    count_device (rank);
  }
  if (rank->memory_events != NULL)
    add_memory_event (rank, action, address, bytes, bytes, stream, 0, rank->label);
}

static void
on_block (void *self, ZsAllocatorAction action, const ZsBlock *block)
{
  add_memory_event (self, action, zs_block_address (block), zs_block_requested (block),
                    zs_block_size (block), zs_block_stream (block), zs_block_category (block), zs_block_label (block));
}

/* ---- life ---- */

void
zs_memory_init (Rank *rank)
{
  const ZsRunOptions *options = rank->run->options;
  ZsAllocatorHost host = {
    .self = rank, .record = record, .done = is_done, .synchronize = synchronize,
    .device_free = device_free, .on_segment = on_segment,
    .on_block = rank->memory_events != NULL ? on_block : NULL,
  };

  rank->allocator = zs_caching_allocator_new (&options->alloc_conf,
                                              rank->run->machine->gpu_memory_bytes, &host);
  if (options->memory_limit_bytes > 0)
    zs_caching_allocator_set_limit (rank->allocator, options->memory_limit_bytes);
  rank->counters = zs_caching_allocator_counters (rank->allocator);
  rank->host_memory = zs_host_allocator_new ();
  rank->base.array = g_array_new (FALSE, FALSE, sizeof (LogEntry));
  rank->log.array = g_array_new (FALSE, FALSE, sizeof (LogEntry));
  rank->peak_base.array = g_array_new (FALSE, FALSE, sizeof (LogEntry));
  rank->peak_log.array = g_array_new (FALSE, FALSE, sizeof (LogEntry));
  rank->peak_phase = -1;
}

void
zs_memory_clear (Rank *rank)
{
  zs_caching_allocator_free (rank->allocator);
  zs_host_allocator_free (rank->host_memory);
  g_array_unref (rank->base.array);
  g_array_unref (rank->log.array);
  g_array_unref (rank->peak_base.array);
  g_array_unref (rank->peak_log.array);
  for (int l = 0; l < N_LANES; l++)
    g_free (rank->deferred[l].ring);
  g_free (rank->slots);
}

/* ---- instructions ---- */

bool
zs_memory_poll (Rank *rank)
{
  ZsTime now = rank->run->now;

  for (uint32_t lanes = rank->deferred_lanes; lanes != 0; lanes &= lanes - 1) {
    int l = __builtin_ctz (lanes);
    const Lane *lane = &rank->lanes[l];
    DeferredQueue *queue = &rank->deferred[l];

    while (queue->head < queue->tail
           && queue->ring[queue->head & queue->mask].position <= lane->done)
      queue->head++;
    if (queue->head == queue->tail) {
      rank->deferred_lanes &= ~(1u << l);
      continue;
    }
    if (now >= rank->host)
      continue;             /* not done, exactly */
    /* Not done either if the kernels before it cannot have run by then, at their best: none of them
     * began before the lane's last one ended, and all but the head have yet to begin. */
    const Item *head = &lane->ring[lane->done & lane->mask];
    ZsTime begun = head->kind == ITEM_KERNEL ? rank->slowdowns[0].time[head->id] : 0;
    int64_t work = queue->ring[queue->head & queue->mask].work - lane->work_done;

    if (MAX (now - begun, lane->time) + work <= rank->host)
      return false;
  }
  return true;
}

static void
add_point (Rank *rank)
{
  ZsMemoryPoint *point = zs_notes_add (&rank->memory_points, sizeof *point);

  point->when = rank->host;
  point->allocated_bytes = rank->counters->allocated.now;
  point->reserved_bytes = rank->counters->reserved.now;
}

static void
add_log (Rank *rank, uint32_t tensor, int64_t bytes, uint32_t label, uint8_t category)
{
  LogEntry *entry = zs_notes_add (&rank->log, sizeof *entry);

  entry->tensor = tensor;
  entry->units = (uint32_t) (bytes / LOG_UNIT);
  entry->label = label;
  entry->category = category;
}

static void
count_peaks (Rank *rank, ZsPhaseResult *phase)
{
  phase->peak_allocated_bytes = rank->counters->allocated.peak;
  phase->peak_reserved_bytes = rank->counters->reserved.peak;
  phase->end_allocated_bytes = rank->counters->allocated.now;
  phase->end_reserved_bytes = rank->counters->reserved.now;
  if (phase->step > 0)
    rank->peak_reserved = MAX (rank->peak_reserved, phase->peak_reserved_bytes);
}

/* Stops the rank, and others when they have come as far: which of them ran out first does not depend on
 * the order in which they are run.  The caller fills in what was asked for. */
static ZsOom *
fail (Rank *rank, uint32_t label)
{
  Run *run = rank->run;
  ZsPhaseResult *phase = rank->phases->len > 0
    ? &g_array_index (rank->phases, ZsPhaseResult, rank->phases->len - 1) : NULL;

  if (phase != NULL)
    count_peaks (rank, phase);   /* it has no end */
  run->stopped = run->n_ranks == 1;
  rank->state = HOST_DONE;
  rank->failed_at = rank->host;
  run->stop_at = MIN (run->stop_at, rank->host);
  run->outcome = ZS_OUTCOME_OOM;
  rank->oom = (ZsOom) {
    .rank = rank->rank, .step = phase != NULL ? phase->step : 0,
    .micro_step = phase != NULL ? phase->micro_step : 0,
    .phase = phase != NULL ? phase->phase : ZS_PHASE_LOAD,
    .layer = rank->plan->labels[label].layer, .op = rank->plan->labels[label].what,
  };
  return &rank->oom;
}

static void
fail_alloc (Rank *rank, const ZsInstruction *instruction)
{
  const ZsMachine *machine = rank->run->machine;
  const ZsAllocationFailure *failure = zs_caching_allocator_failure (rank->allocator);
  ZsOom *oom = fail (rank, instruction->label);
  ZsOomFacts facts = {
    .failure = *failure, .total = machine->gpu_memory_bytes,
    .gpu = machine->node_ranks > 0 ? (int) (rank->rank % machine->node_ranks) : 0,
    .process = machine->context_bytes + rank->communicator_bytes + failure->reserved,
  };

  oom->category = instruction->kind;
  oom->request_bytes = failure->request;
  oom->tried_bytes = failure->segment;
  oom->allocated_bytes = failure->allocated;
  oom->reserved_bytes = failure->reserved;
  oom->free_bytes = failure->free;
  oom->limit_bytes = failure->limit;
  oom->message = zs_oom_message (rank->run->options->torch, &facts);
}

/* NCCL asks the driver and not PyTorch: what PyTorch keeps in its cache is not given back. */
static void
fail_collective (Rank *rank, const ZsInstruction *instruction, int64_t wanted)
{
  ZsOom *oom = fail (rank, instruction->label);

  oom->op = "NCCL's own buffers";
  oom->category = ZS_CATEGORY_BUCKETS;
  oom->request_bytes = oom->tried_bytes = wanted;
  oom->allocated_bytes = rank->counters->allocated.now;
  oom->reserved_bytes = rank->counters->reserved.now;
  oom->free_bytes = device_free (rank, oom->reserved_bytes);
  oom->limit_bytes = rank->run->options->memory_limit_bytes;
  /* torch/csrc/distributed/c10d/NCCLUtils.cpp with NCCL's last error */
  oom->message = g_strdup ("torch.distributed.DistBackendError: NCCL error: unhandled cuda error. "
                           "ncclUnhandledCudaError: Call to CUDA function failed. "
                           "Last error: Cuda failure 'out of memory'");
}

bool
zs_memory_alloc (Rank *rank, const ZsInstruction *instruction)
{
  Slot *slot = &rank->slots[instruction->id];

  rank->label = instruction->label;
  rank->segment_time = 0;
  ZsBlock *block = zs_caching_allocator_malloc (rank->allocator, instruction->bytes,
                                                instruction->stream, instruction->kind,
                                                instruction->label);

  if (G_UNLIKELY (block == NULL)) {
    fail_alloc (rank, instruction);
    return false;
  }
  slot->block = block;
  slot->bytes = zs_block_size (block);
  slot->label = instruction->label;
  slot->category = instruction->kind;
  if (rank->logging) {
    add_log (rank, instruction->id, slot->bytes, slot->label, slot->category);
    if (rank->counters->allocated.now > rank->peak_bytes) {
      rank->peak_bytes = rank->counters->allocated.now;
      rank->peak_at = rank->log.n;
      rank->peak_here = true;
    }
  }
  if (rank->memory_points.array != NULL)
    add_point (rank);
  return true;
}

void
zs_memory_free (Rank *rank, const ZsInstruction *instruction)
{
  Slot *slot = &rank->slots[instruction->id];

  g_assert (slot->block != NULL);
  zs_caching_allocator_free_block (rank->allocator, slot->block);
  slot->block = NULL;
  slot->bytes = 0;
  if (rank->logging)
    add_log (rank, instruction->id, 0, 0, 0);
  if (rank->memory_points.array != NULL)
    add_point (rank);
}

void
zs_memory_record_stream (Rank *rank, const ZsInstruction *instruction)
{
  zs_caching_allocator_record_stream (rank->allocator, rank->slots[instruction->id].block,
                                      instruction->stream);
}

void
zs_memory_empty_cache (Rank *rank)
{
  rank->segment_time = 0;
  zs_caching_allocator_empty_cache (rank->allocator);
  rank->host += rank->segment_time;
  rank->deferred_lanes = 0;
  for (int l = 0; l < N_LANES; l++)
    rank->deferred[l].head = rank->deferred[l].tail;
  if (rank->memory_points.array != NULL)
    add_point (rank);
}

void
zs_memory_host_alloc (Rank *rank, const ZsInstruction *instruction)
{
  const ZsMachine *machine = rank->run->machine;
  ZsHostKind kind = (instruction->flags & ZS_FLAG_PINNED) == 0 ? ZS_HOST_PAGEABLE
                    : (instruction->flags & ZS_FLAG_EXACT_PIN) != 0 ? ZS_HOST_PINNED_EXACT
                                                                    : ZS_HOST_PINNED;
  Slot *slot = &rank->slots[instruction->id];

  ZsTime start = rank->host;

  *slot = (Slot) { .host = zs_host_allocator_alloc (rank->host_memory, instruction->bytes, kind),
                   .label = instruction->label, .category = instruction->kind };
  if (slot->host.fresh && kind != ZS_HOST_PAGEABLE && machine->pin_cost != NULL)
    rank->host += machine->pin_cost (machine->self, slot->host.bytes);
  else if (kind == ZS_HOST_PAGEABLE && machine->fault_cost != NULL)
    rank->host += machine->fault_cost (machine->self, instruction->bytes,
                                       (instruction->flags & ZS_FLAG_COPIED) != 0);
  zs_account_host_pages (rank, start);
}

void
zs_memory_host_free (Rank *rank, const ZsInstruction *instruction)
{
  const ZsMachine *machine = rank->run->machine;
  ZsHostBlock block = rank->slots[instruction->id].host;
  ZsTime start = rank->host;

  zs_host_allocator_release (rank->host_memory, block);
  if (block.kind == ZS_HOST_PAGEABLE && machine->return_cost != NULL)
    rank->host += machine->return_cost (machine->self, block.requested);
  zs_account_host_pages (rank, start);
}

/* NCCL takes its memory with the first collective of a kind. */
void
zs_memory_collective (Rank *rank, const ZsInstruction *instruction)
{
  const ZsMachine *machine = rank->run->machine;
  unsigned int bit = 1u << instruction->kind;

  if (G_LIKELY ((rank->collectives_used[instruction->other] & bit) != 0))
    return;
  rank->collectives_used[instruction->other] |= bit;
  if (machine->communicator_bytes == NULL)
    return;
  int64_t before = rank->communicator_bytes, bytes = 0;
  bool first = true;

  for (int c = 0; c < ZS_N_COMMUNICATORS; c++)
    if (rank->collectives_used[c] != 0) {
      const Instance *instance = &rank->run->instances[rank->instances[c]];

      bytes += machine->communicator_bytes (machine->self, c, instance->groups[0],
                                            rank->collectives_used[c], first);
      first = false;
    }
  if (machine->gpu_memory_bytes > 0
      && bytes - before > device_free (rank, rank->counters->reserved.now))
    fail_collective (rank, instruction, bytes - before);
  else
    rank->communicator_bytes = bytes;
  count_device (rank);
}

int64_t
zs_memory_free_bytes (Rank *rank)
{
  int64_t reserved = rank->counters->reserved.now, limit = rank->run->options->memory_limit_bytes;
  int64_t on_gpu = device_free (rank, reserved);

  if (limit > 0)
    on_gpu = MIN (on_gpu, limit - reserved);
  return on_gpu + reserved - rank->counters->active.now;
}

/* ---- phases ---- */

void
zs_memory_keep_peak (Rank *rank)
{
  Notes base = rank->peak_base, log = rank->peak_log;

  rank->peak_base = rank->base;
  rank->peak_log = rank->log;
  rank->base = base;
  rank->log = log;
  rank->base.n = rank->log.n = 0;
  rank->peak_phase = (int) rank->phases->len - 1;
  rank->peak_here = false;
}

static void
end_phase (Rank *rank)
{
  ZsPhaseResult *phase = &g_array_index (rank->phases, ZsPhaseResult, rank->phases->len - 1);

  count_peaks (rank, phase);
  rank->step_flops += rank->flops;
  if (phase->phase == ZS_PHASE_FORWARD)
    rank->forward_flops += rank->flops;
  g_array_append_val (rank->phase_flops, rank->flops);
  if (rank->peak_here)
    zs_memory_keep_peak (rank);
}

void
zs_memory_phase (Rank *rank, const ZsInstruction *instruction)
{
  if (rank->phases->len > 0)
    end_phase (rank);
  if (instruction == NULL)
    return;
  ZsPhaseResult phase = {
    .phase = instruction->kind, .step = (int) instruction->id + rank->chunk_steps,
    .micro_step = (int) instruction->other + rank->chunk_micro_steps,
    .start_allocated_bytes = rank->counters->allocated.now,
  };

  if (phase.step != rank->step) {
    if (rank->step <= 0)      /* peaks are those of training */
      rank->peak_device = rank->segment_bytes + rank->communicator_bytes;
    rank->step_flops = 0;
    rank->nvme_bytes = 0;
    rank->forward_flops = 0;
    rank->step = phase.step;
  }
  rank->flops = 0;
  g_array_append_val (rank->phases, phase);
  zs_caching_allocator_reset_peaks (rank->allocator);
  rank->logging = phase.step > 0;
  if (!rank->logging)
    return;
  rank->base.n = rank->log.n = 0;
  for (uint32_t s = 0; s < rank->n_slots; s++)
    if (rank->slots[s].bytes > 0) {
      LogEntry *entry = zs_notes_add (&rank->base, sizeof *entry);

      *entry = (LogEntry) { .tensor = s, .units = (uint32_t) (rank->slots[s].bytes / LOG_UNIT),
                            .label = rank->slots[s].label, .category = rank->slots[s].category };
    }
  if (rank->counters->allocated.now > rank->peak_bytes) {
    rank->peak_bytes = rank->counters->allocated.now;
    rank->peak_at = 0;
    rank->peak_here = true;
  }
}
