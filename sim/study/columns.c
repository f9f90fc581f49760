/* columns.c: what a study keeps of a result.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/columns.h"

#include <string.h>

typedef enum { ALWAYS, IF_OK, IF_OOM } When;

typedef enum { TYPE_INT64, TYPE_INT, TYPE_DOUBLE, TYPE_PHASE } Type;

typedef struct {
  const char *name;
  Type        type;
  When        when;
  size_t      offset;        /* in the result */
} Column;

#define AT(member) offsetof (ZsResult, member)
#define WAIT(w)    (offsetof (ZsResult, wait_ps) + (w) * sizeof (ZsTime))

/* The names are those of the result as JSON. */
static const Column COLUMNS[] = {
  { "step_time_ps", TYPE_INT64, IF_OK, AT (step_time_ps) },
  { "tokens_per_second_per_gpu", TYPE_DOUBLE, IF_OK, AT (tokens_per_second_per_gpu) },
  { "samples_per_second", TYPE_DOUBLE, IF_OK, AT (samples_per_second) },
  { "tflops_per_gpu", TYPE_DOUBLE, IF_OK, AT (tflops_per_gpu) },
  { "mfu", TYPE_DOUBLE, IF_OK, AT (mfu) },
  { "peak_allocated_bytes", TYPE_INT64, ALWAYS, AT (peak_allocated_bytes) },
  { "peak_reserved_bytes", TYPE_INT64, ALWAYS, AT (peak_reserved_bytes) },
  { "peak_device_bytes", TYPE_INT64, ALWAYS, AT (peak_device_bytes) },
  { "gpu_memory_bytes", TYPE_INT64, ALWAYS, AT (gpu_memory_bytes) },
  { "host_pinned_peak_bytes", TYPE_INT64, ALWAYS, AT (host_pinned_peak_bytes) },
  { "host_pageable_peak_bytes", TYPE_INT64, ALWAYS, AT (host_pageable_peak_bytes) },
  { "nvme_bytes", TYPE_INT64, ALWAYS, AT (nvme_bytes) },
  { "alloc_retries", TYPE_INT64, ALWAYS, AT (alloc_retries) },
  { "compute_ps", TYPE_INT64, IF_OK, WAIT (ZS_WAIT_COMPUTE) },
  { "exposed_communication_ps", TYPE_INT64, IF_OK, WAIT (ZS_WAIT_COMMUNICATION) },
  { "exposed_offload_ps", TYPE_INT64, IF_OK, WAIT (ZS_WAIT_OFFLOAD) },
  { "optimizer_ps", TYPE_INT64, IF_OK, WAIT (ZS_WAIT_OPTIMIZER) },
  { "host_bound_ps", TYPE_INT64, IF_OK, WAIT (ZS_WAIT_HOST) },
  { "peak_step", TYPE_INT, ALWAYS, AT (peak_step) },
  { "peak_phase", TYPE_PHASE, ALWAYS, AT (peak_phase) },
  { "oom_step", TYPE_INT, IF_OOM, AT (oom.step) },
  { "oom_phase", TYPE_PHASE, IF_OOM, AT (oom.phase) },
  { "oom_tried_bytes", TYPE_INT64, IF_OOM, AT (oom.tried_bytes) },
};

int
zs_columns_count (void)
{
  return G_N_ELEMENTS (COLUMNS);
}

const char *
zs_column_name (int column)
{
  return COLUMNS[column].name;
}

ZsCellKind
zs_column_kind (int column)
{
  static const ZsCellKind KINDS[] = { [TYPE_INT64] = ZS_CELL_INT, [TYPE_INT] = ZS_CELL_INT,
                                      [TYPE_DOUBLE] = ZS_CELL_NUMBER, [TYPE_PHASE] = ZS_CELL_TEXT };

  return KINDS[COLUMNS[column].type];
}

int
zs_column_find (const char *name)
{
  for (int i = 0; i < (int) G_N_ELEMENTS (COLUMNS); i++)
    if (strcmp (COLUMNS[i].name, name) == 0)
      return i;
  return -1;
}

ZsCell
zs_column_get (int column, const ZsResult *result)
{
  const Column *c = &COLUMNS[column];
  const void *slot = (const char *) result + c->offset;

  if ((c->when == IF_OK && result->outcome != ZS_OUTCOME_OK)
      || (c->when == IF_OOM && result->outcome != ZS_OUTCOME_OOM))
    return (ZsCell) { .kind = ZS_CELL_EMPTY };
  switch (c->type) {
  case TYPE_PHASE:
    return (ZsCell) { .kind = ZS_CELL_TEXT, .text = zs_phase_name (*(const ZsPhase *) slot) };
  case TYPE_INT:
    return (ZsCell) { .kind = ZS_CELL_INT, .integer = *(const int *) slot };
  case TYPE_DOUBLE:
    return (ZsCell) { .kind = ZS_CELL_NUMBER, .number = *(const double *) slot };
  case TYPE_INT64:
    break;
  }
  return (ZsCell) { .kind = ZS_CELL_INT, .integer = *(const int64_t *) slot };
}
