# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/memory/alloc-conf.h \
  sim/memory/caching-allocator.h \
  sim/memory/history.h \
  sim/memory/host-allocator.h \
  sim/memory/oom-message.h \
  sim/memory/snapshot-writer.h
