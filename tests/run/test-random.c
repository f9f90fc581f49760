/* test-random.c: random jobs give the same whichever way they are run: ranks folded or each by itself, what
 * repeats copied or run, equal plans run once or twice.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/base/digest.h"
#include "tests/run/jobs.h"
#include "tests/testing.h"

#include <stdio.h>
#include <string.h>

enum { JOBS = 150 };

static uint32_t state;

static int
pick (int n)
{
  state = state * 1664525u + 1013904223u;
  return (int) (state >> 10) % n;
}

static void
set_zero (ZsTraining *training, int stage)
{
  ZsZeroConfig *zero = &training->zero;

  zero->overlap_comm = pick (2);
  zero->contiguous_gradients = pick (4) > 0;
  zero->reduce_scatter = pick (4) > 0;
  zero->use_multi_rank_bucket_allreduce = pick (4) > 0;
  zero->round_robin_gradients = pick (4) == 0;
  zero->optimizer_groups = 1 + pick (2);
  zero->reduce_bucket_size = 1000000 << pick (7);
  zero->prefetch_bucket_size = pick (3) > 0 ? 1000000 << pick (6) : 0;
  zero->param_persistence_threshold = pick (2) * 40960;
  zero->max_live_parameters = 1000000 << pick (11);
  if (pick (4) == 0)
    training->step.dtype = zero->dtype = zero->communication_dtype = zero->grad_accum_dtype
      = ZS_DTYPE_FP16;
  if (stage < 1 || pick (3) > 0)
    return;
  zero->offload_optimizer = ZS_DEVICE_CPU;
  zero->optimizer = ZS_DS_OPTIMIZER_CPU_ADAM;
  zero->optimizer_pin = true;
  if (stage == 3 && pick (2) == 0)
    zero->offload_param = ZS_DEVICE_CPU;
}

static void
set_framework (ZsTraining *training)
{
  training->framework = pick (4) == 0 ? ZS_FRAMEWORK_DDP
                        : pick (2) == 0 ? ZS_FRAMEWORK_FSDP2 : ZS_FRAMEWORK_FSDP1;
  training->fsdp = (ZsFsdpConfig) {
    .version = training->framework == ZS_FRAMEWORK_FSDP1 ? 1 : 2, .world = training->world,
    .node_ranks = training->world, .reshard_after_forward = pick (2),
    .gradient_accumulation = training->gradient_accumulation,
    .parameter_dtype = pick (2) == 0 ? ZS_DTYPE_FP32 : ZS_DTYPE_BF16,
    .compute_dtype = ZS_DTYPE_BF16, .reduce_dtype = pick (2) == 0 ? ZS_DTYPE_FP32 : ZS_DTYPE_BF16,
    .cpu_offload = pick (4) == 0, .limit_all_gathers = pick (2), .backward_prefetch = pick (2),
    .optimizer = ZS_OPTIMIZER_FUSED, .versions = training->zero.versions,
  };
}

/* Micro-batches of other lengths: a list that comes again, or drawn ones that do not. */
static void
set_lengths (Job *job)
{
  static const int64_t LISTS[][4] = { { 512, 300, 2048, 77 }, { 900, 900, 900, 1024 }, { 64, 2000, 64, 2000 } };
  ZsTraining *training = &job->training;

  training->step.new_inputs = true;
  training->step.open_attention = training->step.attention;
  if (pick (2) == 0) {
    training->lengths = (ZsLengths) { .list = LISTS[pick (3)], .n_list = 1 + pick (4) };
    return;
  }
  training->step.attention_mask = training->step.micro_batch > 1;
  training->lengths = (ZsLengths) { .mean = 600, .deviation = pick (900), .seed = state, .drop = pick (2), .by_rank = pick (2),
                                    .multiple = 1 + 7 * pick (2) };
}

