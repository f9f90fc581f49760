/* ledger.c: requested bytes of a plan.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/zero/ledger.h"

static int64_t
power_of_two (int64_t bytes)
{
  int64_t power = 1;

  while (power < bytes)
    power *= 2;
  return power;
}

static void
grow (Ledger *ledger, uint32_t id)
{
  while (id >= ledger->room) {
    uint32_t room = MAX (256, 2 * ledger->room);

    ledger->sizes = g_renew (int64_t, ledger->sizes, room);
    ledger->pinned = g_renew (bool, ledger->pinned, room);
    for (uint32_t i = ledger->room; i < room; i++)
      ledger->sizes[i] = 0;
    ledger->room = room;
  }
}

void
ledger_read (Ledger *ledger, ZsPlan *plan)
{
  for (int64_t at = 0; at < plan->n_code; at++) {
    const ZsInstruction *op = &plan->code[at];

    switch (op->op) {
    case ZS_OP_ALLOC:
      grow (ledger, op->id);
      g_assert (ledger->sizes[op->id] == 0);
      ledger->sizes[op->id] = op->bytes;
      ledger->gpu += op->bytes;
      ledger->gpu_peak = MAX (ledger->gpu_peak, ledger->gpu);
      break;
    case ZS_OP_FREE:
      grow (ledger, op->id);
      ledger->n_frees_unknown += ledger->sizes[op->id] == 0;
      ledger->gpu -= ledger->sizes[op->id];
      ledger->sizes[op->id] = 0;
      break;
    case ZS_OP_HOST_ALLOC:
      grow (ledger, op->id);
      ledger->sizes[op->id] = op->bytes;
      ledger->pinned[op->id] = op->flags & ZS_FLAG_PINNED;
      if (op->flags & ZS_FLAG_PINNED) {
        ledger->pinned_exact += op->bytes;
        ledger->pinned_rounded += power_of_two (op->bytes);
      } else
        ledger->pageable += op->bytes;
      ledger->pageable_peak = MAX (ledger->pageable_peak, ledger->pageable);
      break;
    case ZS_OP_HOST_FREE:
      if (ledger->pinned[op->id]) {
        ledger->pinned_exact -= ledger->sizes[op->id];
        ledger->pinned_rounded -= power_of_two (ledger->sizes[op->id]);
      } else
        ledger->pageable -= ledger->sizes[op->id];
      ledger->sizes[op->id] = 0;
      break;
    case ZS_OP_COLLECTIVE:
      ledger->collective_bytes += op->bytes;
      ledger->n_collectives++;
      break;
    case ZS_OP_COPY:
      if (op->kind == ZS_COPY_GPU_TO_HOST)
        ledger->to_host_bytes += op->bytes;
      else if (op->kind == ZS_COPY_HOST_TO_GPU)
        ledger->to_gpu_bytes += op->bytes;
      break;
    case ZS_OP_UNLESS_FREE:
      at += op->other;
      break;
    case ZS_OP_UNLESS_OVERFLOW:
      at += ledger->overflows ? op->other : 0;
      break;
    default:
      break;
    }
  }
  zs_plan_clear (plan);
}

void
ledger_reset_peaks (Ledger *ledger)
{
  ledger->gpu_peak = ledger->gpu;
  ledger->pageable_peak = ledger->pageable;
  ledger->collective_bytes = ledger->to_host_bytes = ledger->to_gpu_bytes = 0;
  ledger->n_collectives = 0;
}

void
ledger_clear (Ledger *ledger)
{
  g_free (ledger->sizes);
  g_free (ledger->pinned);
  *ledger = (Ledger) { 0 };
}
