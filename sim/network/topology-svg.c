/* topology-svg.c: a drawing of one node.
 * SPDX-License-Identifier: MIT
 *
 * The tree of PCIe stands upright, CPUs on top, GPUs and NICs in one row below; NVLinks hang under the GPUs,
 * as arcs, or as lines to a bar that is the NVSwitch.  Everything is black on white; kinds differ by the form
 * of the line and say what they are. */
#include "config.h"

#include "sim/network/topology-build.h"

#include "sim/base/units.h"

#include <string.h>

/* Sizes in pixels. */
enum { CELL = 104, BOX = 84, BOX_HEIGHT = 32, LEVEL = 78, MARGIN = 24, SWITCH_HEIGHT = 28, LINE = 18 };

typedef struct {
  const ZsTopology *topology;
  GString *text;
  int     *x, *depth;        /* by part: middle; -1 not drawn yet */
  int      n_leaves, max_depth;
} Drawing;

static bool
is_leaf (const ZsTopology *topology, int part)
{
  return topology->parts[part].kind == ZS_PART_GPU || topology->parts[part].kind == ZS_PART_NIC;
}

/* Link from PART down to a part below it. */
static bool
goes_down (const Drawing *drawing, int part, const ZsLink *link)
{
  return link->from == part && link->to != part && drawing->x[link->to] < 0
         && (link->kind == ZS_LINK_PCIE || link->kind == ZS_LINK_C2C)
         && drawing->topology->parts[link->to].kind != ZS_PART_CPU;
}

/* Places PART and all below it. */
static void
place (Drawing *drawing, int part, int depth)
{
  const ZsTopology *topology = drawing->topology;
  int low = G_MAXINT, high = 0;

  drawing->depth[part] = depth;
  drawing->max_depth = MAX (drawing->max_depth, depth);
  drawing->x[part] = 0;   /* so that a link back does not come here again */
  for (int l = 0; !is_leaf (topology, part) && l < topology->n_links; l++)
    if (goes_down (drawing, part, &topology->links[l])) {
      int below = topology->links[l].to;

      place (drawing, below, depth + 1);
      low = MIN (low, drawing->x[below]);
      high = MAX (high, drawing->x[below]);
    }
  drawing->x[part] = low <= high ? (low + high) / 2 : MARGIN + CELL / 2 + CELL * drawing->n_leaves++;
}

static int
top_of (const Drawing *drawing, int part)
{
  int depth = is_leaf (drawing->topology, part) ? drawing->max_depth : drawing->depth[part];

  return MARGIN + 30 + depth * LEVEL;
}

static void G_GNUC_PRINTF (5, 6)
write_text (Drawing *drawing, int x, int y, const char *style, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *plain = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_autofree char *safe = g_markup_escape_text (plain, -1);

  g_string_append_printf (drawing->text, "<text x=\"%d\" y=\"%d\" %s>%s</text>\n", x, y, style, safe);
}

#define MIDDLE "text-anchor=\"middle\""
#define SMALL  "class=\"small\" text-anchor=\"middle\""

static void
draw_links (Drawing *drawing)
{
  const ZsTopology *topology = drawing->topology;

  for (int l = 0; l < topology->n_links; l++) {
    const ZsLink *link = &topology->links[l];
    int a = link->from, b = link->to;

    if ((link->kind != ZS_LINK_PCIE && link->kind != ZS_LINK_C2C) || a == b || drawing->x[a] < 0 || drawing->x[b] < 0
        || drawing->depth[a] >= drawing->depth[b])
      continue;
    int y0 = top_of (drawing, a) + BOX_HEIGHT, y1 = top_of (drawing, b);

    g_string_append_printf (drawing->text, "<path class=\"%s\" d=\"M%d %d V%d H%d V%d\"/>\n",
                            link->kind == ZS_LINK_C2C ? "c2c" : "pcie", drawing->x[a], y0, y0 + 14, drawing->x[b], y1);
    g_autofree char *rate = zs_rate_format (link->rate);

    if (link->kind == ZS_LINK_C2C)
      write_text (drawing, drawing->x[b], y1 - 18, SMALL, "C2C");
    else
      write_text (drawing, drawing->x[b], y1 - 18, SMALL, "PCIe %d x%d", link->generation, link->count);
    write_text (drawing, drawing->x[b], y1 - 6, SMALL, "%s", rate);
  }
  for (int i = 0; i + 1 < topology->n_cpus; i++) {   /* all sockets are joined; neighbours are drawn */
    int a = topology->cpus[i], b = topology->cpus[i + 1], y = top_of (drawing, a) + BOX_HEIGHT / 2;

    g_string_append_printf (drawing->text, "<path class=\"socket\" d=\"M%d %d H%d M%d %d H%d\"/>\n", drawing->x[a] + BOX / 2,
                            y - 3, drawing->x[b] - BOX / 2, drawing->x[a] + BOX / 2, y + 3, drawing->x[b] - BOX / 2);
    for (int l = 0; l < topology->n_links; l++)
      if (topology->links[l].kind == ZS_LINK_SOCKET && topology->links[l].from == a && topology->links[l].to == b) {
        g_autofree char *rate = zs_rate_format (topology->links[l].rate);

        write_text (drawing, (drawing->x[a] + drawing->x[b]) / 2, y - 8, SMALL, "%s", rate);
      }
  }
}

static void
draw_parts (Drawing *drawing)
{
  const ZsTopology *topology = drawing->topology;

  for (int p = 0; p < topology->n_parts; p++) {
    static const char *const CLASSES[] = { "gpu", "switch", "switch", "cpu", "nic" };
    const ZsPart *part = &topology->parts[p];

    if (drawing->x[p] < 0)
      continue;
    g_string_append_printf (drawing->text, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\"/>\n",
                            CLASSES[part->kind], drawing->x[p] - BOX / 2, top_of (drawing, p), BOX, BOX_HEIGHT,
                            part->kind == ZS_PART_PCIE_SWITCH ? 14 : 3);
    write_text (drawing, drawing->x[p], top_of (drawing, p) + BOX_HEIGHT / 2 + 5, MIDDLE, "%s", part->name);
  }
}

