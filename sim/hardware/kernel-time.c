/* kernel-time.c: a roofline with tiles and waves.  SPDX-License-Identifier: MIT
 *
 * Time of a kernel = fixed part + the larger of arithmetic, memory traffic and instructions.
 *
 * Matrix products: the output is cut into tiles, one thread block each; the SMs take them in waves;
 * of the tile sizes (and cuts of the inner dimension) the fastest is taken, as cuBLAS's heuristics
 * intend.  Long products run at lower clocks because of power.  Constants: fitted to 342 bf16
 * products in the shapes of LLaMA measured in loops on one H200 (torch 2.11): median error 2.8 %, 90 % within
 * 8 % (those below 20 us were bound by their launch when measured), and to those in training steps: 1 %.
 *
 * Power.  A loop of products draws more than the GPU may, and its clock falls by a quarter; in a step
 * whose other kernels draw less it falls less.  Where a GPU's rate at full clock is known
 * (ZsGpu.matmul_full_clock), a product in a step runs at that rate as long as the tensor cores are busy less
 * than two fifths of the step, and slower beyond.
 *
 * Attention: useful (causal) operations at a fraction of the dense peak, and terms for the kernels
 * around it.  Constants: 215 runs of three back ends on the same H200.
 *
 * The rest: memory traffic at a fraction of the peak bandwidth by class of kernel; kernels that read
 * broadcast, strided or narrow operands one by one are bound by instructions instead.
 *
 * On other GPUs the fractions are scaled by what is known of the GPU (ZsGpu: matmul_efficiency,
 * memory_efficiency); the H200's are the reference.
 */
#include "config.h"

#include "sim/hardware/kernel-time.h"

#include <math.h>

#include "sim/plan/kernel.h"

/* The reference: one H200 SXM (specification 989 TFLOP/s dense bf16, 4.8 TB/s). */
#define REFERENCE_PEAK      989.4e12
#define REFERENCE_BANDWIDTH 4.8e12
#define REFERENCE_MATMUL_EFFICIENCY 0.80   /* largest measured: 794 of 989 */
#define REFERENCE_MEMORY_EFFICIENCY 0.90   /* copies of 1 GiB: 4.27 of 4.8 TB/s */

typedef struct {
  int    rows, columns;
  double rate;             /* relative to the largest tile */
} Tile;

/* What cuBLAS has kernels for.  Of these the fastest is taken, as its heuristics intend. */
typedef struct {
  Tile   tiles[16];
  double start;            /* a tile's prologue and epilogue, as extra inner dimension */
  double partial_wave;     /* how much of a wave's rest is lost */
  double loop_rate;        /* of the dense peak, in a full wave of a short product called in a loop */
  double power_loss;       /* per decade beyond ... */
  double power_start;      /* ... seconds, up to one decade */
  double fixed;            /* seconds */
  double queue;            /* seconds, of products of more than two waves: a kernel that clears the counter from
                              which blocks take their tiles */
  double join;             /* seconds of the kernel that adds up what a cut of the inner dimension left */
  double form_rate[3];     /* forward, dgrad, wgrad */
} Tiles;

/* Hopper's (nvjet): the tiles that 385 products of training steps named (tests/data/h200-steps); rates
 * relative to 256 x 128 from those and from 342 products in loops.  Median error 1 % in steps, 2.8 % in loops. */
