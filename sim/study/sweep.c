/* sweep.c: reads a sweep and numbers its configurations.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/sweep-internal.h"

#include <string.h>

/* Names that conditions may use: the axes, then settings of the scenario. */
typedef struct {
  ZsSweep   *sweep;
  GPtrArray *names, *values;      /* of settings: full path, text */
  bool       unknown;
} Names;

typedef struct {
  ZsSweep    *sweep;
  ZsErrors   *errors;
  Names       names;
  GPtrArray  *conditions;         /* ZsCondition * of the file */
} Reader;

void
zs_sweep_free (ZsSweep *sweep)
{
  if (sweep == NULL)
    return;
  g_free (sweep->name);
  zs_base_free (sweep->base);
  g_ptr_array_unref (sweep->axes);
  g_free (sweep->kept);
  g_free (sweep->used);
  g_free (sweep->fingerprint);
  zs_document_free (sweep->document);
  g_strfreev (sweep->sets);
  g_free (sweep);
}

const ZsAxis *
zs_sweep_axis (const ZsSweep *sweep, int axis)
{
  return g_ptr_array_index (sweep->axes, axis);
}

/* ---- conditions ---- */

static int
find_name (void *self, const char *name)
{
  Names *names = self;
  g_autofree char *full = zs_scenario_path (name, NULL);

  for (guint i = 0; i < names->sweep->axes->len; i++) {
    const ZsAxis *axis = zs_sweep_axis (names->sweep, (int) i);

    if (strcmp (axis->path, name) == 0
        || (full != NULL && g_strv_contains ((const char *const *) axis->full, full)))
      return (int) i;
  }
  if (full == NULL)
    return -1;
  for (guint i = 0; i < names->names->len; i++)
    if (strcmp (g_ptr_array_index (names->names, i), full) == 0)
      return ZS_SWEEP_MAX_AXES + (int) i;
  char *value = zs_base_setting (names->sweep->base, full);

  if (value == NULL)
    return -1;
  g_ptr_array_add (names->names, g_steal_pointer (&full));
  g_ptr_array_add (names->values, value);
  return ZS_SWEEP_MAX_AXES + (int) names->names->len - 1;
}

static void
add_condition (Reader *reader, const ZsNode *node)
{
  g_autoptr (GError) error = NULL;
  ZsCondition *condition;

  if (node->kind != ZS_NODE_SCALAR) {
    zs_node_fail (node, reader->errors, "'when' must be a condition or a list of them, not %s",
                  zs_node_describe (node));
    return;
  }
  condition = zs_condition_new (node->text, find_name, &reader->names, &error);
  if (condition == NULL)
    zs_node_fail (node, reader->errors, "%s", error->message);
  else
    g_ptr_array_add (reader->conditions, condition);
}

/* An axis may ask about those before it: they are decided when it is looked at. */
static void
read_axis_conditions (Reader *reader)
{
  for (guint i = 0; i < reader->sweep->axes->len; i++) {
    ZsAxis *axis = g_ptr_array_index (reader->sweep->axes, i);
    g_autoptr (GError) error = NULL;

    if (axis->when_text == NULL)
      continue;
    axis->when = zs_condition_new (axis->when_text, find_name, &reader->names, &error);
    if (axis->when == NULL) {
      zs_errors_add (reader->errors, "%s: %s", axis->where, error->message);
      continue;
    }
    for (guint j = i; j < reader->sweep->axes->len; j++)
      if (zs_condition_uses (axis->when, (int) j))
        zs_errors_add (reader->errors, "%s: the condition of '%s' may ask about axes above it, not '%s'",
                       axis->where, axis->path, zs_sweep_axis (reader->sweep, (int) j)->path);
  }
}

/* ---- numbering ---- */

void
zs_sweep_places (const ZsSweep *sweep, int64_t combination, int *ret_places)
{
  for (int i = (int) sweep->axes->len - 1; i >= 0; i--) {
    int n = (int) zs_sweep_axis (sweep, i)->values->len;

    ret_places[i] = (int) (combination % n);
    combination /= n;
  }
}

/* Texts of the axes' values, "" where an axis is not used; false: it is not used, and this is not its
 * first value. */
static bool
look_at_axes (const ZsSweep *sweep, const int *places, const char **values, uint32_t *ret_used)
{
  uint32_t used = 0;

  for (guint i = 0; i < sweep->axes->len; i++) {
    const ZsAxis *axis = zs_sweep_axis (sweep, (int) i);

    values[i] = g_ptr_array_index (axis->values, places[i]);
    if (axis->when == NULL || zs_condition_holds (axis->when, values)) {
      used |= UINT32_C (1) << i;
      continue;
    }
    if (places[i] != 0)
      return false;
    values[i] = "";
  }
  *ret_used = used;
  return true;
}

