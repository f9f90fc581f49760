/* event-queue.h: the pending events of one simulation, earliest first.
 * SPDX-License-Identifier: MIT
 *
 * An array heap with four children per node, entries by value, compared by (when, seq): events at
 * the same time leave in the order in which they were pushed, so a run depends on its inputs alone.
 * There is no cancel: an event that may become stale carries a stamp that its owner compares.
 * The array grows and stays: a warm queue allocates nothing.
 */
#pragma once

#include <stdbool.h>

#include "sim/base/time.h"

typedef struct {
  ZsTime   when;
  uint64_t seq;
  uint32_t what, id;     /* the owner's */
  uint64_t stamp;
} ZsPending;

typedef struct {
  ZsPending *heap;
  int64_t    n, room;
  uint64_t   next_seq;
} ZsEventQueue;

void zs_event_queue_init  (ZsEventQueue *queue);
void zs_event_queue_clear (ZsEventQueue *queue);

void zs_event_queue_push (ZsEventQueue *queue, ZsTime when, uint32_t what, uint32_t id,
                          uint64_t stamp);
/* The earliest, taken out; false when there is none. */
bool zs_event_queue_pop  (ZsEventQueue *queue, ZsPending *ret_pending);

/* A number for what is pending, as seen from NOW. */
uint64_t zs_event_queue_digest (const ZsEventQueue *queue, ZsTime now);
/* Everything that is pending is due later by TIME. */
void     zs_event_queue_shift  (ZsEventQueue *queue, ZsTime time);

/* When the earliest is due; ZS_TIME_MAX when there is none. */
static inline ZsTime
zs_event_queue_next (const ZsEventQueue *queue)
{
  return queue->n > 0 ? queue->heap[0].when : ZS_TIME_MAX;
}
