/* stage12-reduce.c: buckets of gradients and their reduction.
 * SPDX-License-Identifier: MIT
 *
 * deepspeed/runtime/zero/stage_1_and_2.py: reduce_independent_p_g_buckets_and_remove_grads (),
 * reduce_ipg_grads (), average_tensor () and what they call. */
#include "config.h"

#include "sim/zero/stage12.h"
#include "sim/zero/torch-ops.h"

/* A run of the bucket that belongs to one rank. */
typedef struct {
  int64_t rank;
  int64_t elements;
} Slice;

void
zs_stage12_setup_buckets (ZsStage12 *self, ZsPlan *plan)
{
  if (!self->config.contiguous_gradients || self->buckets[0] != ZS_NO_TENSOR)
    return;
  int64_t bytes = self->bucket_bytes * self->config.reduce_bucket_size;

  self->buckets[0] = zs_plan_alloc (plan, bytes, ZS_CATEGORY_BUCKETS);
  if (self->config.overlap_comm)
    self->buckets[1] = zs_plan_alloc (plan, bytes, ZS_CATEGORY_BUCKETS);
  self->bucket_index = 0;
}

void
zs_stage12_release_buckets (ZsStage12 *self, ZsPlan *plan)
{
  for (int i = 2; i-- > 0;) {
    zs_plan_unref (plan, self->buckets[i]);
    self->buckets[i] = ZS_NO_TENSOR;
  }
}

void
zs_stage12_clear_previous (ZsStage12 *self, ZsPlan *plan)
{
  for (int32_t i = 0; i < self->n_previous; i++)
    zs_plan_unref (plan, self->previous[i]);
  self->n_previous = 0;
}

void
zs_stage12_add_to_bucket (ZsStage12 *self, ZsPlan *plan, int32_t parameter, ZsTensor gradient)
{
  int64_t elements = zs_stage12_elements (self, parameter);

  if (self->bucket_elements + elements > self->config.reduce_bucket_size) {
    zs_stage12_flush (self, plan);
    if (self->config.contiguous_gradients && self->config.overlap_comm)
      self->bucket_index = 1 - self->bucket_index;
  }
  if (self->config.contiguous_gradients) {
    if (elements > self->config.reduce_bucket_size)
      self->large = parameter;
    else {
      zs_torch_copy (plan, ZS_WORK_COMMUNICATION, elements, self->bytes, self->bucket_bytes,
                     "gradient into bucket");
      zs_plan_unref (plan, gradient);
      gradient = ZS_NO_TENSOR;
    }
  }
  self->bucket_elements += elements;
  self->entries[self->n_entries++] = (ZsBucketEntry) { parameter, gradient };
}

/* allreduce_bucket () and the copy back of what this rank keeps.  DESTINATION -1: all ranks. */
static void
reduce_slices (ZsStage12 *self, ZsPlan *plan, const Slice *slices, int32_t n, int64_t destination,
               bool divide, bool keep_all)
{
  int64_t elements = 0;
  int from = self->bucket_bytes, to = self->communication_bytes;
  ZsTensor joined = ZS_NO_TENSOR, converted = ZS_NO_TENSOR;

  for (int32_t i = 0; i < n; i++)
    elements += slices[i].elements;
  if (n > 1) {
    joined = zs_plan_alloc (plan, from * elements, ZS_CATEGORY_BUCKETS);
    zs_torch_copy (plan, ZS_WORK_COMMUNICATION, elements, from, from, "join slices");
  }
  if (to != from) {
    converted = zs_plan_alloc (plan, to * elements, ZS_CATEGORY_BUCKETS);
    zs_torch_copy (plan, ZS_WORK_COMMUNICATION, elements, from, to, "convert bucket");
  }
  if (divide)
    zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, elements, to,
                     2 * to * elements, "divide bucket");
  zs_torch_collective (plan, destination < 0 ? ZS_COLLECTIVE_ALL_REDUCE : ZS_COLLECTIVE_REDUCE,
                       ZS_COMMUNICATOR_CLONE, to * elements);
  if (converted != ZS_NO_TENSOR) {
    if (destination < 0 || destination == self->rank)
      zs_torch_copy (plan, ZS_WORK_COMMUNICATION, elements, to, from, "convert bucket");
    zs_plan_unref (plan, converted);
  }
  if (n > 1)
    for (int32_t i = 0; i < n; i++)
      if (keep_all ? destination < 0 || destination == self->rank : slices[i].rank == self->rank)
        zs_torch_copy (plan, ZS_WORK_COMMUNICATION, slices[i].elements, from, from, "slice back");
  zs_plan_unref (plan, joined);
}

