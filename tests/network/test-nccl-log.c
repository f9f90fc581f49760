/* test-nccl-log.c: the text of nccl-tests in its versions.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/network/nccl-log.h"
#include "tests/testing.h"

#include <math.h>

static const char NEW[] =
  "# nccl-tests version 2.13.10 nccl-headers=22304 nccl-library=22304\n"
  "# Collective test starting: all_reduce_perf\n"
  "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n"
  "#\n# Using devices\n"
  "#  Rank  0 Group  0 Pid 100 on host device  0 [0000:1b:00] NVIDIA H100 80GB HBM3\n"
  "#  Rank  1 Group  0 Pid 101 on host device  1 [0000:43:00] NVIDIA H100 80GB HBM3\n"
  "#\n#                                                              out-of-place                       in-place\n"
  "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
  "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
  "           0             0     float     sum      -1     0.10    0.00    0.00      0     0.10    0.00    0.00      0\n"
  "        1024           256     float     sum      -1    10.42    0.10    0.10      0    10.38    0.10    0.10      0\n"
  "host:100:123 [0] NCCL INFO something 12 13 word\n"
  "  8589934592    2147483648     float     sum      -1  1074608    7.99    7.99    N/A  1.1e+07    0.78    0.78    N/A\n"
  "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 3.27\n#\n";

static const char OLD[] =
  "[1,0]<stdout>:# nThread 1 nGpus 2 minBytes 32768 maxBytes 65536 step: 2(factor) warmup iters: 5 iters: 20 validation: 1\n"
  "[1,0]<stdout>:#\n"
  "[1,0]<stdout>:#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error\n"
  "[1,0]<stdout>:       32768          4096   float    13.40    1.22    1.22  0e+00    13.29    1.23    1.23  0e+00\n"
  "[1,0]<stdout>:       65536          8192   float    16.12    2.03    2.03  0e+00    16.01    2.05    2.05  0e+00\n";

static const char BARE[] =
  "0: 67108864 16777216 float sum 472.4 142.06 266.36 0e+00 470.1 142.8 267.7 0e+00\n"
  "./all_reduce_perf -b 64M -e 64M\n";

static void
a_new_log_is_read (void)
{
  g_autoptr (ZsNcclLog) log = zs_nccl_log_parse ("new", NEW, -1, NULL);

  CU_ASSERT_PTR_NOT_NULL_FATAL (log);
  CU_ASSERT_TRUE (log->kind_known);
  CU_ASSERT_EQUAL (log->kind, ZS_COLLECTIVE_ALL_REDUCE);
  CU_ASSERT_EQUAL (log->n_ranks, 2);
  CU_ASSERT_EQUAL (log->version, ZS_VERSION (2, 23, 4));
  CU_ASSERT_EQUAL_FATAL (log->rows->len, 2);
  const ZsNcclLogRow *rows = (const ZsNcclLogRow *) (void *) log->rows->data;

  CU_ASSERT_EQUAL (rows[0].bytes, 1024);
  CU_ASSERT_EQUAL (rows[0].time, 10420000);
  CU_ASSERT_EQUAL (rows[0].time_in_place, 10380000);
  CU_ASSERT_EQUAL (rows[1].time, INT64_C (1074608000000));
  CU_ASSERT_EQUAL (rows[1].time_in_place, INT64_C (11000000000000));
}

static void
an_old_log_is_read (void)
{
  g_autoptr (ZsNcclLog) log = zs_nccl_log_parse ("old", OLD, -1, NULL);

  CU_ASSERT_PTR_NOT_NULL_FATAL (log);
  CU_ASSERT_FALSE (log->kind_known);
  CU_ASSERT_TRUE (log->warnings->len > 0);
  CU_ASSERT_EQUAL_FATAL (log->rows->len, 2);
  const ZsNcclLogRow *rows = (const ZsNcclLogRow *) (void *) log->rows->data;

  CU_ASSERT_EQUAL (rows[1].bytes, 65536);
  CU_ASSERT_EQUAL (rows[1].time, 16120000);
  CU_ASSERT_EQUAL (rows[1].time_in_place, 16010000);
  CU_ASSERT_DOUBLE_EQUAL (rows[1].busbw, 2.03, 1e-9);
}

static void
rows_alone_are_read (void)
{
  g_autoptr (ZsNcclLog) log = zs_nccl_log_parse ("bare", BARE, -1, NULL);
  g_autoptr (GError) error = NULL;

  CU_ASSERT_PTR_NOT_NULL_FATAL (log);
  CU_ASSERT_EQUAL (log->rows->len, 1);
  CU_ASSERT_EQUAL (log->n_ranks, 16);   /* 2 (n-1) / n = 1.875 */
  CU_ASSERT_PTR_NULL (zs_nccl_log_parse ("none", "# nothing\n1 2 3\n", -1, &error));
  CU_ASSERT_PTR_NOT_NULL (error);
}

static void
cut_logs_do_no_harm (void)
{
  for (gssize n = 0; n < (gssize) sizeof NEW; n++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (ZsNcclLog) log = zs_nccl_log_parse ("cut", NEW, n, &error);

    CU_ASSERT_TRUE ((log == NULL) == (error != NULL));
  }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "a log of today is read", a_new_log_is_read },
    { "a log of the old form, with MPI's prefix, is read", an_old_log_is_read },
    { "rows without anything else are read", rows_alone_are_read },
    { "cut logs do no harm", cut_logs_do_no_harm },
    CU_TEST_INFO_NULL
  };
  return testing_main ("nccl-log", tests);
}
