/* ds-keys.c: the table of ds_config keys, and looking things up in it.  SPDX-License-Identifier:
 * MIT */
#include "config.h"

#include "sim/scenario/ds-keys.h"

#include <glib.h>
#include <string.h>

#include "sim/base/words.h"

typedef struct {
  const char *from, *to;
} Alias;

/* Defaults that were another value once. */
static const struct {
  const char *path;
  ZsBehaviour since;
  const char *before;
} FORMER_DEFAULTS[] = {
  { "zero_optimization.offload_param.pin_memory", ZS_BEHAVIOUR_PIN_MEMORY_DEFAULT, "false" },
  { "zero_optimization.offload_optimizer.pin_memory", ZS_BEHAVIOUR_PIN_MEMORY_DEFAULT, "false" },
  { "gradient_clipping", ZS_BEHAVIOUR_CLIPPING_DEFAULT_ONE, "0.0" },
  { "bf16.check_grad_overflow", ZS_BEHAVIOUR_BF16_OVERFLOW_CHECK, "false" },
};

#define V(major, minor, patch) ZS_VERSION (major, minor, patch)
#define ALL ZS_DS_STAGES_ALL
#define Z123 ZS_DS_STAGES_123
#define Z12 ZS_DS_STAGES_12
#define Z3 ZS_DS_STAGES_3
#define NOWHERE ZS_DS_STAGES_NOWHERE
enum { /* the types as the rows write them */
       ANY = ZS_DS_ANY,
       BOOL = ZS_DS_BOOL,
       INT = ZS_DS_INT,
       ELEMENTS = ZS_DS_ELEMENTS,
       BYTES = ZS_DS_BYTES,
       FLOAT = ZS_DS_FLOAT,
       STRING = ZS_DS_STRING,
       PATH = ZS_DS_PATH,
       LIST = ZS_DS_LIST,
       NUMBER_OR_WORD = ZS_DS_NUMBER_OR_WORD,
       OBJECT = ZS_DS_OBJECT,
       STRICT = ZS_DS_STRICT,
       FREE = ZS_DS_FREE,
       BOOL_OR_NULL = ZS_DS_BOOL | ZS_DS_OR_NULL,
       INT_OR_NULL = ZS_DS_INT | ZS_DS_OR_NULL,
       FLOAT_OR_NULL = ZS_DS_FLOAT | ZS_DS_OR_NULL,
       STRING_OR_NULL = ZS_DS_STRING | ZS_DS_OR_NULL,
       PATH_OR_NULL = ZS_DS_PATH | ZS_DS_OR_NULL,
       LIST_OR_NULL = ZS_DS_LIST | ZS_DS_OR_NULL,
       OBJECT_OR_NULL = ZS_DS_OBJECT | ZS_DS_OR_NULL,
       FREE_OR_NULL = ZS_DS_FREE | ZS_DS_OR_NULL,
};
#define KEY(path, type, fallback, allowed, stages, since, status, see, note, memory, speed)        \
  { path, type, fallback, allowed, stages, since, ZS_DS_##status, see, note, memory, speed },
#define MINOR(path, type, fallback, allowed, since)                                                \
  KEY (path, type, fallback, allowed, ALL, since, CURRENT, NULL, NULL, NULL, NULL)

#define ALIAS(from, to)
static const ZsDsKey KEYS[] = {
#include "sim/scenario/ds-keys-zero.def"
#include "sim/scenario/ds-keys-training.def"
#include "sim/scenario/ds-keys-other.def"
#include "sim/scenario/ds-keys-foreign.def"
};
#undef ALIAS
#undef KEY
#undef MINOR

#define KEY(path, type, fallback, allowed, stages, since, status, see, note, memory, speed)
#define MINOR(path, type, fallback, allowed, since)
#define ALIAS(from, to) { from, to },
static const Alias ALIASES[] = {
#include "sim/scenario/ds-keys-zero.def"
#include "sim/scenario/ds-keys-training.def"
};

const ZsDsKey *
zs_ds_keys (int *ret_n)
{
  *ret_n = G_N_ELEMENTS (KEYS);
  return KEYS;
}

static bool
is_key (const ZsDsKey *row)
{
  return row->status != ZS_DS_INVENTED && row->status != ZS_DS_FOREIGN;
}

const char *
zs_ds_key_word (const ZsDsKey *key)
{
  const char *dot = strrchr (key->path, '.');

  return dot != NULL ? dot + 1 : key->path;
}

/* Rows by path.  Made once and constant from then on: a sweep looks up a hundred keys for every
 * configuration. */
static const uint16_t *
rows_by_path (void)
{
  static uint16_t rows[G_N_ELEMENTS (KEYS)];
  static gsize ready;

  if (g_once_init_enter (&ready)) {
    for (size_t i = 0; i < G_N_ELEMENTS (KEYS); i++) {
      size_t at = i;

      for (; at > 0 && strcmp (KEYS[rows[at - 1]].path, KEYS[i].path) > 0; at--)
        rows[at] = rows[at - 1];
      rows[at] = (uint16_t)i;
    }
    g_once_init_leave (&ready, 1);
  }
  return rows;
}

static const ZsDsKey *
find_row (const char *path)
{
  const uint16_t *rows = rows_by_path ();
  size_t low = 0, high = G_N_ELEMENTS (KEYS);

  while (low < high) {
    size_t middle = (low + high) / 2;
    int order = strcmp (KEYS[rows[middle]].path, path);

    if (order == 0)
      return &KEYS[rows[middle]];
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

const ZsDsKey *
zs_ds_key_find (const char *path)
{
  const ZsDsKey *row = find_row (path);

  if (row != NULL)
    return is_key (row) ? row : NULL;
  for (size_t i = 0; i < G_N_ELEMENTS (ALIASES); i++) { /* its own, or that of a section above */
    size_t n = strlen (ALIASES[i].from);

    if (strncmp (path, ALIASES[i].from, n) == 0 && (path[n] == '\0' || path[n] == '.')) {
      g_autofree char *real = g_strconcat (ALIASES[i].to, path + n, NULL);

      row = find_row (real);
      return row != NULL && is_key (row) ? row : NULL;
    }
  }
  return NULL;
}

int
zs_ds_n_aliases (void)
{
  return G_N_ELEMENTS (ALIASES);
}

void
zs_ds_alias (int index, const char **ret_name, const char **ret_key)
{
  *ret_name = ALIASES[index].from;
  *ret_key = ALIASES[index].to;
}

const ZsDsKey *
zs_ds_key_find_foreign (const char *word)
{
  const ZsDsKey *row = find_row (word);

  return row != NULL && !is_key (row) ? row : NULL;
}

/* How much people mean a section: the top and zero_optimization first, then the sections that act
 * in a fine-tuning run, then the rest. */
static int
section_rank (const ZsDsKey *key)
{
  static const char *const ACTING[] = { "optimizer.", "fp16.",      "bf16.",
                                        "aio.",       "scheduler.", "activation_checkpointing.",
                                        "data_types." };

  if (strchr (key->path, '.') == NULL)
    return 0;
  if (g_str_has_prefix (key->path, "zero_optimization."))
    return strchr (key->path + strlen ("zero_optimization."), '.') == NULL ? 1 : 2;
  for (size_t i = 0; i < G_N_ELEMENTS (ACTING); i++)
    if (g_str_has_prefix (key->path, ACTING[i]))
      return 3;
  return 4;
}

const ZsDsKey *
zs_ds_key_find_elsewhere (const char *word)
{
  static const char *const COMMON[] = { "enabled", "type",    "params", "device",
                                        "profile", "verbose", "debug",  "attention",
                                        "block",   "mode",    "version" };
  const ZsDsKey *best = NULL;
  bool tie = false;

  for (size_t i = 0; i < G_N_ELEMENTS (COMMON); i++)
    if (strcmp (word, COMMON[i]) == 0)
      return NULL; /* could be meant for anything */
  for (size_t i = 0; i < G_N_ELEMENTS (KEYS); i++) {
    if (!is_key (&KEYS[i]) || strcmp (zs_ds_key_word (&KEYS[i]), word) != 0)
      continue;
    if (best == NULL || section_rank (&KEYS[i]) < section_rank (best)) {
      best = &KEYS[i];
      tie = false;
    } else if (section_rank (&KEYS[i]) == section_rank (best)) {
      tie = true;
    }
  }
  if (best == NULL) {
    for (size_t i = 0; i < G_N_ELEMENTS (ALIASES); i++) {
      const char *dot = strrchr (ALIASES[i].from, '.');

      if (strcmp (dot != NULL ? dot + 1 : ALIASES[i].from, word) == 0)
        return zs_ds_key_find (ALIASES[i].to);
    }
    return NULL;
  }
  return tie && section_rank (best) > 2 ? NULL : best;
}

static const ZsDsKey *
nearest (const char *section, const char *word, bool anywhere)
{
  g_autoptr (GPtrArray) words = g_ptr_array_new ();
  g_autoptr (GPtrArray) rows = g_ptr_array_new ();
  size_t n = strlen (section);

  for (size_t i = 0; i < G_N_ELEMENTS (KEYS); i++) {
    const char *rest = KEYS[i].path;

    if (!is_key (&KEYS[i]) || KEYS[i].status == ZS_DS_REMOVED)
      continue;
    if (anywhere) {
      if (section_rank (&KEYS[i]) > 2)
        continue;
      rest = zs_ds_key_word (&KEYS[i]);
    } else if (n > 0) {
      if (strncmp (rest, section, n) != 0 || rest[n] != '.')
        continue;
      rest += n + 1;
    }
    if (strchr (rest, '.') != NULL)
      continue;
    g_ptr_array_add (words, (gpointer)rest);
    g_ptr_array_add (rows, (gpointer)&KEYS[i]);
  }
  for (guint i = 0; i < rows->len && strlen (word) >= 6; i++) /* the end is missing */
    if (g_ascii_strncasecmp (words->pdata[i], word, strlen (word)) == 0)
      return rows->pdata[i];
  g_ptr_array_add (words, NULL);

  const char *hit = zs_nearest_word (word, (const char *const *)words->pdata);

  for (guint i = 0; hit != NULL && i < rows->len; i++)
    if (words->pdata[i] == hit)
      return rows->pdata[i];
  return NULL;
}

const ZsDsKey *
zs_ds_key_nearest (const char *section, const char *word)
{
  return nearest (section, word, false);
}

const ZsDsKey *
zs_ds_key_nearest_anywhere (const char *word)
{
  return nearest ("", word, true);
}

const char *
zs_ds_key_fallback (const ZsDsKey *key, const ZsVersions *versions)
{
  for (size_t i = 0; i < G_N_ELEMENTS (FORMER_DEFAULTS); i++)
    if (strcmp (FORMER_DEFAULTS[i].path, key->path) == 0
        && !zs_behaves (versions, FORMER_DEFAULTS[i].since))
      return FORMER_DEFAULTS[i].before;
  return key->fallback;
}

bool
zs_ds_key_is_strict (const ZsDsKey *section, const ZsVersions *versions)
{
  if (section->type != ZS_DS_STRICT)
    return false;
  if (strcmp (section->path, "fp16") == 0 || strcmp (section->path, "bf16") == 0)
    return zs_behaves (versions, ZS_BEHAVIOUR_STRICT_PRECISION_SECTIONS);
  return zs_behaves (versions, ZS_BEHAVIOUR_STRICT_SECTIONS);
}

bool
zs_ds_key_exists (const ZsDsKey *key, const ZsVersions *versions)
{
  return versions->of[ZS_SOFTWARE_DEEPSPEED] >= key->since && key->status != ZS_DS_REMOVED;
}