static void
make_job (uint32_t seed, Job *job, ZsRunOptions *options)
{
  static const char *const FABRICS[] = { "nvswitch-h100", "pcie4-x16-two-sockets",
                                         "pcie4-x16-host-bridge" };
  static const int WORLDS[] = { 1, 2, 3, 4, 8 };

  state = seed * 7919 + 17;
  int stage = pick (5) - 1, world = stage < 0 ? 1 : WORLDS[pick (5)];
  JobModel model = pick (3) == 0 ? MODEL_7B : pick (2) == 0 ? MODEL_1B : MODEL_TINY;

  job_init (job, model, stage, world, FABRICS[pick (3)]);
  ZsTraining *training = &job->training;

  if (model != MODEL_TINY)
    training->shape.n_layers = 1 + pick (3);
  training->n_steps = 1 + pick (9);
  training->gradient_accumulation = pick (2) == 0 ? 1 : 1 + pick (9);
  training->zero.gradient_accumulation = training->gradient_accumulation;
  training->synchronize_phases = pick (3) == 0;
  training->save = pick (9) == 0;
  training->step.checkpoint_every = pick (2);
  training->step.sequence = 512 << pick (3);
  training->step.micro_batch = 1 + pick (3);
  set_zero (training, stage);
  if (world > 1 && pick (4) == 0)
    set_framework (training);
  zs_run_options_init (options);
  options->want_memory_points = options->want_links = true;
  options->alloc_conf.expandable_segments = pick (4) == 0;
  if (pick (5) == 0)
    options->memory_limit_bytes = (INT64_C (64) << 20) << pick (8);
  if (pick (4) == 0)
    set_lengths (job);
  job_ready (job);
}

/* What was kept of everything that happened, as one number: spans in any order, events in theirs. */
static uint64_t
whole_story (const ZsResult *result)
{
  uint64_t digest = 1, sum = 0;

  for (guint s = 0; result->spans != NULL && s < result->spans->len; s++) {
    const ZsSpan *span = &g_array_index (result->spans, ZsSpan, s);
    const int64_t of_span[] = { span->rank, span->track, span->kind, span->cause, span->start,
                                span->end, span->layer, span->bytes, span->critical };

    sum += zs_digest_items (1, of_span, G_N_ELEMENTS (of_span));
  }
  for (guint e = 0; result->memory_events != NULL && e < result->memory_events->len; e++) {
    const ZsMemoryEvent *event = &g_array_index (result->memory_events, ZsMemoryEvent, e);
    const int64_t of_event[] = { event->action, event->stream, event->category, event->layer,
                                 event->when, event->address, event->bytes, event->block_bytes };

    digest = zs_digest_items (digest, of_event, G_N_ELEMENTS (of_event));
  }
  for (guint p = 0; result->link_points != NULL && p < result->link_points->len; p++) {
    const ZsLinkPoint *point = &g_array_index (result->link_points, ZsLinkPoint, p);
    const int64_t of_point[] = { point->when, point->resource, point->rate };

    digest = zs_digest_items (digest, of_point, G_N_ELEMENTS (of_point));
  }
  return zs_digest_add (digest, sum);
}

/* What a result says, as one number.  An OOM of one of many ranks stops the others where they happen to
 * be, and what they noted until then is not compared. */
