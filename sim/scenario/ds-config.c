/* ds-config.c: the way in to the ds_config reader.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/io/file.h"
#include "sim/io/hjson.h"
#include "sim/scenario/ds-config-internal.h"

void
zs_ds_context_init (ZsDsContext *context)
{
  *context = (ZsDsContext){
    .versions = { .of = { [ZS_SOFTWARE_DEEPSPEED] = ZS_VERSION (0, 19, 5),
                          [ZS_SOFTWARE_TORCH] = ZS_VERSION (2, 11, 0),
                          [ZS_SOFTWARE_TRANSFORMERS] = ZS_VERSION (5, 17, 0) } },
    .caller = ZS_DS_HUGGING_FACE,
    .dtype = ZS_DTYPE_BF16,
    .max_grad_norm = -1,
    .client_optimizer = ZS_OPTIMIZER_FUSED,
    .zero_init = true,
    .prefix = "",
  };
}

ZsDocument *
zs_ds_config_load (const char *path, ZsNotes *notes, GError **error)
{
  g_autofree char *text = NULL;
  g_autoptr (GArray) remarks = g_array_new (FALSE, FALSE, sizeof (ZsHjsonRemark));
  gsize length;

  if (!zs_file_read (path, ZS_DOCUMENT_MAX_BYTES, &text, &length, error))
    return NULL;
  g_autoptr (ZsDocument) document = zs_hjson_parse (path, text, length, remarks, error);

  if (document == NULL)
    return NULL;
  for (guint i = 0; i < remarks->len; i++) {
    const ZsHjsonRemark *remark = &g_array_index (remarks, ZsHjsonRemark, i);

    if (remark->kind == ZS_HJSON_DUPLICATE) {
      g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT,
                   "%s:%d:%d: '%s' is given twice, first at line %d: \"Duplicate keys in DeepSpeed "
                   "config\"",
                   path, remark->line, remark->column, remark->text, remark->first_line);
      return NULL;
    }
  }
  if (remarks->len > 0) {
    const ZsHjsonRemark *first = &g_array_index (remarks, ZsHjsonRemark, 0);
    ZsNode place = { .file = path, .line = first->line, .column = first->column };

    zs_notes_add (
        notes, ZS_NOTE_INFO, "not-strict-json", &place,
        "%s: DeepSpeed reads it, but Hugging Face's strict JSON refuses the file (%u such "
        "place%s)",
        zs_hjson_remark_name (first->kind), remarks->len, remarks->len == 1 ? "" : "s");
  }
  return g_steal_pointer (&document);
}

void
zs_ds_say (const ZsDsExam *exam, ZsNoteSeverity severity, const char *code, const ZsNode *node,
           const char *instead, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *text = g_strdup_vprintf (format, arguments);

  va_end (arguments);
  exam->report (exam->data, severity, code, node, instead, text);
}

#define MAX_WORD 80 /* longer than any word of the table */

/* What the section AT (LENGTH bytes of PATH) may be called too: its last word, or NULL. */
static const char *
other_word (const char *path, size_t length)
{
  for (int i = 0; i < zs_ds_n_aliases (); i++) {
    const char *name, *key, *dot;

    zs_ds_alias (i, &name, &key);
    if (strncmp (key, path, length) == 0 && key[length] == '\0') {
      dot = strrchr (name, '.');
      return dot != NULL ? dot + 1 : name;
    }
  }
  return NULL;
}

/* The key node and value node of PATH; false if it is not given. */
static bool
find (const ZsNode *root, const char *path, const ZsNode **ret_key, const ZsNode **ret_value)
{
  const ZsNode *node = root, *key = NULL;

  for (const char *at = path; *at != '\0';) {
    size_t length = strcspn (at, ".");
    char word[MAX_WORD];

    g_assert (length < sizeof word);
    memcpy (word, at, length);
    word[length] = '\0';
    at += length;
    key = zs_node_get_key (node, word);
    if (key == NULL) {
      const char *other = other_word (path, (size_t)(at - path));

      if (other == NULL || (key = zs_node_get_key (node, other)) == NULL)
        return false;
    }
    node = zs_node_get (node, key->text);
    at += *at == '.';
  }
  *ret_key = key;
  *ret_value = node;
  return true;
}

const ZsNode *
zs_ds_config_get (const ZsNode *root, const char *path)
{
  const ZsNode *key, *value;

  return find (root, path, &key, &value) ? value : NULL;
}

const ZsNode *
zs_ds_config_get_key (const ZsNode *root, const char *path)
{
  const ZsNode *key, *value;

  return find (root, path, &key, &value) ? key : NULL;
}

const ZsNode *
zs_ds_place (const ZsDsExam *exam, const char *path)
{
  g_autofree char *at = g_strdup (path);

  for (;;) { /* the key, or the nearest section that is there */
    const ZsNode *key = zs_ds_config_get_key (exam->root, at);
    char *dot = strrchr (at, '.');

    if (key != NULL)
      return key;
    if (dot == NULL)
      return exam->root;
    *dot = '\0';
  }
}

void
zs_ds_config_examine (const ZsNode *root, const ZsDsContext *context, ZsDsConfig *ret_config,
                      ZsDsReport report, void *data, ZsSettings *settings)
{
  ZsDsExam exam = { .root = root,
                    .context = context,
                    .config = ret_config,
                    .report = report,
                    .data = data,
                    .settings = settings };

  memset (ret_config, 0, sizeof *ret_config);
  if (root->kind != ZS_NODE_MAPPING) {
    zs_ds_say (&exam, ZS_NOTE_ERROR, "wrong-type", root, NULL,
               "a ds_config is an object in braces, not %s", zs_node_describe (root));
    return;
  }
  zs_ds_fill (&exam);
  zs_ds_walk (&exam);
  zs_ds_check_rules (&exam);
}

typedef struct {
  ZsErrors *errors;
  ZsNotes *notes;
  bool failed;
} Reading;

static void
take_report (void *data, ZsNoteSeverity severity, const char *code, const ZsNode *node,
             const char *instead, const char *text)
{
  Reading *reading = data;
  g_autofree char *hint = instead != NULL ? g_strdup_printf ("; write %s", instead) : g_strdup ("");

  if (strcmp (code, "auto-resolved") == 0)
    return; /* the table of settings says it */
  if (severity == ZS_NOTE_ERROR || strcmp (code, "auto-unresolved") == 0) {
    reading->failed = true;
    zs_node_fail (node, reading->errors, "%s%s", text, hint);
  } else {
    zs_notes_add (reading->notes, severity, code, node, "%s%s", text, hint);
  }
}

bool
zs_ds_config_read (const ZsNode *root, const ZsDsContext *context, ZsDsConfig *ret_config,
                   ZsErrors *errors, ZsNotes *notes, ZsSettings *settings)
{
  Reading reading = { .errors = errors, .notes = notes };

  zs_ds_config_examine (root, context, ret_config, take_report, &reading, settings);
  return !reading.failed;
}
