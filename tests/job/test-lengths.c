/* test-lengths.c: lengths of micro-batches: what is drawn, and what a plan makes of it.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/testing.h"

#include "sim/job/job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int64_t
draw (const ZsLengths *lengths, int64_t longest, int64_t batch, int64_t number)
{
  ZsMicroBatch drawn;

  zs_lengths_draw (lengths, longest, batch, number, &drawn);
  return drawn.sequence;
}

/* Those of tests/measure/lengths.py, with which runs were recorded. */
static void
lengths_are_the_recorded_ones (void)
{
  static const int64_t ONE[] = { 2477, 1612, 1295, 734, 1001, 672, 785, 778, 1883, 808, 3450, 866 };
  static const int64_t SECOND[] = { 935, 1110, 322, 703, 781, 155, 806, 595, 512, 602, 512, 1719 };
  const ZsLengths lengths = { .mean = 900, .deviation = 700, .seed = 1 };

  for (int i = 0; i < (int) G_N_ELEMENTS (ONE); i++) {
    ZsMicroBatch drawn;

    CU_ASSERT_EQUAL (draw (&lengths, 4096, 1, i), ONE[i]);
    zs_lengths_draw (&lengths, 4096, 2, i, &drawn);
    CU_ASSERT_EQUAL (drawn.sequence, MAX (ONE[i], SECOND[i]));
    CU_ASSERT_EQUAL (drawn.tokens, ONE[i] + SECOND[i]);
    CU_ASSERT_TRUE (drawn.padded);
  }
}

/* Of N samples against those of the distribution: the mean, the deviation, and the share above two
 * and three deviations of the logarithm. */
static void
lengths_are_lognormal (void)
{
  static const struct { int64_t mean, deviation; } CASES[] = { { 3234, 2547 }, { 900, 700 }, { 500, 100 } };
  enum { N = 40000 };

  for (size_t c = 0; c < G_N_ELEMENTS (CASES); c++) {
    const ZsLengths lengths = { .mean = CASES[c].mean, .deviation = CASES[c].deviation, .seed = 5 };
    double mean = (double) lengths.mean, deviation = (double) lengths.deviation;
    double sigma = sqrt (log (1 + deviation * deviation / mean / mean)), mu = log (mean) - sigma * sigma / 2;
    double sum = 0, squares = 0;
    int above[3] = { 0 };

    for (int i = 0; i < N; i++) {
      double length = (double) draw (&lengths, INT64_C (1) << 40, 1, i), z = (log (length) - mu) / sigma;

      sum += length;
      squares += length * length;
      for (int k = 1; k <= 3; k++)
        above[k - 1] += z > k;
    }
    sum /= N;
    CU_ASSERT_DOUBLE_EQUAL (sum / mean, 1, 0.02);
    CU_ASSERT_DOUBLE_EQUAL (sqrt (squares / N - sum * sum) / deviation, 1, 0.06);
    CU_ASSERT_DOUBLE_EQUAL ((double) above[0] / N, 0.1587, 0.006);
    CU_ASSERT_DOUBLE_EQUAL ((double) above[1] / N, 0.0228, 0.003);
    CU_ASSERT_DOUBLE_EQUAL ((double) above[2] / N, 0.00135, 0.0007);
  }
}

static void
samples_are_cut_or_dropped (void)
{
  const ZsLengths cut = { .mean = 900, .deviation = 700, .seed = 3 };
  const ZsLengths dropped = { .mean = 900, .deviation = 700, .seed = 3, .drop = true };
  const ZsLengths padded = { .mean = 900, .deviation = 700, .seed = 3, .multiple = 64 };
  const ZsLengths huge = { .mean = 1 << 24, .deviation = 1 << 24, .drop = true };
  int at_limit[2] = { 0, 0 };

  for (int i = 0; i < 400; i++) {
    int64_t free = draw (&cut, INT64_C (1) << 40, 2, i), once = draw (&cut, 1000, 2, i);
    int64_t less = draw (&dropped, 1000, 2, i), more = draw (&padded, 1000, 2, i);

    CU_ASSERT_EQUAL (once, MIN (free, 1000));
    CU_ASSERT_TRUE (less <= 1000 && (free > 1000 || less == free));
    CU_ASSERT_TRUE (more % 64 == 0 && more >= once && more < once + 64);
    at_limit[0] += once == 1000;
    at_limit[1] += less == 1000;
  }
  CU_ASSERT_TRUE (at_limit[0] > 100 && at_limit[1] < 10);
  CU_ASSERT_EQUAL (draw (&huge, 16, 1, 0), 16);   /* none is short enough */
}

