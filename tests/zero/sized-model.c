/* sized-model.c: a model that has only sizes.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/zero/sized-model.h"

ZsModel *
sized_llama_7b (void)
{
  static const int64_t LAYER[] = { 4096 * 4096, 4096 * 4096, 4096 * 4096, 4096 * 4096, 4096 * 11008,
                                   4096 * 11008, 4096 * 11008, 4096, 4096 };
  ZsModel *model = g_new0 (ZsModel, 1);
  int32_t n = 0;

  model->modules = g_new0 (ZsModule, 1);
  model->n_modules = 1;
  model->parameters = g_new0 (ZsParameter, 2 + 32 * 9 + 1);
  model->parameters[n++].elements = 32000 * 4096;
  for (int layer = 0; layer < 32; layer++)
    for (int i = 0; i < 9; i++)
      model->parameters[n++].elements = LAYER[i];
  model->parameters[n++].elements = 4096;
  model->parameters[n++].elements = 32000 * 4096;
  model->n_parameters = n;
  for (int i = 0; i < n; i++) {
    ZsParameter *parameter = &model->parameters[i];

    model->n_elements += parameter->elements;
    parameter->rows = parameter->elements > 4096 ? parameter->elements / 4096 : 4096;
    parameter->columns = parameter->elements / parameter->rows;
    parameter->trainable = true;
    parameter->dtype = ZS_DTYPE_BF16;
  }
  model->n_trainable = model->n_elements;
  return model;
}

void
sized_model_free (ZsModel *model)
{
  g_free (model->modules);
  g_free (model->parameters);
  g_free (model);
}

ZsZeroConfig
sized_config (int stage, int64_t world, int64_t bucket, ZsVersion version)
{
  ZsZeroConfig config = {
    .stage = stage, .world = world, .node_ranks = world, .gradient_accumulation = 1,
    .dtype = ZS_DTYPE_BF16, .communication_dtype = ZS_DTYPE_BF16, .grad_accum_dtype = ZS_DTYPE_BF16,
    .gradient_clipping = 1.0, .optimizer = ZS_DS_OPTIMIZER_FUSED_ADAM, .optimizer_groups = 1,
    .reduce_bucket_size = bucket, .contiguous_gradients = true, .reduce_scatter = true,
    .use_multi_rank_bucket_allreduce = true, .check_grad_overflow = true,
  };

  config.versions.of[ZS_SOFTWARE_DEEPSPEED] = version;
  config.versions.of[ZS_SOFTWARE_TORCH] = ZS_VERSION (2, 11, 0);
  return config;
}

ZsHooks *
sized_start (const ZsModel *model, const ZsZeroConfig *config, int64_t rank, ZsPlan *plan,
             Ledger *ledger)
{
  ZsStepShape shape = { .dtype = config->dtype, .versions = config->versions, .sm_count = 132,
                        .compute_capability = 90 };
  ZsHooks *hooks = zs_zero_hooks_new (model, config, &shape, rank, plan);

  hooks->load (hooks->self, plan);
  ledger_read (ledger, plan);
  hooks->init (hooks->self, plan);
  ledger_read (ledger, plan);
  return hooks;
}

void
sized_micro_step (const ZsModel *model, ZsHooks *hooks, ZsPlan *plan, Ledger *ledger, int step,
                  int micro_step, bool boundary)
{
  hooks->before_forward_pass (hooks->self, plan, step, micro_step, boundary);
  hooks->before_backward_pass (hooks->self, plan);
  for (int32_t p = model->n_parameters; p-- > 0;) {
    if (!model->parameters[p].trainable)
      continue;
    ZsTensor gradient = zs_plan_alloc (plan, zs_dtype_bytes (model->parameters[p].dtype)
                                             * model->parameters[p].elements,
                                       ZS_CATEGORY_GRADIENTS);

    hooks->gradient (hooks->self, plan, p, gradient);
  }
  hooks->after_backward_pass (hooks->self, plan);
  ledger_read (ledger, plan);
}

void
sized_optimizer_step (ZsHooks *hooks, ZsPlan *plan, Ledger *ledger, int step)
{
  hooks->step (hooks->self, plan, step);
  ledger_read (ledger, plan);
}
