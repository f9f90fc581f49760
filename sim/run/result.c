/* result.c: names, and the end of a result.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/run/result.h"

static void
free_array (GArray *array)
{
  if (array != NULL)
    g_array_unref (array);
}

void
zs_result_free (ZsResult *result)
{
  if (result == NULL)
    return;
  g_free (result->oom.message);
  free_array (result->steps);
  free_array (result->phases);
  free_array (result->peak_holders);
  free_array (result->live);
  free_array (result->links);
  free_array (result->spans);
  free_array (result->memory_points);
  free_array (result->memory_events);
  free_array (result->link_points);
  g_free (result);
}

static void
share_array (GArray *array)
{
  if (array != NULL)
    g_array_ref (array);
}

ZsResult *
zs_result_copy (const ZsResult *result)
{
  ZsResult *copy = g_memdup2 (result, sizeof *result);

  copy->oom.message = g_strdup (result->oom.message);
  share_array (copy->steps);
  share_array (copy->phases);
  share_array (copy->peak_holders);
  share_array (copy->live);
  share_array (copy->links);
  share_array (copy->spans);
  share_array (copy->memory_points);
  share_array (copy->memory_events);
  share_array (copy->link_points);
  return copy;
}

bool
zs_is_tight (int64_t used, int64_t gpu_memory)
{
  return gpu_memory > 0 && (gpu_memory - used) * 25 < gpu_memory;
}

const char *
zs_category_name (ZsCategory category)
{
  static const char *const NAMES[ZS_N_CATEGORIES] = {
    [ZS_CATEGORY_PARAMETERS] = "parameters",
    [ZS_CATEGORY_GATHERED] = "gathered parameters",
    [ZS_CATEGORY_MASTER] = "master weights",
    [ZS_CATEGORY_OPTIMIZER] = "optimizer states",
    [ZS_CATEGORY_GRADIENTS] = "gradients",
    [ZS_CATEGORY_ACTIVATIONS] = "activations",
    [ZS_CATEGORY_CHECKPOINTS] = "activation checkpoints",
    [ZS_CATEGORY_LOGITS] = "logits and loss",
    [ZS_CATEGORY_BUCKETS] = "communication buckets",
    [ZS_CATEGORY_TEMPORARY] = "operator temporaries",
    [ZS_CATEGORY_WORKSPACE] = "workspaces",
    [ZS_CATEGORY_STEP] = "optimizer step temporaries",
    [ZS_CATEGORY_OFFLOAD] = "offload staging",
    [ZS_CATEGORY_INPUT] = "inputs",
  };

  return NAMES[category];
}

const char *
zs_outcome_name (ZsOutcome outcome)
{
  static const char *const NAMES[] = {
    [ZS_OUTCOME_OK] = "ok", [ZS_OUTCOME_OOM] = "oom", [ZS_OUTCOME_HOST_OOM] = "host-oom",
  };

  return NAMES[outcome];
}

const char *
zs_phase_name (ZsPhase phase)
{
  static const char *const NAMES[ZS_N_PHASES] = {
    [ZS_PHASE_LOAD] = "load",         [ZS_PHASE_INIT] = "init",
    [ZS_PHASE_FORWARD] = "forward",   [ZS_PHASE_BACKWARD] = "backward",
    [ZS_PHASE_OPTIMIZER] = "optimizer", [ZS_PHASE_SAVE] = "save",
  };

  return NAMES[phase];
}

const char *
zs_wait_name (ZsWait wait)
{
  static const char *const NAMES[ZS_N_WAITS] = {
    [ZS_WAIT_COMPUTE] = "compute",
    [ZS_WAIT_COMMUNICATION] = "exposed_communication",
    [ZS_WAIT_OFFLOAD] = "exposed_offload",
    [ZS_WAIT_OPTIMIZER] = "optimizer",
    [ZS_WAIT_HOST] = "host_bound",
  };

  return NAMES[wait];
}

/* 36 measured steps: the GPU waits 0.01 to 0.11 of those that it bounds itself, and 0.43 to 0.83 of those
 * that the host does. */
#define HOST_BOUND_SHARE 0.25

ZsTime
zs_result_last_step_time (const ZsResult *result)
{
  guint n = result->steps != NULL ? result->steps->len : 0;

  return n > 0 ? g_array_index (result->steps, ZsStepResult, n - 1).time : 0;
}

ZsWait
zs_result_bound (const ZsResult *result)
{
  static const ZsWait OTHERS[] = { ZS_WAIT_COMMUNICATION, ZS_WAIT_OFFLOAD };
  ZsTime time[ZS_N_WAITS];
  /* an optimizer whose states wait for PCIe is the CPU's */
  bool on_cpu = result->wait_ps[ZS_WAIT_OFFLOAD] > result->step_time_ps / 100;
  ZsWait longest = ZS_WAIT_COMPUTE;

  if ((double) result->wait_ps[ZS_WAIT_HOST] > HOST_BOUND_SHARE * (double) result->step_time_ps)
    return ZS_WAIT_HOST;
  memcpy (time, result->wait_ps, sizeof time);
  time[on_cpu ? ZS_WAIT_OFFLOAD : ZS_WAIT_COMPUTE] += time[ZS_WAIT_OPTIMIZER];
  for (gsize i = 0; i < G_N_ELEMENTS (OTHERS); i++)
    if (time[OTHERS[i]] > time[longest])
      longest = OTHERS[i];
  return longest;
}

const char *
zs_bound_name (ZsWait bound)
{
  static const char *const NAMES[ZS_N_WAITS] = {
    [ZS_WAIT_COMPUTE] = "gpu",
    [ZS_WAIT_COMMUNICATION] = "communication",
    [ZS_WAIT_OFFLOAD] = "offload",
    [ZS_WAIT_OPTIMIZER] = "gpu",
    [ZS_WAIT_HOST] = "host",
  };

  return NAMES[bound];
}
