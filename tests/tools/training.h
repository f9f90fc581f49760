/* training.h: a measured run's settings as a ZsTraining.  SPDX-License-Identifier: MIT
 *
 * The measured runs are named by keys and values, in JSON or in CSV; one setter serves both. */
#pragma once

#include <jansson.h>

#include "sim/job/job.h"

/* One H200, torch 2.11, transformers 5.17, DeepSpeed 0.14.4, phases synchronised. */
void test_training_init (ZsTraining *training);
/* KEY as in trace_runs.jsonl or memory.csv; unknown keys and empty values are ignored. */
void test_training_set (ZsTraining *training, const char *key, const char *value);
/* After the last set: what depends on several keys. */
void test_training_finish (ZsTraining *training);
/* The keys and values of an object and of the objects in it, as a ds_config has them. */
void test_training_apply_json (ZsTraining *training, json_t *object);
/* Does the planner have this framework? */
bool test_training_is_simulated (const ZsTraining *training);
/* A line of trace_runs.jsonl. */
void test_training_from_json (ZsTraining *training, json_t *run);
/* A configuration line of tests/data/steps. */
void test_training_from_step (ZsTraining *training, json_t *run);
/* A line of tests/data/h200-more/runs.jsonl. */
void test_training_from_more (ZsTraining *training, json_t *run);
