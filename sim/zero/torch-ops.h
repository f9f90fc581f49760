/* torch-ops.h: short runs of PyTorch operators that DeepSpeed's Python calls: norms, overflow checks,
 * scalar arithmetic on the GPU, whole-tensor copies.
 * SPDX-License-Identifier: MIT
 *
 * Each function emits the allocations, launches and frees of the operators in their order, on the
 * plan's current stream.  Allocated sizes are exact: they were read off recorded allocator histories
 * (one H200, torch 2.11).  Results come with one reference.
 */
#pragma once

#include "sim/model/shape.h"
#include "sim/plan/plan.h"

typedef enum { ZS_WORK_COMPUTE, ZS_WORK_OPTIMIZER, ZS_WORK_COMMUNICATION } ZsWorkClass;

/* One kernel without tensors: ELEMENTS of ELEMENT_BYTES, moving BYTES in all. */
void zs_torch_launch (ZsPlan *plan, ZsKernelKind kind, ZsWorkClass work, int64_t elements,
                      int element_bytes, int64_t bytes, const char *name);

/* dst.copy_ (src): contiguous, with a conversion if the sizes of the elements differ. */
void zs_torch_copy (ZsPlan *plan, ZsWorkClass work, int64_t elements, int from_bytes, int to_bytes,
                    const char *name);

/* Number of blocks over which a reduction of ELEMENTS to one number is split (ATen/native/cuda/
 * Reduce.cuh, setReduceConfig): blocks of 512 threads; at most as many blocks as the GPU holds at
 * once, unless a thread would have more than 256 elements. */
int64_t zs_torch_reduction_blocks (const ZsStepShape *shape, int64_t elements);

/* A reduction of ELEMENTS x ELEMENT_BYTES to one number of RESULT_BYTES: the result, and for more
 * than one block a staging buffer of RESULT_BYTES per block and a semaphore. */
ZsTensor zs_torch_reduce (ZsPlan *plan, const ZsStepShape *shape, int64_t elements,
                          int element_bytes, int result_bytes, const char *name);

/* x.double ().norm (2): a copy in 8 bytes per element, then the norm (8 bytes). */
ZsTensor zs_torch_double_norm (ZsPlan *plan, const ZsStepShape *shape, int64_t elements,
                               int element_bytes);

/* deepspeed/runtime/zero/stage_1_and_2.py, _has_inf_or_nan (): float copy, two masks, their union,
 * as floats, its maximum (4 bytes, returned).  11 bytes per element at the highest for 16-bit x;
 * for fp32 x, x.float () is x itself. */
ZsTensor zs_torch_has_inf_or_nan (ZsPlan *plan, const ZsStepShape *shape, int64_t elements,
                                  int element_bytes);

/* A new scalar of BYTES computed by a tiny kernel, which drops OPERAND (may be ZS_NO_TENSOR). */
ZsTensor zs_torch_scalar (ZsPlan *plan, int64_t bytes, ZsTensor operand);

/* torch.tensor (value, device="cuda"): a blocking copy of one number from pageable host memory. */
ZsTensor zs_torch_scalar_from_host (ZsPlan *plan, int64_t bytes);

/* scalar.item (): the host reads BYTES and waits for the current stream. */
void zs_torch_item (ZsPlan *plan, int64_t bytes);

/* A collective whose handle is waited for at once, as dist.all_reduce (...) without async_op: the
 * current stream goes on after it, the host does not wait. */
void zs_torch_collective (ZsPlan *plan, ZsCollectiveKind kind, unsigned int communicator,
                          int64_t bytes);
