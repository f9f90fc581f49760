/* test-loss.c: bytes of logits and their relatives by release of transformers.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/model/emit.h"
#include "sim/model/plain.h"
#include "tests/testing.h"

enum { SEQUENCE = 65, VOCABULARY = 4096 };

typedef struct { int64_t forward, kept, backward; } Peaks;

static void
follow (const ZsPlan *plan, int64_t *sizes, int64_t *now, int64_t *peak)
{
  *peak = *now;
  for (int64_t i = 0; i < plan->n_code; i++) {
    const ZsInstruction *instruction = &plan->code[i];

    if (instruction->op == ZS_OP_ALLOC)
      sizes[instruction->id] = instruction->kind == ZS_CATEGORY_LOGITS ? instruction->bytes : 0;
    if (instruction->op == ZS_OP_ALLOC)
      *now += sizes[instruction->id];
    else if (instruction->op == ZS_OP_FREE)
      *now -= sizes[instruction->id];
    *peak = MAX (*peak, *now);
  }
}

static Peaks
peaks_of (ZsVersion transformers, int64_t batch, bool keep_outputs)
{
  ZsModelShape shape = { .hidden = 64, .intermediate = 128, .n_layers = 1, .n_heads = 4, .n_kv_heads = 4,
                         .head_dim = 16, .vocabulary = VOCABULARY };
  ZsStepShape step = { .micro_batch = batch, .sequence = SEQUENCE, .dtype = ZS_DTYPE_BF16,
                       .attention = ZS_ATTENTION_FLASH, .keep_outputs = keep_outputs,
                       .versions.of[ZS_SOFTWARE_TRANSFORMERS] = transformers, .compute_capability = 80,
                       .sm_count = 108 };
  g_autoptr (ZsModel) model = zs_model_new (&shape, NULL, ZS_DTYPE_BF16, &step.versions);
  g_autoptr (ZsPlan) plan = zs_plan_new ();
  g_autoptr (ZsHooks) hooks = zs_plain_hooks_new (model, &step, plan);
  g_autoptr (ZsEmitter) emitter = zs_emitter_new (model, &step, hooks, plan);
  g_autofree int64_t *sizes = g_new0 (int64_t, 65536);
  int64_t now = 0;
  Peaks peaks = { 0 };

  hooks->load (hooks->self, plan);
  zs_emit_inputs (emitter);
  zs_plan_clear (plan);
  zs_emit_forward (emitter, 1, 0, true);
  follow (plan, sizes, &now, &peaks.forward);
  peaks.kept = now;
  zs_plan_clear (plan);
  zs_emit_backward (emitter);
  follow (plan, sizes, &now, &peaks.backward);
  return peaks;
}

/* Bytes per token and vocabulary entry; shifted logits have one position less. */
static void
each_release_has_its_bytes_per_token (void)
{
  static const struct { ZsVersion version; int64_t batch, forward, kept, kept_outputs, backward; bool shifts; } cases[] = {
    { ZS_VERSION (5, 17, 0), 1, 10, 4, 6, 12, false }, { ZS_VERSION (5, 17, 0), 2, 10, 4, 6, 12, false },
    { ZS_VERSION (4, 48, 0), 1, 10, 4, 6, 12, true },  { ZS_VERSION (4, 48, 0), 2, 14, 4, 6, 12, true },
    { ZS_VERSION (4, 40, 0), 1, 8, 4, 8, 12, true },   { ZS_VERSION (4, 40, 0), 2, 12, 4, 8, 12, true },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    int64_t unit = cases[i].batch * SEQUENCE * VOCABULARY;
    /* each of up to three shifted fp32 tensors may lack the last position */
    int64_t slack = cases[i].shifts ? 3 * 4 * cases[i].batch * VOCABULARY : 0;
    Peaks peaks = peaks_of (cases[i].version, cases[i].batch, false);
    Peaks outputs = peaks_of (cases[i].version, cases[i].batch, true);

#define NEAR(actual, expected)                                                                     \
  CU_ASSERT_TRUE ((actual) <= (expected) * unit && (actual) >= (expected) * unit - slack)
    NEAR (peaks.forward, cases[i].forward);
    NEAR (peaks.kept, cases[i].kept);
    NEAR (outputs.kept, cases[i].kept_outputs);
    NEAR (peaks.backward, cases[i].backward);
#undef NEAR
  }
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "each release has its bytes per token and vocabulary entry", each_release_has_its_bytes_per_token },
    CU_TEST_INFO_NULL
  };

  return testing_main ("loss", tests);
}
