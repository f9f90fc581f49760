/* mask.c: positions and masks at the beginning of a forward (transformers 5.17, masking_utils.py).
 * SPDX-License-Identifier: MIT
 *
 * Without a mask, sdpa needs none; transformers still looks for packed sequences in the positions (not
 * if there is a cache).  A mask of ones is looked at and left out.
 * All of it is small but for the [batch, 1, sequence, sequence] mask. */
#include "config.h"

#include "sim/model/emit-internal.h"

enum { INTEGER = 8, SCAN_STORAGE = 1279 /* cub's, for one row; torch 2.11 */ };

static ZsTensor
small (ZsEmitter *e, int64_t bytes)
{
  ZsTensor tensor = zs_temporary (e, bytes);

  zs_run (e, e->k.tiny);
  return tensor;
}

/* Position ids: arange, then + offset. */
static ZsTensor
positions (ZsEmitter *e)
{
  ZsTensor range = small (e, e->sequence * INTEGER);
  ZsTensor shifted = small (e, e->sequence * INTEGER);

  zs_drop (e, range);
  return shifted;
}

/* find_packed_sequence_indices: differences of the positions, their running sum, and a question that
 * the host waits for.  The sum is the number of the sample of each token; it is returned if there are
 * several. */
static ZsTensor
look_for_packing (ZsEmitter *e)
{
  int64_t tokens = e->tokens;
  ZsTensor first = small (e, e->batch * INTEGER);
  ZsTensor joined = small (e, e->batch * (e->sequence + 1) * INTEGER);
  ZsTensor difference = small (e, tokens * INTEGER);
  zs_drop (e, joined);
  ZsTensor breaks = small (e, tokens);
  ZsTensor sum = small (e, tokens * INTEGER);
  ZsTensor wide = small (e, tokens * INTEGER);
  if (e->batch == 1)
    zs_drop (e, small (e, SCAN_STORAGE));
  zs_drop (e, wide);
  zs_drop (e, breaks);
  ZsTensor last = small (e, e->batch);
  ZsTensor all = small (e, 1);
  zs_plan_copy (e->plan, ZS_COPY_GPU_TO_HOST, 1, ZS_FLAG_BLOCKING | ZS_FLAG_DATA_WAIT);
  zs_drop (e, last);
  zs_drop (e, all);
  zs_drop (e, first);
  zs_drop (e, difference);
  if (e->shape.packed)
    return sum;
  zs_drop (e, sum);
  return ZS_NO_TENSOR;
}

/* mask.all (): may the mask be left out? */
static void
ask_mask (ZsEmitter *e)
{
  ZsTensor a = small (e, INTEGER), b = small (e, e->tokens * INTEGER);

  zs_drop (e, b);
  ZsTensor c = small (e, 1);
  zs_plan_copy (e->plan, ZS_COPY_GPU_TO_HOST, 1, ZS_FLAG_BLOCKING | ZS_FLAG_DATA_WAIT);
  zs_drop (e, a);
  zs_drop (e, c);
}

/* *RESULT and a new condition of BYTES, which is made here, become one. */
static void
narrow (ZsEmitter *e, ZsTensor *result, ZsTensor condition, int64_t bytes)
{
  ZsTensor both = zs_new (e, bytes, ZS_CATEGORY_INPUT);

  zs_run (e, e->k.tiny);
  zs_drop (e, condition);
  zs_drop (e, *result);
  *result = both;
}

/* One value per token of what TOKENS hold, by an index that is computed. */
static ZsTensor
pick (ZsEmitter *e, int64_t bytes)
{
  ZsTensor index = small (e, e->tokens * INTEGER), picked = small (e, bytes);

  zs_drop (e, index);
  return picked;
}

/* Which token may look at which. */
static ZsTensor
boolean_mask (ZsEmitter *e, bool padded)
{
  int64_t square = e->sequence * e->sequence;
  ZsTensor batch = small (e, e->batch * INTEGER), head = small (e, INTEGER);
  ZsTensor rows = positions (e), columns = positions (e), result;

  if (!padded && !e->shape.packed && !zs_windowed (e)) {
    result = small (e, square);
  } else {
    result = small (e, 1);
    if (zs_windowed (e)) {
      ZsTensor edge = small (e, e->sequence * INTEGER), inside = small (e, square);

      zs_drop (e, edge);
      narrow (e, &result, inside, square);
    }
    narrow (e, &result, small (e, square), square);   /* causal */
    if (e->shape.packed) {
      ZsTensor of_row = pick (e, e->tokens * INTEGER), of_column = pick (e, e->tokens * INTEGER);
      ZsTensor same = small (e, e->batch * square);

      zs_drop (e, of_row);
      zs_drop (e, of_column);
      narrow (e, &result, same, e->batch * square);
    }
    if (padded) {
      ZsTensor index = small (e, e->tokens * INTEGER), other = small (e, e->tokens * INTEGER);
      ZsTensor picked = small (e, e->tokens);

      zs_drop (e, other);
      zs_drop (e, index);
      narrow (e, &result, picked, e->batch * square);
    }
  }
  zs_drop (e, batch);
  zs_drop (e, head);
  zs_drop (e, rows);
  zs_drop (e, columns);
  return result;
}

/* Sets e->position_ids and e->mask. */
void
zs_mask_forward (ZsEmitter *e)
{
  bool eager = e->shape.attention == ZS_ATTENTION_EAGER, ones = e->shape.mask_of_ones && !eager;
  bool padded = e->shape.attention_mask || (e->shape.mask_of_ones && eager);
  ZsTensor given = ZS_NO_TENSOR, samples = ZS_NO_TENSOR;

  zs_plan_set_label (e->plan, e->label_mask);
  e->position_ids = positions (e);
  if (padded || ones)
    given = small (e, e->tokens);
  else if (!zs_caches (e) && zs_behaves (&e->shape.versions, ZS_BEHAVIOUR_LOOKS_FOR_PACKING))
    samples = look_for_packing (e);
  if (padded && !eager) {
    ask_mask (e);
    ask_mask (e);
  }
  if (ones)
    ask_mask (e);
  if (zs_masks (e))
    e->mask = boolean_mask (e, padded);
  if (eager) {   /* additive, in the model's dtype */
    ZsTensor zero = small (e, e->stream), lowest = small (e, e->stream);
    ZsTensor mask = zs_new (e, e->tokens * e->sequence * e->stream, ZS_CATEGORY_INPUT);

    zs_run (e, e->k.tiny);
    zs_drop (e, lowest);
    zs_drop (e, zero);
    zs_drop (e, e->mask);
    e->mask = mask;
  }
  zs_drop (e, samples);
  zs_drop (e, given);
}
