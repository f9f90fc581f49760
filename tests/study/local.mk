# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/study/test-main-job
TESTS += tests/study/test-main-job
tests_study_test_main_job_SOURCES = tests/study/test-main-job.c
tests_study_test_main_job_LDADD = $(TEST_LIBS)
