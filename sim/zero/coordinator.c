/* coordinator.c: fetch, prefetch and release of stage 3's parameters along a recorded trace.
 * SPDX-License-Identifier: MIT
 *
 * Names in comments are those of deepspeed/runtime/zero/partitioned_param_coordinator.py.
 *
 * Everything is an array by parameter, module or step.  The result of the release rule depends on the
 * module and the step alone once it has been computed (DeepSpeed keeps it in an lru_cache and so do
 * we, with the effect that marks set by later passes do not change it).
 */
#include "config.h"

#include "sim/zero/coordinator.h"

#include "sim/base/digest.h"

#include <string.h>

#define NEVER (INT32_MIN / 2)
/* The user of a parameter that stands for the open backward module (see open_user). */
#define USER_OPEN_BACKWARD (UINT64_C (1) << 63)

/* One cached answer of the release rule. */
typedef struct {
  int32_t module;
  int32_t next;            /* in the list of its step; -1 ends it */
  int32_t first_answer;    /* into answers: one bool per member */
} ReleaseRule;

struct ZsCoordinator {
  ZsCoordinatorCalls calls;
  int32_t  n_parameters, n_modules;
  int64_t *elements;
  bool    *persistent, *frozen;
  int32_t *first, *members;
  uint64_t *member_bits;    /* by member: which user of the parameter this module is */
  int64_t  prefetch_bucket, max_live, max_reuse;
  bool     keep_frozen;

  ZsTraceMode mode;
  int32_t  step;            /* __step_id: module calls of this pass */
  int64_t  available;       /* __n_available_params */
  uint8_t *status;
  bool    *registered;      /* in __inflight_param_registry: not yet waited for */
  int32_t *next_in_set;     /* ring of the parameters gathered by one call */
  uint64_t *users;          /* ds_active_sub_modules */
  int32_t *last;            /* __most_recent_step_id_param_fetched_for */
  int32_t *open_user;       /* by parameter: open backward module that it is kept for, or -1 */
  int32_t  n_kept;

  GArray  *module_trace;    /* int32_t: __submodule_order */
  GArray  *entries, *entry_steps;   /* int32_t: __param_order */
  int32_t  queue;           /* first entry not yet popped */

  GArray  *rules_of_step;   /* int32_t: newest ReleaseRule of each step, or -1 */
  GArray  *rules, *answers;

  GArray  *open_backward;   /* int32_t: modules whose backward has begun and not ended */
  int32_t *chosen;          /* scratch: n_parameters */
};

ZsCoordinator *
zs_coordinator_new (const ZsCoordinatorSettings *settings, const ZsCoordinatorCalls *calls)
{
  ZsCoordinator *c = g_new0 (ZsCoordinator, 1);
  int32_t n = settings->n_parameters, n_members = settings->first[settings->n_modules];
  g_autofree uint8_t *n_users = g_new0 (uint8_t, n + 1);

  c->calls = *calls;
  c->n_parameters = n;
  c->n_modules = settings->n_modules;
  c->elements = g_memdup2 (settings->elements, sizeof (int64_t) * (size_t) n);
  c->persistent = g_memdup2 (settings->persistent, sizeof (bool) * (size_t) n);
  if (settings->frozen != NULL)
    c->frozen = g_memdup2 (settings->frozen, sizeof (bool) * (size_t) n);
  c->first = g_memdup2 (settings->first, sizeof (int32_t) * (size_t) (settings->n_modules + 1));
  c->members = g_memdup2 (settings->members, sizeof (int32_t) * (size_t) n_members);
  c->member_bits = g_new (uint64_t, n_members + 1);
  for (int32_t i = 0; i < n_members; i++) {
    g_assert (n_users[c->members[i]] < 62);
    c->member_bits[i] = UINT64_C (1) << n_users[c->members[i]]++;
  }
  c->prefetch_bucket = settings->prefetch_bucket;
  c->max_live = settings->max_live;
  c->max_reuse = settings->max_reuse;
  c->keep_frozen = settings->keep_frozen_for_backward;
  c->mode = settings->record_first ? ZS_TRACE_RECORD : ZS_TRACE_INVALID;

  c->status = g_new0 (uint8_t, n + 1);
  c->registered = g_new0 (bool, n + 1);
  c->next_in_set = g_new (int32_t, n + 1);
  c->users = g_new0 (uint64_t, n + 1);
  c->last = g_new (int32_t, n + 1);
  c->open_user = g_new (int32_t, n + 1);
  c->chosen = g_new (int32_t, n + 1);
  for (int32_t p = 0; p < n; p++) {
    c->last[p] = NEVER;
    c->open_user[p] = -1;
    c->next_in_set[p] = p;
  }
  c->module_trace = g_array_new (FALSE, FALSE, sizeof (int32_t));
  c->entries = g_array_new (FALSE, FALSE, sizeof (int32_t));
  c->entry_steps = g_array_new (FALSE, FALSE, sizeof (int32_t));
  c->rules_of_step = g_array_new (FALSE, FALSE, sizeof (int32_t));
  c->rules = g_array_new (FALSE, FALSE, sizeof (ReleaseRule));
  c->answers = g_array_new (FALSE, FALSE, sizeof (bool));
  c->open_backward = g_array_new (FALSE, FALSE, sizeof (int32_t));
  return c;
}

