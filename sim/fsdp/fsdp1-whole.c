/* fsdp1-whole.c: whole parameters before training, and in the full state dict.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/fsdp/fsdp1-internal.h"

void
fsdp1_load (void *self, ZsPlan *plan)
{
  (void) plan;
  fsdp_load (&((Fsdp1 *) self)->units);
}

/* summon_full_params (): all units are whole at once while weights are copied into them. */
static void
fill_gathered (Fsdp1 *fsdp)
{
  FsdpUnits *units = &fsdp->units;
  g_autofree ZsTensor *whole = g_new (ZsTensor, (gsize) units->n_units);

  for (int32_t u = 0; u < units->n_units; u++) {
    int64_t bytes = fsdp1_full_bytes (fsdp, u, units->parameter_bytes);

    whole[u] = zs_plan_alloc (units->plan, bytes, ZS_CATEGORY_GATHERED);
    fsdp_collective (units, ZS_COLLECTIVE_ALL_GATHER, FSDP_SHARD_GROUP, bytes, COMPUTE);
    zs_plan_copy (units->plan, ZS_COPY_HOST_TO_GPU, bytes, ZS_FLAG_BLOCKING);
  }
  for (int32_t u = 0; u < units->n_units; u++)
    zs_plan_unref (units->plan, whole[u]);
}

/* FlatParamHandle: the parameters are concatenated, the rank's part is copied out of that. */
void
fsdp1_init (void *self, ZsPlan *plan)
{
  Fsdp1 *fsdp = self;
  FsdpUnits *units = &fsdp->units;

  zs_plan_set_label (plan, units->label_shard);
  for (int32_t u = 0; u < units->n_units; u++) {
    const FsdpUnit *unit = &units->units[u];
    int64_t bytes = fsdp1_shard_bytes (fsdp, u, units->parameter_bytes);

    fsdp_bring (units, unit);
    ZsTensor whole = zs_plan_alloc (plan, unit->flat_elements * units->parameter_bytes,
                                    ZS_CATEGORY_TEMPORARY);

    zs_plan_launch (plan, fsdp->flats[u].concatenate);
    fsdp->flats[u].shard = zs_plan_alloc (plan, bytes, fsdp_shard_category (units));
    zs_plan_launch (plan, unit->copy_in);
    zs_plan_unref (plan, whole);
    for (int32_t i = 0; i < unit->n; i++) {
      FsdpParameter *parameter
        = &units->parameters[unit->first + (units->config.flat_optimizer ? unit->n - 1 - i : i)];

      zs_plan_unref (plan, parameter->original);
      parameter->original = ZS_NO_TENSOR;
    }
    if (!units->config.cpu_offload)
      continue;
    zs_plan_unref (plan, fsdp->flats[u].shard);
    fsdp->flats[u].shard = zs_plan_host_alloc (plan, bytes, ZS_CATEGORY_MASTER, ZS_FLAG_PINNED);
    zs_plan_copy (plan, ZS_COPY_GPU_TO_HOST, bytes, ZS_FLAG_BLOCKING);
  }
  if (units->config.load_gathers)
    fill_gathered (fsdp);
  fsdp_adapters_init (units);
}

/* The unit's parameters in their own dtype, whatever the compute dtype (_state_dict_utils.py:
 * _common_unshard_pre_state_dict_hook). */
static ZsTensor
gather_whole (Fsdp1 *fsdp, int32_t index)
{
  int64_t bytes = fsdp1_full_bytes (fsdp, index, fsdp->units.parameter_bytes);
  ZsTensor whole = zs_plan_alloc (fsdp->units.plan, bytes, ZS_CATEGORY_GATHERED);

  fsdp_collective (&fsdp->units, ZS_COLLECTIVE_ALL_GATHER, FSDP_SHARD_GROUP, bytes, COMPUTE);
  return whole;
}

/* Every parameter is cloned out of the gathered unit, or copied to the host (by rank 0 alone). */
static void
keep_parameters (Fsdp1 *fsdp, int32_t index, ZsTensor *clones)
{
  FsdpUnits *units = &fsdp->units;
  const FsdpUnit *unit = &units->units[index];

  for (int32_t i = unit->first; i < unit->first + unit->n; i++) {
    int64_t bytes = units->parameters[i].elements * units->parameter_bytes;

    if (units->config.state_dict_on_gpu) {
      clones[i] = zs_plan_alloc (units->plan, bytes, ZS_CATEGORY_PARAMETERS);
      zs_plan_launch (units->plan, units->units[index].copy_in);
    } else if (units->rank == 0) {
      clones[i] = zs_plan_host_alloc (units->plan, bytes, ZS_CATEGORY_PARAMETERS, 0);
      zs_plan_copy (units->plan, ZS_COPY_GPU_TO_HOST, bytes, ZS_FLAG_BLOCKING);
    }
  }
}

/* model.state_dict () with FULL_STATE_DICT: the root stays whole while its layers come and go. */
void
fsdp1_save (void *self, ZsPlan *plan)
{
  Fsdp1 *fsdp = self;
  FsdpUnits *units = &fsdp->units;
  int32_t root = fsdp1_root (fsdp), n = units->units[root].first + units->units[root].n;
  uint32_t label = zs_plan_set_label (plan, zs_plan_label (plan, -1, "state dict"));

  for (int32_t u = 0; u < units->n_units; u++)
    n = MAX (n, units->units[u].first + units->units[u].n);
  g_autofree ZsTensor *clones = g_new (ZsTensor, (gsize) n);
  ZsTensor whole_root = gather_whole (fsdp, root);

  for (int32_t i = 0; i < n; i++)
    clones[i] = ZS_NO_TENSOR;
  for (int32_t u = 0; u < root; u++) {
    ZsTensor whole = gather_whole (fsdp, u);

    keep_parameters (fsdp, u, clones);
    zs_plan_unref (plan, whole);
  }
  keep_parameters (fsdp, root, clones);
  zs_plan_unref (plan, whole_root);
  for (int32_t i = 0; i < n; i++)
    zs_plan_unref (plan, clones[i]);
  zs_plan_set_label (plan, label);
}
