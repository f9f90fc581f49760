/* document.c: trees of settings.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/io/document.h"

#include <string.h>

#include "sim/base/units.h"
#include "sim/io/file.h"

#define BLOCK_NODES 64 /* nodes are made in blocks of so many */
#define LARGE 32       /* a mapping of more keys has an index */

struct ZsDocument {
  const char *file;
  ZsNode *root;
  GPtrArray *blocks; /* of BLOCK_NODES nodes */
  int n_nodes;
  GStringChunk *text;
  GPtrArray *taken; /* ZsDocument */
};

ZsDocument *
zs_document_new (const char *file)
{
  ZsDocument *document = g_new0 (ZsDocument, 1);

  document->text = g_string_chunk_new (1024);
  document->file = g_string_chunk_insert (document->text, file);
  document->blocks = g_ptr_array_new_with_free_func (g_free);
  document->taken = g_ptr_array_new_with_free_func ((GDestroyNotify)zs_document_free);
  return document;
}

void
zs_document_free (ZsDocument *document)
{
  if (document == NULL)
    return;
  for (int i = 0; i < document->n_nodes; i++) {
    ZsNode *block = g_ptr_array_index (document->blocks, i / BLOCK_NODES);

    g_free (block[i % BLOCK_NODES].keys);
    g_free (block[i % BLOCK_NODES].items);
    g_clear_pointer (&block[i % BLOCK_NODES].index, g_hash_table_unref);
  }
  g_ptr_array_unref (document->blocks);
  g_ptr_array_unref (document->taken);
  g_string_chunk_free (document->text);
  g_free (document);
}

ZsNode *
zs_document_root (const ZsDocument *document)
{
  return document->root;
}

const char *
zs_document_file (const ZsDocument *document)
{
  return document->file;
}

void
zs_document_set_root (ZsDocument *document, ZsNode *root)
{
  document->root = root;
}

void
zs_document_take (ZsDocument *document, ZsDocument *other)
{
  g_ptr_array_add (document->taken, other);
}

ZsDocument *
zs_document_load (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  if (!zs_file_read (path, ZS_DOCUMENT_MAX_BYTES, &text, &length, error))
    return NULL;
  return g_str_has_suffix (path, ".json") ? zs_json_parse (path, text, length, error)
                                          : zs_yaml_parse (path, text, length, error);
}

bool
zs_document_check_text (const char *file, const char **text, gsize *length, GError **error)
{
  const char *bad;

  if (*length > ZS_DOCUMENT_MAX_BYTES) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s: larger than %d MiB: not a settings file",
                 file, ZS_DOCUMENT_MAX_BYTES >> 20);
    return false;
  }
  if (*length >= 3 && memcmp (*text, "\xef\xbb\xbf", 3) == 0) {
    *text += 3;
    *length -= 3;
  }
  if (*length >= 2 && (memcmp (*text, "\xff\xfe", 2) == 0 || memcmp (*text, "\xfe\xff", 2) == 0)) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s:1:1: this is UTF-16; save it as UTF-8", file);
    return false;
  }

  bool valid = g_utf8_validate_len (*text, *length, &bad); /* stops at a NUL too */

  if (valid)
    for (bad = *text; bad < *text + *length; bad++)
      if (((unsigned char)*bad < 0x20 && strchr ("\t\n\r\f", *bad) == NULL) || *bad == 0x7f) {
        valid = false;
        break;
      }
  if (!valid) {
    int line = 1, column = 1;

    for (const char *at = *text; at < bad; at++) {
      column += ((unsigned char)*at & 0xc0) != 0x80; /* count characters, not bytes */
      if (*at == '\n') {
        line++;
        column = 1;
      }
    }
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT,
                 "%s:%d:%d: byte 0x%02x is not text in UTF-8; is this a binary file?", file, line,
                 column, (unsigned char)*bad);
    return false;
  }
  for (gsize i = 0; i < *length; i++)
    if (!g_ascii_isspace ((*text)[i]))
      return true;
  g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s:1:1: the file is empty", file);
  return false;
}

