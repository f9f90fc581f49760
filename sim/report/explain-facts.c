/* explain-facts.c: what a run says, as texts with names.
 * SPDX-License-Identifier: MIT
 *
 * A fact that does not hold is not there; that is how sentences are chosen. Times and bytes of what
 * moves are those of the steady step and the reported rank. */
#include "config.h"

#include "sim/base/units.h"
#include "sim/report/explain-internal.h"

#define MAX_HOLDERS 6
#define MAX_TENSORS 4
#define MAX_LINKS   4
#define SMALL_BYTES (INT64_C (5) << 20)     /* of the peak: not worth a sentence */
#define WORTH_SAYING 0.05                   /* of the step */

static void
put (GHashTable *facts, const char *name, char *text)
{
  g_hash_table_insert (facts, (gpointer) name, text);
}

static void
put_flag (ZsFacts *facts, const char *name, bool holds)
{
  if (holds)
    put (facts->facts, name, g_strdup ("yes"));
}

static GHashTable *
new_facts (void)
{
  return g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_free);
}

static void
unref_facts (gpointer facts)
{
  g_hash_table_unref (facts);
}

static void
unref_list (gpointer list)
{
  g_ptr_array_unref (list);
}

static void
add_row (ZsFacts *facts, const char *list, GHashTable *row)
{
  GPtrArray *rows = g_hash_table_lookup (facts->lists, list);

  if (rows == NULL) {
    rows = g_ptr_array_new_with_free_func (unref_facts);
    g_hash_table_insert (facts->lists, (gpointer) list, rows);
  }
  g_ptr_array_add (rows, row);
}

static char *
percent (double part)
{
  return part > 0 && part < 0.005 ? g_strdup_printf ("%.1f %%", 100 * part)
                                  : g_strdup_printf ("%.0f %%", 100 * part);
}

static char *
share (ZsTime part, ZsTime whole)
{
  return percent (whole > 0 ? (double) part / (double) whole : 0);
}

static const char *
word (const ZsFacts *facts, const char *key)
{
  return zs_explain_word (key, facts->language);
}

/* ---- the job ---- */

static bool
is_sharded (const ZsTraining *training)
{
  return training->world > 1
         && ((training->framework == ZS_FRAMEWORK_DEEPSPEED && training->zero.stage == 3)
             || training->framework == ZS_FRAMEWORK_FSDP1
             || training->framework == ZS_FRAMEWORK_FSDP2);
}

