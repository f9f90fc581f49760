/* catalogue.c: the folders of data files.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/scenario/catalogue.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/words.h"

typedef struct {
  const char *folder, *suffix, *name, *list; /* LIST: the word of `zerosim list` */
} Kind;

static const Kind KINDS[] = {
  [ZS_CATALOGUE_GPUS] = { "models/gpus", ".yaml", "GPU", "gpus" },
  [ZS_CATALOGUE_MODELS] = { "models/llms", ".json", "model", "models" },
  [ZS_CATALOGUE_INSTANCES] = { "models/instances", ".yaml", "machine", "instances" },
  [ZS_CATALOGUE_FABRICS] = { "models/fabrics", ".yaml", "fabric", "fabrics" },
  [ZS_CATALOGUE_NETWORKS] = { "models/networks", ".yaml", "network", "networks" },
  [ZS_CATALOGUE_SCENARIOS] = { "scenarios", ".yaml", "scenario", "scenarios" },
};

struct ZsCatalogue {
  char *datadir, *models;
  GMutex lock;
  GArray *entries[ZS_N_CATALOGUES]; /* ZsCatalogueEntry; NULL: not read yet */
  GHashTable
      *singles[ZS_N_CATALOGUES]; /* name to ZsCatalogueEntry: asked for by their exact names */
};

static void
clear_entry (ZsCatalogueEntry *entry)
{
  g_free ((char *)entry->name);
  g_free ((char *)entry->path);
  g_free ((char *)entry->error);
  g_free ((gpointer)entry->aliases);
  zs_document_free ((ZsDocument *)entry->document);
}

/* Where the program was installed; if it was moved, or runs where it was built, near the program.
 */
static char *
usual_place (void)
{
  static const char *const near[] = { "../share/zerosim", ".", "..", NULL };
  g_autofree char *program = g_file_read_link ("/proc/self/exe", NULL);
  g_autofree char *folder = program != NULL ? g_path_get_dirname (program) : NULL;

  if (!g_file_test (ZS_PKGDATADIR "/models/gpus", G_FILE_TEST_IS_DIR))
    for (int i = 0; folder != NULL && near[i] != NULL; i++) {
      g_autofree char *place = g_build_filename (folder, near[i], NULL);
      g_autofree char *gpus = g_build_filename (place, "models/gpus", NULL);

      if (g_file_test (gpus, G_FILE_TEST_IS_DIR))
        return g_steal_pointer (&place);
    }
  return g_strdup (ZS_PKGDATADIR);
}

ZsCatalogue *
zs_catalogue_new (const char *datadir)
{
  ZsCatalogue *catalogue = g_new0 (ZsCatalogue, 1);

  if (datadir == NULL)
    datadir = g_getenv ("ZEROSIM_DATADIR");
  catalogue->datadir = datadir != NULL && *datadir != '\0' ? g_strdup (datadir) : usual_place ();
  catalogue->models = g_build_filename (catalogue->datadir, "models", NULL);
  g_mutex_init (&catalogue->lock);
  return catalogue;
}

void
zs_catalogue_free (ZsCatalogue *catalogue)
{
  if (catalogue == NULL)
    return;
  for (int i = 0; i < ZS_N_CATALOGUES; i++) {
    g_clear_pointer (&catalogue->entries[i], g_array_unref);
    g_clear_pointer (&catalogue->singles[i], g_hash_table_unref);
  }
  g_mutex_clear (&catalogue->lock);
  g_free (catalogue->datadir);
  g_free (catalogue->models);
  g_free (catalogue);
}

const char *
zs_catalogue_datadir (const ZsCatalogue *catalogue)
{
  return catalogue->datadir;
}

const char *
zs_catalogue_models (const ZsCatalogue *catalogue)
{
  return catalogue->models;
}

const char *
zs_catalogue_kind_name (ZsCatalogueKind kind)
{
  return KINDS[kind].name;
}

/* Letters and digits of NAME in lower case, "gb" and "gib" after a digit as "g", no vendor in
 * front. */
