/* checkpoint.c: activation checkpointing of a decoder layer.  SPDX-License-Identifier: MIT
 *
 * Reentrant: forward in no_grad mode; backward runs the whole layer again with autograd and calls
 * backward on its output, whose gradient the outer node holds meanwhile.
 * Not reentrant: forward with hooks that hold no tensor; the first saved tensor that backward asks
 * for starts the recomputation, which stops at the last saved one; a node takes its saved tensors out
 * of the frame, so they go before the node's own gradient.  The frame (the layer's input, the rotary
 * tables) goes with the last of them.  Sources: torch/utils/checkpoint.py, recorded histories. */
#include "config.h"

#include "sim/model/emit-internal.h"

ZsTensor
zs_checkpoint_forward (ZsEmitter *e, ZsLayer *layer, ZsTensor x)
{
  bool keep = e->keep, no_grad = e->no_grad;

  layer->input = zs_plan_ref (e->plan, x);
  layer->frame_cos = zs_plan_ref (e->plan, e->cos);
  layer->frame_sin = zs_plan_ref (e->plan, e->sin);
  layer->frame_mask = zs_plan_ref (e->plan, e->mask);
  e->keep = false;
  e->no_grad = e->shape.reentrant;
  ZsTensor result = zs_layer_forward (e, layer, x, false);
  e->keep = keep;
  e->no_grad = no_grad;
  return result;
}

static ZsGradient
reentrant_backward (ZsEmitter *e, ZsLayer *layer, ZsGradient gradient)
{
  e->keep = true;
  e->recompute = true;
  ZsTensor output = zs_layer_forward (e, layer, layer->input, false);
  ZsTensor root = gradient.tensor;

  e->recompute = false;
  /* the root gradient is shared with the outer node, so that the first addition makes a new tensor */
  ZsGradient inner = { zs_plan_ref (e->plan, root), false };
  inner = zs_layer_backward (e, layer, inner);
  zs_drop (e, output);
  zs_drop (e, root);
  zs_release (e, &layer->frame_cos);
  zs_release (e, &layer->frame_sin);
  zs_release (e, &layer->frame_mask);
  zs_release (e, &layer->input);
  inner.own = true;
  return inner;
}

/* The first saved tensor of e->pending is asked for. */
void
zs_recompute_now (ZsEmitter *e)
{
  ZsLayer *layer = e->pending;
  uint32_t label = e->plan->label;

  e->pending = NULL;
  e->recompute = true;
  e->popped = false;
  e->keep = true;
  zs_layer_forward (e, layer, layer->input, true);
  e->recompute = false;
  e->popped = true;
  zs_plan_set_label (e->plan, label);
}

ZsGradient
zs_checkpoint_backward (ZsEmitter *e, ZsLayer *layer, ZsGradient gradient)
{
  zs_label_layer (e, layer, ZS_WHAT_CHECKPOINT);
  if (e->shape.reentrant)
    return reentrant_backward (e, layer, gradient);
  e->pending = layer;
  gradient = zs_layer_backward (e, layer, gradient);
  e->popped = false;
  return gradient;
}
