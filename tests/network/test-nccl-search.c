/* test-nccl-search.c: the channels that NCCL finds on machines of every class.
 * SPDX-License-Identifier: MIT
 *
 * Expected: computed with the topology and search sources of NCCL 2.30.7 on synthetic machines; the
 * Ampere PCIe rows agree with published NCCL logs. */
#include "config.h"

#include "sim/network/nccl-graph.h"
#include "tests/network/fixtures.h"
#include "tests/testing.h"

typedef struct {
  const char *gpu;
  int         n;
  const char *fabric;
  ZsCpuVendor vendor;
  int         peer;
  int         ring_n;  double ring_rate;  ZsPathType type;
  int         tree_n;  double tree_rate;
  int         nvls_n;  double nvls_intra, nvls_inter;
} Case;

static const Case CASES[] = {
#define AMD ZS_CPU_AMD
#define INTEL ZS_CPU_INTEL
  { "a100-sxm4-40gb", 8, "nvswitch", AMD, -1, 12, 20, ZS_PATH_NVLINK, 12, 20, 0, 0, 0 },
  { "a100-sxm4-40gb", 4, "nvswitch", AMD, -1, 12, 20, ZS_PATH_NVLINK, 12, 20, 0, 0, 0 },
  { "a100-sxm4-40gb", 2, "nvswitch", AMD, -1, 12, 20, ZS_PATH_NVLINK, 12, 40, 0, 0, 0 },
  { "a100-pcie-40gb", 2, "nvlink-bridge", AMD, -1, 12, 20, ZS_PATH_NVLINK, 12, 40, 0, 0, 0 },
  { "h100-sxm5-80gb", 8, "nvswitch", INTEL, -1, 12, 30, ZS_PATH_NVLINK, 12, 30, 8, 40, 60 },
  { "h100-sxm5-80gb", 7, "nvswitch", INTEL, -1, 12, 30, ZS_PATH_NVLINK, 12, 30, 7, 40, 60 },
  { "h100-sxm5-80gb", 6, "nvswitch", INTEL, -1, 12, 30, ZS_PATH_NVLINK, 12, 30, 6, 50, 60 },
  { "h100-sxm5-80gb", 5, "nvswitch", INTEL, -1, 12, 30, ZS_PATH_NVLINK, 12, 30, 5, 60, 60 },
  { "h100-sxm5-80gb", 4, "nvswitch", INTEL, -1, 12, 30, ZS_PATH_NVLINK, 12, 30, 4, 60, 60 },
  { "h100-sxm5-80gb", 3, "nvswitch", INTEL, -1, 12, 30, ZS_PATH_NVLINK, 12, 40, 3, 60, 60 },
  { "h100-sxm5-80gb", 2, "nvswitch", INTEL, -1, 12, 30, ZS_PATH_NVLINK, 12, 60, 2, 60, 60 },
  { "b200-sxm-180gb", 8, "nvswitch", INTEL, -1, 16, 45, ZS_PATH_NVLINK, 16, 45, 8, 80, 90 },
  { "b200-sxm-180gb", 4, "nvswitch", INTEL, -1, 16, 45, ZS_PATH_NVLINK, 16, 50, 4, 90, 90 },
  { "b200-sxm-180gb", 2, "nvswitch", INTEL, -1, 16, 45, ZS_PATH_NVLINK, 16, 90, 2, 90, 90 },
  { "v100-sxm2-16gb", 8, "nvlink", INTEL, -1, 6, 20, ZS_PATH_NVLINK, 6, 20, 0, 0, 0 },
  { "gh200-96gb", 4, "nvlink", ZS_CPU_ARM, -1, 12, 30, ZS_PATH_NVLINK, 12, 30, 0, 0, 0 },
  { "rtx-3090", 2, "nvlink", AMD, -1, 2, 20, ZS_PATH_NVLINK, 2, 40, 0, 0, 0 },
  { "rtx-2080-ti", 2, "nvlink-bridge", INTEL, -1, 2, 20, ZS_PATH_NVLINK, 2, 40, 0, 0, 0 },
  { "h100-pcie-80gb", 2, "nvlink", INTEL, -1, 8, 30, ZS_PATH_NVLINK, 8, 60, 0, 0, 0 },
  { "a100-pcie-40gb", 4, "nvlink-bridge-two-sockets", AMD, -1, 4, 4, ZS_PATH_SYS, 4, 4, 0, 0, 0 },
  { "a100-pcie-40gb", 4, "nvlink-bridge-two-sockets", INTEL, -1, 2, 5, ZS_PATH_SYS, 2, 10, 0, 0, 0 },
  { "a40", 4, "nvlink-bridge-two-sockets", INTEL, -1, 2, 5, ZS_PATH_SYS, 2, 10, 0, 0, 0 },
  { "rtx-3090", 4, "nvlink-bridge", AMD, -1, 4, 12, ZS_PATH_PHB, 4, 20, 0, 0, 0 },
  { "a100-pcie-40gb", 2, "pcie4-x16-host-bridge", AMD, -1, 2, 12, ZS_PATH_PHB, 2, 20, 0, 0, 0 },
  { "a100-pcie-40gb", 2, "pcie4-x16-host-bridge", INTEL, -1, 1, 20, ZS_PATH_PHB, 1, 20, 0, 0, 0 },
  { "a100-pcie-40gb", 2, "pcie4-x16-two-sockets", AMD, -1, 1, 15, ZS_PATH_SYS, 1, 15, 0, 0, 0 },
  { "v100-pcie-16gb", 2, "pcie3-x16-switch", INTEL, -1, 1, 12, ZS_PATH_PIX, 1, 12, 0, 0, 0 },
  { "v100-pcie-16gb", 4, "pcie3-x16-switch", INTEL, -1, 1, 12, ZS_PATH_PIX, 1, 12, 0, 0, 0 },
  { "rtx-4090", 4, "pcie4-x16-host-bridge", AMD, -1, 2, 12, ZS_PATH_PHB, 2, 12, 0, 0, 0 },
  { "a100-pcie-40gb", 3, "pcie4-x16-host-bridge", AMD, -1, 2, 12, ZS_PATH_PHB, 2, 12, 0, 0, 0 },
  { "rtx-4090", 8, "pcie4-x16-two-sockets", AMD, -1, 1, 15, ZS_PATH_SYS, 1, 15, 0, 0, 0 },
  { "rtx-4090", 4, "pcie4-x16-two-sockets", INTEL, -1, 1, 10, ZS_PATH_SYS, 1, 10, 0, 0, 0 },
  { "rtx-6000-ada", 4, "pcie5-x16-two-sockets", INTEL, -1, 1, 20, ZS_PATH_SYS, 1, 20, 0, 0, 0 },
  { "rtx-6000-ada", 2, "pcie5-x16-host-bridge", AMD, -1, 2, 20, ZS_PATH_PHB, 2, 40, 0, 0, 0 },
  { "h100-pcie-80gb", 2, "pcie5-x16-host-bridge", AMD, -1, 2, 24, ZS_PATH_PHB, 2, 40, 0, 0, 0 },
  { "rtx-pro-6000", 2, "pcie5-x16-host-bridge", AMD, -1, 2, 24, ZS_PATH_PHB, 2, 45, 0, 0, 0 },
  { "rtx-pro-6000", 2, "pcie4-x16-host-bridge", AMD, -1, 1, 24, ZS_PATH_PHB, 1, 24, 0, 0, 0 },
  { "rtx-pro-6000", 2, "pcie4-x16-host-bridge", INTEL, -1, 1, 20, ZS_PATH_PHB, 1, 20, 0, 0, 0 },
};

