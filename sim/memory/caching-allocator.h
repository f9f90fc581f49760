/* caching-allocator.h: PyTorch's caching allocator of one GPU, exactly.
 * SPDX-License-Identifier: MIT
 *
 * Source: c10/cuda/CUDACachingAllocator.cpp (2.2 to 2.11); held to the byte against histories that
 * PyTorch 2.11 recorded on one H200 (tests/memory).
 *
 * Words.  A segment is what one cudaMalloc returned, or, with expandable segments, one range of
 * virtual addresses whose pages are mapped as needed.  A block is a piece of a segment, in use or
 * free.  Requests are rounded to 512 bytes; up to 1 MiB they come from the small pool (segments of
 * 2 MiB), above from the large pool.  A free block of the same pool and stream is taken by best
 * fit, ties by the lowest address; the rest of it is split off.  A freed block joins its free
 * neighbours at once.  Memory goes back to the driver only by empty_cache (), by garbage collection
 * and when an allocation fails.
 *
 * Nothing here knows time: events of streams are numbers whose meaning the owner gives through
 * ZsAllocatorHost.  Bytes are int64_t, addresses too.
 *
 * Holders of the peak.  Allocated bytes are kept by category.  While the total rises nothing else
 * is done; the first free after a new peak copies the array of categories (128 bytes).  The peak
 * also remembers its serial number: the count of mallocs and frees until then.  A plan replays
 * identically, so whoever wants the list of tensors at the peak runs it again with
 * zs_caching_allocator_watch (serial) and walks the blocks in the callback; a run that does not ask
 * pays one comparison per operation.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/memory/alloc-conf.h"

#define ZS_ALLOCATOR_STREAMS    32   /* streams are 0 to 31, in the order of their handles */
#define ZS_ALLOCATOR_CATEGORIES 16

typedef struct ZsCachingAllocator ZsCachingAllocator;
/* An allocation's handle; valid from malloc to free_block. */
typedef struct ZsBlock ZsBlock;

/* As in PyTorch's memory history. */
typedef enum {
  ZS_ALLOCATOR_ALLOC, ZS_ALLOCATOR_FREE_REQUESTED, ZS_ALLOCATOR_FREE_COMPLETED,
  ZS_ALLOCATOR_SEGMENT_ALLOC, ZS_ALLOCATOR_SEGMENT_FREE,
  ZS_ALLOCATOR_SEGMENT_MAP, ZS_ALLOCATOR_SEGMENT_UNMAP,
  ZS_ALLOCATOR_OOM, ZS_ALLOCATOR_SNAPSHOT, ZS_N_ALLOCATOR_ACTIONS
} ZsAllocatorAction;

const char *zs_allocator_action_name (ZsAllocatorAction action);   /* "free_requested" */

/* What the allocator asks of the rest of the world.  Any member may be NULL. */
typedef struct {
  void *self;

  /* Record an event on STREAM now (at the free of a tensor that STREAM used); its number. */
  int64_t (*record) (void *self, int stream);
  /* Has it completed?  Asked at the start of every malloc, per stream in the order of recording,
   * up to the first that has not.  NULL: it has. */
  bool    (*done) (void *self, int64_t event);
  /* The host waits for it (before cached memory is given back). */
  void    (*synchronize) (void *self, int64_t event);

  /* Bytes of the GPU that nobody holds while this allocator holds RESERVED.  Asked on a miss only;
   * a segment is refused that needs more.  NULL: the memory limit is the only one. */
  int64_t (*device_free) (void *self, int64_t reserved);
  /* Where the driver puts a new segment of BYTES (RANGE: the virtual range of an expandable one).
   * NULL: as placement.h says. */
  int64_t (*place) (void *self, int64_t bytes, bool range);

  /* Told of each SEGMENT_* action and OOM: where host time is charged. */
  void    (*on_segment) (void *self, ZsAllocatorAction action, int64_t address, int64_t bytes,
                         int stream);
  /* Told of ALLOC and FREE_*: BYTES as requested.  NULL costs nothing. */
  void    (*on_block) (void *self, ZsAllocatorAction action, const ZsBlock *block);
  /* See zs_caching_allocator_watch (). */
  void    (*on_watch) (void *self);
} ZsAllocatorHost;

/* A running value and its maximum since the last reset. */
typedef struct {
  int64_t now, peak;
} ZsGauge;

/* torch.cuda.memory_stats (), with the names it has there; all bytes. */
typedef struct {
  ZsGauge allocated;   /* blocks handed out: rounded sizes and unsplit waste; memory_allocated () */
  ZsGauge reserved;    /* segments and mapped pages; memory_reserved () */
  ZsGauge active;      /* allocated, and freed but waiting for another stream */
  ZsGauge requested;   /* what was asked for, of the active blocks */
  int64_t n_active;    /* blocks */
  int64_t n_operations;          /* mallocs and frees so far: the serial number */
  int64_t num_alloc_retries, num_ooms, num_sync_all_streams, num_device_alloc, num_device_free;
  int64_t peak_serial;           /* n_operations when allocated.peak was reached */
  int64_t by_category[ZS_ALLOCATOR_CATEGORIES];        /* allocated now */
} ZsAllocatorCounters;

