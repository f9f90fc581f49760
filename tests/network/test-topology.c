/* test-topology.c: topologies from fabrics, from texts and from damaged texts.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/network/nccl.h"
#include "tests/network/fixtures.h"
#include "tests/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *
read_topo (const char *name)
{
  g_autofree char *relative = g_strdup_printf ("tests/data/network/topo/%s", name);
  g_autofree char *path = testing_source_path (relative);
  char *text = NULL;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    g_error ("%s cannot be read", path);
  return text;
}

static ZsTopology *
from_text (const char *name, const char *text, const ZsTopologyOptions *options, GError **error)
{
  return g_str_has_suffix (name, ".xml") ? zs_topology_from_nccl_xml (name, text, -1, options, error)
                                         : zs_topology_from_smi (name, text, -1, options, error);
}

/* file, GPU, GPUs, NICs, cells of GPU0 with the others */
static const struct {
  const char *file, *gpu;
  int n_gpus, n_nics, n_cpus;
  const char *row;
} FILES[] = {
  { "01-2gpu-dual-socket-4nic.txt", NULL, 2, 4, 2, "X SYS" },
  { "02-8x-v100-sxm2-2nic.txt", "v100-sxm2-16gb", 8, 2, 2, "X NV1 NV2 NV1 SYS SYS SYS NV2" },
  { "03-dgx-a100-12nic.txt", "a100-sxm4-40gb", 8, 12, 6, "X NV12 NV12 NV12 NV12 NV12 NV12 NV12" },
  { "04-4x-l40s-cloud-vm.txt", NULL, 4, 0, 4, "X SYS SYS SYS" },
  { "05-4x-a100-sxm4-hpc-2nic.txt", "a100-sxm4-40gb", 4, 2, 4, "X NV4 NV4 NV4" },
  { "06-3x-a6000-one-bridge.txt", "a40", 3, 0, 1, "X NV4 NODE" },
  { "07-4x-a100-pcie-two-bridged-pairs.txt", "a100-pcie-40gb", 4, 0, 2, "X NV12 SYS SYS" },
  { "08-8x-h100-9nic-ansi-header.txt", "h100-sxm5-80gb", 8, 9, 2, "X NV18 NV18 NV18 NV18 NV18 NV18 NV18" },
  { "09-8x-titan-v-pcie-dual-socket.txt", NULL, 8, 0, 2, "X PIX PHB PHB SYS SYS SYS SYS" },
  { "10-4gpu-phb-pairs-dual-socket.txt", NULL, 4, 0, 2, "X PHB SYS SYS" },
  { "11-2x-consumer-nvlink-bridge.txt", "rtx-2080-ti", 2, 0, 1, "X NV2" },
  { "12-8gpu-all-sys-dual-socket.txt", NULL, 8, 0, 8, "X SYS SYS SYS SYS SYS SYS SYS" },
  { "nccl-topo-aws-g5.48xl.xml", "a40", 8, 0, 2, "X PHB PHB PHB SYS SYS SYS SYS" },
  { "nccl-topo-aws-p4d-24xl.xml", "a100-sxm4-40gb", 8, 4, 2, "X NV12 NV12 NV12 NV12 NV12 NV12 NV12" },
  { "nccl-topo-azure-ncv4.xml", "a100-pcie-40gb", 4, 1, 4, "X SYS SYS SYS" },
  { "nccl-topo-azure-ndv2.xml", "v100-sxm2-16gb", 8, 1, 2, "X NV1 NV1 NV2 NV2 SYS SYS SYS" },
  { "nccl-topo-azure-ndv4.xml", "a100-sxm4-40gb", 8, 8, 4, "X NV12 NV12 NV12 NV12 NV12 NV12 NV12" },
  { "nccl-topo-azure-ndv5.xml", "h100-sxm5-80gb", 8, 8, 2, "X NV18 NV18 NV18 NV18 NV18 NV18 NV18" },
};

