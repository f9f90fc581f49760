/* test-contention.c: collectives, copies and CPU work that share the links of real topologies.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/engine/max-min.h"
#include "sim/run/cluster.h"
#include "tests/network/fixtures.h"
#include "tests/run/fixture.h"
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GIB (INT64_C (1) << 30)

/* ---- runs on a real topology ---- */

typedef struct {
  ZsGpu       gpu;
  ZsHost      host;
  ZsTopology *topology;
  ZsCluster  *cluster;
  Fixture     fixture;
} Box;

/* N GPUs on FABRIC, MEMORY_RATE (0: as known) of host memory, two NODES if NETWORK is given. */
static void
box_init (Box *box, const char *gpu, int n, const char *fabric, ZsRate memory_rate, const char *network)
{
  g_autofree char *models = fixture_models ();
  g_autoptr (GError) error = NULL;

  memset (box, 0, sizeof *box);
  box->gpu = *fixture_gpu (gpu);
  box->gpu.sm_count = 108;
  box->gpu.memory_bytes = 40 * GIB;
  box->gpu.memory_rate = INT64_C (1500000000000);
  box->host = (ZsHost) { .vendor = ZS_CPU_AMD, .cores = 64, .sockets = 1, .memory_rate = memory_rate, .speed = 1 };
  ZsTopologyOptions options = { .gpu = &box->gpu, .n_gpus = n, .host = &box->host, .peer_access = -1 };

  box->topology = zs_topology_from_fabric (models, fabric, &options, &error);
  if (box->topology == NULL)
    g_error ("%s", error->message);
  if (network != NULL) {
    ZsNetwork between;

    if (!zs_network_load (models, network, &between, &error)
        || !zs_topology_connect (box->topology, 2, &between, &error))
      g_error ("%s", error->message);
  }
  ZsClusterSpec spec = { .gpu = &box->gpu, .host = &box->host, .topology = box->topology };

  box->cluster = zs_cluster_new (&spec, &error);
  if (box->cluster == NULL)
    g_error ("%s", error->message);
  box->fixture.machine = *zs_cluster_machine (box->cluster);
}

static void
box_clear (Box *box)
{
  zs_cluster_free (box->cluster);
  zs_topology_free (box->topology);
}

/* What each rank does at once. */
typedef struct {
  int64_t out, in;            /* bytes copied to and from the host ... */
  int64_t copying;            /* ... by ranks below this one */
  int64_t reduce;             /* bytes of an all-reduce of all */
  int64_t adam;               /* elements of a CPU Adam of every rank */
} Work;

static void
script (ZsPlan *plan, int64_t rank, const void *data)
{
  const Work *work = data;

  begin_step (plan, 1);
  if (work->reduce > 0) {
    zs_plan_set_stream (plan, ZS_STREAM_REDUCE);
    zs_plan_collective (plan, ZS_COLLECTIVE_ALL_REDUCE, 0, work->reduce, ZS_NO_EVENT);
  }
  if (rank < work->copying && work->out > 0) {
    zs_plan_set_stream (plan, ZS_STREAM_COPY);
    zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, work->out, ZS_FLAG_PINNED);
  }
  if (rank < work->copying && work->in > 0) {
    zs_plan_set_stream (plan, ZS_STREAM_OTHER);
    zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, work->in, ZS_FLAG_PINNED);
  }
  zs_plan_set_stream (plan, ZS_STREAM_COMPUTE);
  if (work->adam > 0)
    zs_plan_cpu_task (plan, ZS_CPU_ADAM, work->adam);
  zs_plan_phase (plan, ZS_PHASE_OPTIMIZER, 1, 0, true);
}

/* Seconds of the first span on TRACK of the reported rank; 0: none. */
static double
span_of (Box *box, const Work *work, int track, ZsResult **ret_result)
{
  ZsRunOptions options;
  g_autoptr (GError) error = NULL;

  zs_run_options_init (&options);
  options.want_spans = options.want_links = true;
  options.report_rank = 0;
  ZsResult *result = fixture_run (&box->fixture, script, work, &options, &error);
  double seconds = 0;

  if (result == NULL)
    g_error ("%s", error->message);
  for (guint i = 0; i < result->spans->len; i++) {
    const ZsSpan *span = &g_array_index (result->spans, ZsSpan, i);

    if (span->rank == 0 && span->track == track && seconds == 0)
      seconds = zs_time_to_seconds (span->end - span->start);
  }
  if (ret_result != NULL)
    *ret_result = result;
  else
    zs_result_free (result);
  return seconds;
}

