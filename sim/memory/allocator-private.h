/* allocator-private.h: inside of the caching allocator.  Private to sim/memory.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/memory/free-set.h"
#include "sim/memory/placement.h"

enum { POOL_SMALL, POOL_LARGE, N_POOLS };

/* Sizes of c10/core/AllocatorConfig.h. */
#define MIN_BLOCK    INT64_C (512)
#define SMALL_SIZE   (1 * ZS_MIB)     /* larger requests come from the large pool */
#define SMALL_BUFFER (2 * ZS_MIB)     /* segment of the small pool */
#define MIN_LARGE    (10 * ZS_MIB)    /* smaller large requests share a large_segment_size */
#define ROUND_LARGE  (2 * ZS_MIB)     /* larger segments are multiples of this */

/* Deferred frees of one stream, oldest first: a ring. */
typedef struct {
  struct PendingFree { int64_t event; ZsBlock *block; } *items;
  uint32_t first, count, room;      /* room: a power of two */
} PendingQueue;

struct ZsCachingAllocator {
  ZsAllocatorCounters counters;
  bool       peak_is_now;           /* peak_by_category is still to be copied */
  int64_t    watch;
  uint32_t   pending_streams;       /* bit per stream with deferred frees */
  ZsBlock   *spare;                 /* unused block objects, linked by `after` */
  ZsFreeSet *sets[N_POOLS * ZS_ALLOCATOR_STREAMS];   /* NULL until used */
  bool       gc;                    /* count searches: collection is on and there is a limit */
  bool       expandable;
  bool       plain_rounding;        /* to 512 bytes and no further */
  int64_t    max_split;
  ZsAllocatorHost host;
  int64_t    peak_by_category[ZS_ALLOCATOR_CATEGORIES];

  ZsAllocConf conf;
  int64_t    total_memory, limit;
  int64_t    n_searches[N_POOLS];   /* get_free_blocks_call_count */
  ZsAllocationFailure failure;
  PendingQueue pending[ZS_ALLOCATOR_STREAMS];
  GPtrArray *segments;              /* first block of each segment */
  GPtrArray *unmapped[N_POOLS * ZS_ALLOCATOR_STREAMS];   /* by address; NULL until used */
  GPtrArray *slabs;                 /* block objects */
  bool       arena_is_free;         /* zs_placement_give_arena () */
  ZsPlacement *placement;           /* of segments, where the host says nothing; made when needed */
};

/* ---- caching-allocator.c ---- */
ZsBlock *allocator_block_new (ZsCachingAllocator *allocator);
void     allocator_block_drop (ZsCachingAllocator *allocator, ZsBlock *block);
/* BLOCK takes in the block after it, which is in no set any more. */
static inline void
allocator_absorb_after (ZsCachingAllocator *allocator, ZsBlock *block)
{
  ZsBlock *after = block->after;

  block->size += after->size;
  block->after = after->after;
  if (after->after != NULL)
    after->after->before = block;
  allocator_block_drop (allocator, after);
}
/* Join BLOCK with its mapped free neighbours and put it into its free set; the block that remains. */
ZsBlock *allocator_insert_joined (ZsCachingAllocator *allocator, ZsBlock *block);
/* Insert without joining. */
void     allocator_insert_free (ZsCachingAllocator *allocator, ZsBlock *block);
/* The free of BLOCK completes. */
void     allocator_complete_free (ZsCachingAllocator *allocator, ZsBlock *block);

static inline void
gauge_add (ZsGauge *gauge, int64_t bytes)
{
  gauge->now += bytes;
  if (gauge->now > gauge->peak)
    gauge->peak = gauge->now;
}

static inline void
allocator_tell (ZsCachingAllocator *allocator, ZsAllocatorAction action, int64_t address,
                int64_t bytes, unsigned int set)
{
  if (allocator->host.on_segment != NULL)
    allocator->host.on_segment (allocator->host.self, action, address, bytes,
                                (int) (set % ZS_ALLOCATOR_STREAMS));
}

void     allocator_flush (ZsCachingAllocator *allocator);

/* ---- segments.c ---- */
/* New memory for ROUNDED bytes, after the flushes that PyTorch tries; NULL: out of memory.
 * The block is in no free set. */
ZsBlock *allocator_grow (ZsCachingAllocator *allocator, unsigned int set, int64_t rounded);
/* Give back every free segment and page; allocator_flush () waits for the deferred frees before. */
void     allocator_release_cached (ZsCachingAllocator *allocator);
int64_t  allocator_place (ZsCachingAllocator *allocator, int64_t bytes, bool range);
void     allocator_forget_segment (ZsCachingAllocator *allocator, ZsBlock *first);

/* ---- expandable.c ---- */
ZsBlock *allocator_grow_expandable (ZsCachingAllocator *allocator, unsigned int set,
                                    int64_t rounded);
/* Give back the whole pages inside a free block. */
void     allocator_unmap_block (ZsCachingAllocator *allocator, ZsBlock *block);
