# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/memory/test-replay
TESTS += tests/memory/test-replay
tests_memory_test_replay_SOURCES = tests/memory/test-replay.c
tests_memory_test_replay_LDADD = $(TEST_LIBS) $(ZLIB_LIBS)

check_PROGRAMS += tests/memory/test-memory
TESTS += tests/memory/test-memory
tests_memory_test_memory_SOURCES = tests/memory/test-memory.c
tests_memory_test_memory_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/memory/test-caching-allocator
TESTS += tests/memory/test-caching-allocator
tests_memory_test_caching_allocator_SOURCES = tests/memory/test-caching-allocator.c
tests_memory_test_caching_allocator_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/memory/test-snapshot
TESTS += tests/memory/test-snapshot
tests_memory_test_snapshot_SOURCES = tests/memory/test-snapshot.c
tests_memory_test_snapshot_LDADD = $(TEST_LIBS)
EXTRA_DIST += tests/memory/snapshot.py

check_PROGRAMS += tests/memory/test-placement
TESTS += tests/memory/test-placement
tests_memory_test_placement_SOURCES = tests/memory/test-placement.c
tests_memory_test_placement_LDADD = $(TEST_LIBS) $(ZLIB_LIBS)
