# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/fsdp/test-fsdp2
TESTS += tests/fsdp/test-fsdp2
tests_fsdp_test_fsdp2_SOURCES = tests/fsdp/test-fsdp2.c tests/fsdp/fsdp-run.c tests/fsdp/fsdp-run.h
tests_fsdp_test_fsdp2_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/fsdp/test-fsdp-recorded
TESTS += tests/fsdp/test-fsdp-recorded
tests_fsdp_test_fsdp_recorded_SOURCES = tests/fsdp/test-fsdp-recorded.c tests/fsdp/fsdp-run.c tests/fsdp/fsdp-run.h
tests_fsdp_test_fsdp_recorded_LDADD = $(TEST_LIBS)