/* NVLinks below the row of GPUs; returns where they end. */
static int
draw_nvlinks (Drawing *drawing)
{
  const ZsTopology *topology = drawing->topology;
  int y0 = MARGIN + 30 + drawing->max_depth * LEVEL + BOX_HEIGHT, lowest = y0, bar = y0 + 46, first = G_MAXINT, last = 0;

  for (int l = 0; l < topology->n_links; l++) {
    const ZsLink *link = &topology->links[l];
    int a = link->from, b = link->to;

    if (link->kind != ZS_LINK_NVLINK || topology->parts[a].kind != ZS_PART_GPU)
      continue;
    if (topology->parts[b].kind == ZS_PART_NVSWITCH) {
      g_string_append_printf (drawing->text, "<path class=\"nvlink\" d=\"M%d %d V%d\"/>\n", drawing->x[a], y0, bar);
      write_text (drawing, drawing->x[a] + 6, y0 + 26, "class=\"small\"", "NV%d", link->count);
      first = MIN (first, drawing->x[a]);
      last = MAX (last, drawing->x[a]);
      lowest = bar + SWITCH_HEIGHT;
    }
    else if (drawing->x[a] < drawing->x[b]) {
      int width = drawing->x[b] - drawing->x[a], deep = 16 + width / 7;

      g_string_append_printf (drawing->text, "<path class=\"nvlink\" d=\"M%d %d C%d %d %d %d %d %d\"/>\n", drawing->x[a], y0,
                              drawing->x[a], y0 + deep * 4 / 3, drawing->x[b], y0 + deep * 4 / 3, drawing->x[b], y0);
      write_text (drawing, (drawing->x[a] + drawing->x[b]) / 2, y0 + deep - 4, SMALL, "NV%d", link->count);
      lowest = MAX (lowest, y0 + deep + 6);
    }
  }
  if (first <= last) {
    g_string_append_printf (drawing->text, "<rect class=\"switch\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
                            first - BOX / 2, bar, last - first + BOX, SWITCH_HEIGHT);
    write_text (drawing, (first + last) / 2, bar + SWITCH_HEIGHT / 2 + 5, MIDDLE, "NVSwitch");
  }
  return lowest;
}

char *
zs_topology_svg (const ZsTopology *topology)
{
  Drawing drawing = { .topology = topology, .text = g_string_new (NULL) };
  g_autofree int *x = g_new (int, topology->n_parts + 1), *depth = g_new0 (int, topology->n_parts + 1);

  drawing.x = x;
  drawing.depth = depth;
  for (int p = 0; p < topology->n_parts; p++)
    x[p] = -1;
  for (int i = 0; i < topology->n_cpus; i++)
    place (&drawing, topology->cpus[i], 0);
  for (int g = 0; g < topology->n_gpus; g++)   /* without a CPU above */
    if (x[topology->gpus[g]] < 0)
      place (&drawing, topology->gpus[g], 0);
  int width = MAX (2 * MARGIN + CELL * drawing.n_leaves, 560);

  write_text (&drawing, MARGIN, MARGIN, "class=\"title\"", "%s: %d GPU%s, %d NIC%s", topology->name, topology->n_gpus,
              topology->n_gpus == 1 ? "" : "s", topology->n_nics, topology->n_nics == 1 ? "" : "s");
  draw_links (&drawing);
  draw_parts (&drawing);
  int y = draw_nvlinks (&drawing) + 2 * LINE;
  static const struct { const char *class, *name; } KINDS[] = {
    { "nvlink", "NVLink (NV: links)" }, { "pcie", "PCIe" }, { "c2c", "NVLink-C2C" }, { "socket", "between sockets" },
  };

  for (size_t k = 0, at = MARGIN; k < G_N_ELEMENTS (KINDS); k++, at += 130) {
    g_string_append_printf (drawing.text, "<path class=\"%s\" d=\"M%d %d H%d\"/>\n", KINDS[k].class, (int) at, y - 4, (int) at + 24);
    write_text (&drawing, (int) at + 30, y, "class=\"small\"", "%s", KINDS[k].name);
  }
  for (guint i = 0; i < topology->warnings->len; i++) {
    const char *warning = g_ptr_array_index (topology->warnings, i);

    y += LINE;
    width = MAX (width, 2 * MARGIN + 7 * (int) strlen (warning));
    write_text (&drawing, MARGIN, y + 4, "class=\"small\"", "! %s", warning);
  }
  g_autofree char *body = g_string_free (drawing.text, FALSE);

  return g_strdup_printf (
    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n<style>\n"
    "text { font: 13px sans-serif } .small { font-size: 11px } .title { font-weight: bold }\n"
    "rect { fill: #fff; stroke: #000 } .gpu { fill: #ddd; stroke-width: 2 } .nic { stroke-dasharray: 4 2 }\n"
    "path { fill: none; stroke: #000 } .nvlink { stroke-width: 2.5 } .c2c { stroke-width: 2; stroke-dasharray: 8 3 }\n"
    ".socket { stroke-width: 1; stroke-dasharray: 2 2 }\n"
    ".small { paint-order: stroke; stroke: #fff; stroke-width: 3 }\n</style>\n<rect width=\"%d\" height=\"%d\" style=\"stroke: none\"/>\n"
    "%s</svg>\n", width, y + MARGIN, width, y + MARGIN, width, y + MARGIN, body);
}