static void
add_job (ZsFacts *facts, const ZsExplainInput *input)
{
  static const char *const DTYPES[] = { "bf16", "fp16", "fp32" };
  static const char *const STAGES[] = { "zero0", "zero1", "zero2", "zero3" };
  static const char *const DEVICES[] = { NULL, "cpu", "nvme" };
  const ZsTraining *training = &input->scenario->training;
  const ZsStepShape *step = &training->step;
  g_autoptr (ZsModel) model = zs_model_new (&training->shape, &step->lora, step->dtype,
                                            &step->versions);
  int64_t bytes = model->n_elements * zs_dtype_bytes (step->dtype);
  bool zero = training->framework == ZS_FRAMEWORK_DEEPSPEED;
  const char *method = zero ? STAGES[training->zero.stage]
                       : training->framework == ZS_FRAMEWORK_FSDP1 ? "fsdp"
                       : training->framework == ZS_FRAMEWORK_FSDP2 ? "fsdp2"
                       : training->framework == ZS_FRAMEWORK_DDP   ? "ddp" : "single";

  put (facts->facts, "model", g_strdup (input->scenario->model_name != NULL
                                          ? input->scenario->model_name : training->shape.name));
  put (facts->facts, "parameters", zs_count_format (model->n_elements));
  put (facts->facts, "method", g_strdup (word (facts, method)));
  put (facts->facts, "ranks", g_strdup_printf ("%" G_GINT64_FORMAT, training->world));
  put (facts->facts, "gpu", g_strdup (input->scenario->cluster.gpu.name));
  put (facts->facts, "micro_batch", g_strdup_printf ("%" G_GINT64_FORMAT, step->micro_batch));
  put (facts->facts, "sequence", g_strdup_printf ("%" G_GINT64_FORMAT, step->sequence));
  put (facts->facts, "accumulation", g_strdup_printf ("%d", training->gradient_accumulation));
  put_flag (facts, "lengths", zs_lengths_given (&training->lengths));
  put (facts->facts, "dtype", g_strdup (DTYPES[step->dtype]));
  put (facts->facts, "tokens",
       zs_count_format (zs_training_tokens (training, 1, training->n_steps, true) / training->n_steps
                        * training->world));
  put (facts->facts, "states", zs_bytes_format (16 * model->n_elements));
  put (facts->facts, "parameter_bytes", zs_bytes_format (bytes));
  put (facts->facts, "parameter_share", zs_bytes_format (bytes / MAX (1, training->world)));
  put (facts->facts, "memory_rate", zs_rate_format (input->scenario->cluster.gpu.memory_rate));
  if (step->lora.rank > 0) {
    put (facts->facts, "lora", g_strdup_printf ("%" G_GINT64_FORMAT, step->lora.rank));
    put (facts->facts, "trainable", zs_count_format (model->n_trainable));
  }
  put_flag (facts, "several", training->world > 1);
  put_flag (facts, "accumulated", training->gradient_accumulation > 1);
  put_flag (facts, "full", zero && step->lora.rank == 0 && step->dtype != ZS_DTYPE_FP32);
  put_flag (facts, "zero1", zero && training->zero.stage == 1 && training->world > 1);
  put_flag (facts, "zero2", zero && training->zero.stage == 2 && training->world > 1);
  put_flag (facts, "sharded", is_sharded (training));
  put_flag (facts, "whole", !is_sharded (training) && !(zero && training->zero.stage > 0));
  put_flag (facts, "checkpointing", step->checkpoint_every > 0);
  put_flag (facts, "fused_loss", (step->liger & ZS_LIGER_FUSED_LOSS) != 0);
  put_flag (facts, "liger_layers", (step->liger & (ZS_LIGER_RMS_NORM | ZS_LIGER_SWIGLU)) != 0);
  if (zero && training->zero.offload_optimizer != ZS_DEVICE_NONE)
    put (facts->facts, "offload_optimizer",
         g_strdup (word (facts, DEVICES[training->zero.offload_optimizer])));
  if (zero && training->zero.offload_param != ZS_DEVICE_NONE)
    put (facts->facts, "offload_parameters",
         g_strdup (word (facts, DEVICES[training->zero.offload_param])));
}

/* ---- memory ---- */

/* PHRASE with what is said of the moment. */
static char *
place (const ZsFacts *facts, int step, ZsPhase phase, int micro_step)
{
  GHashTable *row = new_facts ();
  bool micro = phase == ZS_PHASE_FORWARD || phase == ZS_PHASE_BACKWARD;
  ZsPhrase phrase = step == 0 ? ZS_PHRASE_PLACE_BEFORE
                    : micro   ? ZS_PHRASE_PLACE_TRAINING : ZS_PHRASE_PLACE_STEP;

  put (row, "step", g_strdup_printf ("%d", step));
  put (row, "phase", g_strdup (word (facts, zs_phase_name (phase))));
  put (row, "micro", g_strdup_printf ("%d", micro_step + 1));
  char *text = zs_facts_fill (facts, row, zs_explain_phrase (phrase, facts->language));

  g_hash_table_unref (row);
  return text;
}

/* Reserved at the end of step 1, where steps differ. */
static void
add_growth (ZsFacts *facts, const ZsResult *result)
{
  int64_t first = 0;

  if (!result->steps_differ || result->steps->len < 2)
    return;
  for (guint p = 0; p < result->phases->len; p++) {
    const ZsPhaseResult *phase = &g_array_index (result->phases, ZsPhaseResult, p);

    if (phase->step == 1)
      first = MAX (first, phase->peak_reserved_bytes);
  }
  put (facts->facts, "reserved_first", zs_bytes_format (first));
  put (facts->facts, "reserved_steps", g_strdup_printf ("%u", result->steps->len));
}

