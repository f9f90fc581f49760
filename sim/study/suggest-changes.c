/* suggest-changes.c: the changes of settings worth trying.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/suggest-changes.h"

#include <string.h>

static bool
is_zero (const ZsScenario *s)
{
  return s->training.framework == ZS_FRAMEWORK_DEEPSPEED;
}

static bool
is_fsdp (const ZsScenario *s)
{
  return s->training.framework == ZS_FRAMEWORK_FSDP1 || s->training.framework == ZS_FRAMEWORK_FSDP2;
}

/* Nothing is sharded or offloaded: one GPU, or whole replicas. */
static bool
is_whole (const ZsScenario *s)
{
  return s->training.framework == ZS_FRAMEWORK_SINGLE || s->training.framework == ZS_FRAMEWORK_DDP;
}

static bool
is_replicated (const ZsScenario *s)
{
  return s->training.framework == ZS_FRAMEWORK_DDP && s->training.world > 1;
}

static bool
fsdp_on_gpu (const ZsScenario *s)
{
  return is_fsdp (s) && !s->training.fsdp.cpu_offload;
}

static bool
fsdp_offloaded (const ZsScenario *s)
{
  return is_fsdp (s) && s->training.fsdp.cpu_offload;
}

static bool
fsdp_whole_gradients (const ZsScenario *s)
{
  return is_fsdp (s) && s->training.fsdp.no_sync && s->training.gradient_accumulation > 1
         && s->training.world > 1;
}

static bool
fsdp_gathered (const ZsScenario *s)
{
  return is_fsdp (s) && !s->training.fsdp.reshard_after_forward;
}

static bool
fsdp_resharded (const ZsScenario *s)
{
  return is_fsdp (s) && s->training.fsdp.reshard_after_forward;
}

static bool
trains_all (const ZsScenario *s)
{
  return s->training.step.lora.rank == 0;
}

static bool
is_stage3 (const ZsScenario *s)
{
  return is_zero (s) && s->training.zero.stage == 3;
}

static bool
not_checkpointed (const ZsScenario *s)
{
  return s->training.step.checkpoint_every == 0;
}

static bool
reentrant (const ZsScenario *s)
{
  return s->training.step.checkpoint_every != 0 && s->training.step.reentrant;
}

static bool
own_kernels (const ZsScenario *s)
{
  return s->training.step.liger == 0 && !s->training.step.fused_operators;
}

static bool
checkpointed (const ZsScenario *s)
{
  return s->training.step.checkpoint_every != 0;
}

static bool
optimizer_on_gpu (const ZsScenario *s)
{
  return is_zero (s) && s->training.zero.stage >= 1
         && s->training.zero.offload_optimizer == ZS_DEVICE_NONE;
}

static bool
optimizer_offloaded (const ZsScenario *s)
{
  return is_zero (s) && s->training.zero.offload_optimizer != ZS_DEVICE_NONE;
}

static bool
parameters_on_gpu (const ZsScenario *s)
{
  return is_stage3 (s) && s->training.zero.offload_param == ZS_DEVICE_NONE;
}

static bool
parameters_offloaded (const ZsScenario *s)
{
  return is_stage3 (s) && s->training.zero.offload_param != ZS_DEVICE_NONE;
}

static bool
below_stage2 (const ZsScenario *s)
{
  return is_zero (s) && s->training.zero.stage < 2 && s->training.world > 1;
}

static bool
below_stage3 (const ZsScenario *s)
{
  return is_zero (s) && s->training.zero.stage < 3 && s->training.world > 1;
}

static bool
large_bucket (const ZsScenario *s)
{
  return is_zero (s) && s->training.zero.stage >= 1
         && s->training.zero.reduce_bucket_size > 100000000;
}

static bool
large_sub_group (const ZsScenario *s)
{
  return is_stage3 (s) && s->training.zero.sub_group_size > 100000000;
}

static bool
large_live (const ZsScenario *s)
{
  return is_stage3 (s) && s->training.zero.max_live_parameters > 100000000;
}

