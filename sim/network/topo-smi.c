/* topo-smi.c: the text of `nvidia-smi topo -m`.
 * SPDX-License-Identifier: MIT
 *
 * The matrix gives classes, not the tree and not rates.  The tree is rebuilt: devices that are PIX to
 * each other share a switch, PXB a switch above, PHB and NODE a CPU, SYS nothing.  NVLink cells hide
 * the PCIe relation of two GPUs; it is inferred from their NICs and NUMA columns.
 *
 * Cells are read by their words, not by tabs: texts are pasted without them, with neighbours run
 * together, with terminal escapes, without a header.  What cannot be read is an error; what had to be
 * guessed is a warning. */
#include "config.h"

#include "sim/network/topology-build.h"

#include "sim/base/error.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DEVICES 128

/* What a cell says of two devices; > 0 in order of distance. */
typedef enum { CELL_NONE = -1, CELL_SELF, CELL_NV, CELL_PIX, CELL_PXB, CELL_PHB, CELL_NODE, CELL_SYS } CellKind;

typedef struct {
  int8_t kind;      /* CellKind */
  int8_t links;
} Cell;

typedef struct {
  char label[32];
  bool gpu;
  int  line;        /* of its row; 0: none */
  int  numa;        /* -1 unknown */
  char affinity[160];
  int  part;
} Device;

typedef struct {
  const char *file;
  ZsTopology *topology;
  Device      devices[MAX_DEVICES];
  int         n;
  Cell        cells[MAX_DEVICES][MAX_DEVICES];   /* [row][column] */
  bool        has_header;
  int         set[MAX_DEVICES];                  /* union-find */
} Reader;

static bool G_GNUC_PRINTF (4, 5)
fail (const Reader *reader, int line, GError **error, const char *format, ...)
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
cell_length (const char *at, Cell *ret)
{
  static const struct { const char *word; CellKind kind; } WORDS[] = {
    { "PIX", CELL_PIX }, { "PXB", CELL_PXB }, { "PHB", CELL_PHB }, { "NODE", CELL_NODE }, { "SYS", CELL_SYS },
    { "SOC", CELL_SYS }, { "X", CELL_SELF },
  };

  *ret = (Cell) { .kind = CELL_NONE };
  if (at[0] == 'N' && at[1] == 'V' && g_ascii_isdigit (at[2])) {
    int n = 2, links = 0;

    while (g_ascii_isdigit (at[n]) && n < 4)
      links = links * 10 + (at[n++] - '0');
    *ret = (Cell) { .kind = CELL_NV, .links = (int8_t) links };
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
find_device (const Reader *reader, const char *label, int length)
{
  for (int i = 0; i < reader->n; i++)
    if ((int) strlen (reader->devices[i].label) == length && strncmp (reader->devices[i].label, label, (size_t) length) == 0)
      return i;
  return -1;
}

static int
add_device (Reader *reader, const char *label, int length)
{
  if (reader->n == MAX_DEVICES)
    return -1;
  Device *device = &reader->devices[reader->n];

  *device = (Device) { .numa = -1, .part = -1, .gpu = strncmp (label, "GPU", 3) == 0 };
  g_snprintf (device->label, sizeof device->label, "%.*s", length, label);
  return reader->n++;
}

static bool
read_header (Reader *reader, const char *line, int number, GError **error)
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
      return fail (reader, number, error, "more than %d devices", MAX_DEVICES);
    at = skip_blanks (at + n);
  }
  reader->has_header = true;
  return true;
}

/* CPU affinity and NUMA affinity: a list of ranges, then a number. */
static void
read_affinity (Device *device, const char *rest)
{
  g_auto (GStrv) words = g_strsplit_set (rest, " \t", -1);
  int n = 0;

  for (int i = 0; words[i] != NULL; i++) {
    if (words[i][0] == '\0')
      continue;
    if (n == 0 && strspn (words[i], "0123456789,-") == strlen (words[i]))
      g_strlcpy (device->affinity, words[i], sizeof device->affinity);
    if (n == 1 && g_ascii_isdigit (words[i][0]))
      device->numa = atoi (words[i]);
    n++;
  }
}

