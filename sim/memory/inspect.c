/* inspect.c: questions to the caching allocator, and the check of its invariants.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/base/digest.h"
#include "sim/memory/allocator-private.h"

const char *
zs_allocator_action_name (ZsAllocatorAction action)
{
  static const char *const NAMES[ZS_N_ALLOCATOR_ACTIONS] = {
    [ZS_ALLOCATOR_ALLOC] = "alloc",
    [ZS_ALLOCATOR_FREE_REQUESTED] = "free_requested",
    [ZS_ALLOCATOR_FREE_COMPLETED] = "free_completed",
    [ZS_ALLOCATOR_SEGMENT_ALLOC] = "segment_alloc",
    [ZS_ALLOCATOR_SEGMENT_FREE] = "segment_free",
    [ZS_ALLOCATOR_SEGMENT_MAP] = "segment_map",
    [ZS_ALLOCATOR_SEGMENT_UNMAP] = "segment_unmap",
    [ZS_ALLOCATOR_OOM] = "oom",
    [ZS_ALLOCATOR_SNAPSHOT] = "snapshot",
  };

  return NAMES[action];
}

const ZsAllocatorCounters *
zs_caching_allocator_counters (const ZsCachingAllocator *allocator)
{
  return &allocator->counters;
}

const ZsAllocationFailure *
zs_caching_allocator_failure (const ZsCachingAllocator *allocator)
{
  return &allocator->failure;
}

const int64_t *
zs_caching_allocator_peak_by_category (const ZsCachingAllocator *allocator)
{
  return allocator->peak_is_now ? allocator->counters.by_category : allocator->peak_by_category;
}

int64_t
zs_caching_allocator_cached_bytes (const ZsCachingAllocator *allocator)
{
  return allocator->counters.reserved.now - allocator->counters.active.now;
}

int64_t
zs_block_address (const ZsBlock *block)
{
  return block->address;
}

int64_t
zs_block_size (const ZsBlock *block)
{
  return block->size;
}

int64_t
zs_block_requested (const ZsBlock *block)
{
  return block->state == ZS_BLOCK_ALLOCATED || block->state == ZS_BLOCK_AWAITING_FREE
           ? block->requested : 0;
}

int
zs_block_stream (const ZsBlock *block)
{
  return block->set % ZS_ALLOCATOR_STREAMS;
}

unsigned int
zs_block_category (const ZsBlock *block)
{
  return block->category;
}

uint32_t
zs_block_label (const ZsBlock *block)
{
  return block->label;
}

ZsBlockState
zs_block_state (const ZsBlock *block)
{
  return block->state;
}

static int
compare_addresses (const void *a, const void *b)
{
  const ZsBlock *x = *(ZsBlock *const *) a, *y = *(ZsBlock *const *) b;

  return x->address < y->address ? -1 : x->address > y->address;
}

void
zs_caching_allocator_each_block (const ZsCachingAllocator *allocator, ZsBlockVisitor visit,
                                 void *self)
{
  guint n = allocator->segments->len;
  g_autofree ZsBlock **firsts = g_new (ZsBlock *, n + 1);

  if (n > 0)
    memcpy (firsts, allocator->segments->pdata, n * sizeof *firsts);
  qsort (firsts, n, sizeof *firsts, compare_addresses);
  for (guint i = 0; i < n; i++) {
    const ZsBlock *first = firsts[i];
    ZsSegment segment = {
      .address = first->address, .stream = zs_block_stream (first),
      .small = first->set / ZS_ALLOCATOR_STREAMS == POOL_SMALL, .expandable = first->range != NULL,
    };

    for (const ZsBlock *block = first; block != NULL; block = block->after)
      segment.bytes += block->size;
    for (const ZsBlock *block = first; block != NULL; block = block->after)
      visit (self, &segment, block);
  }
}

int64_t
zs_caching_allocator_inactive_split_bytes (const ZsCachingAllocator *allocator)
{
  int64_t bytes = 0;

  for (guint i = 0; i < allocator->segments->len; i++)
    for (const ZsBlock *block = allocator->segments->pdata[i]; block != NULL; block = block->after)
      if (block->state == ZS_BLOCK_INACTIVE && block->range == NULL && block_is_split (block))
        bytes += block->size;
  return bytes;
}

uint64_t
zs_caching_allocator_digest (const ZsCachingAllocator *allocator,
                             uint64_t (*event) (const void *self, int64_t event))
{
  const ZsAllocatorCounters *counters = &allocator->counters;
  uint64_t digest = zs_digest_items (1, allocator->n_searches, N_POOLS);

  digest = zs_digest_add (digest, (uint64_t) counters->allocated.now);
  digest = zs_digest_add (digest, (uint64_t) counters->allocated.peak);
  digest = zs_digest_add (digest, (uint64_t) counters->reserved.now);
  digest = zs_digest_add (digest, (uint64_t) counters->reserved.peak);
  digest = zs_digest_add (digest, (uint64_t) counters->num_alloc_retries);
  digest = zs_digest_add (digest, (uint64_t) counters->num_device_alloc);
  digest = zs_digest_add (digest, (uint64_t) counters->num_device_free);
  if (allocator->placement != NULL)
    digest = zs_digest_add (digest, zs_placement_digest (allocator->placement));
  for (guint s = 0; s < allocator->segments->len; s++)
    for (const ZsBlock *block = allocator->segments->pdata[s]; block != NULL; block = block->after) {
      digest = zs_digest_add (digest, (uint64_t) block->address);
      digest = zs_digest_add (digest, (uint64_t) block->size);
      digest = zs_digest_add (digest, (uint64_t) block->uses << 32 | (uint64_t) block->n_events << 24
                                        | (uint64_t) block->category << 16
                                        | (uint64_t) block->set << 8 | block->state);
      if (block->state == ZS_BLOCK_ALLOCATED || block->state == ZS_BLOCK_AWAITING_FREE)
        digest = zs_digest_add (digest, (uint64_t) block->requested);
    }
  for (int stream = 0; stream < ZS_ALLOCATOR_STREAMS; stream++) {
    const PendingQueue *queue = &allocator->pending[stream];

    for (uint32_t i = 0; i < queue->count; i++) {
      const struct PendingFree *item = &queue->items[(queue->first + i) & (queue->room - 1)];

      digest = zs_digest_add (digest, (uint64_t) stream);
      digest = zs_digest_add (digest, event (allocator->host.self, item->event));
      digest = zs_digest_add (digest, (uint64_t) item->block->address);
    }
  }
  return digest;
}

/* ---- invariants ---- */

