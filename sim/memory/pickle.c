/* pickle.c: a stack machine for the opcodes of plain data.  SPDX-License-Identifier: MIT
 *
 * Opcodes: Lib/pickletools.py of CPython. */
#include "config.h"

#include <string.h>

#include "sim/memory/history.h"
#include "sim/memory/pickle.h"

#define MAX_ITEMS (1u << 28)   /* values in one container */

struct Pickle {
  GPtrArray  *containers;   /* PickleItems */
  PickleValue top;
};

typedef struct {
  Pickle        *pickle;
  const uint8_t *data, *at, *end;
  GArray        *stack;     /* PickleValue */
  GArray        *memo;      /* PickleValue */
  GError       **error;
} Reader;

static void
free_items (gpointer data)
{
  PickleItems *items = data;

  g_free (items->values);
  g_free (items);
}

void
pickle_free (Pickle *pickle)
{
  if (pickle == NULL)
    return;
  g_ptr_array_free (pickle->containers, TRUE);
  g_free (pickle);
}

static bool G_GNUC_PRINTF (2, 3)
fail (Reader *reader, const char *format, ...)
{
  va_list args;

  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);

  va_end (args);
  g_set_error (reader->error, ZS_HISTORY_ERROR, 0, "byte %" G_GINT64_FORMAT ": %s",
               (gint64) (reader->at - reader->data), message);
  return false;
}

static bool
need (Reader *reader, uint64_t n)
{
  return (uint64_t) (reader->end - reader->at) >= n || fail (reader, "the file ends too early");
}

static void
push (Reader *reader, PickleValue value)
{
  g_array_append_val (reader->stack, value);
}

static void
push_integer (Reader *reader, int64_t integer)
{
  push (reader, (PickleValue) { .type = PICKLE_INT, .integer = integer });
}

static PickleValue
new_container (Reader *reader, PickleType type)
{
  PickleItems *items = g_new0 (PickleItems, 1);

  g_ptr_array_add (reader->pickle->containers, items);
  return (PickleValue) { .type = type, .items = items };
}

static bool
append (Reader *reader, PickleItems *items, const PickleValue *values, guint n)
{
  if (n > MAX_ITEMS - items->n)
    return fail (reader, "too many elements");
  if (items->n + n > items->room) {
    items->room = MAX (items->n + n, items->room * 2);
    items->values = g_renew (PickleValue, items->values, items->room);
  }
  if (n > 0)
    memcpy (items->values + items->n, values, n * sizeof *values);
  items->n += n;
  return true;
}

static uint64_t
little_endian (const uint8_t *at, unsigned int n)
{
  uint64_t value = 0;

  for (unsigned int i = n; i-- > 0;)
    value = value << 8 | at[i];
  return value;
}

static bool
read_string (Reader *reader, unsigned int n_length)
{
  if (!need (reader, n_length))
    return false;
  uint64_t length = little_endian (reader->at, n_length);

  reader->at += n_length;
  if (length > UINT32_MAX)
    return fail (reader, "a string is too long");
  if (!need (reader, length))
    return false;
  push (reader, (PickleValue) { .type = PICKLE_STRING, .length = (uint32_t) length,
                                .text = (const char *) reader->at });
  reader->at += length;
  return true;
}

/* Two's complement, N bytes. */
static bool
read_long (Reader *reader, unsigned int n_length)
{
  if (!need (reader, n_length))
    return false;
  uint64_t n = little_endian (reader->at, n_length);

  reader->at += n_length;
  if (!need (reader, n))
    return false;
  /* A ninth byte of zero makes a number above 2^63 positive: a stream's handle. */
  if (n > 9 || (n == 9 && reader->at[8] != 0))
    return fail (reader, "an integer is too large");
  uint64_t value = little_endian (reader->at, (unsigned int) MIN (n, 8));

  if (n > 0 && n < 8 && (reader->at[n - 1] & 0x80) != 0)
    value |= ~UINT64_C (0) << (8 * n);
  reader->at += n;
  push_integer (reader, (int64_t) value);
  return true;
}

/* The stack index above the last mark, which is removed; the marked values stay for the caller. */
static bool
find_mark (Reader *reader, guint *ret_first)
{
  for (guint i = reader->stack->len; i-- > 0;)
    if (g_array_index (reader->stack, PickleValue, i).type == PICKLE_MARK) {
      *ret_first = i;
      return true;
    }
  return fail (reader, "no mark on the stack");
}

