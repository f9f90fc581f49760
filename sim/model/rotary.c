/* rotary.c: rotary position embeddings.  SPDX-License-Identifier: MIT
 *
 *   x * cos + rotate_half (x) * sin, with rotate_half (x) = cat (-x[d/2:], x[:d/2])
 *
 * The products hold cos and sin, once for q and once for k in each layer.  Backward: each slice of
 * rotate_half gives a zero-filled full tensor, which are added in place. */
#include "config.h"

#include "sim/model/emit-internal.h"

/* The tables of one forward: positions in fp32, their product with the frequencies, cos and sin. */
void
zs_rotary_tables (ZsEmitter *e)
{
  int64_t d = e->model->shape.head_dim, s = e->sequence, wide = s * d * 4;
  ZsTensor frequencies = ZS_NO_TENSOR;
  int module = e->rotary;

  zs_plan_set_label (e->plan, e->label_rotary);
  zs_enter (e, module);
  if (e->shape.cast_model && e->upcast) {
    frequencies = zs_temporary (e, d / 2 * 4);
    zs_run (e, e->k.tiny);
  }
  ZsTensor positions = zs_temporary (e, s * 4);
  zs_run (e, e->k.tiny);
  ZsTensor angles = zs_temporary (e, s * d / 2 * 4);
  zs_touch_cublas (e);
  zs_run (e, e->k.table_product);
  ZsTensor both = zs_temporary (e, wide);
  zs_run (e, e->k.table);
  ZsTensor raw = zs_temporary (e, wide);
  zs_run (e, e->k.table);
  ZsTensor cos = zs_new (e, wide, ZS_CATEGORY_INPUT);
  zs_run (e, e->k.table);
  zs_drop (e, raw);
  raw = zs_temporary (e, wide);
  zs_run (e, e->k.table);
  ZsTensor sin = zs_new (e, wide, ZS_CATEGORY_INPUT);
  zs_run (e, e->k.table);
  zs_drop (e, raw);
  if (e->upcast) {
    e->cos = zs_new (e, e->table_bytes, ZS_CATEGORY_INPUT);
    zs_run (e, e->k.table);
    e->sin = zs_new (e, e->table_bytes, ZS_CATEGORY_INPUT);
    zs_run (e, e->k.table);
  } else {
    e->cos = zs_plan_ref (e->plan, cos);
    e->sin = zs_plan_ref (e->plan, sin);
  }
  zs_drop (e, frequencies);
  zs_drop (e, positions);
  zs_drop (e, angles);
  zs_drop (e, both);
  zs_drop (e, cos);
  zs_drop (e, sin);
  zs_leave (e, module);
}

/* WHICH: 0 q, 1 k.  Borrows X. */
ZsTensor
zs_rotary_forward (ZsEmitter *e, ZsLayer *layer, int which, ZsTensor x, bool grad)
{
  int64_t bytes = which == 0 ? e->q_bytes : e->kv_bytes;
  int64_t wide = which == 0 ? e->q_turned : e->kv_turned;
  ZsForwardKernel mul = which == 0 ? e->k.rotary_mul_q : e->k.rotary_mul_k;

  (void) x;
  ZsTensor direct = zs_temporary (e, wide);
  zs_run (e, mul);
  layer->cos[which] = zs_save (e, e->cos, grad);
  ZsTensor half = zs_temporary (e, bytes / 2);
  zs_run (e, which == 0 ? e->k.rotary_half_q : e->k.rotary_half_k);
  ZsTensor rotated = zs_temporary (e, bytes);
  zs_run (e, which == 0 ? e->k.rotary_cat_q : e->k.rotary_cat_k);
  zs_drop (e, half);
  ZsTensor crossed = zs_temporary (e, wide);
  zs_run (e, mul);
  layer->sin[which] = zs_save (e, e->sin, grad);
  zs_drop (e, rotated);
  ZsTensor result = zs_activation (e, wide);
  zs_run (e, which == 0 ? e->k.rotary_add_q : e->k.rotary_add_k);
  zs_drop (e, direct);
  zs_drop (e, crossed);
  return result;
}

/* The gradient times cos or sin, in the dtype of what went in. */
static ZsTensor
turn_back (ZsEmitter *e, int which, uint32_t mul)
{
  ZsTensor wide = zs_temporary (e, which == 0 ? e->q_turned : e->kv_turned);

  zs_run_back (e, mul);
  if (!e->weight_cast)
    return wide;
  ZsTensor narrow = zs_temporary (e, which == 0 ? e->q_bytes : e->kv_bytes);
  zs_run_back (e, which == 0 ? e->k.rotary_cast_q : e->k.rotary_cast_k);
  zs_drop (e, wide);
  return narrow;
}

/* Takes GRADIENT. */
ZsTensor
zs_rotary_backward (ZsEmitter *e, ZsLayer *layer, int which, ZsTensor gradient)
{
  int64_t bytes = which == 0 ? e->q_bytes : e->kv_bytes;
  uint32_t mul = which == 0 ? e->k.back_mul_q : e->k.back_mul_k;
  uint32_t fill = which == 0 ? e->k.rotary_fill_q : e->k.rotary_fill_k;
  uint32_t copy = which == 0 ? e->k.rotary_copy_q : e->k.rotary_copy_k;
  uint32_t add = which == 0 ? e->k.back_add_q : e->k.back_add_k;
  uint32_t join = which == 0 ? e->k.back_join_q : e->k.back_join_k;   /* of two layouts */

  ZsTensor crossed = turn_back (e, which, mul);
  zs_release (e, &layer->sin[which]);
  ZsTensor half = zs_temporary (e, bytes / 2);
  zs_run_back (e, which == 0 ? e->k.back_half_q : e->k.back_half_k);
  ZsTensor result = zs_temporary (e, bytes);
  zs_run_back (e, fill);
  zs_run_back (e, copy);
  zs_drop (e, half);
  ZsTensor other = zs_temporary (e, bytes);
  zs_run_back (e, fill);
  zs_run_back (e, copy);
  zs_drop (e, crossed);
  zs_run_back (e, add);
  zs_drop (e, other);
  ZsTensor direct = turn_back (e, which, mul);
  zs_drop (e, gradient);
  zs_release (e, &layer->cos[which]);
  zs_run_back (e, join);
  zs_drop (e, direct);
  return result;
}
