/* gpu.h: what a GPU is: one file of models/gpus/ each.
 * SPDX-License-Identifier: MIT
 *
 * Rates are dense (no sparsity).  0 means unknown unless said otherwise. */
#pragma once

#include <glib.h>
#include <stdbool.h>

#include "sim/base/time.h"
#include "sim/io/document.h"

/* Where a number comes from; shown beside what depends on it. */
typedef enum { ZS_ORIGIN_MEASURED, ZS_ORIGIN_PUBLISHED, ZS_ORIGIN_ASSUMED } ZsOrigin;

typedef struct {
  char    name[48];            /* "a100-sxm4-40gb" */
  int     compute_capability;  /* 80; 0: not NVIDIA */
  int     sm_count;
  int64_t memory_bytes;        /* torch's total_memory, the typical value */
  ZsRate  memory_rate;         /* of HBM or GDDR, bytes per second, by its specification */
  int64_t l2_bytes;
  double  fp32_flops, tf32_flops, fp16_flops, bf16_flops;   /* per second; bf16 with fp32 accumulate */
  int     pcie_generation, pcie_width;
  int     nvlink_generation, nvlink_links;
  bool    p2p_over_pcie;       /* does the driver let peers reach it over PCIe */
  int64_t context_bytes;       /* CUDA context and kernels of a training process, outside torch */
  ZsOrigin context_origin;
  /* Achieved fractions of the specification; the kernel model starts from these. */
  double  matmul_efficiency;   /* best large bf16/fp16 product / dense peak, called in a loop: as far as
                                  the power allows */
  double  matmul_full_clock;   /* rate of a full wave of the largest tile / dense peak while the power
                                  does not hold the clock back; 0: not known */
  double  memory_efficiency;   /* best vectorised kernel / memory_rate */
  ZsOrigin matmul_origin, memory_origin;
  double  expected_error;      /* of a GPU-bound step's time, relative; nine of ten are within it */
  ZsRate  pinned_copy_rate;    /* host to GPU, one direction alone */
} ZsGpu;

/* Fills *RET_GPU from the root of a file of models/gpus/.  A number there is bare, or {value, origin:
 * measured | published | assumed, source}.  False if an error was added; *RET_GPU is then untouched. */
bool zs_gpu_read (const ZsNode *root, ZsGpu *ret_gpu, ZsErrors *errors);
const char *zs_origin_name (ZsOrigin origin);   /* "measured" */
