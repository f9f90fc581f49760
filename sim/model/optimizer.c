/* optimizer.c: AdamW in its three implementations.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/model/optimizer.h"

#include "sim/base/digest.h"

enum { NORM_CHUNK = 65536 /* elements; ATen/native/cuda/MultiTensorApply.cuh */, FP32 = 4 };

ZsAdamW *
zs_adamw_new (ZsPlan *plan, ZsOptimizerKind kind, int n, const int64_t *elements, const ZsDtype *dtypes)
{
  ZsAdamW *adam = g_new0 (ZsAdamW, 1);

  adam->plan = plan;
  adam->kind = kind;
  adam->n = n;
  adam->elements = g_memdup2 (elements, (gsize) n * sizeof *elements);
  adam->dtypes = g_memdup2 (dtypes, (gsize) n * sizeof *dtypes);
  adam->label_step = zs_plan_label (plan, -1, "AdamW");
  adam->label_clip = zs_plan_label (plan, -1, "clip_grad_norm_");
  return adam;
}

void
zs_adamw_free (ZsAdamW *adam)
{
  if (adam == NULL)
    return;
  g_free (adam->elements);
  g_free (adam->dtypes);
  g_free (adam->exp_avg);
  g_free (adam->exp_avg_sq);
  g_free (adam->steps);
  g_free (adam);
}

static void
launch (ZsAdamW *adam, ZsKernelKind kind, int64_t n, int64_t bytes, int64_t element, const char *name)
{
  ZsKernel kernel = { .kind = (uint8_t) kind, .launch = ZS_LAUNCH_NO_GRAD,
                      .element_bytes = (uint8_t) element, .phase_class = 1, .n = n, .bytes = bytes,
                      .flops = (double) n, .name = name };

  zs_plan_launch (adam->plan, zs_plan_kernel (adam->plan, &kernel));
}

/* _foreach_norm () over the tensors of one dtype; NORMS receives theirs. */
static void
norms_of (ZsAdamW *adam, ZsDtype dtype, ZsTensor *norms)
{
  int64_t largest = 0, count = 0, total = 0, element = zs_dtype_bytes (dtype);

  for (int i = 0; i < adam->n; i++)
    if (adam->dtypes[i] == dtype) {
      largest = MAX (largest, adam->elements[i]);
      total += adam->elements[i];
      count++;
    }
  if (count == 0)
    return;
  int64_t chunks = (largest + NORM_CHUNK - 1) / NORM_CHUNK;
  ZsTensor partial = zs_plan_alloc (adam->plan, count * chunks * FP32, ZS_CATEGORY_STEP);
  for (int i = 0; i < adam->n; i++)
    if (adam->dtypes[i] == dtype)
      norms[i] = zs_plan_alloc (adam->plan, element, ZS_CATEGORY_STEP);
  launch (adam, ZS_KERNEL_NORM, total, total * element, element, "foreach norm");
  zs_plan_unref (adam->plan, partial);
}

void
zs_adamw_clip (ZsAdamW *adam)
{
  ZsPlan *plan = adam->plan;
  g_autofree ZsTensor *norms = g_new (ZsTensor, (gsize) MAX (adam->n, 1));
  int64_t element = zs_dtype_bytes (adam->n > 0 ? adam->dtypes[0] : ZS_DTYPE_FP32), total = 0;

  if (adam->n == 0)
    return;
  zs_plan_set_label (plan, adam->label_clip);
  for (int dtype = 0; dtype < ZS_N_DTYPES; dtype++)
    norms_of (adam, (ZsDtype) dtype, norms);
  zs_plan_host (plan, ZS_HOST_CLIP_FIXED, 1);
  zs_plan_host (plan, ZS_HOST_CLIP_PARAMETER, adam->n);
  ZsTensor stacked = zs_plan_alloc (plan, adam->n * element, ZS_CATEGORY_STEP);
  launch (adam, ZS_KERNEL_TINY, adam->n, adam->n * element, element, "stack");
  ZsTensor norm = zs_plan_alloc (plan, element, ZS_CATEGORY_STEP);
  launch (adam, ZS_KERNEL_TINY, adam->n, adam->n * element, element, "norm");
  zs_plan_unref (plan, stacked);
  for (int i = adam->n - 1; i >= 0; i--)
    zs_plan_unref (plan, norms[i]);
  ZsTensor shifted = zs_plan_alloc (plan, element, ZS_CATEGORY_STEP);
  launch (adam, ZS_KERNEL_TINY, 1, 8, element, "add");
  ZsTensor inverse = zs_plan_alloc (plan, element, ZS_CATEGORY_STEP);
  launch (adam, ZS_KERNEL_TINY, 1, 8, element, "reciprocal");
  ZsTensor factor = zs_plan_alloc (plan, element, ZS_CATEGORY_STEP);
  launch (adam, ZS_KERNEL_TINY, 1, 8, element, "mul");
  zs_plan_unref (plan, inverse);
  zs_plan_unref (plan, shifted);
  ZsTensor clamped = zs_plan_alloc (plan, element, ZS_CATEGORY_STEP);
  launch (adam, ZS_KERNEL_TINY, 1, 8, element, "clamp");
  zs_plan_unref (plan, factor);
  for (int i = 0; i < adam->n; i++)
    total += adam->elements[i] * zs_dtype_bytes (adam->dtypes[i]);
  launch (adam, ZS_KERNEL_ELEMENTWISE, total / element, 2 * total, element, "scale gradients");
  zs_plan_unref (plan, clamped);
  zs_plan_unref (plan, norm);
}

