/* snapshot-reader.c: the history in a snapshot of torch.cuda.memory.  SPDX-License-Identifier: MIT
 *
 * Layout: torch/cuda/memory.py and torch/csrc/cuda/memory_snapshot.cpp of PyTorch 2.x. */
#include "config.h"

#include "sim/memory/history-private.h"
#include "sim/memory/pickle.h"

static bool
add_entry (HistoryBuilder *builder, const PickleValue *entry, uint32_t index, GError **error)
{
  const PickleValue *name = pickle_get (entry, "action");
  const char *why = NULL;

  if (name == NULL || name->type != PICKLE_STRING) {
    g_set_error (error, ZS_HISTORY_ERROR, 0, "%s: entry %u of the trace has no action",
                 builder->path, index);
    return false;
  }
  int action = history_action_by_name (name->text, name->length);

  if (action < 0)
    return true;   /* user_defined and what is yet to come: not the allocator's */
  int64_t address = pickle_integer (entry, action == ZS_ALLOCATOR_OOM ? "device_free" : "addr", -1);
  int64_t bytes = pickle_integer (entry, "size", -1);

  if (action == ZS_ALLOCATOR_SNAPSHOT)
    return true;
  if (!history_builder_add (builder, (ZsAllocatorAction) action, address, bytes,
                            (uint64_t) pickle_integer (entry, "stream", 0),
                            pickle_integer (entry, "time_us", 0), &why)) {
    g_set_error (error, ZS_HISTORY_ERROR, 0, "%s: entry %u of the trace: %s", builder->path, index,
                 why);
    return false;
  }
  return true;
}

static void
add_totals (ZsHistoryTotals *totals, const PickleValue *segments, int gpu)
{
  for (uint32_t i = 0; i < pickle_length (segments); i++) {
    const PickleValue *segment = pickle_at (segments, i);

    if (pickle_integer (segment, "device", 0) != gpu)
      continue;
    totals->n_segments++;
    totals->reserved += pickle_integer (segment, "total_size", 0);
    totals->allocated += pickle_integer (segment, "allocated_size", 0);
    totals->active += pickle_integer (segment, "active_size", 0);
    totals->requested += pickle_integer (segment, "requested_size", 0);
  }
}

bool
history_read_snapshot (HistoryBuilder *builder, ZsHistory *history, const uint8_t *data,
                       gsize length, int gpu, GError **error)
{
  g_autoptr (Pickle) pickle = pickle_read (data, length, error);

  if (pickle == NULL) {
    g_prefix_error (error, "%s: ", builder->path);
    return false;
  }
  const PickleValue *top = pickle_top (pickle);
  const PickleValue *traces = pickle_get (top, "device_traces");
  const PickleValue *trace = gpu >= 0 ? pickle_at (traces, (uint32_t) gpu) : NULL;

  if (traces == NULL) {
    g_set_error (error, ZS_HISTORY_ERROR, 0, "%s: no 'device_traces'; expected a snapshot of "
                 "torch.cuda.memory", builder->path);
    return false;
  }
  if (pickle_length (trace) == 0) {
    g_set_error (error, ZS_HISTORY_ERROR, 0, "%s: no history of GPU %d; it is recorded after "
                 "torch.cuda.memory._record_memory_history ()", builder->path, gpu);
    return false;
  }
  for (uint32_t i = 0; i < pickle_length (trace); i++)
    if (!add_entry (builder, pickle_at (trace, i), i, error))
      return false;

  const PickleValue *conf = pickle_get (pickle_get (top, "allocator_settings"),
                                        "PYTORCH_CUDA_ALLOC_CONF");

  if (conf != NULL && conf->type == PICKLE_STRING)
    history->alloc_conf = g_strndup (conf->text, conf->length);
  history->has_totals = true;
  add_totals (&history->totals, pickle_get (top, "segments"), gpu);
  return true;
}