/* COLUMNS: devices by column. */
static bool
read_row (Reader *reader, int row, const char *rest, int number, const int *columns, int n_columns, GError **error)
{
  Device *device = &reader->devices[row];
  const char *at = skip_blanks (rest);

  if (device->line > 0)
    return fail (reader, number, error, "a second row of %s (the first in line %d)", device->label, device->line);
  device->line = number;
  for (int c = 0; c < n_columns; c++) {
    Cell cell;
    int n = cell_length (at, &cell), column = columns[c];

    if (n == 0)
      return fail (reader, number, error, "the row of %s has %d cells where %d are expected (next is '%.12s')", device->label, c,
                   n_columns, at);
    if ((cell.kind == CELL_SELF) != (column == row))
      return fail (reader, number, error, "the cell of %s with %s is '%.*s'%s", device->label, reader->devices[column].label, n, at,
                   column == row ? ", where X is expected" : "");
    if (cell.kind == CELL_NV && (!device->gpu || !reader->devices[column].gpu))
      return fail (reader, number, error, "NVLink between %s and %s", device->label, reader->devices[column].label);
    reader->cells[row][column] = cell;
    at = skip_blanks (at + n);
  }
  Cell more;

  if (cell_length (at, &more) > 0)
    return fail (reader, number, error, "the row of %s has more than %d cells", device->label, n_columns);
  if (device->gpu)
    read_affinity (device, at);
  return true;
}

static int
count_cells (const char *rest)
{
  const char *at = skip_blanks (rest);
  Cell cell;
  int n = 0, length;

  while ((length = cell_length (at, &cell)) > 0) {
    at = skip_blanks (at + length);
    n++;
  }
  return n;
}

