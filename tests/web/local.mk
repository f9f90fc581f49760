# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/web/test-page
TESTS += tests/web/test-page tests/web/browser.sh tests/web/serve.sh tests/web/lessons.sh
tests_web_test_page_SOURCES = tests/web/test-page.c
tests_web_test_page_LDADD = $(TEST_LIBS)
EXTRA_DIST += \
  tests/web/browser.py \
  tests/web/browser.sh \
  tests/web/drive-page.py \
  tests/web/lessons.sh \
  tests/web/press-server.py \
  tests/web/serve.sh \
  tests/web/server.py

# docs/lessons anew, from their sources and from runs of scenarios/lessons
EXTRA_DIST += docs/lessons tests/tools/make-lessons.py
lessons: zerosim$(EXEEXT)
	ZEROSIM='$(abs_top_builddir)/zerosim$(EXEEXT)' ZEROSIM_DATADIR='$(abs_top_srcdir)' python3 $(srcdir)/tests/tools/make-lessons.py
.PHONY: lessons