static void
every_file_is_read (void)
{
  for (size_t i = 0; i < G_N_ELEMENTS (FILES); i++) {
    g_autofree char *text = read_topo (FILES[i].file);
    ZsTopologyOptions options = { .gpu = FILES[i].gpu != NULL ? fixture_gpu (FILES[i].gpu) : NULL, .peer_access = -1 };
    g_autoptr (GError) error = NULL;

    if (strstr (FILES[i].file, "g5.48xl") != NULL)
      options.n_gpus = 8;
    g_autoptr (ZsTopology) topology = from_text (FILES[i].file, text, &options, &error);

    CU_ASSERT_PTR_NOT_NULL (topology);
    if (topology == NULL) {
      printf ("# %s\n", error->message);
      continue;
    }
    CU_ASSERT_EQUAL (topology->n_gpus, FILES[i].n_gpus);
    CU_ASSERT_EQUAL (topology->n_nics, FILES[i].n_nics);
    CU_ASSERT_EQUAL (topology->n_cpus, FILES[i].n_cpus);
    GString *row = g_string_new (NULL);

    for (int g = 0; g < topology->n_gpus; g++) {
      g_autofree char *cell = zs_topology_cell (topology, 0, g);

      g_string_append_printf (row, "%s%s", g > 0 ? " " : "", cell);
    }
    CU_ASSERT_STRING_EQUAL (row->str, FILES[i].row);
    if (strcmp (row->str, FILES[i].row) != 0 || topology->n_cpus != FILES[i].n_cpus || topology->n_nics != FILES[i].n_nics)
      printf ("# %s: %d GPUs %d NICs %d CPUs, %s\n", FILES[i].file, topology->n_gpus, topology->n_nics, topology->n_cpus, row->str);
    g_string_free (row, TRUE);
    for (guint w = 0; w < topology->warnings->len; w++)
      printf ("# %s: %s\n", FILES[i].file, (char *) topology->warnings->pdata[w]);

    /* NCCL finds channels on it, no collective is faster than its links */
    int64_t ranks[64];

    for (int r = 0; r < topology->n_gpus; r++)
      ranks[r] = r;
    g_autoptr (ZsComm) comm = zs_comm_new (topology, ranks, topology->n_gpus, NULL, &error);
    g_autofree char *found = zs_comm_describe (comm);
    ZsChoice choice;

    printf ("# %s: %s\n", FILES[i].file, found);
    zs_comm_choose (comm, ZS_COLLECTIVE_ALL_REDUCE, 1 << 28, &choice);
    CU_ASSERT_TRUE (choice.transfer > 0 && choice.n_loads > 0);
    g_autoptr (GArray) rows = zs_topology_rows (topology);

    CU_ASSERT_TRUE (rows->len >= (guint) topology->n_gpus);
  }
}

/* File I with the GPU named, so that a whole text gives no warning of what was guessed for want of it. */
static ZsTopology *
read_as (size_t i, const char *text, GError **error)
{
  ZsTopologyOptions options = { .gpu = fixture_gpu (FILES[i].gpu != NULL ? FILES[i].gpu : "a100-pcie-40gb"), .peer_access = -1 };

  return from_text (FILES[i].file, text, &options, error);
}

/* Does TEXT, a damaged form of file I, give an error with its name, a warning that WHOLE does not have, or the same machine? */
static bool
is_told (size_t i, const ZsTopology *whole, const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ZsTopology) topology = read_as (i, text, &error);

  if (topology == NULL)
    return error != NULL && g_str_has_prefix (error->message, FILES[i].file);
  if (error != NULL)
    return false;
  for (guint w = 0; w < topology->warnings->len; w++) {
    bool known = false;

    for (guint k = 0; k < whole->warnings->len; k++)
      known |= strcmp (topology->warnings->pdata[w], whole->warnings->pdata[k]) == 0;
    if (!known)
      return true;
  }
  g_autoptr (GString) key = g_string_new (NULL), whole_key = g_string_new (NULL);

  zs_topology_key (topology, key);
  zs_topology_key (whole, whole_key);
  return g_string_equal (key, whole_key);
}

