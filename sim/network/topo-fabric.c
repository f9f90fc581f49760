/* topo-fabric.c: named fabrics and networks (models/fabrics, models/networks).
 * SPDX-License-Identifier: MIT
 *
 * A fabric says how GPUs hang below switches and sockets and which NVLinks join them; counts that it
 * leaves open (0) come from the GPU. */
#include "config.h"

#include "sim/network/topology-build.h"

#include "sim/base/error.h"
#include "sim/base/words.h"
#include "sim/io/document.h"
#include "sim/io/schema.h"

#include <string.h>

typedef enum { NVLINK_NONE, NVLINK_BRIDGE, NVLINK_MESH, NVLINK_V100_MESH, NVLINK_SWITCH } NvlinkWiring;

typedef struct {
  int pcie_generation;     /* 0: the GPU's */
  int pcie_lanes;          /* 0: the GPU's */
  int sockets;             /* 0: one for up to four GPUs, else two */
  int gpus_per_switch;     /* 0: straight below the CPU */
  int switch_levels;
  int nvlink;              /* NvlinkWiring */
  int nvlinks;             /* of one GPU; 0: the GPU's */
  int nvlinks_assumed;     /* where the GPU's file says nothing */
  bool c2c;
  bool ideal;
} Fabric;

static const char *const NVLINK_WORDS[] = { "none", "bridge", "mesh", "v100-mesh", "switch", NULL };

static const ZsField FABRIC_FIELDS[] = {
  { ZS_FIELD ("summary", IGNORED, Fabric, ideal), .help = "one line" },
  { ZS_FIELD ("source", IGNORED, Fabric, ideal), .help = "where the wiring is known from" },
  { ZS_FIELD ("ideal", BOOL, Fabric, ideal), .help = "bytes between GPUs take no time" },
  { ZS_FIELD ("pcie_generation", INT32, Fabric, pcie_generation), .min = 1, .max = 6,
    .help = "of the GPUs' slots; without it the GPU's own" },
  { ZS_FIELD ("pcie_lanes", INT32, Fabric, pcie_lanes), .min = 1, .max = 16, .help = "of each GPU" },
  { ZS_FIELD ("sockets", INT32, Fabric, sockets), .min = 1, .max = 8,
    .help = "over which the GPUs are spread; without it one for up to 4 GPUs, else 2" },
  { ZS_FIELD ("gpus_per_switch", INT32, Fabric, gpus_per_switch), .min = 1, .max = 16,
    .help = "GPUs below one PCIe switch; without it none" },
  { ZS_FIELD ("switch_levels", INT32, Fabric, switch_levels), .min = 1, .max = 2,
    .help = "2: the switches of a socket hang below one more" },
  { ZS_FIELD ("nvlink", WORD, Fabric, nvlink), .words = NVLINK_WORDS, .help = "how NVLinks are wired" },
  { ZS_FIELD ("nvlinks", INT32, Fabric, nvlinks), .min = 1, .max = 36,
    .help = "NVLinks of one GPU; without it the GPU's own" },
  { ZS_FIELD ("nvlinks_assumed", INT32, Fabric, nvlinks_assumed), .min = 1, .max = 36,
    .help = "where nothing says how many" },
  { ZS_FIELD ("c2c", BOOL, Fabric, c2c), .help = "GPUs reach their CPU by NVLink-C2C, not PCIe" },
};

/* DGX-1V and AWS p3.16xlarge, as `nvidia-smi topo -m` prints it. */
static const uint8_t V100_MESH[8][8] = {
  { 0, 1, 1, 2, 2, 0, 0, 0 }, { 1, 0, 2, 1, 0, 2, 0, 0 }, { 1, 2, 0, 2, 0, 0, 1, 0 }, { 2, 1, 2, 0, 0, 0, 0, 1 },
  { 2, 0, 0, 0, 0, 1, 1, 2 }, { 0, 2, 0, 0, 1, 0, 2, 1 }, { 0, 0, 1, 0, 1, 2, 0, 2 }, { 0, 0, 0, 1, 2, 1, 2, 0 },
};

static const ZsGpu *
gpu_of (const ZsTopologyOptions *options, int g)
{
  return options->gpus != NULL ? options->gpus[g] : options->gpu;
}

/* Is it a module (SXM and the like), whose NVLinks are on the board? */
static bool
is_module (const ZsGpu *gpu)
{
  static const char *const MARKS[] = { "sxm", "SXM", "h20", "H20", "gh200", "GH200", NULL };

  for (int i = 0; MARKS[i] != NULL; i++)
    if (strstr (gpu->name, MARKS[i]) != NULL)
      return true;
  return false;
}

