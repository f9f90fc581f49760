# SPDX-License-Identifier: MIT
# `make bench` says what runs cost.
EXTRA_PROGRAMS += tests/bench/bench-many tests/bench/bench-run
tests_bench_bench_many_SOURCES = tests/bench/bench-many.c tests/run/jobs.c tests/run/jobs.h
tests_bench_bench_many_LDADD = $(TEST_LIBS)
tests_bench_bench_run_SOURCES = tests/bench/bench-run.c tests/run/fixture.c \
  tests/run/fixture.h tests/run/jobs.c tests/run/jobs.h
tests_bench_bench_run_LDADD = $(TEST_LIBS)
CLEANFILES += tests/bench/bench-many$(EXEEXT) tests/bench/bench-run$(EXEEXT)
EXTRA_DIST += tests/bench/sweep.yaml

.PHONY: bench
bench: tests/bench/bench-many$(EXEEXT) tests/bench/bench-run$(EXEEXT)
	$(AM_V_at)top_srcdir=$(top_srcdir) tests/bench/bench-run$(EXEEXT)
	$(AM_V_at)top_srcdir=$(top_srcdir) tests/bench/bench-many$(EXEEXT)