static bool
count_product (const ZsSweep *sweep, int64_t *ret_product)
{
  int64_t product = 1;

  for (guint i = 0; i < sweep->axes->len; i++) {
    product *= zs_sweep_axis (sweep, (int) i)->values->len;
    if (product > ZS_SWEEP_MAX_PRODUCT)
      return false;
  }
  *ret_product = product;
  return true;
}

static bool
fail_limit (ZsErrors *errors, const char *format, int limit)
{
  zs_errors_take (errors, g_error_new (ZS_ERROR, ZS_ERROR_LIMIT, format, limit));
  return false;
}

static bool
number_configurations (Reader *reader)
{
  ZsSweep *sweep = reader->sweep;
  g_autoptr (GArray) kept = g_array_new (FALSE, FALSE, sizeof (int64_t));
  g_autoptr (GArray) used = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  g_autofree const char **values = g_new0 (const char *, ZS_SWEEP_MAX_AXES + reader->names.names->len);
  int places[ZS_SWEEP_MAX_AXES] = { 0 };
  int64_t product;

  if (!count_product (sweep, &product))
    return fail_limit (reader->errors, "the axes have more than %d combinations; take fewer values",
                       ZS_SWEEP_MAX_PRODUCT);
  for (guint i = 0; i < reader->names.values->len; i++)
    values[ZS_SWEEP_MAX_AXES + i] = g_ptr_array_index (reader->names.values, i);
  for (int64_t combination = 0; combination < product; combination++) {
    uint32_t bits = 0;

    zs_sweep_places (sweep, combination, places);
    bool keep = look_at_axes (sweep, places, values, &bits);

    for (guint i = 0; keep && i < reader->conditions->len; i++)
      keep = zs_condition_holds (g_ptr_array_index (reader->conditions, i), values);
    if (!keep)
      continue;
    if (kept->len >= ZS_SWEEP_MAX_KEPT)
      return fail_limit (reader->errors,
                         "the sweep has more than %d configurations; take fewer values or conditions "
                         "(when:)", ZS_SWEEP_MAX_KEPT);
    g_array_append_val (kept, combination);
    g_array_append_val (used, bits);
  }
  if (kept->len == 0)
    return zs_errors_add (reader->errors, "the conditions leave no configuration");
  sweep->n_kept = kept->len;
  sweep->kept = (int64_t *) g_array_free (g_steal_pointer (&kept), FALSE);
  sweep->used = (uint32_t *) g_array_free (g_steal_pointer (&used), FALSE);
  return true;
}

const char *
zs_sweep_value (const ZsSweep *sweep, int64_t configuration, int axis)
{
  int places[ZS_SWEEP_MAX_AXES];

  if ((sweep->used[configuration] >> axis & 1) == 0)
    return NULL;
  zs_sweep_places (sweep, sweep->kept[configuration], places);
  return g_ptr_array_index (zs_sweep_axis (sweep, axis)->values, places[axis]);
}

char **
zs_sweep_changes (const ZsSweep *sweep, int64_t configuration)
{
  GPtrArray *changes = g_ptr_array_new ();

  for (guint i = 0; i < sweep->axes->len; i++) {
    const ZsAxis *axis = zs_sweep_axis (sweep, (int) i);
    const char *value = zs_sweep_value (sweep, configuration, (int) i);

    for (int j = 0; value != NULL && axis->full[j] != NULL; j++)
      g_ptr_array_add (changes, g_strconcat (axis->full[j], "=", value, NULL));
  }
  g_ptr_array_add (changes, NULL);
  return (char **) g_ptr_array_free (changes, FALSE);
}

/* ---- the file ---- */

static void
add_axis (Reader *reader, ZsAxis *axis)
{
  if (axis == NULL)
    return;
  for (guint i = 0; i < reader->sweep->axes->len; i++)
    for (int j = 0; axis->full[j] != NULL; j++)
      if (g_strv_contains ((const char *const *) zs_sweep_axis (reader->sweep, (int) i)->full,
                           axis->full[j])) {
        zs_errors_add (reader->errors, "%s: the axis '%s' is there already, as '%s' (%s)", axis->where,
                       axis->path, zs_sweep_axis (reader->sweep, (int) i)->path,
                       zs_sweep_axis (reader->sweep, (int) i)->where);
        zs_axis_free (axis);
        return;
      }
  if (reader->sweep->axes->len >= ZS_SWEEP_MAX_AXES) {
    zs_errors_add (reader->errors, "%s: more than %d axes", axis->where, ZS_SWEEP_MAX_AXES);
    zs_axis_free (axis);
    return;
  }
  g_ptr_array_add (reader->sweep->axes, axis);
}

