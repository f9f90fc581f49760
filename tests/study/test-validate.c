/* test-validate.c: a machine alone as a case: collectives beside other work, copies at once.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <glib/gstdio.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/study/benchmark.h"
#include "sim/study/validate.h"
#include "tests/testing.h"

static const char MACHINE[] =
  "name: four GPUs\n"
  "cluster: {gpu: h200-sxm-141gb, gpus_per_node: 4, fabric: %s, host: {cpu: intel, cores: 64}}\n"
  "measured:\n";

static char *
write_case (const char *fabric, const char *rows)
{
  char *path = NULL;
  g_autofree char *head = g_strdup_printf (MACHINE, fabric), *text = g_strconcat (head, rows, NULL);
  int fd = g_file_open_tmp ("machine-XXXXXX.yaml", &path, NULL);

  g_assert (fd >= 0);
  g_close (fd, NULL);
  g_assert (g_file_set_contents (path, text, -1, NULL));
  return path;
}

/* The case's comparisons; the caller frees. */
static ZsValidation *
validate (const char *fabric, const char *rows)
{
  g_autofree char *path = write_case (fabric, rows);
  const char *paths[] = { path, NULL };
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  ZsValidation *validation = zs_validate (paths, catalogue, 1, NULL, NULL, errors);

  CU_ASSERT_PTR_NOT_NULL_FATAL (validation);
  g_unlink (path);
  return validation;
}

static const ZsComparison *
comparison (const ZsValidation *validation, guint i)
{
  CU_ASSERT_TRUE_FATAL (i < validation->comparisons->len);
  return &g_array_index (validation->comparisons, ZsComparison, i);
}

static void
each_row_is_compared_and_named (void)
{
  g_autoptr (ZsValidation) validation = validate ("nvswitch",
    "  collectives:\n"
    "    - {op: all_gather, bytes: 64 MiB, time: 160 us}\n"
    "    - {op: all_reduce, bytes: 1 GiB, beside: matmul, m: 2048, n: 8192, k: 4096, slowdown: 1, beside_slowdown: 1.2}\n"
    "  copies:\n"
    "    - {kind: both, bytes: 64 MiB, gpus: [0, 3], time: 1.3 ms}\n");
  static const struct { ZsQuantity quantity; const char *detail; double measured; } EXPECTED[] = {
    { ZS_QUANTITY_COLLECTIVE_TIME, "all_gather 64 MiB", 160e6 },
    { ZS_QUANTITY_COLLECTIVE_SLOWDOWN, "all_reduce 1 GiB, matmul 2048x8192x4096", 1 },
    { ZS_QUANTITY_BESIDE_SLOWDOWN, "all_reduce 1 GiB, matmul 2048x8192x4096", 1.2 },
    { ZS_QUANTITY_COPY_TIME, "h2d+d2h 64 MiB, 2 GPUs", 1.3e9 },
  };

  CU_ASSERT_EQUAL (validation->comparisons->len, G_N_ELEMENTS (EXPECTED));
  for (guint i = 0; i < G_N_ELEMENTS (EXPECTED); i++) {
    const ZsComparison *c = comparison (validation, i);

    CU_ASSERT_EQUAL (c->quantity, EXPECTED[i].quantity);
    CU_ASSERT_STRING_EQUAL (c->detail, EXPECTED[i].detail);
    CU_ASSERT_EQUAL (c->measured, EXPECTED[i].measured);
    CU_ASSERT_TRUE (fabs (c->error) < 0.5);
  }
  CU_ASSERT_STRING_EQUAL (g_array_index (validation->cases, ZsCase, 0).name, "four GPUs");
}

