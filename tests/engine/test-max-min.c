/* test-max-min.c: shares against their definition and against a solver that knows no tricks.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/engine/max-min.h"
#include "tests/testing.h"

#include <stdio.h>

enum { MAX_DEMANDS = 12, MAX_RESOURCES = 8 };

typedef struct {
  int n_resources, n_demands;
  ZsRate capacity[MAX_RESOURCES];
  ZsShare shares[MAX_DEMANDS][MAX_RESOURCES];
  ZsDemand demands[MAX_DEMANDS];
} Network;

static uint32_t
next_random (uint32_t *state)
{
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void
random_network (Network *network, uint32_t seed)
{
  uint32_t random = seed;

  network->n_resources = 1 + (int) (next_random (&random) % MAX_RESOURCES);
  network->n_demands = 1 + (int) (next_random (&random) % MAX_DEMANDS);
  for (int r = 0; r < network->n_resources; r++)
    network->capacity[r] = 1000000 + (int64_t) next_random (&random) * 50;
  for (int d = 0; d < network->n_demands; d++) {
    int n = 0;

    for (int r = 0; r < network->n_resources; r++)
      if (next_random (&random) % 3 == 0)
        network->shares[d][n++] = (ZsShare) {
          .resource = r, .weight = 1 + (int32_t) (next_random (&random) % (3 * ZS_SHARE_ONE)) };
    network->demands[d] = (ZsDemand) {
      .shares = network->shares[d], .n_shares = n,
      .limit = 1 + (int64_t) next_random (&random) * (next_random (&random) % 2 ? 5 : 100) };
  }
}

static double
load (const Network *network, int resource)
{
  double sum = 0;

  for (int d = 0; d < network->n_demands; d++)
    for (int k = 0; k < network->demands[d].n_shares; k++)
      if (network->demands[d].shares[k].resource == resource)
        sum += (double) network->demands[d].rate * network->demands[d].shares[k].weight
               / (double) ZS_SHARE_ONE;
  return sum;
}

static void
no_resource_is_overfull_and_every_demand_has_a_reason (void)
{
  ZsMaxMin work = { .room = 0 };

  for (uint32_t seed = 1; seed <= 3000; seed++) {
    Network network;

    random_network (&network, seed);
    zs_max_min (&work, network.capacity, network.n_resources, network.demands, network.n_demands);
    for (int r = 0; r < network.n_resources; r++)
      if (load (&network, r) > (double) network.capacity[r] * (1 + 1e-12)) {
        printf ("# seed %u: resource %d is overfull\n", seed, r);
        CU_FAIL ("overfull");
      }
    /* its own limit, or a full resource where nobody is faster */
    for (int d = 0; d < network.n_demands; d++) {
      const ZsDemand *demand = &network.demands[d];
      bool reason = demand->rate == demand->limit;

      for (int k = 0; k < demand->n_shares && !reason; k++) {
        int r = demand->shares[k].resource;
        bool full = load (&network, r) > (double) network.capacity[r] - 100, fastest = true;

        for (int e = 0; e < network.n_demands; e++)
          for (int j = 0; j < network.demands[e].n_shares; j++)
            if (network.demands[e].shares[j].resource == r
                && network.demands[e].rate > demand->rate + 100)
              fastest = false;
        reason = full && fastest;
      }
      if (!reason) {
        printf ("# seed %u: demand %d could be faster\n", seed, d);
        CU_FAIL ("not max-min");
      }
    }
  }
  zs_max_min_clear (&work);
}