static const Tiles HOPPER_TILES = {
  { { 256, 128, 1.0 }, { 128, 256, 1.0 }, { 192, 192, 1.0 }, { 320, 128, 1.0 }, { 128, 320, 1.0 },
    { 192, 128, 0.97 }, { 128, 192, 0.97 }, { 128, 128, 0.94 }, { 128, 64, 0.60 }, { 64, 128, 0.60 },
    { 64, 64, 0.40 } },
  199.0, 0.82, 0.842, 0.152, 4.52e-5, 2.7e-6, 2.4e-6, 0, { 1.0, 0.994, 0.980 },
};
/* others, by the same loops without the tiles that only Hopper has */
static const Tiles TILES = {
  { { 256, 128, 1.0 }, { 128, 256, 1.0 }, { 128, 128, 1.0 }, { 128, 64, 0.488 }, { 64, 128, 0.488 },
    { 64, 64, 0.354 } },
  170.0, 0.627, 0.82, 0.130, 4.89e-5, 3.0e-6, 0, 0, { 1.0, 0.971, 0.966 },
};
/* fp32 without tensor cores is less choosy */
static const Tiles LANE_TILES = {
  { { 128, 128, 1.0 }, { 128, 64, 0.97 }, { 64, 128, 0.97 }, { 64, 64, 0.9 }, { 128, 32, 0.8 },
    { 32, 128, 0.8 }, { 64, 32, 0.7 }, { 32, 64, 0.7 } },
  40.0, 0.627, 0, 0, 1, 3.0e-6, 0, 7.0e-6, { 1.0, 1.0, 1.0 },
};
#define MATMUL_TRAFFIC   0.755     /* of peak bandwidth, when a product is bound by memory */
#define SPLIT_TRAFFIC    0.8
/* Inside a step, by how busy it keeps the tensor cores (u: useful operations / what they could do at full clock):
 * kernels bound by the clock take 1 + slope x loss x (u - start) as long, in backward and the optimizer, which
 * follow upon what draws most, a third more.  Measured in steady steps (forward, backward), clocks read by
 * tests/measure/power.py: u = 0.37 to 0.41: 1.0; 0.46 to 0.48: 1.02-1.03, 1.03-1.045; 0.57: 1.08, 1.10; 0.60 to
 * 0.64: 1.07-1.08, 1.09-1.11; a loop of products: 1.24; loops of attention alone follow the same line (0.37: 1.0; 0.47:
 * 1.02; 0.60 to 0.68: 1.08-1.12). */
#define POWER_SHARE      0.41
#define POWER_SLOPE      2.9     /* x the loss of the best product in a loop, 0.1375 on the H200 */
#define POWER_BACKWARD   1.3
/* GPUs of one kind differ in the clock that their power allows: products vary by 8 % within a cluster,
 * outliers left out, memory-bound work hardly (Sinha et al., Not All GPUs Are Created Equal, SC 22,
 * arXiv 2208.11035).  Taken as the span of a box plot's whiskers (5.4 standard deviations) of a normal
 * distribution; a synchronous step goes at the pace of the slowest. */
#define CLOCK_SPREAD     0.015
/* fp32 without TF32: 46-51 of 67 TFLOP/s on the H200, where half of the 128 lanes of an SM also compute
 * integers; nearly all of the 64 lanes of Volta and GA100 (general knowledge, not measured). */
#define FP32_RATE        0.75
#define FP32_RATE_64     0.93

/* Attention: microseconds fixed + operations / rate + what grows with the elements of q (row sums, the
 * accumulator of dq, dk and dv of all heads) + what grows with the sequence alone (the longest block).
 * By head_dim: 128 and more, or less. */
typedef struct {
  double rate;              /* of the dense peak, on useful (causal) operations */
  double per_million;       /* us per million elements of q */
  double per_position;      /* us per thousand positions */
  double fixed;             /* us */
} AttentionRate;

/* [backend][backward][narrow] */
static const AttentionRate ATTENTION_RATES[ZS_N_ATTENTIONS][2][2] = {
  [ZS_ATTENTION_CUDNN] = { { { 0.616, 0.41, 0, 18 }, { 0.445, 0, 0, 17 } },
                           { { 0.542, 5.4, 0, 55 }, { 0.420, 8.2, 0, 35 } } },
  [ZS_ATTENTION_FLASH] = { { { 0.310, 0, 13.5, 14 }, { 0.264, 0, 1.6, 16 } },
                           { { 0.284, 8.1, 0, 90 }, { 0.254, 13.0, 0, 60 } } },
  [ZS_ATTENTION_EFFICIENT] = { { { 0.161, 0, 18.0, 12 }, { 0.137, 0, 18.0, 12 } },
                               { { 0.122, 0, 86.0, 47 }, { 0.104, 0, 86.0, 47 } } },
  [ZS_ATTENTION_FLASH_1] = { { { 0.22, 0, 0, 20 }, { 0.22, 0, 0, 20 } },
                             { { 0.185, 8.1, 0, 90 }, { 0.185, 13.0, 0, 60 } } },
  /* bias added, nothing skipped: head_dim 64 took 263 us and 675; 128 by the same ratio, not measured */
  [ZS_ATTENTION_CUDNN_MASK] = { { { 0.197, 0.41, 0, 18 }, { 0.142, 0, 0, 17 } },
                                { { 0.186, 5.4, 0, 55 }, { 0.144, 4.1, 0, 35 } } },
  /* these two are made of products and element-wise kernels of their own */
  [ZS_ATTENTION_EAGER] = { { { 0.0104, 0, 0, 20 }, { 0.0083, 0, 0, 20 } },
                           { { 0.0233, 0, 0, 20 }, { 0.0186, 0, 0, 20 } } },
  [ZS_ATTENTION_MATH] = { { { 0.0104, 0, 0, 20 }, { 0.0083, 0, 0, 20 } },
                          { { 0.0233, 0, 0, 20 }, { 0.0186, 0, 0, 20 } } },
};
/* On Ampere and Ada the flash back end is at home (FlashAttention-2 was written for Ampere):
 * 145-175 forward and 120-150 backward useful causal TFLOP/s of the A100's 312 (SimuMax). */
