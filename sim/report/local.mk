# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/report/describe.c \
  sim/report/describe.h \
  sim/report/result-json.c \
  sim/report/result-json.h \
  sim/report/snapshot.c \
  sim/report/snapshot.h \
  sim/report/summary.c \
  sim/report/summary.h \
  sim/report/text.c \
  sim/report/text.h \
  sim/report/trace.c \
  sim/report/trace.h
