/* emit.h: the work of one micro-step, as PyTorch and transformers issue it.
 * SPDX-License-Identifier: MIT
 *
 * An emitter holds what forward leaves for backward.  Forward and backward come in pairs.  The order
 * of allocations, frees and launches is that of torch 2.11 with transformers 5.17, decoded from
 * recorded allocator histories of one H200 (tests/data); behaviours.def has what other releases do.
 * Tensors that PyTorch's autograd would hold are references in the plan.
 */
#pragma once

#include "sim/model/hooks.h"

typedef struct ZsEmitter ZsEmitter;

/* All four are borrowed and must outlive the emitter.  Enters kernels and labels in PLAN once. */
ZsEmitter *zs_emitter_new  (const ZsModel *model, const ZsStepShape *shape, const ZsHooks *hooks,
                            ZsPlan *plan) G_GNUC_WARN_UNUSED_RESULT;
void       zs_emitter_free (ZsEmitter *emitter);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsEmitter, zs_emitter_free)

/* From the next forward on micro-batches have another length, and their mask, where one is given, hides
 * padding or (not PADDED) nothing.  A length enters its kernels once. */
void zs_emitter_set_length (ZsEmitter *emitter, int64_t sequence, bool padded);

/* Token ids of the batch: part of the phase `load`, before the model.  Held to the end. */
void zs_emit_inputs (ZsEmitter *emitter);
/* The phases `forward` and `backward` of one micro-step, without their ZS_OP_PHASE.  BOUNDARY: the
 * optimizer steps after this micro-step. */
void zs_emit_forward  (ZsEmitter *emitter, int step, int micro_step, bool boundary);
void zs_emit_backward (ZsEmitter *emitter);
/* The caller forgets the loss and, with keep_outputs, the outputs of the last forward. */
void zs_emit_drop_outputs (ZsEmitter *emitter);

/* A number for what is held between micro-steps. */
uint64_t zs_emitter_digest (const ZsEmitter *emitter);

/* Model floating point operations of one micro-step of SEQUENCE tokens a sample, forward and backward,
 * without recomputation (causal attention counted once): what model FLOPs utilisation is about. */
double zs_emitter_model_flops (const ZsEmitter *emitter, int64_t sequence);
/* The same with recomputation. */
double zs_emitter_hardware_flops (const ZsEmitter *emitter, int64_t sequence);

/* Bytes of the temporary buffer with which ATen sums a [ROWS, COLUMNS] matrix over its rows on a GPU
 * of SM_COUNT, and of its semaphores; 0 when the sum needs none.  Source: launch rule of
 * ATen/native/cuda/Reduce.cuh, checked against recorded buffers of torch 2.11 on one H200. */
int64_t zs_column_sum_buffer (int64_t rows, int64_t columns, int element_bytes, int sm_count,
                              int64_t *ret_semaphore_bytes);
/* Bytes of a cuBLAS workspace (one per thread and stream).  Source: CUDABlas.cpp of torch 2.11:
 * 32 MiB on Hopper and Blackwell, else :4096:2:16:8. */
int64_t zs_cublas_workspace_bytes (int compute_capability);