/* What an opcode takes: the top N values, or with N < 0 what lies above the mark.  *RET_FIRST: where it
 * begins on the stack, the mark included, which *RET_SKIP counts. */
static bool
find_values (Reader *reader, int n, guint *ret_first, guint *ret_skip)
{
  *ret_skip = n < 0;
  if (n < 0)
    return find_mark (reader, ret_first);
  if (reader->stack->len < (guint) n)
    return fail (reader, "too few values on the stack");
  *ret_first = reader->stack->len - (guint) n;
  return true;
}

/* A container from what lies above the mark, or the top N values. */
static bool
collect (Reader *reader, PickleType type, int n)
{
  guint first = 0, skip = 0;

  if (!find_values (reader, n, &first, &skip))
    return false;
  PickleValue container = new_container (reader, type);
  guint count = reader->stack->len - first - skip;

  if (type == PICKLE_DICT && count % 2 != 0)
    return fail (reader, "a key without a value");
  if (!append (reader, container.items,
               (PickleValue *) (void *) reader->stack->data + first + skip, count))
    return false;
  g_array_set_size (reader->stack, first);
  push (reader, container);
  return true;
}

/* Append what lies above the mark (or the top N values) to the container below. */
static bool
extend (Reader *reader, PickleType type, int n)
{
  guint first = 0, skip = 0;

  if (!find_values (reader, n, &first, &skip))
    return false;
  if (first == 0)
    return fail (reader, "no container on the stack");

  PickleValue *values = (PickleValue *) (void *) reader->stack->data;
  guint count = reader->stack->len - first - skip;

  if (values[first - 1].type != type)
    return fail (reader, "not a %s on the stack", type == PICKLE_DICT ? "dictionary" : "list");
  if (type == PICKLE_DICT && count % 2 != 0)
    return fail (reader, "a key without a value");
  if (!append (reader, values[first - 1].items, values + first + skip, count))
    return false;
  g_array_set_size (reader->stack, first);
  return true;
}

static bool
put_memo (Reader *reader, uint64_t index)
{
  if (reader->stack->len == 0)
    return fail (reader, "nothing to remember");
  if (index > reader->memo->len + UINT64_C (1024))   /* picklers count up */
    return fail (reader, "a memo index is too large");
  if (index >= reader->memo->len)
    g_array_set_size (reader->memo, (guint) index + 1);
  g_array_index (reader->memo, PickleValue, index)
    = g_array_index (reader->stack, PickleValue, reader->stack->len - 1);
  return true;
}

static bool
get_memo (Reader *reader, uint64_t index)
{
  if (index >= reader->memo->len)
    return fail (reader, "nothing remembered under %" G_GUINT64_FORMAT, index);
  push (reader, g_array_index (reader->memo, PickleValue, index));
  return true;
}

/* An unsigned argument of N bytes. */
static bool
argument (Reader *reader, unsigned int n, uint64_t *ret_value)
{
  if (!need (reader, n))
    return false;
  *ret_value = little_endian (reader->at, n);
  reader->at += n;
  return true;
}

static bool
read_float (Reader *reader)
{
  if (!need (reader, 8))
    return false;
  uint64_t bits = 0;
  double number;

  for (int i = 0; i < 8; i++)
    bits = bits << 8 | *reader->at++;
  memcpy (&number, &bits, sizeof number);
  push (reader, (PickleValue) { .type = PICKLE_FLOAT, .number = number });
  return true;
}

