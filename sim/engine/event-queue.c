/* event-queue.c: a heap with four children per node.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/engine/event-queue.h"

static inline bool
before (const ZsPending *a, const ZsPending *b)
{
  return a->when != b->when ? a->when < b->when : a->seq < b->seq;
}

void
zs_event_queue_init (ZsEventQueue *queue)
{
  *queue = (ZsEventQueue) { .heap = NULL };
}

void
zs_event_queue_clear (ZsEventQueue *queue)
{
  g_free (queue->heap);
  zs_event_queue_init (queue);
}

void
zs_event_queue_push (ZsEventQueue *queue, ZsTime when, uint32_t what, uint32_t id, uint64_t stamp)
{
  ZsPending pending = { .when = when, .seq = queue->next_seq++, .what = what, .id = id,
                        .stamp = stamp };

  if (queue->n == queue->room) {
    queue->room = MAX (64, queue->room * 2);
    queue->heap = g_renew (ZsPending, queue->heap, queue->room);
  }
  int64_t at = queue->n++;

  while (at > 0) {
    int64_t parent = (at - 1) / 4;

    if (!before (&pending, &queue->heap[parent]))
      break;
    queue->heap[at] = queue->heap[parent];
    at = parent;
  }
  queue->heap[at] = pending;
}

bool
zs_event_queue_pop (ZsEventQueue *queue, ZsPending *ret_pending)
{
  if (queue->n == 0)
    return false;
  *ret_pending = queue->heap[0];

  ZsPending last = queue->heap[--queue->n];
  int64_t at = 0;

  for (;;) {
    int64_t first = at * 4 + 1, end = MIN (first + 4, queue->n), least = -1;

    for (int64_t child = first; child < end; child++)
      if (least < 0 || before (&queue->heap[child], &queue->heap[least]))
        least = child;
    if (least < 0 || !before (&queue->heap[least], &last))
      break;
    queue->heap[at] = queue->heap[least];
    at = least;
  }
  if (queue->n > 0)
    queue->heap[at] = last;
  return true;
}
