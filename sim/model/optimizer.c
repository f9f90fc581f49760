/* optimizer.c: clip_grad_norm_, AdamW in its three implementations, SGD.  SPDX-License-Identifier: MIT */
#include "config.h"

#include "sim/model/optimizer-internal.h"

#include <math.h>

#include "sim/base/digest.h"

/* ATen/native/cuda/MultiTensorApply.cuh: elements of a block, blocks of a kernel, and tensors that the
 * arguments of one kernel hold, by how many lists it walks. */
enum { CHUNK = 65536, MOST_BLOCKS = 320 };
static const int MOST_TENSORS[] = { 0, 110, 64, 48, 36, 30 };

const char *
zs_optimizer_name (ZsOptimizerKind kind)
{
  static const char *const NAMES[] = {
    [ZS_OPTIMIZER_FUSED] = "AdamW", [ZS_OPTIMIZER_FOREACH] = "AdamW", [ZS_OPTIMIZER_FOR_LOOP] = "AdamW",
    [ZS_OPTIMIZER_SGD] = "SGD", [ZS_OPTIMIZER_SGD_MOMENTUM] = "SGD",
    [ZS_OPTIMIZER_ADAFACTOR] = "Adafactor", [ZS_OPTIMIZER_ADAMW_8BIT] = "AdamW 8-bit",
    [ZS_OPTIMIZER_PAGED_ADAMW_8BIT] = "paged AdamW 8-bit", [ZS_OPTIMIZER_PAGED_ADAMW_32BIT] = "paged AdamW",
  };

  return NAMES[kind];
}

ZsTorchOptimizer *
zs_torch_optimizer_new (ZsPlan *plan, ZsOptimizerKind kind, int sm_count, int n,
                        const ZsOptimizerTensor *tensors)
{
  ZsTorchOptimizer *optimizer = g_new0 (ZsTorchOptimizer, 1);
  gsize room = (gsize) MAX (n, 1);

  optimizer->plan = plan;
  optimizer->kind = kind;
  optimizer->sm_count = sm_count;
  optimizer->n = n;
  optimizer->tensors = g_memdup2 (tensors, (gsize) n * sizeof *tensors);
  optimizer->first = g_new (ZsTensor, room);
  optimizer->second = g_new (ZsTensor, room);
  optimizer->steps = g_new (ZsTensor, room);
  for (gsize i = 0; i < room; i++)
    optimizer->first[i] = optimizer->second[i] = optimizer->steps[i] = ZS_NO_TENSOR;
  for (int i = 0; i < n; i++)
    optimizer->n_groups = MAX (optimizer->n_groups, tensors[i].group + 1);
  optimizer->label_step = zs_plan_label (plan, -1, zs_optimizer_name (kind));
  optimizer->label_clip = zs_plan_label (plan, -1, "clip_grad_norm_");
  optimizer->label_zero = zs_plan_label (plan, -1, "zero_grad");
  return optimizer;
}

void
zs_torch_optimizer_free (ZsTorchOptimizer *optimizer)
{
  if (optimizer == NULL)
    return;
  g_free (optimizer->tensors);
  g_free (optimizer->first);
  g_free (optimizer->second);
  g_free (optimizer->steps);
  g_free (optimizer);
}

/* How many kernels an operation on N_LISTS lists of the tensors of GROUP (-1: all) is cut into, as
 * multi_tensor_apply () does it. */
static int
list_launches (const ZsTorchOptimizer *optimizer, int group, int n_lists)
{
  int launches = 0, tensors = 0, blocks = 0;

  for (int i = 0; i < optimizer->n; i++) {
    if (group >= 0 && optimizer->tensors[i].group != group)
      continue;
    int64_t chunks = (optimizer->tensors[i].elements + CHUNK - 1) / CHUNK;

    tensors++;
    while (chunks > 0) {
      int taken = (int) MIN (chunks, MOST_BLOCKS - blocks);

      blocks += taken;
      chunks -= taken;
      if (blocks == MOST_BLOCKS || (tensors == MOST_TENSORS[n_lists] && chunks == 0)) {
        launches++;
        blocks = 0;
        tensors = chunks > 0;   /* the next kernel goes on with this one */
      }
    }
  }
  return launches + (blocks > 0);
}

/* The first kernel of an operation on lists was launched: the host goes on with the others. */
static void
launch_rest (ZsTorchOptimizer *optimizer, int group, int n_lists)
{
  zs_plan_host (optimizer->plan, ZS_HOST_LIST_LAUNCH, list_launches (optimizer, group, n_lists));
}

