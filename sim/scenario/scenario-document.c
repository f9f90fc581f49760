/* scenario-document.c: from files, flags and --set to the one tree of a scenario.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/base/words.h"
#include "sim/io/file.h"
#include "sim/scenario/ds-config.h"
#include "sim/scenario/scenario-internal.h"
#include "sim/scenario/synonyms.h"

static const char *const SECTIONS[] = { "name", "model", "cluster", "training", "measured", NULL };

/* Does ROOT look like a ds_config?  Its keys decide; a scenario has one of our sections. */
static bool
is_ds_config (const ZsNode *root)
{
  if (root->kind != ZS_NODE_MAPPING)
    return false;
  for (int i = 1; SECTIONS[i] != NULL; i++)
    if (zs_node_get (root, SECTIONS[i]) != NULL)
      return false;
  for (int i = 0; i < root->n_items; i++)
    if (zs_ds_key_find (root->keys[i]->text) != NULL)
      return true;
  return false;
}

static ZsNode *
new_mapping (ZsDocument *document, const ZsNode *place)
{
  ZsNode *node = zs_document_node (document, ZS_NODE_MAPPING, place->line, place->column, NULL);

  if (node != NULL)
    node->file = place->file;
  return node;
}

/* What file of another program is ROOT, if it is one that can stand for a scenario? */
static ZsForeign
foreign_kind (const ZsNode *root)
{
  static const struct {
    const char *key;
    ZsForeign   kind;
  } signs[] = {
    { "distributed_type", ZS_FOREIGN_ACCELERATE },
    { "compute_environment", ZS_FOREIGN_ACCELERATE },
    { "per_device_train_batch_size", ZS_FOREIGN_TRAINING_ARGS },
    { "output_dir", ZS_FOREIGN_TRAINING_ARGS },
    { "base_model", ZS_FOREIGN_TRAINING_ARGS },
  };

  for (int i = 0; SECTIONS[i] != NULL; i++)
    if (i != 1 && zs_node_get (root, SECTIONS[i]) != NULL)
      return ZS_FOREIGN_NONE;
  for (size_t i = 0; i < G_N_ELEMENTS (signs); i++)
    if (zs_node_get (root, signs[i].key) != NULL)
      return signs[i].kind;
  return ZS_FOREIGN_NONE;
}

ZsDocument *
zs_reader_load (const char *path, ZsNotes *notes, ZsForeign *ret_foreign, ZsErrors *errors)
{
  GError *error = NULL;
  bool json = g_str_has_suffix (path, ".json") || g_str_has_suffix (path, ".hjson");
  ZsDocument *document =
      json ? zs_ds_config_load (path, notes, &error) : zs_document_load (path, &error);

  *ret_foreign = ZS_FOREIGN_NONE;
  if (document == NULL) {
    zs_errors_take (errors, error);
    return NULL;
  }

  ZsNode *root = zs_document_root (document);

  *ret_foreign = foreign_kind (root);
  if (*ret_foreign != ZS_FOREIGN_NONE) { /* it is imported into an empty scenario */
    ZsNode *top = new_mapping (document, root);

    if (top != NULL)
      zs_document_set_root (document, top);
    return document;
  }
  if (is_ds_config (root)) {
    ZsNode *top = new_mapping (document, root), *training = new_mapping (document, root);

    if (top == NULL || training == NULL) {
      zs_node_fail (root, errors, "the file has too many values");
      zs_document_free (document);
      return NULL;
    }
    zs_node_put (document, training, "deepspeed", root);
    zs_node_put (document, top, "training", training);
    zs_document_set_root (document, top);
  }
  return document;
}

char *
zs_reader_file (const ZsNode *node)
{
  if (g_path_is_absolute (node->text) || node->line == 0 || strcmp (node->text, "-") == 0)
    return g_strdup (node->text);
  /* a file that another file names lies beside that one, or where the program was started */
  g_autofree char *folder = g_path_get_dirname (node->file);
  g_autofree char *beside = g_build_filename (folder, node->text, NULL);
  bool here = strcmp (folder, ".") == 0
              || (!g_file_test (beside, G_FILE_TEST_EXISTS)
                  && g_file_test (node->text, G_FILE_TEST_EXISTS));

  return here ? g_strdup (node->text) : g_steal_pointer (&beside);
}

