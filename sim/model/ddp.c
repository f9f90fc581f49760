/* ddp.c: DistributedDataParallel around the plain loop.  SPDX-License-Identifier: MIT
 *
 * Gradients are copied into flat buckets, scaled by 1 / world, and reduced as soon as a bucket is
 * full; at the end of backward they are copied back into .grad, or .grad is a view of the bucket
 * (gradient_as_bucket_view).  A bucket is of one dtype and holds only what trains.  The first buckets
 * hold everything; before the second forward the reducer builds new ones in the order in which
 * gradients came, the first of 1 MiB, the others of 25 MiB.  With find_unused_parameters the first
 * are cut so, in the order of the parameters, and stay.  Each forward broadcasts the buffers (rotary
 * frequencies).  Micro-steps that do not end a step run under no_sync ().
 * At the beginning rank 0 sends all parameters and buffers, frozen ones too, in flat pieces of
 * 250 MiB, of which two are on the way.
 * Sources: torch/nn/parallel/distributed.py, c10d/reducer.cpp (2.11); sizes as recorded on one H200.
 * The recording kept the old buckets alive (its steps were shorter than the 100 ms after which NCCL's
 * watchdog drops finished work); here they go when they are rebuilt. */
#include "config.h"

#include "sim/model/ddp.h"
#include "sim/model/plain.h"

#include "sim/base/digest.h"

/* Bytes: _DEFAULT_FIRST_BUCKET_BYTES, bucket_cap_mb's default, broadcast_bucket_size. */
enum { FIRST_BUCKET = 1 << 20, NEXT_BUCKETS = 25 << 20, BROADCAST = 250 << 20, IN_FLIGHT = 2 };

typedef struct {
  ZsTensor tensor;
  int64_t  bytes;
  int      first, number;        /* while cutting: the first member's place, and what bucket_of says */
  int      n, n_ready;           /* parameters */
  ZsEvent  reduced;
} Bucket;

typedef struct {
  ZsHooks        hooks;
  ZsHooks       *plain;
  const ZsModel *model;
  ZsPlan        *plan;
  ZsDdpConfig    config;
  int64_t        first_limit, next_limit, buffer_bytes;
  GArray        *buckets;        /* Bucket */
  int32_t       *bucket_of;      /* by parameter */
  int32_t       *order;          /* parameters as their gradients came */
  int            n_ordered;
  bool           synchronizes, rebuilt, sends_buffers;
  uint32_t      *copy_in, *copy_out;
  uint32_t       label;
} Ddp;

static int64_t
bytes_of (const Ddp *ddp, int32_t parameter)
{
  return ddp->model->parameters[parameter].elements * zs_dtype_bytes (ddp->model->parameters[parameter].dtype);
}

static int
by_first (gconstpointer a, gconstpointer b)
{
  return ((const Bucket *) a)->first - ((const Bucket *) b)->first;
}

/* compute_bucket_assignment_by_size (): cut ORDER into buckets of one dtype each, as they get full. */
static void
cut (Ddp *ddp, const int32_t *order, int n, int64_t first, int64_t next)
{
  Bucket open[ZS_N_DTYPES];
  int64_t limits[ZS_N_DTYPES];
  int n_buckets = 0;

  for (int i = 0; i < ZS_N_DTYPES; i++) {
    open[i] = (Bucket) { .tensor = ZS_NO_TENSOR, .reduced = ZS_NO_EVENT };
    limits[i] = first;
  }
  g_array_set_size (ddp->buckets, 0);
  for (int i = 0; i < n; i++) {
    int dtype = (int) ddp->model->parameters[order[i]].dtype;
    Bucket *bucket = &open[dtype];

    if (bucket->n++ == 0) {
      bucket->first = i;
      bucket->number = n_buckets++;
    }
    bucket->bytes += bytes_of (ddp, order[i]);
    ddp->bucket_of[order[i]] = bucket->number;
    if (bucket->bytes < limits[dtype])
      continue;
    g_array_append_val (ddp->buckets, *bucket);
    bucket->bytes = bucket->n = 0;
    limits[dtype] = next;
  }
  for (int i = 0; i < ZS_N_DTYPES; i++)
    if (open[i].n > 0)
      g_array_append_val (ddp->buckets, open[i]);
}