typedef struct {
  int64_t allocated, reserved, active, requested, n_active, n_free, n_unmapped;
  int64_t by_category[ZS_ALLOCATOR_CATEGORIES];
} Sums;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition))                                                                              \
      g_error ("caching allocator: block at %#" G_GINT64_MODIFIER "x of %" G_GINT64_FORMAT         \
               " bytes: not true that %s", (gint64) block->address, (gint64) block->size,          \
               #condition);                                                                        \
  } while (0)

static void
check_block (const ZsBlock *block, const ZsBlock *first, Sums *sums)
{
  const ZsBlock *after = block->after;

  CHECK (block->size > 0 && block->size % MIN_BLOCK == 0);
  CHECK (block->set == first->set && block->range == first->range);
  if (after != NULL) {
    CHECK (after->before == block);
    CHECK (after->address == block->address + block->size);
    CHECK (!(block->state == ZS_BLOCK_INACTIVE && after->state == ZS_BLOCK_INACTIVE));
    CHECK (!(block->state == ZS_BLOCK_UNMAPPED && after->state == ZS_BLOCK_UNMAPPED));
  }
  CHECK (block->state != ZS_BLOCK_AWAITING_FREE || block->n_events > 0);
  CHECK (block->state != ZS_BLOCK_ALLOCATED || block->n_events == 0);
  switch (block->state) {
  case ZS_BLOCK_ALLOCATED:
    sums->allocated += block->size;
    sums->by_category[block->category] += block->size;
    /* fall through */
  case ZS_BLOCK_AWAITING_FREE:
    CHECK (block->requested > 0 && block->requested <= block->size);
    sums->active += block->size;
    sums->requested += block->requested;
    sums->n_active++;
    break;
  case ZS_BLOCK_INACTIVE:
    sums->n_free++;
    break;
  case ZS_BLOCK_UNMAPPED:
    CHECK (block->range != NULL);
    CHECK ((block->address - block->range->base) % block->range->page == 0);
    CHECK (block->size % block->range->page == 0);
    sums->n_unmapped++;
    break;
  default:
    g_assert_not_reached ();
  }
  if (block->state != ZS_BLOCK_UNMAPPED)
    sums->reserved += block->size;
}

