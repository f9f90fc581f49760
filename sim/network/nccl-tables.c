/* nccl-tables.c: the constants of NCCL's tuning model, by version.
 * SPDX-License-Identifier: MIT
 *
 * Source: NCCL src/graph/tuning.cc, releases 2.14 to 2.30.7.  Latencies in us, rates in GB/s of one
 * channel (ll_max: of all).  A release that changed a number is one `if` here and nothing elsewhere. */
#include "config.h"

#include "sim/network/nccl-tune.h"

const double ZS_NCCL_TREE_CORRECTION[ZS_N_PROTOCOLS][24] = {
  { 1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1 },
  { 1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1 },
  { .9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9 },
};

static const ZsNcclTables NEWEST = {
  .base = {
    [ZS_ALGORITHM_TREE] = { 6.8, 14.0, 8.4 },
    [ZS_ALGORITHM_RING] = { 6.6, 14.0, 8.4 },
    [ZS_ALGORITHM_PAT] = { 8, 8, 8 },
  },
  .hop = {
    [ZS_HW_NVLINK] = {
      [ZS_ALGORITHM_TREE] = { 0.6, 1.25, 4.0 }, [ZS_ALGORITHM_RING] = { 0.6, 1.9, 3.4 },
      [ZS_ALGORITHM_COLLNET_DIRECT] = { 0, 0, 3.7 }, [ZS_ALGORITHM_COLLNET_CHAIN] = { 0, 0, 2.8 },
      [ZS_ALGORITHM_NVLS] = { 0, 0, 25 }, [ZS_ALGORITHM_NVLS_TREE] = { 0, 0, 25 },
      [ZS_ALGORITHM_PAT] = { 0, 0, 4.0 },
    },
    [ZS_HW_PCI] = {
      [ZS_ALGORITHM_TREE] = { 1.0, 1.9, 4.0 }, [ZS_ALGORITHM_RING] = { 1.0, 2.5, 5.7 },
      [ZS_ALGORITHM_COLLNET_DIRECT] = { 0, 0, 3.7 }, [ZS_ALGORITHM_COLLNET_CHAIN] = { 0, 0, 2.8 },
      [ZS_ALGORITHM_PAT] = { 0, 0, 4.0 },
    },
    [ZS_HW_NET] = {
      [ZS_ALGORITHM_TREE] = { 5.0, 8.5, 14 }, [ZS_ALGORITHM_RING] = { 2.7, 4.0, 14.0 },
      [ZS_ALGORITHM_COLLNET_DIRECT] = { 0, 0, 31 }, [ZS_ALGORITHM_COLLNET_CHAIN] = { 0, 0, 30 },
      [ZS_ALGORITHM_NVLS] = { 0, 0, 18 }, [ZS_ALGORITHM_NVLS_TREE] = { 0, 0, 20.9 },
      [ZS_ALGORITHM_PAT] = { 0, 0, 14 },
    },
  },
  .ll_max = { { 39, 39, 20.4 }, { 87.7, 22.5, 19 }, { 141, 45, 35 }, { 282, 90, 70 } },
  .ring_ll128 = { { 20, 20, 20 }, { 20, 20, 20 }, { 36.7, 36.7, 36.7 }, { 40, 40, 40 } },
  .tree_ll128 = { { 20, 20, 20 }, { 20, 20, 20 }, { 36.7, 36.7, 29 }, { 55.6, 31.67, 20 } },
  .tree = { { 26.5, 18.5, 10 }, { 24, 23.6, 17.8 }, { 38.7, 41.4, 36 }, { 70, 42.8, 24 } },
  .nvls_tree = { { 0, 0, 0 }, { 0, 0, 0 }, { 0, 57.7, 45.5 }, { 0, 96, 80 } },
  .nvls_efficiency = { 1, 1, 0.85, 0.74 },
};

static void
set_hops (ZsNcclTables *tables, ZsAlgorithm algorithm, double nvlink, double pci, double net)
{
  tables->hop[ZS_HW_NVLINK][algorithm][ZS_PROTOCOL_SIMPLE] = nvlink;
  tables->hop[ZS_HW_PCI][algorithm][ZS_PROTOCOL_SIMPLE] = pci;
  tables->hop[ZS_HW_NET][algorithm][ZS_PROTOCOL_SIMPLE] = net;
}

