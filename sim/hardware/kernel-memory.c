/* kernel-memory.c: kernels that memory or instructions bound.  SPDX-License-Identifier: MIT
 *
 * Memory traffic at a fraction of the peak bandwidth by class of kernel; kernels that read broadcast,
 * strided or narrow operands one by one are bound by instructions instead. */
#include "config.h"

#include "sim/hardware/kernel-internal.h"

/* Memory-bound kernels: fixed + bytes / (fraction x bandwidth).  Source of these and of the costs by
 * element below: every kernel of training steps of three LLaMA shapes (T = 1024 to 4096, h = 2048 and
 * 4096), profiled on one H200, torch 2.11; a kernel with its gap to the next. */
typedef struct {
  double fraction;
  double fixed;             /* us */
} TrafficRate;

#define KERNEL_FIXED 1.8    /* us: a gap of 1.4 between kernels of a stream (1.1 after tiny ones, 1.6 in steps of
                               large ones), and the ramp */

static const TrafficRate TRAFFIC_RATES[ZS_N_KERNELS] = {
  [ZS_KERNEL_ELEMENTWISE]        = { 0.89, KERNEL_FIXED },   /* 4.0-4.5 TB/s */
  [ZS_KERNEL_ACTIVATION]         = { 0.89, KERNEL_FIXED },
  [ZS_KERNEL_CAST]               = { 0.90, KERNEL_FIXED },   /* to 16 bit: 4.2-4.4 TB/s; from: below */
  [ZS_KERNEL_BROADCAST]          = { 0.88, KERNEL_FIXED },
  [ZS_KERNEL_STRIDED]            = { 0.88, KERNEL_FIXED },
  [ZS_KERNEL_CONCATENATE]        = { 0.88, KERNEL_FIXED },
  [ZS_KERNEL_REDUCE_ROWS]        = { 0.85, 5.0 },            /* and more: below */
  [ZS_KERNEL_REDUCE_COLUMNS]     = { 0.55, 10.0 },           /* memset included: 16.8 MB in 16 us, 67 MB in 38 */
  [ZS_KERNEL_SOFTMAX]            = { 0.44, KERNEL_FIXED },   /* forward, of long rows: 2.1 TB/s; others: below */
  [ZS_KERNEL_FILL]               = { 0.70, KERNEL_FIXED },   /* of 16 bit: 3.37 TB/s; of fp32: below */
  [ZS_KERNEL_COPY]               = { 0.88, KERNEL_FIXED },   /* 4.27 TB/s; torch.cat of rows 3.9 */
  [ZS_KERNEL_EMBEDDING]          = { 0.60, KERNEL_FIXED },
  [ZS_KERNEL_EMBEDDING_BACKWARD] = { 0.60, 17.0 },
  [ZS_KERNEL_ADAM_FUSED]         = { 0.72, 20.0 },           /* fp32: 3.46 TB/s; several launches */
  [ZS_KERNEL_ADAM_FOREACH]       = { 0.76, 20.0 },           /* fp32: 22 ps for 20 operands of 4 bytes */
  [ZS_KERNEL_ROWS_OF_SM]         = { 0.78, KERNEL_FIXED },   /* and more: below */
  [ZS_KERNEL_NORM]               = { 0.89, KERNEL_FIXED },   /* 4.3 TB/s */
  [ZS_KERNEL_TINY]               = { 0.88, KERNEL_FIXED },
};
#define SOFTMAX_SHORT_ROW      1024   /* a warp keeps a row in its registers: 3.7 TB/s */
#define SOFTMAX_SHORT_FRACTION 0.78
#define SOFTMAX_CACHED_ROW     65536  /* the L1 keeps it (256 KB): 2.5 TB/s at 32000 */
#define SOFTMAX_CACHED_FRACTION 0.525
#define SOFTMAX_BACK_FRACTION  0.60   /* three operands of 4 bytes: 2.8-3.0 TB/s */
#define FILL_WIDE_FRACTION     0.96   /* fp32: 4.6-4.7 TB/s */
#define ADAM_NARROW_FRACTION   0.58   /* 16-bit parameters and states: 2.65-2.79 TB/s */
#define NORM_NARROW_FRACTION   0.52   /* many 16-bit tensors: 2.0-2.5 TB/s */
#define FOREACH_NARROW_FRACTION 0.63  /* 13.2 ps for 20 operands of 2 bytes */

/* Kernels that load one element at a time and compute its address are bound by instructions: ps per
 * element on the H200 (132 SMs at 1.98 GHz). */
