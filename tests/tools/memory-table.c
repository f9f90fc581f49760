/* memory-table.c: CSV of measured runs; running a plan without time.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/testing.h"
#include "tests/tools/memory-table.h"
#include "tests/tools/plan-memory.h"
#include "tests/tools/training.h"

#include <stdio.h>
#include <string.h>

static void
free_row (gpointer data)
{
  TestMemoryRow *row = data;

  g_free (row->id);
  g_free (row->set);
  g_free (row->framework);
  g_free (row->title);
  g_free (row->alloc_conf);
  g_free (row->oom);
  g_free (row);
}

/* The fields of one line; quoted ones may hold commas and doubled quotes. */
static GPtrArray *
split_line (const char *line)
{
  GPtrArray *fields = g_ptr_array_new_with_free_func (g_free);
  GString *field = g_string_new (NULL);
  bool quoted = false;

  for (const char *at = line; *at != '\0'; at++) {
    if (*at == '"' && quoted && at[1] == '"') {
      g_string_append_c (field, *at++);
    } else if (*at == '"') {
      quoted = !quoted;
    } else if (*at == ',' && !quoted) {
      g_ptr_array_add (fields, g_string_free (field, FALSE));
      field = g_string_new (NULL);
    } else if (*at != '\r') {
      g_string_append_c (field, *at);
    }
  }
  g_ptr_array_add (fields, g_string_free (field, FALSE));
  return fields;
}

typedef struct { GPtrArray *header, *fields; } Record;

static const char *
field (const Record *record, const char *name)
{
  for (guint i = 0; i < record->header->len && i < record->fields->len; i++)
    if (strcmp (g_ptr_array_index (record->header, i), name) == 0)
      return g_ptr_array_index (record->fields, i);
  return "";
}

static int64_t
number (const Record *record, const char *name)
{
  return (int64_t) g_ascii_strtod (field (record, name), NULL);
}

static void
add_phases (TestMemoryRow *row, const Record *record)
{
  static const char *const NAMES[] = { "model", "engine", "s1_fwd", "s1_bwd", "s1_step", "s2_fwd",
                                       "s2_bwd", "s2_step", "s3_fwd", "s3_bwd", "s3_step" };

  for (gsize i = 0; i < G_N_ELEMENTS (NAMES); i++) {
    g_autofree char *allocated = g_strconcat (NAMES[i], "_max_alloc", NULL);
    g_autofree char *reserved = g_strconcat (NAMES[i], "_max_reserved", NULL);
    g_autofree char *requested = g_strconcat (NAMES[i], "_max_req", NULL);
    TestMemoryPhase *phase = &row->phases[row->n_phases];

    if (*field (record, allocated) == '\0')
      continue;
    g_strlcpy (phase->name, NAMES[i], sizeof phase->name);
    phase->allocated = number (record, allocated);
    phase->reserved = number (record, reserved);
    phase->requested = number (record, requested);
    row->n_phases++;
  }
}

static TestMemoryRow *
make_row (const Record *record)
{
  TestMemoryRow *row = g_new0 (TestMemoryRow, 1);
  const char *deepspeed = field (record, "deepspeed");
  json_t *config = json_loads (field (record, "ds_config"), 0, NULL);
  double cap = g_ascii_strtod (field (record, "cap_gib"), NULL);

  row->id = g_strdup (field (record, "id"));
  row->set = g_strdup (field (record, "set"));
  row->framework = g_strdup (field (record, "framework"));
  row->title = g_strdup_printf ("%s%s", row->id, g_str_has_prefix (deepspeed, "0.19") ? "*" : "");
  row->alloc_conf = g_strdup (field (record, "alloc_conf"));
  row->limit = (int64_t) (cap * 1073741824.0);
  row->usable = strcmp (field (record, "status"), "ok") == 0 && row->limit == 0;
  test_training_init (&row->training);
  if (config != NULL)
    test_training_apply_json (&row->training, config);
  for (guint i = 0; i < record->header->len && i < record->fields->len; i++)
    test_training_set (&row->training, g_ptr_array_index (record->header, i),
                       g_ptr_array_index (record->fields, i));
  test_training_finish (&row->training);
  if (strcmp (row->framework, "plain") == 0)
    row->training.step.dtype = strstr (field (record, "master_dtype"), "32") != NULL ? ZS_DTYPE_FP32
                                                                                     : ZS_DTYPE_BF16;
  row->training.step.autocast = row->training.step.dtype == ZS_DTYPE_FP32;
  /* a phase that is not in the table is not needed */
  row->training.n_steps = MIN (row->training.n_steps, 3);
  add_phases (row, record);
  row->train_allocated = number (record, "train_peak_alloc");
  row->train_reserved = number (record, "train_peak_reserved");
  row->pinned = number (record, "pinned_allocated");
  row->oom = g_strdup (field (record, "oom_request_text"));
  row->retries = number (record, "alloc_retries");
  json_decref (config);
  return row;
}

