/* machine-yaml.c: a calibrated machine as YAML.
 * SPDX-License-Identifier: MIT
 *
 * The machine's own `cluster:` as it was given (files and flags), then its factors, each with the rows it rests
 * on.  Numbers are printed alike under every locale. */
#include "config.h"

#include "sim/calibrate/calibration.h"

#include <math.h>
#include <string.h>

/* A scalar: in quotes unless it is plain to every reader. */
static void
write_scalar (GString *text, const ZsNode *node)
{
  static const char *const PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+ ";
  bool plain = node->text[0] != '\0' && strspn (node->text, PLAIN) == strlen (node->text) && node->text[0] != ' '
               && node->text[0] != '-' && node->text[strlen (node->text) - 1] != ' ';

  if (plain && !node->quoted) {
    g_string_append (text, node->text);
    return;
  }
  g_string_append_c (text, '"');
  for (const char *at = node->text; *at != '\0'; at++)
    if (*at == '"' || *at == '\\')
      g_string_append_printf (text, "\\%c", *at);
    else if ((unsigned char) *at < 0x20)
      g_string_append_printf (text, "\\x%02x", (unsigned char) *at);
    else
      g_string_append_c (text, *at);
  g_string_append_c (text, '"');
}

static void
write_node (GString *text, const ZsNode *node, int depth)
{
  if (node->kind == ZS_NODE_SCALAR) {
    g_string_append_c (text, ' ');
    write_scalar (text, node);
    g_string_append_c (text, '\n');
    return;
  }
  if (node->n_items == 0) {
    g_string_append (text, node->kind == ZS_NODE_MAPPING ? " {}\n" : " []\n");
    return;
  }
  g_string_append_c (text, '\n');
  for (int i = 0; i < node->n_items; i++) {
    if (node->kind == ZS_NODE_MAPPING) {
      g_string_append_printf (text, "%*s", 2 * depth, "");
      write_scalar (text, node->keys[i]);
      g_string_append_c (text, ':');
    }
    else
      g_string_append_printf (text, "%*s-", 2 * depth, "");
    write_node (text, node->items[i], depth + 1);
  }
}

char *
zs_calibration_yaml (const ZsCalibration *calibration)
{
  GString *text = g_string_new ("# A machine as zerosim calibrate found it.  Factors: on what the model says; 1 would be as it says.\n"
                                "cluster:\n");
  const ZsScenario *machine = zs_calibration_machine (calibration);
  const ZsNode *cluster = zs_node_get (zs_document_root (machine->document), "cluster");

  for (int i = 0; cluster != NULL && i < cluster->n_items; i++) {
    const char *key = cluster->keys[i]->text;

    if (strcmp (key, "calibration") == 0)
      continue;
    g_string_append_printf (text, "  %s:", key);
    if (strcmp (key, "fabric") == 0 && machine->cluster.fabric_kind != ZS_FABRIC_NAME) {
      /* the file is found from wherever this one is put */
      g_autofree char *path = g_canonicalize_filename (machine->cluster.fabric, NULL);

      g_string_append_printf (text, " {topo: \"%s\"}\n", path);
    }
    else
      write_node (text, cluster->items[i], 2);
  }
  g_string_append (text, "  calibration:\n");
  int n = 0;

  for (int f = 0; f < ZS_N_FACTORS; f++) {
    const ZsFitted *fitted = zs_calibration_get (calibration, (ZsFactor) f);
    char value[G_ASCII_DTOSTR_BUF_SIZE], before[G_ASCII_DTOSTR_BUF_SIZE], after[G_ASCII_DTOSTR_BUF_SIZE];

    if (fitted->n_rows == 0)
      continue;
    g_ascii_formatd (value, sizeof value, "%.4f", fitted->value);
    g_ascii_formatd (before, sizeof before, "%.1f", 100 * fitted->before);
    g_ascii_formatd (after, sizeof after, "%.1f", 100 * fitted->after);
    g_string_append_printf (text, "    %s: %s   # median error %s %% (%s %% before) of %d measured; %s\n",
                            zs_factor_name ((ZsFactor) f), value, after, before, fitted->n_rows, fitted->source);
    n++;
  }
  if (n == 0)
    g_string_truncate (text, text->len - strlen ("  calibration:\n"));
  return g_string_free (text, FALSE);
}
