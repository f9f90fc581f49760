/* micro-batch.c: the micro-batches of a job.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/job/job.h"

int64_t
zs_training_samplers (const ZsTraining *training)
{
  return training->lengths.by_rank ? training->world : 1;
}

void
zs_training_micro_batch (const ZsTraining *training, int64_t rank, int step, int micro_step,
                         ZsMicroBatch *ret_micro_batch)
{
  const ZsStepShape *shape = &training->step;
  const ZsLengths *lengths = &training->lengths;
  int64_t number = (int64_t) (step - 1) * MAX (training->gradient_accumulation, 1) + micro_step;

  if (lengths->by_rank)      /* dealt out one after another */
    number = number * training->world + rank;

  if (!zs_lengths_given (lengths)) {
    *ret_micro_batch = (ZsMicroBatch) { .sequence = shape->sequence,
                                        .tokens = shape->sequence * shape->micro_batch,
                                        .padded = shape->attention_mask };
    return;
  }
  zs_lengths_draw (lengths, shape->sequence, shape->micro_batch, number, ret_micro_batch);
  /* of a list's samples nothing is known but the mask that they are said to have */
  if (lengths->n_list > 0 || !shape->attention_mask)
    ret_micro_batch->padded = shape->attention_mask;
}

int64_t
zs_training_tokens (const ZsTraining *training, int first, int last, bool padding)
{
  int n = MAX (training->gradient_accumulation, 1);
  int64_t tokens = 0, n_samplers = zs_training_samplers (training);

  if (!zs_lengths_given (&training->lengths))
    return training->step.micro_batch * n * training->step.sequence * (last - first + 1);
  for (int64_t rank = 0; rank < n_samplers; rank++)
    for (int step = first; step <= last; step++)
      for (int micro_step = 0; micro_step < n; micro_step++) {
        ZsMicroBatch micro_batch;

        zs_training_micro_batch (training, rank, step, micro_step, &micro_batch);
        tokens += padding ? micro_batch.sequence * training->step.micro_batch : micro_batch.tokens;
      }
  return tokens / n_samplers;
}
