/* scenario.c: a scenario from its files, flags and --set.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/scenario/scenario-internal.h"

void
zs_scenario_free (ZsScenario *scenario)
{
  if (scenario == NULL)
    return;
  g_free (scenario->path);
  g_free (scenario->lengths);
  g_free ((gpointer)scenario->cluster.environment);
  zs_topology_free (scenario->topology);
  g_array_unref (scenario->measured.phases);
  g_array_unref (scenario->measured.collectives);
  g_array_unref (scenario->measured.copies);
  zs_settings_free (scenario->settings);
  zs_notes_free (scenario->notes);
  zs_document_free (scenario->document);
  g_free (scenario);
}

void
zs_reader_record (ZsReader *reader, const char *section, const ZsField *fields, int n_fields,
                  const ZsNode **given)
{
  for (int i = 0; i < n_fields; i++)
    if (given[i] != NULL && given[i]->kind != ZS_NODE_MAPPING) {
      g_autofree char *path = g_strconcat (section, fields[i].key, NULL);

      zs_settings_put_node (reader->settings, path, given[i]);
    }
}

void
zs_reader_default (ZsReader *reader, const char *path, const char *whose, const char *format, ...)
{
  va_list arguments;

  if (zs_settings_find (reader->settings, path) != NULL)
    return;
  va_start (arguments, format);
  g_autofree char *value = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  zs_settings_put (reader->settings, path, ZS_SETTING_DEFAULT, whose, "%s", value);
}

/* Files that people give in the place of a scenario. */
static bool
check_kind (ZsReader *reader)
{
  static const struct {
    const char *key, *what;
  } kinds[] = {
    { "axes", "a sweep: run it with `zerosim sweep`" },
    { "compute_environment",
      "an accelerate file: give it as --accelerate beside a scenario or ds_config" },
    { "distributed_type",
      "an accelerate file: give it as --accelerate beside a scenario or ds_config" },
    { "model_type", "a model's config.json: give it as --model beside a scenario or ds_config" },
    { "architectures", "a model's config.json: give it as --model beside a scenario or ds_config" },
    { "per_device_train_batch_size",
      "TrainingArguments: give them as --training-args beside a scenario or ds_config" },
    { "output_dir",
      "TrainingArguments: give them as --training-args beside a scenario or ds_config" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (kinds); i++) {
    const ZsNode *key = zs_node_get_key (reader->root, kinds[i].key);

    if (key != NULL)
      return zs_node_fail (key, reader->errors, "this is no scenario, but %s", kinds[i].what);
  }
  return true;
}

static bool
check_top (ZsReader *reader)
{
  typedef struct {
    const char *name;
    const ZsNode *cluster, *training, *measured;
  } Top;
  static const ZsField fields[] = {
    { ZS_FIELD ("name", STRING, Top, name) },
    { .key = "model", .type = ZS_FIELD_IGNORED },
    { ZS_FIELD ("cluster", MAPPING, Top, cluster) },
    { ZS_FIELD ("training", MAPPING, Top, training) },
    { ZS_FIELD ("measured", MAPPING, Top, measured) },
    { .key = "description", .type = ZS_FIELD_IGNORED },
  };
  Top top = { 0 };

  if (!check_kind (reader))
    return false;
  if (!zs_schema_read (reader->root, "a scenario", fields, G_N_ELEMENTS (fields), &top, NULL,
                       reader->errors))
    return false;
  reader->scenario->name = top.name;
  return true;
}

static void
name_it (ZsScenario *scenario)
{
  g_autofree char *name = NULL;

  if (scenario->name != NULL)
    return;
  name = g_strdup_printf ("%s on %d x %s", scenario->training.shape.name,
                          scenario->cluster.gpus_per_node * scenario->cluster.n_nodes,
                          scenario->cluster.gpu.name);
  scenario->name = zs_document_flag (scenario->document, "", name)->text;
}

/* All sections.  A mistake in one does not hide those of the others, unless it needs it. */
static bool
read_sections (ZsReader *reader)
{
  if (!check_top (reader))
    return false;

  bool measured = zs_reader_measured (reader);
  bool model = zs_reader_model (reader);
  bool cluster = zs_reader_cluster (reader);

  /* the rest of `training` follows from both */
  return cluster && model && zs_reader_training (reader) && measured;
}

/* The document behind PATH: a file, or a scenario that comes with the program; *RET_FILE is its file. */
static ZsDocument *
open_scenario (const char *path, ZsCatalogue *catalogue, ZsNotes *notes, ZsForeign *ret_foreign, const char **ret_file,
               ZsErrors *errors)
{
  bool name = strchr (path, '/') == NULL && strchr (path, '.') == NULL && strcmp (path, "-") != 0
              && !g_file_test (path, G_FILE_TEST_EXISTS);
  GError *error = NULL;
  const ZsCatalogueEntry *shipped
      = name ? zs_catalogue_find (catalogue, ZS_CATALOGUE_SCENARIOS, path, NULL, NULL, &error) : NULL;

  *ret_file = shipped != NULL ? shipped->path : path;
  if (error != NULL) {
    g_prefix_error (&error, "%s: No such file or directory, and ", path);
    zs_errors_take (errors, error);
    return NULL;
  }
  return zs_reader_load (*ret_file, notes, ret_foreign, errors);
}

static ZsReader
new_reader (const char *path, ZsDocument *document, ZsCatalogue *catalogue, ZsErrors *errors)
{
  ZsScenario *scenario = g_new0 (ZsScenario, 1);

  scenario->path = g_strdup (path);
  scenario->document = document;
  scenario->settings = zs_settings_new ();
  scenario->notes = zs_notes_new ();
  scenario->alloc_conf_text = "";
  zs_alloc_conf_init (&scenario->alloc_conf);
  scenario->measured.phases = g_array_new (FALSE, TRUE, sizeof (ZsMeasuredPhase));
  scenario->measured.collectives = g_array_new (FALSE, TRUE, sizeof (ZsMeasuredCollective));
  scenario->measured.copies = g_array_new (FALSE, TRUE, sizeof (ZsMeasuredCopy));
  return (ZsReader){ .scenario = scenario,
                     .document = document,
                     .root = zs_document_root (document),
                     .catalogue = catalogue,
                     .errors = errors,
                     .notes = scenario->notes,
                     .settings = scenario->settings };
}

/* Takes DOCUMENT. */
static ZsScenario *
read_document (const char *path, ZsDocument *document, const ZsScenarioFlags *flags,
               const char *const *sets, ZsCatalogue *catalogue, ZsErrors *errors)
{
  static const ZsScenarioFlags no_flags = { 0 };
  ZsReader reader = new_reader (path, document, catalogue, errors);
  int before = zs_errors_count (errors);
  bool ok = true;

  if (flags == NULL)
    flags = &no_flags;
  if (reader.root->kind != ZS_NODE_MAPPING)
    ok = zs_node_fail (reader.root, errors, "a scenario must be a mapping (key: value), not %s",
                       zs_node_describe (reader.root));
  ok = ok && zs_reader_graft (&reader);
  /* flags before the other programs' files, which fill in only what is missing */
  ok = ok && zs_reader_apply_flags (&reader, flags);
  if (flags->training_args != NULL || flags->accelerate != NULL)
    ok = ok && zs_reader_apply_versions (&reader, sets);
  if (ok && flags->training_args != NULL)
    ok = zs_reader_import_training_args (&reader, flags->training_args);
  if (ok && flags->accelerate != NULL)
    ok = zs_reader_import_accelerate (&reader, flags->accelerate);
  ok = ok && zs_reader_apply_sets (&reader, sets) && zs_reader_end_imports (&reader) && read_sections (&reader);
  if (!ok || zs_errors_count (errors) > before) {
    g_assert (zs_errors_count (errors) > before);
    zs_scenario_free (reader.scenario);
    return NULL;
  }
  name_it (reader.scenario);
  return reader.scenario;
}

/* FLAGS names FILE as what it is. */
static void
put_foreign (ZsForeign foreign, const char *file, ZsScenarioFlags *flags)
{
  if (foreign == ZS_FOREIGN_ACCELERATE && flags->accelerate == NULL)
    flags->accelerate = file;
  if (foreign == ZS_FOREIGN_TRAINING_ARGS && flags->training_args == NULL)
    flags->training_args = file;
}

ZsScenario *
zs_scenario_load (const char *path, const ZsScenarioFlags *flags, const char *const *sets,
                  ZsCatalogue *catalogue, ZsErrors *errors)
{
  g_autoptr (ZsNotes) notes = zs_notes_new ();
  ZsScenarioFlags all = flags != NULL ? *flags : (ZsScenarioFlags){ 0 };
  ZsForeign foreign = ZS_FOREIGN_NONE;
  const char *file;
  ZsDocument *document = open_scenario (path, catalogue, notes, &foreign, &file, errors);

  put_foreign (foreign, file, &all);
  ZsScenario *scenario =
      document != NULL ? read_document (file, document, &all, sets, catalogue, errors) : NULL;

  if (scenario != NULL)
    for (int i = 0; i < zs_notes_count (notes); i++)
      zs_notes_copy (scenario->notes, zs_notes_get (notes, i));
  return scenario;
}

ZsScenario *
zs_scenario_read (const ZsNode *root, const char *file, const ZsScenarioFlags *flags,
                  const char *const *sets, ZsCatalogue *catalogue, ZsErrors *errors)
{
  ZsDocument *document = zs_document_new (file);
  GError *error = NULL;
  ZsNode *copy = zs_document_copy (document, root, &error);

  if (copy == NULL) {
    zs_errors_take (errors, error);
    zs_document_free (document);
    return NULL;
  }
  zs_document_set_root (document, copy);
  return read_document (file, document, flags, sets, catalogue, errors);
}

bool
zs_scenario_tree_complete (ZsDocument *document, ZsNode *root, ZsErrors *errors)
{
  ZsReader reader = { .document = document, .root = root, .errors = errors };

  if (root->kind != ZS_NODE_MAPPING)
    return zs_node_fail (root, errors, "a scenario must be a mapping (key: value), not %s",
                         zs_node_describe (root));
  return zs_reader_graft (&reader);
}

ZsDocument *
zs_scenario_tree (const char *path, ZsScenarioFlags *flags, ZsCatalogue *catalogue, ZsErrors *errors)
{
  ZsForeign foreign = ZS_FOREIGN_NONE;
  const char *file;
  ZsDocument *document = open_scenario (path, catalogue, NULL, &foreign, &file, errors);

  put_foreign (foreign, path, flags);
  if (document != NULL && !zs_scenario_tree_complete (document, zs_document_root (document), errors)) {
    zs_document_free (document);
    return NULL;
  }
  return document;
}

void
zs_scenario_check_import (const char *path, ZsErrors *errors)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (ZsErrors) unread = zs_errors_new ();
  ZsForeign foreign;
  ZsDocument *document = zs_reader_load (path, NULL, &foreign, unread);

  if (document == NULL || foreign == ZS_FOREIGN_NONE) {
    zs_document_free (document);
    return;
  }
  ZsReader reader = new_reader (path, document, catalogue, errors);

  if (foreign == ZS_FOREIGN_ACCELERATE)
    zs_reader_import_accelerate (&reader, path);
  else
    zs_reader_import_training_args (&reader, path);
  zs_scenario_free (reader.scenario);
}

