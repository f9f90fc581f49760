/* test-layer-times.c: a decoder layer's time against measurements on one H200.
 * SPDX-License-Identifier: MIT
 *
 * micro_layer.csv: one layer of transformers called in a loop, forward and backward.  The same comes
 * out of whole simulated steps as the difference between six and two layers, divided by four.  Where
 * the host bounds a layer its time says how fast that machine's Python was, and is shown alone. */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/run/jobs.h"
#include "tests/testing.h"

static const struct { const char *name; ZsModelShape shape; } MODELS[] = {
  { "llama1b", { .name = "", .hidden = 2048, .intermediate = 8192, .n_heads = 32, .n_kv_heads = 8,
                 .head_dim = 64, .vocabulary = 128256, .tied_embeddings = true } },
  { "tinyllama", { .name = "", .hidden = 2048, .intermediate = 5632, .n_heads = 32, .n_kv_heads = 4,
                   .head_dim = 64, .vocabulary = 32000 } },
  { "llama7b", { .name = "", .hidden = 4096, .intermediate = 11008, .n_heads = 32, .n_kv_heads = 32,
                 .head_dim = 128, .vocabulary = 32000 } },
  { "llama3_8b", { .name = "", .hidden = 4096, .intermediate = 14336, .n_heads = 32, .n_kv_heads = 8,
                   .head_dim = 128, .vocabulary = 128256 } },
  { "llama13b", { .name = "", .hidden = 5120, .intermediate = 13824, .n_heads = 40, .n_kv_heads = 40,
                  .head_dim = 128, .vocabulary = 32000 } },
};

typedef struct { double forward, backward, host; } Times;   /* seconds; host: what the GPU waited */

static Times
step_times (const ZsModelShape *shape, ZsAttention attention, int64_t batch, int64_t sequence, int64_t layers)
{
  Times times = { 0, 0, 0 };
  Job job;
  ZsRunOptions options;

  zs_run_options_init (&options);
  job_init (&job, MODEL_1B, -1, 1, "ideal");
  job.training.shape = *shape;
  job.training.shape.n_layers = layers;
  job.training.shape.max_position = sequence;
  job.training.step.micro_batch = batch;
  job.training.step.sequence = sequence;
  job.training.step.attention = attention;
  job.training.step.checkpoint_every = 0;
  job.gpu.matmul_full_clock = 0.892;   /* as in models/gpus */
  options.pace.tensor_share = zs_training_tensor_share (&job.training, &job.gpu);
  g_autoptr (ZsResult) result = job_run (&job, &options);

  for (guint p = 0; p < result->phases->len; p++) {
    const ZsPhaseResult *phase = &g_array_index (result->phases, ZsPhaseResult, p);

    if (phase->step == 3 && phase->phase == ZS_PHASE_FORWARD)
      times.forward = zs_time_to_seconds (phase->time);
    if (phase->step == 3 && phase->phase == ZS_PHASE_BACKWARD)
      times.backward = zs_time_to_seconds (phase->time);
  }
  times.host = zs_time_to_seconds (result->wait_ps[ZS_WAIT_HOST]);
  job_clear (&job);
  return times;
}

static int
compare (const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return (x > y) - (x < y);
}

static void
layers_take_their_measured_time (void)
{
  g_autofree char *path = testing_source_path ("tests/data/h200/micro_layer.csv");
  g_autofree char *text = NULL;
  double errors[128], sum = 0;
  int n = 0, n_host = 0;

  CU_ASSERT_TRUE_FATAL (g_file_get_contents (path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  for (int i = 1; lines[i] != NULL && lines[i][0] != '\0'; i++) {
    g_auto (GStrv) fields = g_strsplit (lines[i], ",", -1);
    const ZsModelShape *shape = NULL;
    bool backward = g_str_equal (fields[4], "layer_bwd");
    int64_t batch = atoll (fields[2]), sequence = atoll (fields[3]);

    if (!g_str_has_prefix (fields[4], "layer_"))
      continue;
    for (size_t m = 0; m < G_N_ELEMENTS (MODELS); m++)
      if (g_str_equal (MODELS[m].name, fields[0]))
        shape = &MODELS[m].shape;
    CU_ASSERT_PTR_NOT_NULL_FATAL (shape);
    ZsAttention attention = g_str_equal (fields[1], "eager") ? ZS_ATTENTION_EAGER : ZS_ATTENTION_CUDNN;
    Times small = step_times (shape, attention, batch, sequence, 2);
    Times large = step_times (shape, attention, batch, sequence, 6);
    double predicted = ((backward ? large.backward : large.forward)
                        - (backward ? small.backward : small.forward)) / 4;
    double error = predicted / (atof (fields[5]) * 1e-3) - 1;

    if ((large.host - small.host) / 4 > 0.05 * predicted) {   /* of both passes */
      n_host++;
      continue;
    }
    errors[n++] = fabs (error);
    sum += error;
  }
  qsort (errors, n, sizeof (double), compare);
  printf ("# %d layers bound by the GPU: median %.1f %%, 90 %% within %.1f %%, mean %+.1f %%; "
          "%d bound by the host\n", n, 100 * errors[n / 2], 100 * errors[n * 9 / 10], 100 * sum / n, n_host);
  CU_ASSERT_TRUE (n >= 50);
  CU_ASSERT_TRUE (errors[n / 2] <= 0.03);
  CU_ASSERT_TRUE (errors[n * 9 / 10] <= 0.08);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "layers take their measured time", layers_take_their_measured_time },
    CU_TEST_INFO_NULL
  };
  return testing_main ("layer times", tests);
}