static uint64_t
fingerprint (const ZsResult *result)
{
  const int64_t numbers[] = {
    result->outcome, result->step_time_ps, result->peak_allocated_bytes,
    result->peak_reserved_bytes, result->host_pinned_peak_bytes, result->host_pageable_peak_bytes,
    result->nvme_bytes, result->peak_step, result->peak_micro_step, result->peak_phase,
    result->alloc_retries, result->oom.step, result->oom.tried_bytes,
  };
  uint64_t digest = zs_digest_items (1, numbers, G_N_ELEMENTS (numbers));

  digest = zs_digest_items (digest, result->wait_ps, ZS_N_WAITS);
  digest = zs_digest_items (digest, &result->tflops_per_gpu, 1);
  for (guint p = 0; p < result->memory_points->len; p++) {
    const ZsMemoryPoint *point = &g_array_index (result->memory_points, ZsMemoryPoint, p);

    digest = zs_digest_items (digest, point, 1);
  }
  for (guint p = 0; p < result->phases->len && result->outcome == ZS_OUTCOME_OK; p++) {
    const ZsPhaseResult *phase = &g_array_index (result->phases, ZsPhaseResult, p);
    const int64_t of_phase[] = {
      phase->phase, phase->step, phase->micro_step, phase->start, phase->time,
      phase->peak_allocated_bytes, phase->peak_reserved_bytes, phase->start_allocated_bytes,
      phase->end_allocated_bytes, phase->end_reserved_bytes,
    };

    digest = zs_digest_items (digest, of_phase, G_N_ELEMENTS (of_phase));
  }
  for (guint l = 0; l < result->links->len && result->outcome == ZS_OUTCOME_OK; l++) {
    const ZsLinkUse *link = &g_array_index (result->links, ZsLinkUse, l);

    digest = zs_digest_add (zs_digest_add (digest, (uint64_t) link->bytes), (uint64_t) link->busy);
  }
  if (result->outcome == ZS_OUTCOME_OK)
    digest = zs_digest_add (digest, whole_story (result));
  return digest;
}

static uint64_t
run (Job *job, const ZsRunOptions *options, ZsRunCache *cache, int64_t *ret_n_repeated)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ZsResult) result = zs_run_known (&job->training, zs_cluster_machine (job->cluster),
                                              options, cache, &error);

  if (result == NULL)
    g_error ("%s", error->message);
  if (ret_n_repeated != NULL)
    *ret_n_repeated += result->n_repeated;
  return fingerprint (result);
}

static void
compare (uint32_t seed, int64_t *ret_n_repeated)
{
  Job job;
  ZsRunOptions options, other;
  g_autoptr (ZsRunCache) cache = zs_run_cache_new ();
  int64_t n_looked, n_known;

  make_job (seed, &job, &options);
  uint64_t usual = run (&job, &options, NULL, ret_n_repeated);
  uint64_t first = run (&job, &options, cache, NULL), again = run (&job, &options, cache, NULL);

  zs_run_cache_count (cache, &n_looked, &n_known);
  other = options;
  other.no_repeats = true;
  uint64_t whole = run (&job, &other, NULL, NULL);

  other.no_folding = true;
  uint64_t unfolded = run (&job, &other, NULL, NULL);

  if (usual != first || usual != again || usual != whole || usual != unfolded)
    printf ("# seed %u: as usual %016" G_GINT64_MODIFIER "x, with a cache %016" G_GINT64_MODIFIER
            "x and %016" G_GINT64_MODIFIER "x, without repetitions %016" G_GINT64_MODIFIER
            "x, and unfolded %016" G_GINT64_MODIFIER "x\n", seed, usual, first, again, whole, unfolded);
  CU_ASSERT_EQUAL (usual, first);
  CU_ASSERT_EQUAL (usual, again);
  CU_ASSERT_EQUAL (usual, whole);
  CU_ASSERT_EQUAL (usual, unfolded);
  CU_ASSERT_EQUAL (n_known * 2, n_looked);
  job_clear (&job);
}

static void
every_way_gives_the_same (void)
{
  int64_t n_repeated = 0;

  for (uint32_t seed = 0; seed < JOBS; seed++)
    compare (seed, &n_repeated);
  printf ("# %d jobs, %" G_GINT64_FORMAT " instructions not run again\n", JOBS, n_repeated);
  CU_ASSERT_TRUE (n_repeated > 0);
}

