# SPDX-License-Identifier: MIT
libzerosim_core_la_SOURCES += \
  sim/io/csv-writer.c \
  sim/io/csv-writer.h \
  sim/io/document.c \
  sim/io/document.h \
  sim/io/file.c \
  sim/io/file.h \
  sim/io/hjson-internal.h \
  sim/io/hjson-string.c \
  sim/io/hjson.c \
  sim/io/hjson.h \
  sim/io/json-writer.c \
  sim/io/json-writer.h \
  sim/io/json.c \
  sim/io/schema.c \
  sim/io/schema.h \
  sim/io/yaml.c
