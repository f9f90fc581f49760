/* hjson.c: a reader of HJSON with places.  SPDX-License-Identifier: MIT
 *
 * Follows decoder.py and scanner.py of hjson-py 3.1: what is a number, where a string without
 * quotes ends, and that commas may be left out anywhere.  Differences: places are kept, and depth,
 * size and number of values are limited (ZS_DOCUMENT_MAX_*).
 */
#include "config.h"

#include "sim/io/hjson.h"

#include <string.h>

#include "sim/io/hjson-internal.h"

static const char *const REMARK_NAMES[ZS_N_HJSON_REMARKS] = {
  [ZS_HJSON_COMMENT] = "a comment",
  [ZS_HJSON_TRAILING_COMMA] = "a comma after the last value",
  [ZS_HJSON_MISSING_COMMA] = "a comma left out",
  [ZS_HJSON_UNQUOTED_NAME] = "a name without quotes",
  [ZS_HJSON_UNQUOTED_STRING] = "a string without quotes",
  [ZS_HJSON_PYTHON_LITERAL] = "a Python literal",
  [ZS_HJSON_SINGLE_QUOTES] = "single quotes",
  [ZS_HJSON_MULTI_LINE] = "a string in ''' quotes",
  [ZS_HJSON_NO_BRACES] = "no braces around the whole",
  [ZS_HJSON_BYTE_ORDER_MARK] = "a byte order mark",
  [ZS_HJSON_DUPLICATE] = "a name given twice",
};

const char *
zs_hjson_remark_name (ZsHjsonRemarkKind kind)
{
  return REMARK_NAMES[kind];
}

void
zs_hjson_remark (ZsHjsonReader *reader, ZsHjsonRemarkKind kind, ZsHjsonPlace place, gsize length,
                 const char *text)
{
  if (reader->remarks == NULL)
    return;

  ZsHjsonRemark entry = { .kind = kind,
                          .line = place.line,
                          .column = place.column,
                          .offset = (gsize)(place.at - reader->text),
                          .length = length };

  if (text != NULL) {
    g_strlcpy (entry.text, text, sizeof entry.text);
    char *bad = NULL;

    if (!g_utf8_validate (entry.text, -1, (const char **)&bad))
      *bad = '\0'; /* cut inside a character */
  }
  g_array_append_val (reader->remarks, entry);
}

void *
zs_hjson_fail (ZsHjsonReader *reader, ZsHjsonPlace place, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error (reader->error, ZS_ERROR, ZS_ERROR_INPUT, "%s:%d:%d: %s", reader->file, place.line,
               place.column, message);
  return NULL;
}

/* What stands at the current place, for a message. */
static char *
found (const ZsHjsonReader *reader)
{
  if (reader->at >= reader->end)
    return g_strdup ("the end of the file");

  const char *stop = reader->at;

  for (int i = 0; i < 20 && stop < reader->end && *stop != '\n' && *stop != '\r'; i++)
    stop = g_utf8_next_char (stop);
  return g_strdup_printf ("'%.*s'", (int)(stop - reader->at), reader->at);
}

/* To the next byte that is neither white space nor a comment; NUL at the end. */
static char
next (ZsHjsonReader *reader)
{
  for (;;) {
    char byte = zs_hjson_peek (reader, 0);

    if (byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r') {
      zs_hjson_advance (reader);
    } else if (byte == '#' || (byte == '/' && zs_hjson_peek (reader, 1) == '/')) {
      ZsHjsonPlace start = zs_hjson_place_of (reader);

      while (reader->at < reader->end && *reader->at != '\n' && *reader->at != '\r')
        zs_hjson_advance (reader);
      zs_hjson_remark (reader, ZS_HJSON_COMMENT, start, (gsize)(reader->at - start.at), NULL);
    } else if (byte == '/' && zs_hjson_peek (reader, 1) == '*') {
      ZsHjsonPlace start = zs_hjson_place_of (reader);

      zs_hjson_skip (reader, 2);
      while (reader->at < reader->end
             && !(zs_hjson_peek (reader, 0) == '*' && zs_hjson_peek (reader, 1) == '/'))
        zs_hjson_advance (reader);
      zs_hjson_skip (reader, 2);
      zs_hjson_remark (reader, ZS_HJSON_COMMENT, start, (gsize)(reader->at - start.at), NULL);
    } else {
      return byte;
    }
  }
}

