/* checking.h: what the tests of the linter share.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/check/check.h"

/* What is known beside the file, in a word. */
typedef enum {
  EITHER,
  HF,
  PLAIN,
  OLD, /* DeepSpeed 0.14.4, caller not known */
  OLD_PLAIN,
  OLD_HF,
  SEVEN_B, /* Hugging Face, LLaMA-7B on 2 GPUs of one node with 128 GB */
  LORA,    /* the same with 4 M trainable parameters */
  QLORA,
  ONE_THREAD,
  ARGUMENTS, /* Hugging Face, micro-batch 2, accumulation 4, bf16 */
  MIXED,     /* Hugging Face, a mixture of experts on GPUs of several kinds */
} Beside;

ZsCheckOptions options_for (Beside beside);
/* TEXT has a '^' before the place where a finding is expected; the findings of the text without it,
 * and the place. */
ZsFindings *check_marked (const char *text, const char *file, Beside beside, int *ret_line,
                          int *ret_column);
/* The finding of CODE at the place (line 0: anywhere), or NULL. */
const ZsFinding *find_finding (const ZsFindings *findings, const char *code, int line, int column);
void print_findings (const char *what, const ZsFindings *findings);
