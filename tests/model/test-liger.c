/* test-liger.c: what Liger's kernels hold and allocate, against closed forms.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/model/emit.h"
#include "sim/model/plain.h"
#include "sim/zero/stage3.h"
#include "tests/testing.h"

enum { KERNELS = ZS_LIGER_ROPE | ZS_LIGER_SWIGLU | ZS_LIGER_RMS_NORM, SMS = 108, LAYER_SCALARS = 24 };

typedef struct { int64_t base, forward, kept, backward, left; } Bytes;   /* requested; above BASE, before forward */

static void
follow (const ZsPlan *plan, int64_t *sizes, int64_t *now, int64_t *peak)
{
  *peak = *now;
  for (int64_t i = 0; i < plan->n_code; i++) {
    const ZsInstruction *instruction = &plan->code[i];

    if (instruction->op == ZS_OP_ALLOC) {
      sizes[instruction->id] = instruction->kind == ZS_CATEGORY_WORKSPACE ? 0 : instruction->bytes;
      *now += sizes[instruction->id];
    } else if (instruction->op == ZS_OP_FREE) {
      *now -= sizes[instruction->id];
    }
    *peak = MAX (*peak, *now);
  }
}

static Bytes
bytes_of (const ZsModelShape *shape, ZsStepShape step)
{
  step.compute_capability = 80;
  step.sm_count = SMS;
  step.attention = ZS_ATTENTION_FLASH;
  if (step.versions.of[ZS_SOFTWARE_TRANSFORMERS] == 0)
    step.versions.of[ZS_SOFTWARE_TRANSFORMERS] = ZS_VERSION (5, 17, 0);
  g_autoptr (ZsModel) model = zs_model_new (shape, step.lora.rank > 0 ? &step.lora : NULL, step.dtype, &step.versions);
  g_autoptr (ZsPlan) plan = zs_plan_new ();
  g_autoptr (ZsHooks) hooks = zs_plain_hooks_new (model, &step, plan);
  g_autoptr (ZsEmitter) emitter = zs_emitter_new (model, &step, hooks, plan);
  g_autofree int64_t *sizes = g_new0 (int64_t, 65536);
  int64_t now = 0, peak;
  Bytes bytes = { 0 };

  hooks->load (hooks->self, plan);
  if (hooks->init != NULL)
    hooks->init (hooks->self, plan);
  zs_emit_inputs (emitter);
  follow (plan, sizes, &now, &peak);
  bytes.base = now;
  zs_plan_clear (plan);
  zs_emit_forward (emitter, 1, 0, true);
  follow (plan, sizes, &now, &bytes.forward);
  bytes.kept = now - bytes.base;
  zs_plan_clear (plan);
  zs_emit_backward (emitter);
  follow (plan, sizes, &now, &bytes.backward);
  bytes.left = now - bytes.base;
  bytes.forward -= bytes.base;
  bytes.backward -= bytes.base;
  return bytes;
}

static GRand *
seeded (void)
{
  guint32 seed = 20261201;

  printf ("# seed %u\n", seed);
  return g_rand_new_with_seed (seed);
}

static ZsModelShape
random_shape (GRand *rand)
{
  int64_t kv = g_rand_int_range (rand, 1, 4), heads = kv * g_rand_int_range (rand, 1, 4);

  return (ZsModelShape) { .hidden = 64 * g_rand_int_range (rand, 1, 9), .n_layers = 1,
                          .intermediate = 64 * g_rand_int_range (rand, 2, 20), .n_heads = heads, .n_kv_heads = kv,
                          .head_dim = 8 * g_rand_int_range (rand, 2, 9), .vocabulary = g_rand_int_range (rand, 500, 9000) };
}

/* 2 (2h + 4) of the norms' inputs, 4h of their outputs, q, attention's output, k, v, log-sum-exp, gate, up and
 * their product. */
