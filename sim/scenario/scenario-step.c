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
