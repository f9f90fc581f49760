# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/memory/test-replay
TESTS += tests/memory/test-replay
tests_memory_test_replay_SOURCES = tests/memory/test-replay.c
tests_memory_test_replay_LDADD = $(TEST_LIBS) $(ZLIB_LIBS)
