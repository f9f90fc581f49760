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

static bool
is_alloc (const ZsInstruction *instruction)
{
  return instruction->op == ZS_OP_ALLOC || instruction->op == ZS_OP_HOST_ALLOC;
}

static bool
is_free (const ZsInstruction *instruction)
{
  return instruction->op == ZS_OP_FREE || instruction->op == ZS_OP_HOST_FREE;
}

/* Frees without an allocation before them in [START, END), allocations without a free after them. */
static void
emit_net_effect (ZsPlan *plan, int64_t start, int64_t end)
{
  g_autofree bool *seen = g_new0 (bool, plan->n_slots);
  g_autofree bool *freed = g_new0 (bool, plan->n_slots);

  for (int64_t i = start; i < end; i++) {
    ZsInstruction instruction = plan->code[i];

    if (!is_alloc (&instruction) && !is_free (&instruction))
      continue;
    if (is_free (&instruction) && !seen[instruction.id])
      *zs_plan_emit (plan, ZS_OP_FREE) = instruction;
    seen[instruction.id] = true;
  }
  for (int64_t i = end; i-- > start;) {
    ZsInstruction instruction = plan->code[i];

    if (!is_alloc (&instruction) && !is_free (&instruction))
      continue;
    if (is_alloc (&instruction) && !freed[instruction.id])
      *zs_plan_emit (plan, ZS_OP_ALLOC) = instruction;
    freed[instruction.id] = true;
  }
}

void
zs_zero_unless_overflow (ZsPlan *plan, int64_t start)
{
  int64_t length = plan->n_code - start;

  emit_net_effect (plan, start, start + length);
  int64_t others = plan->n_code - start - length;

  insert (plan, start, 1);
  plan->code[start] = question (plan, ZS_OP_UNLESS_OVERFLOW, 0, length + 1);
  insert (plan, start + 1 + length, 1);
  plan->code[start + 1 + length] = question (plan, ZS_OP_UNLESS_FREE, 0, others);
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
