/* free-set.c: free blocks in bins of similar size.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/memory/free-set.h"

#define ADDRESS_BITS 38   /* 47 bits of address, in units of 512 bytes */
#define LINEAR_SEARCH 8   /* up to so many elements a scan beats halving */

ZsFreeSet *
zs_free_set_new (void)
{
  return g_new0 (ZsFreeSet, 1);
}

void
zs_free_set_free (ZsFreeSet *set)
{
  if (set == NULL)
    return;
  for (int i = 0; i < ZS_FREE_SET_BINS; i++)
    g_free (set->bins[i].entries);
  g_free (set);
}

/* The bin of SIZE, and the key of its smallest address in that bin. */
static inline uint32_t
bin_of (int64_t size, uint64_t *ret_key)
{
  uint64_t units = (uint64_t) size >> 9;

  if (units < 16) {
    *ret_key = 0;
    return (uint32_t) units;
  }
  unsigned int exponent = 63 - (unsigned int) __builtin_clzll (units);
  uint64_t fraction = units >> (exponent - 4);

  *ret_key = (units - (fraction << (exponent - 4))) << ADDRESS_BITS;
  return ((exponent - 3) << 4) + (uint32_t) (fraction & 15);
}

/* First element of BIN with a key of at least KEY. */
static inline uint32_t
search (const ZsFreeBin *bin, uint64_t key)
{
  const ZsFreeEntry *entries = bin->entries + bin->first;
  uint32_t low = 0, high = bin->count;

  while (high - low > LINEAR_SEARCH) {
    uint32_t middle = (low + high) / 2;

    if (entries[middle].key < key)
      low = middle + 1;
    else
      high = middle;
  }
  while (low < high && entries[low].key < key)
    low++;
  return low;
}

static void
make_room (ZsFreeBin *bin)
{
  uint32_t room = bin->room == 0 ? 8 : bin->count * 2 > bin->room ? bin->room * 2 : bin->room;
  ZsFreeEntry *entries = g_new (ZsFreeEntry, room);
  uint32_t first = (room - bin->count) / 2;

  if (bin->count > 0)
    memcpy (entries + first, bin->entries + bin->first, bin->count * sizeof *entries);
  g_free (bin->entries);
  bin->entries = entries;
  bin->first = first;
  bin->room = room;
}

void
zs_free_set_insert (ZsFreeSet *set, ZsBlock *block)
{
  uint64_t key;
  uint32_t number = bin_of (block->size, &key);
  ZsFreeBin *bin = &set->bins[number];

  g_assert (number < ZS_FREE_SET_BINS);
  key |= (uint64_t) block->address >> 9;
  if (bin->count == 0) {
    if (bin->room == 0)
      make_room (bin);
    bin->first = bin->room / 2;
    bin->count = 1;
    bin->entries[bin->first] = (ZsFreeEntry) { key, block };
    set->words[number / 64] |= UINT64_C (1) << (number % 64);
    return;
  }

  uint32_t index = search (bin, key);

  if (index < bin->count / 2 || bin->first + bin->count == bin->room) {
    if (bin->first == 0) {
      make_room (bin);
      zs_free_set_insert (set, block);
      return;
    }
    ZsFreeEntry *entries = bin->entries + --bin->first;

    for (uint32_t i = 0; i < index; i++)
      entries[i] = entries[i + 1];
    entries[index] = (ZsFreeEntry) { key, block };
  } else {
    ZsFreeEntry *entries = bin->entries + bin->first;

    for (uint32_t i = bin->count; i > index; i--)
      entries[i] = entries[i - 1];
    entries[index] = (ZsFreeEntry) { key, block };
  }
  bin->count++;
}

void
zs_free_set_remove_at (ZsFreeSet *set, ZsFreeAt at)
{
  ZsFreeBin *bin = &set->bins[at.bin];
  ZsFreeEntry *entries = bin->entries + bin->first;

  g_assert (at.index < bin->count);
  if (--bin->count == 0) {
    set->words[at.bin / 64] &= ~(UINT64_C (1) << (at.bin % 64));
    return;
  }
  if (at.index <= bin->count / 2) {
    for (uint32_t i = at.index; i > 0; i--)
      entries[i] = entries[i - 1];
    bin->first++;
  } else {
    for (uint32_t i = at.index; i < bin->count; i++)
      entries[i] = entries[i + 1];
  }
}

