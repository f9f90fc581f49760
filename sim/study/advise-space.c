/* advise-space.c: the dimensions that `zerosim advise` looks at.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/study/advise-space.h"

#include <string.h>

#define FSDP "training.fsdp."
#define ZERO "training.deepspeed.zero_optimization."

const char *const ZS_SPACE_NAMES[] = {
  "stage", "offload", "reshard", "checkpointing", "batch", "attention", "reduce_bucket_size", "prefetch",
  "live_parameters", "sub_group_size", "overlap_comm", "pin_memory", "omp_threads", "limit_all_gathers",
  "allocator", "lengths", NULL,
};

typedef struct {
  ZsSpace *space;
  const ZsScenario *scenario;
  const char *const *names;
} Builder;

/* NULL: it is not wanted. */
static ZsDimension *
add_dimension (Builder *builder, const char *name, ZsDimensionKind kind, ZsSense sense,
               const char *trade)
{
  if (builder->names != NULL && !g_strv_contains (builder->names, name))
    return NULL;
  ZsDimension *dimension = &builder->space->dimensions[builder->space->n++];

  g_assert (builder->space->n <= ZS_SPACE_MAX_DIMENSIONS);
  *dimension = (ZsDimension) { .name = name, .kind = kind, .sense = sense, .trade = trade,
                               .n_values = 1 };
  dimension->values[0] = (ZsSpaceValue) { .sets = g_new0 (char *, 1), .stage = -1, .offload = -1 };
  return dimension;
}

/* SETS end with NULL and are taken. */
static ZsSpaceValue *
add_value (ZsDimension *dimension, char *first, ...)
{
  GPtrArray *sets = g_ptr_array_new ();
  va_list more;

  va_start (more, first);
  for (char *set = first; set != NULL; set = va_arg (more, char *))
    g_ptr_array_add (sets, set);
  va_end (more);
  g_ptr_array_add (sets, NULL);
  g_assert (dimension->n_values < ZS_SPACE_MAX_VALUES);
  ZsSpaceValue *value = &dimension->values[dimension->n_values++];

  *value = (ZsSpaceValue) { .sets = (char **) g_ptr_array_free (sets, FALSE), .stage = -1,
                            .offload = -1 };
  return value;
}

static char *
set_int (const char *path, int64_t value)
{
  return g_strdup_printf ("%s=%" G_GINT64_FORMAT, path, value);
}

/* Sizes of one setting (and a second one that goes with it), without the one that it has. */
static void
add_sizes (Builder *builder, const char *name, ZsSense sense, const char *path, const char *also,
           int64_t now, const int64_t *sizes, size_t n, const char *trade)
{
  ZsDimension *dimension = add_dimension (builder, name, ZS_DIMENSION_TUNING, sense, trade);

  for (size_t i = 0; dimension != NULL && i < n; i++)
    if (sizes[i] != now)
      add_value (dimension, set_int (path, sizes[i]), also != NULL ? set_int (also, sizes[i]) : NULL,
                 NULL);
}

static void
add_stage (Builder *builder)
{
  ZsDimension *dimension = add_dimension (
      builder, "stage", ZS_DIMENSION_STRUCTURE, ZS_SENSE_ALWAYS,
      "a higher stage shards more and communicates more");

  for (int stage = 1; dimension != NULL && stage <= 3; stage++)
    if (stage != builder->space->stage)
      add_value (dimension, set_int (ZERO "stage", stage), NULL)->stage = stage;
}

/* Whole replicas, or one GPU: DeepSpeed beside them.  It is simulated with AdamW alone, and ZeRO-3 with whole
 * weights. */
static void
add_deepspeed (Builder *builder)
{
  const ZsStepShape *step = &builder->scenario->training.step;
  ZsDimension *dimension = NULL;

  if (step->optimizer <= ZS_OPTIMIZER_FOR_LOOP)
    dimension = add_dimension (builder, "stage", ZS_DIMENSION_STRUCTURE, ZS_SENSE_ALWAYS,
                               "DeepSpeed: what is sharded takes less memory and communicates more");
  for (int stage = 2; dimension != NULL && stage <= (step->load_in_4bit ? 2 : 3); stage++)
    add_value (dimension, g_strdup ("training.framework=deepspeed"), set_int (ZERO "stage", stage), NULL)->stage = stage;
}