/* Is TEXT (LENGTH bytes) a number of JSON: -?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)? */
static bool
is_number (const char *text, gsize length)
{
  const char *at = text, *end = text + length;

  if (at < end && *at == '-')
    at++;
  if (at >= end || !g_ascii_isdigit (*at))
    return false;
  if (*at++ != '0')
    while (at < end && g_ascii_isdigit (*at))
      at++;
  if (at < end && *at == '.') {
    at++;
    if (at >= end || !g_ascii_isdigit (*at))
      return false;
    while (at < end && g_ascii_isdigit (*at))
      at++;
  }
  if (at < end && (*at == 'e' || *at == 'E')) {
    at++;
    if (at < end && (*at == '+' || *at == '-'))
      at++;
    if (at >= end || !g_ascii_isdigit (*at))
      return false;
    while (at < end && g_ascii_isdigit (*at))
      at++;
  }
  return at == end;
}

static bool
text_is (const char *text, gsize length, const char *word)
{
  return length == strlen (word) && memcmp (text, word, length) == 0;
}

static bool
is_python_literal (const char *text, gsize length)
{
  static const char *const WORDS[] = { "True", "False", "None" };

  for (size_t i = 0; i < G_N_ELEMENTS (WORDS); i++) {
    gsize n = strlen (WORDS[i]);

    if (length >= n && memcmp (text, WORDS[i], n) == 0
        && (length == n || !(g_ascii_isalnum (text[n]) || text[n] == '_')))
      return true;
  }
  return false;
}

/* true, false, null, a number, or a string without quotes. */
static ZsNode *
read_bare (ZsHjsonReader *reader)
{
  ZsHjsonPlace start = zs_hjson_place_of (reader);

  if (strchr (",:[]{}", *start.at) != NULL) {
    g_autofree char *what = found (reader);

    return zs_hjson_fail (reader, start, "a value was expected here, not %s", what);
  }
  for (;; zs_hjson_advance (reader)) {
    char byte = zs_hjson_peek (reader, 0);
    bool line_end = byte == '\0' || byte == '\n' || byte == '\r';

    if (!line_end && strchr (",}]#", byte) == NULL
        && !(byte == '/' && (zs_hjson_peek (reader, 1) == '/' || zs_hjson_peek (reader, 1) == '*')))
      continue;

    gsize length = (gsize)(reader->at - start.at);

    while (length > 0 && g_ascii_isspace (start.at[length - 1]))
      length--;
    if (is_number (start.at, length) || text_is (start.at, length, "true")
        || text_is (start.at, length, "false") || text_is (start.at, length, "null"))
      return zs_document_scalar (reader->document, start.line, start.column, start.at, length,
                                 false, reader->error);
    if (line_end) {
      g_autofree char *text = g_strndup (start.at, length);

      zs_hjson_remark (reader,
                       is_python_literal (start.at, length) ? ZS_HJSON_PYTHON_LITERAL
                                                            : ZS_HJSON_UNQUOTED_STRING,
                       start, length, text);
      reader->loose_line = start.line;
      return zs_document_scalar (reader->document, start.line, start.column, start.at, length, true,
                                 reader->error);
    }
  }
}

/* The file ended inside what began at OPEN. */
static void *
fail_unclosed (ZsHjsonReader *reader, ZsHjsonPlace open)
{
  char bracket = *open.at;

  if (reader->loose_line > 0)
    return zs_hjson_fail (
        reader, zs_hjson_place_of (reader),
        "the file ends, but the '%c' at line %d is not closed; the text without quotes at "
        "line %d takes the whole rest of its line",
        bracket, open.line, reader->loose_line);
  return zs_hjson_fail (reader, zs_hjson_place_of (reader),
                        "the file ends, but the '%c' at line %d is not closed", bracket, open.line);
}

