/* free-set.h: the free blocks of one pool and stream, ordered by (size, address).
 * SPDX-License-Identifier: MIT
 *
 * Best fit asks for the first block not smaller than n.  Sizes are in units of 512 bytes and fall
 * into bins, 16 to each power of two; a bit per bin says which have any.  A bin is a sorted array of
 * 64-bit keys: size within the bin above, address / 512 below, so that one comparison orders by size
 * and then by address.  The array has room at both ends and moves its shorter side: training takes
 * and returns blocks of few sizes, from the low end.  A search looks into one bin, or into that and
 * the next non-empty one.
 *
 * Limits, checked: sizes below 512 GiB, addresses below 2^47. */
#pragma once

#include "sim/memory/block.h"

#define ZS_FREE_SET_BINS 432    /* (29 - 3 + 1) * 16: sizes of up to 30 bits of 512 bytes */
#define ZS_FREE_SET_WORDS ((ZS_FREE_SET_BINS + 63) / 64)

typedef struct {
  uint64_t key;
  ZsBlock *block;
} ZsFreeEntry;

typedef struct {
  ZsFreeEntry *entries;    /* all of the room */
  uint32_t first, count, room;
} ZsFreeBin;

typedef struct {
  uint64_t  words[ZS_FREE_SET_WORDS];
  ZsFreeBin bins[ZS_FREE_SET_BINS];
} ZsFreeSet;

/* Where an element is; invalid after any change. */
typedef struct {
  uint32_t bin, index;     /* index: into the bin's elements, from 0 */
} ZsFreeAt;

ZsFreeSet *zs_free_set_new  (void) G_GNUC_WARN_UNUSED_RESULT;
void       zs_free_set_free (ZsFreeSet *set);

void zs_free_set_insert (ZsFreeSet *set, ZsBlock *block);
void zs_free_set_remove (ZsFreeSet *set, const ZsBlock *block);
void zs_free_set_remove_at (ZsFreeSet *set, ZsFreeAt at);
/* BLOCK comes in the place of the element at AT: mostly nothing has to move. */
void zs_free_set_replace_at (ZsFreeSet *set, ZsFreeAt at, ZsBlock *block);
/* Where BLOCK, which is in the set, is. */
ZsFreeAt zs_free_set_find (const ZsFreeSet *set, const ZsBlock *block);

/* The first element of SIZE or more. */
bool zs_free_set_lower_bound (const ZsFreeSet *set, int64_t size, ZsFreeAt *ret_at);
/* Step to the next or the one before; false at the end. */
bool zs_free_set_next (const ZsFreeSet *set, ZsFreeAt *at);
bool zs_free_set_previous (const ZsFreeSet *set, ZsFreeAt *at);
bool zs_free_set_last (const ZsFreeSet *set, ZsFreeAt *ret_at);

static inline ZsBlock *
zs_free_set_get (const ZsFreeSet *set, ZsFreeAt at)
{
  const ZsFreeBin *bin = &set->bins[at.bin];

  return bin->entries[bin->first + at.index].block;
}

/* All elements in order into a new GPtrArray. */
GPtrArray *zs_free_set_list (const ZsFreeSet *set) G_GNUC_WARN_UNUSED_RESULT;
