/* json.c: JSON text to a document.  SPDX-License-Identifier: MIT
 *
 * jansson is the gate: what it refuses is no JSON.  It keeps no places, so what it lets through is
 * read again as YAML, of which JSON is a part, and every value has its line and column. */
#include "config.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "sim/io/document.h"

/* JSON writes characters beyond U+FFFF as two escapes, YAML as one of eight digits: a copy of TEXT
 * that has those, or NULL if there are none.  (Columns after one are smaller by two.) */
static char *
join_surrogates (const char *text, gsize *length)
{
  GString *joined = NULL;

  for (gsize i = 0; i < *length; i++) {
    unsigned int high, low;

    if (text[i] == '\\' && i + 11 < *length && text[i + 1] == 'u'
        && sscanf (text + i + 2, "%4x\\u%4x", &high, &low) == 2 && high >= 0xd800 && high < 0xdc00
        && low >= 0xdc00 && low < 0xe000) {
      if (joined == NULL)
        joined = g_string_new_len (text, (gssize)i);
      g_string_append_printf (joined, "\\U%08x",
                              0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
      i += 11;
    } else {
      if (joined != NULL)
        g_string_append_c (joined, text[i]);
      if (text[i] == '\\' && i + 1 < *length) { /* "\\\\u" is no escape of a character */
        i++;
        if (joined != NULL)
          g_string_append_c (joined, text[i]);
      }
    }
  }
  if (joined == NULL)
    return NULL;
  *length = joined->len;
  return g_string_free (joined, FALSE);
}

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

  g_autofree char *paired = join_surrogates (text, &length);

  return zs_yaml_parse (file, paired != NULL ? paired : text, length, error);
}
