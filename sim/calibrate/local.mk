# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/calibrate/bandwidth-log.c \
  sim/calibrate/bandwidth-log.h \
  sim/calibrate/calibration.c \
  sim/calibrate/calibration.h \
  sim/calibrate/fit.c \
  sim/calibrate/fit.h \
  sim/calibrate/machine-yaml.c
