/* test-memory.c: settings, host memory and the words of an out-of-memory error.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>

#include "sim/memory/host-allocator.h"
#include "sim/memory/oom-message.h"
#include "tests/testing.h"

/* ---- PYTORCH_CUDA_ALLOC_CONF ---- */

static void
every_option_is_read (void)
{
  g_autoptr (GError) error = NULL;
  ZsAllocConf conf;

  CU_ASSERT_TRUE_FATAL (zs_alloc_conf_parse (
    "max_split_size_mb:128, roundup_power2_divisions:[256:1,512:2,1024:4,>:8],"
    "garbage_collection_threshold:0.6,expandable_segments:True,large_segment_size_mb:40,"
    "max_non_split_rounding_mb:32,per_process_memory_fraction:0.5,backend:native,"
    "release_lock_on_cudamalloc:True,graph_capture_record_stream_reuse:True,"
    "pinned_use_cuda_host_register:True,pinned_num_register_threads:8,"
    "pinned_use_background_threads:True,pinned_reserve_segment_size_mb:64,"
    "roundup_bypass_threshold_mb:1000", &conf, &error));
  CU_ASSERT_EQUAL (conf.max_split_size, 128 * ZS_MIB);
  CU_ASSERT_EQUAL (conf.garbage_collection_threshold, 0.6);
  CU_ASSERT_TRUE (conf.expandable_segments);
  CU_ASSERT_EQUAL (conf.large_segment_size, 40 * ZS_MIB);
  CU_ASSERT_EQUAL (conf.max_non_split_rounding, 32 * ZS_MIB);
  CU_ASSERT_EQUAL (conf.per_process_memory_fraction, 0.5);
  CU_ASSERT_FALSE (conf.cuda_malloc_async);
  CU_ASSERT_TRUE (conf.release_lock_on_cudamalloc);
  CU_ASSERT_TRUE (conf.graph_capture_record_stream_reuse);
  CU_ASSERT_TRUE (conf.pinned_use_cuda_host_register);
  CU_ASSERT_EQUAL (conf.pinned_num_register_threads, 8);
  CU_ASSERT_TRUE (conf.pinned_use_background_threads);
  CU_ASSERT_EQUAL (conf.pinned_reserve_segment_size, 64 * ZS_MIB);
  CU_ASSERT_EQUAL (conf.roundup_bypass_threshold, 1000 * ZS_MIB);
  for (int i = 0; i < ZS_ROUNDUP_INTERVALS; i++)
    CU_ASSERT_EQUAL (conf.roundup_power2_divisions[i], i <= 8 ? 1 : i == 9 ? 2 : 8);

  CU_ASSERT_TRUE (zs_alloc_conf_parse ("backend:cudaMallocAsync", &conf, &error));
  CU_ASSERT_TRUE (conf.cuda_malloc_async);
  CU_ASSERT_TRUE (zs_alloc_conf_parse (" ", &conf, &error));
  CU_ASSERT_EQUAL (conf.max_split_size, INT64_MAX);
  CU_ASSERT_TRUE (zs_alloc_conf_parse (NULL, &conf, &error));
  CU_ASSERT_TRUE (zs_alloc_conf_parse ("max_split_size_mb:64,max_split_size_mb:256", &conf, NULL));
  CU_ASSERT_EQUAL (conf.max_split_size, 256 * ZS_MIB);
}

static void
settings_are_written_as_they_are_read (void)
{
  static const char *const TEXTS[] = {
    "", "expandable_segments:True", "max_split_size_mb:128",
    "garbage_collection_threshold:0.75,max_split_size_mb:64", "roundup_power2_divisions:4",
    "backend:cudaMallocAsync,pinned_num_register_threads:8",
  };

  for (size_t i = 0; i < G_N_ELEMENTS (TEXTS); i++) {
    ZsAllocConf conf;

    CU_ASSERT_TRUE_FATAL (zs_alloc_conf_parse (TEXTS[i], &conf, NULL));
    g_autofree char *text = zs_alloc_conf_format (&conf);

    CU_ASSERT_STRING_EQUAL (text, TEXTS[i]);
  }
}

