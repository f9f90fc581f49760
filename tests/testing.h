/* testing.h: runs one CUnit suite and prints it as TAP. */
#pragma once

#include <CUnit/CUnit.h>

/* The whole of a test program's main: a line "ok N - NAME" or "not ok N - NAME" per test, each
 * failed assertion as a comment.  Returns 0 once the report is complete. */
int testing_main (const char *suite_name, const CU_TestInfo *tests);
/* Path of a file below the source tree's top; free with g_free. */
char *testing_source_path (const char *relative);