static void
set_row (double *row, double one, double two, double more)
{
  row[0] = one;
  row[1] = two;
  row[2] = more;
}

void
zs_nccl_tables (ZsVersion version, ZsNcclTables *tables)
{
  *tables = NEWEST;
  if (version < ZS_VERSION (2, 30, 0))
    set_row (tables->nvls_tree[3], 0, 96, version < ZS_VERSION (2, 28, 9) ? 43.1 : 43.8);
  if (version < ZS_VERSION (2, 28, 9))
    tables->hop[ZS_HW_NET][ZS_ALGORITHM_NVLS_TREE][ZS_PROTOCOL_SIMPLE] = 14;
  if (version < ZS_VERSION (2, 28, 0))
    for (int i = 0; i < 4; i++)
      tables->nvls_efficiency[i] = 1;
  if (version >= ZS_VERSION (2, 29, 2) && version < ZS_VERSION (2, 30, 0))
    set_row (tables->ring_ll128[3], 34.5, 34.5, 34.5);
  else if (version >= ZS_VERSION (2, 28, 7) && version < ZS_VERSION (2, 29, 2))
    set_row (tables->ring_ll128[3], 73.4, 34.6, 73.4);
  else if (version < ZS_VERSION (2, 28, 7))
    set_row (tables->ring_ll128[3], 73.4, 73.4, 73.4);
  if (version < ZS_VERSION (2, 23, 0)) {
    tables->base[ZS_ALGORITHM_TREE][ZS_PROTOCOL_SIMPLE] = 0;
    set_hops (tables, ZS_ALGORITHM_TREE, 28, 28, 28);
  }
  if (version < ZS_VERSION (2, 21, 0)) {
    tables->hop[ZS_HW_NVLINK][ZS_ALGORITHM_NVLS][ZS_PROTOCOL_SIMPLE] = 23;
    tables->hop[ZS_HW_NVLINK][ZS_ALGORITHM_NVLS_TREE][ZS_PROTOCOL_SIMPLE] = 23;
    for (int j = 0; j < 3; j++)   /* Hopper as Ampere */
      tables->ll_max[2][j] = tables->ll_max[1][j];
  }
  if (version < ZS_VERSION (2, 19, 0)) {
    if (version >= ZS_VERSION (2, 18, 3))
      set_hops (tables, ZS_ALGORITHM_TREE, 4, 6, 14);
    tables->base[ZS_ALGORITHM_NVLS][ZS_PROTOCOL_SIMPLE] = 23;
    tables->base[ZS_ALGORITHM_NVLS_TREE][ZS_PROTOCOL_SIMPLE] = 23;
    set_hops (tables, ZS_ALGORITHM_NVLS, 0, 0, 18);
    set_hops (tables, ZS_ALGORITHM_NVLS_TREE, 0, 0, 19);
  }
  if (version < ZS_VERSION (2, 18, 2))
    set_row (tables->tree[2], 33, 33, 33);
  if (version < ZS_VERSION (2, 15, 0)) {
    static const double TREE[] = { 4.4, 4.4, 0 }, RING[] = { 3.6, 10.0, 8.4 };
    static const double TREE_HOP[] = { 0.52, 1.25, 28 }, RING_HOP[] = { 0.47, 1.9, 3.4 };

    for (int p = 0; p < ZS_N_PROTOCOLS; p++) {
      tables->base[ZS_ALGORITHM_TREE][p] = TREE[p];
      tables->base[ZS_ALGORITHM_RING][p] = RING[p];
      tables->hop[ZS_HW_NVLINK][ZS_ALGORITHM_TREE][p] = TREE_HOP[p];
      tables->hop[ZS_HW_NVLINK][ZS_ALGORITHM_RING][p] = RING_HOP[p];
    }
    tables->hop[ZS_HW_NET][ZS_ALGORITHM_RING][ZS_PROTOCOL_SIMPLE] = 9.6;
  }
}