ZsNode *
zs_document_node (ZsDocument *document, ZsNodeKind kind, int line, int column, GError **error)
{
  if (document->n_nodes >= ZS_DOCUMENT_MAX_NODES) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT,
                 "%s:%d:%d: more than %d values (aliases written out): not a settings file",
                 document->file, line, column, ZS_DOCUMENT_MAX_NODES);
    return NULL;
  }
  if (document->n_nodes % BLOCK_NODES == 0)
    g_ptr_array_add (document->blocks, g_new0 (ZsNode, BLOCK_NODES));

  ZsNode *block = g_ptr_array_index (document->blocks, document->n_nodes / BLOCK_NODES);
  ZsNode *node = &block[document->n_nodes++ % BLOCK_NODES];

  node->kind = kind;
  node->file = document->file;
  node->line = line;
  node->column = column;
  return node;
}

ZsNode *
zs_document_scalar (ZsDocument *document, int line, int column, const char *text, gsize length,
                    bool quoted, GError **error)
{
  ZsNode *node = zs_document_node (document, ZS_NODE_SCALAR, line, column, error);

  if (node == NULL)
    return NULL;
  node->text = g_string_chunk_insert_len (document->text, text, (gssize)length);
  node->quoted = quoted;
  return node;
}

static int
find (const ZsNode *node, const char *key)
{
  if (node == NULL || node->kind != ZS_NODE_MAPPING)
    return -1;
  if (node->index != NULL)
    return GPOINTER_TO_INT (g_hash_table_lookup (node->index, key)) - 1;
  for (int i = 0; i < node->n_items; i++)
    if (strcmp (node->keys[i]->text, key) == 0)
      return i;
  return -1;
}

static void
make_room (ZsNode *node)
{
  if (node->n_items < node->room)
    return;
  node->room = MAX (4, node->room * 2);
  node->items = g_renew (ZsNode *, node->items, node->room);
  if (node->kind == ZS_NODE_MAPPING)
    node->keys = g_renew (ZsNode *, node->keys, node->room);
}

static void
add_pair (ZsNode *mapping, ZsNode *key, ZsNode *value)
{
  make_room (mapping);
  mapping->keys[mapping->n_items] = key;
  mapping->items[mapping->n_items++] = value;
  if (mapping->n_items == LARGE) {
    mapping->index = g_hash_table_new (g_str_hash, g_str_equal);
    for (int i = 0; i < LARGE - 1; i++)
      g_hash_table_insert (mapping->index, (char *)mapping->keys[i]->text, GINT_TO_POINTER (i + 1));
  }
  if (mapping->index != NULL)
    g_hash_table_insert (mapping->index, (char *)key->text, GINT_TO_POINTER (mapping->n_items));
}

bool
zs_node_add (ZsNode *mapping, ZsNode *key, ZsNode *value, GError **error)
{
  g_assert (mapping->kind == ZS_NODE_MAPPING && key->kind == ZS_NODE_SCALAR);

  const ZsNode *before = zs_node_get_key (mapping, key->text);

  if (before != NULL)
    return zs_node_error (key, error, "'%s' is given twice; the first is at line %d", key->text,
                          before->line);
  add_pair (mapping, key, value);
  return true;
}

void
zs_node_append (ZsNode *sequence, ZsNode *item)
{
  g_assert (sequence->kind == ZS_NODE_SEQUENCE);
  make_room (sequence);
  sequence->items[sequence->n_items++] = item;
}

ZsNode *
zs_document_copy (ZsDocument *document, const ZsNode *node, GError **error)
{
  ZsNode *copy = zs_document_node (document, node->kind, node->line, node->column, error);

  if (copy == NULL)
    return NULL;
  copy->file = node->file;
  copy->quoted = node->quoted;
  if (node->text != NULL)
    copy->text = g_string_chunk_insert (document->text, node->text);
  for (int i = 0; i < node->n_items; i++) {
    ZsNode *key = NULL, *item = zs_document_copy (document, node->items[i], error);

    if (item == NULL)
      return NULL;
    if (node->kind == ZS_NODE_MAPPING
        && (key = zs_document_copy (document, node->keys[i], error)) == NULL)
      return NULL;
    if (key != NULL)
      add_pair (copy, key, item);
    else
      zs_node_append (copy, item);
  }
  return copy;
}

