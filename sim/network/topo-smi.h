/* topo-smi.h: the matrix of `nvidia-smi topo -m` between reading it and building the tree.  Private to
 * topo-smi.c and topo-smi-tree.c.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/network/topology-build.h"

#define ZS_SMI_MAX_DEVICES 128

/* What a cell says of two devices; > 0 in order of distance. */
typedef enum {
  ZS_SMI_NONE = -1, ZS_SMI_SELF, ZS_SMI_NV, ZS_SMI_PIX, ZS_SMI_PXB, ZS_SMI_PHB, ZS_SMI_NODE, ZS_SMI_SYS
} ZsSmiCellKind;

typedef struct {
  int8_t kind;      /* ZsSmiCellKind */
  int8_t links;
} ZsSmiCell;

typedef struct {
  char label[32];
  bool gpu;
  int  line;        /* of its row; 0: none */
  int  numa;        /* -1 unknown */
  char affinity[160];
  int  part;
} ZsSmiDevice;

typedef struct {
  const char *file;
  ZsTopology *topology;
  ZsSmiDevice devices[ZS_SMI_MAX_DEVICES];
  int         n;
  ZsSmiCell   cells[ZS_SMI_MAX_DEVICES][ZS_SMI_MAX_DEVICES];   /* [row][column] */
  bool        has_header;
  int         set[ZS_SMI_MAX_DEVICES];                         /* union-find */
} ZsSmiReader;

/* topo-smi-tree.c: parts, links and paths of reader->topology from its devices and cells. */
void zs_smi_build (ZsSmiReader *reader, const ZsTopologyOptions *options);
