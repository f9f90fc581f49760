/* json.c: JSON text to a document.  SPDX-License-Identifier: MIT
 *
 * jansson is the gate: what it refuses is no JSON.  It keeps no places, so what it lets through is read
 * again as YAML, of which JSON is a part, and every value has its line and column. */
#include "config.h"

#include <jansson.h>
#include <string.h>

#include "sim/io/document.h"

ZsDocument *
zs_json_parse (const char *file, const char *text, gsize length, GError **error)
{
  json_error_t problem;

  if (!zs_document_check_text (file, &text, &length, error))
    return NULL;

  json_t *value = json_loadb (text, length, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &problem);

  if (value == NULL) {
    char *near = strstr (problem.text, " near ");

    if (near != NULL && strlen (near) > 60)
      *near = '\0';
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s:%d:%d: not valid JSON: %s", file,
                 MAX (problem.line, 1), MAX (problem.column, 1), problem.text);
    return NULL;
  }
  json_decref (value);

  return zs_yaml_parse (file, text, length, error);
}