/* _foreach_norm () over the tensors of one dtype; NORMS receives theirs. */
static void
norms_of (ZsTorchOptimizer *optimizer, ZsDtype dtype, ZsTensor *norms)
{
  int64_t largest = 0, count = 0, total = 0, element = zs_dtype_bytes (dtype);

  for (int i = 0; i < optimizer->n; i++)
    if (optimizer->tensors[i].dtype == dtype) {
      largest = MAX (largest, optimizer->tensors[i].elements);
      total += optimizer->tensors[i].elements;
      count++;
    }
  if (count == 0)
    return;
  int64_t chunks = (largest + CHUNK - 1) / CHUNK;
  ZsTensor partial = zs_plan_alloc (optimizer->plan, count * chunks * FP32, ZS_CATEGORY_STEP);
  for (int i = 0; i < optimizer->n; i++)
    if (optimizer->tensors[i].dtype == dtype)
      norms[i] = zs_plan_alloc (optimizer->plan, element, ZS_CATEGORY_STEP);
  optimizer_launch (optimizer, ZS_KERNEL_NORM, total, total * element, element, "foreach norm");
  zs_plan_unref (optimizer->plan, partial);
}

void
zs_torch_optimizer_clip (ZsTorchOptimizer *optimizer)
{
  ZsPlan *plan = optimizer->plan;
  g_autofree ZsTensor *norms = g_new (ZsTensor, (gsize) MAX (optimizer->n, 1));
  int64_t element = zs_dtype_bytes (optimizer->n > 0 ? optimizer->tensors[0].dtype : ZS_DTYPE_FP32), total = 0;

  if (optimizer->n == 0)
    return;
  zs_plan_set_label (plan, optimizer->label_clip);
  zs_plan_host (plan, ZS_HOST_CLIP_FIXED, 1);
  for (int dtype = 0; dtype < ZS_N_DTYPES; dtype++)
    norms_of (optimizer, (ZsDtype) dtype, norms);
  launch_rest (optimizer, -1, 1);
  zs_plan_host (plan, ZS_HOST_CLIP_PARAMETER, optimizer->n);
  ZsTensor stacked = zs_plan_alloc (plan, optimizer->n * element, ZS_CATEGORY_STEP);
  optimizer_launch (optimizer, ZS_KERNEL_TINY, optimizer->n, optimizer->n * element, element, "stack");
  ZsTensor norm = zs_plan_alloc (plan, element, ZS_CATEGORY_STEP);
  optimizer_launch (optimizer, ZS_KERNEL_TINY, optimizer->n, optimizer->n * element, element, "norm");
  zs_plan_unref (plan, stacked);
  for (int i = optimizer->n - 1; i >= 0; i--)
    zs_plan_unref (plan, norms[i]);
  ZsTensor shifted = zs_plan_alloc (plan, element, ZS_CATEGORY_STEP);
  optimizer_launch (optimizer, ZS_KERNEL_TINY, 1, 8, element, "add");
  ZsTensor inverse = zs_plan_alloc (plan, element, ZS_CATEGORY_STEP);
  optimizer_launch (optimizer, ZS_KERNEL_TINY, 1, 8, element, "reciprocal");
  ZsTensor factor = zs_plan_alloc (plan, element, ZS_CATEGORY_STEP);
  optimizer_launch (optimizer, ZS_KERNEL_TINY, 1, 8, element, "mul");
  zs_plan_unref (plan, inverse);
  zs_plan_unref (plan, shifted);
  ZsTensor clamped = zs_plan_alloc (plan, element, ZS_CATEGORY_STEP);
  optimizer_launch (optimizer, ZS_KERNEL_TINY, 1, 8, element, "clamp");
  zs_plan_unref (plan, factor);
  for (int i = 0; i < optimizer->n; i++)
    total += optimizer->tensors[i].elements * zs_dtype_bytes (optimizer->tensors[i].dtype);
  optimizer_launch (optimizer, ZS_KERNEL_ADAM_FOREACH, total / element, 2 * total, element, "scale gradients");
  launch_rest (optimizer, -1, 1);
  zs_plan_unref (plan, clamped);
  zs_plan_unref (plan, norm);
}

