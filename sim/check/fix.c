/* fix.c: corrections, made in the tree, and the tree as strict JSON.  SPDX-License-Identifier: MIT
 */
#include "config.h"

#include <string.h>

#include "sim/check/check-internal.h"

/* What a code's correction is. */
static const struct {
  const char *code;
  ZsFixKind fix;
} FIXES[] = {
  { "number-in-quotes", ZS_FIX_VALUE },  { "fractional-size", ZS_FIX_VALUE },
  { "unknown-word", ZS_FIX_VALUE },      { "text-for-bool", ZS_FIX_VALUE },
  { "python-literal", ZS_FIX_VALUE },    { "wrong-type", ZS_FIX_VALUE },
  { "unknown-optimizer", ZS_FIX_VALUE }, { "unknown-scheduler", ZS_FIX_VALUE },
  { "unknown-key", ZS_FIX_MOVE },        { "misplaced-key", ZS_FIX_MOVE },
  { "foreign-key", ZS_FIX_MOVE },        { "deprecated-key", ZS_FIX_MOVE },
  { "removed-key", ZS_FIX_MOVE },        { "old-name", ZS_FIX_MOVE },
  { "invented-key", ZS_FIX_REMOVE },     { "old-and-new-name", ZS_FIX_REMOVE },
};

/* Names for which the rule of their code does not do. */
static const struct {
  const char *key;
  ZsFixKind fix;
} EXCEPTIONS[] = {
  { "cpu_offload", ZS_FIX_OFFLOAD },
  { "cpu_offload_param", ZS_FIX_OFFLOAD },
  { "cpu_offload_params", ZS_FIX_OFFLOAD },
  { "cpu_offload_use_pin_memory", ZS_FIX_REMOVE },
  { "legacy_stage1", ZS_FIX_REMOVE },
  { "zero3_offload_param", ZS_FIX_MOVE },
  { "zero3_max_live_parameters", ZS_FIX_MOVE },
  { "zero3_max_reuse_distance", ZS_FIX_MOVE },
};

ZsFixKind
zs_check_fix_kind (const char *code, const ZsNode *node, const char *instead)
{
  ZsFixKind fix = ZS_FIX_NONE;

  for (size_t i = 0; i < G_N_ELEMENTS (FIXES); i++)
    if (strcmp (FIXES[i].code, code) == 0)
      fix = FIXES[i].fix;
  if (fix == ZS_FIX_NONE || node->kind != ZS_NODE_SCALAR)
    return ZS_FIX_NONE;
  for (size_t i = 0; fix != ZS_FIX_VALUE && i < G_N_ELEMENTS (EXCEPTIONS); i++)
    if (strcmp (EXCEPTIONS[i].key, node->text) == 0 && strcmp (code, "old-and-new-name") != 0)
      fix = EXCEPTIONS[i].fix;
  if ((fix == ZS_FIX_VALUE || fix == ZS_FIX_MOVE) && instead == NULL)
    return ZS_FIX_NONE;
  if (fix == ZS_FIX_MOVE && strchr (instead, '{') != NULL)
    return ZS_FIX_NONE; /* a text, not a path */
  return fix;
}

/* Where a node is: the mapping that holds it, its index there, and the mapping's path. */
typedef struct {
  ZsNode *mapping;
  int index;
  char *path;
} Spot;

static bool
find (ZsNode *mapping, const char *path, const ZsNode *node, Spot *ret_spot)
{
  for (int i = 0; i < mapping->n_items; i++) {
    ZsNode *item = mapping->items[i];

    if (mapping->kind == ZS_NODE_MAPPING && (mapping->keys[i] == node || item == node)) {
      *ret_spot = (Spot){ mapping, i, g_strdup (path) };
      return true;
    }
    if (item->kind == ZS_NODE_SCALAR)
      continue;
    const char *name = mapping->kind == ZS_NODE_MAPPING ? mapping->keys[i]->text : "";
    g_autofree char *inner = *path != '\0' ? g_strconcat (path, ".", name, NULL) : g_strdup (name);

    if (find (item, inner, node, ret_spot))
      return true;
  }
  return false;
}

static void
take_out (ZsNode *mapping, int index)
{
  for (int i = index; i + 1 < mapping->n_items; i++) {
    mapping->keys[i] = mapping->keys[i + 1];
    mapping->items[i] = mapping->items[i + 1];
  }
  mapping->n_items--;
}

/* Puts VALUE at PATH, making the sections on the way; nothing if something is there. */
static void
put (ZsDocument *document, const char *path, ZsNode *value)
{
  g_auto (GStrv) words = g_strsplit (path, ".", -1);
  ZsNode *at = zs_document_root (document);
  int i;

  for (i = 0; words[i + 1] != NULL; i++) {
    ZsNode *section = zs_node_get (at, words[i]);

    if (section == NULL) {
      section = zs_document_node (document, ZS_NODE_MAPPING, value->line, value->column, NULL);
      if (section == NULL)
        return;
      zs_node_put (document, at, words[i], section);
    }
    if (section->kind != ZS_NODE_MAPPING)
      return;
    at = section;
  }
  if (zs_node_get (at, words[i]) == NULL)
    zs_node_put (document, at, words[i], value);
}

