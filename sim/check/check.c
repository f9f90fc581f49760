/* check.c: which kind of file it is, and on to its rules.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/check/check.h"

#include <string.h>

#include "sim/check/check-internal.h"
#include "sim/io/file.h"
#include "sim/io/hjson.h"

void
zs_check_options_init (ZsCheckOptions *options)
{
  *options = (ZsCheckOptions){ .omp_threads = -1 };
  zs_ds_context_init (&options->ds);
  options->ds.caller = ZS_DS_EITHER;
}

/* Words that only one kind of file has. */
static const struct {
  const char *word;
  ZsCheckKind kind;
} SIGNS[] = {
  { "deepspeed_config", ZS_CHECK_ACCELERATE },
  { "distributed_type", ZS_CHECK_ACCELERATE },
  { "compute_environment", ZS_CHECK_ACCELERATE },
  { "cluster", ZS_CHECK_SCENARIO },
  { "training", ZS_CHECK_SCENARIO },
  { "output_dir", ZS_CHECK_ARGUMENTS },
  { "per_device_train_batch_size", ZS_CHECK_ARGUMENTS },
  { "num_train_epochs", ZS_CHECK_ARGUMENTS },
  { "learning_rate", ZS_CHECK_ARGUMENTS },
  { "model_name_or_path", ZS_CHECK_ARGUMENTS },
  { "fsdp_config", ZS_CHECK_ACCELERATE },   /* after TrainingArguments, which may have it too */
};

static ZsCheckKind
guess (const ZsNode *root)
{
  if (zs_node_get (root, "zero_optimization") != NULL)
    return ZS_CHECK_DS_CONFIG;
  for (size_t i = 0; i < G_N_ELEMENTS (SIGNS); i++)
    if (zs_node_get (root, SIGNS[i].word) != NULL)
      return SIGNS[i].kind;
  return ZS_CHECK_DS_CONFIG;
}

static bool
looks_like_yaml (const char *file, const char *text, gsize length)
{
  if (g_str_has_suffix (file, ".yaml") || g_str_has_suffix (file, ".yml"))
    return true;
  if (g_str_has_suffix (file, ".json") || g_str_has_suffix (file, ".hjson"))
    return false;
  for (gsize i = 0; i < length; i++)
    if (!g_ascii_isspace (text[i]))
      return text[i] != '{' && text[i] != '/';
  return false;
}

static void
check_tree (ZsFindings *findings, const char *file, const ZsNode *root, ZsCheckKind kind,
            const ZsCheckOptions *options)
{
  if (root->kind != ZS_NODE_MAPPING && kind != ZS_CHECK_DS_CONFIG) {
    zs_findings_add (findings, ZS_NOTE_ERROR, "wrong-type", root, NULL,
                     "the file must hold names and values, not %s", zs_node_describe (root));
    return;
  }
  switch (kind) {
  case ZS_CHECK_ACCELERATE:
    zs_check_accelerate (findings, root, options);
    break;
  case ZS_CHECK_ARGUMENTS:
    zs_check_arguments (findings, root, options);
    break;
  case ZS_CHECK_SCENARIO:
    zs_check_scenario (findings, file, root, options);
    break;
  default:
    zs_check_ds_root (findings, root, options);
  }
}

ZsFindings *
zs_check_text (const char *file, const char *text, gsize length, ZsCheckKind kind,
               const ZsCheckOptions *options)
{
  ZsFindings *findings = zs_findings_new ();
  g_autoptr (GError) error = NULL;
  bool yaml = kind == ZS_CHECK_GUESS ? looks_like_yaml (file, text, length)
                                     : kind == ZS_CHECK_ACCELERATE || kind == ZS_CHECK_SCENARIO;
  ZsDocument *document = NULL;

  if (kind == ZS_CHECK_GUESS && !yaml) {
    g_autoptr (ZsDocument) look = zs_hjson_parse (file, text, length, NULL, NULL);

    kind = look != NULL ? guess (zs_document_root (look)) : ZS_CHECK_DS_CONFIG;
  }
  if (yaml) {
    document = zs_yaml_parse (file, text, length, &error);
    if (document != NULL && kind == ZS_CHECK_GUESS)
      kind = guess (zs_document_root (document));
  } else if (kind != ZS_CHECK_DS_CONFIG) {
    document = zs_json_parse (file, text, length, &error);
  }
  zs_findings_set_kind (findings, kind);
  if (kind == ZS_CHECK_DS_CONFIG && !yaml) {
    zs_check_ds_text (findings, file, text, length, options);
  } else if (document == NULL) {
    zs_findings_add_error (findings, "syntax", error);
  } else {
    zs_findings_take (findings, document);
    check_tree (findings, zs_document_file (document), zs_document_root (document), kind, options);
  }
  zs_findings_sort (findings);
  return findings;
}

static bool
is_said (const ZsFindings *findings, const GError *error)
{
  for (int i = 0; i < zs_findings_count (findings); i++)
    if (strstr (error->message, zs_findings_get (findings, i)->text) != NULL)
      return true;
  return false;
}

/* What a run refuses of the file, where nothing was found yet. */
static void
add_refused (ZsFindings *findings, const char *path)
{
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_autofree char *prefix = g_strconcat (path, ":", NULL);

  zs_scenario_check_import (path, errors);
  for (int i = 0; i < MIN (zs_errors_count (errors), ZS_MAX_ERRORS); i++)
    if (!is_said (findings, zs_errors_get (errors, i))) {
      if (g_str_has_prefix (zs_errors_get (errors, i)->message, prefix))
        zs_findings_add_error (findings, "unknown-word", zs_errors_get (errors, i));
      else if (strstr (zs_errors_get (errors, i)->message, "mismatch TrainingArguments") != NULL)
        zs_findings_add_error (findings, "differs-from-arguments", zs_errors_get (errors, i));
    }
  zs_findings_sort (findings);
}

ZsFindings *
zs_check_file (const char *path, ZsCheckKind kind, const ZsCheckOptions *options)
{
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;
  gsize length;

  if (!zs_file_read (path, ZS_DOCUMENT_MAX_BYTES, &text, &length, &error)) {
    ZsFindings *findings = zs_findings_new ();
    ZsNode place = { .file = path };
    g_autofree char *prefix = g_strconcat (path, ": ", NULL);   /* the finding has its own */
    const char *message = error->message;

    if (g_str_has_prefix (message, prefix))
      message += strlen (prefix);
    zs_findings_add (findings, ZS_NOTE_ERROR, "file-not-found", &place, NULL, "%s", message);
    return findings;
  }
  ZsFindings *findings = zs_check_text (path, text, length, kind, options);

  kind = zs_findings_kind (findings);
  if (kind == ZS_CHECK_ACCELERATE || kind == ZS_CHECK_ARGUMENTS)
    add_refused (findings, path);
  return findings;
}
