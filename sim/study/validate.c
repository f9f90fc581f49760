/* validate.c: predicted against measured.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/network/nccl.h"
#include "sim/scenario/simulate.h"
#include "sim/study/benchmark.h"

static const char *const NAMES[ZS_N_QUANTITIES] = {
  [ZS_QUANTITY_OUTCOME] = "outcome",
  [ZS_QUANTITY_PEAK_ALLOCATED] = "peak_allocated",
  [ZS_QUANTITY_PEAK_RESERVED] = "peak_reserved",
  [ZS_QUANTITY_PEAK_DEVICE] = "peak_device",
  [ZS_QUANTITY_PHASE_ALLOCATED] = "phase_peak_allocated",
  [ZS_QUANTITY_PHASE_RESERVED] = "phase_peak_reserved",
  [ZS_QUANTITY_RESIDENT] = "resident",
  [ZS_QUANTITY_HOST_PINNED] = "host_pinned_per_rank",
  [ZS_QUANTITY_OOM_TRIED] = "oom_tried",
  [ZS_QUANTITY_OOM_ALLOCATED] = "oom_allocated",
  [ZS_QUANTITY_OOM_RESERVED] = "oom_reserved",
  [ZS_QUANTITY_PHASE_TIME] = "phase_time",
  [ZS_QUANTITY_STEP_TIME] = "step_time",
  [ZS_QUANTITY_TOKENS] = "tokens_per_second_per_gpu",
  [ZS_QUANTITY_SAMPLES] = "samples_per_second",
  [ZS_QUANTITY_COLLECTIVE_TIME] = "collective_time",
  [ZS_QUANTITY_COLLECTIVE_SLOWDOWN] = "collective_slowdown",
  [ZS_QUANTITY_BESIDE_SLOWDOWN] = "beside_slowdown",
  [ZS_QUANTITY_COPY_TIME] = "copy_time",
};

const char *
zs_quantity_name (ZsQuantity quantity)
{
  return NAMES[quantity];
}

/* One case's comparisons, made by one thread. */
typedef struct {
  ZsCase *c;
  GArray *comparisons;
} Slot;

static void
compare (GArray *comparisons, ZsQuantity quantity, const char *detail, double measured,
         double predicted)
{
  ZsComparison comparison = { .quantity = quantity, .measured = measured, .predicted = predicted };

  if (measured < 0)
    return;
  g_strlcpy (comparison.detail, detail, sizeof comparison.detail);
  if (quantity == ZS_QUANTITY_OUTCOME)
    comparison.error = measured != predicted;
  else
    comparison.error = measured != 0 ? predicted / measured - 1 : predicted != 0;
  g_array_append_val (comparisons, comparison);
}

/* A measured phase with micro-step -1 stands for all of the step: peaks are maxima, times sums. */
static void
compare_phase (GArray *comparisons, const ZsResult *result, const ZsMeasuredPhase *measured)
{
  ZsPhaseResult sum = { .phase = measured->phase };
  bool found = false;

  for (guint i = 0; i < result->phases->len; i++) {
    const ZsPhaseResult *phase = &g_array_index (result->phases, ZsPhaseResult, i);

    if (phase->phase != measured->phase || phase->step != measured->step
        || (measured->micro_step >= 0 && phase->micro_step != measured->micro_step))
      continue;
    found = true;
    sum.peak_allocated_bytes = MAX (sum.peak_allocated_bytes, phase->peak_allocated_bytes);
    sum.peak_reserved_bytes = MAX (sum.peak_reserved_bytes, phase->peak_reserved_bytes);
    sum.end_allocated_bytes = phase->end_allocated_bytes;
    sum.time += phase->time;
  }
  if (!found)
    return;
  char detail[32];

  g_snprintf (detail, sizeof detail, "step %d %s", measured->step, zs_phase_name (measured->phase));
  compare (comparisons, ZS_QUANTITY_PHASE_ALLOCATED, detail,
           (double) measured->peak_allocated_bytes, (double) sum.peak_allocated_bytes);
  compare (comparisons, ZS_QUANTITY_PHASE_RESERVED, detail, (double) measured->peak_reserved_bytes,
           (double) sum.peak_reserved_bytes);
  compare (comparisons, ZS_QUANTITY_PHASE_TIME, detail, (double) measured->time, (double) sum.time);
  if (measured->phase == ZS_PHASE_OPTIMIZER)
    compare (comparisons, ZS_QUANTITY_RESIDENT, detail, (double) measured->end_allocated_bytes,
             (double) sum.end_allocated_bytes);
}