static void
cut_files_are_told (void)
{
  for (size_t i = 0; i < G_N_ELEMENTS (FILES); i++) {
    g_autofree char *text = read_topo (FILES[i].file);
    g_autoptr (ZsTopology) whole = read_as (i, text, NULL);
    size_t length = strlen (text);

    for (size_t cut = 0; cut + 1 < length; cut++) {
      char saved = text[cut];

      if (cut > 0 && text[cut - 1] != '\n' && cut % 23 != 0)
        continue;
      text[cut] = '\0';
      bool told = is_told (i, whole, text);

      CU_ASSERT_TRUE (told);
      if (!told)
        printf ("# %s cut at byte %zu of %zu: silent\n", FILES[i].file, cut, length);
      text[cut] = saved;
    }
  }
}

static uint64_t
next_random (uint64_t *state)
{
  *state = *state * UINT64_C (6364136223846793005) + UINT64_C (1442695040888963407);
  return *state >> 33;
}

/* The matrix with its columns in another order.  WITH_HEADER: the header too, so the text is as good as
 * before; else X stands where it may not. */
static char *
shuffle_columns (const char *text, bool with_header, uint64_t seed)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_auto (GStrv) labels = g_strsplit (lines[0], "\t", -1);
  GString *out = g_string_new (NULL);
  /* pasted headers have lost their first tab, one driver's starts a column late */
  int n = 0, lead = labels[0][0] != '\0' ? 0 : labels[1][0] != '\0' ? 1 : 2, order[64];

  while (labels[n + lead] != NULL && strstr (labels[n + lead], "CPU Aff") == NULL)
    n++;
  for (int i = 0; i < n; i++)
    order[i] = i;
  for (int i = n - 1; i > 0; i--) {
    int k = (int) (next_random (&seed) % (uint64_t) (i + 1)), swap = order[i];

    order[i] = order[k];
    order[k] = swap;
  }
  if (order[0] == 0 && n > 1) {   /* not the order it had */
    order[0] = order[1];
    order[1] = 0;
  }
  bool matrix = true;

  for (int l = 0; lines[l] != NULL; l++) {
    g_auto (GStrv) cells = g_strsplit (lines[l], "\t", -1);
    int n_cells = (int) g_strv_length (cells);

    matrix &= n_cells > n;
    for (int c = 0; c < n_cells; c++) {
      int first = l == 0 ? lead : 1;
      int from = c >= first && c < first + n && matrix && (l > 0 || with_header) ? order[c - first] + first : c;

      g_string_append_printf (out, "%s%s", c > 0 ? "\t" : "", cells[from]);
    }
    g_string_append_c (out, '\n');
  }
  return g_string_free (out, FALSE);
}

static void
shuffled_columns_are_told_or_right (void)
{
  for (size_t i = 0; i < G_N_ELEMENTS (FILES); i++)
    for (uint64_t seed = 1; seed <= 20 && g_str_has_suffix (FILES[i].file, ".txt"); seed++) {
      g_autofree char *text = read_topo (FILES[i].file);

      if (strstr (text, "GPU0\tGPU1") == NULL)   /* blanks for tabs */
        continue;
      g_autofree char *same = shuffle_columns (text, true, seed), *wrong = shuffle_columns (text, false, seed);
      g_autoptr (GError) error = NULL, unexpected = NULL;
      g_autoptr (ZsTopology) before = read_as (i, text, NULL), after = read_as (i, same, &unexpected);
      g_autoptr (ZsTopology) none = read_as (i, wrong, &error);

      if (unexpected != NULL)
        printf ("# seed %d: %s\n", (int) seed, unexpected->message);

      CU_ASSERT_PTR_NULL (none);
      CU_ASSERT_PTR_NOT_NULL (error);
      CU_ASSERT_PTR_NOT_NULL_FATAL (after);
      for (int a = 0; a < before->n_gpus; a++)
        for (int b = 0; b < before->n_gpus; b++)
          CU_ASSERT_EQUAL (zs_topology_path (before, a, b), zs_topology_path (after, a, b));
      if (none != NULL || after->n_nics != before->n_nics)
        printf ("# %s, seed %d\n", FILES[i].file, (int) seed);
    }
}

