/* topo-smi.c: the text of `nvidia-smi topo -m`.
 * SPDX-License-Identifier: MIT
 *
 * Cells are read by their words, not by tabs: texts are pasted without them, with neighbours run
 * together, with terminal escapes, without a header.  What cannot be read is an error; what had to be
 * guessed is a warning. */
#include "config.h"

#include "sim/network/topo-smi.h"

#include "sim/base/error.h"

#include <stdlib.h>
#include <string.h>

static bool G_GNUC_PRINTF (4, 5)
fail (const ZsSmiReader *reader, int line, GError **error, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "%s:%d:1: %s", reader->file, line, text);
  return false;
}

/* Takes terminal escapes, carriage returns and other control characters out of LINE. */
static void
clean (char *line)
{
  char *to = line;

  for (const char *from = line; *from != '\0'; from++) {
    if (*from == '\033') {
      if (from[1] == '[')
        for (from += 2; *from != '\0' && !g_ascii_isalpha (*from); from++)
          ;
      if (*from == '\0')
        break;
      continue;
    }
    *to++ = *from == '\t' || (guchar) *from >= ' ' ? *from : ' ';
  }
  *to = '\0';
}

static const char *
skip_blanks (const char *at)
{
  while (*at == ' ' || *at == '\t')
    at++;
  return at;
}

/* A device's label at AT: its length, 0 if there is none.  Known forms end where they end, so that
 * labels run together are still told apart. */
static int
label_length (const char *at)
{
  static const struct { const char *prefix; bool port; } FORMS[] = {
    { "GPU", false }, { "NIC", false }, { "mlx4_", false }, { "mlx5_", false },
  };
  int n = 0;

  for (size_t i = 0; i < G_N_ELEMENTS (FORMS); i++) {
    size_t length = strlen (FORMS[i].prefix);

    if (strncmp (at, FORMS[i].prefix, length) == 0 && g_ascii_isdigit (at[length])) {
      n = (int) length;
      while (g_ascii_isdigit (at[n]))
        n++;
      /* "mlx5_bond_0", "mlx5_0:1" and the like are one word */
      if (at[n] != '_' && at[n] != ':' && at[n] != '-')
        return n;
      n = 0;
    }
  }
  static const char *const OTHERS[] = { "mlx", "irdma", "bnxt", "rocep", "roce", "ibp", "ib", "hsn", "cxi", "efa",
                                        "rdmap", "bond", "eth", "hfi", "qedr", "erdma", "vdpa" };

  for (size_t i = 0; i < G_N_ELEMENTS (OTHERS); i++)
    if (strncmp (at, OTHERS[i], strlen (OTHERS[i])) == 0) {
      while (at[n] != '\0' && at[n] != ' ' && at[n] != '\t')
        n++;
      return MIN (n, 31);
    }
  return 0;
}

/* A cell's word at AT: its length, 0 if there is none. */
static int
cell_length (const char *at, ZsSmiCell *ret)
{
  static const struct { const char *word; ZsSmiCellKind kind; } WORDS[] = {
    { "PIX", ZS_SMI_PIX }, { "PXB", ZS_SMI_PXB }, { "PHB", ZS_SMI_PHB }, { "NODE", ZS_SMI_NODE }, { "SYS", ZS_SMI_SYS },
    { "SOC", ZS_SMI_SYS }, { "X", ZS_SMI_SELF },
  };

  *ret = (ZsSmiCell) { .kind = ZS_SMI_NONE };
  if (at[0] == 'N' && at[1] == 'V' && g_ascii_isdigit (at[2])) {
    int n = 2, links = 0;

    while (g_ascii_isdigit (at[n]) && n < 4)
      links = links * 10 + (at[n++] - '0');
    *ret = (ZsSmiCell) { .kind = ZS_SMI_NV, .links = (int8_t) links };
    return links > 0 ? n : 0;
  }
  for (size_t i = 0; i < G_N_ELEMENTS (WORDS); i++)
    if (strncmp (at, WORDS[i].word, strlen (WORDS[i].word)) == 0) {
      ret->kind = (int8_t) WORDS[i].kind;
      return (int) strlen (WORDS[i].word);
    }
  return 0;
}

static int
find_device (const ZsSmiReader *reader, const char *label, int length)
{
  for (int i = 0; i < reader->n; i++)
    if ((int) strlen (reader->devices[i].label) == length && strncmp (reader->devices[i].label, label, (size_t) length) == 0)
      return i;
  return -1;
}

