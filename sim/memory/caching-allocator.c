/* caching-allocator.c: malloc and free of the caching allocator; what runs in every operation.
 * SPDX-License-Identifier: MIT
 *
 * The order of attempts is that of DeviceCachingAllocator::malloc in
 * c10/cuda/CUDACachingAllocator.cpp; the paths that talk to the driver are in segments.c and
 * expandable.c. */
#include "config.h"

#include <string.h>

#include "sim/memory/allocator-private.h"

#define BLOCKS_PER_SLAB 256

ZsCachingAllocator *
zs_caching_allocator_new (const ZsAllocConf *conf, int64_t total_memory,
                          const ZsAllocatorHost *host)
{
  ZsCachingAllocator *allocator = g_new0 (ZsCachingAllocator, 1);

  allocator->conf = *conf;
  allocator->total_memory = total_memory;
  if (host != NULL)
    allocator->host = *host;
  allocator->expandable = conf->expandable_segments;
  allocator->max_split = conf->max_split_size;
  allocator->plain_rounding = true;
  for (int i = 0; i < ZS_ROUNDUP_INTERVALS; i++)
    if (conf->roundup_power2_divisions[i] > 1)
      allocator->plain_rounding = false;
  allocator->segments = g_ptr_array_new ();
  allocator->slabs = g_ptr_array_new_with_free_func (g_free);
  if (conf->per_process_memory_fraction > 0)
    zs_caching_allocator_set_limit (allocator, (int64_t) (conf->per_process_memory_fraction
                                                          * (double) total_memory));
  return allocator;
}

void
zs_caching_allocator_free (ZsCachingAllocator *allocator)
{
  if (allocator == NULL)
    return;
  for (int i = 0; i < N_POOLS * ZS_ALLOCATOR_STREAMS; i++) {
    zs_free_set_free (allocator->sets[i]);
    if (allocator->unmapped[i] != NULL)
      g_ptr_array_free (allocator->unmapped[i], TRUE);
  }
  for (int i = 0; i < ZS_ALLOCATOR_STREAMS; i++)
    g_free (allocator->pending[i].items);
  for (guint i = 0; i < allocator->segments->len; i++)
    g_free (((ZsBlock *) allocator->segments->pdata[i])->range);
  g_ptr_array_free (allocator->segments, TRUE);
  g_ptr_array_free (allocator->slabs, TRUE);
  zs_placement_free (allocator->placement);
  g_free (allocator);
}

void
zs_caching_allocator_set_limit (ZsCachingAllocator *allocator, int64_t bytes)
{
  allocator->limit = bytes;
  allocator->gc = bytes > 0 && allocator->conf.garbage_collection_threshold > 0;
}

/* ---- block objects ---- */

static void G_GNUC_NO_INLINE
add_slab (ZsCachingAllocator *allocator)
{
  ZsBlock *slab = g_new (ZsBlock, BLOCKS_PER_SLAB);

  g_ptr_array_add (allocator->slabs, slab);
  for (int i = 0; i < BLOCKS_PER_SLAB; i++)
    slab[i].after = i + 1 < BLOCKS_PER_SLAB ? &slab[i + 1] : allocator->spare;
  allocator->spare = slab;
}

ZsBlock *
allocator_block_new (ZsCachingAllocator *allocator)
{
  if (G_UNLIKELY (allocator->spare == NULL))
    add_slab (allocator);
  ZsBlock *block = allocator->spare;

  allocator->spare = block->after;
  return block;
}

void
allocator_block_drop (ZsCachingAllocator *allocator, ZsBlock *block)
{
  block->after = allocator->spare;
  allocator->spare = block;
}

/* ---- free blocks ---- */

static inline void
make_free (ZsCachingAllocator *allocator, ZsBlock *block)
{
  block->state = ZS_BLOCK_INACTIVE;
  block->requested = allocator->n_searches[block->set / ZS_ALLOCATOR_STREAMS];
}

void
allocator_insert_free (ZsCachingAllocator *allocator, ZsBlock *block)
{
  make_free (allocator, block);
  zs_free_set_insert (allocator->sets[block->set], block);
}

