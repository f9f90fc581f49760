# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/hardware/test-kernel-time
TESTS += tests/hardware/test-kernel-time
tests_hardware_test_kernel_time_SOURCES = tests/hardware/test-kernel-time.c
tests_hardware_test_kernel_time_LDADD = $(TEST_LIBS)
check_PROGRAMS += tests/hardware/test-layer-times
TESTS += tests/hardware/test-layer-times
tests_hardware_test_layer_times_SOURCES = tests/hardware/test-layer-times.c tests/run/jobs.c tests/run/jobs.h
tests_hardware_test_layer_times_LDADD = $(TEST_LIBS)
TESTS += tests/hardware/derived.sh
EXTRA_DIST += tests/hardware/derived.py tests/hardware/derived.sh
TESTS += tests/hardware/steps.sh
EXTRA_DIST += tests/hardware/steps.py tests/hardware/steps.sh
check_PROGRAMS += tests/hardware/test-kernel-beside
TESTS += tests/hardware/test-kernel-beside
tests_hardware_test_kernel_beside_SOURCES = tests/hardware/test-kernel-beside.c
tests_hardware_test_kernel_beside_LDADD = $(TEST_LIBS)
