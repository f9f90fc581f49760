/* compare.h: a few variants side by side, and which to choose.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/io/json-writer.h"
#include "sim/report/text.h"
#include "sim/scenario/scenario.h"

#define ZS_COMPARE_MAX_VARIANTS 64

typedef struct {
  char       *name;        /* "stage=2", or the scenario's name */
  ZsScenario *scenario;    /* NULL: it could not be read or run */
  ZsResult   *result;      /* NULL with it */
  char       *problem;     /* then: why */
} ZsVariant;

typedef struct {
  GPtrArray *variants;     /* ZsVariant *, in the order they were given */
  GPtrArray *differing;    /* char *: paths of settings that differ between those that could be run */
  char      *recommendation;   /* one sentence, with its reason and its price */
} ZsCompare;

/* Runs each of PATHS (NULL-terminated) with each combination of AXES ("PATH=VALUES"; NULL-terminated, may be
 * NULL) on JOBS threads.  NULL and ERRORS if a file cannot be read or an axis is wrong; a combination that
 * cannot be run is a variant with a problem. */
ZsCompare *zs_compare (const char *const *paths, const char *const *axes, const ZsScenarioFlags *flags,
                       const char *const *sets, ZsCatalogue *catalogue, int jobs, const int *stop,
                       ZsErrors *errors) G_GNUC_WARN_UNUSED_RESULT;
void       zs_compare_free (ZsCompare *compare);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsCompare, zs_compare_free)

/* A table: a column a variant where they fit in TEXT's width, else a line each. */
void       zs_compare_write (const ZsCompare *compare, ZsText *text);
/* "variants" and "recommendation" into the object that is open in WRITER. */
void       zs_compare_write_json (const ZsCompare *compare, ZsJsonWriter *writer);
