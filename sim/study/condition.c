/* condition.c: reads an expression to a list of operations in the order in which they are done.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/condition.h"

#include <math.h>
#include <string.h>

#include "sim/base/error.h"
#include "sim/base/units.h"

#define MAX_STEPS 256
#define MAX_DEPTH 32

typedef enum {
  STEP_NUMBER, STEP_TEXT, STEP_VARIABLE,
  STEP_OR, STEP_AND, STEP_NOT, STEP_EQUAL, STEP_UNEQUAL, STEP_LESS, STEP_LESS_EQUAL, STEP_MORE,
  STEP_MORE_EQUAL, STEP_ADD, STEP_SUBTRACT, STEP_MULTIPLY, STEP_DIVIDE, STEP_REMAINDER
} StepKind;

typedef struct {
  StepKind kind;
  double   number;
  int      variable;
  char    *text;
} Step;

struct ZsCondition {
  Step steps[MAX_STEPS];
  int  n_steps;
};

typedef struct {
  const char *text, *at;
  ZsCondition *condition;
  ZsConditionFind find;
  void  *self;
  int    depth;
  GError **error;
} Reader;

static bool read_or (Reader *reader);

static bool
fail (Reader *reader, const char *what)
{
  g_set_error (reader->error, ZS_ERROR, ZS_ERROR_INPUT, "'%s', column %d: %s", reader->text,
               (int) (reader->at - reader->text) + 1, what);
  return false;
}

static void
skip_blanks (Reader *reader)
{
  while (g_ascii_isspace (*reader->at))
    reader->at++;
}

static Step *
add (Reader *reader, StepKind kind)
{
  Step *step = &reader->condition->steps[reader->condition->n_steps];

  if (reader->condition->n_steps == MAX_STEPS) {
    fail (reader, "the condition is too long");
    return NULL;
  }
  reader->condition->n_steps++;
  *step = (Step) { .kind = kind };
  return step;
}

/* Is the operator WORD next?  Then pass it. */
static bool
pass (Reader *reader, const char *word)
{
  size_t length = strlen (word);

  skip_blanks (reader);
  if (strncmp (reader->at, word, length) != 0
      || (g_ascii_isalpha (word[0])
          && (g_ascii_isalnum (reader->at[length]) || strchr ("_.", reader->at[length]) != NULL)
          && reader->at[length] != '\0'))
    return false;
  reader->at += length;
  return true;
}

static bool
is_word (char c)
{
  return c != '\0' && (g_ascii_isalnum (c) || strchr ("_.-", c) != NULL);
}

static bool
read_quoted (Reader *reader)
{
  char quote = *reader->at++;
  const char *end = strchr (reader->at, quote);
  Step *step;

  if (end == NULL)
    return fail (reader, "the quote is not closed");
  if ((step = add (reader, STEP_TEXT)) == NULL)
    return false;
  step->text = g_strndup (reader->at, (gsize) (end - reader->at));
  reader->at = end + 1;
  return true;
}

/* A number, a setting or a word. */
static bool
read_word (Reader *reader)
{
  const char *start = reader->at;

  while (is_word (*reader->at)
         || (*reader->at == '+' && reader->at > start && strchr ("eE", reader->at[-1]) != NULL
             && g_ascii_isdigit (start[0])))
    reader->at++;
  if (reader->at == start)
    return fail (reader, *start == '\0' ? "something is missing at the end"
                                        : "a number, a setting or a word is wanted");
  g_autofree char *word = g_strndup (start, (gsize) (reader->at - start));
  static const char *const OPERATORS[] = { "and", "or", "not", NULL };
  double number;

  if (g_strv_contains (OPERATORS, word)) {
    reader->at = start;
    return fail (reader, "a number, a setting or a word is wanted");
  }
  int variable = reader->find (reader->self, word);
  bool is_number = zs_number_parse (word, &number, NULL);
  Step *step = add (reader, variable >= 0 ? STEP_VARIABLE : is_number ? STEP_NUMBER : STEP_TEXT);

  if (step == NULL)
    return false;
  step->variable = variable;
  step->number = is_number ? number : 0;
  if (step->kind == STEP_TEXT)
    step->text = g_steal_pointer (&word);
  return true;
}

static bool
read_primary (Reader *reader)
{
  skip_blanks (reader);
  if (*reader->at == '\'' || *reader->at == '"')
    return read_quoted (reader);
  if (*reader->at != '(')
    return read_word (reader);
  reader->at++;
  if (++reader->depth > MAX_DEPTH)
    return fail (reader, "too many parentheses");
  if (!read_or (reader))
    return false;
  reader->depth--;
  skip_blanks (reader);
  if (*reader->at != ')')
    return fail (reader, "')' is missing");
  reader->at++;
  return true;
}

typedef struct { const char *word; StepKind kind; } Operator;

/* NEXT (OPERATOR NEXT)*; ONCE: at most one. */
static bool
read_chain (Reader *reader, bool (*next) (Reader *reader), const Operator *operators, size_t n,
            bool once)
{
  if (!next (reader))
    return false;
  for (;;) {
    size_t i = 0;

    while (i < n && !pass (reader, operators[i].word))
      i++;
    if (i == n)
      return true;
    if (!next (reader) || add (reader, operators[i].kind) == NULL)
      return false;
    if (once)
      return true;
  }
}

static bool
read_product (Reader *reader)
{
  static const Operator OPERATORS[] = { { "*", STEP_MULTIPLY }, { "/", STEP_DIVIDE },
                                        { "%", STEP_REMAINDER } };

  return read_chain (reader, read_primary, OPERATORS, G_N_ELEMENTS (OPERATORS), false);
}

