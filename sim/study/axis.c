/* axis.c: reads one axis of a sweep.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/axis.h"

#include <math.h>
#include <string.h>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/io/json-writer.h"
#include "sim/scenario/scenario.h"
#include "sim/study/base.h"

void
zs_axis_free (ZsAxis *axis)
{
  if (axis == NULL)
    return;
  g_free (axis->path);
  g_strfreev (axis->full);
  g_ptr_array_unref (axis->values);
  g_free (axis->when_text);
  zs_condition_free (axis->when);
  g_free (axis->where);
  g_free (axis);
}

static ZsAxis *
new_axis (const char *path, const char *where, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (path, "+", -1);
  g_autoptr (GPtrArray) full = g_ptr_array_new_with_free_func (g_free);

  for (int i = 0; parts[i] != NULL; i++) {
    char *one = zs_scenario_path (g_strstrip (parts[i]), error);

    if (one == NULL)
      return NULL;
    g_ptr_array_add (full, one);
  }
  g_ptr_array_add (full, NULL);
  ZsAxis *axis = g_new0 (ZsAxis, 1);

  axis->path = g_strdup (path);
  axis->full = (char **) g_ptr_array_free (g_steal_pointer (&full), FALSE);
  axis->values = g_ptr_array_new_with_free_func (g_free);
  axis->where = g_strdup (where);
  return axis;
}

static bool
add_value (ZsAxis *axis, const char *text, GError **error)
{
  if (axis->values->len >= ZS_AXIS_MAX_VALUES) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_LIMIT, "'%s' has more than %d values", axis->path,
                 ZS_AXIS_MAX_VALUES);
    return false;
  }
  for (guint i = 0; i < axis->values->len; i++)
    if (strcmp (g_ptr_array_index (axis->values, i), text) == 0) {
      g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "'%s' has the value '%s' twice", axis->path, text);
      return false;
    }
  g_ptr_array_add (axis->values, g_strdup (text));
  return true;
}

static bool
add_number (ZsAxis *axis, double number, bool whole, GError **error)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];

  if (whole && fabs (number) < 9e15) {
    g_autofree char *text = g_strdup_printf ("%" G_GINT64_FORMAT, (gint64) rint (number));

    /* a fine logarithmic range of small whole numbers meets the same one twice */
    if (axis->values->len > 0
        && strcmp (g_ptr_array_index (axis->values, axis->values->len - 1), text) == 0)
      return true;
    return add_value (axis, text, error);
  }
  return add_value (axis, zs_number_text (number, buffer), error);
}

static bool
is_whole (double number)
{
  return number == rint (number);
}

/* "from:to:step" or "from:to:logN"; *RET_RANGE false: it is none of these. */
static bool
add_range (ZsAxis *axis, const char *text, bool *ret_range, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (text, ":", -1);
  double from, to, step;
  gint64 n;

  *ret_range = false;
  if (g_strv_length (parts) != 3 || !zs_number_parse (g_strstrip (parts[0]), &from, NULL)
      || !zs_number_parse (g_strstrip (parts[1]), &to, NULL))
    return true;
  g_strstrip (parts[2]);
  if (g_str_has_prefix (parts[2], "log")) {
    *ret_range = true;
    if (!zs_count_parse (parts[2] + 3, &n, NULL) || n < 2 || n > ZS_AXIS_MAX_VALUES || from <= 0
        || to <= from) {
      g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT,
                   "'%s': from:to:logN wants 0 < from < to and 2 to %d values, as 1e6:1e9:log7", text,
                   ZS_AXIS_MAX_VALUES);
      return false;
    }
    for (gint64 i = 0; i < n; i++) {
      /* the ends are exact */
      double number = i == 0 ? from : i == n - 1 ? to
                      : from * pow (to / from, (double) i / (double) (n - 1));

      if (!add_number (axis, number, is_whole (from) && is_whole (to), error))
        return false;
    }
    return true;
  }
  if (!zs_number_parse (parts[2], &step, NULL))
    return true;
  *ret_range = true;
  if (step <= 0 || to < from) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT,
                 "'%s': from:to:step wants from <= to and a step above 0, as 1:9:2", text);
    return false;
  }
  double count = floor ((to - from) / step + 1e-9) + 1;

  if (count > ZS_AXIS_MAX_VALUES) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_LIMIT, "'%s' has more than %d values", text,
                 ZS_AXIS_MAX_VALUES);
    return false;
  }
  for (int i = 0; i < (int) count; i++)
    if (!add_number (axis, from + i * step, is_whole (from) && is_whole (step), error))
      return false;
  return true;
}

static bool
add_text (ZsAxis *axis, const char *text, GError **error)
{
  bool range;

  if (!add_range (axis, text, &range, error))
    return false;
  return range || add_value (axis, text, error);
}

