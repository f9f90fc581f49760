/* calibration.h: fits what is uncertain of a machine to what was measured on it.
 * SPDX-License-Identifier: MIT
 *
 * Measured files go in one by one (nccl-tests, nvbandwidth or bandwidthTest, a scenario with a `measured:` block); the
 * answer is a set of factors on what the model says, each with the rows it rests on, its residual and its source.  A
 * factor that nothing measures stays 1 and is not written. */
#pragma once

#include "sim/network/nccl-log.h"
#include "sim/scenario/scenario.h"

typedef enum {
  ZS_FACTOR_COLLECTIVE_LATENCY, ZS_FACTOR_COLLECTIVE_LL, ZS_FACTOR_COLLECTIVE_SIMPLE, ZS_FACTOR_COLLECTIVE_NVLS,
  ZS_FACTOR_TO_GPU, ZS_FACTOR_TO_HOST, ZS_FACTOR_KERNELS, ZS_FACTOR_PYTHON, ZS_N_FACTORS
} ZsFactor;

const char *zs_factor_name (ZsFactor factor);   /* "collective_ll": the key of cluster.calibration */

typedef struct {
  double value;            /* 1: as the model says */
  int    n_rows;           /* measurements that it rests on; 0: not fitted */
  double before, after;    /* median error of those, without and with it */
  char  *source;           /* names of the files; NULL */
} ZsFitted;

typedef struct ZsCalibration ZsCalibration;

/* MACHINE must have no calibration of its own, and outlive it; its communicator is that of all GPUs. */
ZsCalibration *zs_calibration_new  (const ZsScenario *machine, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void           zs_calibration_free (ZsCalibration *calibration);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsCalibration, zs_calibration_free)

/* Takes what a file holds; tells its kind by the content.  A scenario (*.yaml) is loaded with CATALOGUE. */
bool zs_calibration_add_file (ZsCalibration *calibration, const char *path, ZsCatalogue *catalogue, ZsErrors *errors);
/* A collective of nccl-tests.  Fails if the log says that it is of another number of ranks. */
bool zs_calibration_add_log  (ZsCalibration *calibration, const ZsNcclLog *log, const char *source, GError **error);
/* RATE of pinned copies alone, of one GPU. */
void zs_calibration_add_copy (ZsCalibration *calibration, ZsCopyKind copy, ZsRate rate, const char *source);

/* Fits all that was added.  Steps are fitted last, on a machine with the other factors.  ERRORS: a step that
 * cannot be run. */
bool zs_calibration_fit (ZsCalibration *calibration, ZsCatalogue *catalogue, ZsErrors *errors);
const ZsScenario *zs_calibration_machine (const ZsCalibration *calibration);
const ZsFitted *zs_calibration_get (const ZsCalibration *calibration, ZsFactor factor);
/* The machine with its factors as YAML with a cluster: block: for --cluster, or to copy into a scenario.  Free with g_free. */
char *zs_calibration_yaml (const ZsCalibration *calibration);
