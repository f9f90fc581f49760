/* scenario-measured.c: the block `measured`, for `validate`.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/base/words.h"
#include "sim/network/nccl.h"
#include "sim/scenario/scenario-internal.h"

static const char *const PHASES[] = { "load",      "init", "forward", "backward",
                                      "optimizer", "save", NULL };

typedef struct {
  int64_t step, tried, allocated, reserved;
  int phase;
} Oom;

static bool
read_oom (const ZsNode *node, ZsMeasured *measured, ZsErrors *errors)
{
  static const ZsField fields[] = {
    { ZS_FIELD ("step", INT, Oom, step) },
    { ZS_FIELD ("phase", WORD, Oom, phase), .words = PHASES },
    { ZS_FIELD ("tried", BYTES, Oom, tried) },
    { ZS_FIELD ("allocated", BYTES, Oom, allocated) },
    { ZS_FIELD ("reserved", BYTES, Oom, reserved) },
  };
  Oom oom = { -1, -1, -1, -1, -1 };

  if (node == NULL)
    return true;
  if (!zs_schema_read (node, "oom", fields, G_N_ELEMENTS (fields), &oom, NULL, errors))
    return false;
  measured->any_oom = true;
  measured->oom_step = (int)oom.step;
  measured->oom_phase = oom.phase;
  measured->oom_tried_bytes = oom.tried;
  measured->oom_allocated_bytes = oom.allocated;
  measured->oom_reserved_bytes = oom.reserved;
  if (measured->outcome < 0)
    measured->outcome = ZS_OUTCOME_OOM;
  return true;
}

static bool
read_phases (const ZsNode *list, ZsMeasured *measured, ZsErrors *errors)
{
  typedef struct {
    int64_t step, micro_step, allocated, reserved, end;
    ZsTime time;
    int phase;
  } Phase;
  static const ZsField fields[] = {
    { ZS_FIELD ("step", INT, Phase, step) },
    { ZS_FIELD ("micro_step", INT, Phase, micro_step) },
    { ZS_FIELD ("phase", WORD, Phase, phase), .words = PHASES, .required = true },
    { ZS_FIELD ("peak_allocated", BYTES, Phase, allocated) },
    { ZS_FIELD ("peak_reserved", BYTES, Phase, reserved) },
    { ZS_FIELD ("end_allocated", BYTES, Phase, end) },
    { ZS_FIELD ("time", TIME, Phase, time) },
  };
  bool ok = true;

  for (int i = 0; list != NULL && i < list->n_items; i++) {
    Phase phase = { 0, -1, -1, -1, -1, -1, 0 };

    if (!zs_schema_read (list->items[i], "a phase", fields, G_N_ELEMENTS (fields), &phase, NULL,
                         errors)) {
      ok = false;
      continue;
    }
    ZsMeasuredPhase row = { .step = (int)phase.step,
                            .micro_step = (int)phase.micro_step,
                            .phase = (ZsPhase)phase.phase,
                            .peak_allocated_bytes = phase.allocated,
                            .peak_reserved_bytes = phase.reserved,
                            .end_allocated_bytes = phase.end,
                            .time = phase.time };
    g_array_append_val (measured->phases, row);
  }
  return ok;
}

/* ---- of the machine alone ---- */

static bool
unknown_collective (const ZsNode *op, ZsErrors *errors)
{
  const char *words[ZS_N_COLLECTIVES + 1] = { NULL };

  for (int i = 0; i < ZS_N_COLLECTIVES; i++)
    words[i] = zs_collective_name ((ZsCollectiveKind)i);

  g_autofree char *list = zs_schema_word_list (words), *hint = zs_nearest_hint (op->text, words);

  return zs_node_fail (op, errors, "unknown collective '%.40s'%s (there are %s)", op->text, hint, list);
}