/* One byte of the matrix changed: both cells of a pair say the same, so a changed one shows. */
static void
flipped_bytes_are_told (void)
{
  uint64_t state = 20251130;

  for (size_t i = 0; i < G_N_ELEMENTS (FILES); i++) {
    g_autofree char *text = read_topo (FILES[i].file);
    g_autoptr (ZsTopology) whole = read_as (i, text, NULL);
    const char *end = strstr (text, "\n\n");

    if (!g_str_has_suffix (FILES[i].file, ".txt") || end == NULL)
      continue;
    for (char *at = text; at < end; at++) {
      char saved = *at;

      *at = (char) (32 + next_random (&state) % 95);
      bool told = is_told (i, whole, text);

      CU_ASSERT_TRUE (told);
      if (!told)
        printf ("# %s: byte %d from '%c' to '%c' is silent\n", FILES[i].file, (int) (at - text), saved, *at);
      *at = saved;
    }
  }
}

static void
bytes_that_are_noise_are_told (void)
{
  uint64_t state = 20240607;

  for (size_t i = 0; i < G_N_ELEMENTS (FILES); i++) {
    g_autofree char *text = read_topo (FILES[i].file);
    size_t length = strlen (text);

    for (int round = 0; round < 60; round++) {
      g_autofree char *noisy = g_strdup (text);
      ZsTopologyOptions options = { .peer_access = -1 };

      for (int k = 0; k < 3; k++)
        noisy[next_random (&state) % length] = (char) (1 + next_random (&state) % 255);
      g_autoptr (GError) error = NULL;
      g_autoptr (ZsTopology) topology = from_text (FILES[i].file, noisy, &options, &error);

      CU_ASSERT_TRUE ((topology == NULL) == (error != NULL));
    }
  }
}

static void
pasted_texts_are_read (void)
{
  static const char *const TEXTS[] = {
    /* neighbours run together, blanks for tabs, no header, the old word for SYS */
    "GPU0 X NODENODESOC 0-7\nGPU1 NODE X NODESOC 0-7\nGPU2 NODENODE X SOC 0-7\nGPU3 SOCSOCSOC X 8-15\n",
    "\tGPU0 GPU1  GPU2\tGPU3\tCPU Affinity\nGPU0\t X \tNODE\tNODE\tSOC\t0-7\nGPU1\tNODE\t X \tNODE\tSOC\nGPU2  NODE NODE X SOC\n"
    "GPU3 SOC SOC SOC X\n",
    /* a shell's prompt before, and carriage returns */
    "user@host:~$ nvidia-smi topo -m\r\n\t\033[4mGPU0\tGPU1\tGPU2\tGPU3\033[0m\r\nGPU0\t X \tNODE\tNODE\tSYS\r\n"
    "GPU1\tNODE\t X \tNODE\tSYS\r\nGPU2\tNODE\tNODE\t X \tSYS\r\nGPU3\tSYS\tSYS\tSYS\t X \r\n",
  };
  ZsTopologyOptions options = { .peer_access = -1 };

  for (size_t i = 0; i < G_N_ELEMENTS (TEXTS); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (ZsTopology) topology = zs_topology_from_smi ("pasted", TEXTS[i], -1, &options, &error);

    CU_ASSERT_PTR_NOT_NULL (topology);
    if (topology == NULL) {
      printf ("# %s\n", error->message);
      continue;
    }
    CU_ASSERT_EQUAL (topology->n_gpus, 4);
    CU_ASSERT_EQUAL (topology->n_cpus, 2);
    CU_ASSERT_EQUAL (zs_topology_path (topology, 0, 2), ZS_PATH_NODE);
    CU_ASSERT_EQUAL (zs_topology_path (topology, 3, 1), ZS_PATH_SYS);
  }
}

