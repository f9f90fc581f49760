/* known.c: results by what was run.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/run/known.h"

#include "sim/base/digest.h"

#include <string.h>

/* What is kept: so many results, and so many bytes of them (a timeline of LLaMA-7B, packed, takes 0.4 MB: all
 * values of two axes of ten have room). */
#define MOST_RESULTS 4096
#define MOST_BYTES   (INT64_C (72) << 20)
/* Plans of more ranks or micro-steps cost too much to be made for nothing. */
#define MOST_RANKS       16
#define MOST_MICRO_STEPS 12
/* With fewer known than a part in SELDOM, only every SELDOM-th of SAMPLE runs is looked for. */
#define FIRST_LOOKS 64
#define SELDOM      4
#define SAMPLE      16

typedef struct {
  uint64_t a, b;
} Key;

typedef struct {
  Key       key;
  ZsResult *result;        /* without its timeline */
  GByteArray *points;      /* which is here; NULL: none */
  guint     n_points;
  int64_t   bytes;
} Known;

struct ZsRunCache {
  GMutex      mutex;
  GHashTable *results;     /* Known, by its key */
  GQueue      order;       /* Known, the oldest first */
  int64_t     bytes;
  int64_t     n_runs, n_looked, n_known;
};

static guint
key_hash (gconstpointer key)
{
  return (guint) ((const Key *) key)->a;
}

static gboolean
key_equal (gconstpointer a, gconstpointer b)
{
  const Key *x = a, *y = b;

  return x->a == y->a && x->b == y->b;
}

static void
free_known (gpointer data)
{
  Known *known = data;

  zs_result_free (known->result);
  if (known->points != NULL)
    g_byte_array_unref (known->points);
  g_free (known);
}

ZsRunCache *
zs_run_cache_new (void)
{
  ZsRunCache *cache = g_new0 (ZsRunCache, 1);

  g_mutex_init (&cache->mutex);
  g_queue_init (&cache->order);
  cache->results = g_hash_table_new_full (key_hash, key_equal, NULL, free_known);
  return cache;
}

void
zs_run_cache_free (ZsRunCache *cache)
{
  if (cache == NULL)
    return;
  g_queue_clear (&cache->order);
  g_hash_table_unref (cache->results);
  g_mutex_clear (&cache->mutex);
  g_free (cache);
}

void
zs_run_cache_count (ZsRunCache *cache, int64_t *ret_n_looked, int64_t *ret_n_known)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&cache->mutex);

  *ret_n_looked = cache->n_looked;
  *ret_n_known = cache->n_known;
}

/* ---- what a run is ---- */

static void
add (Key *key, uint64_t value)
{
  key->a = zs_digest_add (key->a, value);
  key->b = zs_digest_add (key->b + UINT64_C (0xbf58476d1ce4e5b9), value);
}

static void
add_double (Key *key, double value)
{
  uint64_t bits;

  memcpy (&bits, &value, sizeof bits);
  add (key, bits);
}

static void
add_text (Key *key, const char *text)
{
  gsize n = strlen (text);

  key->a = zs_digest_bytes (key->a, text, n);
  key->b = zs_digest_bytes (key->b, text, n);
}

/* Three chains, one for each word of an instruction, so that none waits for another. */
static void
add_code (Key *key, const ZsInstruction *code, int64_t n)
{
  uint64_t chains[3] = { key->a, key->b, (uint64_t) n };

  for (int64_t i = 0; i < n; i++) {
    uint64_t words[3];

    G_STATIC_ASSERT (sizeof words == sizeof (ZsInstruction));
    memcpy (words, &code[i], sizeof words);
    for (int w = 0; w < 3; w++)
      chains[w] = zs_digest_add (chains[w], words[w]);
  }
  for (int w = 0; w < 3; w++)
    add (key, chains[w]);
}

static void
add_tables (Key *key, const ZsPlan *plan)
{
  for (uint32_t k = 0; k < plan->n_kernels; k++) {
    const ZsKernel *kernel = &plan->kernels[k];

    add (key, (uint64_t) kernel->kind << 32 | (uint64_t) kernel->form << 24
                | (uint64_t) kernel->launch << 16 | (uint64_t) kernel->element_bytes << 8
                | kernel->phase_class);
    add (key, (uint64_t) kernel->heads << 32 | (uint32_t) kernel->kv_heads);
    add (key, (uint64_t) kernel->m);
    add (key, (uint64_t) kernel->n);
    add (key, (uint64_t) kernel->k);
    add (key, (uint64_t) kernel->bytes);
    add_double (key, kernel->flops);
  }
  for (uint32_t l = 0; l < plan->n_labels; l++) {
    add (key, (uint64_t) plan->labels[l].layer);
    add_text (key, plan->labels[l].what);
  }
}

