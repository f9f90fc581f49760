# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/web/test-page
TESTS += tests/web/test-page tests/web/browser.sh
tests_web_test_page_SOURCES = tests/web/test-page.c
tests_web_test_page_LDADD = $(TEST_LIBS)
EXTRA_DIST += tests/web/browser.sh tests/web/browser.py tests/web/drive-page.py