bool
zs_reader_graft (ZsReader *reader)
{
  ZsNode *training = zs_node_get (reader->root, "training");
  ZsNode *node = zs_node_get (training, "deepspeed");

  if (node == NULL || node->kind != ZS_NODE_SCALAR || zs_node_is_null (node))
    return true;

  g_autofree char *path = zs_reader_file (node);
  g_autoptr (GError) error = NULL;
  ZsDocument *document = zs_ds_config_load (path, reader->notes, &error);

  if (document == NULL && g_str_has_prefix (error->message, path)
      && error->message[strlen (path)] == ':'
      && g_ascii_isdigit (error->message[strlen (path) + 1])) {
    zs_errors_take (reader->errors, g_steal_pointer (&error));
    return false;
  }
  if (document == NULL)
    return zs_node_fail (node, reader->errors, "%s", error->message);
  zs_document_take (reader->document, document);
  zs_node_put (reader->document, training, "deepspeed", zs_document_root (document));
  return true;
}

ZsNode *
zs_reader_find (const ZsReader *reader, const char *path)
{
  g_auto (GStrv) parts = g_strsplit (path, ".", -1);
  ZsNode *node = reader->root;

  for (int i = 0; parts[i] != NULL && node != NULL; i++)
    node = zs_node_get (node, parts[i]);
  return zs_node_is_null (node) ? NULL : node;
}

bool
zs_reader_put (ZsReader *reader, const char *path, ZsNode *value)
{
  g_auto (GStrv) parts = g_strsplit (path, ".", -1);
  ZsNode *node = reader->root;

  for (int i = 0; parts[i + 1] != NULL; i++) {
    ZsNode *next = zs_node_get (node, parts[i]);

    if (next == NULL || next->kind != ZS_NODE_MAPPING) {
      ZsNode *made = new_mapping (reader->document, value);

      if (made == NULL)
        return zs_node_fail (value, reader->errors, "the scenario has too many values");
      /* `model: llama-7b` and then model.layers: the name becomes the base */
      if (next != NULL && next->kind == ZS_NODE_SCALAR && !zs_node_is_null (next)) {
        if (i != 0 || strcmp (parts[i], "model") != 0)
          return zs_node_fail (value, reader->errors, "'%s' has no '%s': it is %s", parts[i],
                               parts[i + 1], zs_node_describe (next));
        zs_node_put (reader->document, made, "base", next);
      } else if (next != NULL && next->kind == ZS_NODE_SEQUENCE) {
        return zs_node_fail (value, reader->errors, "'%s' has no '%s': it is a list", parts[i],
                             parts[i + 1]);
      }
      zs_node_put (reader->document, node, parts[i], made);
      next = made;
    }
    node = next;
  }
  zs_node_put (reader->document, node, parts[g_strv_length (parts) - 1], value);
  return true;
}

bool
zs_reader_put_default (ZsReader *reader, const char *path, ZsNode *value)
{
  return zs_reader_find (reader, path) != NULL || zs_reader_put (reader, path, value);
}

/* ---- flags ---- */

/* A batch number from the command line wins over numbers in the ds_config too. */
static bool
override_batch (ZsReader *reader, const char *key, const char *ds_key)
{
  ZsNode *value = zs_reader_find (reader, key);
  g_autofree char *path = g_strconcat ("training.deepspeed.", ds_key, NULL);
  ZsNode *in_file = zs_reader_find (reader, path);

  if (value == NULL || value->line > 0 || in_file == NULL || in_file->line == 0
      || (in_file->kind == ZS_NODE_SCALAR && strcmp (in_file->text, "auto") == 0))
    return true;

  ZsNode *automatic = zs_document_flag (reader->document, value->file, "auto");

  automatic->quoted = true;
  return zs_reader_put (reader, path, value)
         && zs_reader_put (reader, "training.deepspeed.train_batch_size", automatic);
}