static void
every_fabric_and_network_loads (void)
{
  g_autofree char *models = fixture_models ();
  g_autofree char *fabrics = g_build_filename (models, "fabrics", NULL), *networks = g_build_filename (models, "networks", NULL);
  const char *entry;
  int n = 0;
  GDir *dir = g_dir_open (fabrics, 0, NULL);

  CU_ASSERT_PTR_NOT_NULL_FATAL (dir);
  for (; (entry = g_dir_read_name (dir)) != NULL; n++) {
    g_autofree char *name = g_strndup (entry, strlen (entry) - 5);
    ZsTopologyOptions options = { .gpu = fixture_gpu ("a100-sxm4-40gb"), .n_gpus = 4, .peer_access = -1 };
    g_autoptr (GError) error = NULL;
    g_autoptr (ZsTopology) topology = zs_topology_from_fabric (models, name, &options, &error);

    CU_ASSERT_PTR_NOT_NULL_FATAL (topology);
    CU_ASSERT_EQUAL (topology->n_gpus, 4);
    for (int g = 0; g < 4; g++) {
      ZsLoad loads[16];

      CU_ASSERT_TRUE (zs_topology_copy_loads (topology, g, ZS_COPY_HOST_TO_GPU, loads, 16) >= 2);
      CU_ASSERT_TRUE (zs_topology_copy_rate (topology, g, ZS_COPY_GPU_TO_HOST, true) > 0);
      CU_ASSERT_TRUE (zs_topology_memory_link (topology, g) >= 0);
    }
  }
  g_dir_close (dir);
  CU_ASSERT_TRUE (n >= 20);
  dir = g_dir_open (networks, 0, NULL);
  CU_ASSERT_PTR_NOT_NULL_FATAL (dir);
  while ((entry = g_dir_read_name (dir)) != NULL) {
    g_autofree char *name = g_strndup (entry, strlen (entry) - 5);
    ZsNetwork network;
    g_autoptr (GError) error = NULL;

    CU_ASSERT_TRUE (zs_network_load (models, name, &network, &error));
    CU_ASSERT_TRUE (network.rate > 0 && network.efficiency > 0);
  }
  g_dir_close (dir);
}

static void
short_words_choose_by_gpu (void)
{
  static const struct { const char *word, *gpu; int n; const char *fabric; } cases[] = {
    { "pcie", "v100-pcie-16gb", 4, "pcie3-x16-host-bridge" },
    { "pcie", "rtx-4090", 8, "pcie4-x16-two-sockets" },
    { "pcie", "rtx-5090", 2, "pcie5-x16-host-bridge" },
    { "nvlink", "a100-pcie-40gb", 2, "nvlink-bridge-3" },
    { "nvlink", "h100-pcie-80gb", 2, "nvlink-bridge-4" },
    { "nvlink", "v100-sxm2-16gb", 8, "nvlink-mesh-v100" },
    { "nvlink", "a100-sxm4-40gb", 8, "nvswitch-a100" },
    { "nvswitch", "h200-sxm-141gb", 8, "nvswitch-h100" },
    { "nvswitch", "b200-sxm-180gb", 8, "nvswitch-b200" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++)
    CU_ASSERT_STRING_EQUAL (zs_fabric_resolve (cases[i].word, fixture_gpu (cases[i].gpu), cases[i].n, NULL), cases[i].fabric);
  g_autoptr (GError) error = NULL;

  CU_ASSERT_PTR_NULL (zs_fabric_resolve ("nvlink", fixture_gpu ("rtx-4090"), 2, &error));
  CU_ASSERT_PTR_NOT_NULL (error);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "every file of real machines is read", every_file_is_read },
    { "files cut anywhere give an error or a warning", cut_files_are_told },
    { "shuffled columns are read by their header, or refused", shuffled_columns_are_told_or_right },
    { "a flipped byte of the matrix is told", flipped_bytes_are_told },
    { "noise gives an error or a topology, never a crash", bytes_that_are_noise_are_told },
    { "pasted texts are read", pasted_texts_are_read },
    { "every fabric and network loads", every_fabric_and_network_loads },
    { "short words choose by the GPU", short_words_choose_by_gpu },
    CU_TEST_INFO_NULL
  };
  return testing_main ("topology", tests);
}
