/* ds.c: a ds_config under all rules.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/check/check-internal.h"
#include "sim/io/file.h"
#include "sim/io/hjson.h"

static void (*const PREDICATES[]) (const ZsCheck *check) = {
#define FINDING(code, severity, title)
#define RULE(code, severity, predicate, title) zs_check_rule_##predicate,
#include "sim/check/findings.def"
#undef FINDING
#undef RULE
};

bool
zs_check_given (const ZsCheck *check, const char *path)
{
  return zs_ds_config_get (check->root, path) != NULL;
}

void
zs_check_say (const ZsCheck *check, ZsNoteSeverity severity, const char *code, const char *path,
              const char *instead, const char *format, ...)
{
  g_autofree char *at = g_strdup (path);
  const ZsNode *node = NULL;
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *text = g_strdup_vprintf (format, arguments);

  va_end (arguments);
  while ((node = zs_ds_config_get_key (check->root, at)) == NULL) {
    char *dot = strrchr (at, '.');

    if (dot == NULL)
      break;
    *dot = '\0';
  }
  zs_findings_add (check->findings, severity, code, node != NULL ? node : check->root, instead,
                   "%s", text);
}

int64_t
zs_check_partition (const ZsCheck *check)
{
  int64_t world = check->config->zero.world;

  return check->options->ds.world > 0 ? (check->options->n_trainable + world - 1) / world : 0;
}

static void
take_report (void *data, ZsNoteSeverity severity, const char *code, const ZsNode *node,
             const char *instead, const char *text)
{
  if (node->line > 0 || severity != ZS_NOTE_INFO) /* no line: made up for the rules */
    zs_findings_add (data, severity, code, node, instead, "%s", text);
}

int
zs_check_ds_root (ZsFindings *findings, const ZsNode *root, const ZsCheckOptions *options)
{
  ZsDsConfig config;
  ZsCheck check = { .root = root, .config = &config, .options = options, .findings = findings };

  zs_ds_config_examine (root, &options->ds, &config, take_report, findings, NULL);
  if (root->kind != ZS_NODE_MAPPING)
    return -1;
  for (size_t i = 0; i < G_N_ELEMENTS (PREDICATES); i++)
    PREDICATES[i](&check);
  return config.zero.stage;
}

static const ZsNode *
node_at (const ZsNode *node, int line, int column)
{
  if (node->line == line && node->column == column && node->kind == ZS_NODE_SCALAR)
    return node;
  for (int i = 0; i < node->n_items; i++) {
    const ZsNode *hit = node_at (node->items[i], line, column);

    if (hit == NULL && node->kind == ZS_NODE_MAPPING)
      hit = node_at (node->keys[i], line, column);
    if (hit != NULL)
      return hit;
  }
  return NULL;
}

/* What strict JSON would refuse: the first place of each kind, and every Python literal and
 * duplicate. */
static void
report_remarks (ZsFindings *findings, const char *file, const ZsNode *root, const GArray *remarks,
                const ZsCheckOptions *options)
{
  const ZsDsCaller caller = options->ds.caller;
  int counts[ZS_N_HJSON_REMARKS] = { 0 };
  bool said[ZS_N_HJSON_REMARKS] = { false };

  for (guint i = 0; i < remarks->len; i++)
    counts[g_array_index (remarks, ZsHjsonRemark, i).kind]++;
  for (guint i = 0; i < remarks->len; i++) {
    const ZsHjsonRemark *remark = &g_array_index (remarks, ZsHjsonRemark, i);
    const ZsNode *node = node_at (root, remark->line, remark->column);
    ZsNode place = { .file = file, .line = remark->line, .column = remark->column };

    if (remark->kind == ZS_HJSON_PYTHON_LITERAL) {
      const char *instead = *remark->text == 'T' ? "true" : *remark->text == 'F' ? "false" : "null";

      zs_findings_add (
          findings, ZS_NOTE_ERROR, "python-literal", node != NULL ? node : &place, instead,
          "HJSON reads this as the text \"%s\", strict JSON refuses it; JSON writes it "
          "in small letters",
          remark->text);
    } else if (remark->kind == ZS_HJSON_DUPLICATE) {
      zs_findings_add (findings, caller == ZS_DS_HUGGING_FACE ? ZS_NOTE_RISKY : ZS_NOTE_ERROR,
                       "duplicate-key", node != NULL ? node : &place, NULL,
                       "'%s' is given twice, first at line %d; DeepSpeed: \"Duplicate keys in "
                       "DeepSpeed config\"; Hugging Face's JSON takes the last one without a word",
                       remark->text, remark->first_line);
    } else if (caller != ZS_DS_PLAIN && !said[remark->kind]) {
      int n = counts[remark->kind];
      g_autofree char *times = n > 1 ? g_strdup_printf (" (%d places)", n) : g_strdup ("");

      said[remark->kind] = true;
      zs_findings_add (findings, caller == ZS_DS_HUGGING_FACE ? ZS_NOTE_ERROR : ZS_NOTE_RISKY,
                       "not-strict-json", node != NULL ? node : &place, NULL,
                       "%s%s: DeepSpeed's HJSON reads it, Hugging Face's strict JSON refuses the "
                       "file, perhaps as \"Expected a string path to an existing deepspeed config, "
                       "or a dictionary, or a base64 encoded string\"",
                       zs_hjson_remark_name (remark->kind), times);
    }
  }
}

int
zs_check_ds_text (ZsFindings *findings, const char *file, const char *text, gsize length,
                  const ZsCheckOptions *options)
{
  g_autoptr (GArray) remarks = g_array_new (FALSE, FALSE, sizeof (ZsHjsonRemark));
  g_autoptr (GError) error = NULL;
  ZsDocument *document = zs_hjson_parse (file, text, length, remarks, &error);

  if (document == NULL) {
    zs_findings_add_error (findings, "syntax", error);
    return -1;
  }
  zs_findings_take (findings, document);
  if (zs_findings_kind (findings) == ZS_CHECK_DS_CONFIG)
    zs_findings_set_document (findings, document);
  report_remarks (findings, zs_document_file (document), zs_document_root (document), remarks,
                  options);
  return zs_check_ds_root (findings, zs_document_root (document), options);
}

int
zs_check_ds_path (ZsFindings *findings, const ZsNode *node, const char *from,
                  const ZsCheckOptions *options)
{
  g_autofree char *folder = g_path_get_dirname (from);
  g_autofree char *path = g_path_is_absolute (node->text) || strcmp (folder, ".") == 0
                              ? g_strdup (node->text)
                              : g_build_filename (folder, node->text, NULL);
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;
  gsize length;

  if (!zs_file_read (path, ZS_DOCUMENT_MAX_BYTES, &text, &length, &error)) {
    zs_findings_add (
        findings, ZS_NOTE_ERROR, "file-not-found", node, NULL,
        "%s; Hugging Face: \"Expected a string path to an existing deepspeed config, or "
        "a dictionary, or a base64 encoded string\"",
        error->message);
    return -1;
  }
  return zs_check_ds_text (findings, path, text, length, options);
}