/* What the file says at PATH gives way; a flag or --set stays. */
static bool
withdraw (ZsReader *reader, const char *path, const char *origin)
{
  const ZsNode *said = zs_reader_find (reader, path);

  return said == NULL || said->line == 0
         || zs_reader_put (reader, path, zs_document_flag (reader->document, origin, "null"));
}

/* NAME, from the command line, is a machine: what the file says of its own gives way. */
static bool
put_instance (ZsReader *reader, ZsNode *name)
{
  static const char *const keys[] = { "gpu",  "gpu_memory", "gpus_per_node", "fabric", "network",
                                      "host", "peer_access", "shm_rate",      "nvme" };
  bool ok = zs_reader_put (reader, "cluster.instance", name);

  for (size_t i = 0; i < G_N_ELEMENTS (keys) && !zs_node_is_null (name); i++) {
    g_autofree char *path = g_strconcat ("cluster.", keys[i], NULL);

    ok &= withdraw (reader, path, name->file);
  }
  return ok;
}

/* Do the two names mean one GPU? */
static bool
is_same_gpu (ZsReader *reader, const char *a, const char *b)
{
  const ZsCatalogueEntry *entry = zs_catalogue_find (reader->catalogue, ZS_CATALOGUE_GPUS, a, NULL, NULL, NULL);

  if (entry == NULL || zs_names_equal (a, b) || zs_names_equal (entry->name, b))
    return true;
  for (const char *const *alias = entry->aliases; *alias != NULL; alias++)
    if (zs_names_equal (*alias, b))
      return true;
  return false;
}

/* NAME, from the command line, is a GPU: the memory that the file gives belongs to its own. */
static bool
put_gpu (ZsReader *reader, ZsNode *name)
{
  const ZsNode *before = zs_reader_find (reader, "cluster.gpu");
  bool same = before == NULL || before->kind != ZS_NODE_SCALAR || name->kind != ZS_NODE_SCALAR
              || is_same_gpu (reader, before->text, name->text);

  return zs_reader_put (reader, "cluster.gpu", name)
         && (same || withdraw (reader, "cluster.gpu_memory", name->file));
}

static bool
apply_gpus (ZsReader *reader, const char *text)
{
  g_autofree char *origin = g_strdup_printf ("--gpus %s", text);
  g_autofree char *count = NULL, *name = NULL;

  zs_split_gpus (text, &count, &name);
  if (*name == '\0')
    return zs_errors_add (reader->errors,
                          "--gpus %s: a number and a name are wanted, as 2xA100-40G", text);
  if (zs_catalogue_find (reader->catalogue, ZS_CATALOGUE_INSTANCES, text, NULL, NULL, NULL) != NULL)
    return put_instance (reader, zs_document_flag (reader->document, origin, text));
  return zs_reader_put (reader, "cluster.gpus_per_node",
                        zs_document_flag (reader->document, origin, count))
         && put_gpu (reader, zs_document_flag (reader->document, origin, name));
}

/* "16", or "16:q_proj,v_proj" */
static bool
apply_lora (ZsReader *reader, const char *text)
{
  g_autofree char *origin = g_strdup_printf ("--lora %s", text);
  const char *colon = strchr (text, ':');
  g_autofree char *rank = colon != NULL ? g_strndup (text, (gsize)(colon - text)) : g_strdup (text);

  if (!zs_reader_put (reader, "training.lora.rank",
                      zs_document_flag (reader->document, origin, rank)))
    return false;
  if (colon == NULL)
    return true;

  if (strchr (colon + 1, ',') == NULL)
    return zs_reader_put (reader, "training.lora.targets",
                          zs_document_flag (reader->document, origin, colon + 1));

  g_auto (GStrv) names = g_strsplit (colon + 1, ",", -1);
  ZsNode *list = zs_document_node (reader->document, ZS_NODE_SEQUENCE, 0, 0, NULL);

  list->file = zs_document_flag (reader->document, origin, "")->file;
  for (int i = 0; names[i] != NULL; i++)
    zs_node_append (list, zs_document_flag (reader->document, origin, names[i]));
  return zs_reader_put (reader, "training.lora.targets", list);
}

