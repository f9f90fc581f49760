/* scenario-cluster.c: the section `cluster`.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/base/units.h"
#include "sim/base/words.h"
#include "sim/scenario/scenario-internal.h"

typedef struct {
  const char *gpu, *instance;
  int64_t gpu_memory;
  int gpus_per_node, nodes;
  const ZsNode *fabric, *network, *host, *environment, *nvme, *calibration;
  bool peer_access;
  ZsRate shm_rate;
  ZsVersion nccl_version;
} Values;

/* clang-format off */
enum { GPU, GPU_MEMORY, GPUS_PER_NODE, NODES, INSTANCE, FABRIC, NETWORK, PEER_ACCESS, SHM_RATE, HOST,
       NCCL_VERSION, ENVIRONMENT, NVME, CALIBRATION, N_FIELDS };
/* clang-format on */

static const ZsField FIELDS[N_FIELDS] = {
  [GPU] = { ZS_FIELD ("gpu", STRING, Values, gpu), .help = "a name in models/gpus" },
  [GPU_MEMORY] = { ZS_FIELD ("gpu_memory", BYTES, Values, gpu_memory), .min = 1 << 28,
                   .max = INT64_C (400) << 30, .help = "what torch reports as total_memory" },
  [GPUS_PER_NODE] = { ZS_FIELD ("gpus_per_node", INT32, Values, gpus_per_node), .min = 1,
                      .max = 32 },
  [NODES] = { ZS_FIELD ("nodes", INT32, Values, nodes), .min = 1, .max = 2048 },
  [INSTANCE] = { ZS_FIELD ("instance", STRING, Values, instance),
                 .help = "a name in models/instances" },
  [FABRIC] = { ZS_FIELD ("fabric", NODE, Values, fabric),
               .help = "a name in models/fabrics, {topo: FILE} or {nccl_xml: FILE}" },
  [NETWORK] = { ZS_FIELD ("network", NODE, Values, network),
                .help = "between nodes: a name in models/networks, or {nics, rate, kind}" },
  [PEER_ACCESS] = { ZS_FIELD ("peer_access", BOOL, Values, peer_access),
                    .help = "false: GPUs reach each other through host memory only" },
  [SHM_RATE] = { ZS_FIELD ("shm_rate", RATE, Values, shm_rate), .min = 1000000,
                 .max = INT64_C (10000000000000), .help = "between GPUs through host memory" },
  [HOST] = { ZS_FIELD ("host", MAPPING, Values, host) },
  [NCCL_VERSION] = { ZS_FIELD ("nccl_version", VERSION, Values, nccl_version) },
  [ENVIRONMENT] = { ZS_FIELD ("environment", MAPPING, Values, environment),
                    .help = "variables that the job sets" },
  [NVME] = { ZS_FIELD ("nvme", MAPPING, Values, nvme) },
  [CALIBRATION] = { ZS_FIELD ("calibration", MAPPING, Values, calibration),
                    .help = "factors that zerosim calibrate fitted to this machine" },
};

void
zs_cluster_add_keys (GPtrArray *words)
{
  for (int i = 0; i < N_FIELDS; i++)
    g_ptr_array_add (words, (char *)FIELDS[i].key);
}

static bool
is_key (const char *word)
{
  for (int i = 0; i < N_FIELDS; i++)
    if (strcmp (FIELDS[i].key, word) == 0)
      return true;
  return false;
}

/* ---- the machine of `instance` fills in what the section leaves out ---- */
static bool
apply_instance (ZsReader *reader, const ZsNode *cluster)
{
  const ZsNode *node = zs_node_get (cluster, "instance");
  g_autoptr (GError) error = NULL;

  if (node == NULL || node->kind != ZS_NODE_SCALAR || zs_node_is_null (node))
    return true;

  const ZsCatalogueEntry *entry =
      zs_catalogue_find (reader->catalogue, ZS_CATALOGUE_INSTANCES, node->text, NULL, NULL, &error);

  if (entry == NULL)
    return zs_node_fail (node, reader->errors, "%s", error->message);

  const ZsNode *root = zs_document_root (entry->document);
  bool ok = true;

  for (int i = 0; i < root->n_items; i++) {
    const char *key = root->keys[i]->text;
    g_autofree char *path = g_strconcat ("cluster.", key, NULL);
    ZsNode *copy;

    if (!is_key (key))
      continue;
    copy = zs_document_copy (reader->document, root->items[i], NULL);
    if (copy == NULL)
      return zs_node_fail (node, reader->errors, "the scenario has too many values");
    if (copy->kind == ZS_NODE_MAPPING && strcmp (key, "host") == 0) {
      for (int k = 0; k < copy->n_items; k++) { /* one by one: the section may say some of them */
        g_autofree char *inner = g_strconcat (path, ".", copy->keys[k]->text, NULL);

        ok &= zs_reader_put_default (reader, inner, copy->items[k]);
      }
    } else {
      ok &= zs_reader_put_default (reader, path, copy);
    }
  }
  return ok;
}

