/* scenario-topology.c: `fabric` and `network` of the section `cluster`, and the machine they make.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <math.h>
#include <string.h>

#include "sim/network/nccl.h"
#include "sim/scenario/scenario-internal.h"

static bool
read_fabric (ZsReader *reader, const ZsNode *node)
{
  static const ZsField fields[] = {
    { .key = "topo", .type = ZS_FIELD_NODE, .offset = 0 },
    { .key = "nccl_xml", .type = ZS_FIELD_NODE, .offset = sizeof (const ZsNode *) },
  };
  ZsClusterSettings *cluster = &reader->scenario->cluster;
  const ZsNode *files[2] = { NULL, NULL };

  if (node == NULL) {
    const ZsGpu *gpu = &cluster->gpu;
    const char *word = "pcie";

    if (cluster->gpus_per_node > 1 && gpu->nvlink_links > 0 && strstr (gpu->name, "pcie") == NULL
        && strstr (gpu->name, "rtx") == NULL && strstr (gpu->name, "nvl") == NULL)
      word = gpu->compute_capability >= 80 ? "nvswitch" : "nvlink";
    cluster->fabric = word;
    if (cluster->gpus_per_node > 1)
      zs_notes_add (reader->notes, ZS_NOTE_INFO, "default-fabric",
                    zs_reader_find (reader, "cluster.gpu"),
                    "no fabric is named; '%s' is taken for %s", word, gpu->name);
    zs_reader_default (reader, "cluster.fabric", "zerosim", "%s", word);
    return true;
  }
  if (node->kind == ZS_NODE_SCALAR && !g_str_has_suffix (node->text, ".txt")
      && !g_str_has_suffix (node->text, ".xml")) {
    g_autofree char *lower = g_ascii_strdown (node->text, -1); /* names are in lower case */

    cluster->fabric = zs_document_flag (reader->document, "", lower)->text;
    return true;
  }
  if (node->kind == ZS_NODE_SCALAR) { /* `--fabric topo.txt` is short for {topo: topo.txt} */
    g_autofree char *short_path = zs_reader_file (node);

    cluster->fabric_kind = ZS_FABRIC_TOPO;
    cluster->fabric = zs_document_flag (reader->document, "", short_path)->text;
    return g_file_test (short_path, G_FILE_TEST_EXISTS)
           || zs_node_fail (node, reader->errors, "%s: No such file or directory", short_path);
  }
  if (!zs_schema_read (node, "fabric", fields, G_N_ELEMENTS (fields), files, NULL, reader->errors))
    return false;

  const ZsNode *file = files[0] != NULL ? files[0] : files[1];

  if (file == NULL || (files[0] != NULL && files[1] != NULL))
    return zs_node_fail (node, reader->errors,
                         "'fabric' must be a name, {topo: FILE} or {nccl_xml: FILE}");
  if (file->kind != ZS_NODE_SCALAR)
    return zs_node_fail (file, reader->errors, "the name of a file is wanted, not %s",
                         zs_node_describe (file));

  g_autofree char *path = zs_reader_file (file);

  cluster->fabric_kind = files[0] != NULL ? ZS_FABRIC_TOPO : ZS_FABRIC_NCCL_XML;
  cluster->fabric = zs_document_flag (reader->document, "", path)->text;
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    return zs_node_fail (file, reader->errors, "%s: No such file or directory", path);
  return true;
}

typedef struct {
  int kind, nics;
  ZsRate rate;
  ZsTime latency;
  double efficiency;
  bool gpu_direct;
} Network;

static const char *const KINDS[] = { "infiniband", "roce", "efa", "ethernet", "tcp", NULL };
static const int KIND_VALUES[] = { ZS_NETWORK_INFINIBAND, ZS_NETWORK_ROCE, ZS_NETWORK_EFA,
                                   ZS_NETWORK_TCP, ZS_NETWORK_TCP };

