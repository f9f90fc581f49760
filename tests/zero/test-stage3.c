/* test-stage3.c: stage 3 against recorded histories, measured peaks and the worked table of LLaMA-7B.
 * SPDX-License-Identifier: MIT
 *
 * The table is LLaMA-7B on two GPUs in bf16 with Adam (N = 6,738,415,616, P = N / 2). */
#include "config.h"

#include "sim/memory/host-allocator.h"
#include "sim/zero/stage3.h"
#include "tests/testing.h"
#include "tests/tools/history.h"
#include "tests/tools/memory-table.h"
#include "tests/tools/training.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define AUTO_BUCKET INT64_C (16777216)   /* Hugging Face's "auto": hidden ^ 2 */

/* ---- what a run holds, from its plan alone ---- */

typedef struct {
  int64_t gpu[ZS_N_CATEGORIES], host[ZS_N_CATEGORIES];   /* requested bytes */
  int64_t pageable, exact_pinned, pinned_requested, pinned;   /* host; pinned: what is pinned now */
  int64_t nvme_read, nvme_written, to_gpu, to_host;
  int64_t messages[ZS_N_COLLECTIVES];
  ZsHostAllocator *allocator;
  struct { int64_t bytes; uint8_t category; bool host; ZsHostBlock block; } *slots;
} Holdings;

static void
consume (Holdings *holdings, const ZsPlan *plan)
{
  holdings->nvme_read = holdings->nvme_written = holdings->to_gpu = holdings->to_host = 0;
  memset (holdings->messages, 0, sizeof holdings->messages);
  holdings->slots = g_realloc (holdings->slots, sizeof *holdings->slots * plan->n_slots);
  for (int64_t i = 0; i < plan->n_code; i++) {
    const ZsInstruction *in = &plan->code[i];

    switch (in->op) {
    case ZS_OP_ALLOC:
      holdings->gpu[in->kind] += in->bytes;
      holdings->slots[in->id].bytes = in->bytes;
      holdings->slots[in->id].category = in->kind;
      break;
    case ZS_OP_FREE:
      holdings->gpu[holdings->slots[in->id].category] -= holdings->slots[in->id].bytes;
      break;
    case ZS_OP_HOST_ALLOC: {
      ZsHostKind kind = in->flags & ZS_FLAG_EXACT_PIN ? ZS_HOST_PINNED_EXACT
                        : in->flags & ZS_FLAG_PINNED  ? ZS_HOST_PINNED
                                                      : ZS_HOST_PAGEABLE;

      holdings->slots[in->id].bytes = in->bytes;
      holdings->slots[in->id].category = in->kind;
      holdings->slots[in->id].block = zs_host_allocator_alloc (holdings->allocator, in->bytes, kind);
      holdings->host[in->kind] += in->bytes;
      break;
    }
    case ZS_OP_HOST_FREE:
      holdings->host[holdings->slots[in->id].category] -= holdings->slots[in->id].bytes;
      zs_host_allocator_release (holdings->allocator, holdings->slots[in->id].block);
      break;
    case ZS_OP_NVME:
      *(in->kind == ZS_NVME_READ ? &holdings->nvme_read : &holdings->nvme_written) += in->bytes;
      break;
    case ZS_OP_COPY:
      *(in->kind == ZS_COPY_HOST_TO_GPU ? &holdings->to_gpu : &holdings->to_host) += in->bytes;
      break;
    case ZS_OP_COLLECTIVE:
      holdings->messages[in->kind] += in->bytes;
      break;
    default:
      break;
    }
  }
}

static void
holdings_clear (Holdings *holdings)
{
  zs_host_allocator_free (holdings->allocator);
  g_free (holdings->slots);
}

/* What stage 3 holds on the GPU for the whole of training. */
static int64_t
persistent (const Holdings *holdings)
{
  return holdings->gpu[ZS_CATEGORY_PARAMETERS] + holdings->gpu[ZS_CATEGORY_MASTER]
         + holdings->gpu[ZS_CATEGORY_OPTIMIZER] + holdings->gpu[ZS_CATEGORY_GRADIENTS]
         + holdings->gpu[ZS_CATEGORY_BUCKETS] + holdings->gpu[ZS_CATEGORY_GATHERED];
}

