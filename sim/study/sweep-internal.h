/* sweep-internal.h: what the files of a sweep share.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/study/sweep.h"

const ZsAxis *zs_sweep_axis (const ZsSweep *sweep, int axis);
/* Which value of each axis the COMBINATION of all axes has. */
void zs_sweep_places (const ZsSweep *sweep, int64_t combination, int *ret_places);
