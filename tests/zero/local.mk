# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/zero/test-partition
TESTS += tests/zero/test-partition
tests_zero_test_partition_SOURCES = tests/zero/test-partition.c
tests_zero_test_partition_LDADD = $(TEST_LIBS)

# stage 3
check_PROGRAMS += tests/zero/test-coordinator
TESTS += tests/zero/test-coordinator
tests_zero_test_coordinator_SOURCES = tests/zero/test-coordinator.c
tests_zero_test_coordinator_LDADD = $(TEST_LIBS)
check_PROGRAMS += tests/zero/test-stage12
TESTS += tests/zero/test-stage12
tests_zero_test_stage12_SOURCES = tests/zero/test-stage12.c \
  tests/zero/ledger.c tests/zero/ledger.h tests/zero/sized-model.c tests/zero/sized-model.h
tests_zero_test_stage12_LDADD = $(TEST_LIBS)
check_PROGRAMS += tests/zero/test-measured12
TESTS += tests/zero/test-measured12
tests_zero_test_measured12_SOURCES = tests/zero/test-measured12.c
tests_zero_test_measured12_LDADD = $(TOOL_LIBS)

check_PROGRAMS += tests/zero/test-stage3
TESTS += tests/zero/test-stage3
tests_zero_test_stage3_SOURCES = tests/zero/test-stage3.c
tests_zero_test_stage3_LDADD = $(TOOL_LIBS)
