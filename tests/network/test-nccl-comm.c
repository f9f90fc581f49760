/* test-nccl-comm.c: promises of communicators: bytes, rates, environment, memory.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/network/nccl-comm.h"
#include "tests/network/fixtures.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

typedef struct {
  const char *gpu;
  int         n;
  const char *fabric, *network;
  int         n_nodes;
} Machine;

static const Machine MACHINES[] = {
  { "a100-sxm4-40gb", 8, "nvswitch", NULL, 1 },
  { "h100-sxm5-80gb", 8, "nvswitch", NULL, 1 },
  { "h100-sxm5-80gb", 3, "nvswitch", NULL, 1 },
  { "v100-sxm2-16gb", 8, "nvlink", NULL, 1 },
  { "gh200-96gb", 4, "nvlink", NULL, 1 },
  { "rtx-3090", 2, "nvlink", NULL, 1 },
  { "rtx-3090", 4, "nvlink", NULL, 1 },
  { "rtx-4090", 2, "pcie", NULL, 1 },
  { "rtx-4090", 3, "pcie", NULL, 1 },
  { "rtx-4090", 8, "pcie", NULL, 1 },
  { "rtx-5090", 4, "pcie5-x16-two-sockets", NULL, 1 },
  { "a100-pcie-40gb", 4, "pcie4-x16-switch", NULL, 1 },
  { "v100-pcie-16gb", 2, "pcie3-host-bridge", NULL, 1 },
  { "b200-sxm-180gb", 8, "nvswitch", NULL, 1 },
  { "h100-sxm5-80gb", 8, "nvswitch", "ib-ndr-400", 2 },
  { "a100-sxm4-40gb", 8, "nvswitch", "efa-400", 4 },
  { "a100-pcie-40gb", 1, "pcie4-x16-host-bridge", "tcp-10g", 3 },
  { "rtx-4090", 4, "pcie", "roce-100", 2 },
};

static ZsTopology *
topology_of (const Machine *machine, ZsCpuVendor vendor)
{
  ZsTopology *topology = fixture_topology (machine->gpu, machine->n, machine->fabric, vendor, -1);

  if (machine->network != NULL) {
    g_autofree char *models = fixture_models ();
    ZsNetwork network;

    g_assert_true (zs_network_load (models, machine->network, &network, NULL));
    g_assert_true (zs_topology_connect (topology, machine->n_nodes, &network, NULL));
  }
  return topology;
}

static ZsComm *
comm_of (const ZsTopology *topology, const char *variable)
{
  int64_t ranks[512];
  int n = topology->n_gpus * topology->n_nodes;
  const char *environment[] = { variable, NULL };
  ZsNcclConfig config = { .environment = environment };

  for (int r = 0; r < n; r++)
    ranks[r] = r;
  return zs_comm_new (topology, ranks, n, &config, NULL);
}

static uint64_t
next_random (uint64_t *state)
{
  *state = *state * UINT64_C (6364136223846793005) + UINT64_C (1442695040888963407);
  return *state >> 33;
}

static void
nothing_is_faster_than_its_links (void)
{
  const uint64_t seed = 7;
  uint64_t state = seed;

  for (size_t m = 0; m < G_N_ELEMENTS (MACHINES); m++)
    for (int vendor = ZS_CPU_INTEL; vendor <= ZS_CPU_AMD; vendor++) {
      g_autoptr (ZsTopology) topology = topology_of (&MACHINES[m], (ZsCpuVendor) vendor);
      g_autoptr (ZsComm) comm = comm_of (topology, NULL);

      for (int round = 0; round < 120; round++) {
        ZsCollectiveKind kind = (ZsCollectiveKind) (next_random (&state) % ZS_N_COLLECTIVES);
        int64_t bytes = INT64_C (1) << (next_random (&state) % 34);
        ZsChoice choice;

        bytes += (int64_t) (next_random (&state) % (uint64_t) bytes);
        zs_comm_choose (comm, kind, bytes, &choice);
        CU_ASSERT_TRUE (choice.latency >= 0 && choice.transfer >= 0 && choice.latency + choice.transfer > 0);
        CU_ASSERT_TRUE (choice.channels >= 1 && choice.channels <= 64);
        CU_ASSERT_TRUE (choice.n_loads > 0);
        for (int i = 0; i < choice.n_loads; i++) {
          const ZsLink *link = &topology->links[choice.loads[i].link % topology->n_links];
          double time = (double) choice.transfer / 1e12;
          double sent = (double) bytes * choice.loads[i].weight / ZS_LOAD_ONE;

          CU_ASSERT_TRUE (choice.loads[i].link < topology->n_links * topology->n_nodes);
          if (sent > (double) link->rate * time * (1 + 1e-6) + 1) {
            CU_FAIL ("a link carries more than it can");
            printf ("# seed %d: %s x%d, %s of %" G_GINT64_FORMAT ": %s\n", (int) seed, MACHINES[m].fabric, MACHINES[m].n,
                    zs_collective_name (kind), bytes, link->name);
          }
        }
      }
    }
}

/* What leaves all GPUs of a node, and comes into them, in messages. */
static void
sum_of_gpus (const ZsTopology *topology, const ZsLoadSet *set, double *ret_out, double *ret_in)
{
  *ret_out = *ret_in = 0;
  for (int i = 0; i < set->n; i++) {
    const ZsLink *link = &topology->links[set->loads[i].link % topology->n_links];

    if (link->from == link->to || set->loads[i].link >= topology->n_links)
      continue;
    if (topology->parts[link->from].kind == ZS_PART_GPU)
      *ret_out += (double) set->loads[i].weight / ZS_LOAD_ONE;
    if (topology->parts[link->to].kind == ZS_PART_GPU)
      *ret_in += (double) set->loads[i].weight / ZS_LOAD_ONE;
  }
}

