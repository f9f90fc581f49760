/* describe.h: a scenario in a few lines of text.  SPDX-License-Identifier: MIT */
#pragma once

#include "sim/scenario/scenario.h"

/* "llama-7b, ZeRO-3 with optimizer in host memory, 2 x a100-pcie-40gb": g_free it. */
char  *zs_scenario_title (const ZsScenario *scenario);
/* Batch, precision, settings of ZeRO; free with g_strfreev. */
char **zs_scenario_lines (const ZsScenario *scenario);
/* What the numbers rest on, and the reader's notes; free with g_strfreev. */
char **zs_scenario_assumptions (const ZsScenario *scenario);
