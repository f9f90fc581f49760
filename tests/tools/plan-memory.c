/* plan-memory.c: executing the memory instructions of a plan.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/tools/plan-memory.h"

/* Of the H200 that was measured, as torch reports it. */
#define TOTAL_MEMORY INT64_C (150109880320)

struct TestPlanMemory {
  ZsCachingAllocator *allocator;
  ZsHostAllocator    *host;
  ZsBlock           **blocks;
  ZsHostBlock        *host_blocks;
  uint32_t            room;
};

TestPlanMemory *
test_plan_memory_new (const ZsAllocConf *conf, int64_t limit)
{
  TestPlanMemory *memory = g_new0 (TestPlanMemory, 1);
  ZsAllocatorHost host = { 0 };

  memory->allocator = zs_caching_allocator_new (conf, TOTAL_MEMORY, &host);
  memory->host = zs_host_allocator_new ();
  zs_caching_allocator_set_limit (memory->allocator, limit);
  return memory;
}

void
test_plan_memory_free (TestPlanMemory *memory)
{
  if (memory == NULL)
    return;
  zs_caching_allocator_free (memory->allocator);
  zs_host_allocator_free (memory->host);
  g_free (memory->blocks);
  g_free (memory->host_blocks);
  g_free (memory);
}

void
test_plan_memory_hold (TestPlanMemory *memory, int64_t bytes)
{
  zs_caching_allocator_malloc (memory->allocator, bytes, ZS_STREAM_COMPUTE, ZS_CATEGORY_INPUT, 0);
}

const ZsCachingAllocator *
test_plan_memory_gpu (const TestPlanMemory *memory)
{
  return memory->allocator;
}

const ZsHostAllocator *
test_plan_memory_host (const TestPlanMemory *memory)
{
  return memory->host;
}

static void
grow (TestPlanMemory *memory, uint32_t id)
{
  if (id < memory->room)
    return;
  memory->room = MAX (1024, id * 2);
  memory->blocks = g_renew (ZsBlock *, memory->blocks, memory->room);
  memory->host_blocks = g_renew (ZsHostBlock, memory->host_blocks, memory->room);
}

static ZsHostKind
host_kind (const ZsInstruction *instruction)
{
  return instruction->flags & ZS_FLAG_EXACT_PIN ? ZS_HOST_PINNED_EXACT
         : instruction->flags & ZS_FLAG_PINNED  ? ZS_HOST_PINNED
                                                : ZS_HOST_PAGEABLE;
}

bool
test_plan_memory_execute (TestPlanMemory *memory, const ZsPlan *plan)
{
  zs_caching_allocator_reset_peaks (memory->allocator);
  for (int64_t i = 0; i < plan->n_code; i++) {
    const ZsInstruction *instruction = &plan->code[i];
    uint32_t id = instruction->id;

    switch (instruction->op) {
    case ZS_OP_ALLOC:
      grow (memory, id);
      memory->blocks[id] = zs_caching_allocator_malloc (memory->allocator, instruction->bytes,
                                                        instruction->stream, instruction->kind,
                                                        instruction->label);
      if (memory->blocks[id] == NULL)
        return false;
      break;
    case ZS_OP_FREE: zs_caching_allocator_free_block (memory->allocator, memory->blocks[id]); break;
    case ZS_OP_RECORD_STREAM:
      zs_caching_allocator_record_stream (memory->allocator, memory->blocks[id], instruction->stream);
      break;
    case ZS_OP_HOST_ALLOC:
      grow (memory, id);
      memory->host_blocks[id] = zs_host_allocator_alloc (memory->host, instruction->bytes,
                                                         host_kind (instruction));
      break;
    case ZS_OP_HOST_FREE: zs_host_allocator_release (memory->host, memory->host_blocks[id]); break;
    case ZS_OP_EMPTY_CACHE: zs_caching_allocator_empty_cache (memory->allocator); break;
    case ZS_OP_UNLESS_FREE: i += instruction->other; break;   /* 139 GiB: there was room */
    default: break;
    }
  }
  return true;
}

char *
test_phase_name (const ZsInstruction *instruction)
{
  unsigned step = instruction->id, micro = instruction->other;

  switch ((ZsPhase) instruction->kind) {
  case ZS_PHASE_LOAD: return g_strdup ("model");
  case ZS_PHASE_INIT: return g_strdup ("engine");
  case ZS_PHASE_FORWARD: return g_strdup_printf ("s%um%u_fwd", step, micro);
  case ZS_PHASE_BACKWARD: return g_strdup_printf ("s%um%u_bwd", step, micro);
  case ZS_PHASE_OPTIMIZER: return g_strdup_printf ("s%u_step", step);
  case ZS_PHASE_SAVE: return g_strdup ("save");
  case ZS_N_PHASES: break;
  }
  return g_strdup ("?");
}
