/* schema.c: mappings to structs.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/io/schema.h"

#include <string.h>

#include "sim/base/units.h"
#include "sim/base/version.h"
#include "sim/base/words.h"

char *
zs_schema_word_list (const char *const *words)
{
  GString *text = g_string_new (NULL);

  for (int i = 0; words[i] != NULL; i++)
    g_string_append_printf (text, "%s%s",
                            i == 0                 ? ""
                            : words[i + 1] == NULL ? " or "
                                                   : ", ",
                            words[i]);
  return g_string_free (text, FALSE);
}

bool
zs_schema_unknown_key (const ZsNode *key, const char *what, const char *const *words,
                       ZsErrors *errors)
{
  g_autofree char *hint = zs_nearest_hint (key->text, words);

  if (*hint == '\0') {
    g_autofree char *list = zs_schema_word_list (words);

    return zs_node_fail (key, errors, "unknown key '%.60s' in %s; known are %s", key->text, what,
                         list);
  }
  return zs_node_fail (key, errors, "unknown key '%.60s' in %s%s", key->text, what, hint);
}

static const char *
limit_text (const ZsField *field, int64_t limit, char *buffer, size_t size)
{
  g_autofree char *text = field->type == ZS_FIELD_BYTES  ? zs_bytes_format (limit)
                          : field->type == ZS_FIELD_RATE ? zs_rate_format (limit)
                          : field->type == ZS_FIELD_TIME
                              ? zs_time_format (limit)
                              : g_strdup_printf ("%" G_GINT64_FORMAT, limit);

  g_strlcpy (buffer, text, size);
  return buffer;
}

static bool
check_range (const ZsNode *node, const ZsField *field, int64_t value, ZsErrors *errors)
{
  char low[48], high[48];

  if (value >= field->min && (field->max == 0 || value <= field->max))
    return true;
  limit_text (field, field->min, low, sizeof low);
  if (field->max == 0)
    return zs_node_fail (node, errors, "'%s' must be at least %s, not '%.40s'", field->key, low,
                         node->text);
  limit_text (field, field->max, high, sizeof high);
  return zs_node_fail (node, errors, "'%s' must be %s to %s, not '%.40s'", field->key, low, high,
                       node->text);
}

static bool
read_word (const ZsNode *node, const ZsField *field, int *ret_value, ZsErrors *errors)
{
  for (int i = 0; field->words[i] != NULL; i++)
    if (g_ascii_strcasecmp (field->words[i], node->text) == 0) {
      *ret_value = field->word_values != NULL ? field->word_values[i] : i;
      return true;
    }

  g_autofree char *list = zs_schema_word_list (field->words);
  g_autofree char *hint = zs_nearest_hint (node->text, field->words);

  return zs_node_fail (node, errors, "'%s' must be %s, not '%.40s'%s", field->key, list, node->text,
                       hint);
}

static bool
wrong_type (const ZsNode *node, const ZsField *field, const char *wanted, ZsErrors *errors)
{
  if (node->kind == ZS_NODE_SCALAR)
    return zs_node_fail (node, errors, "'%s' must be %s, not %s%.40s%s", field->key, wanted,
                         node->quoted ? "the string \"" : "'", node->text,
                         node->quoted ? "\"" : "'");
  return zs_node_fail (node, errors, "'%s' must be %s, not %s", field->key, wanted,
                       zs_node_describe (node));
}

static bool
read_with_unit (const ZsNode *node, const ZsField *field, int64_t *ret_value, ZsErrors *errors)
{
  g_autoptr (GError) error = NULL;
  int64_t value;
  bool ok = field->type == ZS_FIELD_BYTES  ? zs_bytes_parse (node->text, &value, &error)
            : field->type == ZS_FIELD_RATE ? zs_rate_parse (node->text, &value, &error)
                                           : zs_time_parse (node->text, &value, &error);

  if (!ok)
    return zs_node_fail (node, errors, "'%s': %s", field->key, error->message);
  if (!check_range (node, field, value, errors))
    return false;
  *ret_value = value;
  return true;
}

bool
zs_schema_read_field (const ZsNode *node, const ZsField *field, void *dest, ZsErrors *errors)
{
  void *slot = (char *)dest + field->offset;
  int64_t integer;
  double number;

  switch (field->type) {
  case ZS_FIELD_MAPPING:
    if (node->kind != ZS_NODE_MAPPING)
      return wrong_type (node, field, "a mapping", errors);
    *(const ZsNode **)slot = node;
    return true;
  case ZS_FIELD_LIST:
    if (node->kind != ZS_NODE_SEQUENCE)
      return wrong_type (node, field, "a list", errors);
    *(const ZsNode **)slot = node;
    return true;
  case ZS_FIELD_NODE:
    *(const ZsNode **)slot = node;
    return true;
  case ZS_FIELD_IGNORED:
    return true;
  default:
    break;
  }
  if (node->kind != ZS_NODE_SCALAR)
    return wrong_type (node, field, "one value", errors);
  switch (field->type) {
  case ZS_FIELD_INT:
  case ZS_FIELD_INT32:
    if (!zs_node_int (node, &integer))
      return wrong_type (node, field, "a whole number", errors);
    if (!check_range (node, field, integer, errors))
      return false;
    if (field->type == ZS_FIELD_INT) {
      *(int64_t *)slot = integer;
      return true;
    }
    if (integer > G_MAXINT32 || integer < G_MININT32)
      return zs_node_fail (node, errors, "'%s' is too large: '%.40s'", field->key, node->text);
    *(int *)slot = (int)integer;
    return true;
  case ZS_FIELD_BOOL:
    if (!zs_node_bool (node, slot))
      return wrong_type (node, field, "true or false", errors);
    return true;
  case ZS_FIELD_NUMBER:
    if (!zs_node_number (node, &number))
      return wrong_type (node, field, "a number", errors);
    if (number < field->low || (field->high != 0 && number > field->high)) {
      char low[40], high[40];

      g_ascii_formatd (low, sizeof low, "%.6g", field->low);
      g_ascii_formatd (high, sizeof high, "%.6g", field->high);
      return field->high != 0 ? zs_node_fail (node, errors, "'%s' must be %s to %s, not '%.40s'",
                                              field->key, low, high, node->text)
                              : zs_node_fail (node, errors, "'%s' must be at least %s, not '%.40s'",
                                              field->key, low, node->text);
    }
    *(double *)slot = number;
    return true;
  case ZS_FIELD_BYTES:
  case ZS_FIELD_RATE:
  case ZS_FIELD_TIME:
    return read_with_unit (node, field, slot, errors);
  case ZS_FIELD_TEXT:
    if (strlen (node->text) >= field->size)
      return zs_node_fail (node, errors, "'%s' is longer than %d bytes", field->key,
                           (int)field->size - 1);
    g_strlcpy (slot, node->text, field->size);
    return true;
  case ZS_FIELD_STRING:
    *(const char **)slot = node->text;
    return true;
  case ZS_FIELD_WORD:
    return read_word (node, field, slot, errors);
  case ZS_FIELD_VERSION:
    if (!zs_version_parse (node->text, slot))
      return wrong_type (node, field, "a version such as 0.19.5", errors);
    return true;
  default:
    g_assert_not_reached ();
  }
}

bool
zs_schema_read (const ZsNode *node, const char *what, const ZsField *fields, int n_fields,
                void *dest, const ZsNode **given, ZsErrors *errors)
{
  bool ok = true;

  if (given != NULL)
    for (int i = 0; i < n_fields; i++)
      given[i] = NULL;
  if (node->kind != ZS_NODE_MAPPING)
    return zs_node_fail (node, errors, "%s must be a mapping (key: value), not %s", what,
                         zs_node_describe (node));
  for (int k = 0; k < node->n_items; k++) {
    const ZsField *field = NULL;

    for (int i = 0; i < n_fields && field == NULL; i++)
      if (strcmp (fields[i].key, node->keys[k]->text) == 0)
        field = &fields[i];
    if (field == NULL) {
      g_autofree const char **words = g_new0 (const char *, n_fields + 1);

      for (int i = 0; i < n_fields; i++)
        words[i] = fields[i].key;
      ok = zs_schema_unknown_key (node->keys[k], what, words, errors);
    } else if (!zs_node_is_null (node->items[k])) {
      if (!zs_schema_read_field (node->items[k], field, dest, errors))
        ok = false;
      else if (given != NULL)
        given[field - fields] = node->items[k];
    }
  }
  for (int i = 0; i < n_fields; i++) {
    const ZsNode *value = fields[i].required ? zs_node_get (node, fields[i].key) : NULL;

    if (fields[i].required && (value == NULL || zs_node_is_null (value)))
      ok = zs_node_fail (value != NULL ? value : node, errors, "%s needs '%s'%s%s%s", what,
                         fields[i].key, fields[i].help != NULL ? " (" : "",
                         fields[i].help != NULL ? fields[i].help : "",
                         fields[i].help != NULL ? ")" : "");
  }
  return ok;
}