#define BROADCAST_ELEMENT   2.0    /* 2.2-3.5 ps in all, more with more operands: ... */
#define BROADCAST_BYTE      0.15   /* ... per byte of an element's operands */
#define ACTIVATION_ELEMENT  0.36   /* 1.12 in all with 4 bytes, 1.50 with 6 */
#define ACTIVATION_BYTE     0.19
#define STRIDED_ELEMENT     2.15   /* of several sequences: 2.8-2.9 in all; ... */
#define STRIDED_ONE         1.95   /* ... of one, which has a dimension less: 2.7 */
#define STRIDED_DIFFER      0.4    /* where operands are laid out differently: 3.1-3.5 and 2.8-3.2 */
#define STRIDED_TYPES       1.9    /* where they are of two types: 5.05 */
#define STRIDED_BYTE        0.17
#define CONCATENATE_ELEMENT 4.4    /* 4.3-4.5 */
#define CAST_UP_ELEMENT     2.85   /* bf16 to fp32, also of bool: 2.7-3.0 (2.0-2.1 TB/s) */
#define CAST_DOUBLE_ELEMENT 4.0    /* to fp64 */
#define ISSUE_CLOCK         0.5    /* how much of the clock's fall these feel; strided ones and torch.cat all of it
                                      (tests/data/h200-power) */
#define REFERENCE_ISSUE     (132 * 1.98e9)

/* embedding_dense_backward: up to 3072 tokens one kernel walks over all of them; more are sorted.
 * 45-130 us at 512 and 2048 tokens, 193 us at 4096 x 2048, 590 us at 8192 x 4096. */
#define EMBEDDING_SORTED_FROM 3073
#define EMBEDDING_TOKEN       0.050   /* us */
#define EMBEDDING_SORT        70.0    /* us: twelve kernels of sort and scan */
#define EMBEDDING_ELEMENT     16.0    /* ps: fp32 sums of pieces and their joining */

/* A reduction gives 16 rows to a block.  Where an SM has two blocks at most, nothing hides the latency of walking
 * over a long row: 2048 rows of 4096 take 18 to 23 us and 8192 rows 40; 4096 of 8192 take 50, by their bytes 33. */
#define ROWS_OF_BLOCK   16
#define ROW_ELEMENT     2.0e-3   /* us, of a row beyond ... */
#define ROW_SHORT       2048     /* ... these */
#define ROW_TIME        1.7e-4   /* us a row: 262144 rows of 128 take 72 us, by their bytes 33 */
/* Sums over rows to few columns leave most threads of a block without work: 33.5 million elements in 128 columns take
 * 155 us, 8.4 million 69; in 4096 36 and 14. */
#define COLUMNS_OF_BLOCK 512
#define ROWS_BACKWARD   3.5      /* us: between their making and this another product has passed through the L2 */

/* A block that has an SM for itself waits for each row before it sums it: 8192 rows of 4096 take 95 us, 16384 of
 * 2048 137 (tests/data/liger). */
#define ROW_LATENCY     0.66     /* us */

/* Fused AdamW of elements that never had a gradient: 0 divided by the root of 0 takes the slow ways of the division
 * and the root.  The first tensor of models with an embedding of their own, of whose rows few are named by a batch:
 * 172 us for 21 million at 1980 MHz, 205 at 1660, where others take 105 (bf16). */
#define ADAM_IDLE_ELEMENT 8.2    /* ps */
#define ADAM_CLOCK      0.35     /* the part of its time that follows the clock, with 16-bit parameters */

/* Instructions per second, as SMs x clock, where the reference is 1.  The clock follows from the
 * fp32 rate. */
static double
issue_scale (const ZsGpu *gpu)
{
  if (gpu->fp32_flops <= 0 || gpu->sm_count <= 0)
    return 1;
  return gpu->fp32_flops / (2 * lanes (gpu)) / REFERENCE_ISSUE;
}

/* Picoseconds per element where instructions may bind; 0: they do not. */
static double
element_cost (const ZsKernel *kernel)
{
  double width = kernel->n > 0 ? (double) kernel->bytes / (double) kernel->n : 0;

  switch (kernel->kind) {
  case ZS_KERNEL_BROADCAST:
    return BROADCAST_ELEMENT + BROADCAST_BYTE * width;
  case ZS_KERNEL_ACTIVATION:
    return ACTIVATION_ELEMENT + ACTIVATION_BYTE * width;
  case ZS_KERNEL_STRIDED:
    return (kernel->m == 1 ? STRIDED_ONE : STRIDED_ELEMENT) + STRIDED_BYTE * width
           + (kernel->form == ZS_STRIDES_DIFFER  ? STRIDED_DIFFER
              : kernel->form == ZS_STRIDES_TYPES ? STRIDED_TYPES : 0);
  case ZS_KERNEL_CONCATENATE:
    return CONCATENATE_ELEMENT;
  case ZS_KERNEL_CAST:
    return kernel->element_bytes >= 4 ? 0 : width > 8 ? CAST_DOUBLE_ELEMENT : CAST_UP_ELEMENT;
  default:
    return 0;
  }
}

