/* kernel-time.c: a roofline with tiles and waves.  SPDX-License-Identifier: MIT
 *
 * Time of a kernel = fixed part + max (arithmetic, memory traffic).
 *
 * Matrix products: the output is cut into tiles, one thread block each; the SMs take them in waves;
 * of the tile sizes (and cuts of the inner dimension) the fastest is taken, as cuBLAS's heuristics
 * intend.  Long products run at lower clocks because of power.  Constants: fitted to 342 bf16
 * products in the shapes of LLaMA measured on one H200 (torch 2.11): median error 2.9 %, 90 % within
 * 10.8 %; those below 20 us were bound by their launch when measured.
 *
 * Attention: useful (causal) operations at a fraction of the dense peak that grows with the sequence.
 * Constants: 215 runs of four back ends on the same H200: median 2-5 %, 90 % within 21 %.
 *
 * The rest: memory traffic at a fraction of the peak bandwidth by class of kernel, from the times of
 * single kernels on the same H200.
 *
 * On other GPUs the fractions are scaled by what is known of the GPU (ZsGpu: matmul_efficiency,
 * memory_efficiency); the H200's are the reference.
 */
#include "config.h"

#include "sim/hardware/kernel-time.h"

#include <math.h>

#include "sim/plan/kernel.h"

/* The reference: one H200 SXM (specification 989 TFLOP/s dense bf16, 4.8 TB/s). */
#define REFERENCE_MATMUL_EFFICIENCY 0.80   /* largest measured: 794 of 989 */
#define REFERENCE_MEMORY_EFFICIENCY 0.90   /* copies of 1 GiB: 4.27 of 4.8 TB/s */

typedef struct {
  int    rows, columns;
  double rate;             /* relative to the largest tile */
} Tile;

static const Tile TILES[] = {
  { 256, 128, 1.0 }, { 128, 256, 1.0 }, { 128, 128, 1.0 },
  { 128, 64, 0.488 }, { 64, 128, 0.488 }, { 64, 64, 0.354 },
};
#define TILE_RATE        0.82      /* of the dense peak, in a full wave of a short product */
#define TILE_START       170.0     /* a tile's prologue and epilogue, as extra inner dimension */
#define PARTIAL_WAVE     0.627     /* how much of a wave's rest is lost */
#define MATMUL_TRAFFIC   0.755     /* of peak bandwidth, when a product is bound by memory */
#define POWER_LOSS       0.130     /* per decade beyond ... */
#define POWER_START      4.89e-5   /* ... seconds, up to one decade */
#define MATMUL_FIXED     3.0e-6
#define SPLIT_TRAFFIC    0.8
static const double FORM_RATE[] = { 1.0, 0.971, 0.966 };   /* forward, dgrad, wgrad */

/* Fractions of the dense peak that attention reaches on useful operations: e x S / (S + s0). */
typedef struct {
  double forward, forward_start, backward, backward_start;
  double narrow;            /* factor for head_dim below 128 */
  double forward_fixed, backward_fixed;
} AttentionRate;

static const AttentionRate ATTENTION_RATES[ZS_N_ATTENTIONS] = {
  [ZS_ATTENTION_EAGER]     = { 0.021, 1320, 0.012, 722, 0.8, 9e-6, 9e-6 },   /* not used: own kernels */
  [ZS_ATTENTION_CUDNN]     = { 0.66, 300, 0.52, 700, 0.78, 8e-6, 25e-6 },
  [ZS_ATTENTION_FLASH]     = { 0.345, 430, 0.30, 900, 0.95, 8e-6, 30e-6 },
  [ZS_ATTENTION_EFFICIENT] = { 0.171, 635, 0.134, 600, 0.79, 6e-6, 15e-6 },
  [ZS_ATTENTION_MATH]      = { 0.0104, 300, 0.0233, 600, 0.8, 20e-6, 20e-6 },
};
/* On Ampere and Ada the flash back end is at home (FlashAttention-2 was written for Ampere):
 * 145-175 forward and 120-150 backward useful causal TFLOP/s of the A100's 312 (SimuMax). */
