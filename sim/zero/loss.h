/* loss.h: the scalars that DeepSpeedEngine.backward () makes around the loss, the global norm and
 * the scale of the gradients.
 * SPDX-License-Identifier: MIT
 *
 * Numbers of four bytes: nothing to the memory, but the allocator rounds each to 512 bytes, and a
 * recorded history has them.  Seen in 0.14.4 and 0.19.5; the releases between are taken to follow
 * the rework of backward in 0.18.3.
 */
#pragma once

#include "sim/model/shape.h"
#include "sim/zero/torch-ops.h"

typedef struct {
  ZsTensor scaled;        /* loss / gradient_accumulation_steps */
  ZsTensor mean;          /* loss.mean (), before it is added */
  ZsTensor sum;           /* self.losses, kept to the step (up to 0.18.2) */
  ZsTensor loss_scaled;   /* loss x loss scale */
} ZsLoss;

/* Does backward () scale through hooks on every output of the model?  Seen in ZeRO-2 under 0.19.5: a
 * copy of the logits' gradient, without which the reserved bytes of 14 measured runs are off by 5 to
 * 17 %.  Not in stage 3. */
bool zs_loss_scales_outputs (const ZsVersions *versions);

void zs_loss_init (ZsLoss *loss);
/* What precedes the buckets of ZeRO-1/2, and what follows them. */
void zs_loss_before_buckets (ZsLoss *loss, ZsPlan *plan, const ZsVersions *versions,
                             int accumulation);
void zs_loss_before_backward (ZsLoss *loss, ZsPlan *plan);
/* How many multiplications backward goes through (ZsHooks, loss_factors). */
int  zs_loss_factors (const ZsVersions *versions, int accumulation);
/* The autograd engine has returned; backward () has returned. */
void zs_loss_after_backward (ZsLoss *loss, ZsPlan *plan, const ZsVersions *versions);
void zs_loss_end_backward (ZsLoss *loss, ZsPlan *plan);
void zs_loss_after_step (ZsLoss *loss, ZsPlan *plan);

/* total_norm of a list of N norms of 8 bytes (consumed): stack, square, sum, float; summed over the
 * ranks; root; -1 if inf or nan (get_grad_norm_direct ()).  Returns 4 bytes. */
ZsTensor zs_zero_total_norm (ZsPlan *plan, const ZsVersions *versions, ZsTensor *norms, int32_t n,
                             unsigned int communicator);
/* unscale_and_clip_grads () of one flat gradient on the GPU of ELEMENTS x ELEMENT_BYTES. */
void zs_zero_unscale_and_clip (ZsPlan *plan, double clip, int64_t elements, int element_bytes);