void
zs_free_set_replace_at (ZsFreeSet *set, ZsFreeAt at, ZsBlock *block)
{
  ZsFreeBin *bin = &set->bins[at.bin];
  ZsFreeEntry *entry = &bin->entries[bin->first + at.index];
  uint64_t key;

  if (bin_of (block->size, &key) == at.bin) {
    key |= (uint64_t) block->address >> 9;
    if ((at.index == 0 || entry[-1].key < key) && (at.index + 1 == bin->count || key < entry[1].key)) {
      *entry = (ZsFreeEntry) { key, block };
      return;
    }
  }
  zs_free_set_remove_at (set, at);
  zs_free_set_insert (set, block);
}

ZsFreeAt
zs_free_set_find (const ZsFreeSet *set, const ZsBlock *block)
{
  uint64_t key;
  uint32_t number = bin_of (block->size, &key);
  const ZsFreeBin *bin = &set->bins[number];

  key |= (uint64_t) block->address >> 9;
  uint32_t index = search (bin, key);

  g_assert (index < bin->count && bin->entries[bin->first + index].block == block);
  return (ZsFreeAt) { number, index };
}

void
zs_free_set_remove (ZsFreeSet *set, const ZsBlock *block)
{
  zs_free_set_remove_at (set, zs_free_set_find (set, block));
}

/* First non-empty bin from NUMBER on, or ZS_FREE_SET_BINS. */
static inline uint32_t
bin_from (const ZsFreeSet *set, uint32_t number)
{
  if (number >= ZS_FREE_SET_BINS)
    return ZS_FREE_SET_BINS;
  uint32_t word = number / 64;
  uint64_t bits = set->words[word] & (~UINT64_C (0) << (number % 64));

  while (bits == 0) {
    if (++word == ZS_FREE_SET_WORDS)
      return ZS_FREE_SET_BINS;
    bits = set->words[word];
  }
  return word * 64 + (uint32_t) __builtin_ctzll (bits);
}

bool
zs_free_set_lower_bound (const ZsFreeSet *set, int64_t size, ZsFreeAt *ret_at)
{
  uint64_t key;
  uint32_t number = bin_of (size, &key);

  if (number >= ZS_FREE_SET_BINS)
    return false;
  if (set->words[number / 64] >> (number % 64) & 1) {
    uint32_t index = search (&set->bins[number], key);

    if (index < set->bins[number].count) {
      *ret_at = (ZsFreeAt) { number, index };
      return true;
    }
  }
  number = bin_from (set, number + 1);
  if (number == ZS_FREE_SET_BINS)
    return false;
  *ret_at = (ZsFreeAt) { number, 0 };
  return true;
}

bool
zs_free_set_next (const ZsFreeSet *set, ZsFreeAt *at)
{
  if (at->index + 1 < set->bins[at->bin].count) {
    at->index++;
    return true;
  }
  uint32_t number = bin_from (set, at->bin + 1);

  if (number == ZS_FREE_SET_BINS)
    return false;
  *at = (ZsFreeAt) { number, 0 };
  return true;
}

bool
zs_free_set_previous (const ZsFreeSet *set, ZsFreeAt *at)
{
  if (at->index > 0) {
    at->index--;
    return true;
  }
  for (uint32_t number = at->bin; number-- > 0;)
    if (set->bins[number].count > 0) {
      *at = (ZsFreeAt) { number, set->bins[number].count - 1 };
      return true;
    }
  return false;
}

bool
zs_free_set_last (const ZsFreeSet *set, ZsFreeAt *ret_at)
{
  ZsFreeAt at = { ZS_FREE_SET_BINS, 0 };

  if (!zs_free_set_previous (set, &at))
    return false;
  *ret_at = at;
  return true;
}

GPtrArray *
zs_free_set_list (const ZsFreeSet *set)
{
  GPtrArray *list = g_ptr_array_new ();

  for (uint32_t number = bin_from (set, 0); number < ZS_FREE_SET_BINS;
       number = bin_from (set, number + 1)) {
    const ZsFreeBin *bin = &set->bins[number];

    for (uint32_t i = 0; i < bin->count; i++)
      g_ptr_array_add (list, bin->entries[bin->first + i].block);
  }
  return list;
}
