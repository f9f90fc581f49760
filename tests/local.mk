# SPDX-License-Identifier: MIT
# tests/ mirrors sim/.  TEST_LIBS is what a CUnit program links.
check_LTLIBRARIES += libtesting.la
libtesting_la_SOURCES = tests/testing.c tests/testing.h
libtesting_la_CFLAGS = $(AM_CFLAGS) $(CUNIT_CFLAGS)
libtesting_la_LIBADD = $(CUNIT_LIBS) $(GLIB_LIBS)
TEST_LIBS = libtesting.la libzerosim-core.la
EXTRA_DIST += tests/data tests/golden tests/published

TESTS += tests/style/layers.sh
EXTRA_DIST += tests/style/layers.sh

include tests/tools/local.mk
include tests/base/local.mk
include tests/io/local.mk
include tests/engine/local.mk
include tests/hardware/local.mk
include tests/network/local.mk
include tests/memory/local.mk
include tests/plan/local.mk
include tests/model/local.mk
include tests/zero/local.mk
include tests/fsdp/local.mk
include tests/job/local.mk
include tests/run/local.mk
include tests/scenario/local.mk
include tests/report/local.mk
include tests/study/local.mk
include tests/check/local.mk
include tests/calibrate/local.mk
include tests/web/local.mk
include tests/cli/local.mk
include tests/docs/local.mk
include tests/bench/local.mk
include tests/measure/local.mk
