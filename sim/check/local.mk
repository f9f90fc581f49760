# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/check/accelerate.c \
  sim/check/arguments.c \
  sim/check/check-internal.h \
  sim/check/check.c \
  sim/check/check.h \
  sim/check/ds.c \
  sim/check/effect.c \
  sim/check/findings.c \
  sim/check/findings.def \
  sim/check/fix.c \
  sim/check/output.c \
  sim/check/rules-buckets.c \
  sim/check/rules-job.c \
  sim/check/rules-offload.c \
  sim/check/rules-optimizer.c \
  sim/check/scenario.c