/* The known network that is nearest to VALUE: of its kind, by the rate of a card, which tells the generation;
 * EFA bundles cards of one rate, so by all of a node's. */
static bool
load_nearest (ZsReader *reader, const Network *value, ZsNetwork *ret_network, GError **error)
{
  static const struct {
    ZsNetworkKind kind;
    const char   *name;
  } known[] = {
    { ZS_NETWORK_INFINIBAND, "ib-edr-100" }, { ZS_NETWORK_INFINIBAND, "ib-hdr-200" },
    { ZS_NETWORK_INFINIBAND, "ib-ndr-400" }, { ZS_NETWORK_ROCE, "roce-100" },
    { ZS_NETWORK_ROCE, "roce-200" },         { ZS_NETWORK_ROCE, "roce-400" },
    { ZS_NETWORK_EFA, "efa-100" },           { ZS_NETWORK_EFA, "efa-400" },
    { ZS_NETWORK_EFA, "efa-3200" },          { ZS_NETWORK_TCP, "tcp-10g" },
    { ZS_NETWORK_TCP, "tcp-25g" },           { ZS_NETWORK_TCP, "tcp-100g" },
    { ZS_NETWORK_TCP, "tcp-200g" },
  };
  double nearest = G_MAXDOUBLE;

  for (size_t i = 0; i < G_N_ELEMENTS (known); i++) {
    ZsNetwork network;

    if (known[i].kind != (ZsNetworkKind)value->kind)
      continue;
    if (!zs_network_load (zs_catalogue_models (reader->catalogue), known[i].name, &network, error))
      return false;
    double ratio = (double)value->rate / (double)network.rate;

    if (known[i].kind == ZS_NETWORK_EFA)
      ratio *= (double)value->nics / (network.nics > 0 ? network.nics : MAX (1, reader->scenario->cluster.gpus_per_node));
    if (fabs (log (ratio)) < nearest) {
      nearest = fabs (log (ratio));
      *ret_network = network;
    }
  }
  return true;
}

/* {nics, rate, kind}: what is not said is as in the nearest network of that kind. */
static bool
describe_network (ZsReader *reader, const ZsNode *node, ZsNetwork *network)
{
  static const ZsField fields[] = {
    { ZS_FIELD ("nics", INT32, Network, nics), .min = 1, .max = 64, .required = true,
      .help = "network cards of a node" },
    { ZS_FIELD ("rate", RATE, Network, rate), .min = 1000000, .max = INT64_C (10000000000000),
      .required = true, .help = "of one card, for example 200 Gb/s" },
    { ZS_FIELD ("kind", WORD, Network, kind), .words = KINDS, .word_values = KIND_VALUES,
      .required = true },
    { ZS_FIELD ("latency", TIME, Network, latency), .max = ZS_SECOND, .help = "one way" },
    { ZS_FIELD ("efficiency", NUMBER, Network, efficiency), .low = 0.01, .high = 1 },
    { ZS_FIELD ("gpu_direct", BOOL, Network, gpu_direct) },
  };
  enum { NICS, RATE, KIND, LATENCY, EFFICIENCY, GPU_DIRECT };
  const ZsNode *given[G_N_ELEMENTS (fields)];
  g_autoptr (GError) error = NULL;
  Network value = { 0 };

  if (!zs_schema_read (node, "network", fields, G_N_ELEMENTS (fields), &value, given,
                       reader->errors))
    return false;
  if (!load_nearest (reader, &value, network, &error))
    return zs_node_fail (node, reader->errors, "%s", error->message);
  g_strlcpy (network->name, given[KIND]->text, sizeof network->name);
  network->nics = value.nics;
  network->rate = value.rate;
  /* aws-ofi-nccl shows NCCL the cards beside a GPU as one device with several rails (nccl_ofi_topo.c) */
  int rails = value.nics / MAX (1, reader->scenario->cluster.gpus_per_node);

  if (value.kind == ZS_NETWORK_EFA && rails > 1 && value.nics % MAX (1, reader->scenario->cluster.gpus_per_node) == 0) {
    network->nics /= rails;
    network->rate *= rails;
  }
  if (given[LATENCY] != NULL)
    network->extra_latency = value.latency;
  if (given[EFFICIENCY] != NULL)
    network->efficiency = value.efficiency;
  if (given[GPU_DIRECT] != NULL)
    network->gpu_direct = value.gpu_direct;
  network->origin = ZS_ORIGIN_ASSUMED;
  return true;
}