/* At commas outside brackets and quotes. */
static GPtrArray *
split_values (const char *text)
{
  GPtrArray *parts = g_ptr_array_new_with_free_func (g_free);
  const char *start = text;
  int depth = 0;
  char quote = '\0';

  for (const char *at = text;; at++) {
    if (*at == '\0' || (*at == ',' && depth <= 0 && quote == '\0')) {
      g_ptr_array_add (parts, g_strstrip (g_strndup (start, (gsize) (at - start))));
      start = at + 1;
    }
    if (*at == '\0')
      return parts;
    if (quote != '\0')
      quote = *at == quote ? '\0' : quote;
    else if (*at == '\'' || *at == '"')
      quote = *at;
    else if (strchr ("[{", *at) != NULL)
      depth++;
    else if (strchr ("]}", *at) != NULL)
      depth--;
  }
}

ZsAxis *
zs_axis_parse (const char *text, GError **error)
{
  const char *equals = strchr (text, '=');

  if (equals == NULL || equals == text || equals[1] == '\0') {
    g_set_error (error, ZS_ERROR, ZS_ERROR_USAGE,
                 "--vary %s: PATH=VALUES is wanted, as stage=0,1,2,3 or bucket=1e6:1e9:log7", text);
    return NULL;
  }
  g_autofree char *path = g_strstrip (g_strndup (text, (gsize) (equals - text)));
  g_autoptr (ZsAxis) axis = new_axis (path, "--vary", error);

  if (axis == NULL) {
    g_prefix_error (error, "--vary %s: ", text);
    return NULL;
  }
  g_autoptr (GPtrArray) parts = split_values (equals + 1);

  for (guint i = 0; i < parts->len; i++) {
    const char *part = g_ptr_array_index (parts, i);

    if (*part == '\0')
      g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "a value is missing");
    if (*part == '\0' || !add_text (axis, part, error)) {
      g_prefix_error (error, "--vary %s: ", text);
      return NULL;
    }
  }
  return g_steal_pointer (&axis);
}

static bool
add_node (ZsAxis *axis, const ZsNode *node, ZsErrors *errors)
{
  g_autoptr (GError) error = NULL;
  bool ok;

  if (node->kind == ZS_NODE_SCALAR) {
    ok = node->quoted ? add_value (axis, node->text, &error)
                      : add_text (axis, zs_node_is_null (node) ? "null" : node->text, &error);
  } else {
    g_autofree char *text = zs_node_text (node);

    ok = add_value (axis, text, &error);
  }
  if (ok)
    return true;
  if (error->code == ZS_ERROR_LIMIT) {
    g_autofree char *where = zs_node_where (node);

    g_prefix_error (&error, "%s: ", where);
    zs_errors_take (errors, g_steal_pointer (&error));
    return false;
  }
  return zs_node_fail (node, errors, "%s", error->message);
}

ZsAxis *
zs_axis_read (const ZsNode *key, const ZsNode *value, ZsErrors *errors)
{
  g_autofree char *where = zs_node_where (key);
  g_autoptr (GError) error = NULL;
  g_autoptr (ZsAxis) axis = new_axis (key->text, where, &error);
  const ZsNode *values = value, *when;
  bool ok = true;

  if (axis == NULL) {
    zs_node_fail (key, errors, "%s", error->message);
    return NULL;
  }
  if (value->kind == ZS_NODE_MAPPING) {
    values = zs_node_get (value, "values");
    when = zs_node_get (value, "when");
    for (int i = 0; i < value->n_items; i++)
      if (strcmp (value->keys[i]->text, "values") != 0 && strcmp (value->keys[i]->text, "when") != 0)
        ok = zs_node_fail (value->keys[i], errors,
                           "an axis has 'values' and 'when', not '%s'", value->keys[i]->text);
    if (values == NULL)
      ok = zs_node_fail (value, errors, "the axis '%s' has no 'values'", key->text);
    if (when != NULL && when->kind != ZS_NODE_SCALAR)
      ok = zs_node_fail (when, errors, "'when' must be a condition, not %s", zs_node_describe (when));
    else if (when != NULL)
      axis->when_text = g_strdup (when->text);
  }
  if (!ok)
    return NULL;
  if (values->kind == ZS_NODE_MAPPING || zs_node_is_null (values)) {
    zs_node_fail (values, errors,
                  "the axis '%s' must be a list of values or a range such as 1e6:1e9:log7, not %s",
                  key->text, zs_node_describe (values));
    return NULL;
  }
  if (values->kind == ZS_NODE_SCALAR)
    ok = add_node (axis, values, errors);
  for (int i = 0; values->kind == ZS_NODE_SEQUENCE && i < values->n_items; i++)
    ok &= add_node (axis, values->items[i], errors);
  if (ok && axis->values->len == 0)
    ok = zs_node_fail (values, errors, "the axis '%s' has no values", key->text);
  return ok ? g_steal_pointer (&axis) : NULL;
}
