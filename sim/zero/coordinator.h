/* coordinator.h: which parameters stage 3 gathers and releases at each module call.
 * SPDX-License-Identifier: MIT
 *
 * The rules of DeepSpeed's PartitionedParameterCoordinator
 * (deepspeed/runtime/zero/partitioned_param_coordinator.py), as logic alone: no plan, no bytes.  It
 * is told of every module call (fetch before, release after) and calls back for what it decides.
 *
 * The first pass (RECORD) fetches on demand, releases everything after each module, and writes down
 * the module calls.  From the next pass on (COMPLETE) it prefetches along that trace while the count
 * of available elements is below max_live, and keeps what is used again within max_reuse elements.  A
 * module call that differs from the trace makes it INVALID for the rest of the pass.
 *
 * The count of available elements is DeepSpeed's own, with its bias: it is set to 0 at each reset, so
 * what is released after the reset (the embedding, until 0.19.2) makes it negative.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum { ZS_TRACE_INVALID, ZS_TRACE_RECORD, ZS_TRACE_COMPLETE } ZsTraceMode;

typedef enum {
  ZS_GATHER_ABSENT,      /* only the shard is there */
  ZS_GATHER_IN_FLIGHT,   /* gathered, not waited for */
  ZS_GATHER_AVAILABLE,
} ZsGatherStatus;

/* What the coordinator decides.  Any member may be NULL.  Parameters come in ascending order. */
typedef struct {
  void *self;
  /* One gather call for a set of absent parameters; now they are in flight. */
  void (*gather)  (void *self, const int32_t *parameters, int32_t n_parameters, bool forward,
                   bool prefetch);
  /* PARAMETER, in flight, is needed now.  The first wait on any member of its set makes all members
   * available; each member is waited for once. */
  void (*wait)    (void *self, int32_t parameter);
  /* All waits of a fetch are done: compute may go on behind the gathers.  N_WAITS may be 0. */
  void (*fetched) (void *self, int32_t module, int32_t n_waits);
  void (*release) (void *self, int32_t parameter);
  /* NVMe: is the shard of PARAMETER not in memory?  Stops the prefetch. */
  bool (*on_nvme) (void *self, int32_t parameter);
  /* NVMe read-ahead after each prefetch: the rest of the queue, and the elements in flight. */
  void (*read_ahead) (void *self, const int32_t *queue, int32_t n_queue, int64_t in_flight_elements);
} ZsCoordinatorCalls;

typedef struct {
  int32_t        n_parameters, n_modules;
  const int64_t *elements;          /* by parameter */
  const bool    *persistent;        /* by parameter */
  const bool    *frozen;            /* by parameter; NULL: none */
  const int32_t *first;             /* by module, n_modules + 1 entries: where its members start */
  const int32_t *members;           /* parameters that the module fetches, ascending per module */
  int64_t prefetch_bucket;          /* elements; 0: no prefetch */
  int64_t max_live, max_reuse;      /* elements */
  bool    record_first;             /* starts in RECORD (until 0.19.2), else INVALID */
  bool    keep_frozen_for_backward; /* from 0.19.3: a frozen weight that recomputation fetches stays
                                       until the innermost open backward module ends */
} ZsCoordinatorSettings;            /* all arrays are copied */

typedef struct ZsCoordinator ZsCoordinator;

ZsCoordinator *zs_coordinator_new  (const ZsCoordinatorSettings *settings,
                                    const ZsCoordinatorCalls *calls) G_GNUC_WARN_UNUSED_RESULT;
void           zs_coordinator_free (ZsCoordinator *coordinator);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ZsCoordinator, zs_coordinator_free)

/* Before forward or backward of MODULE; RECOMPUTE: a forward within backward. */
void zs_coordinator_fetch   (ZsCoordinator *coordinator, int32_t module, bool forward,
                             bool recompute);
/* After forward or backward of MODULE. */
void zs_coordinator_release (ZsCoordinator *coordinator, int32_t module, bool backward);
/* End of a pass (until 0.19.2) or start of the next.  True if the pass just recorded completed the
 * trace: ranks then compare their traces. */
bool zs_coordinator_reset   (ZsCoordinator *coordinator);
/* Everything that is still gathered: at the optimizer step, persistent ones too; at the end of
 * backward (release_backward_leftovers, from 0.19.3), all but persistent ones. */
void zs_coordinator_release_all       (ZsCoordinator *coordinator);
void zs_coordinator_release_leftovers (ZsCoordinator *coordinator);
/* PARAMETER was gathered outside the coordinator (persistent ones after the step). */
void zs_coordinator_set_available (ZsCoordinator *coordinator, int32_t parameter);

ZsTraceMode    zs_coordinator_mode      (const ZsCoordinator *coordinator);
ZsGatherStatus zs_coordinator_status    (const ZsCoordinator *coordinator, int32_t parameter);
int64_t        zs_coordinator_available (const ZsCoordinator *coordinator);   /* elements, biased */
/* Length of the recorded trace: module calls, and (parameter, step) entries. */
int32_t        zs_coordinator_n_calls   (const ZsCoordinator *coordinator);
int32_t        zs_coordinator_n_entries (const ZsCoordinator *coordinator);

/* A number for all of its state.  The cached answers of the release rule do not count: after equal
 * states the same questions are asked, and what was answered first is what is used again. */
uint64_t zs_coordinator_digest (const ZsCoordinator *coordinator);
