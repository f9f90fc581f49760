# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/hardware/test-kernel-time
TESTS += tests/hardware/test-kernel-time
tests_hardware_test_kernel_time_SOURCES = tests/hardware/test-kernel-time.c
tests_hardware_test_kernel_time_LDADD = $(TEST_LIBS)
