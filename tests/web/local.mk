# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/web/test-page
TESTS += tests/web/test-page tests/web/browser.sh tests/web/serve.sh
tests_web_test_page_SOURCES = tests/web/test-page.c
tests_web_test_page_LDADD = $(TEST_LIBS)
EXTRA_DIST += \
  tests/web/browser.py \
  tests/web/browser.sh \
  tests/web/drive-page.py \
  tests/web/press-server.py \
  tests/web/serve.sh \
  tests/web/server.py
