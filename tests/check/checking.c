/* checking.c: what the tests of the linter share.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/check/checking.h"

#include <string.h>

ZsCheckOptions
options_for (Beside beside)
{
  ZsCheckOptions options;
  ZsDsContext *ds = &options.ds;

  zs_check_options_init (&options);
  if (beside == PLAIN || beside == OLD_PLAIN)
    ds->caller = ZS_DS_PLAIN;
  if (beside == HF || beside == OLD_HF || beside >= SEVEN_B)
    ds->caller = ZS_DS_HUGGING_FACE;
  if (beside == OLD || beside == OLD_PLAIN || beside == OLD_HF) {
    ds->versions.of[ZS_SOFTWARE_DEEPSPEED] = ZS_VERSION (0, 14, 4);
    ds->versions.of[ZS_SOFTWARE_TRANSFORMERS] = ZS_VERSION (4, 41, 0);
  }
  if (beside == ARGUMENTS) {
    ds->micro_batch = 2;
    ds->accumulation = 4;
    ds->dtype_given = true;
    ds->max_grad_norm = 1.0;
    ds->clipping_must_match = true;
  }
  if (beside >= SEVEN_B && beside <= ONE_THREAD) {
    ds->world = ds->node_ranks = 2;
    ds->hidden = 4096;
    options.n_nodes = 1;
    options.n_elements = options.n_trainable = INT64_C (6738415616);
    options.largest_tensor = 32000 * 4096;
    options.host_memory_bytes = INT64_C (128000000000);
    if (beside == LORA || beside == QLORA)
      options.n_trainable = 4194304;
    options.lora = beside == LORA || beside == QLORA;
    options.load_in_4bit = beside == QLORA;
    options.omp_threads = beside == ONE_THREAD ? 1 : 16;
  }
  options.mixture = options.mixed_gpus = beside == MIXED;
  return options;
}

ZsFindings *
check_marked (const char *text, const char *file, Beside beside, int *ret_line, int *ret_column)
{
  g_autoptr (GString) clean = g_string_new (NULL);
  ZsCheckOptions options = options_for (beside);
  int line = 1, column = 1;

  *ret_line = *ret_column = 0;
  for (const char *at = text; *at != '\0'; at++) {
    if (*at == '^') {
      *ret_line = line;
      *ret_column = column;
      continue;
    }
    g_string_append_c (clean, *at);
    column = *at == '\n' ? 1 : column + 1;
    line += *at == '\n';
  }
  return zs_check_text (file, clean->str, clean->len, ZS_CHECK_GUESS, &options);
}

const ZsFinding *
find_finding (const ZsFindings *findings, const char *code, int line, int column)
{
  for (int i = 0; i < zs_findings_count (findings); i++) {
    const ZsFinding *finding = zs_findings_get (findings, i);

    if (strcmp (finding->code, code) == 0
        && (line == 0 || (finding->line == line && finding->column == column)))
      return finding;
  }
  return NULL;
}

void
print_findings (const char *what, const ZsFindings *findings)
{
  g_autofree char *text = zs_findings_text (findings);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  g_printerr ("# %s\n", what);
  for (int i = 0; lines[i] != NULL; i++)
    g_printerr ("#   %s\n", lines[i]);
}
