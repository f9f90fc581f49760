/* ds-config-value.c: values as pydantic takes them.  SPDX-License-Identifier: MIT
 *
 * DeepSpeed 0.7 to 0.14 validates with pydantic 1, from 0.15 with pydantic 2, both in lax mode: a
 * whole number may be written 5e8 or "500000000" but not "5e8"; fractions are cut off by 1 and
 * refused by 2; "true", "yes", "on" and 1 are true. */
#include "config.h"

#include "sim/scenario/ds-config-value.h"

#include <math.h>
#include <string.h>

#include "sim/base/units.h"

typedef enum { IS_NULL, IS_BOOL, IS_NUMBER, IS_TEXT, IS_OBJECT, IS_LIST } Kind;

static Kind
kind_of (const ZsNode *node)
{
  bool truth;
  double number;

  if (node->kind == ZS_NODE_MAPPING)
    return IS_OBJECT;
  if (node->kind == ZS_NODE_SEQUENCE)
    return IS_LIST;
  if (zs_node_is_null (node))
    return IS_NULL;
  if (zs_node_bool (node, &truth))
    return IS_BOOL;
  return zs_node_number (node, &number) ? IS_NUMBER : IS_TEXT;
}

void
zs_ds_value_clear (ZsDsValue *value)
{
  g_clear_pointer (&value->problem, g_free);
  g_clear_pointer (&value->instead, g_free);
}

static void G_GNUC_PRINTF (4, 5)
    say (ZsDsValue *value, ZsNoteSeverity severity, const char *code, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  value->severity = severity;
  value->code = code;
  g_free (value->problem);
  value->problem = g_strdup_vprintf (format, arguments);
  va_end (arguments);
}

static int
base_type (const ZsDsKey *key)
{
  return key->type & ~ZS_DS_OR_NULL;
}

static bool
is_integer (int type)
{
  return type == ZS_DS_INT || type == ZS_DS_ELEMENTS || type == ZS_DS_BYTES;
}

/* "none|cpu|nvme" as "none, cpu or nvme" */
static char *
word_list (const char *words)
{
  g_auto (GStrv) parts = g_strsplit (words, "|", -1);
  guint n = g_strv_length (parts);
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", parts[i]);
  return g_string_free (text, FALSE);
}

char *
zs_ds_value_expected (const ZsDsKey *key)
{
  int type = base_type (key);

  if (key->allowed != NULL && strchr (key->allowed, '|') != NULL
      && strstr (key->allowed, "..") == NULL) {
    g_autofree char *words = word_list (key->allowed);

    return type == ZS_DS_STRING && key->allowed[0] != '\0'
               ? g_strdup_printf ("one of the words %s", words)
               : g_steal_pointer (&words);
  }
  switch (type) {
  case ZS_DS_BOOL:
    return g_strdup ("true or false");
  case ZS_DS_INT:
    return g_strdup ("a whole number");
  case ZS_DS_ELEMENTS:
    return g_strdup ("a whole number (of elements)");
  case ZS_DS_BYTES:
    return g_strdup ("a whole number (of bytes)");
  case ZS_DS_FLOAT:
    return g_strdup ("a number");
  case ZS_DS_STRING:
    return g_strdup ("a text");
  case ZS_DS_PATH:
    return g_strdup ("a path");
  case ZS_DS_LIST:
    return g_strdup ("a list");
  case ZS_DS_NUMBER_OR_WORD:
    return g_strdup ("a number or \"auto\"");
  case ZS_DS_OBJECT:
  case ZS_DS_STRICT:
  case ZS_DS_FREE:
    return g_strdup ("an object in braces");
  default:
    return g_strdup ("a value");
  }
}

/* How NODE looks in the file, for a message. */
static char *
shown (const ZsNode *node)
{
  if (node->kind != ZS_NODE_SCALAR)
    return g_strdup (node->kind == ZS_NODE_MAPPING ? "an object" : "a list");
  if (!node->quoted && *node->text == '\0')
    return g_strdup ("nothing");
  return g_strdup_printf (node->quoted ? "\"%.60s\"" : "%.60s", node->text);
}

