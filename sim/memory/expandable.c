/* expandable.c: segments whose pages are mapped as needed.  SPDX-License-Identifier: MIT
 *
 * Each (stream, pool) has one virtual range of 1.125 times the GPU's memory (a second one only when
 * that is full).  It is a chain of blocks, mapped or not; unmapped blocks begin and end at whole
 * pages.  Source: try_allocate_expandable_block () and unmap_block () of
 * c10/cuda/CUDACachingAllocator.cpp. */
#include "config.h"

#include "sim/memory/allocator-private.h"

static GPtrArray *
unmapped_of (ZsCachingAllocator *allocator, unsigned int set)
{
  if (allocator->unmapped[set] == NULL)
    allocator->unmapped[set] = g_ptr_array_new ();
  return allocator->unmapped[set];
}

static void
insert_unmapped (ZsCachingAllocator *allocator, ZsBlock *block)
{
  GPtrArray *list = unmapped_of (allocator, block->set);
  guint i = 0;

  while (i < list->len && ((ZsBlock *) list->pdata[i])->address < block->address)
    i++;
  g_ptr_array_insert (list, (gint) i, block);
}

static void
remove_unmapped (ZsCachingAllocator *allocator, ZsBlock *block)
{
  gboolean found = g_ptr_array_remove (allocator->unmapped[block->set], block);

  g_assert (found);
}

static inline bool
allocatable (const ZsBlock *block)
{
  return block != NULL
         && (block->state == ZS_BLOCK_INACTIVE || block->state == ZS_BLOCK_UNMAPPED);
}

static bool
has_room (const ZsBlock *block, int64_t bytes)
{
  int64_t room = 0;

  for (; room < bytes && allocatable (block); block = block->after)
    room += block->size;
  return room >= bytes;
}

/* Lowest place where BYTES can be had from free and unmapped neighbours; a new range if there is
 * none. */
static ZsBlock *
find_room (ZsCachingAllocator *allocator, unsigned int set, int64_t bytes)
{
  GPtrArray *list = unmapped_of (allocator, set);

  for (guint i = 0; i < list->len; i++) {
    ZsBlock *block = list->pdata[i];

    if (allocatable (block->before))
      block = block->before;
    if (has_room (block, bytes))
      return block;
  }

  ZsExpandableRange *range = g_new (ZsExpandableRange, 1);
  ZsBlock *block = allocator_block_new (allocator);
  int64_t page = set / ZS_ALLOCATOR_STREAMS == POOL_SMALL ? SMALL_BUFFER
                                                          : allocator->conf.large_segment_size;
  int64_t wanted = allocator->total_memory + allocator->total_memory / 8;

  range->page = page;
  range->bytes = (wanted + page - 1) / page * page;
  range->base = allocator_place (allocator, range->bytes, true);
  *block = (ZsBlock) {
    .address = range->base, .size = range->bytes, .range = range, .set = (uint8_t) set,
    .state = ZS_BLOCK_UNMAPPED,
  };
  g_ptr_array_add (allocator->segments, block);
  insert_unmapped (allocator, block);
  return block;
}

/* Map at least BYTES at the front of an unmapped block, and join; the mapped block, which is in the
 * free set, or NULL. */
static ZsBlock *
map_block (ZsCachingAllocator *allocator, ZsBlock *block, int64_t bytes)
{
  ZsAllocatorCounters *counters = &allocator->counters;
  int64_t page = block->range->page;
  int64_t mapped = (bytes + page - 1) / page * page;
  int64_t address = block->address;

  g_assert (block->state == ZS_BLOCK_UNMAPPED && bytes <= block->size && mapped <= block->size);
  if (allocator->host.device_free != NULL
      && mapped > allocator->host.device_free (allocator->host.self, counters->reserved.now))
    return NULL;
  remove_unmapped (allocator, block);
  if (mapped < block->size) {
    ZsBlock *rest = allocator_block_new (allocator);

    *rest = (ZsBlock) {
      .address = block->address + mapped, .size = block->size - mapped, .before = block,
      .after = block->after, .range = block->range, .set = block->set,
      .state = ZS_BLOCK_UNMAPPED,
    };
    if (rest->after != NULL)
      rest->after->before = rest;
    block->after = rest;
    block->size = mapped;
    insert_unmapped (allocator, rest);
  }
  block = allocator_insert_joined (allocator, block);
  gauge_add (&counters->reserved, mapped);
  counters->num_device_alloc++;
  allocator_tell (allocator, ZS_ALLOCATOR_SEGMENT_MAP, address, mapped, block->set);
  return block;
}

ZsBlock *
allocator_grow_expandable (ZsCachingAllocator *allocator, unsigned int set, int64_t rounded)
{
  ZsBlock *block = find_room (allocator, set, rounded);

  if (block->state == ZS_BLOCK_UNMAPPED)
    block = map_block (allocator, block, MIN (block->size, rounded));
  while (block != NULL && block->size < rounded) {
    ZsBlock *next = block->after;

    block = map_block (allocator, next, MIN (rounded - block->size, next->size));
  }
  if (block != NULL)
    zs_free_set_remove (allocator->sets[set], block);
  return block;
}

/* Join unmapped BLOCK with its unmapped neighbours and enter it. */
static ZsBlock *
insert_unmapped_joined (ZsCachingAllocator *allocator, ZsBlock *block)
{
  ZsBlock *before = block->before, *after = block->after;

  block->state = ZS_BLOCK_UNMAPPED;
  if (before != NULL && before->state == ZS_BLOCK_UNMAPPED) {
    remove_unmapped (allocator, before);
    allocator_absorb_after (allocator, before);
    block = before;
  }
  if (after != NULL && after->state == ZS_BLOCK_UNMAPPED) {
    remove_unmapped (allocator, after);
    allocator_absorb_after (allocator, block);
  }
  insert_unmapped (allocator, block);
  return block;
}

/* Cut BLOCK so that the rest begins at ADDRESS inside it; the rest, in no set. */
static ZsBlock *
cut_block (ZsCachingAllocator *allocator, ZsBlock *block, int64_t address)
{
  ZsBlock *rest = allocator_block_new (allocator);

  *rest = *block;
  rest->address = address;
  rest->size = block->address + block->size - address;
  rest->before = block;
  if (rest->after != NULL)
    rest->after->before = rest;
  block->after = rest;
  block->size = address - block->address;
  return rest;
}

void
allocator_unmap_block (ZsCachingAllocator *allocator, ZsBlock *block)
{
  ZsAllocatorCounters *counters = &allocator->counters;
  int64_t base = block->range->base, page = block->range->page;
  int64_t start = base + (block->address - base + page - 1) / page * page;
  int64_t end = base + (block->address + block->size - base) / page * page;
  unsigned int set = block->set;

  if (start >= end)
    return;
  zs_free_set_remove (allocator->sets[set], block);
  if (start > block->address) {
    ZsBlock *rest = cut_block (allocator, block, start);

    allocator_insert_free (allocator, block);
    block = rest;
  }
  if (end < block->address + block->size)
    allocator_insert_free (allocator, cut_block (allocator, block, end));
  block = insert_unmapped_joined (allocator, block);
  counters->reserved.now -= end - start;
  counters->num_device_free++;
  allocator_tell (allocator, ZS_ALLOCATOR_SEGMENT_UNMAP, start, end - start, set);
  if (!block_is_split (block)) {
    remove_unmapped (allocator, block);
    allocator_forget_segment (allocator, block);
  }
}
