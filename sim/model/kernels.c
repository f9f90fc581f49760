/* kernels.c: the kernels of a micro-step, entered in the plan once.  SPDX-License-Identifier: MIT
 *
 * Traffic is what a kernel reads and writes if nothing stays in the L2; flops are useful operations
 * (multiply-add = 2), attention counted causally where the kernel skips the masked half. */
#include "config.h"

#include "sim/model/emit-internal.h"
#include "sim/model/quantize.h"

#include <string.h>

static uint32_t
enter (ZsEmitter *e, ZsKernel kernel)
{
  return zs_plan_kernel (e->plan, &kernel);
}

static ZsForwardKernel
enter_forward (ZsEmitter *e, ZsKernel kernel)
{
  ZsForwardKernel result;

  kernel.launch = ZS_LAUNCH_EAGER;
  result.id[0] = enter (e, kernel);
  kernel.launch = ZS_LAUNCH_NO_GRAD;
  result.id[1] = enter (e, kernel);
  return result;
}

static uint32_t
enter_backward (ZsEmitter *e, ZsKernel kernel)
{
  kernel.launch = ZS_LAUNCH_AUTOGRAD;
  return enter (e, kernel);
}

/* A kernel of N elements that moves BYTES. */
static ZsKernel
sized (ZsKernelKind kind, int64_t n, int64_t bytes, int64_t element, const char *name)
{
  return (ZsKernel) { .kind = (uint8_t) kind, .element_bytes = (uint8_t) element, .n = n, .bytes = bytes,
                      .flops = (double) n, .name = name };
}

static ZsForwardKernel
forward (ZsEmitter *e, ZsKernelKind kind, int64_t n, int64_t bytes, int64_t element, const char *name)
{
  return enter_forward (e, sized (kind, n, bytes, element, name));
}

static uint32_t
backward (ZsEmitter *e, ZsKernelKind kind, int64_t n, int64_t bytes, int64_t element, const char *name)
{
  return enter_backward (e, sized (kind, n, bytes, element, name));
}

/* Of heads that are transposed. */
static ZsKernel
strided (const ZsEmitter *e, ZsStrides strides, int64_t n, int64_t bytes, int64_t element, const char *name)
{
  ZsKernel kernel = sized (ZS_KERNEL_STRIDED, n, bytes, element, name);

  kernel.m = e->batch;
  kernel.form = (uint8_t) strides;
  return kernel;
}

/* Of fp32 numbers in rows of COLUMNS; OPERANDS of them are read or written. */
static ZsKernel
in_rows (ZsKernelKind kind, int64_t n, int operands, int64_t columns, const char *name)
{
  ZsKernel kernel = sized (kind, n, n * 4 * operands, 4, name);

  kernel.k = columns;
  return kernel;
}

static ZsKernel
product (const ZsEmitter *e, int64_t m, int64_t n, int64_t k, ZsMatmulForm form, ZsLaunchKind launch,
         int64_t element, const char *name)
{
  return (ZsKernel) { .kind = ZS_KERNEL_MATMUL, .form = (uint8_t) form, .launch = (uint8_t) launch,
                      .element_bytes = (uint8_t) element,
                      .tf32 = zs_behaves (&e->shape.versions, ZS_BEHAVIOUR_TF32_BY_DEFAULT) || e->shape.tf32,
                      .m = m, .n = n, .k = k,
                      .bytes = (m * n + n * k + m * k) * element,
                      .flops = 2.0 * (double) m * (double) n * (double) k, .name = name };
}

static ZsForwardKernel
forward_product (ZsEmitter *e, int64_t m, int64_t n, int64_t k, int64_t element, const char *name)
{
  ZsForwardKernel result;

  result.id[0] = enter (e, product (e, m, n, k, ZS_MATMUL_FORWARD, ZS_LAUNCH_LINEAR, element, name));
  result.id[1] = enter (e, product (e, m, n, k, ZS_MATMUL_FORWARD, ZS_LAUNCH_NO_GRAD, element, name));
  return result;
}

ZsForwardKernel
zs_forward_kernel (ZsEmitter *e, ZsKernelKind kind, int64_t n, int64_t bytes, int64_t element, const char *name)
{
  return forward (e, kind, n, bytes, element, name);
}

uint32_t
zs_backward_kernel (ZsEmitter *e, ZsKernelKind kind, int64_t n, int64_t bytes, int64_t element, const char *name)
{
  return backward (e, kind, n, bytes, element, name);
}

uint32_t
zs_product_kernel (ZsEmitter *e, int64_t m, int64_t n, int64_t k, ZsMatmulForm form, ZsLaunchKind launch,
                   int64_t element, const char *name)
{
  return enter (e, product (e, m, n, k, form, launch, element, name));
}

