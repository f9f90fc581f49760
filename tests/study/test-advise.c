/* test-advise.c: the search in two parts is never worse than one of the whole space.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "sim/study/advise.h"
#include "tests/testing.h"

static const char *const JOBS[] = {
  /* does not fit as it is: activations of a large micro-batch */
  "model: {base: llama-7b, layers: 2, vocabulary: 8000}\n"
  "cluster: {gpu: a100-sxm4-40gb, gpus_per_node: 2, fabric: pcie, host: {cores: 32, memory: 64 GiB}}\n"
  "training:\n"
  "  framework: deepspeed\n  micro_batch: 4\n  gradient_accumulation: 2\n  sequence_length: 512\n"
  "  memory_limit: 4 GiB\n  steps: 1\n"
  "  deepspeed: {bf16: {enabled: true}, optimizer: {type: AdamW}, zero_optimization: {stage: 2}}\n",
  /* fits, but offloads what need not be */
  "model: {base: llama-7b, layers: 2, vocabulary: 8000}\n"
  "cluster: {gpu: a100-sxm4-40gb, gpus_per_node: 4, fabric: nvswitch, host: {cores: 32, memory: 64 GiB}}\n"
  "training:\n"
  "  framework: deepspeed\n  micro_batch: 1\n  gradient_accumulation: 4\n  sequence_length: 512\n"
  "  checkpointing: full\n  steps: 1\n"
  "  deepspeed: {bf16: {enabled: true}, optimizer: {type: AdamW}, zero_optimization: {stage: 3,"
  " offload_optimizer: {device: cpu}, offload_param: {device: cpu}}}\n",
  /* tight: states alone nearly fill the GPU */
  "model: {base: tinyllama, layers: 4}\n"
  "cluster: {gpu: rtx-4090, gpus_per_node: 2, fabric: pcie, host: {cores: 16, memory: 64 GiB}}\n"
  "training:\n"
  "  framework: deepspeed\n  micro_batch: 2\n  gradient_accumulation: 2\n  sequence_length: 1024\n"
  "  memory_limit: 2560 MiB\n  steps: 1\n"
  "  deepspeed: {bf16: {enabled: true}, optimizer: {type: AdamW}, zero_optimization: {stage: 1,"
  " reduce_bucket_size: 5e7}}\n",
  /* FSDP1: resharding, offload, prefetching and the limit of gathers */
  "model: {base: llama-7b, layers: 2, vocabulary: 8000}\n"
  "cluster: {gpu: a100-sxm4-40gb, gpus_per_node: 4, fabric: pcie, host: {cores: 32, memory: 64 GiB}}\n"
  "training:\n"
  "  framework: fsdp\n  micro_batch: 4\n  gradient_accumulation: 2\n  sequence_length: 512\n"
  "  memory_limit: 5 GiB\n  steps: 2\n  fsdp: {reshard_after_forward: true}\n",
};

enum { DEEPSPEED_JOBS = 3 };

static ZsAdvice *
advise (const char *job, ZsCatalogue *catalogue, ZsObjective objective, bool whole)
{
  static const char *const NAMES[] = { "stage", "offload", "reshard", "checkpointing", "batch",
                                       "reduce_bucket_size", "overlap_comm", "pin_memory", "limit_all_gathers",
                                       "allocator", NULL };
  ZsDocument *document = zs_yaml_parse ("job.yaml", job, strlen (job), NULL);
  ZsAdviseOptions options = { .objective = objective, .dimensions = NAMES, .exhaustive = whole,
                              .two_parts = !whole };
  ZsAdvice *advice = zs_advise (zs_base_new_tree (zs_document_root (document), "job.yaml", NULL, NULL,
                                                  catalogue),
                                &options, catalogue, NULL);

  CU_ASSERT_PTR_NOT_NULL_FATAL (advice);
  zs_document_free (document);      /* a trial needs it no more */
  return advice;
}

static void
never_worse (const char *job, ZsObjective objective)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (ZsAdvice) whole = advise (job, catalogue, objective, true);
  g_autoptr (ZsAdvice) parts = advise (job, catalogue, objective, false);

  CU_ASSERT_TRUE_FATAL (whole->best >= 0 && parts->best >= 0);
  const ZsTrial *best = zs_advice_trial (whole, whole->best), *found = zs_advice_trial (parts, parts->best);

  CU_ASSERT_TRUE (parts->trials->len < whole->trials->len);
  if (objective == ZS_OBJECTIVE_MEMORY)
    CU_ASSERT_TRUE (found->peak_device_bytes <= best->peak_device_bytes);
  if (objective == ZS_OBJECTIVE_SPEED)
    CU_ASSERT_TRUE (found->tokens_per_second_per_gpu >= best->tokens_per_second_per_gpu);
  CU_ASSERT_EQUAL (zs_advice_trial (whole, whole->smallest)->n_changes,
                   zs_advice_trial (parts, parts->smallest)->n_changes);
  printf ("# %u trials instead of %u; %.4f tokens/s, at best %.4f\n", parts->trials->len, whole->trials->len,
          found->tokens_per_second_per_gpu, best->tokens_per_second_per_gpu);
}

