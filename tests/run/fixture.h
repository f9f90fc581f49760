/* fixture.h: a machine in round numbers, and plans from functions.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/run/run.h"

/* Rates 10 GB/s, latencies 10 us; a kernel takes kernel.n picoseconds and has kernel.m blocks. */
typedef struct {
  ZsMachine machine;
  ZsRate    capacities[64];
  ZsTime    launch;          /* host time of a launch */
  ZsTime    copy_latency, collective_latency;
  bool      bridge;          /* all copies to GPUs of a node share one 10 GB/s bridge */
  bool      on_links;        /* collectives load the links of copies, else nothing */
  int       sms;             /* of a collective */
  int64_t   group_ranks;
} Fixture;

typedef void (*Script) (ZsPlan *plan, int64_t rank, const void *data);

void fixture_init (Fixture *fixture, int64_t n_ranks, int64_t node_ranks);
/* Run SCRIPT on every rank; OPTIONS may be NULL. */
ZsResult *fixture_run (Fixture *fixture, Script script, const void *data,
                       const ZsRunOptions *options, GError **error);
/* The same without errors. */
ZsResult *fixture_result (Fixture *fixture, Script script, const void *data);

uint32_t kernel_of (ZsPlan *plan, ZsTime time);
void launch (ZsPlan *plan, ZsTime time);
/* Start of a step in its forward phase. */
void begin_step (ZsPlan *plan, int step);
#define US ZS_MICROSECOND
