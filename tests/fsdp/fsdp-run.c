/* fsdp-run.c: plans of FSDP through the caching allocator.  SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "sim/memory/caching-allocator.h"
#include "sim/model/emit.h"
#include "tests/fsdp/fsdp-run.h"

typedef struct {
  FsdpRun *run;
  ZsPlan  *plan;
  ZsCachingAllocator *allocator;
  GPtrArray *blocks;       /* by tensor */
  GArray  *host;           /* bytes by tensor; negative: pinned */
  int64_t  host_bytes, pinned_bytes;
} Machine;

FsdpCase
fsdp_case (int64_t hidden, int64_t ffn, int64_t layers, int64_t heads, int64_t kv_heads,
           int64_t vocabulary, bool tied)
{
  ZsVersions versions = { .of = { [ZS_SOFTWARE_DEEPSPEED] = ZS_VERSION (0, 19, 5),
                                  [ZS_SOFTWARE_TORCH] = ZS_VERSION (2, 11, 0),
                                  [ZS_SOFTWARE_TRANSFORMERS] = ZS_VERSION (5, 17, 0),
                                  [ZS_SOFTWARE_NCCL] = ZS_VERSION (2, 28, 9) } };

  return (FsdpCase) {
    .model = { .name = "test", .hidden = hidden, .intermediate = ffn, .n_layers = layers,
               .n_heads = heads, .n_kv_heads = kv_heads, .head_dim = hidden / heads,
               .vocabulary = vocabulary, .max_position = 8192, .tied_embeddings = tied },
    .shape = { .micro_batch = 1, .sequence = 1024, .dtype = ZS_DTYPE_BF16,
               .attention = ZS_ATTENTION_CUDNN, .clip = true, .optimizer = ZS_OPTIMIZER_FUSED,
               .versions = versions, .compute_capability = 90, .sm_count = 132 },
    .config = { .version = 2, .world = 4, .node_ranks = 4, .gradient_accumulation = 1,
                .reshard_after_forward = true, .parameter_dtype = ZS_DTYPE_FP32,
                .compute_dtype = ZS_DTYPE_BF16, .reduce_dtype = ZS_DTYPE_FP32,
                .limit_all_gathers = true, .backward_prefetch = true,
                .optimizer = ZS_OPTIMIZER_FUSED, .versions = versions },
    .n_steps = 2,
  };
}

static void
run_instruction (Machine *machine, const ZsInstruction *code, FsdpPhase *phase)
{
  ZsBlock *block;
  int64_t bytes = code->bytes;

  switch (code->op) {
  case ZS_OP_ALLOC:
    if (code->id >= machine->blocks->len)
      g_ptr_array_set_size (machine->blocks, (gint) code->id + 1000);
    g_assert (machine->blocks->pdata[code->id] == NULL);
    block = zs_caching_allocator_malloc (machine->allocator, code->bytes, code->stream, code->kind,
                                         code->label);
    machine->blocks->pdata[code->id] = block;
    g_array_append_val (machine->run->actions, ((FsdpAction) { bytes, code->stream }));
    break;
  case ZS_OP_RECORD_STREAM:
    zs_caching_allocator_record_stream (machine->allocator, machine->blocks->pdata[code->id],
                                        code->stream);
    break;
  case ZS_OP_FREE:
    block = machine->blocks->pdata[code->id];
    g_array_append_val (machine->run->actions,
                        ((FsdpAction) { -zs_block_requested (block), zs_block_stream (block) }));
    zs_caching_allocator_free_block (machine->allocator, block);
    machine->blocks->pdata[code->id] = NULL;
    break;
  case ZS_OP_HOST_ALLOC:
    if (code->id >= machine->host->len)
      g_array_set_size (machine->host, code->id + 1000);
    machine->host_bytes += bytes;
    if (code->flags & ZS_FLAG_PINNED) {
      machine->pinned_bytes += bytes;
      bytes = -bytes;
    }
    g_array_index (machine->host, int64_t, code->id) = bytes;
    break;
  case ZS_OP_HOST_FREE:
    bytes = g_array_index (machine->host, int64_t, code->id);
    machine->host_bytes -= ABS (bytes);
    machine->pinned_bytes += MIN (bytes, 0);
    break;
  case ZS_OP_COLLECTIVE:
    phase->n_collectives++;
    phase->collective_bytes += bytes;
    break;
  default:
    break;
  }
}

