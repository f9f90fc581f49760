/* segments.c: taking memory from the driver and giving it back.  SPDX-License-Identifier: MIT
 *
 * Order of attempts after a miss (c10/cuda/CUDACachingAllocator.cpp): garbage collection if it is on;
 * a new segment; with max_split_size, giving back cached blocks that are too large to be split, and
 * a new segment; waiting for all deferred frees, giving back the whole cache, and a new segment. */
#include "config.h"

#include "sim/memory/allocator-private.h"

/* Allocations and frees until the driver gives its arena back: the earliest of recorded histories, when a
 * model's first decoder layer has been built. */
enum { ARENA_OPERATIONS = 11 };

int64_t
allocator_place (ZsCachingAllocator *allocator, int64_t bytes, bool range)
{
  if (allocator->host.place != NULL)
    return allocator->host.place (allocator->host.self, bytes, range);
  if (allocator->placement == NULL)
    allocator->placement = zs_placement_new (false);
  if (!allocator->arena_is_free && allocator->counters.n_operations >= ARENA_OPERATIONS) {
    zs_placement_give_arena (allocator->placement);
    allocator->arena_is_free = true;
  }
  return zs_placement_take (allocator->placement, bytes);
}

static ZsBlock *
new_segment (ZsCachingAllocator *allocator, unsigned int set, int64_t rounded)
{
  ZsAllocatorCounters *counters = &allocator->counters;
  int64_t bytes = zs_alloc_conf_segment (&allocator->conf, rounded);

  if (allocator->limit > 0 && counters->reserved.now + bytes > allocator->limit)
    return NULL;
  if (allocator->expandable)
    return allocator_grow_expandable (allocator, set, rounded);
  if (allocator->host.device_free != NULL
      && bytes > allocator->host.device_free (allocator->host.self, counters->reserved.now))
    return NULL;

  ZsBlock *block = allocator_block_new (allocator);

  *block = (ZsBlock) {
    .address = allocator_place (allocator, bytes, false), .size = bytes, .set = (uint8_t) set,
  };
  g_ptr_array_add (allocator->segments, block);
  gauge_add (&counters->reserved, bytes);
  counters->num_device_alloc++;
  allocator_tell (allocator, ZS_ALLOCATOR_SEGMENT_ALLOC, block->address, bytes, set);
  return block;
}

void
allocator_forget_segment (ZsCachingAllocator *allocator, ZsBlock *first)
{
  gboolean found = g_ptr_array_remove_fast (allocator->segments, first);

  g_assert (found);
  g_free (first->range);
  allocator_block_drop (allocator, first);
}

/* cudaFree of an unsplit free block. */
static void
release_block (ZsCachingAllocator *allocator, ZsBlock *block)
{
  ZsAllocatorCounters *counters = &allocator->counters;

  g_assert (!block_is_split (block) && block->state == ZS_BLOCK_INACTIVE && block->range == NULL);
  zs_free_set_remove (allocator->sets[block->set], block);
  counters->reserved.now -= block->size;
  counters->num_device_free++;
  allocator_tell (allocator, ZS_ALLOCATOR_SEGMENT_FREE, block->address, block->size, block->set);
  if (allocator->host.place == NULL)
    zs_placement_give (allocator->placement, block->address, block->size);
  allocator_forget_segment (allocator, block);
}

/* release_available_cached_blocks (): false when it did not free enough. */
static bool
release_oversize (ZsCachingAllocator *allocator, unsigned int set_index, int64_t rounded)
{
  ZsFreeSet *set = allocator->sets[set_index];
  int64_t wanted = MAX (rounded, allocator->max_split);
  ZsFreeAt at;

  if (allocator->max_split == INT64_MAX || set == NULL)
    return false;
  if (zs_free_set_lower_bound (set, wanted, &at) && zs_free_set_get (set, at)->range == NULL) {
    release_block (allocator, zs_free_set_get (set, at));
    return true;
  }

  g_autoptr (GPtrArray) blocks = zs_free_set_list (set);
  int64_t released = 0;

  for (guint i = blocks->len; i-- > 0 && released < wanted;) {
    ZsBlock *block = blocks->pdata[i];

    if (block->size < allocator->max_split)
      break;
    if (block->range != NULL || block->size >= wanted)
      continue;
    released += block->size;
    release_block (allocator, block);
  }
  return released >= wanted;
}

