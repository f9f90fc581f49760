/* event-queue.c: a heap with four children per node.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/engine/event-queue.h"

#include "sim/base/digest.h"

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

uint64_t
zs_event_queue_digest (const ZsEventQueue *queue, ZsTime now)
{
  g_autofree ZsPending *pending = g_memdup2 (queue->heap, (size_t) queue->n * sizeof *pending);
  uint64_t digest = (uint64_t) queue->n;

  /* in the order in which they will leave; there are few */
  for (int64_t i = 1; i < queue->n; i++) {
    ZsPending moved = pending[i];
    int64_t at = i;

    for (; at > 0 && before (&moved, &pending[at - 1]); at--)
      pending[at] = pending[at - 1];
    pending[at] = moved;
  }
  for (int64_t i = 0; i < queue->n; i++) {
    digest = zs_digest_add (digest, (uint64_t) (pending[i].when - now));
    digest = zs_digest_add (digest, (uint64_t) pending[i].what << 32 | pending[i].id);
    digest = zs_digest_add (digest, pending[i].stamp);
  }
  return digest;
}

void
zs_event_queue_shift (ZsEventQueue *queue, ZsTime time)
{
  for (int64_t i = 0; i < queue->n; i++)
    queue->heap[i].when += time;
}
