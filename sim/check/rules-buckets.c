/* rules-buckets.c: buckets, limits and switches that cost memory or time.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/base/units.h"
#include "sim/check/check-internal.h"

#define ZERO "zero_optimization."

/* Below this a bucket holds no matrix of a model worth sharding (1024 x 1024). */
#define TINY_BUCKET 1000000
/* Elements: HF's own value for a hidden size of 320; below it a gather per tensor is the rule. */
#define TINY_PREFETCH 100000
/* Below it nothing is kept between its uses: 2.5 to 3 gathers of the model per micro-step, not 1.9.
 */
#define TINY_LIVE 100000000
#define LARGE_PERSISTENCE 10000000 /* 1e7: the largest matrices of a 1B model stay whole */
#define TINY_SUB_GROUP 10000000

void
zs_check_rule_tiny_bucket (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;
  const char *path = ZERO "reduce_bucket_size";

  if (zero->stage > 0 && zs_check_given (check, path) && zero->reduce_bucket_size < TINY_BUCKET)
    zs_check_say (check, ZS_NOTE_SLOW, "tiny-bucket", path, "16777216",
                  "every tensor larger than %" G_GINT64_FORMAT
                  " elements is reduced by itself, the "
                  "rest in very many messages; what this saves is below the size of one bucket",
                  zero->reduce_bucket_size);
}

/* Buckets have their full size even if the model, or its adapters, are smaller. */
void
zs_check_rule_bucket_cost (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;
  const char *path = ZERO "reduce_bucket_size";
  int64_t bytes = zs_dtype_bytes (zero->communication_dtype), total;
  int buckets = zero->stage < 3 && zero->overlap_comm ? 2 : 1;
  int64_t trainable = check->options->n_trainable;

  if (zero->stage == 0 || !zero->contiguous_gradients
      || __builtin_mul_overflow (zero->reduce_bucket_size, bytes * buckets, &total))
    return;
  g_autofree char *cost = zs_bytes_format (total);
  g_autofree char *elements = zs_count_format (trainable);
  g_autofree char *size = zs_count_format (zero->reduce_bucket_size);

  if (trainable > 0 && zero->reduce_bucket_size > trainable) {
    g_autofree char *instead = g_strdup_printf ("%" G_GINT64_FORMAT, trainable);

    zs_check_say (check, ZS_NOTE_RISKY,
                  check->options->lora ? "lora-with-full-buckets" : "bucket-larger-than-model",
                  path, instead,
                  "%s of buckets for %s trainable parameters: a bucket is allocated whole, however "
                  "little goes into it",
                  cost, elements);
  } else if (total >= INT64_C (1) << 30) {
    zs_check_say (check, ZS_NOTE_INFO, "bucket-cost", path, NULL,
                  "%d bucket%s of %s elements: %s of each GPU's memory%s%s", buckets,
                  buckets == 1 ? "" : "s", size, cost,
                  zero->stage == 3 ? ", all the time" : ", in backward",
                  zs_check_given (check, path) ? "" : " (the default)");
  }
  if (buckets == 2 && zs_check_given (check, ZERO "overlap_comm") && total >= INT64_C (1) << 30)
    zs_check_say (check, ZS_NOTE_INFO, "overlap-costs-a-bucket", ZERO "overlap_comm", NULL,
                  "overlap_comm takes time out of backward and needs the second of two buckets; it "
                  "saves no memory");
}

void
zs_check_rule_prefetch (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;
  const char *path = ZERO "stage3_prefetch_bucket_size";

  if (zero->stage != 3)
    return;
  if (zero->prefetch_bucket_size > zero->max_live_parameters) {
    zs_check_say (check, ZS_NOTE_RISKY, "prefetch-larger-than-live",
                  zs_check_given (check, path) ? path : ZERO "stage3_max_live_parameters", NULL,
                  "a prefetch of %" G_GINT64_FORMAT " elements never fits the %" G_GINT64_FORMAT
                  " that may be gathered: max_live_parameters stops the prefetching first",
                  zero->prefetch_bucket_size, zero->max_live_parameters);
  } else if (zs_check_given (check, path) && zero->prefetch_bucket_size < TINY_PREFETCH) {
    zs_check_say (
        check, ZS_NOTE_SLOW, "tiny-prefetch", path, "\"auto\"",
        zero->prefetch_bucket_size == 0
            ? "0 switches prefetching off: every gather is waited for; it lowers the peak, "
              "as a smaller max_live_parameters does at less cost"
            : "hardly any tensor fits a prefetch of so few elements: nearly every gather "
              "is waited for");
  }
}