/* What meets the gradient of a norm's result: of heads it arrives transposed. */
static ZsKernel
meeting (const ZsEmitter *e, const ZsNormKind *kind, int64_t bytes, int64_t element, const char *name)
{
  int64_t n = kind->rows * kind->columns;

  return kind->of_heads ? strided (e, ZS_STRIDES_DIFFER, n, bytes, element, name)
                        : sized (ZS_KERNEL_ELEMENTWISE, n, bytes, element, name);
}

static void
add_norm (ZsEmitter *e, ZsNormKind *kind, bool of_heads, int64_t rows, int64_t columns)
{
  int64_t n = rows * columns, a = e->stream;

  kind->of_heads = of_heads;
  kind->rows = rows;
  kind->columns = columns;
  kind->bytes = n * a;
  kind->bytes32 = n * 4;
  kind->row_bytes = rows * 4;
  kind->weight_bytes = columns * a;
  kind->buffer_bytes = zs_column_sum_buffer (rows, columns, (int) a, e->shape.sm_count,
                                             &kind->semaphore_bytes);
  kind->up = forward (e, ZS_KERNEL_CAST, n, n * (a + 4), a, "rmsnorm.to fp32");
  kind->square = forward (e, ZS_KERNEL_ELEMENTWISE, n, n * 8, 4, "rmsnorm.pow");
  kind->mean = enter_forward (e, in_rows (ZS_KERNEL_REDUCE_ROWS, n, 1, columns, "rmsnorm.mean"));
  kind->epsilon = forward (e, ZS_KERNEL_TINY, rows, rows * 8, 4, "rmsnorm.add eps");
  kind->rsqrt = forward (e, ZS_KERNEL_TINY, rows, rows * 8, 4, "rmsnorm.rsqrt");
  kind->scale = forward (e, ZS_KERNEL_BROADCAST, n, n * 8, 4, "rmsnorm.scale");
  kind->down = forward (e, ZS_KERNEL_CAST, n, n * (a + 4), 4, "rmsnorm.to 16 bit");
  kind->weight = forward (e, ZS_KERNEL_BROADCAST, n, n * 2 * a, a, "rmsnorm.weight");
  kind->weight_dx = backward (e, ZS_KERNEL_BROADCAST, n, n * 2 * a, a, "rmsnorm backward.weight");
  kind->weight_dw = enter_backward (e, meeting (e, kind, n * 3 * a, a, "rmsnorm backward.weight product"));
  ZsKernel sum = sized (ZS_KERNEL_REDUCE_COLUMNS, n, n * a, a, "rmsnorm backward.weight sum");
  sum.k = columns;
  kind->sum_dw = enter_backward (e, sum);
  kind->cast_up = backward (e, ZS_KERNEL_CAST, n, n * (a + 4), a, "rmsnorm backward.to fp32");
  kind->multiply = enter_backward (e, meeting (e, kind, n * 12, 4, "rmsnorm backward.product"));
  kind->scale_back = backward (e, kind->of_heads ? ZS_KERNEL_STRIDED : ZS_KERNEL_BROADCAST, n, n * 8, 4,
                               "rmsnorm backward.scale");
  kind->row_sum = enter_backward (e, in_rows (ZS_KERNEL_REDUCE_ROWS, n, 1, columns, "rmsnorm backward.row sum"));
  kind->row_power = backward (e, ZS_KERNEL_TINY, rows, rows * 8, 4, "rmsnorm backward.pow");
  kind->row_scale = backward (e, ZS_KERNEL_TINY, rows, rows * 8, 4, "rmsnorm backward.row scale");
  kind->row_multiply = backward (e, ZS_KERNEL_TINY, rows, rows * 12, 4, "rmsnorm backward.row product");
  kind->expand = backward (e, ZS_KERNEL_BROADCAST, n, n * 4, 4, "rmsnorm backward.expand");
  kind->power = backward (e, ZS_KERNEL_ELEMENTWISE, n, n * 8, 4, "rmsnorm backward.pow");
  kind->double_it = backward (e, ZS_KERNEL_ELEMENTWISE, n, n * 8, 4, "rmsnorm backward.twice");
  kind->grad = backward (e, ZS_KERNEL_ELEMENTWISE, n, n * 12, 4, "rmsnorm backward.gradient");
  kind->add = backward (e, ZS_KERNEL_ELEMENTWISE, n, n * 12, 4, "rmsnorm backward.add");
  kind->residual = backward (e, ZS_KERNEL_ELEMENTWISE, n, n * 3 * a, a, "residual backward");
  kind->cast_down = backward (e, ZS_KERNEL_CAST, n, n * (a + 4), 4, "rmsnorm backward.to 16 bit");
}