static bool
eager_attention (const ZsScenario *s)
{
  return s->training.step.attention == ZS_ATTENTION_EAGER;
}

static bool
plain_allocator (const ZsScenario *s)
{
  return !s->alloc_conf.expandable_segments;
}

static bool
no_overlap12 (const ZsScenario *s)
{
  return is_zero (s) && s->training.zero.stage >= 1 && s->training.zero.stage <= 2
         && !s->training.zero.overlap_comm && s->training.world > 1;
}

static bool
micro_batch_above_one (const ZsScenario *s)
{
  return s->training.step.micro_batch > 1;
}

static bool
zero_trains_all (const ZsScenario *s)
{
  return is_zero (s) && trains_all (s);
}

static bool
whole_trains_all (const ZsScenario *s)
{
  return is_whole (s) && trains_all (s);
}

static bool
few_gpus (const ZsScenario *s)
{
  return s->training.world > 1 && s->cluster.n_nodes == 1 && s->cluster.gpus_per_node < 8;
}

static bool
unpinned_optimizer (const ZsScenario *s)
{
  return optimizer_offloaded (s) && !s->training.zero.optimizer_pin;
}

static bool
unfused_adam (const ZsScenario *s)
{
  return (is_whole (s) || is_fsdp (s)) && !fsdp_offloaded (s)
         && s->training.step.optimizer != ZS_OPTIMIZER_FUSED;
}

static bool
not_stage3 (const ZsScenario *s)
{
  return !is_stage3 (s);
}

static bool
optimizer_not_on_cpu (const ZsScenario *s)
{
  return !is_zero (s) || s->training.zero.offload_optimizer != ZS_DEVICE_CPU;
}

static bool
parameters_not_on_cpu (const ZsScenario *s)
{
  return !is_zero (s) || s->training.zero.offload_param != ZS_DEVICE_CPU;
}

/* Where micro-batches are of many lengths. */
static bool
lengths_vary (const ZsScenario *s)
{
  return zs_lengths_given (&s->training.lengths);
}

static bool
lengths_plain_allocator (const ZsScenario *s)
{
  return lengths_vary (s) && plain_allocator (s);
}

static bool
lengths_cache_kept (const ZsScenario *s)
{
  return lengths_vary (s) && s->training.empty_cache_steps == 0;
}

static bool
lengths_any (const ZsScenario *s)
{
  return lengths_vary (s) && s->training.lengths.multiple <= 1;
}

#define OFFLOAD_OPTIMIZER "zero_optimization.offload_optimizer.device=cpu"
#define OFFLOAD_PARAM     "zero_optimization.offload_param.device=cpu"
#define CHECKPOINT        "training.checkpointing=full"
#define STAGE3            "zero_optimization.stage=3"
#define DEEPSPEED         "training.framework=deepspeed"
#define FSDP_OFFLOAD      "training.fsdp.cpu_offload=true"
#define FSDP_RESHARD      "training.fsdp.reshard_after_forward=true"
#define ONE_SEQUENCE      "training.micro_batch=1"
#define LORA              "training.lora.rank=16"
#define PAD_TO_LONGEST    "training.pad_to_multiple_of=sequence_length"   /* its number */
#define PACKING           "training.packing=true"
#define EXPANDABLE        "training.alloc_conf=expandable_segments:True"
#define LIGER             "training.liger=true"
#define LIGER_REASON      "Liger's kernels (use_liger_kernel; the package liger-kernel must be there): the loss is made in " \
                          "pieces, without whole logits. Simulated after its sources; the package itself was not measured."
#define SMALL_BUCKET      "zero_optimization.reduce_bucket_size=5e7"

