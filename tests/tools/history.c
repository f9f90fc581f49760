/* history.c: reading and aligning allocator histories.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/tools/history.h"
#include "tests/tools/plan-memory.h"
#include "tests/tools/training.h"
#include "tests/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void
free_phase (gpointer data)
{
  TestPhase *phase = data;

  g_free (phase->name);
  g_array_unref (phase->events);
  g_free (phase);
}

static TestHistory *
history_new (void)
{
  TestHistory *history = g_new0 (TestHistory, 1);

  history->phases = g_ptr_array_new_with_free_func (free_phase);
  return history;
}

void
test_history_free (TestHistory *history)
{
  if (history == NULL)
    return;
  g_ptr_array_unref (history->phases);
  g_free (history);
}

static TestPhase *
add_phase (TestHistory *history, const char *name)
{
  TestPhase *phase = g_new0 (TestPhase, 1);

  phase->name = g_strdup (name);
  phase->events = g_array_new (FALSE, FALSE, sizeof (TestEvent));
  g_ptr_array_add (history->phases, phase);
  return phase;
}

TestPhase *
test_history_phase (const TestHistory *history, const char *name)
{
  for (guint i = 0; i < history->phases->len; i++) {
    TestPhase *phase = g_ptr_array_index (history->phases, i);

    if (strcmp (phase->name, name) == 0)
      return phase;
  }
  return NULL;
}

/* Bytes in use and the peak of the phase that is being filled. */
typedef struct { int64_t now, peak; } Level;

static void
count (Level *level, char action, int64_t bytes)
{
  level->now += action == 'a' ? bytes : -bytes;
  level->peak = MAX (level->peak, level->now);
}

/* Streams in the order of their first appearance; the default stream is 0 everywhere. */
typedef struct { int64_t of[16]; int n; } Streams;

static uint8_t
stream_number (Streams *streams, int64_t stream)
{
  if (streams->n == 0)
    streams->of[streams->n++] = 0;
  for (int i = 0; i < streams->n; i++)
    if (streams->of[i] == stream)
      return (uint8_t) i;
  g_assert (streams->n < (int) G_N_ELEMENTS (streams->of));
  streams->of[streams->n] = stream;
  return (uint8_t) streams->n++;
}

static void
append (TestPhase *phase, char action, int64_t bytes, uint8_t stream, uint32_t label)
{
  TestEvent event = { .action = action, .stream = stream, .label = label, .bytes = bytes };

  g_array_append_val (phase->events, event);
}

/* ---- traces ---- */

static void
clear_mark (gpointer data)
{
  g_free (((TestMark *) data)->name);
}

GArray *
test_marks_new (void)
{
  GArray *marks = g_array_new (FALSE, FALSE, sizeof (TestMark));

  g_array_set_clear_func (marks, clear_mark);
  return marks;
}

static GArray *
read_marks (const char *id)
{
  g_autofree char *path = testing_source_path ("tests/data/h200/trace_phases.tsv");
  g_autofree char *text = NULL;
  GArray *marks = test_marks_new ();

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return marks;
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (char **line = lines; *line != NULL; line++) {
    g_auto (GStrv) fields = g_strsplit (*line, "\t", -1);

    if (g_strv_length (fields) >= 3 && strcmp (fields[0], id) == 0) {
      TestMark mark = { g_strdup (fields[1]), g_ascii_strtoll (fields[2], NULL, 10) };

      g_array_append_val (marks, mark);
    }
  }
  return marks;
}

static void
end_phase (TestPhase *phase, Level *level)
{
  phase->peak = level->peak;
  phase->end = level->now;
  level->peak = level->now;
}

TestHistory *
test_history_read (const char *path, const GArray *marks)
{
  gzFile file = gzopen (path, "r");
  char line[256], action[32];
  Level level = { 0 };
  Streams streams = { .n = 0 };
  guint at = 0;

  if (file == NULL || marks->len == 0)
    return NULL;
  TestHistory *history = history_new ();
  TestPhase *phase = add_phase (history, g_array_index (marks, TestMark, 0).name);
  while (gzgets (file, line, sizeof line) != NULL) {
    long long address, bytes, stream, when;

    if (sscanf (line, "%31[^,],%lld,%lld,%lld,%lld", action, &address, &bytes, &stream, &when) != 5)
      continue;
    while (at < marks->len && when > g_array_index (marks, TestMark, at).end) {
      end_phase (phase, &level);
      at++;
      phase = add_phase (history, at < marks->len ? g_array_index (marks, TestMark, at).name : "after");
    }
    char kind = strcmp (action, "alloc") == 0 ? 'a' : strcmp (action, "free_requested") == 0 ? 'f' : 0;
    if (kind == 0)
      continue;
    append (phase, kind, bytes, stream_number (&streams, stream), 0);
    count (&level, kind, bytes);
  }
  end_phase (phase, &level);
  gzclose (file);
  return history;
}