static void
say_wrong_type (ZsDsValue *value, const ZsDsKey *key, const ZsNode *node)
{
  g_autofree char *expected = zs_ds_value_expected (key), *what = shown (node);
  const char *word = zs_ds_key_word (key);
  bool is_word = node->kind == ZS_NODE_SCALAR;

  /* "offload_optimizer": "cpu" and "bf16": true are what people write */
  if (is_word && g_str_has_prefix (word, "offload_"))
    value->instead = g_strdup_printf ("{\"device\": \"%s\"}",
                                      g_ascii_strcasecmp (node->text, "nvme") == 0   ? "nvme"
                                      : g_ascii_strcasecmp (node->text, "none") == 0 ? "none"
                                                                                     : "cpu");
  else if (is_word && (strcmp (word, "fp16") == 0 || strcmp (word, "bf16") == 0))
    value->instead = g_strdup_printf ("{\"enabled\": %s}",
                                      g_ascii_strcasecmp (node->text, "false") == 0 ? "false" : "true");
  say (value, ZS_NOTE_ERROR, "wrong-type", "'%s' must be %s, not %s", zs_ds_key_word (key),
       expected, what);
}

/* int (TEXT) of Python: decimal digits with a sign, blanks around them. */
static bool
python_int (const char *text, int64_t *ret_value)
{
  g_autofree char *copy = g_strstrip (g_strdup (text));
  char *end;

  if (*copy == '\0')
    return false;
  *ret_value = g_ascii_strtoll (copy, &end, 10);
  return *end == '\0' && end != copy;
}

static void
read_integer (const ZsDsKey *key, const ZsNode *node, const ZsVersions *versions, ZsDsValue *value)
{
  const char *word = zs_ds_key_word (key);
  Kind kind = kind_of (node);
  bool truth;

  if (kind == IS_BOOL) {
    zs_node_bool (node, &truth);
    value->integer = truth;
    value->ok = true;
    say (value, ZS_NOTE_RISKY, "wrong-type", "'%s' is a number; %s counts as %d", word, node->text,
         truth);
  } else if (kind == IS_NUMBER) {
    double number;

    value->ok = zs_node_int (node, &value->integer);
    if (!value->ok && zs_node_number (node, &number) && fabs (number) < 9e18) {
      value->integer = (int64_t)number;
      g_autofree char *whole = zs_count_format (value->integer);

      value->instead = g_strdup_printf ("%" G_GINT64_FORMAT, value->integer);
      if (zs_behaves (versions, ZS_BEHAVIOUR_PYDANTIC2)) {
        say (value, ZS_NOTE_ERROR, "fractional-size",
             "'%s' is %s: \"Input should be a valid integer, got a number with a fractional part\" "
             "(from DeepSpeed 0.15; before, it was cut off to %s)",
             word, node->text, whole);
      } else {
        value->ok = true;
        say (value, ZS_NOTE_RISKY, "fractional-size",
             "'%s' is %s, cut off to %s; DeepSpeed 0.15 and later refuses a fraction", word,
             node->text, whole);
      }
    } else if (!value->ok) {
      say (value, ZS_NOTE_ERROR, "out-of-range", "'%s' is too large: %s", word, node->text);
    }
  } else if (kind == IS_TEXT && python_int (node->text, &value->integer)) {
    value->ok = true;
    value->instead = g_strdup_printf ("%" G_GINT64_FORMAT, value->integer);
    say (value, ZS_NOTE_INFO, "number-in-quotes", "'%s' is a text that is taken as the number %s",
         word, value->instead);
  } else if (kind == IS_TEXT && zs_count_parse (node->text, &value->integer, NULL)) {
    value->instead = g_strdup_printf ("%" G_GINT64_FORMAT, value->integer);
    say (value, ZS_NOTE_ERROR, "number-in-quotes",
         "'%s' is the text \"%s\", not a number: \"unable to parse string as an integer\"", word,
         node->text);
  } else {
    say_wrong_type (value, key, node);
  }
  value->number = (double)value->integer;
}