/* ---- GPU ---- */

/* The form of the GPUs that FABRIC joins, or NULL. */
static const char *
form_of_fabric (const ZsNode *fabric)
{
  if (fabric == NULL || fabric->kind != ZS_NODE_SCALAR)
    return NULL;
  if (g_str_has_prefix (fabric->text, "pcie") || g_str_has_prefix (fabric->text, "nvlink-bridge"))
    return "pcie";
  return g_str_has_prefix (fabric->text, "nv") ? "sxm" : NULL;
}

static bool
read_gpu (ZsReader *reader, const Values *values, const ZsNode *const *given)
{
  ZsClusterSettings *cluster = &reader->scenario->cluster;
  g_autoptr (GError) error = NULL;
  bool open = false;
  const char *form = form_of_fabric (values->fabric);

  if (given[GPU] == NULL) {
    const ZsNode *section = zs_node_get (reader->root, "cluster");

    return zs_node_fail (
        section != NULL ? section : reader->root, reader->errors,
        "no GPU is named: `gpu` in the section `cluster`, `instance`, or --gpus 2xA100-40G");
  }

  const ZsCatalogueEntry *entry =
      zs_catalogue_find (reader->catalogue, ZS_CATALOGUE_GPUS, values->gpu, form, &open, &error);

  if (entry == NULL)
    return zs_node_fail (given[GPU], reader->errors, "%s", error->message);
  if (!zs_gpu_read (zs_document_root (entry->document), &cluster->gpu, reader->errors))
    return false;
  if (open) {
    const char *why = form != NULL ? "the fabric decides it" : "the SXM one is taken";

    zs_notes_add (reader->notes, ZS_NOTE_INFO, "gpu-form", given[GPU],
                  "'%s' leaves the form of the GPU open; %s: %s", values->gpu, why, entry->name);
  }
  if (strcmp (entry->name, values->gpu) != 0)
    zs_settings_put (reader->settings, "cluster.gpu", ZS_SETTING_DERIVED, given[GPU]->text, "%s",
                     entry->name);
  g_autofree char *total = zs_bytes_format (cluster->gpu.memory_bytes);
  g_autofree char *file = g_strdup_printf ("models/gpus/%s.yaml", entry->name);

  if (given[GPU_MEMORY] != NULL)
    cluster->gpu.memory_bytes = values->gpu_memory;
  else
    zs_settings_put (reader->settings, "cluster.gpu_memory", ZS_SETTING_CATALOGUE, file, "%s",
                     total);
  return true;
}

/* ---- host ---- */

/* What passes of CPU threads sustain of one socket's memory rate, however many sockets there are: offloaded
 * steps on hosts of two EPYCs took 0.55 to 0.73 ns per parameter of the host with 2, 4 and 8 ranks, bound to
 * cores or not (a DeepSpeed post on binding cores, one on ZenFlow, an issue): 83 to 90 GB/s of 164.  A virtual
 * machine with 16 cores of a Xeon of 246 GB/s: 125 (tests/data/offload). */
#define PASS_SHARE 0.54

/* What is assumed of a host: a server of the generation of its PCIe slots.  Rates: DDR4-2400 x 4
 * channels, DDR4-3200 x 8, DDR5-4800 x 8 of one socket, 80 % of it (channels * MT/s * 8 bytes;
 * sustained 75 to 85 %). */
static void
default_host (const ZsClusterSettings *cluster, ZsHost *host)
{
  int generation = cluster->gpu.pcie_generation;
  bool consumer = strstr (cluster->gpu.name, "rtx-") != NULL && cluster->gpus_per_node <= 2;

  *host = (ZsHost){
    .vendor = generation == 4 ? ZS_CPU_AMD : ZS_CPU_INTEL,
    .cores = consumer          ? 16
             : generation == 3 ? 20
             : generation == 4 ? 64
                               : 48,
    .sockets = cluster->gpus_per_node > 4 ? 2 : 1,
    .speed = 1,
  };
  host->memory_rate = (consumer && generation == 5 ? INT64_C (72000000000)
                       : consumer                  ? INT64_C (41000000000)
                       : generation == 3           ? INT64_C (61000000000)
                       : generation == 4           ? INT64_C (164000000000)
                                                   : INT64_C (246000000000))
                      * host->sockets;
  host->cores *= host->sockets;
  host->pass_rate = consumer ? host->memory_rate : 0;
}

