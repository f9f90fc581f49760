/* scenario.h: everything a person said, typed, with every default filled in and each value's origin.
 * SPDX-License-Identifier: MIT
 *
 * A scenario comes from our YAML, or from a bare ds_config.json with flags of the command line; an
 * accelerate YAML and a TrainingArguments JSON may stand beside either.  Later steps read no file of
 * the person's: the machine's wiring is read too.
 *
 * Who wins, from the strongest: --set, flags, the scenario (or ds_config), the TrainingArguments, the
 * accelerate file, the machine of `instance`, defaults.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

#include "sim/hardware/gpu.h"
#include "sim/hardware/host.h"
#include "sim/job/job.h"
#include "sim/memory/alloc-conf.h"
#include "sim/network/topology.h"
#include "sim/run/result.h"
#include "sim/scenario/catalogue.h"
#include "sim/scenario/hf-config.h"
#include "sim/scenario/notes.h"

/* ---- what is read ---- */

typedef enum {
  ZS_FABRIC_NAME,       /* of models/fabrics, or a short word: pcie, nvlink, nvswitch, ideal */
  ZS_FABRIC_TOPO,       /* a file: output of `nvidia-smi topo -m` */
  ZS_FABRIC_NCCL_XML,   /* a file: topology XML of NCCL */
} ZsFabricKind;

/* The machine as it was described: plain data, all strings borrowed from the scenario. */
typedef struct {
  ZsGpu        gpu;             /* `gpu_memory` applied to its memory_bytes */
  int          gpus_per_node, n_nodes;
  ZsHost       host;
  ZsFabricKind fabric_kind;
  const char  *fabric;          /* name, or path of the file */
  bool         has_network;
  ZsNetwork    network;         /* between nodes */
  int          peer_access;     /* -1 as the GPU's driver, 0 no, 1 yes */
  ZsRate       shm_rate;        /* 0 unknown */
  ZsLinkCalibration calibration;   /* what was measured of this very machine (`zerosim calibrate`) */
  double       kernel_speed;    /* 0: as the model says */
  const char *const *environment;   /* "NAME=VALUE", NULL-terminated */
  ZsVersions   versions;
} ZsClusterSettings;

/* A measured phase; numbers that were not measured are -1. */
typedef struct {
  int     step, micro_step;     /* 0 and -1: any */
  ZsPhase phase;
  int64_t peak_allocated_bytes, peak_reserved_bytes, end_allocated_bytes;
  ZsTime  time;
} ZsMeasuredPhase;

/* What runs beside a measured collective, on another stream of every GPU. */
typedef enum {
  ZS_BESIDE_NOTHING,
  ZS_BESIDE_COPY_IN, ZS_BESIDE_COPY_OUT,   /* pinned, `beside_bytes` each */
  ZS_BESIDE_MATMUL,             /* m x n x k */
  ZS_BESIDE_ELEMENTWISE,        /* `beside_bytes` of traffic each */
  ZS_BESIDE_ATTENTION,          /* m heads, sequence n, head_dim k, causal, forward */
} ZsBeside;

/* A collective of all GPUs: its time alone, or by how much it and what runs beside it slow each other. */
typedef struct {
  ZsCollectiveKind kind;
  int64_t  bytes;               /* as nccl-tests counts */
  ZsTime   time;
  ZsBeside beside;
  int64_t  m, n, k, beside_bytes;
  double   slowdown, beside_slowdown;   /* times as long as alone */
} ZsMeasuredCollective;

/* Copies between host and GPUs, of several GPUs at once. */
typedef struct {
  bool     in, out;             /* to the GPUs, from them; both: at the same time */
  bool     pinned;
  uint64_t gpus;                /* bits: which ones */
  int64_t  bytes;               /* of each */
  ZsTime   time;                /* of the slowest */
} ZsMeasuredCopy;

/* For `validate`.  Numbers that were not measured are -1. */
typedef struct {
  bool    any;                  /* there was a block */
  int     outcome;              /* ZsOutcome */
  int64_t rank;                 /* which one was measured */
  bool    alone;                /* without the others (ZsRunOptions) */
  int64_t peak_allocated_bytes, peak_reserved_bytes, peak_device_bytes;
  int64_t host_pinned_bytes_per_rank, host_pinned_bytes;
  ZsTime  step_time;
  double  tokens_per_second_per_gpu, samples_per_second;
  GArray *phases;               /* ZsMeasuredPhase */
  GArray *collectives;          /* ZsMeasuredCollective: of the machine alone */
  GArray *copies;               /* ZsMeasuredCopy */
  bool    any_oom;
  int     oom_step, oom_phase;  /* ZsPhase */
  int64_t oom_tried_bytes, oom_allocated_bytes, oom_reserved_bytes;
  const char *source;           /* NULL unknown */
} ZsMeasured;

