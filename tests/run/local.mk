# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/run/test-fold tests/run/test-run
TESTS += tests/run/test-fold tests/run/test-run
tests_run_test_fold_SOURCES = tests/run/test-fold.c tests/run/fixture.c tests/run/fixture.h
tests_run_test_fold_LDADD = $(TEST_LIBS)
tests_run_test_run_SOURCES = tests/run/test-run.c tests/run/fixture.c tests/run/fixture.h
tests_run_test_run_LDADD = $(TEST_LIBS)
