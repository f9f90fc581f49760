/* test-coordinator.c: stage 3's fetch, prefetch and release against a table of worked numbers.
 * SPDX-License-Identifier: MIT
 *
 * The table is LLaMA-7B with an idealized module order: 13 hooked modules per layer, backward in
 * reverse with parents before children, recomputation of a layer just before its backward, and the
 * embedding released after its backward.  Its numbers were derived by executing DeepSpeed's rules.
 * What runs on an H200 hold at the turn from forward to backward differs by version: see
 * what_is_gathered_at_the_turn.
 */
#include "config.h"

#include <glib.h>
#include <inttypes.h>

#include "sim/zero/coordinator.h"
#include "tests/testing.h"

enum { N_LAYERS = 32, LAYER_MODULES = 13, HIDDEN = 4096, FFN = 11008, VOCABULARY = 32000 };

/* modules: 0 top, 1 inner, 2 embedding, 3 rotary, then the layers, final norm, head */
enum { TOP, INNER, EMBEDDING, ROTARY, FIRST_LAYER,
       FINAL_NORM = FIRST_LAYER + N_LAYERS * LAYER_MODULES, HEAD, N_MODULES };
enum { LAYER, INPUT_NORM, ATTENTION, Q, K, V, O, POST_NORM, MLP, GATE, ACT, UP, DOWN };

enum { MAX_PARAMETERS = 9 * N_LAYERS + 3 };

typedef struct {
  int64_t elements[MAX_PARAMETERS];
  bool    persistent[MAX_PARAMETERS];
  bool    embedding_stays;   /* its input needs no gradient: no hook after its backward */
  int32_t first[N_MODULES + 1], members[MAX_PARAMETERS];
  int32_t n_parameters;

  ZsCoordinator *coordinator;
  int64_t gathered, peak, moved, largest;
  int32_t calls, coalesced;
} Model;

static void
on_gather (void *self, const int32_t *parameters, int32_t n, bool forward, bool prefetch)
{
  Model *model = self;
  int64_t elements = 0;
  int32_t n_counted = 0;

  (void) forward;
  (void) prefetch;
  for (int32_t i = 0; i < n; i++) {
    CU_ASSERT_TRUE_FATAL (i == 0 || parameters[i] > parameters[i - 1]);
    model->moved += model->elements[parameters[i]];
    if (model->persistent[parameters[i]]
        && zs_coordinator_mode (model->coordinator) == ZS_TRACE_COMPLETE)
      continue;
    elements += model->elements[parameters[i]];
    n_counted++;
  }
  model->gathered += elements;
  model->peak = MAX (model->peak, model->gathered);
  model->calls++;
  if (n > 1) {
    model->coalesced++;
    model->largest = MAX (model->largest, elements);
  }
}

static void
on_release (void *self, int32_t parameter)
{
  Model *model = self;

  if (!model->persistent[parameter]
      || zs_coordinator_mode (model->coordinator) != ZS_TRACE_COMPLETE)
    model->gathered -= model->elements[parameter];
}

static int64_t
elements_of (int32_t module)
{
  if (module == EMBEDDING || module == HEAD)
    return (int64_t) VOCABULARY * HIDDEN;
  if (module == FINAL_NORM)
    return HIDDEN;
  if (module < FIRST_LAYER)
    return 0;
  switch ((module - FIRST_LAYER) % LAYER_MODULES) {
  case INPUT_NORM: case POST_NORM: return HIDDEN;
  case Q: case K: case V: case O:  return (int64_t) HIDDEN * HIDDEN;
  case GATE: case UP: case DOWN:   return (int64_t) HIDDEN * FFN;
  default:                         return 0;
  }
}

static Model *
model_new (int64_t prefetch, int64_t live, int64_t reuse, bool new_version)
{
  Model *model = g_new0 (Model, 1);

  for (int32_t module = 0; module < N_MODULES; module++) {
    int64_t elements = elements_of (module);

    model->first[module] = model->n_parameters;
    if (elements > 0) {
      model->members[model->n_parameters] = model->n_parameters;
      model->persistent[model->n_parameters] = elements <= 100000;
      model->elements[model->n_parameters++] = elements;
    }
  }
  model->first[N_MODULES] = model->n_parameters;
  model->coordinator = zs_coordinator_new (
    &(ZsCoordinatorSettings) { .n_parameters = model->n_parameters, .n_modules = N_MODULES,
                               .elements = model->elements, .persistent = model->persistent,
                               .first = model->first, .members = model->members,
                               .prefetch_bucket = prefetch, .max_live = live, .max_reuse = reuse,
                               .record_first = !new_version },
    &(ZsCoordinatorCalls) { .self = model, .gather = on_gather, .release = on_release });
  return model;
}

