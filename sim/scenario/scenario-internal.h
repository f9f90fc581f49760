/* scenario-internal.h: what the files of the scenario reader share.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/io/schema.h"
#include "sim/scenario/scenario.h"

typedef struct {
  ZsScenario    *scenario;
  ZsDocument    *document;
  ZsNode        *root;
  ZsCatalogue   *catalogue;
  ZsErrors      *errors;
  ZsNotes       *notes;
  ZsSettings    *settings;
  bool           launched;     /* by torchrun or accelerate: its file, or a program's that calls them */
  bool           trainer;      /* so do TrainingArguments */
  bool           upcasts;      /* whose program trains fp32 copies of 16-bit weights, unless something shards them */
  const ZsNode  *mixed;        /* the dtype of their mixed precision; NULL: none is asked for */
} ZsReader;

/* ---- scenario-document.c: the tree, before it is read ---- */

typedef enum { ZS_FOREIGN_NONE, ZS_FOREIGN_ACCELERATE, ZS_FOREIGN_TRAINING_ARGS } ZsForeign;

/* Reads PATH into a new document whose root is a scenario, also if PATH is a ds_config.  If it is a file of
 * accelerate or Hugging Face's, the scenario is empty: the caller imports it. */
ZsDocument *zs_reader_load (const char *path, ZsNotes *notes, ZsForeign *ret_foreign, ZsErrors *errors);
/* A file named in NODE: beside the scenario, or for a flag where the program was started.  Free with g_free. */
char *zs_reader_file (const ZsNode *node);
/* Where `training.deepspeed` names a file, puts its tree in that place. */
bool  zs_reader_graft (ZsReader *reader);
/* VALUE at the dotted PATH; mappings on the way are made. */
bool  zs_reader_put (ZsReader *reader, const char *path, ZsNode *value);
/* The same if there is nothing yet. */
bool  zs_reader_put_default (ZsReader *reader, const char *path, ZsNode *value);
ZsNode *zs_reader_find (const ZsReader *reader, const char *path);
bool  zs_reader_apply_flags (ZsReader *reader, const ZsScenarioFlags *flags);
bool  zs_reader_apply_sets (ZsReader *reader, const char *const *sets);
/* Those of SETS that name a version, on which it depends what a file of another program means. */
bool  zs_reader_apply_versions (ZsReader *reader, const char *const *sets);

/* ---- scenario-import.c: files of other programs ---- */
bool zs_reader_import_accelerate (ZsReader *reader, const char *path);
bool zs_reader_import_training_args (ZsReader *reader, const char *path);
/* After both, and after --set: what their mixed precision is under the framework that they chose (accelerator.py: native_amp). */
bool zs_reader_end_imports (ZsReader *reader);

/* ---- sections; false if an error was added ---- */
bool zs_reader_model (ZsReader *reader);
bool zs_reader_cluster (ZsReader *reader);
bool zs_reader_training (ZsReader *reader);
/* Parts of them: scenario-topology.c (FABRIC and NETWORK may be NULL; HAS_COUNT: gpus_per_node was given),
 * scenario-adapters.c. */
bool zs_reader_topology (ZsReader *reader, const ZsNode *fabric, const ZsNode *network, bool has_count);
void zs_reader_note_algorithms (ZsReader *reader);
/* scenario-step.c */
bool zs_reader_checkpointing (ZsReader *reader, const ZsNode *node, ZsStepShape *step,
                              bool *reentrant_given);
bool zs_reader_optimizer (ZsReader *reader, const ZsNode *node, ZsOptimizerKind *ret_kind,
                          int64_t *ret_groups);
/* scenario-lengths.c: NULL where a key was not given */
typedef struct {
  const ZsNode *node, *multiple, *mask, *steps, *inputs;
  int64_t pad_to_multiple_of;
} ZsLengthSettings;
/* Reads LENGTHS (`sequence_lengths`; NULL: not given) and chooses the longest where SEQUENCE is NULL. */
bool zs_reader_sequence (ZsReader *reader, const ZsNode *sequence, const ZsNode *lengths, ZsTraining *training);
/* What follows from lengths for mask, inputs and steps of TRAINING, which is known but for them. */
bool zs_reader_lengths (ZsReader *reader, const ZsLengthSettings *settings, ZsTraining *training);
/* `liger`; FUSED: `fused_operators`, where it is given */
bool zs_reader_liger (ZsReader *reader, const ZsNode *node, const ZsNode *fused, ZsStepShape *step);
/* scenario-versions.c: what was given for framework, torch and transformers; `deepspeed`: that is the
 * framework */
enum { ZS_N_GIVEN_VERSIONS = 3 };
void zs_reader_versions (ZsReader *reader, bool deepspeed, const ZsNode *const given[ZS_N_GIVEN_VERSIONS],
                         const ZsVersion values[ZS_N_GIVEN_VERSIONS]);
/* Those that the tree asks for, before it is read; a wrong one counts as the default. */
ZsVersions zs_reader_asked_versions (const ZsReader *reader);
bool zs_reader_ddp (ZsReader *reader, const ZsNode *node, ZsTraining *training);
bool zs_reader_lora (ZsReader *reader, const ZsNode *node, ZsStepShape *step, bool *ret_dtype_given);
void zs_reader_cast_lora (ZsReader *reader, ZsTraining *training, bool dtype_given);
/* computing in the dtype of TRAINING's step unless the section says another */
bool zs_reader_fsdp (ZsReader *reader, const ZsNode *node, ZsTraining *training);
/* bf16, fp16, fp32 and their long names, with their ZsDtype */
extern const char *const ZS_DTYPE_WORDS[];
extern const int ZS_DTYPE_VALUES[];
bool zs_reader_measured (ZsReader *reader);
/* Add the names of the keys of a section. */
void zs_cluster_add_keys (GPtrArray *words);
void zs_training_add_keys (GPtrArray *words);

/* ---- settings ---- */

/* A row for each field that was given. */
void zs_reader_record (ZsReader *reader, const char *section, const ZsField *fields, int n_fields,
                       const ZsNode **given);
/* A row for a default, unless PATH has one. */
void zs_reader_default (ZsReader *reader, const char *path, const char *whose, const char *format, ...)
  G_GNUC_PRINTF (4, 5);
