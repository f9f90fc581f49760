/* progress.c: a bar on the terminal.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#define BAR 30

void
zs_progress_begin (ZsProgress *progress, const char *what, bool quiet)
{
  *progress = (ZsProgress) { .what = what, .shown = !quiet && isatty (STDERR_FILENO),
                             .start = g_get_monotonic_time () };
}

void
zs_progress_update (void *self, int done, int all)
{
  ZsProgress *progress = self;
  gint64 now = g_get_monotonic_time ();

  if (!progress->shown || now - progress->start < G_USEC_PER_SEC
      || now - progress->last < G_USEC_PER_SEC / 10 || all <= 0)
    return;
  double seconds = (double) (now - progress->start) / G_USEC_PER_SEC;
  double rate = done / seconds;
  int filled = (int) ((gint64) done * BAR / all);

  progress->last = now;
  progress->drawn = true;
  fprintf (stderr, "\r[");
  for (int i = 0; i < BAR; i++)
    fputc (i < filled ? '#' : '.', stderr);
  fprintf (stderr, "] %d/%d %s, %.1f/s, %.0f s left ", done, all, progress->what, rate,
           rate > 0 ? (all - done) / rate : 0.0);
  fflush (stderr);
}

void
zs_progress_end (ZsProgress *progress)
{
  if (progress->drawn)
    fputs ("\r\033[K", stderr);
  fflush (stderr);
}