static void
model_free (Model *model)
{
  zs_coordinator_free (model->coordinator);
  g_free (model);
}

static void
forward (Model *model, int32_t module, bool recompute)
{
  zs_coordinator_fetch (model->coordinator, module, true, recompute);
  zs_coordinator_release (model->coordinator, module, false);
}

static void
backward (Model *model, int32_t module)
{
  zs_coordinator_fetch (model->coordinator, module, false, false);
  if (module != EMBEDDING || !model->embedding_stays)
    zs_coordinator_release (model->coordinator, module, true);
}

static void
all_forward (Model *model)
{
  for (int32_t module = 0; module < N_MODULES; module++)
    forward (model, module, false);
}

/* Where a parent's release falls does not matter: it has no parameters. */
static void
micro_step (Model *model, bool checkpointing)
{
  static const int32_t BACKWARD[] = { LAYER, MLP, DOWN, UP, ACT, GATE, POST_NORM, ATTENTION, O, V, K,
                                      Q, INPUT_NORM };

  all_forward (model);
  backward (model, TOP);
  backward (model, HEAD);
  backward (model, INNER);
  backward (model, FINAL_NORM);
  for (int32_t layer = N_LAYERS - 1; layer >= 0; layer--) {
    int32_t base = FIRST_LAYER + layer * LAYER_MODULES;

    for (int32_t i = 0; checkpointing && i < LAYER_MODULES; i++)
      forward (model, base + i, true);
    for (int32_t i = 0; i < LAYER_MODULES; i++)
      backward (model, base + BACKWARD[i]);
  }
  backward (model, EMBEDDING);
}

static void
set_persistent_available (Model *model)
{
  for (int32_t p = 0; p < model->n_parameters; p++)
    if (model->persistent[p])
      zs_coordinator_set_available (model->coordinator, p);
}

/* One optimizer step of one micro-step, as the version orders it. */
static void
training_step (Model *model, bool checkpointing, bool new_version)
{
  model->calls = model->coalesced = 0;
  model->peak = model->moved = model->largest = 0;
  if (new_version)
    zs_coordinator_reset (model->coordinator);
  micro_step (model, checkpointing);
  if (new_version)
    zs_coordinator_release_leftovers (model->coordinator);
  else
    zs_coordinator_reset (model->coordinator);
  zs_coordinator_release_all (model->coordinator);
  CU_ASSERT_EQUAL (zs_coordinator_mode (model->coordinator) == ZS_TRACE_COMPLETE
                   ? model->gathered : 0, 0);
  set_persistent_available (model);
}

typedef struct {
  int64_t peak;
  int32_t calls, coalesced;
  double  passes;
} Expected;

typedef struct {
  int64_t  prefetch, live, reuse;
  Expected with, without;   /* activation checkpointing */
} Vector;

static void
check_vector (const Vector *vector, bool checkpointing, bool recording)
{
  Model *model = model_new (vector->prefetch, vector->live, vector->reuse, false);
  int64_t total = 0;
  const Expected *expected = checkpointing ? &vector->with : &vector->without;

  for (int32_t p = 0; p < model->n_parameters; p++)
    total += model->elements[p];
  CU_ASSERT_EQUAL (total, INT64_C (6738415616));
  for (int i = 0; i < (recording ? 1 : 4); i++)
    training_step (model, checkpointing, false);
  if (model->peak != expected->peak || model->calls != expected->calls
      || model->coalesced != expected->coalesced)
    g_printerr ("# %" PRId64 "/%" PRId64 "/%" PRId64 " %d: peak %" PRId64 " calls %d (%d) %.3f\n",
                vector->prefetch, vector->live, vector->reuse, checkpointing, model->peak,
                model->calls, model->coalesced, (double) model->moved / (double) total);
  CU_ASSERT_EQUAL (model->peak, expected->peak);
  CU_ASSERT_EQUAL (model->calls, expected->calls);
  CU_ASSERT_EQUAL (model->coalesced, expected->coalesced);
  CU_ASSERT_DOUBLE_EQUAL ((double) model->moved / (double) total, expected->passes, 0.0006);
  CU_ASSERT_EQUAL (zs_coordinator_n_calls (model->coordinator), checkpointing ? 1259 : 843);
  model_free (model);
}