static void
end_phase (Machine *machine, const char *name)
{
  const ZsAllocatorCounters *counters = zs_caching_allocator_counters (machine->allocator);
  FsdpPhase phase = { .first_action = machine->run->actions->len };

  g_strlcpy (phase.name, name, sizeof phase.name);
  for (int64_t i = 0; i < machine->plan->n_code; i++)
    run_instruction (machine, &machine->plan->code[i], &phase);
  phase.allocated = counters->allocated.now;
  phase.peak_allocated = counters->allocated.peak;
  phase.reserved = counters->reserved.now;
  phase.peak_reserved = counters->reserved.peak;
  phase.host = machine->host_bytes;
  phase.host_pinned = machine->pinned_bytes;
  g_array_append_val (machine->run->phases, phase);
  zs_caching_allocator_check (machine->allocator);
  zs_caching_allocator_reset_peaks (machine->allocator);
  zs_plan_clear (machine->plan);
}

FsdpRun *
fsdp_run (const FsdpCase *test)
{
  FsdpRun *run = g_new0 (FsdpRun, 1);
  g_autoptr (ZsModel) model
    = zs_model_new (&test->model, test->lora.rank > 0 ? &test->lora : NULL, test->shape.dtype,
                    &test->shape.versions);
  g_autoptr (ZsPlan) plan = zs_plan_new ();
  ZsStepShape shape = test->shape;
  ZsAllocConf conf;

  shape.lora = test->lora;
  run->phases = g_array_new (FALSE, FALSE, sizeof (FsdpPhase));
  run->actions = g_array_new (FALSE, FALSE, sizeof (FsdpAction));
  zs_alloc_conf_init (&conf);
  g_autoptr (ZsCachingAllocator) allocator
    = zs_caching_allocator_new (&conf, INT64_C (150109880320), NULL);
  Machine machine = { .run = run, .plan = plan, .allocator = allocator,
                      .blocks = g_ptr_array_new (),
                      .host = g_array_new (FALSE, TRUE, sizeof (int64_t)) };
  ZsHooks *hooks = zs_fsdp_hooks_new (model, &test->config, &shape, test->rank, plan);
  ZsEmitter *emitter = zs_emitter_new (model, &shape, hooks, plan);

  zs_emit_inputs (emitter);
  hooks->load (hooks->self, plan);
  end_phase (&machine, "model");
  hooks->init (hooks->self, plan);
  end_phase (&machine, "engine");
  for (int step = 1; step <= test->n_steps; step++) {
    char name[32];

    for (int m = 0; m < test->config.gradient_accumulation; m++) {
      zs_emit_forward (emitter, step, m, m == test->config.gradient_accumulation - 1);
      g_snprintf (name, sizeof name, "s%dm%d_fwd", step, m);
      end_phase (&machine, name);
      zs_emit_backward (emitter);
      g_snprintf (name, sizeof name, "s%dm%d_bwd", step, m);
      end_phase (&machine, name);
    }
    hooks->step (hooks->self, plan, step);
    g_snprintf (name, sizeof name, "s%dm0_step", step);
    end_phase (&machine, name);
  }
  zs_emitter_free (emitter);
  hooks->free (hooks->self);
  g_ptr_array_free (machine.blocks, TRUE);
  g_array_free (machine.host, TRUE);
  return run;
}

void
fsdp_run_free (FsdpRun *run)
{
  g_array_free (run->phases, TRUE);
  g_array_free (run->actions, TRUE);
  g_free (run);
}

const FsdpPhase *
fsdp_run_phase (const FsdpRun *run, const char *name)
{
  for (guint i = 0; i < run->phases->len; i++)
    if (strcmp (g_array_index (run->phases, FsdpPhase, i).name, name) == 0)
      return &g_array_index (run->phases, FsdpPhase, i);
  return NULL;
}

/* Myers 1986. */
int
fsdp_edit_distance (const FsdpAction *a, int n, const FsdpAction *b, int m, int limit)
{
  g_autofree int *furthest = g_new0 (int, 2 * (gsize) limit + 3);
  int *v = furthest + limit + 1;

  for (int d = 0; d <= limit; d++)
    for (int k = -d; k <= d; k += 2) {
      int x = k == -d || (k != d && v[k - 1] < v[k + 1]) ? v[k + 1] : v[k - 1] + 1;

      while (x < n && x - k < m && a[x].bytes == b[x - k].bytes && a[x].stream == b[x - k].stream)
        x++;
      v[k] = x;
      if (x >= n && x - k >= m)
        return d;
    }
  return limit + 1;
}
