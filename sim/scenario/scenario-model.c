/* scenario-model.c: the section `model`: a name, the path of a config.json, or dimensions.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/base/words.h"
#include "sim/scenario/scenario-internal.h"
#include "sim/scenario/synonyms.h"

/* Short words for keys of config.json. */
static const struct {
  const char *word, *key;
} SHORT[] = {
  { "layers", "num_hidden_layers" },
  { "hidden", "hidden_size" },
  { "intermediate", "intermediate_size" },
  { "heads", "num_attention_heads" },
  { "kv_heads", "num_key_value_heads" },
  { "vocabulary", "vocab_size" },
  { "tied_embeddings", "tie_word_embeddings" },
  { "max_position", "max_position_embeddings" },
};

/* Keys of config.json that may be written in the scenario. */
static const char *const KEYS[] = {
  "name",
  "base",
  "layers",
  "hidden",
  "intermediate",
  "heads",
  "kv_heads",
  "head_dim",
  "vocabulary",
  "tied_embeddings",
  "max_position",
  "model_type",
  "architectures",
  "hidden_size",
  "intermediate_size",
  "num_hidden_layers",
  "num_attention_heads",
  "num_key_value_heads",
  "vocab_size",
  "max_position_embeddings",
  "tie_word_embeddings",
  "attention_bias",
  "qkv_bias",
  "mlp_bias",
  "sliding_window",
  "use_sliding_window",
  "dtype",
  "torch_dtype",
  "hidden_act",
  NULL,
};

/* A model of the catalogue; one that is not there under its own name is looked for as what it was tuned
 * from, which has the same dimensions: a note says so. */
static const ZsCatalogueEntry *
find_model (ZsReader *reader, const ZsNode *node, GError **error)
{
  const ZsCatalogueEntry *entry =
      zs_catalogue_find (reader->catalogue, ZS_CATALOGUE_MODELS, node->text, NULL, NULL, error);
  g_autofree char *base = entry == NULL ? zs_base_of_model (node->text) : NULL;

  if (base == NULL || *base == '\0')
    return entry;
  entry = zs_catalogue_find (reader->catalogue, ZS_CATALOGUE_MODELS, base, NULL, NULL, NULL);
  if (entry != NULL) {
    g_clear_error (error);
    zs_notes_add (reader->notes, ZS_NOTE_INFO, "model-base", node,
                  "'%.60s' is taken as %s, whose dimensions it should have; --model config.json is "
                  "exact", node->text, entry->name);
  }
  return entry;
}

/* The root of the model that NODE (a scalar) names, or NULL and an error; *RET_NAME its name. */
static const ZsNode *
find_base (ZsReader *reader, const ZsNode *node, const char **ret_name)
{
  g_autofree char *path = zs_reader_file (node);
  g_autofree char *inside = g_build_filename (path, "config.json", NULL);
  g_autoptr (GError) error = NULL;
  bool is_folder =
      g_file_test (path, G_FILE_TEST_IS_DIR) && g_file_test (inside, G_FILE_TEST_EXISTS);
  bool is_file = is_folder || g_file_test (path, G_FILE_TEST_IS_REGULAR);
  const ZsCatalogueEntry *entry =
      is_file ? zs_catalogue_find (reader->catalogue, ZS_CATALOGUE_MODELS, node->text, NULL, NULL,
                                   &error)
              : find_model (reader, node, &error);

  if (entry != NULL && !(is_folder || g_file_test (path, G_FILE_TEST_IS_REGULAR))) {
    *ret_name = entry->name;
    return zs_document_root (entry->document);
  }
  if (entry != NULL && !g_str_has_suffix (node->text, ".json")) {
    *ret_name = entry->name;
    return zs_document_root (entry->document);
  }
  if (!is_folder && !g_file_test (path, G_FILE_TEST_EXISTS)
      && !g_str_has_suffix (node->text, ".json")) {
    zs_node_fail (node, reader->errors, "%s", error->message);
    return NULL;
  }
  g_clear_error (&error);

  ZsDocument *document = zs_document_load (is_folder ? inside : path, &error);

  if (document == NULL) {
    if (strncmp (error->message, path, strlen (path)) == 0
        && strstr (error->message, ".json:") != NULL
        && g_ascii_isdigit (strstr (error->message, ".json:")[6]))
      zs_errors_take (reader->errors, g_steal_pointer (&error));
    else
      zs_node_fail (node, reader->errors, "%s", error->message);
    return NULL;
  }
  zs_document_take (reader->document, document);

  /* config.json is called as its folder, other files as themselves */
  g_autofree char *folder = is_folder ? g_strdup (path) : g_path_get_dirname (path);
  g_autofree char *base = g_path_get_basename (path), *parent = g_path_get_basename (folder);
  bool generic = is_folder || strcmp (base, "config.json") == 0;
  const char *name = !generic                                                 ? base
                     : strcmp (parent, ".") == 0 || strcmp (parent, "/") == 0 ? "model"
                                                                              : parent;

  *ret_name = zs_document_flag (reader->document, "", name)->text;
  return zs_document_root (document);
}

