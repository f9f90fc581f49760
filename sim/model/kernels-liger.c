/* kernels-liger.c: sizes and kernels of liger.c and liger-loss.c.  SPDX-License-Identifier: MIT
 *
 * Each is one Triton kernel that reads its operands and writes its results once, but for the cross
 * entropy, which reads its rows twice before it writes their gradients.  Kinds: norm and rotary embedding take as
 * long as reductions of as many bytes, 38 to 48 us of 134 to 168 MB; SwiGLU 0.87 of the memory rate, 0.77 to 0.86
 * in backward; cross entropy 0.50 to 0.58 of it (one H200, torch 2.11, triton 3.6, kernels written after Liger's;
 * tests/data/liger). */
#include "config.h"

#include "sim/model/emit-internal.h"

enum { FP32 = 4 };

static int64_t
divide_up (int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

static int64_t
power_of_two_from (int64_t n)
{
  int64_t power = 1;

  while (power < n)
    power *= 2;
  return power;
}

/* A Triton kernel that an autograd function of Python launches. */
static ZsForwardKernel
function (ZsEmitter *e, ZsKernelKind kind, int64_t n, int64_t bytes, int64_t element, const char *name)
{
  ZsKernel kernel = { .kind = (uint8_t) kind, .launch = ZS_LAUNCH_FUNCTION, .element_bytes = (uint8_t) element,
                      .n = n, .bytes = bytes, .flops = (double) n, .name = name };
  ZsForwardKernel result;

  result.id[0] = zs_plan_kernel (e->plan, &kernel);
  kernel.launch = ZS_LAUNCH_FUNCTION_NO_GRAD;
  result.id[1] = zs_plan_kernel (e->plan, &kernel);
  return result;
}

static uint32_t
function_back (ZsEmitter *e, ZsKernelKind kind, int64_t n, int64_t bytes, int64_t element, const char *name)
{
  ZsKernel kernel = { .kind = (uint8_t) kind, .launch = ZS_LAUNCH_FUNCTION_BACK,
                      .element_bytes = (uint8_t) element, .n = n, .bytes = bytes, .flops = (double) n,
                      .name = name };

  return zs_plan_kernel (e->plan, &kernel);
}

/* The next kernel of the same function. */
static uint32_t
further (ZsEmitter *e, ZsKernelKind kind, int64_t n, int64_t bytes, int64_t element, const char *name)
{
  ZsKernel kernel = { .kind = (uint8_t) kind, .launch = ZS_LAUNCH_NO_GRAD, .element_bytes = (uint8_t) element,
                      .n = n, .bytes = bytes, .flops = (double) n, .name = name };

  return zs_plan_kernel (e->plan, &kernel);
}

/* The gradient of a norm's input and, of each SM, of its weight. */
static uint32_t
norm_back (ZsEmitter *e, const ZsNormKind *kind, int64_t element)
{
  int64_t n = kind->rows * kind->columns;
  ZsKernel kernel = { .kind = ZS_KERNEL_ROWS_OF_SM, .launch = ZS_LAUNCH_FUNCTION_BACK,
                      .element_bytes = (uint8_t) element, .m = kind->rows, .n = n, .bytes = n * 3 * element,
                      .flops = (double) n, .name = "liger rms_norm backward" };

  return zs_plan_kernel (e->plan, &kernel);
}

/* Logits to their gradient, in rows. */
static ZsForwardKernel
cross_entropy (ZsEmitter *e, int64_t rows, int64_t element)
{
  int64_t n = rows * e->model->shape.vocabulary;
  ZsKernel kernel = { .kind = ZS_KERNEL_SOFTMAX, .launch = ZS_LAUNCH_FUNCTION_NO_GRAD,
                      .element_bytes = (uint8_t) element, .n = n, .k = e->model->shape.vocabulary,
                      .bytes = n * 3 * element, .flops = (double) n, .name = "liger cross entropy" };
  uint32_t id = zs_plan_kernel (e->plan, &kernel);

  return (ZsForwardKernel) { { id, id } };
}

/* ELEMENT: of what the norm reads and writes. */
static void
add_norm (ZsEmitter *e, ZsNormKind *kind, int64_t element)
{
  int64_t n = kind->rows * kind->columns, a = element, sms = e->shape.sm_count;

  kind->bytes = n * a;
  kind->weight_bytes = kind->columns * e->stream;
  kind->partial_bytes = sms * kind->columns * FP32;
  kind->column_bytes = kind->columns * FP32;
  kind->fused = function (e, ZS_KERNEL_REDUCE_ROWS, n, n * 2 * a, a, "liger rms_norm");
  kind->fused_back = norm_back (e, kind, a);
  kind->sum_partials = further (e, ZS_KERNEL_ELEMENTWISE, sms * kind->columns, kind->partial_bytes, FP32,
                                "liger rms_norm backward.weight sum");
  kind->cast_sum = further (e, ZS_KERNEL_TINY, kind->columns, kind->columns * (FP32 + e->stream), FP32,
                            "liger rms_norm backward.weight cast");
}

static void
add_chunk (ZsEmitter *e, ZsLossChunk *chunk, int64_t rows)
{
  const ZsModelShape *s = &e->model->shape;
  int64_t a = e->element, v = rows * s->vocabulary, n = rows * s->hidden;

  chunk->logits = v * a;
  chunk->hidden = n * e->stream;
  chunk->narrow_hidden = n * a;
  if (rows == 0)
    return;
  chunk->cast = zs_forward_kernel (e, ZS_KERNEL_CAST, n, n * (a + e->stream), FP32, "autocast.input");
  for (int i = 0; i < 2; i++) {   /* autograd's functions run without it */
    chunk->product.id[i] = zs_product_kernel (e, rows, s->vocabulary, s->hidden, ZS_MATMUL_FORWARD,
                                              ZS_LAUNCH_NO_GRAD, a, "liger loss.logits");
    chunk->to_hidden.id[i] = zs_product_kernel (e, rows, s->hidden, s->vocabulary, ZS_MATMUL_DGRAD,
                                                ZS_LAUNCH_NO_GRAD, a, "liger loss.dX");
    chunk->to_weight.id[i] = zs_product_kernel (e, s->vocabulary, s->hidden, rows, ZS_MATMUL_WGRAD,
                                                ZS_LAUNCH_NO_GRAD, a, "liger loss.dW");
  }
  chunk->loss = cross_entropy (e, rows, a);
  chunk->copy = zs_forward_kernel (e, ZS_KERNEL_COPY, n, n * (a + e->stream), a, "liger loss.dX copy");
}

/* fused_linear_cross_entropy_forward (): as many tokens at once as make the logits no larger than the
 * input, rounded up to a power of two. */
static void
add_fused_loss (ZsEmitter *e)
{
  const ZsModelShape *s = &e->model->shape;
  int64_t rows = zs_loss_pads_labels (e) ? e->tokens : e->batch * (e->sequence - 1);
  int64_t weight = s->vocabulary * s->hidden, a = e->element, w = e->stream;
  int64_t n = rows * s->hidden;

  e->loss_rows = rows;
  e->chunk_rows = power_of_two_from (divide_up (rows, divide_up (s->vocabulary, s->hidden)));
  e->head_wide = weight * w;
  e->head_narrow = weight * a;
  add_chunk (e, &e->chunks[0], MIN (e->chunk_rows, rows));
  add_chunk (e, &e->chunks[1], rows % e->chunk_rows);
  e->k.hidden_shift = zs_forward_kernel (e, ZS_KERNEL_COPY, n, n * 2 * w, w, "hidden.shift");
  e->k.hidden_fill = zs_forward_kernel (e, ZS_KERNEL_FILL, n, n * w, w, "liger loss.dX fill");
  e->k.hidden_fill_back = zs_backward_kernel (e, ZS_KERNEL_FILL, e->tokens * s->hidden, e->hidden, w,
                                         "hidden backward.fill");
  e->k.hidden_shift_back = zs_backward_kernel (e, ZS_KERNEL_COPY, n, n * 2 * w, w, "hidden backward.shift");
  e->k.weight_fill = zs_forward_kernel (e, ZS_KERNEL_FILL, weight, weight * w, w, "liger loss.dW fill");
  e->k.weight_add = zs_forward_kernel (e, ZS_KERNEL_ELEMENTWISE, weight, weight * (a + 2 * w), a, "liger loss.dW sum");
  e->k.head_cast = zs_forward_kernel (e, ZS_KERNEL_CAST, weight, weight * (a + w), FP32, "autocast.weight");
  e->k.scale_hidden = function_back (e, ZS_KERNEL_ELEMENTWISE, n, n * 2 * w, w, "liger loss backward.scale");
  e->k.scale_weight = further (e, ZS_KERNEL_ELEMENTWISE, weight, weight * 2 * w, w, "liger loss backward.scale");
}

void
zs_emitter_add_liger_kernels (ZsEmitter *e)
{
  const ZsModelShape *s = &e->model->shape;
  int64_t a = e->element, q = e->tokens * s->n_heads * s->head_dim, f = e->tokens * s->intermediate;
  int64_t kv = e->tokens * s->n_kv_heads * s->head_dim, v = e->tokens * s->vocabulary;

  if (zs_liger (e, ZS_LIGER_RMS_NORM)) {
    add_norm (e, &e->hidden_norm, e->stream);
    if (s->qk_norm) {   /* they keep the dtype of what they are given */
      add_norm (e, &e->q_norm, a);
      add_norm (e, &e->k_norm, a);
    }
  }
  e->k.swiglu = function (e, ZS_KERNEL_ELEMENTWISE, f, f * 3 * a, a, "liger swiglu");
  e->k.swiglu_back = function_back (e, ZS_KERNEL_ELEMENTWISE, f, f * 5 * a, a, "liger swiglu backward");
  e->k.rope = function (e, ZS_KERNEL_REDUCE_ROWS, q + kv, (q + kv) * 2 * a, a, "liger rope");
  e->k.rope_back = function_back (e, ZS_KERNEL_REDUCE_ROWS, q + kv, (q + kv) * 2 * a, a, "liger rope backward");
  e->k.cross_entropy = cross_entropy (e, zs_loss_pads_labels (e) ? e->tokens : e->batch * (e->sequence - 1), FP32);
  e->k.scale_wide_logits = function_back (e, ZS_KERNEL_ELEMENTWISE, v, v * 2 * FP32, FP32,
                                          "liger cross entropy backward.scale");
  if (zs_liger (e, ZS_LIGER_FUSED_LOSS))
    add_fused_loss (e);
}