/* A name of an object, with or without quotes. */
static ZsNode *
read_name (ZsHjsonReader *reader)
{
  ZsHjsonPlace start = zs_hjson_place_of (reader);

  if (*start.at == '"' || *start.at == '\'') {
    GString *text = zs_hjson_read_quoted (reader);

    if (text == NULL)
      return NULL;
    ZsNode *name = zs_document_scalar (reader->document, start.line, start.column, text->str,
                                       text->len, true, reader->error);

    g_string_free (text, TRUE);
    return name;
  }
  for (;; zs_hjson_advance (reader)) {
    char byte = zs_hjson_peek (reader, 0);

    if (byte == ':')
      break;
    if (byte == '\0' || strchr (",[]{}\n\r", byte) != NULL) {
      reader->at = start.at; /* say it of the whole */
      g_autofree char *what = found (reader);

      return zs_hjson_fail (reader, start, "a name and ':' were expected here, not %s", what);
    }
  }

  gsize length = (gsize)(reader->at - start.at);

  while (length > 0 && (start.at[length - 1] == ' ' || start.at[length - 1] == '\t'))
    length--;
  if (length == 0)
    return zs_hjson_fail (reader, start, "there is no name before this ':'");
  if (memchr (start.at, ' ', length) != NULL || memchr (start.at, '\t', length) != NULL)
    return zs_hjson_fail (reader, start, "a name with blanks in it needs quotes");
  g_autofree char *text = g_strndup (start.at, length);

  zs_hjson_remark (reader, ZS_HJSON_UNQUOTED_NAME, start, length, text);
  return zs_document_scalar (reader->document, start.line, start.column, start.at, length, false,
                             reader->error);
}

#define MAX_MEMBERS 10000 /* of one object: names are compared one by one */

static bool
add_member (ZsHjsonReader *reader, ZsNode *object, ZsNode *name, ZsNode *value, ZsHjsonPlace place)
{
  if (object->n_items >= MAX_MEMBERS) {
    zs_hjson_fail (reader, place, "more than %d names in one object: not a settings file",
                   MAX_MEMBERS);
    return false;
  }
  for (int i = 0; reader->remarks != NULL && i < object->n_items; i++)
    if (strcmp (object->keys[i]->text, name->text) == 0) {
      zs_hjson_remark (reader, ZS_HJSON_DUPLICATE, place, 0, name->text);
      g_array_index (reader->remarks, ZsHjsonRemark, reader->remarks->len - 1).first_line =
          object->keys[i]->line;
      object->keys[i] = name;
      object->items[i] = value;
      return true;
    }
  return zs_node_add (object, name, value, reader->error);
}

static ZsNode *read_value (ZsHjsonReader *reader);

/* After a value: passes over a comma and says whether the list goes on.  CLOSE is '}', ']' or NUL
 * (the root without braces). */
static bool
read_separator (ZsHjsonReader *reader, char close, ZsHjsonPlace after)
{
  char byte = next (reader);

  if (byte == ',') {
    ZsHjsonPlace comma = zs_hjson_place_of (reader);

    zs_hjson_advance (reader);
    byte = next (reader);
    if (byte == close)
      zs_hjson_remark (reader, ZS_HJSON_TRAILING_COMMA, comma, 1, NULL);
  } else if (byte != close && byte != '\0') {
    zs_hjson_remark (reader, ZS_HJSON_MISSING_COMMA, after, 0, NULL);
  }
  return byte != close && byte != '\0';
}

static ZsNode *
read_object (ZsHjsonReader *reader, bool braces)
{
  ZsHjsonPlace open = zs_hjson_place_of (reader);
  ZsNode *object =
      zs_document_node (reader->document, ZS_NODE_MAPPING, open.line, open.column, reader->error);

  if (object == NULL)
    return NULL;
  if (braces)
    zs_hjson_advance (reader);
  char byte = next (reader);
  bool more = byte != '\0' && !(braces && byte == '}');

  while (more) {
    ZsHjsonPlace place = zs_hjson_place_of (reader);
    ZsNode *name = read_name (reader);

    if (name == NULL)
      return NULL;
    if (next (reader) != ':') {
      g_autofree char *what = found (reader);

      return zs_hjson_fail (reader, zs_hjson_place_of (reader),
                            "':' was expected after '%s', not %s", name->text, what);
    }
    zs_hjson_advance (reader);
    if (next (reader) == '\0')
      return zs_hjson_fail (reader, zs_hjson_place_of (reader), "the file ends after '%s:'",
                            name->text);
    ZsNode *value = read_value (reader);

    if (value == NULL || !add_member (reader, object, name, value, place))
      return NULL;
    more = read_separator (reader, braces ? '}' : '\0', zs_hjson_place_of (reader));
  }
  if (braces) {
    if (zs_hjson_peek (reader, 0) != '}')
      return fail_unclosed (reader, open);
    zs_hjson_advance (reader);
  }
  return object;
}