static void
add_adapter (ZsEmitter *e, ZsLinearKind *kind)
{
  int64_t t = e->tokens, r = e->shape.lora.rank, a = e->element;
  int64_t in = kind->in, out = kind->out, own = zs_dtype_bytes (e->shape.lora.dtype);
  int64_t b = e->adapter_cast ? 2 : own;

  kind->a_in_bytes = t * in * own;
  kind->a_x_bytes = t * in * b;
  kind->a_wide_bytes = in * r * own;
  kind->b_wide_bytes = out * r * own;
  kind->cast_a = forward (e, ZS_KERNEL_CAST, in * r, in * r * (own + b), own, "autocast.lora_A");
  kind->cast_b = forward (e, ZS_KERNEL_CAST, out * r, out * r * (own + b), own, "autocast.lora_B");
  kind->cast_a_x = forward (e, ZS_KERNEL_CAST, t * in, t * in * (own + b), own, "autocast.input");
  kind->cast_a_back = backward (e, ZS_KERNEL_CAST, in * r, in * r * (own + b), b, "autocast backward.lora_A");
  kind->cast_b_back = backward (e, ZS_KERNEL_CAST, out * r, out * r * (own + b), b, "autocast backward.lora_B");
  kind->cast_a_x_back = backward (e, ZS_KERNEL_CAST, t * in, t * in * (own + b), b, "autocast backward.input");
  kind->a_out_bytes = t * r * b;
  kind->b_out_bytes = t * out * b;
  kind->a_weight_bytes = in * r * b;
  kind->b_weight_bytes = out * r * b;
  kind->cast_in = forward (e, ZS_KERNEL_CAST, t * in, t * in * (a + b), a, "lora.to adapter");
  kind->drop = forward (e, ZS_KERNEL_ELEMENTWISE, t * in, t * in * (2 * b + 1), b, "lora.dropout");
  kind->a = forward_product (e, t, r, in, b, "lora_A");
  kind->b = forward_product (e, t, out, r, b, "lora_B");
  kind->scale = forward (e, ZS_KERNEL_ELEMENTWISE, t * out, t * out * 2 * b, b, "lora.scale");
  kind->add = forward (e, a == b ? ZS_KERNEL_ELEMENTWISE : ZS_KERNEL_BROADCAST, t * out, t * out * (a + 2 * b), b,
                       "lora.add");
  kind->cast_out = forward (e, ZS_KERNEL_CAST, t * out, t * out * (a + b), b, "lora.to base");
  kind->cast_back = backward (e, ZS_KERNEL_CAST, t * out, t * out * (a + b), a, "lora backward.to adapter");
  kind->cast_base = backward (e, ZS_KERNEL_CAST, t * out, t * out * (a + b), b, "lora backward.to base");
  kind->scale_back = backward (e, ZS_KERNEL_ELEMENTWISE, t * out, t * out * 2 * b, b, "lora backward.scale");
  kind->b_wgrad = enter (e, product (e, out, r, t, ZS_MATMUL_WGRAD, ZS_LAUNCH_AUTOGRAD, b, "lora_B dW"));
  kind->b_dgrad = enter (e, product (e, t, r, out, ZS_MATMUL_DGRAD, ZS_LAUNCH_AUTOGRAD, b, "lora_B dX"));
  kind->a_wgrad = enter (e, product (e, r, in, t, ZS_MATMUL_WGRAD, ZS_LAUNCH_AUTOGRAD, b, "lora_A dW"));
  kind->a_dgrad = enter (e, product (e, t, in, r, ZS_MATMUL_DGRAD, ZS_LAUNCH_AUTOGRAD, b, "lora_A dX"));
  kind->drop_back = backward (e, ZS_KERNEL_ELEMENTWISE, t * in, t * in * (2 * b + 1), b,
                              "lora backward.dropout");
  kind->cast_in_back = backward (e, ZS_KERNEL_CAST, t * in, t * in * (a + b), b, "lora backward.to input");
}