void
zs_check_rule_live_parameters (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;
  static const char *const PATHS[] = { ZERO "stage3_max_live_parameters",
                                       ZERO "stage3_max_reuse_distance" };
  const int64_t values[] = { zero->max_live_parameters, zero->max_reuse_distance };

  for (size_t i = 0; zero->stage == 3 && i < G_N_ELEMENTS (PATHS); i++)
    if (zs_check_given (check, PATHS[i]) && values[i] < TINY_LIVE)
      zs_check_say (check, ZS_NOTE_SLOW, "tiny-live-parameters", PATHS[i], "1e9",
                    "with %" G_GINT64_FORMAT " elements nearly nothing stays gathered between two "
                    "uses: the model is gathered 2.5 to 3 times per micro-step instead of 1.9, to "
                    "save at most 2 GB",
                    values[i]);
}

void
zs_check_rule_persistence (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;

  if (zero->stage == 3 && zero->param_persistence_threshold >= LARGE_PERSISTENCE)
    zs_check_say (check, ZS_NOTE_RISKY, "large-persistence",
                  ZERO "stage3_param_persistence_threshold", "100000",
                  "every tensor of up to %" G_GINT64_FORMAT
                  " elements stays whole on every GPU, on "
                  "top of its shard",
                  zero->param_persistence_threshold);
}

void
zs_check_rule_sub_group (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;

  if (zero->stage == 3 && zs_check_given (check, ZERO "sub_group_size")
      && zero->sub_group_size < TINY_SUB_GROUP)
    zs_check_say (check, ZS_NOTE_SLOW, "tiny-sub-group", ZERO "sub_group_size", "1e8",
                  "the optimizer steps once per %" G_GINT64_FORMAT " elements; the step's "
                  "temporaries are 6 bytes an element, so 1e8 already keeps them below 0.6 GB",
                  zero->sub_group_size);
}

void
zs_check_rule_no_overlap (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;

  if (zero->stage == 3 && !zero->overlap_comm && zs_check_given (check, ZERO "overlap_comm"))
    zs_check_say (
        check, ZS_NOTE_SLOW, "no-overlap", ZERO "overlap_comm", "true",
        "gradients are reduced on the compute stream: backward waits for every bucket; in "
        "stage 3 overlapping needs no second bucket");
}

void
zs_check_rule_no_reduce_scatter (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;

  if (zero->stage == 3 && !zero->reduce_scatter)
    zs_check_say (
        check, ZS_NOTE_SLOW, "no-reduce-scatter", ZERO "reduce_scatter", "true",
        "gradients are all-reduced: twice the bytes of a reduce-scatter; what is saved is "
        "a temporary of at most one bucket");
}

void
zs_check_rule_not_contiguous (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;

  if (zero->stage == 3 && !zero->contiguous_gradients)
    zs_check_say (
        check, ZS_NOTE_RISKY, "not-contiguous", ZERO "contiguous_gradients", "true",
        "stage 3 needs contiguous_gradients in practice: without the bucket gradients pile "
        "up one by one");
}

void
zs_check_rule_all_reduce_gather (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;

  if (zero->stage == 3 && zero->use_all_reduce_for_fetch_params)
    zs_check_say (check, ZS_NOTE_SLOW, "all-reduce-gather",
                  ZERO "stage3_use_all_reduce_for_fetch_params", "false",
                  "parameters are gathered by an all-reduce: twice the bytes of an all-gather");
}

void
zs_check_rule_sequential_gather (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;

  if (zero->stage == 3 && zero->allgather_sequential)
    zs_check_say (
        check, ZS_NOTE_SLOW, "sequential-gather", ZERO "stage3_allgather_sequential", "false",
        "one all-gather per parameter, and a prefetch bucket of 1; on NVIDIA GPUs no gain "
        "is known");
}

void
zs_check_rule_gather_on_save (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;

  if (zero->stage == 3 && zero->gather_16bit_weights_on_model_save)
    zs_check_say (
        check, ZS_NOTE_INFO, "gather-on-save", ZERO "stage3_gather_16bit_weights_on_model_save",
        NULL,
        "a save gathers the whole 16-bit model into rank 0's host memory; training memory "
        "is the same. Without it only shards are saved, and zero_to_fp32.py joins them");
}

