/* checkpoint.c: activation checkpointing of a decoder layer.  SPDX-License-Identifier: MIT
 *
 * Reentrant: forward in no_grad mode; backward runs the whole layer again with autograd and calls
 * backward on its output, whose gradient the outer node holds meanwhile.
 * Not reentrant: forward with hooks that hold no tensor; the first saved tensor that backward asks
 * for starts the recomputation, which stops at the last saved one; a node takes its saved tensors out
 * of the frame, so they go before the node's own gradient.  The frame (the layer's input, the rotary
 * tables) goes with the last of them.  A reentrant node drops its tensors after its backward but keeps
 * its function, whose keyword arguments (tables, mask, positions) live as long as the graph: until the
 * caller forgets the loss.  Sources: torch/utils/checkpoint.py, recorded histories. */
#include "config.h"

#include "sim/model/emit-internal.h"

ZsTensor
zs_checkpoint_forward (ZsEmitter *e, ZsLayer *layer, ZsTensor x)
{
  bool keep = e->keep, no_grad = e->no_grad;

  layer->input = zs_plan_ref (e->plan, x);
  if (!e->shape.reentrant) {
    layer->frame_cos = zs_plan_ref (e->plan, e->cos);
    layer->frame_sin = zs_plan_ref (e->plan, e->sin);
    layer->frame_mask = zs_plan_ref (e->plan, e->mask);
    layer->frame_positions = zs_plan_ref (e->plan, e->position_ids);
  } else if (e->graph_cos == ZS_NO_TENSOR && e->graph_mask == ZS_NO_TENSOR
             && e->graph_positions == ZS_NO_TENSOR) {   /* the first layer: all hold the same */
    e->graph_cos = zs_plan_ref (e->plan, e->cos);
    e->graph_sin = zs_plan_ref (e->plan, e->sin);
    e->graph_mask = zs_plan_ref (e->plan, e->mask);
    e->graph_positions = zs_plan_ref (e->plan, e->position_ids);
  }
  e->keep = false;
  e->no_grad = e->shape.reentrant;
  e->n_saved = 0;
  ZsTensor result = zs_layer_forward (e, layer, x, false);
  zs_plan_host (e->plan, ZS_HOST_CHECKPOINT, 1);
  if (!e->shape.reentrant)
    zs_plan_host (e->plan, ZS_HOST_SAVED_TENSOR, e->n_saved);
  e->keep = keep;
  e->no_grad = no_grad;
  return result;
}

/* The whole or, if STOP, most of LAYER again, with autograd. */
static ZsTensor
recompute (ZsEmitter *e, ZsLayer *layer, bool stop)
{
  e->keep = true;
  e->recompute = true;
  e->popped = false;
  e->cos = stop ? layer->frame_cos : e->graph_cos;
  e->sin = stop ? layer->frame_sin : e->graph_sin;
  e->mask = stop ? layer->frame_mask : e->graph_mask;
  e->n_saved = 0;
  ZsTensor result = zs_layer_forward (e, layer, layer->input, stop);
  /* each saved tensor passes a hook when it is packed again and one when backward asks for it */
  zs_plan_host (e->plan, ZS_HOST_CHECKPOINT, 2);
  if (stop)
    zs_plan_host (e->plan, ZS_HOST_SAVED_TENSOR, 2 * e->n_saved);
  zs_end_autocast (e);
  e->cos = e->sin = e->mask = ZS_NO_TENSOR;
  e->recompute = false;
  return result;
}

static ZsGradient
reentrant_backward (ZsEmitter *e, ZsLayer *layer, ZsGradient gradient)
{
  ZsTensor output = recompute (e, layer, false);
  ZsTensor root = gradient.tensor;

  /* the root gradient is shared with the outer node, so that the first addition makes a new tensor */
  ZsGradient inner = { zs_plan_ref (e->plan, root), false };
  inner = zs_layer_backward (e, layer, inner);
  zs_drop (e, output);
  zs_drop (e, root);
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
  recompute (e, layer, true);
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
