# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/study/advise-hardware.c \
  sim/study/advise-internal.h \
  sim/study/advise-space.c \
  sim/study/advise-space.h \
  sim/study/advise-write.c \
  sim/study/advise.c \
  sim/study/advise.h \
  sim/study/axis.c \
  sim/study/axis.h \
  sim/study/base.c \
  sim/study/base.h \
  sim/study/columns.c \
  sim/study/columns.h \
  sim/study/compare-text.c \
  sim/study/compare.c \
  sim/study/compare.h \
  sim/study/condition.c \
  sim/study/condition.h \
  sim/study/figure-sweep.c \
  sim/study/figure.c \
  sim/study/figure.h \
  sim/study/parallel.c \
  sim/study/parallel.h \
  sim/study/ready-config.c \
  sim/study/store.c \
  sim/study/store.h \
  sim/study/suggest.c \
  sim/study/suggest-changes.c \
  sim/study/suggest-changes.h \
  sim/study/suggest.h \
  sim/study/sweep-run.c \
  sim/study/sweep-run.h \
  sim/study/sweep.c \
  sim/study/sweep.h \
  sim/study/validate.c \
  sim/study/validate.h
