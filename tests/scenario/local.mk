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
