# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/scenario/notes.c \
  sim/scenario/notes.h
