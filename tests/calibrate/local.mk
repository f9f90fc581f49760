# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/calibrate/test-calibration
TESTS += tests/calibrate/test-calibration
tests_calibrate_test_calibration_SOURCES = tests/calibrate/test-calibration.c $(MEASURED)
tests_calibrate_test_calibration_LDADD = $(TEST_LIBS)
