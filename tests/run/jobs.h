/* jobs.h: whole jobs on a node of H200s, without files.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/run/cluster.h"
#include "sim/run/training.h"

typedef struct {
  ZsGpu         gpu;
  ZsHost        host;
  ZsTopology   *topology;
  ZsCluster    *cluster;
  ZsTraining    training;
} Job;

/* LLAMA_7B or a small model; STAGE -1: plain PyTorch on one GPU; fabric as in models/fabrics. */
typedef enum { MODEL_7B, MODEL_1B, MODEL_TINY } JobModel;

void job_init  (Job *job, JobModel model, int stage, int64_t world, const char *fabric);
/* After changes to job->training and job->host; aborts on errors. */
void job_ready (Job *job);
void job_clear (Job *job);
ZsResult *job_run (Job *job, const ZsRunOptions *options);   /* NULL: defaults */
