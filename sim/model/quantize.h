/* quantize.h: 4-bit weights of QLoRA (bitsandbytes, nf4).  SPDX-License-Identifier: MIT
 *
 * A quantised weight of N numbers is N / 2 bytes, held as elements of the model's dtype
 * (quant_storage), which frameworks shard like any other weight, and a state that they do not: scales of
 * blocks of 64 in fp32; doubly quantised in 8 bit, with fp32 scales of blocks of 256 of them, an offset
 * and a code of 256 numbers; and the code of 16 numbers.  A product first makes the weight in the model's
 * dtype, forward and backward, and saves neither it nor its input.
 * Sources: bitsandbytes/functional.py (quantize_4bit, QuantState), autograd/_functions.py (MatMul4Bit),
 * peft/tuners/lora/bnb.py (Linear4bit).  Not held against a recording. */
#pragma once

#include "sim/model/model.h"
#include "sim/plan/plan.h"

enum { ZS_QUANTIZED_BLOCK = 64, ZS_QUANTIZED_SCALES = 256 };

static inline int64_t
zs_packed_bytes (int64_t elements)
{
  return (elements + 1) / 2;
}

/* Bytes of the fp32 scales of a weight of ELEMENTS. */
static inline int64_t
zs_quantized_scales (int64_t elements)
{
  return (elements + ZS_QUANTIZED_BLOCK - 1) / ZS_QUANTIZED_BLOCK * 4;
}

/* The states of all quantised weights of MODEL, which stay on the GPU. */
void zs_load_quantized_states (ZsPlan *plan, const ZsModel *model);
