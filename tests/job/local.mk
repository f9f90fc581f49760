# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/job/test-lengths
TESTS += tests/job/test-lengths
tests_job_test_lengths_SOURCES = tests/job/test-lengths.c
tests_job_test_lengths_LDADD = $(TEST_LIBS)
