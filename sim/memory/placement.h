/* placement.h: where the driver puts what cudaMalloc asks for.  SPDX-License-Identifier: MIT
 *
 * Of free blocks of equal size PyTorch's allocator takes the lowest address, and addresses come from the
 * driver.  The rule, read off 2294 recorded calls of cuMemAlloc and cuMemFree on an H200 with driver 580,
 * all of which it meets (tests/data/placement):
 *
 * The driver reserves virtual addresses in regions of whole 32 MiB, as many as the request needs.  A request
 * is put into the region that was reserved last and has room, there into the smallest hole that fits, at
 * its beginning.  If none has room, a new region is reserved at the top of the highest gap between regions
 * that is larger than it (strictly), or else below all.  A region that has become empty is given back.
 *
 * A process is not alone with PyTorch: the driver's own modules and buffers take addresses now and then,
 * which is not simulated but for the beginning, as 170 recorded histories of PyTorch show it
 * (zs_placement_new).  66 MiB at the first matrix product and 8 at the first attention are known too; with
 * them small models' allocated bytes are met a little better, and reserved ones of others less.
 */
#pragma once

#include <glib.h>
#include <stdint.h>

typedef struct ZsPlacement ZsPlacement;

/* As a process of PyTorch 2.11 has it at its first cudaMalloc: of the region that was reserved last, 416
 * MiB, the last 2 MiB are left, of an older one above it 22 MiB.  EMPTY: nothing is reserved, the first region
 * ends at the top. */
ZsPlacement *zs_placement_new  (gboolean empty) G_GNUC_WARN_UNUSED_RESULT;
void         zs_placement_free (ZsPlacement *placement);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsPlacement, zs_placement_free)

/* Once, for one that was not EMPTY: the driver gives the first 414 MiB of that region back. */
void     zs_placement_give_arena (ZsPlacement *placement);
/* The address of BYTES (a multiple of 2 MiB). */
int64_t  zs_placement_take (ZsPlacement *placement, int64_t bytes);
/* BYTES at ADDRESS, which were taken, are free again. */
void     zs_placement_give (ZsPlacement *placement, int64_t address, int64_t bytes);
/* A number for what later calls depend on. */
uint64_t zs_placement_digest (const ZsPlacement *placement);