static void
bytes_are_those_of_the_textbook (void)
{
  for (size_t m = 0; m < G_N_ELEMENTS (MACHINES); m++) {
    if (MACHINES[m].n_nodes > 1)
      continue;
    g_autoptr (ZsTopology) topology = topology_of (&MACHINES[m], ZS_CPU_AMD);
    g_autoptr (ZsComm) comm = comm_of (topology, NULL);
    double n = MACHINES[m].n, out, in;
    const struct { ZsCollectiveKind kind; ZsLoadShape shape; double sum; } cases[] = {
      { ZS_COLLECTIVE_ALL_REDUCE, ZS_SHAPE_RING, 2 * (n - 1) },
      { ZS_COLLECTIVE_ALL_GATHER, ZS_SHAPE_RING, n - 1 },
      { ZS_COLLECTIVE_REDUCE_SCATTER, ZS_SHAPE_RING, n - 1 },
      { ZS_COLLECTIVE_ALL_REDUCE, ZS_SHAPE_TREE, 2 * (n - 1) },
      { ZS_COLLECTIVE_ALL_TO_ALL, ZS_SHAPE_RING, n - 1 },
      { ZS_COLLECTIVE_SEND_RECV, ZS_SHAPE_RING, n },
    };

    for (size_t c = 0; c < G_N_ELEMENTS (cases); c++) {
      sum_of_gpus (topology, &comm->loads[cases[c].kind][cases[c].shape], &out, &in);
      CU_ASSERT_DOUBLE_EQUAL (out, in, 0.02);
      /* pairs of the V100 mesh without a link of their own pass over a third GPU, which sends it again */
      bool relayed = strcmp (MACHINES[m].gpu, "v100-sxm2-16gb") == 0 && cases[c].kind >= ZS_COLLECTIVE_ALL_TO_ALL;
      bool good = relayed ? out >= cases[c].sum : fabs (out - cases[c].sum) < 0.02;

      CU_ASSERT_TRUE (good);
      if (!good)
        printf ("# %s x%d %s %s: %.3f messages leave, %.3f expected\n", MACHINES[m].gpu, MACHINES[m].n, MACHINES[m].fabric,
                zs_collective_name (cases[c].kind), out, cases[c].sum);
    }
    if (comm->graphs.nvls.n_channels > 0) {
      sum_of_gpus (topology, &comm->loads[ZS_COLLECTIVE_ALL_REDUCE][ZS_SHAPE_NVLS], &out, &in);
      CU_ASSERT_DOUBLE_EQUAL (out, n + 1, 0.02);
      CU_ASSERT_DOUBLE_EQUAL (in, n + 1, 0.02);
    }
  }
}

