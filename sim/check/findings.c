/* findings.c: the list of findings, and the table of what can be found.  SPDX-License-Identifier:
 * MIT */
#include "config.h"

#include <string.h>

#include "sim/check/check-internal.h"

#define MAX_FINDINGS 500 /* nobody reads more, and each is compared with those before it */

struct ZsFindings {
  GArray *rows;         /* ZsFinding */
  GPtrArray *documents; /* ZsDocument */
  ZsDocument *document; /* of the file itself, which zs_check_fix corrects */
  ZsCheckKind kind;
};

static const ZsFindingRow ROWS[] = {
#define FINDING(code, severity, title) { code, ZS_NOTE_##severity, title },
#define RULE(code, severity, predicate, title) FINDING (code, severity, title)
#include "sim/check/findings.def"
#undef FINDING
#undef RULE
};

const ZsFindingRow *
zs_finding_rows (int *ret_n)
{
  *ret_n = G_N_ELEMENTS (ROWS);
  return ROWS;
}

const ZsFindingRow *
zs_finding_row (const char *code)
{
  for (size_t i = 0; i < G_N_ELEMENTS (ROWS); i++)
    if (strcmp (ROWS[i].code, code) == 0)
      return &ROWS[i];
  return NULL;
}

static void
clear_finding (ZsFinding *finding)
{
  g_free (finding->file);
  g_free (finding->text);
  g_free (finding->instead);
  if (finding->effect != NULL)
    g_free (finding->effect->set);
  g_free (finding->effect);
}

ZsFindings *
zs_findings_new (void)
{
  ZsFindings *findings = g_new0 (ZsFindings, 1);

  findings->rows = g_array_new (FALSE, TRUE, sizeof (ZsFinding));
  g_array_set_clear_func (findings->rows, (GDestroyNotify)clear_finding);
  findings->documents = g_ptr_array_new_with_free_func ((GDestroyNotify)zs_document_free);
  return findings;
}

void
zs_findings_free (ZsFindings *findings)
{
  if (findings == NULL)
    return;
  g_array_unref (findings->rows);
  g_ptr_array_unref (findings->documents);
  g_free (findings);
}

void
zs_findings_take (ZsFindings *findings, ZsDocument *document)
{
  g_ptr_array_add (findings->documents, document);
}

void
zs_findings_set_kind (ZsFindings *findings, ZsCheckKind kind)
{
  findings->kind = kind;
}

ZsCheckKind
zs_findings_kind (const ZsFindings *findings)
{
  return findings->kind;
}

void
zs_findings_set_document (ZsFindings *findings, ZsDocument *document)
{
  findings->document = document;
}

ZsDocument *
zs_findings_document (const ZsFindings *findings)
{
  return findings->document;
}

int
zs_findings_count (const ZsFindings *findings)
{
  return (int)findings->rows->len;
}

const ZsFinding *
zs_findings_get (const ZsFindings *findings, int index)
{
  return &g_array_index (findings->rows, ZsFinding, index);
}

bool
zs_findings_has_error (const ZsFindings *findings)
{
  for (int i = 0; i < zs_findings_count (findings); i++)
    if (zs_findings_get (findings, i)->severity == ZS_NOTE_ERROR)
      return true;
  return false;
}

/* Takes the strings of FINDING. */
static void
add (ZsFindings *findings, ZsFinding finding)
{
  if (findings->rows->len >= MAX_FINDINGS) {
    clear_finding (&finding);
    return;
  }
  for (int i = 0; i < zs_findings_count (findings); i++) {
    const ZsFinding *other = zs_findings_get (findings, i);

    if (finding.line > 0 && other->line == finding.line && other->column == finding.column
        && strcmp (other->code, finding.code) == 0 && g_strcmp0 (other->file, finding.file) == 0) {
      clear_finding (&finding);
      return;
    }
  }
  g_array_append_val (findings->rows, finding);
}

void
zs_findings_add (ZsFindings *findings, ZsNoteSeverity severity, const char *code,
                 const ZsNode *node, const char *instead, const char *format, ...)
{
  ZsFinding finding = { .severity = severity, .code = code, .node = node };
  va_list arguments;

  va_start (arguments, format);
  finding.text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  finding.instead = g_strdup (instead);
  if (node != NULL) {
    finding.file = g_strdup (node->file);
    finding.line = node->line;
    finding.column = node->column;
    finding.fix = zs_check_fix_kind (code, node, instead);
  }
  add (findings, finding);
}

void
zs_findings_add_error (ZsFindings *findings, const char *code, const GError *error)
{
  g_autoptr (GRegex) place = g_regex_new ("^(.*?):(\\d+):(\\d+): (.*)$", G_REGEX_DOTALL, 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;
  ZsFinding finding = { .severity = ZS_NOTE_ERROR, .code = code };

  if (g_regex_match (place, error->message, 0, &match)) {
    g_autofree char *line = g_match_info_fetch (match, 2);
    g_autofree char *column = g_match_info_fetch (match, 3);

    finding.file = g_match_info_fetch (match, 1);
    finding.line = (int)g_ascii_strtoll (line, NULL, 10);
    finding.column = (int)g_ascii_strtoll (column, NULL, 10);
    finding.text = g_match_info_fetch (match, 4);
  } else {
    finding.text = g_strdup (error->message);
  }
  add (findings, finding);
}

static int
compare (const void *a, const void *b)
{
  const ZsFinding *left = a, *right = b;
  int order = g_strcmp0 (left->file, right->file);

  if (order != 0)
    return order;
  if (left->line != right->line)
    return left->line - right->line;
  if (left->column != right->column)
    return left->column - right->column;
  if (left->severity != right->severity)
    return (int)right->severity - (int)left->severity;
  return strcmp (left->code, right->code);
}

void
zs_findings_sort (ZsFindings *findings)
{
  /* a merge sort: equal ones keep their order on every machine */
  g_array_sort (findings->rows, compare);
}

static char *
path_below (const ZsNode *at, const char *path, const ZsNode *node, const ZsNode **ret_value)
{
  for (int i = 0; at->kind == ZS_NODE_MAPPING && i < at->n_items; i++) {
    g_autofree char *inner = *path != '\0' ? g_strconcat (path, ".", at->keys[i]->text, NULL)
                                           : g_strdup (at->keys[i]->text);

    if (at->keys[i] == node || at->items[i] == node) {
      *ret_value = at->items[i];
      return g_steal_pointer (&inner);
    }
    char *found = path_below (at->items[i], inner, node, ret_value);

    if (found != NULL)
      return found;
  }
  return NULL;
}

char *
zs_findings_path (const ZsFindings *findings, const ZsNode *node, const ZsNode **ret_value)
{
  for (guint i = 0; node != NULL && i < findings->documents->len; i++) {
    char *path = path_below (zs_document_root (findings->documents->pdata[i]), "", node, ret_value);

    if (path != NULL)
      return path;
  }
  return NULL;
}

void
zs_findings_set_effect (ZsFindings *findings, int index, const ZsEffect *effect)
{
  ZsFinding *finding = &g_array_index (findings->rows, ZsFinding, index);

  g_assert (finding->effect == NULL);
  finding->effect = g_memdup2 (effect, sizeof *effect);
}
