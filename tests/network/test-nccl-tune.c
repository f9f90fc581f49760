/* test-nccl-tune.c: NCCL's estimates and choices, against values of its own model.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/network/nccl-tune.h"
#include "tests/network/fixtures.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

/* Splits one line of CSV in place; quotes around fields with commas. */
static int
split (char *line, char **fields, int room)
{
  int n = 0;

  for (char *at = line; n < room; n++) {
    if (*at == '"') {
      fields[n] = ++at;
      at = strchr (at, '"');
      *at++ = '\0';
    }
    else {
      fields[n] = at;
      at += strcspn (at, ",\n");
    }
    if (*at == '\0' || *at == '\n') {
      *at = '\0';
      return n + 1;
    }
    *at++ = '\0';
  }
  return n;
}

static ZsNcclGraph
graph_of (ZsNcclPattern pattern, const char *n, const char *intra, const char *inter, bool nvlink)
{
  ZsNcclGraph graph = { .pattern = pattern, .n_channels = atoi (n), .rate_intra = g_ascii_strtod (intra, NULL) };

  graph.rate_inter = inter != NULL ? g_ascii_strtod (inter, NULL) : graph.rate_intra;
  graph.type_intra = nvlink ? ZS_PATH_NVLINK : ZS_PATH_PHB;
  graph.same_channels = true;
  return graph;
}

static void
examples_of_the_model_are_met (void)
{
  static const char *const ALGORITHMS[] = { "TREE", "RING", "", "", "NVLS" };
  static const char *const PROTOCOLS[] = { "LL", "LL128", "SIMPLE" };
  g_autofree char *path = testing_source_path ("tests/data/network/nccl-model-examples.csv");
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;
  int n_rows = 0, n_wrong = 0, n_chosen = 0;

  g_file_get_contents (path, &text, NULL, &error);
  CU_ASSERT_PTR_NOT_NULL_FATAL (text);
  for (char *line = strchr (text, '\n') + 1, *next; *line != '\0'; line = next) {
    char *f[24];

    next = line + strcspn (line, "\n");
    if (*next == '\n')
      *next++ = '\0';
    if (split (line, f, 24) < 18)
      continue;
    ZsNcclEnvironment environment;
    bool nvlink = strstr (f[0], "NV") != NULL && strstr (f[0], "NVIDIA") == NULL;
    ZsNcclGraph ring = graph_of (ZS_PATTERN_RING, f[3], f[4], NULL, nvlink);
    ZsNcclGraph tree = graph_of (ZS_PATTERN_BALANCED_TREE, f[5], f[6], NULL, nvlink);
    ZsNcclGraph nvls = graph_of (ZS_PATTERN_NVLS, f[7], f[8], f[9], nvlink);
    ZsCollectiveKind kind;
    ZsNcclTuning tuning;

    zs_nccl_environment (0, NULL, &environment, NULL);
    ZsNcclTuneInput input = { .environment = &environment, .n_ranks = atoi (f[1]), .n_nodes = 1,
                              .min_capability = atoi (f[2]), .max_capability = atoi (f[2]), .x86 = true,
                              .amd = strstr (f[0], "AMD") != NULL, .ring = &ring, .tree = &tree, .nvls = &nvls };

    CU_ASSERT_TRUE_FATAL (zs_collective_from_name (f[10], &kind));
    zs_nccl_tune (&input, kind, &tuning);
    int64_t bytes = g_ascii_strtoll (f[11], NULL, 10);
    int algorithm = 0, protocol = 0;

    while (strcmp (ALGORITHMS[algorithm], f[12]) != 0)
      algorithm++;
    while (strcmp (PROTOCOLS[protocol], f[13]) != 0)
      protocol++;
    double time = zs_nccl_time (&input, &tuning, kind, (ZsAlgorithm) algorithm, (ZsProtocol) protocol, bytes);
    double expected = g_ascii_strtod (f[16], NULL), best;
    ZsAlgorithm a;
    ZsProtocol p;
    bool there = zs_nccl_choose (&input, &tuning, kind, bytes, &a, &p, &best);
    bool chosen = there && (int) a == algorithm && (int) p == protocol;
    bool good = fabs (time - expected) <= 0.01 * expected && chosen == (f[17][0] == '1');

    n_rows++;
    n_chosen += chosen;
    if (!good && n_wrong++ < 12)
      printf ("# %s %s %s %s %s: %.3f us, chosen %d; expected %.3f, chosen %s\n", f[0], f[10], f[11], f[12], f[13], time,
              chosen, expected, f[17]);
  }
  CU_ASSERT_EQUAL (n_rows, 957);
  CU_ASSERT_EQUAL (n_wrong, 0);
  printf ("# %d rows, %d chosen, %d wrong\n", n_rows, n_chosen, n_wrong);
}