/* Between nodes every NIC sends what it receives, and a ring passes its share once. */
static void
networks_carry_the_share (void)
{
  for (size_t m = 0; m < G_N_ELEMENTS (MACHINES); m++) {
    if (MACHINES[m].n_nodes < 2)
      continue;
    g_autoptr (ZsTopology) topology = topology_of (&MACHINES[m], ZS_CPU_AMD);
    g_autoptr (ZsComm) comm = comm_of (topology, NULL);
    const ZsLoadSet *set = &comm->loads[ZS_COLLECTIVE_ALL_GATHER][ZS_SHAPE_RING];
    double sums[2] = { 0, 0 }, n = MACHINES[m].n * MACHINES[m].n_nodes;

    for (int i = 0; i < set->n; i++) {
      const ZsLink *link = &topology->links[set->loads[i].link % topology->n_links];

      if (link->kind == ZS_LINK_NETWORK && set->loads[i].link < topology->n_links)
        sums[g_str_has_suffix (link->name, " in")] += (double) set->loads[i].weight / ZS_LOAD_ONE;
    }
    CU_ASSERT_DOUBLE_EQUAL (sums[0], (n - 1) / n, 0.02);
    CU_ASSERT_DOUBLE_EQUAL (sums[1], (n - 1) / n, 0.02);
  }
}

static void
the_environment_counts (void)
{
  g_autoptr (ZsTopology) linked = fixture_topology ("rtx-3090", 2, "nvlink", ZS_CPU_AMD, -1);
  g_autoptr (ZsTopology) box = fixture_topology ("h100-sxm5-80gb", 8, "nvswitch", ZS_CPU_INTEL, -1);
  g_autoptr (ZsComm) plain = comm_of (linked, NULL);
  g_autoptr (ZsComm) disabled = comm_of (linked, "NCCL_P2P_DISABLE=1");
  g_autoptr (ZsComm) plain_box = comm_of (box, NULL), tree = comm_of (box, "NCCL_ALGO=Tree"), ring = comm_of (box, "NCCL_NVLS_ENABLE=0");
  g_autoptr (ZsComm) simple = comm_of (box, "NCCL_PROTO=^LL,LL128"), few = comm_of (linked, "NCCL_MAX_NCHANNELS=1");
  ZsChoice a, b;

  zs_comm_choose (plain, ZS_COLLECTIVE_ALL_GATHER, 1 << 28, &a);
  zs_comm_choose (disabled, ZS_COLLECTIVE_ALL_GATHER, 1 << 28, &b);
  CU_ASSERT_TRUE (disabled->class == ZS_CLASS_SHM && plain->class == ZS_CLASS_NVLINK_BRIDGE);
  CU_ASSERT_TRUE (b.transfer > 2 * a.transfer);
  zs_comm_choose (few, ZS_COLLECTIVE_ALL_GATHER, 1 << 28, &b);
  CU_ASSERT_EQUAL (b.channels, 1);
  CU_ASSERT_TRUE (b.transfer > a.transfer * 3 / 2);
  zs_comm_choose (tree, ZS_COLLECTIVE_ALL_REDUCE, 1 << 28, &a);
  CU_ASSERT_EQUAL (a.algorithm, ZS_ALGORITHM_TREE);
  zs_comm_choose (ring, ZS_COLLECTIVE_ALL_REDUCE, 1 << 28, &a);
  CU_ASSERT_EQUAL (a.algorithm, ZS_ALGORITHM_RING);
  zs_comm_choose (simple, ZS_COLLECTIVE_ALL_GATHER, 1024, &a);
  CU_ASSERT_EQUAL (a.protocol, ZS_PROTOCOL_SIMPLE);

  /* what leaves nothing for a collective counts as not said: a tree gathers nothing */
  zs_comm_choose (tree, ZS_COLLECTIVE_ALL_GATHER, 1 << 28, &a);
  zs_comm_choose (plain_box, ZS_COLLECTIVE_ALL_GATHER, 1 << 28, &b);
  CU_ASSERT_TRUE (a.algorithm == b.algorithm && a.protocol == b.protocol && a.transfer == b.transfer && a.latency == b.latency);

  static const char *const WRONG[] = { "NCCL_ALGO=Rnig", "NCCL_PROTO=LL129", "NCCL_P2P_LEVEL=SOC", "NCCL_MAX_NCHANNELS=many",
                                       "NCCL_ALGO=CollNetChain", "NCCL_ALGO=CollnetDirect,CollnetChain" };

  for (size_t i = 0; i < G_N_ELEMENTS (WRONG); i++) {
    const char *environment[] = { WRONG[i], NULL };
    ZsNcclConfig config = { .environment = environment };
    int64_t ranks[] = { 0, 1 };
    g_autoptr (GError) error = NULL;

    CU_ASSERT_PTR_NULL (zs_comm_new (linked, ranks, 2, &config, &error));
    CU_ASSERT_PTR_NOT_NULL (error);
  }
}