static void
read_float (const ZsDsKey *key, const ZsNode *node, ZsDsValue *value)
{
  const char *word = zs_ds_key_word (key);
  Kind kind = kind_of (node);
  bool truth;

  if (kind == IS_NUMBER) {
    value->ok = zs_node_number (node, &value->number);
  } else if (kind == IS_TEXT && zs_number_parse (node->text, &value->number, NULL)) {
    value->ok = true;
    value->instead = g_strdup (node->text);
    say (value, ZS_NOTE_INFO, "number-in-quotes", "'%s' is a text that is taken as the number %s",
         word, node->text);
  } else if (kind == IS_BOOL) {
    zs_node_bool (node, &truth);
    value->number = truth;
    value->ok = true;
    say (value, ZS_NOTE_RISKY, "wrong-type", "'%s' is a number; %s counts as %d", word, node->text,
         truth);
  } else {
    say_wrong_type (value, key, node);
  }
}

static void
read_bool (const ZsDsKey *key, const ZsNode *node, ZsDsValue *value)
{
  static const char *const TRUE_WORDS[] = { "true", "yes", "on", "1", "t", "y" };
  static const char *const FALSE_WORDS[] = { "false", "no", "off", "0", "f", "n" };
  const char *word = zs_ds_key_word (key);
  Kind kind = kind_of (node);
  double number;

  if (kind == IS_BOOL) {
    value->ok = zs_node_bool (node, &value->truth);
    return;
  }
  if (kind == IS_NUMBER && zs_node_number (node, &number) && (number == 0 || number == 1)) {
    value->truth = number == 1;
    value->ok = true;
  }
  for (size_t i = 0; kind == IS_TEXT && i < G_N_ELEMENTS (TRUE_WORDS); i++)
    if (g_ascii_strcasecmp (node->text, TRUE_WORDS[i]) == 0
        || g_ascii_strcasecmp (node->text, FALSE_WORDS[i]) == 0) {
      value->truth = g_ascii_strcasecmp (node->text, TRUE_WORDS[i]) == 0;
      value->ok = true;
    }
  if (!value->ok) {
    say_wrong_type (value, key, node);
    return;
  }
  g_autofree char *what = shown (node);

  value->instead = g_strdup (value->truth ? "true" : "false");
  say (value, ZS_NOTE_RISKY, "text-for-bool", "'%s' is %s, which is taken as %s", word, what,
       value->instead);
}

static void
check_range (const ZsDsKey *key, const ZsNode *node, ZsDsValue *value)
{
  const char *dots = key->allowed != NULL ? strstr (key->allowed, "..") : NULL;

  if (dots == NULL || !value->ok || strchr (key->allowed, '|') != NULL)
    return;

  double low = g_ascii_strtod (key->allowed, NULL);
  bool above = dots[-1] == '<', bounded = dots[2] != '\0';
  double high = bounded ? g_ascii_strtod (dots + 2, NULL) : 0;

  if (value->number > low || (value->number == low && !above))
    if (!bounded || value->number <= high)
      return;
  value->ok = false;
  if (bounded)
    say (value, ZS_NOTE_ERROR, "out-of-range", "'%s' must be %g to %g, not %s",
         zs_ds_key_word (key), low, high, node->text);
  else
    say (value, ZS_NOTE_ERROR, "out-of-range", "'%s' must be %s %g, not %s", zs_ds_key_word (key),
         above ? "more than" : "at least", low, node->text);
}

static bool
has_word (const char *words, const char *word)
{
  g_auto (GStrv) parts = g_strsplit (words, "|", -1);

  return g_strv_contains ((const char *const *)parts, word);
}

