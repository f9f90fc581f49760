# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/scenario/catalogue.c \
  sim/scenario/catalogue.h \
  sim/scenario/ds-config-auto.c \
  sim/scenario/ds-config-batch.c \
  sim/scenario/ds-config-fill.c \
  sim/scenario/ds-config-internal.h \
  sim/scenario/ds-config-optimizer.c \
  sim/scenario/ds-config-rules.c \
  sim/scenario/ds-config-value.c \
  sim/scenario/ds-config-value.h \
  sim/scenario/ds-config-walk.c \
  sim/scenario/ds-config.c \
  sim/scenario/ds-config.h \
  sim/scenario/ds-keys-foreign.def \
  sim/scenario/ds-keys-other.def \
  sim/scenario/ds-keys-training.def \
  sim/scenario/ds-keys-zero.def \
  sim/scenario/ds-keys.c \
  sim/scenario/ds-keys.h \
  sim/scenario/hf-config.c \
  sim/scenario/hf-config.h \
  sim/scenario/notes.c \
  sim/scenario/notes.h \
  sim/scenario/scenario-adapters.c \
  sim/scenario/scenario-cluster.c \
  sim/scenario/scenario-document.c \
  sim/scenario/scenario-import.c \
  sim/scenario/scenario-internal.h \
  sim/scenario/scenario-measured.c \
  sim/scenario/scenario-model.c \
  sim/scenario/scenario-topology.c \
  sim/scenario/scenario-training.c \
  sim/scenario/scenario.c \
  sim/scenario/scenario.h \
  sim/scenario/simulate.c \
  sim/scenario/simulate.h