static void
the_first_job (void)
{
  never_worse (JOBS[0], ZS_OBJECTIVE_SPEED);
}

static void
the_second_job (void)
{
  never_worse (JOBS[1], ZS_OBJECTIVE_SPEED);
}

static void
the_third_job (void)
{
  never_worse (JOBS[2], ZS_OBJECTIVE_SPEED);
}

static void
a_job_of_fsdp (void)
{
  never_worse (JOBS[DEEPSPEED_JOBS], ZS_OBJECTIVE_SPEED);
}

/* No answer and no point of the front is thin where anything has room; what is, is faster. */
static void
check_room (const ZsAdvice *advice)
{
  bool room = false;

  for (int i = 0; i < (int) advice->trials->len; i++)
    room |= zs_trial_has_room (zs_advice_trial (advice, i));
  const ZsTrial *fastest = zs_advice_trial (advice, advice->fastest);

  CU_ASSERT_EQUAL (zs_trial_has_room (fastest), room);
  CU_ASSERT_EQUAL (zs_trial_has_room (zs_advice_trial (advice, advice->smallest)), room);
  CU_ASSERT_EQUAL (zs_trial_has_room (zs_advice_trial (advice, advice->nearly)), room);
  for (guint i = 0; i < advice->front->len; i++)
    CU_ASSERT_EQUAL (zs_trial_has_room (zs_advice_trial (advice, g_array_index (advice->front, int, i))), room);
  for (guint i = 0; i < advice->thin->len; i++) {
    const ZsTrial *thin = zs_advice_trial (advice, g_array_index (advice->thin, int, i));

    CU_ASSERT_TRUE (thin->fits && thin->thin && !fastest->thin);
    CU_ASSERT_TRUE (thin->tokens_per_second_per_gpu > fastest->tokens_per_second_per_gpu);
  }
}

/* The GPU becomes just too small for the fastest settings to have room. */
static void
what_is_thin_comes_after (void)
{
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autofree char *wide = g_strconcat (JOBS[1], "  memory_limit: 30 GiB\n", NULL);
  g_autoptr (ZsAdvice) before = advise (wide, catalogue, ZS_OBJECTIVE_SPEED, true);
  const ZsTrial *fastest = zs_advice_trial (before, before->fastest);
  int64_t reserved = (INT64_C (30) << 30) - fastest->room_bytes;
  g_autofree char *narrow = g_strdup_printf ("%s  memory_limit: %" G_GINT64_FORMAT " MiB\n", JOBS[1],
                                             (reserved >> 20) + 1);
  g_autoptr (ZsAdvice) after = advise (narrow, catalogue, ZS_OBJECTIVE_SPEED, true);

  check_room (before);
  check_room (after);
  CU_ASSERT_FALSE (fastest->thin);
  CU_ASSERT_TRUE_FATAL (after->thin->len > 0);
  const ZsTrial *thin = zs_advice_trial (after, g_array_index (after->thin, int, 0));

  CU_ASSERT_TRUE (thin->tokens_per_second_per_gpu >= fastest->tokens_per_second_per_gpu);
  CU_ASSERT_TRUE (thin->room_bytes <= INT64_C (1) << 20);
  CU_ASSERT_TRUE (zs_advice_trial (after, after->fastest)->room_bytes > reserved / 25);
}

static void
the_least_memory (void)
{
  never_worse (JOBS[2], ZS_OBJECTIVE_MEMORY);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "a job that does not fit: as fast as the whole space's best", the_first_job },
    { "a job that offloads too much: as fast as the whole space's best", the_second_job },
    { "a job that is tight: as fast as the whole space's best", the_third_job },
    { "a job of FSDP: as fast as the whole space's best", a_job_of_fsdp },
    { "what fits by a hair comes after what has room", what_is_thin_comes_after },
    { "as little memory as the whole space's best", the_least_memory },
    CU_TEST_INFO_NULL
  };

  return testing_main ("advise", tests);
}
