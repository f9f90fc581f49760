/* output.c: findings as text, JSON and SARIF.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/check/check.h"

#include <string.h>

#include "sim/base/units.h"

/* Offload that was put where DeepSpeed does not read it: the job is another one than was meant. */
static void
write_headline (GString *out, const ZsFindings *findings)
{
  for (int i = 0; i < zs_findings_count (findings); i++) {
    const ZsFinding *finding = zs_findings_get (findings, i);
    const char *dot = finding->instead != NULL ? strrchr (finding->instead, '.') : NULL;

    if (strcmp (finding->code, "misplaced-key") != 0 || finding->severity != ZS_NOTE_IGNORED
        || dot == NULL || !g_str_has_prefix (dot, ".offload_"))
      continue;
    bool optimizer = strcmp (dot, ".offload_optimizer") == 0;

    g_string_append_printf (out, "%s: NOTHING IS OFFLOADED by '%s': it stands outside zero_optimization, "
                            "where nothing reads it; %s stay on the GPU, and DeepSpeed says nothing",
                            finding->file, dot + 1,
                            optimizer ? "optimizer states and fp32 weights" : "the parameters");
    if (finding->effect != NULL && finding->effect->peak_bytes < 0) {
      g_autofree char *size = zs_bytes_format (-finding->effect->peak_bytes);

      g_string_append_printf (out, ": %s more of each GPU", size);
    }
    g_string_append_c (out, '\n');
  }
}

static void
write_place (GString *out, const ZsFinding *finding)
{
  if (finding->file != NULL && finding->line > 0)
    g_string_append_printf (out, "%s:%d:%d: ", finding->file, finding->line, finding->column);
  else if (finding->file != NULL)
    g_string_append_printf (out, "%s: ", finding->file);
}

static void
add_bytes (GString *out, int64_t bytes, const char *what)
{
  g_autofree char *size = zs_bytes_format (ABS (bytes));

  if (ABS (bytes) >= INT64_C (1) << 20)
    g_string_append_printf (out, "%s%s %s %s", out->len > 0 ? ", " : "", size,
                            bytes > 0 ? "more" : "less", what);
}

static const char *
outcome_text (ZsOutcome outcome)
{
  return outcome == ZS_OUTCOME_OK    ? "fits"
         : outcome == ZS_OUTCOME_OOM ? "does not fit"
                                     : "needs more host memory than there is";
}

/* "    with it: 37 GiB less GPU memory, ..." */
static void
write_effect (GString *out, const ZsEffect *effect)
{
  g_autoptr (GString) changes = g_string_new (NULL);
  g_autofree char *time = zs_time_format (ABS (effect->step_time_ps));

  add_bytes (changes, effect->peak_bytes, "GPU memory at the peak");
  add_bytes (changes, effect->host_bytes, "host memory");
  if (ABS (effect->step_time_ps) >= ZS_MILLISECOND)
    g_string_append_printf (changes, "%s%s %s a step", changes->len > 0 ? ", " : "", time,
                            effect->step_time_ps > 0 ? "longer" : "shorter");
  if (changes->len == 0)
    g_string_append (changes, "neither bytes nor time change");
  if (effect->before != effect->after || effect->before != ZS_OUTCOME_OK)
    g_string_append_printf (changes, "; now it %s, then it %s", outcome_text (effect->before),
                            outcome_text (effect->after));
  /* the setting, short; of a whole section its name */
  const char *set = effect->set, *prefix = "training.deepspeed.";
  const char *end = strstr (set, "={\"");

  set += g_str_has_prefix (set, prefix) ? strlen (prefix) : 0;
  g_autofree char *shown = g_strndup (set, end != NULL ? (gsize) (end - set) : strlen (set));

  g_string_append_printf (out, "    with %s: %s\n", g_strdelimit (shown, "\n", ' '), changes->str);
}

enum { FOLDED_FROM = 3, LINES_SHOWN = 6 };

static bool
is_alike (const ZsFinding *a, const ZsFinding *b)
{
  return a->severity == ZS_NOTE_INFO && b->severity == ZS_NOTE_INFO && a->effect == NULL
         && b->effect == NULL && strcmp (a->code, b->code) == 0 && g_strcmp0 (a->file, b->file) == 0;
}

/* Notes like the one at INDEX; *RET_FIRST: is it the first of them? */
static int
count_alike (const ZsFindings *findings, int index, bool *ret_first)
{
  const ZsFinding *finding = zs_findings_get (findings, index);
  int n = 0;

  *ret_first = true;
  for (int i = 0; i < zs_findings_count (findings); i++)
    if (is_alike (zs_findings_get (findings, i), finding)) {
      *ret_first = *ret_first && i >= index;
      n++;
    }
  return n;
}

/* One line for N notes like the one at INDEX. */
static void
write_folded (GString *out, const ZsFindings *findings, int index, int n)
{
  const ZsFinding *finding = zs_findings_get (findings, index);
  const ZsFindingRow *row = zs_finding_row (finding->code);
  int shown = 0;

  g_string_append_printf (out, "%s: info: %d times: %s", finding->file != NULL ? finding->file : "", n,
                          row != NULL ? row->title : finding->text);
  for (int i = index; i < zs_findings_count (findings) && shown < LINES_SHOWN; i++)
    if (is_alike (zs_findings_get (findings, i), finding))
      g_string_append_printf (out, "%s%d", shown++ == 0 ? " (lines " : ", ",
                              zs_findings_get (findings, i)->line);
  g_string_append_printf (out, "%s; --json has each) [%s]\n", n > shown ? ", ..." : "", finding->code);
}

char *
zs_findings_text (const ZsFindings *findings)
{
  GString *out = g_string_new (NULL);

  write_headline (out, findings);
  for (int i = 0; i < zs_findings_count (findings); i++) {
    const ZsFinding *finding = zs_findings_get (findings, i);

    bool first;
    int n = count_alike (findings, i, &first);

    if (n >= FOLDED_FROM) {
      if (first)
        write_folded (out, findings, i, n);
      continue;
    }
    write_place (out, finding);
    g_string_append_printf (out, "%s: %s [%s]\n", zs_note_severity_name (finding->severity),
                            finding->text, finding->code);
    if (finding->instead != NULL)
      g_string_append_printf (out, "    instead: %s\n", finding->instead);
    if (finding->effect != NULL)
      write_effect (out, finding->effect);
  }
  return g_string_free (out, FALSE);
}

static void
write_effect_json (ZsJsonWriter *writer, const ZsEffect *effect)
{
  zs_json_begin_object (writer, "effect");
  zs_json_string (writer, "set", effect->set);
  zs_json_string (writer, "before", zs_outcome_name (effect->before));
  zs_json_string (writer, "after", zs_outcome_name (effect->after));
  zs_json_int (writer, "peak_bytes", effect->peak_bytes);
  zs_json_int (writer, "step_time_ps", effect->step_time_ps);
  zs_json_int (writer, "host_bytes", effect->host_bytes);
  zs_json_end_object (writer);
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
      if (finding->effect != NULL)
        write_effect_json (writer, finding->effect);
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
