/* measured.h: the machines of measured-systems.tsv, and the rows that others published of them.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/network/nccl-comm.h"

enum { SYSTEM, GPUS, NODES, MATCH, GPU, PER_NODE, FABRIC, CPU, PEER, SHM, NETWORK, RANKS, RELEASE, ENVIRONMENT,
       PROCESS, USE, N_COLUMNS };

typedef struct {
  char      **column;
  bool        used;
  int         number;
  ZsTopology *topology;
  ZsComm     *comm;
  GArray     *small, *large;     /* of double: relative errors below 1 MiB and from it on */
} Machine;

typedef struct {
  Machine         *machine;      /* NULL: of none */
  ZsCollectiveKind kind;
  int64_t          bytes;
  double           time;         /* us */
  double           launches;     /* us of it that one process costs which drives all GPUs */
} MeasuredRow;

/* All machines, built unless they are left out; MODEL: with NCCL's own estimate as the time.  The array owns them: rows
 * borrow theirs from it. */
GPtrArray *measured_machines (bool model);
/* Builds MACHINE anew with CALIBRATION. */
void       measured_rebuild  (Machine *machine, const ZsLinkCalibration *calibration);
/* All rows of collectives, pairs (all-to-all, send/recv) only if PAIRS. */
GArray    *measured_rows     (GPtrArray *machines, bool pairs);
