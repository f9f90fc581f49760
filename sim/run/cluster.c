/* cluster.c: what a cluster answers to a run.
 * SPDX-License-Identifier: MIT
 *
 * Resources are, node by node, its links, then its CPU cores, NVMe reads, NVMe writes, host memory
 * for topologies that do not know theirs, and what passes of CPU threads sustain of it.
 *
 * Groups inside a node look alike in all nodes: their communicators are made for the first node,
 * and the links moved to the node that is asked for.
 */
#include "config.h"

#include "sim/run/cluster.h"

#include "sim/hardware/kernel-time.h"
#include "sim/memory/caching-allocator.h"

/* NVMe: one request's latency, flash read of data-centre drives (assumed; no measurement). */
#define NVME_LATENCY (100 * ZS_MICROSECOND)

/* The instructions' own host time, on the reference host.  A collective: 5 to 10 us in C++
 * (enqueue, plan, launch: an estimate; what Python adds is in the plan's host work).  A copy: an
 * eager operator of 7 to 8 us (measured, H200).  From Python an event's record takes 7.8 us, a stream's
 * wait for an event 1.4, wait_stream () 11.3 (measured on a machine some 1.2 times slower). */
#define COLLECTIVE_COST (10 * ZS_MICROSECOND)
#define COPY_COST       (8 * ZS_MICROSECOND)
#define EVENT_COST      (6 * ZS_MICROSECOND)
#define WAIT_EVENT_COST (3 * ZS_MICROSECOND / 2)
#define WAIT_STREAM_COST (9 * ZS_MICROSECOND)
/* A copy of a number and its synchronisation take 22 us (measured, H200): 8 to issue, 4 for the
 * copy, the rest to wake. */
#define WAKE_COST       (10 * ZS_MICROSECOND)
/* Launches pending on a stream before cudaLaunchKernel blocks: general knowledge, not measured. */
#define LAUNCH_DEPTH    1024

enum { NODE_CORES, NODE_NVME_READ, NODE_NVME_WRITE, NODE_MEMORY, NODE_PASSES, N_NODE_RESOURCES };

/* What copies of one GPU of a node use, by direction. */
typedef struct {
  ZsLoad  loads[2][32];
  int     n_loads[2];
  ZsTime  latency[2];
  ZsRate  rate[2][2];              /* pageable, pinned */
} GpuCopies;

struct ZsCluster {
  ZsMachine  machine;
  ZsClusterSpec spec;
  ZsRate    *capacities;
  int64_t    node_ranks, n_nodes;
  int32_t    n_links;              /* of a node */
  ZsComm    *world;
  ZsComm   **groups, **across;     /* those of the first node or nodes */
  int64_t    n_groups, n_across;
  int64_t    group_nodes;          /* that a group spans: 1, or more */
  GpuCopies *copies;               /* by GPU of a node */
};

static int32_t
link_resource (const ZsCluster *cluster, int64_t node, int32_t link)
{
  return (int32_t) (node * (cluster->n_links + N_NODE_RESOURCES)) + link;
}

static int32_t
node_resource (const ZsCluster *cluster, int64_t node, int what)
{
  return link_resource (cluster, node, cluster->n_links + what);
}

static void
resource_name (const void *self, int32_t resource, char *ret_name, size_t room)
{
  static const char *const NAMES[] = { "CPU cores", "NVMe reads", "NVMe writes", "host memory",
                                       "CPU passes" };
  const ZsCluster *cluster = self;
  int32_t of_node = cluster->n_links + N_NODE_RESOURCES, place = resource % of_node;
  int64_t node = resource / of_node;
  const char *name = place < cluster->n_links ? cluster->spec.topology->links[place].name
                                              : NAMES[place - cluster->n_links];

  if (cluster->n_nodes > 1)
    g_snprintf (ret_name, room, "node %" G_GINT64_FORMAT ": %s", node, name);
  else
    g_snprintf (ret_name, room, "%s", name);
}

/* ---- kernels and host ---- */

/* TIME of a kernel as this machine runs it. */
static ZsTime
own_time (const ZsClusterSpec *spec, ZsTime time)
{
  return spec->kernel_speed > 0 ? zs_time_from_seconds (zs_time_to_seconds (time) / spec->kernel_speed) : time;
}

