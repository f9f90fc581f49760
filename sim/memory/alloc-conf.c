/* alloc-conf.c: reading PYTORCH_CUDA_ALLOC_CONF.  SPDX-License-Identifier: MIT
 *
 * Syntax: KEY:VALUE, separated by commas; a list in square brackets where a key takes one; blanks
 * between tokens do not count. */
#include "config.h"

#include <string.h>

#include "sim/memory/alloc-conf.h"

G_DEFINE_QUARK (zs-alloc-conf-error-quark, zs_alloc_conf_error)

typedef enum { OPTION_MIB, OPTION_COUNT, OPTION_BOOL, OPTION_FRACTION, OPTION_BACKEND,
               OPTION_DIVISIONS } OptionType;

typedef struct {
  const char *key;
  OptionType  type;
  size_t      offset;
  int64_t     min, max;
  bool        power_of_two;
} Option;

#define AT(member) offsetof (ZsAllocConf, member)
#define MAX_MIB (INT64_MAX >> 20)

/* Ranges as PyTorch checks them. large_segment_size_mb: a segment must hold any request below
 * 10 MiB. */
static const Option OPTIONS[] = {
  { "backend",                           OPTION_BACKEND,   AT (cuda_malloc_async), 0, 0, false },
  { "expandable_segments",               OPTION_BOOL,      AT (expandable_segments), 0, 1, false },
  { "garbage_collection_threshold",      OPTION_FRACTION,  AT (garbage_collection_threshold), 0, 1, false },
  { "graph_capture_record_stream_reuse", OPTION_BOOL,      AT (graph_capture_record_stream_reuse), 0, 1, false },
  { "large_segment_size_mb",             OPTION_MIB,       AT (large_segment_size), 10, MAX_MIB, false },
  { "max_non_split_rounding_mb",         OPTION_MIB,       AT (max_non_split_rounding), 20, MAX_MIB, false },
  { "max_split_size_mb",                 OPTION_MIB,       AT (max_split_size), 20, MAX_MIB, false },
  { "per_process_memory_fraction",       OPTION_FRACTION,  AT (per_process_memory_fraction), 0, 1, false },
  { "pinned_num_register_threads",       OPTION_COUNT,     AT (pinned_num_register_threads), 1, 128, true },
  { "pinned_reserve_segment_size_mb",    OPTION_MIB,       AT (pinned_reserve_segment_size), 0, MAX_MIB, false },
  { "pinned_use_background_threads",     OPTION_BOOL,      AT (pinned_use_background_threads), 0, 1, false },
  { "pinned_use_cuda_host_register",     OPTION_BOOL,      AT (pinned_use_cuda_host_register), 0, 1, false },
  { "release_lock_on_cudamalloc",        OPTION_BOOL,      AT (release_lock_on_cudamalloc), 0, 1, false },
  { "roundup_bypass_threshold_mb",       OPTION_MIB,       AT (roundup_bypass_threshold), 0, MAX_MIB, false },
  { "roundup_power2_divisions",          OPTION_DIVISIONS, AT (roundup_power2_divisions), 0, 0, false },
};

typedef struct {
  const char *text, *at;
  GError    **error;
} Parser;

static void
skip_blanks (Parser *parser)
{
  while (g_ascii_isspace (*parser->at))
    parser->at++;
}

static bool G_GNUC_PRINTF (3, 4)
fail_at (Parser *parser, const char *where, const char *format, ...)
{
  va_list args;

  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);

  va_end (args);
  g_set_error (parser->error, ZS_ALLOC_CONF_ERROR, 0, "PYTORCH_CUDA_ALLOC_CONF:%d: %s",
               (int) (where - parser->text) + 1, message);
  return false;
}

/* The next word (up to a separator), without copying; *ret_length 0 at a separator. */
static const char *
next_word (Parser *parser, int *ret_length)
{
  skip_blanks (parser);
  const char *start = parser->at;

  while (*parser->at != '\0' && strchr (":,[]", *parser->at) == NULL
         && !g_ascii_isspace (*parser->at))
    parser->at++;
  *ret_length = (int) (parser->at - start);
  skip_blanks (parser);
  return start;
}

