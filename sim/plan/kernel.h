/* kernel.h: a GPU kernel (or short fixed run of kernels) as a plan names it: its shape, not its time.
 * SPDX-License-Identifier: MIT
 *
 * sim/hardware gives the time of a kernel on a GPU and the host's cost of launching it. */
#pragma once

#include <stdint.h>

typedef enum {
  ZS_KERNEL_MATMUL,      /* m x n x k, in `form` */
  ZS_KERNEL_ATTENTION_FORWARD,   /* batch m, sequence n, k = head_dim; heads, kv_heads; form: backend */
  ZS_KERNEL_ATTENTION_BACKWARD,
  ZS_KERNEL_ELEMENTWISE, /* bytes read + written, contiguous, vectorised */
  ZS_KERNEL_ACTIVATION,  /* the same with an exponential and a division per element */
  ZS_KERNEL_CAST,        /* dtype conversion */
  ZS_KERNEL_BROADCAST,   /* elementwise with an operand that is broadcast or of another type: n elements
                            written */
  ZS_KERNEL_STRIDED,     /* elementwise on heads that are transposed, of m sequences; form: ZsStrides */
  ZS_KERNEL_CONCATENATE, /* torch.cat of strided operands along the last dimension: n elements */
  ZS_KERNEL_REDUCE_ROWS, /* sum, mean, norm over the last dimension, of k elements (0: not known) */
  ZS_KERNEL_REDUCE_COLUMNS, /* sum over tokens, to k elements (0: not known): gradients of norm weights */
  ZS_KERNEL_SOFTMAX,     /* softmax, log-softmax and their backward; k: of a row (0: not known) */
  ZS_KERNEL_FILL,        /* memset */
  ZS_KERNEL_COPY,        /* device to device */
  ZS_KERNEL_EMBEDDING,   /* gather of rows */
  ZS_KERNEL_EMBEDDING_BACKWARD,   /* m: tokens; n: elements of the incoming gradient */
  ZS_KERNEL_ADAM_FUSED,  /* n elements, of which m never had a gradient; bytes of traffic */
  ZS_KERNEL_ADAM_FOREACH,
  ZS_KERNEL_ROWS_OF_SM,  /* a block on each SM walks over its share of m rows: Liger's norm backward */
  ZS_KERNEL_NORM,        /* 2-norm over all elements */
  ZS_KERNEL_TINY,        /* on a handful of elements: the launch is all */
  ZS_N_KERNELS
} ZsKernelKind;

/* Attention back ends. */
typedef enum {
  ZS_ATTENTION_EAGER,      /* transformers' own softmax (Q K^T) V */
  ZS_ATTENTION_CUDNN,      /* what sdpa picks on Hopper without a mask (torch 2.5 and later) */
  ZS_ATTENTION_FLASH,      /* sdpa's flash back end, or the flash-attn package */
  ZS_ATTENTION_EFFICIENT,  /* sdpa with a mask, or before Ampere */
  ZS_ATTENTION_MATH,
  ZS_ATTENTION_FLASH_1,    /* only as the form of a kernel: FlashAttention-1; bytes as FLASH */
  ZS_ATTENTION_CUDNN_MASK, /* only as the form of a kernel: cuDNN's with a mask, the whole square */
  ZS_N_ATTENTIONS
} ZsAttention;

/* The operands of a strided kernel: all transposed alike, laid out differently, of different types. */
typedef enum { ZS_STRIDES_ALIKE, ZS_STRIDES_DIFFER, ZS_STRIDES_TYPES } ZsStrides;

typedef enum { ZS_MATMUL_FORWARD, ZS_MATMUL_DGRAD, ZS_MATMUL_WGRAD } ZsMatmulForm;

/* From where a kernel is launched: the host pays differently. */
typedef enum {
  ZS_LAUNCH_EAGER,       /* Python calls an ATen operator, recorded by autograd */
  ZS_LAUNCH_NO_GRAD,     /* the same without autograd */
  ZS_LAUNCH_LINEAR,      /* F.linear with autograd */
  ZS_LAUNCH_AUTOGRAD,    /* the autograd engine's thread, C++ */
  ZS_LAUNCH_FUNCTION,    /* an autograd function of Python calls a Triton kernel, */
  ZS_LAUNCH_FUNCTION_NO_GRAD,   /* without autograd, */
  ZS_LAUNCH_FUNCTION_BACK,      /* or in backward */
  ZS_LAUNCH_INNER,       /* further kernel of the operator just launched */
  ZS_N_LAUNCHES
} ZsLaunchKind;

typedef struct {
  uint8_t kind;          /* ZsKernelKind */
  uint8_t form;          /* ZsMatmulForm, or ZsAttention for attention */
  uint8_t launch;        /* ZsLaunchKind */
  uint8_t element_bytes; /* of the operands read: 2 or 4; a cast from 2 is up, from 4 down */
  uint8_t phase_class;   /* 0 compute, 1 optimizer, 2 communication helper (bucket copies) */
  uint8_t tf32;          /* a product of fp32 operands on tensor cores */
  int32_t heads, kv_heads;
  int64_t m, n, k;       /* matmul: output m x n, inner dimension k, whatever the form; attention:
                            see its kind; else n = elements */
  int64_t bytes;         /* memory traffic, read + written */
  double  flops;         /* useful floating point operations (multiply-add = 2) */
  const char *name;      /* static string: "q_proj", "rmsnorm.pow" */
} ZsKernel;
