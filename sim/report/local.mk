# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/report/describe.c \
  sim/report/describe.h \
  sim/report/explain-facts.c \
  sim/report/explain-internal.h \
  sim/report/explain-sentences.def \
  sim/report/explain-words.def \
  sim/report/explain.c \
  sim/report/explain.h \
  sim/report/page-data.c \
  sim/report/page-data.h \
  sim/report/page-internal.h \
  sim/report/page-memory.c \
  sim/report/page-pack.c \
  sim/report/page-spans.c \
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