static bool
read_host (ZsReader *reader, const ZsNode *node, const ZsNode *nvme)
{
  static const char *const vendors[] = { "intel", "amd", "arm", "power", NULL };
  enum { CPU, CORES, SOCKETS, MEMORY, MEMORY_RATE, PASS_RATE, SPEED };
  static const ZsField fields[] = {
    [CPU] = { ZS_FIELD ("cpu", WORD, ZsHost, vendor), .words = vendors },
    [CORES] = { ZS_FIELD ("cores", INT32, ZsHost, cores), .min = 1, .max = 4096,
                .help = "physical, of a node" },
    [SOCKETS] = { ZS_FIELD ("sockets", INT32, ZsHost, sockets), .min = 1, .max = 16 },
    [MEMORY] = { ZS_FIELD ("memory", BYTES, ZsHost, memory_bytes), .min = 1 << 30,
                 .max = INT64_C (1) << 48 },
    [MEMORY_RATE] = { ZS_FIELD ("memory_rate", RATE, ZsHost, memory_rate), .min = 1000000000,
                      .max = INT64_C (100000000000000), .help = "of a node, sustained" },
    [PASS_RATE] = { ZS_FIELD ("pass_rate", RATE, ZsHost, pass_rate), .min = 1000000000,
                    .max = INT64_C (100000000000000),
                    .help = "of a node, what the CPU's Adam and casts sustain of memory_rate" },
    [SPEED] = { ZS_FIELD ("speed", NUMBER, ZsHost, speed), .low = 0.05, .high = 20,
                .help = "of Python; 1 is the reference" },
  };
  static const ZsField nvme_fields[] = {
    { ZS_FIELD ("read", RATE, ZsHost, nvme_read_rate), .min = 1000000,
      .max = INT64_C (10000000000000), .required = true },
    { ZS_FIELD ("write", RATE, ZsHost, nvme_write_rate), .min = 1000000,
      .max = INT64_C (10000000000000), .required = true },
  };
  ZsClusterSettings *cluster = &reader->scenario->cluster;
  ZsHost *host = &cluster->host;
  const ZsNode *given[G_N_ELEMENTS (fields)] = { NULL };
  bool ok = true;

  default_host (cluster, host);
  int sockets = host->sockets;

  if (node != NULL)
    ok = zs_schema_read (node, "host", fields, G_N_ELEMENTS (fields), host, given, reader->errors);
  zs_reader_record (reader, "cluster.host.", fields, G_N_ELEMENTS (fields), given);
  host->memory_assumed = given[MEMORY_RATE] == NULL;
  if (given[MEMORY_RATE] == NULL)
    host->memory_rate = host->memory_rate / sockets * host->sockets;
  if (given[CORES] == NULL)
    host->cores = host->cores / sockets * host->sockets;
  if (given[PASS_RATE] == NULL && (host->pass_rate == 0 || given[MEMORY_RATE] != NULL))
    host->pass_rate = (ZsRate) (PASS_SHARE * (double) host->memory_rate / MAX (1, host->sockets));
  host->pass_rate = MIN (host->pass_rate, host->memory_rate);
  g_autofree char *rate = zs_rate_format (host->memory_rate), *pass_rate = zs_rate_format (host->pass_rate);
  zs_reader_default (reader, "cluster.host.cpu", "zerosim", "%s", vendors[host->vendor]);
  zs_reader_default (reader, "cluster.host.cores", "zerosim", "%d", host->cores);
  zs_reader_default (reader, "cluster.host.memory_rate", "zerosim", "%s", rate);
  zs_reader_default (reader, "cluster.host.pass_rate", "zerosim", "%s", pass_rate);
  zs_reader_default (reader, "cluster.host.speed", "zerosim", "1");
  if (nvme != NULL) {
    const ZsNode *rates[G_N_ELEMENTS (nvme_fields)];

    ok &= zs_schema_read (nvme, "nvme", nvme_fields, G_N_ELEMENTS (nvme_fields), host, rates,
                          reader->errors);
    zs_reader_record (reader, "cluster.nvme.", nvme_fields, G_N_ELEMENTS (nvme_fields), rates);
  }
  return ok;
}