static ZsTime
kernel_time (const void *self, const ZsKernel *kernel, ZsPace pace)
{
  const ZsClusterSpec *spec = &((const ZsCluster *) self)->spec;

  return own_time (spec, zs_kernel_time_in_step (spec->gpu, kernel, pace));
}

static ZsTime
kernel_time_beside (const void *self, const ZsKernel *kernel, ZsTime alone, int sms, double memory_share)
{
  return zs_kernel_time_beside (((const ZsCluster *) self)->spec.gpu, kernel, alone, sms, memory_share);
}

static ZsTime
launch_cost (const void *self, ZsLaunchKind launch)
{
  return zs_launch_cost (((const ZsCluster *) self)->spec.host, launch);
}

static ZsTime
host_cost (const void *self, ZsHostWork work)
{
  return zs_host_work_cost (((const ZsCluster *) self)->spec.host, work);
}

static ZsTime
segment_cost (const void *self G_GNUC_UNUSED, int action, int64_t bytes)
{
  switch (action) {
  case ZS_ALLOCATOR_SEGMENT_ALLOC:
    return zs_gpu_malloc_cost (bytes);
  case ZS_ALLOCATOR_SEGMENT_MAP:
    return zs_gpu_map_cost (bytes);
  case ZS_ALLOCATOR_SEGMENT_FREE:
  case ZS_ALLOCATOR_SEGMENT_UNMAP:
    return zs_gpu_free_cost (bytes);
  default:
    return 0;
  }
}

static ZsTime
pin_cost (const void *self G_GNUC_UNUSED, int64_t bytes)
{
  return zs_host_pin_cost (bytes);
}

/* OpenMP's, of each rank. */
static int64_t
threads_of_rank (const ZsCluster *cluster)
{
  const ZsHost *host = cluster->spec.host;

  return MAX (1, host->omp_threads > 0 ? host->omp_threads : MAX (1, host->cores) / cluster->node_ranks);
}

static ZsTime
fault_cost (const void *self, int64_t bytes, bool copied)
{
  return zs_host_fault_cost (bytes, (int) threads_of_rank (self), copied);
}

static ZsTime
return_cost (const void *self G_GNUC_UNUSED, int64_t bytes)
{
  return zs_host_return_cost (bytes);
}

/* ---- what moves bytes ---- */

/* Note LOADS, of which the busiest link carries BUSIEST / ZS_LOAD_ONE bytes per byte. */
static void
use_loads (const ZsCluster *cluster, int64_t node, const ZsLoad *loads, int n_loads,
           int32_t busiest, ZsTransfer *transfer)
{
  for (int k = 0; k < n_loads; k++) {
    int64_t weight = ((int64_t) loads[k].weight * ZS_SHARE_ONE + busiest / 2) / busiest;

    int32_t resource = link_resource (cluster, node + loads[k].link / cluster->n_links,
                                      loads[k].link % cluster->n_links);

    if (weight > 0 && !(transfer->first_node && resource >= link_resource (cluster, 1, 0)))
      zs_transfer_use (transfer, resource, (int32_t) weight);
  }
}

static int32_t
busiest_weight (const ZsLoad *loads, int n_loads)
{
  int32_t busiest = 0;

  for (int k = 0; k < n_loads; k++)
    busiest = MAX (busiest, loads[k].weight);
  return busiest;
}

static const ZsComm *
find_comm (const ZsCluster *cluster, ZsCommunicator communicator, int64_t group, int64_t *ret_node)
{
  *ret_node = 0;
  switch (communicator) {
  case ZS_COMMUNICATOR_GROUP:
    *ret_node = group / cluster->n_groups * cluster->group_nodes;
    return cluster->groups[group % cluster->n_groups];
  case ZS_COMMUNICATOR_ACROSS:
    return cluster->across[group];
  default:
    return cluster->world;
  }
}

static int64_t
comm_ranks (const ZsCluster *cluster, ZsCommunicator communicator)
{
  int64_t n = cluster->machine.n_ranks, size = cluster->spec.group_ranks;

  return communicator == ZS_COMMUNICATOR_GROUP ? size
         : communicator == ZS_COMMUNICATOR_ACROSS ? MAX (1, n / size) : n;
}

/* GPU memory traffic of a collective, for each byte that a GPU sends: a ring all-gather reads 1 and
 * writes 2, a reduce-scatter reads 2 and writes 1, an all-reduce is one after the other.
 * (Derived.) */
#define MEMORY_PER_WIRE_BYTE 3.0