/* Say in bucket_of where the buckets are now. */
static void
index_buckets (Ddp *ddp, const int32_t *order, int n)
{
  guint n_buckets = ddp->buckets->len;
  g_autofree int32_t *place = g_new (int32_t, (gsize) n_buckets + 1);

  for (guint i = 0; i < n_buckets; i++)
    place[g_array_index (ddp->buckets, Bucket, i).number] = (int32_t) i;
  for (int i = 0; i < n; i++)
    ddp->bucket_of[order[i]] = place[ddp->bucket_of[order[i]]];
}

static void
make_buckets (Ddp *ddp)
{
  for (guint i = 0; i < ddp->buckets->len; i++) {
    Bucket *one = &g_array_index (ddp->buckets, Bucket, i);

    one->tensor = zs_plan_alloc (ddp->plan, one->bytes, ZS_CATEGORY_BUCKETS);
    one->reduced = zs_plan_event_new (ddp->plan);
  }
}

static void
forget_buckets (Ddp *ddp, GArray *buckets)
{
  for (guint i = 0; i < buckets->len; i++) {
    zs_plan_unref (ddp->plan, g_array_index (buckets, Bucket, i).tensor);
    zs_plan_event_free (ddp->plan, g_array_index (buckets, Bucket, i).reduced);
  }
}

static void
small (Ddp *ddp, int64_t bytes)
{
  zs_plan_unref (ddp->plan, zs_plan_alloc (ddp->plan, bytes, ZS_CATEGORY_TEMPORARY));
}

static void
broadcast (Ddp *ddp, int64_t bytes)
{
  ZsEvent done = zs_plan_event_new (ddp->plan);

  zs_plan_collective (ddp->plan, ZS_COLLECTIVE_BROADCAST, 0, bytes, done);
  zs_plan_stream_wait_event (ddp->plan, ddp->plan->stream, done);
  zs_plan_event_free (ddp->plan, done);
}

static void
load (void *self, ZsPlan *plan)
{
  Ddp *ddp = self;

  ddp->plain->load (ddp->plain->self, plan);
}

/* A flat copy of N tensors of BYTES is sent, but one tensor as it is; what is on the way first goes when
 * there are two. */
static void
send_flat (Ddp *ddp, int64_t bytes, int n, ZsTensor *flying, int *n_flying)
{
  if (n == 0)
    return;
  if (*n_flying == IN_FLIGHT) {
    zs_plan_unref (ddp->plan, flying[0]);
    flying[0] = flying[1];
    (*n_flying)--;
  }
  flying[(*n_flying)++] = zs_plan_alloc (ddp->plan, n > 1 ? bytes : 0, ZS_CATEGORY_BUCKETS);
  broadcast (ddp, bytes);
}

/* broadcast_coalesced () of all parameters, then the buffers; pieces are of one dtype. */
static void
send_model (Ddp *ddp)
{
  const ZsModel *model = ddp->model;
  int64_t open[ZS_N_DTYPES] = { 0 };
  int n[ZS_N_DTYPES] = { 0 };
  ZsTensor flying[IN_FLIGHT];
  int n_flying = 0;

  for (int32_t i = 0; i < model->n_parameters; i++) {
    ZsDtype dtype = model->parameters[i].dtype;

    open[dtype] += bytes_of (ddp, i);
    n[dtype]++;
    if (open[dtype] < BROADCAST)
      continue;
    send_flat (ddp, open[dtype], n[dtype], flying, &n_flying);
    open[dtype] = n[dtype] = 0;
  }
  open[ZS_DTYPE_FP32] += ddp->buffer_bytes;   /* inv_freq and original_inv_freq */
  n[ZS_DTYPE_FP32] += 2;
  for (int dtype = 0; dtype < ZS_N_DTYPES; dtype++)
    send_flat (ddp, open[dtype], n[dtype], flying, &n_flying);
  for (int i = 0; i < n_flying; i++)
    zs_plan_unref (ddp->plan, flying[i]);
}

