/* tensor-share.c: how much of a step is spent in products and attention.  SPDX-License-Identifier: MIT
 *
 * From plans of one and two layers on one GPU: the rest of the layers are like the second.  What a
 * framework adds (gathers, copies) is small beside it and left out. */
#include "config.h"

#include "sim/hardware/kernel-time.h"
#include "sim/job/job.h"

typedef struct { double tensor, other, optimizer; } Times;

static Times
of_layers (const ZsTraining *training, const ZsGpu *gpu, int64_t n_layers)
{
  ZsTraining small = *training;
  Times times = { 0, 0, 0 };
  const ZsPlan *plan;
  bool optimizer = false;

  small.framework = ZS_FRAMEWORK_SINGLE;
  small.shape.n_layers = n_layers;
  small.n_steps = small.gradient_accumulation = 1;
  small.world = 1;
  small.save = false;
  g_autoptr (ZsPlanner) planner = zs_planner_new (&small, 0);

  while ((plan = zs_planner_next (planner)) != NULL)
    for (int64_t i = 0; i < plan->n_code; i++) {
      const ZsInstruction *in = &plan->code[i];

      if (in->op == ZS_OP_PHASE)
        optimizer = in->kind == ZS_PHASE_OPTIMIZER;
      if (in->op != ZS_OP_LAUNCH)
        continue;
      const ZsKernel *kernel = &plan->kernels[in->id];
      double seconds = zs_time_to_seconds (zs_kernel_time_in_step (gpu, kernel, (ZsPace) { .tensor_share = 0 }));

      if (kernel->kind <= ZS_KERNEL_ATTENTION_BACKWARD)
        times.tensor += seconds;
      else if (kernel->kind == ZS_KERNEL_FILL && optimizer)
        continue;   /* states that the first step makes */
      else if (optimizer)
        times.optimizer += seconds;
      else
        times.other += seconds;
    }
  return times;
}

double
zs_training_tensor_share (const ZsTraining *training, const ZsGpu *gpu)
{
  if (gpu->matmul_full_clock <= 0
      || (gpu->compute_capability == 90 && !zs_behaves (&training->step.versions, ZS_BEHAVIOUR_FULL_CLOCK_PRODUCTS)))
    return -1;
  Times one = of_layers (training, gpu, 1), two = of_layers (training, gpu, 2);
  double more = (double) MAX (training->shape.n_layers - 1, 0);
  double tensor = one.tensor + more * (two.tensor - one.tensor);
  double other = one.other + more * (two.other - one.other);
  double optimizer = one.optimizer + more * (two.optimizer - one.optimizer);
  bool sharded = training->framework == ZS_FRAMEWORK_FSDP1 || training->framework == ZS_FRAMEWORK_FSDP2
                 || (training->framework == ZS_FRAMEWORK_DEEPSPEED && training->zero.stage > 0);

  optimizer /= (double) MAX (training->gradient_accumulation, 1) * (double) (sharded ? training->world : 1);
  if (training->zero.offload_optimizer != ZS_DEVICE_NONE)
    optimizer = 0;
  double all = tensor + other + optimizer;

  return all > 0 ? tensor / all : 0;
}
