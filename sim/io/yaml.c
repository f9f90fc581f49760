/* yaml.c: YAML text to a document, with libyaml's parser.  SPDX-License-Identifier: MIT
 *
 * What a settings file needs of YAML 1.2: mappings with scalar keys, sequences, scalars, anchors
 * and aliases (copied; an alias inside its own anchor is an error), merge keys ("<<: *base").  Tags
 * are refused, but for !!str; one document a file. */
#include "config.h"

#include <string.h>
#include <yaml.h>

#include "sim/io/document.h"

typedef struct {
  ZsDocument *document;
  const char *file;
  yaml_parser_t parser;
  GHashTable *anchors; /* name to ZsNode */
} Reader;

static bool
fail_at (const Reader *reader, yaml_mark_t mark, GError **error, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s:%zu:%zu: %s", reader->file, mark.line + 1,
               mark.column + 1, message);
  return false;
}

static bool
next (Reader *reader, yaml_event_t *event, GError **error)
{
  if (yaml_parser_parse (&reader->parser, event))
    return true;

  const yaml_parser_t *parser = &reader->parser;
  yaml_mark_t mark = parser->problem_mark;

  if (parser->error == YAML_MEMORY_ERROR)
    g_error ("out of memory");
  if (parser->problem == NULL)
    return fail_at (reader, mark, error, "this is not valid YAML");
  if (strstr (parser->problem, "cannot start any token") != NULL)
    return fail_at (reader, mark, error, "%s%s", parser->problem,
                    "; YAML is indented with spaces, not tabs, and words that begin with "
                    "% @ ` need quotes");
  if (parser->context != NULL)
    return fail_at (reader, mark, error, "%s %s (line %zu)", parser->problem, parser->context,
                    parser->context_mark.line + 1);
  return fail_at (reader, mark, error, "%s", parser->problem);
}

static bool
remember (Reader *reader, const yaml_char_t *anchor, ZsNode *node)
{
  if (anchor != NULL)
    g_hash_table_replace (reader->anchors, g_strdup ((const char *)anchor), node);
  return true;
}

static bool
check_tag (Reader *reader, const yaml_event_t *event, const yaml_char_t *tag, GError **error)
{
  if (tag == NULL || strcmp ((const char *)tag, "!") == 0
      || strcmp ((const char *)tag, YAML_STR_TAG) == 0)
    return true;
  return fail_at (reader, event->start_mark, error, "tags such as '%s' are not used here", tag);
}

static ZsNode *read_node (Reader *reader, const yaml_event_t *event, int depth, GError **error);

static ZsNode *
read_scalar (Reader *reader, const yaml_event_t *event, GError **error)
{
  const char *text = (const char *)event->data.scalar.value;
  size_t length = event->data.scalar.length;
  bool quoted =
      event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || event->data.scalar.tag != NULL;

  if (!check_tag (reader, event, event->data.scalar.tag, error))
    return NULL;
  if (memchr (text, '\0', length) != NULL) {
    fail_at (reader, event->start_mark, error, "a string with a NUL character");
    return NULL;
  }

  ZsNode *node =
      zs_document_scalar (reader->document, (int)event->start_mark.line + 1,
                          (int)event->start_mark.column + 1, text, length, quoted, error);

  if (node != NULL)
    remember (reader, event->data.scalar.anchor, node);
  return node;
}

static bool
read_sequence (Reader *reader, ZsNode *sequence, int depth, GError **error)
{
  for (;;) {
    yaml_event_t event;

    if (!next (reader, &event, error))
      return false;
    if (event.type == YAML_SEQUENCE_END_EVENT) {
      yaml_event_delete (&event);
      return true;
    }

    ZsNode *item = read_node (reader, &event, depth, error);

    yaml_event_delete (&event);
    if (item == NULL)
      return false;
    zs_node_append (sequence, item);
  }
}

/* Keys of FROM that MAPPING does not have. */
static bool
merge (ZsDocument *document, ZsNode *mapping, const ZsNode *from, GError **error)
{
  if (from->kind == ZS_NODE_SEQUENCE) {
    for (int i = 0; i < from->n_items; i++)
      if (from->items[i]->kind != ZS_NODE_MAPPING
          || !merge (document, mapping, from->items[i], error))
        return (error != NULL && *error != NULL)
               || zs_node_error (from, error, "'<<' takes mappings");
    return true;
  }
  if (from->kind != ZS_NODE_MAPPING)
    return zs_node_error (from, error, "'<<' takes a mapping");
  for (int i = 0; i < from->n_items; i++)
    if (zs_node_get (mapping, from->keys[i]->text) == NULL
        && !zs_node_add (mapping, from->keys[i], from->items[i], error))
      return false;
  return true;
}

