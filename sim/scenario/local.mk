# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/scenario/catalogue.c \
  sim/scenario/catalogue.h \
  sim/scenario/hf-config.c \
  sim/scenario/hf-config.h \
  sim/scenario/notes.c \
  sim/scenario/notes.h
