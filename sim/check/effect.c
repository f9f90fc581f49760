/* effect.c: what a piece of advice changes, found by simulating the job without and with it.
 * SPDX-License-Identifier: MIT
 *
 * Advice is either a key moved to where it is read, or a row of ADVICE.  Bytes are those of a GPU with
 * as much memory as is needed, so that jobs that do not fit can be compared too; whether they fit is
 * found on the GPU that was named. */
#include "config.h"

#include <string.h>

#include "sim/check/check-internal.h"
#include "sim/scenario/simulate.h"

#define ZERO "zero_optimization."
#define MAX_TRIED 16
/* More than any GPU has. */
#define AMPLE_BYTES (INT64_C (1) << 42)

/* The settings that follow a finding's advice; NULL: the finding's own key gets `instead`. */
static const struct {
  const char *code, *set;
} ADVICE[] = {
  { "overlap-costs-a-bucket", ZERO "overlap_comm=false" },
  { "states-stay-on-gpu", ZERO "offload_optimizer={device: cpu, pin_memory: true}" },
  { "activation-checkpointing-idle", "training.checkpointing=full" },
  { "no-checkpointing", "training.checkpointing=full" },
  { "large-persistence", ZERO "stage3_param_persistence_threshold=100000" },
  { "lora-with-full-buckets", ZERO "reduce_bucket_size=16777216" },
  { "bucket-cost", ZERO "reduce_bucket_size=16777216" },
  { "bucket-larger-than-model", ZERO "reduce_bucket_size=16777216" },
  { "tiny-bucket", NULL },
  { "tiny-prefetch", NULL },
  { "tiny-live-parameters", NULL },
  { "tiny-sub-group", NULL },
  { "no-overlap", NULL },
  { "no-reduce-scatter", NULL },
  { "not-contiguous", NULL },
  { "all-reduce-gather", NULL },
  { "sequential-gather", NULL },
  { "hpz-without-gain", NULL },
  { "quantized-weights-bf16", NULL },
  { "torch-optimizer-on-cpu", NULL },
  { "nvme-param-cpu-optimizer", NULL },
};

/* NODE as YAML in one line. */
static void
write_flow (GString *out, const ZsNode *node)
{
  bool object = node->kind == ZS_NODE_MAPPING;

  if (node->kind == ZS_NODE_SCALAR) {
    g_string_append_printf (out, node->quoted ? "\"%s\"" : "%s", node->text);
    return;
  }
  g_string_append_c (out, object ? '{' : '[');
  for (int i = 0; i < node->n_items; i++) {
    g_string_append (out, i > 0 ? ", " : "");
    if (object)
      g_string_append_printf (out, "\"%s\": ", node->keys[i]->text);
    write_flow (out, node->items[i]);
  }
  g_string_append_c (out, object ? '}' : ']');
}

/* "training.deepspeed.KEY=VALUE" for advice on FINDING, one a line; NULL: none that can be tried. */
static char *
setting_of (const ZsFindings *findings, const ZsFinding *finding, const ZsScenario *scenario)
{
  const ZsNode *value = NULL;
  g_autofree char *path = NULL;

  if (finding->severity == ZS_NOTE_ERROR) /* the job does not start: nothing to compare with */
    return NULL;
  if (strcmp (finding->code, "accumulation-saves-nothing") == 0)
    return g_strdup_printf ("train_micro_batch_size_per_gpu=1\ngradient_accumulation_steps=%" G_GINT64_FORMAT,
                            scenario->training.step.micro_batch);
  if (strcmp (finding->code, "one-cpu-thread") == 0) {
    int64_t threads = scenario->cluster.host.cores / MAX (1, scenario->cluster.gpus_per_node);

    return threads > 1 ? g_strdup_printf ("training.omp_threads=%" G_GINT64_FORMAT, threads) : NULL;
  }
  if (finding->fix == ZS_FIX_MOVE && strcmp (finding->code, "misplaced-key") == 0) {
    g_autoptr (GString) text = g_string_new (NULL);

    path = zs_findings_path (findings, finding->node, &value);
    if (path == NULL || value == NULL)
      return NULL;
    g_string_printf (text, "training.deepspeed.%s=", finding->instead);
    write_flow (text, value);
    return g_strdup (text->str);
  }
  for (size_t i = 0; i < G_N_ELEMENTS (ADVICE); i++) {
    if (strcmp (ADVICE[i].code, finding->code) != 0)
      continue;
    if (ADVICE[i].set != NULL)
      return g_strdup (ADVICE[i].set);
    path = zs_findings_path (findings, finding->node, &value);
    if (path == NULL || value == NULL || value->kind != ZS_NODE_SCALAR || finding->instead == NULL)
      return NULL;
    return g_strdup_printf ("%s%s=%s", g_str_has_prefix (path, "training.") ? "" : "training.deepspeed.",
                            path, finding->instead);
  }
  return NULL;
}

