/* test-quantize.c: QLoRA's bytes in closed form.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/job/job.h"
#include "sim/model/quantize.h"
#include "tests/testing.h"

static ZsTraining
qlora (bool double_quantized)
{
  ZsVersions versions = { .of = { [ZS_SOFTWARE_DEEPSPEED] = ZS_VERSION (0, 19, 5),
                                  [ZS_SOFTWARE_TORCH] = ZS_VERSION (2, 11, 0),
                                  [ZS_SOFTWARE_TRANSFORMERS] = ZS_VERSION (5, 17, 0),
                                  [ZS_SOFTWARE_NCCL] = ZS_VERSION (2, 28, 9) } };

  return (ZsTraining) {
    .framework = ZS_FRAMEWORK_SINGLE, .n_steps = 2, .gradient_accumulation = 1, .world = 1,
    .shape = { .hidden = 1024, .intermediate = 2816, .n_layers = 4, .n_heads = 16, .n_kv_heads = 8,
               .head_dim = 64, .vocabulary = 32000 },
    .step = { .micro_batch = 1, .sequence = 1024, .dtype = ZS_DTYPE_BF16,
              .attention = ZS_ATTENTION_CUDNN, .optimizer = ZS_OPTIMIZER_FUSED, .versions = versions,
              .compute_capability = 90, .sm_count = 132, .load_in_4bit = true,
              .lora = { .rank = 8, .targets = ZS_LINEAR_Q | ZS_LINEAR_V, .dtype = ZS_DTYPE_BF16,
                        .base_4bit = true, .double_quantized = double_quantized } },
  };
}

/* Bytes alive after the phases up to N, of PARAMETERS if ONLY_PARAMETERS. */
static int64_t
bytes_after (const ZsTraining *training, int n)
{
  g_autoptr (ZsPlanner) planner = zs_planner_new (training, 0);
  g_autoptr (GArray) sizes = g_array_new (FALSE, TRUE, sizeof (int64_t));
  int64_t now = 0;

  for (int phase = 0; phase < n; phase++) {
    const ZsPlan *plan = zs_planner_next (planner);

    for (int64_t i = 0; i < plan->n_code; i++) {
      const ZsInstruction *instruction = &plan->code[i];

      if (instruction->op == ZS_OP_ALLOC) {
        if (instruction->id >= sizes->len)
          g_array_set_size (sizes, instruction->id + 1);
        g_array_index (sizes, int64_t, instruction->id) = instruction->bytes;
        now += instruction->bytes;
      } else if (instruction->op == ZS_OP_FREE) {
        now -= g_array_index (sizes, int64_t, instruction->id);
      }
    }
  }
  return now;
}

/* 0.5 byte per weight; scales of 64 in fp32, or in 8 bit with fp32 ones of 256 of them. */
static void
weights_take_half_a_byte_and_their_scales (void)
{
  int64_t layer = 2 * 1024 * 1024 + 2 * 512 * 1024 + 3 * 1024 * 2816, linears = 4 * layer, n = 4 * 7;
  int64_t rest = 2 * (2 * 32000 * 1024 + 9 * 1024);             /* embedding, head, norms */
  int64_t rotary = 2 * 32 * 4, ids = 1024 * 8;
  ZsTraining plain = qlora (false), twice = qlora (true);

  CU_ASSERT_EQUAL (bytes_after (&plain, 1), linears / 2 + linears / 64 * 4 + n * 64 + rest + rotary + ids);
  CU_ASSERT_EQUAL (bytes_after (&twice, 1), linears / 2 + linears / 64 + linears / 64 / 256 * 4
                                              + n * (1024 + 4 + 64) + rest + rotary + ids);
}

/* A step leaves what it found but for the optimizer's states, which the first one makes. */
static void
nothing_is_left_behind (void)
{
  ZsTraining training = qlora (true);

  CU_ASSERT_EQUAL (bytes_after (&training, 5), bytes_after (&training, 8));
}

/* Under activation checkpointing and every framework the plan balances. */
static void
every_framework_takes_it (void)
{
  static const ZsFramework FRAMEWORKS[] = { ZS_FRAMEWORK_SINGLE, ZS_FRAMEWORK_DDP, ZS_FRAMEWORK_FSDP2,
                                            ZS_FRAMEWORK_FSDP1 };

  for (int i = 0; i < 4 * 3; i++) {
    ZsTraining training = qlora (true);

    training.framework = FRAMEWORKS[i / 3];
    training.world = training.framework == ZS_FRAMEWORK_SINGLE ? 1 : 4;
    training.step.checkpoint_every = i % 3 > 0;
    training.step.reentrant = i % 3 == 2;
    training.n_steps = 3;
    training.fsdp = (ZsFsdpConfig) { .version = training.framework == ZS_FRAMEWORK_FSDP1 ? 1 : 2,
                                     .world = 4, .node_ranks = 4, .gradient_accumulation = 1,
                                     .reshard_after_forward = true, .limit_all_gathers = true,
                                     .backward_prefetch = true, .versions = training.step.versions };
    CU_ASSERT_EQUAL (bytes_after (&training, 8), bytes_after (&training, 11));
  }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "weights take half a byte and their scales", weights_take_half_a_byte_and_their_scales },
    { "nothing is left behind", nothing_is_left_behind },
    { "every framework takes it", every_framework_takes_it },
    CU_TEST_INFO_NULL
  };

  return testing_main ("quantize", tests);
}
