# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/plan/instruction.h \
  sim/plan/kernel.h \
  sim/plan/plan.c \
  sim/plan/plan.h
