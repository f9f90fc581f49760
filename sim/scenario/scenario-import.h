/* scenario-import.h: what the readers of other programs' files share.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/scenario/scenario-internal.h"

/* A key of the file, and the setting that its value becomes. */
typedef struct {
  const char *key, *path;
} ZsImportKey;

/* FSDP's ShardingStrategy in the order of its numbers, which begin with 1 (torch/distributed/fsdp/api.py). */
enum {
  ZS_IMPORT_FULL_SHARD,
  ZS_IMPORT_SHARD_GRAD_OP,
  ZS_IMPORT_NO_SHARD,
  ZS_IMPORT_HYBRID_SHARD,
  ZS_IMPORT_HYBRID_SHARD_ZERO2,
  ZS_IMPORT_N_STRATEGIES
};

/* A scalar with the place of NODE. */
ZsNode *zs_import_at (ZsReader *reader, const ZsNode *node, const char *text);

/* The others are false if an error was added. */

/* The values of the keys of FROM, where the scenario says nothing itself. */
bool zs_import_keys (ZsReader *reader, const ZsNode *from, const ZsImportKey *rows, size_t n_rows);
/* True or false under KEY, in quotes too; *RET_VALUE stays as it is where there is none. */
bool zs_import_switch (ZsReader *reader, const ZsNode *block, const char *key, bool *ret_value);
/* NODE is the value of KEY; the index of its word in the NULL-terminated WORDS. */
bool zs_import_word (ZsReader *reader, const ZsNode *node, const char *key, const char *const *words,
                     int *ret_word);
bool zs_import_strategy (ZsReader *reader, const ZsNode *node, int strategy);
/* fsdp_config: BLOCK.  PLACE: what asked for FSDP.  FLAT: BLOCK is the file, as accelerate first wrote it. */
bool zs_import_fsdp (ZsReader *reader, const ZsNode *block, const ZsNode *place, bool flat);
