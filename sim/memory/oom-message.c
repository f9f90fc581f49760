/* oom-message.c: the text of PyTorch's out-of-memory error.  SPDX-License-Identifier: MIT
 *
 * One row per text that PyTorch has had; a release uses the last row that is not newer. */
#include "config.h"

#include "sim/memory/oom-message.h"

typedef enum {
  STYLE_PARENTHESES,   /* up to 2.0: all numbers in parentheses */
  STYLE_SENTENCES,     /* from 2.1 */
} Style;

typedef struct {
  ZsVersion   since;
  Style       style;
  const char *reserved;   /* PARENTHESES: what follows the reserved bytes; SENTENCES: "capacity" */
  const char *hint;       /* after the numbers */
} Text;

#define HINT_SPLIT                                                                                 \
  "If reserved memory is >> allocated memory try setting max_split_size_mb to avoid "              \
  "fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
#define HINT_SPLIT_2_1                                                                             \
  "If reserved but unallocated memory is large try setting max_split_size_mb to avoid "            \
  "fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
#define HINT_EXPANDABLE                                                                            \
  "If reserved but unallocated memory is large try setting "                                       \
  "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation "   \
  "for Memory Management  "

/* The link to the documentation is known to be the old one in 2.2 and the new one in 2.11; where it
 * changed between them is not known to us. */
static const Text TEXTS[] = {
  { 0, STYLE_PARENTHESES, "cached", NULL },
  { ZS_VERSION (1, 5, 0), STYLE_PARENTHESES, "reserved in total by PyTorch", NULL },
  { ZS_VERSION (1, 10, 0), STYLE_PARENTHESES, "reserved in total by PyTorch", HINT_SPLIT },
  { ZS_VERSION (2, 1, 0), STYLE_SENTENCES, "capacty", HINT_SPLIT_2_1 },
  { ZS_VERSION (2, 2, 0), STYLE_SENTENCES, "capacity",
    HINT_EXPANDABLE "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)" },
  { ZS_VERSION (2, 11, 0), STYLE_SENTENCES, "capacity",
    HINT_EXPANDABLE "(https://docs.pytorch.org/docs/stable/notes/cuda.html"
                    "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)" },
};

char *
zs_oom_format_size (int64_t bytes)
{
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  static const struct { int64_t above; int shift; const char *unit; } UNITS[] = {
    { INT64_C (1) << 30, 30, "GiB" }, { INT64_C (1) << 20, 20, "MiB" }, { 1024, 10, "KiB" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (UNITS); i++)
    if (bytes > UNITS[i].above) {
      g_ascii_formatd (number, sizeof number, "%.2f",
                       (double) bytes / (double) (INT64_C (1) << UNITS[i].shift));
      return g_strconcat (number, " ", UNITS[i].unit, NULL);
    }
  return g_strdup_printf ("%" G_GINT64_FORMAT " bytes", bytes);
}

/* BEFORE, the size, AFTER. */
static void
append_size (GString *message, const char *before, int64_t bytes, const char *after)
{
  g_autofree char *size = zs_oom_format_size (bytes);

  g_string_append (message, before);
  g_string_append (message, size);
  g_string_append (message, after);
}

char *
zs_oom_message (ZsVersion torch, const ZsOomFacts *facts)
{
  const ZsAllocationFailure *failure = &facts->failure;
  const Text *text = &TEXTS[0];
  GString *message = g_string_new (NULL);
  int64_t free_bytes = failure->free == INT64_MAX ? MAX (facts->total - failure->reserved, 0)
                                                  : failure->free;

  for (size_t i = 0; i < G_N_ELEMENTS (TEXTS); i++)
    if (torch >= TEXTS[i].since)
      text = &TEXTS[i];
  append_size (message, "CUDA out of memory. Tried to allocate ", failure->segment, "");
  if (text->style == STYLE_PARENTHESES) {
    g_string_append_printf (message, " (GPU %d; ", facts->gpu);
    append_size (message, "", facts->total, " total capacity; ");
    append_size (message, "", failure->allocated, " already allocated; ");
    append_size (message, "", free_bytes, " free; ");
    if (failure->limit > 0 && text->hint != NULL)
      append_size (message, "", failure->limit, " allowed; ");
    append_size (message, "", failure->reserved, " ");
    g_string_append_printf (message, "%s)", text->reserved);
    if (text->hint != NULL)
      g_string_append_printf (message, " %s", text->hint);
  } else {
    g_string_append_printf (message, ". GPU %d has a total %s of ", facts->gpu, text->reserved);
    append_size (message, "", facts->total, " of which ");
    append_size (message, "", free_bytes, " is free. ");
    if (facts->process > 0)
      append_size (message, "Including non-PyTorch memory, this process has ", facts->process,
                   " memory in use. ");
    if (failure->limit > 0)
      append_size (message, "", failure->limit, " allowed; ");
    append_size (message, "Of the allocated memory ", failure->allocated,
                 " is allocated by PyTorch, and ");
    append_size (message, "", failure->reserved - failure->allocated,
                 " is reserved by PyTorch but unallocated. ");
    g_string_append (message, text->hint);
  }
  return g_string_free (message, FALSE);
}