#define FLASH_AMPERE_FORWARD  0.56
#define FLASH_AMPERE_BACKWARD 0.46
/* FlashAttention-1, also in Triton: 30-50 % forward and 25-35 % backward of the A100's peak (arXiv
 * 2307.08691), less on Hopper, whose tensor cores it does not keep busy: about 200 TFLOP/s over both,
 * from published runs of 65536 tokens, which spend four fifths of their time in it. */
#define FLASH_1_AMPERE_FORWARD  0.345
#define FLASH_1_AMPERE_BACKWARD 0.288

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
  [ZS_KERNEL_CAST]               = { 0.90, KERNEL_FIXED },   /* to 16 bit: 4.2-4.4 TB/s; from: below */
  [ZS_KERNEL_BROADCAST]          = { 0.88, KERNEL_FIXED },
  [ZS_KERNEL_STRIDED]            = { 0.88, KERNEL_FIXED },
  [ZS_KERNEL_CONCATENATE]        = { 0.88, KERNEL_FIXED },
  [ZS_KERNEL_REDUCE_ROWS]        = { 0.85, 5.5 },            /* and more: below */
  [ZS_KERNEL_REDUCE_COLUMNS]     = { 0.55, 10.0 },           /* memset included: 16.8 MB in 16 us, 67 MB in 38 */
  [ZS_KERNEL_SOFTMAX]            = { 0.44, KERNEL_FIXED },   /* forward, of long rows: 2.1 TB/s; others: below */
  [ZS_KERNEL_FILL]               = { 0.70, KERNEL_FIXED },   /* of 16 bit: 3.37 TB/s; of fp32: below */
  [ZS_KERNEL_COPY]               = { 0.88, KERNEL_FIXED },   /* 4.27 TB/s; torch.cat of rows 3.9 */
  [ZS_KERNEL_EMBEDDING]          = { 0.60, KERNEL_FIXED },
  [ZS_KERNEL_EMBEDDING_BACKWARD] = { 0.60, 17.0 },
  [ZS_KERNEL_ADAM_FUSED]         = { 0.72, 20.0 },           /* fp32: 3.46 TB/s; several launches */
  [ZS_KERNEL_ADAM_FOREACH]       = { 0.76, 20.0 },           /* fp32: 22 ps for 20 operands of 4 bytes */
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
#define STRIDED_ELEMENT     2.15   /* of several sequences: 2.8-2.9 in all; ... */
#define STRIDED_ONE         1.95   /* ... of one, which has a dimension less: 2.7 */
#define STRIDED_DIFFER      0.4    /* where operands are laid out differently: 3.1-3.5 and 2.8-3.2 */
#define STRIDED_TYPES       1.9    /* where they are of two types: 5.05 */
#define STRIDED_BYTE        0.17
#define CONCATENATE_ELEMENT 4.4    /* 4.3-4.5 */
#define CAST_UP_ELEMENT     2.85   /* bf16 to fp32, also of bool: 2.7-3.0 (2.0-2.1 TB/s) */
#define CAST_DOUBLE_ELEMENT 4.0    /* to fp64 */
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
#define ROWS_BACKWARD   3.5      /* us: between their making and this another product has passed through the L2 */

