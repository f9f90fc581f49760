/* scenario.c: a scenario's own mistakes, and those of its ds_config.  SPDX-License-Identifier: MIT
 */
#include "config.h"

#include <string.h>

#include "sim/check/check-internal.h"
#include "sim/model/model.h"

void
zs_check_options_take (ZsCheckOptions *options, const ZsScenario *scenario)
{
  const ZsTraining *training = &scenario->training;
  const ZsHost *host = &scenario->cluster.host;
  g_autoptr (ZsModel) model = zs_model_new (&training->shape, &training->step.lora,
                                            training->step.dtype, &scenario->cluster.versions);

  options->ds.versions = scenario->cluster.versions;
  options->ds.world = training->world;
  options->ds.node_ranks = scenario->cluster.gpus_per_node;
  options->ds.hidden = training->shape.hidden;
  options->ds.client_optimizer = training->step.optimizer;
  options->ds.zero_init = training->zero.zero_init;
  options->n_elements = model->n_elements;
  options->n_trainable = model->n_trainable;
  options->lora = training->step.lora.rank > 0;
  options->load_in_4bit = training->step.load_in_4bit;
  for (int32_t i = 0; i < model->n_parameters; i++)
    options->largest_tensor = MAX (options->largest_tensor, model->parameters[i].elements);
  options->host_memory_bytes = host->memory_bytes;
  options->n_nodes = scenario->cluster.n_nodes;
  options->omp_threads = host->omp_threads;
  options->mixture = options->mixture
                     || (scenario->model_name != NULL && zs_check_is_mixture (scenario->model_name));
  for (int g = 1; scenario->topology != NULL && g < scenario->topology->n_gpus; g++) {
    const ZsTopology *topology = scenario->topology;

    options->mixed_gpus |= topology->parts[topology->gpus[g]].compute_capability
                           != topology->parts[topology->gpus[0]].compute_capability;
  }
}

/* Is there a finding of the same severity at the place already? */
static bool
is_known (const ZsFindings *findings, ZsNoteSeverity severity, const char *file, int line,
          int column)
{
  for (int i = 0; i < zs_findings_count (findings); i++) {
    const ZsFinding *finding = zs_findings_get (findings, i);

    if (finding->severity == severity && finding->line == line && finding->column == column
        && g_strcmp0 (finding->file, file) == 0)
      return true;
  }
  return false;
}

/* The errors of the reader that the rules have not found themselves. */
static void
add_errors (ZsFindings *findings, const ZsErrors *errors)
{
  for (int i = 0; i < MIN (zs_errors_count (errors), ZS_MAX_ERRORS); i++) {
    g_autoptr (ZsFindings) parsed = zs_findings_new ();
    const ZsFinding *finding;

    zs_findings_add_error (parsed, "scenario", zs_errors_get (errors, i));
    finding = zs_findings_get (parsed, 0);
    if (!is_known (findings, ZS_NOTE_ERROR, finding->file, finding->line, finding->column))
      zs_findings_add_error (findings, "scenario", zs_errors_get (errors, i));
  }
}

static void
add_notes (ZsFindings *findings, const ZsNotes *notes)
{
  for (int i = 0; i < zs_notes_count (notes); i++) {
    const ZsNote *note = zs_notes_get (notes, i);
    ZsNode place = { .file = note->file, .line = note->line, .column = note->column };

    if (zs_finding_row (note->code) == NULL) /* the others come from the ds_config's own rules */
      zs_findings_add (findings, note->severity, note->code, note->file != NULL ? &place : NULL,
                       NULL, "%s", note->text);
  }
}

void
zs_check_scenario (ZsFindings *findings, const char *file, const ZsNode *root,
                   const ZsCheckOptions *given)
{
  const ZsNode *training = zs_node_get (root, "training");
  const ZsNode *deepspeed = zs_node_get (training, "deepspeed");
  g_autoptr (ZsCatalogue) catalogue = zs_catalogue_new (NULL);
  g_autoptr (ZsErrors) errors = zs_errors_new ();
  g_autoptr (ZsScenario) scenario = zs_scenario_read (root, file, NULL, NULL, catalogue, errors);
  ZsCheckOptions options = *given;
  int64_t number;
  int stage = -1;

  if (options.ds.caller == ZS_DS_EITHER)
    options.ds.caller = ZS_DS_HUGGING_FACE;
  const ZsNode *model = zs_node_get (root, "model");

  options.mixture = model != NULL && model->kind == ZS_NODE_SCALAR && zs_check_is_mixture (model->text);
  if (scenario != NULL)
    zs_check_options_take (&options, scenario);
  if (zs_node_int (zs_node_get (training, "micro_batch"), &number))
    options.ds.micro_batch = number;
  if (zs_node_int (zs_node_get (training, "gradient_accumulation"), &number))
    options.ds.accumulation = number;
  if (scenario != NULL && zs_node_get (training, "dtype") != NULL) {
    options.ds.dtype_given = true;
    options.ds.dtype = scenario->training.step.dtype;
  }
  if (deepspeed != NULL && deepspeed->kind == ZS_NODE_MAPPING)
    stage = zs_check_ds_root (findings, deepspeed, &options);
  else if (deepspeed != NULL && !zs_node_is_null (deepspeed))
    stage = zs_check_ds_path (findings, deepspeed, file, &options);
  if (stage == 3 && !options.ds.zero_init)
    zs_findings_add (findings, ZS_NOTE_RISKY, "whole-model-at-load",
                     zs_node_get_key (training, "zero_init"), "true",
                     "without zero.Init every rank loads the whole model and moves it to its GPU "
                     "before it is sharded");
  add_errors (findings, errors);
  if (scenario != NULL)
    add_notes (findings, scenario->notes);
}
