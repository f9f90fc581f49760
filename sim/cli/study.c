/* study.c: what the commands that run many configurations share.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/cli/study.h"

#include <signal.h>
#include <stdio.h>

#include "sim/cli/command.h"

/* A signal can reach nothing else. */
static int interrupted;

static void
on_signal (int number)
{
  (void) number;
  g_atomic_int_set (&interrupted, 1);
}

const int *
zs_study_catch_signals (void)
{
  struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int) SA_RESETHAND };

  sigemptyset (&action.sa_mask);
  sigaction (SIGINT, &action, NULL);
  sigaction (SIGTERM, &action, NULL);
  return &interrupted;
}

int
zs_study_fail (const ZsErrors *errors)
{
  bool limit = false;

  for (int i = 0; i < MIN (zs_errors_count (errors), ZS_MAX_ERRORS); i++)
    limit |= zs_errors_get (errors, i)->code == ZS_ERROR_LIMIT;
  zs_errors_print (errors, "", stderr);
  return limit ? ZS_EXIT_LIMIT : ZS_EXIT_INPUT;
}