static void
gathers_follow_the_worked_table (void)
{
  static const Vector VECTORS[] = {
    { 15099494, 1000000000, 1000000000, { 1126170624, 423, 0, 1.860 }, { 1126170624, 422, 0, 1.854 } },
    { 15099494, 1000000000, 0, { 1126170624, 423, 0, 1.860 }, { 1126170624, 422, 0, 1.854 } },
    { 50000000, 1000000000, 1000000000, { 1126170624, 315, 74, 1.860 }, { 1126170624, 395, 20, 1.854 } },
    { 500000000, 1000000000, 1000000000, { 1126170624, 305, 59, 1.860 }, { 1126170624, 385, 4, 1.854 } },
    { 15099494, 3000000000, 1000000000, { 3121610752, 353, 0, 1.560 }, { 3116367872, 353, 0, 1.560 } },
    { 15099494, 500000000, 1000000000, { 625999872, 444, 0, 1.950 }, { 625999872, 439, 0, 1.925 } },
    { 15099494, 200000000, 1000000000, { 333447168, 444, 0, 1.950 }, { 502267904, 439, 0, 1.925 } },
    { 15099494, 100000000, 100000000, { 221249536, 611, 0, 2.513 }, { 221249536, 451, 0, 1.980 } },
    { 50000000, 30000000, 30000000, { 147849216, 578, 65, 2.727 }, { 147849216, 387, 64, 1.980 } },
    { 0, 1000000000, 1000000000, { 333447168, 444, 0, 1.950 }, { 502267904, 439, 0, 1.925 } },
    { 15099494, 0, 0, { 131072000, 676, 0, 2.961 }, { 131072000, 452, 0, 2.000 } },
    { 0, 0, 0, { 131072000, 676, 0, 2.961 }, { 131072000, 452, 0, 2.000 } },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (VECTORS); i++) {
    check_vector (&VECTORS[i], true, false);
    check_vector (&VECTORS[i], false, false);
  }
}

static void
recording_pass_fetches_on_demand (void)
{
  static const Vector VECTOR = { 50000000, 1000000000, 1000000000, { 131072000, 870, 0, 2.961 },
                                 { 131072000, 582, 0, 2.000 } };

  check_vector (&VECTOR, true, true);
  check_vector (&VECTOR, false, true);
}

/* Measured on an H200 with 7B and default limits, in 1e9 elements: 1.1262 (old, checkpointing, any
 * prefetch bucket), 1.1256 (old, none); 0.9857 and 1.0119 with 0.19.5.  The embedding of the old
 * version is released after the reset, so its live count starts below 0.  The idealized order of
 * modules leaves a difference below one tensor of the MLP. */
static void
what_is_gathered_at_the_turn (void)
{
  static const struct { bool new_version, checkpointing; double measured; } CASES[] = {
    { false, true, 1.1262e9 }, { false, false, 1.1256e9 },
    { true, true, 0.9857e9 }, { true, false, 1.0119e9 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (CASES); i++) {
    Model *model = model_new (50000000, 1000000000, 1000000000, CASES[i].new_version);

    model->embedding_stays = true;
    for (int step = 0; step < 3; step++)
      training_step (model, CASES[i].checkpointing, CASES[i].new_version);
    if (CASES[i].new_version)
      zs_coordinator_reset (model->coordinator);
    all_forward (model);
    CU_ASSERT_DOUBLE_EQUAL ((double) model->gathered, CASES[i].measured, 0.0451e9);
    model_free (model);
  }
}

static void
a_different_call_ends_prefetch_for_the_pass (void)
{
  Model *model = model_new (50000000, 1000000000, 1000000000, true);

  training_step (model, false, true);
  training_step (model, false, true);
  CU_ASSERT_EQUAL (zs_coordinator_mode (model->coordinator), ZS_TRACE_COMPLETE);
  zs_coordinator_reset (model->coordinator);
  forward (model, TOP, false);
  forward (model, EMBEDDING, false);     /* INNER was recorded here */
  CU_ASSERT_EQUAL (zs_coordinator_mode (model->coordinator), ZS_TRACE_INVALID);
  zs_coordinator_release_all (model->coordinator);
  zs_coordinator_reset (model->coordinator);
  CU_ASSERT_EQUAL (zs_coordinator_mode (model->coordinator), ZS_TRACE_RECORD);
  model_free (model);
}

int
main (void)
{
  static const CU_TestInfo tests[] = {
    { "gathers of LLaMA-7B follow the worked table", gathers_follow_the_worked_table },
    { "the recording pass fetches on demand", recording_pass_fetches_on_demand },
    { "what is gathered at the turn agrees with the measured runs", what_is_gathered_at_the_turn },
    { "a different module call ends prefetch for the pass",
      a_different_call_ends_prefetch_for_the_pass },
    CU_TEST_INFO_NULL
  };

  return testing_main ("coordinator", tests);
}
