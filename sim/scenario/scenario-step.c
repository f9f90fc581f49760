/* scenario-step.c: `checkpointing` and `optimizer` of the section `training`.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/scenario/scenario-internal.h"

enum { OPTIMIZER_UNKNOWN = -1 };

/* `checkpointing`: none, full or a mapping. */
bool
zs_reader_checkpointing (ZsReader *reader, const ZsNode *node, ZsStepShape *step, bool *reentrant_given)
{
  typedef struct {
    int64_t every;
    bool reentrant;
  } Checkpointing;
  static const ZsField fields[] = {
    { ZS_FIELD ("every", INT, Checkpointing, every), .min = 1, .max = 4096 },
    { ZS_FIELD ("reentrant", BOOL, Checkpointing, reentrant) },
  };
  static const char *const words[] = { "none", "full", NULL };
  static const ZsField word_field = { .key = "checkpointing",
                                      .type = ZS_FIELD_WORD,
                                      .words = words };
  Checkpointing value = { .every = 1 };
  const ZsNode *given[G_N_ELEMENTS (fields)];
  bool truth;
  int word;

  if (node == NULL)
    return true;
  if (node->kind == ZS_NODE_MAPPING) {
    if (!zs_schema_read (node, "checkpointing", fields, G_N_ELEMENTS (fields), &value, given,
                         reader->errors))
      return false;
    step->checkpoint_every = value.every;
    if (given[1] != NULL) {
      step->reentrant = value.reentrant;
      *reentrant_given = true;
    }
    return true;
  }
  if (zs_node_bool (node, &truth)) { /* gradient_checkpointing: true */
    step->checkpoint_every = truth;
    return true;
  }
  if (node->kind != ZS_NODE_SCALAR)
    return zs_node_fail (node, reader->errors,
                         "'checkpointing' must be none, full or {every: 2}, not %s",
                         zs_node_describe (node));
  if (!zs_schema_read_field (node, &word_field, &word, reader->errors))
    return false;
  step->checkpoint_every = word;
  return true;
}

bool
zs_reader_optimizer (ZsReader *reader, const ZsNode *node, ZsOptimizerKind *ret_kind,
                     int64_t *ret_groups)
{
  typedef struct {
    int name, implementation;
    int64_t groups;
    double momentum;
  } Optimizer;
  static const char *const names[] = { "adamw", "adam", "sgd", "adafactor", "adamw_8bit",
                                       "paged_adamw_8bit", "paged_adamw_32bit", NULL };
  /* of TrainingArguments' `optim` beside these; AdamW's implementation is a key of its own */
  static const int values[] = { ZS_OPTIMIZER_FUSED, ZS_OPTIMIZER_FUSED, ZS_OPTIMIZER_SGD,
                                ZS_OPTIMIZER_ADAFACTOR, ZS_OPTIMIZER_ADAMW_8BIT,
                                ZS_OPTIMIZER_PAGED_ADAMW_8BIT, ZS_OPTIMIZER_PAGED_ADAMW_32BIT };
  static const char *const kinds[] = { "fused", "foreach", "for-loop", NULL };
  static const int kind_values[] = { ZS_OPTIMIZER_FUSED, ZS_OPTIMIZER_FOREACH,
                                     ZS_OPTIMIZER_FOR_LOOP };
  static const ZsField fields[] = {
    { ZS_FIELD ("name", WORD, Optimizer, name), .words = names, .word_values = values },
    { ZS_FIELD ("implementation", WORD, Optimizer, implementation), .words = kinds,
      .word_values = kind_values },
    { ZS_FIELD ("groups", INT, Optimizer, groups), .min = 1, .max = 2,
      .help = "parameter groups; the Trainer makes 2, with and without weight decay" },
    { ZS_FIELD ("momentum", NUMBER, Optimizer, momentum), .high = 1, .help = "of SGD" },
  };
  const ZsVersions *versions = &reader->scenario->cluster.versions;
  Optimizer value = { ZS_OPTIMIZER_FUSED, OPTIMIZER_UNKNOWN, 0, 0 };
  const ZsNode *given[G_N_ELEMENTS (fields)] = { NULL };

  if (node != NULL
      && !zs_schema_read (node, "optimizer", fields, G_N_ELEMENTS (fields), &value, given,
                          reader->errors))
    return false;
  zs_reader_record (reader, "training.optimizer.", fields, G_N_ELEMENTS (fields), given);
  *ret_groups = value.groups;
  if (value.name >= ZS_OPTIMIZER_ADAMW_8BIT)
    zs_notes_add (reader->notes, ZS_NOTE_INFO, "bitsandbytes", given[0],
                  "the states of bitsandbytes' optimizers are from its sources and were not measured; its "
                  "times are those of a kernel that reads and writes as much");
  if (value.name != ZS_OPTIMIZER_FUSED) {
    *ret_kind = value.name == ZS_OPTIMIZER_SGD && value.momentum > 0 ? ZS_OPTIMIZER_SGD_MOMENTUM
                                                                     : (ZsOptimizerKind)value.name;
    return true;
  }
  if (value.implementation == OPTIMIZER_UNKNOWN) {
    /* TrainingArguments: adamw_torch_fused from transformers 5 with torch 2.8, before adamw_torch,
     * whose default on a GPU is foreach (training_args.py; torch/optim/adamw.py) */
    bool fused = versions->of[ZS_SOFTWARE_TRANSFORMERS] >= ZS_VERSION (5, 0, 0)
                 && versions->of[ZS_SOFTWARE_TORCH] >= ZS_VERSION (2, 8, 0);

    value.implementation = fused ? ZS_OPTIMIZER_FUSED : ZS_OPTIMIZER_FOREACH;
    zs_reader_default (reader, "training.optimizer.implementation",
                       "transformers' TrainingArguments", "%s", fused ? "fused" : "foreach");
  }
  *ret_kind = (ZsOptimizerKind)value.implementation;
  return true;
}