static bool
near (double value, double expected, double tolerance)
{
  if (fabs (value / expected - 1) <= tolerance)
    return true;
  printf ("# %.6g, expected %.6g\n", value, expected);
  return false;
}

static double
link_rate (const Box *box, ZsLinkKind kind, const char *name)
{
  for (int l = 0; l < box->topology->n_links; l++)
    if (box->topology->links[l].kind == kind && (name == NULL || strcmp (box->topology->links[l].name, name) == 0))
      return (double) box->topology->links[l].rate;
  g_error ("no such link: %s", name != NULL ? name : "");
}

static void
two_gpus_that_offload_share_their_uplink (void)
{
  const double latency = 4e-6;   /* of a pinned copy */
  Work one = { .out = GIB, .copying = 1 }, both = { .out = GIB, .copying = 2 };
  Box box;

  /* below one switch: both cross its link to the CPU */
  box_init (&box, "a100-pcie-40gb", 2, "pcie4-x16-switch", 0, NULL);
  double uplink = link_rate (&box, ZS_LINK_PCIE, "switch 0 > NUMA 0");

  CU_ASSERT_TRUE (near (span_of (&box, &one, ZS_TRACK_COPY_OUT, NULL), latency + (double) GIB / uplink, 1e-4));
  CU_ASSERT_TRUE (near (span_of (&box, &both, ZS_TRACK_COPY_OUT, NULL), latency + 2 * (double) GIB / uplink, 1e-4));
  box_clear (&box);
  /* below one host bridge: each has its own link, and host memory is what both fill */
  box_init (&box, "a100-pcie-40gb", 2, "pcie4-x16-host-bridge", INT64_C (40000000000), NULL);
  double own = link_rate (&box, ZS_LINK_PCIE, "GPU0 > NUMA 0"), memory = link_rate (&box, ZS_LINK_MEMORY, NULL);

  CU_ASSERT_TRUE (own < memory && memory < 2 * own);
  CU_ASSERT_TRUE (near (span_of (&box, &one, ZS_TRACK_COPY_OUT, NULL), latency + (double) GIB / own, 1e-4));
  CU_ASSERT_TRUE (near (span_of (&box, &both, ZS_TRACK_COPY_OUT, NULL), latency + 2 * (double) GIB / memory, 1e-4));
  box_clear (&box);
  /* with a server's memory they do not meet */
  box_init (&box, "a100-pcie-40gb", 2, "pcie4-x16-host-bridge", 0, NULL);
  CU_ASSERT_TRUE (near (span_of (&box, &both, ZS_TRACK_COPY_OUT, NULL), latency + (double) GIB / own, 1e-4));
  box_clear (&box);
}

static void
both_directions_of_one_gpu_share_its_link (void)
{
  Work both = { .out = GIB, .in = GIB, .copying = 1 };
  Box box;

  box_init (&box, "a100-pcie-40gb", 2, "pcie4-x16-host-bridge", 0, NULL);
  double duplex = link_rate (&box, ZS_LINK_DUPLEX, "GPU0 duplex");

  CU_ASSERT_TRUE (near (span_of (&box, &both, ZS_TRACK_COPY_OUT, NULL), 4e-6 + 2 * (double) GIB / duplex, 1e-3));
  box_clear (&box);
}