static void
read_sets (Reader *reader, const ZsNode *node, GPtrArray *sets)
{
  if (node == NULL)
    return;
  if (node->kind != ZS_NODE_MAPPING) {
    zs_node_fail (node, reader->errors, "'set' must be a mapping of settings, not %s",
                  zs_node_describe (node));
    return;
  }
  for (int i = 0; i < node->n_items; i++) {
    g_autoptr (GError) error = NULL;
    g_autofree char *path = zs_scenario_path (node->keys[i]->text, &error);
    g_autofree char *value = node->items[i]->kind == ZS_NODE_SCALAR && !node->items[i]->quoted
                               ? g_strdup (node->items[i]->text) : zs_node_text (node->items[i]);

    if (path == NULL)
      zs_node_fail (node->keys[i], reader->errors, "%s", error->message);
    else
      g_ptr_array_add (sets, g_strconcat (path, "=", value, NULL));
  }
}

static void
check_keys (Reader *reader, const ZsNode *root)
{
  static const char *const KEYS[] = { "name", "description", "scenario", "set", "axes", "when", NULL };

  for (int i = 0; i < root->n_items; i++)
    if (!g_strv_contains (KEYS, root->keys[i]->text))
      zs_node_fail (root->keys[i], reader->errors,
                    "a sweep has name, description, scenario, set, axes and when, not '%s'",
                    root->keys[i]->text);
}

/* The path of a scenario that the sweep file names. */
static char *
scenario_file (const ZsNode *node)
{
  g_autofree char *folder = g_path_get_dirname (node->file);
  g_autofree char *beside = g_build_filename (folder, node->text, NULL);

  if (g_path_is_absolute (node->text) || strcmp (folder, ".") == 0
      || (!g_file_test (beside, G_FILE_TEST_EXISTS) && g_file_test (node->text, G_FILE_TEST_EXISTS)))
    return g_strdup (node->text);
  return g_steal_pointer (&beside);
}

static bool
read_base (Reader *reader, const ZsNode *root, const char *path, const ZsScenarioFlags *flags,
           ZsCatalogue *catalogue)
{
  ZsSweep *sweep = reader->sweep;
  ZsNode *scenario = zs_node_get (root, "scenario");
  const char *const *sets = (const char *const *) sweep->sets;

  if (scenario == NULL)
    return zs_node_fail (root, reader->errors, "the sweep has no 'scenario': a path, or one inline");
  if (scenario->kind == ZS_NODE_MAPPING) {
    if (!zs_scenario_tree_complete (sweep->document, scenario, reader->errors))
      return false;
    sweep->base = zs_base_new_tree (scenario, path, flags, sets, catalogue);
    return true;
  }
  if (scenario->kind != ZS_NODE_SCALAR || zs_node_is_null (scenario))
    return zs_node_fail (scenario, reader->errors, "'scenario' must be a path or a mapping, not %s",
                         zs_node_describe (scenario));
  g_autofree char *file = scenario_file (scenario);

  sweep->base = zs_base_new (file, flags, sets, catalogue, reader->errors);
  return sweep->base != NULL;
}

static void
read_axes (Reader *reader, const ZsNode *root)
{
  const ZsNode *axes = zs_node_get (root, "axes");

  if (axes->kind != ZS_NODE_MAPPING)
    zs_node_fail (axes, reader->errors, "'axes' must be a mapping from settings to values, not %s",
                  zs_node_describe (axes));
  for (int i = 0; axes->kind == ZS_NODE_MAPPING && i < axes->n_items; i++)
    add_axis (reader, zs_axis_read (axes->keys[i], axes->items[i], reader->errors));
}

static void
read_conditions (Reader *reader, const ZsNode *when)
{
  if (when != NULL && when->kind == ZS_NODE_SCALAR)
    add_condition (reader, when);
  else if (when != NULL)
    for (int i = 0; i < when->n_items; i++)
      add_condition (reader, when->kind == ZS_NODE_SEQUENCE ? when->items[i] : when);
}

