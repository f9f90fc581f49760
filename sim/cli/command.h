/* command.h: a command of the program: one file command-NAME.c and one row in command-table.c.
 * SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>
#include <stdbool.h>

#include "sim/cli/options.h"

/* Exit statuses (in the manual page). */
enum { ZS_EXIT_DONE = 0, ZS_EXIT_INPUT = 1, ZS_EXIT_USAGE = 2, ZS_EXIT_LIMIT = 3 };

typedef struct {
  const char  *name;
  const char  *arguments;     /* "SCENARIO" */
  const char  *summary;       /* one line */
  unsigned int options;       /* groups of options.h */
  int          min_arguments, max_arguments;   /* -1: any number */
  /* ARGUMENTS are those after the command, NULL-terminated.  Returns an exit status; messages have
   * been printed. */
  int        (*run) (const ZsOptions *options, char **arguments);
} ZsCommand;

extern const ZsCommand ZS_COMMANDS[];
extern const int ZS_N_COMMANDS;

/* Print ERROR (a message of its own, or "zerosim: ...") and give its exit status. */
int zs_command_fail (const GError *error);
