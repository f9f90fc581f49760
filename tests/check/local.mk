# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/check/test-mistakes
TESTS += tests/check/test-mistakes
tests_check_test_mistakes_SOURCES = tests/check/checking.c tests/check/checking.h \
  tests/check/test-mistakes.c
tests_check_test_mistakes_LDADD = $(TEST_LIBS)
check_PROGRAMS += tests/check/test-check
TESTS += tests/check/test-check
tests_check_test_check_SOURCES = tests/check/checking.c tests/check/checking.h \
  tests/check/test-check.c
tests_check_test_check_LDADD = $(TEST_LIBS) $(JANSSON_LIBS)