static void
check_case (const Case *one)
{
  g_autoptr (ZsTopology) topology = fixture_topology (one->gpu, one->n, one->fabric, one->vendor, one->peer);
  ZsNcclEnvironment environment;
  ZsNcclGraphs graphs;
  int gpus[64];

  g_assert_true (zs_nccl_environment (0, NULL, &environment, NULL));
  for (int g = 0; g < one->n; g++)
    gpus[g] = g;
  g_autoptr (ZsNcclSystem) system = zs_nccl_system_new (topology, gpus, one->n, false, &environment);

  zs_nccl_search_all (system, &graphs);
  bool good = graphs.ring.n_channels == one->ring_n && graphs.ring.rate_intra == one->ring_rate
              && graphs.ring.type_intra == one->type && graphs.tree.n_channels == one->tree_n
              && graphs.tree.rate_intra == one->tree_rate && graphs.nvls.n_channels == one->nvls_n
              && (one->nvls_n == 0 || (graphs.nvls.rate_intra == one->nvls_intra && graphs.nvls.rate_inter == one->nvls_inter));

  CU_ASSERT_TRUE (good);
  if (!good)
    printf ("# %dx %s %s vendor %d: ring %d x %g %s, tree %d x %g, nvls %d x %g/%g; expected ring %d x %g %s, tree %d x %g, nvls %d x %g/%g\n",
            one->n, one->gpu, one->fabric, one->vendor, graphs.ring.n_channels, graphs.ring.rate_intra,
            zs_path_name (graphs.ring.type_intra), graphs.tree.n_channels, graphs.tree.rate_intra, graphs.nvls.n_channels,
            graphs.nvls.rate_intra, graphs.nvls.rate_inter, one->ring_n, one->ring_rate, zs_path_name (one->type),
            one->tree_n, one->tree_rate, one->nvls_n, one->nvls_intra, one->nvls_inter);
}

static void
machines_have_the_channels_of_nccl (void)
{
  for (size_t i = 0; i < G_N_ELEMENTS (CASES); i++)
    check_case (&CASES[i]);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "machines have the channels that NCCL finds", machines_have_the_channels_of_nccl },
    CU_TEST_INFO_NULL
  };
  return testing_main ("nccl-search", tests);
}
