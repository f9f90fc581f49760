/* validate.h: scenarios with measured numbers against what a run of them predicts.
 * SPDX-License-Identifier: MIT
 *
 * A case without a model is a machine alone, with measured collectives and copies. */
#pragma once

#include <glib.h>
#include <stdbool.h>

#include "sim/base/error.h"
#include "sim/scenario/catalogue.h"

/* What is compared.  Bytes and verdicts are exact numbers, times calibrated ones. */
typedef enum {
  ZS_QUANTITY_OUTCOME,            /* 0 fits, 1 oom, 2 host-oom */
  ZS_QUANTITY_PEAK_ALLOCATED,     /* of training */
  ZS_QUANTITY_PEAK_RESERVED,
  ZS_QUANTITY_PEAK_DEVICE,
  ZS_QUANTITY_PHASE_ALLOCATED,    /* of a phase of the last step that was measured */
  ZS_QUANTITY_PHASE_RESERVED,
  ZS_QUANTITY_RESIDENT,           /* allocated at the end of the last step */
  ZS_QUANTITY_HOST_PINNED,
  ZS_QUANTITY_OOM_TRIED, ZS_QUANTITY_OOM_ALLOCATED, ZS_QUANTITY_OOM_RESERVED,
  ZS_QUANTITY_PHASE_TIME,
  ZS_QUANTITY_STEP_TIME,
  ZS_QUANTITY_TOKENS,             /* per second and GPU */
  ZS_QUANTITY_SAMPLES,            /* per second */
  /* of a machine alone */
  ZS_QUANTITY_COLLECTIVE_TIME,
  ZS_QUANTITY_COLLECTIVE_SLOWDOWN,   /* times as long as alone, beside other work */
  ZS_QUANTITY_BESIDE_SLOWDOWN,       /* of that other work */
  ZS_QUANTITY_COPY_TIME,          /* host and GPUs, several at once */
  ZS_N_QUANTITIES
} ZsQuantity;

const char *zs_quantity_name (ZsQuantity quantity);   /* "peak_allocated" */

typedef struct {
  int        case_index;
  ZsQuantity quantity;
  char       detail[48];     /* of a phase: "step 3 backward"; of a collective: "all_gather 64 MiB"; else "" */
  double     measured, predicted;
  double     error;          /* predicted / measured - 1; of outcomes 0 or 1 */
} ZsComparison;

typedef struct {
  char *path, *name;
  char *kind;                /* the folder below the one that was given, or "" */
  char *failure;             /* it could not be run: why; else NULL */
} ZsCase;

typedef struct {
  GArray *cases;             /* ZsCase */
  GArray *comparisons;       /* ZsComparison, by case */
} ZsValidation;

/* Runs each of PATHS (NULL-terminated; a folder stands for all *.yaml below it) on JOBS threads.
 * PROGRESS (may be NULL) is called from one thread at a time.  NULL and ERRORS if a path cannot be
 * read at all. */
ZsValidation *zs_validate (const char *const *paths, ZsCatalogue *catalogue, int jobs,
                           void (*progress) (void *self, int done, int all), void *self,
                           ZsErrors *errors) G_GNUC_WARN_UNUSED_RESULT;
void          zs_validation_free (ZsValidation *validation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsValidation, zs_validation_free)

/* Absolute errors of one quantity in one kind (NULL: all). */
typedef struct {
  int    n;
  double median, p90, p98, worst;
  int    within_half_percent, within_1, within_2, within_5, within_12, within_25;   /* percent */
} ZsErrorSummary;

bool zs_validation_summary (const ZsValidation *validation, ZsQuantity quantity, const char *kind,
                            ZsErrorSummary *ret_summary);
