/* study.h: what the commands that run many configurations share.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/base/error.h"

/* Print ERRORS, and give their exit status: 3 if one is a limit, else 1. */
int        zs_study_fail (const ZsErrors *errors);
/* From now on SIGINT and SIGTERM make this number not zero; the second one ends the process. */
const int *zs_study_catch_signals (void);
