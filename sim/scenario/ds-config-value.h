/* ds-config-value.h: one value of a ds_config, read as DeepSpeed's typed sections (pydantic) read
 * it. SPDX-License-Identifier: MIT */
#pragma once

#include "sim/scenario/ds-keys.h"
#include "sim/scenario/notes.h"

typedef struct {
  bool ok;      /* there is a value below, of the key's type */
  bool is_auto; /* the text "auto" (and the key has no such word of its own) */
  bool is_null;
  int64_t integer;  /* of INT, ELEMENTS, BYTES */
  double number;    /* of FLOAT, and of every integer */
  bool truth;       /* of BOOL */
  const char *text; /* of STRING, PATH, NUMBER_OR_WORD; borrowed from the node */

  /* what there is to say about it; CODE NULL: nothing */
  ZsNoteSeverity severity;
  const char *code;
  char *problem;
  char *instead; /* what to write, or NULL */
} ZsDsValue;

/* Reads NODE, which stands at KEY, as a DeepSpeed of VERSIONS would.  Clear *RET_VALUE afterwards.
 */
void zs_ds_value_read (const ZsDsKey *key, const ZsNode *node, const ZsVersions *versions,
                       ZsDsValue *ret_value);
void zs_ds_value_clear (ZsDsValue *value);
/* "a whole number", "true or false", "none, cpu or nvme": what KEY takes; free with g_free. */
char *zs_ds_value_expected (const ZsDsKey *key);