static bool
read_collectives (const ZsNode *list, ZsMeasured *measured, ZsErrors *errors)
{
  typedef struct {
    ZsMeasuredCollective row;
    const char *op;
    int beside;
  } Values;
  static const char *const besides[] = { "nothing", "h2d", "d2h", "matmul", "elementwise", "attention", NULL };
  static const ZsField fields[] = {
    { ZS_FIELD ("op", STRING, Values, op), .required = true },
    { ZS_FIELD ("bytes", BYTES, Values, row.bytes), .min = 1, .required = true },
    { ZS_FIELD ("time", TIME, Values, row.time), .min = 1, .help = "alone" },
    { ZS_FIELD ("beside", WORD, Values, beside), .words = besides },
    { ZS_FIELD ("m", INT, Values, row.m), .min = 1 },
    { ZS_FIELD ("n", INT, Values, row.n), .min = 1 },
    { ZS_FIELD ("k", INT, Values, row.k), .min = 1 },
    { ZS_FIELD ("beside_bytes", BYTES, Values, row.beside_bytes), .min = 1 },
    { ZS_FIELD ("slowdown", NUMBER, Values, row.slowdown), .help = "of the collective" },
    { ZS_FIELD ("beside_slowdown", NUMBER, Values, row.beside_slowdown) },
  };
  bool ok = true;

  for (int i = 0; list != NULL && i < list->n_items; i++) {
    const ZsNode *item = list->items[i];
    Values values = { .row = { .time = -1, .slowdown = -1, .beside_slowdown = -1 } };

    if (!zs_schema_read (item, "a collective", fields, G_N_ELEMENTS (fields), &values, NULL, errors)) {
      ok = false;
      continue;
    }
    ZsMeasuredCollective *row = &values.row;

    row->beside = (ZsBeside)values.beside;
    if (!zs_collective_from_name (values.op, &row->kind))
      ok = unknown_collective (zs_node_get (item, "op"), errors);
    else if (row->time < 0 && row->slowdown < 0 && row->beside_slowdown < 0)
      ok = zs_node_fail (item, errors, "nothing is measured of this collective: time, slowdown or beside_slowdown");
    else if (row->beside == ZS_BESIDE_NOTHING && (row->slowdown >= 0 || row->beside_slowdown >= 0))
      ok = zs_node_fail (item, errors, "a slowdown needs `beside`: what slows the collective");
    else if (row->beside >= ZS_BESIDE_MATMUL && row->beside != ZS_BESIDE_ELEMENTWISE
             && (row->m == 0 || row->n == 0 || row->k == 0))
      ok = zs_node_fail (item, errors, "'%s' beside a collective needs m, n and k", besides[row->beside]);
    else if (row->beside != ZS_BESIDE_NOTHING && row->beside != ZS_BESIDE_MATMUL
             && row->beside != ZS_BESIDE_ATTENTION && row->beside_bytes == 0)
      ok = zs_node_fail (item, errors, "'%s' beside a collective needs beside_bytes", besides[row->beside]);
    else
      g_array_append_val (measured->collectives, *row);
  }
  return ok;
}

/* `gpus: [0, 2]`: bits. */
static bool
read_gpus (const ZsNode *list, int n_gpus, uint64_t *ret_gpus, ZsErrors *errors)
{
  if (list != NULL && list->n_items == 0)
    return zs_node_fail (list, errors, "'gpus' is empty: which ones copy at once?");
  static const ZsField field = { .key = "gpus", .type = ZS_FIELD_INT, .max = 63 };

  for (int i = 0; list != NULL && i < list->n_items; i++) {
    int64_t gpu = 0;

    if (!zs_schema_read_field (list->items[i], &field, &gpu, errors))
      return false;
    if (gpu >= n_gpus)
      return zs_node_fail (list->items[i], errors, "there is no GPU %d: the node has %d, from 0", (int)gpu, n_gpus);
    if ((*ret_gpus >> gpu & 1) != 0)
      return zs_node_fail (list->items[i], errors, "GPU %d is named twice", (int)gpu);
    *ret_gpus |= UINT64_C (1) << gpu;
  }
  return true;
}

