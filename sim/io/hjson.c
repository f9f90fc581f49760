/* hjson.c: a reader of HJSON with places.  SPDX-License-Identifier: MIT
 *
 * Follows decoder.py and scanner.py of hjson-py 3.1: what is a number, where a string without
 * quotes ends, and that commas may be left out anywhere.  Differences: places are kept, and depth,
 * size and number of values are limited (ZS_DOCUMENT_MAX_*).
 */
#include "config.h"

#include "sim/io/hjson.h"

#include <string.h>

typedef struct {
  ZsDocument *document;
  const char *file;
  const char *text, *at, *end; /* text: as it was given, for offsets */
  int line, column;            /* of at */
  int depth;
  int loose_line; /* of the last string without quotes; 0 none */
  GArray *remarks;
  GError **error;
} Reader;

typedef struct {
  const char *at;
  int line, column;
} Place;

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

static Place
place_of (const Reader *reader)
{
  return (Place){ reader->at, reader->line, reader->column };
}

/* The byte AHEAD of the current one, or NUL at the end (the text has no NUL). */
static char
peek (const Reader *reader, int ahead)
{
  return reader->end - reader->at > ahead ? reader->at[ahead] : '\0';
}

static void
advance (Reader *reader)
{
  unsigned char byte = (unsigned char)*reader->at++;

  if (byte == '\n') {
    reader->line++;
    reader->column = 1;
  } else if (reader->at == reader->end || ((unsigned char)*reader->at & 0xc0) != 0x80) {
    reader->column++; /* characters, not bytes */
  }
}

static void
skip (Reader *reader, int n)
{
  while (n-- > 0 && reader->at < reader->end)
    advance (reader);
}

static void
remark (Reader *reader, ZsHjsonRemarkKind kind, Place place, gsize length, const char *text)
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

static void *
fail (Reader *reader, Place place, const char *format, ...)
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
found (const Reader *reader)
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
next (Reader *reader)
{
  for (;;) {
    char byte = peek (reader, 0);

    if (byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r') {
      advance (reader);
    } else if (byte == '#' || (byte == '/' && peek (reader, 1) == '/')) {
      Place start = place_of (reader);

      while (reader->at < reader->end && *reader->at != '\n' && *reader->at != '\r')
        advance (reader);
      remark (reader, ZS_HJSON_COMMENT, start, (gsize)(reader->at - start.at), NULL);
    } else if (byte == '/' && peek (reader, 1) == '*') {
      Place start = place_of (reader);

      skip (reader, 2);
      while (reader->at < reader->end && !(peek (reader, 0) == '*' && peek (reader, 1) == '/'))
        advance (reader);
      skip (reader, 2);
      remark (reader, ZS_HJSON_COMMENT, start, (gsize)(reader->at - start.at), NULL);
    } else {
      return byte;
    }
  }
}

/* Four hexadecimal digits at the current place, or -1. */
static int
read_hex4 (Reader *reader)
{
  int value = 0;

  for (int i = 0; i < 4; i++) {
    int digit = g_ascii_xdigit_value (peek (reader, i));

    if (digit < 0)
      return -1;
    value = value * 16 + digit;
  }
  skip (reader, 4);
  return value;
}

static bool
read_escape (Reader *reader, GString *value)
{
  static const char FROM[] = "\"'\\/bfnrt", TO[] = "\"'\\/\b\f\n\r\t";
  Place start = place_of (reader);

  advance (reader); /* the backslash */
  char byte = peek (reader, 0);
  const char *simple = byte != '\0' ? strchr (FROM, byte) : NULL;

  if (simple != NULL) {
    g_string_append_c (value, TO[simple - FROM]);
    advance (reader);
    return true;
  }
  if (byte != 'u') {
    fail (reader, start, "'\\%c' is no escape of a string", byte != '\0' ? byte : ' ');
    return false;
  }
  advance (reader);
  int unit = read_hex4 (reader);

  if (unit >= 0xd800 && unit < 0xdc00 && peek (reader, 0) == '\\' && peek (reader, 1) == 'u') {
    skip (reader, 2);
    int low = read_hex4 (reader);

    unit = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00) : -1;
  }
  if (unit <= 0 || (unit >= 0xd800 && unit < 0xe000)) {
    fail (reader, start, "a \\u escape needs four hexadecimal digits of a character");
    return false;
  }
  g_string_append_unichar (value, (gunichar)unit);
  return true;
}

/* A string in quotes; NULL and the error set.  Free the result. */
static GString *
read_quoted (Reader *reader)
{
  Place start = place_of (reader);
  char quote = *reader->at;
  GString *value = g_string_new (NULL);

  advance (reader);
  for (;;) {
    unsigned char byte = (unsigned char)peek (reader, 0);

    if (reader->at >= reader->end || byte == '\n' || byte == '\r') {
      fail (reader, start, "this string has no closing %c on its line", quote);
      break;
    }
    if (byte == (unsigned char)quote) {
      advance (reader);
      if (quote == '\'')
        remark (reader, ZS_HJSON_SINGLE_QUOTES, start, (gsize)(reader->at - start.at), value->str);
      return value;
    }
    if (byte < 0x20) {
      fail (reader, place_of (reader), "a string has a control character (0x%02x) in it", byte);
      break;
    }
    if (byte == '\\') {
      if (!read_escape (reader, value))
        break;
    } else {
      g_string_append_c (value, (char)byte);
      advance (reader);
    }
  }
  g_string_free (value, TRUE);
  return NULL;
}

