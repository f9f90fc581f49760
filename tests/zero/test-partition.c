/* test-partition.c: flat buffers of ZeRO-1/2.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>

#include "sim/zero/partition.h"
#include "sim/zero/torch-ops.h"
#include "tests/testing.h"

/* A model with only sizes: LLaMA-7B in the order of model.parameters (). */
static ZsModel *
llama_7b (void)
{
  static const int64_t LAYER[] = { 4096 * 4096, 4096 * 4096, 4096 * 4096, 4096 * 4096, 4096 * 11008,
                                   4096 * 11008, 4096 * 11008, 4096, 4096 };
  ZsModel *model = g_new0 (ZsModel, 1);
  int32_t n = 0;

  model->parameters = g_new0 (ZsParameter, 2 + 32 * 9 + 1);
  model->parameters[n++].elements = 32000 * 4096;
  for (int layer = 0; layer < 32; layer++)
    for (int i = 0; i < 9; i++)
      model->parameters[n++].elements = LAYER[i];
  model->parameters[n++].elements = 4096;
  model->parameters[n++].elements = 32000 * 4096;
  model->n_parameters = n;
  for (int i = 0; i < n; i++)
    model->n_elements += model->parameters[i].elements;
  return model;
}

static void
free_model (ZsModel *model)
{
  g_free (model->parameters);
  g_free (model);
}

static int32_t *
all (const ZsModel *model)
{
  int32_t *indices = g_new (int32_t, model->n_parameters);

  for (int32_t i = 0; i < model->n_parameters; i++)
    indices[i] = i;
  return indices;
}

/* Worked example: LLaMA-7B on 2 GPUs; 146 tensors touch each rank, layer 16's q is shared. */
static void
test_llama_7b (void)
{
  ZsModel *model = llama_7b ();
  g_autofree int32_t *indices = all (model);
  ZsFlatGroup group;
  int32_t first, n;

  zs_flat_group_init (&group, model, indices, model->n_parameters, 2, false);
  CU_ASSERT_EQUAL (group.elements, INT64_C (6738415616));
  CU_ASSERT_EQUAL (group.padded_elements, INT64_C (6738415616));
  CU_ASSERT_EQUAL (group.partition_elements, INT64_C (3369207808));
  CU_ASSERT_EQUAL (2 * zs_flat_group_own_elements (&group, 0), INT64_C (6771965952));
  CU_ASSERT_EQUAL (2 * zs_flat_group_own_elements (&group, 1), INT64_C (6738419712));
  zs_flat_group_own (&group, 0, &first, &n);
  CU_ASSERT_EQUAL (first, 0);
  CU_ASSERT_EQUAL (n, 146);
  zs_flat_group_own (&group, 1, &first, &n);
  CU_ASSERT_EQUAL (first, 145);
  CU_ASSERT_EQUAL (n, 146);
  zs_flat_group_clear (&group);
  free_model (model);
}

static void
test_properties (void)
{
  guint32 seed = 20240611;
  GRand *random = g_rand_new_with_seed (seed);

  printf ("# seed %u\n", seed);
  for (int round = 0; round < 200; round++) {
    ZsModel model = { .n_parameters = g_rand_int_range (random, 1, 40) };
    int64_t world = g_rand_int_range (random, 1, 20);
    bool round_robin = g_rand_boolean (random);
    ZsFlatGroup group;

    model.parameters = g_new0 (ZsParameter, model.n_parameters);
    for (int32_t i = 0; i < model.n_parameters; i++) {
      model.parameters[i].elements = g_rand_int_range (random, 1, 1 << g_rand_int_range (random, 1, 20));
      model.n_elements += model.parameters[i].elements;
    }
    g_autofree int32_t *indices = all (&model);

    zs_flat_group_init (&group, &model, indices, model.n_parameters, world, round_robin);
    CU_ASSERT_EQUAL (group.elements, model.n_elements);
    CU_ASSERT_EQUAL (group.padded_elements % (2 * world), 0);
    CU_ASSERT_TRUE (group.padded_elements - group.elements < 2 * world);
    for (int32_t i = 0; i < model.n_parameters; i++) {
      int64_t sum = 0;

      CU_ASSERT_EQUAL (group.parameters[group.order[i]].parameter, i);
      for (int64_t rank = 0; rank < world; rank++)
        sum += zs_flat_group_slice (&group, i, rank, NULL);
      CU_ASSERT_EQUAL (sum, group.parameters[i].elements);
    }
    int64_t owned = 0;

    for (int64_t rank = 0; rank < world; rank++) {
      int32_t first, n;

      zs_flat_group_own (&group, rank, &first, &n);
      for (int32_t i = first; i < first + n; i++)
        owned += zs_flat_group_slice (&group, i, rank, NULL);
      CU_ASSERT_TRUE (zs_flat_group_own_elements (&group, rank) >= 0);
    }
    CU_ASSERT_EQUAL (owned, group.elements);
    zs_flat_group_clear (&group);
    g_free (model.parameters);
  }
  g_rand_free (random);
}

/* Seen in the histories of one H200 (132 SMs): staging buffers of norms are 8 bytes per block. */
static void
test_reduction_blocks (void)
{
  static const struct { int64_t elements, blocks; } CASES[] = {
    { 2048, 1 }, { 65536000, 528 }, { 4194304, 512 }, { 524288, 64 }, { 11534336, 528 },
    { 793088, 97 },
  };
  ZsStepShape shape = { .sm_count = 132, .compute_capability = 90 };

  for (unsigned i = 0; i < G_N_ELEMENTS (CASES); i++)
    CU_ASSERT_EQUAL (zs_torch_reduction_blocks (&shape, CASES[i].elements), CASES[i].blocks);
}

int
main (void)
{
  static const CU_TestInfo TESTS[] = {
    { "LLaMA-7B on two ranks", test_llama_7b },
    { "every element has one owner", test_properties },
    { "blocks of a reduction", test_reduction_blocks },
    CU_TEST_INFO_NULL,
  };

  return testing_main ("partition", TESTS);
}
