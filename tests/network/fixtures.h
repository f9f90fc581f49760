/* fixtures.h: GPUs and machines for the tests of sim/network.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/network/topology.h"

/* A GPU of one of the kinds below, by name; NULL if there is none. */
const ZsGpu *fixture_gpu (const char *name);
/* N GPUs NAME on FABRIC, with CPUs of VENDOR; PEER as in the options.  Never NULL: aborts with the
 * message. */
ZsTopology *fixture_topology (const char *gpu, int n, const char *fabric, ZsCpuVendor vendor, int peer);
/* The folder models/ of the source tree; free with g_free. */
char *fixture_models (void);