static void
add_linear (ZsEmitter *e, int which, ZsWhat what, const char *name, int64_t in, int64_t out, bool bias,
            unsigned target)
{
  ZsLinearKind *kind = &e->linears[which];
  int64_t t = e->tokens, a = e->element;
  bool adapts = e->shape.lora.rank > 0;

  kind->what = what;
  kind->name = name;
  kind->in = in;
  kind->out = out;
  kind->in_bytes = t * in * a;
  kind->out_bytes = t * out * a;
  kind->weight_bytes = in * out * a;
  kind->bias = bias;
  kind->trainable = which == ZS_HEAD ? !adapts || e->shape.lora.saves_head : e->layers_train;
  kind->adapted = adapts && (e->shape.lora.targets & target) != 0;
  kind->quantized = adapts && e->shape.lora.base_4bit && which != ZS_HEAD;
  kind->full_weight_bytes = in * out * a;
  kind->scale_bytes = zs_quantized_scales (in * out);
  kind->dequantize = forward (e, ZS_KERNEL_CAST, in * out, zs_packed_bytes (in * out) + in * out * a, 4,
                              "dequantize");
  kind->dequantize_back = backward (e, ZS_KERNEL_CAST, in * out, zs_packed_bytes (in * out) + in * out * a,
                                    4, "dequantize");
  kind->clone = forward (e, ZS_KERNEL_COPY, t * out, t * out * 2 * a, a, "lora.clone");
  kind->casts_input = e->weight_cast && which != ZS_O && which != ZS_DOWN;
  kind->wide_in_bytes = kind->casts_input ? t * in * e->stream : kind->in_bytes;
  kind->wide_weight_bytes = in * out * e->stream;
  kind->wide_bias_bytes = out * e->stream;
  kind->cast_weight = forward (e, ZS_KERNEL_CAST, in * out, in * out * (a + e->stream), 4, "autocast.weight");
  kind->cast_x = forward (e, ZS_KERNEL_CAST, t * in, t * in * (a + e->stream), 4, "autocast.input");
  kind->cast_x_back = backward (e, ZS_KERNEL_CAST, t * in, t * in * (a + e->stream), a,
                                "autocast backward.input");
  kind->cast_weight_back = backward (e, ZS_KERNEL_CAST, in * out, in * out * (a + e->stream), a,
                                     "autocast backward.weight");
  kind->cast_bias_back = backward (e, ZS_KERNEL_TINY, out, out * (a + e->stream), 4, "autocast backward.bias");
  kind->bias_bytes = out * a;
  kind->bias_buffer = zs_column_sum_buffer (t, out, (int) a, e->shape.sm_count, &kind->bias_semaphores);
  kind->product = forward_product (e, t, out, in, a, name);
  kind->dgrad = enter (e, product (e, t, in, out, ZS_MATMUL_DGRAD, ZS_LAUNCH_AUTOGRAD, a, name));
  kind->wgrad = enter (e, product (e, out, in, t, ZS_MATMUL_WGRAD, ZS_LAUNCH_AUTOGRAD, a, name));
  kind->bias_sum = backward (e, ZS_KERNEL_REDUCE_COLUMNS, t * out, t * out * a, a, "bias sum");
  kind->accumulate = backward (e, ZS_KERNEL_ELEMENTWISE, t * in, t * in * 3 * a, a, "sum of gradients");
  if (kind->adapted)
    add_adapter (e, kind);
}

static void
add_linears (ZsEmitter *e)
{
  const ZsModelShape *s = &e->model->shape;
  int64_t h = s->hidden, q = s->n_heads * s->head_dim, kv = s->n_kv_heads * s->head_dim;
  int64_t ffn = s->intermediate;
  bool qkv = s->qkv_bias || s->attention_bias_all;

  add_linear (e, ZS_Q, ZS_WHAT_Q, "q_proj", h, q, qkv, ZS_LINEAR_Q);
  add_linear (e, ZS_K, ZS_WHAT_K, "k_proj", h, kv, qkv, ZS_LINEAR_K);
  add_linear (e, ZS_V, ZS_WHAT_V, "v_proj", h, kv, qkv, ZS_LINEAR_V);
  add_linear (e, ZS_O, ZS_WHAT_O, "o_proj", q, h, s->attention_bias_all, ZS_LINEAR_O);
  add_linear (e, ZS_GATE, ZS_WHAT_GATE, "gate_proj", h, ffn, s->mlp_bias, ZS_LINEAR_GATE);
  add_linear (e, ZS_UP, ZS_WHAT_UP, "up_proj", h, ffn, s->mlp_bias, ZS_LINEAR_UP);
  add_linear (e, ZS_DOWN, ZS_WHAT_DOWN, "down_proj", ffn, h, s->mlp_bias, ZS_LINEAR_DOWN);
  add_linear (e, ZS_HEAD, ZS_N_WHATS, "lm_head", h, s->vocabulary, false, 0);
}

