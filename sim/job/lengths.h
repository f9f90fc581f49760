/* lengths.h: how long each micro-batch is, where not all are alike.
 * SPDX-License-Identifier: MIT
 *
 * Samples have lengths of their own; a collator pads each micro-batch to its longest sample.  Lengths are
 * given as a list of micro-batches, or drawn: a sample's is lognormal, as lengths of texts are about, from
 * (seed, number of the micro-batch, number of the sample), in whole numbers alone: the same on every
 * machine.  All ranks have micro-batches of the same lengths, or as a distributed sampler deals them.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
  const int64_t *list;      /* of micro-batches, one after another and then again; borrowed; NULL: drawn */
  int       n_list;
  int64_t   mean, deviation;   /* of samples, in tokens; mean 0: no lengths are drawn */
  uint64_t  seed;
  bool      by_rank;        /* each rank has samples of its own; else all have the same lengths */
  bool      drop;           /* samples beyond the longest are left out; else they are cut */
  int64_t   multiple;       /* micro-batches are padded to a multiple of it; 0: to the longest sample */
} ZsLengths;

/* One micro-batch. */
typedef struct {
  int64_t sequence;         /* of each sample, with padding */
  int64_t tokens;           /* of all samples, without */
  bool    padded;           /* some sample is shorter than the others */
} ZsMicroBatch;

/* Is anything said about lengths? */
static inline bool
zs_lengths_given (const ZsLengths *lengths)
{
  return lengths->n_list > 0 || lengths->mean > 0;
}

/* Micro-batch NUMBER (from 0) of BATCH samples, none longer than LONGEST before padding. */
void zs_lengths_draw (const ZsLengths *lengths, int64_t longest, int64_t batch, int64_t number,
                      ZsMicroBatch *ret_micro_batch);
