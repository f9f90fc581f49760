/* loss.c: lm_head and the causal language model loss of transformers.  SPDX-License-Identifier: MIT
 *
 * Logits go to fp32; labels are padded by one and shifted; cross_entropy holds only the log-softmax.
 * Sizes are 10 bytes per token and vocabulary entry in forward, 12 at the turn to backward.  Older
 * releases cast in the model (8 bytes, but the outputs are fp32) and shift the logits instead, with a
 * copy if there are several sequences (4 more) and a zero-filled gradient.  Liger's cross entropy writes the
 * logits' gradient over its input in forward. */
#include "config.h"

#include "sim/model/emit-internal.h"

enum { INTEGER = 8, FP32 = 4 };

bool
zs_loss_pads_labels (const ZsEmitter *e)
{
  return zs_behaves (&e->shape.versions, ZS_BEHAVIOUR_LOSS_PADS_LABELS);
}

/* Of the log-softmax and its gradients: the last position has no label when logits are shifted. */
static int64_t
loss_bytes (const ZsEmitter *e)
{
  return zs_loss_pads_labels (e) ? e->logits32
                         : e->batch * (e->sequence - 1) * e->model->shape.vocabulary * FP32;
}

/* Sets e->labels; *RET_PADDED is dropped at the end of the loss. */
void
zs_loss_shift_labels (ZsEmitter *e, ZsTensor *ret_padded)
{
  *ret_padded = ZS_NO_TENSOR;
  if (!zs_loss_pads_labels (e)) {   /* a view of one sequence is contiguous */
    e->labels = zs_temporary (e, e->batch > 1 ? e->batch * (e->sequence - 1) * INTEGER : 0);
    return;
  }
  e->labels = zs_temporary (e, e->batch * (e->sequence + 1) * INTEGER);
  zs_run (e, e->k.pad);
  if (e->batch > 1) {
    *ret_padded = e->labels;
    e->labels = zs_temporary (e, e->tokens * INTEGER);
    zs_run (e, e->k.pad);
  }
}

void
zs_loss_forward (ZsEmitter *e, ZsTensor hidden)
{
  bool in_model = !zs_behaves (&e->shape.versions, ZS_BEHAVIOUR_LOSS_CASTS_LOGITS);
  ZsTensor wide, padded, shifted = ZS_NO_TENSOR;

  if (zs_liger (e, ZS_LIGER_FUSED_LOSS)) {
    zs_liger_loss_forward (e);
    return;
  }
  zs_plan_set_label (e->plan, e->label_head);
  ZsTensor logits = zs_linear_forward (e, &e->linears[ZS_HEAD], &e->head, hidden, e->final_grad,
                                       &e->head_saved, false);
  zs_plan_set_label (e->plan, e->label_loss);
  if (e->wide_loss) {
    wide = zs_new (e, e->logits32, ZS_CATEGORY_LOGITS);
    zs_run (e, e->k.logits_up);
  } else {
    wide = zs_plan_ref (e->plan, logits);
  }
  if (in_model) {   /* the outputs are the fp32 ones */
    zs_drop (e, logits);
    logits = zs_plan_ref (e->plan, wide);
  }
  if (!zs_loss_pads_labels (e) && e->batch > 1) {   /* logits[..., :-1, :].contiguous () */
    shifted = zs_new (e, loss_bytes (e), ZS_CATEGORY_LOGITS);
    zs_run (e, e->k.shift);
  }
  zs_loss_shift_labels (e, &padded);
  if (zs_liger (e, ZS_LIGER_CROSS_ENTROPY)) {   /* logits become their gradient */
    int64_t rows = zs_loss_pads_labels (e) ? e->tokens : e->batch * (e->sequence - 1);
    ZsTensor losses = zs_temporary (e, rows * FP32), mask;

    zs_run (e, e->k.tiny);
    zs_liger_count_labels (e, rows, &mask);
    zs_run (e, e->k.cross_entropy);
    e->log_softmax = zs_plan_ref (e->plan, shifted != ZS_NO_TENSOR ? shifted : wide);
    e->loss = zs_temporary (e, FP32);
    zs_run (e, e->k.tiny);
    zs_drop (e, mask);
    zs_drop (e, losses);
    zs_release (e, &e->labels);
  } else {
    e->log_softmax = zs_new (e, loss_bytes (e), ZS_CATEGORY_LOGITS);
    zs_run (e, e->k.log_softmax);
    e->loss = zs_temporary (e, FP32);
    e->total_weight = zs_temporary (e, FP32);
    zs_run (e, e->k.nll);
  }
  zs_drop (e, wide);
  zs_drop (e, shifted);
  zs_drop (e, padded);
  e->outputs = logits;
}

/* That of the log-softmax's input.  Takes UNSCALED. */
static ZsTensor
to_logits (ZsEmitter *e, ZsTensor unscaled)
{
  if (zs_liger (e, ZS_LIGER_CROSS_ENTROPY)) {
    ZsTensor gradient = e->log_softmax;

    e->log_softmax = ZS_NO_TENSOR;
    zs_liger_scale (e, e->k.scale_wide_logits, ZS_NO_KERNEL);
    zs_drop (e, unscaled);
    return gradient;
  }
  ZsTensor to_log = zs_new (e, loss_bytes (e), ZS_CATEGORY_LOGITS);
  zs_run_back (e, e->k.fill_logits);
  zs_run_back (e, e->k.nll_back);
  zs_drop (e, unscaled);
  zs_release (e, &e->labels);
  zs_release (e, &e->total_weight);
  ZsTensor gradient = zs_new (e, loss_bytes (e), ZS_CATEGORY_LOGITS);
  zs_run_back (e, e->k.log_softmax_back);
  zs_drop (e, to_log);
  zs_release (e, &e->log_softmax);
  return gradient;
}

/* The gradient of the head's input.  Takes UNSCALED, the gradient of the loss before its division. */
ZsGradient
zs_loss_backward (ZsEmitter *e, ZsTensor unscaled)
{
  ZsGradient to_hidden = { ZS_NO_TENSOR, false };

  if (zs_liger (e, ZS_LIGER_FUSED_LOSS))
    return zs_liger_loss_backward (e, unscaled);
  zs_plan_set_label (e->plan, e->label_loss);
  ZsTensor gradient = to_logits (e, unscaled);
  if (!zs_loss_pads_labels (e)) {   /* the slice's gradient, filled up with zeros */
    ZsTensor whole = zs_new (e, e->logits32, ZS_CATEGORY_LOGITS);

    zs_run_back (e, e->k.fill_logits);
    zs_run_back (e, e->k.shift_back);
    zs_drop (e, gradient);
    gradient = whole;
  }
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
