# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/docs/test-baseline
TESTS += tests/docs/test-baseline
tests_docs_test_baseline_SOURCES = tests/docs/test-baseline.c
tests_docs_test_baseline_LDADD = $(TEST_LIBS)
EXTRA_DIST += tests/docs/baseline.yaml
TESTS += tests/docs/folklore.sh
EXTRA_DIST += tests/docs/folklore.sh tests/docs/folklore.json docs/folklore.md docs/folklore.zh.md tests/tools/make-folklore.py
TESTS += tests/docs/cases.sh
EXTRA_DIST += tests/docs/cases.sh tests/docs/cases.json docs/cases.md tests/tools/make-cases.py
TESTS += tests/docs/json-names.sh
EXTRA_DIST += tests/docs/json-names.sh tests/docs/json-names.py docs/json.md
TESTS += tests/docs/commands.sh
EXTRA_DIST += tests/docs/commands.sh tests/docs/commands.awk tests/docs/README.md

# The pages that are written from running scenarios.
pages: zerosim$(EXEEXT)
	cd $(srcdir) && for page in folklore cases; do \
	  ZEROSIM='$(abs_builddir)/zerosim$(EXEEXT)' ZEROSIM_DATADIR='$(abs_srcdir)' PYTHONDONTWRITEBYTECODE=1 \
	  python3 tests/tools/make-$$page.py || exit 1; \
	done
.PHONY: pages
