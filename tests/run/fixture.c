/* fixture.c: see fixture.h.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/run/fixture.h"

#include <CUnit/CUnit.h>
#include <math.h>

#define RATE INT64_C (10000000000)

/* Resources: up(r), down(r) for each rank, then bridge-in(node), bridge-out(node), memory(node). */
static const Fixture *
fixture_of (const void *self)
{
  return self;
}

static ZsTime
kernel_time (const void *self G_GNUC_UNUSED, const ZsKernel *kernel, ZsPace pace G_GNUC_UNUSED)
{
  return kernel->n;
}

/* Blocks come in waves, and without blocks memory counts. */
static ZsTime
kernel_time_beside (const void *self, const ZsKernel *kernel, ZsTime alone, int sms, double memory_share)
{
  int64_t all = ((const Fixture *) self)->machine.sm_count, left = all - sms, blocks = kernel->m;

  if (blocks > 0) {
    int64_t waves = (blocks + all - 1) / all;

    return (alone * ((blocks + left - 1) / left) + waves - 1) / waves;
  }
  return (ZsTime) ceil ((double) alone / (1 - memory_share));
}

static ZsTime
launch_cost (const void *self, ZsLaunchKind kind G_GNUC_UNUSED)
{
  return fixture_of (self)->launch;
}

static ZsTime
host_cost (const void *self G_GNUC_UNUSED, ZsHostWork work G_GNUC_UNUSED)
{
  return ZS_MICROSECOND;
}

static int32_t
bridge_of (const Fixture *fixture, int64_t rank, int what)
{
  return (int32_t) (2 * fixture->machine.n_ranks + 3 * (rank / fixture->machine.node_ranks) + what);
}

static void
copy (const void *self, int64_t rank, ZsCopyKind kind, int64_t bytes, bool pinned G_GNUC_UNUSED,
      ZsTransfer *transfer)
{
  const Fixture *fixture = self;

  transfer->latency = fixture->copy_latency;
  transfer->transfer = zs_time_to_move (bytes, RATE);
  transfer->bytes = bytes;
  zs_transfer_use (transfer, (int32_t) (2 * rank + (kind == ZS_COPY_GPU_TO_HOST)), ZS_SHARE_ONE);
  if (fixture->bridge)
    zs_transfer_use (transfer, bridge_of (fixture, rank, kind == ZS_COPY_GPU_TO_HOST),
                     ZS_SHARE_ONE);
}

static void
cpu_task (const void *self, int64_t rank, ZsCpuTask task G_GNUC_UNUSED, int64_t elements,
          ZsTransfer *transfer)
{
  transfer->transfer = zs_time_to_move (elements, RATE);
  transfer->bytes = elements;
  zs_transfer_use (transfer, bridge_of (self, rank, 2), ZS_SHARE_ONE);
}

static void
nvme (const void *self, int64_t rank, ZsNvmeKind kind G_GNUC_UNUSED, int64_t bytes,
      ZsTransfer *transfer)
{
  cpu_task (self, rank, ZS_CPU_COPY, bytes, transfer);
}

static void
collective (const void *self, ZsCommunicator communicator, int64_t group,
            ZsCollectiveKind kind G_GNUC_UNUSED, int64_t bytes, ZsTransfer *transfer)
{
  const Fixture *fixture = self;
  int64_t n = fixture->machine.n_ranks, size = fixture->group_ranks, members = 0;

  for (int64_t r = 0; r < n; r++) {
    bool member = communicator == ZS_COMMUNICATOR_GROUP ? r / size == group
                  : communicator == ZS_COMMUNICATOR_ACROSS ? r % size == group : true;

    if (!member)
      continue;
    members++;
    if (fixture->on_links) {
      zs_transfer_use (transfer, (int32_t) (2 * r), ZS_SHARE_ONE);
      zs_transfer_use (transfer, (int32_t) (2 * r + 1), ZS_SHARE_ONE);
    }
  }
  transfer->latency = fixture->collective_latency;
  transfer->bytes = bytes * (members - 1) / members;
  transfer->transfer = zs_time_to_move (transfer->bytes, RATE);
  transfer->sms = fixture->sms;
}

void
fixture_init (Fixture *fixture, int64_t n_ranks, int64_t node_ranks)
{
  *fixture = (Fixture) { .launch = ZS_MICROSECOND, .copy_latency = 10 * ZS_MICROSECOND,
                         .collective_latency = 10 * ZS_MICROSECOND, .on_links = true };
  for (size_t r = 0; r < G_N_ELEMENTS (fixture->capacities); r++)
    fixture->capacities[r] = RATE;
  fixture->machine = (ZsMachine) {
    .self = fixture, .n_ranks = n_ranks, .node_ranks = node_ranks,
    .capacities = fixture->capacities, .n_resources = G_N_ELEMENTS (fixture->capacities),
    .sm_count = 100, .gpu_memory_bytes = INT64_C (1) << 30, .context_bytes = 0,
    .gpu_memory_rate = INT64_C (1000000000000), .peak_flops = 1e12,
    .kernel_time = kernel_time, .kernel_time_beside = kernel_time_beside, .launch_cost = launch_cost,
    .host_cost = host_cost, .copy = copy, .cpu_task = cpu_task, .nvme = nvme,
    .collective = collective,
  };
}

/* ---- plans ---- */

typedef struct {
  Script      script;
  const void *data;
} Scripts;

static ZsPlanSource
open_source (void *self, int64_t rank)
{
  const Scripts *scripts = self;
  ZsPlan *plan = zs_plan_new ();

  scripts->script (plan, rank, scripts->data);
  return zs_plan_source_whole (plan);
}

ZsResult *
fixture_run (Fixture *fixture, Script script, const void *data, const ZsRunOptions *options,
             GError **error)
{
  Scripts scripts = { .script = script, .data = data };
  ZsWork work = { .self = &scripts, .open = open_source, .samples_per_rank = 1,
                  .tokens_per_rank = 1000, .group_ranks = fixture->group_ranks };
  ZsRunOptions defaults;

  zs_run_options_init (&defaults);
  return zs_run_work (&work, &fixture->machine, options != NULL ? options : &defaults, error);
}

ZsResult *
fixture_result (Fixture *fixture, Script script, const void *data)
{
  g_autoptr (GError) error = NULL;
  ZsResult *result = fixture_run (fixture, script, data, NULL, &error);

  if (error != NULL)
    g_printerr ("# %s\n", error->message);
  CU_ASSERT_PTR_NOT_NULL_FATAL (result);
  /* whatever happens, the parts of the step are the step */
  ZsTime sum = 0;

  for (int w = 0; w < ZS_N_WAITS; w++)
    sum += result->wait_ps[w];
  CU_ASSERT_EQUAL (sum, result->step_time_ps);
  return result;
}

uint32_t
kernel_of (ZsPlan *plan, ZsTime time)
{
  return zs_plan_kernel (plan, &(ZsKernel) { .kind = ZS_KERNEL_ELEMENTWISE, .n = time,
                                             .name = "kernel" });
}

void
launch (ZsPlan *plan, ZsTime time)
{
  zs_plan_launch (plan, kernel_of (plan, time));
}

void
begin_step (ZsPlan *plan, int step)
{
  zs_plan_phase (plan, ZS_PHASE_FORWARD, step, 0, true);
}