static int64_t
host_exact (const Holdings *holdings)
{
  const ZsHostCounters *counters = zs_host_allocator_counters (holdings->allocator);

  return counters->pinned_requested + counters->pageable;
}

static void
init_7b (ZsTraining *training)
{
  test_training_init (training);
  training->framework = ZS_FRAMEWORK_DEEPSPEED;
  training->shape = (ZsModelShape) { .hidden = 4096, .intermediate = 11008, .n_layers = 32,
                                     .n_heads = 32, .n_kv_heads = 32, .head_dim = 128,
                                     .vocabulary = 32000 };
  training->zero.stage = 3;
  training->world = 2;
  training->zero.prefetch_bucket_size = 15099494;
  training->zero.param_persistence_threshold = 40960;
  training->zero.reduce_bucket_size = AUTO_BUCKET;
  training->n_steps = 2;
  test_training_finish (training);
}

/* The phases of TRAINING up to and with PHASE of STEP. */
static void
run_until (Holdings *holdings, const ZsTraining *training, ZsPhase phase, int step)
{
  g_autoptr (ZsPlanner) planner = zs_planner_new (training, 0);
  const ZsPlan *plan;

  *holdings = (Holdings) { .allocator = zs_host_allocator_new () };
  while ((plan = zs_planner_next (planner)) != NULL) {
    consume (holdings, plan);
    if (plan->code[0].kind == phase && (int) plan->code[0].id == step)
      return;
  }
}

/* ---- recorded histories ---- */