static void
add_memory (ZsFacts *facts, const ZsExplainInput *input)
{
  const ZsResult *result = input->result;
  bool sharded = is_sharded (&input->scenario->training);

  put (facts->facts, "gpu_memory", zs_bytes_format (result->gpu_memory_bytes));
  put (facts->facts, "allocated", zs_bytes_format (result->peak_allocated_bytes));
  put (facts->facts, "reserved", zs_bytes_format (result->peak_reserved_bytes));
  add_growth (facts, result);
  put (facts->facts, "cached",
       zs_bytes_format (MAX (0, result->peak_reserved_bytes - result->peak_allocated_bytes)));
  put (facts->facts, "device", zs_bytes_format (result->peak_device_bytes));
  put (facts->facts, "host", zs_bytes_format (result->host_pinned_peak_bytes
                                              + result->host_pageable_peak_bytes));
  put (facts->facts, "pinned", zs_bytes_format (result->host_pinned_peak_bytes));
  put (facts->facts, "peak_place",
       place (facts, result->peak_step, result->peak_phase, result->peak_micro_step));
  if (result->outcome == ZS_OUTCOME_OOM) {
    const ZsOom *oom = &result->oom;
    char *where = place (facts, oom->step, oom->phase, oom->micro_step);

    where[0] = g_ascii_toupper (where[0]);
    put (facts->facts, "oom", g_strdup ("yes"));
    put (facts->facts, "oom_place", where);
    put (facts->facts, "oom_request", zs_bytes_format (oom->request_bytes));
    put (facts->facts, "oom_category", g_strdup (word (facts, zs_category_name (oom->category))));
    put (facts->facts, "oom_allocated", zs_bytes_format (oom->allocated_bytes));
    put (facts->facts, "oom_reserved", zs_bytes_format (oom->reserved_bytes));
  }
  for (guint i = 0; i < result->peak_holders->len && i < MAX_HOLDERS; i++) {
    const ZsHolder *holder = &g_array_index (result->peak_holders, ZsHolder, i);
    const char *name = zs_category_name (holder->category);
    g_autofree char *why = g_strconcat (
      "why ", holder->category != ZS_CATEGORY_PARAMETERS ? "" : sharded ? "cut " : "whole ", name,
      NULL);

    if (holder->bytes < SMALL_BYTES && i > 0)
      continue;
    GHashTable *row = new_facts ();

    put (row, "bytes", zs_bytes_format (holder->bytes));
    put (row, "name", g_strdup (word (facts, name)));
    put (row, "why", zs_facts_fill (facts, NULL, word (facts, why)));
    add_row (facts, "holder", row);
  }
  for (guint i = 0; i < result->live->len && i < MAX_TENSORS; i++) {
    const ZsLiveTensor *tensor = &g_array_index (result->live, ZsLiveTensor, i);
    GHashTable *row = new_facts ();

    put (row, "count", g_strdup_printf ("%d", tensor->count));
    put (row, "bytes", zs_bytes_format (tensor->bytes));
    put (row, "what", g_strdup (tensor->what));
    put (row, "name", g_strdup (word (facts, zs_category_name (tensor->category))));
    put (row, "layer", tensor->layer >= 0 ? g_strdup_printf ("%d", tensor->layer) : g_strdup (""));
    if (tensor->layer >= 0)
      put (row, "layer",
           zs_facts_fill (facts, row, zs_explain_phrase (ZS_PHRASE_LAYER, facts->language)));
    add_row (facts, "tensor", row);
  }
}

/* ---- what moves ---- */

typedef enum { GATHER, REDUCE, COPY_IN, COPY_OUT, CPU, DRIVES, N_MOVES } Move;

typedef struct {
  int64_t count, bytes;
  ZsTime  time;
} Moved;

static bool
move_of (const ZsSpan *span, Move *ret_move)
{
  switch (span->kind) {
  case ZS_OP_COLLECTIVE:
    *ret_move = g_str_equal (span->name, "all-gather") || g_str_equal (span->name, "broadcast")
                  ? GATHER : REDUCE;
    return true;
  case ZS_OP_COPY:
    if (span->track != ZS_TRACK_COPY_IN && span->track != ZS_TRACK_COPY_OUT)
      return false;
    *ret_move = span->track == ZS_TRACK_COPY_IN ? COPY_IN : COPY_OUT;
    return true;
  case ZS_OP_CPU_TASK:
    *ret_move = CPU;
    return true;
  case ZS_OP_NVME:
    *ret_move = DRIVES;
    return true;
  default:
    return false;
  }
}

static void
put_moved (ZsFacts *facts, const Moved *moved, const char *const names[4])
{
  put (facts->facts, names[0], g_strdup_printf ("%" G_GINT64_FORMAT, moved->count));
  put (facts->facts, names[1], zs_bytes_format (moved->bytes));
  put (facts->facts, names[2], zs_time_format (moved->time));
  put (facts->facts, names[3], zs_bytes_format (moved->count > 0 ? moved->bytes / moved->count : 0));
}