static void
a_layer_holds_its_bytes (void)
{
  g_autoptr (GRand) rand = seeded ();

  for (int i = 0; i < 40; i++) {
    ZsModelShape shape = random_shape (rand);
    ZsStepShape step = { .micro_batch = g_rand_int_range (rand, 1, 4), .sequence = g_rand_int_range (rand, 2, 300),
                         .dtype = ZS_DTYPE_BF16, .liger = KERNELS | ZS_LIGER_FUSED_LOSS };
    int64_t q = shape.n_heads * shape.head_dim, kv = shape.n_kv_heads * shape.head_dim;
    int64_t token = 8 * shape.hidden + 4 * q + 4 * kv + 4 * shape.n_heads + 6 * shape.intermediate + 8;
    int64_t one = bytes_of (&shape, step).kept;

    shape.n_layers = 2;
    CU_ASSERT_EQUAL (bytes_of (&shape, step).kept - one,
                     step.micro_batch * step.sequence * token + LAYER_SCALARS);
    step.checkpoint_every = 1;
    int64_t two = bytes_of (&shape, step).kept;

    shape.n_layers = 3;   /* checkpointed: its input alone */
    CU_ASSERT_EQUAL (bytes_of (&shape, step).kept - two, step.micro_batch * step.sequence * 2 * shape.hidden);
  }
}

static int64_t
chunk_of (int64_t tokens, const ZsModelShape *shape)
{
  int64_t factor = (shape->vocabulary + shape->hidden - 1) / shape->hidden, wanted = (tokens + factor - 1) / factor;
  int64_t chunk = 1;

  while (chunk < wanted)
    chunk *= 2;
  return chunk;
}

/* Of the loss: the input's gradient 2hT and the weight's 2Vh wait for backward; beside them a chunk's logits with
 * those of the one before, or with a product of the weight's size: chunk x V x 2 + 2 x V x h x 2 + 2hT where
 * chunks have no more rows than h. */
static void
the_fused_loss_holds_its_bytes (void)
{
  g_autoptr (GRand) rand = seeded ();

  for (int i = 0; i < 40; i++) {
    ZsModelShape shape = random_shape (rand);
    ZsStepShape step = { .micro_batch = 1, .sequence = g_rand_int_range (rand, 600, 4000), .dtype = ZS_DTYPE_BF16,
                         .liger = KERNELS | ZS_LIGER_FUSED_LOSS };
    int64_t t = step.sequence, h = shape.hidden, v = shape.vocabulary, chunk = MIN (chunk_of (t, &shape), t);
    int64_t part = 2 * chunk * h;   /* of the input's gradient, as it comes from the product */
    int64_t head = 2 * v * h, weights = 2 * chunk * v + MAX (head, part);

    Bytes fused = bytes_of (&shape, step);
    int64_t waits = 2 * h * t + head, small = 8 * (t + 1) + 4 * t + t;   /* labels, losses, mask */
    int64_t both = chunk < t ? 2 * chunk * v + 2 * v * MIN (chunk, MAX (t - chunk, 0)) : 0;
    int64_t hidden = 2 * h * t;   /* the norm's output, which only the loss sees */

    CU_ASSERT_EQUAL (fused.forward - (fused.kept - waits - 4), waits + hidden + small + MAX (weights, both));
    step.liger = KERNELS;
    Bytes logits = bytes_of (&shape, step);

    /* without it: log-softmax in fp32, the norm's output for the head, labels, two scalars */
    CU_ASSERT_EQUAL (logits.kept - fused.kept, 4 * t * v + hidden + 8 * (t + 1) + 4 - waits);
    CU_ASSERT_EQUAL (logits.left, fused.left);   /* the same gradients in the end */
  }
}

static void
a_frozen_head_has_no_gradient (void)
{
  ZsModelShape shape = { .hidden = 256, .intermediate = 512, .n_layers = 2, .n_heads = 4, .n_kv_heads = 2,
                         .head_dim = 64, .vocabulary = 5000 };
  ZsStepShape step = { .micro_batch = 2, .sequence = 512, .dtype = ZS_DTYPE_BF16,
                       .liger = KERNELS | ZS_LIGER_FUSED_LOSS,
                       .lora = { .rank = 4, .targets = ZS_LINEAR_Q | ZS_LINEAR_V, .dtype = ZS_DTYPE_BF16 } };
  Bytes frozen = bytes_of (&shape, step);
  int64_t adapters = 2 * 4 * 2 * (256 + 256 + 256 + 128);

  CU_ASSERT_EQUAL (frozen.left, adapters + 4);
  step.lora.saves_head = true;
  CU_ASSERT_EQUAL (bytes_of (&shape, step).kept - frozen.kept, 2 * 256 * 5000);
}

