# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/fsdp/adapters.c \
  sim/fsdp/adapters.h \
  sim/fsdp/config.h \
  sim/fsdp/fsdp.c \
  sim/fsdp/fsdp.h \
  sim/fsdp/fsdp1-internal.h \
  sim/fsdp/fsdp1-whole.c \
  sim/fsdp/fsdp1.c \
  sim/fsdp/fsdp1.h \
  sim/fsdp/fsdp2-gather.c \
  sim/fsdp/fsdp2-internal.h \
  sim/fsdp/fsdp2-reduce.c \
  sim/fsdp/fsdp2.c \
  sim/fsdp/fsdp2.h \
  sim/fsdp/step.c \
  sim/fsdp/unit.c \
  sim/fsdp/unit.h