/* The runs of the open bucket by owner, neighbours of one owner merged. */
static GArray *
slices_of_bucket (const ZsStage12 *self)
{
  GArray *slices = g_array_new (FALSE, FALSE, sizeof (Slice));

  for (int32_t i = 0; i < self->n_entries; i++) {
    int32_t parameter = self->entries[i].parameter;
    const ZsFlatGroup *group = &self->groups[self->wrapped.group_of[parameter]];
    int32_t index = self->index_of[parameter];
    int64_t done = 0, elements = zs_stage12_elements (self, parameter);

    while (done < elements) {
      int64_t at = group->parameters[index].offset + done;
      int64_t rank = at / group->partition_elements;
      int64_t length = MIN (elements - done, (rank + 1) * group->partition_elements - at);
      Slice *last = slices->len > 0 ? &g_array_index (slices, Slice, slices->len - 1) : NULL;

      if (last != NULL && last->rank == rank)
        last->elements += length;
      else {
        Slice slice = { rank, length };

        g_array_append_val (slices, slice);
      }
      done += length;
    }
  }
  return slices;
}

/* The slices (all, or those of DESTINATION) in lists that close once they exceed the bucket's size. */
static void
reduce_list (ZsStage12 *self, ZsPlan *plan, const GArray *slices, int64_t destination)
{
  g_autofree Slice *list = g_new (Slice, slices->len);
  int32_t n = 0;
  int64_t elements = 0;

  for (guint i = 0; i < slices->len; i++) {
    Slice slice = g_array_index (slices, Slice, i);

    if (destination >= 0 && slice.rank != destination)
      continue;
    list[n++] = slice;
    elements += slice.elements;
    if (elements > self->config.reduce_bucket_size) {
      reduce_slices (self, plan, list, n, destination, false, destination >= 0);
      n = 0;
      elements = 0;
    }
  }
  if (n > 0)
    reduce_slices (self, plan, list, n, destination, false, destination >= 0);
}

/* allreduce_and_copy () with overlap_comm drains the GPU before each call. */
static void
drain_before_reduce (ZsStage12 *self, ZsPlan *plan)
{
  if (self->config.overlap_comm) {
    zs_plan_host_wait_device (plan);
    zs_stage12_clear_previous (self, plan);
  }
}

static void
reduce_per_owner (ZsStage12 *self, ZsPlan *plan, const GArray *slices)
{
  for (guint i = 0; i < slices->len; i++) {
    int64_t rank = g_array_index (slices, Slice, i).rank;
    bool seen = false;

    for (guint j = 0; j < i && !seen; j++)
      seen = g_array_index (slices, Slice, j).rank == rank;
    if (!seen) {
      drain_before_reduce (self, plan);
      reduce_list (self, plan, slices, rank);
    }
  }
}

/* average_tensor (): the bucket's buffer, or the storage of its one large gradient. */
static void
average (ZsStage12 *self, ZsPlan *plan)
{
  int64_t elements = self->bucket_elements;
  int bytes = self->bucket_bytes;

  if (elements == 0)
    return;
  if (!self->config.reduce_scatter) {
    Slice whole = { 0, elements };

    reduce_slices (self, plan, &whole, 1, -1, false, true);
    zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, elements, bytes,
                     2 * bytes * elements, "divide bucket");
    return;
  }
  g_autoptr (GArray) slices = slices_of_bucket (self);

  zs_torch_launch (plan, ZS_KERNEL_ELEMENTWISE, ZS_WORK_COMMUNICATION, elements, bytes,
                   2 * bytes * elements, "divide bucket");
  if (self->config.use_multi_rank_bucket_allreduce)
    reduce_list (self, plan, slices, -1);
  else
    reduce_per_owner (self, plan, slices);
}