static void
wire (ZsTopology *topology, NvlinkWiring wiring, int links, const int *gpus, int n)
{
  int capability = topology->parts[gpus[0]].compute_capability;

  switch (wiring) {
  case NVLINK_BRIDGE:
    for (int g = 0; g + 1 < n; g += 2)
      zs_topology_join (topology, gpus[g], gpus[g + 1], ZS_LINK_NVLINK, links, 0, capability);
    break;
  case NVLINK_MESH:   /* boards of four: a third of the links to each peer */
    for (int g = 0; g < n; g++)
      for (int h = g + 1; h < n && h / 4 == g / 4; h++)
        zs_topology_join (topology, gpus[g], gpus[h], ZS_LINK_NVLINK, MAX (links / 3, 1), 0, capability);
    break;
  case NVLINK_V100_MESH:
    for (int g = 0; g < MIN (n, 8); g++)
      for (int h = g + 1; h < MIN (n, 8); h++)
        if (V100_MESH[g][h] > 0)
          zs_topology_join (topology, gpus[g], gpus[h], ZS_LINK_NVLINK, V100_MESH[g][h], 0, capability);
    break;
  case NVLINK_SWITCH: {
    int nvs = zs_topology_add_part (topology, ZS_PART_NVSWITCH, 0, "NVSwitch");

    for (int g = 0; g < n; g++)
      zs_topology_join (topology, gpus[g], nvs, ZS_LINK_NVLINK, links, 0, capability);
    break;
  }
  case NVLINK_NONE:
    break;
  }
}

bool
zs_topology_wire_as_usual (ZsTopology *topology, const int *gpus, int n, const ZsTopologyOptions *options)
{
  const ZsGpu *gpu = options->gpu != NULL ? options->gpu : options->gpus != NULL ? options->gpus[0] : NULL;

  if (gpu == NULL || gpu->nvlink_links == 0 || !is_module (gpu) || n < 2)
    return false;
  wire (topology, gpu->compute_capability >= 80 ? NVLINK_SWITCH : NVLINK_V100_MESH, gpu->nvlink_links, gpus, n);
  return true;
}

static void
wire_nvlinks (ZsTopology *topology, const Fabric *fabric, const ZsTopologyOptions *options, const int *gpus)
{
  const ZsGpu *gpu = gpu_of (options, 0);
  int links = fabric->nvlinks > 0 ? fabric->nvlinks : gpu != NULL ? gpu->nvlink_links : 0;

  if (links == 0)
    links = fabric->nvlinks_assumed;
  if (links > 0)
    wire (topology, (NvlinkWiring) fabric->nvlink, links, gpus, options->n_gpus);
}

static ZsTopology *
build (const char *name, const Fabric *fabric, const ZsTopologyOptions *options)
{
  ZsTopology *topology = zs_topology_new (name);
  const ZsGpu *first = gpu_of (options, 0);
  int n = options->n_gpus, sockets = fabric->sockets > 0 ? fabric->sockets : n <= 4 ? 1 : 2;
  int generation = fabric->pcie_generation > 0 ? fabric->pcie_generation
                   : first != NULL && first->pcie_generation > 0 ? first->pcie_generation : 4;
  int lanes = fabric->pcie_lanes > 0 ? fabric->pcie_lanes : first != NULL && first->pcie_width > 0 ? first->pcie_width : 16;
  int per_socket = (n + sockets - 1) / sockets, n_switches = 0;
  g_autofree int *gpus = g_new (int, n);
  char text[32];

  topology->ideal = fabric->ideal;
  for (int s = 0, g = 0; g < n; s++) {
    g_snprintf (text, sizeof text, "NUMA %d", s);
    int cpu = zs_topology_add_part (topology, ZS_PART_CPU, s, text), upper = cpu;

    if (fabric->gpus_per_switch > 0 && fabric->switch_levels == 2) {
      g_snprintf (text, sizeof text, "switch %d", n_switches);
      upper = zs_topology_add_part (topology, ZS_PART_PCIE_SWITCH, n_switches++, text);
      zs_topology_join (topology, cpu, upper, ZS_LINK_PCIE, 16, generation, 0);
    }
    for (int i = 0, parent = upper; i < per_socket && g < n; i++, g++) {
      if (fabric->gpus_per_switch > 0 && i % fabric->gpus_per_switch == 0) {
        g_snprintf (text, sizeof text, "switch %d", n_switches);
        parent = zs_topology_add_part (topology, ZS_PART_PCIE_SWITCH, n_switches++, text);
        zs_topology_join (topology, upper, parent, ZS_LINK_PCIE, 16, generation, 0);
      }
      g_snprintf (text, sizeof text, "GPU%d", g);
      gpus[g] = zs_topology_add_part (topology, ZS_PART_GPU, g, text);
      zs_topology_set_gpu (topology, gpus[g], g, options);
      zs_topology_join (topology, parent, gpus[g], fabric->c2c ? ZS_LINK_C2C : ZS_LINK_PCIE, lanes, generation, 0);
    }
  }
  wire_nvlinks (topology, fabric, options, gpus);
  zs_topology_finish (topology, options);
  return topology;
}