ZsBlock *
allocator_insert_joined (ZsCachingAllocator *allocator, ZsBlock *block)
{
  ZsFreeSet *set = allocator->sets[block->set];
  ZsBlock *before = block->before, *after = block->after;
  bool joins_after = after != NULL && after->state == ZS_BLOCK_INACTIVE;
  ZsFreeAt at;

  if (before != NULL && before->state == ZS_BLOCK_INACTIVE) {
    if (joins_after)
      zs_free_set_remove (set, after);
    at = zs_free_set_find (set, before);
    allocator_absorb_after (allocator, before);
    if (joins_after)
      allocator_absorb_after (allocator, before);
    block = before;
  } else if (joins_after) {
    at = zs_free_set_find (set, after);
    allocator_absorb_after (allocator, block);
  } else {
    allocator_insert_free (allocator, block);
    return block;
  }
  make_free (allocator, block);
  zs_free_set_replace_at (set, at, block);
  return block;
}

static inline int64_t
size_with_growth (const ZsBlock *block)
{
  const ZsBlock *after = block->after;

  return block->size + (after != NULL && after->state == ZS_BLOCK_UNMAPPED ? after->size : 0);
}

/* The free block that best fits, and where it is in its set; NULL: none. */
static inline ZsBlock *
find_free (ZsCachingAllocator *allocator, unsigned int set_index, int64_t rounded, ZsFreeAt *ret_at)
{
  ZsFreeSet *set = allocator->sets[set_index];
  ZsFreeAt at;

  if (G_UNLIKELY (allocator->gc))
    allocator->n_searches[set_index / ZS_ALLOCATOR_STREAMS]++;
  if (G_UNLIKELY (set == NULL) || !zs_free_set_lower_bound (set, rounded, &at))
    return NULL;
  ZsBlock *block = zs_free_set_get (set, at);

  if (allocator->expandable && block->range != NULL) {
    /* The growable tail counts with what it could become, and so is taken last. */
    for (ZsFreeAt next = at; zs_free_set_next (set, &next); at = next) {
      ZsBlock *other = zs_free_set_get (set, next);

      if (block->range == NULL || size_with_growth (other) >= size_with_growth (block))
        break;
      block = other;
    }
  }
  if (rounded < allocator->max_split
      ? block->size >= allocator->max_split
      : block->size >= rounded + allocator->conf.max_non_split_rounding)
    return NULL;
  *ret_at = at;
  return block;
}

/* ---- counters ---- */

static inline void
count_operation (ZsCachingAllocator *allocator)
{
  if (G_UNLIKELY (++allocator->counters.n_operations == allocator->watch)
      && allocator->host.on_watch != NULL)
    allocator->host.on_watch (allocator->host.self);
}

static inline void
keep_peak (ZsCachingAllocator *allocator)
{
  if (allocator->peak_is_now) {
    memcpy (allocator->peak_by_category, allocator->counters.by_category,
            sizeof allocator->peak_by_category);
    allocator->peak_is_now = false;
  }
}

/* ---- deferred frees ---- */

static void
pending_push (ZsCachingAllocator *allocator, unsigned int stream, int64_t event, ZsBlock *block)
{
  PendingQueue *queue = &allocator->pending[stream];

  if (queue->count == queue->room) {
    uint32_t room = MAX (queue->room * 2, 64);
    struct PendingFree *items = g_new (struct PendingFree, room);

    for (uint32_t i = 0; i < queue->count; i++)
      items[i] = queue->items[(queue->first + i) & (queue->room - 1)];
    g_free (queue->items);
    queue->items = items;
    queue->first = 0;
    queue->room = room;
  }
  queue->items[(queue->first + queue->count++) & (queue->room - 1)]
    = (struct PendingFree) { event, block };
  allocator->pending_streams |= UINT32_C (1) << stream;
}

static void
pending_pop (ZsCachingAllocator *allocator, unsigned int stream)
{
  PendingQueue *queue = &allocator->pending[stream];
  ZsBlock *block = queue->items[queue->first].block;

  queue->first = (queue->first + 1) & (queue->room - 1);
  if (--queue->count == 0)
    allocator->pending_streams &= ~(UINT32_C (1) << stream);
  if (--block->n_events == 0)
    allocator_complete_free (allocator, block);
}

