/* micro-step.c: forward and backward of the whole model.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/model/emit-internal.h"

#include "sim/base/digest.h"

enum { INTEGER = 8, FP32 = 4 };

/* A batch is made whole before the one before goes. */
static void
new_inputs (ZsEmitter *e)
{
  ZsTensor mask = ZS_NO_TENSOR;

  zs_plan_set_label (e->plan, e->label_inputs);
  ZsTensor ids = zs_new (e, e->tokens * INTEGER, ZS_CATEGORY_INPUT);
  zs_run (e, e->k.tiny);
  if (e->shape.attention_mask || e->shape.mask_of_ones) {
    mask = zs_new (e, e->tokens * INTEGER, ZS_CATEGORY_INPUT);
    zs_run (e, e->k.tiny);
  }
  zs_drop (e, e->ids);
  e->ids = ids;
  zs_drop (e, e->input_mask);
  e->input_mask = mask;
}

void
zs_emit_inputs (ZsEmitter *e)
{
  if (!e->shape.new_inputs)
    new_inputs (e);
}

static ZsTensor
layers_forward (ZsEmitter *e, ZsTensor x)
{
  for (int64_t i = 0; i < e->model->shape.n_layers; i++) {
    ZsLayer *layer = &e->layers[i];
    ZsTensor next = layer->checkpointed ? zs_checkpoint_forward (e, layer, x)
                                        : zs_layer_forward (e, layer, x, false);

    zs_drop (e, x);
    x = next;
  }
  return x;
}

void
zs_emit_forward (ZsEmitter *e, int step, int micro_step, bool boundary)
{
  ZsTensor old_loss = e->loss, old_outputs = e->outputs;
  ZsTensor old_graph[] = { e->graph_mask, e->graph_sin, e->graph_cos, e->graph_positions, e->graph_inputs,
                           e->graph_input_gradient };
  /* Qwen2Model and Qwen3Model hold the positions in the arguments of their masks */
  bool qwen = e->model->shape.qkv_bias || e->model->shape.qk_norm;

  e->graph_mask = e->graph_sin = e->graph_cos = e->graph_positions = ZS_NO_TENSOR;
  e->graph_inputs = e->graph_input_gradient = ZS_NO_TENSOR;

  e->thread = 0;
  if (e->shape.new_inputs)
    new_inputs (e);
  if (e->hooks->before_forward_pass != NULL)
    e->hooks->before_forward_pass (e->hooks->self, e->plan, step, micro_step, boundary);
  e->keep = true;
  zs_plan_set_label (e->plan, e->label_embedding);
  zs_enter (e, e->top);
  zs_enter (e, e->inner);
  zs_plan_host (e->plan, ZS_HOST_MODEL_BODY, 1);
  zs_enter (e, e->embedding);
  ZsTensor embeddings = zs_activation (e, e->hidden);
  zs_run (e, e->k.embedding);
  zs_leave (e, e->embedding);
  if (e->inputs_require_grad && !e->embedding_trains)   /* a leaf, which the graph holds */
    e->graph_inputs = zs_plan_ref (e->plan, embeddings);
  zs_mask_forward (e);
  if (zs_behaves (&e->shape.versions, ZS_BEHAVIOUR_SHARED_ROTARY_TABLES))
    zs_rotary_tables (e);
  ZsTensor x = layers_forward (e, zs_plan_ref (e->plan, embeddings));
  zs_plan_set_label (e->plan, e->label_final_norm);
  ZsTensor hidden = zs_norm_forward (e, &e->hidden_norm, x, e->final_norm, e->final_grad, &e->final_saved);
  zs_drop (e, x);
  zs_leave (e, e->inner);
  if (qwen)
    zs_drop (e, embeddings);
  zs_release (e, &e->position_ids);
  if (!qwen)
    zs_drop (e, embeddings);
  zs_release (e, &e->mask);
  zs_release (e, &e->cos);
  zs_release (e, &e->sin);
  zs_loss_forward (e, hidden);
  zs_drop (e, hidden);
  zs_end_autocast (e);
  zs_leave (e, e->top);
  if (e->hooks->after_forward_pass != NULL)
    e->hooks->after_forward_pass (e->hooks->self, e->plan);
  if (e->shape.keep_outputs)
    zs_drop (e, old_outputs);
  zs_cache_forget (e, true);
  for (gsize i = 0; i < G_N_ELEMENTS (old_graph); i++)
    zs_drop (e, old_graph[i]);
  zs_drop (e, old_loss);
  if (e->shape.new_inputs && e->hooks->loss_factors == 0) {
    e->scaled_loss = zs_temporary (e, FP32);
    zs_run (e, e->k.tiny);
    if (!e->shape.keep_outputs)
      zs_release (e, &e->loss);
  }
  if (!e->shape.keep_outputs) {
    zs_release (e, &e->outputs);
    zs_cache_forget (e, false);
  }
}

