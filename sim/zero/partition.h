/* partition.h: the flat buffer of one optimizer group of ZeRO-1/2, and which rank owns which part.
 * SPDX-License-Identifier: MIT
 *
 * deepspeed/runtime/zero/stage_1_and_2.py: the trainable parameters of a group lie end to end in one
 * flat buffer, padded at its end to a multiple of 2 x ranks (nccl_start_alignment_factor: 4 bytes of
 * 16-bit data), and rank r owns elements [r P, (r + 1) P).  A parameter may straddle partitions.
 */
#pragma once

#include "sim/model/model.h"

#define ZS_FLAT_ALIGNMENT 2   /* nccl_start_alignment_factor, in elements */

typedef struct {
  int32_t parameter;       /* index in the model */
  int64_t elements;
  int64_t offset;          /* in the flat buffer */
} ZsFlatParameter;

typedef struct {
  ZsFlatParameter *parameters;   /* in flat order */
  int32_t *order;                /* in the order of the optimizer's group: indices of parameters */
  int32_t  n_parameters;
  int64_t  elements, padded_elements, partition_elements;
  int64_t  world;
} ZsFlatGroup;

/* Group of PARAMETER among N_GROUPS (1 or 2): Hugging Face's own optimizer puts norms and biases,
 * which do not decay, into a second. */
int zs_flat_group_of (const ZsParameter *parameter, int n_groups);

/* The first N of INDICES (model parameters) as a group over WORLD ranks. */
void zs_flat_group_init  (ZsFlatGroup *group, const ZsModel *model, const int32_t *indices,
                          int32_t n, int64_t world, bool round_robin);
void zs_flat_group_clear (ZsFlatGroup *group);

/* The parameters that touch RANK's partition: ret_first, ret_n of them in flat order (n may be 0). */
void zs_flat_group_own   (const ZsFlatGroup *group, int64_t rank, int32_t *ret_first,
                          int32_t *ret_n);
/* Elements of parameter INDEX (flat order) that lie in RANK's partition; ret_start (may be NULL): the
 * first, counted from the parameter's own start. */
int64_t zs_flat_group_slice (const ZsFlatGroup *group, int32_t index, int64_t rank,
                             int64_t *ret_start);
/* Sum of the elements, untrimmed, of the parameters that touch RANK's partition. */
int64_t zs_flat_group_own_elements (const ZsFlatGroup *group, int64_t rank);
