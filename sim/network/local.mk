# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/network/nccl.h \
  sim/network/topology.h