void
zs_check_rule_hpz (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;
  int64_t shard = zero->hpz_partition_size;
  const ZsDsContext *ds = &check->options->ds;

  if (zero->stage != 3 || shard <= 1 || ds->world <= 0)
    return;
  if (shard > zero->node_ranks || zero->node_ranks >= ds->world)
    zs_check_say (check, ZS_NOTE_RISKY, "hpz-without-gain", ZERO "zero_hpz_partition_size", "1",
                  shard > zero->node_ranks
                      ? "the secondary shards of %" G_GINT64_FORMAT
                        " ranks reach beyond a node's %" G_GINT64_FORMAT
                        ": more memory, and backward's gathers cross nodes all the same"
                      : "a secondary shard over %" G_GINT64_FORMAT " ranks costs memory and gains "
                        "nothing on one node (of %" G_GINT64_FORMAT " ranks): no gather leaves it",
                  shard, zero->node_ranks);
}

void
zs_check_rule_quantized_gradients (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;

  if (zero->stage == 3 && zero->quantized_gradients && check->options->ds.world > 0
      && zero->node_ranks >= check->options->ds.world)
    zs_check_say (check, ZS_NOTE_DEAD, "quantized-gradients-idle", ZERO "zero_quantized_gradients",
                  NULL, "gradients are quantized between nodes only; there is one node");
}

void
zs_check_rule_quantized_weights (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;

  if (zero->stage == 3 && zero->quantized_weights && zero->dtype == ZS_DTYPE_BF16)
    zs_check_say (check, ZS_NOTE_RISKY, "quantized-weights-bf16", ZERO "zero_quantized_weights",
                  "false",
                  "up to DeepSpeed 0.19.5 a bf16 model gives wrong numbers with quantized weights; "
                  "they save no memory either: half the bytes of a gather, at a larger temporary");
}

void
zs_check_rule_no_half_precision (const ZsCheck *check)
{
  const ZsDsContext *ds = &check->options->ds;
  bool said = zs_check_given (check, "fp16") || zs_check_given (check, "bf16")
              || zs_check_given (check, "bfloat16");

  if (check->config->dtype == ZS_DTYPE_FP32 && !check->config->autocast)
    zs_check_say (
        check, ds->caller == ZS_DS_PLAIN || said ? ZS_NOTE_RISKY : ZS_NOTE_INFO,
        "no-half-precision", zs_check_given (check, "bf16") ? "bf16" : "fp16",
        "\"bf16\": {\"enabled\": true}",
        "neither fp16 nor bf16 is enabled: parameters and gradients take 4 bytes each, and "
        "matrix products run at fp32's speed");
  else if (!said && ds->caller == ZS_DS_EITHER && !check->config->autocast)
    zs_check_say (check, ZS_NOTE_INFO, "no-half-precision", "fp16", "\"bf16\": {\"enabled\": true}",
                  "neither fp16 nor bf16 is given: Hugging Face takes it from --bf16 or --fp16, "
                  "DeepSpeed alone trains in fp32");
}

void
zs_check_rule_activation_checkpointing (const ZsCheck *check)
{
  if (check->config->activation_checkpointing_section && check->options->ds.caller != ZS_DS_PLAIN)
    zs_check_say (
        check, ZS_NOTE_DEAD, "activation-checkpointing-idle", "activation_checkpointing",
        "gradient_checkpointing of TrainingArguments",
        "the section acts on code that calls deepspeed.checkpointing; Hugging Face's models "
        "do not, so it switches nothing on: activations are kept whole unless "
        "gradient_checkpointing is set");
}

void
zs_check_rule_breakdown (const ZsCheck *check)
{
  if (check->config->wall_clock_breakdown)
    zs_check_say (
        check, ZS_NOTE_SLOW, "breakdown-synchronises", "wall_clock_breakdown", "false",
        "the timers synchronise the GPU around every phase: nothing overlaps across them");
}

void
zs_check_rule_qlora (const ZsCheck *check)
{
  if (check->options->load_in_4bit && check->config->zero.stage == 3)
    zs_check_say (check, ZS_NOTE_RISKY, "qlora-with-stage-3", ZERO "stage", NULL,
                  "4-bit weights are sharded only if bnb_4bit_quant_storage has the dtype of the "
                  "training (bf16); older PEFT keeps them whole on every GPU");
}
