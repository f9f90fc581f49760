# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/base/behaviours.def \
  sim/base/time.h \
  sim/base/version.c \
  sim/base/version.h