/* What a reduction over rows takes beside its traffic. */
static double
row_seconds (const ZsGpu *gpu, const ZsKernel *kernel)
{
  double us = kernel->launch == ZS_LAUNCH_AUTOGRAD ? ROWS_BACKWARD : 0;

  if (kernel->k > 0) {
    double rows = (double) kernel->n / (double) kernel->k;

    us += ROW_TIME * rows / issue_scale (gpu);
    if (kernel->k > ROW_SHORT && rows <= 2.0 * ROWS_OF_BLOCK * MAX (gpu->sm_count, 1))
      us += ROW_ELEMENT * (double) (kernel->k - ROW_SHORT);
  }
  return us * 1e-6;
}

double
kernel_traffic_seconds (const ZsGpu *gpu, const ZsKernel *kernel, double slower)
{
  const TrafficRate *rate = &TRAFFIC_RATES[MIN (kernel->kind, ZS_N_KERNELS - 1)];
  double fraction = rate->fraction, n = (double) kernel->n;

  if (kernel->kind == ZS_KERNEL_SOFTMAX && kernel->bytes > 8 * kernel->n)
    fraction = SOFTMAX_BACK_FRACTION;
  else if (kernel->kind == ZS_KERNEL_SOFTMAX && kernel->k > 0 && kernel->k <= SOFTMAX_CACHED_ROW)
    fraction = kernel->k <= SOFTMAX_SHORT_ROW ? SOFTMAX_SHORT_FRACTION : SOFTMAX_CACHED_FRACTION;
  else if (kernel->kind == ZS_KERNEL_FILL && kernel->element_bytes == 4)
    fraction = FILL_WIDE_FRACTION;
  else if (kernel->kind == ZS_KERNEL_ADAM_FUSED && kernel->element_bytes == 2)
    fraction = ADAM_NARROW_FRACTION;
  else if (kernel->kind == ZS_KERNEL_NORM && kernel->element_bytes == 2)
    fraction = NORM_NARROW_FRACTION;
  else if (kernel->kind == ZS_KERNEL_ADAM_FOREACH && kernel->element_bytes == 2)
    fraction = FOREACH_NARROW_FRACTION;
  double bandwidth = (double) gpu->memory_rate * memory_scale (gpu);
  double traffic = (double) kernel->bytes / (bandwidth * (fraction > 0 ? fraction : 0.5));

  if (kernel->kind == ZS_KERNEL_EMBEDDING_BACKWARD) {
    double ratio = REFERENCE_BANDWIDTH / bandwidth;

    return kernel->m < EMBEDDING_SORTED_FROM
             ? (rate->fixed + EMBEDDING_TOKEN * (double) kernel->m * ratio) * 1e-6
             : (EMBEDDING_SORT + EMBEDDING_ELEMENT * 1e-6 * n * ratio) * 1e-6;
  }
  if (kernel->kind == ZS_KERNEL_ADAM_FUSED) {
    double idle = ADAM_IDLE_ELEMENT * 1e-12 * slower * slower / issue_scale (gpu);
    double part = n > 0 ? CLAMP ((double) kernel->m / n, 0.0, 1.0) : 0;

    if (kernel->element_bytes == 2)
      traffic *= 1 + ADAM_CLOCK * (slower - 1);
    return (1 - part) * traffic + part * MAX (traffic, idle * n) + rate->fixed * 1e-6;
  }
  if (kernel->kind == ZS_KERNEL_ROWS_OF_SM)
    traffic += ROW_LATENCY * 1e-6 * (double) kernel->m / MAX (gpu->sm_count, 1);
  if (kernel->kind == ZS_KERNEL_REDUCE_ROWS)
    traffic += row_seconds (gpu, kernel);
  if (kernel->kind == ZS_KERNEL_REDUCE_COLUMNS && kernel->k > 0 && kernel->k < COLUMNS_OF_BLOCK)
    return (traffic + rate->fixed * 1e-6) * COLUMNS_OF_BLOCK / (double) kernel->k;
  if (kernel->kind == ZS_KERNEL_BROADCAST || kernel->kind == ZS_KERNEL_ACTIVATION || kernel->kind == ZS_KERNEL_CAST)
    slower = 1 + ISSUE_CLOCK * (slower - 1);
  double issue = slower * element_cost (kernel) * 1e-12 * n / issue_scale (gpu);

  return MAX (traffic, issue) + rate->fixed * 1e-6;
}
