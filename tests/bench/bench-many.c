/* bench-many.c: what grows with accumulation, with layers, with GPUs and with the number of runs.
 * SPDX-License-Identifier: MIT
 *
 * Times are CPU time with the memory timeline, best and median of some runs; the sweep's is the clock
 * on the wall, with reading of the scenario and all.
 * Usage: bench-many [CONFIGURATIONS [FRACTION]]: so many whose plans all differ, and one part in FRACTION of
 * the 10,000 settings. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "sim/scenario/catalogue.h"
#include "sim/study/sweep.h"
#include "tests/run/jobs.h"
#include "tests/testing.h"

static double
cpu_seconds (void)
{
  struct rusage use;

  getrusage (RUSAGE_SELF, &use);
  return (double) use.ru_utime.tv_sec + (double) use.ru_utime.tv_usec / 1e6
         + (double) use.ru_stime.tv_sec + (double) use.ru_stime.tv_usec / 1e6;
}

static long
memory_mib (void)
{
  struct rusage use;

  getrusage (RUSAGE_SELF, &use);
  return use.ru_maxrss / 1024;
}

static int
by_size (const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return x < y ? -1 : x > y;
}

enum { MOST_REPEATS = 64 };

/* Cluster and run, REPEATS times; returns the best time of both. */
static double
measure (const char *name, Job *job, bool fold, int repeats)
{
  double total[MOST_REPEATS], building[MOST_REPEATS];
  ZsRunOptions options;

  zs_run_options_init (&options);
  options.want_memory_points = true;
  options.no_folding = !fold;
  g_autoptr (ZsResult) result = NULL;

  for (int i = 0; i < repeats; i++) {
    g_clear_pointer (&job->cluster, zs_cluster_free);
    g_clear_pointer (&result, zs_result_free);
    double start = cpu_seconds ();

    job_ready (job);
    building[i] = cpu_seconds () - start;
    result = job_run (job, &options);
    total[i] = cpu_seconds () - start;
  }
  qsort (total, (size_t) repeats, sizeof *total, by_size);
  qsort (building, (size_t) repeats, sizeof *building, by_size);
  printf ("%-44s %7.2f ms best %7.2f median, of these %5.2f for the cluster; %9" G_GINT64_FORMAT
          " instructions, %9" G_GINT64_FORMAT " of them repeated; step %8.1f ms; %3ld MiB\n",
          name, total[0] * 1e3, total[repeats / 2] * 1e3, building[0] * 1e3,
          result->n_instructions, result->n_repeated, (double) result->step_time_ps / 1e9,
          memory_mib ());
  return total[0];
}

static void
accumulation (void)
{
  for (int stage = 3; stage >= 2; stage--) {
    double times[5] = { 0 };

    for (int m = 0; m < 5; m++) {
      Job job;
      int micro_steps = 4 << m;
      g_autofree char *name = g_strdup_printf ("7B, ZeRO-%d, 8 GPUs, %d micro-steps", stage,
                                               micro_steps);

      job_init (&job, MODEL_7B, stage, 8, "nvswitch-h100");
      job.training.gradient_accumulation = job.training.zero.gradient_accumulation = micro_steps;
      times[m] = measure (name, &job, true, stage == 3 ? 9 : 3);
      job_clear (&job);
    }
    printf ("64 micro-steps cost %.2f times what 4 cost\n", times[4] / times[0]);
  }
}

static void
layers (void)
{
  for (int64_t n = 16; n <= 128; n *= 2) {
    Job job;
    g_autofree char *name = g_strdup_printf ("7B with %d layers, ZeRO-3, 8 GPUs", (int) n);

    job_init (&job, MODEL_7B, 3, 8, "nvswitch-h100");
    job.training.shape.n_layers = n;
    measure (name, &job, true, 9);
    job_clear (&job);
  }
}

static void
gpus (void)
{
  const ZsNetwork network = { .name = "ib", .kind = ZS_NETWORK_INFINIBAND, .nics = 8,
                              .rate = INT64_C (50000000000), .latency = 5 * ZS_MICROSECOND,
                              .efficiency = 0.9, .gpu_direct = true };

  for (int nodes = 2; nodes <= 2048; nodes *= nodes == 2 ? 8 : nodes == 16 ? 8 : 16) {
    Job job;
    g_autofree char *name = g_strdup_printf ("70B, ZeRO-3, %d GPUs on %d nodes", nodes * 8, nodes);

    job_init (&job, MODEL_7B, 3, 8, "nvswitch-h100");
    job.training.shape = (ZsModelShape) {
      .name = "llama-2-70b", .hidden = 8192, .intermediate = 28672, .n_layers = 80, .n_heads = 64,
      .n_kv_heads = 8, .head_dim = 128, .vocabulary = 32000, .max_position = 4096,
    };
    if (!zs_topology_connect (job.topology, nodes, &network, NULL))
      g_error ("no network");
    job.training.world = job.training.zero.world = nodes * 8;
    measure (name, &job, true, 9);
    if (nodes == 16) {   /* and every rank by itself: 64 of them */
      job_clear (&job);
      job_init (&job, MODEL_7B, 3, 8, "nvswitch-h100");
      zs_topology_connect (job.topology, 8, &network, NULL);
      job.training.world = job.training.zero.world = 64;
      measure ("7B, ZeRO-3, 64 ranks unfolded", &job, false, 2);
    }
    job_clear (&job);
  }
}

