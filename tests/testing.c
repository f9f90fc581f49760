/* testing.c: a CUnit suite as TAP.  SPDX-License-Identifier: MIT */
#include "tests/testing.h"

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

int
testing_main (const char *suite_name, const CU_TestInfo *tests)
{
  int n_tests = 0;
  CU_pSuite suite;

  setvbuf (stdout, NULL, _IOLBF, 0);
  if (CU_initialize_registry () != CUE_SUCCESS)
    return 99;
  suite = CU_add_suite (suite_name, NULL, NULL);
  for (const CU_TestInfo *info = tests; info->pName != NULL; info++)
    n_tests += CU_add_test (suite, info->pName, info->pTestFunc) != NULL;
  printf ("1..%d\n", n_tests);

  int number = 0;
  for (CU_pTest test = suite->pTest; test != NULL; test = test->pNext) {

    CU_run_test (suite, test);
    bool failed = CU_get_number_of_failure_records () > 0;
    for (CU_pFailureRecord record = CU_get_failure_list (); record != NULL;
         record = record->pNext)
      printf ("# %s:%u: %s\n", record->strFileName, record->uiLineNumber,
              record->strCondition != NULL ? record->strCondition : "");
    printf ("%s %d - %s: %s\n", failed ? "not ok" : "ok", ++number, suite_name, test->pName);
  }
  CU_cleanup_registry ();
  return 0;
}

char *
testing_source_path (const char *relative)
{
  const char *top = getenv ("top_srcdir");

  return g_build_filename (top != NULL ? top : ".", relative, NULL);
}
