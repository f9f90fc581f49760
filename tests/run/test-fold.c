/* test-fold.c: folded runs against unfolded ones, to the picosecond and the byte; determinism.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/run/fixture.h"
#include "tests/testing.h"

#include <stdio.h>

typedef struct {
  uint32_t seed;
  int      kind;      /* 0: all ranks alike; 1: each owns a part; 2: every second differs */
  int      n_ranks;
  bool     groups;
} Case;

static uint32_t
next_random (uint32_t *state)
{
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

/* A step with everything in it.  Random choices come from the seed, so they are the same on all
 * ranks; what differs by rank is what a rank owns. */
static void
random_plan (ZsPlan *plan, int64_t rank, const void *data)
{
  const Case *c = data;
  uint32_t random = c->seed;
  ZsTensor live[8];
  int n_live = 0;

  for (int step = 1; step <= 2; step++) {
    zs_plan_phase (plan, ZS_PHASE_FORWARD, step, 0, step == 1);
    for (int i = 0; i < 60; i++) {
      uint32_t what = next_random (&random) % 16, amount = next_random (&random);
      int owner = (int) (next_random (&random) % (uint32_t) c->n_ranks);
      bool mine = c->kind == 0 || (c->kind == 1 ? owner == rank : rank % 2 == 0);
      uint8_t stream = (uint8_t) (next_random (&random) % 3);

      zs_plan_set_stream (plan, stream);
      if (what < 5) {
        uint32_t kernel = zs_plan_kernel (plan, &(ZsKernel) {
          .kind = ZS_KERNEL_MATMUL, .n = 1 + amount % (60 * US), .m = amount % 3 * 90,
          .name = "kernel" });

        zs_plan_launch (plan, kernel);
      } else if (what < 8) {
        ZsEvent done = zs_plan_event_new (plan);
        unsigned int communicator = c->groups ? amount % 4 : amount % 2;

        zs_plan_collective (plan, (ZsCollectiveKind) (amount / 4 % 3), communicator,
                            1 + amount % 3000000, done);
        zs_plan_stream_wait_event (plan, (uint8_t) (amount / 64 % 3), done);
        zs_plan_event_free (plan, done);
      } else if (what == 8 && mine) {
        zs_plan_copy (plan, (ZsCopyKind) (amount % 2), 1 + amount % 900000,
                      amount & 256 ? ZS_FLAG_PINNED : 0);
      } else if (what == 9 && mine) {
        zs_plan_copy (plan, (ZsCopyKind) (amount % 2), 1 + amount % 900000, ZS_FLAG_PINNED);
      } else if (what == 10 && mine) {
        zs_plan_cpu_task (plan, ZS_CPU_ADAM, 1 + amount % 300000);
      } else if (what == 11) {
        zs_plan_stream_wait_stream (plan, stream, (stream + 1) % 3);
      } else if (what == 12 && amount % 4 == 0) {
        zs_plan_host_wait_stream (plan, stream);
      } else if (what == 13 && mine) {
        ZsEvent done = zs_plan_event_new (plan);

        zs_plan_nvme (plan, (ZsNvmeKind) (amount % 2), 1 + amount % 300000, done);
        if (amount & 64)
          zs_plan_host_wait_event (plan, done);
        zs_plan_event_free (plan, done);
      } else if (n_live < 8 && amount % 3 != 0) {
        live[n_live++] = zs_plan_alloc (plan, 1 + amount % (20 << 20) + (mine ? 4096 : 0),
                                        (ZsCategory) (amount % 5));
      } else if (n_live > 0) {
        zs_plan_record_stream (plan, live[--n_live], (uint8_t) (amount / 8 % 3));
        zs_plan_unref (plan, live[n_live]);
      }
      if (amount % 7 == 0)
        zs_plan_host (plan, ZS_HOST_HOOK, 1 + amount % 20);
    }
  }
  while (n_live > 0)
    zs_plan_unref (plan, live[--n_live]);
}

static bool
same (const ZsResult *a, const ZsResult *b, uint32_t seed, const char *what)
{
  bool equal = a->step_time_ps == b->step_time_ps && a->outcome == b->outcome
               && a->peak_allocated_bytes == b->peak_allocated_bytes
               && a->peak_reserved_bytes == b->peak_reserved_bytes
               && a->phases->len == b->phases->len && a->live->len == b->live->len
               && a->host_pinned_peak_bytes == b->host_pinned_peak_bytes
               && a->nvme_bytes == b->nvme_bytes;

  for (int w = 0; w < ZS_N_WAITS; w++)
    equal = equal && a->wait_ps[w] == b->wait_ps[w];
  for (guint p = 0; equal && p < a->phases->len; p++) {
    const ZsPhaseResult *x = &g_array_index (a->phases, ZsPhaseResult, p);
    const ZsPhaseResult *y = &g_array_index (b->phases, ZsPhaseResult, p);

    equal = x->start == y->start && x->time == y->time
            && x->end_reserved_bytes == y->end_reserved_bytes
            && x->peak_allocated_bytes == y->peak_allocated_bytes;
  }
  for (guint l = 0; equal && a->links != NULL && l < a->links->len; l++)
    equal = a->links->len == b->links->len
            && g_array_index (a->links, ZsLinkUse, l).bytes
                 == g_array_index (b->links, ZsLinkUse, l).bytes
            && g_array_index (a->links, ZsLinkUse, l).busy
                 == g_array_index (b->links, ZsLinkUse, l).busy;
  if (!equal)
    printf ("# seed %u: %s differs: %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT
            " ps, %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT " bytes\n", seed, what,
            a->step_time_ps, b->step_time_ps, a->peak_reserved_bytes, b->peak_reserved_bytes);
  return equal;
}

static void
compare (const Case *c, Fixture *fixture)
{
  for (int r = 0; r < c->n_ranks; r++) {
    ZsRunOptions options;
    g_autoptr (GError) error = NULL;

    zs_run_options_init (&options);
    options.report_rank = r;
    options.want_links = true;
    g_autoptr (ZsResult) folded = fixture_run (fixture, random_plan, c, &options, &error);

    CU_ASSERT_PTR_NOT_NULL_FATAL (folded);
    options.no_folding = true;
    g_autoptr (ZsResult) unfolded = fixture_run (fixture, random_plan, c, &options, &error);

    CU_ASSERT_PTR_NOT_NULL_FATAL (unfolded);
    if (!same (folded, unfolded, c->seed, "folded against unfolded"))
      CU_FAIL ("differs");
    CU_ASSERT_EQUAL (unfolded->n_distinct_plans, c->n_ranks);
    if (c->kind == 0)
      CU_ASSERT_EQUAL (folded->n_distinct_plans, 1);
    ZsTime sum = 0;

    for (int w = 0; w < ZS_N_WAITS; w++)
      sum += folded->wait_ps[w];
    CU_ASSERT_EQUAL (sum, folded->step_time_ps);
    if (r == 0) {
      g_autoptr (ZsResult) again = fixture_run (fixture, random_plan, c, &options, &error);

      if (!same (again, unfolded, c->seed, "the second time"))
        CU_FAIL ("differs");
    }
  }
}

static void
folded_equals_unfolded (int n_ranks, int node_ranks, int kind, bool groups, int n_seeds)
{
  for (uint32_t seed = 1; seed <= (uint32_t) n_seeds; seed++) {
    Case c = { .seed = seed * 7919, .kind = kind, .n_ranks = n_ranks, .groups = groups };
    Fixture fixture;

    fixture_init (&fixture, n_ranks, node_ranks);
    fixture.bridge = seed % 3 != 0;
    fixture.on_links = seed % 2 != 0;
    fixture.sms = seed % 5 == 0 ? 0 : 20;
    fixture.group_ranks = groups ? node_ranks : 0;
    fixture.machine.wake_cost = seed % 4 == 0 ? 3 * US : 0;
    fixture.machine.launch_depth = seed % 7 == 0 ? 3 : 0;
    compare (&c, &fixture);
  }
}

static void
equal_ranks_fold (void)
{
  folded_equals_unfolded (4, 4, 0, false, 40);
  folded_equals_unfolded (2, 2, 0, false, 20);
}

static void
three_gpus_fold (void)
{
  folded_equals_unfolded (3, 3, 0, false, 30);
}

static void
two_bridges_fold (void)
{
  folded_equals_unfolded (4, 2, 0, false, 20);
  folded_equals_unfolded (4, 2, 0, true, 20);
}

static void
an_uneven_machine_folds_by_place (void)
{
  /* three GPUs, two of them on one bridge */
  folded_equals_unfolded (3, 2, 0, false, 30);
  folded_equals_unfolded (5, 2, 0, true, 10);
}

static void
plans_that_differ_by_owner (void)
{
  folded_equals_unfolded (3, 3, 1, false, 30);
  folded_equals_unfolded (4, 2, 2, false, 20);
  folded_equals_unfolded (6, 3, 2, true, 10);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "equal ranks fold", equal_ranks_fold },
    { "three GPUs fold", three_gpus_fold },
    { "two bridges fold", two_bridges_fold },
    { "an uneven machine folds by place", an_uneven_machine_folds_by_place },
    { "plans that differ by owner", plans_that_differ_by_owner },
    CU_TEST_INFO_NULL
  };
  return testing_main ("fold", tests);
}