/* From topology to time: what NCCL 2.30.7 says of these machines, in us, with the choice. */
typedef struct {
  const char *gpu;
  int         n;
  const char *fabric;
  ZsCpuVendor vendor;
  ZsCollectiveKind kind;
  double      time[5];            /* 64 KiB, 1 MiB, 16 MiB, 256 MiB, 1 GiB */
  const char *choice[5];
} Worked;

static const Worked WORKED[] = {
#define AG ZS_COLLECTIVE_ALL_GATHER
#define AR ZS_COLLECTIVE_ALL_REDUCE
  { "a100-pcie-40gb", 2, "nvlink-bridge", ZS_CPU_AMD, AG, { 7.6, 13.2, 46.8, 571.0, 2248.8 }, { "rl", "rl", "rs", "rs", "rs" } },
  { "a100-pcie-40gb", 2, "nvlink-bridge", ZS_CPU_AMD, AR, { 8.5, 19.6, 85.1, 1133.7, 4489.1 }, { "rl", "rs", "rs", "rs", "rs" } },
  { "a100-sxm4-40gb", 4, "nvswitch", ZS_CPU_AMD, AG, { 9.0, 17.4, 71.0, 857.5, 3374.0 }, { "rl", "rl", "rs", "rs", "rs" } },
  { "a100-sxm4-40gb", 4, "nvswitch", ZS_CPU_AMD, AR, { 11.3, 28.1, 133.7, 1706.5, 6739.7 }, { "rl", "rl", "rs", "rs", "rs" } },
  { "a100-sxm4-40gb", 8, "nvswitch", ZS_CPU_AMD, AG, { 11.5, 21.3, 93.4, 1010.9, 3946.9 }, { "rl", "rl", "rs", "rs", "rs" } },
  { "a100-sxm4-40gb", 8, "nvswitch", ZS_CPU_AMD, AR, { 16.3, 35.9, 173.6, 2013.3, 7885.4 }, { "rl", "rl", "r1", "rs", "rs" } },
  { "h100-sxm5-80gb", 8, "nvswitch", ZS_CPU_INTEL, AG, { 11.2, 17.3, 71.6, 684.6, 2642.0 }, { "rl", "rl", "r1", "rs", "rs" } },
  { "h100-sxm5-80gb", 8, "nvswitch", ZS_CPU_INTEL, AR, { 15.8, 28.0, 86.7, 1011.9, 3972.6 }, { "rl", "rl", "ns", "ns", "ns" } },
  { "a100-pcie-40gb", 2, "pcie4-x16-host-bridge", ZS_CPU_AMD, AG, { 10.3, 35.9, 363.6, 5606.5, 22383.7 }, { "rl", "rs", "rs", "rs", "rs" } },
  { "a100-pcie-40gb", 2, "pcie4-x16-host-bridge", ZS_CPU_AMD, AR, { 14.1, 63.5, 718.9, 11204.6, 44759.0 }, { "rl", "rs", "rs", "rs", "rs" } },
  { "a100-pcie-40gb", 2, "pcie4-x16-host-bridge", ZS_CPU_INTEL, AG, { 10.9, 40.3, 433.5, 6725.0, 26857.6 }, { "rl", "rs", "rs", "rs", "rs" } },
  { "a100-pcie-40gb", 2, "pcie4-x16-host-bridge", ZS_CPU_INTEL, AR, { 15.2, 72.2, 858.7, 13441.6, 53706.9 }, { "rl", "rs", "rs", "rs", "rs" } },
  { "rtx-4090", 4, "pcie4-x16-host-bridge", ZS_CPU_AMD, AG, { 13.7, 58.3, 549.8, 8414.1, 33579.9 }, { "rl", "rs", "rs", "rs", "rs" } },
  { "rtx-4090", 4, "pcie4-x16-host-bridge", ZS_CPU_AMD, AR, { 20.8, 108.1, 1091.2, 16819.8, 67151.5 }, { "rl", "rs", "rs", "rs", "rs" } },
  { "rtx-3090", 2, "nvlink", ZS_CPU_AMD, AG, { 8.8, 24.9, 221.5, 3367.2, 13433.6 }, { "rl", "rs", "rs", "rs", "rs" } },
  { "rtx-3090", 2, "nvlink", ZS_CPU_AMD, AR, { 11.1, 41.4, 434.6, 6726.1, 26858.7 }, { "rl", "rs", "rs", "rs", "rs" } },
};

static const int64_t SIZES[5] = { 1 << 16, 1 << 20, 1 << 24, 1 << 28, 1 << 30 };