void
zs_coordinator_free (ZsCoordinator *c)
{
  if (c == NULL)
    return;
  g_free (c->elements);
  g_free (c->persistent);
  g_free (c->frozen);
  g_free (c->first);
  g_free (c->members);
  g_free (c->member_bits);
  g_free (c->status);
  g_free (c->registered);
  g_free (c->next_in_set);
  g_free (c->users);
  g_free (c->last);
  g_free (c->open_user);
  g_free (c->chosen);
  g_array_unref (c->module_trace);
  g_array_unref (c->entries);
  g_array_unref (c->entry_steps);
  g_array_unref (c->rules_of_step);
  g_array_unref (c->rules);
  g_array_unref (c->answers);
  g_array_unref (c->open_backward);
  g_free (c);
}

static void
forget_trace (ZsCoordinator *c)
{
  g_array_set_size (c->module_trace, 0);
  g_array_set_size (c->entries, 0);
  g_array_set_size (c->entry_steps, 0);
  g_array_set_size (c->rules_of_step, 0);
  g_array_set_size (c->rules, 0);
  g_array_set_size (c->answers, 0);
  c->queue = 0;
}

/* __all_gather_params: the first N of c->chosen, ascending and absent. */
static void
gather (ZsCoordinator *c, int32_t n, bool forward, bool prefetch)
{
  for (int32_t i = 0; i < n; i++) {
    int32_t p = c->chosen[i];

    c->available += c->elements[p];
    c->status[p] = ZS_GATHER_IN_FLIGHT;
    c->registered[p] = true;
    c->next_in_set[p] = c->chosen[i + 1 < n ? i + 1 : 0];
  }
  if (c->calls.gather != NULL)
    c->calls.gather (c->calls.self, c->chosen, n, forward, prefetch);
}

static void
wait_for (ZsCoordinator *c, int32_t parameter)
{
  if (c->calls.wait != NULL)
    c->calls.wait (c->calls.self, parameter);
  c->registered[parameter] = false;
  if (c->status[parameter] == ZS_GATHER_IN_FLIGHT) {
    int32_t p = parameter;

    do {
      c->status[p] = ZS_GATHER_AVAILABLE;
      p = c->next_in_set[p];
    } while (p != parameter);
  }
}

static void
sort_ascending (int32_t *values, int32_t n)
{
  for (int32_t i = 1; i < n; i++) {
    int32_t value = values[i], at = i;

    for (; at > 0 && values[at - 1] > value; at--)
      values[at] = values[at - 1];
    values[at] = value;
  }
}

/* The part of fetch_sub_module after the waits: take what is fetched off the queue, then prefetch. */
static void
prefetch (ZsCoordinator *c, int32_t module, bool forward)
{
  int32_t n_entries = (int32_t) c->entries->len, n_wanted = 0;
  const int32_t *entries = (const int32_t *) (void *) c->entries->data;
  const int32_t *steps = (const int32_t *) (void *) c->entry_steps->data;

  for (int32_t i = c->first[module]; i < c->first[module + 1]; i++)
    n_wanted += c->last[c->members[i]] < c->step;
  while (c->queue < n_entries && n_wanted > 0) {
    n_wanted -= c->last[entries[c->queue]] < c->step;
    c->last[entries[c->queue]] = steps[c->queue];
    c->queue++;
  }
  if (c->prefetch_bucket == 0)
    return;

  int64_t budget = MIN (c->max_live - c->available, c->prefetch_bucket), got = 0;
  int32_t n_chosen = 0;

  while (c->queue < n_entries && got < budget) {
    int32_t p = entries[c->queue];

    if (c->calls.on_nvme != NULL && c->calls.on_nvme (c->calls.self, p))
      break;
    c->last[p] = MAX (c->last[p], steps[c->queue]);
    c->queue++;
    if (c->status[p] != ZS_GATHER_ABSENT)
      continue;
    bool already = false;

    for (int32_t i = 0; i < n_chosen && !already; i++)
      already = c->chosen[i] == p;
    if (already)
      continue;
    c->chosen[n_chosen++] = p;
    got += c->elements[p];
  }
  if (n_chosen > 0) {
    sort_ascending (c->chosen, n_chosen);
    gather (c, n_chosen, forward, true);
  }
  if (c->calls.read_ahead != NULL) {
    int64_t in_flight = 0;

    for (int32_t p = 0; p < c->n_parameters; p++)
      in_flight += c->registered[p] ? c->elements[p] : 0;
    c->calls.read_ahead (c->calls.self, entries + c->queue, n_entries - c->queue, in_flight);
  }
}