/* Why a malloc failed: the numbers of PyTorch's message. */
typedef struct {
  int64_t request;     /* as asked for */
  int64_t rounded;
  int64_t segment;     /* "Tried to allocate": the segment that was refused */
  int64_t allocated, reserved;
  int64_t free;        /* of the GPU; INT64_MAX when host.device_free is NULL */
  int64_t limit;       /* "allowed"; 0: none */
} ZsAllocationFailure;

/* TOTAL_MEMORY: of the GPU, as torch reports it (virtual ranges and fractions derive from it).
 * CONF and HOST are copied. */
ZsCachingAllocator *zs_caching_allocator_new  (const ZsAllocConf *conf, int64_t total_memory,
                                               const ZsAllocatorHost *host)
  G_GNUC_WARN_UNUSED_RESULT;
void                zs_caching_allocator_free (ZsCachingAllocator *allocator);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsCachingAllocator, zs_caching_allocator_free)

/* ---- change ---- */

/* Reserved bytes may not exceed BYTES (set_per_process_memory_fraction: floor (fraction x total)).
 * 0: no limit.  Turns garbage_collection_threshold on. */
void zs_caching_allocator_set_limit (ZsCachingAllocator *allocator, int64_t bytes);

/* A block for BYTES (> 0) on STREAM, held by CATEGORY; LABEL is the caller's.  NULL: out of memory,
 * and the failure below says why. */
ZsBlock *zs_caching_allocator_malloc (ZsCachingAllocator *allocator, int64_t bytes, int stream,
                                      unsigned int category, uint32_t label);
const ZsAllocationFailure *zs_caching_allocator_failure (const ZsCachingAllocator *allocator);

/* The tensor is gone: the block can be used again by its own stream at once, or when every stream
 * that was recorded has come so far. */
void zs_caching_allocator_free_block (ZsCachingAllocator *allocator, ZsBlock *block);
/* STREAM uses the block; its own stream does not count. */
void zs_caching_allocator_record_stream (ZsCachingAllocator *allocator, ZsBlock *block, int stream);
/* torch.cuda.empty_cache (). */
void zs_caching_allocator_empty_cache (ZsCachingAllocator *allocator);
/* torch.cuda.reset_peak_memory_stats (). */
void zs_caching_allocator_reset_peaks (ZsCachingAllocator *allocator);
/* Call host.on_watch once, right after operation number SERIAL.  0: never. */
void zs_caching_allocator_watch (ZsCachingAllocator *allocator, int64_t serial);

/* ---- ask ---- */
const ZsAllocatorCounters *zs_caching_allocator_counters (const ZsCachingAllocator *allocator);
/* Allocated bytes by category at allocated.peak; ZS_ALLOCATOR_CATEGORIES of them. */
const int64_t *zs_caching_allocator_peak_by_category (const ZsCachingAllocator *allocator);
/* Bytes in free blocks of the cache: what empty_cache () could at most give back. */
int64_t zs_caching_allocator_cached_bytes (const ZsCachingAllocator *allocator);

int64_t      zs_block_address   (const ZsBlock *block);
int64_t      zs_block_size      (const ZsBlock *block);   /* counted in allocated */
int64_t      zs_block_requested (const ZsBlock *block);
int          zs_block_stream    (const ZsBlock *block);
unsigned int zs_block_category  (const ZsBlock *block);
uint32_t     zs_block_label     (const ZsBlock *block);

typedef enum {
  ZS_BLOCK_INACTIVE, ZS_BLOCK_ALLOCATED, ZS_BLOCK_AWAITING_FREE, ZS_BLOCK_UNMAPPED
} ZsBlockState;
ZsBlockState zs_block_state (const ZsBlock *block);

typedef struct {
  int64_t address, bytes;   /* of an expandable segment: the whole virtual range */
  int     stream;
  bool    small, expandable;
} ZsSegment;
/* Every block, segments by address and blocks by address in them. */
typedef void (*ZsBlockVisitor) (void *self, const ZsSegment *segment, const ZsBlock *block);
void zs_caching_allocator_each_block (const ZsCachingAllocator *allocator, ZsBlockVisitor visit,
                                      void *self);

/* A number for the state that later calls depend on.  EVENT says what a pending event of host.record
 * means, so that equal states have equal numbers (a deferred free that is waited for). */
uint64_t zs_caching_allocator_digest (const ZsCachingAllocator *allocator,
                                      uint64_t (*event) (const void *self, int64_t event));

/* inactive_split_bytes.all.current: free blocks of segments that are partly in use. */
int64_t zs_caching_allocator_inactive_split_bytes (const ZsCachingAllocator *allocator);

/* Every invariant: blocks tile their segments, no two free neighbours, the free lists hold exactly
 * the free blocks in their order, the counters agree.  Aborts with a message on a violation. */
void zs_caching_allocator_check (const ZsCachingAllocator *allocator);
