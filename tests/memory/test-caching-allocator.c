/* test-caching-allocator.c: the rules of the caching allocator one by one, and its invariants under
 * random work.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "sim/memory/caching-allocator.h"
#include "tests/testing.h"

#define GIB (INT64_C (1) << 30)

static ZsCachingAllocator *
allocator_of (const char *conf_text, const ZsAllocatorHost *host)
{
  ZsAllocConf conf;

  g_assert (zs_alloc_conf_parse (conf_text, &conf, NULL));
  return zs_caching_allocator_new (&conf, 80 * GIB, host);
}

static ZsBlock *
take (ZsCachingAllocator *allocator, int64_t bytes)
{
  return zs_caching_allocator_malloc (allocator, bytes, 0, 0, 0);
}

static int64_t
reserved (ZsCachingAllocator *allocator)
{
  return zs_caching_allocator_counters (allocator)->reserved.now;
}

static void
large_blocks_keep_up_to_a_mib_of_waste (void)
{
  g_autoptr (ZsCachingAllocator) allocator = allocator_of ("", NULL);
  ZsBlock *block = take (allocator, 11 * ZS_MIB);   /* of a segment of 12 MiB */

  CU_ASSERT_EQUAL (zs_block_size (block), 12 * ZS_MIB);
  CU_ASSERT_EQUAL (zs_block_requested (block), 11 * ZS_MIB);
  zs_caching_allocator_free_block (allocator, block);
  block = take (allocator, 11 * ZS_MIB - 512);
  CU_ASSERT_EQUAL (zs_block_size (block), 11 * ZS_MIB - 512);
  CU_ASSERT_EQUAL (reserved (allocator), 12 * ZS_MIB);
}

static void
small_and_large_requests_do_not_mix (void)
{
  g_autoptr (ZsCachingAllocator) allocator = allocator_of ("", NULL);
  ZsBlock *large = take (allocator, 2 * ZS_MIB);

  CU_ASSERT_EQUAL (reserved (allocator), 20 * ZS_MIB);
  CU_ASSERT_EQUAL (zs_block_size (take (allocator, 1000)), 1024);
  CU_ASSERT_EQUAL (reserved (allocator), 22 * ZS_MIB);
  zs_caching_allocator_free_block (allocator, large);
  CU_ASSERT_EQUAL (zs_block_size (take (allocator, ZS_MIB + 1)), ZS_MIB + 512);
  CU_ASSERT_EQUAL (reserved (allocator), 22 * ZS_MIB);
}

static void
streams_do_not_share_blocks (void)
{
  g_autoptr (ZsCachingAllocator) allocator = allocator_of ("", NULL);
  ZsBlock *block = take (allocator, 64 * ZS_MIB);

  zs_caching_allocator_free_block (allocator, block);
  block = zs_caching_allocator_malloc (allocator, 64 * ZS_MIB, 1, 0, 0);
  CU_ASSERT_EQUAL (reserved (allocator), 128 * ZS_MIB);
  CU_ASSERT_EQUAL (zs_block_stream (block), 1);
}

static void
the_smallest_block_that_fits_is_taken_lowest_address_first (void)
{
  g_autoptr (ZsCachingAllocator) allocator = allocator_of ("", NULL);
  static const int64_t SIZES[] = { 64, 32, 48, 32, 128, 32 };
  ZsBlock *blocks[6];
  int64_t lowest = INT64_MAX;

  for (int i = 0; i < 6; i++)
    blocks[i] = take (allocator, SIZES[i] * ZS_MIB);
  for (int i = 0; i < 6; i++) {
    if (SIZES[i] == 32)
      lowest = MIN (lowest, zs_block_address (blocks[i]));
    zs_caching_allocator_free_block (allocator, blocks[i]);
  }
  int64_t before = reserved (allocator);
  ZsBlock *block = take (allocator, 20 * ZS_MIB);

  CU_ASSERT_EQUAL (zs_block_address (block), lowest);
  block = take (allocator, 33 * ZS_MIB);
  CU_ASSERT_EQUAL (zs_block_size (block), 33 * ZS_MIB);
  block = take (allocator, 48 * ZS_MIB);   /* the 48 is cut: the 64 is next */
  CU_ASSERT_EQUAL (zs_block_size (block), 48 * ZS_MIB);
  CU_ASSERT_EQUAL (reserved (allocator), before);
  zs_caching_allocator_check (allocator);
}