static void
compare_case (GArray *comparisons, const ZsScenario *scenario, const ZsResult *result)
{
  const ZsMeasured *measured = &scenario->measured;
  int last = 0;

  compare (comparisons, ZS_QUANTITY_OUTCOME, "", measured->outcome, result->outcome);
  if (result->outcome == ZS_OUTCOME_OOM && measured->any_oom) {
    compare (comparisons, ZS_QUANTITY_OOM_TRIED, "", (double) measured->oom_tried_bytes,
             (double) result->oom.tried_bytes);
    compare (comparisons, ZS_QUANTITY_OOM_ALLOCATED, "", (double) measured->oom_allocated_bytes,
             (double) result->oom.allocated_bytes);
    compare (comparisons, ZS_QUANTITY_OOM_RESERVED, "", (double) measured->oom_reserved_bytes,
             (double) result->oom.reserved_bytes);
  }
  compare (comparisons, ZS_QUANTITY_PEAK_ALLOCATED, "", (double) measured->peak_allocated_bytes,
           (double) result->peak_allocated_bytes);
  compare (comparisons, ZS_QUANTITY_PEAK_RESERVED, "", (double) measured->peak_reserved_bytes,
           (double) result->peak_reserved_bytes);
  compare (comparisons, ZS_QUANTITY_PEAK_DEVICE, "", (double) measured->peak_device_bytes,
           (double) result->peak_device_bytes);
  compare (comparisons, ZS_QUANTITY_HOST_PINNED, "", (double) measured->host_pinned_bytes_per_rank,
           (double) result->host_pinned_peak_bytes_per_rank);
  if (result->outcome != ZS_OUTCOME_OK)
    return;
  compare (comparisons, ZS_QUANTITY_STEP_TIME, "", (double) measured->step_time,
           (double) result->step_time_ps);
  compare (comparisons, ZS_QUANTITY_TOKENS, "", measured->tokens_per_second_per_gpu,
           result->tokens_per_second_per_gpu);
  compare (comparisons, ZS_QUANTITY_SAMPLES, "", measured->samples_per_second,
           result->samples_per_second);
  for (guint i = 0; measured->phases != NULL && i < measured->phases->len; i++)
    last = MAX (last, g_array_index (measured->phases, ZsMeasuredPhase, i).step);
  for (guint i = 0; measured->phases != NULL && i < measured->phases->len; i++) {
    const ZsMeasuredPhase *phase = &g_array_index (measured->phases, ZsMeasuredPhase, i);

    if (phase->step == last)
      compare_phase (comparisons, result, phase);
  }
}

/* ---- a machine alone ---- */

static bool
is_machine (const char *path)
{
  g_autoptr (ZsDocument) document = zs_document_load (path, NULL);
  const ZsNode *root = document != NULL ? zs_document_root (document) : NULL;

  return root != NULL && root->kind == ZS_NODE_MAPPING && zs_node_get (root, "cluster") != NULL
         && zs_node_get (root, "measured") != NULL && zs_node_get (root, "model") == NULL
         && zs_node_get (root, "training") == NULL;
}

/* "all_gather 64 MiB", "all_gather 64 MiB, matmul 8192x8192x8192" */
static void
name_collective (const ZsMeasuredCollective *row, char *ret_name, size_t room)
{
  static const char *const besides[] = { "", ", h2d", ", d2h", ", matmul", ", elementwise", ", attention" };
  g_autofree char *size = zs_bytes_format (row->bytes);

  if (row->m > 0)
    g_snprintf (ret_name, room, "%s %s%s %dx%dx%d", zs_collective_name (row->kind), size, besides[row->beside],
                (int) row->m, (int) row->n, (int) row->k);
  else
    g_snprintf (ret_name, room, "%s %s%s", zs_collective_name (row->kind), size, besides[row->beside]);
}

static bool
compare_collectives (GArray *comparisons, const ZsScenario *machine, GError **error)
{
  const GArray *rows = machine->measured.collectives;
  g_autoptr (ZsCluster) cluster = rows->len > 0 ? zs_scenario_cluster (machine, error) : NULL;
  char detail[48];

  if (rows->len > 0 && cluster == NULL)
    return false;
  for (guint i = 0; i < rows->len; i++) {
    const ZsMeasuredCollective *row = &g_array_index (rows, ZsMeasuredCollective, i);

    name_collective (row, detail, sizeof detail);
    if (row->beside == ZS_BESIDE_NOTHING) {
      ZsCollectiveRow predicted;

      zs_collective_rows (zs_cluster_comm (cluster, ZS_COMMUNICATOR_WORLD, 0), row->kind, &row->bytes, 1, &predicted);
      compare (comparisons, ZS_QUANTITY_COLLECTIVE_TIME, detail, (double) row->time, (double) predicted.time);
      continue;
    }
    ZsBesideTimes times;

    if (!zs_benchmark_beside (machine, row, &times, error))
      return false;
    compare (comparisons, ZS_QUANTITY_COLLECTIVE_SLOWDOWN, detail, row->slowdown,
             (double) times.time_with / (double) MAX (times.time, 1));
    compare (comparisons, ZS_QUANTITY_BESIDE_SLOWDOWN, detail, row->beside_slowdown,
             (double) times.beside_time_with / (double) MAX (times.beside_time, 1));
  }
  return true;
}

