/* output.c: findings as text, JSON and SARIF.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/check/check.h"

char *
zs_findings_text (const ZsFindings *findings)
{
  GString *out = g_string_new (NULL);

  for (int i = 0; i < zs_findings_count (findings); i++) {
    const ZsFinding *finding = zs_findings_get (findings, i);

    if (finding->file != NULL && finding->line > 0)
      g_string_append_printf (out, "%s:%d:%d: ", finding->file, finding->line, finding->column);
    else if (finding->file != NULL)
      g_string_append_printf (out, "%s: ", finding->file);
    g_string_append_printf (out, "%s: %s [%s]\n", zs_note_severity_name (finding->severity),
                            finding->text, finding->code);
    if (finding->instead != NULL)
      g_string_append_printf (out, "    instead: %s\n", finding->instead);
  }
  return g_string_free (out, FALSE);
}

void
zs_findings_json (const ZsFindings *const *list, int n, ZsJsonWriter *writer)
{
  zs_json_begin_object (writer, NULL);
  zs_json_begin_array (writer, "findings");
  for (int k = 0; k < n; k++)
    for (int i = 0; i < zs_findings_count (list[k]); i++) {
      const ZsFinding *finding = zs_findings_get (list[k], i);

      zs_json_begin_object (writer, NULL);
      zs_json_string (writer, "severity", zs_note_severity_name (finding->severity));
      zs_json_string (writer, "code", finding->code);
      zs_json_string (writer, "file", finding->file);
      zs_json_int (writer, "line", finding->line);
      zs_json_int (writer, "column", finding->column);
      zs_json_string (writer, "text", finding->text);
      zs_json_string (writer, "instead", finding->instead);
      zs_json_end_object (writer);
    }
  zs_json_end_array (writer);
  zs_json_end_object (writer);
}

static const char *
sarif_level (ZsNoteSeverity severity)
{
  return severity == ZS_NOTE_ERROR ? "error" : severity == ZS_NOTE_INFO ? "note" : "warning";
}

static void
write_text (ZsJsonWriter *writer, const char *key, const char *text)
{
  zs_json_begin_object (writer, key);
  zs_json_string (writer, "text", text);
  zs_json_end_object (writer);
}

static void
write_rules (ZsJsonWriter *writer)
{
  int n;
  const ZsFindingRow *rows = zs_finding_rows (&n);

  zs_json_begin_array (writer, "rules");
  for (int i = 0; i < n; i++) {
    zs_json_begin_object (writer, NULL);
    zs_json_string (writer, "id", rows[i].code);
    write_text (writer, "shortDescription", rows[i].title);
    zs_json_begin_object (writer, "defaultConfiguration");
    zs_json_string (writer, "level", sarif_level (rows[i].severity));
    zs_json_end_object (writer);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
}

static void
write_result (ZsJsonWriter *writer, const ZsFinding *finding)
{
  g_autofree char *message =
      finding->instead != NULL ? g_strdup_printf ("%s Instead: %s", finding->text, finding->instead)
                               : g_strdup (finding->text);

  zs_json_begin_object (writer, NULL);
  zs_json_string (writer, "ruleId", finding->code);
  zs_json_string (writer, "level", sarif_level (finding->severity));
  write_text (writer, "message", message);
  zs_json_begin_array (writer, "locations");
  if (finding->file != NULL) {
    zs_json_begin_object (writer, NULL);
    zs_json_begin_object (writer, "physicalLocation");
    zs_json_begin_object (writer, "artifactLocation");
    zs_json_string (writer, "uri", finding->file);
    zs_json_end_object (writer);
    if (finding->line > 0) {
      zs_json_begin_object (writer, "region");
      zs_json_int (writer, "startLine", finding->line);
      zs_json_int (writer, "startColumn", finding->column);
      zs_json_end_object (writer);
    }
    zs_json_end_object (writer);
    zs_json_end_object (writer);
  }
  zs_json_end_array (writer);
  zs_json_end_object (writer);
}

void
zs_findings_sarif (const ZsFindings *const *list, int n, ZsJsonWriter *writer)
{
  zs_json_begin_object (writer, NULL);
  zs_json_string (writer, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
  zs_json_string (writer, "version", "2.1.0");
  zs_json_begin_array (writer, "runs");
  zs_json_begin_object (writer, NULL);
  zs_json_begin_object (writer, "tool");
  zs_json_begin_object (writer, "driver");
  zs_json_string (writer, "name", "zerosim");
  zs_json_string (writer, "version", PACKAGE_VERSION);
  write_rules (writer);
  zs_json_end_object (writer);
  zs_json_end_object (writer);
  zs_json_begin_array (writer, "results");
  for (int k = 0; k < n; k++)
    for (int i = 0; i < zs_findings_count (list[k]); i++)
      write_result (writer, zs_findings_get (list[k], i));
  zs_json_end_array (writer);
  zs_json_end_object (writer);
  zs_json_end_array (writer);
  zs_json_end_object (writer);
}
