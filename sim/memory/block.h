/* block.h: a piece of a segment, in use or free.  Private to sim/memory.
 * SPDX-License-Identifier: MIT
 *
 * Blocks of one segment are linked in address order, so that a freed block can join its neighbours.
 * A split keeps the object for the low addresses and a join keeps the lower object: the first block
 * of a segment is the same object as long as the segment lives.  64 bytes: one cache line. */
#pragma once

#include "sim/memory/caching-allocator.h"

typedef struct {
  int64_t base, bytes;     /* the virtual range */
  int64_t page;            /* bytes mapped at a time: 2 MiB (small pool) or large_segment_size */
} ZsExpandableRange;

struct ZsBlock {
  int64_t  address, size;
  int64_t  requested;      /* in use or waiting.  Free: the pool's search count when it was freed */
  ZsBlock *before, *after;
  ZsExpandableRange *range;   /* NULL: an ordinary segment */
  uint32_t label;
  uint32_t uses;           /* bit per recorded stream */
  uint8_t  state;          /* ZsBlockState */
  uint8_t  category;
  uint8_t  set;            /* pool * ZS_ALLOCATOR_STREAMS + stream */
  uint8_t  n_events;       /* still to come before the free completes */
};

static inline bool
block_is_split (const ZsBlock *block)
{
  return block->before != NULL || block->after != NULL;
}
