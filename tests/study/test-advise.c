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
};

static ZsAdvice *
advise (const char *job, ZsCatalogue *catalogue, ZsObjective objective, bool whole)
{
  static const char *const NAMES[] = { "stage", "offload", "checkpointing", "batch", "reduce_bucket_size",
                                       "overlap_comm", "pin_memory", "allocator", NULL };
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
    { "as little memory as the whole space's best", the_least_memory },
    CU_TEST_INFO_NULL
  };

  return testing_main ("advise", tests);
}
