/* kernel-time.c: a roofline with tiles and waves, attention, and the clock.  SPDX-License-Identifier: MIT
 *
 * Time of a kernel = fixed part + the larger of arithmetic, memory traffic and instructions.
 *
 * Matrix products: kernel-product.c; what memory or instructions bound: kernel-memory.c.
 *
 * Power.  A loop of products draws more than the GPU may, and its clock falls by a quarter; in a step
 * whose other kernels draw less it falls less.  Where a GPU's rate at full clock is known
 * (ZsGpu.matmul_full_clock), a product in a step runs at that rate as long as the tensor cores are busy less
 * than two fifths of the step, and slower beyond.
 *
 * Attention: useful (causal) operations at a fraction of the dense peak, and terms for the kernels
 * around it.  Constants: 215 runs of three back ends on the same H200.
 *
 * On other GPUs the fractions are scaled by what is known of the GPU (ZsGpu: matmul_efficiency,
 * memory_efficiency); the H200's are the reference.
 */
#include "config.h"

#include "sim/hardware/kernel-time.h"

#include <math.h>

#include "sim/hardware/kernel-internal.h"

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
#define FLASH_UNEVEN 1.15   /* loads that ask for each element whether it is there: 2 x 32 heads of 100 over 2048 take
                               312 us, of 128 271 */
/* On Ampere and Ada the flash back end is at home (FlashAttention-2 was written for Ampere):
 * 145-175 forward and 120-150 backward useful causal TFLOP/s of the A100's 312 (SimuMax). */
#define FLASH_AMPERE_FORWARD  0.56
#define FLASH_AMPERE_BACKWARD 0.46
/* FlashAttention-1, also in Triton: 30-50 % forward and 25-35 % backward of the A100's peak (arXiv
 * 2307.08691), less on Hopper, whose tensor cores it does not keep busy: about 200 TFLOP/s over both,
 * from published runs of 65536 tokens, which spend four fifths of their time in it. */
#define FLASH_1_AMPERE_FORWARD  0.345
#define FLASH_1_AMPERE_BACKWARD 0.288

#define TINY_TIME       2.4e-6   /* 0.8-1.3 us and the gap */

/* How much longer what the clock bounds takes in a step of SHARE.  What a GPU's best product in a loop
 * loses against its full clock says how short of power it is. */
static double
power_factor (const ZsGpu *gpu, const ZsKernel *kernel, double share)
{
  double loss = gpu->matmul_efficiency > 0 ? gpu->matmul_full_clock / gpu->matmul_efficiency - 1 : 0;
  bool backward = kernel->kind == ZS_KERNEL_ATTENTION_BACKWARD || kernel->kind == ZS_KERNEL_ADAM_FUSED
                  || (kernel->kind == ZS_KERNEL_MATMUL && kernel->form != ZS_MATMUL_FORWARD);

  return 1 + POWER_SLOPE * MAX (loss, 0.0) * CLAMP (share - POWER_SHARE, 0.0, 1.0)
             * (backward ? POWER_BACKWARD : 1);
}

/* FlashAttention-2's kernels are made for some dimensions of a head; others run as the next larger one. */
static int64_t
flash_dimension (int64_t dimension)
{
  static const int64_t MADE[] = { 32, 64, 96, 128, 192, 256 };

  for (size_t i = 0; i < G_N_ELEMENTS (MADE); i++)
    if (dimension <= MADE[i])
      return MADE[i];
  return dimension;
}

static double
attention_seconds (const ZsGpu *gpu, const ZsKernel *kernel, double slower)
{
  bool backward = kernel->kind == ZS_KERNEL_ATTENTION_BACKWARD;
  int backend = MIN (kernel->form, ZS_N_ATTENTIONS - 1);
  int64_t dimension = backend == ZS_ATTENTION_FLASH ? flash_dimension (kernel->k) : kernel->k;
  const AttentionRate *rate = &ATTENTION_RATES[backend][backward][dimension < 128];
  double fraction = rate->rate, position = rate->per_position;
  double q = (double) kernel->m * kernel->heads * (double) kernel->n * (double) dimension;
  double flops = kernel->k > 0 ? kernel->flops * (double) dimension / (double) kernel->k : kernel->flops;
  double compute = dense_peak (gpu, kernel) * matmul_scale (gpu);
  double bandwidth = (double) gpu->memory_rate * memory_scale (gpu);

  if (backend == ZS_ATTENTION_FLASH && gpu->compute_capability < 90) {
    fraction = backward ? FLASH_AMPERE_BACKWARD : FLASH_AMPERE_FORWARD;
    position = 0;
  } else if (backend == ZS_ATTENTION_FLASH_1 && gpu->compute_capability < 90)
    fraction = backward ? FLASH_1_AMPERE_BACKWARD : FLASH_1_AMPERE_FORWARD;
  if (dimension != kernel->k && !backward)
    flops *= FLASH_UNEVEN;
  return slower * flops / (compute * fraction)
         + position * 1e-9 * (double) kernel->n * REFERENCE_PEAK / compute
         + rate->per_million * 1e-12 * q * REFERENCE_BANDWIDTH / bandwidth + rate->fixed * 1e-6;
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
    seconds = kernel_product_seconds (gpu, kernel, full_clock, on_tensor_cores (gpu, kernel) ? slower : slowest,
                                      &blocks);
    break;
  case ZS_KERNEL_ATTENTION_FORWARD:
  case ZS_KERNEL_ATTENTION_BACKWARD:
    seconds = attention_seconds (gpu, kernel, slower);
    break;
  case ZS_KERNEL_TINY:
    seconds = TINY_TIME;
    break;
  default:
    seconds = kernel_traffic_seconds (gpu, kernel, slower);
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
    kernel_product_seconds (gpu, kernel, false, 1, &blocks);
  else if (kernel->kind == ZS_KERNEL_ATTENTION_FORWARD
           || kernel->kind == ZS_KERNEL_ATTENTION_BACKWARD)
    blocks = (double) kernel->m * kernel->heads * (double) ((kernel->n + 127) / 128);
  return (int64_t) blocks;
}
