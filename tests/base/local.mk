# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/base/test-units
TESTS += tests/base/test-units
tests_base_test_units_SOURCES = tests/base/test-units.c
tests_base_test_units_LDADD = $(TEST_LIBS)
