/* fixtures.c: GPUs and machines for the tests of sim/network.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/network/fixtures.h"

#include "tests/testing.h"

#include <string.h>

static const ZsGpu GPUS[] = {
  { .name = "v100-sxm2-16gb", .compute_capability = 70, .pcie_generation = 3, .pcie_width = 16, .nvlink_links = 6, .p2p_over_pcie = true },
  { .name = "v100-pcie-16gb", .compute_capability = 70, .pcie_generation = 3, .pcie_width = 16, .p2p_over_pcie = true },
  { .name = "t4", .compute_capability = 75, .pcie_generation = 3, .pcie_width = 16, .p2p_over_pcie = true },
  { .name = "rtx-2080-ti", .compute_capability = 75, .pcie_generation = 3, .pcie_width = 16, .nvlink_links = 2 },
  { .name = "rtx-3090", .compute_capability = 86, .pcie_generation = 4, .pcie_width = 16, .nvlink_links = 4 },
  { .name = "a40", .compute_capability = 86, .pcie_generation = 4, .pcie_width = 16, .nvlink_links = 4, .p2p_over_pcie = true },
  { .name = "a100-pcie-40gb", .compute_capability = 80, .pcie_generation = 4, .pcie_width = 16, .nvlink_links = 12, .p2p_over_pcie = true },
  { .name = "a100-sxm4-40gb", .compute_capability = 80, .pcie_generation = 4, .pcie_width = 16, .nvlink_links = 12, .p2p_over_pcie = true },
  { .name = "a800-sxm4-80gb", .compute_capability = 80, .pcie_generation = 4, .pcie_width = 16, .nvlink_links = 8, .p2p_over_pcie = true },
  { .name = "rtx-4090", .compute_capability = 89, .pcie_generation = 4, .pcie_width = 16 },
  { .name = "rtx-6000-ada", .compute_capability = 89, .pcie_generation = 5, .pcie_width = 16, .p2p_over_pcie = true },
  { .name = "rtx-5090", .compute_capability = 120, .pcie_generation = 5, .pcie_width = 16 },
  { .name = "rtx-pro-6000", .compute_capability = 120, .pcie_generation = 5, .pcie_width = 16, .p2p_over_pcie = true },
  { .name = "h100-pcie-80gb", .compute_capability = 90, .pcie_generation = 5, .pcie_width = 16, .nvlink_links = 12, .p2p_over_pcie = true },
  { .name = "h100-sxm5-80gb", .compute_capability = 90, .pcie_generation = 5, .pcie_width = 16, .nvlink_links = 18, .p2p_over_pcie = true },
  { .name = "h200-sxm-141gb", .compute_capability = 90, .pcie_generation = 5, .pcie_width = 16, .nvlink_links = 18, .p2p_over_pcie = true },
  { .name = "gh200-96gb", .compute_capability = 90, .pcie_generation = 5, .pcie_width = 16, .nvlink_links = 18, .p2p_over_pcie = true },
  { .name = "h100-nvl", .compute_capability = 90, .pcie_generation = 5, .pcie_width = 16, .nvlink_links = 12, .p2p_over_pcie = true },
  { .name = "gb10", .compute_capability = 121, .pcie_generation = 5, .pcie_width = 16, .p2p_over_pcie = true },
  { .name = "b200-sxm-180gb", .compute_capability = 100, .pcie_generation = 5, .pcie_width = 16, .nvlink_links = 18, .p2p_over_pcie = true },
};

const ZsGpu *
fixture_gpu (const char *name)
{
  for (size_t i = 0; i < G_N_ELEMENTS (GPUS); i++)
    if (strcmp (GPUS[i].name, name) == 0)
      return &GPUS[i];
  return NULL;
}

char *
fixture_models (void)
{
  return testing_source_path ("models");
}

ZsTopology *
fixture_topology (const char *gpu, int n, const char *fabric, ZsCpuVendor vendor, int peer)
{
  g_autofree char *models = fixture_models ();
  ZsHost host = { .vendor = vendor };
  ZsTopologyOptions options = { .gpu = fixture_gpu (gpu), .n_gpus = n, .host = &host, .peer_access = peer };
  g_autoptr (GError) error = NULL;
  ZsTopology *topology = zs_topology_from_fabric (models, fabric, &options, &error);

  if (topology == NULL)
    g_error ("%s", error->message);
  return topology;
}
