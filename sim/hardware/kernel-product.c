/* kernel-product.c: products as tiles in waves.  SPDX-License-Identifier: MIT
 *
 * The output is cut into tiles, one thread block each; the SMs take them in waves; of the tile sizes (and cuts
 * of the inner dimension) the fastest is taken, as cuBLAS's heuristics intend.  Long products called in a loop run
 * at lower clocks because of power.  Constants: fitted to 342 bf16 products in the shapes of LLaMA measured in loops
 * on one H200 (torch 2.11): median error 2.6 %, 90 % within 9 % (those below 20 us were bound by their
 * launch when measured), and to those in training steps: 1 %. */
#include "config.h"

#include "sim/hardware/kernel-internal.h"

#include <math.h>

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
/* fp32 without TF32: 46-51 of 67 TFLOP/s on the H200, where half of the 128 lanes of an SM also compute
 * integers; nearly all of the 64 lanes of Volta and GA100 (general knowledge, not measured). */
#define FP32_RATE        0.75
#define FP32_RATE_64     0.93

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

double
kernel_product_seconds (const ZsGpu *gpu, const ZsKernel *kernel, bool at_full_clock, double slower, double *ret_blocks)
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
