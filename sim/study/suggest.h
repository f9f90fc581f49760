/* suggest.h: the few changes that would help most: each tried by simulating it.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/report/summary.h"
#include "sim/scenario/scenario.h"

/* What the scenario was loaded from, so that it can be loaded again with a change. */
typedef struct {
  const char            *path;
  const ZsScenarioFlags *flags;
  const char *const     *sets;      /* NULL-terminated; may be NULL */
  ZsCatalogue           *catalogue;
} ZsScenarioSource;

typedef struct {
  GArray *changes;     /* ZsChange, best first, at most four */
  int     n_tried;
  char   *said;        /* a sentence about the list; never NULL */
} ZsSuggestions;

/* If RESULT (of SCENARIO) ran out of memory: changes, alone or together, that make it fit, fastest
 * first.  If it fits: changes that make it faster and still fit. */
ZsSuggestions *zs_suggest (const ZsScenarioSource *source, const ZsScenario *scenario,
                           const ZsResult *result) G_GNUC_WARN_UNUSED_RESULT;
/* What SOURCE's run would need on a GPU with room for it (device bytes of the worst rank); 0 if that
 * cannot be told. */
int64_t        zs_needed_bytes (const ZsScenarioSource *source);
void           zs_suggestions_free (ZsSuggestions *suggestions);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsSuggestions, zs_suggestions_free)
