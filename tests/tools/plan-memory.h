/* plan-memory.h: a plan run through the allocators, without time.  SPDX-License-Identifier: MIT
 *
 * Frees that wait for another stream complete at once, as they did in measured runs whose collectives
 * took no time. */
#pragma once

#include "sim/job/job.h"
#include "sim/memory/alloc-conf.h"
#include "sim/memory/caching-allocator.h"
#include "sim/memory/host-allocator.h"

typedef struct TestPlanMemory TestPlanMemory;

TestPlanMemory *test_plan_memory_new  (const ZsAllocConf *conf, int64_t limit);
void            test_plan_memory_free (TestPlanMemory *memory);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TestPlanMemory, test_plan_memory_free)

/* BYTES that stay, before the plan. */
void test_plan_memory_hold (TestPlanMemory *memory, int64_t bytes);
/* Peaks begin anew.  false: it does not fit. */
bool test_plan_memory_execute (TestPlanMemory *memory, const ZsPlan *plan);
const ZsCachingAllocator *test_plan_memory_gpu  (const TestPlanMemory *memory);
const ZsHostAllocator    *test_plan_memory_host (const TestPlanMemory *memory);

/* The name of the phase that PLAN begins with, as in the recordings ("s2m0_fwd"); free with g_free. */
char *test_phase_name (const ZsInstruction *instruction);
