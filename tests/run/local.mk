# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/run/test-fold tests/run/test-random tests/run/test-repeat tests/run/test-run tests/run/test-training
TESTS += tests/run/test-fold tests/run/test-random tests/run/test-repeat tests/run/test-run tests/run/test-training
tests_run_test_fold_SOURCES = tests/run/test-fold.c tests/run/fixture.c tests/run/fixture.h
tests_run_test_fold_LDADD = $(TEST_LIBS)
tests_run_test_random_SOURCES = tests/run/test-random.c tests/run/jobs.c tests/run/jobs.h
tests_run_test_random_LDADD = $(TEST_LIBS)
tests_run_test_repeat_SOURCES = tests/run/test-repeat.c tests/run/jobs.c tests/run/jobs.h
tests_run_test_repeat_LDADD = $(TEST_LIBS)
tests_run_test_run_SOURCES = tests/run/test-run.c tests/run/fixture.c tests/run/fixture.h
tests_run_test_run_LDADD = $(TEST_LIBS)
tests_run_test_training_SOURCES = tests/run/test-training.c tests/run/jobs.c tests/run/jobs.h
tests_run_test_training_LDADD = $(TEST_LIBS)