static bool
expect (Parser *parser, char separator)
{
  skip_blanks (parser);
  if (*parser->at != separator) {
    if (*parser->at == '\0')
      return fail_at (parser, parser->at, "expected '%c' at the end", separator);
    return fail_at (parser, parser->at, "expected '%c', not '%c'", separator, *parser->at);
  }
  parser->at++;
  skip_blanks (parser);
  return true;
}

static bool
read_integer (Parser *parser, const char *key, int64_t min, int64_t max, int64_t *ret_value)
{
  int length;
  const char *word = next_word (parser, &length);
  g_autofree char *text = g_strndup (word, (gsize) length);
  char *end;
  gint64 value = g_ascii_strtoll (text, &end, 10);

  if (length == 0 || *end != '\0')
    return fail_at (parser, word, "'%s' takes a whole number, not '%s'", key, text);
  if (value < min || value > max) {
    if (max == MAX_MIB)
      return fail_at (parser, word, "'%s' must be at least %" G_GINT64_FORMAT ", not '%s'", key,
                      min, text);
    return fail_at (parser, word, "'%s' must be %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT
                    ", not '%s'", key, min, max, text);
  }
  *ret_value = value;
  return true;
}

static bool
read_fraction (Parser *parser, const Option *option, double *ret_value)
{
  int length;
  const char *word = next_word (parser, &length);
  g_autofree char *text = g_strndup (word, (gsize) length);
  char *end;
  double value = g_ascii_strtod (text, &end);

  if (length == 0 || *end != '\0')
    return fail_at (parser, word, "'%s' takes a number between 0 and 1, not '%s'", option->key,
                    text);
  /* PyTorch: 0 < threshold < 1; a fraction of the memory may be all of it. */
  if (!(value > 0) || value > 1
      || (value == 1 && option->offset == AT (garbage_collection_threshold)))
    return fail_at (parser, word, "'%s' must be between 0 and 1, not '%s'", option->key, text);
  *ret_value = value;
  return true;
}

static bool
read_bool (Parser *parser, const char *key, bool *ret_value)
{
  int length;
  const char *word = next_word (parser, &length);

  if (length == 4 && strncmp (word, "True", 4) == 0)
    *ret_value = true;
  else if (length == 5 && strncmp (word, "False", 5) == 0)
    *ret_value = false;
  else
    return fail_at (parser, word, "'%s' takes True or False, not '%.*s'", key, length, word);
  return true;
}

static bool
is_power_of_two (int64_t value)
{
  return value > 0 && (value & (value - 1)) == 0;
}

/* [256:1,512:2,1024:4,>:8]: keys are MiB; below the first key its value, ">" from the last on. */
static bool
read_division_list (Parser *parser, int64_t *divisions)
{
  int64_t values[ZS_ROUNDUP_INTERVALS] = { 0 };
  int last = -1;

  parser->at++;
  do {
    skip_blanks (parser);
    const char *where = parser->at;
    int first = last + 1, index = ZS_ROUNDUP_INTERVALS - 1;

    if (*where == '>')
      parser->at++;
    else {
      int64_t key;

      if (!read_integer (parser, "roundup_power2_divisions", 1, INT64_C (1) << 40, &key))
        return false;
      if (!is_power_of_two (key))
        return fail_at (parser, where, "a size in MiB must be a power of two");
      index = MIN (63 - __builtin_clzll ((unsigned long long) key), ZS_ROUNDUP_INTERVALS - 1);
    }
    if (!expect (parser, ':'))
      return false;
    const char *value_at = parser->at;
    int64_t value;

    if (!read_integer (parser, "roundup_power2_divisions", 0, INT64_C (1) << 20, &value))
      return false;
    if (value != 0 && !is_power_of_two (value))
      return fail_at (parser, value_at, "divisions must be a power of two");
    if (*where == '>') {
      for (int i = MAX (last, 0); i < ZS_ROUNDUP_INTERVALS; i++)
        values[i] = value;
      last = ZS_ROUNDUP_INTERVALS - 1;
    } else {
      if (first == 0)
        for (int i = 0; i < index; i++)
          values[i] = value;
      values[index] = value;
      last = MAX (last, index);
    }
    if (*parser->at != ',')
      break;
    parser->at++;
  } while (true);
  if (!expect (parser, ']'))
    return false;
  memcpy (divisions, values, sizeof values);
  return true;
}

