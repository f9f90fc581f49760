# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/engine/earliest.c \
  sim/engine/earliest.h \
  sim/engine/event-queue.c \
  sim/engine/event-queue.h \
  sim/engine/flow.c \
  sim/engine/flow.h \
  sim/engine/gate.h \
  sim/engine/max-min.c \
  sim/engine/max-min.h