/* The steady step of the reported rank; returns the time of its collectives. */
static ZsTime
add_moves (ZsFacts *facts, const ZsResult *result)
{
  static const char *const NAMES[N_MOVES][4] = {
    [GATHER] = { "gather_count", "gather_bytes", "gather_time", "gather_mean" },
    [REDUCE] = { "reduce_count", "reduce_bytes", "reduce_time", "reduce_mean" },
    [COPY_IN] = { "copy_in_count", "copy_in_bytes", "copy_in_time", "copy_in_mean" },
    [COPY_OUT] = { "copy_out_count", "copy_out_bytes", "copy_out_time", "copy_out_mean" },
    [CPU] = { "cpu_count", "cpu_elements", "cpu_time", "cpu_mean" },
    [DRIVES] = { "drive_count", "drive_bytes", "drive_time", "drive_mean" },
  };
  static const char *const FLAGS[N_MOVES] = { "gather", "reduce", "copy_in", "copy_out", "cpu",
                                              "drives" };
  Moved moved[N_MOVES] = { { 0, 0, 0 } };
  ZsTime end = 0, start;

  if (result->step_time_ps <= 0)
    return 0;

  for (guint p = 0; p < result->phases->len; p++) {
    const ZsPhaseResult *phase = &g_array_index (result->phases, ZsPhaseResult, p);

    end = MAX (end, phase->start + phase->time);
  }
  start = end - zs_result_last_step_time (result);
  for (guint s = 0; result->spans != NULL && s < result->spans->len; s++) {
    const ZsSpan *span = &g_array_index (result->spans, ZsSpan, s);
    Move move;

    if (span->rank != result->reported_rank || span->start < start || span->end > end
        || !move_of (span, &move))
      continue;
    moved[move].count++;
    moved[move].bytes += span->bytes;
    moved[move].time += span->end - span->start;
  }
  for (Move m = 0; m < N_MOVES; m++) {
    /* token ids and losses cross too */
    if (moved[m].count == 0 || ((m == COPY_IN || m == COPY_OUT) && moved[m].bytes < SMALL_BYTES))
      continue;
    put_flag (facts, FLAGS[m], true);
    put_moved (facts, &moved[m], NAMES[m]);
  }
  put_flag (facts, "moving", moved[GATHER].count > 0);
  return moved[GATHER].time + moved[REDUCE].time;
}

static int
by_busy (gconstpointer a, gconstpointer b)
{
  const ZsLinkUse *x = *(const ZsLinkUse *const *) a, *y = *(const ZsLinkUse *const *) b;

  if (x->busy != y->busy)
    return x->busy > y->busy ? -1 : 1;
  return y->bytes > x->bytes ? 1 : y->bytes < x->bytes ? -1 : x->resource - y->resource;
}

static void
add_links (ZsFacts *facts, const ZsResult *result)
{
  g_autoptr (GPtrArray) links = g_ptr_array_new ();

  ZsTime step = zs_result_last_step_time (result);

  if (step <= 0)
    return;

  for (guint l = 0; result->links != NULL && l < result->links->len; l++)
    g_ptr_array_add (links, &g_array_index (result->links, ZsLinkUse, l));
  g_ptr_array_sort (links, by_busy);
  for (guint l = 0; l < links->len && l < MAX_LINKS; l++) {
    const ZsLinkUse *link = g_ptr_array_index (links, l);
    GHashTable *row = new_facts ();
    double seconds = zs_time_to_seconds (step);

    put (row, "name", g_strdup (link->name));
    put (row, "bytes", zs_bytes_format (link->bytes));
    put (row, "rate", zs_bytes_format ((int64_t) ((double) link->rate * seconds)));
    put (row, "busy", zs_time_format (link->busy));
    put (row, "share", share (link->busy, step));
    add_row (facts, "link", row);
    if (l > 0)
      continue;
    put (facts->facts, "link", g_strdup (link->name));
    put (facts->facts, "link_bytes", zs_bytes_format (link->bytes));
    put (facts->facts, "link_rate", zs_rate_format (link->rate));
    put (facts->facts, "link_share", share (link->busy, step));
  }
}

/* ---- time ---- */

