# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/fsdp/config.h
