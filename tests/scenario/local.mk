# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/scenario/test-models
TESTS += tests/scenario/test-models
tests_scenario_test_models_SOURCES = tests/scenario/test-models.c
tests_scenario_test_models_LDADD = $(TEST_LIBS)

EXTRA_DIST += tests/tools/make-models.py
