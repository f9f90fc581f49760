/* axis.h: one direction of a sweep: a setting (or several that go together) and its values.
 * SPDX-License-Identifier: MIT
 *
 * PATH is what `--set` takes; "a+b" sets both to the same value.  A value is text as `--set` takes it; a
 * mapping or list of a sweep file is written in YAML's flow style.  "from:to:step" and "from:to:logN" (N
 * values, evenly spaced in the logarithm, whole numbers where both ends are) stand for several. */
#pragma once

#include <glib.h>
#include <stdbool.h>

#include "sim/io/document.h"
#include "sim/study/condition.h"

#define ZS_AXIS_MAX_VALUES 10000

typedef struct {
  char       *path;        /* as written: the column of the CSV */
  char      **full;        /* the full paths; NULL-terminated */
  GPtrArray  *values;      /* char * */
  char       *when_text;   /* the axis is used where this holds, else left alone; may be NULL */
  ZsCondition *when;
  char       *where;       /* "sweep.yaml:7:3" or "--vary" */
} ZsAxis;

/* From "PATH=VALUES" of the command line: a list a,b,c of values and ranges. */
ZsAxis *zs_axis_parse (const char *text, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/* From KEY: VALUE of a sweep file: a list, a range, or {values: ..., when: ...}. */
ZsAxis *zs_axis_read  (const ZsNode *key, const ZsNode *value,
                       ZsErrors *errors) G_GNUC_WARN_UNUSED_RESULT;
void    zs_axis_free  (ZsAxis *axis);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsAxis, zs_axis_free)
