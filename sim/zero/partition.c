/* partition.c: flat buffers of ZeRO-1/2.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/zero/partition.h"

int
zs_flat_group_of (const ZsParameter *parameter, int n_groups)
{
  return n_groups > 1 && (parameter->is_bias || parameter->columns <= 1) ? 1 : 0;
}

void
zs_flat_group_init (ZsFlatGroup *group, const ZsModel *model, const int32_t *indices, int32_t n,
                    int64_t world, bool round_robin)
{
  int64_t stride = round_robin ? world : 1, offset = 0;
  int64_t alignment = ZS_FLAT_ALIGNMENT * world;
  int32_t at = 0;

  g_assert (world > 0);
  *group = (ZsFlatGroup) { .n_parameters = n, .world = world };
  group->parameters = g_new (ZsFlatParameter, n);
  group->order = g_new (int32_t, n);
  /* _round_robin_reorder (): 0, W, 2 W ... first, then 1, W + 1 ... */
  for (int64_t start = 0; start < MIN (stride, n); start++)
    for (int64_t i = start; i < n; i += stride) {
      int64_t elements = model->parameters[indices[i]].elements;

      group->parameters[at] = (ZsFlatParameter) { indices[i], elements, offset };
      group->order[i] = at++;
      offset += elements;
    }
  g_assert (at == n);
  group->elements = offset;
  group->padded_elements = (offset + alignment - 1) / alignment * alignment;
  group->partition_elements = group->padded_elements / world;
}

void
zs_flat_group_clear (ZsFlatGroup *group)
{
  g_free (group->parameters);
  g_free (group->order);
  *group = (ZsFlatGroup) { 0 };
}

int64_t
zs_flat_group_slice (const ZsFlatGroup *group, int32_t index, int64_t rank, int64_t *ret_start)
{
  const ZsFlatParameter *parameter = &group->parameters[index];
  int64_t begin = rank * group->partition_elements, end = begin + group->partition_elements;
  int64_t from = MAX (begin, parameter->offset);
  int64_t to = MIN (end, parameter->offset + parameter->elements);

  if (ret_start != NULL)
    *ret_start = MAX (from - parameter->offset, 0);
  return MAX (to - from, 0);
}

void
zs_flat_group_own (const ZsFlatGroup *group, int64_t rank, int32_t *ret_first, int32_t *ret_n)
{
  int32_t first = 0, end;

  while (first < group->n_parameters && zs_flat_group_slice (group, first, rank, NULL) == 0)
    first++;
  for (end = first; end < group->n_parameters; end++)
    if (zs_flat_group_slice (group, end, rank, NULL) == 0)
      break;
  *ret_first = first;
  *ret_n = end - first;
}

int64_t
zs_flat_group_own_elements (const ZsFlatGroup *group, int64_t rank)
{
  int64_t sum = 0;
  int32_t first, n;

  zs_flat_group_own (group, rank, &first, &n);
  for (int32_t i = first; i < first + n; i++)
    sum += group->parameters[i].elements;
  return sum;
}