ZsScenario *
zs_scenario_load_cluster (const char *path, const ZsScenarioFlags *flags, const char *const *sets,
                          ZsCatalogue *catalogue, ZsErrors *errors)
{
  GError *error = NULL;
  const char *nothing = "cluster: {}";
  ZsDocument *document = path != NULL ? zs_document_load (path, &error)
                                      : zs_yaml_parse ("the command line", nothing,
                                                       strlen (nothing), &error);
  int before = zs_errors_count (errors);

  if (document == NULL) {
    zs_errors_take (errors, error);
    return NULL;
  }

  ZsNode *root = zs_document_root (document);

  if (root->kind == ZS_NODE_MAPPING && zs_node_get (root, "cluster") == NULL) {
    ZsNode *top = zs_document_node (document, ZS_NODE_MAPPING, root->line, root->column, NULL);

    if (top != NULL) {
      zs_node_put (document, top, "cluster", root);
      zs_document_set_root (document, top);
    }
  }
  ZsScenarioFlags machine = { 0 };
  ZsReader reader = new_reader (path != NULL ? path : "", document, catalogue, errors);

  if (flags != NULL)
    machine = (ZsScenarioFlags){ .gpus = flags->gpus,
                                 .nodes = flags->nodes,
                                 .fabric = flags->fabric,
                                 .network = flags->network,
                                 .host_memory = flags->host_memory };
  bool ok =
      reader.root->kind == ZS_NODE_MAPPING
      || zs_node_fail (reader.root, errors, "a machine must be a mapping (key: value), not %s",
                       zs_node_describe (reader.root));

  ok = ok && check_top (&reader) && zs_reader_apply_flags (&reader, &machine) && zs_reader_apply_sets (&reader, sets)
       && zs_reader_cluster (&reader) && zs_reader_measured (&reader);
  if (!ok || zs_errors_count (errors) > before) {
    zs_scenario_free (reader.scenario);
    return NULL;
  }
  ZsVersions *versions = &reader.scenario->cluster.versions;
  const ZsNode *name = zs_node_get (reader.root, "name");

  if (name != NULL && name->kind == ZS_NODE_SCALAR)
    reader.scenario->name = name->text;
  versions->of[ZS_SOFTWARE_TORCH] = ZS_VERSION (2, 11, 0);
  if (versions->of[ZS_SOFTWARE_NCCL] == 0)
    versions->of[ZS_SOFTWARE_NCCL] = zs_nccl_of_torch (versions->of[ZS_SOFTWARE_TORCH]);
  return reader.scenario;
}
