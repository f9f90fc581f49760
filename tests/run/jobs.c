/* jobs.c: see jobs.h.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/run/jobs.h"

#include "tests/testing.h"

/* As models/gpus/h200-sxm-141gb.yaml. */
static const ZsGpu H200 = {
  .name = "h200-sxm-141gb", .compute_capability = 90, .sm_count = 132,
  .memory_bytes = INT64_C (150109880320), .memory_rate = INT64_C (4800000000000),
  .l2_bytes = 60 << 20, .fp32_flops = 67e12, .tf32_flops = 494.7e12, .fp16_flops = 989.4e12,
  .bf16_flops = 989.4e12, .pcie_generation = 5, .pcie_width = 16, .nvlink_generation = 4,
  .nvlink_links = 18, .p2p_over_pcie = true, .context_bytes = INT64_C (836) << 20,
  .matmul_efficiency = 0.793, .memory_efficiency = 0.887, .expected_error = 0.05,
  .pinned_copy_rate = INT64_C (55400000000),
};

static const ZsHost HOST = {
  .vendor = ZS_CPU_INTEL, .cores = 96, .sockets = 2, .memory_bytes = INT64_C (2) << 40,
  .memory_rate = INT64_C (500000000000), .speed = 1, .nvme_read_rate = INT64_C (12000000000),
  .nvme_write_rate = INT64_C (6000000000), .omp_threads = 8,
};

static const ZsModelShape SHAPES[] = {
  [MODEL_7B] = { .name = "llama-7b", .hidden = 4096, .intermediate = 11008, .n_layers = 32,
                 .n_heads = 32, .n_kv_heads = 32, .head_dim = 128, .vocabulary = 32000,
                 .max_position = 2048 },
  [MODEL_1B] = { .name = "llama-3.2-1b", .hidden = 2048, .intermediate = 8192, .n_layers = 16,
                 .n_heads = 32, .n_kv_heads = 8, .head_dim = 64, .vocabulary = 128256,
                 .max_position = 131072, .tied_embeddings = true },
  [MODEL_TINY] = { .name = "tiny", .hidden = 256, .intermediate = 688, .n_layers = 3, .n_heads = 4,
                   .n_kv_heads = 4, .head_dim = 64, .vocabulary = 1000, .max_position = 2048 },
};

void
job_init (Job *job, JobModel model, int stage, int64_t world, const char *fabric)
{
  const ZsVersions versions = { .of = {
    [ZS_SOFTWARE_DEEPSPEED] = ZS_VERSION (0, 19, 5), [ZS_SOFTWARE_TORCH] = ZS_VERSION (2, 11, 0),
    [ZS_SOFTWARE_TRANSFORMERS] = ZS_VERSION (5, 17, 0), [ZS_SOFTWARE_NCCL] = ZS_VERSION (2, 28, 9),
  } };
  g_autofree char *models = testing_source_path ("models");
  g_autoptr (GError) error = NULL;

  *job = (Job) { .gpu = H200, .host = HOST };
  const ZsTopologyOptions options = { .gpu = &job->gpu, .n_gpus = (int) world, .host = &job->host,
                                      .peer_access = -1 };

  job->topology = zs_topology_from_fabric (models, fabric, &options, &error);
  if (job->topology == NULL)
    g_error ("%s", error->message);
  job->training = (ZsTraining) {
    .framework = stage < 0 ? ZS_FRAMEWORK_SINGLE : ZS_FRAMEWORK_DEEPSPEED, .shape = SHAPES[model],
    .n_steps = 3, .gradient_accumulation = 1, .world = world, .synchronize_phases = true,
    .step = {
      .micro_batch = 1, .sequence = 2048, .dtype = ZS_DTYPE_BF16, .attention = ZS_ATTENTION_CUDNN,
      .checkpoint_every = 1, .optimizer = ZS_OPTIMIZER_FUSED, .versions = versions,
      .compute_capability = 90, .sm_count = 132,
    },
    .zero = {
      .stage = stage, .world = world, .node_ranks = world, .gradient_accumulation = 1,
      .dtype = ZS_DTYPE_BF16, .communication_dtype = ZS_DTYPE_BF16,
      .grad_accum_dtype = ZS_DTYPE_BF16, .gradient_clipping = 1.0,
      .optimizer = ZS_DS_OPTIMIZER_FUSED_ADAM, .optimizer_groups = 1,
      .reduce_bucket_size = 16777216, .allgather_bucket_size = 500000000,
      .overlap_comm = stage == 3, .contiguous_gradients = true, .reduce_scatter = true,
      .use_multi_rank_bucket_allreduce = true, .ignore_unused_parameters = true,
      .sub_group_size = 1000000000, .prefetch_bucket_size = 15099494,
      .param_persistence_threshold = 40960, .model_persistence_threshold = INT64_MAX,
      .max_live_parameters = 1000000000, .max_reuse_distance = 1000000000,
      .memory_efficient_linear = true, .zero_init = true, .check_grad_overflow = true,
      .optimizer_ratio = 1.0, .param_buffer_count = 5, .param_buffer_size = 100000000,
      .param_max_in_cpu = 1000000000, .optimizer_buffer_count = 4, .aio_block_size = 1048576,
      .aio_queue_depth = 8, .aio_intra_op_parallelism = 1, .aio_overlap_events = true,
      .versions = versions,
    },
  };
}

void
job_ready (Job *job)
{
  g_autoptr (GError) error = NULL;
  const ZsClusterSpec spec = {
    .gpu = &job->gpu, .host = &job->host, .topology = job->topology, .n_ranks = job->training.world,
    .group_ranks = zs_training_group_ranks (&job->training), .nccl = { .version = 22809 },
  };

  job->cluster = zs_cluster_new (&spec, &error);
  if (job->cluster == NULL)
    g_error ("%s", error->message);
}

void
job_clear (Job *job)
{
  zs_cluster_free (job->cluster);
  zs_topology_free (job->topology);
}

ZsResult *
job_run (Job *job, const ZsRunOptions *options)
{
  g_autoptr (GError) error = NULL;
  ZsRunOptions defaults;

  zs_run_options_init (&defaults);
  if (job->cluster == NULL)
    job_ready (job);
  ZsResult *result = zs_run (&job->training, zs_cluster_machine (job->cluster),
                             options != NULL ? options : &defaults, &error);

  if (result == NULL)
    g_error ("%s", error->message);
  return result;
}