static void
collectives_and_offload_slow_each_other_where_they_meet (void)
{
  static const struct { const char *gpu, *fabric, *network; int n; bool meet; } CASES[] = {
    { "a100-pcie-40gb", "pcie4-x16-host-bridge", NULL, 2, true },     /* peers over the CPU: the GPU's own link */
    { "rtx-4090", "pcie4-x16-host-bridge", NULL, 2, true },           /* through host memory */
    { "rtx-4090", "pcie4-x16-two-sockets", NULL, 4, true },           /* and the other socket */
    { "a100-sxm4-40gb", "nvswitch", NULL, 8, false },                 /* NVLink: nothing in common */
    { "a100-pcie-40gb", "pcie4-x16-switch", "ib-hdr-200", 1, true },  /* NIC and GPU below one switch: the GPU's link */
    { "a100-pcie-40gb", "pcie4-x16-switch", "tcp-10g", 1, true },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (CASES); i++) {
    Box box;
    Work copy = { .out = GIB, .in = GIB, .copying = 64 }, reduce = { .reduce = GIB };
    Work all = { .out = GIB, .in = GIB, .copying = 64, .reduce = GIB };

    box_init (&box, CASES[i].gpu, CASES[i].n, CASES[i].fabric, 0, CASES[i].network);
    double alone = span_of (&box, &copy, ZS_TRACK_COPY_OUT, NULL), with = span_of (&box, &all, ZS_TRACK_COPY_OUT, NULL);
    double ring = span_of (&box, &reduce, ZS_TRACK_COLLECTIVE, NULL), beside = span_of (&box, &all, ZS_TRACK_COLLECTIVE, NULL);

    if (CASES[i].meet ? with < alone * 1.01 && beside < ring * 1.01 : with > alone * 1.001 || beside > ring * 1.001) {
      printf ("# %s %s: copy %.4f s alone, %.4f s beside; all-reduce %.4f and %.4f\n", CASES[i].gpu, CASES[i].fabric, alone,
              with, ring, beside);
      CU_FAIL ("contention is not where it should be");
    }
    CU_ASSERT_TRUE (with >= alone * 0.999 && beside >= ring * 0.999);
    box_clear (&box);
  }
}

static void
cpu_adam_and_copies_share_host_memory (void)
{
  Work copy = { .out = 4 * GIB, .copying = 2 }, adam = { .adam = GIB }, all = { .out = 4 * GIB, .copying = 2, .adam = GIB };
  Box box;

  box_init (&box, "a100-pcie-40gb", 2, "pcie4-x16-host-bridge", INT64_C (60000000000), NULL);
  double alone = span_of (&box, &copy, ZS_TRACK_COPY_OUT, NULL), with = span_of (&box, &all, ZS_TRACK_COPY_OUT, NULL);
  double update = span_of (&box, &adam, ZS_TRACK_CPU, NULL), beside = span_of (&box, &all, ZS_TRACK_CPU, NULL);

  CU_ASSERT_TRUE (with > alone * 1.05);
  CU_ASSERT_TRUE (beside > update * 1.05);
  box_clear (&box);
}

static void
bytes_on_links_are_those_that_were_sent (void)
{
  Work work = { .out = GIB, .in = GIB / 2, .copying = 2 };
  ZsResult *result;
  Box box;
  int n_checked = 0;

  box_init (&box, "a100-pcie-40gb", 2, "pcie4-x16-switch", 0, NULL);
  span_of (&box, &work, ZS_TRACK_COPY_OUT, &result);
  for (guint i = 0; i < result->links->len; i++) {
    const ZsLinkUse *use = &g_array_index (result->links, ZsLinkUse, i);
    static const struct { const char *name; double bytes; } EXPECTED[] = {
      { "GPU0 > switch 0", 1 }, { "switch 0 > GPU0", 0.5 }, { "switch 0 > NUMA 0", 2 }, { "NUMA 0 > switch 0", 1 },
      { "NUMA 0 memory", 3 }, { "GPU1 duplex", 1.5 },
    };

    for (size_t k = 0; k < G_N_ELEMENTS (EXPECTED); k++)
      if (strcmp (use->name, EXPECTED[k].name) == 0) {
        n_checked++;
        if (!near ((double) use->bytes, EXPECTED[k].bytes * GIB, 1e-6))
          CU_FAIL ("bytes are lost or made up");
        /* nor faster than the link */
        CU_ASSERT_TRUE ((double) use->bytes <= (double) use->rate * zs_time_to_seconds (use->busy) * (1 + 1e-9) + 1);
      }
  }
  CU_ASSERT_EQUAL (n_checked, 6);
  zs_result_free (result);
  box_clear (&box);
}

/* ---- shares on random real topologies, against a solver that knows no tricks ---- */

enum { MAX_ACTIVITIES = 10, MAX_SHARES = 600 };

typedef struct {
  const ZsRate *capacity;
  int           n_resources, n;
  ZsDemand      demands[MAX_ACTIVITIES];
  GArray       *shares[MAX_ACTIVITIES];
} Traffic;