/* Fused AdamW of elements that never had a gradient: 0 divided by the root of 0 takes the slow ways of the division
 * and the root.  The first tensor of models with an embedding of their own, of whose rows few are named by a batch:
 * 172 us for 21 million at 1980 MHz, 205 at 1660, where others take 105 (bf16). */
#define ADAM_IDLE_ELEMENT 8.2    /* ps */
#define ADAM_CLOCK      0.35     /* the part of its time that follows the clock, with 16-bit parameters */

#define TINY_TIME       2.4e-6   /* 0.8-1.3 us and the gap */

/* fp32 lanes of an SM: 64 on Pascal's GP100, Volta, Turing and GA100, else 128 (CUDA C programming guide) */
static int
lanes (const ZsGpu *gpu)
{
  return gpu->compute_capability > 0 && gpu->compute_capability <= 80 ? 64 : 128;
}

static bool
on_tensor_cores (const ZsGpu *gpu, const ZsKernel *kernel)
{
  return kernel->element_bytes != 4 || (kernel->tf32 && gpu->tf32_flops > 0);
}

static double
dense_peak (const ZsGpu *gpu, const ZsKernel *kernel)
{
  double peak;

  if (kernel->element_bytes == 4)
    peak = on_tensor_cores (gpu, kernel) ? gpu->tf32_flops : gpu->fp32_flops;
  else
    peak = gpu->bf16_flops > 0 ? gpu->bf16_flops : gpu->fp16_flops;
  return peak > 0 ? peak : MAX (gpu->fp32_flops, 1e12);
}

static double
matmul_scale (const ZsGpu *gpu)
{
  return gpu->matmul_efficiency > 0 ? gpu->matmul_efficiency / REFERENCE_MATMUL_EFFICIENCY : 1.0;
}

static double
memory_scale (const ZsGpu *gpu)
{
  return gpu->memory_efficiency > 0 ? gpu->memory_efficiency / REFERENCE_MEMORY_EFFICIENCY : 1.0;
}

/* ceil (a / b) */
static double
parts (int64_t a, int64_t b)
{
  return (double) ((a + b - 1) / b);
}

static const Tiles *
tiles_of (const ZsGpu *gpu, const ZsKernel *kernel)
{
  if (!on_tensor_cores (gpu, kernel))
    return &LANE_TILES;
  return gpu->compute_capability >= 90 && gpu->compute_capability < 100 ? &HOPPER_TILES : &TILES;
}

/* Seconds of arithmetic of an m x n x k product, and the number of blocks of the tile chosen. */
static double
tiles_time (const ZsGpu *gpu, const ZsKernel *kernel, double rate_per_sm, double *ret_blocks)
{
  const Tiles *tiles = tiles_of (gpu, kernel);
  double best = HUGE_VAL, n_sms = MAX (gpu->sm_count, 1);
  double traffic_rate = (double) gpu->memory_rate * memory_scale (gpu) * SPLIT_TRAFFIC;

  for (const Tile *tile = tiles->tiles; tile->rows > 0; tile++) {
    double whole_tiles = parts (kernel->m, tile->rows) * parts (kernel->n, tile->columns);

    for (int split = 1; split <= 8; split *= 2) {
      if (split > 1 && kernel->k / split < 512)
        break;
      double blocks = whole_tiles * split;
      double waves = blocks / n_sms, whole = ceil (waves);
      double used = whole <= 1 ? whole : waves + (whole - waves) * tiles->partial_wave;
      double inner = (double) kernel->k / split + tiles->start;
      double seconds = used * 2.0 * tile->rows * tile->columns * inner / (rate_per_sm * tile->rate);

      if (split > 1)
        seconds += (double) kernel->m * (double) kernel->n * 4.0 * split / traffic_rate + tiles->join;
      if (seconds < best) {
        best = seconds;
        *ret_blocks = blocks;
      }
    }
  }
  return best;
}

/* How much longer what the clock bounds takes in a step of SHARE.  What a GPU's best product in a loop
 * loses against its full clock says how short of power it is. */