static void
collective (const void *self, ZsCommunicator communicator, int64_t group, ZsCollectiveKind kind,
            int64_t bytes, ZsTransfer *transfer)
{
  const ZsCluster *cluster = self;
  int64_t node;
  const ZsComm *comm = find_comm (cluster, communicator, group, &node);
  double n = (double) comm_ranks (cluster, communicator);
  ZsChoice choice;

  zs_comm_choose (comm, kind, bytes, &choice);
  transfer->latency = choice.latency;
  transfer->transfer = choice.transfer;
  transfer->sms = choice.channels;
  transfer->bytes = bytes;
  if (choice.transfer == 0)
    return;
  int32_t busiest = busiest_weight (choice.loads, choice.n_loads);

  if (busiest > 0) {
    transfer->bytes = (int64_t) ((__int128) bytes * busiest / ZS_LOAD_ONE);
    use_loads (cluster, node, choice.loads, choice.n_loads, busiest, transfer);
    for (int k = 1; k < choice.n_nodes && !transfer->first_node; k++)
      use_loads (cluster, node + choice.nodes[k] - choice.nodes[0], choice.loads, choice.n_loads,
                 busiest, transfer);
  }
  double wire = (double) bytes * (n - 1) / n * (kind == ZS_COLLECTIVE_ALL_REDUCE ? 2 : 1);

  transfer->gpu_memory_rate = MEMORY_PER_WIRE_BYTE * wire / zs_time_to_seconds (choice.transfer);
}

static void
copy (const void *self, int64_t rank, ZsCopyKind kind, int64_t bytes, bool pinned,
      ZsTransfer *transfer)
{
  const ZsCluster *cluster = self;
  const GpuCopies *copies = &cluster->copies[rank % cluster->node_ranks];
  const ZsLoad *loads = copies->loads[kind];
  int n_loads = copies->n_loads[kind];
  ZsRate rate = copies->rate[kind][pinned];
  int32_t busiest = busiest_weight (loads, n_loads);

  transfer->latency = copies->latency[kind];
  transfer->bytes = bytes;
  transfer->transfer = rate > 0 ? zs_time_to_move (bytes, rate) : 0;
  if (busiest > 0) {
    transfer->bytes = (int64_t) ((__int128) bytes * busiest / ZS_LOAD_ONE);
    use_loads (cluster, rank / cluster->node_ranks, loads, n_loads, busiest, transfer);
  }
}

static void
use_memory (const ZsCluster *cluster, int64_t rank, ZsTransfer *transfer)
{
  int64_t node = rank / cluster->node_ranks;
  int link = zs_topology_memory_link (cluster->spec.topology, (int) (rank % cluster->node_ranks));

  if (link >= 0)
    zs_transfer_use (transfer, link_resource (cluster, node, link), ZS_SHARE_ONE);
  else
    zs_transfer_use (transfer, node_resource (cluster, node, NODE_MEMORY), ZS_SHARE_ONE);
}

static void
cpu_task (const void *self, int64_t rank, ZsCpuTask task, int64_t elements, ZsTransfer *transfer)
{
  const ZsCluster *cluster = self;
  const ZsHost *host = cluster->spec.host;
  int64_t traffic = 0, cores = MAX (1, host->cores), threads = threads_of_rank (cluster);

  transfer->transfer = zs_cpu_task_time (host, task, elements, (int) threads, &traffic);
  transfer->bytes = MAX (1, traffic);
  use_memory (cluster, rank, transfer);
  if (host->pass_rate > 0)
    zs_transfer_use (transfer, node_resource (cluster, rank / cluster->node_ranks, NODE_PASSES), ZS_SHARE_ONE);
  /* Cores, in 10^-9: only where there are too few can they matter. */
  if (threads * cluster->node_ranks > cores && transfer->transfer > 0) {
    double rate = (double) transfer->bytes / zs_time_to_seconds (transfer->transfer);
    double weight = (double) threads * 1e9 * (double) ZS_SHARE_ONE / rate;

    zs_transfer_use (transfer, node_resource (cluster, rank / cluster->node_ranks, NODE_CORES),
                     (int32_t) CLAMP (weight, 1, G_MAXINT32 / 1024));
  }
}

