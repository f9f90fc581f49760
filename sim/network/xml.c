/* xml.c: a small reader of XML elements and attributes.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/network/xml.h"

#include "sim/base/error.h"

#include <stdbool.h>
#include <string.h>

#define MAX_DEPTH      64
#define MAX_ATTRIBUTES 48
#define MAX_NAME       63
#define MAX_VALUE      1023

typedef struct {
  char name[MAX_NAME + 1];
  char value[MAX_VALUE + 1];
} Attribute;

struct ZsXml {
  const char *file, *text;
  gsize       length, at;
  int         line, column, event_line;
  bool        pending_end, seen_root;
  char        open[MAX_DEPTH][MAX_NAME + 1];
  int         depth, n_attributes;
  char        name[MAX_NAME + 1];
  Attribute   attributes[MAX_ATTRIBUTES];
};

ZsXml *
zs_xml_new (const char *file, const char *text, gsize length)
{
  ZsXml *xml = g_new0 (ZsXml, 1);

  xml->file = file;
  xml->text = text;
  xml->length = length;
  xml->line = xml->column = 1;
  if (length >= 3 && memcmp (text, "\xef\xbb\xbf", 3) == 0)
    xml->at = 3;
  return xml;
}

void
zs_xml_free (ZsXml *xml)
{
  g_free (xml);
}

static ZsXmlEvent G_GNUC_PRINTF (3, 4)
fail (const ZsXml *xml, GError **error, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s:%d:%d: %s", xml->file, xml->line, xml->column, text);
  return ZS_XML_ERROR;
}

static int
peek (const ZsXml *xml)
{
  return xml->at < xml->length ? (guchar) xml->text[xml->at] : -1;
}

static void
step (ZsXml *xml)
{
  if (xml->text[xml->at++] == '\n') {
    xml->line++;
    xml->column = 1;
  }
  else
    xml->column++;
}

static bool
is_at (const ZsXml *xml, const char *word)
{
  gsize n = strlen (word);

  return xml->length - xml->at >= n && memcmp (xml->text + xml->at, word, n) == 0;
}

static bool
skip_past (ZsXml *xml, const char *word)
{
  while (xml->at < xml->length) {
    if (is_at (xml, word)) {
      for (gsize i = strlen (word); i > 0; i--)
        step (xml);
      return true;
    }
    step (xml);
  }
  return false;
}

static void
skip_blanks (ZsXml *xml)
{
  while (peek (xml) == ' ' || peek (xml) == '\t' || peek (xml) == '\n' || peek (xml) == '\r')
    step (xml);
}

static bool
read_name (ZsXml *xml, char *name, GError **error)
{
  int n = 0, c;

  while ((c = peek (xml)) >= 0 && (g_ascii_isalnum (c) || c == '_' || c == '-' || c == ':' || c == '.')) {
    if (n == MAX_NAME)
      return fail (xml, error, "a name of more than %d letters", MAX_NAME) != ZS_XML_ERROR;
    name[n++] = (char) c;
    step (xml);
  }
  name[n] = '\0';
  if (n == 0)
    return fail (xml, error, c < 0 ? "the text ends inside an element" : "a name is missing") != ZS_XML_ERROR;
  return true;
}

static bool
read_value (ZsXml *xml, char *value, GError **error)
{
  static const struct { const char *name; char c; } ENTITIES[] = {
    { "&lt;", '<' }, { "&gt;", '>' }, { "&amp;", '&' }, { "&quot;", '"' }, { "&apos;", '\'' },
  };
  int quote = peek (xml), n = 0, c;

  if (quote != '"' && quote != '\'')
    return fail (xml, error, quote < 0 ? "the text ends inside an element" : "a value must be in quotes") != ZS_XML_ERROR;
  step (xml);
  while ((c = peek (xml)) != quote) {
    if (c < 0)
      return fail (xml, error, "the text ends inside a value") != ZS_XML_ERROR;
    if (c == '<' || c == '\0')
      return fail (xml, error, "'<' or a NUL inside a value") != ZS_XML_ERROR;
    if (n == MAX_VALUE)
      return fail (xml, error, "a value of more than %d letters", MAX_VALUE) != ZS_XML_ERROR;
    if (c == '&') {
      size_t i = 0;

      while (i < G_N_ELEMENTS (ENTITIES) && !is_at (xml, ENTITIES[i].name))
        i++;
      if (i == G_N_ELEMENTS (ENTITIES))
        return fail (xml, error, "an entity that is not one of &lt; &gt; &amp; &quot; &apos;") != ZS_XML_ERROR;
      value[n++] = ENTITIES[i].c;
      for (gsize k = strlen (ENTITIES[i].name); k > 0; k--)
        step (xml);
      continue;
    }
    value[n++] = (char) c;
    step (xml);
  }
  step (xml);
  value[n] = '\0';
  return true;
}

static ZsXmlEvent
end_element (ZsXml *xml)
{
  g_strlcpy (xml->name, xml->open[--xml->depth], sizeof xml->name);
  xml->n_attributes = 0;
  return ZS_XML_END;
}

static ZsXmlEvent
read_end (ZsXml *xml, GError **error)
{
  char name[MAX_NAME + 1];

  step (xml);
  step (xml);
  if (!read_name (xml, name, error))
    return ZS_XML_ERROR;
  skip_blanks (xml);
  if (peek (xml) != '>')
    return fail (xml, error, "'>' is missing after '</%s'", name);
  if (xml->depth == 0 || !g_str_equal (xml->open[xml->depth - 1], name))
    return fail (xml, error, "'</%s>' ends nothing that is open", name);
  step (xml);
  return end_element (xml);
}

static ZsXmlEvent
read_start (ZsXml *xml, GError **error)
{
  step (xml);
  if (xml->depth == 0 && xml->seen_root)
    return fail (xml, error, "a second root element");
  if (xml->depth == MAX_DEPTH)
    return fail (xml, error, "more than %d elements inside one another", MAX_DEPTH);
  if (!read_name (xml, xml->name, error))
    return ZS_XML_ERROR;
  xml->n_attributes = 0;
  for (;;) {
    skip_blanks (xml);
    if (peek (xml) == '/' || peek (xml) == '>')
      break;
    if (xml->n_attributes == MAX_ATTRIBUTES)
      return fail (xml, error, "more than %d attributes", MAX_ATTRIBUTES);
    Attribute *attribute = &xml->attributes[xml->n_attributes];

    if (!read_name (xml, attribute->name, error))
      return ZS_XML_ERROR;
    skip_blanks (xml);
    if (peek (xml) != '=')
      return fail (xml, error, "'=' is missing after '%s'", attribute->name);
    step (xml);
    skip_blanks (xml);
    if (!read_value (xml, attribute->value, error))
      return ZS_XML_ERROR;
    if (zs_xml_attribute (xml, attribute->name) != NULL)
      return fail (xml, error, "'%s' is given twice", attribute->name);
    xml->n_attributes++;
  }
  g_strlcpy (xml->open[xml->depth++], xml->name, sizeof xml->name);
  xml->seen_root = true;
  if (peek (xml) == '/') {
    step (xml);
    xml->pending_end = true;
  }
  if (peek (xml) != '>')
    return fail (xml, error, "'>' is missing");
  step (xml);
  return ZS_XML_START;
}

ZsXmlEvent
zs_xml_next (ZsXml *xml, GError **error)
{
  if (xml->pending_end) {
    xml->pending_end = false;
    return end_element (xml);
  }
  for (;;) {
    while (peek (xml) >= 0 && peek (xml) != '<') {
      if (xml->depth == 0 && !g_ascii_isspace (peek (xml)))
        return fail (xml, error, "text outside the root element");
      step (xml);
    }
    xml->event_line = xml->line;
    if (peek (xml) < 0) {
      if (xml->depth > 0)
        return fail (xml, error, "the text ends while '<%s>' is open", xml->open[xml->depth - 1]);
      return xml->seen_root ? ZS_XML_DONE : fail (xml, error, "no element");
    }
    if (is_at (xml, "<!--")) {
      if (!skip_past (xml, "-->"))
        return fail (xml, error, "the text ends inside a comment");
    }
    else if (is_at (xml, "<?")) {
      if (!skip_past (xml, "?>"))
        return fail (xml, error, "the text ends inside a declaration");
    }
    else if (is_at (xml, "<!"))
      return fail (xml, error, "document types are not read");
    else
      return is_at (xml, "</") ? read_end (xml, error) : read_start (xml, error);
  }
}

const char *
zs_xml_name (const ZsXml *xml)
{
  return xml->name;
}

const char *
zs_xml_attribute (const ZsXml *xml, const char *name)
{
  for (int i = 0; i < xml->n_attributes; i++)
    if (g_str_equal (xml->attributes[i].name, name))
      return xml->attributes[i].value;
  return NULL;
}

int
zs_xml_line (const ZsXml *xml)
{
  return xml->event_line;
}