/* Shapes are compared, the parameters of rank 0 are sent to all, the first buckets are made. */
static void
init (void *self, ZsPlan *plan)
{
  Ddp *ddp = self;
  g_autofree int32_t *order = g_new (int32_t, (gsize) ddp->model->n_parameters);
  int64_t shapes = 0;
  int n = 0;

  ddp->plain->init (ddp->plain->self, plan);
  zs_plan_set_label (plan, ddp->label);
  ZsTensor a = zs_plan_alloc (plan, 8, ZS_CATEGORY_TEMPORARY), b = zs_plan_alloc (plan, 8, ZS_CATEGORY_TEMPORARY);
  small (ddp, 8);
  for (int32_t i = 0; i < ddp->model->n_parameters; i++) {
    if (!ddp->model->parameters[i].trainable)
      continue;
    order[n++] = i;
    shapes += (ddp->model->parameters[i].columns > 1 ? 2 : 1) * 2 * 8;   /* sizes and strides */
  }
  small (ddp, shapes);
  zs_plan_unref (plan, b);
  zs_plan_unref (plan, a);
  send_model (ddp);
  if (ddp->config.find_unused_parameters)
    cut (ddp, order, n, ddp->first_limit, ddp->next_limit);
  else
    cut (ddp, order, n, INT64_MAX, INT64_MAX);
  g_array_sort (ddp->buckets, by_first);
  for (guint i = 0, j = ddp->buckets->len - 1; i < j && ddp->buckets->len > 0; i++, j--) {
    Bucket one = g_array_index (ddp->buckets, Bucket, i);

    g_array_index (ddp->buckets, Bucket, i) = g_array_index (ddp->buckets, Bucket, j);
    g_array_index (ddp->buckets, Bucket, j) = one;
  }
  index_buckets (ddp, order, n);
  make_buckets (ddp);
}

static void
before_forward_pass (void *self, ZsPlan *plan, int step, int micro_step, bool boundary)
{
  Ddp *ddp = self;

  (void) step;
  (void) micro_step;
  zs_plan_set_label (plan, ddp->label);
  ddp->synchronizes = boundary;
  if (!ddp->rebuilt && ddp->n_ordered > 0 && !ddp->config.find_unused_parameters) {
    int n = ddp->n_ordered;

    ZsTensor indices = zs_plan_alloc (plan, (n + 1) * 4, ZS_CATEGORY_TEMPORARY);   /* of parameters */
    g_autoptr (GArray) before = ddp->buckets;
    ddp->buckets = g_array_new (FALSE, TRUE, sizeof (Bucket));
    cut (ddp, ddp->order, n, ddp->first_limit, ddp->next_limit);
    index_buckets (ddp, ddp->order, n);
    small (ddp, (int64_t) ddp->buckets->len * 4);   /* their sizes */
    broadcast (ddp, (n + 1) * 4);
    zs_plan_unref (plan, indices);
    forget_buckets (ddp, before);
    make_buckets (ddp);
    ddp->rebuilt = true;
  }
  if (ddp->sends_buffers) {
    small (ddp, ddp->buffer_bytes);
    broadcast (ddp, ddp->buffer_bytes);
  }
  ddp->sends_buffers = boundary;   /* require_forward_param_sync, set by the forward before */
  for (guint i = 0; i < ddp->buckets->len; i++)
    g_array_index (ddp->buckets, Bucket, i).n_ready = 0;
}

static void
gradient (void *self, ZsPlan *plan, int32_t parameter, ZsTensor tensor)
{
  Ddp *ddp = self;
  uint32_t before;

  ddp->plain->gradient (ddp->plain->self, plan, parameter, tensor);
  if (!ddp->synchronizes)
    return;
  if (!ddp->rebuilt && !ddp->config.find_unused_parameters)
    ddp->order[ddp->n_ordered++] = parameter;
  before = zs_plan_set_label (plan, ddp->label);
  Bucket *bucket = &g_array_index (ddp->buckets, Bucket, ddp->bucket_of[parameter]);
  zs_plan_launch (plan, ddp->copy_in[parameter]);
  if (ddp->config.gradient_as_bucket_view)   /* .grad is now the bucket's */
    zs_plain_drop_gradient (ddp->plain, parameter);
  if (++bucket->n_ready == bucket->n)
    zs_plan_collective (plan, ZS_COLLECTIVE_ALL_REDUCE, 0, bucket->bytes, bucket->reduced);
  zs_plan_set_label (plan, before);
}

