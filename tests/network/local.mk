# SPDX-License-Identifier: MIT
NETWORK_FIXTURES = tests/network/fixtures.c tests/network/fixtures.h

check_PROGRAMS += tests/network/test-nccl-search tests/network/test-nccl-tune tests/network/test-topology
TESTS += tests/network/test-nccl-search tests/network/test-nccl-tune tests/network/test-topology
tests_network_test_nccl_search_SOURCES = tests/network/test-nccl-search.c $(NETWORK_FIXTURES)
tests_network_test_nccl_search_LDADD = $(TEST_LIBS)
tests_network_test_nccl_tune_SOURCES = tests/network/test-nccl-tune.c $(NETWORK_FIXTURES)
tests_network_test_nccl_tune_LDADD = $(TEST_LIBS)
tests_network_test_topology_SOURCES = tests/network/test-topology.c $(NETWORK_FIXTURES)
tests_network_test_topology_LDADD = $(TEST_LIBS)