TestHistory *
test_history_of_trace (const char *id)
{
  g_autofree char *relative = g_strdup_printf ("tests/data/h200/trace_%s.csv.gz", id);
  g_autofree char *path = testing_source_path (relative);
  g_autoptr (GArray) marks = read_marks (id);

  return test_history_read (path, marks);
}

/* ---- recorded small steps ---- */

static gzFile
open_steps (void)
{
  g_autofree char *path = testing_source_path ("tests/data/steps/micro-steps.tsv.gz");

  return gzopen (path, "r");
}

char **
test_step_names (void)
{
  GPtrArray *names = g_ptr_array_new ();
  gzFile file = open_steps ();
  char line[2048];

  while (file != NULL && gzgets (file, line, sizeof line) != NULL) {
    if (line[0] != 'C')
      continue;
    json_t *run = json_loads (line + 2, 0, NULL);

    g_ptr_array_add (names, g_strdup (json_string_value (json_object_get (run, "name"))));
    json_decref (run);
  }
  if (file != NULL)
    gzclose (file);
  g_ptr_array_add (names, NULL);
  return (char **) g_ptr_array_free (names, FALSE);
}

TestHistory *
test_history_of_step (const char *name, ZsTraining *ret_training)
{
  gzFile file = open_steps ();
  TestHistory *history = NULL;
  TestPhase *phase = NULL;
  Level level = { 0 };
  char line[2048];

  while (file != NULL && gzgets (file, line, sizeof line) != NULL) {
    if (line[0] == 'C') {
      if (history != NULL)
        break;
      json_t *run = json_loads (line + 2, 0, NULL);
      if (strcmp (json_string_value (json_object_get (run, "name")), name) == 0) {
        test_training_from_step (ret_training, run);
        history = history_new ();
        phase = add_phase (history, "");
      }
      json_decref (run);
    } else if (history != NULL && line[0] == 'P') {
      g_auto (GStrv) fields = g_strsplit (line, "\t", -1);
      g_free (phase->name);
      phase->name = g_strdup (fields[1]);
      end_phase (phase, &level);
      phase = add_phase (history, "after");
    } else if (history != NULL && (line[0] == 'a' || line[0] == 'f')) {
      g_auto (GStrv) fields = g_strsplit (line, "\t", -1);
      int64_t bytes = g_ascii_strtoll (fields[2], NULL, 10);
      append (phase, line[0], bytes, atoi (fields[3]) != 0, 0);
      count (&level, line[0], bytes);
    }
  }
  if (file != NULL)
    gzclose (file);
  return history;
}

/* ---- plans ---- */

/* The life of tensors over chunks. */
typedef struct {
  int64_t *bytes;
  uint8_t *streams;
  uint32_t room;
} Slots;

static void
remember (Slots *slots, const ZsInstruction *instruction)
{
  if (instruction->id >= slots->room) {
    slots->room = MAX (1024, instruction->id * 2);
    slots->bytes = g_renew (int64_t, slots->bytes, slots->room);
    slots->streams = g_renew (uint8_t, slots->streams, slots->room);
  }
  slots->bytes[instruction->id] = instruction->bytes;
  slots->streams[instruction->id] = instruction->stream;
}

