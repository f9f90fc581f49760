/* scenario-software.c: what follows from the versions of PyTorch and the GPU.
 * SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/scenario/scenario.h"

/* nvidia-nccl-cu12 (-cu13 from 2.11) as the wheels of PyTorch on PyPI pin it; the rows of 2.9 and
 * newer from general knowledge, not re-read. */
ZsVersion
zs_nccl_of_torch (ZsVersion torch)
{
  static const struct {
    ZsVersion torch, nccl;
  } rows[] = {
    { ZS_VERSION (2, 11, 0), ZS_VERSION (2, 28, 9) },
    { ZS_VERSION (2, 10, 0), ZS_VERSION (2, 27, 5) },
    { ZS_VERSION (2, 9, 0), ZS_VERSION (2, 27, 5) },
    { ZS_VERSION (2, 8, 0), ZS_VERSION (2, 27, 3) },
    { ZS_VERSION (2, 7, 0), ZS_VERSION (2, 26, 2) },
    { ZS_VERSION (2, 5, 0), ZS_VERSION (2, 21, 5) },
    { ZS_VERSION (2, 3, 0), ZS_VERSION (2, 20, 5) },
    { ZS_VERSION (2, 2, 0), ZS_VERSION (2, 19, 3) },
    { ZS_VERSION (2, 1, 0), ZS_VERSION (2, 18, 1) },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (rows); i++)
    if (torch >= rows[i].torch)
      return rows[i].nccl;
  return ZS_VERSION (2, 14, 3); /* PyTorch 2.0 */
}

/* scaled_dot_product_attention (ATen, sdp_utils.cpp): measured with torch 2.11 on sm90: cuDNN for
 * is_causal and for a mask; elsewhere flash, with a mask tensor the memory-efficient kernel, math
 * as the last resort.  cuDNN is a back end since 2.5; between 2.5.1 and 2.11 some releases took it
 * only on demand, which changes times and no bytes. Flash needs sm80 and 16 bits, and head_dim up
 * to 256. The memory-efficient kernel wants heads of whole 16 bytes and takes no key heads that are
 * fewer than the query heads: what transformers repeats is not GROUPED. */
ZsAttention
zs_attention_of_sdpa (int compute_capability, ZsVersion torch, ZsDtype dtype, int64_t head_dim,
                      bool mask, bool grouped)
{
  bool half = dtype != ZS_DTYPE_FP32;

  if (torch < ZS_VERSION (2, 0, 0))
    return ZS_ATTENTION_MATH;
  if (half && compute_capability >= 90 && compute_capability < 120 && head_dim <= 256
      && head_dim % 8 == 0 && torch >= ZS_VERSION (2, 5, 0))
    return ZS_ATTENTION_CUDNN;
  if (!mask && half && (compute_capability >= 80 || compute_capability == 0) && head_dim <= 256)
    return ZS_ATTENTION_FLASH;
  if ((compute_capability >= 50 || compute_capability == 0) && !grouped
      && head_dim % (half ? 8 : 4) == 0)
    return ZS_ATTENTION_EFFICIENT;
  return ZS_ATTENTION_MATH;
}