static void
add_offload (Builder *builder)
{
  ZsDimension *dimension = add_dimension (
      builder, "offload", ZS_DIMENSION_STRUCTURE, ZS_SENSE_ALWAYS,
      "what is in host memory crosses PCIe, and the optimizer runs on the CPU");
  int now = builder->space->offload;

  for (int i = 0; dimension != NULL && i < 3; i++) {
    bool optimizer = (i >= 1) != (now >= 1), param = (i == 2) != (now == 2);
    char *first = optimizer ? g_strdup_printf (ZERO "offload_optimizer.device=%s", i >= 1 ? "cpu" : "none")
                            : NULL;
    char *second = param ? g_strdup_printf (ZERO "offload_param.device=%s", i == 2 ? "cpu" : "none") : NULL;

    if (i != now)
      add_value (dimension, first != NULL ? first : second, first != NULL ? second : NULL, NULL)->offload = i;
  }
}

static void
add_checkpointing (Builder *builder)
{
  ZsDimension *dimension = add_dimension (
      builder, "checkpointing", ZS_DIMENSION_STRUCTURE, ZS_SENSE_ALWAYS,
      "full: activations are computed again in backward instead of kept");
  int64_t every = builder->scenario->training.step.checkpoint_every;

  if (dimension == NULL)
    return;
  if (every != 1)
    add_value (dimension, g_strdup ("training.checkpointing=full"), NULL);
  if (every != 0)
    add_value (dimension, g_strdup ("training.checkpointing=none"), NULL);
}

/* Micro-batch times accumulation times GPUs stays: the same step for the optimizer. */
static void
add_batch (Builder *builder, bool machines)
{
  const ZsScenario *scenario = builder->scenario;
  const ZsTraining *training = &scenario->training;
  ZsDimension *dimension = add_dimension (
      builder, "batch", ZS_DIMENSION_STRUCTURE, ZS_SENSE_ALWAYS,
      "larger micro-batches keep more activations and gather weights less often");
  int64_t all = training->step.micro_batch * training->gradient_accumulation;
  int gpus = scenario->cluster.gpus_per_node;

  if (dimension == NULL)
    return;
  dimension->values[0].micro = training->step.micro_batch;
  dimension->values[0].gpus = gpus;
  dimension->values[0].accumulates = training->gradient_accumulation > 1;
  for (int divisor = 1; divisor <= (machines ? gpus : 1); divisor *= 2) {
    if (gpus % divisor != 0)
      break;
    for (int64_t micro = 1; micro <= all * divisor && micro <= 64; micro *= 2) {
      if (all * divisor % micro != 0
          || (divisor == 1 && micro == training->step.micro_batch)
          || dimension->n_values == ZS_SPACE_MAX_VALUES)
        continue;
      ZsSpaceValue *value
          = add_value (dimension, set_int ("training.micro_batch", micro),
                       set_int ("training.gradient_accumulation", all * divisor / micro),
                       divisor > 1 ? set_int ("cluster.gpus_per_node", gpus / divisor) : NULL, NULL);

      value->micro = micro;
      value->gpus = gpus / divisor;
      value->accumulates = all * divisor > micro;
    }
  }
}

static void
add_switches (Builder *builder)
{
  const ZsScenario *scenario = builder->scenario;
  const ZsTraining *training = &scenario->training;
  ZsDimension *dimension;

  if (training->step.attention == ZS_ATTENTION_EAGER
      && (dimension = add_dimension (builder, "attention", ZS_DIMENSION_TUNING, ZS_SENSE_ALWAYS,
                                     "fused attention keeps no matrix of scores")) != NULL)
    add_value (dimension, g_strdup ("training.attention=sdpa"), NULL);
  dimension = add_dimension (builder, "allocator", ZS_DIMENSION_TUNING, ZS_SENSE_ALWAYS,
                             "less reserved memory lies idle between tensors");
  if (dimension != NULL && !scenario->alloc_conf.expandable_segments)
    add_value (dimension, g_strdup ("training.alloc_conf=expandable_segments:True"), NULL);
  if (zs_lengths_given (&training->lengths)
      && (dimension = add_dimension (builder, "lengths", ZS_DIMENSION_TUNING, ZS_SENSE_ALWAYS,
                                     "micro-batches of few lengths, or of one: what is freed fits again")) != NULL) {
    add_value (dimension, g_strdup ("training.packing=true"), NULL);
    add_value (dimension, set_int ("training.pad_to_multiple_of", 256), NULL);
  }
}

/* The optimizer on the CPU. */
static void
add_threads (Builder *builder)
{
  const ZsScenario *scenario = builder->scenario;
  ZsDimension *dimension
      = add_dimension (builder, "omp_threads", ZS_DIMENSION_TUNING, ZS_SENSE_OFFLOAD,
                       "the CPU's optimizer on all cores (OMP_NUM_THREADS; torchrun sets 1)");
  int threads = (int) (scenario->cluster.host.cores / MAX (scenario->cluster.gpus_per_node, 1));

  if (dimension != NULL && threads > 1 && threads != scenario->cluster.host.omp_threads)
    add_value (dimension, set_int ("training.omp_threads", threads), NULL);
}