/* INSTEAD is JSON text of one value. */
static ZsNode *
value_of (ZsDocument *document, const char *instead)
{
  gsize length = strlen (instead);
  bool quoted = length >= 2 && instead[0] == '"' && instead[length - 1] == '"';

  return zs_document_scalar (document, 0, 0, quoted ? instead + 1 : instead,
                             quoted ? length - 2 : length, quoted, NULL);
}

static bool
correct (ZsDocument *document, const ZsFinding *finding)
{
  Spot spot;
  bool truth;

  if (!find (zs_document_root (document), "", finding->node, &spot))
    return false;
  g_autofree char *path = spot.path;
  ZsNode *value = spot.mapping->items[spot.index];
  const char *dot = finding->instead != NULL ? strrchr (finding->instead, '.') : NULL;
  const char *word = dot != NULL ? dot + 1 : finding->instead;
  g_autofree char *section =
      dot != NULL ? g_strndup (finding->instead, (gsize)(dot - finding->instead)) : g_strdup ("");

  switch (finding->fix) {
  case ZS_FIX_VALUE:
    value = value_of (document, finding->instead);
    if (value != NULL)
      spot.mapping->items[spot.index] = value;
    return value != NULL;
  case ZS_FIX_MOVE:
    if (strcmp (section, path) == 0 && zs_node_get (spot.mapping, word) == NULL) {
      spot.mapping->keys[spot.index] =
          zs_document_scalar (document, 0, 0, word, strlen (word), true, NULL);
      return true;
    }
    take_out (spot.mapping, spot.index);
    put (document, finding->instead, value);
    return true;
  case ZS_FIX_OFFLOAD:
    take_out (spot.mapping, spot.index);
    if (zs_node_bool (value, &truth) && truth) {
      ZsNode *block = zs_document_node (document, ZS_NODE_MAPPING, 0, 0, NULL);
      ZsNode *device = zs_document_scalar (document, 0, 0, "cpu", 3, true, NULL);

      if (block != NULL && device != NULL) {
        zs_node_put (document, block, "device", device);
        put (document, finding->instead, block);
      }
    }
    return true;
  case ZS_FIX_REMOVE:
    take_out (spot.mapping, spot.index);
    return true;
  default:
    return false;
  }
}

/* ---- the tree as text ---- */

static void
write_string (GString *out, const char *text)
{
  g_string_append_c (out, '"');
  for (const char *at = text; *at != '\0'; at++) {
    unsigned char byte = (unsigned char)*at;

    if (byte == '"' || byte == '\\')
      g_string_append_printf (out, "\\%c", byte);
    else if (byte == '\n')
      g_string_append (out, "\\n");
    else if (byte < 0x20)
      g_string_append_printf (out, "\\u%04x", byte);
    else
      g_string_append_c (out, *at);
  }
  g_string_append_c (out, '"');
}

static void
write_node (GString *out, const ZsNode *node, int indent)
{
  const bool object = node->kind == ZS_NODE_MAPPING;

  if (node->kind == ZS_NODE_SCALAR) {
    if (node->quoted)
      write_string (out, node->text);
    else
      g_string_append (out, node->text); /* a number, true, false or null, as it was written */
    return;
  }
  g_string_append_c (out, object ? '{' : '[');
  for (int i = 0; i < node->n_items; i++) {
    g_string_append (out, i > 0 ? "," : "");
    g_string_append_printf (out, "\n%*s", indent + 2, "");
    if (object) {
      write_string (out, node->keys[i]->text);
      g_string_append (out, ": ");
    }
    write_node (out, node->items[i], indent + 2);
  }
  if (node->n_items > 0)
    g_string_append_printf (out, "\n%*s", indent, "");
  g_string_append_c (out, object ? '}' : ']');
}

char *
zs_check_fix (ZsFindings *findings, int *ret_n)
{
  ZsDocument *document = zs_findings_document (findings);
  GString *out;
  int n = 0;

  if (document == NULL || zs_document_root (document)->kind != ZS_NODE_MAPPING)
    return NULL;
  for (int i = 0; i < zs_findings_count (findings); i++) {
    const ZsFinding *finding = zs_findings_get (findings, i);

    if (finding->fix != ZS_FIX_NONE && finding->node != NULL)
      n += correct (document, finding);
  }
  if (ret_n != NULL)
    *ret_n = n;
  out = g_string_new (NULL);
  write_node (out, zs_document_root (document), 0);
  g_string_append_c (out, '\n');
  return g_string_free (out, FALSE);
}
