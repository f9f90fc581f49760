# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/study/suggest.c \
  sim/study/suggest.h \
  sim/study/validate.c \
  sim/study/validate.h