static bool
is_choice (const char *code, const ZsCollectiveRow *row)
{
  static const char PROTOCOLS[] = { 'l', '1', 's' };
  char algorithm = row->algorithm == ZS_ALGORITHM_RING ? 'r' : row->algorithm == ZS_ALGORITHM_TREE ? 't'
                   : row->algorithm == ZS_ALGORITHM_NVLS ? 'n' : 'x';

  return code[0] == algorithm && code[1] == PROTOCOLS[row->protocol];
}

static void
worked_examples_come_out (void)
{
  ZsNcclConfig config = { .no_calibration = true };

  for (size_t i = 0; i < G_N_ELEMENTS (WORKED); i++) {
    const Worked *one = &WORKED[i];
    g_autoptr (ZsTopology) topology = fixture_topology (one->gpu, one->n, one->fabric, one->vendor, -1);
    int64_t ranks[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    g_autoptr (ZsComm) comm = zs_comm_new (topology, ranks, one->n, &config, NULL);
    ZsCollectiveRow rows[5];

    zs_collective_rows (comm, one->kind, SIZES, 5, rows);
    for (int s = 0; s < 5; s++) {
      double time = (double) rows[s].time / 1e6;
      bool good = fabs (time - one->time[s]) < 0.05 + 1e-4 * one->time[s] && is_choice (one->choice[s], &rows[s]);

      CU_ASSERT_TRUE (good);
      if (!good)
        printf ("# %d x %s %s: %s of %" G_GINT64_FORMAT ": %.1f us %s/%s, expected %.1f %s\n", one->n, one->gpu, one->fabric,
                zs_collective_name (one->kind), SIZES[s], time, zs_algorithm_name (rows[s].algorithm),
                zs_protocol_name (rows[s].protocol), one->time[s], one->choice[s]);
    }
    /* all-gather and reduce-scatter are the same to NCCL */
    if (one->kind == AG) {
      ZsCollectiveRow others[5];

      zs_collective_rows (comm, ZS_COLLECTIVE_REDUCE_SCATTER, SIZES, 5, others);
      for (int s = 0; s < 5; s++)
        CU_ASSERT_EQUAL (others[s].time, rows[s].time);
    }
  }
}

/* Two nodes; checked against the compiled tuning code on computed graphs (Intel CPUs). */
static void
two_nodes_come_out (void)
{
  static const struct {
    const char *gpu, *fabric;
    ZsNetwork network;
    ZsCollectiveKind kind;
    double time[5];
  } cases[] = {
    { "h100-sxm5-80gb", "nvswitch", { .nics = 8, .rate = INT64_C (50000000000), .gpu_direct = true }, AR,
      { 31.8, 62.5, 134.9, 1157.2, 4428.3 } },
    { "h100-sxm5-80gb", "nvswitch", { .nics = 8, .rate = INT64_C (50000000000), .gpu_direct = true }, AG,
      { 24.9, 47.9, 98.2, 725.4, 2691.4 } },
    { "a100-sxm4-40gb", "nvswitch", { .nics = 4, .rate = INT64_C (12500000000), .gpu_direct = true }, AR,
      { 34.6, 92.2, 514.5, 6759, 24407 } },
  };
  ZsNcclConfig config = { .no_calibration = true };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (ZsTopology) topology = fixture_topology (cases[i].gpu, 8, cases[i].fabric, ZS_CPU_INTEL, -1);
    int64_t ranks[16];
    ZsCollectiveRow rows[5];

    for (int r = 0; r < 16; r++)
      ranks[r] = r;
    CU_ASSERT_TRUE_FATAL (zs_topology_connect (topology, 2, &cases[i].network, NULL));
    g_autoptr (ZsComm) comm = zs_comm_new (topology, ranks, 16, &config, NULL);
    g_autofree char *text = zs_comm_describe (comm);

    printf ("# 2 nodes of %s: %s\n", cases[i].gpu, text);
    zs_collective_rows (comm, cases[i].kind, SIZES, 5, rows);
    for (int s = 0; s < 5; s++) {
      double time = (double) rows[s].time / 1e6;
      bool good = fabs (time - cases[i].time[s]) < 0.05 + 1e-3 * cases[i].time[s];

      CU_ASSERT_TRUE (good);
      if (!good)
        printf ("# %s %s of %" G_GINT64_FORMAT ": %.1f us %s/%s, expected %.1f\n", cases[i].gpu, zs_collective_name (cases[i].kind),
                SIZES[s], time, zs_algorithm_name (rows[s].algorithm), zs_protocol_name (rows[s].protocol), cases[i].time[s]);
    }
  }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "957 examples of the model are met in choice and time", examples_of_the_model_are_met },
    { "worked examples come out of the topology", worked_examples_come_out },
    { "two nodes come out of the topology", two_nodes_come_out },
    CU_TEST_INFO_NULL
  };
  return testing_main ("nccl-tune", tests);
}