TestHistory *
test_history_of_plan (ZsPlanner *planner)
{
  TestHistory *history = history_new ();
  TestPhase *phase = add_phase (history, "before");
  Slots slots = { 0 };
  Streams streams = { .n = 0 };
  Level level = { 0 };
  const ZsPlan *plan;

  while ((plan = zs_planner_next (planner)) != NULL)
    for (int64_t i = 0; i < plan->n_code; i++) {
      const ZsInstruction *instruction = &plan->code[i];

      if (instruction->op == ZS_OP_PHASE) {
        g_autofree char *name = test_phase_name (instruction);
        end_phase (phase, &level);
        phase = add_phase (history, name);
      } else if (instruction->op == ZS_OP_ALLOC) {
        remember (&slots, instruction);
        append (phase, 'a', instruction->bytes, stream_number (&streams, instruction->stream),
                instruction->label);
        count (&level, 'a', instruction->bytes);
      } else if (instruction->op == ZS_OP_FREE) {
        int64_t bytes = slots.bytes[instruction->id];
        append (phase, 'f', bytes, stream_number (&streams, slots.streams[instruction->id]),
                instruction->label);
        count (&level, 'f', bytes);
      } else if (instruction->op == ZS_OP_UNLESS_FREE) {
        i += instruction->other;   /* there was enough memory */
      }
    }
  end_phase (phase, &level);
  g_free (slots.bytes);
  g_free (slots.streams);
  return history;
}

/* ---- alignment ---- */

static bool
same (const TestEvent *a, const TestEvent *b)
{
  return a->action == b->action && a->bytes == b->bytes && a->stream == b->stream;
}

enum { DIAGONAL, UP, LEFT };

/* Levenshtein's table with directions, after what is equal at both ends has been set aside. */
int64_t
test_align (const GArray *recorded, const GArray *simulated, GArray **ret_pairs)
{
  const TestEvent *a = (const TestEvent *) (const void *) recorded->data;
  const TestEvent *b = (const TestEvent *) (const void *) simulated->data;
  int64_t n = recorded->len, m = simulated->len, head = 0, tail = 0;

  while (head < n && head < m && same (&a[head], &b[head]))
    head++;
  while (tail < n - head && tail < m - head && same (&a[n - 1 - tail], &b[m - 1 - tail]))
    tail++;
  int64_t rows = n - head - tail, columns = m - head - tail;
  g_autofree uint8_t *directions = g_malloc ((gsize) ((rows + 1) * (columns + 1)));
  g_autofree int32_t *cost = g_new (int32_t, (gsize) columns + 1);

  for (int64_t j = 0; j <= columns; j++) {
    cost[j] = (int32_t) j;
    directions[j] = LEFT;
  }
  for (int64_t i = 1; i <= rows; i++) {
    int32_t corner = cost[0];
    uint8_t *line = directions + i * (columns + 1);

    cost[0] = (int32_t) i;
    line[0] = UP;
    for (int64_t j = 1; j <= columns; j++) {
      int32_t best = corner + !same (&a[head + i - 1], &b[head + j - 1]);
      uint8_t direction = DIAGONAL;

      corner = cost[j];
      if (cost[j] + 1 < best) {
        best = cost[j] + 1;
        direction = UP;
      }
      if (cost[j - 1] + 1 < best) {
        best = cost[j - 1] + 1;
        direction = LEFT;
      }
      cost[j] = best;
      line[j] = direction;
    }
  }
  int64_t edits = cost[columns];
  if (ret_pairs == NULL)
    return edits;

  GArray *back = g_array_new (FALSE, FALSE, sizeof (TestPair));
  for (int64_t t = 0; t < tail; t++) {
    TestPair pair = { (int32_t) (n - 1 - t), (int32_t) (m - 1 - t) };
    g_array_append_val (back, pair);
  }
  for (int64_t i = rows, j = columns; i > 0 || j > 0;) {
    uint8_t direction = directions[i * (columns + 1) + j];
    TestPair pair = { direction == LEFT ? -1 : (int32_t) (head + i - 1),
                      direction == UP ? -1 : (int32_t) (head + j - 1) };
    g_array_append_val (back, pair);
    i -= direction != LEFT;
    j -= direction != UP;
  }
  for (int64_t t = head - 1; t >= 0; t--) {
    TestPair pair = { (int32_t) t, (int32_t) t };
    g_array_append_val (back, pair);
  }
  *ret_pairs = g_array_sized_new (FALSE, FALSE, sizeof (TestPair), back->len);
  for (guint i = back->len; i-- > 0;)
    g_array_append_val (*ret_pairs, g_array_index (back, TestPair, i));
  g_array_unref (back);
  return edits;
}

double
test_agreement (const GArray *recorded, const GArray *simulated)
{
  guint longer = MAX (recorded->len, simulated->len);

  return longer == 0 ? 1.0 : 1.0 - (double) test_align (recorded, simulated, NULL) / longer;
}