/* ---- sweeps ---- */

typedef struct {
  const ZsSweep *sweep;    /* its configurations, or, NULL: reduce_bucket_size alone */
  ZsBase *base;
  int     stage, first, n;
  int64_t n_instructions;
} Shard;

static gpointer
run_shard (gpointer data)
{
  Shard *shard = data;
  g_autofree char *stage = g_strdup_printf ("stage=%d", shard->stage);

  for (int i = shard->first; i < shard->n; i += 2) {
    g_autofree char *bucket = g_strdup_printf ("reduce_bucket_size=%d", 10000000 + 10000 * i);
    const char *const changes[] = { stage, bucket, NULL };
    g_auto (GStrv) of_sweep = shard->sweep != NULL ? zs_sweep_changes (shard->sweep, i) : NULL;
    g_autoptr (GError) error = NULL;
    ZsRunOptions options;

    zs_run_options_init (&options);
    options.want_memory_points = true;
    g_autoptr (ZsResult) result
        = zs_base_run (shard->base, of_sweep != NULL ? (const char *const *) of_sweep : changes, &options,
                       NULL, &error);

    if (result == NULL)
      g_error ("%s", error->message);
    shard->n_instructions += result->n_instructions;
  }
  return NULL;
}

static void
run_shards (const char *name, const Shard *of, int n)
{
  Shard shards[2] = { *of, *of };
  gint64 start = g_get_monotonic_time ();
  double cpu = cpu_seconds ();

  shards[1].first = 1;
  shards[0].n = shards[1].n = n;
  GThread *thread = g_thread_new ("shard", run_shard, &shards[1]);

  run_shard (&shards[0]);
  g_thread_join (thread);
  double seconds = (double) (g_get_monotonic_time () - start) / 1e6;

  cpu = cpu_seconds () - cpu;
  printf ("%s, %5d configurations on 2 threads: %6.2f s, %5.2f ms of CPU each; 10,000 take %5.1f s of CPU on "
          "each of 2 cores; %3ld MiB\n",
          name, n, seconds, cpu / n * 1e3, cpu / n * 5000, memory_mib ());
}

/* The 10,000 settings of scenarios/sweeps, of which many come to the same plans, and every FRACTION-th of
 * them; then settings that all differ. */
static void
sweep (int n, int fraction)
{
  g_autofree char *data = testing_source_path ("");
  g_autofree char *file = testing_source_path ("tests/bench/sweep.yaml");
  g_autofree char *settings = testing_source_path ("scenarios/sweeps/zero3-10000.yaml");
  ZsCatalogue *catalogue = zs_catalogue_new (data);
  g_autoptr (ZsErrors) errors = zs_errors_new ();

  for (int stage = 3; stage >= 2; stage--) {
    g_autofree char *set = g_strdup_printf ("stage=%d", stage);
    const char *const sets[] = { set, NULL };
    g_autoptr (ZsSweep) all = zs_sweep_load (settings, NULL, NULL, sets, catalogue, errors);
    g_autofree char *name = g_strdup_printf ("sweep, ZeRO-%d, zero3-10000.yaml", stage);

    if (all == NULL)
      g_error ("%s", zs_errors_text (errors));
    Shard shard = { .sweep = all, .base = all->base, .stage = stage };

    run_shards (name, &shard, (int) all->n_kept / fraction);
  }
  for (int stage = 3; stage >= 2; stage--)
    for (int part = 1; part <= 2; part++) {
      g_autoptr (ZsBase) base = zs_base_new (file, NULL, NULL, catalogue, errors);
      g_autofree char *name = g_strdup_printf ("sweep, ZeRO-%d, plans that all differ", stage);
      Shard shard = { .base = base, .stage = stage };

      run_shards (name, &shard, (stage == 3 ? n : n / 4) * part / 2);
    }
  zs_catalogue_free (catalogue);
}

int
main (int argc, char **argv)
{
  zs_run_keep_memory ();
  sweep (argc > 1 ? MAX (8, atoi (argv[1])) : 400, argc > 2 ? MAX (1, atoi (argv[2])) : 1);
  layers ();
  gpus ();
  accumulation ();
  return 0;
}