/* Variables that NCCL reads and that this program follows, so that a misspelt one does not pass. */
static bool
read_environment (ZsReader *reader, const ZsNode *node)
{
  static const char *const known[] = {
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_SHM_DISABLE",
    "NCCL_IB_DISABLE",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS",
    "NCCL_NTHREADS",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_BUFFSIZE",
    "NCCL_NVLS_ENABLE",
    "NCCL_CROSS_NIC",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_DEBUG",
    "NCCL_SOCKET_IFNAME",
    "NCCL_IB_HCA",
    "NCCL_IB_GID_INDEX",
    "NCCL_TOPO_FILE",
    "NCCL_IGNORE_DISABLED_P2P",
    "NCCL_PXN_DISABLE",
    "NCCL_NVB_DISABLE",
    "OMP_NUM_THREADS",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_MODULE_LOADING",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    NULL,
  };
  GPtrArray *list = g_ptr_array_new ();
  bool ok = true;

  for (int i = 0; node != NULL && i < node->n_items; i++) {
    const ZsNode *key = node->keys[i], *value = node->items[i];

    if (value->kind != ZS_NODE_SCALAR) {
      ok = zs_node_fail (value, reader->errors, "'%.60s' must be one value, not %s", key->text,
                         zs_node_describe (value));
      continue;
    }
    if (!g_strv_contains (known, key->text)) {
      g_autofree char *hint = zs_nearest_hint (key->text, known);

      zs_notes_add (reader->notes, ZS_NOTE_IGNORED, "environment", key,
                    "the variable %.60s changes nothing in a simulation%s", key->text, hint);
    }
    g_autofree char *pair = g_strdup_printf ("%s=%s", key->text, value->text);

    g_ptr_array_add (list, (char *)zs_document_flag (reader->document, "", pair)->text);
  }
  g_ptr_array_add (list, NULL);
  reader->scenario->cluster.environment = (const char *const *)g_ptr_array_free (list, FALSE);
  return ok;
}

/* Factors of this very machine on what the model says. */
static bool
read_calibration (ZsReader *reader, const ZsNode *node)
{
  typedef struct {
    ZsLinkCalibration links;
    double kernels, python;
  } Factors;
#define FACTOR(name, member, text)                                                                 \
  { ZS_FIELD (name, NUMBER, Factors, member), .low = 0.05, .high = 20, .help = text }
  static const ZsField fields[] = {
    FACTOR ("collective_latency", links.collective_latency, "latency of collectives"),
    FACTOR ("collective_ll", links.collective_ll, "transfer of collectives by LL and LL128"),
    FACTOR ("collective_simple", links.collective_simple, "transfer of collectives by Simple"),
    FACTOR ("collective_nvls", links.collective_nvls, "transfer of collectives by NVLS"),
    FACTOR ("to_gpu", links.to_gpu, "rate from the host to a GPU"),
    FACTOR ("to_host", links.to_host, "rate from a GPU to the host"),
    FACTOR ("kernels", kernels, "speed of kernels"),
    FACTOR ("python", python, "speed of the host process"),
  };
#undef FACTOR
  const ZsNode *given[G_N_ELEMENTS (fields)] = { NULL };
  Factors factors = { .python = 1 };
  ZsClusterSettings *cluster = &reader->scenario->cluster;

  if (node == NULL)
    return true;
  bool ok = zs_schema_read (node, "calibration", fields, G_N_ELEMENTS (fields), &factors, given,
                            reader->errors);

  zs_reader_record (reader, "cluster.calibration.", fields, G_N_ELEMENTS (fields), given);
  cluster->calibration = factors.links;
  cluster->kernel_speed = factors.kernels;
  cluster->host.speed *= factors.python;
  return ok;
}

bool
zs_reader_cluster (ZsReader *reader)
{
  ZsClusterSettings *cluster = &reader->scenario->cluster;
  Values values = { .gpus_per_node = 1, .nodes = 1 };
  const ZsNode *given[N_FIELDS] = { NULL };
  ZsNode *node = zs_node_get (reader->root, "cluster");

  cluster->peer_access = -1;
  if (node != NULL && !zs_node_is_null (node)) {
    if (!apply_instance (reader, node)
        || !zs_schema_read (node, "cluster", FIELDS, N_FIELDS, &values, given, reader->errors))
      return false;
  }
  zs_reader_record (reader, "cluster.", FIELDS, N_FIELDS, given);
  cluster->gpus_per_node = values.gpus_per_node;
  cluster->n_nodes = values.nodes;
  zs_reader_default (reader, "cluster.nodes", "zerosim", "1");
  cluster->shm_rate = values.shm_rate;
  if (given[PEER_ACCESS] != NULL)
    cluster->peer_access = values.peer_access;
  if (given[NCCL_VERSION] != NULL)
    cluster->versions.of[ZS_SOFTWARE_NCCL] = values.nccl_version;

  bool ok = read_gpu (reader, &values, given);

  ok &= read_environment (reader, values.environment);
  if (!ok)
    return false;
  if (cluster->peer_access < 0)
    zs_reader_default (reader, "cluster.peer_access", "the GPU's driver", "%s",
                       cluster->gpu.p2p_over_pcie ? "true" : "false");
  ok &= read_host (reader, values.host, values.nvme);
  ok &= read_calibration (reader, values.calibration);
  return zs_reader_topology (reader, values.fabric, values.network, given[GPUS_PER_NODE] != NULL)
         && ok;
}
