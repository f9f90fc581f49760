/* host-allocator.c: pinned and pageable memory of one rank.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/memory/host-allocator.h"

#include "sim/base/digest.h"

struct ZsHostAllocator {
  ZsHostCounters counters;
  int64_t n_cached[63];   /* free pinned blocks of 2^i bytes */
};

ZsHostAllocator *
zs_host_allocator_new (void)
{
  return g_new0 (ZsHostAllocator, 1);
}

void
zs_host_allocator_free (ZsHostAllocator *allocator)
{
  g_free (allocator);
}

static int
log2_up (int64_t bytes)
{
  return bytes <= 1 ? 0 : 64 - __builtin_clzll ((unsigned long long) bytes - 1);
}

int64_t
zs_host_pinned_size (int64_t bytes)
{
  g_assert (bytes >= 0 && bytes <= INT64_C (1) << 62);
  return bytes == 0 ? 0 : INT64_C (1) << log2_up (bytes);
}

static void
note_peaks (ZsHostCounters *counters)
{
  counters->pinned_peak = MAX (counters->pinned_peak, counters->pinned);
  counters->pageable_peak = MAX (counters->pageable_peak, counters->pageable);
  counters->total_peak = MAX (counters->total_peak, counters->pinned + counters->pageable);
}

ZsHostBlock
zs_host_allocator_alloc (ZsHostAllocator *allocator, int64_t bytes, ZsHostKind kind)
{
  ZsHostCounters *counters = &allocator->counters;
  ZsHostBlock block = { .kind = kind, .requested = bytes, .bytes = bytes, .fresh = bytes > 0 };

  g_assert (bytes >= 0);
  if (bytes == 0)
    return block;
  if (kind == ZS_HOST_PAGEABLE) {
    counters->pageable += bytes;
    note_peaks (counters);
    return block;
  }
  if (kind == ZS_HOST_PINNED) {
    int64_t *n_cached = &allocator->n_cached[log2_up (bytes)];

    block.bytes = zs_host_pinned_size (bytes);
    if (*n_cached > 0) {
      (*n_cached)--;
      block.fresh = false;
    }
  }
  if (block.fresh)
    counters->pinned += block.bytes;
  counters->pinned_in_use += block.bytes;
  counters->pinned_requested += bytes;
  note_peaks (counters);
  return block;
}

void
zs_host_allocator_release (ZsHostAllocator *allocator, ZsHostBlock block)
{
  ZsHostCounters *counters = &allocator->counters;

  if (block.kind == ZS_HOST_PAGEABLE) {
    counters->pageable -= block.bytes;
    g_assert (counters->pageable >= 0);
    return;
  }
  counters->pinned_in_use -= block.bytes;
  counters->pinned_requested -= block.requested;
  g_assert (counters->pinned_in_use >= 0 && counters->pinned_requested >= 0);
  if (block.kind == ZS_HOST_PINNED_EXACT)
    counters->pinned -= block.bytes;
  else if (block.bytes > 0)
    allocator->n_cached[log2_up (block.bytes)]++;
}

void
zs_host_allocator_empty_cache (ZsHostAllocator *allocator)
{
  for (int i = 0; i < (int) G_N_ELEMENTS (allocator->n_cached); i++) {
    allocator->counters.pinned -= allocator->n_cached[i] << i;
    allocator->n_cached[i] = 0;
  }
}

void
zs_host_allocator_reset_peaks (ZsHostAllocator *allocator)
{
  ZsHostCounters *counters = &allocator->counters;

  counters->pinned_peak = counters->pinned;
  counters->pageable_peak = counters->pageable;
  counters->total_peak = counters->pinned + counters->pageable;
}

const ZsHostCounters *
zs_host_allocator_counters (const ZsHostAllocator *allocator)
{
  return &allocator->counters;
}

uint64_t
zs_host_allocator_digest (const ZsHostAllocator *allocator)
{
  return zs_digest_items (1, allocator, 1);
}