static int
add_device (ZsSmiReader *reader, const char *label, int length)
{
  if (reader->n == ZS_SMI_MAX_DEVICES)
    return -1;
  ZsSmiDevice *device = &reader->devices[reader->n];

  *device = (ZsSmiDevice) { .numa = -1, .part = -1, .gpu = strncmp (label, "GPU", 3) == 0 };
  g_snprintf (device->label, sizeof device->label, "%.*s", length, label);
  return reader->n++;
}

static bool
read_header (ZsSmiReader *reader, const char *line, int number, GError **error)
{
  const char *at = skip_blanks (line);

  while (*at != '\0') {
    int n = label_length (at);

    if (strncmp (at, "CPU", 3) == 0 || strncmp (at, "NUMA", 4) == 0 || strncmp (at, "GPU NUMA", 8) == 0)
      break;
    if (n == 0) {   /* a device of a name not seen before */
      while (at[n] != '\0' && at[n] != ' ' && at[n] != '\t')
        n++;
      if (n > 31)
        return fail (reader, number, error, "a device's name of more than 31 letters");
    }
    if (find_device (reader, at, n) >= 0)
      return fail (reader, number, error, "'%.*s' stands twice in the header", n, at);
    if (add_device (reader, at, n) < 0)
      return fail (reader, number, error, "more than %d devices", ZS_SMI_MAX_DEVICES);
    at = skip_blanks (at + n);
  }
  reader->has_header = true;
  return true;
}

/* CPU affinity and NUMA affinity: a list of ranges, then a number. */
static void
read_affinity (ZsSmiReader *reader, ZsSmiDevice *device, const char *rest)
{
  g_auto (GStrv) words = g_strsplit_set (rest, " \t", -1);
  int n = 0;

  for (int i = 0; words[i] != NULL; i++) {
    if (words[i][0] == '\0')
      continue;
    if (n == 0 && strspn (words[i], "0123456789,-") == strlen (words[i]))
      g_strlcpy (device->affinity, words[i], sizeof device->affinity);
    else if (n == 0 && strcmp (words[i], "N/A") != 0)
      zs_topology_warn (reader->topology, "the row of %s ends in '%.40s', which is no list of CPUs", device->label, words[i]);
    if (n == 1 && g_ascii_isdigit (words[i][0]))
      device->numa = atoi (words[i]);
    n++;
  }
}

/* COLUMNS: devices by column. */
static bool
read_row (ZsSmiReader *reader, int row, const char *rest, int number, const int *columns, int n_columns, GError **error)
{
  ZsSmiDevice *device = &reader->devices[row];
  const char *at = skip_blanks (rest);

  if (device->line > 0)
    return fail (reader, number, error, "a second row of %s (the first in line %d)", device->label, device->line);
  device->line = number;
  for (int c = 0; c < n_columns; c++) {
    ZsSmiCell cell;
    int n = cell_length (at, &cell), column = columns[c];

    if (n == 0)
      return fail (reader, number, error, "the row of %s has %d cells where %d are expected (next is '%.12s')", device->label, c,
                   n_columns, at);
    if ((cell.kind == ZS_SMI_SELF) != (column == row))
      return fail (reader, number, error, "the cell of %s with %s is '%.*s'%s", device->label, reader->devices[column].label, n, at,
                   column == row ? ", where X is expected" : "");
    if (cell.kind == ZS_SMI_NV && (!device->gpu || !reader->devices[column].gpu))
      return fail (reader, number, error, "NVLink between %s and %s", device->label, reader->devices[column].label);
    reader->cells[row][column] = cell;
    at = skip_blanks (at + n);
  }
  ZsSmiCell more;

  if (cell_length (at, &more) > 0)
    return fail (reader, number, error, "the row of %s has more than %d cells", device->label, n_columns);
  if (device->gpu)
    read_affinity (reader, device, at);
  return true;
}

static int
count_cells (const char *rest)
{
  const char *at = skip_blanks (rest);
  ZsSmiCell cell;
  int n = 0, length;

  while ((length = cell_length (at, &cell)) > 0) {
    at = skip_blanks (at + length);
    n++;
  }
  return n;
}

