/* compare-text.c: the table of a comparison for a terminal.
 * SPDX-License-Identifier: MIT
 *
 * A row is a quantity with its value of each variant.  Where all columns fit, variants are columns; else
 * each variant has a line of the quantities that matter most. */
#include "config.h"

#include <string.h>

#include "sim/base/units.h"
#include "sim/study/compare.h"

#define LABEL_ROOM   24
#define COLUMN_ROOM  13
#define MAX_COLUMNS   4       /* side by side at 80 columns */
#define MAX_SETTINGS 12

typedef char *(*Quantity) (const ZsVariant *variant);

/* ---- quantities: NULL where there is none ---- */

static char *
verdict (const ZsVariant *variant)
{
  if (variant->result == NULL)
    return g_strdup ("cannot run");
  switch (variant->result->outcome) {
  case ZS_OUTCOME_OK:
    return g_strdup ("FITS");
  case ZS_OUTCOME_HOST_OOM:
    return g_strdup ("HOST OOM");
  case ZS_OUTCOME_OOM:
    break;
  }
  return g_strdup ("OUT OF MEM.");
}

static char *
where_stopped (const ZsVariant *variant)
{
  return variant->result != NULL && variant->result->outcome == ZS_OUTCOME_OOM
           ? g_strdup_printf ("%d, %s", variant->result->oom.step,
                              zs_phase_name (variant->result->oom.phase))
           : NULL;
}

/* Peaks of training; where it ran out of memory, what was held then, which may be before training. */
static char *
bytes_or_oom (const ZsVariant *variant, int64_t peak, int64_t at_oom)
{
  bool oom = variant->result->outcome == ZS_OUTCOME_OOM;

  return zs_bytes_format (oom ? at_oom : peak);
}

static char *
device_peak (const ZsVariant *variant)
{
  const ZsResult *r = variant->result;

  return r != NULL ? bytes_or_oom (variant, r->peak_device_bytes,
                                   r->oom.reserved_bytes + r->context_bytes + r->communicator_bytes)
                   : NULL;
}

static char *
allocated (const ZsVariant *variant)
{
  const ZsResult *r = variant->result;

  return r != NULL ? bytes_or_oom (variant, r->peak_allocated_bytes, r->oom.allocated_bytes) : NULL;
}

static char *
reserved (const ZsVariant *variant)
{
  const ZsResult *r = variant->result;

  return r != NULL ? bytes_or_oom (variant, r->peak_reserved_bytes, r->oom.reserved_bytes) : NULL;
}

static char *
gpu_memory (const ZsVariant *variant)
{
  return variant->result != NULL ? zs_bytes_format (variant->result->gpu_memory_bytes) : NULL;
}

static char *
largest_holder (const ZsVariant *variant)
{
  const ZsResult *result = variant->result;

  return result != NULL && result->peak_holders->len > 0
           ? g_strdup (zs_category_name (g_array_index (result->peak_holders, ZsHolder, 0).category))
           : NULL;
}

static bool
has_time (const ZsVariant *variant)
{
  return variant->result != NULL && variant->result->outcome == ZS_OUTCOME_OK;
}

static char *
step_time (const ZsVariant *variant)
{
  return has_time (variant) ? zs_time_format (variant->result->step_time_ps) : NULL;
}

static char *
wait_time (const ZsVariant *variant, ZsWait wait)
{
  return has_time (variant) ? zs_time_format (variant->result->wait_ps[wait]) : NULL;
}

static char *
compute_time (const ZsVariant *variant)
{
  return wait_time (variant, ZS_WAIT_COMPUTE);
}

static char *
communication_time (const ZsVariant *variant)
{
  return wait_time (variant, ZS_WAIT_COMMUNICATION);
}

static char *
offload_time (const ZsVariant *variant)
{
  return wait_time (variant, ZS_WAIT_OFFLOAD);
}

static char *
optimizer_time (const ZsVariant *variant)
{
  return wait_time (variant, ZS_WAIT_OPTIMIZER);
}

static char *
python_time (const ZsVariant *variant)
{
  return wait_time (variant, ZS_WAIT_HOST);
}

