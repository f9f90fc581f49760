/* check.h: finds in a person's files what is wrong, ignored, without effect, risky or slow.
 * SPDX-License-Identifier: MIT
 *
 * Files: a ds_config.json, an accelerate YAML, a TrainingArguments JSON, a scenario.  Each finding
 * says what the real software does with the words of the file, and what to write instead.  Where a
 * model and GPUs are known, what the advice changes can be found by simulating both.
 *
 * A finding's code is a row of findings.def; adding one is a row there and its predicate.
 */
#pragma once

#include "sim/io/json-writer.h"
#include "sim/scenario/ds-config.h"
#include "sim/scenario/scenario.h"
#include "sim/study/suggest.h"

typedef enum {
  ZS_CHECK_GUESS, /* by name and content */
  ZS_CHECK_DS_CONFIG,
  ZS_CHECK_ACCELERATE,
  ZS_CHECK_ARGUMENTS, /* TrainingArguments */
  ZS_CHECK_SCENARIO,
} ZsCheckKind;

/* What is known beside the file; 0, and -1 where 0 means something, is "not known".  More is found
 * with more known. */
typedef struct {
  ZsDsContext ds;         /* versions, caller, world, hidden size, ... */
  int64_t n_elements;     /* of the model */
  int64_t n_trainable;    /* fewer with LoRA */
  int64_t largest_tensor; /* elements */
  bool lora;
  bool load_in_4bit;
  bool mixture;    /* of experts */
  bool mixed_gpus; /* the machine has GPUs of several kinds */
  int64_t host_memory_bytes; /* of a node */
  int64_t n_nodes;
  int64_t omp_threads; /* of each rank; -1 not known */
} ZsCheckOptions;

/* What a correction does; see zs_check_fix. */
typedef enum {
  ZS_FIX_NONE,
  ZS_FIX_VALUE, /* `instead` is the JSON text of the value */
  ZS_FIX_MOVE,  /* the key goes to the path `instead` (renamed or moved) */
  ZS_FIX_REMOVE,
  ZS_FIX_OFFLOAD, /* a deprecated switch becomes {"device": "cpu"} at `instead` */
} ZsFixKind;

/* What following a finding's advice changes: differences, positive where the advice takes more. */
typedef struct {
  char *set;               /* the change that was tried, as for --set; one a line */
  ZsOutcome before, after; /* on the GPU as it is */
  int64_t peak_bytes;      /* allocated, on a GPU with room for both */
  int64_t host_bytes;      /* per node */
  ZsTime step_time_ps;
  int64_t peak_after_bytes;
} ZsEffect;

typedef struct {
  ZsNoteSeverity severity;
  const char *code; /* static */
  char *file;
  int line, column; /* from 1; 0: no lines */
  char *text;
  char *instead; /* what to write, or NULL */
  ZsFixKind fix;
  const ZsNode *node; /* lives as long as the findings; NULL: none */
  ZsEffect *effect;   /* NULL: not tried */
} ZsFinding;

typedef struct ZsFindings ZsFindings;

void zs_check_options_init (ZsCheckOptions *options);
/* Is NAME, a model's name or the path of its config.json, a mixture of experts? */
bool zs_check_is_mixture (const char *name);
/* What SCENARIO knows about the model, the machine and the versions, into OPTIONS. */
void zs_check_options_take (ZsCheckOptions *options, const ZsScenario *scenario);

/* Findings in PATH, in the order of the file.  A file that cannot be read or parsed is one finding
 * of severity error. */
ZsFindings *zs_check_file (const char *path, ZsCheckKind kind,
                           const ZsCheckOptions *options) G_GNUC_WARN_UNUSED_RESULT;
/* The same of TEXT (LENGTH bytes), which came from FILE. */
ZsFindings *zs_check_text (const char *file, const char *text, gsize length, ZsCheckKind kind,
                           const ZsCheckOptions *options) G_GNUC_WARN_UNUSED_RESULT;
void zs_findings_free (ZsFindings *findings);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsFindings, zs_findings_free)

/* Simulates the job of SOURCE, the file that was checked, and again with the advice of each finding
 * that says how to write it better; at most some.  Nothing if SOURCE is no job that can be run. */
void zs_findings_try_advice (ZsFindings *findings, const ZsScenarioSource *source);

int zs_findings_count (const ZsFindings *findings);
const ZsFinding *zs_findings_get (const ZsFindings *findings, int index);
/* Does one of them have severity error: exit status 1? */
bool zs_findings_has_error (const ZsFindings *findings);
/* The kind that the file was taken for. */
ZsCheckKind zs_findings_kind (const ZsFindings *findings);

/* ---- output ---- */

/* "file:line:column: severity: text [code]" and, where there is one, "  instead: ..." below it, with
 * what that changes if it was tried.  Three or more notes of one code are one line.  What makes all of
 * it pointless (offload that is nowhere read) comes first.  Free with g_free. */
char *zs_findings_text (const ZsFindings *findings);
/* {"findings": [...]} of one or several files. */
void zs_findings_json (const ZsFindings *const *list, int n, ZsJsonWriter *writer);
/* SARIF 2.1.0, which code hosts show beside the lines. */
void zs_findings_sarif (const ZsFindings *const *list, int n, ZsJsonWriter *writer);

/* The file as strict JSON with every correction made that changes nothing but what was meant:
 * values in their right type, names as DeepSpeed spells them, keys at their level, inventions left
 * out. Comments go, since strict JSON has none.  *RET_N (may be NULL): how many corrections.  NULL
 * if there is nothing that can be corrected (no ds_config, or not parsed).  Free with g_free. */
char *zs_check_fix (ZsFindings *findings, int *ret_n);

/* ---- the table ---- */
typedef struct {
  const char *code;
  ZsNoteSeverity severity; /* the usual one */
  const char *title;       /* one sentence */
} ZsFindingRow;

const ZsFindingRow *zs_finding_rows (int *ret_n);
/* The row of CODE; NULL if there is none. */
const ZsFindingRow *zs_finding_row (const char *code);