static void
a_list_comes_again (void)
{
  static const int64_t LIST[] = { 512, 2048, 100 };
  ZsTraining training = { .step = { .micro_batch = 2, .sequence = 1024 }, .gradient_accumulation = 2,
                          .lengths = { .list = LIST, .n_list = 3, .multiple = 8 } };
  static const int64_t EXPECTED[] = { 512, 1024, 104, 512, 1024, 104, 512 };

  for (int i = 0; i < (int) G_N_ELEMENTS (EXPECTED); i++) {
    ZsMicroBatch drawn;

    zs_training_micro_batch (&training, 0, 1 + i / 2, i % 2, &drawn);
    CU_ASSERT_EQUAL (drawn.sequence, EXPECTED[i]);
    CU_ASSERT_FALSE (drawn.padded);
  }
  CU_ASSERT_EQUAL (zs_training_tokens (&training, 1, 3, true), 2 * 2 * (512 + 1024 + 104));
  CU_ASSERT_EQUAL (zs_training_tokens (&training, 2, 2, false), 2 * (100 + 512));
}

/* As a distributed sampler deals them out. */
static void
ranks_have_samples_of_their_own (void)
{
  ZsTraining one = { .step = { .micro_batch = 1, .sequence = 4096 }, .gradient_accumulation = 2, .world = 1,
                     .lengths = { .mean = 900, .deviation = 700 } }, three = one;
  int64_t tokens = 0;

  three.world = 3;
  three.lengths.by_rank = true;
  for (int64_t rank = 0; rank < 3; rank++)
    for (int i = 0; i < 8; i++) {
      ZsMicroBatch a, b;

      zs_training_micro_batch (&three, rank, 1 + i / 2, i % 2, &a);
      zs_training_micro_batch (&one, 0, 1 + (int) (i * 3 + rank) / 2, (int) (i * 3 + rank) % 2, &b);
      CU_ASSERT_EQUAL (a.sequence, b.sequence);
      tokens += a.tokens;
    }
  CU_ASSERT_EQUAL (zs_training_tokens (&three, 1, 4, false), tokens / 3);
}

static ZsTraining
small_job (void)
{
  return (ZsTraining) {
    .framework = ZS_FRAMEWORK_SINGLE, .n_steps = 6, .gradient_accumulation = 2, .world = 1,
    .shape = { .name = "tiny", .hidden = 256, .intermediate = 688, .n_layers = 2, .n_heads = 4, .n_kv_heads = 2,
               .head_dim = 64, .vocabulary = 1000, .max_position = 2048 },
    .step = { .micro_batch = 1, .sequence = 2048, .dtype = ZS_DTYPE_BF16, .attention = ZS_ATTENTION_CUDNN,
              .open_attention = ZS_ATTENTION_CUDNN, .optimizer = ZS_OPTIMIZER_FUSED, .new_inputs = true,
              .compute_capability = 90, .sm_count = 132,
              .versions = { .of = { [ZS_SOFTWARE_TORCH] = ZS_VERSION (2, 11, 0),
                                    [ZS_SOFTWARE_TRANSFORMERS] = ZS_VERSION (5, 17, 0) } } },
  };
}

static void
each_length_adds_its_kernels_once (void)
{
  static const int64_t LIST[] = { 512, 2048, 100, 512 };
  ZsTraining training = small_job ();
  uint32_t after[13] = { 0 }, n = 0;

  training.lengths = (ZsLengths) { .list = LIST, .n_list = 4 };
  g_autoptr (ZsPlanner) planner = zs_planner_new (&training, 0);

  for (const ZsPlan *plan; (plan = zs_planner_next (planner)) != NULL;)
    if (plan->code[0].kind == ZS_PHASE_BACKWARD)
      after[n++] = plan->n_kernels;
  CU_ASSERT_EQUAL (n, 12);
  CU_ASSERT_TRUE (after[0] < after[2]);
  for (uint32_t i = 3; i < n; i++)
    CU_ASSERT_EQUAL (after[i], after[2]);
}

/* What a step computes is the sum of what its micro-batches do. */
static void
flops_are_those_of_all_lengths (void)
{
  static const int64_t LIST[] = { 512, 2048, 100, 300 };
  ZsTraining training = small_job ();
  double sum = 0;

  for (int i = 0; i < 4; i++) {
    ZsTraining one = training;

    one.step.sequence = LIST[i];
    one.gradient_accumulation = 1;
    g_autoptr (ZsPlanner) planner = zs_planner_new (&one, 0);
    sum += zs_planner_model_flops (planner, 1, 1);
  }
  training.lengths = (ZsLengths) { .list = LIST, .n_list = 4 };
  g_autoptr (ZsPlanner) planner = zs_planner_new (&training, 0);

  CU_ASSERT_DOUBLE_EQUAL (zs_planner_model_flops (planner, 1, 2) / sum, 1, 1e-12);
  CU_ASSERT_DOUBLE_EQUAL (zs_planner_model_flops (planner, 3, 4) / sum, 1, 1e-12);
}

int
main (void)
{
  static CU_TestInfo tests[] = {
    { "lengths are the recorded ones", lengths_are_the_recorded_ones },
    { "lengths are lognormal", lengths_are_lognormal },
    { "samples are cut or dropped", samples_are_cut_or_dropped },
    { "a list comes again", a_list_comes_again },
    { "ranks have samples of their own", ranks_have_samples_of_their_own },
    { "each length adds its kernels once", each_length_adds_its_kernels_once },
    { "flops are those of all lengths", flops_are_those_of_all_lengths },
    CU_TEST_INFO_NULL,
  };

  return testing_main ("lengths", tests);
}
