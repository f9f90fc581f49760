# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/memory/alloc-conf.c \
  sim/memory/alloc-conf.h \
  sim/memory/allocator-private.h \
  sim/memory/block.h \
  sim/memory/caching-allocator.c \
  sim/memory/caching-allocator.h \
  sim/memory/expandable.c \
  sim/memory/free-set.c \
  sim/memory/free-set.h \
  sim/memory/history-private.h \
  sim/memory/history.c \
  sim/memory/history.h \
  sim/memory/pickle.c \
  sim/memory/pickle.h \
  sim/memory/placement.c \
  sim/memory/placement.h \
  sim/memory/replay.c \
  sim/memory/replay.h \
  sim/memory/host-allocator.c \
  sim/memory/host-allocator.h \
  sim/memory/inspect.c \
  sim/memory/oom-message.c \
  sim/memory/oom-message.h \
  sim/memory/segments.c \
  sim/memory/snapshot-reader.c \
  sim/memory/snapshot-writer.c \
  sim/memory/snapshot-writer.h