static ZsNode *
read_array (ZsHjsonReader *reader)
{
  ZsHjsonPlace open = zs_hjson_place_of (reader);
  ZsNode *array =
      zs_document_node (reader->document, ZS_NODE_SEQUENCE, open.line, open.column, reader->error);

  if (array == NULL)
    return NULL;
  zs_hjson_advance (reader);
  char byte = next (reader);
  bool more = byte != '\0' && byte != ']';

  while (more) {
    ZsNode *item = read_value (reader);

    if (item == NULL)
      return NULL;
    zs_node_append (array, item);
    more = read_separator (reader, ']', zs_hjson_place_of (reader));
  }
  if (zs_hjson_peek (reader, 0) != ']')
    return fail_unclosed (reader, open);
  zs_hjson_advance (reader);
  return array;
}

static ZsNode *
read_value (ZsHjsonReader *reader)
{
  ZsHjsonPlace start = zs_hjson_place_of (reader);
  char byte = *start.at;
  ZsNode *node;

  if (byte == '{' || byte == '[') {
    if (++reader->depth > ZS_DOCUMENT_MAX_DEPTH)
      return zs_hjson_fail (reader, start, "more than %d objects and lists inside one another",
                            ZS_DOCUMENT_MAX_DEPTH);
    node = byte == '{' ? read_object (reader, true) : read_array (reader);
    reader->depth--;
    return node;
  }
  if (byte != '"' && byte != '\'')
    return read_bare (reader);

  bool multi_line =
      byte == '\'' && zs_hjson_peek (reader, 1) == '\'' && zs_hjson_peek (reader, 2) == '\'';
  GString *text = multi_line ? zs_hjson_read_multi_line (reader) : zs_hjson_read_quoted (reader);

  if (text == NULL)
    return NULL;
  node = zs_document_scalar (reader->document, start.line, start.column, text->str, text->len, true,
                             reader->error);
  g_string_free (text, TRUE);
  return node;
}

ZsDocument *
zs_hjson_parse (const char *file, const char *text, gsize length, GArray *remarks, GError **error)
{
  ZsHjsonReader reader = {
    .file = file, .text = text, .line = 1, .column = 1, .remarks = remarks, .error = error
  };

  if (!zs_document_check_text (file, &text, &length, error))
    return NULL;
  reader.at = text;
  reader.end = text + length;
  if (text != reader.text)
    zs_hjson_remark (&reader, ZS_HJSON_BYTE_ORDER_MARK, (ZsHjsonPlace){ reader.text, 1, 1 }, 3,
                     NULL);

  g_autoptr (ZsDocument) document = zs_document_new (file);

  reader.document = document;
  char byte = next (&reader);
  ZsHjsonPlace start = zs_hjson_place_of (&reader);
  ZsNode *root;

  if (byte == '\0')
    return zs_hjson_fail (&reader, start, "there is nothing but comments");
  if (byte == '{' || byte == '[') {
    root = read_value (&reader);
  } else {
    root = read_object (&reader, false);
    if (root != NULL)
      zs_hjson_remark (&reader, ZS_HJSON_NO_BRACES, start, 0, NULL);
  }
  if (root == NULL)
    return NULL;
  if (next (&reader) != '\0') {
    g_autofree char *what = found (&reader);

    return zs_hjson_fail (&reader, zs_hjson_place_of (&reader),
                          "the file goes on after its end: %s", what);
  }
  zs_document_set_root (document, root);
  return g_steal_pointer (&document);
}