/* cudaEventQuery of the oldest of each stream, and on while they have completed. */
static void G_GNUC_NO_INLINE
poll_pending (ZsCachingAllocator *allocator)
{
  for (uint32_t streams = allocator->pending_streams; streams != 0; streams &= streams - 1) {
    unsigned int stream = (unsigned int) __builtin_ctz (streams);
    PendingQueue *queue = &allocator->pending[stream];

    while (queue->count > 0
           && (allocator->host.done == NULL
               || allocator->host.done (allocator->host.self,
                                        queue->items[queue->first].event)))
      pending_pop (allocator, stream);
  }
}

/* synchronize_and_free_events () */
static void
wait_pending (ZsCachingAllocator *allocator)
{
  allocator->counters.num_sync_all_streams++;
  for (uint32_t streams = allocator->pending_streams; streams != 0; streams &= streams - 1) {
    unsigned int stream = (unsigned int) __builtin_ctz (streams);
    PendingQueue *queue = &allocator->pending[stream];

    while (queue->count > 0) {
      if (allocator->host.synchronize != NULL)
        allocator->host.synchronize (allocator->host.self, queue->items[queue->first].event);
      pending_pop (allocator, stream);
    }
  }
}

void
allocator_flush (ZsCachingAllocator *allocator)
{
  wait_pending (allocator);
  allocator_release_cached (allocator);
}

void
allocator_complete_free (ZsCachingAllocator *allocator, ZsBlock *block)
{
  ZsAllocatorCounters *counters = &allocator->counters;

  if (allocator->host.on_block != NULL)
    allocator->host.on_block (allocator->host.self, ZS_ALLOCATOR_FREE_COMPLETED, block);
  counters->active.now -= block->size;
  counters->requested.now -= block->requested;
  counters->n_active--;
  allocator_insert_joined (allocator, block);
}

/* ---- malloc ---- */

static ZsBlock * G_GNUC_NO_INLINE
fail (ZsCachingAllocator *allocator, int64_t bytes, int64_t rounded, unsigned int set)
{
  ZsAllocatorCounters *counters = &allocator->counters;

  allocator->failure = (ZsAllocationFailure) {
    .request = bytes, .rounded = rounded,
    .segment = zs_alloc_conf_segment (&allocator->conf, rounded),
    .allocated = counters->allocated.now, .reserved = counters->reserved.now,
    .free = allocator->host.device_free != NULL
              ? allocator->host.device_free (allocator->host.self, counters->reserved.now)
              : INT64_MAX,
    .limit = allocator->limit,
  };
  counters->num_ooms++;
  allocator_tell (allocator, ZS_ALLOCATOR_OOM, allocator->failure.free, rounded, set);
  return NULL;
}

