/* tensor-share.c: how busy a step keeps the tensor cores.  SPDX-License-Identifier: MIT
 *
 * From plans of one and two layers on one GPU: the rest of the layers are like the second.  What a
 * framework adds (gathers, copies) is small beside it and left out. */
#include "config.h"

#include "sim/hardware/kernel-time.h"
#include "sim/job/job.h"

/* Seconds: of kernels, and what the tensor cores' operations in them take at the full clock's rate. */
typedef struct { double busy, kernels, optimizer; } Times;

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

      if (kernel->kind == ZS_KERNEL_FILL && optimizer)
        continue;   /* states that the first step makes */
      if (optimizer)
        times.optimizer += seconds;
      else {
        times.busy += zs_kernel_busy_seconds (gpu, kernel);
        times.kernels += seconds;
      }
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
  double busy = one.busy + more * (two.busy - one.busy);
  double kernels = one.kernels + more * (two.kernels - one.kernels);
  double optimizer = one.optimizer + more * (two.optimizer - one.optimizer);
  bool sharded = training->framework == ZS_FRAMEWORK_FSDP1 || training->framework == ZS_FRAMEWORK_FSDP2
                 || (training->framework == ZS_FRAMEWORK_DEEPSPEED && training->zero.stage > 0);

  optimizer /= (double) MAX (training->gradient_accumulation, 1) * (double) (sharded ? training->world : 1);
  if (training->zero.offload_optimizer != ZS_DEVICE_NONE)
    optimizer = 0;
  double all = kernels + optimizer;

  return all > 0 ? busy / all : 0;
}
