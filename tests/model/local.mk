# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/model/test-model
TESTS += tests/model/test-model
tests_model_test_model_SOURCES = tests/model/test-model.c
tests_model_test_model_LDADD = $(TEST_LIBS)