static char *
tokens (const ZsVariant *variant)
{
  return has_time (variant) ? g_strdup_printf ("%.0f", variant->result->tokens_per_second_per_gpu) : NULL;
}

static char *
mfu (const ZsVariant *variant)
{
  return has_time (variant) ? g_strdup_printf ("%.0f %%", 100 * variant->result->mfu) : NULL;
}

static char *
host_memory (const ZsVariant *variant)
{
  return variant->result != NULL
           ? zs_bytes_format (variant->result->host_pinned_peak_bytes
                              + variant->result->host_pageable_peak_bytes)
           : NULL;
}

/* BRIEF: what the line of a variant shows under, where variants are lines. */
static const struct {
  const char *label, *brief;
  Quantity    quantity;
  int         room;            /* of the brief column */
} QUANTITIES[] = {
  { "verdict", "verdict", verdict, 11 },
  { "stops in step", NULL, where_stopped, 0 },
  { "GPU memory, all", "GPU memory", device_peak, 10 },
  { "  of", NULL, gpu_memory, 0 },
  { "  reserved by PyTorch", NULL, reserved, 0 },
  { "  allocated", NULL, allocated, 0 },
  { "  most of it", NULL, largest_holder, 0 },
  { "time of a step", "step", step_time, 8 },
  { "  compute", NULL, compute_time, 0 },
  { "  waiting for GPUs", "for GPUs", communication_time, 8 },
  { "  waiting for offload", "offload", offload_time, 8 },
  { "  optimizer", NULL, optimizer_time, 0 },
  { "  waiting for Python", NULL, python_time, 0 },
  { "tokens/s per GPU", "tokens/s", tokens, 8 },
  { "MFU", NULL, mfu, 0 },
  { "host memory per node", "host mem.", host_memory, 10 },
};

/* ---- writing ---- */

/* VALUE cut to ROOM characters, to the right. */
static void
append_cell (ZsText *text, ZsTextStyle style, const char *value, int room)
{
  g_autofree char *cut = g_strndup (value != NULL ? value : "-", (gsize) room);
  int blanks = room - (int) g_utf8_strlen (cut, -1);

  zs_text_append (text, "  %*s", MAX (blanks, 0), "");
  zs_text_styled (text, style, "%s", cut);
}

static ZsTextStyle
style_of (const ZsVariant *variant, Quantity quantity)
{
  if (quantity != verdict)
    return ZS_STYLE_PLAIN;
  return has_time (variant) ? ZS_STYLE_GOOD : ZS_STYLE_BAD;
}

static const ZsVariant *
variant_at (const ZsCompare *compare, guint i)
{
  return g_ptr_array_index (compare->variants, i);
}

static const char *
setting_at (const ZsVariant *variant, const char *path)
{
  const ZsSetting *setting
      = variant->scenario != NULL ? zs_settings_find (variant->scenario->settings, path) : NULL;

  return setting != NULL ? setting->value : "-";
}

static const char *
short_name (const char *path)
{
  const char *last = strrchr (path, '.');

  return last != NULL ? last + 1 : path;
}

/* Long names stand above the table, numbered. */
static void
write_names (const ZsCompare *compare, ZsText *text, int room)
{
  bool fit = true;

  for (guint i = 0; i < compare->variants->len; i++)
    fit &= g_utf8_strlen (variant_at (compare, i)->name, -1) <= room;
  if (!fit)
    for (guint i = 0; i < compare->variants->len; i++)
      zs_text_append (text, "%c: %s\n", 'A' + (char) i, variant_at (compare, i)->name);
  zs_text_append (text, "%s%-*s", fit ? "" : "\n", LABEL_ROOM, "");
  for (guint i = 0; i < compare->variants->len; i++) {
    char letter[2] = { (char) ('A' + (char) i), '\0' };

    append_cell (text, ZS_STYLE_BOLD, fit ? variant_at (compare, i)->name : letter, room);
  }
  zs_text_append (text, "\n");
}

