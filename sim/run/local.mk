# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/run/account.c \
  sim/run/cluster.c \
  sim/run/cluster.h \
  sim/run/critical.c \
  sim/run/fold.c \
  sim/run/gather.c \
  sim/run/host.c \
  sim/run/known.c \
  sim/run/known.h \
  sim/run/lane.c \
  sim/run/machine.h \
  sim/run/memory.c \
  sim/run/repeat.c \
  sim/run/repeat.h \
  sim/run/result.c \
  sim/run/result.h \
  sim/run/run.c \
  sim/run/one-chunk.c \
  sim/run/run.h \
  sim/run/shared.c \
  sim/run/state.c \
  sim/run/step.c \
  sim/run/training.c \
  sim/run/training.h \
  sim/run/world.c \
  sim/run/world.h
