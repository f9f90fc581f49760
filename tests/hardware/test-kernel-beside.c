/* test-kernel-beside.c: kernels on what a collective leaves of the GPU, against one H200.
 * SPDX-License-Identifier: MIT */
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

/* The kernel that a row names, or false: softmax and the small add live in the cache, and lose more than
 * anything here says. */
static bool
kernel_of (const char *name, ZsKernel *ret_kernel)
{
  ZsKernel kernel = { .element_bytes = 2 };
  int a, b, c;
  char form[8] = "";

  if (sscanf (name, "mm-%d-%d-%d-%7s", &a, &b, &c, form) >= 3) {   /* rows, inner, columns of the layer */
    kernel.kind = ZS_KERNEL_MATMUL;
    kernel.form = strcmp (form, "dgrad") == 0 ? ZS_MATMUL_DGRAD : strcmp (form, "wgrad") == 0 ? ZS_MATMUL_WGRAD
                                                                                           : ZS_MATMUL_FORWARD;
    kernel.m = kernel.form == ZS_MATMUL_WGRAD ? c : a;
    kernel.n = kernel.form == ZS_MATMUL_FORWARD ? c : b;
    kernel.k = kernel.form == ZS_MATMUL_FORWARD ? b : kernel.form == ZS_MATMUL_DGRAD ? c : a;
    kernel.flops = 2.0 * a * b * c;
  } else if (g_str_has_prefix (name, "sdpa")) {
    kernel.kind = strstr (name, "backward") != NULL ? ZS_KERNEL_ATTENTION_BACKWARD : ZS_KERNEL_ATTENTION_FORWARD;
    kernel.form = ZS_ATTENTION_CUDNN;
    kernel.m = 1;
    kernel.n = 4096;
    kernel.k = 128;
    kernel.heads = kernel.kv_heads = 32;
    kernel.flops = 2.0 * 32 * 4096 * 4096 * 128 * (kernel.kind == ZS_KERNEL_ATTENTION_BACKWARD ? 2.5 : 1);
    kernel.bytes = 4 * 2 * 32 * 4096 * 128;
  } else if (strcmp (name, "add-512MiB") == 0) {
    kernel.kind = ZS_KERNEL_ELEMENTWISE;
    kernel.n = 256 << 20;
    kernel.bytes = INT64_C (1) << 30;
  } else if (strcmp (name, "cast-64Mi") == 0) {   /* to 32 bit: bound by instructions */
    kernel.kind = ZS_KERNEL_CAST;
    kernel.n = 64 << 20;
    kernel.bytes = 6 * kernel.n;
  } else
    return false;
  *ret_kernel = kernel;
  return true;
}

static int
compare_doubles (const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return (x > y) - (x < y);
}

static void
measured_slowdowns_are_met (void)
{
  g_autofree char *path = testing_source_path ("tests/published/h200-one/occupied.csv");
  g_autofree char *text = NULL;
  g_autoptr (GArray) errors = g_array_new (FALSE, FALSE, sizeof (double));

  CU_ASSERT_TRUE_FATAL (g_file_get_contents (path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  CU_ASSERT_STRING_EQUAL_FATAL (lines[0], "half,kernel,blocks,mode,us_alone,us_with,slowdown,kept");
  for (guint i = 1; lines[i] != NULL && lines[i][0] != '\0'; i++) {
    g_auto (GStrv) fields = g_strsplit (lines[i], ",", -1);
    int blocks = atoi (fields[2]);
    bool moves = strcmp (fields[3], "pace") == 0;
    ZsKernel kernel;

    if (!kernel_of (fields[1], &kernel))
      continue;
    /* a block reads a byte and writes it twice, 14.4 in a nanosecond */
    double share = moves ? 3 * 14.4e9 * blocks / (double) H200.memory_rate : 0;
    double predicted = (double) zs_kernel_time_beside (&H200, &kernel, ZS_MILLISECOND, blocks, share)
                       / (double) ZS_MILLISECOND;
    double error = predicted / g_ascii_strtod (fields[6], NULL) - 1;

    if (g_getenv ("SHOW") != NULL)
      printf ("# %-28s %s %2d: %.3f measured %s %+.1f %%\n", fields[1], fields[3], blocks, predicted, fields[6],
              100 * error);
    error = fabs (error);
    g_array_append_val (errors, error);
  }
  CU_ASSERT_TRUE_FATAL (errors->len > 100);
  qsort (errors->data, errors->len, sizeof (double), compare_doubles);
  const double *sorted = (const double *) (void *) errors->data;

  printf ("# %u slowdowns: median error %.1f %%, 90 %% within %.1f %%, worst %.1f %%\n", errors->len,
          100 * sorted[errors->len / 2], 100 * sorted[errors->len * 9 / 10], 100 * sorted[errors->len - 1]);
  CU_ASSERT_TRUE (sorted[errors->len / 2] < 0.06);
  CU_ASSERT_TRUE (sorted[errors->len * 9 / 10] < 0.15);
}

/* More taken never makes a kernel faster, and nothing taken changes nothing. */
static void
less_of_the_gpu_is_never_faster (void)
{
  const guint32 seed = 11;
  GRand *random = g_rand_new_with_seed (seed);

  for (int round = 0; round < 2000; round++) {
    ZsKernel kernel = { .kind = g_rand_boolean (random) ? ZS_KERNEL_MATMUL : ZS_KERNEL_ELEMENTWISE, .element_bytes = 2,
                        .m = g_rand_int_range (random, 1, 9000), .n = g_rand_int_range (random, 1, 40000),
                        .k = g_rand_int_range (random, 1, 9000) };
    kernel.flops = 2.0 * (double) kernel.m * (double) kernel.n * (double) kernel.k;
    kernel.bytes = kernel.n * 4;
    ZsTime before = zs_kernel_time (&H200, &kernel);

    CU_ASSERT_EQUAL (zs_kernel_time_beside (&H200, &kernel, before, 0, 0), before);
    ZsTime some = zs_kernel_time_beside (&H200, &kernel, before, g_rand_int_range (random, 0, 64),
                                         g_rand_double (random) / 2);

    if (some < before)
      printf ("# seed %u, round %d\n", seed, round);
    CU_ASSERT_TRUE (some >= before);
    CU_ASSERT_TRUE (some <= 20 * before);
  }
  g_rand_free (random);
}

static const CU_TestInfo TESTS[] = {
  { "measured slowdowns are met", measured_slowdowns_are_met },
  { "less of the GPU is never faster", less_of_the_gpu_is_never_faster },
  CU_TEST_INFO_NULL,
};

int
main (void)
{
  return testing_main ("kernel-beside", TESTS);
}
