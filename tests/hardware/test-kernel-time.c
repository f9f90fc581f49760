/* test-kernel-time.c: kernel times against measurements on one H200.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/hardware/kernel-time.h"
#include "tests/testing.h"

/* The H200 SXM: specification, and what is reached of it (models/gpus/h200-sxm-141gb.yaml). */
static const ZsGpu H200 = {
  .name = "h200-sxm-141gb", .compute_capability = 90, .sm_count = 132,
  .memory_rate = INT64_C (4800000000000), .fp32_flops = 67e12, .tf32_flops = 494.7e12,
  .bf16_flops = 989.4e12, .fp16_flops = 989.4e12, .matmul_efficiency = 0.80,
  .memory_efficiency = 0.90,
};

static int
compare (const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return (x > y) - (x < y);
}

typedef struct {
  double errors[512];
  int    n;
} Errors;

static double
quantile (Errors *errors, double q)
{
  qsort (errors->errors, errors->n, sizeof (double), compare);
  return errors->errors[MIN ((int) (q * errors->n), errors->n - 1)];
}

/* Calls ROW with the comma-separated fields of each line of a CSV but the first. */
static void
each_row (const char *file, void (*row) (char **fields, Errors *errors), Errors *errors)
{
  g_autofree char *path = testing_source_path (file);
  g_autofree char *text = NULL;

  CU_ASSERT_TRUE_FATAL (g_file_get_contents (path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  for (int i = 1; lines[i] != NULL && lines[i][0] != '\0'; i++) {
    g_auto (GStrv) fields = g_strsplit (lines[i], ",", -1);

    row (fields, errors);
  }
}

static void
matmul_row (char **fields, Errors *errors)
{
  ZsKernel kernel = { .kind = ZS_KERNEL_MATMUL, .element_bytes = 2, .name = "" };
  int64_t tokens = atoll (fields[1]), out = atoll (fields[2]), in = atoll (fields[3]);
  double measured = atof (fields[4]) * 1e-3;

  if (g_str_equal (fields[0], "fwd")) {
    kernel.form = ZS_MATMUL_FORWARD;
    kernel.m = tokens, kernel.n = out, kernel.k = in;
  } else if (g_str_equal (fields[0], "dgrad")) {
    kernel.form = ZS_MATMUL_DGRAD;
    kernel.m = tokens, kernel.n = in, kernel.k = out;
  } else {
    kernel.form = ZS_MATMUL_WGRAD;
    kernel.m = out, kernel.n = in, kernel.k = tokens;
  }
  /* below 22 us the measurement was bound by the host's launches (12.8 us a product and more) */
  if (measured > 22e-6)
    errors->errors[errors->n++]
        = fabs (zs_time_to_seconds (zs_kernel_time (&H200, &kernel)) / measured - 1);
}

static void
matrix_products_take_their_measured_time (void)
{
  Errors errors = { .n = 0 };

  each_row ("tests/data/h200/micro_gemm.csv", matmul_row, &errors);
  CU_ASSERT_TRUE (errors.n > 250);
  printf ("# %d products: median %.1f %%, 90 %% within %.1f %%\n", errors.n,
          100 * quantile (&errors, 0.5), 100 * quantile (&errors, 0.9));
  CU_ASSERT_TRUE (quantile (&errors, 0.5) <= 0.05);
  CU_ASSERT_TRUE (quantile (&errors, 0.9) <= 0.12);
}

static void
attention_row (char **fields, Errors *errors)
{
  static const struct { const char *name; ZsAttention backend; } BACKENDS[] = {
    { "default", ZS_ATTENTION_CUDNN }, { "cudnn", ZS_ATTENTION_CUDNN },
    { "flash", ZS_ATTENTION_FLASH }, { "efficient", ZS_ATTENTION_EFFICIENT },
  };
  double measured = atof (fields[8]) * 1e-3;
  bool forward = g_str_equal (fields[1], "fwd");
  int64_t b = atoll (fields[2]), h = atoll (fields[3]), s = atoll (fields[5]), d = atoll (fields[6]);

  for (size_t i = 0; i < G_N_ELEMENTS (BACKENDS); i++) {
    if (!g_str_equal (fields[0], BACKENDS[i].name))
      continue;
    ZsKernel kernel = {
      .kind = forward ? ZS_KERNEL_ATTENTION_FORWARD : ZS_KERNEL_ATTENTION_BACKWARD,
      .form = BACKENDS[i].backend, .element_bytes = 2, .heads = (int32_t) h,
      .kv_heads = atoi (fields[4]), .m = b, .n = s, .k = d, .name = "",
      .flops = (forward ? 2.0 : 5.0) * b * h * s * s * d,
    };

    /* short ones were bound by the host: some 20 us forward, 100 us backward */
    if (measured > (forward ? 40e-6 : 200e-6))
      errors->errors[errors->n++]
          = fabs (zs_time_to_seconds (zs_kernel_time (&H200, &kernel)) / measured - 1);
  }
}

static void
attention_takes_its_measured_time (void)
{
  Errors errors = { .n = 0 };

  each_row ("tests/data/h200/micro_sdpa.csv", attention_row, &errors);
  CU_ASSERT_TRUE (errors.n > 100);
  printf ("# %d attentions: median %.1f %%, 90 %% within %.1f %%\n", errors.n,
          100 * quantile (&errors, 0.5), 100 * quantile (&errors, 0.9));
  CU_ASSERT_TRUE (quantile (&errors, 0.5) <= 0.05);
  CU_ASSERT_TRUE (quantile (&errors, 0.9) <= 0.12);
}

/* Operators of micro_memops.csv as kernels: bytes per element, and of how many elements. */
typedef struct {
  ZsKernelKind kind;
  int          element, bytes;   /* bytes of an element read; read and written per element */
  double       part;             /* of the operator's elements */
} Piece;

static const struct {
  const char *name;
  Piece       pieces[10];
} OPERATORS[] = {
  { "rmsnorm_hf_fwd", { { ZS_KERNEL_CAST, 2, 6, 1 }, { ZS_KERNEL_ELEMENTWISE, 4, 8, 1 },
                        { ZS_KERNEL_REDUCE_ROWS, 4, 4, 1 }, { ZS_KERNEL_TINY, 4, 8, 0 },
                        { ZS_KERNEL_TINY, 4, 8, 0 }, { ZS_KERNEL_BROADCAST, 4, 8, 1 },
                        { ZS_KERNEL_CAST, 4, 6, 1 }, { ZS_KERNEL_BROADCAST, 2, 4, 1 } } },
  { "residual_add", { { ZS_KERNEL_ELEMENTWISE, 2, 6, 1 } } },
  { "silu_mul_fwd(2 kernels)", { { ZS_KERNEL_ACTIVATION, 2, 4, 1 }, { ZS_KERNEL_ELEMENTWISE, 2, 6, 1 } } },
  { "silu_mul_bwd(3 kernels)", { { ZS_KERNEL_ACTIVATION, 2, 6, 1 }, { ZS_KERNEL_ELEMENTWISE, 2, 6, 1 },
                                 { ZS_KERNEL_ELEMENTWISE, 2, 6, 1 } } },
  { "rotary_hf_fwd(q+k)", { { ZS_KERNEL_STRIDED, 2, 4, 2 }, { ZS_KERNEL_BROADCAST, 2, 4, 1 },
                            { ZS_KERNEL_CONCATENATE, 2, 4, 2 }, { ZS_KERNEL_STRIDED, 2, 4, 2 },
                            { ZS_KERNEL_STRIDED, 2, 6, 2 } } },
  { "rotary_hf_bwd(q+k)", { { ZS_KERNEL_STRIDED, 2, 4, 4 }, { ZS_KERNEL_BROADCAST, 2, 4, 1 },
                            { ZS_KERNEL_STRIDED, 2, 4, 2 },
                            { ZS_KERNEL_FILL, 2, 2, 4 }, { ZS_KERNEL_ELEMENTWISE, 2, 6, 2 },
                            { ZS_KERNEL_STRIDED, 2, 6, 2 } } },
  { "logits_upcast_fwd", { { ZS_KERNEL_CAST, 2, 6, 1 } } },
  { "cross_entropy_fp32_fwd", { { ZS_KERNEL_SOFTMAX, 4, 8, 1 } } },
  { "cross_entropy_fp32_bwd", { { ZS_KERNEL_FILL, 4, 4, 1 }, { ZS_KERNEL_SOFTMAX, 4, 12, 1 } } },
  { "grad_downcast", { { ZS_KERNEL_CAST, 4, 6, 1 } } },
  { "copy_d2d", { { ZS_KERNEL_COPY, 1, 2, 1 } } },
  { "memset", { { ZS_KERNEL_FILL, 1, 1, 1 } } },
  { "fp32_mul_inplace", { { ZS_KERNEL_ELEMENTWISE, 4, 8, 1 } } },
  { "fp32_to_bf16", { { ZS_KERNEL_CAST, 4, 6, 1 } } },
  { "fp32_norm", { { ZS_KERNEL_NORM, 4, 4, 1 } } },
  { "torch_adamw_fused_float32", { { ZS_KERNEL_ADAM_FUSED, 4, 28, 1 } } },
  { "torch_adamw_foreach_float32", { { ZS_KERNEL_ADAM_FOREACH, 4, 80, 1 } } },
  { "torch_adamw_fused_bfloat16", { { ZS_KERNEL_ADAM_FUSED, 2, 14, 1 } } },
  { "torch_adamw_foreach_bfloat16", { { ZS_KERNEL_ADAM_FOREACH, 2, 40, 1 } } },
};

static void
memory_row (char **fields, Errors *errors)
{
  g_auto (GStrv) sizes = g_strsplit (fields[1], "x", -1);
  double measured = atof (fields[3]) * 1e-3, seconds = 0, n = 1;

  for (int i = 0; sizes[i] != NULL; i++)
    n *= atof (sizes[i]);
  for (size_t o = 0; o < G_N_ELEMENTS (OPERATORS); o++) {
    if (!g_str_equal (fields[0], OPERATORS[o].name))
      continue;
    for (const Piece *piece = OPERATORS[o].pieces; piece->bytes > 0; piece++) {
      ZsKernel kernel = { .kind = (uint8_t) piece->kind, .element_bytes = (uint8_t) piece->element,
                          /* the sum and all of backward meet operands laid out differently */
                          .form = piece->bytes > 4 || strstr (fields[0], "bwd") != NULL ? ZS_STRIDES_DIFFER
                                                                                       : ZS_STRIDES_ALIKE,
                          .m = piece->kind == ZS_KERNEL_STRIDED ? atoi (sizes[0]) : 0,
                          .k = piece->kind == ZS_KERNEL_SOFTMAX ? atoi (sizes[1]) : 0, .n = (int64_t) (n * piece->part),
                          .name = "" };

      kernel.bytes = kernel.n * piece->bytes;
      seconds += zs_time_to_seconds (zs_kernel_time (&H200, &kernel));
    }
    /* shorter ones were bound by the host: 8 us per kernel, some 60 per autograd function */
    if (measured > 150e-6)
      errors->errors[errors->n++] = fabs (seconds / measured - 1);
  }
}

static void
memory_bound_operators_take_their_measured_time (void)
{
  Errors errors = { .n = 0 };

  each_row ("tests/data/h200/micro_memops.csv", memory_row, &errors);
  CU_ASSERT_TRUE (errors.n > 40);
  printf ("# %d operators: median %.1f %%, 90 %% within %.1f %%\n", errors.n,
          100 * quantile (&errors, 0.5), 100 * quantile (&errors, 0.9));
  CU_ASSERT_TRUE (quantile (&errors, 0.5) <= 0.05);
  CU_ASSERT_TRUE (quantile (&errors, 0.9) <= 0.15);
}

static void
costs_grow_with_size (void)
{
  ZsHost host = { .speed = 1.0, .memory_rate = INT64_C (180000000000) };
  int64_t traffic;

  CU_ASSERT_TRUE (zs_gpu_malloc_cost (1 << 30) > zs_gpu_malloc_cost (1 << 21));
  CU_ASSERT_TRUE (zs_gpu_free_cost (INT64_C (1) << 33) > 8 * zs_gpu_free_cost (1 << 28));
  CU_ASSERT_EQUAL (zs_cpu_task_time (&host, ZS_CPU_ADAM, 30000000, 1, &traffic) / ZS_MILLISECOND, 40);
  CU_ASSERT_EQUAL (traffic, 28 * 30000000);
  host.speed = 2.0;
  CU_ASSERT_EQUAL (zs_launch_cost (&host, ZS_LAUNCH_LINEAR), 17 * ZS_MICROSECOND / 2);
}

static double
product_seconds (const ZsGpu *gpu, int64_t size, int element_bytes, bool tf32, ZsPace pace)
{
  ZsKernel kernel = { .kind = ZS_KERNEL_MATMUL, .element_bytes = (uint8_t) element_bytes, .tf32 = tf32,
                      .m = size, .n = size, .k = size, .name = "" };

  return zs_time_to_seconds (zs_kernel_time_in_step (gpu, &kernel, pace));
}

static void
power_holds_the_clock_back (void)
{
  ZsGpu gpu = H200;
  double loop = product_seconds (&gpu, 8192, 2, false, (ZsPace) { .tensor_share = -1 });
  double before = 0;

  /* as long as the rate at full clock is not known, a step is as a loop */
  CU_ASSERT_DOUBLE_EQUAL (product_seconds (&gpu, 8192, 2, false, (ZsPace) { .tensor_share = 0.6 }), loop, 1e-12);
  gpu.matmul_full_clock = 0.900;
  for (double share = 0; share <= 1.01; share += 0.1) {
    double seconds = product_seconds (&gpu, 8192, 2, false, (ZsPace) { .tensor_share = share });

    CU_ASSERT_TRUE (seconds >= before);
    CU_ASSERT_TRUE (share > 0.41 || before == 0 || seconds == before);
    before = seconds;
  }
  CU_ASSERT_TRUE (product_seconds (&gpu, 8192, 2, false, (ZsPace) { .tensor_share = 0.4 }) < 0.87 * loop);
  CU_ASSERT_DOUBLE_EQUAL (before, loop, 0.05 * loop);   /* nothing but products: the loop */
}

static void
steps_wait_for_the_slowest (void)
{
  double before = 1, one, many;

  CU_ASSERT_EQUAL (zs_slowest_of (1), 1);
  for (int64_t n = 2; n <= 4096; n *= 2) {
    CU_ASSERT_TRUE (zs_slowest_of (n) > before);
    before = zs_slowest_of (n);
  }
  /* the expected largest of eight standard normal values is 1.42, of two 0.56 */
  CU_ASSERT_DOUBLE_EQUAL (zs_slowest_of (8), 1 + 0.015 * 1.424, 2e-4);
  CU_ASSERT_DOUBLE_EQUAL (zs_slowest_of (2), 1 + 0.015 * 0.564, 4e-4);
  one = product_seconds (&H200, 8192, 2, false, (ZsPace) { .tensor_share = -1 });
  many = product_seconds (&H200, 8192, 2, false, (ZsPace) { .tensor_share = -1, .slowest = zs_slowest_of (64) });
  CU_ASSERT_TRUE (many > 1.03 * one && many < 1.05 * one);
}

/* Kernels of training steps on one H200, in a queue: with their gap of 1.4 us (tests/data/h200-steps). */
static void
shapes_decide_where_bytes_do_not (void)
{
  static const struct { ZsKernel kernel; double us, error; } CASES[] = {
    { { .kind = ZS_KERNEL_REDUCE_ROWS, .n = 2048 * 4096, .k = 4096, .bytes = 4 * 2048 * 4096,
        .element_bytes = 4 }, 19.6, 0.1 },
    { { .kind = ZS_KERNEL_REDUCE_ROWS, .n = 4096 * 2048, .k = 2048, .bytes = 4 * 4096 * 2048,
        .element_bytes = 4 }, 13.1, 0.1 },
    { { .kind = ZS_KERNEL_REDUCE_ROWS, .launch = ZS_LAUNCH_AUTOGRAD, .n = 2048 * 4096, .k = 4096,
        .bytes = 4 * 2048 * 4096, .element_bytes = 4 }, 24.0, 0.15 },
    { { .kind = ZS_KERNEL_STRIDED, .m = 1, .n = 2048 * 4096, .bytes = 4 * 2048 * 4096, .element_bytes = 2 },
      24.0, 0.05 },
    { { .kind = ZS_KERNEL_STRIDED, .m = 4, .form = ZS_STRIDES_DIFFER, .n = 8192 * 2048, .bytes = 6 * 8192 * 2048,
        .element_bytes = 2 }, 60.0, 0.05 },
    { { .kind = ZS_KERNEL_STRIDED, .m = 2, .form = ZS_STRIDES_TYPES, .n = 4096 * 2048, .bytes = 6 * 4096 * 2048,
        .element_bytes = 2 }, 43.8, 0.05 },
    { { .kind = ZS_KERNEL_SOFTMAX, .n = 2048 * 32000, .k = 32000, .bytes = 8 * 2048 * 32000,
        .element_bytes = 4 }, 213, 0.05 },
    { { .kind = ZS_KERNEL_SOFTMAX, .n = INT64_C (4096) * 128256, .k = 128256, .bytes = INT64_C (8) * 4096 * 128256,
        .element_bytes = 4 }, 2016, 0.05 },
    { { .kind = ZS_KERNEL_ADAM_FUSED, .n = 20971520, .bytes = 14 * 20971520, .element_bytes = 2 }, 106 + 20, 0.05 },
    { { .kind = ZS_KERNEL_ADAM_FUSED, .n = 20971520, .m = 20971520, .bytes = 14 * 20971520, .element_bytes = 2 },
      173 + 20, 0.05 },   /* 20 us are the several launches of a step */
  };

  for (size_t i = 0; i < G_N_ELEMENTS (CASES); i++) {
    double us = zs_time_to_seconds (zs_kernel_time (&H200, &CASES[i].kernel)) * 1e6;

    if (fabs (us / CASES[i].us - 1) > CASES[i].error)
      printf ("# case %d: %.1f us, measured %.1f\n", (int) i, us, CASES[i].us);
    CU_ASSERT_DOUBLE_EQUAL (us, CASES[i].us, CASES[i].error * CASES[i].us);
  }
}

/* 1024 x 8192 x 2048 took 689 us without TF32, 1024 x 2048 x 2048 183 (h200-steps, 1b-fp32). */
static void
fp32_takes_no_tensor_cores (void)
{
  ZsPace pace = { .tensor_share = -1 };
  double wide = product_seconds (&H200, 4096, 4, true, pace), narrow = product_seconds (&H200, 4096, 4, false, pace);
  ZsKernel kernel = { .kind = ZS_KERNEL_MATMUL, .element_bytes = 4, .m = 1024, .n = 8192, .k = 2048, .name = "" };

  CU_ASSERT_TRUE (narrow > 5 * wide);
  CU_ASSERT_DOUBLE_EQUAL (zs_time_to_seconds (zs_kernel_time (&H200, &kernel)), 689e-6, 0.1 * 689e-6);
  kernel.n = 2048;
  CU_ASSERT_DOUBLE_EQUAL (zs_time_to_seconds (zs_kernel_time (&H200, &kernel)), 183e-6, 0.1 * 183e-6);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "matrix products take their measured time", matrix_products_take_their_measured_time },
    { "attention takes its measured time", attention_takes_its_measured_time },
    { "memory-bound operators take their measured time", memory_bound_operators_take_their_measured_time },
    { "shapes decide where bytes do not", shapes_decide_where_bytes_do_not },
    { "power holds the clock back", power_holds_the_clock_back },
    { "steps wait for the slowest", steps_wait_for_the_slowest },
    { "fp32 takes no tensor cores", fp32_takes_no_tensor_cores },
    { "costs grow with size", costs_grow_with_size },
    CU_TEST_INFO_NULL
  };
  return testing_main ("kernel times", tests);
}
