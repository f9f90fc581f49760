/* ds-keys.h: every key of a ds_config.json, as data.
 * SPDX-License-Identifier: MIT
 *
 * One row of ds-keys-*.def each: adding a key is one row.  The reader (ds-config.h) takes defaults
 * and ranges from here, the linter (sim/check) everything.
 *
 * In the texts: N parameters, n elements of one tensor, P elements of one rank's partition, W
 * ranks, b bytes of the model's dtype, R reduce_bucket_size.  "none" is written as NULL. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/version.h"

typedef enum {
  ZS_DS_ANY,
  ZS_DS_BOOL,
  ZS_DS_INT,
  ZS_DS_ELEMENTS, /* an integer: elements of a tensor, not bytes */
  ZS_DS_BYTES,    /* an integer: bytes */
  ZS_DS_FLOAT,
  ZS_DS_STRING,
  ZS_DS_PATH,
  ZS_DS_LIST,
  ZS_DS_NUMBER_OR_WORD,
  ZS_DS_OBJECT,         /* unknown keys inside are ignored */
  ZS_DS_STRICT,         /* unknown keys inside stop the start-up (pydantic) */
  ZS_DS_FREE,           /* keys inside are passed on; any name is fine */
  ZS_DS_OR_NULL = 0x40, /* a flag: null is a value too */
} ZsDsType;

typedef enum {
  ZS_DS_CURRENT,
  ZS_DS_DEPRECATED, /* accepted with a warning; SEE takes its place */
  ZS_DS_REMOVED,    /* was a key once; now an error */
  ZS_DS_UNUSED,     /* accepted; nothing reads it */
  ZS_DS_LEGACY,     /* read, belongs to a part that is not developed any more */
  ZS_DS_INVENTED,   /* never was a key */
  ZS_DS_FOREIGN,    /* another program's key */
} ZsDsStatus;

/* Stages in which a key acts, as bits 1 << stage. */
enum {
  ZS_DS_STAGES_ALL = 0xf,
  ZS_DS_STAGES_123 = 0xe,
  ZS_DS_STAGES_12 = 0x6,
  ZS_DS_STAGES_3 = 0x8,
  ZS_DS_STAGES_NOWHERE = 0
};

typedef struct {
  const char *path;     /* "zero_optimization.stage" */
  int type;             /* ZsDsType, perhaps with ZS_DS_OR_NULL */
  const char *fallback; /* the default of the newest release, as Python prints it; NULL none */
  const char *allowed;  /* "none|cpu|nvme"; "0.." from; "0<.." above; "0..1" between; NULL any */
  unsigned stages;
  ZsVersion since; /* 0 unknown */
  ZsDsStatus status;
  const char *see; /* path of what to write instead, or NULL */
  const char *note;
  const char *memory, *speed; /* what it does; NULL nothing */
} ZsDsKey;

/* All rows; words of other programs and inventions are among them, with bare words as paths. */
const ZsDsKey *zs_ds_keys (int *ret_n);
/* The row of PATH; an alias gives the row that it stands for.  Inventions and foreign words are not
 * found here.  NULL: no such key. */
const ZsDsKey *zs_ds_key_find (const char *path);
/* All other names: NAME is taken for KEY (both are whole paths). */
int zs_ds_n_aliases (void);
void zs_ds_alias (int index, const char **ret_name, const char **ret_key);
/* The invented or foreign WORD (without its path), or NULL. */
const ZsDsKey *zs_ds_key_find_foreign (const char *word);
/* A key with this last WORD anywhere else: where a misplaced key belongs.  NULL: none, or only in
 * sections that nobody means (more than one and none below zero_optimization or at the top). */
const ZsDsKey *zs_ds_key_find_elsewhere (const char *word);
/* The nearest key of the section SECTION ("" is the top) to WORD; NULL when none is near. */
const ZsDsKey *zs_ds_key_nearest (const char *section, const char *word);
/* The nearest key anywhere, for a word that is far from all of its own section. */
const ZsDsKey *zs_ds_key_nearest_anywhere (const char *word);
/* The last word of the key's path: "stage". */
const char *zs_ds_key_word (const ZsDsKey *key);
/* The default in VERSIONS, as text. */
const char *zs_ds_key_fallback (const ZsDsKey *key, const ZsVersions *versions);
/* Does the section forbid unknown keys in VERSIONS? */
bool zs_ds_key_is_strict (const ZsDsKey *section, const ZsVersions *versions);
/* Is it known in VERSIONS: not newer, and not removed? */
bool zs_ds_key_exists (const ZsDsKey *key, const ZsVersions *versions);