static void
add_waits (ZsFacts *facts, const ZsExplainInput *input, ZsTime moving)
{
  const ZsResult *result = input->result;
  const ZsTime *wait = result->wait_ps;
  bool said[ZS_N_WAITS] = { false };
  double step = (double) result->step_time_ps;

  if (result->step_time_ps <= 0)
    return;
  put (facts->facts, "step", zs_time_format (result->step_time_ps));
  put (facts->facts, "tokens_per_second",
       g_strdup_printf ("%.0f", result->tokens_per_second_per_gpu));
  put (facts->facts, "mfu", percent (result->mfu));
  put (facts->facts, "compute_time", zs_time_format (wait[ZS_WAIT_COMPUTE]));
  for (int n = 0; n < ZS_N_WAITS; n++) {
    int longest = -1;

    for (int w = 0; w < ZS_N_WAITS; w++)
      if (!said[w] && (longest < 0 || wait[w] > wait[longest]))
        longest = w;
    said[longest] = true;
    if (wait[longest] <= 0)
      continue;
    GHashTable *row = new_facts ();

    put (row, "time", zs_time_format (wait[longest]));
    put (row, "share", share (wait[longest], result->step_time_ps));
    put (row, "name", g_strdup (word (facts, zs_wait_name (longest))));
    add_row (facts, "wait", row);
  }
  put_flag (facts, "hidden", moving > wait[ZS_WAIT_COMMUNICATION] && (double) moving > 0.01 * step);
  put (facts->facts, "exposed", zs_time_format (wait[ZS_WAIT_COMMUNICATION]));
  put (facts->facts, "moving", zs_time_format (moving));
  put_flag (facts, "waits_gather", is_sharded (&input->scenario->training)
            && (double) wait[ZS_WAIT_COMMUNICATION] > WORTH_SAYING * step);
  put_flag (facts, "gather_longer", moving > wait[ZS_WAIT_COMPUTE]);
  put_flag (facts, "waits_host", (double) wait[ZS_WAIT_HOST] > 4 * WORTH_SAYING * step);
  put_flag (facts, "waits_offload", (double) wait[ZS_WAIT_OFFLOAD] > WORTH_SAYING * step);
  const ZsStepResult *first = &g_array_index (result->steps, ZsStepResult, 0);

  if ((double) first->time > (1 + 2 * WORTH_SAYING) * step) {
    const ZsTraining *training = &input->scenario->training;
    bool zero3 = training->framework == ZS_FRAMEWORK_DEEPSPEED && training->zero.stage == 3
                 && training->world > 1;

    put (facts->facts, "first", zs_time_format (first->time));
    put (facts->facts, "first_reason",
         g_strdup (zs_explain_phrase (zero3 ? ZS_PHRASE_FIRST_ZERO3 : ZS_PHRASE_FIRST_OTHER,
                                      facts->language)));
  }
}

static void
add_changes (ZsFacts *facts, const ZsExplainInput *input)
{
  double before = input->result->outcome == ZS_OUTCOME_OK
                    ? input->result->tokens_per_second_per_gpu : 0;

  for (int c = 0; c < input->n_changes; c++) {
    const ZsChange *change = &input->changes[c];
    GHashTable *row = new_facts ();

    put (row, "change", g_strdup (change->change));
    put (row, "reason", g_strdup (change->reason != NULL ? word (facts, change->reason) : ""));
    put (row, "memory", zs_bytes_format (change->peak_device_bytes));
    put (row, "time", zs_time_format (change->step_time));
    if (before > 0)
      put (row, "gain",
           g_strdup_printf ("%+.0f %%", 100 * (change->tokens_per_second_per_gpu / before - 1)));
    put (row, "outcome",
         zs_facts_fill (facts, row, zs_explain_phrase (before > 0 ? ZS_PHRASE_FITS
                                                                  : ZS_PHRASE_FITS_NOW,
                                                       facts->language)));
    add_row (facts, "change", row);
    put_flag (facts, "changes", true);
  }
  put_flag (facts, "changes", input->changes == NULL);     /* nobody tried: nothing is said */
}

void
zs_facts_init (ZsFacts *facts, const ZsExplainInput *input, ZsLanguage language)
{
  ZsTime moving;

  *facts = (ZsFacts) { .language = language, .facts = new_facts (),
                       .lists = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, unref_list) };
  add_job (facts, input);
  add_memory (facts, input);
  moving = add_moves (facts, input->result);
  add_links (facts, input->result);
  add_waits (facts, input, moving);
  add_changes (facts, input);
}

void
zs_facts_clear (ZsFacts *facts)
{
  g_hash_table_unref (facts->facts);
  g_hash_table_unref (facts->lists);
}
