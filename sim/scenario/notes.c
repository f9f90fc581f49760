/* notes.c: notes and the table of settings.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/scenario/notes.h"

#include <string.h>

static void
clear_note (ZsNote *note)
{
  g_free (note->file);
  g_free (note->where);
  g_free (note->text);
}

ZsNotes *
zs_notes_new (void)
{
  ZsNotes *notes = g_new0 (ZsNotes, 1);

  notes->notes = g_array_new (FALSE, TRUE, sizeof (ZsNote));
  g_array_set_clear_func (notes->notes, (GDestroyNotify)clear_note);
  return notes;
}

void
zs_notes_free (ZsNotes *notes)
{
  if (notes == NULL)
    return;
  g_array_unref (notes->notes);
  g_free (notes);
}

void
zs_notes_add (ZsNotes *notes, ZsNoteSeverity severity, const char *code, const ZsNode *node,
              const char *format, ...)
{
  va_list arguments;
  ZsNote note = { .severity = severity, .code = code };

  if (notes == NULL)
    return;
  va_start (arguments, format);
  note.text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  if (node != NULL) {
    note.file = g_strdup (node->file);
    note.line = node->line;
    note.column = node->column;
    note.where = zs_node_where (node);
  } else {
    note.where = g_strdup ("");
  }
  g_array_append_val (notes->notes, note);
}

void
zs_notes_copy (ZsNotes *notes, const ZsNote *note)
{
  ZsNote copy = *note;

  copy.file = g_strdup (note->file);
  copy.where = g_strdup (note->where);
  copy.text = g_strdup (note->text);
  g_array_append_val (notes->notes, copy);
}

int
zs_notes_count (const ZsNotes *notes)
{
  return (int)notes->notes->len;
}

const ZsNote *
zs_notes_get (const ZsNotes *notes, int index)
{
  return &g_array_index (notes->notes, ZsNote, index);
}

const char *
zs_note_severity_name (ZsNoteSeverity severity)
{
  static const char *const names[] = {
    [ZS_NOTE_INFO] = "info", [ZS_NOTE_IGNORED] = "ignored", [ZS_NOTE_DEAD] = "dead",
    [ZS_NOTE_SLOW] = "slow", [ZS_NOTE_RISKY] = "risky",     [ZS_NOTE_ERROR] = "error",
  };

  return names[severity];
}

static void
clear_setting (ZsSetting *setting)
{
  g_free (setting->path);
  g_free (setting->value);
  g_free (setting->where);
}

ZsSettings *
zs_settings_new (void)
{
  ZsSettings *settings = g_new0 (ZsSettings, 1);

  settings->rows = g_array_new (FALSE, TRUE, sizeof (ZsSetting));
  g_array_set_clear_func (settings->rows, (GDestroyNotify)clear_setting);
  return settings;
}

void
zs_settings_free (ZsSettings *settings)
{
  if (settings == NULL)
    return;
  g_array_unref (settings->rows);
  g_free (settings);
}

void
zs_settings_put (ZsSettings *settings, const char *path, ZsSettingOrigin origin, const char *where,
                 const char *format, ...)
{
  va_list arguments;
  ZsSetting row = { .origin = origin };

  if (settings == NULL)
    return;
  va_start (arguments, format);
  row.value = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  row.path = g_strdup (path);
  row.where = g_strdup (where != NULL ? where : "");

  ZsSetting *before = (ZsSetting *)zs_settings_find (settings, path);

  if (before != NULL) {
    clear_setting (before);
    *before = row;
  } else {
    g_array_append_val (settings->rows, row);
  }
}

void
zs_settings_put_node (ZsSettings *settings, const char *path, const ZsNode *node)
{
  g_autofree char *where = zs_node_where (node);
  GString *value = g_string_new (NULL);

  if (node->kind == ZS_NODE_SCALAR)
    g_string_append (value, node->text);
  else
    for (int i = 0; i < node->n_items; i++)
      g_string_append_printf (value, "%s%s%s%s", i > 0 ? ", " : "",
                              node->kind == ZS_NODE_MAPPING ? node->keys[i]->text : "",
                              node->kind == ZS_NODE_MAPPING ? ": " : "",
                              node->items[i]->kind == ZS_NODE_SCALAR ? node->items[i]->text
                                                                     : "...");
  zs_settings_put (settings, path, node->line > 0 ? ZS_SETTING_GIVEN : ZS_SETTING_FLAG, where, "%s",
                   value->str);
  g_string_free (value, TRUE);
}

const ZsSetting *
zs_settings_find (const ZsSettings *settings, const char *path)
{
  for (guint i = 0; i < settings->rows->len; i++) {
    const ZsSetting *row = &g_array_index (settings->rows, ZsSetting, i);

    if (strcmp (row->path, path) == 0)
      return row;
  }
  return NULL;
}

char *
zs_setting_origin_text (const ZsSetting *setting)
{
  static const char *const formats[] = {
    [ZS_SETTING_GIVEN] = "given at ",       [ZS_SETTING_FLAG] = "given by ",
    [ZS_SETTING_DEFAULT] = "default of ",   [ZS_SETTING_AUTO] = "resolved from \"auto\": ",
    [ZS_SETTING_DERIVED] = "follows from ", [ZS_SETTING_CATALOGUE] = "from ",
  };

  return g_strconcat (formats[setting->origin], setting->where, NULL);
}