typedef struct {
  ZsOutcome outcome;       /* on the GPU as it is */
  int64_t peak, host;      /* bytes, on one with ample memory */
  ZsTime time;
} Tried;

static bool
try (ZsScenario *scenario, Tried *ret_tried)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ZsResult) result = zs_scenario_run (scenario, NULL, &error);
  g_autoptr (ZsResult) ample = NULL;

  if (result == NULL)
    return false;
  ret_tried->outcome = result->outcome;
  if (result->outcome == ZS_OUTCOME_OOM) {
    scenario->cluster.gpu.memory_bytes = AMPLE_BYTES;
    scenario->memory_limit_bytes = 0;
    ample = zs_scenario_run (scenario, NULL, &error);
    if (ample == NULL)
      return false;
  }
  const ZsResult *from = ample != NULL ? ample : result;

  ret_tried->peak = from->peak_allocated_bytes;
  ret_tried->host = from->host_pinned_peak_bytes + from->host_pageable_peak_bytes;
  ret_tried->time = from->step_time_ps;
  return true;
}

static ZsScenario *
load_with (const ZsScenarioSource *source, const char *set)
{
  g_autoptr (GPtrArray) sets = g_ptr_array_new ();
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_auto (GStrv) lines = g_strsplit (set != NULL ? set : "", "\n", -1);

  for (int i = 0; source->sets != NULL && source->sets[i] != NULL; i++)
    g_ptr_array_add (sets, (char *)source->sets[i]);
  for (int i = 0; lines[i] != NULL; i++)
    g_ptr_array_add (sets, lines[i]);
  g_ptr_array_add (sets, NULL);
  return zs_scenario_load (source->path, source->flags, (const char *const *)sets->pdata,
                           source->catalogue, errors);
}

void
zs_findings_try_advice (ZsFindings *findings, const ZsScenarioSource *source)
{
  g_autoptr (ZsScenario) scenario = load_with (source, NULL);
  Tried before, after;
  int n = 0;

  if (scenario == NULL || scenario->model_name == NULL)
    return;
  bool known = false;

  for (int i = 0; i < zs_findings_count (findings) && n < MAX_TRIED; i++) {
    const ZsFinding *finding = zs_findings_get (findings, i);
    g_autofree char *set = setting_of (findings, finding, scenario);

    if (set == NULL)
      continue;
    g_autoptr (ZsScenario) changed = load_with (source, set);

    if (changed == NULL)
      continue;
    if (!known && !try (scenario, &before))
      return;
    known = true;
    n++;
    if (!try (changed, &after))
      continue;
    ZsEffect effect = { .before = before.outcome, .after = after.outcome,
                        .peak_bytes = after.peak - before.peak, .host_bytes = after.host - before.host,
                        .step_time_ps = after.time - before.time, .peak_after_bytes = after.peak,
                        .set = g_steal_pointer (&set) };

    zs_findings_set_effect (findings, i, &effect);
  }
}
