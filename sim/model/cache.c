/* cache.c: the cache of keys and values that a forward fills when `use_cache` is on.
 * SPDX-License-Identifier: MIT
 *
 * DynamicLayer.update () joins the layer's k and v to an empty tensor, which copies them; attention saves
 * the copies.  The cache is a part of the outputs and goes with them.  Source: transformers 5.17,
 * cache_utils.py; recorded histories. */
#include "config.h"

#include "sim/model/emit-internal.h"

static void
join (ZsEmitter *e, ZsTensor *tensor, int64_t bytes, ZsForwardKernel kernel, ZsTensor *cached,
      ZsTensor *old)
{
  *old = *cached;
  *tensor = zs_activation (e, bytes);
  zs_run (e, kernel);
  *cached = zs_plan_ref (e->plan, *tensor);
}

/* Takes *K and *V and gives the cache's. */
void
zs_cache_update (ZsEmitter *e, ZsLayer *layer, ZsTensor *k, ZsTensor *v)
{
  ZsTensor old_k = *k, old_v = *v;

  if (!zs_caches (e))
    return;
  join (e, k, e->kv_turned, e->k.cache_k, &layer->cached[0], &layer->old_cached[0]);
  join (e, v, e->kv_bytes, e->k.cache_v, &layer->cached[1], &layer->old_cached[1]);
  zs_drop (e, old_k);
  zs_drop (e, old_v);
}

/* OLD: that of the outputs before. */
void
zs_cache_forget (ZsEmitter *e, bool old)
{
  for (int64_t i = 0; i < e->model->shape.n_layers && zs_caches (e); i++)
    for (int j = 0; j < 2; j++)
      zs_release (e, old ? &e->layers[i].old_cached[j] : &e->layers[i].cached[j]);
}
