/* notes.h: what a reader of a person's files has to say besides errors, and where each setting came from.
 * SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>

#include "sim/io/document.h"

/* Severities of `zerosim check`. */
typedef enum {
  ZS_NOTE_INFO,       /* good to know */
  ZS_NOTE_IGNORED,    /* a key that the software reads nowhere */
  ZS_NOTE_DEAD,       /* a key without effect beside the others */
  ZS_NOTE_SLOW,
  ZS_NOTE_RISKY,
  ZS_NOTE_ERROR,      /* the real software would refuse it */
} ZsNoteSeverity;

typedef struct {
  ZsNoteSeverity severity;
  const char    *code;     /* static: "dead-key" */
  char          *file;     /* NULL: about no place */
  int            line, column;   /* 0: no lines */
  char          *where;    /* "ds_config.json:12:5", or "" */
  char          *text;
} ZsNote;

typedef struct {
  GArray *notes;   /* ZsNote, in the order they were found */
} ZsNotes;

ZsNotes *zs_notes_new  (void) G_GNUC_WARN_UNUSED_RESULT;
void     zs_notes_free (ZsNotes *notes);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsNotes, zs_notes_free)

/* A note about NODE (NULL: about no place).  CODE is static.  NOTES may be NULL: nothing is kept. */
void zs_notes_add (ZsNotes *notes, ZsNoteSeverity severity, const char *code, const ZsNode *node,
                   const char *format, ...) G_GNUC_PRINTF (5, 6);
/* The same note again. */
void          zs_notes_copy  (ZsNotes *notes, const ZsNote *note);
int           zs_notes_count (const ZsNotes *notes);
const ZsNote *zs_notes_get   (const ZsNotes *notes, int index);
const char   *zs_note_severity_name (ZsNoteSeverity severity);   /* "error", "ignored", ... */

/* ---- where the value of a setting came from ---- */
typedef enum {
  ZS_SETTING_GIVEN,      /* in a file */
  ZS_SETTING_FLAG,       /* on the command line, --set included */
  ZS_SETTING_DEFAULT,    /* of the software named in `where`: "DeepSpeed 0.19.5" */
  ZS_SETTING_AUTO,       /* "auto" resolved; `where`: how */
  ZS_SETTING_DERIVED,    /* follows from other settings; `where`: how */
  ZS_SETTING_CATALOGUE,  /* from a file of models/ */
} ZsSettingOrigin;

typedef struct {
  char           *path;    /* "training.deepspeed.zero_optimization.stage" */
  char           *value;   /* as a person writes it: "3", "200000000", "39.39 GiB" */
  ZsSettingOrigin origin;
  char           *where;   /* "ds_config.json:12:5", "--micro-batch", "DeepSpeed 0.19.5", ... */
} ZsSetting;

typedef struct {
  GArray *rows;   /* ZsSetting, in the order of reading */
} ZsSettings;

ZsSettings *zs_settings_new  (void) G_GNUC_WARN_UNUSED_RESULT;
void        zs_settings_free (ZsSettings *settings);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsSettings, zs_settings_free)

/* WHERE may be NULL; a row with the same path is replaced.  SETTINGS may be NULL. */
void zs_settings_put  (ZsSettings *settings, const char *path, ZsSettingOrigin origin,
                       const char *where, const char *format, ...) G_GNUC_PRINTF (5, 6);
/* GIVEN or FLAG, by NODE's place. */
void zs_settings_put_node (ZsSettings *settings, const char *path, const ZsNode *node);
const ZsSetting *zs_settings_find (const ZsSettings *settings, const char *path);
/* "given at ds_config.json:12:5", "default of DeepSpeed 0.19.5", "resolved from \"auto\": hidden size
 * squared": free with g_free. */
char *zs_setting_origin_text (const ZsSetting *setting);
