/* topology-build.h: how the readers put a topology together; private to sim/network.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/network/topology.h"

ZsTopology *zs_topology_new (const char *name) G_GNUC_WARN_UNUSED_RESULT;
/* Number of the new part; INDEX counts parts of one kind from 0. */
int  zs_topology_add_part (ZsTopology *topology, ZsPartKind kind, int index, const char *name);
/* Two links, A to B and back, with the rates of KIND (topology-rates.c).  COUNT: NVLinks or PCIe
 * lanes; GENERATION of PCIe; CAPABILITY: compute capability of the GPU, for NVLink. */
void zs_topology_join (ZsTopology *topology, int a, int b, ZsLinkKind kind, int count,
                       int generation, int capability);
/* Fill part of GPU g from the options (G counts below n_gpus). */
void zs_topology_set_gpu (ZsTopology *topology, int part, int g, const ZsTopologyOptions *options);
/* All CPUs joined, capacities added, paths worked out, bad places noted.  Last step of every reader. */
void zs_topology_finish (ZsTopology *topology, const ZsTopologyOptions *options);
void zs_topology_warn (ZsTopology *topology, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* What the reader knows better than the tree says. */
void zs_topology_set_pcie_path (ZsTopology *topology, int gpu_a, int gpu_b, ZsPathType path);

/* Links of the shortest way FROM a part TO another over links whose kind is in KINDS (bits); -1: no
 * way, or longer than ROOM. */
int zs_topology_route (const ZsTopology *topology, int from, int to, unsigned int kinds, int *links,
                       int room);
/* The CPU nearest to PART. */
int zs_topology_cpu_of (const ZsTopology *topology, int part);
/* The capacity (link) of KIND at PART, -1 none. */
int zs_topology_capacity (const ZsTopology *topology, int part, ZsLinkKind kind);
/* Is A the side of the host of a PCIe link to B?  Parts are added from the CPU down. */
bool zs_topology_is_upper (const ZsTopology *topology, int a, int b);
/* Path type from any part to any other over PCIe and sockets. */
ZsPathType zs_topology_pcie_path_type (const ZsTopology *topology, int from, int to);

#define ZS_PCIE_KINDS (1u << ZS_LINK_PCIE | 1u << ZS_LINK_SOCKET | 1u << ZS_LINK_C2C)

/* NVLinks as the GPU usually has them (module: NVSwitch or V100 mesh), for sources that name none; GPUS:
 * the parts.  False: this GPU says nothing of the kind. */
bool zs_topology_wire_as_usual (ZsTopology *topology, const int *gpus, int n_gpus,
                                const ZsTopologyOptions *options);

/* ---- topology-rates.c: bytes per second; sources there ---- */
ZsRate zs_pcie_rate (int generation, int lanes, bool to_host);
ZsRate zs_pcie_nccl_rate (int generation, int lanes);
ZsRate zs_nvlink_rate (int capability, int links);
ZsRate zs_nvlink_nccl_rate (int capability, int links, ZsVersion nccl);
ZsRate zs_socket_rate (ZsCpuVendor vendor, int generation);
ZsRate zs_socket_nccl_rate (ZsCpuVendor vendor, int family, int model, ZsVersion nccl);
ZsRate zs_host_memory_rate (int generation);
/* Of one proxy thread, sent and received together; 0: it moves no bytes itself. */
ZsRate zs_proxy_rate (ZsNetworkKind kind, bool gpu_direct);
/* Both directions of a GPU's PCIe link together, for traffic with host memory. */
ZsRate zs_duplex_rate (int generation, int lanes);
/* The model number of a likely Intel CPU beside PCIe of GENERATION. */
int    zs_likely_intel_model (int generation);
