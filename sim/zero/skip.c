/* skip.c: conditional runs of instructions.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/zero/skip.h"

#include <string.h>

/* Make room for N instructions at AT. */
static void
insert (ZsPlan *plan, int64_t at, int64_t n)
{
  int64_t before = plan->n_code;

  for (int64_t i = 0; i < n; i++)
    zs_plan_emit (plan, ZS_OP_END);
  memmove (plan->code + at + n, plan->code + at, (size_t) (before - at) * sizeof *plan->code);
}

static ZsInstruction
question (const ZsPlan *plan, ZsOp op, int64_t bytes, int64_t skip)
{
  g_assert (skip >= 0 && skip <= UINT32_MAX);
  return (ZsInstruction) { .op = (uint8_t) op, .stream = plan->stream, .label = plan->label,
                           .bytes = bytes, .other = (uint32_t) skip };
}

void
zs_zero_unless_overflow (ZsPlan *plan, int64_t start, const ZsTensor *held, int n)
{
  int64_t length = plan->n_code - start;
  int64_t frees = 0;

  for (int i = 0; i < n; i++)
    if (held[i] != ZS_NO_TENSOR) {
      zs_plan_emit (plan, ZS_OP_FREE)->id = held[i];
      frees++;
    }
  insert (plan, start, 1);
  plan->code[start] = question (plan, ZS_OP_UNLESS_OVERFLOW, 0, length + (frees > 0));
  if (frees > 0) {
    insert (plan, start + 1 + length, 1);
    plan->code[start + 1 + length] = question (plan, ZS_OP_UNLESS_FREE, 0, frees);
  }
}

void
zs_zero_if_free (ZsPlan *plan, int64_t start, int64_t middle, int64_t bytes)
{
  int64_t first = middle - start, second = plan->n_code - middle;
  g_autofree ZsInstruction *code = g_memdup2 (plan->code + start,
                                              (gsize) (first + second) * sizeof *code);

  insert (plan, start, 2);
  plan->code[start] = question (plan, ZS_OP_UNLESS_FREE, bytes, second + 1);
  memcpy (plan->code + start + 1, code + first, (size_t) second * sizeof *code);
  plan->code[start + 1 + second] = question (plan, ZS_OP_UNLESS_FREE, 0, first);
  memcpy (plan->code + start + 2 + second, code, (size_t) first * sizeof *code);
}