static const ZsSuggestChange SMALLER[] = {
  { { CHECKPOINT }, not_checkpointed, "Activations are recomputed in backward: about a third more compute." },
  { { "training.reentrant=false" }, reentrant, "Checkpointing with use_reentrant=False: recomputed layers end like others, and give back what they gathered." },
  { { LIGER }, own_kernels, LIGER_REASON },
  { { "training.attention=sdpa" }, eager_attention, "The score matrices are never kept; also faster." },
  { { EXPANDABLE }, plain_allocator,
    "Less reserved memory lies idle between tensors; costs nothing." },
  { { "training.alloc_conf=garbage_collection_threshold:0.8" }, lengths_plain_allocator,
    "Cached segments go back to the GPU before it is full." },
  { { "training.empty_cache_steps=1" }, lengths_cache_kept,
    "torch_empty_cache_steps: the cache goes back to the GPU after each step; segments are made anew." },
  { { PACKING }, lengths_vary, "Samples are joined to sequences of one length: what is freed fits again, and nothing is padding." },
  { { "training.pad_to_multiple_of=256" }, lengths_any, "Fewer different lengths: what is freed fits more often; more is padding." },
  { { PAD_TO_LONGEST }, lengths_any, "All micro-batches are of one length: what is freed fits again; much is padding." },
  { { "zero_optimization.stage=2" }, below_stage2, "Gradients are sharded as well." },
  { { STAGE3 }, below_stage3, "Parameters are sharded as well; each layer is gathered for forward and backward." },
  { { OFFLOAD_OPTIMIZER }, optimizer_on_gpu, "Optimizer states and master weights move to host memory; the step waits for CPU Adam." },
  { { OFFLOAD_OPTIMIZER, OFFLOAD_PARAM }, parameters_on_gpu, "Parameters move to host memory too; every gather first crosses PCIe." },
  { { SMALL_BUCKET }, large_bucket, "Smaller gradient buckets." },
  { { "zero_optimization.sub_group_size=1e8" }, large_sub_group, "The optimizer works on smaller pieces: smaller temporaries." },
  { { "zero_optimization.stage3_max_live_parameters=1e8", "zero_optimization.stage3_max_reuse_distance=1e8" }, large_live,
    "Fewer gathered parameters at once; more is gathered twice." },
  { { FSDP_RESHARD }, fsdp_gathered, "Layers are freed after forward and gathered again for backward." },
  { { "training.fsdp.no_sync=false" }, fsdp_whole_gradients,
    "Gradients are reduced to shards in every micro-step (accelerate's sync_each_batch): more communication." },
  { { FSDP_OFFLOAD }, fsdp_on_gpu, "Shards, gradients and optimizer states move to host memory; the step runs on the CPU." },
  { { DEEPSPEED, "zero_optimization.stage=2" }, is_replicated,
    "DeepSpeed ZeRO-2 instead of whole replicas: gradients, optimizer states and master weights are sharded." },
  { { DEEPSPEED, STAGE3 }, is_replicated, "DeepSpeed ZeRO-3 instead of whole replicas: everything is sharded." },
  { { DEEPSPEED, "zero_optimization.stage=2", OFFLOAD_OPTIMIZER }, is_whole,
    "DeepSpeed ZeRO-2: optimizer states and master weights in host memory; the step waits for CPU Adam." },
  { { ONE_SEQUENCE }, micro_batch_above_one, "More, smaller micro-steps for the same global batch." },
};
static const ZsSuggestChange SMALLER_TOGETHER[] = {
  { { LIGER, CHECKPOINT }, own_kernels, LIGER_REASON " Activations are recomputed in backward." },
  { { CHECKPOINT, ONE_SEQUENCE }, micro_batch_above_one, "Activations of fewer sequences at a time, recomputed in backward." },
  { { OFFLOAD_OPTIMIZER, CHECKPOINT }, optimizer_on_gpu, "Optimizer in host memory, activations recomputed." },
  { { OFFLOAD_OPTIMIZER, CHECKPOINT, ONE_SEQUENCE }, optimizer_on_gpu, "Optimizer in host memory, activations of fewer sequences recomputed." },
  { { STAGE3, CHECKPOINT }, below_stage3, "Everything sharded, activations recomputed." },
  { { STAGE3, OFFLOAD_OPTIMIZER, CHECKPOINT }, is_zero, "Everything sharded, optimizer in host memory, activations recomputed." },
  { { STAGE3, OFFLOAD_OPTIMIZER, OFFLOAD_PARAM, CHECKPOINT }, is_zero, "Optimizer and parameters in host memory." },
  { { STAGE3, OFFLOAD_OPTIMIZER, OFFLOAD_PARAM, CHECKPOINT, ONE_SEQUENCE, SMALL_BUCKET }, is_zero,
    "Everything that saves: little is left on the GPU but activations." },
  { { FSDP_RESHARD, CHECKPOINT }, is_fsdp, "Layers freed after forward, activations recomputed." },
  { { FSDP_RESHARD, FSDP_OFFLOAD, CHECKPOINT, ONE_SEQUENCE }, is_fsdp,
    "Everything that saves: shards in host memory, activations recomputed." },
  { { DEEPSPEED, STAGE3, CHECKPOINT }, is_replicated, "DeepSpeed ZeRO-3, activations recomputed." },
  { { DEEPSPEED, STAGE3, OFFLOAD_OPTIMIZER, OFFLOAD_PARAM, CHECKPOINT, ONE_SEQUENCE }, is_whole,
    "DeepSpeed with optimizer and parameters in host memory, activations recomputed." },
};
/* What gives the same training only on other hardware, or another training. */
static const ZsSuggestChange LAST_RESORT[] = {
  { { "cluster.gpus_per_node=4" }, few_gpus, "More GPUs of the kind: each holds a smaller shard; the global batch grows with them." },
  { { "cluster.gpus_per_node=8" }, few_gpus, "More GPUs of the kind: each holds a smaller shard; the global batch grows with them." },
  { { LORA }, trains_all, "Another method: adapters of rank 16 are trained, the model stays as it is." },
  { { LORA, CHECKPOINT, ONE_SEQUENCE }, trains_all,
    "Another method: adapters of rank 16 are trained, the model stays as it is." },
  { { LORA, STAGE3, OFFLOAD_OPTIMIZER, OFFLOAD_PARAM, CHECKPOINT, ONE_SEQUENCE }, zero_trains_all,
    "Another method: adapters of rank 16 are trained, the model waits in host memory." },
  { { LORA, "training.load_in_4bit=true", CHECKPOINT, ONE_SEQUENCE }, whole_trains_all,
    "Another method, QLoRA: adapters of rank 16 on a model in 4 bits." },
};
static const ZsSuggestChange FASTER[] = {
  { { "training.checkpointing=none" }, checkpointed, "No recomputation in backward; more activations are kept." },
  { { "zero_optimization.offload_optimizer.device=none", "zero_optimization.offload_param.device=none" }, optimizer_offloaded,
    "The optimizer runs on the GPU." },
  { { "zero_optimization.offload_param.device=none" }, parameters_offloaded, "Parameters stay on the GPU." },
  { { "zero_optimization.offload_optimizer.pin_memory=true" }, unpinned_optimizer,
    "Copies to and from pinned host memory are faster and do not block; the host must have it." },
  { { "zero_optimization.stage=2" }, is_stage3, "Parameters are not gathered for every layer." },
  { { "training.attention=sdpa" }, eager_attention, "Fused attention." },
  { { "zero_optimization.overlap_comm=true" }, no_overlap12, "Reductions overlap with backward; one more bucket." },
  { { "training.fsdp.cpu_offload=false" }, fsdp_offloaded, "Shards stay on the GPU, and so does the optimizer." },
  { { "training.fsdp.reshard_after_forward=false" }, fsdp_resharded, "Layers are gathered once a step; all of them stay." },
  { { "training.optimizer.implementation=fused" }, unfused_adam, "One kernel a tensor list instead of dozens." },
  { { EXPANDABLE }, lengths_plain_allocator, "The allocator need not flush its cache when lengths change." },
  { { PACKING }, lengths_vary, "Samples are joined to sequences of one length: nothing is padding, and products are larger." },
};