/* The loss's graph goes with the last name of the loss. */
static void
drop_graph (ZsEmitter *e)
{
  zs_release (e, &e->graph_mask);
  zs_release (e, &e->graph_sin);
  zs_release (e, &e->graph_cos);
  zs_release (e, &e->graph_positions);
  zs_release (e, &e->graph_inputs);
  zs_release (e, &e->graph_input_gradient);
}

void
zs_emit_drop_outputs (ZsEmitter *e)
{
  drop_graph (e);
  zs_release (e, &e->loss);
  zs_release (e, &e->outputs);
  zs_cache_forget (e, false);
}

/* Rows that the sorted path of embedding_dense_backward handles in one piece, and the size from which
 * it is taken.  Source: ATen/native/cuda/Embedding.cu, EmbeddingBackwardKernel.cu. */
enum { ROWS_PER_PIECE = 10, SORT_FROM = 3073, SCAN_STORAGE = 1279, SORT_STORAGE = 17919 };

static ZsTensor
embedding_gradient (ZsEmitter *e)
{
  const ZsModelShape *s = &e->model->shape;
  int64_t t = e->tokens, ids = t * INTEGER, bytes = s->vocabulary * s->hidden * e->stream;

  if (t < SORT_FROM) {
    ZsTensor gradient = zs_new (e, bytes, ZS_CATEGORY_GRADIENTS);

    zs_run_back (e, e->k.embedding_fill);
    zs_run_back (e, e->k.embedding_back);
    return gradient;
  }
  ZsTensor sorted = zs_temporary (e, ids), original = zs_temporary (e, ids);
  ZsTensor range = zs_temporary (e, ids);
  ZsTensor storage = zs_temporary (e, 2 * ids + SORT_STORAGE);
  zs_run_back (e, e->k.embedding_sort);
  zs_drop (e, storage);
  zs_drop (e, range);
  ZsTensor gradient = zs_new (e, bytes, ZS_CATEGORY_GRADIENTS);
  zs_run_back (e, e->k.embedding_fill);
  ZsTensor offsets = zs_temporary (e, ids), count = zs_temporary (e, INTEGER);
  ZsTensor unique = zs_temporary (e, ids);
  storage = zs_temporary (e, SCAN_STORAGE);
  zs_run_back (e, e->k.embedding_sort);
  zs_drop (e, storage);
  zs_drop (e, unique);
  int64_t segments = MIN (t, s->vocabulary), pieces = t / ROWS_PER_PIECE + segments;
  ZsTensor partials = zs_temporary (e, segments * INTEGER);
  ZsTensor partial_offsets = zs_temporary (e, segments * INTEGER);
  storage = zs_temporary (e, SCAN_STORAGE);
  zs_run_back (e, e->k.embedding_sort);
  zs_drop (e, storage);
  ZsTensor piece_count = zs_temporary (e, INTEGER), piece_offsets = zs_temporary (e, pieces * INTEGER);
  ZsTensor sums = zs_temporary (e, pieces * ((s->hidden + 31) / 32 * 32) * FP32);
  zs_run_back (e, e->k.embedding_back);
  zs_drop (e, sums);
  zs_drop (e, piece_offsets);
  zs_drop (e, piece_count);
  zs_drop (e, partial_offsets);
  zs_drop (e, partials);
  zs_drop (e, count);
  zs_drop (e, offsets);
  zs_drop (e, original);
  zs_drop (e, sorted);
  return gradient;
}

