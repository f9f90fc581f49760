/* repeat.h: what may repeat, between repeat.c, state.c and same-step.c.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/run/world.h"

/* What a rank had noted. */
typedef struct {
  guint    n_phases, n_points, n_spans, n_memory_events;
  guint    last_wait;      /* among spans, and its end then */
  ZsTime   last_wait_end;
  ZsTime   wait[ZS_N_WAITS];
  int64_t  n_instructions, nvme_bytes;
} RankPast;

typedef struct {
  uint64_t digest;
  ZsPlannerPlace place;
  ZsTime   when;
  int64_t  n_events, n_resets;
  guint    n_link_points;
  int64_t *use;
  RankPast *ranks;
} Boundary;

/* ---- state.c ---- */
/* A number for all that the rest of the run depends on, seen from ORIGIN's step and micro-step; 0: not
 * known. */
uint64_t zs_state_digest (Run *run, const ZsPlannerPlace *origin);
