# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/network/nccl-calibrate.c \
  sim/network/nccl-channels.c \
  sim/network/nccl-comm.c \
  sim/network/nccl-comm.h \
  sim/network/nccl-environment.c \
  sim/network/nccl-factors.h \
  sim/network/nccl-graph.h \
  sim/network/nccl-loads.c \
  sim/network/nccl-log.c \
  sim/network/nccl-log.h \
  sim/network/nccl-messages.c \
  sim/network/nccl-order.c \
  sim/network/nccl-paths.c \
  sim/network/nccl-search.c \
  sim/network/nccl-search.h \
  sim/network/nccl-tables.c \
  sim/network/nccl-tune.c \
  sim/network/nccl-tune.h \
  sim/network/nccl.h \
  sim/network/topo-fabric.c \
  sim/network/topo-file.c \
  sim/network/topo-network.c \
  sim/network/topo-smi-tree.c \
  sim/network/topo-smi.c \
  sim/network/topo-smi.h \
  sim/network/topo-xml.c \
  sim/network/topology-ask.c \
  sim/network/topology-build.h \
  sim/network/topology-rates.c \
  sim/network/topology-svg.c \
  sim/network/topology-copy.c \
  sim/network/topology.c \
  sim/network/topology.h \
  sim/network/xml.c \
  sim/network/xml.h
