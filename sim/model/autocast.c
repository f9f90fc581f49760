/* autocast.c: torch.autocast's copies of weights.  SPDX-License-Identifier: MIT
 *
 * A 16-bit copy of each fp32 weight is made at its first use and cached until the context ends; autograd
 * holds it too if the product's input needs a gradient.  A recomputation has a context of its own.
 * Source: ATen/autocast_mode.cpp.  (The cache is a hash of addresses, so that the order in which
 * PyTorch drops the copies is arbitrary.) */
#include "config.h"

#include "sim/model/emit-internal.h"

/* One reference for the caller, one for the cache. */
ZsTensor
zs_cast_weight (ZsEmitter *e, int64_t bytes, ZsForwardKernel kernel)
{
  ZsTensor copy = zs_new (e, bytes, ZS_CATEGORY_PARAMETERS);

  zs_run (e, kernel);
  zs_plan_ref (e->plan, copy);
  g_array_append_val (e->casts, copy);
  return copy;
}

void
zs_end_autocast (ZsEmitter *e)
{
  for (guint i = 0; i < e->casts->len; i++)
    zs_drop (e, g_array_index (e->casts, ZsTensor, i));
  g_array_set_size (e->casts, 0);
}