static bool
apply_checkpointing (ZsReader *reader, const char *text)
{
  g_autofree char *origin = g_strdup_printf ("--checkpointing %s", text);
  const char *path =
      g_ascii_isdigit (text[0]) ? "training.checkpointing.every" : "training.checkpointing";
  ZsNode *before = zs_reader_find (reader, "training.checkpointing");

  if (before != NULL && before->kind == ZS_NODE_SCALAR) /* replaced as a whole */
    zs_reader_put (reader, "training.checkpointing",
                   zs_document_flag (reader->document, origin, "null"));
  return zs_reader_put (reader, path, zs_document_flag (reader->document, origin, text));
}

bool
zs_reader_apply_flags (ZsReader *reader, const ZsScenarioFlags *flags)
{
  const struct {
    const char *flag, *value, *path;
  } rows[] = {
    { "--model", flags->model, "model" },
    { "--nodes", flags->nodes, "cluster.nodes" },
    { "--fabric", flags->fabric, "cluster.fabric" },
    { "--network", flags->network, "cluster.network" },
    { "--host-memory", flags->host_memory, "cluster.host.memory" },
    { "--micro-batch", flags->micro_batch, "training.micro_batch" },
    { "--seq", flags->sequence, "training.sequence_length" },
    { "--accumulation", flags->accumulation, "training.gradient_accumulation" },
    { "--attention", flags->attention, "training.attention" },
    { "--deepspeed-version", flags->deepspeed_version, "training.framework_version" },
    { "--steps", flags->steps, "training.steps" },
  };
  bool ok = true;

  for (size_t i = 0; i < G_N_ELEMENTS (rows); i++)
    if (rows[i].value != NULL) {
      g_autofree char *origin = g_strdup_printf ("%s %s", rows[i].flag, rows[i].value);

      ok &= zs_reader_put (reader, rows[i].path,
                           zs_document_flag (reader->document, origin, rows[i].value));
    }
  if (flags->gpus != NULL)
    ok &= apply_gpus (reader, flags->gpus);
  if (flags->lora != NULL)
    ok &= apply_lora (reader, flags->lora);
  if (flags->checkpointing != NULL)
    ok &= apply_checkpointing (reader, flags->checkpointing);
  return ok;
}

/* ---- --set ---- */

/* Is WORD one of the keys that ADD_KEYS adds? */
static bool
is_key (void (*add_keys) (GPtrArray *words), const char *word)
{
  g_autoptr (GPtrArray) words = g_ptr_array_new ();

  add_keys (words);
  return g_ptr_array_find_with_equal_func (words, word, g_str_equal, NULL);
}

static void
unknown_setting (const char *path, const char *word, GError **error)
{
  g_autoptr (GPtrArray) words = g_ptr_array_new ();
  int n_keys;
  const ZsDsKey *keys = zs_ds_keys (&n_keys);

  for (int i = 0; SECTIONS[i] != NULL; i++)
    g_ptr_array_add (words, (char *)SECTIONS[i]);
  zs_training_add_keys (words);
  zs_cluster_add_keys (words);
  for (int i = 0; i < n_keys; i++)
    if (strchr (keys[i].path, '.') == NULL)
      g_ptr_array_add (words, (char *)keys[i].path);
    else if (g_str_has_prefix (keys[i].path, "zero_optimization."))
      g_ptr_array_add (words, (char *)keys[i].path + strlen ("zero_optimization."));
  g_ptr_array_add (words, NULL);

  g_autofree char *hint = zs_nearest_hint (word, (const char *const *)words->pdata);

  g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "there is no setting '%.80s'%s", path, hint);
}