static void
neighbours_join (void)
{
  g_autoptr (ZsCachingAllocator) allocator = allocator_of ("", NULL);
  ZsBlock *a = take (allocator, 5 * ZS_MIB), *b = take (allocator, 5 * ZS_MIB);
  ZsBlock *c = take (allocator, 5 * ZS_MIB);
  int64_t start = zs_block_address (a);

  CU_ASSERT_EQUAL (zs_caching_allocator_inactive_split_bytes (allocator), 5 * ZS_MIB);
  zs_caching_allocator_free_block (allocator, a);
  zs_caching_allocator_free_block (allocator, c);
  CU_ASSERT_EQUAL (zs_caching_allocator_inactive_split_bytes (allocator), 15 * ZS_MIB);
  zs_caching_allocator_free_block (allocator, b);
  CU_ASSERT_EQUAL (zs_caching_allocator_inactive_split_bytes (allocator), 0);
  ZsBlock *whole = take (allocator, 20 * ZS_MIB);

  CU_ASSERT_EQUAL (zs_block_address (whole), start);
  CU_ASSERT_EQUAL (reserved (allocator), 20 * ZS_MIB);
}

/* ---- other streams ---- */

typedef struct {
  int64_t n_recorded, n_done, n_synchronized;
} Events;

static int64_t
record (void *self, int stream)
{
  (void) stream;
  return ((Events *) self)->n_recorded++;
}

static bool
done (void *self, int64_t event)
{
  return event < ((Events *) self)->n_done;
}

static void
synchronize (void *self, int64_t event)
{
  Events *events = self;

  events->n_done = MAX (events->n_done, event + 1);
  events->n_synchronized++;
}

static void
a_recorded_stream_delays_the_free (void)
{
  Events events = { 0 };
  ZsAllocatorHost host = { .self = &events, .record = record, .done = done,
                           .synchronize = synchronize };
  g_autoptr (ZsCachingAllocator) allocator = allocator_of ("", &host);
  const ZsAllocatorCounters *counters = zs_caching_allocator_counters (allocator);
  ZsBlock *block = take (allocator, 32 * ZS_MIB);

  zs_caching_allocator_record_stream (allocator, block, 0);   /* its own: nothing */
  zs_caching_allocator_record_stream (allocator, block, 1);
  zs_caching_allocator_record_stream (allocator, block, 2);
  zs_caching_allocator_record_stream (allocator, block, 1);
  CU_ASSERT_EQUAL (events.n_recorded, 0);
  zs_caching_allocator_free_block (allocator, block);
  CU_ASSERT_EQUAL (events.n_recorded, 2);
  CU_ASSERT_EQUAL (counters->allocated.now, 0);
  CU_ASSERT_EQUAL (counters->active.now, 32 * ZS_MIB);
  events.n_done = 1;
  block = take (allocator, 32 * ZS_MIB);   /* one of the two streams is not there yet */
  CU_ASSERT_EQUAL (counters->reserved.now, 64 * ZS_MIB);
  zs_caching_allocator_free_block (allocator, block);
  events.n_done = 2;
  block = take (allocator, 32 * ZS_MIB);
  CU_ASSERT_EQUAL (counters->reserved.now, 64 * ZS_MIB);
  CU_ASSERT_EQUAL (counters->active.now, 32 * ZS_MIB);
  zs_caching_allocator_check (allocator);
  zs_caching_allocator_record_stream (allocator, block, 3);
  zs_caching_allocator_free_block (allocator, block);
  zs_caching_allocator_check (allocator);
  zs_caching_allocator_empty_cache (allocator);
  CU_ASSERT_EQUAL (events.n_synchronized, 1);
  CU_ASSERT_EQUAL (counters->reserved.now, 0);
}