static bool
read_sum (Reader *reader)
{
  static const Operator OPERATORS[] = { { "+", STEP_ADD }, { "-", STEP_SUBTRACT } };

  return read_chain (reader, read_product, OPERATORS, G_N_ELEMENTS (OPERATORS), false);
}

static bool
read_comparison (Reader *reader)
{
  static const Operator OPERATORS[] = { { "==", STEP_EQUAL }, { "!=", STEP_UNEQUAL },
                                        { "<=", STEP_LESS_EQUAL }, { "<", STEP_LESS },
                                        { ">=", STEP_MORE_EQUAL }, { ">", STEP_MORE } };

  return read_chain (reader, read_sum, OPERATORS, G_N_ELEMENTS (OPERATORS), true);
}

static bool
read_not (Reader *reader)
{
  if (!pass (reader, "not"))
    return read_comparison (reader);
  if (++reader->depth > MAX_DEPTH)
    return fail (reader, "too many 'not'");
  bool ok = read_not (reader) && add (reader, STEP_NOT) != NULL;

  reader->depth--;
  return ok;
}

static bool
read_and (Reader *reader)
{
  static const Operator OPERATORS[] = { { "and", STEP_AND } };

  return read_chain (reader, read_not, OPERATORS, 1, false);
}

static bool
read_or (Reader *reader)
{
  static const Operator OPERATORS[] = { { "or", STEP_OR } };

  return read_chain (reader, read_and, OPERATORS, 1, false);
}

ZsCondition *
zs_condition_new (const char *text, ZsConditionFind find, void *self, GError **error)
{
  g_autoptr (ZsCondition) condition = g_new0 (ZsCondition, 1);
  Reader reader = { .text = text, .at = text, .condition = condition, .find = find, .self = self,
                    .error = error };

  if (!read_or (&reader))
    return NULL;
  skip_blanks (&reader);
  if (*reader.at != '\0') {
    fail (&reader, "'and', 'or' or a comparison is wanted here");
    return NULL;
  }
  return g_steal_pointer (&condition);
}

void
zs_condition_free (ZsCondition *condition)
{
  if (condition == NULL)
    return;
  for (int i = 0; i < condition->n_steps; i++)
    g_free (condition->steps[i].text);
  g_free (condition);
}

bool
zs_condition_uses (const ZsCondition *condition, int variable)
{
  for (int i = 0; i < condition->n_steps; i++)
    if (condition->steps[i].kind == STEP_VARIABLE && condition->steps[i].variable == variable)
      return true;
  return false;
}

/* ---- asking ---- */

typedef struct {
  bool        is_number;
  double      number;
  const char *text;        /* if it is no number */
} Value;

static Value
of_number (double number)
{
  return (Value) { .is_number = true, .number = number };
}

static Value
of_text (const char *text)
{
  double number;

  if (zs_number_parse (text, &number, NULL))
    return of_number (number);
  if (g_ascii_strcasecmp (text, "true") == 0 || g_ascii_strcasecmp (text, "false") == 0)
    return of_number (g_ascii_tolower (text[0]) == 't');
  return (Value) { .text = text };
}

static bool
is_true (Value value)
{
  return value.is_number ? value.number != 0 : value.text[0] != '\0';
}

static int
order (Value a, Value b)
{
  if (a.is_number && b.is_number)
    return (a.number > b.number) - (a.number < b.number);
  if (a.is_number != b.is_number)
    return a.is_number ? -1 : 1;
  return strcmp (a.text, b.text);
}

static Value
combine (StepKind kind, Value a, Value b)
{
  double x = a.is_number ? a.number : NAN, y = b.is_number ? b.number : NAN;

  switch (kind) {
  case STEP_OR:
    return of_number (is_true (a) || is_true (b));
  case STEP_AND:
    return of_number (is_true (a) && is_true (b));
  case STEP_EQUAL:
    return of_number (order (a, b) == 0);
  case STEP_UNEQUAL:
    return of_number (order (a, b) != 0);
  case STEP_LESS:
    return of_number (order (a, b) < 0);
  case STEP_LESS_EQUAL:
    return of_number (order (a, b) <= 0);
  case STEP_MORE:
    return of_number (order (a, b) > 0);
  case STEP_MORE_EQUAL:
    return of_number (order (a, b) >= 0);
  case STEP_ADD:
    return of_number (x + y);
  case STEP_SUBTRACT:
    return of_number (x - y);
  case STEP_MULTIPLY:
    return of_number (x * y);
  case STEP_DIVIDE:
    return of_number (x / y);
  case STEP_REMAINDER:
    return of_number (fmod (x, y));
  default:
    g_assert_not_reached ();
  }
}

bool
zs_condition_holds (const ZsCondition *condition, const char *const *values)
{
  Value stack[MAX_STEPS];
  int n = 0;

  for (int i = 0; i < condition->n_steps; i++) {
    const Step *step = &condition->steps[i];

    switch (step->kind) {
    case STEP_NUMBER:
      stack[n++] = of_number (step->number);
      break;
    case STEP_TEXT:
      stack[n++] = of_text (step->text);
      break;
    case STEP_VARIABLE:
      stack[n++] = of_text (values[step->variable]);
      break;
    case STEP_NOT:
      stack[n - 1] = of_number (!is_true (stack[n - 1]));
      break;
    default:
      n--;
      stack[n - 1] = combine (step->kind, stack[n - 1], stack[n]);
    }
  }
  return is_true (stack[0]);
}
