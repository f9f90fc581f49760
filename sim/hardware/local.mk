# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/hardware/cpu-time.c \
  sim/hardware/gpu.c \
  sim/hardware/gpu.h \
  sim/hardware/host-cost.c \
  sim/hardware/host.h \
  sim/hardware/kernel-beside.c \
  sim/hardware/kernel-internal.h \
  sim/hardware/kernel-memory.c \
  sim/hardware/kernel-product.c \
  sim/hardware/kernel-time.c \
  sim/hardware/kernel-time.h