static void
ideal_fabrics_and_single_ranks_take_no_time (void)
{
  g_autoptr (ZsTopology) ideal = fixture_topology ("a100-sxm4-40gb", 4, "ideal", ZS_CPU_AMD, -1);
  g_autoptr (ZsTopology) one = fixture_topology ("a100-sxm4-40gb", 1, "pcie", ZS_CPU_AMD, -1);
  g_autoptr (ZsComm) a = comm_of (ideal, NULL), b = comm_of (one, NULL);
  ZsChoice choice;

  zs_comm_choose (a, ZS_COLLECTIVE_ALL_REDUCE, 1 << 30, &choice);
  CU_ASSERT_TRUE (choice.latency == 0 && choice.transfer == 0 && choice.n_loads == 0);
  zs_comm_choose (b, ZS_COLLECTIVE_ALL_REDUCE, 1 << 30, &choice);
  CU_ASSERT_TRUE (choice.latency == 0 && choice.transfer == 0 && choice.n_loads == 0);
}

/* A group of some ranks sees its own GPUs only: two of a DGX-1 without NVLink between them. */
static void
groups_are_parts_of_the_machine (void)
{
  g_autoptr (ZsTopology) mesh = fixture_topology ("v100-sxm2-16gb", 8, "nvlink", ZS_CPU_INTEL, -1);
  int64_t near[] = { 0, 3 }, far[] = { 0, 5 }, none[] = { 0, 9 };
  g_autoptr (GError) error = NULL;
  g_autoptr (ZsComm) a = zs_comm_new (mesh, near, 2, NULL, NULL), b = zs_comm_new (mesh, far, 2, NULL, NULL);

  CU_ASSERT_EQUAL (a->class, ZS_CLASS_NVLINK_BRIDGE);
  CU_ASSERT_TRUE (b->class == ZS_CLASS_SHM_SYS || b->class == ZS_CLASS_PCIE_P2P_SYS);
  CU_ASSERT_PTR_NULL (zs_comm_new (mesh, none, 2, NULL, &error));
  CU_ASSERT_PTR_NOT_NULL (error);
}