static char *
make_fingerprint (const ZsSweep *sweep, const ZsNode *root)
{
  g_autoptr (GChecksum) sum = g_checksum_new (G_CHECKSUM_SHA256);
  g_autofree char *base = zs_base_text (sweep->base);
  const ZsNode *when = zs_node_get (root, "when");

  g_checksum_update (sum, (const guchar *) PACKAGE_VERSION "\n", -1);
  g_checksum_update (sum, (const guchar *) base, -1);
  for (guint i = 0; i < sweep->axes->len; i++) {
    const ZsAxis *axis = zs_sweep_axis (sweep, (int) i);

    g_checksum_update (sum, (const guchar *) axis->path, -1);
    g_checksum_update (sum, (const guchar *) (axis->when_text != NULL ? axis->when_text : ""), -1);
    for (guint j = 0; j < axis->values->len; j++) {
      g_checksum_update (sum, (const guchar *) "\n", 1);
      g_checksum_update (sum, g_ptr_array_index (axis->values, j), -1);
    }
    g_checksum_update (sum, (const guchar *) "\n\n", 2);
  }
  if (when != NULL) {
    g_autofree char *text = zs_node_text (when);

    g_checksum_update (sum, (const guchar *) text, -1);
  }
  return g_strdup (g_checksum_get_string (sum));
}

static char *
name_of (const ZsNode *root, const char *path)
{
  const ZsNode *name = zs_node_get (root, "name");

  return name != NULL && name->kind == ZS_NODE_SCALAR ? g_strdup (name->text) : g_path_get_basename (path);
}

/* Is it a sweep file?  Then it is kept as the sweep's document. */
static const ZsNode *
load_document (Reader *reader, const char *path)
{
  GError *error = NULL;
  ZsDocument *document;

  /* what is no file may be the name of a scenario */
  if (g_str_has_suffix (path, ".json") || g_str_has_suffix (path, ".hjson")
      || (strcmp (path, "-") != 0 && !g_file_test (path, G_FILE_TEST_EXISTS)))
    return NULL;
  document = zs_document_load (path, &error);
  if (document == NULL) {
    zs_errors_take (reader->errors, error);
    return NULL;
  }
  reader->sweep->document = document;
  return zs_node_get (zs_document_root (document), "axes") != NULL ? zs_document_root (document) : NULL;
}

static void
read_all (Reader *reader, const char *path, const char *const *axes, const ZsScenarioFlags *flags,
          const char *const *sets, ZsCatalogue *catalogue)
{
  ZsSweep *sweep = reader->sweep;
  const ZsNode *root = load_document (reader, path);
  GPtrArray *all_sets = g_ptr_array_new ();

  if (root != NULL) {
    check_keys (reader, root);
    read_sets (reader, zs_node_get (root, "set"), all_sets);
  }
  for (const char *const *set = sets; set != NULL && *set != NULL; set++)
    g_ptr_array_add (all_sets, g_strdup (*set));
  g_ptr_array_add (all_sets, NULL);
  sweep->sets = (char **) g_ptr_array_free (all_sets, FALSE);
  if (zs_errors_count (reader->errors) > 0)
    return;
  if (root != NULL ? !read_base (reader, root, path, flags, catalogue)
                   : (sweep->base = zs_base_new (path, flags, (const char *const *) sweep->sets, catalogue,
                                                 reader->errors)) == NULL)
    return;
  sweep->name = name_of (root, path);
  if (root != NULL)
    read_axes (reader, root);
  for (const char *const *text = axes; text != NULL && *text != NULL; text++) {
    GError *error = NULL;
    ZsAxis *axis = zs_axis_parse (*text, &error);

    if (axis == NULL)
      zs_errors_take (reader->errors, error);
    add_axis (reader, axis);
  }
  if (sweep->axes->len == 0 && zs_errors_count (reader->errors) == 0)
    zs_errors_add (reader->errors, "%s has no axes: a sweep file has 'axes', a scenario wants --vary", path);
  read_axis_conditions (reader);
  read_conditions (reader, zs_node_get (root, "when"));
  if (zs_errors_count (reader->errors) == 0 && number_configurations (reader))
    sweep->fingerprint = make_fingerprint (sweep, root);
}

ZsSweep *
zs_sweep_load (const char *path, const char *const *axes, const ZsScenarioFlags *flags,
               const char *const *sets, ZsCatalogue *catalogue, ZsErrors *errors)
{
  g_autoptr (ZsSweep) sweep = g_new0 (ZsSweep, 1);
  Reader reader = { .sweep = sweep, .errors = errors,
                    .names = { .sweep = sweep, .names = g_ptr_array_new_with_free_func (g_free),
                               .values = g_ptr_array_new_with_free_func (g_free) },
                    .conditions
                    = g_ptr_array_new_with_free_func ((GDestroyNotify) zs_condition_free) };
  int before = zs_errors_count (errors);

  sweep->axes = g_ptr_array_new_with_free_func ((GDestroyNotify) zs_axis_free);
  read_all (&reader, path, axes, flags, sets, catalogue);
  g_ptr_array_unref (reader.names.names);
  g_ptr_array_unref (reader.names.values);
  g_ptr_array_unref (reader.conditions);
  return zs_errors_count (errors) > before ? NULL : g_steal_pointer (&sweep);
}