#define FLASH_AMPERE_FORWARD  0.54
#define FLASH_AMPERE_BACKWARD 0.44

/* Fractions of peak bandwidth by class, and the fixed part. */
typedef struct {
  double fraction;
} TrafficRate;

static const TrafficRate TRAFFIC_RATES[ZS_N_KERNELS] = {
  [ZS_KERNEL_ELEMENTWISE]        = { 0.88 },   /* adds 4.24, mul in place 4.22 TB/s */
  [ZS_KERNEL_CAST]               = { 0.42 },   /* bf16 to fp32: 1.93-2.16 TB/s; see below for down */
  [ZS_KERNEL_BROADCAST]          = { 0.38 },   /* 1.3-2.6 TB/s: strided rotary, weight of a norm */
  [ZS_KERNEL_REDUCE_ROWS]        = { 0.39 },   /* mean over h: 1.86 TB/s */
  [ZS_KERNEL_REDUCE_COLUMNS]     = { 0.30 },
  [ZS_KERNEL_SOFTMAX]            = { 0.48 },   /* cross entropy 2.0-2.47 TB/s */
  [ZS_KERNEL_FILL]               = { 0.70 },   /* 3.35 TB/s */
  [ZS_KERNEL_COPY]               = { 0.89 },
  [ZS_KERNEL_EMBEDDING]          = { 0.50 },
  [ZS_KERNEL_EMBEDDING_BACKWARD] = { 0.30 },
  [ZS_KERNEL_ADAM_FUSED]         = { 0.72 },   /* 3.46 TB/s in fp32 */
  [ZS_KERNEL_ADAM_FOREACH]       = { 0.266 },  /* 1.276 TB/s counted on 28 B per parameter */
  [ZS_KERNEL_NORM]               = { 0.90 },
  [ZS_KERNEL_TINY]               = { 0.88 },
};
#define CAST_DOWN_RATE  0.89     /* fp32 to bf16: 4.2-4.37 TB/s */
#define TRAFFIC_FIXED   2.0e-6   /* ramp of a kernel: 16 MiB copied in 6.6 us less its traffic */
#define ADAM_FIXED      20e-6    /* several multi-tensor launches */
#define TINY_TIME       1.6e-6   /* 0.84 us back to back in a graph; gaps between eager ones */