static void
add_plan (Key *key, const ZsWork *work, int64_t rank)
{
  ZsPlanSource source = work->open (work->self, rank);
  const ZsPlan *plan, *last = NULL;

  for (; (plan = source.next (source.self)) != NULL; last = plan)
    add_code (key, plan->code, plan->n_code);
  if (last != NULL)
    add_tables (key, last);
  if (source.model_flops != NULL)
    add_double (key, source.model_flops (source.self, 1, 1));
  if (source.hardware_flops != NULL)
    add_double (key, source.hardware_flops (source.self, 1, 1));
  if (source.free != NULL)
    source.free (source.self);
}

static void
add_options (Key *key, const ZsRunOptions *options)
{
  g_autofree char *conf = zs_alloc_conf_format (&options->alloc_conf);

  add (key, (uint64_t) options->want_memory_points << 2 | (uint64_t) options->want_links << 1
              | options->no_repeats);
  add (key, (uint64_t) options->max_plans);
  add (key, (uint64_t) options->report_rank);
  add_text (key, conf);
  add (key, (uint64_t) options->memory_limit_bytes);
  add (key, (uint64_t) options->torch);
  add (key, (uint64_t) options->overflow_steps);
  add (key, (uint64_t) options->max_instructions);
  add (key, (uint64_t) options->max_events);
}

/* False: it is not to be looked for. */
static bool
make_key (const ZsWork *work, const ZsMachine *machine, const ZsRunOptions *options, Key *ret_key)
{
  int64_t n = work->one_plan ? 1 : machine->n_ranks, seen[MOST_RANKS];
  int n_seen = 0;
  Key key = { .a = 1, .b = 2 };

  if (n > MOST_RANKS || work->micro_steps == 0 || work->micro_steps > MOST_MICRO_STEPS
      || options->want_spans || options->want_memory_events || options->want_link_points
      || options->no_folding || options->alone || work->tokens != NULL)
    return false;
  add (&key, (uint64_t) (guintptr) machine);
  add_options (&key, options);
  add (&key, (uint64_t) work->group_ranks << 1 | work->one_plan);
  add (&key, (uint64_t) work->samples_per_rank);
  add (&key, (uint64_t) work->tokens_per_rank);
  for (int64_t rank = 0; rank < n; rank++) {
    int64_t plan = work->one_plan || work->plan_key == NULL ? rank : work->plan_key (work->self, rank);
    bool known = false;

    for (int s = 0; s < n_seen && !known; s++)
      known = seen[s] == plan;
    add (&key, (uint64_t) plan);
    if (known)
      continue;
    seen[n_seen++] = plan;
    add_plan (&key, work, rank);
  }
  *ret_key = key;
  return true;
}

/* ---- timelines: differences, seven bits a byte, the last byte without the top bit ---- */

enum { MOST_PACKED = 3 * 10 };

/* Blocks are multiples of 512 bytes. */
#define UNIT INT64_C (512)

static guint8 *
pack (guint8 *to, int64_t difference)
{
  uint64_t value = (uint64_t) difference << 1 ^ (uint64_t) (difference >> 63);

  for (; value >= 128; value >>= 7)
    *to++ = (guint8) (value | 128);
  *to++ = (guint8) value;
  return to;
}

static const guint8 *
unpack (const guint8 *from, int64_t *ret_value)
{
  uint64_t value = 0;

  for (int shift = 0;; shift += 7) {
    value |= (uint64_t) (*from & 127) << shift;
    if ((*from++ & 128) == 0)
      break;
  }
  *ret_value += (int64_t) (value >> 1 ^ -(value & 1));
  return from;
}