static void
nvme (const void *self, int64_t rank, ZsNvmeKind kind, int64_t bytes, ZsTransfer *transfer)
{
  const ZsCluster *cluster = self;
  const ZsHost *host = cluster->spec.host;
  ZsRate rate = kind == ZS_NVME_READ ? host->nvme_read_rate : host->nvme_write_rate;

  transfer->latency = NVME_LATENCY;
  transfer->bytes = bytes;
  if (rate == 0)
    return;
  transfer->transfer = zs_time_to_move (bytes, rate);
  zs_transfer_use (transfer,
                   node_resource (cluster, rank / cluster->node_ranks,
                                  kind == ZS_NVME_READ ? NODE_NVME_READ : NODE_NVME_WRITE),
                   ZS_SHARE_ONE);
  use_memory (cluster, rank, transfer);
}

static int64_t
communicator_bytes (const void *self, ZsCommunicator communicator, int64_t group,
                    unsigned int kinds, bool first)
{
  int64_t node;

  return zs_comm_gpu_bytes (find_comm (self, communicator, group, &node), kinds, first);
}

/* ---- life ---- */

/* N ranks from FIRST, every STEP-th. */
static ZsComm *
make_comm (const ZsCluster *cluster, int64_t first, int64_t step, int64_t n, GError **error)
{
  g_autofree int64_t *ranks = g_new (int64_t, n);

  for (int64_t r = 0; r < n; r++)
    ranks[r] = first + r * step;
  return zs_comm_new (cluster->spec.topology, ranks, (int) n, &cluster->spec.nccl, error);
}

static bool
make_comms (ZsCluster *cluster, GError **error)
{
  int64_t n = cluster->machine.n_ranks, size = cluster->spec.group_ranks;

  cluster->world = make_comm (cluster, 0, 1, n, error);
  if (cluster->world == NULL)
    return false;
  if (size == 0)
    return true;
  g_assert (n % size == 0);
  cluster->group_nodes = MAX (1, size / cluster->node_ranks);
  cluster->n_groups = MIN (n / size, MAX (1, cluster->node_ranks / size));
  cluster->groups = g_new0 (ZsComm *, cluster->n_groups);
  for (int64_t g = 0; g < cluster->n_groups; g++)
    if ((cluster->groups[g] = make_comm (cluster, g * size, 1, size, error)) == NULL)
      return false;
  cluster->n_across = size;
  cluster->across = g_new0 (ZsComm *, size);
  for (int64_t p = 0; p < size; p++)
    if ((cluster->across[p] = make_comm (cluster, p, size, n / size, error)) == NULL)
      return false;
  return true;
}

static void
make_copies (ZsCluster *cluster)
{
  const ZsTopology *topology = cluster->spec.topology;

  cluster->copies = g_new0 (GpuCopies, cluster->node_ranks);
  for (int gpu = 0; gpu < cluster->node_ranks; gpu++)
    for (ZsCopyKind kind = 0; kind < ZS_COPY_HOST_TO_HOST; kind++) {
      GpuCopies *copies = &cluster->copies[gpu];

      copies->n_loads[kind] = zs_topology_copy_loads (topology, gpu, kind, copies->loads[kind],
                                                      G_N_ELEMENTS (copies->loads[kind]));
      copies->latency[kind] = zs_topology_copy_latency (topology, gpu, kind);
      for (int pinned = 0; pinned < 2; pinned++)
        copies->rate[kind][pinned] = zs_topology_copy_rate (topology, gpu, kind, pinned);
    }
}

static void
make_capacities (ZsCluster *cluster)
{
  const ZsTopology *topology = cluster->spec.topology;
  const ZsHost *host = cluster->spec.host;
  int32_t n = link_resource (cluster, cluster->n_nodes, 0);
  const ZsRate unbounded = INT64_C (100000000000000);

  cluster->capacities = g_new (ZsRate, n);
  for (int64_t node = 0; node < cluster->n_nodes; node++) {
    for (int32_t l = 0; l < cluster->n_links; l++)
      cluster->capacities[link_resource (cluster, node, l)]
        = CLAMP (topology->links[l].rate, 1, unbounded);
    const ZsRate rates[N_NODE_RESOURCES] = {
      [NODE_CORES] = (ZsRate) MAX (1, host->cores) * 1000000000,
      [NODE_NVME_READ] = host->nvme_read_rate, [NODE_NVME_WRITE] = host->nvme_write_rate,
      [NODE_MEMORY] = host->memory_rate,
      [NODE_PASSES] = host->pass_rate,
    };

    for (int what = 0; what < N_NODE_RESOURCES; what++)
      cluster->capacities[node_resource (cluster, node, what)]
        = rates[what] > 0 ? rates[what] : unbounded;
  }
  cluster->machine.capacities = cluster->capacities;
  cluster->machine.n_resources = n;
  if (cluster->machine.n_ranks % cluster->node_ranks == 0)
    cluster->machine.node_resources = link_resource (cluster, 1, 0);
}

