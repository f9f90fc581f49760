# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/io/test-document tests/io/test-writers
TESTS += tests/io/test-document tests/io/test-writers
tests_io_test_document_SOURCES = tests/io/test-document.c
tests_io_test_document_LDADD = $(TEST_LIBS)
tests_io_test_writers_SOURCES = tests/io/test-writers.c
tests_io_test_writers_LDADD = $(TEST_LIBS)
check_PROGRAMS += tests/io/test-hjson
TESTS += tests/io/test-hjson
tests_io_test_hjson_SOURCES = tests/io/test-hjson.c
tests_io_test_hjson_LDADD = $(TEST_LIBS)