static void
add_rotary (ZsEmitter *e)
{
  const ZsModelShape *s = &e->model->shape;
  int64_t a = e->element, q = e->tokens * s->n_heads * s->head_dim, d = s->head_dim;
  int64_t kv = e->tokens * s->n_kv_heads * s->head_dim, table = e->sequence * d, w = e->stream;
  /* under autocast the tables are fp32, and so is what they are multiplied to */
  ZsStrides factor = w == a ? ZS_STRIDES_ALIKE : ZS_STRIDES_TYPES;

  e->k.rotary_mul_q = enter_forward (e, strided (e, factor, q, q * (a + w), a, "rotary.mul"));
  e->k.rotary_half_q = forward (e, ZS_KERNEL_BROADCAST, q / 2, q * a, a, "rotary.neg");
  e->k.rotary_cat_q = forward (e, ZS_KERNEL_CONCATENATE, q, q * 2 * a, a, "rotary.cat");
  e->k.rotary_add_q = enter_forward (e, strided (e, ZS_STRIDES_DIFFER, q, q * 3 * a, a, "rotary.add"));
  e->k.rotary_mul_k = enter_forward (e, strided (e, factor, kv, kv * (a + w), a, "rotary.mul"));
  e->k.rotary_half_k = forward (e, ZS_KERNEL_BROADCAST, kv / 2, kv * a, a, "rotary.neg");
  e->k.rotary_cat_k = forward (e, ZS_KERNEL_CONCATENATE, kv, kv * 2 * a, a, "rotary.cat");
  e->k.rotary_add_k = enter_forward (e, strided (e, ZS_STRIDES_DIFFER, kv, kv * 3 * a, a, "rotary.add"));
  e->k.back_mul_q = enter_backward (e, strided (e, ZS_STRIDES_DIFFER, q, q * 2 * a, a, "rotary backward.mul"));
  e->k.back_half_q = backward (e, ZS_KERNEL_BROADCAST, q / 2, q * a, a, "rotary backward.neg");
  e->k.rotary_fill_q = backward (e, ZS_KERNEL_FILL, q, q * a, a, "rotary backward.fill");
  e->k.rotary_copy_q = enter_backward (e, strided (e, ZS_STRIDES_DIFFER, q / 2, q * a, a, "rotary backward.copy"));
  e->k.back_add_q = backward (e, ZS_KERNEL_ELEMENTWISE, q, q * 3 * a, a, "rotary backward.add");
  e->k.back_join_q = enter_backward (e, strided (e, ZS_STRIDES_DIFFER, q, q * 3 * a, a, "rotary backward.add"));
  e->k.back_mul_k = enter_backward (e, strided (e, ZS_STRIDES_DIFFER, kv, kv * 2 * a, a, "rotary backward.mul"));
  e->k.back_half_k = backward (e, ZS_KERNEL_BROADCAST, kv / 2, kv * a, a, "rotary backward.neg");
  e->k.rotary_fill_k = backward (e, ZS_KERNEL_FILL, kv, kv * a, a, "rotary backward.fill");
  e->k.rotary_copy_k = enter_backward (e, strided (e, ZS_STRIDES_DIFFER, kv / 2, kv * a, a, "rotary backward.copy"));
  e->k.back_add_k = backward (e, ZS_KERNEL_ELEMENTWISE, kv, kv * 3 * a, a, "rotary backward.add");
  e->k.back_join_k = enter_backward (e, strided (e, ZS_STRIDES_DIFFER, kv, kv * 3 * a, a, "rotary backward.add"));
  e->k.q_copy = enter_backward (e, strided (e, ZS_STRIDES_DIFFER, q, q * 2 * a, a, "q.contiguous"));
  e->k.k_copy = enter_backward (e, strided (e, ZS_STRIDES_DIFFER, kv, kv * 2 * a, a, "k.contiguous"));
  e->k.repeat = enter_forward (e, strided (e, ZS_STRIDES_DIFFER, q, q * 2 * a, a, "repeat_kv"));
  e->k.head_reduce = backward (e, ZS_KERNEL_REDUCE_COLUMNS, q, q * a, a, "repeat_kv backward");
  e->k.cache_k = enter_forward (e, strided (e, ZS_STRIDES_DIFFER, kv, kv * 2 * w, w, "cache.update"));
  e->k.cache_v = enter_forward (e, strided (e, ZS_STRIDES_DIFFER, kv, kv * 2 * a, a, "cache.update"));
  e->k.q_cast = forward (e, ZS_KERNEL_CAST, q, q * (a + w), 4, "autocast.q");
  e->k.k_cast = forward (e, ZS_KERNEL_CAST, kv, kv * (a + w), 4, "autocast.k");
  e->k.q_cast_back = backward (e, ZS_KERNEL_CAST, q, q * (a + w), a, "autocast backward.q");
  e->k.k_cast_back = backward (e, ZS_KERNEL_CAST, kv, kv * (a + w), a, "autocast backward.k");
  e->k.rotary_cast_q = backward (e, ZS_KERNEL_CAST, q, q * (a + w), 4, "rotary backward.cast");
  e->k.rotary_cast_k = backward (e, ZS_KERNEL_CAST, kv, kv * (a + w), 4, "rotary backward.cast");
  e->k.table = forward (e, ZS_KERNEL_TINY, table, table * 8, 4, "rotary tables");
  e->k.table_product = forward (e, ZS_KERNEL_TINY, table, table * 8, 4, "rotary tables.product");
}

