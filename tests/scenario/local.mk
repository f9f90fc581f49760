# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/scenario/test-models
TESTS += tests/scenario/test-models
tests_scenario_test_models_SOURCES = tests/scenario/test-models.c
tests_scenario_test_models_LDADD = $(TEST_LIBS)

EXTRA_DIST += tests/tools/make-models.py
check_PROGRAMS += tests/scenario/test-ds-keys
TESTS += tests/scenario/test-ds-keys
tests_scenario_test_ds_keys_SOURCES = tests/scenario/test-ds-keys.c
tests_scenario_test_ds_keys_LDADD = $(TEST_LIBS)
check_PROGRAMS += tests/scenario/test-ds-config
TESTS += tests/scenario/test-ds-config
tests_scenario_test_ds_config_SOURCES = tests/scenario/test-ds-config.c
tests_scenario_test_ds_config_LDADD = $(TEST_LIBS)
check_PROGRAMS += tests/scenario/test-scenario tests/scenario/test-bad-input
TESTS += tests/scenario/test-scenario tests/scenario/test-bad-input
tests_scenario_test_scenario_SOURCES = tests/scenario/test-scenario.c
tests_scenario_test_scenario_LDADD = $(TEST_LIBS)
tests_scenario_test_bad_input_SOURCES = tests/scenario/test-bad-input.c
tests_scenario_test_bad_input_LDADD = $(TEST_LIBS)
