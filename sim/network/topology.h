/* topology.h: the parts of one node (one machine of the cluster), the links between them, and how
 * nodes are joined.
 * SPDX-License-Identifier: MIT
 *
 * Words: a *part* is a GPU, a PCIe switch, the NVSwitches of a node (one part), a CPU (one NUMA
 * domain) or a NIC.  A *link* joins two parts in one direction.  Links are numbered densely; a link
 * of node k of a cluster has the number k * n_links + link.
 *
 * Every link has two rates.  `nccl_rate` is what NCCL's graph assumes (NCCL 2.30 topo.h, topo.cc):
 * its search and its tuning see nothing else.  `rate` is what the link sustains, measured, and what
 * activities share (sim/engine): an activity is a list of ZsLoad, one for each link that it uses.
 *
 * A topology comes from a named fabric (models/fabrics/), from the text of `nvidia-smi topo -m`, or
 * from a topology XML of NCCL.  It is const once built and may be shared by threads.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/base/time.h"
#include "sim/base/version.h"
#include "sim/hardware/gpu.h"
#include "sim/hardware/host.h"
#include "sim/plan/instruction.h"

typedef enum {
  ZS_PART_GPU, ZS_PART_PCIE_SWITCH, ZS_PART_NVSWITCH, ZS_PART_CPU, ZS_PART_NIC, ZS_N_PART_KINDS
} ZsPartKind;

typedef enum {
  ZS_LINK_NVLINK,
  ZS_LINK_C2C,       /* CPU to GPU on one module */
  ZS_LINK_PCIE,
  ZS_LINK_SOCKET,    /* between NUMA domains: UPI, xGMI */
  ZS_LINK_MEMORY,    /* a capacity, not an edge: the host memory of one NUMA domain */
  ZS_LINK_DUPLEX,    /* a capacity: both directions of a GPU's PCIe link together */
  ZS_LINK_NETWORK,   /* NIC to the network and back */
  ZS_LINK_PROXY,     /* a capacity: NCCL's thread that moves a GPU's bytes between nodes where the network cannot read
                        GPU memory (sockets; EFA without GPUDirect): what it sends and receives together */
  ZS_N_LINK_KINDS
} ZsLinkKind;

/* How two GPUs reach each other, as `nvidia-smi topo -m` and NCCL say it; in order of preference. */
typedef enum {
  ZS_PATH_SELF, ZS_PATH_NVLINK, ZS_PATH_NVB, ZS_PATH_C2C, ZS_PATH_PIX, ZS_PATH_PXB, ZS_PATH_P2C,
  ZS_PATH_PXN, ZS_PATH_PHB, ZS_PATH_NODE, ZS_PATH_SYS, ZS_PATH_NET, ZS_PATH_NONE
} ZsPathType;   /* NCCL has no NODE: it treats it as PHB */

typedef struct {
  ZsPartKind kind;
  int        index;       /* GPU 0.., NIC 0.., NUMA domain 0.. */
  char       name[24];    /* "GPU0", "switch 1", "NUMA 0", "mlx5_0" */
  /* GPU */
  int        compute_capability;
  bool       peer_access;     /* over PCIe */
  /* CPU */
  ZsCpuVendor vendor;
  int        family, model;   /* of the CPU; 0 unknown */
  /* NIC */
  ZsRate     nic_rate;
  bool       gpu_direct;
} ZsPart;

typedef struct {
  char       name[48];    /* "GPU0 > switch 0" */
  ZsLinkKind kind;
  int        from, to;    /* parts; for capacities both name the part */
  int        count;       /* NVLinks bonded; PCIe lanes */
  int        generation;  /* of PCIe or NVLink; 0 unknown */
  ZsRate     rate;        /* sustained */
  ZsRate     nccl_rate;   /* 0: not an edge of NCCL's graph */
  ZsTime     latency;
  int        reverse;     /* the link of the other direction, -1 none */
} ZsLink;