static void
add_attention (ZsEmitter *e)
{
  const ZsModelShape *s = &e->model->shape;
  int64_t a = e->element, d = s->head_dim, heads = s->n_heads, length = e->sequence;
  int64_t scores = e->tokens * heads * length, q = e->tokens * heads * d;
  double flops = 4.0 * (double) e->tokens * (double) length * (double) heads * (double) d;
  ZsAttention form = e->shape.attention;

  if (form == ZS_ATTENTION_FLASH && e->shape.flash_1)
    form = ZS_ATTENTION_FLASH_1;
  if (form == ZS_ATTENTION_CUDNN && zs_masks (e))
    form = ZS_ATTENTION_CUDNN_MASK;
  ZsKernel kernel = { .kind = ZS_KERNEL_ATTENTION_FORWARD, .form = (uint8_t) form,
                      .launch = ZS_LAUNCH_EAGER, .element_bytes = (uint8_t) a,
                      .heads = (int32_t) heads, .kv_heads = (int32_t) s->n_kv_heads,
                      .m = e->batch, .n = length, .k = d,
                      .bytes = 2 * e->q_bytes + 2 * e->kv_bytes + e->lse_bytes,
                      .flops = flops / 2, .name = "attention" };

  e->k.attention.id[0] = enter (e, kernel);
  kernel.launch = ZS_LAUNCH_NO_GRAD;
  e->k.attention.id[1] = enter (e, kernel);
  kernel.kind = ZS_KERNEL_ATTENTION_BACKWARD;
  kernel.launch = ZS_LAUNCH_AUTOGRAD;
  kernel.flops = flops / 2 * 2.5;
  kernel.bytes = 5 * e->q_bytes + 4 * e->kv_bytes + 2 * e->lse_bytes;
  kernel.name = "attention backward";
  e->k.attention_back = enter (e, kernel);

  /* written in operators: one product per head, given as one of all heads' rows; sdpa computes in fp32 */
  if (e->shape.attention == ZS_ATTENTION_MATH)
    a = 4;
  int64_t rows = e->tokens * heads;
  e->k.scores = forward_product (e, rows, length, d, a, "scores");
  e->k.context = forward_product (e, rows, d, length, a, "context");
  e->k.scores_dgrad = enter (e, product (e, rows, d, length, ZS_MATMUL_DGRAD, ZS_LAUNCH_AUTOGRAD, a, "scores"));
  e->k.scores_wgrad = enter (e, product (e, rows, d, length, ZS_MATMUL_WGRAD, ZS_LAUNCH_AUTOGRAD, a, "scores"));
  e->k.context_dgrad = enter (e, product (e, rows, length, d, ZS_MATMUL_DGRAD, ZS_LAUNCH_AUTOGRAD, a, "context"));
  e->k.context_wgrad = enter (e, product (e, rows, d, length, ZS_MATMUL_WGRAD, ZS_LAUNCH_AUTOGRAD, a, "context"));
  e->k.scores_scale = forward (e, ZS_KERNEL_ELEMENTWISE, scores, scores * 2 * a, a, "scores.scale");
  e->k.scores_mask = forward (e, ZS_KERNEL_BROADCAST, scores, scores * 2 * a, a, "scores.mask");
  e->k.scores_up = forward (e, ZS_KERNEL_CAST, scores, scores * (4 + a), a, "scores.to fp32");
  e->k.softmax = enter_forward (e, in_rows (ZS_KERNEL_SOFTMAX, scores, 2, length, "softmax"));
  e->k.scores_down = forward (e, ZS_KERNEL_CAST, scores, scores * (4 + a), 4, "scores.to 16 bit");
  e->k.context_copy = enter_forward (e, strided (e, ZS_STRIDES_DIFFER, q, q * 2 * a, a, "context.contiguous"));
  e->k.scores_cast = backward (e, ZS_KERNEL_CAST, scores, scores * (4 + a), a, "scores backward.cast");
  e->k.softmax_back = backward (e, ZS_KERNEL_SOFTMAX, scores, scores * 12, 4, "softmax backward");
  e->k.back_scores_scale = backward (e, ZS_KERNEL_ELEMENTWISE, scores, scores * 2 * a, a, "scores backward.scale");
  e->k.back_context_copy = enter_backward (e, strided (e, ZS_STRIDES_DIFFER, q, q * 2 * a, a,
                                                       "context backward.contiguous"));
  e->k.mask_fill = forward (e, ZS_KERNEL_ELEMENTWISE, e->tokens * length, e->tokens * length * (1 + a), a,
                            "additive mask");
}