typedef struct {
  char         *path;           /* as given */
  const char   *name;           /* of the scenario */
  const char   *model_name;     /* as given */
  ZsHfConfig    model;
  ZsTraining    training;
  ZsClusterSettings cluster;
  ZsTopology   *topology;       /* of the cluster, joined */
  int64_t      *lengths;        /* the list of `sequence_lengths`, which training borrows; NULL: none */
  const char   *alloc_conf_text;   /* PYTORCH_CUDA_ALLOC_CONF; "" */
  ZsAllocConf   alloc_conf;
  int64_t       memory_limit_bytes;   /* 0: none */
  ZsMeasured    measured;
  ZsSettings   *settings;
  ZsNotes      *notes;
  ZsDocument   *document;       /* owns the strings */
} ZsScenario;

void zs_scenario_free (ZsScenario *scenario);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsScenario, zs_scenario_free)

/* ---- reading ---- */

/* Flags of the command line as text; NULL: not given. */
typedef struct {
  const char *model, *gpus, *nodes, *fabric, *network, *micro_batch, *sequence, *accumulation,
    *checkpointing, *attention, *lora, *host_memory, *deepspeed_version, *steps;
  const char *accelerate, *training_args;   /* files */
} ZsScenarioFlags;

/* Reads the scenario or ds_config at PATH.  FLAGS and SETS ("PATH=VALUE", NULL-terminated) may be NULL.
 * NULL if anything is wrong: ERRORS then says all of it. */
ZsScenario *zs_scenario_load (const char *path, const ZsScenarioFlags *flags, const char *const *sets,
                              ZsCatalogue *catalogue, ZsErrors *errors) G_GNUC_WARN_UNUSED_RESULT;
/* The same from a tree that was read before (a sweep's inline scenario; borrowed, not changed).  FILE is what
 * relative paths start from. */
ZsScenario *zs_scenario_read (const ZsNode *root, const char *file, const ZsScenarioFlags *flags,
                              const char *const *sets, ZsCatalogue *catalogue,
                              ZsErrors *errors) G_GNUC_WARN_UNUSED_RESULT;
/* For many readings of one file: the tree of the scenario or ds_config at PATH, as zs_scenario_read () takes it.  A bare
 * ds_config has become a scenario, and one that the scenario names stands in its place.  A file of accelerate or
 * TrainingArguments gives an empty tree, and PATH, which must live as long, a place in FLAGS.  NULL and ERRORS. */
ZsDocument *zs_scenario_tree (const char *path, ZsScenarioFlags *flags, ZsCatalogue *catalogue,
                              ZsErrors *errors) G_GNUC_WARN_UNUSED_RESULT;
/* The same for a tree inside another file: changes ROOT, which belongs to DOCUMENT. */
bool        zs_scenario_tree_complete (ZsDocument *document, ZsNode *root, ZsErrors *errors);
/* What a run would refuse of a file of accelerate or TrainingArguments by itself; nothing for other files. */
void        zs_scenario_check_import (const char *path, ZsErrors *errors);
/* Keys of accelerate's fsdp_config, which may begin with "fsdp_" too; NULL at the end. */
const char *const *zs_scenario_fsdp_keys (void);
/* Do TRL or LLaMA-Factory, if TrainingArguments at ROOT are theirs, checkpoint activations without being asked to? */
bool        zs_scenario_checkpoints_unasked (const ZsNode *root);
/* The machine alone: PATH holds a `cluster:` block, or is one (for `zerosim collective`); NULL: FLAGS and SETS say
 * all of it.  FLAGS may be NULL; only those of the machine count.  The result has no model and no training; name and
 * `measured` are read if they are there. */
ZsScenario *zs_scenario_load_cluster (const char *path, const ZsScenarioFlags *flags, const char *const *sets,
                                      ZsCatalogue *catalogue, ZsErrors *errors) G_GNUC_WARN_UNUSED_RESULT;

/* The full path of a setting that `--set` and sweeps may write short ("stage",
 * "zero_optimization.reduce_bucket_size", "micro_batch"); NULL and ERROR if there is none.  Free with
 * g_free. */
char *zs_scenario_path (const char *path, GError **error);

/* What sdpa dispatches to.  GROUPED: it is given fewer key than query heads (enable_gqa). */
ZsAttention zs_attention_of_sdpa (int compute_capability, ZsVersion torch, ZsDtype dtype,
                                  int64_t head_dim, bool mask, bool grouped);
/* The NCCL that a PyTorch ships with. */
ZsVersion   zs_nccl_of_torch (ZsVersion torch);