static void
buffers_take_the_memory_of_their_channels (void)
{
  const int64_t MIB = 1 << 20;
  const unsigned int reduce = 1u << ZS_COLLECTIVE_ALL_REDUCE, gather = 1u << ZS_COLLECTIVE_ALL_GATHER;
  g_autoptr (ZsTopology) pair = fixture_topology ("a100-sxm4-40gb", 2, "nvswitch", ZS_CPU_AMD, -1);
  g_autoptr (ZsTopology) box = fixture_topology ("h100-sxm5-80gb", 8, "nvswitch", ZS_CPU_INTEL, -1);
  int64_t ranks[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
  ZsNcclConfig old = { .version = ZS_VERSION (2, 16, 2) }, newer = { .version = ZS_VERSION (2, 27, 3) };
  g_autoptr (ZsComm) a = zs_comm_new (pair, ranks, 2, &old, NULL), b = zs_comm_new (box, ranks, 8, &newer, NULL);

  /* 24 channels x 12 MiB and the fixed part: measured 544 MB (NVIDIA/nccl#964) */
  CU_ASSERT_EQUAL (zs_comm_gpu_bytes (a, reduce, true), (256 + 4 + 24 * 12) * MIB);
  CU_ASSERT_EQUAL (zs_comm_gpu_bytes (a, 0, true), 0);
  /* NVLS: 16 channels x 2 x 1 MiB x 8 heads more */
  CU_ASSERT_EQUAL (zs_comm_gpu_bytes (b, reduce, false) - zs_comm_gpu_bytes (b, gather, false), 256 * MIB + 24 * 6 * MIB);
}

static void
messages_are_chunks_and_slices (void)
{
  static const struct {
    ZsCollectiveKind kind;
    ZsAlgorithm algorithm;
    ZsProtocol protocol;
    int64_t bytes;
    double messages, size;
  } CASES[] = {
    /* two nodes of four A100 with two NICs: 2 search channels, so 4, two of them through one GPU's proxy */
    { ZS_COLLECTIVE_ALL_GATHER, ZS_ALGORITHM_RING, ZS_PROTOCOL_LL, 16384, 7, 4096 },            /* one channel */
    { ZS_COLLECTIVE_ALL_REDUCE, ZS_ALGORITHM_RING, ZS_PROTOCOL_LL, 1 << 20, 2 * 14, 65536 },    /* a full slot */
    { ZS_COLLECTIVE_ALL_REDUCE, ZS_ALGORITHM_RING, ZS_PROTOCOL_LL, 2 << 20, 2 * 2 * 14, 65536 },/* two loops */
    { ZS_COLLECTIVE_ALL_GATHER, ZS_ALGORITHM_RING, ZS_PROTOCOL_SIMPLE, 2 << 20, 2 * 7 * 2, 32768 },
    { ZS_COLLECTIVE_REDUCE_SCATTER, ZS_ALGORITHM_RING, ZS_PROTOCOL_SIMPLE, 64 << 20, 2 * 7 * 2, 1 << 20 },
    { ZS_COLLECTIVE_REDUCE_SCATTER, ZS_ALGORITHM_RING, ZS_PROTOCOL_SIMPLE, 256 << 20, 2 * 7 * 2 * 4, 1 << 20 },
    { ZS_COLLECTIVE_BROADCAST, ZS_ALGORITHM_RING, ZS_PROTOCOL_SIMPLE, 4 << 20, 2 * 2, 524288 },
    { ZS_COLLECTIVE_ALL_REDUCE, ZS_ALGORITHM_TREE, ZS_PROTOCOL_LL, 4096, 1, 8192 },
    { ZS_COLLECTIVE_ALL_REDUCE, ZS_ALGORITHM_NVLS_TREE, ZS_PROTOCOL_SIMPLE, 4096, 0, 0 },
  };
  g_autofree char *models = fixture_models ();
  g_autoptr (ZsTopology) topology = fixture_topology ("a100-sxm4-40gb", 4, "nvlink", ZS_CPU_AMD, -1);
  ZsNetwork network;

  CU_ASSERT_TRUE_FATAL (zs_network_load (models, "slingshot-200", &network, NULL));
  network.nics = 2;
  CU_ASSERT_TRUE_FATAL (zs_topology_connect (topology, 2, &network, NULL));
  g_autoptr (ZsComm) comm = comm_of (topology, NULL);

  for (size_t i = 0; i < G_N_ELEMENTS (CASES); i++) {
    double size, n = zs_nccl_messages (comm, CASES[i].kind, CASES[i].algorithm, CASES[i].protocol, CASES[i].bytes, &size);

    CU_ASSERT_EQUAL (n, CASES[i].messages);
    CU_ASSERT_EQUAL (size, CASES[i].size);
  }
}

static void
names_go_both_ways (void)
{
  for (int kind = 0; kind < ZS_N_COLLECTIVES; kind++) {
    ZsCollectiveKind back = ZS_N_COLLECTIVES;

    CU_ASSERT_TRUE (zs_collective_from_name (zs_collective_name ((ZsCollectiveKind) kind), &back));
    CU_ASSERT_EQUAL ((int) back, kind);
  }
  ZsCollectiveKind kind;

  CU_ASSERT_TRUE (zs_collective_from_name ("all-reduce", &kind) && kind == ZS_COLLECTIVE_ALL_REDUCE);
  CU_ASSERT_TRUE (zs_collective_from_name ("all_to_all", &kind) && kind == ZS_COLLECTIVE_ALL_TO_ALL);
  CU_ASSERT_FALSE (zs_collective_from_name ("gossip", &kind));
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "nothing is faster than its links", nothing_is_faster_than_its_links },
    { "GPUs send and receive the bytes of the textbook", bytes_are_those_of_the_textbook },
    { "networks carry the ring's share each way", networks_carry_the_share },
    { "the environment counts, and wrong values are refused", the_environment_counts },
    { "ideal fabrics and single ranks take no time", ideal_fabrics_and_single_ranks_take_no_time },
    { "groups see their own part of the machine", groups_are_parts_of_the_machine },
    { "buffers take the memory of their channels", buffers_take_the_memory_of_their_channels },
    { "messages between nodes are chunks and slices", messages_are_chunks_and_slices },
    { "names of collectives go both ways", names_go_both_ways },
    CU_TEST_INFO_NULL
  };
  return testing_main ("nccl-comm", tests);
}