static void
add_rest (ZsEmitter *e)
{
  const ZsModelShape *s = &e->model->shape;
  int64_t a = e->element, n = e->tokens * s->hidden, f = e->tokens * s->intermediate;
  int64_t v = e->tokens * s->vocabulary, table = s->vocabulary * s->hidden;

  e->k.stream_cast_back = backward (e, ZS_KERNEL_CAST, n, n * (a + e->stream), 4, "residual backward.cast");

  e->k.embedding = forward (e, ZS_KERNEL_EMBEDDING, n, n * 2 * a, a, "embedding");
  e->k.residual = e->stream == a   /* else fp32 and 16 bit meet */
                    ? forward (e, ZS_KERNEL_ELEMENTWISE, n, n * 3 * a, a, "residual")
                    : forward (e, ZS_KERNEL_BROADCAST, n, n * (a + 2 * e->stream), a, "residual");
  e->k.residual_add = backward (e, ZS_KERNEL_ELEMENTWISE, n, n * 3 * a, a, "residual backward");
  e->k.silu = forward (e, ZS_KERNEL_ACTIVATION, f, f * 2 * a, a, "silu");
  e->k.product = forward (e, ZS_KERNEL_ELEMENTWISE, f, f * 3 * a, a, "silu * up");
  e->k.silu_back = backward (e, ZS_KERNEL_ACTIVATION, f, f * 3 * a, a, "silu backward");
  e->k.product_back = backward (e, ZS_KERNEL_ELEMENTWISE, f, f * 3 * a, a, "silu * up backward");
  e->k.tiny = forward (e, ZS_KERNEL_TINY, 1, 8, 4, "small");
  e->k.back_tiny = backward (e, ZS_KERNEL_TINY, 1, 8, 4, "small");
  e->k.pad = forward (e, ZS_KERNEL_TINY, e->tokens, e->tokens * 16, 4, "labels.pad");
  e->k.logits_up = forward (e, ZS_KERNEL_CAST, v, v * (a + 4), a, "logits.to fp32");
  e->k.log_softmax = enter_forward (e, in_rows (ZS_KERNEL_SOFTMAX, v, 2, s->vocabulary, "log_softmax"));
  e->k.nll = forward (e, ZS_KERNEL_TINY, e->tokens, e->tokens * 12, 4, "nll_loss");
  e->k.shift = forward (e, ZS_KERNEL_COPY, v, v * 8, 4, "logits.shift");
  e->k.shift_back = backward (e, ZS_KERNEL_COPY, v, v * 8, 4, "logits backward.shift");
  e->k.fill_logits = backward (e, ZS_KERNEL_FILL, v, v * 4, 4, "nll_loss backward.fill");
  e->k.nll_back = backward (e, ZS_KERNEL_TINY, e->tokens, e->tokens * 12, 4, "nll_loss backward");
  e->k.log_softmax_back = backward (e, ZS_KERNEL_SOFTMAX, v, v * 12, 4, "log_softmax backward");
  e->k.logits_down = backward (e, ZS_KERNEL_CAST, v, v * (a + 4), 4, "logits backward.to 16 bit");
  e->k.scale_logits = backward (e, ZS_KERNEL_ELEMENTWISE, v, 2 * v * a, a, "logits backward.scale");
  e->k.embedding_fill = backward (e, ZS_KERNEL_FILL, table, table * a, a, "embedding backward.fill");
  e->k.embedding_back = enter (e, (ZsKernel) { .kind = ZS_KERNEL_EMBEDDING_BACKWARD,
                                               .launch = ZS_LAUNCH_AUTOGRAD, .element_bytes = (uint8_t) a,
                                               .m = e->tokens, .n = n, .bytes = n * 3 * a,
                                               .flops = (double) n, .name = "embedding backward" });
  e->k.embedding_sort = backward (e, ZS_KERNEL_TINY, e->tokens, e->tokens * 32, 4, "embedding backward.sort");
  e->k.embedding_add = backward (e, ZS_KERNEL_ELEMENTWISE, table, table * 3 * a, a, "tied gradients");
}