void
zs_coordinator_fetch (ZsCoordinator *c, int32_t module, bool forward, bool recompute)
{
  int32_t first = c->first[module], end = c->first[module + 1], n_absent = 0, n_waits = 0;

  /* trace_prologue */
  if (c->mode == ZS_TRACE_COMPLETE
      && (c->step >= (int32_t) c->module_trace->len
          || g_array_index (c->module_trace, int32_t, c->step) != module)) {
    c->mode = ZS_TRACE_INVALID;
    forget_trace (c);
  }
  if (c->mode == ZS_TRACE_RECORD)
    g_array_append_val (c->module_trace, module);
  if (!forward)
    g_array_append_val (c->open_backward, module);

  for (int32_t i = first; i < end; i++)
    if (c->status[c->members[i]] == ZS_GATHER_ABSENT)
      c->chosen[n_absent++] = c->members[i];
  if (n_absent > 0)
    gather (c, n_absent, forward, false);

  for (int32_t i = first; i < end; i++) {
    int32_t p = c->members[i];

    c->users[p] |= c->member_bits[i];
    if (recompute && c->keep_frozen && c->frozen != NULL && c->frozen[p]
        && c->open_backward->len > 0) {
      c->users[p] |= USER_OPEN_BACKWARD;
      c->n_kept += c->open_user[p] < 0;
      c->open_user[p] = g_array_index (c->open_backward, int32_t, c->open_backward->len - 1);
    }
    if (c->registered[p]) {
      wait_for (c, p);
      n_waits++;
    }
  }
  if (c->calls.fetched != NULL)
    c->calls.fetched (c->calls.self, module, n_waits);
  if (c->mode == ZS_TRACE_COMPLETE)
    prefetch (c, module, forward);
  c->step++;
}

static void
release_parameter (ZsCoordinator *c, int32_t parameter)
{
  if (c->status[parameter] != ZS_GATHER_AVAILABLE || c->users[parameter] != 0)
    return;
  c->status[parameter] = ZS_GATHER_ABSENT;
  c->available -= c->elements[parameter];
  if (c->calls.release != NULL)
    c->calls.release (c->calls.self, parameter);
}

/* __params_to_release: one bool per member of MODULE, from the cache or into it. */
static const bool *
release_rule (ZsCoordinator *c, int32_t module)
{
  int32_t first = c->first[module], n = c->first[module + 1] - first, left = 0;

  while ((int32_t) c->rules_of_step->len <= c->step) {
    int32_t none = -1;

    g_array_append_val (c->rules_of_step, none);
  }
  for (int32_t at = g_array_index (c->rules_of_step, int32_t, c->step); at >= 0;) {
    const ReleaseRule *rule = &g_array_index (c->rules, ReleaseRule, at);

    if (rule->module == module)
      return &g_array_index (c->answers, bool, rule->first_answer);
    at = rule->next;
  }

  int32_t number = (int32_t) c->rules->len;
  ReleaseRule rule = { .module = module,
                       .next = g_array_index (c->rules_of_step, int32_t, c->step),
                       .first_answer = (int32_t) c->answers->len };

  g_array_index (c->rules_of_step, int32_t, c->step) = number;
  g_array_append_val (c->rules, rule);
  g_array_set_size (c->answers, c->answers->len + (guint) n);
  bool *answers = &g_array_index (c->answers, bool, rule.first_answer);

  for (int32_t i = 0; i < n; i++) {
    int32_t p = c->members[first + i];

    answers[i] = !c->persistent[p] && c->last[p] <= c->step;
    left += answers[i];
  }
  int64_t traversed = 0;

  for (int32_t step = c->step;
       left > 0 && step < (int32_t) c->module_trace->len && traversed < c->max_reuse; step++) {
    int32_t other = g_array_index (c->module_trace, int32_t, step);

    for (int32_t k = c->first[other]; k < c->first[other + 1]; k++) {
      for (int32_t i = 0; i < n; i++)
        if (answers[i] && c->members[first + i] == c->members[k]) {
          answers[i] = false;
          left--;
        }
      traversed += c->elements[c->members[k]];
    }
  }
  return answers;
}