static GByteArray *
pack_points (const GArray *points)
{
  g_autofree guint8 *packed = g_malloc ((gsize) points->len * MOST_PACKED + 1);
  guint8 *to = packed;
  ZsMemoryPoint last = { .when = 0 };

  for (guint p = 0; p < points->len; p++) {
    const ZsMemoryPoint *point = &g_array_index (points, ZsMemoryPoint, p);

    to = pack (to, point->when - last.when);
    g_assert (point->allocated_bytes % UNIT == 0 && point->reserved_bytes % UNIT == 0);
    to = pack (to, (point->allocated_bytes - last.allocated_bytes) / UNIT);
    to = pack (to, (point->reserved_bytes - last.reserved_bytes) / UNIT);
    last = *point;
  }
  GByteArray *array = g_byte_array_sized_new ((guint) (to - packed));

  return g_byte_array_append (array, packed, (guint) (to - packed));
}

static GArray *
unpack_points (const GByteArray *packed, guint n)
{
  GArray *points = g_array_sized_new (FALSE, FALSE, sizeof (ZsMemoryPoint), n);
  const guint8 *at = packed->data;
  int64_t when = 0, allocated = 0, reserved = 0;

  g_array_set_size (points, n);
  for (guint p = 0; p < n; p++) {
    at = unpack (at, &when);
    at = unpack (at, &allocated);
    at = unpack (at, &reserved);
    g_array_index (points, ZsMemoryPoint, p) = (ZsMemoryPoint) {
      .when = when, .allocated_bytes = allocated * UNIT, .reserved_bytes = reserved * UNIT,
    };
  }
  return points;
}

/* ---- results ---- */

static int64_t
bytes_of (const ZsResult *result)
{
  const GArray *const arrays[] = { result->steps, result->phases, result->peak_holders, result->live,
                                   result->links };
  int64_t bytes = (int64_t) sizeof *result;

  for (size_t a = 0; a < G_N_ELEMENTS (arrays); a++)
    if (arrays[a] != NULL)
      bytes += (int64_t) arrays[a]->len
               * (int64_t) g_array_get_element_size ((GArray *) arrays[a]);
  return bytes;
}

/* Is it worth looking? */
static bool
begins (ZsRunCache *cache)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&cache->mutex);
  bool pays = cache->n_looked < FIRST_LOOKS || cache->n_known * SELDOM >= cache->n_looked;

  return cache->n_runs++ % SAMPLE == 0 || pays;
}

static ZsResult *
find (ZsRunCache *cache, const Key *key)
{
  g_autoptr (GByteArray) points = NULL;
  ZsResult *result = NULL;
  guint n_points = 0;

  g_mutex_lock (&cache->mutex);
  const Known *known = g_hash_table_lookup (cache->results, key);

  cache->n_looked++;
  if (known != NULL) {
    cache->n_known++;
    result = zs_result_copy (known->result);
    points = known->points != NULL ? g_byte_array_ref (known->points) : NULL;
    n_points = known->n_points;
  }
  g_mutex_unlock (&cache->mutex);
  if (points != NULL)
    result->memory_points = unpack_points (points, n_points);
  return result;
}

static void
keep (ZsRunCache *cache, const Key *key, const ZsResult *result)
{
  Known *known = g_new0 (Known, 1);

  known->key = *key;
  known->result = zs_result_copy (result);
  g_clear_pointer (&known->result->memory_points, g_array_unref);
  known->bytes = bytes_of (result);
  if (result->memory_points != NULL) {
    known->points = pack_points (result->memory_points);
    known->n_points = result->memory_points->len;
    known->bytes += known->points->len;
  }
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&cache->mutex);

  if (g_hash_table_contains (cache->results, key) || known->bytes > MOST_BYTES) {
    free_known (known);
    return;
  }
  cache->bytes += known->bytes;
  while (cache->bytes > MOST_BYTES || g_hash_table_size (cache->results) >= MOST_RESULTS) {
    Known *oldest = g_queue_pop_head (&cache->order);

    cache->bytes -= oldest->bytes;
    g_hash_table_remove (cache->results, &oldest->key);
  }
  g_hash_table_insert (cache->results, &known->key, known);
  g_queue_push_tail (&cache->order, known);
}

ZsResult *
zs_run_work_known (const ZsWork *work, const ZsMachine *machine, const ZsRunOptions *options,
                   ZsRunCache *cache, GError **error)
{
  Key key;
  bool looks = cache != NULL && begins (cache) && make_key (work, machine, options, &key);
  ZsResult *result = looks ? find (cache, &key) : NULL;

  if (result != NULL)
    return result;
  result = zs_run_work (work, machine, options, error);
  if (looks && result != NULL)
    keep (cache, &key, result);
  return result;
}