/* The text between ''' and ''': white space up to the column of the opening ''' is indentation, and
 * a line end just after it and just before the closing one does not count. */
static GString *
read_multi_line (Reader *reader)
{
  Place start = place_of (reader);
  int indent = start.column - 1;
  GString *value = g_string_new (NULL);

  skip (reader, 3);
  while (peek (reader, 0) == ' ' || peek (reader, 0) == '\t')
    advance (reader);
  bool at_line_start = peek (reader, 0) == '\n' || peek (reader, 0) == '\r';

  if (at_line_start) {
    if (peek (reader, 0) == '\r')
      advance (reader);
    if (peek (reader, 0) == '\n')
      advance (reader);
  }
  while (reader->at < reader->end) {
    if (at_line_start)
      for (int i = 0; i < indent && (peek (reader, 0) == ' ' || peek (reader, 0) == '\t'); i++)
        advance (reader);
    at_line_start = false;
    if (peek (reader, 0) == '\'' && peek (reader, 1) == '\'' && peek (reader, 2) == '\'') {
      skip (reader, 3);
      if (value->len > 0 && value->str[value->len - 1] == '\n')
        g_string_truncate (value, value->len - 1);
      remark (reader, ZS_HJSON_MULTI_LINE, start, (gsize)(reader->at - start.at), value->str);
      return value;
    }
    if (reader->at >= reader->end)
      break;
    if (*reader->at != '\r')
      g_string_append_c (value, *reader->at);
    at_line_start = *reader->at == '\n';
    advance (reader);
  }
  fail (reader, start, "this string has no closing '''");
  g_string_free (value, TRUE);
  return NULL;
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
read_bare (Reader *reader)
{
  Place start = place_of (reader);

  if (strchr (",:[]{}", *start.at) != NULL) {
    g_autofree char *what = found (reader);

    return fail (reader, start, "a value was expected here, not %s", what);
  }
  for (;; advance (reader)) {
    char byte = peek (reader, 0);
    bool line_end = byte == '\0' || byte == '\n' || byte == '\r';

    if (!line_end && strchr (",}]#", byte) == NULL
        && !(byte == '/' && (peek (reader, 1) == '/' || peek (reader, 1) == '*')))
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

      remark (reader,
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
fail_unclosed (Reader *reader, Place open)
{
  char bracket = *open.at;

  if (reader->loose_line > 0)
    return fail (reader, place_of (reader),
                 "the file ends, but the '%c' at line %d is not closed; the text without quotes at "
                 "line %d takes the whole rest of its line",
                 bracket, open.line, reader->loose_line);
  return fail (reader, place_of (reader), "the file ends, but the '%c' at line %d is not closed",
               bracket, open.line);
}

/* A name of an object, with or without quotes. */
static ZsNode *
read_name (Reader *reader)
{
  Place start = place_of (reader);

  if (*start.at == '"' || *start.at == '\'') {
    GString *text = read_quoted (reader);

    if (text == NULL)
      return NULL;
    ZsNode *name = zs_document_scalar (reader->document, start.line, start.column, text->str,
                                       text->len, true, reader->error);

    g_string_free (text, TRUE);
    return name;
  }
  for (;; advance (reader)) {
    char byte = peek (reader, 0);

    if (byte == ':')
      break;
    if (byte == '\0' || strchr (",[]{}\n\r", byte) != NULL) {
      reader->at = start.at; /* say it of the whole */
      g_autofree char *what = found (reader);

      return fail (reader, start, "a name and ':' were expected here, not %s", what);
    }
  }

  gsize length = (gsize)(reader->at - start.at);

  while (length > 0 && (start.at[length - 1] == ' ' || start.at[length - 1] == '\t'))
    length--;
  if (length == 0)
    return fail (reader, start, "there is no name before this ':'");
  if (memchr (start.at, ' ', length) != NULL || memchr (start.at, '\t', length) != NULL)
    return fail (reader, start, "a name with blanks in it needs quotes");
  g_autofree char *text = g_strndup (start.at, length);

  remark (reader, ZS_HJSON_UNQUOTED_NAME, start, length, text);
  return zs_document_scalar (reader->document, start.line, start.column, start.at, length, false,
                             reader->error);
}

#define MAX_MEMBERS 10000 /* of one object: names are compared one by one */

static bool
add_member (Reader *reader, ZsNode *object, ZsNode *name, ZsNode *value, Place place)
{
  if (object->n_items >= MAX_MEMBERS) {
    fail (reader, place, "more than %d names in one object: not a settings file", MAX_MEMBERS);
    return false;
  }
  for (int i = 0; reader->remarks != NULL && i < object->n_items; i++)
    if (strcmp (object->keys[i]->text, name->text) == 0) {
      remark (reader, ZS_HJSON_DUPLICATE, place, 0, name->text);
      g_array_index (reader->remarks, ZsHjsonRemark, reader->remarks->len - 1).first_line =
          object->keys[i]->line;
      object->keys[i] = name;
      object->items[i] = value;
      return true;
    }
  return zs_node_add (object, name, value, reader->error);
}

static ZsNode *read_value (Reader *reader);

/* After a value: passes over a comma and says whether the list goes on.  CLOSE is '}', ']' or NUL
 * (the root without braces). */
static bool
read_separator (Reader *reader, char close, Place after)
{
  char byte = next (reader);

  if (byte == ',') {
    Place comma = place_of (reader);

    advance (reader);
    byte = next (reader);
    if (byte == close)
      remark (reader, ZS_HJSON_TRAILING_COMMA, comma, 1, NULL);
  } else if (byte != close && byte != '\0') {
    remark (reader, ZS_HJSON_MISSING_COMMA, after, 0, NULL);
  }
  return byte != close && byte != '\0';
}

static ZsNode *
read_object (Reader *reader, bool braces)
{
  Place open = place_of (reader);
  ZsNode *object =
      zs_document_node (reader->document, ZS_NODE_MAPPING, open.line, open.column, reader->error);

  if (object == NULL)
    return NULL;
  if (braces)
    advance (reader);
  char byte = next (reader);
  bool more = byte != '\0' && !(braces && byte == '}');

  while (more) {
    Place place = place_of (reader);
    ZsNode *name = read_name (reader);

    if (name == NULL)
      return NULL;
    if (next (reader) != ':') {
      g_autofree char *what = found (reader);

      return fail (reader, place_of (reader), "':' was expected after '%s', not %s", name->text,
                   what);
    }
    advance (reader);
    if (next (reader) == '\0')
      return fail (reader, place_of (reader), "the file ends after '%s:'", name->text);
    ZsNode *value = read_value (reader);

    if (value == NULL || !add_member (reader, object, name, value, place))
      return NULL;
    more = read_separator (reader, braces ? '}' : '\0', place_of (reader));
  }
  if (braces) {
    if (peek (reader, 0) != '}')
      return fail_unclosed (reader, open);
    advance (reader);
  }
  return object;
}

static ZsNode *
read_array (Reader *reader)
{
  Place open = place_of (reader);
  ZsNode *array =
      zs_document_node (reader->document, ZS_NODE_SEQUENCE, open.line, open.column, reader->error);

  if (array == NULL)
    return NULL;
  advance (reader);
  char byte = next (reader);
  bool more = byte != '\0' && byte != ']';

  while (more) {
    ZsNode *item = read_value (reader);

    if (item == NULL)
      return NULL;
    zs_node_append (array, item);
    more = read_separator (reader, ']', place_of (reader));
  }
  if (peek (reader, 0) != ']')
    return fail_unclosed (reader, open);
  advance (reader);
  return array;
}

static ZsNode *
read_value (Reader *reader)
{
  Place start = place_of (reader);
  char byte = *start.at;
  ZsNode *node;

  if (byte == '{' || byte == '[') {
    if (++reader->depth > ZS_DOCUMENT_MAX_DEPTH)
      return fail (reader, start, "more than %d objects and lists inside one another",
                   ZS_DOCUMENT_MAX_DEPTH);
    node = byte == '{' ? read_object (reader, true) : read_array (reader);
    reader->depth--;
    return node;
  }
  if (byte != '"' && byte != '\'')
    return read_bare (reader);

  bool multi_line = byte == '\'' && peek (reader, 1) == '\'' && peek (reader, 2) == '\'';
  GString *text = multi_line ? read_multi_line (reader) : read_quoted (reader);

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
  Reader reader = {
    .file = file, .text = text, .line = 1, .column = 1, .remarks = remarks, .error = error
  };

  if (!zs_document_check_text (file, &text, &length, error))
    return NULL;
  reader.at = text;
  reader.end = text + length;
  if (text != reader.text)
    remark (&reader, ZS_HJSON_BYTE_ORDER_MARK, (Place){ reader.text, 1, 1 }, 3, NULL);

  g_autoptr (ZsDocument) document = zs_document_new (file);

  reader.document = document;
  char byte = next (&reader);
  Place start = place_of (&reader);
  ZsNode *root;

  if (byte == '\0')
    return fail (&reader, start, "there is nothing but comments");
  if (byte == '{' || byte == '[') {
    root = read_value (&reader);
  } else {
    root = read_object (&reader, false);
    if (root != NULL)
      remark (&reader, ZS_HJSON_NO_BRACES, start, 0, NULL);
  }
  if (root == NULL)
    return NULL;
  if (next (&reader) != '\0') {
    g_autofree char *what = found (&reader);

    return fail (&reader, place_of (&reader), "the file goes on after its end: %s", what);
  }
  zs_document_set_root (document, root);
  return g_steal_pointer (&document);
}
