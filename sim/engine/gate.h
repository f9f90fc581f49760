/* gate.h: opens when N arrivals have come: the start of a collective.
 * SPDX-License-Identifier: MIT */
#pragma once

#include <glib.h>
#include <stdbool.h>

typedef struct {
  int32_t needed, arrived;
} ZsGate;

/* One more has come; true for the last, and the gate is closed again for the next round. */
static inline bool
zs_gate_arrive (ZsGate *gate)
{
  g_assert (gate->arrived < gate->needed);
  if (++gate->arrived < gate->needed)
    return false;
  gate->arrived = 0;
  return true;
}