/* What changes no plan is known; what changes one is not. */
static void
a_cache_knows_equal_plans (void)
{
  Job job;
  ZsRunOptions options;
  g_autoptr (ZsRunCache) cache = zs_run_cache_new ();
  int64_t n_looked, n_known;

  zs_run_options_init (&options);
  options.want_memory_points = options.want_links = true;
  job_init (&job, MODEL_TINY, 2, 2, "nvswitch-h100");
  job_ready (&job);
  uint64_t one = run (&job, &options, cache, NULL);

  job.training.zero.allgather_bucket_size /= 2;      /* not read since DeepSpeed 0.12.4 */
  job.training.zero.prefetch_bucket_size *= 2;       /* stage 3 reads it */
  CU_ASSERT_EQUAL (run (&job, &options, cache, NULL), one);
  zs_run_cache_count (cache, &n_looked, &n_known);
  CU_ASSERT_EQUAL (n_looked, 2);
  CU_ASSERT_EQUAL (n_known, 1);

  job.training.zero.reduce_bucket_size /= 2;
  CU_ASSERT_NOT_EQUAL (run (&job, &options, cache, NULL), one);
  job.training.zero.reduce_bucket_size *= 2;
  job.training.step.micro_batch = 2;
  CU_ASSERT_NOT_EQUAL (run (&job, &options, cache, NULL), one);
  job.training.step.micro_batch = 1;
  options.memory_limit_bytes = 64 << 20;
  CU_ASSERT_NOT_EQUAL (run (&job, &options, cache, NULL), one);
  zs_run_cache_count (cache, &n_looked, &n_known);
  CU_ASSERT_EQUAL (n_looked, 5);
  CU_ASSERT_EQUAL (n_known, 1);
  job_clear (&job);
}

/* Keeping spans changes nothing else: without them ranks go ahead and kernels are passed in one loop. */
static uint64_t
without_spans (Job *job, ZsRunOptions options, bool spans)
{
  g_autoptr (GError) error = NULL;

  options.want_spans = spans;
  g_autoptr (ZsResult) result = zs_run_known (&job->training, zs_cluster_machine (job->cluster), &options,
                                              NULL, &error);

  if (result == NULL)
    g_error ("%s", error->message);
  g_clear_pointer (&result->spans, g_array_unref);
  return fingerprint (result);
}

/* As reports and traces want them. */
static void
all_that_happened_repeats (void)
{
  for (uint32_t seed = 0; seed < JOBS / 2; seed++) {
    Job job;
    ZsRunOptions options;

    make_job (seed, &job, &options);
    options.want_spans = options.want_memory_events = options.want_link_points = true;
    uint64_t usual = run (&job, &options, NULL, NULL);

    options.no_repeats = true;
    uint64_t whole = run (&job, &options, NULL, NULL);

    CU_ASSERT_EQUAL (without_spans (&job, options, true),
                     without_spans (&job, options, false));
    if (usual != whole)
      printf ("# seed %u: %016" G_GINT64_MODIFIER "x, without repetitions %016" G_GINT64_MODIFIER
              "x\n", seed, usual, whole);
    CU_ASSERT_EQUAL (usual, whole);
    job_clear (&job);
  }
}

/* Whatever lay where a structure was assigned. */
static void
padding_is_no_state (void)
{
  typedef struct {
    char    a;
    int64_t b;
    bool    c;
  } Holes;
  Holes one[2], other[2];
  int numbers[] = { 1, 2, 3 };

  memset (one, 0, sizeof one);
  memset (other, 0xff, sizeof other);
  for (int i = 0; i < 2; i++) {
    one[i].a = other[i].a = 'a';
    one[i].b = other[i].b = i;
    one[i].c = other[i].c = true;
  }
#ifdef __has_builtin
#if __has_builtin (__builtin_clear_padding)
  CU_ASSERT_EQUAL (zs_digest_items (1, one, 2), zs_digest_items (1, other, 2));
#endif
#endif
  other[1].b = 7;
  CU_ASSERT_NOT_EQUAL (zs_digest_items (1, one, 2), zs_digest_items (1, other, 2));
  CU_ASSERT_NOT_EQUAL (zs_digest_items (1, numbers, 2), zs_digest_items (1, numbers, 3));
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "every way gives the same", every_way_gives_the_same },
    { "all that happened repeats", all_that_happened_repeats },
    { "padding is no state", padding_is_no_state },
    { "a cache knows equal plans", a_cache_knows_equal_plans },
    CU_TEST_INFO_NULL
  };

  return testing_main ("random", tests);
}