static void
add_activity (Traffic *traffic, const ZsMachine *machine, GRand *random)
{
  int64_t rank = g_rand_int_range (random, 0, (gint32) machine->n_ranks);
  int64_t bytes = INT64_C (1) << g_rand_int_range (random, 20, 31);
  int what = g_rand_int_range (random, 0, 4);
  ZsTransfer transfer = { .shares = g_array_new (FALSE, FALSE, sizeof (ZsShare)) };

  if (what == 0)
    machine->collective (machine->self, 0, 0, (ZsCollectiveKind) g_rand_int_range (random, 0, ZS_N_COLLECTIVES), bytes, &transfer);
  else if (what == 3)
    machine->cpu_task (machine->self, rank, ZS_CPU_ADAM, bytes / 4, &transfer);
  else
    machine->copy (machine->self, rank, what == 1 ? ZS_COPY_HOST_TO_GPU : ZS_COPY_GPU_TO_HOST, bytes, true, &transfer);
  g_assert (transfer.transfer > 0);
  int d = traffic->n++;

  traffic->shares[d] = transfer.shares;
  traffic->demands[d] = (ZsDemand) { .shares = (const ZsShare *) (void *) transfer.shares->data,
                                     .n_shares = (int32_t) transfer.shares->len,
                                     .limit = (ZsRate) fmax (1, (double) transfer.bytes / zs_time_to_seconds (transfer.transfer)) };
}

static double
load_of (const Traffic *traffic, int resource, const double *rates, int without)
{
  double sum = 0;

  for (int d = 0; d < traffic->n; d++)
    for (int k = 0; d != without && k < traffic->demands[d].n_shares; k++)
      if (traffic->demands[d].shares[k].resource == resource)
        sum += rates[d] * traffic->demands[d].shares[k].weight / (double) ZS_SHARE_ONE;
  return sum;
}

/* All rates rise together; what is full or at its limit stops.  The next event is found from scratch every time. */
static void
fill (const Traffic *traffic, double *rates)
{
  bool stopped[MAX_ACTIVITIES] = { false };

  for (int d = 0; d < traffic->n; d++)
    rates[d] = 0;
  for (;;) {
    double step = INFINITY;
    bool any = false;

    for (int d = 0; d < traffic->n; d++)
      if (!stopped[d]) {
        step = fmin (step, (double) traffic->demands[d].limit - rates[d]);
        any = true;
      }
    if (!any)
      return;
    for (int r = 0; r < traffic->n_resources; r++) {
      double rising = 0;

      for (int d = 0; d < traffic->n; d++)
        for (int k = 0; !stopped[d] && k < traffic->demands[d].n_shares; k++)
          if (traffic->demands[d].shares[k].resource == r)
            rising += traffic->demands[d].shares[k].weight / (double) ZS_SHARE_ONE;
      if (rising > 0)
        step = fmin (step, fmax (0, ((double) traffic->capacity[r] - load_of (traffic, r, rates, -1)) / rising));
    }
    for (int d = 0; d < traffic->n; d++)
      if (!stopped[d])
        rates[d] += step;
    for (int d = 0; d < traffic->n; d++) {
      stopped[d] |= rates[d] >= (double) traffic->demands[d].limit * (1 - 1e-12);
      for (int k = 0; k < traffic->demands[d].n_shares; k++) {
        int r = traffic->demands[d].shares[k].resource;

        stopped[d] |= load_of (traffic, r, rates, -1) >= (double) traffic->capacity[r] * (1 - 1e-9);
      }
    }
  }
}