static char *
normalise (const char *name)
{
  static const char *const vendors[] = { "nvidia", "amd", "tesla", "geforce", "instinct", NULL };
  GString *text = g_string_new (NULL);

  for (; *name != '\0'; name++)
    if (g_ascii_isalnum (*name) || *name == '.' || *name == '/')
      g_string_append_c (text, g_ascii_tolower (*name));
  for (int i = 0; vendors[i] != NULL; i++)
    if (g_str_has_prefix (text->str, vendors[i]) && text->len > strlen (vendors[i]))
      g_string_erase (text, 0, (gssize)strlen (vendors[i]));
  for (gsize i = 1; i < text->len; i++)
    if (g_ascii_isdigit (text->str[i - 1]) && text->str[i] == 'g') {
      if (strncmp (text->str + i, "gib", 3) == 0)
        g_string_erase (text, (gssize)i + 1, 2);
      else if (strncmp (text->str + i, "gb", 2) == 0)
        g_string_erase (text, (gssize)i + 1, 1);
    }
  return g_string_free (text, FALSE);
}

bool
zs_names_equal (const char *a, const char *b)
{
  g_autofree char *x = normalise (a), *y = normalise (b);

  return strcmp (x, y) == 0;
}

static void
free_entry (ZsCatalogueEntry *entry)
{
  clear_entry (entry);
  g_free (entry);
}

static ZsCatalogueEntry
read_entry (const char *folder, const char *file, const char *suffix)
{
  g_autoptr (GError) error = NULL;
  ZsCatalogueEntry entry = { .form = "" };

  entry.name = g_strndup (file, strlen (file) - strlen (suffix));
  entry.path = g_build_filename (folder, file, NULL);

  ZsDocument *document = zs_document_load (entry.path, &error);
  const ZsNode *aliases = NULL, *form = NULL;

  entry.document = document;
  if (document == NULL) {
    entry.error = g_strdup (error->message);
  } else {
    aliases = zs_node_get (zs_document_root (document), "aliases");
    form = zs_node_get (zs_document_root (document), "form");
  }
  if (form != NULL && form->kind == ZS_NODE_SCALAR)
    entry.form = form->text;

  int n = aliases != NULL && aliases->kind == ZS_NODE_SEQUENCE ? aliases->n_items : 0, n_kept = 0;
  const char **words = g_new0 (const char *, n + 1);

  for (int i = 0; i < n; i++)
    if (aliases->items[i]->kind == ZS_NODE_SCALAR)
      words[n_kept++] = aliases->items[i]->text;
  entry.aliases = words;
  return entry;
}

/* The entry whose file is called NAME, without reading the others; NULL: none. */
static const ZsCatalogueEntry *
find_single (ZsCatalogue *catalogue, ZsCatalogueKind kind, const char *name)
{
  g_autofree char *lower = g_ascii_strdown (name, -1);
  ZsCatalogueEntry *entry = NULL;

  if (strchr (name, '/') != NULL || name[0] == '.' || strlen (name) > 100)
    return NULL;
  g_mutex_lock (&catalogue->lock);
  if (catalogue->singles[kind] == NULL)
    catalogue->singles[kind] =
        g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)free_entry);
  entry = g_hash_table_lookup (catalogue->singles[kind], lower);
  if (entry == NULL) {
    g_autofree char *file = g_strconcat (lower, KINDS[kind].suffix, NULL);
    g_autofree char *folder = g_build_filename (catalogue->datadir, KINDS[kind].folder, NULL);
    g_autofree char *path = g_build_filename (folder, file, NULL);

    if (g_file_test (path, G_FILE_TEST_IS_REGULAR)) {
      entry = g_new (ZsCatalogueEntry, 1);
      *entry = read_entry (folder, file, KINDS[kind].suffix);
      g_hash_table_insert (catalogue->singles[kind], g_steal_pointer (&lower), entry);
    }
  }
  g_mutex_unlock (&catalogue->lock);
  return entry;
}

static int
compare_entries (const void *a, const void *b)
{
  return strcmp (((const ZsCatalogueEntry *)a)->name, ((const ZsCatalogueEntry *)b)->name);
}

static GArray *
read_folder (const ZsCatalogue *catalogue, const Kind *kind)
{
  GArray *entries = g_array_new (FALSE, TRUE, sizeof (ZsCatalogueEntry));
  g_autofree char *folder = g_build_filename (catalogue->datadir, kind->folder, NULL);
  GDir *dir = g_dir_open (folder, 0, NULL);
  const char *file;

  g_array_set_clear_func (entries, (GDestroyNotify)clear_entry);
  while (dir != NULL && (file = g_dir_read_name (dir)) != NULL)
    if (g_str_has_suffix (file, kind->suffix) && file[0] != '.') {
      ZsCatalogueEntry entry = read_entry (folder, file, kind->suffix);

      g_array_append_val (entries, entry);
    }
  if (dir != NULL)
    g_dir_close (dir);
  g_array_sort (entries, compare_entries);
  return entries;
}

