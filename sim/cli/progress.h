/* progress.h: a bar on the terminal for what takes longer than a second.  SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>
#include <stdbool.h>

typedef struct {
  const char *what;        /* static: "cases" */
  bool        shown;       /* stderr is a terminal, and not quiet */
  bool        drawn;
  gint64      start, last; /* monotonic microseconds */
} ZsProgress;

void zs_progress_begin  (ZsProgress *progress, const char *what, bool quiet);
/* SELF is the progress.  Draws at most ten times a second, and only after the first second. */
void zs_progress_update (void *self, int done, int all);
/* Removes the bar. */
void zs_progress_end    (ZsProgress *progress);