/* All rates rise by small steps until something is full. */
static void
fill_slowly (const Network *network, double *rates)
{
  bool stopped[MAX_DEMANDS] = { false };
  double step = 2e5;

  for (int d = 0; d < network->n_demands; d++)
    rates[d] = 0;
  for (int round = 0; round < 20000; round++) {
    bool any = false;

    for (int d = 0; d < network->n_demands; d++)
      if (!stopped[d]) {
        rates[d] += step;
        any = true;
      }
    if (!any)
      return;
    for (int d = 0; d < network->n_demands; d++)
      if (!stopped[d] && rates[d] >= (double) network->demands[d].limit) {
        stopped[d] = true;
        rates[d] = (double) network->demands[d].limit;
      }
    for (int r = 0; r < network->n_resources; r++) {
      double sum = 0;

      for (int d = 0; d < network->n_demands; d++)
        for (int k = 0; k < network->demands[d].n_shares; k++)
          if (network->demands[d].shares[k].resource == r)
            sum += rates[d] * network->demands[d].shares[k].weight / (double) ZS_SHARE_ONE;
      if (sum < (double) network->capacity[r])
        continue;
      for (int d = 0; d < network->n_demands; d++)
        for (int k = 0; k < network->demands[d].n_shares; k++)
          if (network->demands[d].shares[k].resource == r)
            stopped[d] = true;
    }
  }
}

static void
shares_agree_with_slow_filling (void)
{
  ZsMaxMin work = { .room = 0 };

  for (uint32_t seed = 5000; seed < 5150; seed++) {
    Network network;
    double rates[MAX_DEMANDS];

    random_network (&network, seed);
    zs_max_min (&work, network.capacity, network.n_resources, network.demands, network.n_demands);
    fill_slowly (&network, rates);
    for (int d = 0; d < network.n_demands; d++) {
      double error = rates[d] - (double) network.demands[d].rate;

      /* steps overshoot: each resource is wrong by up to a step of each of its users */
      if (error > 4e6 || error < -4e6 * MAX_DEMANDS) {
        printf ("# seed %u: demand %d %g %g\n", seed, d, rates[d],
                (double) network.demands[d].rate);
        CU_FAIL ("differs");
      }
    }
  }
  zs_max_min_clear (&work);
}

static void
equal_demands_are_one_demand_of_their_weight (void)
{
  ZsMaxMin work = { .room = 0 };
  const ZsRate capacity[] = { 25000000007, 11000000003 };

  for (int n = 1; n <= 8; n++) {
    const ZsShare one[] = { { 0, 65536 }, { 1, 43690 } };
    const ZsShare all[] = { { 0, 65536 * n }, { 1, 43690 * n } };
    const ZsShare other[] = { { 0, 65536 } };
    ZsDemand many[9], few[2];

    for (int i = 0; i < n; i++)
      many[i] = (ZsDemand) { .shares = one, .n_shares = 2, .limit = 12000000000 };
    many[n] = few[1] = (ZsDemand) { .shares = other, .n_shares = 1, .limit = 24000000000 };
    few[0] = (ZsDemand) { .shares = all, .n_shares = 2, .limit = 12000000000 };
    zs_max_min (&work, capacity, 2, many, n + 1);
    zs_max_min (&work, capacity, 2, few, 2);
    for (int i = 0; i < n; i++)
      CU_ASSERT_EQUAL (many[i].rate, few[0].rate);
    CU_ASSERT_EQUAL (many[n].rate, few[1].rate);
  }
  zs_max_min_clear (&work);
}

static void
the_order_of_demands_does_not_matter (void)
{
  ZsMaxMin work = { .room = 0 };

  for (uint32_t seed = 9000; seed < 9500; seed++) {
    Network network, turned;

    random_network (&network, seed);
    turned = network;
    for (int d = 0; d < network.n_demands; d++)
      turned.demands[d] = network.demands[network.n_demands - 1 - d];
    zs_max_min (&work, network.capacity, network.n_resources, network.demands, network.n_demands);
    zs_max_min (&work, turned.capacity, turned.n_resources, turned.demands, turned.n_demands);
    for (int d = 0; d < network.n_demands; d++)
      CU_ASSERT_EQUAL (network.demands[d].rate, turned.demands[network.n_demands - 1 - d].rate);
  }
  zs_max_min_clear (&work);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "no resource is overfull and every demand has a reason",
      no_resource_is_overfull_and_every_demand_has_a_reason },
    { "shares agree with slow filling", shares_agree_with_slow_filling },
    { "equal demands are one demand of their weight",
      equal_demands_are_one_demand_of_their_weight },
    { "the order of demands does not matter", the_order_of_demands_does_not_matter },
    CU_TEST_INFO_NULL
  };
  return testing_main ("max-min", tests);
}
