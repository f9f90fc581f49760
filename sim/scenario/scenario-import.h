/* scenario-import.h: what the readers of other programs' files share.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/scenario/scenario-internal.h"

/* A key of the file, and the setting that its value becomes. */
typedef struct {
  const char *key, *path;
} ZsImportKey;

/* What stands in the file PATH, which the reader's document then keeps; NULL if an error was added. */
const ZsNode *zs_import_load (ZsReader *reader, const char *path);
/* A scalar with the place of NODE. */
ZsNode *zs_import_at (ZsReader *reader, const ZsNode *node, const char *text);
/* KEY is none of KNOWN (NULL-terminated) in WHAT, where PREFIX before them changes nothing. */
void zs_import_note_unknown (ZsReader *reader, const ZsNode *key, const char *what, const char *const *known,
                             const char *prefix);
/* NODE is true or false, in quotes perhaps, as accelerate and shells write it. */
bool zs_import_truth (const ZsNode *node, bool *ret_value);

/* The others are false if an error was added. */

/* The values of the keys of FROM, where the scenario says nothing itself. */
bool zs_import_keys (ZsReader *reader, const ZsNode *from, const ZsImportKey *rows, size_t n_rows);
/* True or false under KEY, in quotes too; *RET_VALUE stays as it is where there is none. */
bool zs_import_switch (ZsReader *reader, const ZsNode *block, const char *key, bool *ret_value);
/* Says that NODE, the value of KEY, is no truth; false. */
bool zs_import_no_truth (ZsReader *reader, const ZsNode *node, const char *key);
/* NODE is the value of KEY; the index of its word in the NULL-terminated WORDS. */
bool zs_import_word (ZsReader *reader, const ZsNode *node, const char *key, const char *const *words,
                     int *ret_word);
/* NODE asks for mixed precision in DTYPE; what that means zs_reader_end_imports () decides. */
bool zs_import_precision (ZsReader *reader, const ZsNode *node, const char *dtype);

/* ---- scenario-import-fsdp.c ---- */

/* Whose fsdp_config it is.  FLAT: accelerate first wrote its keys in the file itself. */
typedef enum { ZS_IMPORT_ACCELERATE, ZS_IMPORT_FLAT, ZS_IMPORT_TRAINER } ZsImportFsdp;

/* fsdp_config: BLOCK.  PLACE: what asked for FSDP. */
bool zs_import_fsdp (ZsReader *reader, const ZsNode *block, const ZsNode *place, ZsImportFsdp whose);
/* Is KEY, with "fsdp_" or without, one of accelerate's fsdp_config? */
bool zs_import_is_fsdp_key (const char *key);
/* `fsdp` of TrainingArguments at ROOT; *RET_SHARDED: it is on. */
bool zs_import_fsdp_words (ZsReader *reader, const ZsNode *root, const ZsNode *fsdp, bool *ret_sharded);

/* ---- scenario-import-recipes.c: keys that LLaMA-Factory, TRL and Axolotl write among TrainingArguments ---- */

bool zs_import_is_axolotl (const ZsNode *root);
bool zs_import_is_trl (const ZsNode *root);
/* scenario-import-liger.c */
bool zs_import_liger (ZsReader *reader, const ZsNode *root);
bool zs_import_recipe (ZsReader *reader, const ZsNode *root);
/* scenario-import-lengths.c: packing, pad_to_multiple_of, group_by_length */
bool zs_import_lengths (ZsReader *reader, const ZsNode *root);
/* `optim` at ROOT, if it is there. */
bool zs_import_optim (ZsReader *reader, const ZsNode *root);

#define ZS_IMPORT_COMPILE "torch.compile () is not simulated: kernels would be fused, and fewer activations kept"