/* Logits in 16 bit and fp32; the latter become their gradient, which is cast down: 6, 4 (outputs kept: 6), 6. */
static void
cross_entropy_writes_over_the_logits (void)
{
  ZsModelShape shape = { .hidden = 64, .intermediate = 128, .n_layers = 1, .n_heads = 4, .n_kv_heads = 4,
                         .head_dim = 16, .vocabulary = 40000 };
  ZsStepShape step = { .micro_batch = 2, .sequence = 256, .dtype = ZS_DTYPE_BF16,
                       .liger = KERNELS | ZS_LIGER_CROSS_ENTROPY };
  int64_t unit = 2 * 256 * 40000;
  Bytes bytes = bytes_of (&shape, step);

#define NEAR(actual, expected) CU_ASSERT_TRUE (ABS ((actual) - (expected)) < unit / 10)
  NEAR (bytes.forward, 6 * unit);
  NEAR (bytes.kept, 4 * unit);
  NEAR (bytes.backward, 6 * unit);
  step.keep_outputs = true;
  NEAR (bytes_of (&shape, step).kept, 6 * unit);
  step.keep_outputs = false;
  step.versions.of[ZS_SOFTWARE_TRANSFORMERS] = ZS_VERSION (4, 40, 0);   /* fp32 in the model, and a shifted copy */
  bytes = bytes_of (&shape, step);
  NEAR (bytes.forward, 8 * unit);
  NEAR (bytes.kept, 4 * unit);
  NEAR (bytes.backward, 8 * unit);
#undef NEAR
}

/* Whatever combination of kernels, dtype, adapters, checkpointing and releases: forward and backward end with the
 * gradients alone, as many as without. */
static void
every_combination_ends_with_its_gradients (void)
{
  g_autoptr (GRand) rand = seeded ();

  for (int i = 0; i < 200; i++) {
    static const ZsVersion versions[] = { ZS_VERSION (4, 40, 0), ZS_VERSION (4, 47, 0), ZS_VERSION (5, 17, 0) };
    static const unsigned losses[] = { 0, ZS_LIGER_CROSS_ENTROPY, ZS_LIGER_FUSED_LOSS };
    ZsModelShape shape = random_shape (rand);
    ZsStepShape step = { .micro_batch = g_rand_int_range (rand, 1, 3), .sequence = g_rand_int_range (rand, 2, 200),
                         .dtype = ZS_DTYPE_BF16 };

    shape.n_layers = g_rand_int_range (rand, 1, 4);
    shape.qk_norm = g_rand_boolean (rand);
    shape.tied_embeddings = g_rand_boolean (rand);
    step.versions.of[ZS_SOFTWARE_TRANSFORMERS] = versions[g_rand_int_range (rand, 0, 3)];
    step.checkpoint_every = g_rand_int_range (rand, 0, 3);
    step.reentrant = g_rand_boolean (rand);
    step.autocast = g_rand_boolean (rand);
    step.dtype = step.autocast ? ZS_DTYPE_FP32 : ZS_DTYPE_BF16;
    if (g_rand_boolean (rand)) {
      step.lora = (ZsLora) { .rank = 4, .targets = ZS_LINEAR_Q | ZS_LINEAR_GATE, .dtype = ZS_DTYPE_FP32 };
      shape.tied_embeddings = false;
    }
    int64_t left = bytes_of (&shape, step).left;

    step.liger = (unsigned) g_rand_int_range (rand, 0, 8) | losses[g_rand_int_range (rand, 0, 3)];
    int64_t with = bytes_of (&shape, step).left;

    if (with != left)
      printf ("# liger %u: %" G_GINT64_FORMAT " bytes are left, not %" G_GINT64_FORMAT "\n", step.liger, with, left);
    CU_ASSERT_EQUAL (with, left);
  }
}

