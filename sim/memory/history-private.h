/* history-private.h: shared by the readers of histories.  Private to sim/memory.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/memory/history.h"

/* Limits on what a file may say: a GPU has less, and our free sets hold no more. */
#define HISTORY_MAX_BYTES   (INT64_C (1) << 38)
#define HISTORY_MAX_ADDRESS (INT64_C (1) << 47)

typedef struct {
  const char *path;
  GArray     *entries;    /* ZsHistoryEntry, stream not yet dense: see handles */
  GArray     *handles;    /* uint64_t per entry */
} HistoryBuilder;

/* Append an entry; false and a message (without place) when a value cannot be. */
bool history_builder_add (HistoryBuilder *builder, ZsAllocatorAction action, int64_t address,
                          int64_t bytes, uint64_t stream, int64_t time_us, const char **ret_why);
/* ZsAllocatorAction by name, or -1. */
int  history_action_by_name (const char *name, size_t length);

/* DATA of a pickle into BUILDER and HISTORY's members from the snapshot. */
bool history_read_snapshot (HistoryBuilder *builder, ZsHistory *history, const uint8_t *data,
                            gsize length, int gpu, GError **error);