char *
zs_scenario_path (const char *path, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (path, ".", -1);

  for (int i = 0; parts[i] != NULL; i++)
    if (*parts[i] == '\0') {
      g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "'%s' is no path: a word is missing", path);
      return NULL;
    }
  if (parts[0] == NULL) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "the path is empty");
    return NULL;
  }

  g_autofree char *zero = g_strconcat ("zero_optimization.", parts[0], NULL);
  const char *synonym = zs_setting_of_word (parts[0]);
  bool is_ds_optimizer = strcmp (parts[0], "optimizer") == 0 && parts[1] != NULL
                         && (strcmp (parts[1], "type") == 0 || strcmp (parts[1], "params") == 0);

  if (g_strv_contains (SECTIONS, parts[0]))
    return g_strdup (path);
  if (zs_ds_key_find (zero) != NULL)
    return g_strconcat ("training.deepspeed.zero_optimization.", path, NULL);
  if (is_ds_optimizer) /* ours has a name and an implementation */
    return g_strconcat ("training.deepspeed.", path, NULL);
  if (is_key (zs_training_add_keys, parts[0]))
    return g_strconcat ("training.", path, NULL);
  if (is_key (zs_cluster_add_keys, parts[0]))
    return g_strconcat ("cluster.", path, NULL);
  if (zs_ds_key_find (parts[0]) != NULL)
    return g_strconcat ("training.deepspeed.", path, NULL);
  if (synonym != NULL)
    return g_strconcat (synonym, path + strlen (parts[0]), NULL);
  if (zs_is_variable (parts[0]))
    return g_strconcat ("cluster.environment.", path, NULL);
  unknown_setting (path, parts[0], error);
  return NULL;
}

static void
set_origin (ZsNode *node, const char *file)
{
  node->file = file;
  node->line = node->column = 0;
  for (int i = 0; i < node->n_items; i++) {
    set_origin (node->items[i], file);
    if (node->kind == ZS_NODE_MAPPING)
      set_origin (node->keys[i], file);
  }
}

static bool
apply_set (ZsReader *reader, const char *text)
{
  const char *equals = strchr (text, '=');
  g_autofree char *origin = g_strconcat ("--set ", text, NULL);
  g_autoptr (GError) error = NULL;

  if (equals == NULL || equals == text)
    return zs_errors_add (reader->errors, "%s: PATH=VALUE is wanted", origin);

  g_autofree char *short_path = g_strndup (text, (gsize)(equals - text));
  g_autofree char *path = zs_scenario_path (g_strstrip (short_path), &error);
  ZsNode *value = zs_document_flag (reader->document, origin, equals + 1);

  if (path == NULL)
    return zs_errors_add (reader->errors, "%s: %s", origin, error->message);
  if (equals[1] != '\0' && strchr ("[{\"'", equals[1]) != NULL) {
    ZsDocument *document = zs_yaml_parse (origin, equals + 1, strlen (equals + 1), &error);

    if (document == NULL)
      return zs_errors_add (reader->errors, "%s", error->message);
    const char *file = value->file;

    value = zs_document_root (document);
    set_origin (value, file);
    zs_document_take (reader->document, document);
  }
  if (strcmp (path, "cluster.instance") == 0)
    return put_instance (reader, value);
  if (strcmp (path, "cluster.gpu") == 0)
    return put_gpu (reader, value);
  return zs_reader_put (reader, path, value) && zs_reader_graft (reader);
}

bool
zs_reader_apply_versions (ZsReader *reader, const char *const *sets)
{
  bool ok = true;

  for (int i = 0; sets != NULL && sets[i] != NULL; i++) {
    const char *equals = strchr (sets[i], '=');
    g_autofree char *word = equals != NULL ? g_strndup (sets[i], (gsize)(equals - sets[i])) : NULL;
    g_autofree char *path = word != NULL ? zs_scenario_path (g_strstrip (word), NULL) : NULL;

    if (path != NULL && g_str_has_suffix (path, "_version"))
      ok &= apply_set (reader, sets[i]);
  }
  return ok;
}

bool
zs_reader_apply_sets (ZsReader *reader, const char *const *sets)
{
  bool ok = true;

  for (int i = 0; sets != NULL && sets[i] != NULL; i++)
    ok &= apply_set (reader, sets[i]);
  return ok && override_batch (reader, "training.micro_batch", "train_micro_batch_size_per_gpu")
         && override_batch (reader, "training.gradient_accumulation",
                            "gradient_accumulation_steps");
}