ZsCluster *
zs_cluster_new (const ZsClusterSpec *spec, GError **error)
{
  g_autoptr (ZsCluster) cluster = g_new0 (ZsCluster, 1);
  const ZsGpu *gpu = spec->gpu;
  double speed = spec->host->speed > 0 ? spec->host->speed : 1;

  cluster->spec = *spec;
  cluster->node_ranks = spec->topology->n_gpus;
  cluster->n_links = spec->topology->n_links;
  int64_t all = cluster->node_ranks * MAX (1, spec->topology->n_nodes);
  int64_t n = spec->n_ranks > 0 ? spec->n_ranks : all;

  g_assert (n <= all);
  cluster->node_ranks = MIN (cluster->node_ranks, n);
  cluster->n_nodes = (n + cluster->node_ranks - 1) / cluster->node_ranks;
  if (spec->group_ranks >= n)
    cluster->spec.group_ranks = n;
  cluster->machine = (ZsMachine) {
    .self = cluster, .n_ranks = n, .node_ranks = cluster->node_ranks,
    .resource_name = resource_name, .sm_count = gpu->sm_count,
    .gpu_memory_bytes = spec->gpu_memory_bytes > 0 ? spec->gpu_memory_bytes : gpu->memory_bytes,
    .context_bytes = gpu->context_bytes, .gpu_memory_rate = gpu->memory_rate,
    .peak_flops = spec->fp32 ? gpu->fp32_flops : spec->fp16 ? gpu->fp16_flops : gpu->bf16_flops,
    .kernel_time = kernel_time, .kernel_time_beside = kernel_time_beside,
    .host_memory_bytes = spec->host->memory_bytes, .launch_cost = launch_cost,
    .host_cost = host_cost, .host_speed = speed,
    .op_cost = {
      [ZS_OP_COLLECTIVE] = (ZsTime) ((double) COLLECTIVE_COST / speed),
      [ZS_OP_COPY] = (ZsTime) ((double) COPY_COST / speed),
      [ZS_OP_EVENT_RECORD] = (ZsTime) ((double) EVENT_COST / speed),
      [ZS_OP_STREAM_WAIT_EVENT] = (ZsTime) ((double) WAIT_EVENT_COST / speed),
      [ZS_OP_STREAM_WAIT_STREAM] = (ZsTime) ((double) WAIT_STREAM_COST / speed),
    },
    .wake_cost = WAKE_COST, .launch_depth = LAUNCH_DEPTH,
    .segment_cost = segment_cost, .pin_cost = pin_cost, .fault_cost = fault_cost,
    .return_cost = return_cost, .collective = collective, .copy = copy,
    .cpu_task = cpu_task, .nvme = nvme, .communicator_bytes = communicator_bytes,
  };
  make_capacities (cluster);
  make_copies (cluster);
  if (!make_comms (cluster, error))
    return NULL;
  return g_steal_pointer (&cluster);
}

void
zs_cluster_free (ZsCluster *cluster)
{
  if (cluster == NULL)
    return;
  zs_comm_free (cluster->world);
  for (int64_t g = 0; cluster->groups != NULL && g < cluster->n_groups; g++)
    zs_comm_free (cluster->groups[g]);
  for (int64_t p = 0; cluster->across != NULL && p < cluster->n_across; p++)
    zs_comm_free (cluster->across[p]);
  g_free (cluster->groups);
  g_free (cluster->across);
  g_free (cluster->capacities);
  g_free (cluster->copies);
  g_free (cluster);
}

const ZsMachine *
zs_cluster_machine (const ZsCluster *cluster)
{
  return &cluster->machine;
}

const ZsComm *
zs_cluster_comm (const ZsCluster *cluster, ZsCommunicator communicator, int64_t group)
{
  int64_t node;

  if (communicator >= ZS_COMMUNICATOR_GROUP && cluster->spec.group_ranks == 0)
    return NULL;
  return find_comm (cluster, communicator, group, &node);
}
