/* one-chunk.c: a plan that is given whole.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/run/run.h"

typedef struct {
  ZsPlan *plan;
  bool    given;
} Source;

static const ZsPlan *
next_chunk (void *self)
{
  Source *source = self;
  bool given = source->given;

  source->given = true;
  return given ? NULL : source->plan;
}

static void
free_source (void *self)
{
  Source *source = self;

  zs_plan_free (source->plan);
  g_free (source);
}

ZsPlanSource
zs_plan_source_whole (ZsPlan *plan)
{
  Source *source = g_new0 (Source, 1);

  source->plan = plan;
  return (ZsPlanSource) { .self = source, .next = next_chunk, .free = free_source };
}