/* One opcode; *ret_stop at the end. */
static bool
step (Reader *reader, bool *ret_stop)
{
  uint64_t value;

  if (!need (reader, 1))
    return false;
  uint8_t opcode = *reader->at++;

  switch (opcode) {
  case 0x80:   /* PROTO */
    return argument (reader, 1, &value);
  case 0x95:   /* FRAME */
    return argument (reader, 8, &value);
  case '(':
    push (reader, (PickleValue) { .type = PICKLE_MARK });
    return true;
  case 'N':
    push (reader, (PickleValue) { .type = PICKLE_NONE });
    return true;
  case 0x88:
  case 0x89:
    push (reader, (PickleValue) { .type = PICKLE_BOOL, .integer = opcode == 0x88 });
    return true;
  case 'J':
    if (!argument (reader, 4, &value))
      return false;
    push_integer (reader, (int32_t) (uint32_t) value);
    return true;
  case 'K':
  case 'M':
    if (!argument (reader, opcode == 'K' ? 1 : 2, &value))
      return false;
    push_integer (reader, (int64_t) value);
    return true;
  case 0x8a:   /* LONG1 */
    return read_long (reader, 1);
  case 0x8b:   /* LONG4 */
    return read_long (reader, 4);
  case 'G':
    return read_float (reader);
  case 0x8c:   /* SHORT_BINUNICODE */
    return read_string (reader, 1);
  case 'X':
    return read_string (reader, 4);
  case 0x8d:   /* BINUNICODE8 */
    return read_string (reader, 8);
  case '}':
    return collect (reader, PICKLE_DICT, 0);
  case ']':
    return collect (reader, PICKLE_LIST, 0);
  case ')':
    return collect (reader, PICKLE_TUPLE, 0);
  case 'd':
    return collect (reader, PICKLE_DICT, -1);
  case 'l':
    return collect (reader, PICKLE_LIST, -1);
  case 't':
    return collect (reader, PICKLE_TUPLE, -1);
  case 0x85:
  case 0x86:
  case 0x87:
    return collect (reader, PICKLE_TUPLE, opcode - 0x84);
  case 'a':
    return extend (reader, PICKLE_LIST, 1);
  case 'e':
    return extend (reader, PICKLE_LIST, -1);
  case 's':
    return extend (reader, PICKLE_DICT, 2);
  case 'u':
    return extend (reader, PICKLE_DICT, -1);
  case 0x94:   /* MEMOIZE */
    return put_memo (reader, reader->memo->len);
  case 'q':
  case 'r':
    return argument (reader, opcode == 'q' ? 1 : 4, &value) && put_memo (reader, value);
  case 'h':
  case 'j':
    return argument (reader, opcode == 'h' ? 1 : 4, &value) && get_memo (reader, value);
  case '.':
    *ret_stop = true;
    if (reader->stack->len != 1)
      return fail (reader, "%u values at the end, not one", reader->stack->len);
    reader->pickle->top = g_array_index (reader->stack, PickleValue, 0);
    return true;
  default:
    reader->at--;
    return fail (reader, "opcode 0x%02x is not plain data, and nothing else is read", opcode);
  }
}

Pickle *
pickle_read (const uint8_t *data, gsize length, GError **error)
{
  g_autoptr (Pickle) pickle = g_new0 (Pickle, 1);
  Reader reader = {
    .pickle = pickle, .data = data, .at = data, .end = data + length, .error = error,
    .stack = g_array_new (FALSE, FALSE, sizeof (PickleValue)),
    .memo = g_array_new (FALSE, TRUE, sizeof (PickleValue)),
  };
  bool stop = false, ok = true;

  pickle->containers = g_ptr_array_new_with_free_func (free_items);
  while (ok && !stop)
    ok = step (&reader, &stop);
  g_array_free (reader.stack, TRUE);
  g_array_free (reader.memo, TRUE);
  return ok ? g_steal_pointer (&pickle) : NULL;
}

const PickleValue *
pickle_top (const Pickle *pickle)
{
  return &pickle->top;
}

const PickleValue *
pickle_get (const PickleValue *value, const char *key)
{
  size_t length = strlen (key);

  if (value == NULL || value->type != PICKLE_DICT)
    return NULL;
  for (uint32_t i = value->items->n; i >= 2; i -= 2) {
    const PickleValue *name = &value->items->values[i - 2];

    if (name->type == PICKLE_STRING && name->length == length
        && memcmp (name->text, key, length) == 0)
      return &value->items->values[i - 1];
  }
  return NULL;
}

const PickleValue *
pickle_at (const PickleValue *value, uint32_t i)
{
  return i < pickle_length (value) ? &value->items->values[i] : NULL;
}

uint32_t
pickle_length (const PickleValue *value)
{
  return value != NULL && (value->type == PICKLE_LIST || value->type == PICKLE_TUPLE)
           ? value->items->n : 0;
}

int64_t
pickle_integer (const PickleValue *value, const char *key, int64_t otherwise)
{
  const PickleValue *found = pickle_get (value, key);

  return found != NULL && found->type == PICKLE_INT ? found->integer : otherwise;
}