static void
second_steps_follow_the_recordings (void)
{
  static const struct { const char *id, *deepspeed; bool offload; } RUNS[] = {
    { "t_z3_1b_ck", "0.14.4", false },   { "t_z3_tl", "0.14.4", false },
    { "t_z3_7b_ckre", "0.14.4", false }, { "t_z3_tl_offall", "0.14.4", true },
    { "ds0195_z3_1b_ck", "0.19.5", false },
  };
  static const char *const PHASES[] = { "model", "engine", "s2m0_fwd", "s2m0_bwd", "s2m0_step" };
  static const char *const SIMULATED[] = { "model", "engine", "s2m0_fwd", "s2m0_bwd", "s2_step" };
  g_autofree char *path = testing_source_path ("tests/data/h200/trace_runs.jsonl");
  g_autofree char *text = NULL;

  CU_ASSERT_TRUE_FATAL (g_file_get_contents (path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (gsize i = 0; i < G_N_ELEMENTS (RUNS); i++) {
    ZsTraining training;
    bool found = false;

    for (char **line = lines; *line != NULL && !found; line++) {
      json_t *run = json_loads (*line, 0, NULL);

      found = run != NULL
              && strcmp (json_string_value (json_object_get (run, "id")), RUNS[i].id) == 0;
      if (found)
        test_training_from_json (&training, run);
      json_decref (run);
    }
    CU_ASSERT_TRUE_FATAL (found);
    g_autoptr (TestHistory) recorded = test_history_of_trace (RUNS[i].id);
    g_autoptr (ZsPlanner) planner = zs_planner_new (&training, 0);
    g_autoptr (TestHistory) simulated = test_history_of_plan (planner);

    for (gsize k = 0; k < G_N_ELEMENTS (PHASES); k++) {
      const TestPhase *a = test_history_phase (recorded, PHASES[k]);
      const TestPhase *b = test_history_phase (simulated, SIMULATED[k]);

      CU_ASSERT_PTR_NOT_NULL_FATAL (a);
      CU_ASSERT_PTR_NOT_NULL_FATAL (b);
      double agreement = test_agreement (a->events, b->events);

      if (agreement < 0.998 || ABS (a->peak - b->peak) > 4096)
        printf ("# %s %s: %.4f, peak %" PRId64 " against %" PRId64 "\n", RUNS[i].id, PHASES[k],
                agreement, b->peak, a->peak);
      CU_ASSERT_TRUE (agreement >= 0.998);
      CU_ASSERT_TRUE (ABS (a->peak - b->peak) <= 4096);
    }
  }
}

/* ---- measured peaks ---- */

static void
peaks_of_all_measured_runs_are_exact (void)
{
  g_autoptr (GPtrArray) rows = test_memory_rows ();
  int n = 0, n_off = 0;

  for (guint i = 0; i < rows->len; i++) {
    const TestMemoryRow *row = g_ptr_array_index (rows, i);
    TestMemoryResult result;
    double worst = 0;

    if (!row->usable || row->training.framework != ZS_FRAMEWORK_DEEPSPEED
        || row->training.zero.stage != 3)
      continue;
    CU_ASSERT_TRUE_FATAL (test_memory_run (row, &result));
    n++;
    for (int k = 0; k < row->n_phases; k++) {
      /* init's peak is understated in the data: some of it fell before the counters' reset */
      if (row->phases[k].allocated > 0 && strcmp (row->phases[k].name, "engine") != 0)
        worst = MAX (worst, ABS ((double) (result.phases[k].allocated - row->phases[k].allocated))
                              / (double) row->phases[k].allocated);
    }
    if (worst <= 0.005)
      continue;
    printf ("# %s: off by %.2f %%\n", row->title, 100 * worst);
    n_off++;
    /* leaf modules of stage3_module_granularity_threshold: 2 % low, cause not known */
    CU_ASSERT_STRING_EQUAL (row->id, "x_z3_gran");
  }
  CU_ASSERT_TRUE (n > 100);
  CU_ASSERT_TRUE (n_off <= 1);
}

/* ---- the worked table ---- */

static void
table_without_offload (void)
{
  static const struct { int64_t bucket, before, after; } CASES[] = {
    { AUTO_BUCKET, INT64_C (26987749376), INT64_C (53941411840) },
    { 500000000, INT64_C (27954194944), INT64_C (54907857408) },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (CASES); i++) {
    ZsTraining training;
    Holdings holdings;

    init_7b (&training);
    training.zero.reduce_bucket_size = CASES[i].bucket;
    run_until (&holdings, &training, ZS_PHASE_INIT, 0);
    /* 65 norms come with the first use */
    CU_ASSERT_EQUAL (persistent (&holdings) + 532480, CASES[i].before);
    CU_ASSERT_EQUAL (holdings.gpu[ZS_CATEGORY_PARAMETERS], INT64_C (6738415616));
    CU_ASSERT_EQUAL (holdings.gpu[ZS_CATEGORY_MASTER], INT64_C (13476831232));
    holdings_clear (&holdings);
    run_until (&holdings, &training, ZS_PHASE_OPTIMIZER, 1);
    CU_ASSERT_EQUAL (persistent (&holdings), CASES[i].after);
    CU_ASSERT_EQUAL (holdings.gpu[ZS_CATEGORY_OPTIMIZER], INT64_C (26953662464));
    CU_ASSERT_EQUAL (holdings.gpu[ZS_CATEGORY_GATHERED], 532480);
    holdings_clear (&holdings);
  }
}

static void
sub_groups_close_at_the_limit (void)
{
  static const int64_t ELEMENTS[] = { 1001426944, 1003528192, 1003528192, 360724480 };
  ZsTraining training;
  g_autoptr (ZsPlanner) planner = NULL;
  const ZsPlan *plan = NULL;
  gsize n = 0;

  init_7b (&training);
  planner = zs_planner_new (&training, 0);
  zs_planner_next (planner);
  plan = zs_planner_next (planner);
  for (int64_t i = 0; i < plan->n_code && n < G_N_ELEMENTS (ELEMENTS); i++)
    if (plan->code[i].op == ZS_OP_ALLOC && plan->code[i].kind == ZS_CATEGORY_MASTER
        && plan->code[i].bytes == 4 * ELEMENTS[n])
      n++;
  CU_ASSERT_EQUAL (n, G_N_ELEMENTS (ELEMENTS));
}

static void
table_with_the_optimizer_on_the_host (void)
{
  static const struct { int64_t bucket, gpu; } CASES[] = { { AUTO_BUCKET, INT64_C (6772502528) },
                                                          { 500000000, INT64_C (7738948096) } };

  for (gsize i = 0; i < G_N_ELEMENTS (CASES); i++) {
    ZsTraining training;
    Holdings holdings;

    init_7b (&training);
    training.zero.offload_optimizer = ZS_DEVICE_CPU;
    training.zero.optimizer = ZS_DS_OPTIMIZER_CPU_ADAM;
    training.zero.reduce_bucket_size = CASES[i].bucket;
    run_until (&holdings, &training, ZS_PHASE_OPTIMIZER, 1);
    const ZsHostCounters *counters = zs_host_allocator_counters (holdings.allocator);

    CU_ASSERT_EQUAL (persistent (&holdings), CASES[i].gpu);
    CU_ASSERT_EQUAL (holdings.host[ZS_CATEGORY_MASTER], INT64_C (13476831232));
    CU_ASSERT_EQUAL (holdings.host[ZS_CATEGORY_OPTIMIZER], INT64_C (26953662464));
    CU_ASSERT_EQUAL (host_exact (&holdings), INT64_C (60645740544));
    CU_ASSERT_EQUAL (counters->pageable, INT64_C (13476831232) + INT64_C (26953662464));
    CU_ASSERT_EQUAL (counters->pinned, INT64_C (15032385536) + INT64_C (8589934592));
    CU_ASSERT_EQUAL (counters->pinned + counters->pageable, INT64_C (64052813824));
    CU_ASSERT_EQUAL (holdings.to_gpu / 4096, INT64_C (6738415616) / 4096);   /* and some scalars */
    holdings_clear (&holdings);

    /* a boundary's backward: 2 bytes out and back, and the gradients again for fp32 */
    run_until (&holdings, &training, ZS_PHASE_BACKWARD, 2);
    CU_ASSERT_EQUAL (holdings.to_gpu, INT64_C (6738415616));
    CU_ASSERT_EQUAL (holdings.to_host, 2 * INT64_C (6738415616));
    CU_ASSERT_EQUAL (holdings.messages[ZS_COLLECTIVE_REDUCE_SCATTER], INT64_C (13476831232));
    holdings_clear (&holdings);
  }
}

static void
table_with_everything_on_the_host (void)
{
  static const struct { int64_t bucket, gpu; } CASES[] = { { AUTO_BUCKET, 34086912 },
                                                          { 500000000, 1000532480 } };

  for (gsize i = 0; i < G_N_ELEMENTS (CASES); i++) {
    ZsTraining training;
    Holdings holdings;

    init_7b (&training);
    training.zero.offload_optimizer = training.zero.offload_param = ZS_DEVICE_CPU;
    training.zero.optimizer = ZS_DS_OPTIMIZER_CPU_ADAM;
    training.zero.reduce_bucket_size = CASES[i].bucket;
    run_until (&holdings, &training, ZS_PHASE_OPTIMIZER, 1);
    const ZsHostCounters *counters = zs_host_allocator_counters (holdings.allocator);

    CU_ASSERT_EQUAL (persistent (&holdings), CASES[i].gpu);
    CU_ASSERT_EQUAL (host_exact (&holdings), INT64_C (67384156160));
    CU_ASSERT_EQUAL (counters->pinned_in_use + counters->pageable, INT64_C (72642748416));
    /* what zero.Init pinned stays in PyTorch's cache: 226 matrices, 65 norms */
    CU_ASSERT_EQUAL (counters->pinned - counters->pinned_in_use,
                     INT64_C (8858370048) + 65 * 4096);
    holdings_clear (&holdings);
  }
}

static void
table_with_parameters_alone_on_the_host (void)
{
  ZsTraining training;
  Holdings holdings;

  init_7b (&training);
  training.zero.offload_param = ZS_DEVICE_CPU;
  run_until (&holdings, &training, ZS_PHASE_OPTIMIZER, 1);
  CU_ASSERT_EQUAL (persistent (&holdings), INT64_C (53941411840) - INT64_C (6738415616));
  CU_ASSERT_EQUAL (host_exact (&holdings), INT64_C (6738415616));
  holdings_clear (&holdings);
}

/* Per step and rank: reads 16 P (8 P in the first), writes 12 P, and 4 P of gradients. */
static void
optimizer_on_nvme_moves_what_it_must (void)
{
  enum { P4 = 4 };
  const int64_t p = INT64_C (3369207808);

  for (int pipelined = 0; pipelined < 2; pipelined++) {
    ZsTraining training;
    Holdings holdings;

    init_7b (&training);
    training.zero.offload_optimizer = ZS_DEVICE_NVME;
    training.zero.optimizer = ZS_DS_OPTIMIZER_CPU_ADAM;
    training.zero.aio_block_size = 1048576;
    training.zero.aio_intra_op_parallelism = 1;
    training.zero.optimizer_pipeline_read = training.zero.optimizer_pipeline_write = pipelined;
    for (int step = 1; step <= 2; step++) {
      run_until (&holdings, &training, ZS_PHASE_BACKWARD, step);
      int64_t written = holdings.nvme_written;

      CU_ASSERT_EQUAL (holdings.nvme_read, 0);
      holdings_clear (&holdings);
      run_until (&holdings, &training, ZS_PHASE_OPTIMIZER, step);
      written += holdings.nvme_written;
      CU_ASSERT_EQUAL (holdings.nvme_read, (step == 1 ? 8 : 16) * p);
      /* the norms' gradients (65 x 2048 of them) stay on the GPU */
      CU_ASSERT_EQUAL (written, 16 * p - P4 * 65 * INT64_C (2048));
      /* four swap buffers of the largest sub-group, and the 16-bit gradient shards */
      const ZsHostCounters *counters = zs_host_allocator_counters (holdings.allocator);

      CU_ASSERT_EQUAL (counters->pinned, 4 * 4 * INT64_C (1003528192) + INT64_C (8589934592));
      CU_ASSERT_EQUAL (counters->pageable, 0);
      holdings_clear (&holdings);
    }
  }
}

/* With the defaults the first sub-group is larger than max_in_cpu, so that nothing stays in memory. */
static void
parameters_on_nvme_leave_an_empty_buffer (void)
{
  ZsTraining training;
  Holdings holdings;

  init_7b (&training);
  training.zero.offload_optimizer = ZS_DEVICE_CPU;
  training.zero.offload_param = ZS_DEVICE_NVME;
  training.zero.optimizer = ZS_DS_OPTIMIZER_CPU_ADAM;
  training.zero.aio_block_size = 1048576;
  run_until (&holdings, &training, ZS_PHASE_OPTIMIZER, 2);
  CU_ASSERT_EQUAL (persistent (&holdings), 34086912);
  /* pool of five buffers (1e8 elements, aligned to 512), empty buffer, write buffer, and the norms,
   * which are too small for a file, beside the optimizer's own */
  CU_ASSERT_EQUAL (host_exact (&holdings) - INT64_C (60645740544),
                   10 * INT64_C (100000256) + 2000000000 + 2 * INT64_C (1003528192) + 65 * 4096);
  CU_ASSERT_EQUAL (holdings.nvme_written, INT64_C (6738415616));
  holdings_clear (&holdings);
  run_until (&holdings, &training, ZS_PHASE_FORWARD, 2);
  CU_ASSERT_TRUE (holdings.nvme_read > INT64_C (6000000000));
  holdings_clear (&holdings);
}

/* One module at a time on the GPU; rank 0 copies all to the host. */
static void
saving_gathers_module_by_module (void)
{
  for (int64_t rank = 0; rank < 2; rank++) {
    ZsTraining training;
    Holdings holdings = { .allocator = zs_host_allocator_new () };
    g_autoptr (ZsModel) model = NULL;
    g_autoptr (ZsPlan) plan = zs_plan_new ();

    init_7b (&training);
    training.zero.gather_16bit_weights_on_model_save = true;
    model = zs_model_new (&training.shape, NULL, ZS_DTYPE_BF16, &training.step.versions);
    ZsHooks *hooks = zs_zero3_hooks_new (model, &training.zero, &training.step, rank, plan);

    hooks->load (hooks->self, plan);
    hooks->init (hooks->self, plan);
    hooks->save (hooks->self, plan);
    consume (&holdings, plan);
    CU_ASSERT_EQUAL (holdings.gpu[ZS_CATEGORY_GATHERED], 0);
    CU_ASSERT_EQUAL (zs_host_allocator_counters (holdings.allocator)->pageable_peak >= 13476831232,
                     rank == 0);
    hooks->free (hooks->self);
    holdings_clear (&holdings);
  }
}

/* hpZ on one node only adds memory; MiCS shards over fewer ranks. */
static void
secondary_shards_and_shard_groups (void)
{
  const int64_t n = INT64_C (6738415616);
  ZsTraining training;
  Holdings holdings;

  init_7b (&training);
  training.world = training.zero.world = 16;
  training.zero.node_ranks = 8;
  training.zero.hpz_partition_size = 8;
  run_until (&holdings, &training, ZS_PHASE_LOAD, 0);
  CU_ASSERT_EQUAL (holdings.gpu[ZS_CATEGORY_PARAMETERS], 2 * n / 16 + 2 * n / 8);
  holdings_clear (&holdings);
  training.zero.hpz_partition_size = 1;
  training.zero.mics_shard_size = 4;
  run_until (&holdings, &training, ZS_PHASE_LOAD, 0);
  CU_ASSERT_EQUAL (holdings.gpu[ZS_CATEGORY_PARAMETERS], 2 * n / 4);
  holdings_clear (&holdings);
  run_until (&holdings, &training, ZS_PHASE_BACKWARD, 2);
  CU_ASSERT_EQUAL (holdings.messages[ZS_COLLECTIVE_REDUCE_SCATTER], 2 * n);
  CU_ASSERT_EQUAL (holdings.messages[ZS_COLLECTIVE_ALL_REDUCE], 2 * n / 4);   /* over the replicas */
  holdings_clear (&holdings);

  /* qgZ across two nodes: int4 within and across, nothing but norms in 16 bit */
  training.zero.mics_shard_size = -1;
  training.zero.quantized_gradients = true;
  run_until (&holdings, &training, ZS_PHASE_BACKWARD, 2);
  CU_ASSERT_EQUAL (holdings.messages[ZS_COLLECTIVE_REDUCE_SCATTER], 65 * 4096 * 2);
  CU_ASSERT_TRUE (holdings.messages[ZS_COLLECTIVE_ALL_TO_ALL] > n / 2 + n / 16);
  CU_ASSERT_TRUE (holdings.messages[ZS_COLLECTIVE_ALL_TO_ALL] < (n / 2 + n / 16) * 101 / 100);
  holdings_clear (&holdings);

  /* qwZ: half the bytes of each gather and its scales */
  training.zero.quantized_gradients = false;
  run_until (&holdings, &training, ZS_PHASE_FORWARD, 2);
  int64_t plain = holdings.messages[ZS_COLLECTIVE_ALL_GATHER];

  holdings_clear (&holdings);
  training.zero.quantized_weights = true;
  run_until (&holdings, &training, ZS_PHASE_FORWARD, 2);
  CU_ASSERT_TRUE (holdings.messages[ZS_COLLECTIVE_ALL_GATHER] > plain / 2);
  CU_ASSERT_TRUE (holdings.messages[ZS_COLLECTIVE_ALL_GATHER] < plain / 2 * 101 / 100);
  holdings_clear (&holdings);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "second steps follow the recorded histories", second_steps_follow_the_recordings },
    { "peaks of all measured runs are within 0.5 %", peaks_of_all_measured_runs_are_exact },
    { "LLaMA-7B without offload holds what the table says", table_without_offload },
    { "sub-groups of LLaMA-7B close at the limit", sub_groups_close_at_the_limit },
    { "LLaMA-7B with the optimizer on the host", table_with_the_optimizer_on_the_host },
    { "LLaMA-7B with everything on the host", table_with_everything_on_the_host },
    { "LLaMA-7B with parameters alone on the host", table_with_parameters_alone_on_the_host },
    { "the optimizer on NVMe moves what it must", optimizer_on_nvme_moves_what_it_must },
    { "parameters on NVMe leave an empty buffer", parameters_on_nvme_leave_an_empty_buffer },
    { "saving gathers module by module", saving_gathers_module_by_module },
    { "secondary shards, shard groups, quantized gathers", secondary_shards_and_shard_groups },
    CU_TEST_INFO_NULL
  };

  return testing_main ("stage3", tests);
}