/* ---- limits ---- */

static int64_t
free_of_40_mib (void *self, int64_t reserved_bytes)
{
  return *(int64_t *) self - reserved_bytes;
}

static void
a_full_gpu_is_flushed_once_before_it_fails (void)
{
  int64_t gpu = 40 * ZS_MIB;
  ZsAllocatorHost host = { .self = &gpu, .device_free = free_of_40_mib };
  g_autoptr (ZsCachingAllocator) allocator = allocator_of ("", &host);
  const ZsAllocatorCounters *counters = zs_caching_allocator_counters (allocator);
  ZsBlock *block = take (allocator, 30 * ZS_MIB);

  CU_ASSERT_PTR_NOT_NULL (block);
  zs_caching_allocator_free_block (allocator, block);
  CU_ASSERT_PTR_NOT_NULL (take (allocator, 32 * ZS_MIB));
  CU_ASSERT_EQUAL (counters->num_alloc_retries, 1);
  CU_ASSERT_EQUAL (counters->num_device_free, 1);
  CU_ASSERT_PTR_NULL (take (allocator, 9 * ZS_MIB));
  CU_ASSERT_EQUAL (counters->num_ooms, 1);
  CU_ASSERT_EQUAL (counters->num_alloc_retries, 2);

  const ZsAllocationFailure *failure = zs_caching_allocator_failure (allocator);

  CU_ASSERT_EQUAL (failure->request, 9 * ZS_MIB);
  CU_ASSERT_EQUAL (failure->segment, 20 * ZS_MIB);
  CU_ASSERT_EQUAL (failure->allocated, 32 * ZS_MIB);
  CU_ASSERT_EQUAL (failure->reserved, 32 * ZS_MIB);
  CU_ASSERT_EQUAL (failure->free, 8 * ZS_MIB);
  CU_ASSERT_EQUAL (failure->limit, 0);
}

static void
a_memory_limit_counts_reserved_bytes (void)
{
  g_autoptr (ZsCachingAllocator) allocator = allocator_of ("", NULL);

  zs_caching_allocator_set_limit (allocator, 63 * ZS_MIB);
  CU_ASSERT_PTR_NOT_NULL (take (allocator, 40 * ZS_MIB));
  CU_ASSERT_PTR_NOT_NULL (take (allocator, 2 * ZS_MIB));
  CU_ASSERT_PTR_NOT_NULL (take (allocator, 18 * ZS_MIB));
  CU_ASSERT_PTR_NULL (take (allocator, 3 * ZS_MIB));
  CU_ASSERT_EQUAL (zs_caching_allocator_failure (allocator)->limit, 63 * ZS_MIB);
  CU_ASSERT_PTR_NOT_NULL (take (allocator, 100));
}

static void
max_split_size_keeps_large_blocks_whole (void)
{
  g_autoptr (ZsCachingAllocator) allocator = allocator_of ("max_split_size_mb:64", NULL);
  ZsBlock *block = take (allocator, 100 * ZS_MIB);

  zs_caching_allocator_free_block (allocator, block);
  CU_ASSERT_EQUAL (zs_block_size (take (allocator, 32 * ZS_MIB)), 32 * ZS_MIB);
  CU_ASSERT_EQUAL (reserved (allocator), 132 * ZS_MIB);   /* the 100 MiB was not cut */
  block = take (allocator, 81 * ZS_MIB);                  /* within 20 MiB: taken whole */
  CU_ASSERT_EQUAL (zs_block_size (block), 100 * ZS_MIB);
  zs_caching_allocator_free_block (allocator, block);
  block = take (allocator, 80 * ZS_MIB);                  /* 20 MiB of waste are too many */
  CU_ASSERT_EQUAL (zs_block_size (block), 80 * ZS_MIB);
  CU_ASSERT_EQUAL (reserved (allocator), 212 * ZS_MIB);
  /* A full GPU gives back the oversize block first, without flushing the rest. */
  zs_caching_allocator_set_limit (allocator, 212 * ZS_MIB);
  CU_ASSERT_PTR_NOT_NULL (take (allocator, 70 * ZS_MIB));
  CU_ASSERT_EQUAL (zs_caching_allocator_counters (allocator)->num_alloc_retries, 0);
  CU_ASSERT_EQUAL (reserved (allocator), 182 * ZS_MIB);
}

