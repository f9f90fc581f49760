# SPDX-License-Identifier: MIT
# All of sim/ is one convenience library; the program and the tests link it.
noinst_LTLIBRARIES += libzerosim-core.la
libzerosim_core_la_SOURCES =
libzerosim_core_la_LIBADD = $(GLIB_LIBS) $(YAML_LIBS) $(JANSSON_LIBS) $(SQLITE_LIBS) \
  $(SMARTCOLS_LIBS) $(MHD_LIBS) $(ZLIB_LIBS) -lm

include sim/base/local.mk
include sim/io/local.mk
include sim/engine/local.mk
include sim/memory/local.mk
include sim/plan/local.mk
include sim/hardware/local.mk
include sim/network/local.mk
include sim/model/local.mk
include sim/zero/local.mk
include sim/fsdp/local.mk
include sim/job/local.mk
include sim/run/local.mk
include sim/scenario/local.mk
include sim/report/local.mk
include sim/study/local.mk
include sim/check/local.mk
include sim/calibrate/local.mk
include sim/web/local.mk
include sim/cli/local.mk