static void
shares_on_real_machines_are_max_min (void)
{
  static const struct { const char *gpu, *fabric, *network; int n; } BOXES[] = {
    { "a100-pcie-40gb", "pcie4-x16-switch", NULL, 4 }, { "rtx-4090", "pcie4-x16-two-sockets", NULL, 6 },
    { "a100-sxm4-40gb", "nvswitch", NULL, 8 }, { "h100-sxm5-80gb", "nvswitch", "ib-ndr-400", 8 },
    { "rtx-3090", "nvlink-bridge", "tcp-10g", 4 }, { "gh200-96gb", "nvlink-mesh-gh200", "slingshot-200", 4 },
    { "v100-sxm2-16gb", "nvlink-mesh-v100", NULL, 8 }, { "t4", "pcie3-x16-host-bridge", "efa-100", 2 },
  };
  ZsMaxMin work = { .room = 0 };

  for (size_t b = 0; b < G_N_ELEMENTS (BOXES); b++) {
    Box box;

    box_init (&box, BOXES[b].gpu, BOXES[b].n, BOXES[b].fabric, b % 2 ? INT64_C (50000000000) : 0, BOXES[b].network);
    for (unsigned int seed = 1; seed <= 25; seed++) {
      g_autoptr (GRand) random = g_rand_new_with_seed (seed + 1000 * (unsigned int) b);
      const ZsMachine *machine = zs_cluster_machine (box.cluster);
      Traffic traffic = { .capacity = machine->capacities, .n_resources = machine->n_resources };
      double rates[MAX_ACTIVITIES], found[MAX_ACTIVITIES], first = 0;
      int n = g_rand_int_range (random, 2, MAX_ACTIVITIES + 1);
      bool good = true;

      for (int i = 0; i < n; i++) {
        add_activity (&traffic, machine, random);
        zs_max_min (&work, traffic.capacity, traffic.n_resources, traffic.demands, traffic.n);
        if (i == 0)
          first = (double) traffic.demands[0].rate;
        else if (i == 1 && (double) traffic.demands[0].rate > first) {   /* with two there is no third to make room */
          printf ("# box %zu, seed %u: a second activity speeds up the first\n", b, seed);
          good = false;
        }
      }
      fill (&traffic, rates);
      for (int d = 0; d < n; d++) {
        found[d] = (double) traffic.demands[d].rate;
        if (fabs (found[d] / rates[d] - 1) > 1e-5) {
          printf ("# box %zu, seed %u: activity %d at %.6g, not %.6g\n", b, seed, d, found[d], rates[d]);
          good = false;
        }
      }
      for (int r = 0; r < traffic.n_resources; r++)
        if (load_of (&traffic, r, found, -1) > (double) traffic.capacity[r] * (1 + 1e-9)) {
          printf ("# box %zu, seed %u: resource %d is above its rate\n", b, seed, r);
          good = false;
        }
      /* on a link that all share, a further activity slows every one or none */
      if (!good)
        CU_FAIL ("shares are not max-min fair");
      for (int d = 0; d < n; d++)
        g_array_unref (traffic.shares[d]);
    }
    box_clear (&box);
  }
  zs_max_min_clear (&work);
}

static void
a_further_activity_on_a_shared_link_slows (void)
{
  Box box;
  ZsMaxMin work = { .room = 0 };

  box_init (&box, "rtx-4090", 4, "pcie4-x16-switch", INT64_C (90000000000), NULL);
  const ZsMachine *machine = zs_cluster_machine (box.cluster);
  Traffic traffic = { .capacity = machine->capacities, .n_resources = machine->n_resources };
  ZsRate before = INT64_MAX;

  /* copies to the host of GPU after GPU: all cross the switch's uplink */
  for (int64_t gpu = 0; gpu < 4; gpu++) {
    ZsTransfer transfer = { .shares = g_array_new (FALSE, FALSE, sizeof (ZsShare)) };

    machine->copy (machine->self, gpu, ZS_COPY_GPU_TO_HOST, GIB, true, &transfer);
    traffic.shares[gpu] = transfer.shares;
    traffic.demands[traffic.n++] = (ZsDemand) { .shares = (const ZsShare *) (void *) transfer.shares->data,
                                                .n_shares = (int32_t) transfer.shares->len, .limit = INT64_C (1) << 40 };
    zs_max_min (&work, traffic.capacity, traffic.n_resources, traffic.demands, traffic.n);
    for (int d = 0; d < traffic.n; d++) {
      CU_ASSERT_TRUE (traffic.demands[d].rate < before);
      CU_ASSERT_TRUE (near ((double) traffic.demands[d].rate, link_rate (&box, ZS_LINK_PCIE, "switch 0 > NUMA 0") / traffic.n, 1e-6));
    }
    before = traffic.demands[0].rate;
  }
  for (int d = 0; d < traffic.n; d++)
    g_array_unref (traffic.shares[d]);
  zs_max_min_clear (&work);
  box_clear (&box);
}

int
main (void)
{
  static const CU_TestInfo TESTS[] = {
    { "two GPUs that offload share their uplink", two_gpus_that_offload_share_their_uplink },
    { "both directions of one GPU share its link", both_directions_of_one_gpu_share_its_link },
    { "collectives and offload slow each other where they meet", collectives_and_offload_slow_each_other_where_they_meet },
    { "CPU Adam and copies share host memory", cpu_adam_and_copies_share_host_memory },
    { "bytes on links are those that were sent", bytes_on_links_are_those_that_were_sent },
    { "shares on real machines are max-min", shares_on_real_machines_are_max_min },
    { "a further activity on a shared link slows all", a_further_activity_on_a_shared_link_slows },
    CU_TEST_INFO_NULL,
  };
  return testing_main ("contention", TESTS);
}