static void
garbage_collection_frees_the_oldest (void)
{
  g_autoptr (ZsCachingAllocator) allocator = allocator_of ("garbage_collection_threshold:0.5", NULL);
  ZsBlock *old, *young;

  zs_caching_allocator_set_limit (allocator, 200 * ZS_MIB);
  old = take (allocator, 64 * ZS_MIB);
  young = take (allocator, 48 * ZS_MIB);
  zs_caching_allocator_free_block (allocator, old);
  for (int i = 0; i < 5; i++)
    zs_caching_allocator_free_block (allocator, take (allocator, 2 * ZS_MIB + i));
  zs_caching_allocator_free_block (allocator, young);
  int64_t before = reserved (allocator);

  (void) take (allocator, 70 * ZS_MIB);   /* above half the limit: collect, then a new segment */
  CU_ASSERT_TRUE (reserved (allocator) < before + 70 * ZS_MIB);
  CU_ASSERT_EQUAL (zs_caching_allocator_counters (allocator)->num_alloc_retries, 0);
  zs_caching_allocator_check (allocator);
}

static void
expandable_segments_grow_in_place (void)
{
  g_autoptr (ZsCachingAllocator) allocator = allocator_of ("expandable_segments:True", NULL);
  ZsBlock *a = take (allocator, 30 * ZS_MIB);

  CU_ASSERT_EQUAL (reserved (allocator), 40 * ZS_MIB);
  ZsBlock *b = take (allocator, 100 * ZS_MIB);

  CU_ASSERT_EQUAL (reserved (allocator), 140 * ZS_MIB);   /* 130 in pages of 20 */
  CU_ASSERT_EQUAL (zs_block_address (b), zs_block_address (a) + 30 * ZS_MIB);
  zs_caching_allocator_free_block (allocator, a);
  zs_caching_allocator_empty_cache (allocator);           /* page 0 only: the second is shared */
  CU_ASSERT_EQUAL (reserved (allocator), 120 * ZS_MIB);
  zs_caching_allocator_check (allocator);
  (void) take (allocator, 512);
  CU_ASSERT_EQUAL (reserved (allocator), 122 * ZS_MIB);
  zs_caching_allocator_free_block (allocator, b);
  zs_caching_allocator_empty_cache (allocator);
  CU_ASSERT_EQUAL (reserved (allocator), 2 * ZS_MIB);
  zs_caching_allocator_check (allocator);
}

/* ---- the ledger ---- */

static void
the_peak_knows_its_holders (void)
{
  g_autoptr (ZsCachingAllocator) allocator = allocator_of ("", NULL);
  const ZsAllocatorCounters *counters = zs_caching_allocator_counters (allocator);
  ZsBlock *a = zs_caching_allocator_malloc (allocator, 32 * ZS_MIB, 0, 1, 0);
  ZsBlock *b = zs_caching_allocator_malloc (allocator, 64 * ZS_MIB, 0, 2, 0);

  zs_caching_allocator_free_block (allocator, a);
  ZsBlock *c = zs_caching_allocator_malloc (allocator, 16 * ZS_MIB, 0, 3, 0);
  const int64_t *holders = zs_caching_allocator_peak_by_category (allocator);

  CU_ASSERT_EQUAL (counters->allocated.peak, 96 * ZS_MIB);
  CU_ASSERT_EQUAL (counters->peak_serial, 2);
  CU_ASSERT_EQUAL (holders[1], 32 * ZS_MIB);
  CU_ASSERT_EQUAL (holders[2], 64 * ZS_MIB);
  CU_ASSERT_EQUAL (holders[3], 0);
  zs_caching_allocator_reset_peaks (allocator);
  CU_ASSERT_EQUAL (counters->allocated.peak, 80 * ZS_MIB);
  zs_caching_allocator_free_block (allocator, b);
  zs_caching_allocator_free_block (allocator, c);
  holders = zs_caching_allocator_peak_by_category (allocator);
  CU_ASSERT_EQUAL (holders[1], 0);
  CU_ASSERT_EQUAL (holders[2], 64 * ZS_MIB);
  CU_ASSERT_EQUAL (holders[3], 16 * ZS_MIB);
}

