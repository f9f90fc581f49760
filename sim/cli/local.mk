# SPDX-License-Identifier: MIT
bin_PROGRAMS += zerosim
zerosim_SOURCES = \
  sim/cli/command-calibrate.c \
  sim/cli/command-advise.c \
  sim/cli/command-catalogue.c \
  sim/cli/command-check.c \
  sim/cli/command-collective.c \
  sim/cli/command-compare.c \
  sim/cli/command-explain.c \
  sim/cli/command-list.h \
  sim/cli/command-plot.c \
  sim/cli/command-replay.c \
  sim/cli/command-report.c \
  sim/cli/command-run.c \
  sim/cli/command-serve.c \
  sim/cli/command-sweep.c \
  sim/cli/command-table.c \
  sim/cli/command-topology.c \
  sim/cli/command-validate.c \
  sim/cli/command.h \
  sim/cli/load.c \
  sim/cli/load.h \
  sim/cli/main.c \
  sim/cli/options.c \
  sim/cli/options.h \
  sim/cli/progress.c \
  sim/cli/progress.h \
  sim/cli/study.c \
  sim/cli/study.h
zerosim_LDADD = libzerosim-core.la
