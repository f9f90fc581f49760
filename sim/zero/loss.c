/* loss.c: the scalars around loss, norm and clipping.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/zero/loss.h"

/* The scalars of 0.19.5 are those of the backward that was rewritten in 0.18.3. */
static bool
reworked (const ZsVersions *versions)
{
  return zs_behaves (versions, ZS_BEHAVIOUR_BUCKETS_IN_FIRST_GRADIENT_HOOK);
}

bool
zs_loss_scales_outputs (const ZsVersions *versions)
{
  return reworked (versions);
}

void
zs_loss_init (ZsLoss *loss)
{
  *loss = (ZsLoss) { ZS_NO_TENSOR, ZS_NO_TENSOR, ZS_NO_TENSOR, ZS_NO_TENSOR };
}

static void
drop (ZsPlan *plan, ZsTensor *tensor)
{
  zs_plan_unref (plan, *tensor);
  *tensor = ZS_NO_TENSOR;
}

void
zs_loss_before_buckets (ZsLoss *loss, ZsPlan *plan, const ZsVersions *versions, int accumulation)
{
  if (accumulation > 1 || reworked (versions))
    loss->scaled = zs_torch_scalar (plan, 4, ZS_NO_TENSOR);
  if (reworked (versions))
    return;
  ZsTensor mean = zs_torch_scalar (plan, 4, ZS_NO_TENSOR);

  if (loss->sum == ZS_NO_TENSOR)
    loss->sum = mean;
  else {
    loss->mean = mean;
    loss->sum = zs_torch_scalar (plan, 4, loss->sum);
  }
}

int
zs_loss_factors (const ZsVersions *versions, int accumulation)
{
  return reworked (versions) || accumulation > 1 ? 2 : 1;
}

void
zs_loss_before_backward (ZsLoss *loss, ZsPlan *plan)
{
  loss->loss_scaled = zs_torch_scalar (plan, 4, ZS_NO_TENSOR);
}

void
zs_loss_after_backward (ZsLoss *loss, ZsPlan *plan, const ZsVersions *versions)
{
  if (!reworked (versions))
    drop (plan, &loss->loss_scaled);
}

void
zs_loss_end_backward (ZsLoss *loss, ZsPlan *plan)
{
  drop (plan, &loss->loss_scaled);
  drop (plan, &loss->mean);
  drop (plan, &loss->scaled);
}

void
zs_loss_after_step (ZsLoss *loss, ZsPlan *plan)
{
  drop (plan, &loss->sum);
}

ZsTensor
zs_zero_total_norm (ZsPlan *plan, const ZsVersions *versions, ZsTensor *norms, int32_t n,
                    unsigned int communicator)
{
  ZsTensor total;

  if (n > 0) {
    total = zs_torch_scalar (plan, 8 * (int64_t) n, ZS_NO_TENSOR);   /* stack */
    total = zs_torch_scalar (plan, 8 * (int64_t) n, total);          /* square */
    total = zs_torch_scalar (plan, 8, total);                        /* sum */
    total = zs_torch_scalar (plan, 4, total);                        /* float */
  } else
    total = zs_torch_scalar_from_host (plan, 4);
  zs_torch_collective (plan, ZS_COLLECTIVE_ALL_REDUCE, communicator, 4);
  total = zs_torch_scalar (plan, 4, total);   /* pow */
  ZsTensor absolute = zs_torch_scalar (plan, 4, ZS_NO_TENSOR);
  ZsTensor infinite = zs_torch_scalar (plan, 1, absolute);
  ZsTensor nan = zs_torch_scalar (plan, 1, ZS_NO_TENSOR);
  ZsTensor either = zs_torch_scalar (plan, 1, ZS_NO_TENSOR);
  ZsTensor error = zs_torch_scalar_from_host (plan, 4);

  if (reworked (versions))
    zs_torch_launch (plan, ZS_KERNEL_TINY, ZS_WORK_OPTIMIZER, 1, 4, 8, "scalar");   /* masked_fill_ */
  else {
    ZsTensor a = zs_torch_scalar (plan, 4, ZS_NO_TENSOR);
    ZsTensor inverse = zs_torch_scalar (plan, 1, ZS_NO_TENSOR);
    ZsTensor b = zs_torch_scalar (plan, 4, inverse);
    ZsTensor sum = zs_torch_scalar (plan, 4, a);

    zs_plan_unref (plan, b);
    zs_plan_unref (plan, total);
    total = sum;
  }
  if (reworked (versions)) {
    zs_plan_unref (plan, infinite);
    zs_plan_unref (plan, nan);
    zs_plan_unref (plan, either);
    zs_plan_unref (plan, error);
  }
  for (int32_t i = n; i-- > 0;)
    zs_plan_unref (plan, norms[i]);
  if (!reworked (versions)) {
    zs_plan_unref (plan, infinite);
    zs_plan_unref (plan, nan);
    zs_plan_unref (plan, either);
    zs_plan_unref (plan, error);
  }
  return total;
}

void
zs_zero_unscale_and_clip (ZsPlan *plan, double clip, int64_t elements, int element_bytes)
{
  ZsTensor limit = ZS_NO_TENSOR, scale = ZS_NO_TENSOR, factor = ZS_NO_TENSOR;

  if (clip > 0) {
    limit = zs_torch_scalar (plan, 4, ZS_NO_TENSOR);   /* norm / loss scale */
    limit = zs_torch_scalar (plan, 4, limit);          /* + 1e-6 */
    limit = zs_torch_scalar (plan, 4, limit);          /* / clip */
    limit = zs_torch_scalar (plan, 4, limit);          /* clamp */
    scale = zs_torch_scalar (plan, 4, ZS_NO_TENSOR);   /* x loss scale */
    factor = zs_torch_scalar (plan, 4, ZS_NO_TENSOR);  /* reciprocal */
    factor = zs_torch_scalar (plan, 4, factor);
  }
  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_OPTIMIZER, elements, element_bytes,
                   2 * elements * element_bytes, "unscale gradients");
  zs_plan_unref (plan, factor);
  zs_plan_unref (plan, scale);
  zs_plan_unref (plan, limit);
}