typedef struct {
  ZsCachingAllocator *allocator;
  int64_t live, n_calls;
} Watch;

static void
add_live (void *self, const ZsSegment *segment, const ZsBlock *block)
{
  (void) segment;
  if (zs_block_state (block) == ZS_BLOCK_ALLOCATED)
    ((Watch *) self)->live += zs_block_size (block);
}

static void
at_watch (void *self)
{
  Watch *watch = self;

  watch->n_calls++;
  zs_caching_allocator_each_block (watch->allocator, add_live, watch);
}

/* A fixed pseudo-random sequence of mallocs and frees. */
static void
work (ZsCachingAllocator *allocator, guint32 seed)
{
  GRand *random = g_rand_new_with_seed (seed);
  ZsBlock *blocks[64];
  int n = 0;

  for (int i = 0; i < 1000; i++)
    if (n == 64 || (n > 0 && g_rand_int_range (random, 0, 5) < 2)) {
      int k = g_rand_int_range (random, 0, n);

      zs_caching_allocator_free_block (allocator, blocks[k]);
      blocks[k] = blocks[--n];
    } else
      blocks[n++] = take (allocator, g_rand_int_range (random, 1, 1 << 26));
  g_rand_free (random);
}

static void
a_second_pass_finds_the_tensors_at_the_peak (void)
{
  g_autoptr (ZsCachingAllocator) first = allocator_of ("", NULL);
  Watch watch = { 0 };
  ZsAllocatorHost host = { .self = &watch, .on_watch = at_watch };
  g_autoptr (ZsCachingAllocator) second = allocator_of ("", &host);

  work (first, 3);
  watch.allocator = second;
  zs_caching_allocator_watch (second, zs_caching_allocator_counters (first)->peak_serial);
  work (second, 3);
  CU_ASSERT_EQUAL (watch.n_calls, 1);
  CU_ASSERT_EQUAL (watch.live, zs_caching_allocator_counters (first)->allocated.peak);
}

/* ---- random work ---- */

typedef struct {
  Events  events;
  GRand  *random;
  int64_t gpu;
} World;

static int64_t
world_record (void *self, int stream)
{
  return record (&((World *) self)->events, stream);
}

static bool
world_done (void *self, int64_t event)
{
  return done (&((World *) self)->events, event);
}

static void
world_synchronize (void *self, int64_t event)
{
  synchronize (&((World *) self)->events, event);
}

static int64_t
world_free (void *self, int64_t reserved_bytes)
{
  return ((World *) self)->gpu - reserved_bytes;
}

static int64_t
random_size (GRand *random)
{
  return g_rand_int_range (random, 1, 1 << g_rand_int_range (random, 4, 29));
}

