# SPDX-License-Identifier: MIT
# Programs that hold plans against recordings; built by make check.
check_LTLIBRARIES += libtesttools.la
libtesttools_la_SOURCES = tests/tools/history.c tests/tools/history.h tests/tools/memory-table.c \
  tests/tools/memory-table.h tests/tools/more.c tests/tools/more.h tests/tools/plan-memory.c \
  tests/tools/plan-memory.h tests/tools/training.c tests/tools/training.h
TOOL_LIBS = libtesttools.la $(TEST_LIBS) $(ZLIB_LIBS) $(JANSSON_LIBS)

check_PROGRAMS += tests/tools/compare-plan
tests_tools_compare_plan_SOURCES = tests/tools/compare-plan.c
tests_tools_compare_plan_LDADD = $(TOOL_LIBS)

check_PROGRAMS += tests/tools/test-agreement
TESTS += tests/tools/test-agreement
tests_tools_test_agreement_SOURCES = tests/tools/test-agreement.c
tests_tools_test_agreement_LDADD = $(TOOL_LIBS)

check_PROGRAMS += tests/tools/test-lengths
TESTS += tests/tools/test-lengths
tests_tools_test_lengths_SOURCES = tests/tools/test-lengths.c
tests_tools_test_lengths_LDADD = $(TOOL_LIBS)

check_PROGRAMS += tests/tools/compare-memory
tests_tools_compare_memory_SOURCES = tests/tools/compare-memory.c
tests_tools_compare_memory_LDADD = $(TOOL_LIBS)

check_PROGRAMS += tests/tools/compare-more
tests_tools_compare_more_SOURCES = tests/tools/compare-more.c
tests_tools_compare_more_LDADD = $(TOOL_LIBS)
