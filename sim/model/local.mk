# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/model/hooks.h \
  sim/model/model.h \
  sim/model/shape.h