static bool
read_network (ZsReader *reader, const ZsNode *node)
{
  ZsClusterSettings *cluster = &reader->scenario->cluster;
  const char *models = zs_catalogue_models (reader->catalogue);
  g_autoptr (GError) error = NULL;

  if (node != NULL && node->kind != ZS_NODE_SCALAR) {
    cluster->has_network = describe_network (reader, node, &cluster->network);
    return cluster->has_network;
  }
  if (node != NULL) {
    g_autofree char *lower = g_ascii_strdown (node->text, -1);

    cluster->has_network = zs_network_load (models, lower, &cluster->network, &error);
    return cluster->has_network || zs_node_fail (node, reader->errors, "%s", error->message);
  }
  if (cluster->n_nodes == 1 || strcmp (cluster->fabric, "ideal") == 0)
    return true;

  /* a topology of NCCL's has its own NICs; else what was usual with that GPU */
  if (cluster->fabric_kind == ZS_FABRIC_NCCL_XML)
    return true;

  const ZsGpu *gpu = &cluster->gpu;
  const char *word = strstr (gpu->name, "rtx") != NULL ? "tcp-10g"
                     : gpu->compute_capability >= 90   ? "ib-ndr-400"
                     : gpu->compute_capability >= 80   ? "ib-hdr-200"
                                                       : "ib-edr-100";

  cluster->has_network = zs_network_load (models, word, &cluster->network, &error);
  if (!cluster->has_network)
    return zs_errors_add (reader->errors, "%s", error->message);
  zs_notes_add (reader->notes, ZS_NOTE_RISKY, "default-network",
                zs_reader_find (reader, "cluster.nodes"),
                "no network between the nodes is named; '%s' is taken", word);
  zs_reader_default (reader, "cluster.network", "zerosim", "%s", word);
  return true;
}

/* The error of a file that was read has its own place; others get NODE's. */
static bool
fail_at (ZsReader *reader, const ZsNode *node, GError *error, const char *file)
{
  if (node == NULL || (file != NULL && g_str_has_prefix (error->message, file))) {
    zs_errors_take (reader->errors, error);
    return false;
  }
  zs_node_fail (node, reader->errors, "%s", error->message);
  g_error_free (error);
  return false;
}

/* The largest machines of models/instances but two have eight; a name with a larger number is often meant as a job's. */
static void
note_large_node (ZsReader *reader)
{
  const ZsClusterSettings *cluster = &reader->scenario->cluster;
  const ZsNode *count = zs_reader_find (reader, "cluster.gpus_per_node");
  int nodes = cluster->gpus_per_node % 8 == 0 ? cluster->gpus_per_node / 8 : 0;
  g_autofree char *instead
      = nodes > 0 ? g_strdup_printf ("; %d nodes of 8 are `--gpus 8x%s --nodes %d`", nodes, cluster->gpu.name,
                                     nodes * cluster->n_nodes)
                  : g_strdup ("; several nodes are --nodes");

  if (cluster->gpus_per_node > 8 && zs_reader_find (reader, "cluster.instance") == NULL
      && cluster->fabric_kind == ZS_FABRIC_NAME && strcmp (cluster->fabric, "ideal") != 0)
    zs_notes_add (reader->notes, ZS_NOTE_RISKY, "large-node", count,
                  "all %d GPUs are in one node here, which few machines have%s", cluster->gpus_per_node, instead);
}

