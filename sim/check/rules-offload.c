/* rules-offload.c: what offload costs on the host, and what does not reach it.
 * SPDX-License-Identifier: MIT
 *
 * P: elements of one rank's partition of the trainable parameters. */
#include "config.h"

#include "sim/base/units.h"
#include "sim/check/check-internal.h"

#define OPTIMIZER "zero_optimization.offload_optimizer"
#define PARAM "zero_optimization.offload_param"

static bool
offloads_optimizer (const ZsCheck *check)
{
  return check->config->zero.offload_optimizer != ZS_DEVICE_NONE;
}

/* runtime/swap_tensor: four buffers per sub-group (master, two moments, gradient), four more for
 * each pipelined direction; a parameter's shard must fit one buffer. */
void
zs_check_rule_nvme_buffers (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;

  if (zero->offload_param == ZS_DEVICE_NVME && check->options->largest_tensor > 0) {
    int64_t shard = (check->options->largest_tensor + zero->world - 1) / zero->world;
    g_autofree char *instead = g_strdup_printf ("\"buffer_size\": %" G_GINT64_FORMAT, shard);

    if (zero->param_buffer_size < shard)
      zs_check_say (check, ZS_NOTE_ERROR, "nvme-buffers", PARAM ".buffer_size", instead,
                    "the largest tensor's shard has %" G_GINT64_FORMAT " elements, more than one "
                    "buffer of %" G_GINT64_FORMAT ": the start aborts",
                    shard, zero->param_buffer_size);
  }
}

void
zs_check_rule_torch_optimizer_on_cpu (const ZsCheck *check)
{
  if (check->config->torch_optimizer_on_cpu)
    zs_check_say (
        check, ZS_NOTE_SLOW, "torch-optimizer-on-cpu",
        check->config->optimizer_section ? "optimizer.params.torch_adam"
                                         : "zero_force_ds_cpu_optimizer",
        check->config->optimizer_section ? "false" : "true",
        "torch's AdamW runs on the CPU: 3 to 7 times slower than DeepSpeed's CPU Adam, and "
        "4 bytes more of host memory per parameter; the GPU's memory is the same");
}

/* Switches that only permit something. */
void
zs_check_rule_idle_permissions (const ZsCheck *check)
{
  if (zs_check_given (check, "zero_force_ds_cpu_optimizer")
      && (!offloads_optimizer (check)
          || (check->config->optimizer_section && !check->config->torch_optimizer_on_cpu)))
    zs_check_say (check, ZS_NOTE_DEAD, "idle-permission", "zero_force_ds_cpu_optimizer", NULL,
                  offloads_optimizer (check)
                      ? "the optimizer section already gives DeepSpeed's CPU Adam: "
                        "zero_force_ds_cpu_optimizer changes nothing, neither memory nor time"
                      : "no optimizer is offloaded: zero_force_ds_cpu_optimizer changes nothing, "
                        "neither memory nor time");
}

void
zs_check_rule_states_stay (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;

  if (zero->offload_param != ZS_DEVICE_NONE && !offloads_optimizer (check))
    zs_check_say (
        check, ZS_NOTE_RISKY, "states-stay-on-gpu", PARAM,
        "\"offload_optimizer\": {\"device\": \"cpu\"}",
        "parameters leave the GPU (2 bytes each, sharded), but the fp32 master and Adam's "
        "moments (12 bytes each, sharded) stay on it");
}

void
zs_check_rule_cpu_threads (const ZsCheck *check)
{
  int64_t threads = check->options->omp_threads;

  if (!offloads_optimizer (check) || threads > 1 || threads == 0)
    return;
  zs_check_say (
      check, threads == 1 ? ZS_NOTE_SLOW : ZS_NOTE_INFO, "one-cpu-thread", OPTIMIZER,
      "OMP_NUM_THREADS=<cores / GPUs>",
      threads == 1
          ? "CPU Adam runs on one thread per rank: about 0.7e9 parameters a second, 16 "
            "threads 4.5e9 (measured)"
          : "torchrun and accelerate start each rank with one thread unless OMP_NUM_THREADS "
            "says more; CPU Adam updates about 0.7e9 parameters a second on one thread, "
            "4.5e9 on 16 (measured)");
}

static int64_t
power_of_two (int64_t bytes)
{
  int64_t rounded = 1;

  while (rounded < bytes)
    rounded *= 2;
  return rounded;
}

