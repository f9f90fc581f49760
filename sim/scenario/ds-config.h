/* ds-config.h: what a ds_config.json means: every ZeRO setting typed, defaulted, "auto" resolved.
 * SPDX-License-Identifier: MIT
 *
 * DeepSpeed's own rules decide: sections with typed keys refuse what they do not know, the top
 * level ignores it; a default depends on the version; "auto" is Hugging Face's word.  What would
 * stop a start-up is an error, everything else that a person should hear is a note.
 */
#pragma once

#include "sim/model/shape.h"
#include "sim/scenario/ds-keys.h"
#include "sim/scenario/notes.h"
#include "sim/zero/config.h"

/* Who hands the file to DeepSpeed: decides about "auto", strict JSON and the optimizer. */
typedef enum {
  ZS_DS_HUGGING_FACE, /* Trainer or accelerate */
  ZS_DS_PLAIN,        /* deepspeed.initialize () in a person's own program */
  ZS_DS_EITHER,       /* not known (a linter): "auto" is resolved, what only one refuses is risky */
} ZsDsCaller;

/* What is known beside the file; 0 or a negative number: not known. */
typedef struct {
  ZsVersions versions;
  ZsDsCaller caller;
  int64_t world, node_ranks;
  int64_t hidden;                    /* of the model */
  int64_t micro_batch, accumulation; /* per_device_train_batch_size and its like */
  bool dtype_given;
  ZsDtype dtype;            /* --bf16, --fp16; not given: what the rest of the scenario takes */
  double max_grad_norm;     /* fills in "auto" */
  bool clipping_must_match; /* a number of the file that differs from it is an error (Trainer) */
  ZsOptimizerKind client_optimizer; /* implementation of a torch AdamW, if that one is used */
  int client_groups;                /* its parameter groups; 0: as the caller makes them */
  bool zero_init;
  const char *prefix; /* of paths in the settings: "training.deepspeed." or "" */
} ZsDsContext;

typedef struct {
  ZsZeroConfig zero;                                            /* everything filled in */
  int64_t train_batch_size, micro_batch, gradient_accumulation; /* 0: cannot be known */
  ZsDtype dtype;                                                /* of the model */
  bool autocast; /* torch_autocast: fp32 parameters */
  ZsDtype autocast_dtype;
  bool optimizer_section;      /* the file names the optimizer */
  bool torch_optimizer_on_cpu; /* offload without DeepSpeed's CPU Adam */
  bool wall_clock_breakdown;
  bool activation_checkpointing_section;
} ZsDsConfig;

/* Everything unknown; DeepSpeed 0.19.5, PyTorch 2.11, transformers 5.17, Hugging Face, bf16. */
void zs_ds_context_init (ZsDsContext *context);

/* Reads PATH as HJSON.  What Hugging Face's strict JSON would refuse becomes a note, a name given
 * twice an error, as in DeepSpeed. */
ZsDocument *zs_ds_config_load (const char *path, ZsNotes *notes, GError **error);

/* Fills *RET_CONFIG from ROOT (a mapping, of a ds_config or inline in a scenario).  False if an
 * error was added; *RET_CONFIG is then not to be used.  NOTES and SETTINGS may be NULL. */
bool zs_ds_config_read (const ZsNode *root, const ZsDsContext *context, ZsDsConfig *ret_config,
                        ZsErrors *errors, ZsNotes *notes, ZsSettings *settings);

/* The same for a linter: everything there is to say goes to REPORT.  CODE is static and a row of
 * sim/check's table; NODE is the key or value it is about; INSTEAD, if not NULL, what to write
 * there. */
typedef void (*ZsDsReport) (void *data, ZsNoteSeverity severity, const char *code,
                            const ZsNode *node, const char *instead, const char *text);
void zs_ds_config_examine (const ZsNode *root, const ZsDsContext *context, ZsDsConfig *ret_config,
                           ZsDsReport report, void *data, ZsSettings *settings);

/* The node of the key PATH in ROOT, under its name or its alias; NULL if it is not given. */
const ZsNode *zs_ds_config_get (const ZsNode *root, const char *path);
const ZsNode *zs_ds_config_get_key (const ZsNode *root, const char *path);