/* One of a list of words, or of numbers (stage). */
static void
check_words (const ZsDsKey *key, const ZsNode *node, const ZsVersions *versions, ZsDsValue *value)
{
  bool numbers = is_integer (base_type (key));

  if (key->allowed == NULL || strchr (key->allowed, '|') == NULL || !value->ok)
    return;
  g_autofree char *text =
      numbers ? g_strdup_printf ("%" G_GINT64_FORMAT, value->integer) : g_strdup (value->text);

  if (has_word (key->allowed, text)) {
    if (numbers && node->quoted && !zs_behaves (versions, ZS_BEHAVIOUR_PYDANTIC2)) {
      value->ok = false; /* an enum of numbers: pydantic 1 takes no text for it */
      say (value, ZS_NOTE_ERROR, "number-in-quotes",
           "'%s' is the text \"%s\": \"value is not a valid enumeration member\" before DeepSpeed "
           "0.15",
           zs_ds_key_word (key), node->text);
    }
    return;
  }
  if (base_type (key) == ZS_DS_NUMBER_OR_WORD) {
    int64_t count;

    if (zs_count_parse (text, &count, NULL))
      return;
  }
  g_autofree char *lower = g_ascii_strdown (text, -1), *upper = g_ascii_strup (text, -1);
  g_autofree char *expected = word_list (key->allowed);

  value->ok = false;
  g_clear_pointer (&value->instead, g_free);
  if (has_word (key->allowed, lower))
    value->instead = g_strdup_printf ("\"%s\"", lower);
  else if (has_word (key->allowed, upper))
    value->instead = g_strdup_printf ("\"%s\"", upper);
  if (numbers)
    say (value, ZS_NOTE_ERROR, "out-of-range", "'%s' must be %s, not %s", zs_ds_key_word (key),
         expected, text);
  else
    say (value, ZS_NOTE_ERROR, "unknown-word", "'%s' must be %s, not \"%s\"%s",
         zs_ds_key_word (key), expected, text, value->instead != NULL ? "; case matters" : "");
}

void
zs_ds_value_read (const ZsDsKey *key, const ZsNode *node, const ZsVersions *versions,
                  ZsDsValue *ret_value)
{
  ZsDsValue value = { 0 };
  Kind kind = kind_of (node);
  int type = base_type (key);
  bool own_auto = key->allowed != NULL && has_word (key->allowed, "auto");

  if (kind == IS_TEXT && strcmp (node->text, "auto") == 0 && type != ZS_DS_NUMBER_OR_WORD
      && !own_auto && g_strcmp0 (key->fallback, "auto") != 0) {
    value.is_auto = true;
  } else if (kind == IS_NULL && (key->type & ZS_DS_OR_NULL) != 0) {
    value.is_null = value.ok = true;
  } else if (is_integer (type)) {
    read_integer (key, node, versions, &value);
  } else {
    switch (type) {
    case ZS_DS_FLOAT:
      read_float (key, node, &value);
      break;
    case ZS_DS_BOOL:
      read_bool (key, node, &value);
      break;
    case ZS_DS_STRING:
    case ZS_DS_PATH:
    case ZS_DS_NUMBER_OR_WORD:
      if (kind == IS_TEXT || (type == ZS_DS_NUMBER_OR_WORD && kind == IS_NUMBER)) {
        value.text = node->text;
        value.ok = true;
      } else if (kind == IS_NULL && key->allowed != NULL && has_word (key->allowed, "none")) {
        value.instead = g_strdup ("\"none\"");
        say (&value, ZS_NOTE_ERROR, "wrong-type", "'%s' must be the word \"none\", not null",
             zs_ds_key_word (key));
      } else {
        say_wrong_type (&value, key, node);
      }
      break;
    case ZS_DS_LIST:
      value.ok = kind == IS_LIST;
      if (!value.ok)
        say_wrong_type (&value, key, node);
      break;
    case ZS_DS_OBJECT:
    case ZS_DS_STRICT:
    case ZS_DS_FREE:
      value.ok = kind == IS_OBJECT;
      if (!value.ok)
        say_wrong_type (&value, key, node);
      break;
    default:
      value.ok = true;
    }
  }
  if (!value.is_auto && !value.is_null) {
    check_range (key, node, &value);
    check_words (key, node, versions, &value);
  }
  *ret_value = value;
}