static void
work_slows_other_work_only_where_they_meet (void)
{
  static const char rows[] =
    "  collectives:\n"
    "    - {op: all_gather, bytes: 256 MiB, beside: h2d, beside_bytes: 64 MiB, slowdown: 1, beside_slowdown: 1}\n"
    "    - {op: all_gather, bytes: 256 MiB, beside: elementwise, beside_bytes: 1 GiB, slowdown: 1, beside_slowdown: 1}\n";
  g_autoptr (ZsValidation) nvlink = validate ("nvswitch", rows), pcie = validate ("pcie5-x16-host-bridge", rows);

  /* copies and NVLink: nothing in common; over PCIe they share the GPU's own link */
  CU_ASSERT_TRUE (comparison (nvlink, 0)->predicted == 1 && comparison (nvlink, 1)->predicted == 1);
  CU_ASSERT_TRUE (comparison (pcie, 0)->predicted > 1.5 && comparison (pcie, 1)->predicted > 1.1);
  /* a kernel bound by memory loses what the collective moves */
  CU_ASSERT_TRUE (comparison (nvlink, 3)->predicted > 1.05);
  CU_ASSERT_TRUE (comparison (pcie, 3)->predicted < comparison (nvlink, 3)->predicted);
}

static void
a_copy_takes_as_long_as_its_link (void)
{
  g_autoptr (ZsValidation) validation = validate ("nvswitch",
    "  copies:\n"
    "    - {kind: h2d, bytes: 256 MiB, gpus: [0], time: 4.84 ms}\n"
    "    - {kind: h2d, bytes: 256 MiB, gpus: [1], time: 4.84 ms}\n"
    "    - {kind: h2d, bytes: 256 MiB, gpus: [0], time: 4.84 ms, pinned: false}\n"
    "    - {kind: both, bytes: 256 MiB, gpus: [0], time: 5.29 ms}\n"
    "    - {kind: both, bytes: 256 MiB, gpus: [0, 1], time: 5.29 ms}\n");

  CU_ASSERT_TRUE (fabs (comparison (validation, 0)->error) < 0.02);     /* 55.4 GB/s */
  CU_ASSERT_EQUAL (comparison (validation, 0)->predicted, comparison (validation, 1)->predicted);
  CU_ASSERT_TRUE (comparison (validation, 2)->predicted > 2 * comparison (validation, 0)->predicted);
  /* both ways at once, as measured on one H200; each socket has a socket's memory */
  CU_ASSERT_TRUE (fabs (comparison (validation, 3)->error) < 0.02);
  CU_ASSERT_EQUAL (comparison (validation, 3)->predicted, comparison (validation, 4)->predicted);
}

static void
mistakes_are_told (void)
{
  static const struct { const char *rows, *said; } WRONG[] = {
    { "  collectives: [{op: all_sing, bytes: 1 B, time: 1 us}]\n", "unknown collective 'all_sing'" },
    { "  collectives: [{op: all_gather, time: 1 us}]\n", "bytes" },
    { "  collectives: [{op: all_gather, bytes: 8 B, beside: matmul, m: 4, slowdown: 1}]\n", "needs m, n and k" },
    { "  collectives: [{op: all_gather, bytes: 8 B, beside: d2h, slowdown: 1}]\n", "needs beside_bytes" },
    { "  copies: [{kind: up, bytes: 8 B, time: 1 us}]\n", "h2d, d2h or both" },
    { "  copies: [{kind: h2d, bytes: 8 B, time: 1 us, gpus: [64]}]\n", "gpus" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (WRONG); i++) {
    g_autoptr (ZsValidation) validation = validate ("nvswitch", WRONG[i].rows);
    const char *failure = g_array_index (validation->cases, ZsCase, 0).failure;

    CU_ASSERT_PTR_NOT_NULL_FATAL (failure);
    if (strstr (failure, WRONG[i].said) == NULL)
      printf ("# %s\n", failure);
    CU_ASSERT_PTR_NOT_NULL (strstr (failure, WRONG[i].said));
    CU_ASSERT_EQUAL (validation->comparisons->len, 0);
  }
}

static const CU_TestInfo TESTS[] = {
  { "each row is compared and named", each_row_is_compared_and_named },
  { "work slows other work only where they meet", work_slows_other_work_only_where_they_meet },
  { "a copy takes as long as its link", a_copy_takes_as_long_as_its_link },
  { "mistakes are told", mistakes_are_told },
  CU_TEST_INFO_NULL,
};

int
main (void)
{
  return testing_main ("validate", TESTS);
}