/* Columns no wider than their place; a longer value is cut. */
static void
write_columns (const ZsCompare *compare, ZsText *text)
{
  int n = (int) compare->variants->len;
  int room = CLAMP ((text->width - LABEL_ROOM) / n - 2, COLUMN_ROOM - 1, 24);
  guint n_settings = MIN (compare->differing->len, MAX_SETTINGS);

  write_names (compare, text, room);
  for (guint i = 0; i < n_settings; i++) {
    const char *path = g_ptr_array_index (compare->differing, i);

    zs_text_append (text, "%-*.*s", LABEL_ROOM, LABEL_ROOM, short_name (path));
    for (int j = 0; j < n; j++)
      append_cell (text, ZS_STYLE_PLAIN, setting_at (variant_at (compare, (guint) j), path), room);
    zs_text_append (text, "\n");
  }
  if (compare->differing->len > n_settings)
    zs_text_append (text, "(%u more settings differ; --json has all)\n",
                    compare->differing->len - n_settings);
  zs_text_append (text, "\n");
  for (size_t i = 0; i < G_N_ELEMENTS (QUANTITIES); i++) {
    bool any = false;

    for (int j = 0; j < n; j++) {
      g_autofree char *value = QUANTITIES[i].quantity (variant_at (compare, (guint) j));

      any |= value != NULL && strcmp (value, "0 s") != 0 && strcmp (value, "0 B") != 0;
    }
    if (!any)
      continue;
    zs_text_append (text, "%-*s", LABEL_ROOM, QUANTITIES[i].label);
    for (int j = 0; j < n; j++) {
      const ZsVariant *variant = variant_at (compare, (guint) j);
      g_autofree char *value = QUANTITIES[i].quantity (variant);

      append_cell (text, style_of (variant, QUANTITIES[i].quantity), value, room);
    }
    zs_text_append (text, "\n");
  }
}

static void
write_lines (const ZsCompare *compare, ZsText *text)
{
  int rest = 0, name_room = 4;

  for (size_t i = 0; i < G_N_ELEMENTS (QUANTITIES); i++)
    rest += QUANTITIES[i].brief != NULL ? QUANTITIES[i].room + 2 : 0;
  for (guint i = 0; i < compare->variants->len; i++)
    name_room = MAX (name_room, (int) g_utf8_strlen (variant_at (compare, i)->name, -1));
  /* a name that does not fit has a line of its own */
  bool own_line = name_room + rest > text->width;

  if (own_line)
    name_room = text->width - rest;
  zs_text_append (text, "%-*s", MAX (name_room, 0), "");
  for (size_t i = 0; i < G_N_ELEMENTS (QUANTITIES); i++)
    if (QUANTITIES[i].brief != NULL)
      append_cell (text, ZS_STYLE_BOLD, QUANTITIES[i].brief, QUANTITIES[i].room);
  zs_text_append (text, "\n");
  for (guint i = 0; i < compare->variants->len; i++) {
    const ZsVariant *variant = variant_at (compare, i);

    zs_text_append (text, own_line ? "%s\n%*s" : "%s%*s", variant->name,
                    own_line ? MAX (name_room, 0)
                             : name_room - (int) g_utf8_strlen (variant->name, -1), "");
    for (size_t j = 0; j < G_N_ELEMENTS (QUANTITIES); j++) {
      g_autofree char *value = QUANTITIES[j].brief != NULL ? QUANTITIES[j].quantity (variant) : NULL;

      if (QUANTITIES[j].brief != NULL)
        append_cell (text, style_of (variant, QUANTITIES[j].quantity), value, QUANTITIES[j].room);
    }
    zs_text_append (text, "\n");
  }
}

void
zs_compare_write (const ZsCompare *compare, ZsText *text)
{
  if (compare->variants->len <= MAX_COLUMNS)
    write_columns (compare, text);
  else
    write_lines (compare, text);
  for (guint i = 0; i < compare->variants->len; i++) {
    const ZsVariant *variant = variant_at (compare, i);

    if (variant->problem == NULL)
      continue;
    g_autofree char *line = g_strdup_printf ("%s cannot be run: %s", variant->name, variant->problem);

    zs_text_append (text, "\n");
    zs_text_wrap (text, "", 2, line);
  }
  zs_text_append (text, "\n");
  zs_text_wrap (text, "", 0, compare->recommendation);
}
