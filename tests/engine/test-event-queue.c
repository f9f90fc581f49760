/* test-event-queue.c: order of events and of clocks.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/engine/earliest.h"
#include "sim/engine/event-queue.h"
#include "sim/engine/gate.h"
#include "tests/testing.h"

static uint32_t
next_random (uint32_t *state)
{
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void
events_at_one_time_leave_in_push_order (void)
{
  ZsEventQueue queue;
  ZsPending pending;

  zs_event_queue_init (&queue);
  for (uint32_t i = 0; i < 100; i++)
    zs_event_queue_push (&queue, 7, 0, i, 0);
  for (uint32_t i = 0; i < 100; i++) {
    CU_ASSERT_TRUE (zs_event_queue_pop (&queue, &pending));
    CU_ASSERT_EQUAL (pending.id, i);
  }
  CU_ASSERT_FALSE (zs_event_queue_pop (&queue, &pending));
  zs_event_queue_clear (&queue);
}

static void
events_leave_earliest_first (void)
{
  ZsEventQueue queue;
  ZsPending pending;
  uint32_t random = 1;
  ZsTime last = -1;
  uint64_t last_seq = 0;

  zs_event_queue_init (&queue);
  for (int round = 0; round < 20000; round++) {
    if (next_random (&random) % 3 != 0) {
      zs_event_queue_push (&queue, MAX (last, 0) + next_random (&random) % 50, 0, 0, 0);
    } else if (zs_event_queue_next (&queue) != ZS_TIME_MAX) {
      ZsTime next = zs_event_queue_next (&queue);

      CU_ASSERT_TRUE (zs_event_queue_pop (&queue, &pending));
      CU_ASSERT_EQUAL (pending.when, next);
      CU_ASSERT_TRUE (pending.when > last || (pending.when == last && pending.seq > last_seq));
      last = pending.when;
      last_seq = pending.seq;
    }
  }
  zs_event_queue_clear (&queue);
}

static void
the_earliest_clock_is_the_least (void)
{
  uint32_t random = 2;

  for (int32_t n = 1; n < 20; n++) {
    ZsEarliest earliest;

    zs_earliest_init (&earliest, n);
    CU_ASSERT_EQUAL (zs_earliest_time (&earliest), ZS_TIME_MAX);
    for (int round = 0; round < 500; round++) {
      zs_earliest_set (&earliest, (int32_t) (next_random (&random) % (uint32_t) n),
                       next_random (&random) % 8 == 0 ? ZS_TIME_MAX : next_random (&random) % 30);
      int32_t least = 0;

      for (int32_t c = 1; c < n; c++)
        if (earliest.times[c] < earliest.times[least])
          least = c;
      CU_ASSERT_EQUAL (zs_earliest_time (&earliest), earliest.times[least]);
      CU_ASSERT_TRUE (zs_earliest_time (&earliest) == ZS_TIME_MAX
                      || zs_earliest_clock (&earliest) == least);
      ZsTime rival = ZS_TIME_MAX;

      for (int32_t c = 0; c < n; c++)
        if (c != least)
          rival = MIN (rival, earliest.times[c]);
      CU_ASSERT_EQUAL (zs_earliest_rival (&earliest, least), rival);
    }
    zs_earliest_clear (&earliest);
  }
}

static void
a_gate_opens_for_the_last (void)
{
  ZsGate gate = { .needed = 3 };

  for (int round = 0; round < 2; round++) {
    CU_ASSERT_FALSE (zs_gate_arrive (&gate));
    CU_ASSERT_FALSE (zs_gate_arrive (&gate));
    CU_ASSERT_TRUE (zs_gate_arrive (&gate));
  }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "events at one time leave in push order", events_at_one_time_leave_in_push_order },
    { "events leave earliest first", events_leave_earliest_first },
    { "the earliest clock is the least", the_earliest_clock_is_the_least },
    { "a gate opens for the last", a_gate_opens_for_the_last },
    CU_TEST_INFO_NULL
  };
  return testing_main ("event-queue", tests);
}
