/* critical.c: which spans made a step as long as it is.
 * SPDX-License-Identifier: MIT
 *
 * From the end of the step backwards: what ran last; then what ended exactly where that began (times
 * are whole picoseconds, so equal means that one released the other); then what ended where that
 * began, and so on.  Among several the one of the same track is taken, then collectives, copies and
 * tasks, then kernels, then the host.  Where nothing ended just then the host was at work between
 * spans (a launch), and the walk goes on at the last end before.
 */
#include "config.h"

#include "sim/run/world.h"

typedef struct {
  ZsTime  end;
  guint   span;
} End;

static int
by_end (const void *a, const void *b)
{
  const End *x = a, *y = b;

  if (x->end != y->end)
    return x->end < y->end ? -1 : 1;
  return x->span < y->span ? -1 : x->span > y->span;
}

static int
preference (const ZsSpan *span, uint8_t track)
{
  return span->track == track ? 3 : span->track >= ZS_TRACK_COLLECTIVE ? 2
         : span->track >= ZS_TRACK_STREAM ? 1 : 0;
}

void
zs_critical_path (GArray *spans, int32_t rank, ZsTime start, ZsTime end)
{
  g_autofree End *ends = g_new (End, spans->len + 1);
  int64_t n = 0;
  ZsTime at = end;
  uint8_t track = ZS_TRACK_STREAM + ZS_STREAM_COMPUTE;

  for (guint s = 0; s < spans->len; s++) {
    const ZsSpan *span = &g_array_index (spans, ZsSpan, s);

    if (span->rank == rank && span->end > start && span->end <= end && span->end > span->start
        && span->kind != ZS_OP_HOST_WAIT_EVENT && span->track != ZS_TRACK_WAIT)
      ends[n++] = (End) { .end = span->end, .span = s };
  }
  qsort (ends, (size_t) n, sizeof *ends, by_end);
  while (n > 0) {
    /* the last that ended no later than AT, and all that ended with it */
    while (n > 0 && ends[n - 1].end > at)
      n--;
    if (n == 0)
      break;
    int64_t best = n - 1;

    for (int64_t e = n - 1; e >= 0 && ends[e].end == ends[n - 1].end; e--)
      if (preference (&g_array_index (spans, ZsSpan, ends[e].span), track)
          > preference (&g_array_index (spans, ZsSpan, ends[best].span), track))
        best = e;
    ZsSpan *span = &g_array_index (spans, ZsSpan, ends[best].span);

    span->critical = true;
    track = span->track;
    at = span->start;
  }
}