static void
wrong_settings_are_explained (void)
{
  static const struct { const char *text, *message; } CASES[] = {
    { "max_split_size:128", "1: unknown option 'max_split_size'; did you mean 'max_split_size_mb'?" },
    { "qqqqqqqqqqqqqqqqqqqqqqqqqq:1", "1: unknown option 'qqqqqqqqqqqqqqqqqqqqqqqqqq'" },
    { "max_split_size_mb:10", "19: 'max_split_size_mb' must be at least 20, not '10'" },
    { "max_split_size_mb:x", "19: 'max_split_size_mb' takes a whole number, not 'x'" },
    { "max_split_size_mb", "18: expected ':' at the end" },
    { "expandable_segments:true", "21: 'expandable_segments' takes True or False, not 'true'" },
    { "garbage_collection_threshold:1.5",
      "30: 'garbage_collection_threshold' must be between 0 and 1, not '1.5'" },
    { "garbage_collection_threshold:1",
      "30: 'garbage_collection_threshold' must be between 0 and 1, not '1'" },
    { "roundup_power2_divisions:3", "26: divisions must be a power of two" },
    { "roundup_power2_divisions:[256:3]", "31: divisions must be a power of two" },
    { "roundup_power2_divisions:[300:4]", "27: a size in MiB must be a power of two" },
    { "roundup_power2_divisions:[256:4", "32: expected ']' at the end" },
    { "backend:cuda", "9: 'backend' must be native or cudaMallocAsync, not 'cuda'" },
    { "pinned_num_register_threads:3",
      "29: 'pinned_num_register_threads' must be a power of two" },
    { "pinned_num_register_threads:256",
      "29: 'pinned_num_register_threads' must be 1 to 128, not '256'" },
    { "expandable_segments:True;max_split_size_mb:64",
      "21: 'expandable_segments' takes True or False, not 'True;max_split_size_mb'" },
    { "expandable_segments:True max_split_size_mb:64", "26: expected ',', not 'm'" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (CASES); i++) {
    g_autoptr (GError) error = NULL;
    g_autofree char *expected = g_strconcat ("PYTORCH_CUDA_ALLOC_CONF:", CASES[i].message, NULL);
    ZsAllocConf conf = { .max_split_size = 5 };

    CU_ASSERT_FALSE (zs_alloc_conf_parse (CASES[i].text, &conf, &error));
    CU_ASSERT_PTR_NOT_NULL_FATAL (error);
    CU_ASSERT_STRING_EQUAL (error->message, expected);
    CU_ASSERT_EQUAL (conf.max_split_size, 5);
  }
}

static void
requests_are_rounded (void)
{
  static const struct { const char *conf; int64_t bytes, rounded; } CASES[] = {
    { "", 1, 512 }, { "", 512, 512 }, { "", 513, 1024 }, { "", 1048577, 1049088 },
    { "roundup_power2_divisions:4", 1200 * ZS_MIB, 1280 * ZS_MIB },   /* the manual's example */
    { "roundup_power2_divisions:4", 1024 * ZS_MIB, 1024 * ZS_MIB },
    { "roundup_power2_divisions:4", 2048, 2048 },       /* not above 512 * 4 */
    { "roundup_power2_divisions:4", 2049, 2560 },
    { "roundup_power2_divisions:8", 4097, 4608 },
    { "roundup_power2_divisions:1", 3 * ZS_MIB + 1, 3 * ZS_MIB + 512 },   /* 1 does nothing */
    { "roundup_power2_divisions:2", 3 * ZS_MIB + 1, 4 * ZS_MIB },
    { "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", 300 * ZS_MIB + 1, 300 * ZS_MIB + 512 },
    { "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", 600 * ZS_MIB, 768 * ZS_MIB },
    { "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", 5000 * ZS_MIB, 5120 * ZS_MIB },
    { "roundup_power2_divisions:4,roundup_bypass_threshold_mb:100", 101 * ZS_MIB + 1,
      101 * ZS_MIB + 512 },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (CASES); i++) {
    ZsAllocConf conf;

    CU_ASSERT_TRUE_FATAL (zs_alloc_conf_parse (CASES[i].conf, &conf, NULL));
    if (zs_alloc_conf_round (&conf, CASES[i].bytes) != CASES[i].rounded)
      printf ("# case %zu: %" G_GINT64_FORMAT "\n", i, zs_alloc_conf_round (&conf, CASES[i].bytes));
    CU_ASSERT_EQUAL (zs_alloc_conf_round (&conf, CASES[i].bytes), CASES[i].rounded);
  }
}

static void
segments_have_pytorchs_sizes (void)
{
  ZsAllocConf conf;

  zs_alloc_conf_init (&conf);
  CU_ASSERT_EQUAL (zs_alloc_conf_segment (&conf, 512), 2 * ZS_MIB);
  CU_ASSERT_EQUAL (zs_alloc_conf_segment (&conf, ZS_MIB), 2 * ZS_MIB);
  CU_ASSERT_EQUAL (zs_alloc_conf_segment (&conf, ZS_MIB + 512), 20 * ZS_MIB);
  CU_ASSERT_EQUAL (zs_alloc_conf_segment (&conf, 10 * ZS_MIB - 512), 20 * ZS_MIB);
  CU_ASSERT_EQUAL (zs_alloc_conf_segment (&conf, 10 * ZS_MIB), 10 * ZS_MIB);
  CU_ASSERT_EQUAL (zs_alloc_conf_segment (&conf, 10 * ZS_MIB + 512), 12 * ZS_MIB);
  conf.large_segment_size = 40 * ZS_MIB;
  CU_ASSERT_EQUAL (zs_alloc_conf_segment (&conf, 9 * ZS_MIB), 40 * ZS_MIB);
  CU_ASSERT_EQUAL (zs_alloc_conf_segment (&conf, 10 * ZS_MIB), 10 * ZS_MIB);
}

/* ---- host memory ---- */

static void
pinned_memory_comes_in_powers_of_two (void)
{
  /* Measured with PyTorch 2.11. */
  static const int64_t MIB[][2] = { { 3, 4 }, { 33, 64 }, { 100, 128 }, { 129, 256 }, { 257, 512 } };

  for (size_t i = 0; i < G_N_ELEMENTS (MIB); i++)
    CU_ASSERT_EQUAL (zs_host_pinned_size (MIB[i][0] * ZS_MIB), MIB[i][1] * ZS_MIB);
  CU_ASSERT_EQUAL (zs_host_pinned_size (1), 1);
  CU_ASSERT_EQUAL (zs_host_pinned_size (4096), 4096);
  CU_ASSERT_EQUAL (zs_host_pinned_size (0), 0);
}

static void
pinned_memory_stays_pinned (void)
{
  g_autoptr (ZsHostAllocator) allocator = zs_host_allocator_new ();
  const ZsHostCounters *counters = zs_host_allocator_counters (allocator);
  ZsHostBlock a = zs_host_allocator_alloc (allocator, 3 * ZS_MIB, ZS_HOST_PINNED);
  ZsHostBlock b = zs_host_allocator_alloc (allocator, 100 * ZS_MIB, ZS_HOST_PINNED_EXACT);
  ZsHostBlock c = zs_host_allocator_alloc (allocator, 50 * ZS_MIB, ZS_HOST_PAGEABLE);

  CU_ASSERT_TRUE (a.fresh && b.fresh);
  CU_ASSERT_EQUAL (counters->pinned, 104 * ZS_MIB);
  CU_ASSERT_EQUAL (counters->pageable, 50 * ZS_MIB);
  zs_host_allocator_release (allocator, c);
  zs_host_allocator_release (allocator, b);
  zs_host_allocator_release (allocator, a);
  CU_ASSERT_EQUAL (counters->pinned, 4 * ZS_MIB);
  CU_ASSERT_EQUAL (counters->pinned_in_use, 0);
  CU_ASSERT_EQUAL (counters->pageable, 0);
  CU_ASSERT_EQUAL (counters->total_peak, 154 * ZS_MIB);

  ZsHostBlock d = zs_host_allocator_alloc (allocator, 4 * ZS_MIB, ZS_HOST_PINNED);

  CU_ASSERT_FALSE (d.fresh);   /* the block of 3 MiB had room for 4 */
  CU_ASSERT_EQUAL (counters->pinned, 4 * ZS_MIB);
  CU_ASSERT_EQUAL (counters->pinned_requested, 4 * ZS_MIB);
  zs_host_allocator_release (allocator, d);
  zs_host_allocator_empty_cache (allocator);
  zs_host_allocator_reset_peaks (allocator);
  CU_ASSERT_EQUAL (counters->pinned, 0);
  CU_ASSERT_EQUAL (counters->total_peak, 0);
}

/* Pinned bytes end as the sum over sizes of the most blocks that were in use at once. */
static void
pinned_memory_grows_to_the_peak_of_each_size (void)
{
  const guint32 seed = 11;
  GRand *random = g_rand_new_with_seed (seed);
  g_autoptr (ZsHostAllocator) allocator = zs_host_allocator_new ();
  ZsHostBlock blocks[200];
  int n = 0, in_use[40] = { 0 }, peak[40] = { 0 };
  int64_t expected = 0;

  for (int i = 0; i < 5000; i++) {
    if (n > 0 && (n == 200 || g_rand_boolean (random))) {
      int k = g_rand_int_range (random, 0, n);

      in_use[__builtin_ctzll ((unsigned long long) blocks[k].bytes)]--;
      zs_host_allocator_release (allocator, blocks[k]);
      blocks[k] = blocks[--n];
    } else {
      ZsHostBlock block
        = zs_host_allocator_alloc (allocator, g_rand_int_range (random, 1, 1 << 30), ZS_HOST_PINNED);
      int log2 = __builtin_ctzll ((unsigned long long) block.bytes);

      CU_ASSERT_TRUE (block.bytes >= block.requested && block.bytes < 2 * block.requested);
      in_use[log2]++;
      peak[log2] = MAX (peak[log2], in_use[log2]);
      blocks[n++] = block;
    }
  }
  for (int i = 0; i < 40; i++)
    expected += (int64_t) peak[i] << i;
  CU_ASSERT_EQUAL (zs_host_allocator_counters (allocator)->pinned, expected);
  g_rand_free (random);
}

/* ---- the message ---- */

static void
sizes_are_printed_as_pytorch_does (void)
{
  static const struct { int64_t bytes; const char *text; } CASES[] = {
    { 0, "0 bytes" }, { 1024, "1024 bytes" }, { 1025, "1.00 KiB" }, { 1048576, "1024.00 KiB" },
    { 1048577, "1.00 MiB" }, { 1073741824, "1024.00 MiB" }, { INT64_C (150109880320), "139.80 GiB" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (CASES); i++) {
    g_autofree char *text = zs_oom_format_size (CASES[i].bytes);

    CU_ASSERT_STRING_EQUAL (text, CASES[i].text);
  }
}

#define GIB(x) ((int64_t) ((x) * 1073741824.0))

static void
the_message_has_the_words_of_its_release (void)
{
  /* As printed on an H200 by torch 2.11 for a request of 554949282 bytes under a fraction of 0.03. */
  ZsOomFacts facts = {
    .failure = { .request = 554949282, .segment = 530 * ZS_MIB, .allocated = GIB (3.54),
                 .reserved = GIB (3.54) + 671099814, .free = GIB (135.05),
                 .limit = INT64_C (4503296409) },
    .total = INT64_C (150109880320), .process = GIB (4.74),
  };
  static const struct { ZsVersion version; const char *text; } CASES[] = {
    { ZS_VERSION (1, 4, 0),
      "CUDA out of memory. Tried to allocate 530.00 MiB (GPU 0; 139.80 GiB total capacity; 3.54 GiB "
      "already allocated; 135.05 GiB free; 4.17 GiB cached)" },
    { ZS_VERSION (1, 9, 1),
      "CUDA out of memory. Tried to allocate 530.00 MiB (GPU 0; 139.80 GiB total capacity; 3.54 GiB "
      "already allocated; 135.05 GiB free; 4.17 GiB reserved in total by PyTorch)" },
    { ZS_VERSION (2, 0, 1),
      "CUDA out of memory. Tried to allocate 530.00 MiB (GPU 0; 139.80 GiB total capacity; 3.54 GiB "
      "already allocated; 135.05 GiB free; 4.19 GiB allowed; 4.17 GiB reserved in total by PyTorch) "
      "If reserved memory is >> allocated memory try setting max_split_size_mb to avoid "
      "fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF" },
    { ZS_VERSION (2, 1, 2),
      "CUDA out of memory. Tried to allocate 530.00 MiB. GPU 0 has a total capacty of 139.80 GiB of "
      "which 135.05 GiB is free. Including non-PyTorch memory, this process has 4.74 GiB memory in "
      "use. 4.19 GiB allowed; Of the allocated memory 3.54 GiB is allocated by PyTorch, and 640.01 "
      "MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "
      "setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management "
      "and PYTORCH_CUDA_ALLOC_CONF" },
    { ZS_VERSION (2, 4, 0),
      "CUDA out of memory. Tried to allocate 530.00 MiB. GPU 0 has a total capacity of 139.80 GiB of "
      "which 135.05 GiB is free. Including non-PyTorch memory, this process has 4.74 GiB memory in "
      "use. 4.19 GiB allowed; Of the allocated memory 3.54 GiB is allocated by PyTorch, and 640.01 "
      "MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "
      "setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
      "documentation for Memory Management  "
      "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)" },
    { ZS_VERSION (2, 11, 0),
      "CUDA out of memory. Tried to allocate 530.00 MiB. GPU 0 has a total capacity of 139.80 GiB of "
      "which 135.05 GiB is free. Including non-PyTorch memory, this process has 4.74 GiB memory in "
      "use. 4.19 GiB allowed; Of the allocated memory 3.54 GiB is allocated by PyTorch, and 640.01 "
      "MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "
      "setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
      "documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"
      "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (CASES); i++) {
    g_autofree char *text = zs_oom_message (CASES[i].version, &facts);

    if (g_strcmp0 (text, CASES[i].text) != 0)
      printf ("# %s\n", text);
    CU_ASSERT_STRING_EQUAL (text, CASES[i].text);
  }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "every option is read", every_option_is_read },
    { "settings are written as they are read", settings_are_written_as_they_are_read },
    { "wrong settings are explained", wrong_settings_are_explained },
    { "requests are rounded", requests_are_rounded },
    { "segments have PyTorch's sizes", segments_have_pytorchs_sizes },
    { "pinned memory comes in powers of two", pinned_memory_comes_in_powers_of_two },
    { "pinned memory stays pinned", pinned_memory_stays_pinned },
    { "pinned memory grows to the peak of each size", pinned_memory_grows_to_the_peak_of_each_size },
    { "sizes are printed as PyTorch does", sizes_are_printed_as_pytorch_does },
    { "the message has the words of its release", the_message_has_the_words_of_its_release },
    CU_TEST_INFO_NULL
  };
  return testing_main ("memory", tests);
}