static bool
read_divisions (Parser *parser, int64_t *divisions)
{
  skip_blanks (parser);
  if (*parser->at == '[')
    return read_division_list (parser, divisions);
  const char *where = parser->at;
  int64_t value;

  if (!read_integer (parser, "roundup_power2_divisions", 1, INT64_C (1) << 20, &value))
    return false;
  if (!is_power_of_two (value))
    return fail_at (parser, where, "divisions must be a power of two");
  for (int i = 0; i < ZS_ROUNDUP_INTERVALS; i++)
    divisions[i] = value;
  return true;
}

static bool
read_backend (Parser *parser, bool *ret_async)
{
  int length;
  const char *word = next_word (parser, &length);

  if (length == 6 && strncmp (word, "native", 6) == 0)
    *ret_async = false;
  else if (length == 15 && strncmp (word, "cudaMallocAsync", 15) == 0)
    *ret_async = true;
  else
    return fail_at (parser, word, "'backend' must be native or cudaMallocAsync, not '%.*s'", length,
                    word);
  return true;
}

static bool
read_value (Parser *parser, const Option *option, ZsAllocConf *conf)
{
  void *slot = (char *) conf + option->offset;
  const char *where = parser->at;
  int64_t value;

  switch (option->type) {
  case OPTION_BOOL:
    return read_bool (parser, option->key, slot);
  case OPTION_FRACTION:
    return read_fraction (parser, option, slot);
  case OPTION_BACKEND:
    return read_backend (parser, slot);
  case OPTION_DIVISIONS:
    return read_divisions (parser, slot);
  case OPTION_MIB:
  case OPTION_COUNT:
    if (!read_integer (parser, option->key, option->min, option->max, &value))
      return false;
    if (option->power_of_two && !is_power_of_two (value))
      return fail_at (parser, where, "'%s' must be a power of two", option->key);
    *(int64_t *) slot = option->type == OPTION_MIB ? value * ZS_MIB : value;
    return true;
  }
  g_assert_not_reached ();
}

/* Letters to change, add or leave out to get from A to B; both short. */
static int
distance (const char *a, const char *b)
{
  int row[64];
  int n = MIN ((int) strlen (b), 63);

  for (int j = 0; j <= n; j++)
    row[j] = j;
  for (int i = 1; a[i - 1] != '\0'; i++) {
    int diagonal = row[0];

    row[0] = i;
    for (int j = 1; j <= n; j++) {
      int above = row[j];

      row[j] = MIN (MIN (row[j - 1], above) + 1, diagonal + (a[i - 1] != b[j - 1]));
      diagonal = above;
    }
  }
  return row[n];
}

static bool
fail_unknown (Parser *parser, const char *where, const char *key)
{
  const char *nearest = NULL;
  int best = 8;

  for (size_t i = 0; i < G_N_ELEMENTS (OPTIONS); i++) {
    int d = distance (key, OPTIONS[i].key);

    if (d < best) {
      best = d;
      nearest = OPTIONS[i].key;
    }
  }
  if (nearest != NULL)
    return fail_at (parser, where, "unknown option '%s'; did you mean '%s'?", key, nearest);
  return fail_at (parser, where, "unknown option '%s'", key);
}

void
zs_alloc_conf_init (ZsAllocConf *conf)
{
  *conf = (ZsAllocConf) {
    .max_split_size = INT64_MAX,
    .roundup_bypass_threshold = INT64_MAX,
    .large_segment_size = 20 * ZS_MIB,
    .max_non_split_rounding = 20 * ZS_MIB,
    .pinned_num_register_threads = 1,
  };
}

bool
zs_alloc_conf_parse (const char *text, ZsAllocConf *ret_conf, GError **error)
{
  Parser parser = { text, text, error };
  ZsAllocConf conf;

  zs_alloc_conf_init (&conf);
  for (bool first = true; text != NULL; first = false) {
    skip_blanks (&parser);
    if (*parser.at == '\0')
      break;
    if (!first && !expect (&parser, ','))
      return false;
    if (*parser.at == '\0')
      break;   /* a comma at the end passes in PyTorch too */

    int length;
    const char *word = next_word (&parser, &length);
    g_autofree char *key = g_strndup (word, (gsize) length);
    const Option *option = NULL;

    for (size_t i = 0; i < G_N_ELEMENTS (OPTIONS); i++)
      if (strcmp (OPTIONS[i].key, key) == 0)
        option = &OPTIONS[i];
    if (option == NULL)
      return fail_unknown (&parser, word, key);
    if (!expect (&parser, ':') || !read_value (&parser, option, &conf))
      return false;
  }
  *ret_conf = conf;
  return true;
}

