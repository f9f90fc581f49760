/* test-flow.c: flows in closed form.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/engine/flow.h"
#include "tests/testing.h"

#include <stdio.h>

static const ZsShare FIRST[] = { { 0, 65536 } };

/* Run to the next end; its tag. */
static uint64_t
next_end (ZsFlowSet *set, ZsTime *now)
{
  uint64_t tag = UINT64_MAX;

  zs_flow_set_settle (set, *now);
  *now = zs_flow_set_next (set);
  CU_ASSERT_TRUE (zs_flow_set_end (set, *now, &tag));
  return tag;
}

static void
a_flow_alone_takes_its_own_time (void)
{
  const ZsRate capacity[] = { 25000000000 };
  g_autoptr (ZsFlowSet) set = zs_flow_set_new (capacity, 1);
  int32_t route = zs_flow_set_route (set, FIRST, 1);

  for (ZsTime alone = 1; alone < 2 * ZS_SECOND; alone = alone * 7 + 3) {
    ZsTime now = 1000;

    zs_flow_set_start (set, now, route, 7777777777, alone, 5, 9);
    CU_ASSERT_EQUAL (next_end (set, &now), 9);
    CU_ASSERT_EQUAL (now, 1000 + alone);
  }
}

static void
two_flows_share_and_the_rest_goes_faster (void)
{
  const ZsRate capacity[] = { 10000000000 };
  g_autoptr (ZsFlowSet) set = zs_flow_set_new (capacity, 1);
  int32_t route = zs_flow_set_route (set, FIRST, 1);
  ZsTime now = 0;

  /* 10 GB at 10 GB/s; after 0.2 s 4 GB join: shared until 1.0 s, the first then has 4 GB left */
  zs_flow_set_start (set, 0, route, 10000000000, ZS_SECOND, 0, 1);
  zs_flow_set_settle (set, 0);
  now = ZS_SECOND / 5;
  zs_flow_set_start (set, now, route, 10000000000, 2 * ZS_SECOND / 5, 0, 2);
  CU_ASSERT_EQUAL (next_end (set, &now), 2);
  CU_ASSERT_EQUAL (now, ZS_SECOND);
  CU_ASSERT_EQUAL (next_end (set, &now), 1);
  CU_ASSERT_EQUAL (now, 7 * ZS_SECOND / 5);
  CU_ASSERT_EQUAL (zs_flow_set_busy (set, 0, now), now);
}

static void
resources_used_alike_are_one (void)
{
  enum { N = 32 };
  ZsRate capacity[N];
  ZsShare ring[N], up[1] = { { 3, 32768 } };

  for (int i = 0; i < N; i++) {
    capacity[i] = 20000000000 + i;
    ring[i] = (ZsShare) { i, 65536 };
  }
  for (int order = 0; order < 2; order++) {
    g_autoptr (ZsFlowSet) set = zs_flow_set_new (capacity, N);
    int32_t first = zs_flow_set_route (set, order ? up : ring, order ? 1 : N);
    int32_t second = zs_flow_set_route (set, order ? ring : up, order ? N : 1);
    ZsTime now = 0;

    CU_ASSERT_EQUAL (zs_flow_set_route (set, ring, N), order ? second : first);
    zs_flow_set_start (set, 0, order ? second : first, 50000000000, ZS_SECOND, 100, 1);
    zs_flow_set_start (set, 0, order ? first : second, 50000000000, ZS_SECOND, 100, 2);
    /* on link 3: 20 GB/s = r + r / 2 */
    CU_ASSERT_EQUAL (next_end (set, &now), 1);
    CU_ASSERT_EQUAL (now, (ZsTime) ((__int128) 50000000000 * ZS_SECOND / 13333333335) + 1);
    CU_ASSERT_EQUAL (zs_flow_set_bytes (set, 3), 150);
    CU_ASSERT_EQUAL (zs_flow_set_bytes (set, 4), 100);
  }
}

/* A new flow on a link never makes another of that link end earlier. */
static void
more_traffic_never_speeds_up_a_shared_link (void)
{
  uint32_t random = 77;

  for (int round = 0; round < 300; round++) {
    const ZsRate capacity[] = { 1000000000 + round * 7919 };
    ZsTime ends[2][6];
    ZsTime starts[6], alone[6];

    for (int f = 0; f < 6; f++) {
      random = random * 1664525u + 1013904223u;
      starts[f] = (random >> 8) % 1000000;
      alone[f] = 1 + (random >> 4) % 900000;
    }
    for (int with = 0; with < 2; with++) {
      g_autoptr (ZsFlowSet) set = zs_flow_set_new (capacity, 1);
      int32_t route = zs_flow_set_route (set, FIRST, 1);
      int n_left = 5 + with, begun[6] = { 0 };
      ZsTime now = 0;

      while (n_left > 0) {
        zs_flow_set_settle (set, now);
        ZsTime next = zs_flow_set_next (set);
        int starter = -1;

        for (int f = 0; f < 5 + with; f++)
          if (!begun[f] && starts[f] < next) {
            next = starts[f];
            starter = f;
          }
        now = next;
        uint64_t tag;

        if (starter >= 0) {
          begun[starter] = 1;
          zs_flow_set_start (set, now, route, 900000000, alone[starter], 0, (uint64_t) starter);
        } else {
          CU_ASSERT_TRUE_FATAL (zs_flow_set_end (set, now, &tag));
          ends[with][tag] = now;
          n_left--;
        }
      }
    }
    for (int f = 0; f < 5; f++)
      if (ends[1][f] + 8 < ends[0][f])   /* each change of rate rounds by at most 1 ps */
        CU_FAIL ("a flow ended earlier");
  }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "a flow alone takes its own time", a_flow_alone_takes_its_own_time },
    { "two flows share and the rest goes faster", two_flows_share_and_the_rest_goes_faster },
    { "resources used alike are one", resources_used_alike_are_one },
    { "more traffic never speeds up a shared link", more_traffic_never_speeds_up_a_shared_link },
    CU_TEST_INFO_NULL
  };
  return testing_main ("flow", tests);
}