static void
random_work (const char *conf, guint32 seed)
{
  World world = { .random = g_rand_new_with_seed (seed), .gpu = 2 * GIB };
  ZsAllocatorHost host = { .self = &world, .record = world_record, .done = world_done,
                           .synchronize = world_synchronize, .device_free = world_free };
  g_autoptr (ZsCachingAllocator) allocator = allocator_of (conf, &host);
  const ZsAllocatorCounters *counters = zs_caching_allocator_counters (allocator);
  ZsBlock *blocks[300];
  /* The limit is held against the request; expandable segments then map whole pages. */
  int64_t slack = strstr (conf, "expandable") != NULL ? 20 * ZS_MIB : 0;
  int n = 0;

  if (seed % 2 == 0)
    zs_caching_allocator_set_limit (allocator, GIB + 12345);
  for (int i = 0; i < 3000; i++) {
    int choice = g_rand_int_range (world.random, 0, 100);

    if (n == 300 || (n > 0 && choice < 47)) {
      int k = g_rand_int_range (world.random, 0, n);

      if (g_rand_int_range (world.random, 0, 8) == 0)
        zs_caching_allocator_record_stream (allocator, blocks[k],
                                            g_rand_int_range (world.random, 0, 5));
      zs_caching_allocator_free_block (allocator, blocks[k]);
      blocks[k] = blocks[--n];
    } else if (choice < 99) {
      int64_t bytes = random_size (world.random);
      ZsBlock *block
        = zs_caching_allocator_malloc (allocator, bytes, g_rand_int_range (world.random, 0, 4),
                                       (unsigned int) g_rand_int_range (world.random, 0, 14), 9);

      if (block == NULL) {
        CU_ASSERT_EQUAL (zs_caching_allocator_failure (allocator)->request, bytes);
        for (int k = n / 2; k < n; k++)
          zs_caching_allocator_free_block (allocator, blocks[k]);
        n /= 2;
      } else
        blocks[n++] = block;
    } else
      zs_caching_allocator_empty_cache (allocator);
    if (g_rand_int_range (world.random, 0, 10) == 0)
      world.events.n_done = world.events.n_recorded;
    CU_ASSERT_TRUE (counters->reserved.now <= world.gpu);
    CU_ASSERT_TRUE (seed % 2 != 0 || counters->reserved.now <= GIB + 12345 + slack);
    CU_ASSERT_TRUE (counters->allocated.now <= counters->active.now
                    && counters->active.now <= counters->reserved.now);
    if (i % 10 == 0)
      zs_caching_allocator_check (allocator);
  }
  /* Freeing everything leaves whole segments, and the driver gets all of them back. */
  while (n > 0)
    zs_caching_allocator_free_block (allocator, blocks[--n]);
  zs_caching_allocator_empty_cache (allocator);
  zs_caching_allocator_check (allocator);
  if (counters->reserved.now != 0)
    printf ("# %s, seed %u: %" G_GINT64_FORMAT " bytes stay\n", conf, seed, counters->reserved.now);
  CU_ASSERT_EQUAL (counters->reserved.now, 0);
  CU_ASSERT_EQUAL (counters->active.now, 0);
  g_rand_free (world.random);
}

static void
invariants_hold_under_random_work (void)
{
  static const char *const CONFS[] = {
    "", "expandable_segments:True", "max_split_size_mb:32", "roundup_power2_divisions:4",
    "garbage_collection_threshold:0.5", "large_segment_size_mb:40",
    "max_split_size_mb:24,garbage_collection_threshold:0.3,roundup_power2_divisions:[1:2,>:8]",
    "expandable_segments:True,max_split_size_mb:64,garbage_collection_threshold:0.8",
  };

  for (size_t i = 0; i < G_N_ELEMENTS (CONFS); i++)
    for (guint32 seed = 0; seed < 4; seed++)
      random_work (CONFS[i], seed);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "large blocks keep up to a MiB of waste", large_blocks_keep_up_to_a_mib_of_waste },
    { "small and large requests do not mix", small_and_large_requests_do_not_mix },
    { "streams do not share blocks", streams_do_not_share_blocks },
    { "the smallest block that fits is taken, lowest address first",
      the_smallest_block_that_fits_is_taken_lowest_address_first },
    { "neighbours join", neighbours_join },
    { "a recorded stream delays the free", a_recorded_stream_delays_the_free },
    { "a full GPU is flushed once before it fails", a_full_gpu_is_flushed_once_before_it_fails },
    { "a memory limit counts reserved bytes", a_memory_limit_counts_reserved_bytes },
    { "max_split_size keeps large blocks whole", max_split_size_keeps_large_blocks_whole },
    { "garbage collection frees the oldest", garbage_collection_frees_the_oldest },
    { "expandable segments grow in place", expandable_segments_grow_in_place },
    { "the peak knows its holders", the_peak_knows_its_holders },
    { "a second pass finds the tensors at the peak", a_second_pass_finds_the_tensors_at_the_peak },
    { "invariants hold under random work", invariants_hold_under_random_work },
    CU_TEST_INFO_NULL
  };
  return testing_main ("caching allocator", tests);
}
