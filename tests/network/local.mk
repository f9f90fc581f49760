# SPDX-License-Identifier: MIT
NETWORK_FIXTURES = tests/network/fixtures.c tests/network/fixtures.h

check_PROGRAMS += tests/network/collectives-measured tests/network/test-contention tests/network/test-nccl-comm tests/network/test-nccl-log \
  tests/network/test-nccl-search tests/network/test-nccl-tune tests/network/test-topology
TESTS += tests/network/collectives-measured.sh tests/network/links-page.sh tests/network/test-contention tests/network/test-nccl-comm tests/network/test-nccl-log \
  tests/network/test-nccl-search tests/network/test-nccl-tune tests/network/test-topology
EXTRA_DIST += tests/network/collectives-measured.sh tests/network/fit-collectives.py tests/network/links-page.sh \
  tests/network/make-links-page.py docs/links-measured.md
# Not a test: prints the table of published measurements (see collectives-measured.sh).
MEASURED = tests/network/measured.c tests/network/measured.h $(NETWORK_FIXTURES)
tests_network_collectives_measured_SOURCES = tests/network/collectives-measured.c $(MEASURED)
tests_network_collectives_measured_LDADD = $(TEST_LIBS)
tests_network_test_nccl_comm_SOURCES = tests/network/test-nccl-comm.c $(NETWORK_FIXTURES)
tests_network_test_nccl_comm_LDADD = $(TEST_LIBS)
tests_network_test_nccl_log_SOURCES = tests/network/test-nccl-log.c
tests_network_test_nccl_log_LDADD = $(TEST_LIBS)
tests_network_test_nccl_search_SOURCES = tests/network/test-nccl-search.c $(NETWORK_FIXTURES)
tests_network_test_nccl_search_LDADD = $(TEST_LIBS)
tests_network_test_nccl_tune_SOURCES = tests/network/test-nccl-tune.c $(NETWORK_FIXTURES)
tests_network_test_nccl_tune_LDADD = $(TEST_LIBS)
tests_network_test_topology_SOURCES = tests/network/test-topology.c $(NETWORK_FIXTURES)
tests_network_test_topology_LDADD = $(TEST_LIBS)
tests_network_test_contention_SOURCES = tests/network/test-contention.c tests/run/fixture.c tests/run/fixture.h \
  $(NETWORK_FIXTURES)
tests_network_test_contention_LDADD = $(TEST_LIBS)

# docs/links-measured.md anew: what is predicted for every published system.
links-page: tests/network/collectives-measured$(EXEEXT)
	PYTHONDONTWRITEBYTECODE=1 python3 $(srcdir)/tests/network/make-links-page.py tests/network/collectives-measured$(EXEEXT)
.PHONY: links-page