static bool
compare_copies (GArray *comparisons, const ZsScenario *machine, GError **error)
{
  const GArray *rows = machine->measured.copies;

  for (guint i = 0; i < rows->len; i++) {
    const ZsMeasuredCopy *row = &g_array_index (rows, ZsMeasuredCopy, i);
    g_autofree char *size = zs_bytes_format (row->bytes);
    char detail[48];
    ZsTime predicted = zs_benchmark_copies (machine, row, error);

    if (predicted < 0)
      return false;
    g_snprintf (detail, sizeof detail, "%s%s%s %s, %d GPUs%s", row->in ? "h2d" : "", row->in && row->out ? "+" : "",
                row->out ? "d2h" : "", size, __builtin_popcountll (row->gpus), row->pinned ? "" : ", pageable");
    compare (comparisons, ZS_QUANTITY_COPY_TIME, detail, (double) row->time, (double) predicted);
  }
  return true;
}

static void
run_machine (Slot *slot, ZsCatalogue *catalogue)
{
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (ZsScenario) machine = zs_scenario_load_cluster (slot->c->path, NULL, NULL, catalogue, errors);

  if (machine == NULL) {
    slot->c->failure = zs_errors_text (errors);
    return;
  }
  if (machine->name != NULL) {
    g_free (slot->c->name);
    slot->c->name = g_strdup (machine->name);
  }
  if (machine->measured.collectives->len == 0 && machine->measured.copies->len == 0) {
    slot->c->failure = g_strdup_printf ("%s: nothing is measured that a machine alone has: collectives or copies; "
                                        "steps and memory need a model and a training", slot->c->path);
    return;
  }
  if (!compare_collectives (slot->comparisons, machine, &error)
      || !compare_copies (slot->comparisons, machine, &error))
    slot->c->failure = g_strdup_printf ("%s: %s", slot->c->path, error->message);
}

/* ---- running ---- */

typedef struct {
  ZsCatalogue *catalogue;
  GMutex       mutex;
  int          n_done, n_all;
  void       (*progress) (void *self, int done, int all);
  void        *self;
} Runner;

static void
run_training (Slot *slot, ZsCatalogue *catalogue)
{
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (ZsScenario) scenario
      = zs_scenario_load (slot->c->path, NULL, NULL, catalogue, errors);
  g_autoptr (ZsResult) result = scenario != NULL ? zs_scenario_run (scenario, NULL, &error) : NULL;

  if (scenario == NULL) {
    slot->c->failure = zs_errors_text (errors);
  } else if (result == NULL) {
    slot->c->failure = g_strdup (error->message);
  } else if (!scenario->measured.any) {
    slot->c->failure = g_strdup_printf ("%s: nothing measured in it", slot->c->path);
  } else {
    g_free (slot->c->name);
    slot->c->name = g_strdup (scenario->name);
    compare_case (slot->comparisons, scenario, result);
  }
}

static void
run_case (gpointer data, gpointer user_data)
{
  Slot *slot = data;
  Runner *runner = user_data;

  if (is_machine (slot->c->path))
    run_machine (slot, runner->catalogue);
  else
    run_training (slot, runner->catalogue);
  g_mutex_lock (&runner->mutex);
  runner->n_done++;
  if (runner->progress != NULL)
    runner->progress (runner->self, runner->n_done, runner->n_all);
  g_mutex_unlock (&runner->mutex);
}

static void
add_case (GArray *cases, const char *path, const char *kind)
{
  ZsCase c = { .path = g_strdup (path), .name = g_path_get_basename (path), .kind = g_strdup (kind) };

  g_array_append_val (cases, c);
}

static int
compare_strings (const void *a, const void *b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

/* Every *.yaml below FOLDER, by name; the kind is the nearest folder's name. */
static bool
add_folder (GArray *cases, const char *folder, int depth, ZsErrors *errors)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GDir) dir = g_dir_open (folder, 0, &error);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *kind = g_path_get_basename (folder);

  if (dir == NULL)
    return zs_errors_add (errors, "%s", error->message);
  for (const char *name; (name = g_dir_read_name (dir)) != NULL;)
    g_ptr_array_add (names, g_strdup (name));
  if (names->len > 1)
    qsort (names->pdata, names->len, sizeof (char *), compare_strings);
  for (guint i = 0; i < names->len; i++) {
    g_autofree char *path = g_build_filename (folder, g_ptr_array_index (names, i), NULL);

    if (g_file_test (path, G_FILE_TEST_IS_DIR)) {
      if (depth < 8)
        add_folder (cases, path, depth + 1, errors);
    } else if (g_str_has_suffix (path, ".yaml")) {
      add_case (cases, path, kind);
    }
  }
  return true;
}