static double
power_factor (const ZsGpu *gpu, const ZsKernel *kernel, double share)
{
  double loss = gpu->matmul_efficiency > 0 ? gpu->matmul_full_clock / gpu->matmul_efficiency - 1 : 0;
  bool backward = kernel->kind == ZS_KERNEL_ATTENTION_BACKWARD || kernel->kind == ZS_KERNEL_ADAM_FUSED
                  || (kernel->kind == ZS_KERNEL_MATMUL && kernel->form != ZS_MATMUL_FORWARD);

  return 1 + POWER_SLOPE * MAX (loss, 0.0) * CLAMP (share - POWER_SHARE, 0.0, 1.0) * (backward ? POWER_BACKWARD : 1);
}

static double
matmul_seconds (const ZsGpu *gpu, const ZsKernel *kernel, bool at_full_clock, double slower,
                double *ret_blocks)
{
  const Tiles *tiles = tiles_of (gpu, kernel);
  bool tensor = on_tensor_cores (gpu, kernel), full_clock = at_full_clock && tensor;
  double fraction = full_clock ? gpu->matmul_full_clock
                    : tensor   ? tiles->loop_rate * matmul_scale (gpu)
                               : lanes (gpu) == 64 ? FP32_RATE_64 : FP32_RATE;
  double rate_per_sm = dense_peak (gpu, kernel) / MAX (gpu->sm_count, 1) * fraction
                       * tiles->form_rate[MIN (kernel->form, 2)];
  double tile_blocks = 0, arithmetic = tiles_time (gpu, kernel, rate_per_sm, &tile_blocks);
  double m = (double) kernel->m, n = (double) kernel->n, k = (double) kernel->k;
  double traffic = (m * n + m * k + n * k) * kernel->element_bytes
                   / ((double) gpu->memory_rate * MATMUL_TRAFFIC * memory_scale (gpu));
  double seconds = MAX (arithmetic * slower, traffic);
  double decades = log10 (MAX (seconds, 1e-7) / tiles->power_start);

  *ret_blocks = traffic > arithmetic ? 0 : tile_blocks;
  if (tensor && !full_clock)
    seconds *= 1 + tiles->power_loss * CLAMP (decades, 0.0, 1.0);
  return seconds + tiles->fixed + (tile_blocks > 2.0 * gpu->sm_count ? tiles->queue : 0);
}

/* Instructions per second, as SMs x clock, where the reference is 1.  The clock follows from the
 * fp32 rate. */
static double
issue_scale (const ZsGpu *gpu)
{
  if (gpu->fp32_flops <= 0 || gpu->sm_count <= 0)
    return 1;
  return gpu->fp32_flops / (2 * lanes (gpu)) / REFERENCE_ISSUE;
}

static double
attention_seconds (const ZsGpu *gpu, const ZsKernel *kernel, double slower)
{
  bool backward = kernel->kind == ZS_KERNEL_ATTENTION_BACKWARD;
  int backend = MIN (kernel->form, ZS_N_ATTENTIONS - 1);
  const AttentionRate *rate = &ATTENTION_RATES[backend][backward][kernel->k < 128];
  double fraction = rate->rate, position = rate->per_position;
  double q = (double) kernel->m * kernel->heads * (double) kernel->n * (double) kernel->k;
  double compute = dense_peak (gpu, kernel) * matmul_scale (gpu);
  double bandwidth = (double) gpu->memory_rate * memory_scale (gpu);

  if (backend == ZS_ATTENTION_FLASH && gpu->compute_capability < 90) {
    fraction = backward ? FLASH_AMPERE_BACKWARD : FLASH_AMPERE_FORWARD;
    position = 0;
  } else if (backend == ZS_ATTENTION_FLASH_1 && gpu->compute_capability < 90)
    fraction = backward ? FLASH_1_AMPERE_BACKWARD : FLASH_1_AMPERE_FORWARD;
  return slower * kernel->flops / (compute * fraction)
         + position * 1e-9 * (double) kernel->n * REFERENCE_PEAK / compute
         + rate->per_million * 1e-12 * q * REFERENCE_BANDWIDTH / bandwidth + rate->fixed * 1e-6;
}

