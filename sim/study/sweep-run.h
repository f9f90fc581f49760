/* sweep-run.h: runs the configurations of a sweep that a store does not have yet.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/study/store.h"

typedef struct {
  int  jobs;                 /* threads; 0: all cores */
  int64_t shard, n_shards;   /* configurations whose number is SHARD (from 0) modulo N_SHARDS; 0, 1: all */
  const int *stop;           /* may be NULL; not zero: stop as soon as possible */
  /* In the calling thread; ALL counts those of the shard, DONE includes what the store had. */
  void (*progress) (void *self, int done, int all);
  void  *self;
} ZsSweepOptions;

/* True if the shard is complete.  False and no ERROR: it was stopped; the store has what was done. */
bool zs_sweep_run (const ZsSweep *sweep, ZsStore *store, const ZsSweepOptions *options, GError **error);