/* finalize_backward (): wait for every bucket, copy back into .grad. */
static void
after_backward_pass (void *self, ZsPlan *plan)
{
  Ddp *ddp = self;

  if (!ddp->synchronizes)
    return;
  zs_plan_set_label (plan, ddp->label);
  for (guint i = 0; i < ddp->buckets->len; i++) {
    zs_plan_stream_wait_event (plan, plan->stream, g_array_index (ddp->buckets, Bucket, i).reduced);
    for (int32_t p = 0; p < ddp->model->n_parameters && !ddp->config.gradient_as_bucket_view; p++)
      if (ddp->model->parameters[p].trainable && ddp->bucket_of[p] == (int32_t) i)
        zs_plan_launch (plan, ddp->copy_out[p]);
  }
}

static ZsTensor
weight (void *self, int32_t parameter)
{
  Ddp *ddp = self;

  return ddp->plain->weight (ddp->plain->self, parameter);
}

static void
step (void *self, ZsPlan *plan, int number)
{
  Ddp *ddp = self;

  ddp->plain->step (ddp->plain->self, plan, number);
}

static void
free_ddp (void *self)
{
  Ddp *ddp = self;

  zs_hooks_free (ddp->plain);
  g_array_unref (ddp->buckets);
  g_free (ddp->bucket_of);
  g_free (ddp->order);
  g_free (ddp->copy_in);
  g_free (ddp->copy_out);
  g_free (ddp);
}

static uint64_t
ddp_digest (const void *self, bool events)
{
  const Ddp *ddp = self;
  int32_t n = ddp->model->n_parameters;
  uint64_t digest = zs_digest_items (ddp->plain->digest (ddp->plain->self, events), ddp, 1);

  digest = zs_digest_items (digest, (const Bucket *) (const void *) ddp->buckets->data, ddp->buckets->len);
  digest = zs_digest_items (digest, ddp->bucket_of, n);
  return zs_digest_items (digest, ddp->order, n);
}

ZsHooks *
zs_ddp_hooks_new (const ZsModel *model, const ZsDdpConfig *config, const ZsStepShape *shape, ZsPlan *plan)
{
  Ddp *ddp = g_new0 (Ddp, 1);
  gsize n = (gsize) model->n_parameters;
  int64_t half = model->shape.head_dim / 2 * 4;

  ddp->plain = zs_plain_hooks_new (model, shape, plan);
  ddp->model = model;
  ddp->plan = plan;
  ddp->config = *config;
  ddp->first_limit = config->bucket_cap > 0 ? config->bucket_cap : FIRST_BUCKET;
  ddp->next_limit = config->bucket_cap > 0 ? config->bucket_cap : NEXT_BUCKETS;
  ddp->sends_buffers = true;
  ddp->buffer_bytes = 2 * half;   /* inv_freq and original_inv_freq */
  ddp->buckets = g_array_new (FALSE, TRUE, sizeof (Bucket));
  ddp->bucket_of = g_new0 (int32_t, n);
  ddp->order = g_new0 (int32_t, n);
  ddp->copy_in = g_new0 (uint32_t, n);
  ddp->copy_out = g_new0 (uint32_t, n);
  ddp->label = zs_plan_label (plan, -1, "DDP bucket");
  for (gsize i = 0; i < n; i++) {
    int64_t bytes = bytes_of (ddp, (int32_t) i);
    ZsKernel kernel = { .kind = ZS_KERNEL_COPY, .launch = ZS_LAUNCH_AUTOGRAD, .phase_class = 2,
                        .element_bytes = (uint8_t) zs_dtype_bytes (model->parameters[i].dtype),
                        .n = model->parameters[i].elements, .bytes = 2 * bytes, .name = "gradient to bucket" };

    ddp->copy_in[i] = zs_plan_kernel (plan, &kernel);
    kernel.name = "bucket to gradient";
    ddp->copy_out[i] = zs_plan_kernel (plan, &kernel);
  }
  ddp->hooks = (ZsHooks) { .self = ddp, .load = load, .init = init,
                           .before_forward_pass = before_forward_pass,
                           .after_backward_pass = after_backward_pass, .ends_inside_backward = true,
                           .gradient = gradient, .weight = weight, .step = step, .digest = ddp_digest,
                           .free = free_ddp };
  return &ddp->hooks;
}
