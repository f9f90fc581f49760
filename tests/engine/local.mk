# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/engine/test-event-queue tests/engine/test-flow tests/engine/test-max-min
TESTS += tests/engine/test-event-queue tests/engine/test-flow tests/engine/test-max-min
tests_engine_test_event_queue_SOURCES = tests/engine/test-event-queue.c
tests_engine_test_event_queue_LDADD = $(TEST_LIBS)
tests_engine_test_flow_SOURCES = tests/engine/test-flow.c
tests_engine_test_flow_LDADD = $(TEST_LIBS)
tests_engine_test_max_min_SOURCES = tests/engine/test-max-min.c
tests_engine_test_max_min_LDADD = $(TEST_LIBS)
