# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/job/job.h \
  sim/job/lengths.c \
  sim/job/lengths.h \
  sim/job/micro-batch.c \
  sim/job/planner.c \
  sim/job/tensor-share.c
