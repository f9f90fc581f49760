/* command-catalogue.c: `zerosim list KIND` and `zerosim show NAME`.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "sim/base/words.h"
#include "sim/cli/command-list.h"
#include "sim/io/file.h"
#include "sim/io/json-writer.h"
#include "sim/report/text.h"
#include "sim/scenario/catalogue.h"

static const struct { const char *word; ZsCatalogueKind kind; } KINDS[] = {
  { "gpus", ZS_CATALOGUE_GPUS },           { "models", ZS_CATALOGUE_MODELS },
  { "instances", ZS_CATALOGUE_INSTANCES }, { "fabrics", ZS_CATALOGUE_FABRICS },
  { "networks", ZS_CATALOGUE_NETWORKS },   { "scenarios", ZS_CATALOGUE_SCENARIOS },
};

/* What it is, in a line: its summary, a scenario's name, a machine's GPUs; else how else it is called.  Free with
 * g_free. */
static char *
describe (const ZsCatalogueEntry *entry, ZsCatalogueKind kind)
{
  const ZsNode *root = entry->document != NULL ? zs_document_root (entry->document) : NULL;
  const ZsNode *line = zs_node_get (root, kind == ZS_CATALOGUE_SCENARIOS ? "name" : "summary");
  const ZsNode *gpu = zs_node_get (root, "gpu"), *n = zs_node_get (root, "gpus_per_node");

  if (line != NULL && line->kind == ZS_NODE_SCALAR)
    return g_strdup (line->text);
  if (kind == ZS_CATALOGUE_INSTANCES && gpu != NULL && n != NULL)
    return g_strdup_printf ("%s x %s", n->text, gpu->text);
  return entry->aliases != NULL ? g_strjoinv (", ", (char **) entry->aliases) : g_strdup ("");
}

static void
print_kind (ZsCatalogue *catalogue, size_t kind, ZsJsonWriter *json)
{
  int n;
  const ZsCatalogueEntry *entries = zs_catalogue_list (catalogue, KINDS[kind].kind, &n);

  if (json != NULL)
    zs_json_begin_array (json, KINDS[kind].word);
  else
    printf ("%s:\n", KINDS[kind].word);
  for (int i = 0; i < n; i++) {
    g_autofree char *what = describe (&entries[i], KINDS[kind].kind);

    if (json != NULL) {
      zs_json_compact (json);
      zs_json_begin_object (json, NULL);
      zs_json_string (json, "name", entries[i].name);
      zs_json_string (json, "summary", what);
      zs_json_begin_array (json, "aliases");
      for (const char *const *alias = entries[i].aliases; alias != NULL && *alias != NULL; alias++)
        zs_json_string (json, NULL, *alias);
      zs_json_end_array (json);
      zs_json_end_object (json);
      continue;
    }
    ZsText line = { .string = g_string_new (NULL), .width = 80 };
    g_autofree char *first = g_strdup_printf ("  %-28s ", entries[i].name);

    zs_text_wrap (&line, first, 31, what);
    fputs (line.string->str, stdout);
    g_string_free (line.string, TRUE);
  }
  if (json != NULL)
    zs_json_end_array (json);
}

int
zs_command_list (const ZsOptions *options, char **arguments)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (ZsJsonWriter) json = options->json ? zs_json_writer_new_file (stdout, 2) : NULL;
  const char *words[G_N_ELEMENTS (KINDS) + 1] = { NULL };
  bool any = false;

  if (json != NULL)
    zs_json_begin_object (json, NULL);
  for (size_t i = 0; i < G_N_ELEMENTS (KINDS); i++) {
    words[i] = KINDS[i].word;
    if (arguments[0] != NULL && !g_str_has_prefix (KINDS[i].word, arguments[0]))
      continue;
    print_kind (catalogue, i, json);
    any = true;
  }
  if (json != NULL)
    zs_json_end_object (json);
  if (any)
    return ZS_EXIT_DONE;
  g_autofree char *hint = zs_nearest_hint (arguments[0], words);
  g_autofree char *all = g_strjoinv (", ", (char **) words);

  fprintf (stderr, "zerosim: there is no list of '%s'%s (there are %s)\n", arguments[0], hint, all);
  return ZS_EXIT_USAGE;
}

int
zs_command_show (const ZsOptions *options, char **arguments)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new ();

  (void) options;
  for (size_t i = 0; i < G_N_ELEMENTS (KINDS); i++) {
    g_autofree char *text = NULL;
    g_autoptr (GError) error = NULL;
    const ZsCatalogueEntry *entry
        = zs_catalogue_find (catalogue, KINDS[i].kind, arguments[0], NULL, NULL, NULL);

    if (entry == NULL) {
      int n;
      const ZsCatalogueEntry *entries = zs_catalogue_list (catalogue, KINDS[i].kind, &n);

      for (int j = 0; j < n; j++)
        g_ptr_array_add (names, (gpointer) entries[j].name);
      continue;
    }
    if (!zs_file_read (entry->path, 1 << 20, &text, NULL, &error))
      return zs_command_fail (error);
    printf ("# %s\n%s", entry->path, text);
    return ZS_EXIT_DONE;
  }
  g_ptr_array_add (names, NULL);
  g_autofree char *hint = zs_nearest_hint (arguments[0], (const char *const *) names->pdata);

  fprintf (stderr, "zerosim: nothing that comes with zerosim is called '%s'%s\n", arguments[0], hint);
  return ZS_EXIT_INPUT;
}