/* An activity's use of one link: bytes over the link per byte of the activity, in 1/65536. */
#define ZS_LOAD_ONE 65536
typedef struct {
  int32_t link;
  int32_t weight;
} ZsLoad;

/* How nodes are joined: one file of models/networks/ each. */
typedef enum { ZS_NETWORK_INFINIBAND, ZS_NETWORK_ROCE, ZS_NETWORK_SLINGSHOT, ZS_NETWORK_EFA,
               ZS_NETWORK_TCP } ZsNetworkKind;

typedef struct {
  char          name[48];
  ZsNetworkKind kind;
  int           nics;        /* per node; 0: one per GPU */
  ZsRate        rate;        /* of one NIC, one direction */
  ZsTime        latency;     /* that the plug-in reports to NCCL (one way) */
  ZsTime        extra_latency;   /* of the fabric, which NCCL's model does not know; per hop */
  ZsTime        message_time;    /* of a proxy thread for one message, whatever its bytes; 0: not known to matter.  Over libfabric
                                    with the plug-ins up to 2024: nccl-calibrate.c has the later ones */
  int64_t       handshake_from;  /* bytes of a message from which the sender asks first (rendezvous); 0: it never does */
  ZsTime        handshake_time;  /* what this adds to a hop */
  double        efficiency;  /* of `rate` that NCCL reaches on large messages */
  bool          gpu_direct;  /* GPUDirect RDMA */
  ZsOrigin      origin;
} ZsNetwork;

/* What was measured of this very machine (`zerosim calibrate`), as factors on what the model says; 0 or 1: as
 * the model says. */
typedef struct {
  double collective_latency;
  double collective_ll, collective_simple, collective_nvls;   /* the transfer of a collective, by protocol */
  double to_gpu, to_host;                                     /* rates between host and GPU */
} ZsLinkCalibration;

typedef struct {
  char     name[64];
  ZsPart  *parts;
  int      n_parts;
  ZsLink  *links;
  int      n_links;
  int      n_gpus, n_nics, n_cpus;
  int     *gpus;             /* part of GPU g */
  int     *nvlinks;          /* n_gpus x n_gpus: bonded set, or to the NVSwitch */
  uint8_t *pcie_paths;       /* n_gpus x n_gpus: ZsPathType without NVLink */
  int     *nics, *cpus;
  bool     ideal;            /* bytes between GPUs take no time */
  bool     virtual_machine;  /* the tree is not known: every GPU sits on a CPU of its own for NCCL */
  ZsRate   shm_rate;         /* said by the user; 0 unknown */
  ZsLinkCalibration calibration;
  int      n_nodes;
  ZsNetwork network;         /* where n_nodes > 1 */
  GPtrArray *warnings;       /* of char *: what was guessed, and GPUs that sit badly */
} ZsTopology;

/* What a person said about the machine besides its wiring. */
typedef struct {
  const ZsGpu *gpu;          /* of all GPUs; may be NULL for texts (rates then by class, with a warning) */
  const ZsGpu *const *gpus;  /* or of each; NULL */
  int          n_gpus;       /* per node; 0: as the text says (a fabric needs it) */
  const ZsHost *host;        /* NULL: unknown */
  int          peer_access;  /* -1 as the GPU's driver, 0 no, 1 yes (patched driver) */
  ZsRate       shm_rate;     /* 0 unknown */
  ZsLinkCalibration calibration;
} ZsTopologyOptions;

/* ---- life ---- */

/* FABRIC: a name in MODELS/fabrics (MODELS: the folder models/ itself), a short word (pcie, nvlink,
 * nvswitch: chosen by the GPU), or "ideal". */
ZsTopology *zs_topology_from_fabric (const char *models, const char *fabric,
                                     const ZsTopologyOptions *options,
                                     GError **error) G_GNUC_WARN_UNUSED_RESULT;
/* FILE only names the text in messages ("file:line:column: ..."); LENGTH -1: up to the NUL. */
ZsTopology *zs_topology_from_smi (const char *file, const char *text, gssize length,
                                  const ZsTopologyOptions *options,
                                  GError **error) G_GNUC_WARN_UNUSED_RESULT;