static int64_t
check_set (const ZsCachingAllocator *allocator, unsigned int set)
{
  if (allocator->sets[set] == NULL)
    return 0;
  g_autoptr (GPtrArray) list = zs_free_set_list (allocator->sets[set]);

  for (guint i = 0; i < list->len; i++) {
    const ZsBlock *block = list->pdata[i];
    const ZsBlock *next = i + 1 < list->len ? list->pdata[i + 1] : NULL;

    CHECK (block->state == ZS_BLOCK_INACTIVE && block->set == set);
    CHECK (next == NULL || block->size < next->size
           || (block->size == next->size && block->address < next->address));
  }
  return list->len;
}

void
zs_caching_allocator_check (const ZsCachingAllocator *allocator)
{
  const ZsAllocatorCounters *counters = &allocator->counters;
  Sums sums = { 0 };
  int64_t n_free = 0, n_unmapped = 0, n_waiting = 0;

  for (guint i = 0; i < allocator->segments->len; i++) {
    const ZsBlock *first = allocator->segments->pdata[i], *block = first;

    CHECK (first->before == NULL);
    for (; block != NULL; block = block->after)
      check_block (block, first, &sums);
  }
  for (unsigned int set = 0; set < N_POOLS * ZS_ALLOCATOR_STREAMS; set++) {
    n_free += check_set (allocator, set);
    n_unmapped += allocator->unmapped[set] == NULL ? 0 : (int64_t) allocator->unmapped[set]->len;
  }
  for (int stream = 0; stream < ZS_ALLOCATOR_STREAMS; stream++) {
    n_waiting += allocator->pending[stream].count;
    g_assert_cmpint (allocator->pending[stream].count > 0, ==,
                     allocator->pending_streams >> stream & 1);
  }
  g_assert_cmpint (n_free, ==, sums.n_free);
  g_assert_cmpint (n_unmapped, ==, sums.n_unmapped);
  g_assert_cmpint (n_waiting > 0, ==, counters->active.now > counters->allocated.now);
  g_assert_cmpint (sums.allocated, ==, counters->allocated.now);
  g_assert_cmpint (sums.reserved, ==, counters->reserved.now);
  g_assert_cmpint (sums.active, ==, counters->active.now);
  g_assert_cmpint (sums.requested, ==, counters->requested.now);
  g_assert_cmpint (sums.n_active, ==, counters->n_active);
  for (int i = 0; i < ZS_ALLOCATOR_CATEGORIES; i++)
    g_assert_cmpint (sums.by_category[i], ==, counters->by_category[i]);
  g_assert_cmpint (counters->allocated.peak, >=, counters->allocated.now);
  g_assert_cmpint (counters->reserved.peak, >=, counters->reserved.now);
  int64_t at_peak = 0;

  for (int i = 0; i < ZS_ALLOCATOR_CATEGORIES; i++)
    at_peak += zs_caching_allocator_peak_by_category (allocator)[i];
  g_assert_cmpint (at_peak, ==, counters->allocated.peak);
}