/* buffered_reduce_fallback (): without contiguous_gradients the gradients are joined and copied back. */
static void
reduce_apart (ZsStage12 *self, ZsPlan *plan)
{
  g_autofree Slice *list = g_new (Slice, MAX (self->n_entries, 1));

  if (self->n_entries == 0)
    return;
  for (int32_t i = 0; i < self->n_entries; i++)
    list[i] = (Slice) { 0, zs_stage12_elements (self, self->entries[i].parameter) };
  drain_before_reduce (self, plan);
  uint8_t before = zs_plan_set_stream (plan, self->reduction_stream);

  reduce_slices (self, plan, list, self->n_entries, -1, true, true);
  zs_plan_set_stream (plan, before);
}

/* copy_grads_in_partition (). */
static void
keep_own (ZsStage12 *self, ZsPlan *plan, int32_t parameter)
{
  if (self->offload) {
    zs_offload12_gradient (self, plan, parameter);
    return;
  }
  if (self->own_gradients == ZS_NO_TENSOR)
    self->own_gradients = zs_plan_alloc (plan, self->bytes * self->own_elements,
                                         ZS_CATEGORY_GRADIENTS);
  zs_torch_copy (plan, ZS_WORK_COMMUNICATION, zs_stage12_elements (self, parameter),
                 self->bucket_bytes, self->bytes, "own gradient");
}

static void
after_reduction (ZsStage12 *self, ZsPlan *plan, ZsBucketEntry *entry)
{
  int32_t parameter = entry->parameter;
  bool own = zs_stage12_owns (self, parameter);

  if (own && self->config.contiguous_gradients)
    keep_own (self, plan, parameter);
  else if (own || !self->partition_gradients) {
    /* stays in param.grad; in a bucket it goes with the bucket; of an accumulator only a copy was
     * reduced */
    if (self->gradients[parameter] == ZS_NO_TENSOR) {
      self->gradients[parameter] = entry->gradient;
      entry->gradient = ZS_NO_TENSOR;
    }
  } else if (self->config.overlap_comm && !self->config.contiguous_gradients) {
    self->previous[self->n_previous++] = entry->gradient;
    entry->gradient = ZS_NO_TENSOR;
  }
}

void
zs_stage12_flush (ZsStage12 *self, ZsPlan *plan)
{
  uint32_t label = zs_plan_set_label (plan, zs_plan_label (plan, -1, "reduce gradients"));
  uint8_t compute = plan->stream;
  bool overlap = self->config.overlap_comm;

  zs_plan_host (plan, ZS_HOST_BUCKET_FLUSH, 1);
  if (self->config.contiguous_gradients) {
    if (overlap) {
      zs_plan_stream_wait_stream (plan, self->reduction_stream, compute);
      if (zs_behaves (&self->config.versions, ZS_BEHAVIOUR_COMPUTE_WAITS_PREVIOUS_REDUCTION))
        zs_plan_stream_wait_stream (plan, compute, self->reduction_stream);
    }
    zs_plan_set_stream (plan, self->reduction_stream);
    average (self, plan);
  } else
    reduce_apart (self, plan);
  zs_plan_set_stream (plan, self->reduction_stream);
  for (int32_t i = 0; i < self->n_entries; i++)
    after_reduction (self, plan, &self->entries[i]);
  for (int32_t i = 0; i < self->n_entries; i++)
    zs_plan_unref (plan, self->entries[i].gradient);
  zs_plan_set_stream (plan, compute);
  self->n_entries = 0;
  self->bucket_elements = 0;
  self->large = -1;
  zs_plan_set_label (plan, label);
}
