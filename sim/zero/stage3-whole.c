/* stage3-whole.c: parameters gathered outside the coordinator: for gradient hooks, and to be saved.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/zero/stage3-internal.h"

/* param.all_gather () of one parameter, blocking: two buffers until 0.19.2 (flat, then the parameter's
 * own), one later.  Returns the whole parameter, or NO_TENSOR if it is the shard. */
static ZsTensor
gather_now (Zero3 *zero, ZsPlan *plan, int32_t index)
{
  const Zero3Parameter *parameter = &zero->parameters[index];
  int64_t bytes = parameter->shard * zero->world * parameter->bytes;
  ZsTensor staged = ZS_NO_TENSOR;

  if (zero->world == 1 && !zero->old_backward)
    return ZS_NO_TENSOR;
  ZsTensor flat = zs_plan_alloc (plan, bytes, ZS_CATEGORY_GATHERED);

  if (zero3_params_on_host (zero)) {
    zero3_read_shard (zero, plan, index);
    zero3_forget_shard (zero, index);
    if (!zero->old_backward)
      staged = zs_plan_alloc (plan, parameter->shard * parameter->bytes, ZS_CATEGORY_OFFLOAD);
    zs_plan_copy (plan, ZS_COPY_HOST_TO_GPU, parameter->shard * parameter->bytes,
                  ZS_FLAG_BLOCKING | ZS_FLAG_PINNED);
  }
  zs_torch_collective (plan, ZS_COLLECTIVE_ALL_GATHER, zero3_gather_communicator (zero), bytes);
  zs_plan_unref (plan, staged);
  if (!zero->old_backward)
    return flat;
  ZsTensor own = zs_plan_alloc (plan, parameter->elements * parameter->bytes, ZS_CATEGORY_GATHERED);

  zs_torch_copy (plan, ZS_WORK_COMMUNICATION, parameter->elements, parameter->bytes,
                 parameter->bytes, "gather.own");
  zs_plan_unref (plan, flat);
  return own;
}

/* create_reduce_and_remove_grad_hooks (): each trainable parameter is gathered and cut again. */
void
zero3_hang_hooks (Zero3 *zero, ZsPlan *plan)
{
  for (int32_t i = 0; i < zero->n_trainable; i++) {
    zs_plan_host (plan, ZS_HOST_GRADIENT_HOOK, 1);
    zs_plan_unref (plan, gather_now (zero, plan, zero->group_order[i]));
  }
}

void
zero3_save (void *self, ZsPlan *plan)
{
  Zero3 *zero = self;
  ZsTensor copies[zero->n_parameters + 1];
  ZsTensor whole[zero->n_parameters + 1];

  if (!zero->config.gather_16bit_weights_on_model_save)
    return;   /* save_16bit_model () writes nothing */
  uint32_t label = zs_plan_set_label (plan, zero->label_init);

  for (int32_t p = 0; p < zero->n_parameters; p++)
    copies[p] = whole[p] = ZS_NO_TENSOR;
  for (int32_t m = 0; m < zero->model->n_modules; m++) {
    const ZsModule *module = &zero->model->modules[m];
    int32_t first = module->first_parameter, end = first + module->n_parameters;

    for (int32_t p = first; p < end; p++)   /* persistent ones are there */
      if (zero->parameters[p].full == ZS_NO_TENSOR)
        whole[p] = gather_now (zero, plan, p);
    for (int32_t p = first; zero->first_rank && p < end; p++) {
      int64_t bytes = zero->parameters[p].elements * zero->parameters[p].bytes;

      copies[p] = zs_plan_host_alloc (plan, bytes, ZS_CATEGORY_PARAMETERS, 0);
      zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, bytes, ZS_FLAG_BLOCKING);
    }
    for (int32_t p = first; p < end; p++)
      zs_plan_unref (plan, whole[p]);
  }
  for (int32_t p = 0; p < zero->n_parameters; p++)
    zs_plan_unref (plan, copies[p]);
  zs_plan_set_label (plan, label);
}
