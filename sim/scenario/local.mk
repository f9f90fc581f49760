# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/scenario/ds-config-value.c \
  sim/scenario/ds-config-value.h \
  sim/scenario/ds-keys-foreign.def \
  sim/scenario/ds-keys-other.def \
  sim/scenario/ds-keys-training.def \
  sim/scenario/ds-keys-zero.def \
  sim/scenario/ds-keys.c \
  sim/scenario/ds-keys.h \
  sim/scenario/notes.c \
  sim/scenario/notes.h