static void
make_states (ZsAdamW *adam)
{
  bool on_gpu = adam->kind == ZS_OPTIMIZER_FUSED;   /* else the step counts are CPU tensors */

  adam->exp_avg = g_new (ZsTensor, (gsize) MAX (adam->n, 1));
  adam->exp_avg_sq = g_new (ZsTensor, (gsize) MAX (adam->n, 1));
  adam->steps = g_new (ZsTensor, (gsize) MAX (adam->n, 1));
  for (int i = 0; i < adam->n; i++) {
    int64_t bytes = adam->elements[i] * zs_dtype_bytes (adam->dtypes[i]);

    adam->steps[i] = on_gpu ? zs_plan_alloc (adam->plan, FP32, ZS_CATEGORY_OPTIMIZER) : ZS_NO_TENSOR;
    adam->exp_avg[i] = zs_plan_alloc (adam->plan, bytes, ZS_CATEGORY_OPTIMIZER);
    launch (adam, ZS_KERNEL_FILL, adam->elements[i], bytes, zs_dtype_bytes (adam->dtypes[i]), "zeros");
    adam->exp_avg_sq[i] = zs_plan_alloc (adam->plan, bytes, ZS_CATEGORY_OPTIMIZER);
    launch (adam, ZS_KERNEL_FILL, adam->elements[i], bytes, zs_dtype_bytes (adam->dtypes[i]), "zeros");
  }
}

/* One element-wise pass over tensor I, reading and writing OPERANDS of it. */
static void
pass (ZsAdamW *adam, int i, int operands, const char *name)
{
  int64_t element = zs_dtype_bytes (adam->dtypes[i]);

  launch (adam, ZS_KERNEL_ELEMENTWISE, adam->elements[i], adam->elements[i] * element * operands, element,
          name);
}

static ZsTensor
scratch (ZsAdamW *adam, int i)
{
  return zs_plan_alloc (adam->plan, adam->elements[i] * zs_dtype_bytes (adam->dtypes[i]),
                        ZS_CATEGORY_STEP);
}

/* _single_tensor_adam: (exp_avg_sq.sqrt () / bias_correction2_sqrt).add_ (eps), then addcdiv_.  Its
 * variable holds the denominator until the next tensor's is there (LAST, which it takes). */
static ZsTensor
step_one (ZsAdamW *adam, int i, ZsTensor last)
{
  pass (adam, i, 2, "decay");
  pass (adam, i, 3, "exp_avg.lerp_");
  pass (adam, i, 2, "exp_avg_sq.mul_");
  pass (adam, i, 3, "exp_avg_sq.addcmul_");
  ZsTensor root = scratch (adam, i);
  pass (adam, i, 2, "sqrt");
  ZsTensor denominator = scratch (adam, i);
  pass (adam, i, 2, "div");
  zs_plan_unref (adam->plan, root);
  pass (adam, i, 2, "add_");
  zs_plan_unref (adam->plan, last);
  pass (adam, i, 4, "addcdiv_");
  return denominator;
}

static void
step_foreach (ZsAdamW *adam)
{
  g_autofree ZsTensor *roots = g_new (ZsTensor, (gsize) MAX (adam->n, 1));
  int64_t total = 0;

  for (int i = 0; i < adam->n; i++)
    total += adam->elements[i] * zs_dtype_bytes (adam->dtypes[i]);
  for (int i = 0; i < adam->n; i++)
    roots[i] = scratch (adam, i);
  /* mul_, lerp_, mul_, addcmul_, sqrt, div_, add_, addcdiv_: 20 operands in all */
  launch (adam, ZS_KERNEL_ADAM_FOREACH, total / zs_dtype_bytes (adam->dtypes[0]), total * 20,
          zs_dtype_bytes (adam->dtypes[0]), "foreach AdamW");
  for (int i = adam->n - 1; i >= 0; i--)
    zs_plan_unref (adam->plan, roots[i]);
}

void
zs_adamw_step (ZsAdamW *adam)
{
  int64_t total = 0, elements = 0;
  ZsTensor last = ZS_NO_TENSOR;

  if (adam->n == 0)
    return;
  zs_plan_set_label (adam->plan, adam->label_step);
  if (adam->exp_avg == NULL)
    make_states (adam);
  zs_plan_host (adam->plan, ZS_HOST_STEP_FIXED, 1);
  zs_plan_host (adam->plan, ZS_HOST_STEP_PARAMETER, adam->n);
  switch (adam->kind) {
  case ZS_OPTIMIZER_FUSED:
    for (int i = 0; i < adam->n; i++) {
      total += adam->elements[i] * zs_dtype_bytes (adam->dtypes[i]);
      elements += adam->elements[i];
    }
    /* reads p, g, m, v; writes p, m, v */
    launch (adam, ZS_KERNEL_ADAM_FUSED, elements, total * 7, zs_dtype_bytes (adam->dtypes[0]),
            "fused AdamW");
    break;
  case ZS_OPTIMIZER_FOREACH:
    step_foreach (adam);
    break;
  case ZS_OPTIMIZER_FOR_LOOP:
    for (int i = 0; i < adam->n; i++)
      last = step_one (adam, i, last);
    zs_plan_unref (adam->plan, last);
    break;
  }
}

uint64_t
zs_adamw_digest (const ZsAdamW *adam)
{
  uint64_t digest = zs_digest_items (1, adam, 1);

  if (adam->exp_avg == NULL)
    return digest;
  digest = zs_digest_items (digest, adam->exp_avg, adam->n);
  digest = zs_digest_items (digest, adam->exp_avg_sq, adam->n);
  return zs_digest_items (digest, adam->steps, adam->n);
}
