/* oom-message.h: the text of PyTorch's out-of-memory error, by version.
 * SPDX-License-Identifier: MIT
 *
 * Source: c10/cuda/CUDACachingAllocator.cpp of each release; the text of 2.11 was compared with one
 * that a run on an H200 printed. */
#pragma once

#include <glib.h>

#include "sim/base/version.h"
#include "sim/memory/caching-allocator.h"

typedef struct {
  ZsAllocationFailure failure;
  int     gpu;             /* index */
  int64_t total;           /* of the GPU, as torch reports it */
  int64_t process;         /* used by this process, with what is outside PyTorch; 0: not known, and
                              the sentence is left out */
} ZsOomFacts;

/* The whole message as TORCH (a version) prints it; g_free it. */
char *zs_oom_message (ZsVersion torch, const ZsOomFacts *facts);
/* "530.00 MiB", as PyTorch's format_size (); g_free it. */
char *zs_oom_format_size (int64_t bytes);