static const ZsForwardKernel NO_KERNEL = { { ZS_NO_KERNEL, ZS_NO_KERNEL } };

/* Liger, apex, flash-attn and other models' own code run a norm, rotary embedding or activation as one
 * kernel that reads its operands and writes its results once. */
static void
fuse_norm (ZsEmitter *e, ZsNormKind *kind)
{
  int64_t n = kind->rows * kind->columns, a = e->stream;
  ZsForwardKernel *skipped[] = { &kind->up, &kind->square, &kind->mean, &kind->epsilon, &kind->rsqrt,
                                 &kind->scale, &kind->down };
  uint32_t *skipped_back[] = { &kind->weight_dx, &kind->weight_dw, &kind->cast_up, &kind->multiply,
                               &kind->scale_back, &kind->row_sum, &kind->row_power, &kind->row_scale,
                               &kind->row_multiply, &kind->expand, &kind->power, &kind->double_it, &kind->grad,
                               &kind->add };

  for (gsize i = 0; i < G_N_ELEMENTS (skipped); i++)
    *skipped[i] = NO_KERNEL;
  for (gsize i = 0; i < G_N_ELEMENTS (skipped_back); i++)
    *skipped_back[i] = ZS_NO_KERNEL;
  kind->weight = forward (e, ZS_KERNEL_ELEMENTWISE, n, n * 2 * a, a, "fused norm");
  kind->cast_down = backward (e, ZS_KERNEL_ELEMENTWISE, n, n * 3 * a, a, "fused norm backward");
}

static void
fuse (ZsEmitter *e)
{
  const ZsModelShape *s = &e->model->shape;
  int64_t a = e->element, q = e->tokens * s->n_heads * s->head_dim, f = e->tokens * s->intermediate;
  int64_t kv = e->tokens * s->n_kv_heads * s->head_dim;
  ZsForwardKernel *skipped[] = { &e->k.rotary_mul_q, &e->k.rotary_half_q, &e->k.rotary_cat_q,
                                 &e->k.rotary_mul_k, &e->k.rotary_half_k, &e->k.rotary_cat_k, &e->k.silu };
  uint32_t *skipped_back[] = { &e->k.back_mul_q, &e->k.back_half_q, &e->k.rotary_fill_q, &e->k.rotary_copy_q,
                               &e->k.back_add_q, &e->k.back_mul_k, &e->k.back_half_k, &e->k.rotary_fill_k,
                               &e->k.rotary_copy_k, &e->k.back_add_k, &e->k.product_back };

  fuse_norm (e, &e->hidden_norm);
  for (gsize i = 0; i < G_N_ELEMENTS (skipped); i++)
    *skipped[i] = NO_KERNEL;
  for (gsize i = 0; i < G_N_ELEMENTS (skipped_back); i++)
    *skipped_back[i] = ZS_NO_KERNEL;
  e->k.rotary_add_q = forward (e, ZS_KERNEL_ELEMENTWISE, q, q * 2 * a, a, "fused rotary");
  e->k.rotary_add_k = forward (e, ZS_KERNEL_ELEMENTWISE, kv, kv * 2 * a, a, "fused rotary");
  e->k.back_join_q = backward (e, ZS_KERNEL_ELEMENTWISE, q, q * 2 * a, a, "fused rotary backward");
  e->k.back_join_k = backward (e, ZS_KERNEL_ELEMENTWISE, kv, kv * 2 * a, a, "fused rotary backward");
  e->k.product = forward (e, ZS_KERNEL_ELEMENTWISE, f, f * 3 * a, a, "fused silu * up");
  e->k.silu_back = backward (e, ZS_KERNEL_ELEMENTWISE, f, f * 5 * a, a, "fused silu * up backward");
}

void
zs_emitter_add_kernels (ZsEmitter *e)
{
  const ZsModelShape *s = &e->model->shape;

  add_norm (e, &e->hidden_norm, false, e->tokens, s->hidden);
  if (s->qk_norm) {
    add_norm (e, &e->q_norm, true, e->tokens * s->n_heads, s->head_dim);
    add_norm (e, &e->k_norm, true, e->tokens * s->n_kv_heads, s->head_dim);
  }
  add_linears (e);
  add_rotary (e);
  add_attention (e);
  add_rest (e);
  if (e->shape.fused_operators)
    fuse (e);
  if (e->shape.liger != 0)
    zs_emitter_add_liger_kernels (e);
}
