/* alloc-conf.h: the settings of PyTorch's caching allocators (PYTORCH_CUDA_ALLOC_CONF).
 * SPDX-License-Identifier: MIT
 *
 * Source of names, ranges and defaults: c10/cuda/CUDAAllocatorConfig.{h,cpp} and
 * c10/core/AllocatorConfig.{h,cpp} of PyTorch 2.11; older names from earlier releases. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define ZS_MIB (INT64_C (1) << 20)

#define ZS_ROUNDUP_INTERVALS 16   /* 1 MiB, 2 MiB ... 32 GiB and above */

typedef struct {
  int64_t max_split_size;           /* bytes; INT64_MAX: blocks of any size are split */
  int64_t roundup_power2_divisions[ZS_ROUNDUP_INTERVALS];   /* 0: off; else a power of two */
  int64_t roundup_bypass_threshold; /* bytes; INT64_MAX: none.  Before PyTorch 2.0 only */
  double  garbage_collection_threshold;   /* fraction of the memory limit; 0: off */
  bool    expandable_segments;
  int64_t large_segment_size;       /* bytes; 20 MiB */
  int64_t max_non_split_rounding;   /* bytes; 20 MiB (large_segment_size) */
  double  per_process_memory_fraction;    /* of total memory; 0: not given */
  bool    cuda_malloc_async;        /* backend:cudaMallocAsync; this allocator is not used then */
  bool    release_lock_on_cudamalloc;
  bool    graph_capture_record_stream_reuse;
  bool    pinned_use_cuda_host_register;
  int64_t pinned_num_register_threads;
  bool    pinned_use_background_threads;
  int64_t pinned_reserve_segment_size;    /* bytes; 0: off */
} ZsAllocConf;

/* PyTorch's defaults. */
void zs_alloc_conf_init (ZsAllocConf *conf);

/* Read TEXT ("max_split_size_mb:128,expandable_segments:True"); empty or NULL is the default.  A key
 * given twice counts the last time, as in PyTorch.  Errors (domain ZS_ALLOC_CONF_ERROR) name the
 * column, what was found, what is allowed and the nearest known key; RET_CONF is untouched then. */
bool zs_alloc_conf_parse (const char *text, ZsAllocConf *ret_conf, GError **error);

#define ZS_ALLOC_CONF_ERROR (zs_alloc_conf_error_quark ())
GQuark zs_alloc_conf_error_quark (void);

/* "expandable_segments:True": what differs from the default, in PyTorch's syntax; g_free it. */
char *zs_alloc_conf_format (const ZsAllocConf *conf);

/* What a block for a request of BYTES measures, before unsplit waste. */
int64_t zs_alloc_conf_round (const ZsAllocConf *conf, int64_t bytes);
/* Size of the segment for a request of ROUNDED bytes. */
int64_t zs_alloc_conf_segment (const ZsAllocConf *conf, int64_t rounded);