/* Bytes of gathered parameters when the first and the last layer's MLP begin, of a forward that has been before. */
static void
gathered_in_layers (unsigned liger, int64_t *ret_first, int64_t *ret_last)
{
  ZsModelShape shape = { .hidden = 256, .intermediate = 512, .n_layers = 4, .n_heads = 4, .n_kv_heads = 4,
                         .head_dim = 64, .vocabulary = 20000 };
  ZsStepShape step = { .micro_batch = 1, .sequence = 64, .dtype = ZS_DTYPE_BF16, .attention = ZS_ATTENTION_FLASH,
                       .liger = liger, .compute_capability = 80, .sm_count = SMS };
  ZsZeroConfig config = { .stage = 3, .world = 4, .node_ranks = 4, .gradient_accumulation = 1,
                          .dtype = ZS_DTYPE_BF16, .communication_dtype = ZS_DTYPE_BF16,
                          .grad_accum_dtype = ZS_DTYPE_BF16, .gradient_clipping = 1, .optimizer_groups = 1,
                          .reduce_bucket_size = 1000000, .contiguous_gradients = true, .reduce_scatter = true,
                          .sub_group_size = 1000000000, .max_live_parameters = 1000000000,
                          .max_reuse_distance = 0, .zero_init = true };
  g_autofree int64_t *sizes = g_new0 (int64_t, 65536);
  int64_t gathered = 0;

  step.versions.of[ZS_SOFTWARE_TRANSFORMERS] = ZS_VERSION (5, 17, 0);
  step.versions.of[ZS_SOFTWARE_DEEPSPEED] = ZS_VERSION (0, 19, 5);
  step.versions.of[ZS_SOFTWARE_TORCH] = ZS_VERSION (2, 11, 0);
  config.versions = step.versions;
  g_autoptr (ZsModel) model = zs_model_new (&shape, NULL, step.dtype, &step.versions);
  g_autoptr (ZsPlan) plan = zs_plan_new ();
  g_autoptr (ZsHooks) hooks = zs_zero3_hooks_new (model, &config, &step, 0, plan);
  g_autoptr (ZsEmitter) emitter = zs_emitter_new (model, &step, hooks, plan);

  *ret_first = *ret_last = -1;
  hooks->load (hooks->self, plan);
  zs_emit_inputs (emitter);
  hooks->init (hooks->self, plan);
  for (int number = 1; number <= 2; number++) {
    zs_emit_forward (emitter, number, 0, true);
    for (int64_t i = 0; i < plan->n_code; i++) {
      const ZsInstruction *instruction = &plan->code[i];
      const ZsLabel *label = &plan->labels[instruction->label];
      bool enters = number == 2 && instruction->op == ZS_OP_LAUNCH && strcmp (label->what, "act_fn") == 0;

      if (instruction->op == ZS_OP_ALLOC) {
        sizes[instruction->id] = instruction->kind == ZS_CATEGORY_GATHERED ? instruction->bytes : 0;
        gathered += sizes[instruction->id];
      } else if (instruction->op == ZS_OP_FREE) {
        gathered -= sizes[instruction->id];
      }
      if (enters && label->layer == 0)
        *ret_first = gathered;
      if (enters && label->layer == 3)
        *ret_last = gathered;
    }
    zs_plan_clear (plan);
    zs_emit_backward (emitter);
    hooks->step (hooks->self, plan, number);
    for (int64_t i = 0; i < plan->n_code; i++) {
      const ZsInstruction *instruction = &plan->code[i];

      if (instruction->op == ZS_OP_ALLOC) {
        sizes[instruction->id] = instruction->kind == ZS_CATEGORY_GATHERED ? instruction->bytes : 0;
        gathered += sizes[instruction->id];
      } else if (instruction->op == ZS_OP_FREE) {
        gathered -= sizes[instruction->id];
      }
    }
    zs_plan_clear (plan);
  }
}

/* Stage 3 holds the head, an external parameter of the model, through all layers. */
static void
stage3_holds_the_head_while_layers_run (void)
{
  int64_t first, last, usual_first, usual_last, head = 2 * 256 * 20000;

  gathered_in_layers (KERNELS | ZS_LIGER_FUSED_LOSS, &first, &last);
  gathered_in_layers (KERNELS, &usual_first, &usual_last);
  CU_ASSERT_TRUE (usual_first < head && usual_last < head);
  CU_ASSERT_EQUAL (first, usual_first + head);
  CU_ASSERT_EQUAL (last, usual_last + head);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "a layer holds 8h + 4Hd + 4Kd + 4H + 6I + 8 bytes a token", a_layer_holds_its_bytes },
    { "the fused loss holds its bytes", the_fused_loss_holds_its_bytes },
    { "a frozen head has no gradient", a_frozen_head_has_no_gradient },
    { "cross entropy writes over the logits", cross_entropy_writes_over_the_logits },
    { "every combination ends with its gradients", every_combination_ends_with_its_gradients },
    { "stage 3 holds the head while layers run", stage3_holds_the_head_while_layers_run },
    CU_TEST_INFO_NULL
  };

  return testing_main ("liger", tests);
}