const char *
zs_fabric_resolve (const char *fabric, const ZsGpu *gpu, int n_gpus, GError **error)
{
  bool pcie = g_str_equal (fabric, "pcie"), nvlink = g_str_equal (fabric, "nvlink");
  bool nvswitch = g_str_equal (fabric, "nvswitch");
  int capability = gpu != NULL ? gpu->compute_capability : 80;
  int generation = gpu != NULL && gpu->pcie_generation > 0 ? gpu->pcie_generation : 4;

  if (pcie) {
    /* up to four GPUs: one socket; a box of more has two */
    static const char *const NAMES[][2] = {
      { "pcie3-x16-host-bridge", "pcie3-x16-two-sockets" },
      { "pcie4-x16-host-bridge", "pcie4-x16-two-sockets" },
      { "pcie5-x16-host-bridge", "pcie5-x16-two-sockets" },
    };

    return NAMES[CLAMP (generation, 3, 5) - 3][n_gpus > 4];
  }
  if (!nvlink && !nvswitch)
    return fabric;
  if (gpu != NULL && gpu->nvlink_links == 0) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "fabric '%s': %s has no NVLink", fabric, gpu->name);
    return NULL;
  }
  bool module = gpu == NULL || is_module (gpu);

  if (nvlink && !module)
    return capability >= 90 ? "nvlink-bridge-4" : "nvlink-bridge-3";
  if (nvlink && capability < 80)
    return "nvlink-mesh-v100";
  if (nvlink && gpu != NULL && strstr (gpu->name, "gh200") != NULL)
    return "nvlink-mesh-gh200";
  return capability >= 100 ? "nvswitch-b200" : capability >= 90 ? "nvswitch-h100"
         : capability >= 80 ? "nvswitch-a100" : "nvswitch-v100";
}

static gint
compare_words (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

/* MODELS/FOLDER/NAME.yaml, also with "-x16" after the PCIe generation left out. */
static char *
find_file (const char *models, const char *folder, const char *name, GError **error)
{
  g_autofree char *file = g_strdup_printf ("%s.yaml", name);
  char *path = g_build_filename (models, folder, file, NULL);

  if (strchr (name, '/') == NULL && g_file_test (path, G_FILE_TEST_EXISTS))
    return path;
  if (g_str_has_prefix (name, "pcie") && strlen (name) > 6 && strchr (name, '/') == NULL) {
    g_autofree char *longer = g_strdup_printf ("%.5s-x16%s.yaml", name, name + 5);

    g_free (path);
    path = g_build_filename (models, folder, longer, NULL);
    if (g_file_test (path, G_FILE_TEST_EXISTS))
      return path;
  }
  g_free (path);

  g_autoptr (GPtrArray) words = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *folder_path = g_build_filename (models, folder, NULL);
  GDir *dir = g_dir_open (folder_path, 0, NULL);
  const char *entry;

  while (dir != NULL && (entry = g_dir_read_name (dir)) != NULL)
    if (g_str_has_suffix (entry, ".yaml"))
      g_ptr_array_add (words, g_strndup (entry, strlen (entry) - 5));
  if (dir != NULL)
    g_dir_close (dir);
  if (g_str_equal (folder, "fabrics")) /* the words that choose by GPU */
    for (int i = 0; i < 3; i++)
      g_ptr_array_add (words, g_strdup (((const char *[]) { "nvlink", "nvswitch", "pcie" })[i]));
  g_ptr_array_sort (words, compare_words);
  g_ptr_array_add (words, NULL);
  g_autofree char *list = g_strjoinv (", ", (char **) words->pdata);
  g_autofree char *hint = zs_nearest_hint (name, (const char *const *) words->pdata);

  g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "unknown %s '%.60s'%s%s%s",
               g_str_equal (folder, "fabrics") ? "fabric" : "network", name, hint,
               *hint == '\0' ? "; there are: " : "", *hint == '\0' ? list : "");
  return NULL;
}

static bool
read_fields (const char *path, const char *what, const ZsField *fields, int n_fields, void *dest, GError **error)
{
  g_autoptr (ZsDocument) document = zs_document_load (path, error);

  if (document == NULL)
    return false;
  g_autoptr (ZsErrors) errors = zs_errors_new ();

  if (zs_schema_read (zs_document_root (document), what, fields, n_fields, dest, NULL, errors))
    return true;
  g_autofree char *text = zs_errors_text (errors);

  g_set_error_literal (error, ZS_ERROR, ZS_ERROR_INPUT, g_strchomp (text));
  return false;
}