/* The label that starts a row, or 0: a known one, or any first word that the header has. */
static int
row_label (const ZsSmiReader *reader, const char *at)
{
  int n = label_length (at);

  if (n == 0) {
    while (at[n] != '\0' && at[n] != ' ' && at[n] != '\t')
      n++;
    if (find_device (reader, at, n) < 0)
      return 0;
  }
  return n;
}

static bool
check_legend (ZsSmiReader *reader, char *const *lines)
{
  int legend = -1, nics = -1, n_nics = 0, n_named = 0;
  bool last = false;

  for (int i = 0; lines[i] != NULL; i++) {
    const char *at = skip_blanks (lines[i]);

    if (g_str_has_prefix (at, "Legend"))
      legend = i;
    if (g_str_has_prefix (at, "NIC Legend"))
      nics = i;
    if (legend >= 0 && strncmp (at, "NV#", 3) == 0)
      last = true;
    if (nics >= 0 && strncmp (at, "NIC", 3) == 0 && strchr (at, ':') != NULL && g_ascii_isdigit (at[3])) {
      int n = label_length (at), device = find_device (reader, at, n);
      const char *name = skip_blanks (strchr (at, ':') + 1);

      n_named++;
      if (device >= 0 && *name != '\0')
        g_strlcpy (reader->devices[device].affinity, name, sizeof reader->devices[device].affinity);
    }
  }
  for (int i = 0; i < reader->n; i++)
    n_nics += strncmp (reader->devices[i].label, "NIC", 3) == 0;
  if (legend < 0)
    zs_topology_warn (reader->topology, "no legend below the matrix: the text may have been cut");
  else if (!last)
    zs_topology_warn (reader->topology, "the legend is not complete: the text may have been cut");
  if (legend >= 0 && n_named < n_nics)
    zs_topology_warn (reader->topology, "%d of %d NICs are named in the NIC legend: the text may have been cut", n_named, n_nics);
  return true;
}

static bool
read_matrix (ZsSmiReader *reader, const char *text, gsize length, GError **error)
{
  g_autofree char *copy = g_malloc (length + 1);
  int columns[ZS_SMI_MAX_DEVICES], n_columns = 0, n_rows = 0;

  for (gsize i = 0; i < length; i++)
    copy[i] = text[i] == '\0' ? ' ' : text[i];
  copy[length] = '\0';
  g_auto (GStrv) lines = g_strsplit (copy, "\n", -1);

  for (int r = 0; r < ZS_SMI_MAX_DEVICES; r++)
    for (int c = 0; c < ZS_SMI_MAX_DEVICES; c++)
      reader->cells[r][c].kind = ZS_SMI_NONE;
  for (int i = 0; lines[i] != NULL; i++)
    clean (lines[i]);
  for (int i = 0; lines[i] != NULL; i++) {
    const char *at = skip_blanks (lines[i]);
    int n = row_label (reader, at);

    if (g_str_has_prefix (at, "Legend") || g_str_has_prefix (at, "NIC Legend"))
      break;
    if (n == 0)
      continue;
    const char *rest = skip_blanks (at + n);
    ZsSmiCell cell;
    bool row = cell_length (rest, &cell) > 0;

    if (!row && n_rows == 0 && !reader->has_header && (label_length (rest) > 0 || strncmp (rest, "CPU", 3) == 0)) {
      if (!read_header (reader, lines[i], i + 1, error))
        return false;
      for (n_columns = 0; n_columns < reader->n; n_columns++)
        columns[n_columns] = n_columns;
      continue;
    }
    if (!row) {
      if (n_rows > 0 || reader->has_header)
        return fail (reader, i + 1, error, "the row of %.*s has no cells", n, at);
      continue;
    }
    if (!reader->has_header && n_rows == 0) {
      /* no header: the columns are the rows that follow, in their order */
      for (int k = i; lines[k] != NULL; k++) {
        const char *label = skip_blanks (lines[k]);
        int m = label_length (label);

        if (m > 0 && cell_length (skip_blanks (label + m), &cell) > 0 && find_device (reader, label, m) < 0
            && add_device (reader, label, m) < 0)
          return fail (reader, k + 1, error, "more than %d devices", ZS_SMI_MAX_DEVICES);
      }
      for (n_columns = 0; n_columns < reader->n; n_columns++)
        columns[n_columns] = n_columns;
      if (count_cells (rest) != n_columns)
        return fail (reader, i + 1, error, "no header, and %d cells in a row but %d rows: the text is cut", count_cells (rest),
                     n_columns);
      zs_topology_warn (reader->topology, "no header: the columns were taken in the order of the rows");
    }
    int device = find_device (reader, at, n);

    if (device < 0)
      return fail (reader, i + 1, error, "a row of %.*s, which the header does not have", n, at);
    if (!read_row (reader, device, rest, i + 1, columns, n_columns, error))
      return false;
    n_rows++;
  }
  if (reader->n == 0)
    return fail (reader, 1, error, "no matrix of `nvidia-smi topo -m` in this text");
  return check_legend (reader, lines);
}