static void
append_divisions (GString *text, const int64_t *divisions)
{
  bool same = true;

  for (int i = 1; i < ZS_ROUNDUP_INTERVALS; i++)
    same = same && divisions[i] == divisions[0];
  g_string_append (text, "roundup_power2_divisions:");
  if (same) {
    g_string_append_printf (text, "%" G_GINT64_FORMAT, divisions[0]);
    return;
  }
  for (int i = 0; i < ZS_ROUNDUP_INTERVALS; i++)
    g_string_append_printf (text, "%s%d:%" G_GINT64_FORMAT, i == 0 ? "[" : ",", 1 << i,
                            divisions[i]);
  g_string_append_c (text, ']');
}

char *
zs_alloc_conf_format (const ZsAllocConf *conf)
{
  GString *text = g_string_new (NULL);
  ZsAllocConf standard;
  char number[G_ASCII_DTOSTR_BUF_SIZE];

  zs_alloc_conf_init (&standard);
  for (size_t i = 0; i < G_N_ELEMENTS (OPTIONS); i++) {
    const Option *option = &OPTIONS[i];
    const void *slot = (const char *) conf + option->offset;
    const void *standard_slot = (const char *) &standard + option->offset;
    static const size_t SIZES[] = {
      [OPTION_MIB] = sizeof (int64_t), [OPTION_COUNT] = sizeof (int64_t),
      [OPTION_BOOL] = sizeof (bool), [OPTION_FRACTION] = sizeof (double),
      [OPTION_BACKEND] = sizeof (bool),
      [OPTION_DIVISIONS] = sizeof standard.roundup_power2_divisions,
    };

    if (memcmp (slot, standard_slot, SIZES[option->type]) == 0)
      continue;
    if (text->len > 0)
      g_string_append_c (text, ',');
    switch (option->type) {
    case OPTION_MIB:
      g_string_append_printf (text, "%s:%" G_GINT64_FORMAT, option->key,
                              *(const int64_t *) slot / ZS_MIB);
      break;
    case OPTION_COUNT:
      g_string_append_printf (text, "%s:%" G_GINT64_FORMAT, option->key, *(const int64_t *) slot);
      break;
    case OPTION_BOOL:
      g_string_append_printf (text, "%s:%s", option->key, *(const bool *) slot ? "True" : "False");
      break;
    case OPTION_FRACTION:
      g_string_append_printf (text, "%s:%s", option->key,
                              g_ascii_dtostr (number, sizeof number, *(const double *) slot));
      break;
    case OPTION_BACKEND:
      g_string_append (text, "backend:cudaMallocAsync");
      break;
    case OPTION_DIVISIONS:
      append_divisions (text, slot);
      break;
    }
  }
  return g_string_free (text, FALSE);
}

int64_t
zs_alloc_conf_round (const ZsAllocConf *conf, int64_t bytes)
{
  if (bytes < 512)
    return 512;
  if (bytes <= conf->roundup_bypass_threshold) {
    int log2 = 63 - __builtin_clzll ((unsigned long long) bytes);
    int64_t divisions = conf->roundup_power2_divisions[CLAMP (log2 - 20, 0,
                                                              ZS_ROUNDUP_INTERVALS - 1)];

    if (divisions > 1 && bytes > 512 * divisions) {
      int64_t floor = INT64_C (1) << log2;
      int64_t step = floor / divisions;   /* at least 512: floor >= 512 * divisions */

      return (bytes + step - 1) / step * step;
    }
  }
  return (bytes + 511) / 512 * 512;
}

int64_t
zs_alloc_conf_segment (const ZsAllocConf *conf, int64_t rounded)
{
  if (rounded <= ZS_MIB)
    return 2 * ZS_MIB;
  if (rounded < 10 * ZS_MIB)
    return conf->large_segment_size;
  return (rounded + 2 * ZS_MIB - 1) / (2 * ZS_MIB) * (2 * ZS_MIB);
}