ZsTopology *
zs_topology_from_fabric (const char *models, const char *fabric, const ZsTopologyOptions *options, GError **error)
{
  Fabric spec = { .switch_levels = 1 };

  if (options->n_gpus < 1 || options->n_gpus > 64) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "a node has 1 to 64 GPUs, not %d", options->n_gpus);
    return NULL;
  }
  const char *name = zs_fabric_resolve (fabric, gpu_of (options, 0), options->n_gpus, error);

  if (name == NULL)
    return NULL;
  if (g_str_equal (name, "ideal"))
    spec.ideal = true;
  else {
    g_autofree char *path = find_file (models, "fabrics", name, error);

    if (path == NULL
        || !read_fields (path, "a fabric", FABRIC_FIELDS, G_N_ELEMENTS (FABRIC_FIELDS), &spec, error))
      return NULL;
  }
  if (spec.nvlink == NVLINK_V100_MESH && options->n_gpus > 8) {
    g_set_error (error, ZS_ERROR, ZS_ERROR_INPUT, "fabric '%s' joins 8 GPUs, not %d", name, options->n_gpus);
    return NULL;
  }
  return build (name, &spec, options);
}

/* ---- networks ---- */

static const char *const NETWORK_WORDS[] = { "infiniband", "roce", "slingshot", "efa", "ethernet", "tcp", NULL };
static const int NETWORK_KINDS[] = { ZS_NETWORK_INFINIBAND, ZS_NETWORK_ROCE, ZS_NETWORK_SLINGSHOT, ZS_NETWORK_EFA, ZS_NETWORK_TCP,
                                     ZS_NETWORK_TCP };
static const char *const ORIGIN_WORDS[] = { "measured", "published", "assumed", NULL };

typedef struct {
  ZsNetwork network;
  int kind, origin;
} NetworkFile;

static const ZsField NETWORK_FIELDS[] = {
  { ZS_FIELD ("summary", IGNORED, NetworkFile, kind), .help = "one line" },
  { ZS_FIELD ("source", IGNORED, NetworkFile, kind), .help = "where the numbers are known from" },
  { ZS_FIELD ("kind", WORD, NetworkFile, kind), .words = NETWORK_WORDS, .word_values = NETWORK_KINDS,
    .required = true, .help = "infiniband, roce, slingshot, efa, tcp (ethernet is tcp)" },
  { ZS_FIELD ("nics", INT32, NetworkFile, network.nics), .min = 1, .max = 64,
    .help = "per node; without it one for each GPU" },
  { ZS_FIELD ("rate", RATE, NetworkFile, network.rate), .min = 1, .required = true,
    .help = "of one NIC in one direction" },
  { ZS_FIELD ("latency", TIME, NetworkFile, network.latency), .min = 0, .help = "that the plug-in tells NCCL" },
  { ZS_FIELD ("extra_latency", TIME, NetworkFile, network.extra_latency), .min = 0,
    .help = "of one hop, beyond what NCCL's model has" },
  { ZS_FIELD ("message_time", TIME, NetworkFile, network.message_time), .min = 0,
    .help = "of NCCL's proxy thread for one message" },
  { ZS_FIELD ("handshake_from", BYTES, NetworkFile, network.handshake_from), .min = 0,
    .help = "messages of this size and above ask the receiver first" },
  { ZS_FIELD ("handshake_time", TIME, NetworkFile, network.handshake_time), .min = 0, .help = "what this adds to a hop" },
  { ZS_FIELD ("efficiency", NUMBER, NetworkFile, network.efficiency), .low = 0.01, .high = 1,
    .help = "of the rate that large messages reach" },
  { ZS_FIELD ("gpu_direct", BOOL, NetworkFile, network.gpu_direct), .help = "GPUDirect RDMA" },
  { ZS_FIELD ("origin", WORD, NetworkFile, origin), .words = ORIGIN_WORDS, .help = "of efficiency and latency" },
};

bool
zs_network_load (const char *models, const char *name, ZsNetwork *ret_network, GError **error)
{
  NetworkFile file = { .network = { .efficiency = 0.9, .gpu_direct = true, .origin = ZS_ORIGIN_ASSUMED },
                       .origin = ZS_ORIGIN_ASSUMED };
  g_autofree char *path = find_file (models, "networks", name, error);

  if (path == NULL
      || !read_fields (path, "a network", NETWORK_FIELDS, G_N_ELEMENTS (NETWORK_FIELDS), &file, error))
    return false;
  file.network.kind = (ZsNetworkKind) file.kind;
  file.network.origin = (ZsOrigin) file.origin;
  g_strlcpy (file.network.name, name, sizeof file.network.name);
  *ret_network = file.network;
  return true;
}