static void
embedding_backward (ZsEmitter *e, ZsTensor gradient)
{
  int32_t parameter = e->model->modules[e->embedding].first_parameter;

  zs_plan_set_label (e->plan, e->label_embedding);
  zs_enter_back (e, e->embedding);
  ZsTensor result = embedding_gradient (e);
  zs_drop (e, gradient);
  if (e->tied_gradient != ZS_NO_TENSOR) {
    /* the head's gradient waits at the same accumulator; seen through a transposition, so that the sum
     * is a new tensor, but for DeepSpeed's linear */
    ZsGradient sum = { e->tied_gradient, e->hooks->linear_saves_no_weight || e->weight_cast
                                           || zs_liger (e, ZS_LIGER_FUSED_LOSS) };

    e->tied_gradient = ZS_NO_TENSOR;
    uint8_t stream = zs_plan_set_stream (e->plan, e->hooks->weight_stream);
    sum = zs_accumulate (e, sum, (ZsGradient) { result, true },
                         e->model->parameters[parameter].elements * e->stream, e->k.embedding_add);
    zs_plan_set_stream (e->plan, stream);
    result = sum.tensor;
  }
  zs_give_gradient (e, parameter, result);
}

/* Back through the multiplications of the loss. */
static ZsTensor
unscale (ZsEmitter *e)
{
  int factors = e->scaled_loss != ZS_NO_TENSOR ? 1 : e->hooks->loss_factors;
  ZsTensor gradient = ZS_NO_TENSOR;

  for (int i = 0; i < factors; i++) {
    ZsTensor next = zs_temporary (e, FP32);

    zs_run_back (e, e->k.back_tiny);
    zs_drop (e, gradient);
    gradient = next;
  }
  return gradient;
}

void
zs_emit_backward (ZsEmitter *e)
{
  if (e->hooks->before_backward_pass != NULL)
    e->hooks->before_backward_pass (e->hooks->self, e->plan);
  e->thread = 1;
  zs_plan_set_label (e->plan, e->label_root);
  zs_plan_host (e->plan, ZS_HOST_BACKWARD_START, 1);
  ZsTensor root = zs_temporary (e, FP32);
  zs_run_back (e, e->k.back_tiny);
  ZsTensor unscaled = unscale (e);
  zs_enter_back (e, e->top);
  ZsGradient gradient = zs_loss_backward (e, unscaled);
  if (gradient.tensor != ZS_NO_TENSOR) {
    zs_plan_set_label (e->plan, e->label_final_norm);
    zs_enter_back (e, e->inner);
    ZsGradient to_x = { ZS_NO_TENSOR, false };
    zs_norm_backward (e, &e->hidden_norm, gradient, e->final_norm, e->final_grad, &e->final_saved, NULL,
                      &to_x);
    gradient = to_x;
    for (int64_t i = e->model->shape.n_layers - 1; i >= 0 && gradient.tensor != ZS_NO_TENSOR; i--) {
      ZsLayer *layer = &e->layers[i];

      gradient = layer->checkpointed ? zs_checkpoint_backward (e, layer, gradient)
                                     : zs_layer_backward (e, layer, gradient);
    }
    if (gradient.tensor != ZS_NO_TENSOR) {
      if (e->embedding_trains)
        embedding_backward (e, gradient.tensor);
      else {
        zs_enter_back (e, e->embedding);   /* its output takes gradients, its weight does not */
        e->graph_input_gradient = gradient.tensor;
      }
    }
  }
  zs_plan_set_label (e->plan, e->label_root);
  if (!e->hooks->ends_inside_backward)
    zs_release (e, &root);
  e->thread = 0;
  if (e->hooks->after_backward_pass != NULL)
    e->hooks->after_backward_pass (e->hooks->self, e->plan);
  zs_drop (e, root);
  if (!e->shape.new_inputs)
    return;
  zs_plan_set_label (e->plan, e->label_root);
  if (!e->shape.keep_outputs) {
    drop_graph (e);
    zs_release (e, &e->loss);
  }
  zs_release (e, &e->scaled_loss);
}

uint64_t
zs_emitter_digest (const ZsEmitter *e)
{
  uint64_t digest = zs_digest_items (1, e, 1);

  digest = zs_digest_bytes (digest, e->casts->data, e->casts->len * sizeof (ZsTensor));
  return zs_digest_items (digest, e->layers, e->model->shape.n_layers);
}
