# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/scenario/test-ds-keys
TESTS += tests/scenario/test-ds-keys
tests_scenario_test_ds_keys_SOURCES = tests/scenario/test-ds-keys.c
tests_scenario_test_ds_keys_LDADD = $(TEST_LIBS)