static void
add_fsdp (Builder *builder)
{
  const ZsFsdpConfig *fsdp = &builder->scenario->training.fsdp;
  ZsDimension *dimension;

  dimension = add_dimension (builder, "reshard", ZS_DIMENSION_STRUCTURE, ZS_SENSE_ALWAYS,
                             "weights that stay gathered between forward and backward take memory and save "
                             "a gather");
  if (dimension != NULL)
    add_value (dimension, g_strdup_printf (FSDP "reshard_after_forward=%s",
                                           fsdp->reshard_after_forward ? "false" : "true"), NULL);
  dimension = add_dimension (builder, "offload", ZS_DIMENSION_STRUCTURE, ZS_SENSE_ALWAYS,
                             "shards in host memory cross PCIe, and the optimizer runs on the CPU");
  if (dimension != NULL)
    add_value (dimension, g_strdup_printf (FSDP "cpu_offload=%s", fsdp->cpu_offload ? "false" : "true"),
               NULL)->offload = !fsdp->cpu_offload;
}

/* What FSDP2 has no settings for. */
static void
add_fsdp_switches (Builder *builder)
{
  static const char *const PREFETCH[] = { "none", "backward_pre", "backward_post" };
  const ZsFsdpConfig *fsdp = &builder->scenario->training.fsdp;
  int now = fsdp->backward_prefetch ? 1 : fsdp->prefetch_after ? 2 : 0;
  ZsDimension *dimension;

  add_threads (builder);
  if (fsdp->version != 1)
    return;
  dimension = add_dimension (builder, "prefetch", ZS_DIMENSION_TUNING, ZS_SENSE_ALWAYS,
                             "what backward gathers next, before or after the reduction, and holds");
  for (int i = 0; dimension != NULL && i < 3; i++)
    if (i != now)
      add_value (dimension, g_strconcat (FSDP "backward_prefetch=", PREFETCH[i], NULL), NULL);
  dimension = add_dimension (builder, "limit_all_gathers", ZS_DIMENSION_TUNING, ZS_SENSE_ALWAYS,
                             "the host waits until no more than two gathers are under way, and memory is "
                             "given back in time");
  if (dimension != NULL)
    add_value (dimension, g_strdup_printf (FSDP "limit_all_gathers=%s",
                                           fsdp->limit_all_gathers ? "false" : "true"), NULL);
}

static void
add_zero_switches (Builder *builder)
{
  const ZsScenario *scenario = builder->scenario;
  const ZsZeroConfig *zero = &scenario->training.zero;
  ZsDimension *dimension;

  dimension = add_dimension (builder, "overlap_comm", ZS_DIMENSION_TUNING, ZS_SENSE_SHARDED,
                             "reductions run beside backward, with more buckets");
  if (dimension != NULL)
    add_value (dimension, g_strdup_printf (ZERO "overlap_comm=%s", zero->overlap_comm ? "false" : "true"),
               NULL);
  dimension = add_dimension (builder, "pin_memory", ZS_DIMENSION_TUNING, ZS_SENSE_OFFLOAD,
                             "copies at full speed, from host memory that cannot be swapped and is "
                             "rounded up to powers of two");
  if (dimension != NULL) {
    if (!zero->optimizer_pin || zero->offload_optimizer == ZS_DEVICE_NONE)
      add_value (dimension, g_strdup (ZERO "offload_optimizer.pin_memory=true"),
                 g_strdup (ZERO "offload_param.pin_memory=true"), NULL);
    else
      add_value (dimension, g_strdup (ZERO "offload_optimizer.pin_memory=false"),
                 g_strdup (ZERO "offload_param.pin_memory=false"), NULL);
  }
  add_threads (builder);
}

static void
add_zero_sizes (Builder *builder)
{
  /* 16.8 million is hidden x hidden of a 7B model, Hugging Face's "auto"; 5e8 is DeepSpeed's default */
  static const int64_t BUCKETS[] = { 16777216, 50000000, 200000000, 500000000 };
  static const int64_t PREFETCH[] = { 15000000, 50000000, 200000000 };
  static const int64_t LIVE[] = { 100000000, 1000000000, 3000000000 };
  static const int64_t GROUPS[] = { 100000000, 1000000000 };
  const ZsZeroConfig *zero = &builder->scenario->training.zero;

  add_sizes (builder, "reduce_bucket_size", ZS_SENSE_SHARDED, ZERO "reduce_bucket_size", NULL,
             zero->reduce_bucket_size, BUCKETS, G_N_ELEMENTS (BUCKETS),
             "large buckets take memory, small ones more messages");
  add_sizes (builder, "prefetch", ZS_SENSE_STAGE3, ZERO "stage3_prefetch_bucket_size", NULL,
             zero->prefetch_bucket_size, PREFETCH, G_N_ELEMENTS (PREFETCH),
             "how much is gathered ahead of its use, and held");
  add_sizes (builder, "live_parameters", ZS_SENSE_STAGE3, ZERO "stage3_max_live_parameters",
             ZERO "stage3_max_reuse_distance", zero->max_live_parameters, LIVE, G_N_ELEMENTS (LIVE),
             "how many parameters stay gathered, instead of being gathered again");
  add_sizes (builder, "sub_group_size", ZS_SENSE_STAGE3, ZERO "sub_group_size", NULL,
             zero->sub_group_size, GROUPS, G_N_ELEMENTS (GROUPS),
             "the size of the pieces, and temporaries, of the optimizer's step");
}

