/* topology-rates.c: what links carry, and what NCCL believes they carry.
 * SPDX-License-Identifier: MIT
 *
 * Beliefs: NCCL 2.30 src/graph/topo.h and topo.cc, with the older values by version.  Sustained rates:
 * nvbandwidth, p2pBandwidthLatencyTest and bandwidthTest results that others published; the row beside
 * each number names the machine. */
#include "config.h"

#include "sim/network/topology-build.h"

#define GB INT64_C (1000000000)
#define MB INT64_C (1000000)

ZsRate
zs_pcie_rate (int generation, int lanes, bool to_host)
{
  /* of 16 lanes, to the GPU and to the host */
  static const struct { ZsRate to_gpu, to_host; } RATES[] = {
    { 3000 * MB, 3200 * MB },      /* gen 1 and 2: gen 3 halved (assumed) */
    { 6100 * MB, 6600 * MB },
    { 12200 * MB, 13200 * MB },    /* RTX 2080 Ti, P100: bandwidthTest, pinned */
    { 25000 * MB, 26300 * MB },    /* A100: 24-26.4 and 26.3-27.1 */
    { 55400 * MB, 55300 * MB },    /* H200: measured here and by nvbandwidth */
    { 110800 * MB, 110600 * MB },  /* gen 6: gen 5 doubled (assumed) */
  };

  generation = CLAMP (generation, 1, 6);
  lanes = lanes <= 0 ? 16 : lanes;
  return (to_host ? RATES[generation - 1].to_host : RATES[generation - 1].to_gpu) * lanes / 16;
}

ZsRate
zs_pcie_nccl_rate (int generation, int lanes)
{
  /* topo.cc: width x speed / 80, speed in 100 Mb/s per lane; unknown is taken as gen 3 */
  static const int SPEEDS[] = { 60, 15, 30, 60, 120, 240, 480 };

  if (lanes <= 0)
    lanes = 16;
  return (ZsRate) lanes * SPEEDS[CLAMP (generation, 0, 6)] * GB / 80;
}

ZsRate
zs_nvlink_nccl_rate (int capability, int links, ZsVersion nccl)
{
  /* topo.h, per link in MB/s; values of older releases where they differ */
  int64_t rate;

  if (nccl < ZS_VERSION (2, 9, 0) && capability >= 70 && capability < 90)
    rate = 21000;
  else if (nccl < ZS_VERSION (2, 15, 0) && capability >= 70 && capability < 90 && capability != 86)
    rate = 22000;
  else if (capability >= 100)
    rate = nccl < ZS_VERSION (2, 19, 0) ? 20000 : 40100;
  else if (capability >= 90)
    rate = nccl < ZS_VERSION (2, 19, 0) ? 20000 : 20600;
  else if (capability == 86)
    rate = 12000;
  else if (capability >= 70)
    rate = 20000;
  else
    rate = 18000;
  return rate * MB * links;
}

ZsRate
zs_nvlink_rate (int capability, int links)
{
  int64_t per_link;

  if (capability >= 100)
    per_link = 41500 * MB;   /* GB200: 747 of 18 links, p2pBandwidthLatencyTest */
  else if (capability >= 90)
    per_link = 22000 * MB;   /* H200: 396 of 18 links by copy engine (nvbandwidth) */
  else if (capability == 86)
    per_link = 13200 * MB;   /* A6000: 52.7 of 4 links (14.06 each by specification) */
  else if (capability >= 80)
    per_link = 22900 * MB;   /* A100: 274-276 of 12 links */
  else if (capability >= 70)
    per_link = 24100 * MB;   /* V100: 48 of 2 links (assumed from 25 by specification) */
  else
    per_link = 18500 * MB;   /* P100 (assumed from 20 by specification) */
  return per_link * links;
}

ZsRate
zs_socket_nccl_rate (ZsCpuVendor vendor, int family, int model, ZsVersion nccl)
{
  (void) family;
  switch (vendor) {
  case ZS_CPU_AMD:
    return nccl < ZS_VERSION (2, 19, 0) ? 5000 * GB : 16 * GB;
  case ZS_CPU_ARM:
    return 6 * GB;
  case ZS_CPU_POWER:
    return 32 * GB;
  case ZS_CPU_INTEL:
    break;
  }
  if (nccl >= ZS_VERSION (2, 26, 0) && model >= 0xcf)
    return 40 * GB;
  if (nccl >= ZS_VERSION (2, 26, 0) && model >= 0x8f)
    return 22 * GB;
  return model >= 0x55 ? 10 * GB : 6 * GB;
}

ZsRate
zs_socket_rate (ZsCpuVendor vendor, int generation)
{
  /* of one direction between two sockets, all links.  Specifications; the age of the CPU is taken from
   * the PCIe generation.  AMD: 3-4 xGMI links of 32-36 GB/s; Intel: 2-4 UPI links of 20.8 GB/s. */
  if (vendor == ZS_CPU_AMD)
    return generation >= 5 ? 128 * GB : 96 * GB;
  if (vendor == ZS_CPU_INTEL)
    return generation >= 5 ? 80 * GB : generation == 4 ? 60 * GB : 38 * GB;
  return 60 * GB;
}

ZsRate
zs_host_memory_rate (int generation)
{
  /* sustained (80 %) of a server's socket of that age: 6 x DDR4-2666, 8 x DDR4-3200, 8 x DDR5-4800;
   * DMA reads and writes together.  Assumed where the scenario says nothing. */
  return generation >= 5 ? 245 * GB : generation == 4 ? 164 * GB : 102 * GB;
}

ZsRate
zs_duplex_rate (int generation, int lanes)
{
  /* nvbandwidth, copies both ways at once: A100 and RTX 4090 (gen 4) 25 + 11, gen 5 server
   * 51.8 + 51; gen 3 taken as gen 4 */
  double factor = generation >= 5 ? 1.85 : 1.45;

  return (ZsRate) (factor * (double) zs_pcie_rate (generation, lanes, false));
}

int
zs_likely_intel_model (int generation)
{
  /* Sapphire Rapids has PCIe 5, Ice Lake 4, Skylake 3 */
  return generation >= 5 ? 0x8f : generation == 4 ? 0x6a : 0x55;
}

ZsRate
zs_proxy_rate (ZsNetworkKind kind, bool gpu_direct)
{
  /* 8 A100 on Polaris over sockets: a ring, whose sender and receiver are two GPUs' threads, moves 3.1-3.2 GB/s; a
   * tree, where one thread does both, 1.77 each way (nccl-tests) */
  if (kind == ZS_NETWORK_TCP && !gpu_direct)
    return 3300 * MB;
  /* two T4 with EFA without GPUDirect: 3.1 GB/s each way at once (nccl-tests); the provider copies, without system calls */
  if (kind == ZS_NETWORK_EFA && !gpu_direct)
    return 6200 * MB;
  return 0;
}
