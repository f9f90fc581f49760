/* loss.c: lm_head and the causal language model loss of transformers.  SPDX-License-Identifier: MIT
 *
 * Logits go to fp32; labels are padded by one and shifted; cross_entropy holds only the log-softmax.
 * Sizes are 10 bytes per token and vocabulary entry in forward, 12 at the turn to backward. */
#include "config.h"

#include "sim/model/emit-internal.h"

enum { INTEGER = 8, FP32 = 4 };

void
zs_loss_forward (ZsEmitter *e, ZsTensor hidden)
{
  zs_plan_set_label (e->plan, e->label_head);
  ZsTensor logits = zs_linear_forward (e, &e->linears[ZS_HEAD], &e->head, hidden, e->final_grad,
                                       &e->head_saved, false);
  zs_plan_set_label (e->plan, e->label_loss);
  ZsTensor wide;
  if (e->wide_loss) {
    wide = zs_new (e, e->logits32, ZS_CATEGORY_LOGITS);
    zs_run (e, e->k.logits_up);
  } else {
    wide = zs_plan_ref (e->plan, logits);
  }
  ZsTensor labels = zs_temporary (e, e->batch * (e->sequence + 1) * INTEGER);
  zs_run (e, e->k.pad);
  ZsTensor padded = ZS_NO_TENSOR;
  if (e->batch > 1) {   /* the shifted view of several sequences is not contiguous */
    padded = labels;
    labels = zs_temporary (e, e->tokens * INTEGER);
    zs_run (e, e->k.pad);
  }
  e->log_softmax = zs_new (e, e->logits32, ZS_CATEGORY_LOGITS);
  zs_run (e, e->k.log_softmax);
  e->loss = zs_temporary (e, FP32);
  e->total_weight = zs_temporary (e, FP32);
  zs_run (e, e->k.nll);
  e->labels = labels;
  zs_drop (e, wide);
  zs_drop (e, padded);
  e->outputs = logits;
}

/* The gradient of the head's input. */
ZsGradient
zs_loss_backward (ZsEmitter *e)
{
  ZsGradient to_hidden = { ZS_NO_TENSOR, false };

  zs_plan_set_label (e->plan, e->label_loss);
  ZsTensor to_log = zs_new (e, e->logits32, ZS_CATEGORY_LOGITS);
  zs_run_back (e, e->k.fill_logits);
  zs_run_back (e, e->k.nll_back);
  zs_release (e, &e->labels);
  zs_release (e, &e->total_weight);
  ZsTensor gradient = zs_new (e, e->logits32, ZS_CATEGORY_LOGITS);
  zs_run_back (e, e->k.log_softmax_back);
  zs_drop (e, to_log);
  zs_release (e, &e->log_softmax);
  if (e->wide_loss) {
    ZsTensor narrow = zs_new (e, e->logits, ZS_CATEGORY_LOGITS);

    zs_run_back (e, e->k.logits_down);
    zs_drop (e, gradient);
    gradient = narrow;
  }
  if (e->hooks->scales_output_gradients) {
    ZsTensor scaled = zs_new (e, e->logits, ZS_CATEGORY_LOGITS);

    zs_run_back (e, e->k.scale_logits);
    zs_drop (e, gradient);
    gradient = scaled;
  }
  zs_plan_set_label (e->plan, e->label_head);
  zs_linear_backward (e, &e->linears[ZS_HEAD], &e->head, gradient, true, e->final_grad, &e->head_saved,
                      &to_hidden);
  return to_hidden;
}