/* The label that starts a row, or 0: a known one, or any first word that the header has. */
static int
row_label (const Reader *reader, const char *at)
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
check_legend (Reader *reader, char *const *lines)
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
read_matrix (Reader *reader, const char *text, gsize length, GError **error)
{
  g_autofree char *copy = g_malloc (length + 1);
  int columns[MAX_DEVICES], n_columns = 0, n_rows = 0;

  for (gsize i = 0; i < length; i++)
    copy[i] = text[i] == '\0' ? ' ' : text[i];
  copy[length] = '\0';
  g_auto (GStrv) lines = g_strsplit (copy, "\n", -1);

  for (int r = 0; r < MAX_DEVICES; r++)
    for (int c = 0; c < MAX_DEVICES; c++)
      reader->cells[r][c].kind = CELL_NONE;
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
    Cell cell;
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
          return fail (reader, k + 1, error, "more than %d devices", MAX_DEVICES);
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
check_matrix (Reader *reader, GError **error)
{
  int n_gpus = 0, n_missing = 0;

  for (int i = 0; i < reader->n; i++) {
    n_gpus += reader->devices[i].gpu;
    if (reader->devices[i].line == 0 && reader->devices[i].gpu)
      return fail (reader, 1, error, "the row of %s is missing: the text is cut", reader->devices[i].label);
    n_missing += reader->devices[i].line == 0;
  }
  if (n_gpus == 0)
    return fail (reader, 1, error, "no GPU in this matrix");
  if (n_gpus > 64)
    return fail (reader, 1, error, "more than 64 GPUs in one node");
  if (n_missing > 0)
    zs_topology_warn (reader->topology, "rows of %d NICs are missing: the text may have been cut", n_missing);
  for (int a = 0; a < reader->n; a++)
    for (int b = a + 1; b < reader->n; b++) {
      Cell *x = &reader->cells[a][b], *y = &reader->cells[b][a];

      if (y->kind == CELL_NONE)
        *y = *x;
      if (x->kind == CELL_NONE)
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

/* ---- the tree ---- */

static int
root_of (Reader *reader, int i)
{
  while (reader->set[i] != i)
    i = reader->set[i] = reader->set[reader->set[i]];
  return i;
}

static void
join_sets (Reader *reader, int a, int b)
{
  int x = root_of (reader, a), y = root_of (reader, b);

  reader->set[MAX (x, y)] = MIN (x, y);
}

/* Groups of devices that are at most LEVEL apart; GROUP of each, numbered by first member. */
static void
group (Reader *reader, CellKind level, int *groups)
{
  for (int i = 0; i < reader->n; i++)
    reader->set[i] = i;
  for (int a = 0; a < reader->n; a++)
    for (int b = a + 1; b < reader->n; b++) {
      CellKind kind = (CellKind) reader->cells[a][b].kind;
      const Device *x = &reader->devices[a], *y = &reader->devices[b];

      if (kind >= CELL_PIX && kind <= level)
        join_sets (reader, a, b);
      /* NVLink hides the PCIe relation: the NUMA columns, or nothing known at all, put them together */
      if (kind == CELL_NV && level == CELL_NODE) {
        bool same = x->numa >= 0 && y->numa >= 0 ? x->numa == y->numa : g_str_equal (x->affinity, y->affinity);

        if (same)
          join_sets (reader, a, b);
      }
    }
  for (int i = 0; i < reader->n; i++)
    groups[i] = root_of (reader, i);
}

static int
group_size (const Reader *reader, const int *groups, int i)
{
  int n = 0;

  for (int k = 0; k < reader->n; k++)
    n += groups[k] == groups[i];
  return n;
}

static void
build_tree (Reader *reader, const ZsTopologyOptions *options, int generation)
{
  ZsTopology *topology = reader->topology;
  int leaves[MAX_DEVICES], uppers[MAX_DEVICES], cpus[MAX_DEVICES];
  int leaf_part[MAX_DEVICES], upper_part[MAX_DEVICES], cpu_part[MAX_DEVICES];
  int n_cpus = 0, n_switches = 0, n_nics = 0;
  char name[32];

  group (reader, CELL_PIX, leaves);
  group (reader, CELL_PXB, uppers);
  group (reader, CELL_NODE, cpus);
  for (int i = 0; i < reader->n; i++)
    leaf_part[i] = upper_part[i] = cpu_part[i] = -1;
  for (int i = 0; i < reader->n; i++) {
    Device *device = &reader->devices[i];
    int g = device->gpu ? atoi (device->label + 3) : n_nics, above;

    if (cpu_part[cpus[i]] < 0) {
      g_snprintf (name, sizeof name, "CPU %d", n_cpus);
      cpu_part[cpus[i]] = zs_topology_add_part (topology, ZS_PART_CPU, n_cpus++, name);
    }
    above = cpu_part[cpus[i]];
    bool shares_upper = group_size (reader, uppers, i) > group_size (reader, leaves, i);

    if (shares_upper) {
      if (upper_part[uppers[i]] < 0) {
        g_snprintf (name, sizeof name, "switch %d", n_switches);
        upper_part[uppers[i]] = zs_topology_add_part (topology, ZS_PART_PCIE_SWITCH, n_switches++, name);
        zs_topology_join (topology, above, upper_part[uppers[i]], ZS_LINK_PCIE, 16, generation, 0);
      }
      above = upper_part[uppers[i]];
    }
    /* below an upper switch every device has a lower one, or the pair would be PIX */
    if (group_size (reader, leaves, i) > 1 || shares_upper) {
      if (leaf_part[leaves[i]] < 0) {
        g_snprintf (name, sizeof name, "switch %d", n_switches);
        leaf_part[leaves[i]] = zs_topology_add_part (topology, ZS_PART_PCIE_SWITCH, n_switches++, name);
        zs_topology_join (topology, above, leaf_part[leaves[i]], ZS_LINK_PCIE, 16, generation, 0);
      }
      above = leaf_part[leaves[i]];
    }
    /* the name from the NIC legend was kept in `affinity` */
    device->part = zs_topology_add_part (topology, device->gpu ? ZS_PART_GPU : ZS_PART_NIC, g,
                                         !device->gpu && device->affinity[0] != '\0' ? device->affinity : device->label);
    if (device->gpu)
      zs_topology_set_gpu (topology, device->part, g, options);
    else
      n_nics++;
    zs_topology_join (topology, above, device->part, ZS_LINK_PCIE, 16, generation, 0);
  }
}

static void
wire_nvlinks (Reader *reader, const ZsTopologyOptions *options)
{
  ZsTopology *topology = reader->topology;
  const ZsGpu *gpu = options->gpu != NULL ? options->gpu : options->gpus != NULL ? options->gpus[0] : NULL;
  int least = G_MAXINT, most = 0, n_gpus = 0;

  for (int a = 0; a < reader->n; a++) {
    n_gpus += reader->devices[a].gpu;
    for (int b = 0; b < reader->n; b++)
      if (a != b && reader->devices[a].gpu && reader->devices[b].gpu) {
        int links = reader->cells[a][b].kind == CELL_NV ? reader->cells[a][b].links : 0;

        least = MIN (least, links);
        most = MAX (most, links);
      }
  }
  if (most == 0)
    return;
  /* all alike, and more in all than a GPU has: the number is of each GPU to an NVSwitch */
  int limit = gpu != NULL && gpu->nvlink_links > 0 ? gpu->nvlink_links : 18;
  bool module = gpu != NULL && (strstr (gpu->name, "sxm") != NULL || strstr (gpu->name, "SXM") != NULL);
  bool is_switch = n_gpus > 1 && least == most && (most * (n_gpus - 1) > limit || (n_gpus == 2 && module && most == limit));
  int nvs = is_switch ? zs_topology_add_part (topology, ZS_PART_NVSWITCH, 0, "NVSwitch") : -1;

  for (int a = 0; a < reader->n; a++) {
    int part = reader->devices[a].part;

    if (!reader->devices[a].gpu)
      continue;
    int capability = topology->parts[part].compute_capability;

    if (is_switch)
      zs_topology_join (topology, part, nvs, ZS_LINK_NVLINK, most, 0, capability);
    else
      for (int b = a + 1; b < reader->n; b++)
        if (reader->cells[a][b].kind == CELL_NV)
          zs_topology_join (topology, part, reader->devices[b].part, ZS_LINK_NVLINK, reader->cells[a][b].links, 0, capability);
  }
}

/* Without a GPU named: what the number of links lets one think. */
static void
guess_gpu (const Reader *reader, int *ret_generation, int *ret_capability)
{
  int most = 0;

  for (int a = 0; a < reader->n; a++)
    for (int b = 0; b < reader->n; b++)
      most = MAX (most, reader->cells[a][b].links);
  *ret_generation = most >= 18 ? 5 : most > 0 && (most == 6 || most <= 2) ? 3 : 4;
  *ret_capability = most >= 18 ? 90 : most == 6 || (most > 0 && most <= 2) ? 70 : 80;
}

/* GPUs from N on, and their columns, are left out. */
static void
keep_gpus (Reader *reader, int n)
{
  int kept[MAX_DEVICES], n_kept = 0;

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

static int
compare_devices (const void *x, const void *y)
{
  const Device *a = x, *b = y;

  return a->gpu && b->gpu ? atoi (a->label + 3) - atoi (b->label + 3) : 0;
}

/* GPU0, GPU1 ... in this order, whatever the order of the columns. */
static void
sort_gpus (Reader *reader)
{
  for (int i = 0; i < reader->n; i++)
    for (int k = i + 1; k < reader->n; k++) {
      bool later = !reader->devices[i].gpu && reader->devices[k].gpu;

      if (!later && compare_devices (&reader->devices[i], &reader->devices[k]) <= 0)
        continue;
      Device device = reader->devices[i];

      reader->devices[i] = reader->devices[k];
      reader->devices[k] = device;
      for (int m = 0; m < reader->n; m++) {
        Cell cell = reader->cells[i][m];

        reader->cells[i][m] = reader->cells[k][m];
        reader->cells[k][m] = cell;
      }
      for (int m = 0; m < reader->n; m++) {
        Cell cell = reader->cells[m][i];

        reader->cells[m][i] = reader->cells[m][k];
        reader->cells[m][k] = cell;
      }
    }
}

static ZsTopology *
finish (Reader *reader, const ZsTopologyOptions *options)
{
  ZsTopology *topology = reader->topology;
  const ZsGpu *gpu = options->gpu != NULL ? options->gpu : options->gpus != NULL ? options->gpus[0] : NULL;
  int generation = gpu != NULL ? gpu->pcie_generation : 0, capability = 0;
  static const ZsPathType PATHS[] = { ZS_PATH_SELF, ZS_PATH_NVLINK, ZS_PATH_PIX, ZS_PATH_PXB, ZS_PATH_PHB, ZS_PATH_NODE,
                                      ZS_PATH_SYS };

  if (generation == 0) {
    guess_gpu (reader, &generation, &capability);
    zs_topology_warn (topology, "the text says neither GPU nor PCIe generation: generation %d, compute capability %d are assumed",
                      generation, capability);
  }
  sort_gpus (reader);
  build_tree (reader, options, generation);
  for (int i = 0; gpu == NULL && i < topology->n_parts; i++)
    if (topology->parts[i].kind == ZS_PART_GPU)
      topology->parts[i].compute_capability = capability;
  wire_nvlinks (reader, options);
  zs_topology_finish (topology, options);

  int n_apart = 0;

  for (int a = 0; a < topology->n_gpus; a++)
    for (int b = 0; b < topology->n_gpus; b++) {
      int kind = reader->cells[a][b].kind;

      if (kind < CELL_PIX)
        continue;
      if (kind == CELL_SYS && zs_topology_path (topology, a, b) != ZS_PATH_SYS && a < b)
        zs_topology_warn (topology, "GPU%d and GPU%d are SYS, but other cells put them closer together", a, b);
      zs_topology_set_pcie_path (topology, a, b, PATHS[kind]);
      n_apart += kind == CELL_SYS && a < b && reader->devices[a].numa >= 0 && reader->devices[a].numa == reader->devices[b].numa;
    }
  if (n_apart > 0)
    zs_topology_warn (topology, "GPUs of one NUMA node are SYS to each other: the PCIe tree is hidden (a virtual machine?), so each "
                      "hangs on a root of its own here, as NCCL would see it; they may share an uplink in truth");
  return topology;
}

ZsTopology *
zs_topology_from_smi (const char *file, const char *text, gssize length, const ZsTopologyOptions *options, GError **error)
{
  g_autoptr (ZsTopology) topology = zs_topology_new ("nvidia-smi topo -m");
  g_autofree Reader *reader = g_new0 (Reader, 1);
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
  finish (reader, options);
  return g_steal_pointer (&topology);
}
