/* liger-loss.c: Liger's fused linear cross entropy.  SPDX-License-Identifier: MIT
 *
 * The head's weight is read and its module not called.  Forward goes through the tokens in chunks: logits,
 * which one kernel turns into their gradient; their product with the weight, a part of the input's gradient;
 * the product with the input, added to the weight's.  Both gradients wait for backward, which multiplies them
 * by the loss's own if that is not 1.  The logits of a chunk live until those of the next have been made.
 * A frozen head has no gradient.  Before transformers 4.46 Liger's forward of the model shifts the hidden states
 * instead of padding the labels; where its own loss changed to that is taken to be where transformers' did.
 * Source: liger_kernel/ops/fused_linear_cross_entropy.py, transformers/model/llama.py. */
#include "config.h"

#include "sim/model/emit-internal.h"

enum { INTEGER = 8, FP32 = 4, FLAG = 1 };

void
zs_liger_count_labels (ZsEmitter *e, int64_t rows, ZsTensor *ret_mask)
{
  *ret_mask = zs_temporary (e, rows * FLAG);
  zs_run (e, e->k.pad);
  ZsTensor sum = zs_temporary (e, INTEGER);
  zs_run (e, e->k.tiny);
  zs_plan_copy (e->plan, ZS_COPY_GPU_TO_HOST, INTEGER, ZS_FLAG_BLOCKING | ZS_FLAG_DATA_WAIT);
  zs_drop (e, sum);
}

void
zs_liger_scale (ZsEmitter *e, uint32_t kernel, uint32_t other)
{
  ZsTensor one = zs_temporary (e, FP32);

  zs_plan_copy (e->plan, ZS_COPY_HOST_TO_GPU, FP32, ZS_FLAG_BLOCKING);
  zs_run_back (e, e->k.back_tiny);
  zs_plan_copy (e->plan, ZS_COPY_GPU_TO_HOST, FLAG, ZS_FLAG_BLOCKING | ZS_FLAG_DATA_WAIT);
  zs_drop (e, one);
  if (!e->shape.new_inputs && e->hooks->loss_factors == 0)   /* nobody divides the loss */
    return;
  zs_run_back (e, kernel);
  zs_run_back (e, other);
}

/* The head's weight for a product under autocast: a copy that is cached if the weight trains. */
static ZsTensor
narrow_weight (ZsEmitter *e, ZsTensor *cached)
{
  if (e->linears[ZS_HEAD].trainable) {
    if (*cached == ZS_NO_TENSOR)
      *cached = zs_cast_weight (e, e->head_narrow, e->k.head_cast);
    return zs_plan_ref (e->plan, *cached);
  }
  ZsTensor copy = zs_temporary (e, e->head_narrow);

  zs_run (e, e->k.head_cast);
  return copy;
}

static ZsTensor
narrow_input (ZsEmitter *e, const ZsLossChunk *chunk)
{
  ZsTensor copy = zs_temporary (e, chunk->narrow_hidden);

  zs_run (e, chunk->cast);
  return copy;
}

/* Sets *LOGITS to this chunk's; those before go when these are there. */
static void
chunk_forward (ZsEmitter *e, const ZsLossChunk *chunk, ZsTensor *cached, ZsTensor *logits)
{
  ZsTensor input = ZS_NO_TENSOR, weight = ZS_NO_TENSOR;

  if (e->weight_cast) {
    input = narrow_input (e, chunk);
    weight = zs_temporary (e, e->head_narrow);   /* of a view: never cached */
    zs_run (e, e->k.head_cast);
  }
  ZsTensor next = zs_new (e, chunk->logits, ZS_CATEGORY_LOGITS);
  zs_touch_cublas (e);
  zs_run (e, chunk->product);
  zs_drop (e, weight);
  zs_drop (e, input);
  zs_run (e, chunk->loss);
  zs_drop (e, *logits);
  *logits = next;

  weight = e->weight_cast ? narrow_weight (e, cached) : ZS_NO_TENSOR;
  ZsTensor part = zs_temporary (e, chunk->narrow_hidden);
  zs_run (e, chunk->to_hidden);
  zs_drop (e, weight);
  zs_run (e, chunk->copy);
  zs_drop (e, part);
  if (e->head_gradient == ZS_NO_TENSOR)
    return;
  input = e->weight_cast ? narrow_input (e, chunk) : ZS_NO_TENSOR;
  part = zs_temporary (e, e->head_narrow);
  zs_run (e, chunk->to_weight);
  zs_drop (e, input);
  zs_run (e, e->k.weight_add);
  zs_drop (e, part);
}

void
zs_liger_loss_forward (ZsEmitter *e)
{
  int64_t n = e->loss_rows * e->model->shape.hidden * e->stream;
  ZsTensor padded, mask, shifted = ZS_NO_TENSOR, cached = ZS_NO_TENSOR, logits = ZS_NO_TENSOR;

  zs_plan_set_label (e->plan, e->label_loss);
  if (!zs_loss_pads_labels (e) && e->batch > 1) {   /* hidden[..., :-1, :].contiguous () */
    shifted = zs_temporary (e, n);
    zs_run (e, e->k.hidden_shift);
  }
  zs_loss_shift_labels (e, &padded);
  e->hidden_gradient = zs_new (e, n, ZS_CATEGORY_LOGITS);
  zs_run (e, e->k.hidden_fill);
  if (e->linears[ZS_HEAD].trainable) {
    e->head_gradient = zs_new (e, e->head_wide, ZS_CATEGORY_GRADIENTS);
    zs_run (e, e->k.weight_fill);
  }
  ZsTensor losses = zs_temporary (e, e->loss_rows * FP32);
  zs_run (e, e->k.tiny);
  zs_liger_count_labels (e, e->loss_rows, &mask);
  for (int64_t done = 0; done < e->loss_rows; done += e->chunk_rows)
    chunk_forward (e, &e->chunks[done > 0 && e->loss_rows - done < e->chunk_rows], &cached, &logits);
  e->loss = zs_temporary (e, FP32);
  zs_run (e, e->k.tiny);
  zs_drop (e, cached);
  zs_drop (e, logits);
  zs_drop (e, mask);
  zs_drop (e, losses);
  zs_release (e, &e->labels);
  zs_drop (e, padded);
  zs_drop (e, shifted);
}

/* The gradient of the head's input.  Takes UNSCALED, the gradient of the loss before its division. */
ZsGradient
zs_liger_loss_backward (ZsEmitter *e, ZsTensor unscaled)
{
  ZsTensor to_hidden = e->hidden_gradient, to_head = e->head_gradient;

  e->hidden_gradient = e->head_gradient = ZS_NO_TENSOR;
  zs_plan_set_label (e->plan, e->label_loss);
  zs_liger_scale (e, e->k.scale_hidden, to_head != ZS_NO_TENSOR ? e->k.scale_weight : ZS_NO_KERNEL);
  zs_drop (e, unscaled);
  if (to_head != ZS_NO_TENSOR && e->head.weight < 0)
    e->tied_gradient = to_head;   /* waits for the embedding's own */
  else if (to_head != ZS_NO_TENSOR)
    zs_give_gradient (e, e->head.weight, to_head);
  if (!zs_loss_pads_labels (e)) {   /* the slice's gradient, filled up with zeros */
    ZsTensor whole = zs_temporary (e, e->hidden);

    zs_run_back (e, e->k.hidden_fill_back);
    zs_run_back (e, e->k.hidden_shift_back);
    zs_drop (e, to_hidden);
    to_hidden = whole;
  }
  return (ZsGradient) { to_hidden, true };
}
