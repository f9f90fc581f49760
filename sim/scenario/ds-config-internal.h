/* ds-config-internal.h: what the files of the ds_config reader share.  SPDX-License-Identifier: MIT
 */
#pragma once

#include "sim/scenario/ds-config-value.h"
#include "sim/scenario/ds-config.h"

/* One reading of one file. */
typedef struct {
  const ZsNode *root;
  const ZsDsContext *context;
  ZsDsConfig *config;
  ZsDsReport report;
  void *data;
  ZsSettings *settings;
  int stage;
} ZsDsExam;

void zs_ds_say (const ZsDsExam *exam, ZsNoteSeverity severity, const char *code, const ZsNode *node,
                const char *instead, const char *format, ...) G_GNUC_PRINTF (6, 7);
static inline const ZsNode *
zs_ds_get (const ZsDsExam *exam, const char *path)
{
  return zs_ds_config_get (exam->root, path);
}
/* The key's own node, for messages about the key; the root if it is not there. */
const ZsNode *zs_ds_place (const ZsDsExam *exam, const char *path);
static inline bool
zs_ds_behaves (const ZsDsExam *exam, ZsBehaviour behaviour)
{
  return zs_behaves (&exam->context->versions, behaviour);
}

/* ---- ds-config-auto.c: what Hugging Face writes in place of "auto" ---- */

/* Is there a rule for PATH (at this stage)? */
bool zs_ds_auto_has_rule (const ZsDsExam *exam, const char *path);
/* The number it gives, and how (static text); false when what it needs is not known, or there is no
 * rule. Flags are 0 and 1. */
bool zs_ds_auto_resolve (const ZsDsExam *exam, const char *path, double *ret_number,
                         const char **ret_how);
/* "the hidden size squared": how the rule of PATH goes; NULL without a rule. */
const char *zs_ds_auto_how (const char *path);

/* ---- ds-config-fill.c: values into the configuration ---- */

typedef enum { ZS_DS_FROM_DEFAULT, ZS_DS_FROM_FILE, ZS_DS_FROM_AUTO } ZsDsSource;

/* The value in force of PATH: from the file, from "auto", or the default (also where the file's
 * value is wrong, null, or an "auto" that DeepSpeed drops).  Clear it afterwards. */
ZsDsSource zs_ds_value_in_force (const ZsDsExam *exam, const char *path, ZsDsValue *ret_value);
bool zs_ds_truth (const ZsDsExam *exam, const char *path);
int64_t zs_ds_integer (const ZsDsExam *exam, const char *path);
double zs_ds_number (const ZsDsExam *exam, const char *path);
/* What DeepSpeed fills in for each key: stage, devices, buckets, precision, optimizer. */
void zs_ds_fill (ZsDsExam *exam);
/* Puts a value that was worked out into the settings. */
void zs_ds_settle (const ZsDsExam *exam, const char *path, ZsSettingOrigin origin,
                   const char *where, const char *format, ...) G_GNUC_PRINTF (5, 6);

/* ---- ds-config-batch.c ---- */
void zs_ds_fill_batch (ZsDsExam *exam);

/* ---- ds-config-optimizer.c ---- */
void zs_ds_fill_optimizer (ZsDsExam *exam);
void zs_ds_fill_precision (ZsDsExam *exam);

/* ---- ds-config-walk.c: every key and value by itself ---- */
void zs_ds_walk (const ZsDsExam *exam);

/* ---- ds-config-rules.c: what stops a start-up though each value is fine ---- */
void zs_ds_check_rules (const ZsDsExam *exam);
