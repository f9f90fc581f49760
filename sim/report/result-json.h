/* result-json.h: a result as JSON; its names are a contract (docs/json.md).
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/io/json-writer.h"
#include "sim/run/result.h"

typedef struct {
  const char *code, *where, *text;
} ZsResultNote;

/* Write the members of RESULT into the object that is open in WRITER.  NOTES may be NULL. */
void zs_result_write_json (const ZsResult *result, const ZsResultNote *notes, int n_notes,
                           ZsJsonWriter *writer);