ZsSpace *
zs_space_new (const ZsScenario *scenario, const char *const *names, bool machines)
{
  ZsSpace *space = g_new0 (ZsSpace, 1);
  Builder builder = { .space = space, .scenario = scenario, .names = names };
  bool deepspeed = scenario->training.framework == ZS_FRAMEWORK_DEEPSPEED;
  bool fsdp = scenario->training.framework == ZS_FRAMEWORK_FSDP1
              || scenario->training.framework == ZS_FRAMEWORK_FSDP2;
  const ZsZeroConfig *zero = &scenario->training.zero;

  bool whole = !deepspeed && !fsdp;

  space->stage = deepspeed ? zero->stage : whole ? 0 : -1;
  space->offload = fsdp                                       ? scenario->training.fsdp.cpu_offload
                   : !deepspeed                                ? 0
                   : zero->offload_param != ZS_DEVICE_NONE     ? 2
                   : zero->offload_optimizer != ZS_DEVICE_NONE ? 1
                                                               : 0;
  if (deepspeed)
    add_stage (&builder);
  else if (whole)
    add_deepspeed (&builder);
  if (deepspeed || (whole && space->n > 0))
    add_offload (&builder);
  if (fsdp)
    add_fsdp (&builder);
  add_checkpointing (&builder);
  add_batch (&builder, machines);
  add_switches (&builder);
  if (deepspeed || (whole && space->dimensions[0].values[space->dimensions[0].n_values - 1].stage > 0))
    add_zero_sizes (&builder);
  if (deepspeed)
    add_zero_switches (&builder);
  if (fsdp)
    add_fsdp_switches (&builder);
  return space;
}

void
zs_space_free (ZsSpace *space)
{
  if (space == NULL)
    return;
  for (int i = 0; i < space->n; i++)
    for (int j = 0; j < space->dimensions[i].n_values; j++)
      g_strfreev (space->dimensions[i].values[j].sets);
  g_free (space);
}

bool
zs_space_sensible (const ZsSpace *space, const int *choice)
{
  int stage = space->stage, offload = space->offload;

  for (int i = 0; i < space->n; i++) {
    const ZsSpaceValue *value = &space->dimensions[i].values[choice[i]];

    stage = value->stage >= 0 ? value->stage : stage;
    offload = value->offload >= 0 ? value->offload : offload;
  }
  if ((offload == 2 && stage != 3) || (offload >= 1 && stage == 0))
    return false;
  for (int i = 0; i < space->n; i++) {
    if (choice[i] == 0)
      continue;
    switch (space->dimensions[i].sense) {
    case ZS_SENSE_ALWAYS:
      break;
    case ZS_SENSE_STAGE3:
      if (stage != 3)
        return false;
      break;
    case ZS_SENSE_STAGE12:
      if (stage != 1 && stage != 2)
        return false;
      break;
    case ZS_SENSE_SHARDED:
      if (stage < 1)
        return false;
      break;
    case ZS_SENSE_OFFLOAD:
      if (offload < 1)
        return false;
      break;
    }
  }
  return true;
}

char **
zs_space_sets (const ZsSpace *space, const int *choice)
{
  GPtrArray *sets = g_ptr_array_new ();
  bool to_param = false;

  for (int i = 0; i < space->n; i++) {
    const ZsSpaceValue *value = &space->dimensions[i].values[choice[i]];

    to_param |= value->offload == 2 || (value->offload < 0 && space->offload == 2);
    for (int j = 0; value->sets[j] != NULL; j++)
      /* what is not offloaded has no pin_memory */
      if (strstr (value->sets[j], "offload_param.pin_memory") == NULL || to_param)
        g_ptr_array_add (sets, g_strdup (value->sets[j]));
  }
  g_ptr_array_add (sets, NULL);
  return (char **) g_ptr_array_free (sets, FALSE);
}

int
zs_space_changes (const ZsSpace *space, const int *choice)
{
  int n = 0;

  for (int i = 0; i < space->n; i++)
    n += choice[i] != 0;
  return n;
}