/* The states of tensor I. */
static void
start (ZsTorchOptimizer *optimizer, int i)
{
  int64_t bytes = optimizer_bytes (optimizer, i);
  int64_t element = zs_dtype_bytes (optimizer->tensors[i].dtype);

  switch (optimizer->kind) {
  case ZS_OPTIMIZER_FUSED:
  case ZS_OPTIMIZER_FOREACH:
  case ZS_OPTIMIZER_FOR_LOOP:
    if (optimizer->kind == ZS_OPTIMIZER_FUSED)   /* else the step counts are CPU tensors */
      optimizer->steps[i] = zs_plan_alloc (optimizer->plan, FP32, ZS_CATEGORY_OPTIMIZER);
    optimizer->first[i] = optimizer_state (optimizer, bytes, element);
    optimizer->second[i] = optimizer_state (optimizer, bytes, element);
    break;
  case ZS_OPTIMIZER_SGD_MOMENTUM:   /* a clone of the gradient */
    optimizer->first[i] = zs_plan_alloc (optimizer->plan, bytes, ZS_CATEGORY_OPTIMIZER);
    optimizer_launch (optimizer, ZS_KERNEL_COPY, optimizer->tensors[i].elements, 2 * bytes, element, "clone");
    break;
  case ZS_OPTIMIZER_ADAMW_8BIT:
  case ZS_OPTIMIZER_PAGED_ADAMW_8BIT:
  case ZS_OPTIMIZER_PAGED_ADAMW_32BIT:
    optimizer_bitsandbytes_start (optimizer, i);
    break;
  case ZS_OPTIMIZER_SGD:
  case ZS_OPTIMIZER_ADAFACTOR:   /* makes each when it comes to its tensor */
    break;
  }
}

/* One element-wise pass over tensor I, reading and writing OPERANDS of it. */
static void
pass (ZsTorchOptimizer *optimizer, int i, int operands, const char *name)
{
  optimizer_launch (optimizer, ZS_KERNEL_ELEMENTWISE, optimizer->tensors[i].elements,
                    optimizer_bytes (optimizer, i) * operands,
                    zs_dtype_bytes (optimizer->tensors[i].dtype), name);
}

/* _single_tensor_adam: (exp_avg_sq.sqrt () / bias_correction2_sqrt).add_ (eps), then addcdiv_.  Its
 * variable holds the denominator until the next tensor's is there (LAST, which it takes). */
static ZsTensor
step_one (ZsTorchOptimizer *optimizer, int i, ZsTensor last)
{
  pass (optimizer, i, 2, "decay");
  pass (optimizer, i, 3, "exp_avg.lerp_");
  pass (optimizer, i, 2, "exp_avg_sq.mul_");
  pass (optimizer, i, 3, "exp_avg_sq.addcmul_");
  ZsTensor root = optimizer_scratch (optimizer, optimizer_bytes (optimizer, i));
  pass (optimizer, i, 2, "sqrt");
  ZsTensor denominator = optimizer_scratch (optimizer, optimizer_bytes (optimizer, i));
  pass (optimizer, i, 2, "div");
  zs_plan_unref (optimizer->plan, root);
  pass (optimizer, i, 2, "add_");
  zs_plan_unref (optimizer->plan, last);
  pass (optimizer, i, 4, "addcdiv_");
  return denominator;
}

int64_t
zs_idle_elements (const ZsModel *model, const ZsStepShape *shape, int32_t parameter, int64_t elements)
{
  double tokens = (double) MAX (shape->step_tokens, shape->micro_batch * shape->sequence);

  if (model->shape.tied_embeddings || !zs_parameter_is_embedding (model, parameter))
    return 0;
  return (int64_t) ((double) elements * exp (-tokens / (double) MAX (model->shape.vocabulary, 1)));
}

/* Elements and bytes of GROUP. */
static int64_t
sum_group (const ZsTorchOptimizer *optimizer, int group, int64_t *ret_bytes)
{
  int64_t elements = 0;

  *ret_bytes = 0;
  for (int i = 0; i < optimizer->n; i++)
    if (optimizer->tensors[i].group == group) {
      elements += optimizer->tensors[i].elements;
      *ret_bytes += optimizer_bytes (optimizer, i);
    }
  return elements;
}