static double
dense_peak (const ZsGpu *gpu, const ZsKernel *kernel)
{
  double peak;

  if (kernel->element_bytes == 4)
    peak = gpu->tf32_flops > 0 ? gpu->tf32_flops : gpu->fp32_flops;
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

/* Seconds of arithmetic of an m x n x k product, and the number of blocks of the tile chosen. */
static double
tiles_time (const ZsGpu *gpu, const ZsKernel *kernel, double rate_per_sm, double *ret_blocks)
{
  double best = HUGE_VAL, n_sms = MAX (gpu->sm_count, 1);
  double traffic_rate = (double) gpu->memory_rate * memory_scale (gpu) * SPLIT_TRAFFIC;

  for (size_t i = 0; i < G_N_ELEMENTS (TILES); i++) {
    const Tile *tile = &TILES[i];
    double tiles = parts (kernel->m, tile->rows) * parts (kernel->n, tile->columns);

    for (int split = 1; split <= 8; split *= 2) {
      if (split > 1 && kernel->k / split < 512)
        break;
      double blocks = tiles * split;
      double waves = blocks / n_sms, whole = ceil (waves);
      double used = whole <= 1 ? whole : waves + (whole - waves) * PARTIAL_WAVE;
      double inner = (double) kernel->k / split + TILE_START;
      double seconds = used * 2.0 * tile->rows * tile->columns * inner / (rate_per_sm * tile->rate);

      if (split > 1)
        seconds += (double) kernel->m * (double) kernel->n * 4.0 * split / traffic_rate;
      if (seconds < best) {
        best = seconds;
        *ret_blocks = blocks;
      }
    }
  }
  return best;
}

static double
matmul_seconds (const ZsGpu *gpu, const ZsKernel *kernel, double *ret_blocks)
{
  double rate_per_sm = dense_peak (gpu, kernel) / MAX (gpu->sm_count, 1) * TILE_RATE
                       * matmul_scale (gpu) * FORM_RATE[MIN (kernel->form, 2)];
  double arithmetic = tiles_time (gpu, kernel, rate_per_sm, ret_blocks);
  double m = (double) kernel->m, n = (double) kernel->n, k = (double) kernel->k;
  double traffic = (m * n + m * k + n * k) * kernel->element_bytes
                   / ((double) gpu->memory_rate * MATMUL_TRAFFIC * memory_scale (gpu));
  double seconds = MAX (arithmetic, traffic);
  double decades = log10 (MAX (seconds, 1e-7) / POWER_START);

  if (traffic > arithmetic)
    *ret_blocks = 0;
  return seconds * (1 + POWER_LOSS * CLAMP (decades, 0.0, 1.0)) + MATMUL_FIXED;
}

static double
attention_seconds (const ZsGpu *gpu, const ZsKernel *kernel)
{
  bool forward = kernel->kind == ZS_KERNEL_ATTENTION_FORWARD;
  int backend = MIN (kernel->form, ZS_N_ATTENTIONS - 1);
  const AttentionRate *rate = &ATTENTION_RATES[backend];
  double start = forward ? rate->forward_start : rate->backward_start;
  double fraction = forward ? rate->forward : rate->backward;
  double sequence = (double) MAX (kernel->n, 1);

  if (backend == ZS_ATTENTION_FLASH && gpu->compute_capability < 90) {
    fraction = forward ? FLASH_AMPERE_FORWARD : FLASH_AMPERE_BACKWARD;
    start = forward ? 300 : 600;
  }
  if (kernel->k < 128)
    fraction *= rate->narrow;
  return kernel->flops / (dense_peak (gpu, kernel) * fraction * matmul_scale (gpu))
         * (sequence + start) / sequence + (forward ? rate->forward_fixed : rate->backward_fixed);
}

static double
traffic_seconds (const ZsGpu *gpu, const ZsKernel *kernel)
{
  double fraction = TRAFFIC_RATES[MIN (kernel->kind, ZS_N_KERNELS - 1)].fraction;
  bool adam = kernel->kind == ZS_KERNEL_ADAM_FUSED || kernel->kind == ZS_KERNEL_ADAM_FOREACH;

  if (kernel->kind == ZS_KERNEL_CAST && kernel->element_bytes == 4)
    fraction = CAST_DOWN_RATE;
  if (fraction <= 0)
    fraction = 0.5;
  return (double) kernel->bytes / ((double) gpu->memory_rate * fraction * memory_scale (gpu))
         + (adam ? ADAM_FIXED : TRAFFIC_FIXED);
}

ZsTime
zs_kernel_time (const ZsGpu *gpu, const ZsKernel *kernel)
{
  double seconds, blocks;

  switch (kernel->kind) {
  case ZS_KERNEL_MATMUL:
    seconds = matmul_seconds (gpu, kernel, &blocks);
    break;
  case ZS_KERNEL_ATTENTION_FORWARD:
  case ZS_KERNEL_ATTENTION_BACKWARD:
    seconds = attention_seconds (gpu, kernel);
    break;
  case ZS_KERNEL_TINY:
    seconds = TINY_TIME;
    break;
  default:
    seconds = traffic_seconds (gpu, kernel);
  }
  return zs_time_from_seconds (MAX (seconds, TINY_TIME));
}

int64_t
zs_kernel_blocks (const ZsGpu *gpu, const ZsKernel *kernel)
{
  double blocks = 0;

  if (kernel->kind == ZS_KERNEL_MATMUL)
    matmul_seconds (gpu, kernel, &blocks);
  else if (kernel->kind == ZS_KERNEL_ATTENTION_FORWARD
           || kernel->kind == ZS_KERNEL_ATTENTION_BACKWARD)
    blocks = (double) kernel->m * kernel->heads * parts (kernel->n, 128);
  return (int64_t) blocks;
}