/* The backward of MODULE has ended: let go of the frozen weights kept for it. */
static void
close_backward (ZsCoordinator *c, int32_t module)
{
  for (guint at = c->open_backward->len; at-- > 0;)
    if (g_array_index (c->open_backward, int32_t, at) == module) {
      g_array_remove_index (c->open_backward, at);
      break;
    }
  for (int32_t p = 0; c->n_kept > 0 && p < c->n_parameters; p++)
    if (c->open_user[p] == module) {
      c->open_user[p] = -1;
      c->n_kept--;
      c->users[p] &= ~USER_OPEN_BACKWARD;
      if (!c->persistent[p] || c->mode != ZS_TRACE_COMPLETE)
        release_parameter (c, p);
    }
}

void
zs_coordinator_release (ZsCoordinator *c, int32_t module, bool backward)
{
  int32_t first = c->first[module], n = c->first[module + 1] - first;

  if (n > 0) {
    const bool *answers = c->mode == ZS_TRACE_COMPLETE ? release_rule (c, module) : NULL;

    for (int32_t i = 0; i < n; i++) {
      int32_t p = c->members[first + i];

      c->users[p] &= ~c->member_bits[first + i];
      if (answers == NULL || answers[i])
        release_parameter (c, p);
    }
  }
  if (backward)
    close_backward (c, module);
}

bool
zs_coordinator_reset (ZsCoordinator *c)
{
  bool recorded = c->mode == ZS_TRACE_RECORD;

  if (recorded) {
    /* construct_parameter_trace_from_module_trace */
    for (int32_t step = 0; step < (int32_t) c->module_trace->len; step++) {
      int32_t module = g_array_index (c->module_trace, int32_t, step);

      for (int32_t i = c->first[module]; i < c->first[module + 1]; i++) {
        g_array_append_val (c->entries, c->members[i]);
        g_array_append_val (c->entry_steps, step);
      }
    }
    c->mode = ZS_TRACE_COMPLETE;
  } else if (c->mode == ZS_TRACE_INVALID) {
    forget_trace (c);
    c->mode = ZS_TRACE_RECORD;
  }
  c->queue = 0;
  c->step = 0;
  c->available = 0;
  for (int32_t p = 0; p < c->n_parameters; p++)
    c->last[p] = NEVER;
  g_array_set_size (c->open_backward, 0);
  return recorded;
}

static void
release_what_is_left (ZsCoordinator *c, bool persistent_too)
{
  g_array_set_size (c->open_backward, 0);
  c->n_kept = 0;
  for (int32_t p = 0; p < c->n_parameters; p++) {
    c->open_user[p] = -1;
    if (c->persistent[p] && !persistent_too)
      continue;
    c->users[p] = 0;
    release_parameter (c, p);
  }
}

void
zs_coordinator_release_all (ZsCoordinator *c)
{
  release_what_is_left (c, true);
}

void
zs_coordinator_release_leftovers (ZsCoordinator *c)
{
  release_what_is_left (c, false);
}

void
zs_coordinator_set_available (ZsCoordinator *c, int32_t parameter)
{
  c->status[parameter] = ZS_GATHER_AVAILABLE;
}

ZsTraceMode
zs_coordinator_mode (const ZsCoordinator *c)
{
  return c->mode;
}

ZsGatherStatus
zs_coordinator_status (const ZsCoordinator *c, int32_t parameter)
{
  return c->status[parameter];
}

int64_t
zs_coordinator_available (const ZsCoordinator *c)
{
  return c->available;
}

int32_t
zs_coordinator_n_calls (const ZsCoordinator *c)
{
  return (int32_t) c->module_trace->len;
}

int32_t
zs_coordinator_n_entries (const ZsCoordinator *c)
{
  return (int32_t) c->entries->len;
}

uint64_t
zs_coordinator_digest (const ZsCoordinator *c)
{
  int32_t n = c->n_parameters;
  uint64_t digest = zs_digest_add (1, (uint64_t) c->mode);

  digest = zs_digest_add (digest, (uint64_t) c->step << 32 | (uint32_t) c->queue);
  digest = zs_digest_add (digest, (uint64_t) c->available);
  digest = zs_digest_add (digest, (uint64_t) c->n_kept);
  digest = zs_digest_items (digest, c->status, n);
  digest = zs_digest_items (digest, c->registered, n);
  digest = zs_digest_items (digest, c->next_in_set, n);
  digest = zs_digest_items (digest, c->users, n);
  digest = zs_digest_items (digest, c->last, n);
  digest = zs_digest_items (digest, c->open_user, n);
  digest = zs_digest_bytes (digest, c->module_trace->data, c->module_trace->len * sizeof (int32_t));
  digest = zs_digest_bytes (digest, c->entries->data, c->entries->len * sizeof (int32_t));
  digest = zs_digest_bytes (digest, c->entry_steps->data, c->entry_steps->len * sizeof (int32_t));
  return zs_digest_bytes (digest, c->open_backward->data,
                          c->open_backward->len * sizeof (int32_t));
}
