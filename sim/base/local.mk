# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/base/behaviours.def \
  sim/base/digest.h \
  sim/base/error.c \
  sim/base/error.h \
  sim/base/time.h \
  sim/base/units.c \
  sim/base/units.h \
  sim/base/version.c \
  sim/base/version.h \
  sim/base/words.c \
  sim/base/words.h
