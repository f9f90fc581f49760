/* snapshot.h: the simulated allocator's history as the pickle that PyTorch's memory viewer opens.
 * SPDX-License-Identifier: MIT */
#pragma once

#include "sim/run/result.h"

/* RESULT was run with memory events.  ALLOC_CONF: PYTORCH_CUDA_ALLOC_CONF of the run; may be "". */
bool zs_snapshot_write (const ZsResult *result, const char *alloc_conf, const char *path,
                        GError **error);