bool
zs_reader_liger (ZsReader *reader, const ZsNode *node, const ZsNode *fused, ZsStepShape *step)
{
  typedef struct {
    bool kernels[5];
  } Liger;
  static const ZsField fields[] = {
    { ZS_FIELD ("rope", BOOL, Liger, kernels[0]) },
    { ZS_FIELD ("swiglu", BOOL, Liger, kernels[1]) },
    { ZS_FIELD ("rms_norm", BOOL, Liger, kernels[2]) },
    { ZS_FIELD ("cross_entropy", BOOL, Liger, kernels[3]) },
    { ZS_FIELD ("fused_linear_cross_entropy", BOOL, Liger, kernels[4]) },
  };
  static const unsigned bits[] = { ZS_LIGER_ROPE, ZS_LIGER_SWIGLU, ZS_LIGER_RMS_NORM,
                                   ZS_LIGER_CROSS_ENTROPY, ZS_LIGER_FUSED_LOSS };
  Liger value = { { true, true, true, false, true } };   /* apply_liger_kernel_to_llama () */
  const ZsNode *given[G_N_ELEMENTS (fields)] = { NULL };
  bool on = true, truth;

  if (node == NULL || zs_node_is_null (node))
    return true;
  if (node->kind == ZS_NODE_MAPPING) {
    if (!zs_schema_read (node, "liger", fields, G_N_ELEMENTS (fields), &value, given, reader->errors))
      return false;
  } else if (zs_node_bool (node, &on)) {
    if (!on)
      return true;
  } else {
    return zs_node_fail (node, reader->errors,
                         "'liger' must be true, false or a mapping such as {rope: false}, not %s",
                         zs_node_describe (node));
  }
  for (size_t i = 0; i < G_N_ELEMENTS (bits); i++)
    step->liger |= value.kernels[i] ? bits[i] : 0;
  if (value.kernels[3] && value.kernels[4])
    return zs_node_fail (given[3] != NULL ? given[3] : node, reader->errors,
                         "liger_kernel: \"cross_entropy and fused_linear_cross_entropy cannot both be True\"; "
                         "say fused_linear_cross_entropy: false");
  if (fused != NULL && zs_node_bool (fused, &truth) && truth)
    return zs_node_fail (fused, reader->errors,
                         "`fused_operators` says the same of times as `liger`, which counts bytes too: "
                         "leave it out");
  zs_notes_add (reader->notes, ZS_NOTE_INFO, "liger", node,
                "Liger's kernels are after its sources: steps with kernels written like them agree to the byte on one "
                "H200; the package itself was not run, and older releases may hold more of the logits");
  return true;
}
