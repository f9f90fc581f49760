/* host.h: the machine around the GPUs: CPU, memory, drives.
 * SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "sim/base/time.h"

typedef enum { ZS_CPU_INTEL, ZS_CPU_AMD, ZS_CPU_ARM, ZS_CPU_POWER } ZsCpuVendor;

typedef struct {
  ZsCpuVendor vendor;
  int         cores;            /* physical, per node */
  int         sockets;
  int64_t     memory_bytes;     /* per node; 0 unknown */
  ZsRate      memory_rate;      /* of one node, sustained */
  ZsRate      pass_rate;        /* of one node: what passes of CPU threads over large buffers (Adam, casts)
                                   sustain of it; 0: all */
  bool        memory_assumed;   /* it is what `sockets` of that age have: each socket of the wiring has its
                                   share, however many there are */
  double      speed;            /* of Python, 1 = the reference of the host cost table */
  ZsRate      nvme_read_rate, nvme_write_rate;   /* per node; 0 none */
  int64_t     omp_threads;      /* of each rank; 0: all cores divided by the ranks of a node */
} ZsHost;
