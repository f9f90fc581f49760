/* tree.c: writes a tree.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/web/tree.h"

#include <string.h>

/* Text that YAML would not read back as the same scalar goes in double quotes. */
static void
write_scalar (const ZsNode *node, GString *text)
{
  bool plain = !node->quoted && node->text[0] != '\0' && g_ascii_isalnum (node->text[0]);

  for (const char *at = node->text; *at != '\0' && plain; at++)
    plain = g_ascii_isalnum (*at) || strchr (" ._+-/()", *at) != NULL;
  if (plain && node->text[strlen (node->text) - 1] != ' ') {
    g_string_append (text, node->text);
    return;
  }
  if (!node->quoted && zs_node_is_null (node)) {
    g_string_append (text, "null");
    return;
  }
  g_string_append_c (text, '"');
  for (const char *at = node->text; *at != '\0'; at++) {
    if ((guchar) *at < 0x20)
      g_string_append_printf (text, "\\x%02x", (guchar) *at);
    else {
      if (*at == '"' || *at == '\\')
        g_string_append_c (text, '\\');
      g_string_append_c (text, *at);
    }
  }
  g_string_append_c (text, '"');
}

/* What stands after "key:" or "-". */
static void
write_value (const ZsNode *node, int indent, GString *text)
{
  if (node->kind == ZS_NODE_SCALAR) {
    g_string_append_c (text, ' ');
    write_scalar (node, text);
    g_string_append_c (text, '\n');
    return;
  }
  if (node->n_items == 0) {
    g_string_append (text, node->kind == ZS_NODE_MAPPING ? " {}\n" : " []\n");
    return;
  }
  g_string_append_c (text, '\n');
  for (int i = 0; i < node->n_items; i++) {
    g_string_append_printf (text, "%*s", indent, "");
    if (node->kind == ZS_NODE_MAPPING) {
      write_scalar (node->keys[i], text);
      g_string_append_c (text, ':');
    } else {
      g_string_append_c (text, '-');
    }
    write_value (node->items[i], indent + 2, text);
  }
}

void
zs_tree_write_yaml (const ZsNode *node, GString *text)
{
  g_autoptr (GString) body = g_string_new (NULL);

  write_value (node, 0, body);
  /* the top has no key to stand after */
  g_string_append (text, body->str + (body->str[0] == '\n' || body->str[0] == ' ' ? 1 : 0));
}

void
zs_tree_write_json (const ZsNode *node, const char *key, ZsJsonWriter *writer)
{
  bool flag;
  int64_t whole;
  double real;

  if (node->kind == ZS_NODE_MAPPING) {
    zs_json_begin_object (writer, key);
    for (int i = 0; i < node->n_items; i++)
      zs_tree_write_json (node->items[i], node->keys[i]->text, writer);
    zs_json_end_object (writer);
  } else if (node->kind == ZS_NODE_SEQUENCE) {
    zs_json_begin_array (writer, key);
    for (int i = 0; i < node->n_items; i++)
      zs_tree_write_json (node->items[i], NULL, writer);
    zs_json_end_array (writer);
  } else if (node->quoted) {
    zs_json_string (writer, key, node->text);
  } else if (zs_node_is_null (node)) {
    zs_json_null (writer, key);
  } else if (zs_node_bool (node, &flag)) {
    zs_json_bool (writer, key, flag);
  } else if (zs_node_int (node, &whole)) {
    zs_json_int (writer, key, whole);
  } else if (zs_node_number (node, &real)) {
    zs_json_number (writer, key, real);
  } else {
    zs_json_string (writer, key, node->text);
  }
}
