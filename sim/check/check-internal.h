/* check-internal.h: what the files of the linter share.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/check/check.h"

/* One ds_config under the rules. */
typedef struct {
  const ZsNode *root;
  const ZsDsConfig *config;
  const ZsCheckOptions *options;
  ZsFindings *findings;
} ZsCheck;

ZsFindings *zs_findings_new (void) G_GNUC_WARN_UNUSED_RESULT;
/* The findings own DOCUMENT from now on. */
void zs_findings_take (ZsFindings *findings, ZsDocument *document);
void zs_findings_set_kind (ZsFindings *findings, ZsCheckKind kind);
/* The tree that zs_check_fix corrects; belongs to a document taken. */
void zs_findings_set_document (ZsFindings *findings, ZsDocument *document);
ZsDocument *zs_findings_document (const ZsFindings *findings);
/* One more; a second one of the same code at the same place is left out.  NODE may be NULL. */
void zs_findings_add (ZsFindings *findings, ZsNoteSeverity severity, const char *code,
                      const ZsNode *node, const char *instead, const char *format, ...)
    G_GNUC_PRINTF (6, 7);
/* From a GError: "file:line:column: text". */
void zs_findings_add_error (ZsFindings *findings, const char *code, const GError *error);
void zs_findings_sort (ZsFindings *findings);
/* The path of NODE, a key or a value, in the file that it came from, and the value there; NULL if it
 * is not found.  Free with g_free. */
char *zs_findings_path (const ZsFindings *findings, const ZsNode *node, const ZsNode **ret_value);
/* Takes the strings of EFFECT. */
void zs_findings_set_effect (ZsFindings *findings, int index, const ZsEffect *effect);

/* About the key at PATH (or the nearest section that is there). */
void zs_check_say (const ZsCheck *check, ZsNoteSeverity severity, const char *code,
                   const char *path, const char *instead, const char *format, ...)
    G_GNUC_PRINTF (6, 7);
/* Is PATH in the file? */
bool zs_check_given (const ZsCheck *check, const char *path);
static inline bool
zs_check_behaves (const ZsCheck *check, ZsBehaviour behaviour)
{
  return zs_behaves (&check->options->ds.versions, behaviour);
}
/* Elements of one rank's partition, of the trainable parameters; 0 not known. */
int64_t zs_check_partition (const ZsCheck *check);

/* ---- the kinds of file ---- */
/* These give the ZeRO stage, or -1 if the file was not read. */
int zs_check_ds_root (ZsFindings *findings, const ZsNode *root, const ZsCheckOptions *options);
int zs_check_ds_text (ZsFindings *findings, const char *file, const char *text, gsize length,
                      const ZsCheckOptions *options);
/* A file that another one names; relative to the folder of FROM. */
int zs_check_ds_path (ZsFindings *findings, const ZsNode *node, const char *from,
                      const ZsCheckOptions *options);
void zs_check_accelerate (ZsFindings *findings, const ZsNode *root, const ZsCheckOptions *options);
void zs_check_arguments (ZsFindings *findings, const ZsNode *root, const ZsCheckOptions *options);
void zs_check_scenario (ZsFindings *findings, const char *file, const ZsNode *root,
                        const ZsCheckOptions *options);

/* What --fix does about a finding. */
ZsFixKind zs_check_fix_kind (const char *code, const ZsNode *node, const char *instead);

/* ---- the predicates of findings.def ---- */
#define FINDING(code, severity, title)
#define RULE(code, severity, predicate, title)                                                     \
  void zs_check_rule_##predicate (const ZsCheck *check);
#include "sim/check/findings.def"
#undef FINDING
#undef RULE
