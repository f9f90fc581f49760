# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/zero/config.h \
  sim/zero/partition.c \
  sim/zero/partition.h \
  sim/zero/torch-ops.c \
  sim/zero/torch-ops.h

# stage 3
libzerosim_core_la_SOURCES += \
  sim/zero/coordinator.c \
  sim/zero/coordinator.h