ZsTopology *zs_topology_from_nccl_xml (const char *file, const char *text, gssize length,
                                       const ZsTopologyOptions *options,
                                       GError **error) G_GNUC_WARN_UNUSED_RESULT;
/* Tells the kind by the content. */
ZsTopology *zs_topology_from_file (const char *path, const ZsTopologyOptions *options,
                                   GError **error) G_GNUC_WARN_UNUSED_RESULT;
void        zs_topology_free (ZsTopology *topology);
ZsTopology *zs_topology_copy (const ZsTopology *topology) G_GNUC_WARN_UNUSED_RESULT;
/* Appends bytes to KEY: topologies that say the same append the same, others others. */
void        zs_topology_key  (const ZsTopology *topology, GString *key);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsTopology, zs_topology_free)

/* The fabric behind FABRIC for this GPU and number of GPUs ("nvswitch" with a100-sxm4-40gb:
 * "nvswitch-a100"); other names as they are.  NULL and ERROR where the GPU cannot have it. */
const char *zs_fabric_resolve (const char *fabric, const ZsGpu *gpu, int n_gpus, GError **error);
/* A name in MODELS/networks. */
bool zs_network_load (const char *models, const char *name, ZsNetwork *ret_network, GError **error);
/* Make it N_NODES such nodes.  NICs are added where the node has none: each below the switch (or
 * CPU) of its GPUs.  NETWORK may be NULL if the node has NICs of known rate. */
bool zs_topology_connect (ZsTopology *topology, int n_nodes, const ZsNetwork *network,
                          GError **error);

/* ---- ask ---- */

/* Cheapest path between two GPUs, by PCIe and NVLink as they are (not as NCCL's P2P rules allow). */
ZsPathType  zs_topology_path (const ZsTopology *topology, int gpu_a, int gpu_b);
/* NVLinks between two GPUs: bonded set, or of each to the NVSwitch; 0 none. */
int         zs_topology_nvlinks (const ZsTopology *topology, int gpu_a, int gpu_b);
const char *zs_path_name (ZsPathType path);       /* "PIX"; NVLINK: "NV" */
/* "NV12", "PIX" ...: the cell of `nvidia-smi topo -m`.  Free with g_free. */
char       *zs_topology_cell (const ZsTopology *topology, int gpu_a, int gpu_b);
const char *zs_part_kind_name (ZsPartKind kind);
const char *zs_link_kind_name (ZsLinkKind kind);

/* What a copy between host memory and GPU loads (pinned host memory beside the GPU), and its time
 * alone: latency + bytes / rate.  LOADS has room for ROOM entries (16 suffice); returns how many. */
int zs_topology_copy_loads (const ZsTopology *topology, int gpu, ZsCopyKind copy, ZsLoad *loads,
                            int room);
ZsTime zs_topology_copy_latency (const ZsTopology *topology, int gpu, ZsCopyKind copy);
ZsRate zs_topology_copy_rate (const ZsTopology *topology, int gpu, ZsCopyKind copy, bool pinned);
/* The memory capacity (link) beside GPU: for CPU tasks and NVMe traffic; -1 none. */
int zs_topology_memory_link (const ZsTopology *topology, int gpu);

/* The tree to print, one row for each part and capacity, in the order of drawing. */
typedef struct {
  int         depth;
  const char *name;      /* borrowed from the topology */
  const char *kind;      /* static: "GPU", "PCIe switch" ... */
  int         link;      /* towards the parent, -1 none */
  ZsRate      rate;      /* of it; 0 none */
} ZsTopologyRow;
GArray *zs_topology_rows (const ZsTopology *topology) G_GNUC_WARN_UNUSED_RESULT;   /* of ZsTopologyRow */
/* A drawing of it as SVG, readable in black and white: kinds of links differ by the form of the line, and every
 * link says what it is.  Free with g_free. */
char *zs_topology_svg (const ZsTopology *topology);
