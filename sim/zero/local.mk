# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/zero/adam.c \
  sim/zero/adam.h \
  sim/zero/config.h \
  sim/zero/load.c \
  sim/zero/load.h \
  sim/zero/loss.c \
  sim/zero/loss.h \
  sim/zero/partition.c \
  sim/zero/partition.h \
  sim/zero/skip.c \
  sim/zero/skip.h \
  sim/zero/torch-ops.c \
  sim/zero/torch-ops.h \
  sim/zero/zero.c \
  sim/zero/zero.h

# stages 0, 1 and 2
libzerosim_core_la_SOURCES += \
  sim/zero/bf16-optimizer.c \
  sim/zero/offload12.c \
  sim/zero/stage0.c \
  sim/zero/stage12-hooks.h \
  sim/zero/stage12-init.c \
  sim/zero/stage12-reduce.c \
  sim/zero/stage12-step.c \
  sim/zero/stage12.c \
  sim/zero/stage12.h \
  sim/zero/wrapper.c \
  sim/zero/wrapper.h

# stage 3
libzerosim_core_la_SOURCES += \
  sim/zero/coordinator.c \
  sim/zero/coordinator.h \
  sim/zero/nvme.c \
  sim/zero/offload3.c \
  sim/zero/stage3-gather.c \
  sim/zero/stage3-gradients.c \
  sim/zero/stage3-internal.h \
  sim/zero/stage3-load.c \
  sim/zero/stage3-step.c \
  sim/zero/stage3-whole.c \
  sim/zero/stage3.c \
  sim/zero/stage3.h \
  sim/zero/zeropp.c
