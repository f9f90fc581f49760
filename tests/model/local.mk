# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/model/test-model
TESTS += tests/model/test-model
tests_model_test_model_SOURCES = tests/model/test-model.c
tests_model_test_model_LDADD = $(TEST_LIBS)
check_PROGRAMS += tests/model/test-loss
TESTS += tests/model/test-loss
tests_model_test_loss_SOURCES = tests/model/test-loss.c
tests_model_test_loss_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/model/test-quantize
TESTS += tests/model/test-quantize
tests_model_test_quantize_SOURCES = tests/model/test-quantize.c
tests_model_test_quantize_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/model/test-liger
TESTS += tests/model/test-liger
tests_model_test_liger_SOURCES = tests/model/test-liger.c
tests_model_test_liger_LDADD = $(TEST_LIBS)