/* Picoseconds per element where instructions may bind; 0: they do not. */
static double
element_cost (const ZsKernel *kernel)
{
  double width = kernel->n > 0 ? (double) kernel->bytes / (double) kernel->n : 0;

  switch (kernel->kind) {
  case ZS_KERNEL_BROADCAST:
    return BROADCAST_ELEMENT + BROADCAST_BYTE * width;
  case ZS_KERNEL_STRIDED:
    return (kernel->m == 1 ? STRIDED_ONE : STRIDED_ELEMENT) + STRIDED_BYTE * width
           + (kernel->form == ZS_STRIDES_DIFFER ? STRIDED_DIFFER : kernel->form == ZS_STRIDES_TYPES ? STRIDED_TYPES : 0);
  case ZS_KERNEL_CONCATENATE:
    return CONCATENATE_ELEMENT;
  case ZS_KERNEL_CAST:
    return kernel->element_bytes >= 4 ? 0 : width > 8 ? CAST_DOUBLE_ELEMENT : CAST_UP_ELEMENT;
  default:
    return 0;
  }
}

static double
traffic_seconds (const ZsGpu *gpu, const ZsKernel *kernel, double slower)
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
  if (kernel->kind == ZS_KERNEL_REDUCE_ROWS && kernel->launch == ZS_LAUNCH_AUTOGRAD)
    traffic += ROWS_BACKWARD * 1e-6;
  if (kernel->kind == ZS_KERNEL_REDUCE_ROWS && kernel->k > ROW_SHORT
      && n / (double) kernel->k <= 2.0 * ROWS_OF_BLOCK * MAX (gpu->sm_count, 1))
    traffic += ROW_ELEMENT * 1e-6 * (double) (kernel->k - ROW_SHORT);
  double issue = slower * element_cost (kernel) * 1e-12 * n / issue_scale (gpu);

  return MAX (traffic, issue) + rate->fixed * 1e-6;
}

ZsTime
zs_kernel_time_in_step (const ZsGpu *gpu, const ZsKernel *kernel, ZsPace pace)
{
  bool full_clock = pace.tensor_share >= 0 && gpu->matmul_full_clock > 0;
  double slowest = pace.slowest > 0 ? pace.slowest : 1;
  double slower = (full_clock ? power_factor (gpu, kernel, pace.tensor_share) : 1) * slowest;
  double seconds, blocks;

  switch (kernel->kind) {
  case ZS_KERNEL_MATMUL:
    seconds = matmul_seconds (gpu, kernel, full_clock, on_tensor_cores (gpu, kernel) ? slower : slowest, &blocks);
    break;
  case ZS_KERNEL_ATTENTION_FORWARD:
  case ZS_KERNEL_ATTENTION_BACKWARD:
    seconds = attention_seconds (gpu, kernel, slower);
    break;
  case ZS_KERNEL_TINY:
    seconds = TINY_TIME;
    break;
  default:
    seconds = traffic_seconds (gpu, kernel, slower);
  }
  return zs_time_from_seconds (MAX (seconds, TINY_TIME));
}

double
zs_kernel_busy_seconds (const ZsGpu *gpu, const ZsKernel *kernel)
{
  if (kernel->kind > ZS_KERNEL_ATTENTION_BACKWARD || !on_tensor_cores (gpu, kernel) || gpu->matmul_full_clock <= 0)
    return 0;
  return kernel->flops / (dense_peak (gpu, kernel) * gpu->matmul_full_clock);
}

double
zs_slowest_of (int64_t n)
{
  double p = ((double) n - 0.375) / ((double) n + 0.25), low = 0, high = 8;   /* Blom's position */

  if (n < 2)
    return 1;
  for (int i = 0; i < 40; i++) {
    double x = (low + high) / 2;

    if (erfc (-x / sqrt (2)) / 2 < p)
      low = x;
    else
      high = x;
  }
  return 1 + CLOCK_SPREAD * low;
}

ZsTime
zs_kernel_time (const ZsGpu *gpu, const ZsKernel *kernel)
{
  return zs_kernel_time_in_step (gpu, kernel, (ZsPace) { .tensor_share = -1 });
}

int64_t
zs_kernel_blocks (const ZsGpu *gpu, const ZsKernel *kernel)
{
  double blocks = 0;

  if (kernel->kind == ZS_KERNEL_MATMUL)
    matmul_seconds (gpu, kernel, false, 1, &blocks);
  else if (kernel->kind == ZS_KERNEL_ATTENTION_FORWARD
           || kernel->kind == ZS_KERNEL_ATTENTION_BACKWARD)
    blocks = (double) kernel->m * kernel->heads * parts (kernel->n, 128);
  return (int64_t) blocks;
}