const ZsSuggestChange *
zs_suggest_table (ZsSuggestTable table, size_t *ret_n)
{
  static const struct {
    const ZsSuggestChange *changes;
    size_t                 n;
  } tables[ZS_SUGGEST_N_TABLES] = {
    [ZS_SUGGEST_SMALLER] = { SMALLER, G_N_ELEMENTS (SMALLER) },
    [ZS_SUGGEST_SMALLER_TOGETHER] = { SMALLER_TOGETHER, G_N_ELEMENTS (SMALLER_TOGETHER) },
    [ZS_SUGGEST_LAST_RESORT] = { LAST_RESORT, G_N_ELEMENTS (LAST_RESORT) },
    [ZS_SUGGEST_FASTER] = { FASTER, G_N_ELEMENTS (FASTER) },
  };

  *ret_n = tables[table].n;
  return tables[table].changes;
}

/* Settings that a change names and a scenario may have already. */
static const struct {
  const char *set;
  bool      (*missing) (const ZsScenario *scenario);
} MISSING[] = {
  { CHECKPOINT, not_checkpointed },
  { STAGE3, not_stage3 },
  { OFFLOAD_OPTIMIZER, optimizer_not_on_cpu },
  { OFFLOAD_PARAM, parameters_not_on_cpu },
  { FSDP_OFFLOAD, fsdp_on_gpu },
  { FSDP_RESHARD, fsdp_gathered },
  { ONE_SEQUENCE, micro_batch_above_one },
  { SMALL_BUCKET, large_bucket },
};