/* Rows against each other. */
static bool
check_matrix (ZsSmiReader *reader, GError **error)
{
  int n_gpus = 0, n_missing = 0, n_placed = 0;

  for (int i = 0; i < reader->n; i++) {
    n_gpus += reader->devices[i].gpu;
    n_placed += reader->devices[i].gpu && reader->devices[i].numa >= 0;
    if (reader->devices[i].line == 0 && reader->devices[i].gpu)
      return fail (reader, 1, error, "the row of %s is missing: the text is cut", reader->devices[i].label);
    n_missing += reader->devices[i].line == 0;
  }
  if (n_gpus == 0)
    return fail (reader, 1, error, "no GPU in this matrix");
  if (n_gpus > 64)
    return fail (reader, 1, error, "more than 64 GPUs in one node");
  if (n_placed > 0 && n_placed < n_gpus)
    zs_topology_warn (reader->topology, "%d of %d GPUs have no NUMA node: their rows may be damaged", n_gpus - n_placed, n_gpus);
  if (n_missing > 0)
    zs_topology_warn (reader->topology, "rows of %d NICs are missing: the text may have been cut", n_missing);
  for (int a = 0; a < reader->n; a++)
    for (int b = a + 1; b < reader->n; b++) {
      ZsSmiCell *x = &reader->cells[a][b], *y = &reader->cells[b][a];

      if (y->kind == ZS_SMI_NONE)
        *y = *x;
      if (x->kind == ZS_SMI_NONE)
        *x = *y;
      if (x->kind == y->kind && x->links == y->links)
        continue;
      zs_topology_warn (reader->topology, "%s and %s are not the same distance both ways; the longer one is taken",
                        reader->devices[a].label, reader->devices[b].label);
      if (x->kind > y->kind || (x->kind == y->kind && x->links < y->links))
        *y = *x;
      else
        *x = *y;
    }
  return true;
}

/* GPUs from N on, and their columns, are left out. */
static void
keep_gpus (ZsSmiReader *reader, int n)
{
  int kept[ZS_SMI_MAX_DEVICES], n_kept = 0;

  for (int i = 0; i < reader->n; i++)
    if (!reader->devices[i].gpu || atoi (reader->devices[i].label + 3) < n)
      kept[n_kept++] = i;
  for (int i = 0; i < n_kept; i++) {
    reader->devices[i] = reader->devices[kept[i]];
    for (int k = 0; k < n_kept; k++)
      reader->cells[i][k] = reader->cells[kept[i]][kept[k]];
  }
  reader->n = n_kept;
}

ZsTopology *
zs_topology_from_smi (const char *file, const char *text, gssize length, const ZsTopologyOptions *options, GError **error)
{
  g_autoptr (ZsTopology) topology = zs_topology_new ("nvidia-smi topo -m");
  g_autofree ZsSmiReader *reader = g_new0 (ZsSmiReader, 1);
  int n_gpus = 0;

  reader->file = file;
  reader->topology = topology;
  if (!read_matrix (reader, text, length < 0 ? strlen (text) : (gsize) length, error) || !check_matrix (reader, error))
    return NULL;
  for (int i = 0; i < reader->n; i++)
    n_gpus += reader->devices[i].gpu;
  if (options->n_gpus > n_gpus) {
    fail (reader, 1, error, "%d GPUs, fewer than the %d that a node should have", n_gpus, options->n_gpus);
    return NULL;
  }
  if (options->n_gpus > 0 && options->n_gpus < n_gpus) {
    zs_topology_warn (topology, "the text shows %d GPUs: the first %d are used", n_gpus, options->n_gpus);
    keep_gpus (reader, options->n_gpus);
  }
  zs_smi_build (reader, options);
  return g_steal_pointer (&topology);
}