static void
adam_step (ZsTorchOptimizer *optimizer, int group)
{
  int64_t bytes, elements = sum_group (optimizer, group, &bytes);
  int64_t element = elements > 0 ? bytes / elements : 1;
  g_autofree ZsTensor *roots = g_new (ZsTensor, (gsize) optimizer->n);
  ZsTensor last = ZS_NO_TENSOR;

  if (optimizer->kind == ZS_OPTIMIZER_FUSED) {   /* reads p, g, m, v; writes p, m, v */
    ZsKernel kernel = { .kind = ZS_KERNEL_ADAM_FUSED, .launch = ZS_LAUNCH_NO_GRAD, .phase_class = 1,
                        .element_bytes = (uint8_t) element, .n = elements, .bytes = bytes * 7,
                        .flops = (double) elements, .name = "fused AdamW" };

    for (int i = 0; i < optimizer->n; i++)
      if (optimizer->tensors[i].group == group)
        kernel.m += optimizer->tensors[i].idle;
    zs_plan_launch (optimizer->plan, zs_plan_kernel (optimizer->plan, &kernel));
    launch_rest (optimizer, group, 4);
    return;
  }
  for (int i = 0; i < optimizer->n; i++) {
    roots[i] = ZS_NO_TENSOR;
    if (optimizer->tensors[i].group != group)
      continue;
    if (optimizer->kind == ZS_OPTIMIZER_FOR_LOOP)
      last = step_one (optimizer, i, last);
    else
      roots[i] = optimizer_scratch (optimizer, optimizer_bytes (optimizer, i));
  }
  /* mul_, lerp_, mul_, addcmul_, sqrt, div_, add_, addcdiv_: 20 operands in all */
  if (optimizer->kind == ZS_OPTIMIZER_FOREACH) {
    static const int N_LISTS[] = { 1, 2, 1, 3, 2, 1, 1, 3 };

    optimizer_launch (optimizer, ZS_KERNEL_ADAM_FOREACH, elements, bytes * 20, element, "foreach AdamW");
    for (gsize i = 0; i < G_N_ELEMENTS (N_LISTS); i++)
      launch_rest (optimizer, group, N_LISTS[i]);
  }
  for (int i = optimizer->n - 1; i >= 0; i--)
    zs_plan_unref (optimizer->plan, roots[i]);
  zs_plan_unref (optimizer->plan, last);
}

/* In place: p, g and with momentum the buffer. */
static void
sgd_step (ZsTorchOptimizer *optimizer, int group)
{
  int64_t bytes, elements = sum_group (optimizer, group, &bytes);
  int operands = optimizer->kind == ZS_OPTIMIZER_SGD_MOMENTUM ? 8 : 3;

  optimizer_launch (optimizer, ZS_KERNEL_ELEMENTWISE, elements, bytes * operands,
                    elements > 0 ? bytes / elements : 1, "foreach SGD");
}

void
zs_torch_optimizer_step (ZsTorchOptimizer *optimizer)
{
  ZsTensor last[3] = { ZS_NO_TENSOR, ZS_NO_TENSOR, ZS_NO_TENSOR };

  if (optimizer->n == 0)
    return;
  zs_plan_set_label (optimizer->plan, optimizer->label_step);
  for (int group = 0; group < optimizer->n_groups; group++) {
    for (int i = 0; !optimizer->started && i < optimizer->n; i++)
      if (optimizer->tensors[i].group == group)
        start (optimizer, i);
    if (group == 0) {
      zs_plan_host (optimizer->plan, ZS_HOST_STEP_FIXED, 1);
      zs_plan_host (optimizer->plan, ZS_HOST_STEP_PARAMETER, optimizer->n);
    }
    switch (optimizer->kind) {
    case ZS_OPTIMIZER_FUSED:
    case ZS_OPTIMIZER_FOREACH:
    case ZS_OPTIMIZER_FOR_LOOP:
      adam_step (optimizer, group);
      break;
    case ZS_OPTIMIZER_SGD:
    case ZS_OPTIMIZER_SGD_MOMENTUM:
      sgd_step (optimizer, group);
      break;
    case ZS_OPTIMIZER_ADAFACTOR:
      optimizer_adafactor_step (optimizer, group, last);
      break;
    case ZS_OPTIMIZER_ADAMW_8BIT:
    case ZS_OPTIMIZER_PAGED_ADAMW_8BIT:
    case ZS_OPTIMIZER_PAGED_ADAMW_32BIT:
      optimizer_bitsandbytes_step (optimizer, group);
      break;
    }
  }
  for (gsize i = 0; i < G_N_ELEMENTS (last); i++)
    zs_plan_unref (optimizer->plan, last[i]);
  optimizer->started = true;
}

void
zs_torch_optimizer_zero_grad (ZsTorchOptimizer *optimizer)
{
  zs_plan_set_label (optimizer->plan, optimizer->label_zero);
  zs_plan_host (optimizer->plan, ZS_HOST_ZERO_GRADIENT, optimizer->n);
}

uint64_t
zs_torch_optimizer_digest (const ZsTorchOptimizer *optimizer)
{
  uint64_t digest = zs_digest_items (1, optimizer, 1);

  digest = zs_digest_items (digest, optimizer->first, optimizer->n);
  digest = zs_digest_items (digest, optimizer->second, optimizer->n);
  return zs_digest_items (digest, optimizer->steps, optimizer->n);
}