static void
read_table (GPtrArray *rows, const char *relative)
{
  g_autofree char *path = testing_source_path (relative);
  g_autofree char *text = NULL;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return;
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_autoptr (GPtrArray) header = split_line (lines[0]);
  for (char **line = lines + 1; *line != NULL && **line != '\0'; line++) {
    g_autoptr (GPtrArray) fields = split_line (*line);
    Record record = { header, fields };

    g_ptr_array_add (rows, make_row (&record));
  }
}

GPtrArray *
test_memory_rows (void)
{
  GPtrArray *rows = g_ptr_array_new_with_free_func (free_row);

  read_table (rows, "tests/data/h200/memory.csv");
  read_table (rows, "tests/data/h200/memory-ds0195.csv");
  return rows;
}

/* ---- a plan without time ---- */

/* The slot of the phase that PLAN begins with, or -1. */
static int
slot_of (const TestMemoryRow *row, const ZsPlan *plan)
{
  static const char *const NAMES[ZS_N_PHASES] = { "model", "engine", "fwd", "bwd", "step", "save" };
  const ZsInstruction *first = &plan->code[0];
  g_autofree char *name = NULL;

  if (first->op != ZS_OP_PHASE)
    return -1;
  name = first->id == 0 ? g_strdup (NAMES[first->kind]) : g_strdup_printf ("s%u_%s", first->id, NAMES[first->kind]);
  for (int i = 0; i < row->n_phases; i++)
    if (strcmp (row->phases[i].name, name) == 0)
      return i;
  return -1;
}

bool
test_memory_run (const TestMemoryRow *row, TestMemoryResult *ret_result)
{
  ZsAllocConf conf = { 0 };
  g_autoptr (GError) error = NULL;
  const ZsPlan *plan;

  if (!test_training_is_simulated (&row->training)
      || !zs_alloc_conf_parse (row->alloc_conf, &conf, &error))
    return false;
  g_autoptr (TestPlanMemory) memory = test_plan_memory_new (&conf, row->limit);
  g_autoptr (ZsPlanner) planner = zs_planner_new (&row->training, 0);
  const ZsCachingAllocator *allocator = test_plan_memory_gpu (memory);
  const ZsAllocatorCounters *counters = zs_caching_allocator_counters (allocator);
  bool fits = true;

  *ret_result = (TestMemoryResult) { .train_allocated = 0 };
  while (fits && (plan = zs_planner_next (planner)) != NULL) {
    fits = test_plan_memory_execute (memory, plan);
    int slot = slot_of (row, plan);

    if (plan->code[0].id > 0) {
      ret_result->train_allocated = MAX (ret_result->train_allocated, counters->allocated.peak);
      ret_result->train_reserved = MAX (ret_result->train_reserved, counters->reserved.peak);
    }
    if (slot < 0)
      continue;
    TestMemoryPhase *phase = &ret_result->phases[slot];
    phase->allocated = MAX (phase->allocated, counters->allocated.peak);
    phase->reserved = MAX (phase->reserved, counters->reserved.peak);
    phase->requested = MAX (phase->requested, counters->requested.peak);
  }
  if (!fits)
    ret_result->tried = zs_caching_allocator_failure (allocator)->segment;
  ret_result->retries = counters->num_alloc_retries;
  ret_result->pinned = zs_host_allocator_counters (test_plan_memory_host (memory))->pinned;
  return fits;
}