static bool
read_copies (const ZsNode *list, int n_gpus, ZsMeasured *measured, ZsErrors *errors)
{
  typedef struct {
    ZsMeasuredCopy row;
    int kind;
    const ZsNode *gpus;
  } Values;
  static const char *const kinds[] = { "h2d", "d2h", "both", NULL };
  static const ZsField fields[] = {
    { ZS_FIELD ("kind", WORD, Values, kind), .words = kinds, .required = true },
    { ZS_FIELD ("bytes", BYTES, Values, row.bytes), .min = 1, .required = true },
    { ZS_FIELD ("time", TIME, Values, row.time), .min = 1, .required = true },
    { ZS_FIELD ("pinned", BOOL, Values, row.pinned) },
    { ZS_FIELD ("gpus", LIST, Values, gpus), .help = "which ones copy at once" },
  };
  bool ok = true;

  for (int i = 0; list != NULL && i < list->n_items; i++) {
    Values values = { .row = { .pinned = true } };

    if (!zs_schema_read (list->items[i], "a copy", fields, G_N_ELEMENTS (fields), &values, NULL, errors)
        || !read_gpus (values.gpus, n_gpus, &values.row.gpus, errors)) {
      ok = false;
      continue;
    }
    values.row.in = values.kind != 1;
    values.row.out = values.kind != 0;
    if (values.row.gpus == 0)
      values.row.gpus = 1;
    g_array_append_val (measured->copies, values.row);
  }
  return ok;
}

bool
zs_reader_measured (ZsReader *reader)
{
  typedef struct {
    ZsMeasured measured;
    const ZsNode *oom, *phases, *collectives, *copies;
  } Values;
  static const char *const outcomes[] = { "fits", "ok", "oom", "host-oom", NULL };
  static const int outcome_values[] = { ZS_OUTCOME_OK, ZS_OUTCOME_OK, ZS_OUTCOME_OOM,
                                        ZS_OUTCOME_HOST_OOM };
  static const ZsField fields[] = {
    { ZS_FIELD ("peak_allocated", BYTES, Values, measured.peak_allocated_bytes) },
    { ZS_FIELD ("peak_reserved", BYTES, Values, measured.peak_reserved_bytes) },
    { ZS_FIELD ("peak_device", BYTES, Values, measured.peak_device_bytes),
      .help = "of nvidia-smi" },
    { ZS_FIELD ("host_pinned_per_rank", BYTES, Values, measured.host_pinned_bytes_per_rank) },
    { ZS_FIELD ("host_pinned", BYTES, Values, measured.host_pinned_bytes), .help = "of a node" },
    { ZS_FIELD ("step_time", TIME, Values, measured.step_time), .min = 1 },
    { ZS_FIELD ("tokens_per_second_per_gpu", NUMBER, Values, measured.tokens_per_second_per_gpu) },
    { ZS_FIELD ("samples_per_second", NUMBER, Values, measured.samples_per_second) },
    { ZS_FIELD ("outcome", WORD, Values, measured.outcome), .words = outcomes,
      .word_values = outcome_values },
    { ZS_FIELD ("rank", INT, Values, measured.rank) },
    { ZS_FIELD ("alone", BOOL, Values, measured.alone),
      .help = "the rank ran without the others: PyTorch's fake process group" },
    { ZS_FIELD ("source", STRING, Values, measured.source) },
    { ZS_FIELD ("oom", MAPPING, Values, oom) },
    { ZS_FIELD ("phases", LIST, Values, phases) },
    { ZS_FIELD ("collectives", LIST, Values, collectives), .help = "of the machine alone" },
    { ZS_FIELD ("copies", LIST, Values, copies), .help = "of the machine alone" },
  };
  const ZsNode *node = zs_node_get (reader->root, "measured");
  Values values = { .measured = { .outcome = -1,
                                  .peak_allocated_bytes = -1,
                                  .peak_reserved_bytes = -1,
                                  .peak_device_bytes = -1,
                                  .host_pinned_bytes_per_rank = -1,
                                  .host_pinned_bytes = -1,
                                  .step_time = -1,
                                  .tokens_per_second_per_gpu = -1,
                                  .samples_per_second = -1 } };
  ZsMeasured *measured = &reader->scenario->measured;
  GArray *phases = measured->phases, *collectives = measured->collectives, *copies = measured->copies;
  bool ok = true;

  if (node != NULL && !zs_node_is_null (node)) {
    ok = zs_schema_read (node, "measured", fields, G_N_ELEMENTS (fields), &values, NULL,
                         reader->errors);
    values.measured.any = true;
  }
  *measured = values.measured;
  measured->phases = phases;
  measured->collectives = collectives;
  measured->copies = copies;
  ok &= read_oom (values.oom, measured, reader->errors);
  ok &= read_collectives (values.collectives, measured, reader->errors);
  ok &= read_copies (values.copies, reader->scenario->cluster.gpus_per_node, measured, reader->errors);
  return read_phases (values.phases, measured, reader->errors) && ok;
}