typedef struct {
  int64_t exact, rounded; /* bytes of one rank */
} HostBytes;

static void
pin (HostBytes *host, int64_t bytes, bool pinned)
{
  host->exact += bytes;
  host->rounded += pinned && bytes > 0 ? power_of_two (bytes) : bytes;
}

/* Host memory of one rank.  Stages 1 and 2: measured to the byte on one H200 under 0.14.4 and
 * 0.19.5 (fp32 master and gradient, 16-bit staging, one buffer of the largest tensor, and pageable
 * moments). Stage 3: master and moments are pageable, gradients are pinned by sub-group, the 16-bit
 * shards as one; PyTorch's pinned allocator rounds each block up to a power of two. */
static HostBytes
host_bytes (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;
  const int64_t p = zs_check_partition (check), b = zs_dtype_bytes (zero->dtype);
  HostBytes host = { 0, 0 };

  if (zero->stage < 3) {
    bool master =
        zero->optimizer_pin || zs_check_behaves (check, ZS_BEHAVIOUR_MASTER_ALWAYS_PINNED);

    pin (&host, 4 * p, master);
    pin (&host, 4 * p, zero->optimizer_pin);
    if (zs_check_behaves (check, ZS_BEHAVIOUR_OFFLOAD_STAGING_16BIT))
      pin (&host, b * p, zero->optimizer_pin);
    pin (&host, b * check->options->largest_tensor, zero->optimizer_pin);
    pin (&host, 8 * p, false);
    return host;
  }
  if (zero->offload_optimizer == ZS_DEVICE_CPU) {
    pin (&host, 12 * p, false);
    for (int64_t left = p; left > 0; left -= zero->sub_group_size)
      pin (&host, 4 * MIN (left, MAX (zero->sub_group_size, 1)), zero->optimizer_pin);
    pin (&host, b * p, zero->optimizer_pin);
  } else if (zero->offload_optimizer == ZS_DEVICE_NVME) {
    pin (&host, zero->optimizer_buffer_count * 4 * MIN (p, zero->sub_group_size), false);
    pin (&host, b * p, zero->optimizer_pin);
  }
  if (zero->offload_param == ZS_DEVICE_CPU)
    pin (&host, b * ((check->options->n_elements + zero->world - 1) / zero->world), true);
  return host;
}

void
zs_check_rule_host_memory (const ZsCheck *check)
{
  const int64_t memory = check->options->host_memory_bytes;

  if (!offloads_optimizer (check) || zs_check_partition (check) == 0 || memory <= 0
      || check->options->ds.world <= 0 || check->config->zero.sub_group_size <= 0)
    return;
  HostBytes host = host_bytes (check);
  int64_t ranks = check->config->zero.node_ranks;
  g_autofree char *exact = zs_bytes_format (host.exact * ranks);
  g_autofree char *rounded = zs_bytes_format (host.rounded * ranks);
  g_autofree char *has = zs_bytes_format (memory);

  if (host.rounded * ranks <= memory)
    return;
  if (host.exact * ranks > memory)
    zs_check_say (check, ZS_NOTE_RISKY, "host-memory", OPTIMIZER, NULL,
                  "the %" G_GINT64_FORMAT
                  " ranks of a node need %s of host memory for offload, and "
                  "the node has %s: the kernel kills a rank (exit -9)",
                  ranks, exact, has);
  else
    zs_check_say (check, ZS_NOTE_RISKY, "host-memory", OPTIMIZER, "\"pin_memory\": false",
                  "the %" G_GINT64_FORMAT
                  " ranks of a node need %s of host memory for offload, but "
                  "pinned blocks are rounded up to powers of two: %s, and the node has %s",
                  ranks, exact, rounded, has);
}