ZsBlock *
zs_caching_allocator_malloc (ZsCachingAllocator *allocator, int64_t bytes, int stream,
                             unsigned int category, uint32_t label)
{
  ZsAllocatorCounters *counters = &allocator->counters;

  g_assert (bytes > 0 && stream >= 0 && stream < ZS_ALLOCATOR_STREAMS
            && category < ZS_ALLOCATOR_CATEGORIES);
  if (allocator->pending_streams != 0)
    poll_pending (allocator);

  int64_t rounded = G_LIKELY (allocator->plain_rounding)
                      ? (bytes + MIN_BLOCK - 1) & -MIN_BLOCK
                      : zs_alloc_conf_round (&allocator->conf, bytes);
  bool small = rounded <= SMALL_SIZE;
  unsigned int set = (small ? POOL_SMALL : POOL_LARGE) * ZS_ALLOCATOR_STREAMS
                     + (unsigned int) stream;
  ZsFreeAt at = { 0 };
  ZsBlock *block = find_free (allocator, set, rounded, &at);
  bool found = block != NULL;

  if (G_UNLIKELY (!found)) {
    block = allocator_grow (allocator, set, rounded);
    if (block == NULL)
      return fail (allocator, bytes, rounded, set);
  }

  int64_t rest = block->size - rounded;

  if (small || allocator->expandable ? rest >= MIN_BLOCK
                                     : rounded < allocator->max_split && rest > SMALL_SIZE) {
    ZsBlock *remainder = allocator_block_new (allocator);

    *remainder = (ZsBlock) {
      .address = block->address + rounded, .size = rest, .before = block, .after = block->after,
      .range = block->range, .set = (uint8_t) set,
    };
    if (remainder->after != NULL)
      remainder->after->before = remainder;
    block->after = remainder;
    block->size = rounded;
    make_free (allocator, remainder);
    if (G_LIKELY (found))
      zs_free_set_replace_at (allocator->sets[set], at, remainder);
    else
      zs_free_set_insert (allocator->sets[set], remainder);
  } else if (G_LIKELY (found))
    zs_free_set_remove_at (allocator->sets[set], at);
  block->requested = bytes;
  block->label = label;
  block->uses = 0;
  block->state = ZS_BLOCK_ALLOCATED;
  block->category = (uint8_t) category;
  block->n_events = 0;

  int64_t size = block->size;

  counters->by_category[category] += size;
  counters->allocated.now += size;
  gauge_add (&counters->active, size);
  gauge_add (&counters->requested, bytes);
  counters->n_active++;
  if (counters->allocated.now > counters->allocated.peak) {
    counters->allocated.peak = counters->allocated.now;
    counters->peak_serial = counters->n_operations + 1;
    allocator->peak_is_now = true;
  }
  if (allocator->host.on_block != NULL)
    allocator->host.on_block (allocator->host.self, ZS_ALLOCATOR_ALLOC, block);
  count_operation (allocator);
  return block;
}

/* ---- free ---- */

void
zs_caching_allocator_free_block (ZsCachingAllocator *allocator, ZsBlock *block)
{
  ZsAllocatorCounters *counters = &allocator->counters;

  g_assert (block->state == ZS_BLOCK_ALLOCATED);
  keep_peak (allocator);
  counters->allocated.now -= block->size;
  counters->by_category[block->category] -= block->size;
  if (allocator->host.on_block != NULL)
    allocator->host.on_block (allocator->host.self, ZS_ALLOCATOR_FREE_REQUESTED, block);
  if (G_UNLIKELY (block->uses != 0)) {
    block->state = ZS_BLOCK_AWAITING_FREE;
    block->n_events = (uint8_t) __builtin_popcount (block->uses);
    for (uint32_t uses = block->uses; uses != 0; uses &= uses - 1) {
      int stream = __builtin_ctz (uses);
      int64_t event = allocator->host.record == NULL
                        ? 0 : allocator->host.record (allocator->host.self, stream);

      pending_push (allocator, (unsigned int) stream, event, block);
    }
    block->uses = 0;
  } else
    allocator_complete_free (allocator, block);
  count_operation (allocator);
}

void
zs_caching_allocator_record_stream (ZsCachingAllocator *allocator, ZsBlock *block, int stream)
{
  g_assert (block->state == ZS_BLOCK_ALLOCATED && stream >= 0 && stream < ZS_ALLOCATOR_STREAMS);
  (void) allocator;
  if (stream != block->set % ZS_ALLOCATOR_STREAMS)
    block->uses |= UINT32_C (1) << stream;
}

void
zs_caching_allocator_empty_cache (ZsCachingAllocator *allocator)
{
  allocator_flush (allocator);
}

void
zs_caching_allocator_reset_peaks (ZsCachingAllocator *allocator)
{
  ZsAllocatorCounters *counters = &allocator->counters;

  counters->allocated.peak = counters->allocated.now;
  counters->reserved.peak = counters->reserved.now;
  counters->active.peak = counters->active.now;
  counters->requested.peak = counters->requested.now;
  counters->peak_serial = counters->n_operations;
  allocator->peak_is_now = true;
}

void
zs_caching_allocator_watch (ZsCachingAllocator *allocator, int64_t serial)
{
  allocator->watch = serial;
}