/* garbage_collect_cached_blocks (): the oldest unsplit blocks of the large pool, until enough. */
static void
collect_garbage (ZsCachingAllocator *allocator)
{
  int64_t threshold = (int64_t) (allocator->conf.garbage_collection_threshold
                                 * (double) allocator->limit);
  int64_t target = allocator->counters.reserved.now - threshold;

  if (target <= 0)
    return;

  g_autoptr (GPtrArray) blocks = g_ptr_array_new ();
  int64_t now = allocator->n_searches[POOL_LARGE], total_age = 0, freed = 0;

  for (int stream = 0; stream < ZS_ALLOCATOR_STREAMS; stream++) {
    ZsFreeSet *set = allocator->sets[POOL_LARGE * ZS_ALLOCATOR_STREAMS + stream];

    if (set == NULL)
      continue;
    g_autoptr (GPtrArray) list = zs_free_set_list (set);

    for (guint i = 0; i < list->len; i++) {
      ZsBlock *block = list->pdata[i];

      if (block_is_split (block) || block->range != NULL)
        continue;
      total_age += now - block->requested;
      g_ptr_array_add (blocks, block);
    }
  }
  for (bool any = true; freed < target && any && blocks->len > 0;) {
    double age_threshold = (double) total_age / blocks->len;
    guint n_kept = 0;

    any = false;
    for (guint i = 0; i < blocks->len; i++) {
      ZsBlock *block = blocks->pdata[i];
      int64_t age = now - block->requested;

      if ((double) age < age_threshold) {
        blocks->pdata[n_kept++] = block;
        continue;
      }
      any = true;
      freed += block->size;
      total_age -= age;
      release_block (allocator, block);
    }
    g_ptr_array_set_size (blocks, (gint) n_kept);
  }
}

/* release_cached_blocks () after the wait: large pool first, each in the order of its free set;
 * expandable blocks after the ordinary ones of their pool. */
void
allocator_release_cached (ZsCachingAllocator *allocator)
{
  static const int ORDER[] = { POOL_LARGE, POOL_SMALL };

  for (int i = 0; i < N_POOLS; i++) {
    g_autoptr (GPtrArray) expandable = g_ptr_array_new ();

    for (int stream = 0; stream < ZS_ALLOCATOR_STREAMS; stream++) {
      ZsFreeSet *set = allocator->sets[ORDER[i] * ZS_ALLOCATOR_STREAMS + stream];

      if (set == NULL)
        continue;
      g_autoptr (GPtrArray) list = zs_free_set_list (set);

      for (guint j = 0; j < list->len; j++) {
        ZsBlock *block = list->pdata[j];

        if (block->range != NULL)
          g_ptr_array_add (expandable, block);
        else if (!block_is_split (block))
          release_block (allocator, block);
      }
    }
    for (guint j = 0; j < expandable->len; j++)
      allocator_unmap_block (allocator, expandable->pdata[j]);
  }
}

ZsBlock *
allocator_grow (ZsCachingAllocator *allocator, unsigned int set, int64_t rounded)
{
  if (allocator->sets[set] == NULL)
    allocator->sets[set] = zs_free_set_new ();
  if (allocator->gc)
    collect_garbage (allocator);

  ZsBlock *block = new_segment (allocator, set, rounded);

  if (block == NULL && release_oversize (allocator, set, rounded))
    block = new_segment (allocator, set, rounded);
  if (block == NULL) {
    allocator_flush (allocator);
    allocator->counters.num_alloc_retries++;
    block = new_segment (allocator, set, rounded);
  }
  return block;
}