static bool
read_mapping (Reader *reader, ZsNode *mapping, int depth, GError **error)
{
  ZsNode *merged = NULL;

  for (;;) {
    yaml_event_t event;

    if (!next (reader, &event, error))
      return false;
    if (event.type == YAML_MAPPING_END_EVENT) {
      yaml_event_delete (&event);
      return merged == NULL || merge (reader->document, mapping, merged, error);
    }

    yaml_mark_t mark = event.start_mark;
    ZsNode *key = read_node (reader, &event, depth, error);

    yaml_event_delete (&event);
    if (key == NULL)
      return false;
    if (key->kind != ZS_NODE_SCALAR)
      return fail_at (reader, mark, error, "a key must be a word, not %s", zs_node_describe (key));
    if (!next (reader, &event, error))
      return false;

    ZsNode *value = read_node (reader, &event, depth, error);

    yaml_event_delete (&event);
    if (value == NULL)
      return false;
    if (!key->quoted && strcmp (key->text, "<<") == 0) {
      if (merged != NULL)
        return zs_node_error (key, error, "'<<' is given twice");
      merged = value;
    } else if (!zs_node_add (mapping, key, value, error)) {
      return false;
    }
  }
}

static ZsNode *
read_node (Reader *reader, const yaml_event_t *event, int depth, GError **error)
{
  ZsNode *node;
  bool ok;

  if (depth > ZS_DOCUMENT_MAX_DEPTH) {
    fail_at (reader, event->start_mark, error, "nested deeper than %d", ZS_DOCUMENT_MAX_DEPTH);
    return NULL;
  }
  switch (event->type) {
  case YAML_SCALAR_EVENT:
    return read_scalar (reader, event, error);
  case YAML_ALIAS_EVENT:
    node = g_hash_table_lookup (reader->anchors, event->data.alias.anchor);
    if (node == NULL) {
      fail_at (reader, event->start_mark, error, "no '&%s' before this", event->data.alias.anchor);
      return NULL;
    }
    return zs_document_copy (reader->document, node, error);
  case YAML_SEQUENCE_START_EVENT:
  case YAML_MAPPING_START_EVENT:
    break;
  default:
    fail_at (reader, event->start_mark, error, "a value is wanted here");
    return NULL;
  }

  bool is_mapping = event->type == YAML_MAPPING_START_EVENT;

  if (!check_tag (reader, event,
                  is_mapping ? event->data.mapping_start.tag : event->data.sequence_start.tag,
                  error))
    return NULL;
  node =
      zs_document_node (reader->document, is_mapping ? ZS_NODE_MAPPING : ZS_NODE_SEQUENCE,
                        (int)event->start_mark.line + 1, (int)event->start_mark.column + 1, error);
  if (node == NULL)
    return NULL;
  ok = is_mapping ? read_mapping (reader, node, depth + 1, error)
                  : read_sequence (reader, node, depth + 1, error);
  if (ok)
    remember (reader,
              is_mapping ? event->data.mapping_start.anchor : event->data.sequence_start.anchor,
              node);
  return ok ? node : NULL;
}

static bool
expect (Reader *reader, yaml_event_type_t type, GError **error)
{
  yaml_event_t event;
  bool ok;

  if (!next (reader, &event, error))
    return false;
  ok = event.type == type;
  if (!ok && event.type == YAML_DOCUMENT_START_EVENT)
    fail_at (reader, event.start_mark, error, "a second document; one a file");
  else if (!ok)
    fail_at (reader, event.start_mark, error, "nothing but comments in the file");
  yaml_event_delete (&event);
  return ok;
}

ZsDocument *
zs_yaml_parse (const char *file, const char *text, gsize length, GError **error)
{
  Reader reader = { .file = file };
  yaml_event_t event;
  bool ok = false;

  if (!zs_document_check_text (file, &text, &length, error))
    return NULL;
  reader.document = zs_document_new (file);
  reader.anchors = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  if (!yaml_parser_initialize (&reader.parser))
    g_error ("out of memory");
  yaml_parser_set_encoding (&reader.parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string (&reader.parser, (const unsigned char *)text, length);
  if (expect (&reader, YAML_STREAM_START_EVENT, error)
      && expect (&reader, YAML_DOCUMENT_START_EVENT, error) && next (&reader, &event, error)) {
    ZsNode *root = read_node (&reader, &event, 0, error);

    yaml_event_delete (&event);
    if (root != NULL) {
      zs_document_set_root (reader.document, root);
      ok = expect (&reader, YAML_DOCUMENT_END_EVENT, error)
           && expect (&reader, YAML_STREAM_END_EVENT, error);
    }
  }
  yaml_parser_delete (&reader.parser);
  g_hash_table_unref (reader.anchors);
  if (!ok)
    g_clear_pointer (&reader.document, zs_document_free);
  return reader.document;
}
