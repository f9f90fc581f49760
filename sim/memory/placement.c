/* placement.c: virtual addresses of device memory.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdbool.h>

#include "sim/memory/alloc-conf.h"
#include "sim/memory/placement.h"

#include "sim/base/digest.h"

#define WINDOW (32 * ZS_MIB)
#define ARENA (416 * ZS_MIB)
/* A user-space address as CUDA returned on Linux; only the order of addresses matters. */
#define TOP INT64_C (0x7fd800000000)

typedef struct {
  int64_t address, bytes;
} Span;

typedef struct {
  Span     all;
  GArray  *holes;     /* Span, by address */
  int64_t  largest;   /* of the holes */
} Region;

struct ZsPlacement {
  GPtrArray *regions;   /* in the order of their reservation */
  GArray    *gaps;      /* Span between regions, the highest first */
  int64_t    bottom;    /* of the lowest region */
};

static Span *
span_at (GArray *spans, guint i)
{
  return &g_array_index (spans, Span, i);
}

static void
free_region (gpointer data)
{
  Region *region = data;

  g_array_unref (region->holes);
  g_free (region);
}

static Region *
add_region (ZsPlacement *placement, Span all)
{
  Region *region = g_new0 (Region, 1);

  region->all = all;
  region->holes = g_array_new (FALSE, FALSE, sizeof (Span));
  g_ptr_array_add (placement->regions, region);
  return region;
}

static void
measure (Region *region)
{
  region->largest = 0;
  for (guint i = 0; i < region->holes->len; i++)
    region->largest = MAX (region->largest, span_at (region->holes, i)->bytes);
}

/* A region of which only the last BYTES are left. */
static void
add_used (ZsPlacement *placement, Span all, int64_t bytes)
{
  Region *region = add_region (placement, all);
  Span hole = { all.address + all.bytes - bytes, bytes };

  g_array_append_val (region->holes, hole);
  measure (region);
}

ZsPlacement *
zs_placement_new (gboolean empty)
{
  ZsPlacement *placement = g_new0 (ZsPlacement, 1);

  placement->regions = g_ptr_array_new_with_free_func (free_region);
  placement->gaps = g_array_new (FALSE, FALSE, sizeof (Span));
  placement->bottom = TOP;
  if (empty)
    return placement;
  add_used (placement, (Span) { TOP - WINDOW, WINDOW }, 22 * ZS_MIB);
  placement->bottom -= 4 * WINDOW + ARENA;   /* others lie between the two */
  add_used (placement, (Span) { placement->bottom, ARENA }, 2 * ZS_MIB);
  return placement;
}

void
zs_placement_give_arena (ZsPlacement *placement)
{
  const Region *region = placement->regions->pdata[1];

  zs_placement_give (placement, region->all.address, ARENA - 2 * ZS_MIB);
}

void
zs_placement_free (ZsPlacement *placement)
{
  if (placement == NULL)
    return;
  g_ptr_array_unref (placement->regions);
  g_array_unref (placement->gaps);
  g_free (placement);
}

static Region *
reserve (ZsPlacement *placement, int64_t bytes)
{
  int64_t whole = (bytes + WINDOW - 1) / WINDOW * WINDOW;
  Region *region = NULL;

  for (guint i = 0; i < placement->gaps->len && region == NULL; i++) {
    Span *gap = span_at (placement->gaps, i);

    if (gap->bytes <= whole)
      continue;
    gap->bytes -= whole;
    region = add_region (placement, (Span) { gap->address + gap->bytes, whole });
  }
  if (region == NULL) {
    placement->bottom -= whole;
    region = add_region (placement, (Span) { placement->bottom, whole });
  }
  g_array_append_val (region->holes, region->all);
  measure (region);
  return region;
}

int64_t
zs_placement_take (ZsPlacement *placement, int64_t bytes)
{
  Region *region = NULL;
  guint best = 0;

  for (guint i = placement->regions->len; i-- > 0 && region == NULL;) {
    Region *candidate = placement->regions->pdata[i];

    if (candidate->largest >= bytes)
      region = candidate;
  }
  if (region == NULL)
    region = reserve (placement, bytes);
  for (guint i = 0, found = 0; i < region->holes->len; i++) {
    int64_t size = span_at (region->holes, i)->bytes;

    if (size >= bytes && (found == 0 || size < span_at (region->holes, best)->bytes))
      best = i, found = 1;
  }
  Span *hole = span_at (region->holes, best);
  int64_t address = hole->address;

  hole->address += bytes;
  hole->bytes -= bytes;
  if (hole->bytes == 0)
    g_array_remove_index (region->holes, best);
  measure (region);
  return address;
}

/* Add SPAN to SPANS, which are sorted, DOWN or up, and join it with its neighbours. */
static void
insert_joined (GArray *spans, Span span, bool down)
{
  guint i = 0;

  while (i < spans->len && (span_at (spans, i)->address < span.address) != down)
    i++;
  g_array_insert_val (spans, i, span);
  for (int side = 0; side < 2; side++) {
    guint first = side == 0 ? i : i - 1;   /* of two that may touch */

    if (first >= spans->len || first + 1 >= spans->len)
      continue;
    Span *low = span_at (spans, down ? first + 1 : first), *high = span_at (spans, down ? first : first + 1);

    if (low->address + low->bytes != high->address)
      continue;
    low->bytes += high->bytes;
    *span_at (spans, first) = *low;
    g_array_remove_index (spans, first + 1);
  }
}

/* The addresses of a region that is gone. */
static void
give_back_region (ZsPlacement *placement, guint index)
{
  Span all = ((Region *) placement->regions->pdata[index])->all;

  g_ptr_array_remove_index (placement->regions, index);
  insert_joined (placement->gaps, all, true);
  Span *lowest = span_at (placement->gaps, placement->gaps->len - 1);

  if (lowest->address == placement->bottom) {
    placement->bottom += lowest->bytes;
    g_array_set_size (placement->gaps, placement->gaps->len - 1);
  }
}

void
zs_placement_give (ZsPlacement *placement, int64_t address, int64_t bytes)
{
  for (guint i = placement->regions->len; i-- > 0;) {
    Region *region = placement->regions->pdata[i];

    if (address < region->all.address || address >= region->all.address + region->all.bytes)
      continue;
    insert_joined (region->holes, (Span) { address, bytes }, false);
    measure (region);
    if (region->largest == region->all.bytes)
      give_back_region (placement, i);
    return;
  }
  g_assert_not_reached ();
}

uint64_t
zs_placement_digest (const ZsPlacement *placement)
{
  uint64_t digest = zs_digest_items (1, (Span *) (void *) placement->gaps->data, placement->gaps->len);

  digest = zs_digest_add (digest, (uint64_t) placement->bottom);
  for (guint i = 0; i < placement->regions->len; i++) {
    const Region *region = placement->regions->pdata[i];

    digest = zs_digest_items (digest, &region->all, 1);
    digest = zs_digest_items (digest, (Span *) (void *) region->holes->data, region->holes->len);
  }
  return digest;
}