ZsNode *
zs_document_flag (ZsDocument *document, const char *origin, const char *text)
{
  ZsNode *node = zs_document_scalar (document, 0, 0, text, strlen (text), false, NULL);

  g_assert (node != NULL);
  node->file = g_string_chunk_insert_const (document->text, origin);
  return node;
}

void
zs_node_put (ZsDocument *document, ZsNode *mapping, const char *key, ZsNode *value)
{
  int i = find (mapping, key);
  ZsNode *node;

  if (i >= 0) {
    mapping->items[i] = value;
    return;
  }
  node = zs_document_flag (document, value->file, key);
  node->line = value->line;
  node->column = value->column;
  add_pair (mapping, node, value);
}

ZsNode *
zs_node_get (const ZsNode *node, const char *key)
{
  int i = find (node, key);

  return i >= 0 ? node->items[i] : NULL;
}

ZsNode *
zs_node_get_key (const ZsNode *node, const char *key)
{
  int i = find (node, key);

  return i >= 0 ? node->keys[i] : NULL;
}

bool
zs_node_is_null (const ZsNode *node)
{
  return node != NULL && node->kind == ZS_NODE_SCALAR && !node->quoted
         && (*node->text == '\0' || strcmp (node->text, "~") == 0
             || g_ascii_strcasecmp (node->text, "null") == 0);
}

const char *
zs_node_describe (const ZsNode *node)
{
  bool truth;
  double number;

  if (node == NULL || zs_node_is_null (node))
    return "nothing";
  if (node->kind != ZS_NODE_SCALAR)
    return node->kind == ZS_NODE_MAPPING ? "a mapping" : "a list";
  if (zs_node_bool (node, &truth))
    return "true or false";
  return zs_node_number (node, &number) ? "a number" : "a string";
}

bool
zs_node_bool (const ZsNode *node, bool *ret_value)
{
  if (node == NULL || node->kind != ZS_NODE_SCALAR || node->quoted)
    return false;
  if (g_ascii_strcasecmp (node->text, "true") == 0)
    *ret_value = true;
  else if (g_ascii_strcasecmp (node->text, "false") == 0)
    *ret_value = false;
  else
    return false;
  return true;
}

bool
zs_node_int (const ZsNode *node, int64_t *ret_value)
{
  return node != NULL && node->kind == ZS_NODE_SCALAR && !node->quoted
         && zs_count_parse (node->text, ret_value, NULL);
}

bool
zs_node_number (const ZsNode *node, double *ret_value)
{
  return node != NULL && node->kind == ZS_NODE_SCALAR && !node->quoted
         && zs_number_parse (node->text, ret_value, NULL);
}

char *
zs_node_where (const ZsNode *node)
{
  return node->line > 0 ? g_strdup_printf ("%s:%d:%d", node->file, node->line, node->column)
                        : g_strdup (node->file);
}

static GError *
error_at (const ZsNode *node, const char *format, va_list arguments)
{
  g_autofree char *where = zs_node_where (node);
  g_autofree char *message = g_strdup_vprintf (format, arguments);

  return g_error_new (ZS_ERROR, ZS_ERROR_INPUT, "%s: %s", where, message);
}

bool
zs_node_fail (const ZsNode *node, ZsErrors *errors, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  zs_errors_take (errors, error_at (node, format, arguments));
  va_end (arguments);
  return false;
}

bool
zs_node_error (const ZsNode *node, GError **error, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  if (error != NULL)
    *error = error_at (node, format, arguments);
  va_end (arguments);
  return false;
}