void
zs_check_rule_pinning (const ZsCheck *check)
{
  static const char *const BLOCKS[] = { OPTIMIZER, PARAM };
  const ZsZeroConfig *zero = &check->config->zero;
  const ZsOffloadDevice devices[] = { zero->offload_optimizer, zero->offload_param };
  const bool pins[] = { zero->optimizer_pin, zero->param_pin };

  for (size_t i = 0; i < G_N_ELEMENTS (BLOCKS); i++) {
    g_autofree char *path = g_strconcat (BLOCKS[i], ".pin_memory", NULL);

    if (devices[i] == ZS_DEVICE_NONE)
      continue;
    if (!pins[i]
        && (zs_check_given (check, path)
            || !zs_check_behaves (check, ZS_BEHAVIOUR_PIN_MEMORY_DEFAULT)))
      zs_check_say (
          check, zs_check_given (check, path) ? ZS_NOTE_SLOW : ZS_NOTE_INFO, "pageable-offload",
          path, "\"pin_memory\": true",
          "copies of pageable memory run at a third to half of the rate and hold the host "
          "up; pinned memory costs up to twice the host memory%s",
          zs_check_given (check, path) ? "" : " (not pinned is the default before 0.19.5)");
    else if (pins[i] && !zs_check_given (check, path))
      zs_check_say (check, ZS_NOTE_INFO, "pinned-by-default", path, NULL,
                    "since DeepSpeed 0.19.5 offloaded memory is pinned unless the file says "
                    "\"pin_memory\": false; each block is rounded up to a power of two");
  }
}

/* partitioned_param_swapper: only a leading run of whole sub-groups can be in the CPU buffer. */
void
zs_check_rule_idle_cpu_buffer (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;
  int64_t partition = zs_check_partition (check);

  if (zero->offload_param != ZS_DEVICE_NVME || zero->sub_group_size < zero->param_max_in_cpu)
    return;
  if (partition > 0 && partition <= zero->param_max_in_cpu) {
    zs_check_say (check, ZS_NOTE_RISKY, "idle-cpu-buffer", PARAM, NULL,
                  "a rank's %" G_GINT64_FORMAT
                  " elements fit max_in_cpu: nothing goes to the drive",
                  partition);
    return;
  }
  zs_check_say (check, partition > 0 ? ZS_NOTE_RISKY : ZS_NOTE_INFO, "idle-cpu-buffer",
                PARAM ".max_in_cpu", "\"sub_group_size\": 1e8",
                "only whole sub-groups can be in the CPU buffer, and the first one is larger than "
                "max_in_cpu: the buffer is allocated and stays empty");
}

/* Fixed by DeepSpeed's pull request 6963, in 0.16.4. */
void
zs_check_rule_nvme_mix (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;

  if (zero->offload_param == ZS_DEVICE_NVME && zero->offload_optimizer == ZS_DEVICE_CPU
      && !zs_check_behaves (check, ZS_BEHAVIOUR_NVME_PARAM_CPU_OPTIMIZER))
    zs_check_say (check, ZS_NOTE_RISKY, "nvme-param-cpu-optimizer", PARAM ".device", "\"cpu\"",
                  "parameters on NVMe with the optimizer on the CPU fail in this release: "
                  "\"'NoneType' object has no attribute 'swap_folder'\"");
}

void
zs_check_rule_ratio (const ZsCheck *check)
{
  const ZsZeroConfig *zero = &check->config->zero;
  int64_t partition = zs_check_partition (check);

  if (zero->stage != 3 || zero->offload_optimizer == ZS_DEVICE_NONE || zero->optimizer_ratio >= 1
      || partition == 0 || zero->sub_group_size <= 0)
    return;
  int64_t groups = (partition + zero->sub_group_size - 1) / zero->sub_group_size;
  int64_t on_gpu = (int64_t)((1 - zero->optimizer_ratio) * (double)groups);

  zs_check_say (check, on_gpu == 0 ? ZS_NOTE_RISKY : ZS_NOTE_INFO, "coarse-ratio",
                OPTIMIZER ".ratio", on_gpu == 0 ? "\"sub_group_size\": 1e8" : NULL,
                "Twin-Flow moves whole sub-groups: %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT
                " stay on the GPU%s",
                on_gpu, groups, on_gpu == 0 ? ", so the ratio does nothing" : "");
}

void
zs_check_rule_super_offload (const ZsCheck *check)
{
  bool super;

  if (zs_node_bool (zs_ds_config_get (check->root, OPTIMIZER ".super_offload"), &super) && super
      && check->config->zero.gradient_clipping > 0)
    zs_check_say (
        check, ZS_NOTE_SLOW, "super-offload-clipping", "gradient_clipping",
        "\"gradient_clipping\": 0",
        "with clipping all CPU steps wait for the end of backward: SuperOffload's overlap "
        "is gone");
}