static bool
is_missing (const char *set, const ZsScenario *scenario)
{
  for (size_t i = 0; i < G_N_ELEMENTS (MISSING); i++)
    if (strcmp (MISSING[i].set, set) == 0)
      return MISSING[i].missing (scenario);
  return true;
}

/* Micro-steps of a change that is tried: more take seconds each. */
#define MAX_ACCUMULATION 256

char **
zs_suggest_sets (const ZsSuggestChange *change, const ZsScenario *scenario, int64_t micro_batch)
{
  const ZsTraining *training = &scenario->training;
  GPtrArray *sets = g_ptr_array_new_with_free_func (g_free);
  bool joins = strcmp (change->sets[0], DEEPSPEED) == 0;   /* what DeepSpeed has is not there yet */
  int threads = (int) (scenario->cluster.host.cores / MAX (scenario->cluster.gpus_per_node, 1));
  int64_t accumulation = training->step.micro_batch / micro_batch * training->gradient_accumulation;

  for (int i = 0; i < ZS_SUGGEST_MAX_SETS && change->sets[i] != NULL; i++) {
    const char *set = change->sets[i];
    bool zero = g_str_has_prefix (set, "zero_optimization.");

    if (!(joins && zero) && !is_missing (set, scenario))
      continue;
    if (strcmp (set, PAD_TO_LONGEST) == 0) {
      g_ptr_array_add (sets, g_strdup_printf ("training.pad_to_multiple_of=%" G_GINT64_FORMAT,
                                              training->step.sequence));
      continue;
    }
    if (strcmp (set, ONE_SEQUENCE) != 0) {
      g_ptr_array_add (sets, g_strdup (set));
      if ((strcmp (set, OFFLOAD_OPTIMIZER) == 0 || strcmp (set, FSDP_OFFLOAD) == 0) && threads > 2
          && scenario->cluster.host.omp_threads == 1)
        g_ptr_array_add (sets, g_strdup_printf ("training.omp_threads=%d", threads));
      continue;
    }
    if (accumulation > MAX_ACCUMULATION) {
      g_ptr_array_set_size (sets, 0);
      break;
    }
    g_ptr_array_add (sets, g_strdup_printf ("training.micro_batch=%" G_GINT64_FORMAT, micro_batch));
    g_ptr_array_add (sets, g_strdup_printf ("training.gradient_accumulation=%" G_GINT64_FORMAT, accumulation));
  }
  g_ptr_array_add (sets, NULL);
  return (char **) g_ptr_array_free (sets, FALSE);
}