ZsValidation *
zs_validate (const char *const *paths, ZsCatalogue *catalogue, int jobs,
             void (*progress) (void *self, int done, int all), void *self, ZsErrors *errors)
{
  int before = zs_errors_count (errors);
  g_autoptr (ZsValidation) validation = g_new0 (ZsValidation, 1);
  Runner runner = { .catalogue = catalogue, .progress = progress, .self = self };

  validation->cases = g_array_new (FALSE, FALSE, sizeof (ZsCase));
  validation->comparisons = g_array_new (FALSE, FALSE, sizeof (ZsComparison));
  for (const char *const *path = paths; *path != NULL; path++) {
    if (g_file_test (*path, G_FILE_TEST_IS_DIR))
      add_folder (validation->cases, *path, 0, errors);
    else if (strcmp (*path, "-") == 0 || g_file_test (*path, G_FILE_TEST_EXISTS))
      add_case (validation->cases, *path, "");
    else
      zs_errors_add (errors, "%s: no such file", *path);
  }
  if (zs_errors_count (errors) > before)
    return NULL;

  int n = runner.n_all = (int) validation->cases->len;
  g_autofree Slot *slots = g_new0 (Slot, n + 1);
  GThreadPool *pool
      = g_thread_pool_new (run_case, &runner, jobs > 0 ? jobs : (int) g_get_num_processors (), FALSE, NULL);

  g_mutex_init (&runner.mutex);
  for (int i = 0; i < n; i++) {
    slots[i].c = &g_array_index (validation->cases, ZsCase, i);
    slots[i].comparisons = g_array_new (FALSE, FALSE, sizeof (ZsComparison));
    g_thread_pool_push (pool, &slots[i], NULL);
  }
  g_thread_pool_free (pool, FALSE, TRUE);
  g_mutex_clear (&runner.mutex);
  for (int i = 0; i < n; i++) {
    for (guint j = 0; j < slots[i].comparisons->len; j++)
      g_array_index (slots[i].comparisons, ZsComparison, j).case_index = i;
    g_array_append_vals (validation->comparisons, slots[i].comparisons->data,
                         slots[i].comparisons->len);
    g_array_unref (slots[i].comparisons);
  }
  return g_steal_pointer (&validation);
}

void
zs_validation_free (ZsValidation *validation)
{
  if (validation == NULL)
    return;
  for (guint i = 0; i < validation->cases->len; i++) {
    ZsCase *c = &g_array_index (validation->cases, ZsCase, i);

    g_free (c->path);
    g_free (c->name);
    g_free (c->kind);
    g_free (c->failure);
  }
  g_array_unref (validation->cases);
  g_array_unref (validation->comparisons);
  g_free (validation);
}

/* ---- summary ---- */

static int
compare_doubles (const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return (x > y) - (x < y);
}

bool
zs_validation_summary (const ZsValidation *validation, ZsQuantity quantity, const char *kind,
                       ZsErrorSummary *ret_summary)
{
  g_autoptr (GArray) errors = g_array_new (FALSE, FALSE, sizeof (double));
  ZsErrorSummary summary = { .n = 0 };

  for (guint i = 0; i < validation->comparisons->len; i++) {
    const ZsComparison *c = &g_array_index (validation->comparisons, ZsComparison, i);
    const ZsCase *of = &g_array_index (validation->cases, ZsCase, c->case_index);
    double error = fabs (c->error);

    if (c->quantity != quantity || (kind != NULL && !g_str_equal (kind, of->kind)))
      continue;
    g_array_append_val (errors, error);
    summary.within_half_percent += error <= 0.005;
    summary.within_1 += error <= 0.01;
    summary.within_2 += error <= 0.02;
    summary.within_5 += error <= 0.05;
    summary.within_12 += error <= 0.12;
    summary.within_25 += error <= 0.25;
  }
  if (errors->len == 0)
    return false;
  if (errors->len > 1)
    qsort (errors->data, errors->len, sizeof (double), compare_doubles);
  const double *sorted = (const double *) errors->data;
  int n = summary.n = (int) errors->len;

  summary.median = sorted[n / 2];
  summary.p90 = sorted[MIN (n - 1, (int) (0.90 * n))];
  summary.p98 = sorted[MIN (n - 1, (int) (0.98 * n))];
  summary.worst = sorted[n - 1];
  *ret_summary = summary;
  return true;
}
