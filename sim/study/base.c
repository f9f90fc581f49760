/* base.c: one scenario, read once, and run many times with changes.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/base.h"

#include <string.h>

#include "sim/scenario/simulate.h"

struct ZsBase {
  ZsDocument   *document;   /* NULL: the tree is borrowed */
  const ZsNode *root;
  char         *file;
  ZsScenarioFlags    flags;
  const char *const *sets;
  ZsCatalogue  *catalogue;
  ZsClusterCache *machines;
};

static ZsBase *
new_base (const char *file, const ZsScenarioFlags *flags, const char *const *sets,
          ZsCatalogue *catalogue)
{
  ZsBase *base = g_new0 (ZsBase, 1);

  zs_run_keep_memory ();
  *base = (ZsBase) { .file = g_strdup (file), .sets = sets, .catalogue = catalogue,
                     .machines = zs_cluster_cache_new () };
  if (flags != NULL)
    base->flags = *flags;
  return base;
}

ZsBase *
zs_base_new (const char *path, const ZsScenarioFlags *flags, const char *const *sets,
             ZsCatalogue *catalogue, ZsErrors *errors)
{
  ZsBase *base = new_base (path, flags, sets, catalogue);

  base->document = zs_scenario_tree (base->file, &base->flags, catalogue, errors);
  if (base->document == NULL) {
    zs_base_free (base);
    return NULL;
  }
  base->root = zs_document_root (base->document);
  return base;
}

ZsBase *
zs_base_new_tree (const ZsNode *root, const char *file, const ZsScenarioFlags *flags,
                  const char *const *sets, ZsCatalogue *catalogue)
{
  ZsBase *base = new_base (file, flags, sets, catalogue);

  base->root = root;
  return base;
}

void
zs_base_free (ZsBase *base)
{
  if (base == NULL)
    return;
  zs_document_free (base->document);
  zs_cluster_cache_free (base->machines);
  g_free (base->file);
  g_free (base);
}

/* ---- text ---- */

static void
append_scalar (GString *text, const ZsNode *node)
{
  if (!node->quoted && node->text[0] != '\0' && strpbrk (node->text, ",:#[]{}\"'\n") == NULL) {
    g_string_append (text, node->text);
    return;
  }
  g_string_append_c (text, '"');
  for (const char *at = node->text; *at != '\0'; at++) {
    if (*at == '\n') {
      g_string_append (text, "\\n");
      continue;
    }
    if (*at == '"' || *at == '\\')
      g_string_append_c (text, '\\');
    g_string_append_c (text, *at);
  }
  g_string_append_c (text, '"');
}

static void
append_node (GString *text, const ZsNode *node)
{
  if (node->kind == ZS_NODE_SCALAR) {
    append_scalar (text, node);
    return;
  }
  g_string_append_c (text, node->kind == ZS_NODE_MAPPING ? '{' : '[');
  for (int i = 0; i < node->n_items; i++) {
    if (i > 0)
      g_string_append (text, ", ");
    if (node->kind == ZS_NODE_MAPPING) {
      append_scalar (text, node->keys[i]);
      g_string_append (text, ": ");
    }
    append_node (text, node->items[i]);
  }
  g_string_append_c (text, node->kind == ZS_NODE_MAPPING ? '}' : ']');
}

char *
zs_node_text (const ZsNode *node)
{
  GString *text = g_string_new (NULL);

  append_node (text, node);
  return g_string_free (text, FALSE);
}

char *
zs_base_text (const ZsBase *base)
{
  GString *text = g_string_new (NULL);

  append_node (text, base->root);
  g_string_append_c (text, '\n');
  const char *const *flags = (const char *const *) &base->flags;

  for (size_t i = 0; i < sizeof base->flags / sizeof *flags; i++)
    g_string_append_printf (text, "%s\n", flags[i] != NULL ? flags[i] : "");
  for (const char *const *set = base->sets; set != NULL && *set != NULL; set++)
    g_string_append_printf (text, "%s\n", *set);
  return g_string_free (text, FALSE);
}

G_STATIC_ASSERT (sizeof (ZsScenarioFlags) % sizeof (const char *) == 0);

/* The last of the sets that is about PATH, a full path. */
static char *
find_set (const ZsBase *base, const char *path)
{
  char *found = NULL;

  for (const char *const *set = base->sets; set != NULL && *set != NULL; set++) {
    const char *equals = strchr (*set, '=');

    if (equals == NULL)
      continue;
    g_autofree char *name = g_strndup (*set, (gsize) (equals - *set));
    g_autofree char *full = zs_scenario_path (g_strstrip (name), NULL);

    if (full != NULL && strcmp (full, path) == 0) {
      g_free (found);
      found = g_strdup (equals + 1);
    }
  }
  return found;
}

static const char *
find_flag (const ZsScenarioFlags *flags, const char *path)
{
  const struct { const char *path, *value; } rows[] = {
    { "model", flags->model },
    { "cluster.nodes", flags->nodes },
    { "cluster.fabric", flags->fabric },
    { "cluster.network", flags->network },
    { "cluster.host.memory", flags->host_memory },
    { "training.micro_batch", flags->micro_batch },
    { "training.sequence_length", flags->sequence },
    { "training.gradient_accumulation", flags->accumulation },
    { "training.checkpointing", flags->checkpointing },
    { "training.attention", flags->attention },
    { "training.steps", flags->steps },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (rows); i++)
    if (strcmp (rows[i].path, path) == 0)
      return rows[i].value;
  return NULL;
}

char *
zs_base_setting (const ZsBase *base, const char *path)
{
  g_autofree char *full = zs_scenario_path (path, NULL);

  if (full == NULL)
    return NULL;
  char *set = find_set (base, full);

  if (set != NULL)
    return set;
  const char *flag = find_flag (&base->flags, full);

  if (flag != NULL)
    return g_strdup (flag);
  g_auto (GStrv) parts = g_strsplit (full, ".", -1);
  const ZsNode *node = base->root;

  for (int i = 0; parts[i] != NULL && node != NULL; i++)
    node = zs_node_get (node, parts[i]);
  if (node == NULL || zs_node_is_null (node))
    return NULL;
  return node->kind == ZS_NODE_SCALAR ? g_strdup (node->text) : zs_node_text (node);
}

/* ---- running ---- */

ZsScenario *
zs_base_scenario (const ZsBase *base, const char *const *changes, ZsErrors *errors)
{
  g_autoptr (GPtrArray) sets = g_ptr_array_new ();

  for (const char *const *set = base->sets; set != NULL && *set != NULL; set++)
    g_ptr_array_add (sets, (gpointer) *set);
  for (const char *const *set = changes; set != NULL && *set != NULL; set++)
    g_ptr_array_add (sets, (gpointer) *set);
  g_ptr_array_add (sets, NULL);
  return zs_scenario_read (base->root, base->file, &base->flags, (const char *const *) sets->pdata,
                           base->catalogue, errors);
}

ZsResult *
zs_base_run (const ZsBase *base, const char *const *changes, const ZsRunOptions *options,
             ZsScenario **ret_scenario, GError **error)
{
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_autoptr (ZsScenario) scenario = zs_base_scenario (base, changes, errors);

  if (scenario == NULL) {
    g_autofree char *text = zs_errors_text (errors);

    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s", g_strchomp (text));
    return NULL;
  }
  ZsResult *result = zs_scenario_run_cached (scenario, options, base->machines, error);

  if (result != NULL && ret_scenario != NULL)
    *ret_scenario = g_steal_pointer (&scenario);
  return result;
}