/* Mistakes in what a base and the changes make together are the changes'. */
static void
set_place (ZsNode *node, const ZsNode *place)
{
  node->file = place->file;
  node->line = place->line;
  node->column = place->column;
  for (int i = 0; i < node->n_items; i++)
    set_place (node->items[i], place);
}

/* BASE with the keys of OVERRIDES. */
static ZsNode *
merge (ZsReader *reader, const ZsNode *base, const ZsNode *overrides)
{
  ZsNode *merged = zs_document_copy (reader->document, base, NULL);
  bool resized = false, ok = true;

  if (merged == NULL || merged->kind != ZS_NODE_MAPPING)
    return merged;
  set_place (merged, overrides);
  for (int i = 0; i < overrides->n_items; i++) {
    const char *key = overrides->keys[i]->text;

    if (!g_strv_contains (KEYS, key)) {
      ok = zs_schema_unknown_key (overrides->keys[i], "model", KEYS, reader->errors);
      continue;
    }
    for (size_t k = 0; k < G_N_ELEMENTS (SHORT); k++)
      if (strcmp (key, SHORT[k].word) == 0)
        key = SHORT[k].key;
    resized |= strcmp (key, "hidden_size") == 0 || strcmp (key, "num_attention_heads") == 0;
    if (strcmp (key, "base") != 0)
      zs_node_put (reader->document, merged, key, overrides->items[i]);
  }
  /* a head_dim that only repeated hidden / heads of the base, and as many key-value heads as heads,
   * follow the new numbers */
  int64_t hidden, heads, kv_heads, head_dim;
  ZsNode *nothing = zs_document_flag (reader->document, "", "null");

  if (resized && zs_node_get (overrides, "head_dim") == NULL
      && zs_node_int (zs_node_get (base, "hidden_size"), &hidden)
      && zs_node_int (zs_node_get (base, "num_attention_heads"), &heads)
      && zs_node_int (zs_node_get (base, "head_dim"), &head_dim) && hidden == heads * head_dim)
    zs_node_put (reader->document, merged, "head_dim", nothing);
  if (zs_node_get (overrides, "kv_heads") == NULL
      && zs_node_get (overrides, "num_key_value_heads") == NULL
      && zs_node_int (zs_node_get (base, "num_attention_heads"), &heads)
      && zs_node_int (zs_node_get (base, "num_key_value_heads"), &kv_heads) && kv_heads == heads)
    zs_node_put (reader->document, merged, "num_key_value_heads", nothing);
  return ok ? merged : NULL;
}

bool
zs_reader_model (ZsReader *reader)
{
  ZsScenario *scenario = reader->scenario;
  ZsNode *node = zs_node_get (reader->root, "model");
  const ZsNode *root = node;
  const char *name = "model";

  if (node == NULL || zs_node_is_null (node))
    return zs_node_fail (reader->root, reader->errors,
                         "no model is named: `model: llama-7b` in the scenario, or --model");
  if (node->kind == ZS_NODE_SCALAR) {
    root = find_base (reader, node, &name);
    scenario->model_name = node->text;
  } else if (node->kind == ZS_NODE_MAPPING) {
    const ZsNode *base = zs_node_get (node, "base");

    if (base != NULL && base->kind != ZS_NODE_SCALAR)
      return zs_node_fail (base, reader->errors, "'base' must be the name of a model or a path");
    if (base != NULL) {
      root = find_base (reader, base, &name);
      if (root != NULL && root->kind != ZS_NODE_MAPPING)
        return zs_node_fail (root, reader->errors, "a model's config must be a mapping");
    } else {
      root = zs_document_node (reader->document, ZS_NODE_MAPPING, node->line, node->column, NULL);
      if (root != NULL)
        ((ZsNode *)root)->file = node->file;
    }
    if (root != NULL)
      root = merge (reader, root, node);
    scenario->model_name = base != NULL ? base->text : name;
  } else {
    return zs_node_fail (node, reader->errors,
                         "'model' must be a name, a path, or {base: llama-7b, layers: 4}");
  }
  if (root == NULL)
    return false;
  zs_settings_put_node (reader->settings, "model", node);
  if (!zs_hf_config_read (root, name, &scenario->model, reader->notes, reader->errors))
    return false;

  zs_settings_put (reader->settings, "model.parameters", ZS_SETTING_DERIVED, "the dimensions",
                   "%" G_GINT64_FORMAT, scenario->model.n_parameters);
  return true;
}