const ZsCatalogueEntry *
zs_catalogue_list (ZsCatalogue *catalogue, ZsCatalogueKind kind, int *ret_n)
{
  g_mutex_lock (&catalogue->lock);
  if (catalogue->entries[kind] == NULL)
    catalogue->entries[kind] = read_folder (catalogue, &KINDS[kind]);
  GArray *entries = catalogue->entries[kind];
  g_mutex_unlock (&catalogue->lock);
  *ret_n = (int)entries->len;
  return (const ZsCatalogueEntry *)entries->data;
}

static bool
is_called (const ZsCatalogueEntry *entry, const char *normal)
{
  g_autofree char *name = normalise (entry->name);

  if (strcmp (name, normal) == 0)
    return true;
  for (int i = 0; entry->aliases[i] != NULL; i++) {
    g_autofree char *alias = normalise (entry->aliases[i]);

    if (strcmp (alias, normal) == 0)
      return true;
  }
  return false;
}

static void
not_found (const ZsCatalogueEntry *entries, int n_entries, ZsCatalogueKind kind, const char *name,
           const char *datadir, GError **error)
{
  GPtrArray *words = g_ptr_array_new ();

  if (n_entries == 0) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT,
                 "no %s '%.60s': there are none in %s/%s; is ZEROSIM_DATADIR right?",
                 KINDS[kind].name, name, datadir, KINDS[kind].folder);
    g_ptr_array_free (words, TRUE);
    return;
  }
  for (int i = 0; i < n_entries; i++)
    g_ptr_array_add (words, (char *)entries[i].name);
  for (int i = 0; i < n_entries; i++)
    for (int j = 0; entries[i].aliases[j] != NULL; j++)
      g_ptr_array_add (words, (char *)entries[i].aliases[j]);
  g_ptr_array_add (words, NULL);

  g_autofree char *hint = zs_nearest_hint (name, (const char *const *)words->pdata);

  g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT,
               "no %s '%.60s'%s; `zerosim list %s` shows what there is%s", KINDS[kind].name, name, hint,
               KINDS[kind].list,
               kind == ZS_CATALOGUE_MODELS ? ", and the path of its config.json is taken too" : "");
  g_ptr_array_free (words, TRUE);
}

const ZsCatalogueEntry *
zs_catalogue_find (ZsCatalogue *catalogue, ZsCatalogueKind kind, const char *name, const char *form,
                   bool *ret_open, GError **error)
{
  const ZsCatalogueEntry *single =
      find_single (catalogue, kind, name); /* a name goes before all aliases */

  if (single != NULL && single->document == NULL) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s", single->error);
    return NULL;
  }
  if (single != NULL) {
    if (ret_open != NULL)
      *ret_open = false;
    return single;
  }

  int n_entries;
  const ZsCatalogueEntry *entries = zs_catalogue_list (catalogue, kind, &n_entries);
  const ZsCatalogueEntry *found = NULL, *sxm = NULL, *of_form = NULL;
  g_autofree char *normal = normalise (name);
  int n_found = 0, n_sxm = 0, n_of_form = 0;
  GString *all = g_string_new (NULL);

  for (int i = 0; i < n_entries; i++) {
    if (!is_called (&entries[i], normal))
      continue;
    found = &entries[i];
    g_string_append_printf (all, "%s%s", n_found++ > 0 ? ", " : "", entries[i].name);
    if (strcmp (entries[i].form, "sxm") == 0) {
      sxm = &entries[i];
      n_sxm++;
    }
    if (form != NULL && strcmp (entries[i].form, form) == 0) {
      of_form = &entries[i];
      n_of_form++;
    }
  }
  if (n_found > 1)
    found = n_of_form == 1 ? of_form : form == NULL && n_sxm == 1 ? sxm : NULL;
  if (n_found == 0)
    not_found (entries, n_entries, kind, name, catalogue->datadir, error);
  else if (found == NULL)
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s '%.60s' may be any of %s", KINDS[kind].name,
                 name, all->str);
  else if (found->document == NULL) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s", found->error);
    found = NULL;
  }
  g_string_free (all, TRUE);
  if (found != NULL && ret_open != NULL)
    *ret_open = n_found > 1;
  return found;
}