bool
zs_reader_topology (ZsReader *reader, const ZsNode *fabric, const ZsNode *network, bool has_count)
{
  ZsScenario *scenario = reader->scenario;
  ZsClusterSettings *cluster = &scenario->cluster;
  GError *error = NULL;

  if (!read_fabric (reader, fabric) || !read_network (reader, network))
    return false;
  note_large_node (reader);

  bool named = cluster->fabric_kind == ZS_FABRIC_NAME;
  ZsTopologyOptions options = { .gpu = &cluster->gpu,
                                .n_gpus = named || has_count ? cluster->gpus_per_node : 0,
                                .host = &cluster->host,
                                .peer_access = cluster->peer_access,
                                .shm_rate = cluster->shm_rate,
                                .calibration = cluster->calibration };

  scenario->topology = named ? zs_topology_from_fabric (zs_catalogue_models (reader->catalogue),
                                                        cluster->fabric, &options, &error)
                             : zs_topology_from_file (cluster->fabric, &options, &error);
  if (scenario->topology == NULL)
    return fail_at (reader, fabric, error, named ? NULL : cluster->fabric);
  cluster->gpus_per_node = scenario->topology->n_gpus;
  if (!has_count)
    zs_reader_default (reader, "cluster.gpus_per_node", named ? "zerosim" : "the topology", "%d",
                       cluster->gpus_per_node);
  if (!zs_topology_connect (scenario->topology, cluster->n_nodes,
                            cluster->has_network ? &cluster->network : NULL, &error))
    return fail_at (reader, network != NULL ? network : zs_reader_find (reader, "cluster.nodes"),
                    error, NULL);
  for (guint i = 0; i < scenario->topology->warnings->len; i++)
    zs_notes_add (reader->notes, ZS_NOTE_INFO, "topology", fabric, "%s",
                  (const char *)g_ptr_array_index (scenario->topology->warnings, i));
  if (named && strcmp (scenario->topology->name, cluster->fabric) != 0)
    zs_settings_put (reader->settings, "cluster.fabric.name", ZS_SETTING_DERIVED, "the GPU", "%s",
                     scenario->topology->name);
  return true;
}

/* Collectives that NCCL_ALGO and NCCL_PROTO leave nothing for. */
void
zs_reader_note_algorithms (ZsReader *reader)
{
  ZsScenario *scenario = reader->scenario;
  const ZsNode *node = zs_reader_find (reader, "cluster.environment.NCCL_ALGO");
  int64_t world = scenario->training.world;
  ZsNcclConfig config = { .version = scenario->cluster.versions.of[ZS_SOFTWARE_NCCL],
                          .environment = scenario->cluster.environment };
  g_autoptr (GString) names = g_string_new (NULL);

  if (node == NULL)
    node = zs_reader_find (reader, "cluster.environment.NCCL_PROTO");
  if (node == NULL || world < 2 || scenario->topology == NULL)
    return;
  g_autofree int64_t *ranks = g_new (int64_t, world);

  for (int64_t i = 0; i < world; i++)
    ranks[i] = i;
  g_autoptr (ZsComm) comm = zs_comm_new (scenario->topology, ranks, (int)world, &config, NULL);

  for (int kind = 0; comm != NULL && kind < ZS_N_COLLECTIVES; kind++)
    if (!zs_comm_obeys (comm, (ZsCollectiveKind)kind))
      g_string_append_printf (names, "%s%s", names->len > 0 ? ", " : "", zs_collective_name ((ZsCollectiveKind)kind));
  if (names->len > 0)
    zs_notes_add (reader->notes, ZS_NOTE_RISKY, "environment", node,
                  "NCCL_ALGO and NCCL_PROTO leave no algorithm for %s, which NCCL may refuse: these are timed as if "
                  "they were not set", names->str);
}
